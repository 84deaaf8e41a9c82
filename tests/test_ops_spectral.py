"""rlx.fft, rlx.welch_peaks, rlx.log_mel and its gradient, against NumPy's transform and written-out formulas."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_round_trip, decomposed, op_module, run_op
from xdsl.dialects.builtin import ComplexType, TensorType, bf16, f16, f32, f64
from xdsl.ir import Attribute

from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.spectral import FftOp, LogMelBackwardOp, LogMelOp, WelchPeaksOp
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import VerifyException

RNG = np.random.default_rng(0)


def blocks(spectrum: Array) -> Array:
    return np.concatenate([spectrum.real, spectrum.imag], axis=-1)


def complex_of(x: Array) -> Array:
    real, imaginary = np.split(x, 2, axis=-1)
    return real + 1j * imaginary


def assert_decomposes(op: RlxOp, tolerance: float = 1e-5) -> None:
    module = op_module(
        lambda *args: type(op).create(operands=args, result_types=op.result_types, properties=op.properties),
        *op.operand_types,
    )
    values = random_values(module)
    parts = run_reference(decomposed(module, op.name), values)
    np.testing.assert_allclose(parts[0], run_reference(module, values)[0], rtol=tolerance, atol=tolerance)


def argument(shape: tuple[int, ...], element: Attribute = f32) -> RlxOp:
    from rlx_dialect.ops.constant import ConstantOp

    return ConstantOp.of(0.0, TensorType(element, shape))


@pytest.mark.parametrize(
    ("norm", "inverse", "scale"),
    [
        ("backward", False, 1),
        ("backward", True, 1),
        ("forward", False, 1),
        ("forward", True, 1 / 5),
        ("ortho", False, 5**-0.5),
        ("ortho", True, 5**-0.5),
    ],
)
def test_fft(norm: str, inverse: bool, scale: float):
    x = RNG.standard_normal((3, 2, 10))
    transform = (lambda v: np.fft.ifft(v) * 5) if inverse else np.fft.fft
    (y,) = run_op(lambda v: FftOp(v, norm=norm, inverse=inverse), x)
    np.testing.assert_allclose(y, blocks(transform(complex_of(x))) * scale, atol=1e-12)
    for element in (f32, f16, bf16, f64):
        assert_decomposes(
            FftOp(argument((3, 10), element), norm=norm, inverse=inverse), 1e-1 if element == bf16 else 1e-2
        )
    assert_decomposes(FftOp(argument((10,)), norm=norm, inverse=inverse))


def test_fft_of_complex_numbers():
    module = op_module(FftOp, TensorType(ComplexType(f32), (2, 6)))
    assert_round_trip(module)
    x = (RNG.standard_normal((2, 6)) + 1j * RNG.standard_normal((2, 6))).astype(np.complex64)
    np.testing.assert_allclose(run_reference(module, {"arg0": x})[0], np.fft.fft(x), rtol=1e-5, atol=1e-5)


def test_an_inverse_undoes_a_transform():
    x = RNG.standard_normal((4, 14)).astype(np.float32)
    (y,) = run_op(lambda v: FftOp(v, norm="ortho"), x)
    (back,) = run_op(lambda v: FftOp(v, norm="ortho", inverse=True), y)
    np.testing.assert_allclose(back, x, atol=1e-6)


def test_fft_is_verified():
    with pytest.raises(VerifyException, match="must be even"):
        op_module(FftOp, TensorType(f32, (2, 5)))


@pytest.mark.parametrize(("k", "segments"), [(2, 1), (3, 2), (5, 3), (7, 2)])
def test_welch_peaks(k: int, segments: int):
    x = RNG.standard_normal((2 * segments, 16)).astype(np.float32)
    (y,) = run_op(lambda v: WelchPeaksOp(v, k=k, n_segments=segments), x)
    power = np.abs(complex_of(x)[:, :5]) ** 2 * np.array([1, 2, 2, 2, 1])
    mean = power.reshape(2, segments, 5).mean(axis=1)
    for row, pairs in zip(mean, y.reshape(2, k, 2), strict=True):
        order = sorted(range(5), key=lambda i: -row[i])[:k]
        np.testing.assert_array_equal(pairs[: len(order), 0], order)
        np.testing.assert_allclose(pairs[: len(order), 1], row[order], rtol=1e-5)
        assert (pairs[len(order) :] == 0).all()
    assert_decomposes(WelchPeaksOp(argument((2 * segments, 16)), k=k, n_segments=segments))


def test_equal_peaks_keep_their_order():
    (y,) = run_op(lambda v: WelchPeaksOp(v, k=3, n_segments=1), np.ones((1, 16), np.float32))
    np.testing.assert_array_equal(y, [[1, 4, 2, 4, 3, 4]])


@pytest.mark.parametrize(
    ("shape", "element", "k", "segments", "says"),
    [
        ((4, 16), f64, 2, 2, "must have element type f32"),
        ((4, 4, 16), f32, 2, 2, "must have rank 2"),
        ((4, 15), f32, 2, 2, "even last extent"),
        ((4, 16), f32, 2, 3, "not divisible by n_segments 3"),
        ((4, 16), f32, 0, 2, "must be positive"),
        ((4, 16), f32, 2, 0, "must be positive"),
    ],
)
def test_welch_peaks_is_verified(shape: tuple[int, ...], element: Attribute, k: int, segments: int, says: str):
    with pytest.raises(VerifyException, match=says):
        op_module(lambda v: WelchPeaksOp(v, k=k, n_segments=segments), TensorType(element, shape))


def log_mel(x: Array, filters: Array) -> Array:
    energy = (np.abs(complex_of(x)[..., : filters.shape[1]]) ** 2) @ filters.T
    v = np.log10(np.maximum(energy, 1e-10))
    return (np.maximum(v, v.max(axis=-1, keepdims=True) - 8) + 4) / 4


def test_log_mel():
    x, filters = RNG.standard_normal((2, 3, 16)).astype(np.float32), RNG.random((4, 5)).astype(np.float32)
    filters[1] *= 1e-9  # is cut off
    (y,) = run_op(LogMelOp, x, filters)
    np.testing.assert_allclose(y, log_mel(x.astype(np.float64), filters), rtol=1e-5)
    assert_decomposes(LogMelOp(argument((2, 3, 16)), argument((4, 5))), 1e-4)
    assert_decomposes(LogMelOp(argument((16,)), argument((4, 5))), 1e-4)
    with pytest.raises(VerifyException, match=r"must have shapes \[\.\.\., 2\*n_fft\] and \[n_mels, n_fft/2\+1\]"):
        op_module(LogMelOp, TensorType(f32, (2, 16)), TensorType(f32, (4, 6)))


def test_log_mel_backward():
    """Against central differences of the formula in float64."""
    x, filters = RNG.standard_normal((2, 12)), RNG.random((3, 4)).astype(np.float32).astype(np.float64)
    filters[1] *= 1e-9
    dy = RNG.standard_normal((2, 3))
    expected = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        expected[index] = (dy * (log_mel(x + step, filters) - log_mel(x - step, filters))).sum() / 2e-6
    (found,) = run_op(LogMelBackwardOp, *(a.astype(np.float32) for a in (x, filters, dy)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
