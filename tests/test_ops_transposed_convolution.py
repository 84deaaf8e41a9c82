"""Transposed convolution, gradients of windows, windows as rows: against onnxruntime and finite differences."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from gradients import check_decomposition, check_gradient, near, reals
from helpers import assert_close, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import f32

from rlx_dialect.base import RlxOp
from rlx_dialect.ops.convolution import ConvOp, Interpolate3dOp, PoolOp
from rlx_dialect.ops.transposed_convolution import (
    ConvBackwardInputOp,
    ConvBackwardWeightOp,
    ConvTransposeOp,
    Im2ColOp,
    MaxPoolBackwardOp,
)

TRANSPOSED: list[dict[str, Any]] = [
    {"input": (2, 4, 5), "weight": (4, 3, 3)},
    {"input": (2, 4, 5), "weight": (4, 3, 3), "stride": [2], "padding": [1], "output_padding": [1]},
    {"input": (2, 4, 5, 3), "weight": (4, 3, 3, 2)},
    {"input": (2, 4, 5, 3), "weight": (4, 3, 3, 2), "padding": [2, 1]},
    {"input": (2, 4, 3, 4), "weight": (4, 3, 3, 2), "stride": [2, 3], "padding": [1, 0, 0, 2]},
    {"input": (2, 4, 3, 4), "weight": (4, 3, 2, 3), "stride": [3, 1], "dilation": [1, 2], "output_padding": [2, 0]},
    {"input": (2, 4, 3, 4), "weight": (4, 3, 2, 3), "stride": [2, 2], "dilation": [3, 2], "groups": 2},
    {"input": (1, 6, 3, 4), "weight": (6, 1, 2, 2), "stride": [2, 1], "groups": 6},
    {"input": (1, 2, 3, 2, 3), "weight": (2, 3, 2, 3, 1), "stride": [2, 1, 2], "padding": [0, 1, 0]},
    {"input": (1, 2, 1, 1), "weight": (2, 3, 1, 1), "stride": [2, 2], "output_padding": [1, 1]},
]


def options(case: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name not in ("input", "weight", "kernel")}


def transposed(case: dict[str, Any]) -> Any:
    return lambda *v: ConvTransposeOp(*v, kernel_size=case["weight"][2:], **options(case))


def padded_pairs(case: dict[str, Any]) -> list[int]:
    """Padding before each spatial axis, then after each."""
    padding = case.get("padding", [0] * (len(case["input"]) - 2))
    return padding if len(padding) == 2 * (len(case["input"]) - 2) else padding * 2


@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_conv_transpose(case: dict[str, Any]):
    x, weight = reals(*case["input"]), reals(*case["weight"], seed=1)
    (found,) = run_op(transposed(case), x, weight)
    ones = [1] * (x.ndim - 2)
    stride, dilation = np.array(case.get("stride", ones)), np.array(case.get("dilation", ones))
    before, after = np.split(np.array(padded_pairs(case)), 2)
    reach = (np.array(x.shape[2:]) - 1) * stride + dilation * (np.array(weight.shape[2:]) - 1) + 1
    extents = reach - before - after + case.get("output_padding", 0)
    groups, outputs = case.get("groups", 1), weight.shape[1]
    expected = np.zeros((x.shape[0], groups * outputs, *extents))
    for n, c, *p in np.ndindex(*x.shape):  # Every element of the input adds the weight of its channel around its place.
        for o, *k in np.ndindex(*weight.shape[1:]):
            place = p * stride + k * dilation - before
            if (place >= 0).all() and (place < extents).all():
                channel = c // (x.shape[1] // groups) * outputs + o
                expected[(n, channel, *place)] += x[(n, c, *p)] * weight[(c, o, *k)]
    near(found, expected, 1e-12)


# onnxruntime wants an output padding that is less than the stride; ours may also be less than the dilation.
@pytest.mark.parametrize("case", [c for c in TRANSPOSED if c.get("output_padding") != [2, 1]], ids=str)
def test_conv_transpose_is_that_of_onnx(case: dict[str, Any]):
    x, weight = reals(*case["input"]).astype(np.float32), reals(*case["weight"], seed=1).astype(np.float32)
    rank = x.ndim - 2
    expected = onnx_run(
        "ConvTranspose",
        x,
        weight,
        kernel_shape=case["weight"][2:],
        strides=case.get("stride", [1] * rank),
        pads=padded_pairs(case),
        dilations=case.get("dilation", [1] * rank),
        output_padding=case.get("output_padding", [0] * rank),
        group=case.get("groups", 1),
    )
    assert_close(run_op(transposed(case), x, weight), [expected], rtol=1e-5, atol=1e-5)


# onnxruntime refuses an output padding that only the dilation allows; PyTorch has it.
DILATED = {"input": (1, 2, 3), "weight": (2, 3, 2), "dilation": [2], "output_padding": [1]}


@pytest.mark.parametrize("case", [*TRANSPOSED, DILATED], ids=str)
def test_conv_transpose_means_its_decomposition(case: dict[str, Any]):
    x, weight = reals(*case["input"]), reals(*case["weight"], seed=1)
    for dynamic in ([[0], []], [[0, *range(2, x.ndim)], []], [range(x.ndim), range(weight.ndim)]):
        check_decomposition(transposed(case), x, weight, dynamic=dynamic)


CONVS: list[dict[str, Any]] = [
    {"input": (2, 3, 6), "weight": (4, 3, 3), "stride": [2], "padding": [1]},
    {"input": (2, 4, 5, 4), "weight": (2, 4, 3, 2)},
    {"input": (1, 2, 6, 5), "weight": (3, 2, 2, 3), "stride": [2, 3], "padding": [1, 0, 0, 2]},
    {"input": (2, 2, 7, 6), "weight": (2, 2, 2, 3), "stride": [3, 2], "dilation": [2, 1]},
    {"input": (2, 4, 4, 3), "weight": (6, 2, 2, 2), "padding": [1, 1], "groups": 2},
    {"input": (2, 3, 4, 5), "weight": (3, 1, 3, 2), "stride": [2, 2], "padding": [1, 1], "groups": 3},
    {"input": (1, 2, 3, 4, 3), "weight": (2, 2, 2, 2, 1), "stride": [1, 2, 2]},
]


@pytest.mark.parametrize("case", CONVS, ids=str)
def test_gradients_of_conv(case: dict[str, Any]):
    arrays, window = [reals(*case["input"]), reals(*case["weight"], seed=1)], options(case)
    size, kernel = case["input"][2:], case["weight"][2:]

    def forward(*v: Any) -> RlxOp:
        return ConvOp(*v, kernel_size=kernel, **window)

    def by_input(*v: Any) -> RlxOp:
        return ConvBackwardInputOp(*v, size, kernel_size=kernel, **window)

    def by_weight(*v: Any) -> RlxOp:
        return ConvBackwardWeightOp(*v, kernel, **window)

    check_gradient(by_input, forward, arrays, 0, lambda x, w, dy: (dy, w))
    check_gradient(by_weight, forward, arrays, 1, lambda x, w, dy: (x, dy))
    (result,) = run_op(forward, *arrays, dynamic=False)
    dy = reals(*result.shape, seed=2)
    everything = [range(dy.ndim)] * 2
    for dynamic in ([[0], []], everything):
        check_decomposition(by_input, dy, arrays[1], dynamic=dynamic, elements=[f32])
    for dynamic in ([[0], [0]], [[2], [2]], everything):
        check_decomposition(by_weight, arrays[0], dy, dynamic=dynamic)


POOLS: list[dict[str, Any]] = [
    {"input": (2, 3, 7), "kernel": (3,), "stride": [2], "padding": [1]},
    {"input": (2, 3, 6, 5), "kernel": (2, 3)},
    {"input": (2, 3, 6, 5), "kernel": (3, 2), "stride": [2, 2], "padding": [1, 0, 0, 1]},
    {"input": (1, 2, 6, 5), "kernel": (2, 2), "dilation": [2, 3]},
    {"input": (1, 2, 3, 4, 3), "kernel": (2, 2, 2), "stride": [1, 2, 1]},
]


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_gradient_of_max_pool(case: dict[str, Any]):
    check_gradient(
        lambda *v: MaxPoolBackwardOp(*v, case["kernel"], **options(case)),
        lambda x: PoolOp("max", x, case["kernel"], **options(case)),
        [reals(*case["input"])],
        0,
        lambda x, dy: (x, dy),
    )


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_gradient_of_max_pool_in_parts(case: dict[str, Any]):
    """With ties, NaN and infinities."""
    x = np.round(reals(*case["input"]))
    x.reshape(-1)[::7], x.reshape(-1)[::11] = math.nan, -math.inf
    (result,) = run_op(lambda v: PoolOp("max", v, case["kernel"], **options(case)), x, dynamic=False)
    build = partial(MaxPoolBackwardOp, kernel_size=case["kernel"], **options(case))
    for dynamic in ([0], [2], range(x.ndim)):
        check_decomposition(build, x, reals(*result.shape, seed=1), dynamic=[dynamic] * 2)


def test_max_pool_backward_gives_to_the_first_of_equals():
    x = np.array([[[1.0, 3, 3, -np.inf, -np.inf, np.nan, np.inf, np.nan]]])
    dy = np.array([[[1.0, 2, 4, 8]]])
    (found,) = run_op(lambda *v: MaxPoolBackwardOp(*v, [2], stride=[2]), x, dy)
    np.testing.assert_array_equal(found, [[[0, 1, 2, 0, 0, 4, 0, 8]]])
    low = np.full((1, 1, 2), -np.inf)
    (found,) = run_op(lambda *v: MaxPoolBackwardOp(*v, [2], stride=[2], padding=[1]), low, np.array([[[1.0, 2]]]))
    np.testing.assert_array_equal(found, [[[1, 2]]])  # Never to padding.
    for width in ([0], [2]):
        dynamic = [width, width]
        check_decomposition(lambda *v: MaxPoolBackwardOp(*v, [2], stride=[2]), x, dy, dynamic=dynamic)
        build = partial(MaxPoolBackwardOp, kernel_size=[2], stride=[2], padding=[1])
        check_decomposition(build, low, np.array([[[1.0, 2]]]), dynamic=dynamic)


@pytest.mark.parametrize("case", [*POOLS, {"input": (2, 2, 3, 4), "kernel": (1, 1)}], ids=str)
def test_im2col_is_convolution_as_a_product(case: dict[str, Any]):
    x = reals(*case["input"])
    (rows,) = run_op(lambda v: Im2ColOp(v, case["kernel"], **options(case)), x)
    weight = reals(5, x.shape[1], *case["kernel"], seed=1)
    (conv,) = run_op(lambda *v: ConvOp(*v, kernel_size=case["kernel"], **options(case)), x, weight)
    product = rows @ weight.reshape(5, -1).T
    near(np.moveaxis(product.reshape(x.shape[0], *conv.shape[2:], 5), -1, 1), conv, 1e-10)
    for dynamic in ([0], [2], range(x.ndim)):
        check_decomposition(lambda v: Im2ColOp(v, case["kernel"], **options(case)), x, dynamic=[dynamic])


@pytest.mark.parametrize("size", [(6, 4, 2), (4, 7, 5), (3, 4, 5), (1, 1, 11)])
def test_interpolate3d(size: tuple[int, ...]):
    x = reals(2, 3, 3, 4, 5).astype(np.float32)
    expected = onnx_run(
        "Resize",
        x,
        None,
        None,
        np.array([2, 3, *size], np.int64),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    assert_close(run_op(lambda v: Interpolate3dOp(v, size), x), [expected])
    for dynamic in ([0, 1], [3], range(5)):
        check_decomposition(lambda v: Interpolate3dOp(v, size), x, dynamic=[dynamic])
