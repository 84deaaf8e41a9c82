"""Sine, cosine and tangent of any f32 in terms of those of a small angle, exact to the last bit.

An angle is a 24-bit integer times a power of two. Its part beyond whole turns is that integer times the bits of 1/2π
that the power of two leaves behind the point: a product of integers, which no compiler rounds, fuses or reorders.
"""

from __future__ import annotations

import math as pymath

from xdsl.dialects import math
from xdsl.dialects.builtin import f32

from rlx_dialect.lowering.arithmetic import Real
from rlx_dialect.lowering.words import Word

_INVERSE = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EA
"""The first 224 bits behind the point of 1/2π."""

_DIGITS = (0, *(_INVERSE >> 32 * i & 0xFFFFFFFF for i in reversed(range(7))))
_TOP = 0x80000000
_NEAR = 0x3B800000
"""The bits of 2⁻⁸: a smaller angle is its own part of a turn."""
_INFINITE = 0x7F800000


def _high(m: Word, w: Word) -> Word:
    """The bits of m·w from 2³² on, where m is below 2²⁴."""
    low, high = m & 0xFFFF, m.down(16)
    right, left = w & 0xFFFF, w.down(16)
    upper = low * left + (low * right).down(16)
    middle = high * right + (upper & 0xFFFF)
    return high * left + upper.down(16) + middle.down(16)


def _turns(size: Word) -> tuple[Word, Word]:
    """The 64 bits behind the point of |x|/2π, where ``size`` are the bits of an |x| of at least 2⁻⁸."""
    m = (size & 0x7FFFFF) | 0x800000
    # Where the bits of 1/2π begin that count, in the digits with one zero in front.
    place = size.down(23) - 118
    digits = [size.const(d) for d in _DIGITS]
    far, second, first = ((place & bit).differs(0) for bit in (128, 64, 32))
    digits = [*(digits[j + 4].where(far, digits[j]) for j in range(4)), *digits[4:7]]
    digits = [digits[j + 2].where(second, digits[j]) for j in range(5)]
    digits = [digits[j + 1].where(first, digits[j]) for j in range(4)]
    shift = place & 31
    rest = shift.const(31) - shift
    whole, half, last = ((digits[j] << shift) | digits[j + 1].down(1).down(rest) for j in range(3))
    low = m * half
    sum_ = low + _high(m, last)
    carry = size.const(1).where(sum_.below(low), 0)
    return m * whole + _high(m, half) + carry, sum_


def _angle(size: Word, high: Word, low: Word, parts: int) -> tuple[Real, Word, Word]:
    """The angle from the nearest of the 2**``parts`` points of a turn: its size, its sign, and the point's number.

    The sign and the lowest bit of the number are the top bits of words.
    """
    number = (high + (1 << (31 - parts))) << (parts - 1)
    behind, further = (high << parts) | low.down(32 - parts), low << parts
    mask = size.const(0) - behind.down(31)
    unit = pymath.pi / (1 << (parts - 1)) / 2**32
    near = ((behind ^ mask).to_real(f32) + (further ^ mask).to_real(f32) * 2**-32) * unit
    return near, behind, number


def _of_any(value: Real, size: Word) -> Real:
    """``value``, NaN for an angle that is not finite."""
    return value.where(size.below(_INFINITE), pymath.nan)


def _wave(sign: Word, size: Word, ahead: int, of_small: Real) -> Real:
    """The sine, with ``sign``, of |x| and ``ahead`` · 2⁻³² turns; ``of_small`` is the angle for a small x."""
    high, low = _turns(size)
    angle, behind, number = _angle(size, high + ahead, low, 1)
    near = size.below(_NEAR)
    flips = size.const(0).where(near, (behind ^ number) & _TOP)
    angle = of_small.where(near, angle)
    # The sign goes to the sine, not to the angle: compilers' own sines of -0 are 0.
    return _of_any((Word.of(angle.apply(math.SinOp)) ^ flips ^ sign).as_real(f32), size)


def _sizes(x: Real) -> tuple[Word, Word, Real]:
    bits = Word.of(x)
    size = bits & (_TOP - 1)
    return bits & _TOP, size, size.as_real(f32)


def sine(x: Real) -> Real:
    """Of an f32, by the sine of an angle of at most a quarter turn."""
    sign, size, positive = _sizes(x)
    return _wave(sign, size, 0, positive)


def cosine(x: Real) -> Real:
    """Of an f32, by the sine of an angle of at most a quarter turn."""
    sign, size, positive = _sizes(x)
    return _wave(sign.const(0), size, 1 << 30, pymath.pi / 2 + -positive)


def tangent(x: Real) -> Real:
    """Of an f32, by the tangent of an angle of at most an eighth of a turn."""
    sign, size, positive = _sizes(x)
    high, low = _turns(size)
    angle, behind, number = _angle(size, high, low, 2)
    near = size.below(_NEAR)
    flips = size.const(0).where(near, behind & _TOP)
    value = (Word.of(positive.where(near, angle).apply(math.TanOp)) ^ flips ^ sign).as_real(f32)
    odd = size.const(0).where(near, number & _TOP).differs(0)
    return _of_any((-1 / value).where(odd, value), size)
