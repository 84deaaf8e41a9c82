"""Sorting, the greatest elements and histograms against NumPy, onnxruntime and plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from gradients import check_decomposition, reals
from helpers import decomposed, op_module, run_op
from onnx import TensorProto
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, i32

from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops import ordering
from rlx_dialect.ops.sorting import ArgReduceOp, ArgSortOp, HistogramOp, SortOp, TopKOp
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import InterpretationError, VerifyException

INF, NAN = math.inf, math.nan
TIES = np.array([[2, NAN, 1, 2, -INF, 1], [0.0, -0.0, INF, NAN, NAN, INF], [3, 3, 3, 3, 3, 3]], np.float32)
INTEGERS = np.array([[3, -1, 3, 127, -128], [0, 0, 1, 0, 1]], np.int8)
BOOLS = np.array([[True, False, True], [False, False, False]])


def by_hand(x: Array, descending: bool) -> Array:
    """The order of the last axis by Python's stable sort; NaN is the greatest."""

    def key(value: float) -> tuple[bool, float]:
        nan = math.isnan(value)
        return nan, 0.0 if nan else value

    rows = x.reshape(-1, x.shape[-1])
    keys = [[key(float(v)) for v in row] for row in rows]
    if descending:
        keys = [[(-nan, -value) for nan, value in row] for row in keys]
    order = [sorted(range(len(row)), key=row.__getitem__) for row in keys]
    return np.array(order, np.int64).reshape(x.shape)


@pytest.mark.parametrize("x", [TIES, INTEGERS, BOOLS, reals(2, 3, 4)], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_order(x: Array, descending: bool):
    expected = by_hand(x, descending)
    (indices,) = run_op(lambda v: ArgSortOp(v, descending=descending), x)
    np.testing.assert_array_equal(indices, expected)
    assert indices.dtype == np.int64
    (values,) = run_op(lambda v: SortOp(v, descending=descending), x)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, -1))
    assert values.dtype == x.dtype
    for k in (0, 1, 3):
        (top,) = run_op(lambda v, k=k: TopKOp(v, k), x)
        np.testing.assert_array_equal(top, by_hand(x, True)[..., :k])


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_sort_along_an_axis(axis: int):
    x = reals(3, 4, 5)
    (values,) = run_op(lambda v: SortOp(v, axis), x)
    np.testing.assert_array_equal(values, np.sort(x, axis))
    (values,) = run_op(lambda v: SortOp(v, axis, descending=True), x)
    np.testing.assert_array_equal(values, -np.sort(-x, axis))


@pytest.mark.parametrize("element", [f16, bf16])
def test_low_precision_keeps_its_values(element: Any):
    x = round_to(reals(2, 9), element)
    (values,) = run_op(lambda v: SortOp(v), x, element=element)
    np.testing.assert_array_equal(values, np.sort(x))


def test_sort_and_top_k_mean_their_decompositions():
    check_decomposition(lambda v: SortOp(v, 0, descending=True), TIES, dynamic=[[0, 1]], elements=[f32])
    check_decomposition(lambda v: TopKOp(v, 2), TIES, dynamic=[[0, 1]], elements=[f32])


def test_top_k_is_that_of_onnx():
    x = np.round(reals(4, 9)).astype(np.float32)
    k = np.array([5], np.int64)
    values = onnx_run("TopK", x, k, outputs=2)
    (indices,) = run_op(lambda v: TopKOp(v, 5), x)
    np.testing.assert_array_equal(np.take_along_axis(x, indices, -1), values)


def test_top_k_of_too_few_is_reported():
    module = op_module(lambda v: TopKOp(v, 4), TensorType(f32, [2, DYNAMIC]))
    with pytest.raises(InterpretationError, match=r"^'rlx\.top_k': k 4 exceeds extent 3"):
        run_reference(module, {"arg0": np.zeros((2, 3), np.float32)})


INDICES: list[tuple[Callable[..., RlxOp], list[int]]] = [
    (lambda v, **options: ArgSortOp(v, **options), [2, 3]),
    (lambda v, **options: TopKOp(v, 2, **options), [2, 2]),
    (lambda v, **options: ArgReduceOp("max", v, 1, **options), [2]),
]


@pytest.mark.parametrize(("build", "shape"), INDICES)
def test_indices_may_be_other_integers(build: Any, shape: list[int]):
    x = reals(2, 3)
    (wide,) = run_op(build, x)
    (narrow,) = run_op(lambda v: build(v, result_type=TensorType(i32, shape)), x, dynamic=False)
    assert narrow.dtype == np.int32
    np.testing.assert_array_equal(narrow, wide)
    with pytest.raises(VerifyException, match="indices must have an integer element type, got f32"):
        op_module(lambda v: build(v, result_type=TensorType(f32, shape)), TensorType(f32, [2, 3]))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keep_dim", [False, True])
def test_arg_reduce(kind: str, axis: int, keep_dim: bool):
    x = np.round(reals(3, 4, 5)).astype(np.float32)
    expected = onnx_run(f"Arg{kind.capitalize()}", x, axis=axis, keepdims=int(keep_dim), output=TensorProto.INT64)
    (found,) = run_op(lambda v: ArgReduceOp(kind, v, axis, keep_dim=keep_dim), x)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("x", [TIES, INTEGERS, BOOLS], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_arg_reduce_means_its_decomposition(kind: str, x: Array, axis: int):
    elements = [f32] if x.dtype == np.float32 else [i32]
    check_decomposition(lambda v: ArgReduceOp(kind, v, axis), x, dynamic=[[1 - axis]], elements=elements)


def test_the_first_nan_is_the_result_of_arg_reduce():
    for kind in ("max", "min"):
        (found,) = run_op(lambda v, kind=kind: ArgReduceOp(kind, v, 1), TIES)
        np.testing.assert_array_equal(found, [1, 3, 0])


EMPTY, ONE = np.zeros((3, 0), np.float32), np.ones((2, 1, 3), np.float32)


def unknown(x: Array) -> list[list[list[int]]]:
    """Which axes of ``x`` are dynamic: one, another, all."""
    return [[[0]], [[1]], [list(range(x.ndim))]]


@pytest.mark.parametrize("most_pairs", [ordering.MOST_PAIRS, 0])
@pytest.mark.parametrize("x", [TIES, INTEGERS, BOOLS, EMPTY, ONE, reals(3, 33)], ids=str)
def test_argsort_means_its_decomposition(most_pairs: int, x: Array, monkeypatch: pytest.MonkeyPatch):
    """By counting, and by a network as for what has too many pairs."""
    monkeypatch.setattr(ordering, "MOST_PAIRS", most_pairs)
    for descending, axis in itertools.product((False, True), (0, 1)):
        for dynamic in unknown(x):
            build = partial(ArgSortOp, axis=axis, descending=descending)
            check_decomposition(build, x, dynamic=dynamic, elements=[f32])


def test_many_elements_are_sorted_by_a_network():
    module = op_module(lambda v: ArgSortOp(v), TensorType(f32, [2, 5000]))
    parts = decomposed(module, "rlx.argsort")
    x = np.round(reals(2, 5000) * 100).astype(np.float32)
    np.testing.assert_array_equal(run_reference(parts, {"arg0": x})[0], np.argsort(x, kind="stable"))
    assert all(math.prod(r.type.get_shape()) <= 2 * 8192 for op in parts.walk() for r in op.results)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("x", [TIES, INTEGERS, BOOLS, ONE], ids=str)
def test_arg_reduce_along_an_unknown_axis(kind: str, x: Array):
    for axis, dynamic in itertools.product((0, 1), unknown(x)):
        check_decomposition(lambda v, a=axis: ArgReduceOp(kind, v, a), x, dynamic=dynamic, elements=[f32])


def test_histogram():
    x = np.concatenate([reals(50), [-1, 1, -1.0000001, 1.0000001, 0, NAN, INF, -INF]]).astype(np.float32)
    (found,) = run_op(lambda v: HistogramOp(v, 8, -1, 1), x.reshape(2, 29))
    inside = x[np.isfinite(x)]
    expected, _ = np.histogram(inside, 8, (-1, 1))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32
    check_decomposition(lambda v: HistogramOp(v, 8, -1, 1), x.reshape(2, 29), dynamic=[[0]])
