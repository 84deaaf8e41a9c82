"""Element-wise operations. The formulas of floats are those of every other lowering, written on tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ComplexType, IntegerType, f64
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_bool, is_complex, is_float, is_narrow, is_unsigned
from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.arithmetic import Real
from rlx_dialect.lowering.scalar import FLOAT_ACTIVATIONS
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, lowers
from rlx_dialect.lowering.to_stablehlo.tensors import Tensors
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import (
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    FmaOp,
    StopGradientOp,
    WhereOp,
)

_NAMES: Mapping[type[Operation], str] = {
    arith.AddfOp: "add",
    arith.SubfOp: "subtract",
    arith.MulfOp: "multiply",
    arith.DivfOp: "divide",
    arith.NegfOp: "negate",
    arith.MaximumfOp: "maximum",
    arith.MinimumfOp: "minimum",
    math.AbsFOp: "abs",
    math.AtanOp: "atan2",
    math.CeilOp: "ceil",
    math.CosOp: "cosine",
    math.ErfOp: "erf",
    math.ExpM1Op: "exponential_minus_one",
    math.ExpOp: "exponential",
    math.FloorOp: "floor",
    math.Log1pOp: "log_plus_one",
    math.LogOp: "log",
    math.RoundEvenOp: "round_nearest_even",
    math.RsqrtOp: "rsqrt",
    math.SinOp: "sine",
    math.SqrtOp: "sqrt",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
}
"""What the operations that formulas are written with are in StableHLO."""

_PREDICATES = {"ogt": "GT", "olt": "LT", "oeq": "EQ", "une": "NE"}


@dataclass(frozen=True, slots=True)
class Numbers(Real):
    """A tensor of floats that formulas are written with."""

    c: Tensors

    @classmethod
    def of(cls, value: SSAValue, c: Tensors) -> Numbers:
        return cls(value, c.b, c)

    def const(self, value: float) -> Numbers:
        return Numbers.of(self.c.like(self.value, value), self.c)

    def _with(self, other: Real | float) -> SSAValue:
        return other.value if isinstance(other, Real) else self.const(other).value

    def apply(self, operation: type[Operation], *others: Real | float) -> Numbers:
        operands = [self.value, *map(self._with, others)]
        if operation is math.AtanOp:
            operands.append(self._with(1.0))
        return Numbers.of(self.c.same(_NAMES[operation], *operands), self.c)

    def __rtruediv__(self, other: float) -> Numbers:
        return self.const(other).apply(arith.DivfOp, self)

    def _compare(self, predicate: str, other: Real | float) -> SSAValue:
        return self.c.compare(_PREDICATES[predicate], self.value, self._with(other))

    def where(self, condition: SSAValue, other: Real | float) -> Numbers:
        return Numbers.of(self.c.same("select", condition, self.value, self._with(other)), self.c)


_OWN: Mapping[ActivationKind, Callable[[Real], Real]] = {
    ActivationKind.SIN: lambda x: x.apply(math.SinOp),
    ActivationKind.COS: lambda x: x.apply(math.CosOp),
    ActivationKind.TAN: lambda x: x.apply(math.TanOp),
}
"""XLA takes whole turns off the argument itself."""

_ACTIVATIONS = {**FLOAT_ACTIVATIONS, **_OWN}


def activation(c: Tensors, kind: ActivationKind, x: SSAValue) -> SSAValue:
    """``kind`` of each element; f16 and bf16 are computed in f32 and rounded."""
    element = element_of(x)
    if is_float(element):
        return c.convert(_ACTIVATIONS[kind](Numbers.of(c.widened(x), c)).value, element)
    match kind:
        case ActivationKind.RELU:
            return c.same("maximum", x, c.like(x, 0))
        case ActivationKind.NEG:
            return c.same("negate", x)
        case ActivationKind.SIGN:
            return c.same("minimum", x, c.like(x, 1)) if is_unsigned(element) else c.same("sign", x)
        case ActivationKind.ABS:
            return x if is_unsigned(element) else c.same("abs", x)
        case _:
            raise NotLowered(f"{kind} of {element}")


_BINARIES: Mapping[BinaryKind, str] = {
    BinaryKind.ADD: "add",
    BinaryKind.SUB: "subtract",
    BinaryKind.MUL: "multiply",
    BinaryKind.DIV: "divide",
    BinaryKind.MAX: "maximum",
    BinaryKind.MIN: "minimum",
    BinaryKind.POW: "power",
    BinaryKind.MOD: "remainder",
    BinaryKind.BIT_AND: "and",
    BinaryKind.BIT_OR: "or",
    BinaryKind.BIT_XOR: "xor",
    BinaryKind.SHL: "shift_left",
    BinaryKind.SHR: "shift_right_arithmetic",
    BinaryKind.ATAN2: "atan2",
}


def binary(c: Tensors, kind: BinaryKind, x: SSAValue, y: SSAValue) -> SSAValue:
    """``kind`` of the elements of two tensors of one shape; f16 and bf16 are computed in f32 and rounded."""
    element, name = element_of(x), _BINARIES[kind]
    if is_float(element):
        return c.convert(c.same(name, c.widened(x), c.widened(y)), element)
    if is_complex(element):
        return c.same(name, x, y)
    if is_bool(element):
        return c.same({"maximum": "or", "minimum": "and"}.get(name, name), x, y)
    match kind:
        case BinaryKind.DIV:
            return _divided(c, x, y)
        case BinaryKind.MOD:
            # What is left of a division by 0 is 0 here.
            zero, one = c.like(y, 0), c.like(y, 1)
            return c.same(name, x, c.same("select", c.compare("EQ", y, zero), one, y))
        case BinaryKind.POW:
            return _power(c, x, y)
        case BinaryKind.SHR if is_unsigned(element):
            return c.same("shift_right_logical", x, y)
        case _:
            return c.same(name, x, y)


def _divided(c: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
    """Toward zero; x / 0 is 0."""
    zero, one = c.like(y, 0), c.like(y, 1)
    by_zero = c.compare("EQ", y, zero)
    quotient = c.same("divide", x, c.same("select", by_zero, one, y))
    return c.same("select", by_zero, zero, quotient)


def _power(c: Tensors, x: SSAValue, y: SSAValue) -> SSAValue:
    """By squaring, because XLA reads six bits of an exponent. A negative one gives 1/xⁿ truncated."""
    element = element_of(x)
    assert isinstance(element, IntegerType)
    zero, one = c.like(x, 0), c.like(x, 1)
    result, square, exponent = one, x, y
    for _ in range(element.width.data):
        odd = c.compare("NE", c.same("and", exponent, one), zero)
        result = c.same("select", odd, c.same("multiply", result, square), result)
        square, exponent = c.same("multiply", square, square), c.same("shift_right_logical", exponent, one)
    if is_unsigned(element):
        return result
    even = c.compare("EQ", c.same("and", y, one), zero)
    unit = c.compare("EQ", c.same("abs", x), one)
    inverse = c.same("select", unit, c.same("select", even, one, x), zero)
    return c.same("select", c.compare("LT", y, zero), inverse, result)


def cast(c: Tensors, x: SSAValue, target: Attribute) -> SSAValue:
    """See :class:`rlx_dialect.ops.elementwise.CastOp`."""
    source = element_of(x)
    if source == target:
        return x
    if is_bool(target):
        return c.compare("NE", x, c.like(x, 0))
    if isinstance(target, ComplexType) and not is_complex(source):
        real = c.convert(x, target.element_type)
        return c.complex(real, c.like(real, 0))
    if is_complex(source) and not is_complex(target):
        x = c.part("real", x)
    return c.convert(x, target)


@lowers(ConstantOp)
def constant(op: ConstantOp, c: Conversion) -> SSAValue:
    value = op.array()
    if value is None:
        raise NotLowered("its value lies in a resource outside the IR")
    type = op.result.type
    return c.constant(np.asarray(value), type)  # pyright: ignore[reportArgumentType]


@lowers(ActivationOp)
def lower_activation(op: ActivationOp, c: Conversion) -> SSAValue:
    return activation(c, op.kind.data, op.input)


@lowers(BinaryOp)
def lower_binary(op: BinaryOp, c: Conversion) -> SSAValue:
    return binary(c, op.kind.data, *c.together(op.operands))


@lowers(CompareOp)
def lower_compare(op: CompareOp, c: Conversion) -> SSAValue:
    return c.compare(op.kind.data.value.upper(), *c.together(op.operands))


@lowers(WhereOp)
def lower_where(op: WhereOp, c: Conversion) -> SSAValue:
    return c.same("select", *c.together(op.operands))


@lowers(FmaOp)
def lower_fma(op: FmaOp, c: Conversion) -> SSAValue:
    """In a type that holds every product; f64 has none, and is rounded twice unless the hardware does better."""
    element = op.element(0)
    x, y, z = c.together(op.operands)
    x, y, z = (c.widened(v) if is_narrow(element) else c.convert(v, f64) for v in (x, y, z))
    return c.convert(c.same("add", c.same("multiply", x, y), z), element)


@lowers(CastOp)
def lower_cast(op: CastOp, c: Conversion) -> SSAValue:
    return cast(c, op.input, element_of(op.result))


@lowers(ClampOp)
def lower_clamp(op: ClampOp, c: Conversion) -> SSAValue:
    x = Numbers.of(c.widened(op.input), c)
    return c.convert(x.clip(op.min.value.data, op.max.value.data).value, op.element(0))


@lowers(StopGradientOp)
def lower_stop_gradient(op: StopGradientOp, c: Conversion) -> SSAValue:
    return op.input
