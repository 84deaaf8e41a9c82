"""Functions of f32 as arithmetic: loops over them become vector code on CPUs, and no library is called anywhere.

Relative errors against float64 are below 4e-7 in normal numbers (those of :mod:`.expand` and these). Functions of f64
stay calls of a library.
"""

from __future__ import annotations

import math as pymath

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat

from rlx_dialect.lowering.arithmetic import Real
from rlx_dialect.lowering.expansion import Expansion, expm1_by, floats, log1p_by, polynomial
from rlx_dialect.lowering.to_gpu.expand import EXPANSIONS
from rlx_dialect.lowering.words import Word

_MAGIC = 12582912.0
"""1.5·2²³: added to a small number it leaves the nearest integer in the low bits of the sum."""


def _fma(x: Real, y: Real | float, z: Real | float) -> Real:
    return x.apply(math.FmaOp, y, z)


def _nearest(x: Real) -> tuple[Real, Word]:
    """The integer nearest to a number below 2²² as a float and as an integer; NaN gives NaN and any integer."""
    moved = x + _MAGIC
    whole = Word.of(moved) - 0x4B400000
    return moved - _MAGIC, whole


def _power_of_two(exponent: Word, like: Real) -> Real:
    return ((exponent + 127) << 23).as_real(like.value.type)


def _exp(x: Real) -> Real:
    near = x.clip(-104, 89)
    turns, n = _nearest(near * pymath.log2(pymath.e))
    r = _fma(-turns, 0.693359375, near)
    r = _fma(-turns, -2.12194440e-4, r)
    series = (0.5, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
    value = _fma(polynomial(r, series), r * r, r) + 1
    # In two steps: one factor would overflow, or be no normal number, before the product is.
    half = n >> 1
    return value * _power_of_two(half, x) * _power_of_two(n - half, x)


def _log(x: Real) -> Real:
    tiny = x.below(1.17549435e-38)
    bits = Word.of((x * 8388608.0).where(tiny, x))
    exponent = (bits >> 23) - 126
    mantissa = ((bits & 0x7FFFFF) | 0x3F000000).as_real(x.value.type)
    assert isinstance(x.value.type, AnyFloat)
    e = Real(x.b.insert(arith.SIToFPOp(exponent.value, x.value.type)).result, x.b)
    e = (e - 23).where(tiny, e)
    low = mantissa.below(pymath.sqrt(0.5))
    e = (e - 1).where(low, e)
    m = (mantissa + mantissa).where(low, mantissa) - 1
    series = (
        3.3333331174e-1,
        -2.4999993993e-1,
        2.0000714765e-1,
        -1.6668057665e-1,
        1.4249322787e-1,
        -1.2420140846e-1,
        1.1676998740e-1,
        -1.1514610310e-1,
        7.0376836292e-2,
    )
    square = m * m
    rest = _fma(e, -2.12194440e-4, polynomial(m, series) * square * m)
    value = _fma(e, 0.693359375, m + _fma(square, -0.5, rest))
    # Whatever is above zero and not below infinity is infinity or NaN itself.
    value = value.where(x.below(pymath.inf), x)
    return value.where(x.above(0), x.const(-pymath.inf).where(x.equals(0), pymath.nan))


def _sine_and_cosine(x: Real) -> tuple[Real, Real]:
    """Of angles of a few turns."""
    quarters, n = _nearest(x * (2 / pymath.pi))
    r = x
    for part in (1.5707963705062866, -4.371138828673793e-08, -1.7151245100059e-15):
        r = _fma(-quarters, part, r)
    square = r * r
    sine = _fma(polynomial(square, (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)) * square, r, r)
    terms = polynomial(square, (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5))
    cosine = _fma(terms * square, square, _fma(square, -0.5, r.const(1)))
    odd = (n & 1).differs(0)

    def turned(value: Real, other: Real, flips: Word) -> Real:
        chosen = other.where(odd, value)
        return (-chosen).where((flips & 2).differs(0), chosen)

    return turned(sine, cosine, n), turned(cosine, sine, n + 1)


def _sin(x: Real) -> Real:
    return _sine_and_cosine(x)[0]


def _cos(x: Real) -> Real:
    return _sine_and_cosine(x)[1]


def _tan(x: Real) -> Real:
    sine, cosine = _sine_and_cosine(x)
    return sine / cosine


ELEMENTARY: dict[str, Expansion] = {
    **{
        name: EXPANSIONS[name]
        for name in ("math.atan", "math.atan2", "math.erf", "math.exp2", "math.powf", "math.tanh")
    },
    "math.cos": floats(_cos),
    "math.exp": floats(_exp),
    "math.expm1": floats(expm1_by(_exp, _log)),
    "math.log": floats(_log),
    "math.log1p": floats(log1p_by(_log)),
    "math.rsqrt": EXPANSIONS["math.rsqrt"],
    "math.sin": floats(_sin),
    "math.tan": floats(_tan),
}
"""By operation name."""
