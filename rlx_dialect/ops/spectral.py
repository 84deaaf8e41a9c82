"""Spectra: the discrete Fourier transform, the peaks of a power spectrum, and log-mel features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, TensorType, UnitAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect.attributes import FftNorm, FftNormAttr
from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import Array, is_complex, is_float, wide_element
from rlx_dialect.ops.constant import ConstantOp, scalar
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.indexing import GatherElementsOp
from rlx_dialect.ops.reduction import ReduceOp, converted
from rlx_dialect.ops.shape import ConcatOp, NarrowOp, PadOp, ReshapeOp, TransposeOp
from rlx_dialect.ops.sorting import TopKOp, ordered
from rlx_dialect.shapes import DYNAMIC, ShapeError, compatible, show
from rlx_dialect.xdsl_compat import Builder

MOST_POINTS_BY_PRODUCT = 512
"""A longer transform is not taken for a matrix product: the matrix would be larger than the text should hold."""


@irdl_op_definition
class FftOp(RlxOp):
    """The discrete Fourier transform along the last axis: X[k] = s · Σ x[n]·exp(∓2πi·k·n/N).

    The exponent is negative, or positive for ``inverse``. Complex operands have N as their last extent. Floats hold N
    complex numbers as a block of N real parts and, behind it, one of N imaginary parts, so 2N. ``norm`` says what s is:
    1 both ways for ``backward``, 1/N for the inverse of ``forward`` (and 1 for the other), 1/√N both ways for
    ``ortho``. The result has the operand's type. Mind that NumPy's names scale otherwise.
    """

    name = "rlx.fft"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    inverse = opt_prop_def(UnitAttr)
    norm = prop_def(FftNormAttr, default_value=FftNormAttr(FftNorm.BACKWARD))
    result = result_def()

    def __init__(self, input: Value, *, inverse: bool = False, norm: FftNorm | str = FftNorm.BACKWARD):
        super().__init__([input], {"inverse": inverse, "norm": norm})

    def points(self) -> int:
        """N, which may be dynamic."""
        shape = self.shape(0)
        if not shape:
            raise ShapeError("operand 'input' must have rank 1 or more, got a scalar")
        if is_complex(self.element(0)) or shape[-1] == DYNAMIC:
            return shape[-1]
        if shape[-1] % 2:
            raise ShapeError(f"the last extent of operand 'input' must be even (real and imaginary), got {show(shape)}")
        return shape[-1] // 2

    def scale(self, points: int) -> float:
        points = max(points, 1)
        match self.norm.data:
            case FftNorm.BACKWARD:
                return 1.0
            case FftNorm.FORWARD:
                return 1.0 / points if self.inverse is not None else 1.0
            case FftNorm.ORTHO:
                return float(points) ** -0.5

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def check(self) -> None:
        if not is_complex(self.element(0)) and not is_float(self.element(0)):
            self.fail(f"operand 'input' must have a float or complex element type, got {self.element(0)}")
        self.points()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x,) = args
        if x.dtype.kind != "c":
            real, imaginary = np.split(x, 2, axis=-1)
            spectrum = self._transformed(real.astype(np.float64) + 1j * imaginary)
            return (np.concatenate([np.real(spectrum), np.imag(spectrum)], axis=-1),)
        return (self._transformed(x),)

    def _transformed(self, x: Array) -> Array:
        points = x.shape[-1]
        if not points:
            return x
        unscaled = np.fft.ifft(x) * points if self.inverse is not None else np.fft.fft(x)
        return unscaled * self.scale(points)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """A product with the matrix of the transform, for floats and few points."""
        points = self.points()
        if is_complex(self.element(0)):
            self.fail("of complex numbers it has no decomposition: split real and imaginary parts")
        if points == DYNAMIC or points > MOST_POINTS_BY_PRODUCT:
            self.fail(f"it has a decomposition for at most {MOST_POINTS_BY_PRODUCT} points, known before")
        sign = 1 if self.inverse is not None else -1
        turns = np.outer(np.arange(points), np.arange(points)) % points
        angles = sign * 2 * np.pi * turns / points
        cos, sin = np.cos(angles) * self.scale(points), np.sin(angles) * self.scale(points)
        matrix = np.block([[cos, sin], [-sin, cos]])
        wide = wide_element(self.element(0))
        weight = b.insert(ConstantOp.of(matrix, TensorType(wide, matrix.shape))).result
        x = converted(b, self.input, wide)
        is_vector = len(self.shape(0)) == 1
        rows = b.insert(ReshapeOp(x, [1, 2 * points])).result if is_vector else x
        value = b.insert(MatMulOp(rows, weight)).result
        if is_vector:
            value = b.insert(ReshapeOp(value, [2 * points])).result
        return self.as_results(converted(b, value, self.element(0)))


class SpectrumOp(RlxOp):
    """Base: operand 0 is an f32 spectrum [..., 2·n_fft], real parts in front of imaginary ones, as of FftOp."""

    def n_fft(self) -> int:
        """May be dynamic."""
        last = self.shape(0)[-1] if self.shape(0) else 1
        if last != DYNAMIC and (last % 2 or not last):
            raise ShapeError(f"{self.operand_name(0)} must have an even last extent, got {show(self.shape(0))}")
        return last if last == DYNAMIC else last // 2

    def bins(self) -> int:
        """The number of frequencies from 0 to half the rate; may be dynamic."""
        return self.n_fft() if self.n_fft() == DYNAMIC else self.n_fft() // 2 + 1

    def check_f32(self) -> None:
        for index in range(len(self.operands)):
            if self.element(index) != f32:
                self.fail(f"{self.operand_name(index)} must have element type f32, got {self.element(index)}")

    def power(self, spectrum: Array) -> Array:
        """|X|² of the frequencies from 0 to half the rate."""
        real, imaginary = np.split(spectrum, 2, axis=-1)
        bins = real.shape[-1] // 2 + 1
        return (real * real + imaginary * imaginary)[..., :bins]

    def insert_power(self, b: Builder) -> SSAValue:
        """The operations of :meth:`power`; n_fft must be known."""
        axis, n_fft, bins = len(self.shape(0)) - 1, self.n_fft(), self.bins()
        if n_fft == DYNAMIC:
            self.fail("it has a decomposition for a known last extent only")
        parts = [b.insert(NarrowOp(self.operands[0], axis, start, bins)).result for start in (0, n_fft)]
        squares = [b.insert(BinaryOp("mul", part, part)).result for part in parts]
        return b.insert(BinaryOp("add", *squares)).result


@irdl_op_definition
class WelchPeaksOp(SpectrumOp):
    """The ``k`` strongest frequencies of averaged power spectra: [batch·n_segments, 2·n_fft] → [batch, 2·k].

    Per batch, the one-sided power (|X|², twice for every bin but the first and the last) is averaged over its
    ``n_segments`` rows. Results are pairs (bin, power), the strongest first, of equal ones the lower bin. Where k
    exceeds the n_fft/2 + 1 bins, the pairs that are left are zeros; RLX leaves them undefined.
    """

    name = "rlx.welch_peaks"
    spectrum = operand_def()
    k = prop_def(IntegerAttr[I64])
    n_segments = prop_def(IntegerAttr[I64])
    result = result_def()

    def __init__(self, spectrum: Value, *, k: int, n_segments: int):
        super().__init__([spectrum], {"k": k, "n_segments": n_segments})

    def infer_types(self) -> tuple[Attribute, ...]:
        if len(self.shape(0)) != 2:
            raise ShapeError(f"operand 'spectrum' must have rank 2, got {show(self.shape(0))}")
        rows, segments = self.shape(0)[0], self.n_segments.value.data
        if segments < 1 or self.k.value.data < 1:
            raise ShapeError(f"k and n_segments must be positive, got {self.k.value.data} and {segments}")
        if rows != DYNAMIC and rows % segments:
            raise ShapeError(f"{rows} rows are not divisible by n_segments {segments}")
        self.n_fft()
        return (self.like(0, (rows if rows == DYNAMIC else rows // segments, 2 * self.k.value.data)),)

    def check(self) -> None:
        self.check_f32()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        power = self.power(args[0])
        bins, k = power.shape[-1], self.k.value.data
        weights = np.full(bins, 2, power.dtype)
        weights[[0, -1]] = 1
        mean = (power * weights).reshape(-1, self.n_segments.value.data, bins).mean(axis=1)
        order = ordered(mean, -1, descending=True)[:, :k]
        result = np.zeros((len(mean), 2 * k), power.dtype)
        result[:, 0 : 2 * order.shape[1] : 2] = order
        result[:, 1 : 2 * order.shape[1] : 2] = np.take_along_axis(mean, order, axis=1)
        return (result,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        power, bins = self.insert_power(b), self.bins()
        segments, k = self.n_segments.value.data, min(self.k.value.data, bins)
        weights = np.full(bins, 2.0)
        weights[[0, -1]] = 1.0
        doubled = b.insert(BinaryOp("mul", power, b.insert(ConstantOp.of(weights, TensorType(f32, (bins,)))))).result
        grouped = b.insert(ReshapeOp(doubled, [-1, segments, bins])).result
        mean = b.insert(ReduceOp("mean", grouped, [1])).result
        order = b.insert(TopKOp(mean, k)).result
        powers = b.insert(GatherElementsOp(mean, order, 1)).result
        pairs = [b.insert(ReshapeOp(v, [-1, k, 1])).result for v in (converted(b, order, f32), powers)]
        value = b.insert(ReshapeOp(b.insert(ConcatOp(pairs, 2)), [-1, 2 * k])).result
        if k < self.k.value.data:
            value = b.insert(PadOp(value, [0, 0, 0, 2 * (self.k.value.data - k)])).result
        return self.as_results(value)


LEAST_MEL = 1e-10
MEL_RANGE = 8.0
"""What lies this many decades below the largest value of its row is cut off."""


@irdl_op_definition
class LogMelOp(SpectrumOp):
    """Log-mel features: spectrum [..., 2·n_fft], filters [n_mels, n_fft/2 + 1] → [..., n_mels], all f32.

    v = log10(max(filters · |X|², 1e-10)), then (max(v, largest v of the row - 8) + 4)/4, as Whisper takes them.
    """

    name = "rlx.log_mel"
    spectrum = operand_def()
    filters = operand_def()
    result = result_def()

    def __init__(self, spectrum: Value, filters: Value):
        super().__init__([spectrum, filters])

    def infer_types(self) -> tuple[Attribute, ...]:
        filters = self.shape(1)
        if not self.shape(0) or len(filters) != 2 or not compatible(filters[1:], (self.bins(),)):
            raise ShapeError(
                f"operands 'spectrum' and 'filters' must have shapes [..., 2*n_fft] and [n_mels, n_fft/2+1], got "
                f"{show(self.shape(0))} and {show(filters)}"
            )
        return (self.like(0, (*self.shape(0)[:-1], filters[0])),)

    def check(self) -> None:
        self.check_f32()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        spectrum, filters = args
        mel = np.log10(np.maximum(np.matmul(self.power(spectrum), filters.T), np.float32(LEAST_MEL)))
        floor = mel.max(axis=-1, keepdims=True) - np.float32(MEL_RANGE)
        return ((np.maximum(mel, floor) + 4) / 4,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        def binary(kind: str, lhs: SSAValue, rhs: SSAValue | float) -> SSAValue:
            other = rhs if isinstance(rhs, SSAValue) else scalar(b, rhs, f32)
            return b.insert(BinaryOp(kind, lhs, other)).result

        power, last = self.insert_power(b), len(self.shape(0)) - 1
        is_vector = last == 0
        rows = b.insert(ReshapeOp(power, [1, self.bins()])).result if is_vector else power
        mel = b.insert(MatMulOp(rows, b.insert(TransposeOp(self.filters, [1, 0])))).result
        if is_vector:
            mel = b.insert(ReshapeOp(mel, [-1])).result
        natural = b.insert(ActivationOp("log", binary("max", mel, LEAST_MEL))).result
        decades = binary("mul", natural, 1 / float(np.log(10)))
        largest = b.insert(ReduceOp("max", decades, [last], keep_dim=True)).result
        cut = binary("max", decades, binary("sub", largest, MEL_RANGE))
        return self.as_results(binary("div", binary("add", cut, 4.0), 4.0))


@irdl_op_definition
class LogMelBackwardOp(SpectrumOp):
    """The gradient of :class:`LogMelOp` for its spectrum: spectrum, filters, dy [..., n_mels] → like spectrum.

    What is cut off passes its gradient on to the largest value of its row, the first of equal ones.
    """

    name = "rlx.log_mel_backward"
    spectrum = operand_def()
    filters = operand_def()
    dy = operand_def()
    result = result_def()

    def __init__(self, spectrum: Value, filters: Value, dy: Value):
        super().__init__([spectrum, filters, dy])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.spectrum.type,)

    def check(self) -> None:
        self.check_f32()
        filters = self.shape(1)
        if not self.shape(0) or len(filters) != 2 or not compatible(filters[1:], (self.bins(),)):
            self.fail(f"operand 'filters' must have shape [n_mels, n_fft/2+1], got {show(filters)}")
        self.check_shape(2, (*self.shape(0)[:-1], filters[0]))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        spectrum, filters, dy = (a.astype(np.float64) for a in args)
        energy = np.matmul(self.power(spectrum), filters.T)
        mel = np.log10(np.maximum(energy, LEAST_MEL))
        floor = mel.max(axis=-1, keepdims=True) - MEL_RANGE
        kept = mel >= floor
        d_mel = np.where(kept, dy / 4, 0)
        first = mel.argmax(axis=-1)[..., None]
        passed_on = np.where(kept, 0, dy / 4).sum(axis=-1, keepdims=True)
        np.put_along_axis(d_mel, first, np.take_along_axis(d_mel, first, -1) + passed_on, -1)
        d_energy = np.where(energy > LEAST_MEL, d_mel / (np.maximum(energy, LEAST_MEL) * np.log(10)), 0)
        d_power = np.matmul(d_energy, filters)
        result = np.zeros_like(spectrum)
        n_fft, bins = spectrum.shape[-1] // 2, d_power.shape[-1]
        for start in (0, n_fft):
            result[..., start : start + bins] = 2 * spectrum[..., start : start + bins] * d_power
        return (result,)
