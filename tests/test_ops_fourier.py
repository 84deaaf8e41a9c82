"""The decompositions of transforms and of what is made of spectra, of any length, known or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gradients import reals, typed_module
from helpers import decomposed, op_module
from xdsl.dialects.builtin import ComplexType, TensorType, bf16, f32, f64

from rlx_dialect.base import RlxOp, shape_of
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.spectral import FftOp, LogMelBackwardOp, LogMelOp, WelchPeaksOp
from rlx_dialect.shapes import DYNAMIC, product


def in_parts(build: Callable[..., RlxOp], *arrays: Array, element: Any = f32, dynamic: bool = False) -> tuple[Any, Any]:
    """What the decomposition and the whole operation give."""
    given = [round_to(a, element) for a in arrays]
    axes = [range(a.ndim) if dynamic else [0] for a in arrays]
    module = typed_module(build, given, [element] * len(given), axes)
    (name,) = {op.name for op in module.walk() if isinstance(op, RlxOp)}
    values = {f"arg{i}": a for i, a in enumerate(given)}
    return run_reference(decomposed(module, name), values)[0], run_reference(module, values)[0]


# Without factors, products of small ones, of large ones, primes beyond one product, powers of two.
LENGTHS = [1, 2, 7, 12, 64, 67, 96, 521, 600, 1024, 2 * 521, 6144, 65536]


@pytest.mark.parametrize("points", LENGTHS)
@pytest.mark.parametrize(("element", "limit"), [(f32, 4e-6), (f64, 2e-14)])
@pytest.mark.parametrize(("norm", "inverse"), [("forward", True), ("ortho", False)])
def test_fft_of_any_length(points: int, element: Any, limit: float, norm: str, inverse: bool):
    """The error beside the size of the values."""
    x = reals(2, 2 * points)
    found, expected = in_parts(lambda v: FftOp(v, norm=norm, inverse=inverse), x, element=element)
    assert found.dtype == expected.dtype
    size = np.sqrt((expected.astype(float) ** 2).mean())
    np.testing.assert_allclose(found, expected, atol=limit * size, rtol=0)


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
@pytest.mark.parametrize("inverse", [False, True])
def test_fft_of_an_unknown_length(norm: str, inverse: bool):
    for shape in ((2, 3, 40), (40,), (2, 2)):
        found, expected = in_parts(lambda v: FftOp(v, norm=norm, inverse=inverse), reals(*shape), dynamic=True)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_fft_of_nothing_and_of_narrow_floats():
    assert in_parts(FftOp, np.zeros((2, 0)))[0].shape == (2, 0)
    found, expected = in_parts(FftOp, reals(3, 32), element=bf16)
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=8e-3, atol=1e-5)


@pytest.mark.parametrize("inverse", [False, True])
def test_fft_of_complex_numbers(inverse: bool):
    x = (reals(2, 3, 12) + 1j * reals(2, 3, 12, seed=1)).astype(np.complex64)
    for shape in ([2, 3, 12], [DYNAMIC, DYNAMIC, 12], [DYNAMIC] * 3):
        module = op_module(lambda v: FftOp(v, inverse=inverse), TensorType(ComplexType(f32), shape))
        (found,) = run_reference(decomposed(module, "rlx.fft"), {"arg0": x})
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, np.fft.ifft(x) * 12 if inverse else np.fft.fft(x), atol=1e-5)


def test_constants_stay_small():
    module = decomposed(op_module(FftOp, TensorType(f32, [1, 2 << 16])), "rlx.fft")
    sizes = [product(shape_of(op.results[0])) for op in module.walk() if isinstance(op, ConstantOp)]
    assert sum(sizes) < 1 << 16


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("k", "segments", "last"), [(2, 1, 16), (3, 2, 16), (7, 2, 16), (3, 2, 14), (1, 1, 2)])
def test_welch_peaks(dynamic: bool, k: int, segments: int, last: int):
    x = reals(2 * segments, last)
    found, expected = in_parts(lambda v: WelchPeaksOp(v, k=k, n_segments=segments), x, dynamic=dynamic)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 16), (4, 14), (16,)])
def test_log_mel_and_its_gradient(dynamic: bool, shape: tuple[int, ...]):
    filters = np.abs(reals(4, shape[-1] // 4 + 1))
    filters[1] *= 1e-9  # is cut off
    found, expected = in_parts(LogMelOp, reals(*shape), filters, dynamic=dynamic)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    dy = reals(*shape[:-1], 4, seed=3)
    found, expected = in_parts(LogMelBackwardOp, reals(*shape), filters, dy, dynamic=dynamic)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
