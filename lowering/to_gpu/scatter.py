"""Scatters: the data are copied, then each invocation owns a line of the result and applies its updates in their order.

So equal indices meet their element one after the other, in the same order every time, and no two invocations write one
element. Lines are side by side: what the axes that indices do not address make. A scatter that has one line has one
invocation at work. An index outside its axis, which means nothing, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rlx_dialect.attributes import ScatterReduction
from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.elements import ElementSpec
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, product
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.indexing import box_view, position
from rlx_dialect.lowering.to_gpu.kernel import Access, Kernel, Operands
from rlx_dialect.lowering.to_gpu.rows import Fold
from rlx_dialect.lowering.to_gpu.views import View, coalesce
from rlx_dialect.ops.indexing import SCATTER_COMBINES, ScatterAddOp, ScatterElementsOp, ScatterNdOp, ScatterOp

SUMS = (ScatterReduction.ADD, ScatterReduction.MUL)
"""Of narrow floats these are computed in a wider type, and rounded once."""


@dataclass(frozen=True)
class ScatterSpec(ElementSpec):
    """For each line l of ``box`` and then each u of ``updated``: result[l, indices[l, u, 0], …] meets updates[l, u]."""

    updated: Shape
    indices: Access
    """Strides of the lines, of the updates of a line, and from one index of an update to the next."""
    updates: Access
    result: Access
    """Strides of the lines, then of the axes that indices address."""
    extents: Shape
    """Of the axes that indices address."""
    fold: Fold | None
    """How an update meets the element; None where it replaces it."""

    def element(self, k: Kernel, flat: Index) -> None:
        line = k.split(flat, self.box)

        def update(number: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            here = [*line, *k.split(number, self.updated)]
            found: list[SSAValue] = []
            inside: SSAValue | None = None
            for part, extent in enumerate(self.extents):
                at = position(k, k.load(self.indices, [*here, part]), self.indices.element, extent)
                found.append(at)
                inside = k.both(inside, k.i_less(at, extent))
            k.when(inside, lambda: self._meet(k, here, [*line, *found]))
            return []

        k.loop(0, product(self.updated), 1, [], update)

    def _meet(self, k: Kernel, here: Sequence[Index], target: Sequence[Index]) -> None:
        if self.fold is None:
            k.store(k.load(self.updates, here), self.result, target)
            return
        update = k.load_wide(self.updates, here)
        k.store(self.fold.combine(k.b, k.load_wide(self.result, target), update), self.result, target)


def _scatter(
    op: ScatterOp,
    h: Host,
    reduction: ScatterReduction,
    lines: tuple[Shape, Sequence[int], Sequence[int]],
    indices: tuple[View, Extent],
    updates: View,
) -> None:
    """Launch what ``op`` needs.

    ``lines`` are the extents of the box of lines, the axes of the data that it is, and those that indices address.
    ``indices``, with the distance of one index of an update to the next, and ``updates`` are viewed as boxes of the
    lines and, behind them, the updates of a line.
    """
    shape, own, addressed = lines
    data, result = h.view(op.data), h.result(op.result)
    wide = wide_element(data.element)
    # The sums of a line stand in the result itself, or in a wider copy of it.
    total = h.new(wide, result.shape) if reduction in SUMS and wide != data.element else result
    h.copy(data, total)
    target = box_view(total, shape, own, addressed)
    places, step = indices
    split = len(shape)
    box, (index_lines, update_lines, result_lines) = coalesce(
        shape, [places.strides[:split], updates.strides[:split], target.strides[:split]]
    )
    updated, (index_updates, update_updates) = coalesce(
        updates.shape[split:], [places.strides[split:], updates.strides[split:]]
    )
    kind = SCATTER_COMBINES.get(reduction)
    operands = Operands()
    spec = ScatterSpec(
        indices=operands.access(places, (*index_lines, *index_updates, step)),
        updates=operands.access(updates, (*update_lines, *update_updates)),
        result=operands.access(target, (*result_lines, *target.strides[split:])),
        slots=operands.slots,
        box=box,
        updated=updated,
        extents=target.shape[split:],
        fold=None if kind is None else Fold(kind, total.element),
        threads=h.hardware.workgroup,
    )
    if product(updates.shape) != 0:
        h.launch(op.name.removeprefix("rlx."), spec, operands)
    if total is not result:
        h.copy(total, result)


def _without(count: int, axis: int) -> list[int]:
    return [a for a in range(count) if a != axis]


@lowers(ScatterAddOp)
def scatter_add(op: ScatterAddOp, h: Host) -> None:
    indices, updates, axis = h.view(op.indices), h.view(op.updates), op.axis_index
    data, rank, last = h.view(op.data), len(indices.shape), axis + len(indices.shape)
    own = _without(len(data.shape), axis)
    lines = tuple(data.shape[a] for a in own)
    box = (*lines, *indices.shape)
    places = box_view(indices, box, [*[-1] * len(own), *range(rank)], [])
    ordered = [*range(axis), *range(last, len(updates.shape)), *range(axis, last)]
    terms = box_view(updates, box, ordered, [])
    _scatter(op, h, ScatterReduction.ADD, (lines, own, [axis]), (places, 0), terms)


@lowers(ScatterElementsOp)
def scatter_elements(op: ScatterElementsOp, h: Host) -> None:
    indices, updates, axis = h.view(op.indices), h.view(op.updates), op.axis_index
    own = _without(len(indices.shape), axis)
    lines = tuple(indices.shape[a] for a in own)
    ordered = [*own, axis]
    places, terms = (v.transpose(ordered) for v in (indices, updates))
    _scatter(op, h, op.reduction.data, (lines, own, [axis]), (places, 0), terms)


@lowers(ScatterNdOp)
def scatter_nd(op: ScatterNdOp, h: Host) -> None:
    data, indices, updates = h.view(op.data), h.view(op.indices), h.view(op.updates)
    rank, depth = len(indices.shape) - 1, int(op.shape(1)[-1])
    own = range(depth, len(data.shape))
    lines = data.shape[depth:]
    box = (*lines, *indices.shape[:rank])
    places = box_view(indices, box, [*[-1] * len(lines), *range(rank)], [])
    terms = updates.transpose([*range(rank, len(updates.shape)), *range(rank)])
    _scatter(op, h, op.reduction.data, (lines, own, range(depth)), (places, indices.strides[rank]), terms)
