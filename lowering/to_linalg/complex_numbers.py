"""Scalar operations as :mod:`..scalar` has them, and those on complex numbers, as arithmetic on their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects import complex as parts
from xdsl.dialects.builtin import AnyFloat, ComplexType, IndexType, i64
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.base import element_of
from rlx_dialect.lowering import NotLowered, scalar
from rlx_dialect.lowering.arithmetic import Real, constant, convert_float
from rlx_dialect.lowering.scalar import FLOAT_ACTIVATIONS, FLOAT_BINARIES
from rlx_dialect.ops.elementwise import BinaryOp, CastOp, CompareOp, ElementwiseOp, StopGradientOp, WhereOp
from rlx_dialect.xdsl_compat import Builder


@dataclass(frozen=True)
class Complex:
    """A complex number to write formulas with."""

    real: Real
    imag: Real

    @staticmethod
    def of(value: SSAValue, b: Builder) -> Complex:
        real, imag = (b.insert(part(value)).results[0] for part in (parts.ReOp, parts.ImOp))
        return Complex(Real(real, b), Real(imag, b))

    def value(self) -> SSAValue:
        element = self.real.value.type
        assert isinstance(element, AnyFloat)
        return self.real.b.insert(parts.CreateOp(self.real.value, self.imag.value, ComplexType(element))).complex

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: Complex) -> Complex:
        a, b, c, d = self.real, self.imag, other.real, other.imag
        return Complex(a * c - b * d, a * d + b * c)

    def __truediv__(self, other: Complex) -> Complex:
        """Scaled by the larger part of the divisor, so that its square does not overflow."""
        a, b, c, d = self.real, self.imag, other.real, other.imag
        wide = _abs(c).above(_abs(d))
        large, small = c.where(wide, d), d.where(wide, c)
        ratio = small / large
        scale = large + small * ratio
        real = (a + b * ratio).where(wide, a * ratio + b) / scale
        imag = (b - a * ratio).where(wide, b * ratio - a) / scale
        return Complex(real, imag)

    def power(self, other: Complex) -> Complex:
        """exp(other · log self); 0 to a positive power is 0, and anything to 0 is 1."""
        large, small = _abs(self.real).max(_abs(self.imag)), _abs(self.real).min(_abs(self.imag))
        ratio = small / large
        size = _apply(ActivationKind.LOG, large) + 0.5 * (ratio * ratio).apply(math.Log1pOp)
        angle = FLOAT_BINARIES[BinaryKind.ATAN2](self.imag, self.real)
        radius = _apply(ActivationKind.EXP, other.real * size - other.imag * angle)
        turn = other.imag * size + other.real * angle
        real, imag = (radius * _apply(kind, turn) for kind in (ActivationKind.COS, ActivationKind.SIN))
        b = real.b
        base_is_zero = large.equals(0)
        vanishes = b.insert(arith.AndIOp(base_is_zero, other.real.above(0))).result
        real, imag = (x.const(0).where(vanishes, x) for x in (real, imag))
        to_zero = b.insert(arith.AndIOp(other.real.equals(0), other.imag.equals(0))).result
        return Complex(real.const(1).where(to_zero, real), imag.const(0).where(to_zero, imag))


def _abs(x: Real) -> Real:
    return x.apply(math.AbsFOp)


def _apply(kind: ActivationKind, x: Real) -> Real:
    return FLOAT_ACTIVATIONS[kind](x)


BINARIES: Mapping[BinaryKind, Callable[[Complex, Complex], Complex]] = {
    BinaryKind.ADD: Complex.__add__,
    BinaryKind.SUB: Complex.__sub__,
    BinaryKind.MUL: Complex.__mul__,
    BinaryKind.DIV: Complex.__truediv__,
    BinaryKind.POW: Complex.power,
}


def binary(kind: BinaryKind, x: SSAValue, y: SSAValue, b: Builder, *, unsigned: bool = False) -> SSAValue:
    """``kind`` of two scalars of one type, real or complex; see :func:`.scalar.binary`."""
    if isinstance(x.type, ComplexType):
        return BINARIES[kind](Complex.of(x, b), Complex.of(y, b)).value()
    return scalar.binary(kind, x, y, b, unsigned=unsigned)


def emit(op: ElementwiseOp, operands: Sequence[SSAValue], b: Builder) -> SSAValue:
    """The result of ``op`` for one element of each operand, which may be complex; see :func:`.scalar.emit_scalar`."""
    if isinstance(op, CastOp):
        # An index is held as i64.
        source, target = (i64 if isinstance(e, IndexType) else e for e in (op.element(0), element_of(op.result)))
        return _cast(operands[0], source, target, b)
    if not any(isinstance(element_of(v), ComplexType) for v in (*op.operands, *op.results)):
        return scalar.emit_scalar(op, operands, b)
    match op:
        case BinaryOp():
            return binary(op.kind.data, operands[0], operands[1], b)
        case CompareOp():
            return _compare(op.kind.data, operands[0], operands[1], b)
        case WhereOp():
            return b.insert(arith.SelectOp(*operands)).result
        case StopGradientOp():
            return operands[0]
        case _:
            raise NotLowered("no form for complex numbers")


def _compare(kind: CompareKind, x: SSAValue, y: SSAValue, b: Builder) -> SSAValue:
    left, right = Complex.of(x, b), Complex.of(y, b)
    if kind is CompareKind.EQ:
        same = (left.real.equals(right.real), left.imag.equals(right.imag))
        return b.insert(arith.AndIOp(*same)).result
    differ = (left.real.differs(right.real), left.imag.differs(right.imag))
    return b.insert(arith.OrIOp(*differ)).result


def _cast(x: SSAValue, source: Attribute, target: Attribute, b: Builder) -> SSAValue:
    """Also to and from complex numbers: the real part of one; a real number as one."""
    if isinstance(target, ComplexType):
        if isinstance(x.type, ComplexType):
            number = Complex.of(x, b)
            real, imag = (convert_float(p.value, target.element_type, b) for p in (number.real, number.imag))
        else:
            real = scalar.cast(x, source, target.element_type, b)
            imag = constant(0, target.element_type, b)
        return Complex(Real(real, b), Real(imag, b)).value()
    if not isinstance(x.type, ComplexType):
        return scalar.cast(x, source, target, b)
    real = Complex.of(x, b).real.value
    return scalar.cast(real, real.type, target, b)
