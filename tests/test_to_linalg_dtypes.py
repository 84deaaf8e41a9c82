"""Element types and unknown extents that need care: f64 functions, complex numbers, index; widths of run time."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import built, compare, with_edges

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.lowering.double import WITHOUT_LIBRARY
from rlx_dialect.ops.contraction import FusedSwiGLUOp, MatMulOp
from rlx_dialect.ops.convolution import ConvOp, PoolOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.reduction import SoftmaxOp
from rlx_dialect.ops.shape import TransposeOp
from rlx_dialect.runtime import iree_form

DOUBLES = ("gelu", "gelu_approx", "tanh", "sin", "cos", "tan", "atan", "erf", "mish")


def test_functions_of_f64_to_the_last_digits():
    module = built(
        {"x": "tensor<257xf64>", "y": "tensor<257xf64>"},
        lambda x, y: [
            *(ActivationOp(ActivationKind(kind), x) for kind in DOUBLES),
            *(BinaryOp(kind, x, y) for kind in (BinaryKind.MOD, BinaryKind.ATAN2)),
        ],
    )
    compare(module, rtol=1e-13, atol=1e-15)


def test_f64_edges():
    module = built({"x": "tensor<64xf64>"}, lambda x: [ActivationOp(k, x) for k in ("tanh", "erf", "atan")])
    with_edges(module, rtol=1e-13, atol=1e-15)


def test_f64_where_no_function_is_called(monkeypatch: pytest.MonkeyPatch):
    """What AMD's kernels compute with, as IREE computes it."""
    monkeypatch.setattr(iree_form, "DOUBLES", WITHOUT_LIBRARY)
    module = built(
        {"x": "tensor<257xf64>", "y": "tensor<257xf64>"},
        lambda x, y: [
            *(ActivationOp(ActivationKind(k), x) for k in ("exp", "log", "elu", "softplus", "tanh", "sigmoid")),
            BinaryOp(BinaryKind.POW, x, y),
        ],
    )
    # A logarithm's rounding is multiplied by the exponent.
    with_edges(module, rtol=2e-13, atol=1e-15)
    x = np.concatenate([np.linspace(-750, 720, 200), np.geomspace(2.3e-308, 1.7e308, 57)])
    compare(module, {"x": x, "y": np.linspace(-3, 3, 257)}, rtol=2e-13, atol=1e-15)


@pytest.mark.parametrize("shape", ["2x3x4", "?x?x?"])
def test_transpositions_of_complex_numbers(shape: str):
    module = built({"x": f"tensor<{shape}xcomplex<f32>>"}, lambda x: [TransposeOp(x, [2, 0, 1])])
    numbers = np.random.default_rng(0).standard_normal((2, 3, 4, 2))
    compare(module, {"x": (numbers[..., 0] + 1j * numbers[..., 1]).astype(np.complex64)})


def test_extents_of_run_time():
    rng = np.random.default_rng(0)
    module = built(
        {
            "p": "tensor<2x?xf32>",
            "x": "tensor<2x?x9x8xf32>",
            "w": "tensor<?x?x3x3xf32>",
            "i": "tensor<2x3x?x?xf32>",
            "s": "tensor<2x?x?xf32>",
            "t": "tensor<2x?x?xf32>",
        },
        lambda p, x, w, i, s, t: [
            FusedSwiGLUOp(p),
            ConvOp(x, w, groups=2, padding=[1, 1, 1, 1]),
            PoolOp("mean", i, [3, 2], stride=[2, 1], padding=[1, 1, 1, 0]),
            weights := SoftmaxOp(s),
            MatMulOp(weights.result, t),
        ],
    )
    shapes = {"p": (2, 10), "x": (2, 6, 9, 8), "w": (4, 3, 3, 3), "i": (2, 3, 7, 5), "s": (2, 7, 5), "t": (2, 5, 6)}
    compare(module, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}, rtol=1e-4, atol=1e-5)
