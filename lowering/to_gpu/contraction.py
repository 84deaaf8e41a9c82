"""The contraction schedule: a workgroup makes a tile of the result from slices held in shared memory.

Matrix products with broadcast batches, XLA's general dot, and their fused forms. Operands are read where they
lie, so a transposed or sliced one needs no copy. Products are summed in f32 for f16 and bf16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.dtypes import is_unsigned, wide_element
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.scalar import activation, binary
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.hardware import Tile
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Access, Grid, Kernel, KernelSpec, Operands
from rlx_dialect.lowering.to_gpu.views import Literal, View, coalesce
from rlx_dialect.ops.contraction import DotGeneralOp, FusedMatMulBiasActOp, FusedMatMulResidualOp, MatMulOp
from rlx_dialect.shapes import Shape, product
from rlx_dialect.xdsl_compat import Builder


@dataclass(frozen=True)
class Factor:
    """A factor of the product, addressed by batch, by its own free axes and by the contracted ones."""

    access: Access
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """The result or an operand of the epilogue, addressed by batch, row and column."""

    access: Access
    batch: tuple[int, ...]
    row: tuple[int, ...]
    column: tuple[int, ...]


@dataclass(frozen=True)
class Epilogue:
    """Scalar code from the sum and the extra operands to the result, in the types that they are computed in."""

    key: str
    write: Callable[[Builder, SSAValue, Sequence[SSAValue]], SSAValue] = field(compare=False, repr=False)


@dataclass(frozen=True)
class ContractionSpec(KernelSpec):
    """result[b, m, n] = epilogue(Σ_k lhs[b, m, k]·rhs[b, k, n], extras[b, m, n])."""

    batch: Shape
    rows: Shape
    columns: Shape
    depth: Shape
    lhs: Factor
    rhs: Factor
    extras: tuple[Cell, ...]
    result: Cell
    epilogue: Epilogue
    tile: Tile

    @property
    def block(self) -> Grid:
        return (*self.tile.threads, 1)

    @property
    def groups(self) -> Grid:
        tile = self.tile
        return (
            -(-product(self.columns) // tile.columns),
            -(-product(self.rows) // tile.rows),
            product(self.batch),
        )

    def emit(self, k: Kernel) -> None:
        _Writer(k, self).write()


class _Slice:
    """One factor's share of a tile: how shared memory is filled from it.

    Shared memory holds ``depth`` rows of ``width`` elements, so that neighbours in the tile are neighbours there.
    """

    def __init__(self, w: _Writer, factor: Factor, free: Shape, group: Index, width: int):
        k, spec = w.k, w.spec
        self.w, self.factor, self.width = w, factor, width
        self.type = wide_element(signless(factor.access.element))
        self.shared = k.shared(self.type, width * spec.tile.depth)
        threads_x, threads_y = spec.tile.threads
        threads = threads_x * threads_y
        self.steps: list[tuple[Index, Index, Index]] = []
        """For each element that an invocation moves: its place in shared memory, its step along the contracted
        axes, and the address of the contracted axes' start."""
        start = k.dot(w.batch, factor.batch, factor.access.offset)
        extent = product(free)
        along_depth = bool(factor.contracted) and factor.contracted[-1] == 1
        for i in range(-(-width * spec.tile.depth // threads)):
            flat = k.i_add(w.thread, i * threads)
            # Neighbouring invocations read neighbouring elements.
            if along_depth:
                step, place = k.i_rem(flat, spec.tile.depth), k.i_div(flat, spec.tile.depth)
            else:
                step, place = k.i_div(flat, width), k.i_rem(flat, width)
            position = k.i_add(k.i_mul(group, width), place)
            if extent % width:
                # Beyond the edge anything will do: no result is made of it.
                position = k.i_min(position, extent - 1)
            address = k.dot(k.split(position, free), factor.free, start)
            self.steps.append((k.i_add(k.i_mul(step, width), place), step, address))

    def fill(self, first: Index) -> None:
        """Copy the slice that starts at ``first`` along the contracted axes."""
        k, spec = self.w.k, self.w.spec
        length = product(spec.depth)
        access = Access(self.factor.access.source, self.factor.access.element, self.factor.contracted, 0)
        for place, step, address in self.steps:
            position = k.i_add(first, step)
            inside = None
            if length % spec.tile.depth:
                inside = k.i_less(position, length)
                position = k.i_min(position, length - 1)
            value = k.load_wide(access, k.split(position, spec.depth), address)
            if inside is not None:
                # Both factors are zero there: 0 times whatever the other has could be NaN.
                value = k.op(arith.SelectOp(inside, value, k.constant(0, self.type)))
            k.write(value, self.shared, place)


class _Writer:
    """Writes one contraction kernel."""

    def __init__(self, k: Kernel, spec: ContractionSpec):
        self.k, self.spec = k, spec
        tile = spec.tile
        self.batch = k.split(k.block_id("z") if spec.groups[2] > 1 else 0, spec.batch)
        self.column_group: Index = k.block_id("x") if spec.groups[0] > 1 else 0
        self.row_group: Index = k.block_id("y") if spec.groups[1] > 1 else 0
        self.x, self.y = k.thread_id("x"), k.thread_id("y")
        self.thread = k.i_add(k.i_mul(self.y, tile.threads[0]), self.x)

    def write(self) -> None:
        k, spec, tile = self.k, self.spec, self.spec.tile
        left = _Slice(self, spec.lhs, spec.rows, self.row_group, tile.rows)
        right = _Slice(self, spec.rhs, spec.columns, self.column_group, tile.columns)
        zero = k.constant(0, left.type)

        def round_(first: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            left.fill(first)
            right.fill(first)
            k.barrier()
            sums = k.loop(0, tile.depth, 1, sums, lambda step, sums: self._step(left, right, step, sums))
            k.barrier()
            return sums

        count = tile.per_row * tile.per_column
        self._finish(k.loop(0, product(spec.depth), tile.depth, [zero] * count, round_))

    def _step(self, left: _Slice, right: _Slice, step: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Add one product to each result of this invocation."""
        k, tile = self.k, self.spec.tile
        rows = [self._read(left, step, self._row(i)) for i in range(tile.per_row)]
        columns = [self._read(right, step, self._column(j)) for j in range(tile.per_column)]
        return [
            multiply_add(k, rows[i], columns[j], sums[i * tile.per_column + j])
            for i in range(tile.per_row)
            for j in range(tile.per_column)
        ]

    def _read(self, part: _Slice, step: SSAValue, place: Index) -> SSAValue:
        return self.k.read(part.shared, self.k.i_add(self.k.i_mul(step, part.width), place))

    # Results of one invocation are a workgroup's width apart: its neighbours then read and write side by side.

    def _row(self, i: int) -> Index:
        return self.k.i_add(self.y, i * self.spec.tile.threads[1])

    def _column(self, j: int) -> Index:
        return self.k.i_add(self.x, j * self.spec.tile.threads[0])

    def _finish(self, sums: Sequence[SSAValue]) -> None:
        k, spec, tile = self.k, self.spec, self.spec.tile
        for i in range(tile.per_row):
            row, row_exists = self._position(self.row_group, tile.rows, self._row(i), product(spec.rows))

            def finish_row(i: int = i, row: Index = row) -> None:
                for j in range(tile.per_column):
                    group, width = self.column_group, tile.columns
                    column, exists = self._position(group, width, self._column(j), product(spec.columns))
                    total = sums[i * tile.per_column + j]
                    k.when(exists, lambda column=column, total=total: self._store(row, column, total))

            k.when(row_exists, finish_row)

    def _position(self, group: Index, width: int, place: Index, extent: int) -> tuple[Index, SSAValue | None]:
        """The row or column of the result at ``place`` of the tile, and the condition that there is one."""
        position = self.k.i_add(self.k.i_mul(group, width), place)
        return position, self.k.i_less(position, extent) if extent % width else None

    def _store(self, row: Index, column: Index, total: SSAValue) -> None:
        k, spec = self.k, self.spec
        coordinates = [*self.batch, *k.split(row, spec.rows), *k.split(column, spec.columns)]

        def access(cell: Cell) -> Access:
            strides = (*cell.batch, *cell.row, *cell.column)
            return Access(cell.access.source, cell.access.element, strides, cell.access.offset)

        extras = [k.load_wide(access(e), coordinates) for e in spec.extras]
        k.store(spec.epilogue.write(k.b, total, extras), access(spec.result), coordinates)


def multiply_add(k: Kernel, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
    if isinstance(x.type, AnyFloat):
        return k.op(math.FmaOp(x, y, total))
    return k.op(arith.AddiOp(k.op(arith.MuliOp(x, y)), total))


def choose_tile(tiles: Sequence[Tile], rows: int, columns: int) -> Tile:
    """The largest tile that the result fills by more than a half both ways; the smallest where none is."""
    fitting = (t for t in tiles if rows * 2 > t.rows and columns * 2 > t.columns)
    return next(fitting, tiles[-1])


@dataclass(frozen=True)
class Axes:
    """The axes of a contraction: the shape of each group; views are batch ++ own free ++ contracted axes."""

    batch: Shape
    rows: Shape
    columns: Shape
    depth: Shape


def contract(
    h: Host, name: str, axes: Axes, lhs: View, rhs: View, result: View, extras: Sequence[View], epilogue: Epilogue
) -> None:
    """Launch the kernel for lhs [batch, rows, depth], rhs [batch, columns, depth] and cells [batch, rows, columns]."""
    if not product(axes.depth):
        # There is no buffer of no elements to bind.
        lhs, rhs = (View(Literal(0), v.element, v.shape, (0,) * len(v.shape)) for v in (lhs, rhs))
    b, r = len(axes.batch), len(axes.rows)
    cells = [result, *extras]
    # A batch axis that one factor does not step through is a free axis of the other.
    kinds = ["row" if not rhs.strides[i] else "column" if not lhs.strides[i] else "batch" for i in range(b)]

    def pick(strides: Sequence[int], kind: str) -> list[int]:
        return [s for s, of in zip(strides, kinds, strict=True) if of == kind]

    def shape(kind: str, own: Shape) -> Shape:
        return (*pick(axes.batch, kind), *own)

    def cell_part(v: View, kind: str) -> list[int]:
        own = {"batch": (), "row": v.strides[b : b + r], "column": v.strides[b + r :]}[kind]
        return [*pick(v.strides[:b], kind), *own]

    batch, batch_strides = coalesce(
        shape("batch", ()),
        [pick(v.strides[:b], "batch") for v in (lhs, rhs, *cells)],
    )
    rows, row_strides = coalesce(
        shape("row", axes.rows),
        [[*pick(lhs.strides[:b], "row"), *lhs.strides[b : b + r]], *(cell_part(v, "row") for v in cells)],
    )
    c = len(axes.columns)
    columns, column_strides = coalesce(
        shape("column", axes.columns),
        [[*pick(rhs.strides[:b], "column"), *rhs.strides[b : b + c]], *(cell_part(v, "column") for v in cells)],
    )
    depth, depth_strides = coalesce(axes.depth, [lhs.strides[b + r :], rhs.strides[b + c :]])
    operands = Operands()
    left = Factor(operands.access(lhs, ()), batch_strides[0], row_strides[0], depth_strides[0])
    right = Factor(operands.access(rhs, ()), batch_strides[1], column_strides[0], depth_strides[1])
    made = [
        Cell(operands.access(v, ()), *strides)
        for v, *strides in zip(cells, batch_strides[2:], row_strides[1:], column_strides[1:], strict=True)
    ]
    spec = ContractionSpec(
        slots=operands.slots,
        batch=batch,
        rows=rows,
        columns=columns,
        depth=depth,
        lhs=left,
        rhs=right,
        extras=tuple(made[1:]),
        result=made[0],
        epilogue=epilogue,
        tile=choose_tile(h.hardware.tiles, product(rows), product(columns)),
    )
    if product(result.shape):
        h.launch(name, spec, operands)


PLAIN = Epilogue("", lambda b, total, extras: total)


def _products(
    h: Host, name: str, lhs: SSAValue, rhs: SSAValue, result: SSAValue, extra: SSAValue | None, e: Epilogue
) -> None:
    """A product of matrices [..., M, K] and [..., K, N] with an epilogue that may take one more operand."""
    left, right, made = h.view(lhs), h.view(rhs), h.result(result)
    *batch, m, n = made.shape
    depth = left.shape[-1]
    left = left.broadcast((*batch, m, depth))
    right = right.broadcast((*batch, depth, n))
    right = right.transpose([*range(len(batch)), len(batch) + 1, len(batch)])
    extras = [] if extra is None else [h.view(extra).broadcast(made.shape)]
    contract(h, name, Axes(tuple(batch), (m,), (n,), (depth,)), left, right, made, extras, e)


@lowers(MatMulOp)
def matmul(op: MatMulOp, h: Host) -> None:
    _products(h, "matmul", op.lhs, op.rhs, op.result, None, PLAIN)


@lowers(FusedMatMulResidualOp)
def matmul_residual(op: FusedMatMulResidualOp, h: Host) -> None:
    unsigned = is_unsigned(op.element(0))
    add = Epilogue("add", lambda b, total, extras: binary(BinaryKind.ADD, total, extras[0], b, unsigned=unsigned))
    _products(h, "matmul_residual", op.lhs, op.rhs, op.result, op.residual, add)


@lowers(FusedMatMulBiasActOp)
def matmul_bias_act(op: FusedMatMulBiasActOp, h: Host) -> None:
    unsigned = is_unsigned(op.element(0))
    kind = None if op.activation is None else op.activation.data

    def write(b: Builder, total: SSAValue, extras: Sequence[SSAValue]) -> SSAValue:
        total = binary(BinaryKind.ADD, total, extras[0], b, unsigned=unsigned)
        return total if kind is None else activation(kind, total, b, unsigned=unsigned)

    name = "matmul_bias" if kind is None else f"matmul_bias_{kind}"
    _products(h, name, op.input, op.weight, op.result, op.bias, Epilogue(name, write))


@lowers(DotGeneralOp)
def dot_general(op: DotGeneralOp, h: Host) -> None:
    lhs, rhs, result = h.view(op.lhs), h.view(op.rhs), h.result(op.result)
    lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
    lhs_free = [a for a in range(len(lhs.shape)) if a not in {*lhs_contracting, *lhs_batch}]
    rhs_free = [a for a in range(len(rhs.shape)) if a not in {*rhs_contracting, *rhs_batch}]
    axes = Axes(
        batch=tuple(lhs.shape[a] for a in lhs_batch),
        rows=tuple(lhs.shape[a] for a in lhs_free),
        columns=tuple(rhs.shape[a] for a in rhs_free),
        depth=tuple(lhs.shape[a] for a in lhs_contracting),
    )
    lhs = lhs.transpose([*lhs_batch, *lhs_free, *lhs_contracting])
    rhs = rhs.transpose([*rhs_batch, *rhs_free, *rhs_contracting])
    contract(h, "dot_general", axes, lhs, rhs, result, [], PLAIN)
