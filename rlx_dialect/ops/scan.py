"""Running sums, products and extremes along an axis, and the gradient of the running sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect.attributes import ReduceKind, ReduceKindAttr
from rlx_dialect.base import Value
from rlx_dialect.dtypes import Array, is_float, storage_dtype
from rlx_dialect.ops.extents import filled, positions, unit_axis
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.reduction import COMBINES, check_reducible, highest, lowest
from rlx_dialect.ops.shape import AxisOp, ReverseOp, front_axis
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import Builder

_RUNNING: Mapping[ReduceKind, tuple[Any, Callable[[np.dtype[Any]], Any]]] = {
    ReduceKind.SUM: (np.add, lambda _: 0),
    ReduceKind.PROD: (np.multiply, lambda _: 1),
    ReduceKind.MAX: (np.maximum, lowest),
    ReduceKind.MIN: (np.minimum, highest),
}
"""What joins two elements, and what the first position of an exclusive scan holds."""


class ScanOp(AxisOp):
    """Base: operand 0 along ``axis``; with ``exclusive`` a position does not count itself."""

    exclusive = opt_prop_def(UnitAttr)
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        _ = self.axis_index  # Raises where there is no such axis.
        return (self.operands[0].type,)


@irdl_op_definition
class CumulativeOp(ScanOp):
    """The ``kind`` (sum, prod, max or min) of the elements up to each position of ``axis``, that one included.

    With ``exclusive`` it is not included: the first position holds 0, 1, the lowest or the highest value. Element types
    are those of rlx.reduce; integers wrap around, f16 and bf16 are rounded once at the end, sums of f32 too.
    """

    name = "rlx.cumulative"
    KEYWORD: ClassVar = "kind"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    kind = prop_def(ReduceKindAttr)

    def __init__(self, kind: ReduceKind | str, input: Value, axis: int, *, exclusive: bool = False):
        super().__init__([input], {"kind": kind, "axis": front_axis(axis, input), "exclusive": exclusive})

    def check(self) -> None:
        check_reducible(self, self.kind.data)
        if self.kind.data is ReduceKind.MEAN:
            self.fail("kind must be sum, prod, max or min, got mean")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x,), axis = args, self.axis_index
        join, start = _RUNNING[self.kind.data]
        wide = np.float64 if x.dtype == np.float32 and self.kind.data is ReduceKind.SUM else x.dtype
        total = join.accumulate(x, axis, dtype=wide).astype(x.dtype)
        if self.exclusive is not None and x.shape[axis]:
            first = np.full_like(np.take(x, [0], axis), start(x.dtype))
            total = np.concatenate([first, np.take(total, range(x.shape[axis] - 1), axis)], axis)
        return (total,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Each round joins elements twice as far apart, n·log n in all; for an unknown extent each prefix, n·n."""
        (x,), axis, kind = Term.widened(b, self.input), self.axis_index, self.kind.data
        start = _RUNNING[kind][1](storage_dtype(x.element))
        total = self._rounds(x, axis, start) if x.shape[axis] != DYNAMIC else self._prefixes(x, axis, start)
        return self.as_results(total.cast(self.element(0)).value)

    def _rounds(self, x: Term, axis: int, start: Any) -> Term:
        extent, total, distance = x.shape[axis], x, 1
        while distance < extent:
            rest = extent - distance
            later = total.narrow(axis, distance, rest).binary(COMBINES[self.kind.data], total.narrow(axis, 0, rest))
            total = total.narrow(axis, 0, distance).concat(axis, later)
            distance *= 2
        if self.exclusive is None or not extent:
            return total
        first = filled(x.narrow(axis, 0, 1), start)
        return first.concat(axis, total.narrow(axis, 0, extent - 1)) if extent > 1 else first

    def _prefixes(self, x: Term, axis: int, start: Any) -> Term:
        """[..., n, n] with what comes later replaced by ``start``, reduced along the last axis."""
        to_end = [*(a for a in range(x.rank) if a != axis), axis]
        rows = x.transpose(to_end)
        place = positions(x, axis)
        before = place.reshape([1, -1]).compare("le" if self.exclusive is None else "lt", place.reshape([-1, 1]))
        kept = before.where(unit_axis(rows, x.rank - 1), start)
        total = kept.reduce(self.kind.data, [x.rank], keep_dim=False)
        return total.transpose([to_end.index(a) for a in range(x.rank)])


@irdl_op_definition
class CumsumBackwardOp(ScanOp):
    """The gradient of ``rlx.cumulative sum``: the running sum of dy from the end, for floats."""

    name = "rlx.cumsum_backward"
    SAME_TYPE: ClassVar = True
    dy = operand_def()

    def __init__(self, dy: Value, axis: int, *, exclusive: bool = False):
        super().__init__([dy], {"axis": front_axis(axis, dy), "exclusive": exclusive})

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'dy' must have a float element type, got {self.element(0)}")

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        axis = self.axis_index
        turned = b.insert(ReverseOp(self.dy, [axis])).result
        total = b.insert(CumulativeOp("sum", turned, axis, exclusive=self.exclusive is not None)).result
        return self.as_results(b.insert(ReverseOp(total, [axis])).result)
