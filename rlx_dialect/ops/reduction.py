"""Reductions over axes, and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import BinaryKind, ReduceKind, ReduceKindAttr
from rlx_dialect.base import RlxOp, Value, element_of, rank_of
from rlx_dialect.dtypes import Array, is_bool, is_float, is_integer, wide_element
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp
from rlx_dialect.shapes import from_front, normal_axes, normal_axis
from rlx_dialect.xdsl_compat import Builder


def _wide_sum(x: Array, axes: tuple[int, ...]) -> Array:
    # A long sum in float32 loses digits that no engine should be blamed for.
    return x.sum(axes, keepdims=True, dtype=np.float64 if x.dtype == np.float32 else x.dtype)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return shapes.product(x.shape[a] for a in axes)


def lowest(dtype: np.dtype[Any]) -> Any:
    """What every value of ``dtype`` exceeds or equals: the maximum of no elements."""
    if dtype == np.bool_:
        return False
    return -np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min


def highest(dtype: np.dtype[Any]) -> Any:
    """What no value of ``dtype`` exceeds: the minimum of no elements."""
    if dtype == np.bool_:
        return True
    return np.inf if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max


REDUCTIONS: Mapping[ReduceKind, Callable[[Array, tuple[int, ...]], Array]] = {
    ReduceKind.SUM: lambda x, axes: _wide_sum(x, axes).astype(x.dtype),
    ReduceKind.MEAN: lambda x, axes: (_wide_sum(x, axes) / _count(x, axes)).astype(x.dtype),
    ReduceKind.MAX: lambda x, axes: x.max(axes, keepdims=True, initial=lowest(x.dtype)),
    ReduceKind.MIN: lambda x, axes: x.min(axes, keepdims=True, initial=highest(x.dtype)),
    ReduceKind.PROD: lambda x, axes: x.prod(axes, keepdims=True).astype(x.dtype),
}
"""The meaning of each kind on the given axes, which stay as extents of 1. max and min propagate NaN."""

COMBINES: Mapping[ReduceKind, BinaryKind] = {
    ReduceKind.SUM: BinaryKind.ADD,
    ReduceKind.MEAN: BinaryKind.ADD,
    ReduceKind.MAX: BinaryKind.MAX,
    ReduceKind.MIN: BinaryKind.MIN,
    ReduceKind.PROD: BinaryKind.MUL,
}
"""What joins two elements; a mean is divided by their number at the end."""


def check_reducible(op: RlxOp, kind: ReduceKind) -> None:
    """Fail unless operand 0 of ``op`` has an element type that ``kind`` takes."""
    element = op.element(0)
    if kind is ReduceKind.MEAN and not is_float(element):
        op.fail(f"{op.operand_name(0)} of mean must have a float element type, got {element}")
    ordered = kind in (ReduceKind.MAX, ReduceKind.MIN)
    if not is_float(element) and (not is_integer(element) or (is_bool(element) and not ordered)):
        op.fail(f"{op.operand_name(0)} of {kind} must have a float or integer element type, got {element}")


@irdl_op_definition
class ReduceOp(RlxOp):
    """``kind`` of the elements along ``axes``, which are dropped or, with ``keep_dim``, stay as extents of 1.

    Floats; integers too except for ``mean``, and i1 for ``max`` and ``min`` (or, and). The element type is kept:
    integer sums and products wrap around. Without axes every element stays itself. Reducing an empty axis gives
    0 (sum), 1 (prod), NaN (mean), the lowest (max) or the highest (min) value.
    """

    name = "rlx.reduce"
    KEYWORD: ClassVar = "kind"
    input = operand_def()
    kind = prop_def(ReduceKindAttr)
    axes = prop_def(DenseArrayBase.constr(i64))
    keep_dim = opt_prop_def(UnitAttr)
    result = result_def()

    def __init__(
        self,
        kind: ReduceKind | str,
        input: Value,
        axes: Sequence[int],
        *,
        keep_dim: bool = False,
        result_type: Attribute | None = None,
    ):
        """``axes`` may count from the back."""
        axes = from_front(axes, rank_of(SSAValue.get(input)))
        super().__init__([input], {"kind": kind, "axes": axes, "keep_dim": keep_dim}, result_types=[result_type])

    @property
    def axis_indices(self) -> tuple[int, ...]:
        """The axes counted from the front, in ascending order."""
        return tuple(sorted(normal_axes(self.axes.get_values(), len(self.shape(0)))))

    def infer_types(self) -> tuple[Attribute, ...]:
        shape = shapes.reduce(self.shape(0), self.axes.get_values(), self.keep_dim is not None)
        return (self.like(0, shape),)

    def check(self) -> None:
        check_reducible(self, self.kind.data)

    def fold_identity(self) -> SSAValue | None:
        shape = self.shape(0)
        # A sum starts at +0.0, so that of -0.0 alone is +0.0, and so is its mean.
        exact = is_integer(self.element(0)) or self.kind.data not in (ReduceKind.SUM, ReduceKind.MEAN)
        single = exact and all(shape[a] == 1 for a in self.axis_indices)
        return self.input if single and self.input.type == self.result.type else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        value = REDUCTIONS[self.kind.data](args[0], self.axis_indices)
        return (value if self.keep_dim is not None else value.squeeze(self.axis_indices),)


def converted(b: Builder, value: SSAValue, element: Attribute) -> SSAValue:
    """``value`` cast to ``element`` at ``b``, or itself where it has that element type."""
    return value if element_of(value) == element else b.insert(CastOp(value, element)).result


def softmax(x: Array, axis: int) -> Array:
    """exp(x - max) / sum(exp(x - max)) along ``axis``."""
    powers = np.exp(x - REDUCTIONS[ReduceKind.MAX](x, (axis,)))
    return powers / REDUCTIONS[ReduceKind.SUM](powers, (axis,))


@irdl_op_definition
class SoftmaxOp(RlxOp):
    """exp(x - max) / Σ exp(x - max) along ``axis``, for floats. A row with NaN or +inf, or of -inf only, is NaN."""

    name = "rlx.softmax"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    axis = prop_def(IntegerAttr[I64], default_value=IntegerAttr(-1, i64))
    result = result_def()

    def __init__(self, input: Value, axis: int = -1):
        """The last axis is -1 in the IR, the others count from the front."""
        rank = rank_of(SSAValue.get(input))
        (axis,) = from_front([axis], rank)
        super().__init__([input], {"axis": -1 if axis == rank - 1 else axis})

    @property
    def axis_index(self) -> int:
        """The axis counted from the front."""
        return normal_axis(self.axis.value.data, len(self.shape(0)))

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def check(self) -> None:
        normal_axis(self.axis.value.data, len(self.shape(0)))
        if not is_float(self.element(0)):
            self.fail(f"operand 'input' must have a float element type, got {self.element(0)}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (softmax(args[0], self.axis_index),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """f16 and bf16 are computed in f32, as the operation means."""
        axes = [self.axis_index]
        x = converted(b, self.input, wide_element(self.element(0)))
        greatest = b.insert(ReduceOp("max", x, axes, keep_dim=True)).result
        shifted = b.insert(BinaryOp("sub", x, greatest)).result
        powers = b.insert(ActivationOp("exp", shifted)).result
        total = b.insert(ReduceOp("sum", powers, axes, keep_dim=True)).result
        value = b.insert(BinaryOp("div", powers, total)).result
        return self.as_results(converted(b, value, self.element(0)))
