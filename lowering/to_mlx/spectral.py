"""Spectra. MLX transforms complex64, so f64 keeps the precision of f32 alone and is left to the decomposition."""

from __future__ import annotations

from rlx_dialect.dtypes import is_complex
from rlx_dialect.lowering.to_mlx.conversion import declines, lowers
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64
from rlx_dialect.ops.spectral import FftOp, LogMelBackwardOp, LogMelOp, WelchPeaksOp
from rlx_dialect.shapes import DYNAMIC


@lowers(FftOp)
def fft(op: FftOp, w: Writer) -> str:
    helper = "fft" if is_complex(op.element(0)) else "split_fft"
    points = op.points()
    if points == 0:
        return w.value(op.input)
    x, inverse = w.wide(op.input), op.inverse is not None
    scale = repr(op.scale(points))
    if points == DYNAMIC:
        extent = w.extent(op.input, len(op.shape(0)) - 1)
        count = extent if is_complex(op.element(0)) else f"({extent} // 2)"
        scale = {1.0: "1.0", 0.25: f"1 / {count}", 0.5: f"{count} ** -0.5"}[op.scale(4)]
    return w.narrowed(w.call(helper, x, inverse, scale), op.element(0))


@declines(FftOp)
def _fft_of_f64(op: FftOp) -> str | None:
    return "MLX transforms in float32" if is_f64(op.input) else None


@lowers(WelchPeaksOp)
def welch_peaks(op: WelchPeaksOp, w: Writer) -> str:
    return w.call("welch_peaks", w.value(op.spectrum), op.k.value.data, op.n_segments.value.data)


@lowers(LogMelOp)
def log_mel(op: LogMelOp, w: Writer) -> str:
    return w.call("log_mel", *w.values(op.operands))


@lowers(LogMelBackwardOp)
def log_mel_backward(op: LogMelBackwardOp, w: Writer) -> str:
    return w.call("log_mel_backward", *w.values(op.operands))
