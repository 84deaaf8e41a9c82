"""The tiled form of the contraction schedule: a workgroup makes a tile of the result from slices in shared memory.

Operands are read where they lie, so a transposed or sliced one needs no copy. Products are summed in f32 for f16 and
bf16. Where the hardware says so, there are two buffers of slices: the next is read while the last is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import vector
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from rlx_dialect.dtypes import storage_dtype
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.to_gpu.contraction_spec import (
    ContractionSpec,
    Factor,
    Line,
    multiply_add,
    position_in,
    remains,
)
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Shape, product, up
from rlx_dialect.lowering.to_gpu.hardware import Tile
from rlx_dialect.lowering.to_gpu.kernel import BlockSize, Grid, Kernel


@dataclass(frozen=True)
class TiledContraction(ContractionSpec):
    """A contraction in tiles; ``buffers`` is how many slices of each factor shared memory holds, 1 or 2."""

    tile: Tile
    buffers: int

    @property
    def block(self) -> BlockSize:
        return (*self.tile.threads, 1)

    @property
    def groups(self) -> Grid:
        return groups_of_tiles(self, self.tile.rows, self.tile.columns)

    def emit(self, k: Kernel) -> None:
        _Writer(k, self).write()


def groups_of_tiles(spec: ContractionSpec, rows: int, columns: int) -> Grid:
    """Workgroups along columns, rows and batch for tiles of ``rows`` x ``columns``."""
    return (up(product(spec.columns), columns), up(product(spec.rows), rows), product(spec.batch))


@dataclass(frozen=True)
class Staging:
    """How slices of ``depth`` along the contracted axes come to shared memory."""

    depth: int
    buffers: int
    threads: int
    wide: bool
    """Elements lie there in the type that they are computed in, else in the type that memory holds."""


class Slice:
    """One factor's share of a tile: how shared memory is filled from it.

    Position ``place`` of the tile's rows or columns, step ``step`` of the contracted axes lies at
    ``place``·pitches[0] + ``step``·pitches[1] of a buffer of ``size`` elements.
    """

    def __init__(
        self,
        k: Kernel,
        spec: ContractionSpec,
        staging: Staging,
        factor: Factor,
        free: Shape,
        group: Index,
        width: int,
        pitches: tuple[int, int],
        batch: Sequence[Index],
        thread: Index,
    ):
        self.k, self.spec, self.staging, self.pitches = k, spec, staging, pitches
        depth = staging.depth
        self.type = factor.type if staging.wide else signless(factor.access.element)
        self.size = max(width * pitches[0], depth * pitches[1])
        self.shared = k.shared(self.type, self.size * staging.buffers)
        self.steps: list[tuple[Index, Index, Line, SSAValue | None]] = []
        """For each element that an invocation moves: its place in shared memory, its step along the contracted
        axes, the elements along them, and the condition that it is one of the slice."""
        extent = product(free)
        self.along_depth = bool(factor.contracted) and factor.contracted[-1] == 1
        self.lanes = self._vector(factor, free)
        """Elements that are read at a time: along the contracted axes, else along the free ones."""
        lanes, count = self.lanes, width * depth // self.lanes
        for i in range(-(-count // staging.threads)):
            flat = k.i_add(thread, i * staging.threads)
            own = k.i_less(flat, count) if (i + 1) * staging.threads > count else None
            # Neighbouring invocations read neighbouring elements.
            if self.along_depth:
                step, place = k.i_mul(k.i_rem(flat, depth // lanes), lanes), k.i_div(flat, depth // lanes)
            else:
                step, place = k.i_div(flat, width // lanes), k.i_mul(k.i_rem(flat, width // lanes), lanes)
            position = k.i_add(k.i_mul(group, width), place)
            if remains(extent, width):
                # Beyond the edge anything will do: no result is made of it.
                position = k.i_min(position, extent - (1 if self.along_depth else lanes))
            line = Line(k, factor, batch, k.split(position, free))
            self.steps.append((self.at(place, step), step, line, own))

    def _vector(self, factor: Factor, free: Shape) -> int:
        """How many elements can be read at a time: they lie side by side, whole, where memory aligns them."""
        k, depth = self.k, self.spec.depth
        element = signless(factor.access.element)
        lanes = k.hardware.vector_bytes // storage_dtype(self.type).itemsize
        own, steps = (depth, factor.contracted) if self.along_depth else (free, factor.free)
        other = factor.free if self.along_depth else factor.contracted
        plain = not factor.bounds and factor.prologue is None and isinstance(factor.access.source, int)
        if lanes < 2 or not plain or not isinstance(element, AnyFloat) or not steps or steps[-1] != 1:
            return 1
        apart = [own[-1], *steps[:-1], *other, *factor.batch, factor.access.offset]
        return 1 if any(remains(number, lanes) for number in apart) else lanes

    def at(self, place: Index, step: Index) -> Index:
        k = self.k
        return k.i_add(k.i_mul(place, self.pitches[0]), k.i_mul(step, self.pitches[1]))

    def load(self, first: Index, *, ahead: bool = False) -> list[SSAValue]:
        """This invocation's elements of the slice that starts at ``first``; ``ahead``: there may be none."""
        k, spec = self.k, self.spec
        length = product(spec.depth)
        partial = remains(length, self.staging.depth)
        values: list[SSAValue] = []
        for _, step, line, own in self.steps:
            position = k.i_add(first, step)
            # Both factors are zero beyond the end: 0 times whatever the other has could be NaN.
            exists = k.i_less(position, length) if partial else None
            if partial or ahead or own is not None:
                position = k.i_min(position, length - (self.lanes if self.along_depth else 1))
            at = k.split(position, spec.depth)
            if self.lanes > 1:
                values.append(line.load_vector(at, exists, self.lanes, self.type))
            else:
                values.append(line.load(at, exists, wide=self.staging.wide))
        return values

    def keep(self, values: Sequence[SSAValue], buffer: Index) -> None:
        """Write this invocation's elements to the buffer that starts at ``buffer``."""
        k = self.k
        for value, (place, _, _, own) in zip(values, self.steps, strict=True):
            k.when(own, lambda v=value, p=place: self._keep(v, k.i_add(p, buffer)))

    def _keep(self, value: SSAValue, at: Index) -> None:
        k = self.k
        apart = self.pitches[1] if self.along_depth else self.pitches[0]
        if self.lanes == 1:
            k.write(value, self.shared, at)
        elif apart == 1:
            k.write_vector(value, self.shared, at)
        else:
            for i in range(self.lanes):
                k.write(k.op(vector.ExtractOp(value, [i], self.type)), self.shared, k.i_add(at, i * apart))


Use = Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]]
"""Adds the products of the slices in the buffers of a turn, 0 or 1, to sums."""


def rounds(
    k: Kernel, spec: ContractionSpec, slices: Sequence[Slice], sums: Sequence[SSAValue], use: Use
) -> Sequence[SSAValue]:
    """Take the slices along the contracted axes one after the other."""
    staging = slices[0].staging
    length = product(spec.depth)

    def in_turn(first: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        for part in slices:
            part.keep(part.load(first), 0)
        k.barrier()
        sums = use(0, sums)
        k.barrier()
        return sums

    if staging.buffers == 1:
        return k.loop(0, length, staging.depth, sums, in_turn)
    for part in slices:
        part.keep(part.load(0), 0)

    def ahead(first: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        turn, sums = carried[0], carried[1:]
        k.barrier()
        loaded = [part.load(k.i_add(first, staging.depth), ahead=True) for part in slices]
        sums = use(turn, sums)
        other = k.i_sub(1, turn)
        for part, values in zip(slices, loaded, strict=True):
            part.keep(values, k.i_mul(other, part.size))
        return [k.index(other), *sums]

    last = k.loop(0, length, staging.depth, [k.index(0), *sums], ahead)[1:]
    # Nobody may use the memory for something else before everybody has read.
    k.barrier()
    return last


class _Writer:
    """Writes one tiled kernel."""

    def __init__(self, k: Kernel, spec: TiledContraction):
        self.k, self.spec = k, spec
        tile = spec.tile
        self.batch = spec.batch_coordinates(k)
        self.column_group, self.row_group = spec.group(k, 0), spec.group(k, 1)
        self.x, self.y = k.thread_id("x"), k.thread_id("y")
        thread = k.i_add(k.i_mul(self.y, tile.threads[0]), self.x)
        staging = Staging(tile.depth, spec.buffers, tile.threads[0] * tile.threads[1], wide=True)

        def part(factor: Factor, free: Shape, group: Index, width: int) -> Slice:
            # Neighbours in the tile are neighbours in shared memory.
            return Slice(k, spec, staging, factor, free, group, width, (1, width), self.batch, thread)

        self.left = part(spec.lhs, spec.rows, self.row_group, tile.rows)
        self.rights = [part(r, spec.columns, self.column_group, tile.columns) for r in spec.rights]

    def write(self) -> None:
        tile = self.spec.tile
        sums = [self.k.constant(0, self.left.type)] * (tile.per_row * tile.per_column * len(self.rights))
        self._finish(rounds(self.k, self.spec, [self.left, *self.rights], sums, self._use))

    def _use(self, turn: Index, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return self.k.loop(0, self.spec.tile.depth, 1, sums, lambda step, sums: self._step(step, turn, sums))

    def _step(self, step: SSAValue, turn: Index, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Add one product to each result of this invocation."""
        k, tile = self.k, self.spec.tile

        def read(part: Slice, place: Index) -> SSAValue:
            return k.read(part.shared, k.i_add(part.at(place, step), k.i_mul(turn, part.size)))

        rows = [read(self.left, self._row(i)) for i in range(tile.per_row)]
        pairs: list[tuple[SSAValue, SSAValue]] = []
        for right in self.rights:
            columns = [read(right, self._column(j)) for j in range(tile.per_column)]
            pairs += [(row, column) for row in rows for column in columns]
        return [multiply_add(k, x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

    # Results of one invocation are a workgroup's width apart: its neighbours then read and write side by side.

    def _row(self, i: int) -> Index:
        return self.k.i_add(self.y, i * self.spec.tile.threads[1])

    def _column(self, j: int) -> Index:
        return self.k.i_add(self.x, j * self.spec.tile.threads[0])

    def _finish(self, sums: Sequence[SSAValue]) -> None:
        k, spec, tile = self.k, self.spec, self.spec.tile
        per_factor = tile.per_row * tile.per_column
        for i in range(tile.per_row):
            row, row_exists = position_in(k, self.row_group, tile.rows, self._row(i), product(spec.rows))

            def finish_row(i: int = i, row: Index = row) -> None:
                for j in range(tile.per_column):
                    place, extent = self._column(j), product(spec.columns)
                    column, exists = position_in(k, self.column_group, tile.columns, place, extent)
                    own = sums[i * tile.per_column + j :: per_factor]

                    def store(column: Index = column, own: Sequence[SSAValue] = own) -> None:
                        spec.store(k, self.batch, row, column, own)

                    k.when(exists, store)

            k.when(row_exists, finish_row)
