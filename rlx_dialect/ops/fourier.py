"""The discrete Fourier transform of any length as products with small matrices.

A length that has factors is split in two, N = A·B: transforms of A points, a turn of each number (a twiddle factor),
and transforms of B points, which are split further. That is n·Σ(factors) multiplications, in matrix products. A long
prime length becomes a convolution of powers of two (Bluestein); an unknown length is one product. Real and imaginary
parts are apart, [rows, N] each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlx_dialect.dtypes import Array
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.extents import constant, extent_of, positions
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.shape import PadOp
from rlx_dialect.shapes import DYNAMIC

LARGEST_FACTOR = 64
"""The most points that one product transforms where the length has factors."""
LARGEST_PRIME = 512
"""The most points that one product transforms where it has none."""
LARGEST_TABLE = 4096
"""Twiddle factors of more numbers are products of two tables."""


@dataclass(frozen=True)
class Complex:
    """Complex numbers as two terms of one shape."""

    real: Term
    imaginary: Term

    def reshape(self, *shape: int) -> Complex:
        return Complex(self.real.reshape(shape), self.imaginary.reshape(shape))

    def transpose(self, *perm: int) -> Complex:
        return Complex(self.real.transpose(perm), self.imaginary.transpose(perm))

    def times(self, factors: Array) -> Complex:
        """Multiplied by complex constants that broadcast."""
        re, im = constant(self.real, np.real(factors)), constant(self.real, np.imag(factors))
        return Complex(self.real * re - self.imaginary * im, self.real * im + self.imaginary * re)

    def conjugate(self) -> Complex:
        return Complex(self.real, -self.imaginary)

    def to_length(self, points: int) -> Complex:
        """The first ``points`` of each row, or zeros behind it."""

        def changed(x: Term) -> Term:
            return x.insert(PadOp(x.value, [0, 0, 0, points - x.shape[1]])) if points != x.shape[1] else x

        return Complex(changed(self.real), changed(self.imaginary))


def turns(numerators: Array, points: int) -> Array:
    """exp(-2πi·numerators/points); ``numerators`` are whole."""
    return np.exp(-2j * np.pi * (numerators % points) / points)


def transformed(x: Complex, points: int) -> Complex:
    """Σ x[n]·exp(-2πi·k·n/N) along the last axis of [rows, N]; both may be unknown."""
    if points == DYNAMIC:
        return _by_unknown_matrix(x)
    if points <= 1:
        return x
    factor = next((f for f in range(LARGEST_FACTOR, 1, -1) if points % f == 0), 1)
    if factor == points or (factor == 1 and points <= LARGEST_PRIME):
        return _by_product(x, points)
    return _split(x, factor, points // factor) if factor > 1 else _by_convolution(x, points)


def inverted(x: Complex, points: int) -> Complex:
    """The same with the exponent's other sign."""
    return transformed(x.conjugate(), points).conjugate()


def _by_product(x: Complex, points: int) -> Complex:
    """Real and imaginary parts side by side, times a real matrix."""
    axis = x.real.rank - 1
    matrix = turns(np.outer(np.arange(points), np.arange(points)), points)
    re, im = np.real(matrix), np.imag(matrix)
    block = np.block([[re, im], [-im, re]])
    both = x.real.concat(axis, x.imaginary)
    product = both.insert(MatMulOp(both.value, constant(both, block).value))
    return Complex(product.narrow(axis, 0, points), product.narrow(axis, points, points))


def _by_unknown_matrix(x: Complex) -> Complex:
    """A product with a matrix of N·N angles that are computed; N may be 46,340, as k·n is an i32."""
    place, count = positions(x.real, 1), extent_of(x.real, 1)
    turn = (place.reshape([-1, 1]) * place.reshape([1, -1])).binary("mod", count).cast(x.real.element)
    angle = turn * (2 * float(np.pi)) / count.cast(x.real.element)
    cosine, sine = angle.apply("cos"), angle.apply("sin")

    def product(part: Term, matrix: Term) -> Term:
        return part.insert(MatMulOp(part.value, matrix.value))

    real = product(x.real, cosine) + product(x.imaginary, sine)
    return Complex(real, product(x.imaginary, cosine) - product(x.real, sine))


def _split(x: Complex, first: int, second: int) -> Complex:
    """Point n = a·second + b, frequency k = c + first·d: over a, then over b."""
    rows = x.real.shape[0]
    by_a = _by_product(x.reshape(rows, first, second).transpose(0, 2, 1), first)  # [rows, b, c]
    turned = _twiddled(by_a, first, second).transpose(0, 2, 1).reshape(-1, second)
    by_b = transformed(turned, second).reshape(rows, first, second)  # [rows, c, d]
    return by_b.transpose(0, 2, 1).reshape(rows, first * second)


def _twiddled(x: Complex, first: int, second: int) -> Complex:
    """[rows, b, c] times exp(-2πi·b·c/(first·second))."""
    points, c = first * second, np.arange(first)
    step = next(s for s in range(int(second**0.5), 0, -1) if second % s == 0) if points > LARGEST_TABLE else 1
    if step == 1:
        return x.times(turns(np.outer(np.arange(second), c), points))
    # b = high·step + low, and the factor is a product of one for each.
    rows = x.real.shape[0]
    high = turns(np.outer(np.arange(second // step) * step, c), points)[:, None]
    low = turns(np.outer(np.arange(step), c), points)
    return x.reshape(rows, second // step, step, first).times(high).times(low).reshape(rows, second, first)


def _by_convolution(x: Complex, points: int) -> Complex:
    """k·n = (k² + n² - (k - n)²)/2: a convolution of x turned by n² with a chirp, by longer transforms."""
    longer = 1 << (2 * points - 2).bit_length()
    n = np.arange(points)
    chirp = turns(n * n, 2 * points)
    kernel = np.zeros(longer, complex)
    kernel[:points] = chirp.conj()
    kernel[longer - points + 1 :] = chirp[1:][::-1].conj()
    spectrum = transformed(x.times(chirp).to_length(longer), longer)
    product = spectrum.times(np.fft.fft(kernel) / longer)
    return inverted(product, longer).to_length(points).times(chirp)
