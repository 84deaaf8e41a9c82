"""Reductions and softmax against onnxruntime, exact sums, and by hand at the edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_meaning, decomposed, op_module, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.reduction import ReduceOp, SoftmaxOp
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import VerifyException

INF, NAN = math.inf, math.nan
KINDS = [kind.value for kind in ReduceKind]


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def reduce(kind: str, x: Array, axes: list[int], *, keep_dim: bool = False, **options: Any) -> Array:
    return run_op(lambda v: ReduceOp(kind, v, axes, keep_dim=keep_dim), x, **options)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", [[1], [0, 2], [-1], [2, -4], [0, 1, 2, 3]])
@pytest.mark.parametrize("keep_dim", [False, True])
def test_reduce(kind: str, axes: list[int], keep_dim: bool):
    x = floats(2, 3, 4, 5)
    expected = onnx_run("Reduce" + kind.capitalize(), x, np.array(axes, np.int64), keepdims=int(keep_dim))
    assert_close([reduce(kind, x, axes, keep_dim=keep_dim)], [expected])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep_dim", [False, True])
def test_without_axes_each_element_is_its_own(kind: str, keep_dim: bool):
    x = floats(2, 3)
    np.testing.assert_array_equal(reduce(kind, x, [], keep_dim=keep_dim), x)


def test_integers_keep_their_type_and_wrap():
    x = np.array([[100, 100], [-7, 3]], np.int8)
    results = [reduce(kind, x, [1]) for kind in ("sum", "prod", "max", "min")]
    expected = [[-56, -4], [16, -21], [100, 3], [100, -7]]
    assert_close(results, [np.array(e, np.int8) for e in expected])


def test_truth_values_have_max_and_min():
    x = np.array([[True, False], [True, True], [False, False]])
    np.testing.assert_array_equal(reduce("max", x, [1]), [True, True, False])
    np.testing.assert_array_equal(reduce("min", x, [1]), [False, True, False])


EMPTY = {"sum": 0, "mean": NAN, "max": -INF, "min": INF, "prod": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_axis(kind: str):
    assert_close([reduce(kind, floats(2, 0), [1])], [np.full(2, EMPTY[kind], np.float32)])


def test_an_empty_axis_of_integers():
    x = np.empty((0, 2), np.int32)
    np.testing.assert_array_equal(reduce("max", x, [0]), [-(2**31)] * 2)
    np.testing.assert_array_equal(reduce("min", x, [0]), [2**31 - 1] * 2)
    np.testing.assert_array_equal(reduce("max", np.empty((0,), np.bool_), [0]), False)
    np.testing.assert_array_equal(reduce("min", np.empty((0,), np.bool_), [0]), True)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_comes_through(kind: str):
    rows = np.array([[1, NAN, 2], [-INF, NAN, INF], [NAN, NAN, NAN]], np.float32)
    assert np.isnan(reduce(kind, rows, [1])).all()


def test_infinities():
    rows = np.array([[1, INF, 2], [-INF, 3, 4], [INF, -INF, 0]], np.float32)
    expected = {
        "sum": [INF, -INF, NAN],
        "mean": [INF, -INF, NAN],
        "max": [INF, 4, INF],
        "min": [1, -INF, -INF],
        "prod": [INF, -INF, NAN],
    }
    for kind, values in expected.items():
        assert_close([reduce(kind, rows, [1])], [np.array(values, np.float32)])


def test_low_precision_is_rounded_once():
    """4096 ones and a half in f16 and bf16: a running sum in either would stop growing."""
    ones = np.ones(4096, np.float16)
    assert reduce("sum", ones, [0]) == 4096
    assert reduce("mean", ones, [0]) == 1
    halves = np.full(1024, 0.5, np.float32)
    assert reduce("sum", halves, [0], element=bf16) == 512
    third = round_to(np.full((3, 7), 1 / 3), bf16)
    expected = round_to(third.astype(np.float64).sum(1), bf16)
    np.testing.assert_array_equal(reduce("sum", third, [1], element=bf16), expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_long_sums_are_exact_to_the_last_digit(axis: int):
    x = np.random.default_rng(3).standard_normal((3, 20000)).astype(np.float32) + 100
    expected = [math.fsum(row) for row in x.tolist()]
    # NumPy adds pairwise along the last axis only.
    given = x if axis == 1 else np.ascontiguousarray(x.T)
    np.testing.assert_allclose(reduce("sum", given, [axis]), np.array(expected), rtol=6e-8)


def test_axes_are_counted_from_the_front_when_built():
    text = str(op_module(lambda x: ReduceOp("sum", x, [-1, 0]), TensorType(f32, [2, 3, 4])))
    assert "{axes = [2, 0]} : tensor<2x3x4xf32> -> tensor<3xf32>" in text


def test_a_mistake_in_python_names_operation_and_axis():
    with pytest.raises(VerifyException, match=r"'rlx.reduce': axis 3 is outside rank 3"):
        op_module(lambda x: ReduceOp("sum", x, [3]), TensorType(f32, [2, 3, 4]))


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_softmax(axis: int):
    x = floats(2, 3, 5) * 4
    (found,) = run_op(lambda v: SoftmaxOp(v, axis), x)
    assert_close([found], [onnx_run("Softmax", x, axis=axis)])
    np.testing.assert_allclose(found.sum(axis), 1, rtol=1e-6)


def test_softmax_of_large_values_is_stable():
    x = np.array([[1e30, 1e30, -1e30], [88, 1000, 999], [-1e4, -1e4, -1e4]], np.float32)
    tail = 1 / (1 + math.e)
    expected = np.array([[0.5, 0.5, 0], [0, 1 - tail, tail], [1 / 3] * 3], np.float32)
    assert_close(run_op(lambda v: SoftmaxOp(v), x), [expected])


def test_softmax_at_the_edges():
    x = np.array([[0, -INF, 0], [-INF, -INF, -INF], [0, INF, 0], [0, NAN, 1]], np.float32)
    (found,) = run_op(lambda v: SoftmaxOp(v), x)
    np.testing.assert_array_equal(found[0], [0.5, 0, 0.5])
    assert np.isnan(found[1]).all()
    assert np.isnan(found[2, 1])
    assert np.isnan(found[3]).all()


@pytest.mark.parametrize("element", [f16, bf16, f32, f64])
@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("shape", [(2, 3, 5), (DYNAMIC, 3, DYNAMIC)])
def test_softmax_means_its_decomposition(element: Any, axis: int, shape: tuple[int, ...]):
    """To the bit in low precision too: both compute in float32 and round once."""
    module = op_module(lambda x: SoftmaxOp(x, axis), TensorType(element, shape))
    after = decomposed(module, "rlx.softmax")
    assert "rlx.softmax" not in str(after)
    assert_same_meaning(module, after, rtol=1e-6, atol=0)


def test_softmax_of_low_precision_is_rounded_once():
    x = round_to(floats(4, 33), bf16)
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    module = op_module(lambda v: SoftmaxOp(v), TensorType(bf16, x.shape))
    expected = round_to(powers / powers.sum(1, keepdims=True), bf16)
    np.testing.assert_array_equal(run_reference(module, {"arg0": x})[0], expected)


def test_the_last_axis_of_softmax_has_one_spelling():
    def text(axis: int) -> str:
        return str(op_module(lambda x: SoftmaxOp(x, axis), TensorType(f32, [2, 3, 4])))

    assert text(2) == text(-1)
    assert "axis" not in text(2)
    assert text(1) == text(-2)
    assert text(1) != text(2)
