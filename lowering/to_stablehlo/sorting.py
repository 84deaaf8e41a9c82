"""Order: stable sorts in which NaN is the greatest."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_float
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, lowers
from rlx_dialect.lowering.to_stablehlo.tensors import Tensors
from rlx_dialect.ops.sorting import ArgSortOp, SortOp, TopKOp


def _sorted(c: Tensors, values: Sequence[SSAValue], axis: int, *, descending: bool) -> Sequence[SSAValue]:
    """``values`` in the order of the first along ``axis``; equal elements keep theirs."""

    def comes_before(x: SSAValue, y: SSAValue, *_: SSAValue) -> SSAValue:
        before = c.compare("GT" if descending else "LT", x, y)
        if not is_float(element_of(x)):
            return before
        greater, smaller = (x, y) if descending else (y, x)
        nan, number = c.is_nan(greater), c.compare("EQ", smaller, smaller)
        return c.same("or", before, c.same("and", nan, number))

    elements = [element_of(v) for v in values for _ in range(2)]
    body = c.body([TensorType(e, []) for e in elements], comes_before)
    properties = {"dimension": IntegerAttr(axis, i64), "is_stable": BoolAttr(1, i1)}
    return c.ops("sort", values, [v.type for v in values], [body], **properties).results


def _order(c: Tensors, x: SSAValue, axis: int, element: Attribute, *, descending: bool) -> SSAValue:
    return _sorted(c, [x, c.iota(c.extents(x), axis, element)], axis, descending=descending)[1]


@lowers(SortOp)
def sort(op: SortOp, c: Conversion) -> SSAValue:
    return _sorted(c, [op.input], op.axis_index, descending=op.descending is not None)[0]


@lowers(ArgSortOp)
def argsort(op: ArgSortOp, c: Conversion) -> SSAValue:
    return _order(c, op.input, op.axis_index, element_of(op.result), descending=op.descending is not None)


@lowers(TopKOp)
def top_k(op: TopKOp, c: Conversion) -> SSAValue:
    axis = len(op.shape(0)) - 1
    order = _order(c, op.input, axis, element_of(op.result), descending=True)
    return c.narrow(order, axis, 0, op.k.value.data)
