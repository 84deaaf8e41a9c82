"""Writing scalar code in the ``arith`` and ``math`` dialects: types, constants, conversions, formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects import complex as complex_dialect
from xdsl.dialects.builtin import AnyFloat, ComplexType, FloatAttr, IndexType, IntegerAttr, IntegerType, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.lowering import NotLowered
from rlx_dialect.xdsl_compat import Builder

# Types and constants.


def signless(type: Attribute, *, complex: bool = False) -> Attribute:
    """``type`` with integers as arith has them, also as the elements of a tensor.

    Raises NotLowered for complex numbers unless ``complex``.
    """
    if isinstance(type, TensorType):
        element = signless(type.element_type, complex=complex)
        return type if element == type.element_type else TensorType(element, type.get_shape(), type.encoding)
    if isinstance(type, IntegerType):
        return IntegerType(type.width.data)
    if isinstance(type, AnyFloat | IndexType) or (complex and isinstance(type, ComplexType)):
        return type
    raise NotLowered(f"element type {type}")


def constant(value: complex, type: Attribute, b: Builder) -> SSAValue:
    """A scalar of a float, integer, index or complex type."""
    if isinstance(type, ComplexType):
        real, imaginary = (constant(part, type.element_type, b) for part in (value.real, value.imag))
        return b.insert(complex_dialect.CreateOp(real, imaginary, type)).complex
    value = value.real
    if isinstance(type, AnyFloat):
        return b.insert(arith.ConstantOp(FloatAttr(float(value), type))).result
    assert isinstance(type, IntegerType | IndexType)
    return b.insert(arith.ConstantOp(IntegerAttr(int(value), type, truncate_bits=True))).result


def convert_float(value: SSAValue, type: Attribute, b: Builder) -> SSAValue:
    """A float as another float type."""
    source = value.type
    assert isinstance(source, AnyFloat)
    assert isinstance(type, AnyFloat)
    if source == type:
        return value
    if source.bitwidth < type.bitwidth:
        return b.insert(arith.ExtFOp(value, type)).result
    if source == f32 or (source.bitwidth > type.bitwidth and type == f32):
        return b.insert(arith.TruncFOp(value, type)).result
    # Between f16 and bf16, and from f64 to them, through f32, as the reference does.
    return convert_float(convert_float(value, f32, b), type, b)


# Formulas of floats.


@dataclass(frozen=True, slots=True)
class Real:
    """A float value that formulas are written with; arithmetic inserts operations at the builder."""

    value: SSAValue
    b: Builder

    def const(self, value: float) -> Real:
        return Real(constant(value, self.value.type, self.b), self.b)

    def _with(self, other: Real | float) -> SSAValue:
        return other.value if isinstance(other, Real) else constant(other, self.value.type, self.b)

    def apply(self, operation: type[Operation], *others: Real | float) -> Real:
        """``operation(self, *others)``."""
        op = cast("Callable[..., Operation]", operation)
        return Real(self.b.insert(op(self.value, *map(self._with, others))).results[0], self.b)

    def __add__(self, other: Real | float) -> Real:
        return self.apply(arith.AddfOp, other)

    def __sub__(self, other: Real | float) -> Real:
        return self.apply(arith.SubfOp, other)

    def __mul__(self, other: Real | float) -> Real:
        return self.apply(arith.MulfOp, other)

    def __truediv__(self, other: Real | float) -> Real:
        return self.apply(arith.DivfOp, other)

    def __neg__(self) -> Real:
        return self.apply(arith.NegfOp)

    def __rtruediv__(self, other: float) -> Real:
        return Real(self._with(other), self.b) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def max(self, other: Real | float) -> Real:
        """NaN if either is."""
        return self.apply(arith.MaximumfOp, other)

    def min(self, other: Real | float) -> Real:
        """NaN if either is."""
        return self.apply(arith.MinimumfOp, other)

    def clip(self, low: float, high: float) -> Real:
        return self.max(low).min(high)

    def _compare(self, predicate: str, other: Real | float) -> SSAValue:
        return self.b.insert(arith.CmpfOp(self.value, self._with(other), predicate)).result

    # Comparisons are false with NaN, except that NaN differs from everything.

    def above(self, other: Real | float) -> SSAValue:
        return self._compare("ogt", other)

    def below(self, other: Real | float) -> SSAValue:
        return self._compare("olt", other)

    def equals(self, other: Real | float) -> SSAValue:
        return self._compare("oeq", other)

    def differs(self, other: Real | float) -> SSAValue:
        return self._compare("une", other)

    def where(self, condition: SSAValue, other: Real | float) -> Real:
        """``self`` where ``condition`` holds, else ``other``."""
        return Real(self.b.insert(arith.SelectOp(condition, self.value, self._with(other))).result, self.b)


# Formulas of integers; ``unsigned`` says how the RLX type reads the bits.


@dataclass(frozen=True, slots=True)
class Integers:
    """Writes integer arithmetic of one type at a builder."""

    type: Attribute
    unsigned: bool
    b: Builder

    def op(self, operation: Operation) -> SSAValue:
        return self.b.insert(operation).results[0]

    def const(self, value: int) -> SSAValue:
        return constant(value, self.type, self.b)

    def compare(self, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """``predicate`` is eq, ne, lt, le, gt or ge."""
        sign = "" if predicate in ("eq", "ne") else "u" if self.unsigned else "s"
        return self.op(arith.CmpiOp(x, y, sign + predicate))

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.op(arith.SelectOp(condition, x, y))

    def max(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.op(arith.MaxUIOp(x, y) if self.unsigned else arith.MaxSIOp(x, y))

    def min(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.op(arith.MinUIOp(x, y) if self.unsigned else arith.MinSIOp(x, y))

    def sign(self, x: SSAValue) -> SSAValue:
        zero, one = self.const(0), self.const(1)
        if self.unsigned:
            return self.min(x, one)
        return self.max(self.min(x, one), self.op(arith.SubiOp(zero, one)))

    def divide(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Toward zero; x / 0 is 0, and the least number divided by -1 is itself: neither traps."""
        zero = self.const(0)
        by_zero, safe = self._safe_divisor(y)
        quotient = self.op(arith.DivUIOp(x, safe) if self.unsigned else arith.DivSIOp(x, safe))
        if not self.unsigned:
            quotient = self.select(self._minus_one(y), self.op(arith.SubiOp(zero, x)), quotient)
        return self.select(by_zero, zero, quotient)

    def remainder(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """With the sign of x; of a division by 0 or -1 it is 0, which 1 as the divisor gives."""
        _, safe = self._safe_divisor(y)
        return self.op(arith.RemUIOp(x, safe) if self.unsigned else arith.RemSIOp(x, safe))

    def _safe_divisor(self, y: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Whether ``y`` is 0, and ``y`` with 1 in place of what would trap."""
        by_zero = self.compare("eq", y, self.const(0))
        traps = by_zero if self.unsigned else self.op(arith.OrIOp(by_zero, self._minus_one(y)))
        return by_zero, self.select(traps, self.const(1), y)

    def _minus_one(self, y: SSAValue) -> SSAValue:
        return self.compare("eq", y, self.const(-1))

    def power(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """By squaring, with one step a bit of the exponent; a negative exponent gives 1/xⁿ truncated."""
        one = self.const(1)
        result, square, exponent = one, x, y
        assert isinstance(self.type, IntegerType)
        bits = self.type.width.data - (0 if self.unsigned else 1)
        for bit in range(bits):
            odd = self.op(arith.AndIOp(exponent, one))
            taken = self.compare("eq", odd, one)
            result = self.select(taken, self.op(arith.MuliOp(result, square)), result)
            if bit < bits - 1:
                square = self.op(arith.MuliOp(square, square))
                exponent = self.op(arith.ShRUIOp(exponent, one))
        if self.unsigned:
            return result
        return self.select(self.compare("lt", y, self.const(0)), self._inverse_power(x, y), result)

    def _inverse_power(self, x: SSAValue, y: SSAValue) -> SSAValue:
        zero, one = self.const(0), self.const(1)
        even = self.compare("eq", self.op(arith.AndIOp(y, one)), zero)
        of_minus_one = self.select(even, one, x)
        of_others = self.select(self.compare("eq", x, one), one, zero)
        return self.select(self._minus_one(x), of_minus_one, of_others)

    def shift_left(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.select(self._within_width(y), self.op(arith.ShLIOp(x, y)), self.const(0))

    def shift_right(self, x: SSAValue, y: SSAValue) -> SSAValue:
        if self.unsigned:
            return self.select(self._within_width(y), self.op(arith.ShRUIOp(x, y)), self.const(0))
        assert isinstance(self.type, IntegerType)
        # All that a longer shift leaves is copies of the sign.
        most = self.op(arith.MinUIOp(y, self.const(self.type.width.data - 1)))
        return self.op(arith.ShRSIOp(x, most))

    def _within_width(self, y: SSAValue) -> SSAValue:
        """A shift by the width or more is undefined in arith, and 0 in NumPy."""
        assert isinstance(self.type, IntegerType)
        return self.op(arith.CmpiOp(y, self.const(self.type.width.data), "ult"))
