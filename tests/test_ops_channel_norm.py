"""Norms of channels, and batch norm with given statistics, against onnxruntime and float64 formulas."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import check_decomposition, near, reals
from helpers import assert_close, decomposed, op_module, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import TensorType, f32

from rlx_dialect.ops.normalization import BatchNormInferenceOp, GroupNormOp, LayerNorm2dOp

EPS = 1e-3
CASES = [((2, 4, 3, 5), 2), ((2, 4, 3, 5), 1), ((2, 4, 3, 5), 4), ((3, 6), 3), ((2, 6, 4), 2), ((1, 4, 2, 3, 2), 2)]


@pytest.mark.parametrize(("shape", "groups"), CASES)
def test_group_norm(shape: tuple[int, ...], groups: int):
    x, gamma, beta = reals(*shape) * 2 + 1, reals(shape[1], seed=1), reals(shape[1], seed=2)
    (found,) = run_op(lambda *v: GroupNormOp(*v, num_groups=groups, eps=EPS), x, gamma, beta)
    expected = np.empty(shape)
    size = shape[1] // groups
    for n, group in np.ndindex(shape[0], groups):
        part = x[n, group * size : (group + 1) * size]
        norm = (part - part.mean()) / np.sqrt(part.var() + EPS)
        for c in range(size):
            channel = group * size + c
            expected[n, channel] = norm[c] * gamma[channel] + beta[channel]
    near(found, expected, 1e-12)


def test_group_norm_is_that_of_onnx():
    arrays = [a.astype(np.float32) for a in (reals(2, 6, 3, 4), reals(6, seed=1), reals(6, seed=2))]
    expected = onnx_run("GroupNormalization", *arrays, num_groups=3, epsilon=EPS)
    assert_close(run_op(lambda *v: GroupNormOp(*v, num_groups=3, eps=EPS), *arrays), [expected], atol=1e-5)


@pytest.mark.parametrize("axes", [[0], [2], [0, 1], [2, 3]])
def test_group_norm_means_its_decomposition(axes: list[int]):
    arrays = [reals(2, 4, 3, 5) * 2 + 1, reals(4, seed=1), reals(4, seed=2)]
    check_decomposition(lambda *v: GroupNormOp(*v, num_groups=2, eps=EPS), *arrays, dynamic=[axes, [], []])


def test_layer_norm_2d():
    x, gamma, beta = reals(2, 5, 3, 4) * 2 + 1, reals(5, seed=1), reals(5, seed=2)
    (found,) = run_op(lambda *v: LayerNorm2dOp(*v, eps=EPS), x, gamma, beta)
    for n, h, w in np.ndindex(2, 3, 4):
        row = x[n, :, h, w]
        near(found[n, :, h, w], (row - row.mean()) / np.sqrt(row.var() + EPS) * gamma + beta, 1e-12)
    everything = [range(4), [0], [0]]
    check_decomposition(lambda *v: LayerNorm2dOp(*v, eps=EPS), x, gamma, beta, dynamic=everything)


def test_layer_norm_2d_is_made_of_a_layer_norm():
    vector = TensorType(f32, [5])
    module = op_module(lambda *v: LayerNorm2dOp(*v, eps=EPS), TensorType(f32, [2, 5, 3, 4]), vector, vector)
    names = [op.name for op in decomposed(module, "rlx.layer_norm_2d").walk() if op.name.startswith("rlx.")]
    assert names == ["rlx.transpose", "rlx.layer_norm", "rlx.transpose"]


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
def test_batch_norm_inference(shape: tuple[int, ...]):
    x, gamma, beta, mean = reals(*shape), reals(5, seed=1), reals(5, seed=2), reals(5, seed=3)
    var = reals(5, seed=4) ** 2
    (found,) = run_op(lambda *v: BatchNormInferenceOp(*v, eps=EPS), x, gamma, beta, mean, var)
    near(found, gamma / np.sqrt(var + EPS) * x + (beta - gamma * mean / np.sqrt(var + EPS)), 1e-12)
    everything = [range(len(shape)), [0], [0], [0], [0]]
    check_decomposition(lambda *v: BatchNormInferenceOp(*v, eps=EPS), x, gamma, beta, mean, var, dynamic=everything)


def test_batch_norm_inference_is_that_of_onnx_for_channels_last():
    arrays = [
        a.astype(np.float32) for a in (reals(4, 5), *(reals(5, seed=i) for i in (1, 2, 3)), reals(5, seed=4) ** 2)
    ]
    expected = onnx_run("BatchNormalization", *arrays, epsilon=EPS)
    assert_close(run_op(lambda *v: BatchNormInferenceOp(*v, eps=EPS), *arrays), [expected], atol=1e-5)
