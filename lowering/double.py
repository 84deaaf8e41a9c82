"""Functions of f64 as arithmetic, for compilers that link no mathematical library.

Relative errors are below 1e-15, next to zeros of sine, cosine and tangent absolute ones (of angles up to π, what the
lowering makes of any angle). A remainder is exact for quotients up to 2¹⁵⁰. The coefficients of erf interpolate it, and
exp(x²)·erfc(x), at Chebyshev nodes; those of sine and cosine are the series'.
"""

from __future__ import annotations

import math as pymath

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f64

from rlx_dialect.lowering.arithmetic import Real
from rlx_dialect.lowering.expansion import Expansion, absolute, expm1_by, floats, log1p_by, polynomial, power
from rlx_dialect.lowering.words import Word

_ERF_OVER_X = (
    0.9654687386698673,
    -0.1405360890227171,
    0.019852496688983708,
    -0.0022854855611440673,
    0.00021751715604160108,
    -1.7537169441492004e-05,
    1.2233827383524026e-06,
    -7.511569160710623e-08,
    4.115800597661665e-09,
    -2.03524938661036e-10,
    9.167606748998164e-12,
    -3.7910973708931526e-13,
    1.4548169783352384e-14,
    -5.16472878942302e-16,
)
"""Of u = 2x² - 1, for x up to 1."""
_SCALED_ERFC = (
    0.20798329133342885,
    -0.15436117429436919,
    0.0496984454033948,
    -0.012713147695691882,
    0.0024793146970723628,
    -0.00033160296058004277,
    1.9563583309132925e-05,
    2.4255574911462065e-06,
    -5.541277487648519e-07,
    -4.526756002629514e-09,
    1.134027754217536e-08,
    -2.6372324341513366e-10,
    -2.58128350356423e-10,
    5.9582591697128994e-12,
    6.750056749977652e-12,
    4.782900811412554e-14,
    -1.877404574970309e-13,
    -1.1921620638320016e-14,
    4.871945116213172e-15,
    7.417111508185768e-16,
    -9.064290322381717e-17,
    -2.806491022136404e-17,
)
"""Of w = 12/5·((x - 3)/(x + 3) + 1/12), for x from 1 to 6; beyond, erf is 1 to the last bit."""
_SINE = tuple((-1.0) ** k / pymath.factorial(2 * k + 1) for k in range(10))
_COSINE = tuple((-1.0) ** k / pymath.factorial(2 * k) for k in range(10))
_ARC_TANGENT = tuple((-1.0) ** k / (2 * k + 1) for k in range(13))
_QUARTER_TURN = (pymath.pi / 2, 6.123233995736766e-17, -1.4973849048591833e-33)
"""π/2 as a sum."""
_EXPONENTIAL = tuple(1 / pymath.factorial(k) for k in range(14))
_LOGARITHM = tuple(2 / (2 * k + 3) for k in range(11))
_LOG_2 = (0.693147180369123816490, 1.90821492927058770002e-10)
"""log 2 as a sum; the first part times any exponent is exact."""
_MAGIC, _MAGIC_BITS = 1.5 * 2.0**52, 0x4338000000000000
"""Added to a small number, this leaves the nearest integer in the low bits of the sum."""


def _with_sign_of(value: Real, x: Real) -> Real:
    return value.apply(math.CopySignOp, x)


def _erf(x: Real) -> Real:
    size = absolute(x)
    # NaN stays NaN through both clips, which keep the exponential of a huge number out of it.
    low, high = size.min(1), size.clip(1, 6)
    near = low * polynomial(2 * (low * low) - 1, _ERF_OVER_X)
    place = ((high - 3) / (high + 3) + 1 / 12) * (12 / 5)
    far = 1 + -((-(high * high)).apply(math.ExpOp) * polynomial(place, _SCALED_ERFC))
    return _with_sign_of(far.where(size.above(1), near), x)


def _tanh(x: Real) -> Real:
    less = (-2 * absolute(x)).apply(math.ExpM1Op)
    return _with_sign_of(-less / (less + 2), x)


def _atan(x: Real) -> Real:
    size = absolute(x)
    steep = size.above(1)
    slope = (1 / size).where(steep, size)
    for _ in range(2):  # tan(a/2) of tan a
        slope = slope / (1 + (1 + slope * slope).apply(math.SqrtOp))
    angle = 4 * (slope * polynomial(slope * slope, _ARC_TANGENT))
    return _with_sign_of((pymath.pi / 2 + -angle).where(steep, angle), x)


def _sine_and_cosine(x: Real) -> tuple[Real, Real]:
    quarters = (x * (2 / pymath.pi)).apply(math.RoundEvenOp)
    rest = x
    for part in _QUARTER_TURN:
        rest = (-quarters).apply(math.FmaOp, part, rest)
    square = rest * rest
    sine, cosine = rest * polynomial(square, _SINE), polynomial(square, _COSINE)
    # Of four quarters the odd ones swap the two, and the later two change signs.
    half = quarters * 0.5
    odd = half.apply(math.FloorOp).differs(half)

    def turned(value: Real, other: Real, count: Real) -> Real:
        quarter = count * 0.25
        late = (quarter + -quarter.apply(math.FloorOp)).above(0.375)
        chosen = other.where(odd, value)
        return (-chosen).where(late, chosen)

    return turned(sine, cosine, quarters), turned(cosine, sine, quarters + 1)


def _tan(x: Real) -> Real:
    sine, cosine = _sine_and_cosine(x)
    return sine / cosine


def _exp(x: Real) -> Real:
    near = x.clip(-746, 710)
    moved = near * pymath.log2(pymath.e) + _MAGIC
    turns, n = moved - _MAGIC, Word.of(moved) - _MAGIC_BITS
    rest = near
    for part in _LOG_2:
        rest = (-turns).apply(math.FmaOp, part, rest)
    # In two steps: one factor would overflow, or be no normal number, before the product is.
    half = n >> 1
    return polynomial(rest, _EXPONENTIAL) * _power_of_two(half) * _power_of_two(n - half)


def _power_of_two(exponent: Word) -> Real:
    return ((exponent + 1023) << 52).as_real(f64)


def _log(x: Real) -> Real:
    tiny = x.below(2.0**-1022)
    bits = Word.of((x * 2.0**54).where(tiny, x))
    mantissa = ((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000).as_real(f64)
    exponent = ((bits >> 52).to_real(f64) - 1022) - x.const(54).where(tiny, 0)
    low = mantissa.below(pymath.sqrt(0.5))
    exponent = exponent - x.const(1).where(low, 0)
    # From sqrt(1/2) to sqrt(2), log(1 + f) = f - (f²/2 - s·(f²/2 + r)) of s = f/(2 + f) loses no digits near 1.
    f = (mantissa + mantissa).where(low, mantissa) - 1
    s, half = f / (f + 2), 0.5 * (f * f)
    rest = s * s * polynomial(s * s, _LOGARITHM)
    value = f - (half - (s * (half + rest) + exponent * _LOG_2[1])) + exponent * _LOG_2[0]
    # Whatever is above zero and not below infinity is infinity or NaN itself.
    value = value.where(x.below(pymath.inf), x)
    return value.where(x.above(0), x.const(-pymath.inf).where(x.equals(0), pymath.nan))


def _remainder(x: Real, y: Real) -> Real:
    size, divisor = absolute(x), absolute(y)
    rest = size
    for _ in range(3):
        # A quotient has 53 bits: what it is off by is left, as a smaller multiple, for the next round.
        rest = (-(rest / divisor).apply(math.FloorOp)).apply(math.FmaOp, divisor, rest)
    rest = (rest + divisor).where(rest.below(0), rest)
    # Nothing finite is a multiple of infinity.
    finite = x.b.insert(arith.AndIOp(size.below(pymath.inf), divisor.equals(pymath.inf))).result
    return _with_sign_of(size.where(finite, rest), x)


DOUBLES: dict[str, Expansion] = {
    name: floats(formula, (f64,))
    for name, formula in {
        "arith.remf": _remainder,
        "math.atan": _atan,
        "math.cos": lambda x: _sine_and_cosine(x)[1],
        "math.erf": _erf,
        "math.sin": lambda x: _sine_and_cosine(x)[0],
        "math.tan": _tan,
        "math.tanh": _tanh,
    }.items()
}
"""By operation name; those of other floats stay."""

WITHOUT_LIBRARY: dict[str, Expansion] = DOUBLES | {
    name: floats(formula, (f64,))
    for name, formula in {
        "math.exp": _exp,
        "math.expm1": expm1_by(_exp, _log),
        "math.log": _log,
        "math.log1p": log1p_by(_log),
        "math.powf": power,
    }.items()
}
"""Those too that compilers for CPUs have. A power has the errors of its logarithm times its exponent."""
