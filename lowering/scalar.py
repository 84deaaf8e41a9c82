"""Scalar RLX operations in the ``arith`` and ``math`` dialects: one table, for every lowering with scalar bodies.

:func:`emit_scalar` writes one element-wise operation on scalars at a builder; it works inside any region (the body
of a ``linalg.generic``, a GPU kernel). The formulas are those of :mod:`rlx_dialect.ops.elementwise`. f16 and bf16
are computed in f32 and rounded after each operation, as the reference does.

arith integers have no sign: ``ui8`` becomes ``i8`` (:func:`signless`), and the RLX operation's types tell which
instruction is meant.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IntegerType, UnregisteredOp, f32
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.base import element_of
from rlx_dialect.dtypes import integer_limits, is_bool, is_unsigned, wide_element
from rlx_dialect.lowering import NotLowered, angles
from rlx_dialect.lowering.arithmetic import Integers, Real, constant, convert_float, signless
from rlx_dialect.ops.elementwise import (
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    ElementwiseOp,
    FmaOp,
    StopGradientOp,
    WhereOp,
)
from rlx_dialect.xdsl_compat import Builder

# Formulas of floats.


def _abs(x: Real) -> Real:
    return x.apply(math.AbsFOp)


def _exp(x: Real) -> Real:
    return x.apply(math.ExpOp)


def _tanh(x: Real) -> Real:
    return x.apply(math.TanhOp)


def _sigmoid(x: Real) -> Real:
    return 1 / (1 + _exp(-x))


def _log1p_exp_minus_abs(x: Real) -> Real:
    return _exp(-_abs(x)).apply(math.Log1pOp)


def _softplus(x: Real) -> Real:
    return x.max(0) + _log1p_exp_minus_abs(x)


def _gelu_approx(x: Real) -> Real:
    return 0.5 * x * (1 + _tanh(pymath.sqrt(2 / pymath.pi) * (x + 0.044715 * (x * x * x))))


def _sign(x: Real) -> Real:
    # Zero and NaN are themselves.
    return x.const(1).where(x.above(0), x.const(-1).where(x.below(0), x))


_TURN = (2 * pymath.pi, 2.4492935982947064e-16, -5.989539619436679e-33)
"""2π as a sum of numbers of f64, the largest first."""


def _circular(of_f32: Callable[[Real], Real], operation: type[Operation]) -> Callable[[Real], Real]:
    """A function of angles: compilers' own loses what whole turns make of the last bits."""

    def write(x: Real) -> Real:
        if x.value.type == f32:
            return of_f32(x)
        turns = -(x * (1 / (2 * pymath.pi))).apply(math.RoundEvenOp)
        for part in _TURN:
            x = turns.apply(math.FmaOp, part, x)
        return x.apply(operation)

    return write


def _call(operation: type[Operation]) -> Callable[[Real], Real]:
    return lambda x: x.apply(operation)


FLOAT_ACTIVATIONS: Mapping[ActivationKind, Callable[[Real], Real]] = {
    ActivationKind.GELU: lambda x: 0.5 * x * (1 + (x * pymath.sqrt(0.5)).apply(math.ErfOp)),
    ActivationKind.GELU_APPROX: _gelu_approx,
    ActivationKind.SILU: lambda x: x * _sigmoid(x),
    ActivationKind.RELU: lambda x: x.max(0),
    ActivationKind.SIGMOID: _sigmoid,
    ActivationKind.TANH: _tanh,
    ActivationKind.EXP: _exp,
    ActivationKind.LOG: _call(math.LogOp),
    ActivationKind.SQRT: _call(math.SqrtOp),
    ActivationKind.RSQRT: _call(math.RsqrtOp),
    ActivationKind.NEG: lambda x: -x,
    ActivationKind.ABS: _abs,
    ActivationKind.ROUND: _call(math.RoundEvenOp),
    ActivationKind.SIN: _circular(angles.sine, math.SinOp),
    ActivationKind.COS: _circular(angles.cosine, math.CosOp),
    ActivationKind.TAN: _circular(angles.tangent, math.TanOp),
    ActivationKind.ATAN: _call(math.AtanOp),
    ActivationKind.RECIP: lambda x: 1 / x,
    ActivationKind.FLOOR: _call(math.FloorOp),
    ActivationKind.CEIL: _call(math.CeilOp),
    ActivationKind.SIGN: _sign,
    ActivationKind.SOFTPLUS: _softplus,
    ActivationKind.ELU: lambda x: x.where(x.above(0), x.min(0).apply(math.ExpM1Op)),
    ActivationKind.ERF: _call(math.ErfOp),
    ActivationKind.HARD_SWISH: lambda x: x * (x + 3).clip(0, 6) / 6,
    ActivationKind.HARD_SIGMOID: lambda x: (x / 6 + 0.5).clip(0, 1),
    ActivationKind.MISH: lambda x: x * _tanh(_softplus(x)),
    ActivationKind.SOFTSIGN: lambda x: x / (1 + _abs(x)),
    ActivationKind.LOG_SIGMOID: lambda x: x.min(0) - _log1p_exp_minus_abs(x),
}

_REMF = UnregisteredOp.with_name("arith.remf")


def _remainder(a: Real, b: Real) -> Real:
    # xDSL 0.75 has no class for it.
    op = _REMF.create(operands=[a.value, b.value], result_types=[a.value.type])
    return Real(a.b.insert(op).results[0], a.b)


def _power(x: Real, y: Real) -> Real:
    # math.powf is exp(y·log x) in most compilers: NaN for every negative x, and for 1^inf and NaN^0.
    size = _abs(x)
    power = x.const(1).where(size.equals(1), size.apply(math.PowFOp, y))
    floor, half = y.apply(math.FloorOp), y * 0.5
    odd = _both(floor.equals(y), half.apply(math.FloorOp).differs(half), x.b)
    signed = (-power).where(_both(odd, _sign_bit(x), x.b), power)
    undefined = _both(_both(x.below(0), size.below(pymath.inf), x.b), floor.differs(y), x.b)
    power = x.const(pymath.nan).where(undefined, signed)
    return x.const(1).where(x.equals(1), x.const(1).where(y.equals(0), power))


def _atan2(y: Real, x: Real) -> Real:
    # From the first octant outwards. Compilers that use atan(y/x) lose the signs of zeros, and give NaN for 0/0.
    a, b = _abs(y), _abs(x)
    low, high = a.min(b), a.max(b)
    slope = x.const(0).where(high.equals(0), low / high)
    slope = x.const(1).where(low.equals(pymath.inf), slope)
    angle = slope.apply(math.AtanOp)
    angle = (x.const(pymath.pi / 2) - angle).where(a.above(b), angle)
    angle = (x.const(pymath.pi) - angle).where(_sign_bit(x), angle)
    return angle.apply(math.CopySignOp, y)


def _both(p: SSAValue, q: SSAValue, b: Builder) -> SSAValue:
    return b.insert(arith.AndIOp(p, q)).result


def _sign_bit(x: Real) -> SSAValue:
    """Whether x is negative or -0."""
    return x.const(1).apply(math.CopySignOp, x).below(0)


FLOAT_BINARIES: Mapping[BinaryKind, Callable[[Real, Real], Real]] = {
    BinaryKind.ADD: Real.__add__,
    BinaryKind.SUB: Real.__sub__,
    BinaryKind.MUL: Real.__mul__,
    BinaryKind.DIV: Real.__truediv__,
    BinaryKind.MAX: Real.max,
    BinaryKind.MIN: Real.min,
    BinaryKind.POW: _power,
    BinaryKind.MOD: _remainder,
    BinaryKind.ATAN2: _atan2,
}

INTEGER_ACTIVATIONS: Mapping[ActivationKind, Callable[[Integers, SSAValue], SSAValue]] = {
    ActivationKind.RELU: lambda e, x: e.max(x, e.const(0)),
    ActivationKind.NEG: lambda e, x: e.op(arith.SubiOp(e.const(0), x)),
    ActivationKind.ABS: lambda e, x: x if e.unsigned else e.op(math.AbsIOp(x)),
    ActivationKind.SIGN: Integers.sign,
}

INTEGER_BINARIES: Mapping[BinaryKind, Callable[[Integers, SSAValue, SSAValue], SSAValue]] = {
    BinaryKind.ADD: lambda e, x, y: e.op(arith.AddiOp(x, y)),
    BinaryKind.SUB: lambda e, x, y: e.op(arith.SubiOp(x, y)),
    BinaryKind.MUL: lambda e, x, y: e.op(arith.MuliOp(x, y)),
    BinaryKind.DIV: Integers.divide,
    BinaryKind.MAX: Integers.max,
    BinaryKind.MIN: Integers.min,
    BinaryKind.POW: Integers.power,
    BinaryKind.MOD: Integers.remainder,
    BinaryKind.BIT_AND: lambda e, x, y: e.op(arith.AndIOp(x, y)),
    BinaryKind.BIT_OR: lambda e, x, y: e.op(arith.OrIOp(x, y)),
    BinaryKind.BIT_XOR: lambda e, x, y: e.op(arith.XOrIOp(x, y)),
    BinaryKind.SHL: Integers.shift_left,
    BinaryKind.SHR: Integers.shift_right,
}

# Operations.


def neutral(kind: BinaryKind, element: Attribute) -> float:
    """What ``kind`` (add, mul, max or min) joins with any value of an RLX element type to that value."""
    if kind in (BinaryKind.ADD, BinaryKind.MUL):
        return 0 if kind is BinaryKind.ADD else 1
    least, greatest = (-pymath.inf, pymath.inf) if isinstance(element, AnyFloat) else integer_limits(element)
    return least if kind is BinaryKind.MAX else greatest


_FLOAT_PREDICATES = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def widen(value: SSAValue, b: Builder) -> SSAValue:
    """A scalar in the type that it is computed in."""
    return convert_float(value, wide_element(value.type), b) if isinstance(value.type, AnyFloat) else value


def reals(values: Sequence[SSAValue], b: Builder) -> list[Real]:
    """Floats in the type that they are computed in, to write formulas with."""
    return [Real(widen(v, b), b) for v in values]


def activation(kind: ActivationKind, x: SSAValue, b: Builder, *, unsigned: bool = False) -> SSAValue:
    """``kind`` of a scalar; a float narrower than f32 is computed in f32 and rounded."""
    if isinstance(x.type, AnyFloat):
        (real,) = reals([x], b)
        return convert_float(FLOAT_ACTIVATIONS[kind](real).value, x.type, b)
    return INTEGER_ACTIVATIONS[kind](Integers(x.type, unsigned, b), x)


def binary(kind: BinaryKind, x: SSAValue, y: SSAValue, b: Builder, *, unsigned: bool = False) -> SSAValue:
    """``kind`` of two scalars of one type; floats narrower than f32 are computed in f32 and rounded."""
    if isinstance(x.type, AnyFloat):
        left, right = reals([x, y], b)
        return convert_float(FLOAT_BINARIES[kind](left, right).value, x.type, b)
    # An i1 is 0 or 1: read as signed it would be 0 or -1.
    return INTEGER_BINARIES[kind](Integers(x.type, unsigned or is_bool(x.type), b), x, y)


def compare(kind: CompareKind, x: SSAValue, y: SSAValue, b: Builder, *, unsigned: bool = False) -> SSAValue:
    """An i1; with NaN it is false, except that ``ne`` is true."""
    if isinstance(x.type, AnyFloat):
        left, right = reals([x, y], b)
        return b.insert(arith.CmpfOp(left.value, right.value, _FLOAT_PREDICATES[kind])).result
    return Integers(x.type, unsigned or is_bool(x.type), b).compare(kind.value, x, y)


def cast(x: SSAValue, source: Attribute, target: Attribute, b: Builder) -> SSAValue:
    """``x`` of RLX type ``source`` as a value of RLX type ``target``."""
    if source == target:
        return x
    if is_bool(target):
        return _is_not_zero(x, b)
    to = signless(target)
    unsigned = is_unsigned(source) or is_bool(source)
    if isinstance(x.type, AnyFloat):
        if isinstance(to, AnyFloat):
            return convert_float(x, to, b)
        assert isinstance(to, IntegerType)
        (real,) = reals([x], b)
        return b.insert((arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp)(real.value, to)).result
    if isinstance(to, AnyFloat):
        wide = wide_element(to)
        assert isinstance(wide, AnyFloat)
        return convert_float(b.insert((arith.UIToFPOp if unsigned else arith.SIToFPOp)(x, wide)).result, to, b)
    if isinstance(x.type, IntegerType) and isinstance(to, IntegerType):
        return _resize(x, x.type.width.data, to, unsigned, b)
    return b.insert(arith.IndexCastOp(x, to)).result


def _is_not_zero(x: SSAValue, b: Builder) -> SSAValue:
    if isinstance(x.type, AnyFloat):
        (real,) = reals([x], b)
        return b.insert(arith.CmpfOp(real.value, real.const(0).value, "une")).result
    return b.insert(arith.CmpiOp(x, constant(0, x.type, b), "ne")).result


def _resize(x: SSAValue, width: int, to: IntegerType, unsigned: bool, b: Builder) -> SSAValue:
    if width == to.width.data:
        return x
    if width > to.width.data:
        return b.insert(arith.TruncIOp(x, to)).result
    return b.insert(arith.ExtUIOp(x, to) if unsigned else arith.ExtSIOp(x, to)).result


def emit_scalar(op: ElementwiseOp, operands: Sequence[SSAValue], b: Builder) -> SSAValue:
    """The result of ``op`` for one element of each operand.

    ``operands`` have the signless scalar types of ``op``'s operand elements, and the result that of its result's.
    Raises NotLowered for element types without arith operations.
    """
    unsigned = is_unsigned(op.element(0))
    match op:
        case ActivationOp():
            return activation(op.kind.data, operands[0], b, unsigned=unsigned)
        case BinaryOp():
            return binary(op.kind.data, operands[0], operands[1], b, unsigned=unsigned)
        case CompareOp():
            return compare(op.kind.data, operands[0], operands[1], b, unsigned=unsigned)
        case WhereOp():
            return b.insert(arith.SelectOp(*operands)).result
        case FmaOp():
            x, y, z = reals(operands, b)
            return convert_float(x.apply(math.FmaOp, y, z).value, operands[0].type, b)
        case CastOp():
            return cast(operands[0], op.element(0), element_of(op.result), b)
        case ClampOp():
            (real,) = reals(operands, b)
            return convert_float(real.clip(op.min.value.data, op.max.value.data).value, operands[0].type, b)
        case StopGradientOp():
            return operands[0]
        case _:
            raise NotLowered("no scalar form")
