"""Running sums, products and extremes against onnxruntime and loops; the gradient against finite differences."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from gradients import check_decomposition, check_gradient, reals
from helpers import assert_close, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import bf16, f32

from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.ops.scan import CumsumBackwardOp, CumulativeOp

KINDS = {"sum": (math.fsum, 0.0), "prod": (math.prod, 1.0), "max": (max, -math.inf), "min": (min, math.inf)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative(kind: str, axis: int, exclusive: bool):
    x = reals(3, 4, 5)
    (found,) = run_op(lambda v: CumulativeOp(kind, v, axis, exclusive=exclusive), x)
    combine, start = KINDS[kind]
    expected = np.empty(x.shape)
    for place in np.ndindex(*x.shape):
        before: list[int | slice] = list(place)
        before[axis] = slice(0, place[axis] + (not exclusive))
        values = x[tuple(before)].tolist()
        expected[place] = combine(values) if values else start
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative_sum_is_that_of_onnx(exclusive: bool):
    x = reals(3, 4).astype(np.float32)
    expected = onnx_run("CumSum", x, np.array(1, np.int64), exclusive=int(exclusive))
    assert_close(run_op(lambda v: CumulativeOp("sum", v, 1, exclusive=exclusive), x), [expected])


def scanned(kind: str, x: Array, **options: bool) -> list[int]:
    return run_op(lambda v: CumulativeOp(kind, v, 0, **options), x)[0].tolist()


def test_integers_and_truth_values():
    x = np.array([100, 100, -3], np.int8)
    assert scanned("sum", x) == [100, -56, -59]
    assert scanned("prod", x) == [100, 16, -48]
    assert scanned("max", x, exclusive=True) == [-128, 100, 100]
    assert scanned("min", x, exclusive=True) == [127, 100, 100]
    flags = np.array([False, True, False])
    assert scanned("max", flags) == [False, True, True]
    assert scanned("min", flags, exclusive=True) == [True, False, False]


def test_nan_and_emptiness():
    x = np.array([1, math.nan, 2], np.float32)
    for kind in KINDS:
        assert np.isnan(scanned(kind, x)).tolist() == [False, True, True]
        assert scanned(kind, np.empty(0, np.float32), exclusive=True) == []


def test_long_sums_of_low_precision_do_not_stop():
    (found,) = run_op(lambda v: CumulativeOp("sum", v, 0), np.ones(4096, np.float32), element=bf16)
    np.testing.assert_array_equal(found, round_to(np.arange(1, 4097), bf16))


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumsum_backward(axis: int, exclusive: bool):
    check_gradient(
        lambda v: CumsumBackwardOp(v, axis, exclusive=exclusive),
        lambda v: CumulativeOp("sum", v, axis, exclusive=exclusive),
        [reals(3, 4)],
        0,
        lambda x, dy: (dy,),
    )
    check_decomposition(lambda v: CumsumBackwardOp(v, axis, exclusive=exclusive), reals(3, 4), dynamic=[[0, 1]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative_means_its_decomposition(kind: str, exclusive: bool):
    """In rounds where the extent is known, by prefixes where it is not."""
    odd = np.array([[1, math.nan, 2, -math.inf, 0], [-0.0, math.inf, 3, -1, 1]])
    integers = np.array([[100, 100, -3]], np.int8)
    for x in (reals(3, 5, 4), odd, integers, np.zeros((2, 0)), np.ones((1, 1))):
        elements = [f32, bf16] if x.dtype.kind == "f" else [f32]
        for axis, dynamic in itertools.product((0, 1), ([[0]], [[1]], [list(range(x.ndim))])):
            build = partial(CumulativeOp, kind, axis=axis, exclusive=exclusive)
            check_decomposition(build, x, dynamic=dynamic, elements=elements)


def test_cumulative_of_truth_values_means_its_decomposition():
    flags = np.array([[False, True, False], [True, False, True]])
    for kind in ("max", "min"):
        check_decomposition(lambda v, k=kind: CumulativeOp(k, v, 1, exclusive=True), flags, dynamic=[[1]])
