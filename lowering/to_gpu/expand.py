"""Operations that a GPU compiler lacks, or gets wrong, in simpler ones.

Which of them a target needs is data (:attr:`.hardware.Hardware.expand`). The approximations are of f32, with
relative errors below 4e-7; their coefficients were fitted to the functions in float64 by iteratively reweighted
least squares on Chebyshev nodes.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Sequence

from xdsl.dialects import arith, gpu, math, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerType, f32, f64, i1, i32
from xdsl.ir import Block, Operation, SSAValue

from rlx_dialect.lowering.arithmetic import Real, constant, convert_float
from rlx_dialect.lowering.expansion import Expansion, absolute, floats, is_negative, polynomial, power
from rlx_dialect.lowering.words import Word
from rlx_dialect.xdsl_compat import Builder, InsertPoint

# Floats.


def _odd(x: Real, top: Sequence[float], bottom: Sequence[float], limit: float) -> Real:
    """x·top(x²)/bottom(x²), and exactly 1 or -1 beyond ``limit``: what multiplies 1 - tanh x may be huge."""
    near = x.clip(-limit, limit)
    square = near * near
    inner = (near * polynomial(square, top) / polynomial(square, bottom)).clip(-1, 1)
    return x.const(1).apply(math.CopySignOp, x).where(absolute(x).above(limit), inner)


def _erf(x: Real) -> Real:
    top = (1.12837914, 0.193544735, 0.0531017195, 0.00388333549, 0.000284566567, 1.98679456e-06)
    bottom = (1.0, 0.504857111, 0.11534988, 0.0152072325, 0.00118557071, 3.74203379e-05)
    return _odd(x, top, bottom, 4)


def _tanh(x: Real) -> Real:
    top = (0.999999979, 0.133810283, 0.00349559129, 2.06091328e-05, 1.33547277e-08)
    bottom = (1.0, 0.467143439, 0.0258769943, 0.000328563993, 7.77658625e-07)
    return _odd(x, top, bottom, 9)


def _atan_of_fraction(x: Real) -> Real:
    """atan on [0, 1]."""
    coefficients = (
        0.999999985,
        -0.333330733,
        0.199926193,
        -0.142036434,
        0.106409298,
        -0.0750428547,
        0.0426914118,
        -0.0160685626,
        0.00284987301,
    )
    return x * polynomial(x * x, coefficients)


def _atan(x: Real) -> Real:
    size = absolute(x)
    steep = size.above(1)
    angle = _atan_of_fraction((1 / size).where(steep, size))
    return (pymath.pi / 2 + -angle).where(steep, angle).apply(math.CopySignOp, x)


def _atan2(y: Real, x: Real) -> Real:
    height, width = absolute(y), absolute(x)
    low, high = height.min(width), height.max(width)
    # 0/0 is the angle of (0, 0) and inf/inf that of a diagonal.
    fraction = low.where(high.equals(0), x.const(1).where(low.equals(pymath.inf), low / high))
    angle = _atan_of_fraction(fraction)
    angle = (pymath.pi / 2 + -angle).where(height.above(width), angle)
    # The sign bit of x counts, also that of -0.
    angle = (pymath.pi + -angle).where(is_negative(x), angle)
    return angle.apply(math.CopySignOp, y)


def _toward_zero(x: Real) -> Real:
    return x.apply(math.CeilOp).where(x.below(0), x.apply(math.FloorOp))


def _remainder(op: Operation, b: Builder) -> SSAValue | None:
    """C's fmod, exact: a long division of the integers that the two are times a power of two, eight bits a round."""
    type = op.results[0].type
    if type not in (f32, f64):
        return None
    assert isinstance(type, AnyFloat)
    fraction, infinite, bias = (23, 0xFF << 23, 127) if type == f32 else (52, 0x7FF << 52, 1023)
    one = 1 << fraction
    x, y = (Word.of(Real(o, b)) & (infinite | one - 1) for o in op.operands)

    def parts(size: Word) -> tuple[Word, Word]:
        """An integer, and the exponent of what it is a multiple of; those of the least numbers are 1."""
        exponent = size.down(fraction)
        normal = exponent.differs(0)
        return (size & one - 1) | exponent.const(one).where(normal, 0), exponent.where(normal, 1)

    (left, high), (right, low) = parts(x), parts(y)
    right = right.const(1).where(y.equals(0), right)
    smaller = x.below(y)
    apart = high.const(0).where(smaller, high - low)
    first = (left << (apart & 7)) % right
    rounds = apart.down(3)
    eight = first.const(8)
    block = Block(arg_types=[IndexType(), left.value.type])
    inner = Builder(InsertPoint.at_end(block))
    step = Word(block.args[1], inner)
    shifted = Word(inner.insert(arith.ShLIOp(step.value, eight.value)).result, inner)
    inner.insert(scf.YieldOp((shifted % right).value))
    zero, unit = (constant(n, IndexType(), b) for n in (0, 1))
    end = b.insert(arith.IndexCastOp(rounds.value, IndexType())).result
    last = Word(b.insert(scf.ForOp(zero, end, unit, [first.value], block)).results[0], b)
    # In MLIR's SPIR-V form what a loop of no rounds gives is undefined.
    rest = last.where(rounds.differs(0), first)
    # Times a power of two in two steps: it may itself be no normal number.
    both = low + (bias + fraction)
    half = both.down(1)
    value = rest.to_real(type)
    for part in (half, both - half):
        value = value * ((part - fraction) << fraction).as_real(type)
    value = x.as_real(type).where(smaller, value).apply(math.CopySignOp, Real(op.operands[0], b))
    for defined in (x.below(infinite), y.below(infinite + 1), y.differs(0)):
        value = value.where(defined, pymath.nan)
    return value.value


def _exp2(x: Real) -> Real:
    return (x * pymath.log(2)).apply(math.ExpOp)


def _rsqrt(x: Real) -> Real:
    return 1 / x.apply(math.SqrtOp)


def is_nan(x: SSAValue, b: Builder) -> SSAValue:
    """From the bits: shading languages may take it that no value is NaN."""
    if x.type == f64:
        return b.insert(arith.CmpfOp(x, x, "uno")).result
    bits = b.insert(arith.BitcastOp(convert_float(x, f32, b), i32)).result
    size = b.insert(arith.AndIOp(bits, constant(0x7FFFFFFF, i32, b))).result
    return b.insert(arith.CmpiOp(size, constant(0x7F800000, i32, b), "ugt")).result


def _extreme_float(predicate: str) -> Expansion:
    """The first where ``predicate`` holds or it is NaN; a NaN in the second makes the comparison fail."""

    def write(op: Operation, b: Builder) -> SSAValue:
        x, y = op.operands
        holds = b.insert(arith.CmpfOp(x, y, predicate)).result
        first = b.insert(arith.OrIOp(holds, is_nan(x, b))).result
        return b.insert(arith.SelectOp(first, x, y)).result

    return write


def _constant(op: Operation, b: Builder) -> SSAValue | None:
    """A literal that is not finite from its bits, in a way that no compiler folds before the driver's."""
    assert isinstance(op, arith.ConstantOp)
    if not isinstance(op.value, FloatAttr) or pymath.isfinite(value := op.value.value.data):
        return None
    bits = 0x7FC00000 if pymath.isnan(value) else 0x7F800000 if value > 0 else 0xFF800000
    thread = b.insert(gpu.ThreadIdOp(gpu.DimensionAttr(gpu.DimensionEnum.X))).result
    thread = b.insert(arith.IndexCastOp(thread, i32)).result
    zero = b.insert(arith.ShRUIOp(thread, constant(31, i32, b))).result
    pattern = b.insert(arith.OrIOp(zero, constant(bits, i32, b))).result
    type = op.result.type
    assert isinstance(type, AnyFloat)
    return convert_float(b.insert(arith.BitcastOp(pattern, f32)).result, type, b)


# Integers: signed instructions in terms of unsigned ones, and comparisons.


def _zero(x: SSAValue, b: Builder) -> SSAValue:
    return constant(0, x.type, b)


def _below_zero(x: SSAValue, b: Builder) -> SSAValue:
    return b.insert(arith.CmpiOp(x, _zero(x, b), "slt")).result


def _negated_where(condition: SSAValue, x: SSAValue, b: Builder) -> SSAValue:
    negated = b.insert(arith.SubiOp(_zero(x, b), x)).result
    return b.insert(arith.SelectOp(condition, negated, x)).result


def _size(x: SSAValue, b: Builder) -> SSAValue:
    return _negated_where(_below_zero(x, b), x, b)


def _divide(op: Operation, b: Builder) -> SSAValue | None:
    x, y = op.operands
    if isinstance(x.type, IndexType):
        return None
    quotient = b.insert(arith.DivUIOp(_size(x, b), _size(y, b))).result
    opposite = b.insert(arith.XOrIOp(_below_zero(x, b), _below_zero(y, b))).result
    return _negated_where(opposite, quotient, b)


def _rest(op: Operation, b: Builder) -> SSAValue | None:
    x, y = op.operands
    if isinstance(x.type, IndexType):
        return None
    rest = b.insert(arith.RemUIOp(_size(x, b), _size(y, b))).result
    return _negated_where(_below_zero(x, b), rest, b)


def _extreme(predicate: str) -> Expansion:
    def write(op: Operation, b: Builder) -> SSAValue:
        x, y = op.operands
        return b.insert(arith.SelectOp(b.insert(arith.CmpiOp(x, y, predicate)).result, x, y)).result

    return write


def _of_truth_values(operation: type[arith.AndIOp | arith.OrIOp]) -> Expansion:
    """An extreme of i1 as ``operation``; SPIR-V has those of numbers only."""

    def write(op: Operation, b: Builder) -> SSAValue | None:
        return b.insert(operation(op.operands[0], op.operands[1])).result if op.results[0].type == i1 else None

    return write


def _to_float(op: Operation, b: Builder) -> SSAValue:
    (x,), type = op.operands, op.results[0].type
    assert isinstance(type, AnyFloat)
    size = b.insert(arith.UIToFPOp(_size(x, b), type)).result
    negated = b.insert(arith.NegfOp(size)).result
    return b.insert(arith.SelectOp(_below_zero(x, b), negated, size)).result


def _to_integer(op: Operation, b: Builder) -> SSAValue:
    x, type = Real(op.operands[0], b), op.results[0].type
    assert isinstance(type, IntegerType)
    size = b.insert(arith.FPToUIOp(absolute(x).value, type)).result
    return _negated_where(x.below(0), size, b)


def _extend(op: Operation, b: Builder) -> SSAValue:
    (x,), type = op.operands, op.results[0].type
    assert isinstance(x.type, IntegerType)
    assert isinstance(type, IntegerType)
    # The sign bit moves up: flipping it and taking it away again borrows from all the bits above.
    sign = constant(1 << (x.type.width.data - 1), type, b)
    flipped = b.insert(arith.XOrIOp(b.insert(arith.ExtUIOp(x, type)).result, sign)).result
    return b.insert(arith.SubiOp(flipped, sign)).result


def _shift_right(op: Operation, b: Builder) -> SSAValue:
    x, distance = op.operands
    ones = constant(-1, x.type, b)
    # What comes in from above is copies of the sign: shift in zeros, into the complement of a negative number.
    plain = b.insert(arith.ShRUIOp(x, distance)).result
    complement = b.insert(arith.ShRUIOp(b.insert(arith.XOrIOp(x, ones)).result, distance)).result
    negative = b.insert(arith.XOrIOp(complement, ones)).result
    return b.insert(arith.SelectOp(_below_zero(x, b), negative, plain)).result


_OPPOSITES = {"ueq": "one", "une": "oeq", "ult": "oge", "ule": "ogt", "ugt": "ole", "uge": "olt"}


def _compare(op: Operation, b: Builder) -> SSAValue | None:
    """A comparison that is true with NaN is the negation of the opposite, which is false with it."""
    assert isinstance(op, arith.CmpfOp)
    opposite = _OPPOSITES.get(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data])
    if opposite is None:
        return None
    holds = b.insert(arith.CmpfOp(op.lhs, op.rhs, opposite)).result
    return b.insert(arith.XOrIOp(holds, constant(1, holds.type, b))).result


def _integer_abs(op: Operation, b: Builder) -> SSAValue:
    return _size(op.operands[0], b)


EXPANSIONS: dict[str, Expansion] = {
    "arith.cmpf": _compare,
    "arith.constant": _constant,
    "arith.divsi": _divide,
    "arith.extsi": _extend,
    "arith.fptosi": _to_integer,
    "arith.maximumf": _extreme_float("ogt"),
    "arith.maxsi": _extreme("sgt"),
    "arith.maxui": _of_truth_values(arith.OrIOp),
    "arith.minimumf": _extreme_float("olt"),
    "arith.minsi": _extreme("slt"),
    "arith.minui": _of_truth_values(arith.AndIOp),
    "arith.remf": _remainder,
    "arith.remsi": _rest,
    "arith.shrsi": _shift_right,
    "arith.sitofp": _to_float,
    "math.absi": _integer_abs,
    "math.atan": floats(_atan),
    "math.atan2": floats(_atan2),
    "math.erf": floats(_erf),
    "math.exp2": floats(_exp2),
    "math.powf": floats(power),
    "math.rsqrt": floats(_rsqrt, (f32, f64)),
    "math.tanh": floats(_tanh),
    "math.trunc": floats(_toward_zero),
}
"""By operation name."""
