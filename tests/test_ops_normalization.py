"""Normalisations and gated residuals against onnxruntime and float64 formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_meaning, decomposed, op_module, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64

from rlx_dialect.attributes import NormKind
from rlx_dialect.base import RlxOp, shape_of
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.graph import main_function, outputs
from rlx_dialect.ops.normalization import (
    AdaLayerNormOp,
    FusedResidualLnOp,
    FusedResidualRmsNormOp,
    GatedResidualOp,
    LayerNormOp,
    RmsNormOp,
)
from rlx_dialect.shapes import DYNAMIC

EPS = 1e-3
NORMS = {LayerNormOp: NormKind.LAYER_NORM, RmsNormOp: NormKind.RMS_NORM}
FUSED = {FusedResidualLnOp: NormKind.LAYER_NORM, FusedResidualRmsNormOp: NormKind.RMS_NORM}
ELEMENTS = [f16, bf16, f32, f64]


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def formula(kind: NormKind, x: Array, gamma: Array | float, beta: Array | float, eps: float = EPS) -> Array:
    """The norm in float64, row by row."""
    result = np.empty(x.shape, np.float64)
    for row in np.ndindex(*x.shape[:-1]):
        values = [float(v) for v in x[row]]
        mean = math.fsum(values) / len(values) if kind is NormKind.LAYER_NORM else 0.0
        variance = math.fsum((v - mean) ** 2 for v in values) / len(values)
        result[row] = [(v - mean) / math.sqrt(variance + eps) for v in values]
    return result * gamma + beta


def near(found: Array, expected: Array) -> None:
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", NORMS)
@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 5)])
def test_norm_is_its_formula(op: Any, shape: tuple[int, ...]):
    x, gamma, beta = floats(*shape) * 3 + 2, floats(shape[-1], seed=1), floats(shape[-1], seed=2)
    (found,) = run_op(lambda *v: op(*v, eps=EPS), x, gamma, beta)
    near(found, formula(NORMS[op], x, gamma, beta))


def test_layer_norm_is_that_of_onnx():
    x, gamma, beta = floats(2, 3, 8), floats(8, seed=1), floats(8, seed=2)
    expected = onnx_run("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-5)
    assert_close(run_op(lambda *v: LayerNormOp(*v, eps=1e-5), x, gamma, beta), [expected])


def test_rms_norm_adds_beta():
    zeros = np.zeros((2, 3), np.float32)
    beta = np.array([1, 2, 3], np.float32)
    (found,) = run_op(lambda *v: RmsNormOp(*v, eps=EPS), zeros, beta, beta)
    np.testing.assert_array_equal(found, [[1, 2, 3]] * 2)


@pytest.mark.parametrize("op", NORMS)
def test_norm_of_a_constant_row_and_at_the_edges(op: Any):
    x = np.array([[5, 5, 5], [math.inf, 0, 0], [math.nan, 0, 0], [1e30, 0, 0]], np.float32)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    (found,) = run_op(lambda *v: op(*v, eps=0.0), x, ones, zeros)
    if op is LayerNormOp:
        assert np.isnan(found[0]).all()  # 0/0 without an eps.
    else:
        np.testing.assert_allclose(found[0], 1, rtol=1e-6)
    assert np.isnan(found[1, 0])
    assert np.isnan(found[2]).any()
    np.testing.assert_array_equal(found[3], 0)  # The square overflows in float32, as on every target.


@pytest.mark.parametrize("op", NORMS)
@pytest.mark.parametrize("element", [f16, bf16])
def test_low_precision_is_rounded_once(op: Any, element: Any):
    x, gamma, beta = (round_to(v, element) for v in (floats(5, 64) + 30, floats(64, seed=1), floats(64, seed=2)))
    (found,) = run_op(lambda *v: op(*v, eps=EPS), x, gamma, beta, element=element)
    expected = round_to(formula(NORMS[op], x, gamma, beta).astype(np.float32), element)
    # Two float32 results may lie on two sides of a tie.
    assert (found == expected).mean() > 0.99
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-2)


@pytest.mark.parametrize("op", NORMS)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("leading", [(2, 3), (DYNAMIC, 3)])
@pytest.mark.parametrize("width", [8, DYNAMIC])
def test_norm_means_its_decomposition(op: Any, element: Any, leading: tuple[int, ...], width: int):
    vector = TensorType(element, [width])
    module = op_module(lambda *v: op(*v, eps=EPS), TensorType(element, [*leading, width]), vector, vector)
    after = decomposed(module, op.name)
    assert op.name not in str(after)
    assert_same_meaning(module, after, rtol=1e-6 if element != f64 else 1e-12)


def test_rms_norm_may_flatten_the_leading_axes():
    x, gamma, beta = floats(2, 3, 4, 8), floats(8, seed=1), floats(8, seed=2)
    flat = TensorType(f32, [24, 8])
    (found,) = run_op(lambda *v: RmsNormOp(*v, eps=EPS, result_type=flat), x, gamma, beta, dynamic=False)
    near(found, formula(NormKind.RMS_NORM, x, gamma, beta).reshape(24, 8))


@pytest.mark.parametrize("leading", [(2, 3), (DYNAMIC, 3), (DYNAMIC, DYNAMIC)])
def test_flattening_rms_norm_means_its_decomposition(leading: tuple[int, ...]):
    vector = TensorType(f32, [8])
    flat = TensorType(f32, [6 if DYNAMIC not in leading else DYNAMIC, 8])
    x = TensorType(f32, [*leading, 8])
    module = op_module(lambda *v: RmsNormOp(*v, eps=EPS, result_type=flat), x, vector, vector)
    assert_same_meaning(module, decomposed(module, "rlx.rms_norm"))


@pytest.mark.parametrize("op", FUSED)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sum_result", [False, True])
def test_fused_residual_is_its_formula(op: Any, biased: bool, sum_result: bool):
    x, residual, bias = floats(2, 3, 8), floats(2, 3, 8, seed=1), floats(8, seed=2)
    gamma, beta = floats(8, seed=3), floats(8, seed=4)

    def build(*v: Any) -> RlxOp:
        return op(v[0], v[1], v[-2], v[-1], eps=EPS, bias=v[2] if biased else None, sum_result=sum_result)

    arrays = [x, residual, *([bias] if biased else []), gamma, beta]
    norm, *rest = run_op(build, *arrays)
    total = x.astype(np.float64) + residual + (bias if biased else 0)
    near(norm, formula(FUSED[op], total, gamma, beta))
    assert len(rest) == sum_result
    for found in rest:
        near(found, total)


@pytest.mark.parametrize("op", FUSED)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sum_result", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 8), (DYNAMIC, 3, DYNAMIC)])
def test_fused_residual_means_its_decomposition(op: Any, biased: bool, sum_result: bool, shape: tuple[int, ...]):
    def build(x: Any, r: Any, c: Any, g: Any, b: Any) -> RlxOp:
        return op(x, r, g, b, eps=EPS, bias=c if biased else None, sum_result=sum_result)

    vector = TensorType(f32, shape[-1:])
    module = op_module(build, TensorType(f32, shape), TensorType(f32, shape), vector, vector, vector)
    after = decomposed(module, op.name)
    assert [o.name for o in after.walk() if o.name.startswith("rlx.")][-1] == op.NORM.name
    assert_same_meaning(module, after)


@pytest.mark.parametrize("norm", list(NormKind))
@pytest.mark.parametrize("shape", [(8,), (1, 8), (2, 1, 8), (2, 3, 8)])
def test_ada_layer_norm_is_its_formula(norm: NormKind, shape: tuple[int, ...]):
    x, scale, shift = floats(2, 3, 8) * 2 + 1, floats(*shape, seed=1), floats(8, seed=2)
    (found,) = run_op(lambda *v: AdaLayerNormOp(*v, eps=EPS, norm=norm), x, scale, shift)
    near(found, formula(norm, x, 1.0, 0.0) * (1 + scale) + shift)
    (swapped,) = run_op(lambda a, b, c: AdaLayerNormOp(a, b, c, eps=EPS, norm=norm), x, shift, scale)
    near(swapped, formula(norm, x, 1.0, 0.0) * (1 + shift) + scale)


@pytest.mark.parametrize("norm", list(NormKind))
@pytest.mark.parametrize("shape", [(2, 3, 8), (DYNAMIC, 3, 8), (DYNAMIC, DYNAMIC, DYNAMIC)])
def test_ada_layer_norm_means_its_decomposition(norm: NormKind, shape: tuple[int, ...]):
    x, scale = TensorType(f32, shape), TensorType(f32, [1, 1, shape[-1]])
    module = op_module(lambda *v: AdaLayerNormOp(*v, eps=EPS, norm=norm), x, scale, TensorType(f32, shape[-1:]))
    after = decomposed(module, "rlx.ada_layer_norm")
    # A norm of its own, unless the constants gamma and beta would have a dynamic extent.
    assert (f"rlx.{norm}" in str(after)) == (shape[-1] != DYNAMIC)
    assert_same_meaning(module, after)


@pytest.mark.parametrize("norm", list(NormKind))
@pytest.mark.parametrize("width", [8, DYNAMIC])
def test_ada_layer_norm_decomposes_within_rounding_in_low_precision(norm: NormKind, width: int):
    x, scale = TensorType(f16, [2, 3, width]), TensorType(f16, [width])
    module = op_module(lambda *v: AdaLayerNormOp(*v, eps=EPS, norm=norm), x, scale, scale)
    assert_same_meaning(module, decomposed(module, "rlx.ada_layer_norm"), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("shape", [(), (8,), (3, 1), (2, 3, 8)])
def test_gated_residual(shape: tuple[int, ...]):
    x, y, gate = floats(2, 3, 8), floats(2, 3, 8, seed=1), floats(*shape, seed=2)
    found = run_op(lambda *v: GatedResidualOp(*v), x, y, gate)
    assert_close(found, [(x.astype(np.float64) + gate.astype(np.float64) * y).astype(np.float32)])
    module = op_module(lambda *v: GatedResidualOp(*v), *(TensorType(f32, a.shape) for a in (x, y, gate)))
    assert_same_meaning(module, decomposed(module, "rlx.gated_residual"))


def test_a_decomposition_keeps_extents_that_only_the_result_type_knows():
    x, vector = TensorType(f32, [DYNAMIC, 8]), TensorType(f32, [8])
    known = TensorType(f32, [5, 8])
    module = op_module(lambda *v: LayerNormOp(*v, eps=EPS, result_type=known), x, vector, vector)
    (result,) = outputs(main_function(decomposed(module, "rlx.layer_norm")))
    assert shape_of(result) == (5, 8)
