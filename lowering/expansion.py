"""Operations in terms of simpler ones: how a compiler is spared what it lacks, or gets wrong.

Formulas here hold for every float type; those with coefficients are where the type is.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Operation, SSAValue

from rlx_dialect.lowering.arithmetic import Real
from rlx_dialect.operation import name_of
from rlx_dialect.xdsl_compat import Builder, InsertPoint, Rewriter

Expansion = Callable[[Operation, Builder], SSAValue | None]
"""Writes the same value at the builder; None where the operation may stay."""


def expand(root: Operation, table: Mapping[str, Expansion]) -> None:
    """Replace every operation under ``root`` whose name ``table`` has by its expansion, in place."""
    pending = [op for op in root.walk() if name_of(op) in table]
    while pending:
        op = pending.pop()
        before = op.prev_op
        value = table[name_of(op)](op, Builder(InsertPoint.before(op)))
        if value is None:
            continue
        # An expansion may use what is itself expanded.
        new = op.prev_op
        while new is not before and new is not None:
            if name_of(new) in table:
                pending.append(new)
            new = new.prev_op
        value.name_hint = op.results[0].name_hint
        Rewriter.replace_op(op, [], [value])


def floats(formula: Callable[..., Real], types: Sequence[AnyFloat] = (f32,)) -> Expansion:
    """An expansion of an operation on floats of ``types``; those of other floats stay."""

    def write(op: Operation, b: Builder) -> SSAValue | None:
        if op.results[0].type not in types:
            return None
        return formula(*(Real(o, b) for o in op.operands)).value

    return write


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Σ coefficients[i]·xⁱ by Horner's rule."""
    result = x.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def absolute(x: Real) -> Real:
    return x.apply(math.AbsFOp)


def is_negative(x: Real) -> SSAValue:
    """Whether the sign bit is set."""
    return x.const(1).apply(math.CopySignOp, x).below(0)


def power(x: Real, y: Real) -> Real:
    """exp(y·log|x|), and the special values of C's pow."""
    size = absolute(x)
    result = (y * size.apply(math.LogOp)).apply(math.ExpOp)
    # log 1 is exact, but 0·inf is not 0.
    result = x.const(1).where(size.equals(1), result)
    half = y * 0.5
    fraction, half_fraction = _has_fraction(y), _has_fraction(half)
    odd = x.b.insert(arith.AndIOp(y.apply(math.FloorOp).equals(y), half_fraction)).result
    flipped = x.b.insert(arith.AndIOp(is_negative(x), odd)).result
    result = (-result).where(flipped, result)
    # A negative number to a fraction has no value; minus infinity counts as a very large even number.
    negative = x.b.insert(arith.AndIOp(x.below(0), x.above(-pymath.inf))).result
    undefined = x.b.insert(arith.AndIOp(negative, fraction)).result
    result = x.const(pymath.nan).where(undefined, result)
    # 1 to anything and anything to 0 are 1, NaN too.
    always_one = x.b.insert(arith.OrIOp(x.equals(1), y.equals(0))).result
    return x.const(1).where(always_one, result)


def _has_fraction(x: Real) -> SSAValue:
    return (x - x.apply(math.FloorOp)).above(0)


def log1p_by(log: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """log(1 + x) by a logarithm."""

    def log1p(x: Real) -> Real:
        sum_ = x + 1
        # What the sum lost in rounding is in the same proportion in its logarithm.
        value = log(sum_) * (x / (sum_ - 1))
        return x.where(sum_.equals(1), x.where(sum_.equals(pymath.inf), value))

    return log1p


def expm1_by(exp: Callable[[Real], Real], log: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """exp(x) - 1 by an exponential and a logarithm."""

    def expm1(x: Real) -> Real:
        grown = exp(x)
        less = grown - 1
        value = less * x / log(grown)
        # A power too small to be seen beside 1 may have too few bits for its logarithm.
        value = less.where(less.equals(-1), less.where(grown.equals(pymath.inf), value))
        return x.where(grown.equals(1), value)

    return expm1
