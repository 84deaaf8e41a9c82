"""Cross entropy against onnxruntime and a formula in float64; its gradient against finite differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gradients import check_decomposition, check_gradient, reals
from helpers import assert_close, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import f32

from rlx_dialect.dtypes import Array
from rlx_dialect.ops.loss import (
    SoftmaxCrossEntropyBackwardOp,
    SoftmaxCrossEntropyOp,
    SoftmaxCrossEntropyWithLogitsOp,
)
from rlx_dialect.xdsl_compat import InterpretationError

LABELS = np.array([2, 0, 4, 1, 2], np.int64)
INF, NAN = math.inf, math.nan


def probabilities(*shape: int) -> Array:
    weights = np.exp(reals(*shape, seed=5))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("labels", [np.int64, np.int32, np.int8])
def test_losses_of_labels(labels: Any):
    logits = (reals(5, 6) * 3).astype(np.float32)
    expected = onnx_run("SoftmaxCrossEntropyLoss", logits, LABELS, reduction="none")
    assert_close(run_op(SoftmaxCrossEntropyWithLogitsOp, logits, LABELS.astype(labels)), [expected])


def test_losses_of_probabilities():
    logits, targets = reals(5, 6) * 3, probabilities(5, 6)
    powers = [[math.exp(x) for x in row] for row in logits]
    expected = [
        -math.fsum(t * math.log(p / math.fsum(row)) for t, p in zip(target, row, strict=True))
        for target, row in zip(targets, powers, strict=True)
    ]
    assert_close(run_op(SoftmaxCrossEntropyOp, logits, targets), [np.array(expected)], rtol=1e-12)


def test_one_hot_probabilities_are_labels():
    logits = reals(5, 6)
    (hot,) = run_op(SoftmaxCrossEntropyOp, logits, np.eye(6)[LABELS])
    assert_close([hot], run_op(SoftmaxCrossEntropyWithLogitsOp, logits, LABELS), rtol=1e-12)


def test_large_logits_do_not_overflow():
    logits = np.array([[1e4, 0, -1e4], [-1e4, -1e4, -1e4], [0, -INF, 0]], np.float32)
    found = run_op(SoftmaxCrossEntropyWithLogitsOp, logits, np.array([1, 2, 0]))
    assert_close(found, [np.array([1e4, math.log(3), math.log(2)], np.float32)])


def test_nan_and_infinity_spoil_only_their_row():
    logits = np.array([[0, NAN, 1], [INF, 0, 0], [0, 0, 0]])
    labels = np.array([0, 1, 2])
    assert_close(run_op(SoftmaxCrossEntropyWithLogitsOp, logits, labels), [np.array([NAN, NAN, math.log(3)])])
    (gradient,) = run_op(SoftmaxCrossEntropyBackwardOp, logits, labels, np.ones(3))
    np.testing.assert_array_equal(np.isnan(gradient).all(1), [True, True, False])


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_class_is_reported(label: int):
    labels = np.array([0, label])
    with pytest.raises(InterpretationError, match="a label is outside extent 3"):
        run_op(SoftmaxCrossEntropyWithLogitsOp, reals(2, 3), labels)
    with pytest.raises(InterpretationError, match="a label is outside extent 3"):
        run_op(SoftmaxCrossEntropyBackwardOp, reals(2, 3), labels, reals(2))


def test_gradient():
    check_gradient(
        SoftmaxCrossEntropyBackwardOp,
        SoftmaxCrossEntropyWithLogitsOp,
        [reals(5, 6), LABELS],
        0,
        lambda logits, labels, dy: [logits, labels, dy],
    )


def test_decompositions():
    logits = reals(5, 6) * 4
    check_decomposition(SoftmaxCrossEntropyOp, logits, probabilities(5, 6), dynamic=[[0, 1], [0, 1]])
    for axes in ([0], [1], [0, 1]):
        check_decomposition(SoftmaxCrossEntropyWithLogitsOp, logits, LABELS, dynamic=[axes, [0]])
    check_decomposition(SoftmaxCrossEntropyBackwardOp, logits, LABELS, reals(5), dynamic=[[0], [0], [0]])
    unlikely = np.array([[0, -INF, 1.0]])
    check_decomposition(SoftmaxCrossEntropyWithLogitsOp, unlikely, np.array([2]), elements=[f32])
