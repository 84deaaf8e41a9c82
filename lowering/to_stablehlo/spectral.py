"""The discrete Fourier transform, which XLA has."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_complex
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, declines, lowers
from rlx_dialect.lowering.to_stablehlo.dialect import FftTypeAttr
from rlx_dialect.lowering.to_stablehlo.tensors import Tensors, ints
from rlx_dialect.ops.spectral import FftOp
from rlx_dialect.shapes import DYNAMIC


@declines(FftOp)
def unknown_length(op: FftOp) -> str | None:
    return "the number of points is unknown" if op.points() == DYNAMIC else None


@lowers(FftOp)
def fft(op: FftOp, c: Conversion) -> SSAValue:
    points, element = op.points(), op.element(0)
    if points == 0:
        return op.input
    if is_complex(element):
        return _transformed(op, c, op.input)
    x, axis = c.widened(op.input), len(op.shape(0)) - 1
    real, imaginary = (c.narrow(x, axis, start, points) for start in (0, points))
    spectrum = _transformed(op, c, c.complex(real, imaginary))
    joined = c.concat([c.part("real", spectrum), c.part("imag", spectrum)], axis)
    return c.convert(joined, element)


def _transformed(op: FftOp, c: Tensors, x: SSAValue) -> SSAValue:
    points, inverse = op.points(), op.inverse is not None
    kind = FftTypeAttr.of("IFFT" if inverse else "FFT")
    value = c.made("fft", [x], element_of(x), c.extents(x), fft_type=kind, fft_length=ints([points]))
    # StableHLO's inverse is divided by the number of points.
    scale = op.scale(points) * (points if inverse else 1)
    return value if scale == 1 else c.same("multiply", value, c.like(value, scale))
