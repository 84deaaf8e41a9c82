"""Gathers: one invocation an element of the result, which reads where that comes from first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.dtypes import is_unsigned
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.elements import ElementSpec
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, product
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Access, Kernel, Operands
from rlx_dialect.lowering.to_gpu.views import View, coalesce
from rlx_dialect.ops.indexing import GatherElementsOp, GatherNdOp, GatherOp


def position(k: Kernel, index: SSAValue, element: Attribute, extent: Extent) -> SSAValue:
    """``index`` of an RLX element type counted from the front; one outside the axis is not less than ``extent``."""
    at = k.op(arith.IndexCastOp(index, IndexType()))
    if is_unsigned(element):
        return at
    below = k.op(arith.CmpiOp(index, k.constant(0, index.type), "slt"))
    # What is far below 0 becomes a very large number here, as indices have no sign.
    return k.op(arith.SelectOp(below, k.op(arith.AddiOp(at, k.index(extent))), at))


@dataclass(frozen=True)
class GatherSpec(ElementSpec):
    """result[p] = data[p, indices[p, 0], indices[p, 1], …] for each p of ``box``; the strides say what depends on p."""

    data: Access
    """Strides of the box, then of the axes that indices address."""
    indices: Access
    """Strides of the box, then from one index of an element to the next."""
    result: Access
    extents: Shape
    """Of the axes that indices address."""

    def element(self, k: Kernel, flat: Index) -> None:
        here = k.split(flat, self.box)
        found: list[Index] = []
        for number, extent in enumerate(self.extents):
            at = position(k, k.load(self.indices, [*here, number]), self.indices.element, extent)
            # One outside the axis, which means nothing, reads the last element.
            found.append(k.op(arith.SelectOp(k.i_less(at, extent), at, k.index(extent - 1))))
        k.store(k.load(self.data, [*here, *found]), self.result, here)


def _launch(h: Host, name: str, data: View, indices: View, step: Extent, result: View) -> None:
    """Gather where ``data`` and ``indices`` are viewed as boxes of the result's shape.

    The axes that ``data`` has beyond that are addressed by indices, which lie ``step`` apart.
    """
    shape, split = result.shape, len(result.shape)
    box, (data_steps, index_steps, result_steps) = coalesce(
        shape, [data.strides[:split], indices.strides, result.strides]
    )
    operands = Operands()
    spec = GatherSpec(
        data=operands.access(data, (*data_steps, *data.strides[split:])),
        indices=operands.access(indices, (*index_steps, step)),
        result=operands.access(result, result_steps),
        slots=operands.slots,
        box=box,
        extents=data.shape[split:],
        threads=h.hardware.workgroup,
    )
    if product(shape) != 0:
        h.launch(name, spec, operands)


def box_view(view: View, shape: Shape, axes: Sequence[int], rest: Sequence[int]) -> View:
    """``view`` over a box of ``shape``: axis i of the box is its axis ``axes[i]`` (-1: none); ``rest`` come behind."""
    strides = [0 if axis < 0 else view.strides[axis] for axis in axes] + [view.strides[axis] for axis in rest]
    return View(view.source, view.element, (*shape, *(view.shape[a] for a in rest)), tuple(strides), view.offset)


@lowers(GatherOp)
def gather(op: GatherOp, h: Host) -> None:
    table, indices, result = h.view(op.table), h.view(op.indices), h.result(op.result)
    axis, rank = op.axis_index, len(indices.shape)
    own = [*range(axis), *[-1] * rank, *range(axis + 1, len(table.shape))]
    chosen = [*[-1] * axis, *range(rank), *[-1] * (len(table.shape) - axis - 1)]
    data = box_view(table, result.shape, own, [axis])
    _launch(h, "gather", data, box_view(indices, result.shape, chosen, []), 0, result)


@lowers(GatherElementsOp)
def gather_elements(op: GatherElementsOp, h: Host) -> None:
    source, indices, result = h.view(op.data), h.view(op.indices), h.result(op.result)
    axis = op.axis_index
    data = box_view(source, result.shape, [-1 if a == axis else a for a in range(len(source.shape))], [axis])
    _launch(h, "gather_elements", data, indices, 0, result)


@lowers(GatherNdOp)
def gather_nd(op: GatherNdOp, h: Host) -> None:
    source, indices, result = h.view(op.data), h.view(op.indices), h.result(op.result)
    batch, last = op.batch_dims.value.data, len(indices.shape) - 1
    first = batch + int(op.shape(1)[-1])
    addressed = list(range(batch, first))
    own = [*range(batch), *[-1] * (last - batch), *range(first, len(source.shape))]
    chosen = [*range(last), *[-1] * (len(source.shape) - first)]
    data = box_view(source, result.shape, own, addressed)
    tuples = box_view(indices, result.shape, chosen, [])
    _launch(h, "gather_nd", data, tuples, indices.strides[last], result)
