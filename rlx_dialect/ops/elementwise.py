"""Element-wise operations on tensors with NumPy broadcasting, and on scalars in the body of a region.

The result element type is the left operand's (``i1`` for a comparison). Formulas are those of the RLX
operation reference; the NumPy functions here are the dialect's meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float64Type, FloatAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from rlx_dialect.attributes import (
    ActivationKind,
    ActivationKindAttr,
    BinaryKind,
    BinaryKindAttr,
    CompareKind,
    CompareKindAttr,
)
from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, is_bool, is_complex, is_float, is_integer, round_to
from rlx_dialect.ops.constant import scalar
from rlx_dialect.shapes import broadcast
from rlx_dialect.xdsl_compat import Builder

_erf: Callable[[Array], NDArray[np.float64]] = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Array) -> Array:
    """The error function, correctly rounded from double precision."""
    return _erf(x).astype(x.dtype)


def _gelu(x: Array) -> Array:
    # 1 + erf cancels for negative x, so the sum is taken in double precision.
    return (0.5 * x * (1 + _erf(x * math.sqrt(0.5)))).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    # exp of a non-positive number only: no overflow on either side.
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu_approx(x: Array) -> Array:
    # 0.5·(1 + tanh u) is sigmoid(2u), without the cancellation for negative u.
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


ACTIVATIONS: Mapping[ActivationKind, Callable[[Array], Array]] = {
    ActivationKind.GELU: _gelu,
    ActivationKind.GELU_APPROX: _gelu_approx,
    ActivationKind.SILU: lambda x: x * _sigmoid(x),
    ActivationKind.RELU: lambda x: np.maximum(x, 0),
    ActivationKind.SIGMOID: _sigmoid,
    ActivationKind.TANH: np.tanh,
    ActivationKind.EXP: np.exp,
    ActivationKind.LOG: np.log,
    ActivationKind.SQRT: np.sqrt,
    ActivationKind.RSQRT: lambda x: 1 / np.sqrt(x),
    ActivationKind.NEG: np.negative,
    ActivationKind.ABS: np.abs,
    ActivationKind.ROUND: np.rint,
    ActivationKind.SIN: np.sin,
    ActivationKind.COS: np.cos,
    ActivationKind.TAN: np.tan,
    ActivationKind.ATAN: np.arctan,
    ActivationKind.RECIP: lambda x: 1 / x,
    ActivationKind.FLOOR: np.floor,
    ActivationKind.CEIL: np.ceil,
    ActivationKind.SIGN: np.sign,
    ActivationKind.SOFTPLUS: _softplus,
    ActivationKind.ELU: lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    ActivationKind.ERF: erf,
    ActivationKind.HARD_SWISH: lambda x: x * np.clip(x + 3, 0, 6) / 6,
    ActivationKind.HARD_SIGMOID: lambda x: np.clip(x / 6 + 0.5, 0, 1),
    ActivationKind.MISH: lambda x: x * np.tanh(_softplus(x)),
    ActivationKind.SOFTSIGN: lambda x: x / (1 + np.abs(x)),
    ActivationKind.LOG_SIGMOID: lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
}
"""The meaning of each kind. Round is to nearest, ties to even; sign(0) = 0; elu has alpha = 1."""

INTEGER_ACTIVATIONS = frozenset({ActivationKind.RELU, ActivationKind.NEG, ActivationKind.ABS, ActivationKind.SIGN})
"""The kinds that integers take too; the others are of real numbers."""


def activation_takes(kind: ActivationKind, element: Attribute) -> bool:
    """Whether ``kind`` is defined for ``element``."""
    return is_float(element) or (kind in INTEGER_ACTIVATIONS and is_integer(element) and not is_bool(element))


NOT_REGION_FUSABLE_ACTIVATIONS = frozenset(
    {
        ActivationKind.FLOOR,
        ActivationKind.CEIL,
        ActivationKind.SIGN,
        ActivationKind.SOFTPLUS,
        ActivationKind.ELU,
        ActivationKind.ERF,
        ActivationKind.HARD_SWISH,
        ActivationKind.HARD_SIGMOID,
        ActivationKind.MISH,
        ActivationKind.SOFTSIGN,
        ActivationKind.LOG_SIGMOID,
    }
)
"""Kinds that RLX's region kernels do not evaluate; they stay operations of their own."""


def _divide(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.integer):
        # Toward zero, as in C and arith.divsi; NumPy's // floors. Division by zero gives 0 here.
        quotient = a // b
        inexact = (quotient * b != a) & ((a < 0) != (b < 0))
        return np.where(b == 0, 0, quotient + inexact).astype(a.dtype)
    return a / b


def _power(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.signedinteger):
        # NumPy refuses negative exponents: 1/aⁿ truncated is 0 unless a is 1 or -1 (0 to a negative power: 0 here).
        inverse = np.where(np.abs(a) == 1, np.where(b % 2 == 0, 1, a), 0)
        return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))).astype(a.dtype)
    # For one exponent of 1/2 NumPy takes roots, and then another zero and NaN of -inf: as many exponents as bases.
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    bases, exponents = (np.broadcast_to(x, shape).reshape(-1).copy() for x in (a, b))
    return np.power(bases, exponents).reshape(shape)


BINARIES: Mapping[BinaryKind, Callable[[Array, Array], Array]] = {
    BinaryKind.ADD: np.add,
    BinaryKind.SUB: np.subtract,
    BinaryKind.MUL: np.multiply,
    BinaryKind.DIV: _divide,
    BinaryKind.MAX: np.maximum,
    BinaryKind.MIN: np.minimum,
    BinaryKind.POW: _power,
    BinaryKind.MOD: np.fmod,
    BinaryKind.BIT_AND: np.bitwise_and,
    BinaryKind.BIT_OR: np.bitwise_or,
    BinaryKind.BIT_XOR: np.bitwise_xor,
    BinaryKind.SHL: np.left_shift,
    BinaryKind.SHR: np.right_shift,
    BinaryKind.ATAN2: np.arctan2,
}
"""The meaning of each kind. max and min propagate NaN; mod has the sign of the dividend (C's fmod)."""

BOOL_BINARIES = frozenset({BinaryKind.MAX, BinaryKind.MIN, BinaryKind.BIT_AND, BinaryKind.BIT_OR, BinaryKind.BIT_XOR})
"""The kinds that i1 takes."""

COMPLEX_BINARIES = frozenset({BinaryKind.ADD, BinaryKind.SUB, BinaryKind.MUL, BinaryKind.DIV, BinaryKind.POW})
"""The kinds that complex numbers take."""

BITWISE = frozenset({BinaryKind.BIT_AND, BinaryKind.BIT_OR, BinaryKind.BIT_XOR, BinaryKind.SHL, BinaryKind.SHR})
NOT_REGION_FUSABLE_BINARIES = BITWISE | {BinaryKind.MOD, BinaryKind.ATAN2}

COMPARES: Mapping[CompareKind, Callable[[Array, Array], Array]] = {
    CompareKind.EQ: np.equal,
    CompareKind.NE: np.not_equal,
    CompareKind.LT: np.less,
    CompareKind.LE: np.less_equal,
    CompareKind.GT: np.greater,
    CompareKind.GE: np.greater_equal,
}


class ElementwiseOp(RlxOp):
    """Base of the operations that compute each result element from one element of each operand."""

    TAKES_SCALARS: ClassVar = True

    def broadcast_type(self, element: Attribute | None = None) -> Attribute:
        """The operands broadcast together; a tensor if any of them is one."""
        tensors = [o.type for o in self.operands if isinstance(o.type, TensorType)]
        element = element or self.element(0)
        return TensorType(element, broadcast(*(t.get_shape() for t in tensors))) if tensors else element


@irdl_op_definition
class ActivationOp(ElementwiseOp):
    """``kind`` of each element; see :data:`ACTIVATIONS`. Floats; integers for relu, neg, abs, sign."""

    name = "rlx.activation"
    KEYWORD: ClassVar = "kind"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    kind = prop_def(ActivationKindAttr)
    result = result_def()

    def __init__(
        self, kind: ActivationKind | str, input: SSAValue | Operation, *, result_type: Attribute | None = None
    ):
        super().__init__([input], {"kind": kind}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def check(self) -> None:
        if not activation_takes(self.kind.data, self.element(0)):
            self.fail(f"operand 'input' of {self.kind.data} must have a float element type, got {self.element(0)}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (ACTIVATIONS[self.kind.data](args[0]),)


@irdl_op_definition
class BinaryOp(ElementwiseOp):
    """``kind`` of two elements; see :data:`BINARIES`. Both operands have one element type, the result's."""

    name = "rlx.binary"
    KEYWORD: ClassVar = "kind"
    lhs = operand_def()
    rhs = operand_def()
    kind = prop_def(BinaryKindAttr)
    result = result_def()

    def __init__(
        self,
        kind: BinaryKind | str,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        *,
        result_type: Attribute | None = None,
    ):
        super().__init__([lhs, rhs], {"kind": kind}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.broadcast_type(),)

    def check(self) -> None:
        self.check_same_element()
        kind, element = self.kind.data, self.element(0)
        if kind in BITWISE and not is_integer(element):
            self.fail(f"operands of {kind} must have an integer element type, got {element}")
        if kind is BinaryKind.ATAN2 and not is_float(element):
            self.fail(f"operands of {kind} must have a float element type, got {element}")
        if is_bool(element) and kind not in BOOL_BINARIES:
            self.fail(f"operands of {kind} must be numbers, got i1")
        if is_complex(element) and kind not in COMPLEX_BINARIES:
            self.fail(f"operands of {kind} must be real, got {element}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (BINARIES[self.kind.data](*args),)


@irdl_op_definition
class CompareOp(ElementwiseOp):
    """A truth value (i1) a pair of elements; any comparison with NaN is false except ``ne``."""

    name = "rlx.compare"
    KEYWORD: ClassVar = "kind"
    lhs = operand_def()
    rhs = operand_def()
    kind = prop_def(CompareKindAttr)
    result = result_def()

    def __init__(self, kind: CompareKind | str, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        super().__init__([lhs, rhs], {"kind": kind})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.broadcast_type(i1),)

    def check(self) -> None:
        self.check_same_element()
        if is_complex(self.element(0)) and self.kind.data not in (CompareKind.EQ, CompareKind.NE):
            self.fail(f"operands of {self.kind.data} must be real, got {self.element(0)}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (COMPARES[self.kind.data](*args),)


@irdl_op_definition
class WhereOp(ElementwiseOp):
    """``on_true`` where ``condition`` (i1) holds, else ``on_false``; all three broadcast together."""

    name = "rlx.where"
    condition = operand_def()
    on_true = operand_def()
    on_false = operand_def()
    result = result_def()

    def __init__(self, condition: SSAValue | Operation, on_true: SSAValue | Operation, on_false: SSAValue | Operation):
        super().__init__([condition, on_true, on_false])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.broadcast_type(self.element(1)),)

    def check(self) -> None:
        if not is_bool(self.element(0)):
            self.fail(f"operand 'condition' must have element type i1, got {self.element(0)}")
        self.check_same_element(1, 2)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.where(*args),)


@irdl_op_definition
class FmaOp(ElementwiseOp):
    """a·b + c with one rounding, for floats; all three broadcast together."""

    name = "rlx.fma"
    a = operand_def()
    b = operand_def()
    c = operand_def()
    result = result_def()

    def __init__(self, a: SSAValue | Operation, b: SSAValue | Operation, c: SSAValue | Operation):
        super().__init__([a, b, c])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.broadcast_type(),)

    def check(self) -> None:
        self.check_same_element()
        if not is_float(self.element(0)):
            self.fail(f"operand 'a' must have a float element type, got {self.element(0)}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        # A product of two float32 is exact in float64; a long double does the same for float64 on x86.
        wide = np.float64 if args[0].dtype == np.float32 else np.longdouble
        a, b, c = (x.astype(wide) for x in args)
        return ((a * b + c).astype(args[0].dtype),)


@irdl_op_definition
class CastOp(ElementwiseOp):
    """Convert each element to the result's element type.

    Float to integer truncates toward zero (a value outside the range is undefined, as in C), anything to i1 is
    ``!= 0``, i1 to a number is 0 or 1, complex to real is the real part.
    """

    name = "rlx.cast"
    input = operand_def()
    result = result_def()

    def __init__(self, input: SSAValue | Operation, element: Attribute):
        source = SSAValue.get(input)
        type = source.type
        target = TensorType(element, type.get_shape()) if isinstance(type, TensorType) else element
        super().__init__([source], result_types=[target])

    def infer_types(self) -> tuple[Attribute, ...]:
        result = self.result.type
        element = result.element_type if isinstance(result, TensorType) else result
        return (self.like(0, element=element),)

    def fold_identity(self) -> SSAValue | None:
        return self.input if self.input.type == self.result.type else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        result = self.result.type
        element = result.element_type if isinstance(result, TensorType) else result
        if is_bool(element):
            return (args[0] != 0,)
        return (round_to(args[0] if is_complex(element) else np.real(args[0]), element),)


@irdl_op_definition
class StopGradientOp(ElementwiseOp):
    """The operand; no gradient flows through it."""

    name = "rlx.stop_gradient"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    result = result_def()

    def __init__(self, input: SSAValue | Operation):
        super().__init__([input])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (args[0],)


@irdl_op_definition
class ClampOp(ElementwiseOp):
    """min(max(x, ``min``), ``max``) of floats; NaN stays NaN."""

    name = "rlx.clamp"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    min = prop_def(FloatAttr[Float64Type])
    max = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, input: SSAValue | Operation, min: float, max: float):
        super().__init__([input], {"min": min, "max": max})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'input' must have a float element type, got {self.element(0)}")
        if not self.min.value.data <= self.max.value.data:
            self.fail(f"min {self.min.value.data} must not exceed max {self.max.value.data}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.minimum(np.maximum(args[0], self.min.value.data), self.max.value.data),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        if not isinstance(self.input.type, TensorType):
            self.fail("cannot be decomposed on scalars: the bounds would be tensors")
        low = scalar(b, self.min.value.data, self.element(0))
        high = scalar(b, self.max.value.data, self.element(0))
        at_least = b.insert(BinaryOp("max", self.input, low)).result
        return (b.insert(BinaryOp("min", at_least, high)).result,)
