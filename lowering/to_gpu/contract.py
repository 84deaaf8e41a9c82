"""Launching contractions of views: which form, which axes, and the sums of parts.

:func:`contract` takes views of the factors, of the result and of what the epilogue reads, and chooses a form of the
schedule by the extents: thin for few rows or few columns, else tiles, or the matrix unit where the hardware has one.
Where the result alone has too few tiles to fill the device, the contracted axes are split and a second launch adds up
the parts, always in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.dtypes import is_unsigned, storage_dtype, wide_element
from rlx_dialect.lowering.scalar import binary, widen
from rlx_dialect.lowering.to_gpu.contraction_choice import (
    THIN_ROWS,
    Problem,
    choose_matrix_tile,
    choose_parts,
    choose_thin,
    choose_tile,
)
from rlx_dialect.lowering.to_gpu.contraction_spec import (
    PLAIN,
    Bound,
    Cell,
    ContractionSpec,
    Epilogue,
    Factor,
    Prologue,
    remains,
)
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, estimate, product, up
from rlx_dialect.lowering.to_gpu.hardware import MatrixTile, Tile
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Body, Operands
from rlx_dialect.lowering.to_gpu.matrix_unit import MatrixContraction
from rlx_dialect.lowering.to_gpu.matvec import ThinContraction
from rlx_dialect.lowering.to_gpu.tiles import TiledContraction
from rlx_dialect.lowering.to_gpu.views import Literal, View, coalesce
from rlx_dialect.xdsl_compat import Builder


@dataclass(frozen=True)
class Axes:
    """The axes of a contraction: the shape of each group; views are batch ++ own free ++ contracted axes."""

    batch: Shape
    rows: Shape
    columns: Shape
    depth: Shape


@dataclass(frozen=True)
class Limit:
    """Elements of a factor count only where 0 ≤ ``start`` + Σ coordinate·stride < ``extent``; the others are zero."""

    strides: Shape
    start: int
    extent: Extent


@dataclass(frozen=True)
class Source:
    """A factor as views of one shape: its own and those of its prologue's other operands."""

    view: View
    limits: tuple[Limit, ...] = ()
    prologue: Prologue | None = None
    others: tuple[View, ...] = ()

    @property
    def strides(self) -> list[Shape]:
        """One list for each thing that is addressed or bounded."""
        return [self.view.strides, *(limit.strides for limit in self.limits), *(v.strides for v in self.others)]

    def split(self, axis: int, parts: int, length: Extent) -> Source:
        """The factor with ``axis`` as ``parts`` pieces of ``length``: the number of the piece comes first of all."""

        def strides(old: Shape) -> Shape:
            return (old[axis] * length, *old)

        def view(old: View) -> View:
            shape = [*old.shape]
            shape[axis] = length
            return replace(old, shape=(parts, *shape), strides=strides(old.strides))

        extent, rank = self.view.shape[axis], len(self.view.shape)
        limits = [replace(limit, strides=strides(limit.strides)) for limit in self.limits]
        if not isinstance(length, int) or remains(extent, length):
            step = tuple(1 if i == axis else 0 for i in range(rank))
            limits.append(Limit(strides(step), 0, extent))
        return Source(view(self.view), tuple(limits), self.prologue, tuple(view(v) for v in self.others))


@dataclass(frozen=True)
class _Parts:
    """The strides of one thing by kind of axis."""

    batch: Shape
    row: Shape
    column: Shape
    depth: Shape


def contract(
    h: Host,
    name: str,
    axes: Axes,
    lhs: View | Source,
    rhs: View | Source | Sequence[Source],
    result: View,
    extras: Sequence[View],
    epilogue: Epilogue,
) -> None:
    """Launch the kernels for lhs [batch, rows, depth], rhs [batch, columns, depth] and cells [batch, rows, columns].

    ``rhs`` may be several factors, with a sum for each.
    """
    left = Source(lhs) if isinstance(lhs, View) else lhs
    rights = [Source(rhs)] if isinstance(rhs, View) else [rhs] if isinstance(rhs, Source) else list(rhs)
    if not product(result.shape):
        return
    if not product(axes.depth):
        # There is no buffer of no elements to bind.
        left, rights = _nothing(left), [_nothing(r) for r in rights]
    job = _Contraction(h, name, axes, left, rights, result, extras, epilogue)
    parts = job.parts()
    if parts > 1:
        job.launch_parts(parts)
    else:
        job.launch()


def _nothing(source: Source) -> Source:
    element = source.view.element if source.prologue is None else source.prologue.element
    shape = source.view.shape
    return Source(View(Literal(0), element, shape, (0,) * len(shape)))


class _Contraction:
    """One contraction: its axes by kind, and which form it takes."""

    def __init__(
        self,
        h: Host,
        name: str,
        axes: Axes,
        left: Source,
        rights: Sequence[Source],
        result: View,
        extras: Sequence[View],
        epilogue: Epilogue,
    ):
        self.h, self.name, self.axes = h, name, axes
        self.left, self.rights = left, rights
        self.result, self.extras, self.epilogue = result, extras, epilogue
        # A batch axis that one factor does not step through is a free axis of the other.
        rank = len(axes.batch)
        still = [not any(s[i] for r in rights for s in r.strides) for i in range(rank)]
        self.kinds = [
            "row" if still[i] else "column" if not any(s[i] for s in left.strides) else "batch" for i in range(rank)
        ]
        self.problem = Problem(
            estimate(product(self._of_batch("batch"))),
            estimate(product((*self._of_batch("row"), *axes.rows))),
            estimate(product((*self._of_batch("column"), *axes.columns))),
            estimate(product(axes.depth)),
        )
        self.thin = len(rights) == 1 and min(self.problem.rows, self.problem.columns) <= THIN_ROWS
        self.thin |= self.problem.rows <= THIN_ROWS
        size = storage_dtype(self.element).itemsize
        self.tile: Tile | MatrixTile = choose_tile(h.hardware, self.problem, len(rights), size)
        element = left.view.element
        if all(s.prologue is None and s.view.element == element for s in self.sources):
            self.tile = choose_matrix_tile(h.hardware, self.problem, len(rights), element) or self.tile

    @property
    def element(self) -> Attribute:
        """The type of the sums."""
        left = self.left
        return wide_element(left.view.element if left.prologue is None else left.prologue.element)

    def _of_batch(self, kind: str) -> Shape:
        return tuple(e for e, of in zip(self.axes.batch, self.kinds, strict=True) if of == kind)

    def parts(self) -> int:
        """Into how many parts the contracted axes are split."""
        return 1 if self.thin or len(self.rights) > 1 else choose_parts(self.h.hardware, self.tile, self.problem)

    def launch_parts(self, parts: int) -> None:
        """Sums of parts of the contracted axes, then one launch that adds them up and applies the epilogue."""
        axes, h = self.axes, self.h
        number = max(range(len(axes.depth)), key=lambda i: estimate(axes.depth[i]))
        length = up(axes.depth[number], parts)
        depth = tuple(length if i == number else e for i, e in enumerate(axes.depth))
        free = len(axes.batch) + len(axes.rows)
        left = self.left.split(free + number, parts, length)
        free = len(axes.batch) + len(axes.columns)
        rights = [right.split(free + number, parts, length) for right in self.rights]
        sums = h.new(self.element, (parts, *self.result.shape), self.name)
        inner = Axes((parts, *axes.batch), axes.rows, axes.columns, depth)
        _Contraction(h, self.name, inner, left, rights, sums, [], PLAIN).launch()
        self._add_up([_piece(sums, i) for i in range(parts)])

    def _add_up(self, sums: Sequence[View]) -> None:
        epilogue, count, element = self.epilogue, len(sums), self.result.element
        unsigned = is_unsigned(element)

        def write(b: Builder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
            total, *rest = values
            for value in rest[: count - 1]:
                total = binary(BinaryKind.ADD, total, value, b, unsigned=unsigned)
            return [epilogue.write(b, total, [widen(v, b) for v in rest[count - 1 :]])]

        body = Body(f"sum of {count} {epilogue.key}", write)
        self.h.launch_map(f"{self.name}_sum", [*sums, *self.extras], [self.result], body)

    def launch(self) -> None:
        """One kernel."""
        spec, operands = self._spec()
        self.h.launch(self.name, spec, operands)

    def _spec(self) -> tuple[ContractionSpec, Operands]:
        axes, b = self.axes, len(self.axes.batch)

        def of(strides: Shape, kind: str) -> Shape:
            return tuple(s for s, k in zip(strides[:b], self.kinds, strict=True) if k == kind)

        def factor_parts(strides: Shape, own: str, free: int) -> _Parts:
            other = "column" if own == "row" else "row"
            parts = {own: (*of(strides, own), *strides[b : b + free]), other: ()}
            return _Parts(of(strides, "batch"), parts["row"], parts["column"], tuple(strides[b + free :]))

        def cell_parts(strides: Shape) -> _Parts:
            r = b + len(axes.rows)
            return _Parts(
                of(strides, "batch"), (*of(strides, "row"), *strides[b:r]), (*of(strides, "column"), *strides[r:]), ()
            )

        cells = [cell_parts(v.strides) for v in (self.result, *self.extras)]
        lefts = [factor_parts(s, "row", len(axes.rows)) for s in self.left.strides]
        rights = [[factor_parts(s, "column", len(axes.columns)) for s in r.strides] for r in self.rights]
        flat = [p for right in rights for p in right]
        batch, batches = coalesce(self._of_batch("batch"), [p.batch for p in (*lefts, *flat, *cells)])
        rows, of_rows = coalesce((*self._of_batch("row"), *axes.rows), [p.row for p in (*lefts, *cells)])
        columns, of_columns = coalesce((*self._of_batch("column"), *axes.columns), [p.column for p in (*flat, *cells)])
        depth, depths = coalesce(axes.depth, [p.depth for p in (*lefts, *flat)])
        operands = Operands()
        queue = iter(zip(batches, [*of_rows[: len(lefts)], *of_columns[: len(flat)]], depths, strict=False))
        factors = [_factor(operands, source, [next(queue) for _ in source.strides]) for source in self.sources]
        made = [
            Cell(operands.access(v, ()), *strides)
            for v, *strides in zip(
                (self.result, *self.extras),
                batches[len(lefts) + len(flat) :],
                of_rows[len(lefts) :],
                of_columns[len(flat) :],
                strict=True,
            )
        ]
        swap = self.thin and self.problem.rows > THIN_ROWS
        if swap:
            rows, columns = columns, rows
            factors.reverse()
            made = [Cell(c.access, c.batch, c.column, c.row) for c in made]
        common: dict[str, Any] = {
            "slots": operands.slots,
            "batch": batch,
            "rows": rows,
            "columns": columns,
            "depth": depth,
            "lhs": factors[0],
            "rhs": factors[1],
            "more": tuple(factors[2:]),
            "extras": tuple(made[1:]),
            "result": made[0],
            "epilogue": self.epilogue,
        }
        p = self.problem
        if self.thin:
            p = replace(p, rows=p.columns, columns=p.rows) if swap else p
            along = factors[1].contracted[-1:] == (1,) and factors[1].free[-1:] != (1,)
            return ThinContraction(**common, thin=choose_thin(self.h.hardware, p, along)), operands
        buffers = self.h.hardware.slices
        if isinstance(self.tile, MatrixTile):
            return MatrixContraction(**common, tile=self.tile, buffers=buffers), operands
        return TiledContraction(**common, tile=self.tile, buffers=buffers), operands

    @property
    def sources(self) -> list[Source]:
        return [self.left, *self.rights]


def _piece(view: View, number: int) -> View:
    one = view.slice(0, number, 1)
    return replace(one, shape=one.shape[1:], strides=one.strides[1:])


def _factor(operands: Operands, source: Source, strides: Sequence[tuple[Shape, Shape, Shape]]) -> Factor:
    """``strides`` by batch, free and contracted axes, in the order of :attr:`Source.strides`."""
    own, *rest = strides
    limits, others = rest[: len(source.limits)], rest[len(source.limits) :]
    return Factor(
        operands.access(source.view, ()),
        *own,
        bounds=tuple(Bound(*s, limit.start, limit.extent) for limit, s in zip(source.limits, limits, strict=True)),
        prologue=source.prologue,
        others=tuple(Factor(operands.access(v, ()), *s) for v, s in zip(source.others, others, strict=True)),
    )
