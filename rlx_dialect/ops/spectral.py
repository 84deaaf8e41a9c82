"""Spectra: the discrete Fourier transform, the peaks of a power spectrum, and log-mel features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, ComplexType, IntegerAttr, TensorType, UnitAttr, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect.attributes import FftNorm, FftNormAttr
from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import Array, is_complex, is_float
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.extents import (
    constant,
    extent_of,
    flattened,
    halves,
    positions,
    split_axis,
    unflattened,
    without_axis,
)
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.fourier import Complex, inverted, transformed
from rlx_dialect.ops.indexing import GatherElementsOp, GatherOp
from rlx_dialect.ops.shape import PadOp
from rlx_dialect.ops.sorting import ArgReduceOp, TopKOp, ordered
from rlx_dialect.shapes import DYNAMIC, ShapeError, compatible, show
from rlx_dialect.xdsl_compat import Builder


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
        """Products with small matrices; see :mod:`.fourier`. Complex numbers are taken apart and put together."""
        points, element, inverse = self.points(), self.element(0), self.inverse is not None
        x = Term(b, self.input)
        if not points:
            return self.as_results(self.input)
        parts = _parts_of_complex(x) if is_complex(element) else _parts_of_blocks(x)
        rows = Complex(flattened(parts.real, 1), flattened(parts.imaginary, 1))
        found = inverted(rows, points) if inverse else transformed(rows, points)
        if (scale := self._scale_term(rows.real)) is not None:
            found = Complex(found.real * scale, found.imaginary * scale)
        if not is_complex(element):
            joined = found.real.concat(1, found.imaginary)
            return self.as_results(unflattened(joined, x, 1).cast(element).value)
        real, imaginary = (unflattened(part, x, 1).cast(element) for part in (found.real, found.imaginary))
        return self.as_results((real + imaginary * constant(x, 1j)).value)

    def _scale_term(self, rows: Term) -> Term | None:
        """The scale of a transform of [rows, N]; None where it is 1."""
        if rows.shape[1] != DYNAMIC:
            scale = self.scale(rows.shape[1])
            return None if scale == 1 else rows.like(scale)
        if self.norm.data is FftNorm.ORTHO:
            return 1.0 / extent_of(rows, 1).cast(rows.element).apply("sqrt")
        is_forward = self.norm.data is FftNorm.FORWARD and self.inverse is not None
        return 1.0 / extent_of(rows, 1).cast(rows.element) if is_forward else None


def _parts_of_blocks(x: Term) -> Complex:
    """A block of real parts and behind it one of imaginary parts; f16 and bf16 as f32."""
    (wide,) = Term.widened(x.b, x.value)
    return Complex(*halves(wide, wide.rank - 1))


def _parts_of_complex(x: Term) -> Complex:
    """A cast of a complex number is its real part."""
    assert isinstance(x.element, ComplexType)
    part = x.element.element_type
    return Complex(x.cast(part), (x * constant(x, -1j)).cast(part))


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

    def known_power(self, b: Builder) -> Term:
        """:meth:`power` where n_fft is known."""
        x, bins = Term(b, self.operands[0]), self.bins()
        real, imaginary = (part.narrow(x.rank - 1, 0, bins) for part in halves(x, x.rank - 1))
        return real * real + imaginary * imaginary


@dataclass(frozen=True)
class _Bins:
    """Real and imaginary parts at n_fft frequencies, of which those up to half the rate count."""

    real: Term
    imaginary: Term

    @classmethod
    def of(cls, b: Builder, spectrum: SSAValue) -> _Bins:
        x = Term(b, spectrum)
        return cls(*halves(x, x.rank - 1))

    @property
    def place(self) -> Term:
        """[n_fft]."""
        return positions(self.real, self.real.rank - 1)

    def count(self) -> Term:
        """n_fft/2 + 1."""
        return extent_of(self.real, self.real.rank - 1).binary("div", 2) + 1

    def power(self, beyond: float = 0.0) -> Term:
        """|X|², and ``beyond`` for frequencies that do not count."""
        power = self.real * self.real + self.imaginary * self.imaginary
        return self.place.compare("lt", self.count()).where(power, beyond)

    def filters(self, filters: Term) -> Term:
        """[n_mels, n_fft/2 + 1] with zeros to n_fft."""
        place, count = self.place, self.count()
        whole = filters.insert(GatherOp(filters.value, place.binary("min", count - 1).value, 1))
        return place.compare("lt", count).where(whole, 0.0)


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
        """Where the number of bins is unknown, ``k`` more than there are can be found, and count as zeros."""
        k, known = self.k.value.data, self.bins() != DYNAMIC
        if known:
            power = self.known_power(b)
            last = constant(power, np.array(self.bins() - 1), i32)
            k = min(k, self.bins())
        else:
            bins = _Bins.of(b, self.spectrum)
            power = bins.power(beyond=-np.inf)
            power = power.insert(PadOp(power.value, [0, 0, 0, k], value=-np.inf))
            last = bins.count() - 1
        place = positions(power, 1)
        single = place.compare("eq", 0) | place.compare("eq", last)
        doubled = single.where(power, power * 2.0)
        mean = split_axis(doubled, 0, [DYNAMIC, self.n_segments.value.data]).mean([1])
        mean = without_axis(mean, 1)
        order = mean.insert(TopKOp(mean.value, k, result_type=TensorType(i32, [mean.shape[0], k])))
        powers = mean.insert(GatherElementsOp(mean.value, order.value, 1))
        found = [order.cast(f32), powers]
        if not known:
            counts = order.compare("le", last)
            found = [counts.where(value, 0.0) for value in found]
        pairs = [value.reshape([-1, k, 1]) for value in found]
        value = pairs[0].concat(2, pairs[1]).reshape([-1, 2 * k])
        if k < self.k.value.data:
            value = value.insert(PadOp(value.value, [0, 0, 0, 2 * (self.k.value.data - k)]))
        return self.as_results(value.value)


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
        filters = Term(b, self.filters)
        if self.bins() == DYNAMIC:
            bins = _Bins.of(b, self.spectrum)
            power, filters = bins.power(), bins.filters(filters)
        else:
            power = self.known_power(b)
        decades = _decades(_product(power, filters.transpose([1, 0])))
        cut = decades.binary("max", decades.reduce("max", [decades.rank - 1]) - MEL_RANGE)
        return self.as_results(((cut + 4.0) / 4.0).value)


def _product(rows: Term, matrix: Term) -> Term:
    """rows·matrix along the last axis, which may be the only one."""
    if rows.rank > 1:
        return rows.insert(MatMulOp(rows.value, matrix.value))
    single = rows.reshape([1, rows.shape[0]])
    return single.insert(MatMulOp(single.value, matrix.value)).reshape([matrix.shape[1]])


def _decades(energy: Term) -> Term:
    """log10 of the energies, at least that of the least."""
    return energy.binary("max", LEAST_MEL).apply("log") * (1 / float(np.log(10)))


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

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        bins, dy = _Bins.of(b, self.spectrum), Term(b, self.dy) / 4.0
        filters = bins.filters(Term(b, self.filters))
        energy = _product(bins.power(), filters.transpose([1, 0]))
        mel, last = _decades(energy), energy.rank - 1
        kept = mel.compare("ge", mel.reduce("max", [last]) - MEL_RANGE)
        passed_on = kept.where(dy.like(0.0), dy).reduce("sum", [last])
        first = mel.insert(ArgReduceOp("max", mel.value, last, keep_dim=True))
        is_first = first.compare("eq", positions(mel, last, first.element))
        d_mel = kept.where(dy, 0.0)
        d_mel = is_first.where(d_mel + passed_on, d_mel)
        slope = d_mel / (energy.binary("max", LEAST_MEL) * float(np.log(10)))
        d_power = _product(energy.compare("gt", LEAST_MEL).where(slope, 0.0), filters)
        counts = bins.place.compare("lt", bins.count())
        parts = [counts.where(part * d_power * 2.0, 0.0) for part in (bins.real, bins.imaginary)]
        return self.as_results(parts[0].concat(last, parts[1]).value)
