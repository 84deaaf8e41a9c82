"""Integers of 32 or 64 bits, to write formulas on the bits of floats with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, f64, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.lowering.arithmetic import Real, constant
from rlx_dialect.xdsl_compat import Builder


@dataclass(frozen=True, slots=True)
class Word:
    """An i32 or i64; arithmetic inserts operations at the builder, modulo its width."""

    value: SSAValue
    b: Builder

    @staticmethod
    def of(x: Real) -> Word:
        """The bits of an f32 or f64."""
        return Word(x.b.insert(arith.BitcastOp(x.value, i64 if x.value.type == f64 else i32)).result, x.b)

    def as_real(self, type: Attribute) -> Real:
        """The float with these bits."""
        return Real(self.b.insert(arith.BitcastOp(self.value, type)).result, self.b)

    def to_real(self, type: AnyFloat) -> Real:
        """The float nearest to the number, read without a sign."""
        return Real(self.b.insert(arith.UIToFPOp(self.value, type)).result, self.b)

    def const(self, value: int) -> Word:
        return Word(constant(value, self.value.type, self.b), self.b)

    def _with(self, other: Word | int) -> SSAValue:
        return other.value if isinstance(other, Word) else constant(other, self.value.type, self.b)

    def _apply(self, operation: type[Operation], other: Word | int) -> Word:
        op = cast("Callable[..., Operation]", operation)
        return Word(self.b.insert(op(self.value, self._with(other))).results[0], self.b)

    def __add__(self, other: Word | int) -> Word:
        return self._apply(arith.AddiOp, other)

    def __sub__(self, other: Word | int) -> Word:
        return self._apply(arith.SubiOp, other)

    def __mul__(self, other: Word | int) -> Word:
        return self._apply(arith.MuliOp, other)

    def __mod__(self, other: Word | int) -> Word:
        """Without a sign."""
        return self._apply(arith.RemUIOp, other)

    def __and__(self, other: Word | int) -> Word:
        return self._apply(arith.AndIOp, other)

    def __or__(self, other: Word | int) -> Word:
        return self._apply(arith.OrIOp, other)

    def __xor__(self, other: Word | int) -> Word:
        return self._apply(arith.XOrIOp, other)

    def __lshift__(self, other: Word | int) -> Word:
        return self._apply(arith.ShLIOp, other)

    def __rshift__(self, other: Word | int) -> Word:
        """With copies of the sign."""
        return self._apply(arith.ShRSIOp, other)

    def down(self, other: Word | int) -> Word:
        """Shifted right with zeros."""
        return self._apply(arith.ShRUIOp, other)

    def _compare(self, predicate: str, other: Word | int) -> SSAValue:
        return self.b.insert(arith.CmpiOp(self.value, self._with(other), predicate)).result

    def differs(self, other: Word | int) -> SSAValue:
        return self._compare("ne", other)

    def equals(self, other: Word | int) -> SSAValue:
        return self._compare("eq", other)

    def below(self, other: Word | int) -> SSAValue:
        """Without a sign."""
        return self._compare("ult", other)

    def where(self, condition: SSAValue, other: Word | int) -> Word:
        """``self`` where ``condition`` holds, else ``other``."""
        return Word(self.b.insert(arith.SelectOp(condition, self.value, self._with(other))).result, self.b)
