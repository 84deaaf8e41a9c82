"""Order: sorting, the greatest elements, and counts of values.

NaN counts as the greatest value, and -0.0 equals 0.0. Among equal elements the one with the smaller index comes first,
ascending or descending. Indices are integers: i64, unless the result type says another integer type. (RLX encodes them
in f32, which holds no index above 2^24; a cast does the same.)
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, TensorType, UnitAttr, f32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import ReduceKind, ReduceKindAttr
from rlx_dialect.base import RlxOp, Value, element_of, rank_of
from rlx_dialect.dtypes import Array, integer_limits, is_bool, is_complex, is_float, is_integer
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.extents import along, positions
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherElementsOp
from rlx_dialect.ops.ordering import argsorted
from rlx_dialect.ops.shape import AxisOp, NarrowOp, front_axis
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, show
from rlx_dialect.xdsl_compat import Builder

LAST = IntegerAttr(-1, i64)


def ordered(x: Array, axis: int, *, descending: bool) -> Array:
    """The indices that sort ``x`` along ``axis``; NaN is the greatest, and equal elements keep their order."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # Backwards twice, so that equal elements keep their order.
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


class OrderOp(RlxOp):
    """Base of the operations that compare the elements of operand 0: floats, integers or i1."""

    def check_ordered(self) -> None:
        if is_complex(self.element(0)):
            self.fail(f"{self.operand_name(0)} must be real, got {self.element(0)}")

    def index_type(self, shape: Shape) -> Attribute:
        """A tensor of indices, of the declared integer type or i64."""
        declared = self.results[0].type
        chosen = declared.element_type if isinstance(declared, TensorType) else i64
        if not is_integer(chosen) or is_bool(chosen):
            raise ShapeError(f"indices must have an integer element type, got {chosen}")
        return TensorType(chosen, shape)


class SortingOp(OrderOp, AxisOp):
    """Base: operand 0 along ``axis``, by default the last; the smallest first or, with ``descending``, the greatest."""

    axis = prop_def(IntegerAttr[I64], default_value=LAST)
    descending = opt_prop_def(UnitAttr)
    result = result_def()

    def __init__(self, input: Value, axis: int = -1, *, descending: bool = False, result_type: Attribute | None = None):
        """The last axis is -1 in the IR, the others count from the front."""
        axis = front_axis(axis, input)
        last = axis == rank_of(SSAValue.get(input)) - 1
        super().__init__([input], {"axis": -1 if last else axis, "descending": descending}, result_types=[result_type])

    def check(self) -> None:
        self.check_ordered()

    def order(self, x: Array) -> Array:
        return ordered(x, self.axis_index, descending=self.descending is not None)


@irdl_op_definition
class SortOp(SortingOp):
    """The elements in order along ``axis``; see :class:`SortingOp`."""

    name = "rlx.sort"
    input = operand_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        _ = self.axis_index  # Raises where there is no such axis.
        return (self.input.type,)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.take_along_axis(args[0], self.order(args[0]), self.axis_index),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        indices = b.insert(ArgSortOp(self.input, self.axis_index, descending=self.descending is not None)).result
        return self.as_results(b.insert(GatherElementsOp(self.input, indices, self.axis_index)).result)


@irdl_op_definition
class ArgSortOp(SortingOp):
    """The indices of the elements in order along ``axis``; see :class:`SortingOp`."""

    name = "rlx.argsort"
    input = operand_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        _ = self.axis_index
        return (self.index_type(self.shape(0)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (self.order(args[0]),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """All pairs are compared or, where they are too many, a network of n·log²n comparisons sorts."""
        x, descending = Term(b, self.input), self.descending is not None
        return self.as_results(argsorted(x, self.axis_index, element_of(self.result), descending=descending).value)


@irdl_op_definition
class TopKOp(OrderOp):
    """The indices of the ``k`` greatest elements along the last axis, the greatest first: [..., k].

    ``rlx.gather_elements`` gives their values.
    """

    name = "rlx.top_k"
    input = operand_def()
    k = prop_def(IntegerAttr[I64])
    result = result_def()

    def __init__(self, input: Value, k: int, *, result_type: Attribute | None = None):
        super().__init__([input], {"k": k}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        shape, k = self.shape(0), self.k.value.data
        if not shape or k < 0 or (shape[-1] != DYNAMIC and k > shape[-1]):
            raise ShapeError(f"k {k} must be 0 to the last extent of operand 'input', got {show(shape)}")
        return (self.index_type((*shape[:-1], k)),)

    def check(self) -> None:
        self.check_ordered()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        k = self.k.value.data
        if k > args[0].shape[-1]:
            raise ValueError(f"k {k} exceeds extent {args[0].shape[-1]}")
        return (ordered(args[0], -1, descending=True)[..., :k],)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        whole = TensorType(element_of(self.result), self.shape(0))
        indices = b.insert(ArgSortOp(self.input, descending=True, result_type=whole)).result
        axis = len(self.shape(0)) - 1
        return self.as_results(b.insert(NarrowOp(indices, axis, 0, self.k.value.data)).result)


@irdl_op_definition
class ArgReduceOp(OrderOp, AxisOp):
    """The index of the first ``max`` or ``min`` along ``axis``, which is dropped or, with ``keep_dim``, stays as 1.

    A NaN is taken for the result of either, as rlx.reduce does. The axis must not be empty.
    """

    name = "rlx.arg_reduce"
    KEYWORD: ClassVar = "kind"
    input = operand_def()
    kind = prop_def(ReduceKindAttr)
    keep_dim = opt_prop_def(UnitAttr)
    result = result_def()

    def __init__(
        self,
        kind: ReduceKind | str,
        input: Value,
        axis: int,
        *,
        keep_dim: bool = False,
        result_type: Attribute | None = None,
    ):
        properties = {"kind": kind, "axis": front_axis(axis, input), "keep_dim": keep_dim}
        super().__init__([input], properties, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        if self.shape(0)[self.axis_index] == 0:
            raise ShapeError(f"axis {self.axis_index} of operand 'input' must not be empty, got {show(self.shape(0))}")
        return (self.index_type(shapes.reduce(self.shape(0), [self.axis_index], self.keep_dim is not None)),)

    def check(self) -> None:
        self.check_ordered()
        if self.kind.data not in (ReduceKind.MAX, ReduceKind.MIN):
            self.fail(f"kind must be max or min, got {self.kind.data}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        find = np.argmax if self.kind.data is ReduceKind.MAX else np.argmin
        return (find(args[0], self.axis_index, keepdims=self.keep_dim is not None),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The least index whose element equals the extreme one."""
        x, axis = Term(b, self.input), self.axis_index
        element = element_of(self.result)
        index = along(positions(x, axis, element), axis, x.rank)
        hit = x.compare("eq", x.reduce(self.kind.data, [axis]))
        if is_float(x.element):  # A NaN makes the extreme NaN, which equals nothing.
            hit = hit | x.is_nan()
        greatest = integer_limits(element)[1]
        found = hit.where(index, greatest).reduce("min", [axis], keep_dim=self.keep_dim is not None)
        return self.as_results(found.value)


@irdl_op_definition
class HistogramOp(OrderOp):
    """How many elements lie in each of ``bins`` equal parts of the interval from ``min`` to ``max``, in f32: [bins].

    x lies in part floor((x - min)/(max - min)·bins), and x = max in the last one; what is outside, or NaN, is not
    counted. Floats of any shape; f16 and bf16 are computed in f32.
    """

    name = "rlx.histogram"
    input = operand_def()
    bins = prop_def(IntegerAttr[I64])
    min = prop_def(FloatAttr[Float64Type])
    max = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, input: Value, bins: int, min: float, max: float):
        super().__init__([input], {"bins": bins, "min": min, "max": max})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (TensorType(f32, (self.bins.value.data,)),)

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'input' must have a float element type, got {self.element(0)}")
        if self.bins.value.data < 1:
            self.fail(f"bins must be positive, got {self.bins.value.data}")
        if not self.min.value.data < self.max.value.data:
            self.fail(f"min {self.min.value.data} must be below max {self.max.value.data}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        bins, low, high = self.bins.value.data, self.min.value.data, self.max.value.data
        inside = args[0][(args[0] >= low) & (args[0] <= high)]
        part = np.minimum(np.floor((inside - low) / (high - low) * bins), bins - 1)
        return (np.bincount(part.astype(np.int64), minlength=bins).astype(np.float32),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Each element is compared with the number of each part."""
        bins, low, high = self.bins.value.data, self.min.value.data, self.max.value.data
        x = Term.widened(b, self.input)[0].reshape([-1, 1])
        part = ((x - low) / (high - low) * float(bins)).apply("floor").binary("min", float(bins - 1))
        at_least = x.compare("ge", low)
        inside = at_least.insert(BinaryOp("bit_and", at_least.value, x.compare("le", high).value))
        numbers = b.insert(ConstantOp.of(np.arange(bins), TensorType(x.element, [bins]))).result
        same = inside.where(part, -1.0).compare("eq", Term(b, numbers))
        return self.as_results(same.cast(f32).reduce("sum", [0], keep_dim=False).value)
