"""Convolution, pooling and resizing against onnxruntime, and against loops where ONNX has none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_meaning, decomposed, op_module, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import TensorType, bf16, f16, f32

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.convolution import ConvOp, FusedConvBiasActOp, PoolOp, ResizeNearest2xOp
from rlx_dialect.shapes import DYNAMIC

WINDOWS: list[dict[str, Any]] = [
    {"input": (2, 3, 9), "kernel": (4,)},
    {"input": (2, 3, 9), "kernel": (3,), "stride": [2], "padding": [2, 0], "dilation": [2]},
    {"input": (2, 4, 7, 6), "kernel": (3, 2)},
    {"input": (2, 4, 7, 6), "kernel": (1, 1), "stride": [3, 2]},
    {"input": (2, 4, 7, 6), "kernel": (3, 2), "stride": [2, 3], "padding": [1, 1]},
    {"input": (2, 4, 7, 6), "kernel": (2, 3), "stride": [1, 2], "padding": [1, 0, 0, 2], "dilation": [3, 1]},
    {"input": (1, 2, 4, 5, 6), "kernel": (2, 3, 1), "stride": [1, 2, 2], "padding": [1, 0, 0, 0, 2, 0]},
    {"input": (2, 2, 5, 4, 6), "kernel": (2, 1, 3), "padding": [1, 0, 1], "dilation": [2, 1, 2]},
]


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def options(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in ("stride", "padding", "dilation") if name in case}


def onnx_window(case: dict[str, Any]) -> dict[str, Any]:
    rank = len(case["kernel"])
    padding = case.get("padding", [0] * rank)
    return {
        "kernel_shape": case["kernel"],
        "strides": case.get("stride", [1] * rank),
        "pads": padding if len(padding) == 2 * rank else padding * 2,
        "dilations": case.get("dilation", [1] * rank),
    }


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_conv(case: dict[str, Any]):
    x, weight = floats(*case["input"]), floats(5, case["input"][1], *case["kernel"], seed=1)
    expected = onnx_run("Conv", x, weight, **onnx_window(case))
    found = run_op(lambda x, w: ConvOp(x, w, kernel_size=case["kernel"], **options(case)), x, weight)
    assert_close(found, [expected], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("channels", "results", "groups"), [(4, 6, 2), (6, 6, 6), (3, 6, 3)])
def test_conv_in_groups(channels: int, results: int, groups: int):
    x, weight = floats(2, channels, 5, 7), floats(results, channels // groups, 3, 2, seed=1)
    expected = onnx_run("Conv", x, weight, group=groups, strides=[1, 2])
    found = run_op(lambda x, w: ConvOp(x, w, kernel_size=[3, 2], stride=[1, 2], groups=groups), x, weight)
    assert_close(found, [expected], rtol=1e-5, atol=1e-5)


def test_conv_of_integers_wraps():
    x, weight = np.full((1, 1, 3), 100, np.int8), np.full((1, 1, 2), 3, np.int8)
    (found,) = run_op(lambda x, w: ConvOp(x, w, kernel_size=[2]), x, weight)
    np.testing.assert_array_equal(found, np.full((1, 1, 2), 600, np.int64).astype(np.int8))
    assert found.dtype == np.int8


@pytest.mark.parametrize("element", [f16, bf16])
def test_conv_of_low_precision_accumulates_in_float32(element: Any):
    x = round_to(floats(1, 64, 3, 3), element)
    weight = round_to(floats(2, 64, 3, 3, seed=1), element)
    (found,) = run_op(lambda x, w: ConvOp(x, w, kernel_size=[3, 3]), x, weight, element=element)
    expected = (x.astype(np.float64) * weight).sum((1, 2, 3)).reshape(1, 2, 1, 1)
    rounding = 2.0**-11 if element == f16 else 2.0**-8
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=rounding)


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_max_pool(case: dict[str, Any]):
    x = floats(*case["input"])
    expected = onnx_run("MaxPool", x, **onnx_window(case))
    assert_close(run_op(lambda x: PoolOp("max", x, case["kernel"], **options(case)), x), [expected])


@pytest.mark.parametrize("case", WINDOWS, ids=str)
@pytest.mark.parametrize("with_padding", [False, True])
def test_mean_pool(case: dict[str, Any], with_padding: bool):
    x = floats(*case["input"])
    expected = onnx_run("AveragePool", x, count_include_pad=int(with_padding), **onnx_window(case))
    found = run_op(
        lambda x: PoolOp("mean", x, case["kernel"], count_include_pad=with_padding, **options(case)),
        x,
    )
    assert_close(found, [expected])


@pytest.mark.parametrize(("op", "kind"), [("MaxPool", "max"), ("AveragePool", "mean")])
def test_rounding_up_is_more_padding_after(op: str, kind: str):
    """Extents 8 and 7 with windows of 3 and 2 moving by 2, 3: the last window overhangs by 1 and 1."""
    x = floats(2, 3, 8, 7)
    expected = onnx_run(op, x, kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1)
    found = run_op(lambda x: PoolOp(kind, x, [3, 2], stride=[2, 3], padding=[0, 0, 1, 1]), x)
    assert_close(found, [expected])


def pooled(kind: ReduceKind, x: Array, kernel: Sequence[int], stride: Sequence[int], before: Sequence[int]) -> Array:
    """Pooling of the last two axes position by position, symmetric padding ``before``."""
    reduce = {
        ReduceKind.SUM: math.fsum,
        ReduceKind.MEAN: lambda v: math.fsum(v) / len(v),
        ReduceKind.MAX: max,
        ReduceKind.MIN: min,
        ReduceKind.PROD: math.prod,
    }[kind]
    extents = [(d + 2 * p - k) // s + 1 for d, k, s, p in zip(x.shape[2:], kernel, stride, before, strict=True)]
    result = np.empty((*x.shape[:2], *extents), np.float64)
    for n, c, i, j in np.ndindex(*result.shape):
        rows = range(i * stride[0] - before[0], i * stride[0] - before[0] + kernel[0])
        columns = range(j * stride[1] - before[1], j * stride[1] - before[1] + kernel[1])
        result[n, c, i, j] = reduce(
            [
                float(x[n, c, a, b])
                for a, b in itertools.product(rows, columns)
                if 0 <= a < x.shape[2] and 0 <= b < x.shape[3]
            ]
        )
    return result


@pytest.mark.parametrize("kind", list(ReduceKind))
def test_padding_is_skipped(kind: ReduceKind):
    x = floats(2, 3, 7, 6) - 5  # All negative: a zero from padding would be the maximum.
    (found,) = run_op(lambda x: PoolOp(kind, x, [3, 2], stride=[2, 1], padding=[2, 1]), x)
    np.testing.assert_allclose(found, pooled(kind, x, [3, 2], [2, 1], [2, 1]), rtol=1e-6)


@pytest.mark.parametrize("kind", list(ReduceKind))
def test_pooling_lets_nan_through(kind: ReduceKind):
    x = np.array([[[1, math.nan, 2, 3]]], np.float32)
    (found,) = run_op(lambda x: PoolOp(kind, x, [2]), x)
    np.testing.assert_array_equal(np.isnan(found[0, 0]), [True, True, False])


def test_pooling_of_integers():
    x = np.array([[[-128, 5, 127, -3]]], np.int8)
    expected = {"max": [-128, 5, 127, 127, -3], "min": [-128, -128, 5, -3, -3], "sum": [-128, -123, -124, 124, -3]}
    for kind, values in expected.items():
        (found,) = run_op(lambda x, kind=kind: PoolOp(kind, x, [2], padding=[1]), x)
        np.testing.assert_array_equal(found[0, 0], np.array(values, np.int8))


def test_mean_pool_of_low_precision_is_rounded_once():
    x = round_to(floats(1, 2, 9, 9), bf16)
    (found,) = run_op(lambda x: PoolOp("mean", x, [9, 9]), x, element=bf16)
    expected = round_to(x.astype(np.float64).mean((2, 3), keepdims=True), bf16)
    np.testing.assert_array_equal(found, expected)


def test_resize_nearest_2x():
    x = floats(2, 3, 4, 5)
    expected = onnx_run(
        "Resize",
        x,
        None,
        np.array([1, 1, 2, 2], np.float32),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    assert_close(run_op(lambda x: ResizeNearest2xOp(x), x), [expected])
    flags = x > 0
    assert_close(run_op(lambda x: ResizeNearest2xOp(x), flags), [expected > 0])
    for type in (
        TensorType(f32, (2, 3, 4, 5)),
        TensorType(f32, (DYNAMIC, 3, 4, 5)),
        TensorType(f32, (2, 3, 4, DYNAMIC)),
    ):
        module = op_module(lambda x: ResizeNearest2xOp(x), type)
        assert_close(run_reference(decomposed(module, "rlx.resize_nearest_2x"), {"arg0": x}), [expected])


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("case", [WINDOWS[1], WINDOWS[5], WINDOWS[6]], ids=str)
def test_fused_conv_bias_act(activation: str | None, with_residual: bool, case: dict[str, Any]):
    """The residual is added before the activation."""
    x, weight, bias = floats(*case["input"]), floats(6, case["input"][1], *case["kernel"], seed=1), floats(6, seed=2)
    conv = onnx_run("Conv", x, weight, bias, **onnx_window(case))
    residual = floats(*conv.shape, seed=3)
    total = conv + residual if with_residual else conv
    expected = total if activation is None else onnx_run(activation.capitalize(), total)

    def build(*v: Any) -> RlxOp:
        return FusedConvBiasActOp(*v, activation=activation, kernel_size=case["kernel"], **options(case))

    arrays = [x, weight, bias, *([residual] if with_residual else [])]
    assert_close(run_op(build, *arrays), [expected], rtol=1e-5, atol=1e-5)
    module = op_module(build, *(TensorType(f32, a.shape) for a in arrays))
    after = decomposed(module, "rlx.fused_conv_bias_act")
    assert "fused" not in str(after)
    assert_same_meaning(module, after, rtol=1e-5, atol=1e-5)


def test_fused_conv_with_dynamic_extents_means_its_decomposition():
    types = [TensorType(f32, s) for s in ([DYNAMIC, 4, DYNAMIC, 6], [DYNAMIC, 2, 3, 2], [DYNAMIC])]
    module = op_module(lambda *v: FusedConvBiasActOp(*v, activation="silu", groups=2, padding=[1, 1]), *types)
    after = decomposed(module, "rlx.fused_conv_bias_act")
    values = [floats(2, 4, 5, 6), floats(6, 2, 3, 2, seed=1), floats(6, seed=2)]
    found = run_op(
        lambda *v: FusedConvBiasActOp(*v, activation="silu", groups=2, padding=[1, 1], kernel_size=[3, 2]), *values
    )
    assert_close(run_reference(after, {f"arg{i}": v for i, v in enumerate(values)}), found, rtol=1e-5, atol=1e-5)


def test_one_window_has_one_spelling():
    def text(**window: Any) -> str:
        types = TensorType(f32, [2, 3, 7, 6]), TensorType(f32, [5, 3, 3, 2])
        return str(op_module(lambda x, w: ConvOp(x, w, **window), *types))

    assert text() == text(stride=[1, 1], padding=[0, 0, 0, 0], dilation=[1, 1], kernel_size=[3, 2])
    assert text(padding=[1, 2]) == text(padding=[1, 2, 1, 2])
    assert "padding = [1, 1]}" in text(padding=[1, 1])
    assert len({text(padding=p) for p in ([1, 2], [2, 1], [1, 2, 2, 1])}) == 3


def test_symmetric_padding_of_one_axis_is_one_number():
    types = TensorType(f32, [2, 3, 7]), TensorType(f32, [5, 3, 3])
    assert "padding = [1]}" in str(op_module(lambda x, w: ConvOp(x, w, padding=[1, 1]), *types))
    assert "padding = [1, 0]}" in str(op_module(lambda x, w: ConvOp(x, w, padding=[1, 0]), *types))
