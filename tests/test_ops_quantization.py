"""Integer quantisation against onnxruntime, and against formulas written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_meaning, decomposed, op_module, run_op
from onnx import TensorProto
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, bf16, f16, f32, f64, i8, i16, i32

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.quantization import (
    DequantizeOp,
    DequantMatMulOp,
    FakeQuantizeOp,
    QConv2dOp,
    QMatMulOp,
    QuantizeOp,
)
from rlx_dialect.shapes import DYNAMIC

UI8 = IntegerType(8, Signedness.UNSIGNED)
CHANNELS = [(None, [0.031], [5]), (1, [0.02, 0.5, 0.003], [0, -7, 100]), (0, [0.02, 0.5], [-128, 127])]


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bytes_of(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize(("axis", "scales", "zero_points"), CHANNELS)
def test_quantize_and_dequantize(axis: int | None, scales: list[float], zero_points: list[int]):
    x = floats(2, 3, 50) * 3
    one = axis is None
    s = np.array(scales[0] if one else scales, np.float32)
    z = np.array(zero_points[0] if one else zero_points, np.int8)
    expected = onnx_run("QuantizeLinear", x, s, z, output=TensorProto.INT8, axis=axis or 0)
    (found,) = run_op(lambda v: QuantizeOp(v, scales, zero_points, axis), x)
    np.testing.assert_array_equal(found, expected)
    assert {-128, 127} <= set(found.reshape(-1).tolist())  # Both ends are reached.
    back = onnx_run("DequantizeLinear", expected, s, z, axis=axis or 0)
    assert_close(run_op(lambda v: DequantizeOp(v, scales, zero_points, axis), found), [back])


def test_ties_go_to_the_even_integer_before_the_zero_point():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    (found,) = run_op(lambda v: QuantizeOp(v, [1.0], [1]), x)
    np.testing.assert_array_equal(found, np.array([-2, -2, 0, 0, 2, 2], np.int8) + 1)


def test_infinities_saturate():
    x = np.array([np.inf, -np.inf, 1e30], np.float32)
    np.testing.assert_array_equal(run_op(lambda v: QuantizeOp(v, [1.0], [3]), x)[0], [127, -128, 127])


@pytest.mark.parametrize(("element", "low", "high"), [(UI8, 0, 255), (i16, -32768, 32767)])
def test_the_result_says_its_integer_type(element: IntegerType, low: int, high: int):
    x = np.array([-1e9, 7.4, 1e9], np.float32)
    module = op_module(lambda v: QuantizeOp(v, [1.0], [1], result_type=TensorType(element, [3])), TensorType(f32, [3]))
    np.testing.assert_array_equal(run_reference(module, {"arg0": x})[0], [low, 8, high])


@pytest.mark.parametrize("element", [f16, bf16, f32, f64])
def test_other_floats(element: Any):
    scales, zero_points = [0.25, 0.5], [1, -1]
    quantize = op_module(lambda v: QuantizeOp(v, scales, zero_points, 0), TensorType(element, [2, 3]))
    x = np.array([[-1.0, 0.3, 2.0]] * 2, np.float32)
    for module in (quantize, decomposed(quantize, "rlx.quantize")):
        np.testing.assert_array_equal(run_reference(module, {"arg0": x})[0], [[-3, 2, 9], [-3, 0, 3]])
    result = TensorType(element, [2, 3])
    back = op_module(lambda v: DequantizeOp(v, scales, zero_points, 0, result_type=result), TensorType(i8, [2, 3]))
    for module in (back, decomposed(back, "rlx.dequantize")):
        (found,) = run_reference(module, {"arg0": np.array([[-3, 2, 9], [-3, 0, 3]], np.int8)})
        np.testing.assert_array_equal(found, [[-1, 0.25, 2], [-1, 0.5, 2]])


def fake_quantized(x: Array, scale: Array | float, level: int) -> Array:
    q = np.round(x.astype(np.float64) / scale)  # NumPy's round takes ties to the even integer.
    return np.maximum(np.minimum(q, level), -level) * scale


@pytest.mark.parametrize(("bits", "level"), [(8, 127), (4, 7), (2, 1)])
def test_fake_quantize(bits: int, level: int):
    x = floats(4, 5, 3)
    (found,) = run_op(lambda v: FakeQuantizeOp(v, bits=bits), x)
    assert_close([found], [fake_quantized(x, abs(x).max() / level, level).astype(np.float32)])
    assert len(np.unique(found)) <= 2 * level + 1
    (found,) = run_op(lambda v: FakeQuantizeOp(v, bits=bits, axis=1, ste="tanh"), x)
    scale = abs(x).max((0, 2), keepdims=True) / level
    assert_close([found], [fake_quantized(x, scale, level).astype(np.float32)])


def test_fake_quantize_of_zeros_is_zero():
    x = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(run_op(lambda v: FakeQuantizeOp(v, bits=8), x)[0], x)


def test_fake_quantize_with_a_given_scale():
    x, state = floats(2, 3) * 100, np.array([0.5, 0.1, 2.0], np.float32)
    (found,) = run_op(lambda v, s: FakeQuantizeOp(v, s, bits=8, axis=1, scale_mode="fixed"), x, state)
    assert_close([found], [fake_quantized(x, state, 127).astype(np.float32)])


def test_fake_quantize_with_a_moving_average():
    x, state = floats(2, 3), np.array([0.5, 0.0, -1.0], np.float32)
    found, new = run_op(
        lambda v, s: FakeQuantizeOp(v, s, bits=4, axis=1, scale_mode="ema", decay=0.75, state_result=True), x, state
    )
    now = abs(x).max(0) / 7
    expected = np.array([0.75 * 0.5 + 0.25 * now[0], now[1], now[2]])  # A state that is not positive counts nothing.
    assert_close([new, found], [expected.astype(np.float32), fake_quantized(x, expected, 7).astype(np.float32)])


PRODUCT = {"x_zp": 3, "w_zp": -5, "out_zp": 11, "mult": 0.008}
SCALES = [np.array(v, np.float32) for v in (0.02, 0.05, 0.125)]
"""Of x, w and the result: 0.02 · 0.05 / 0.125 is the multiplier."""


def onnx_product_operands(x: Array, w: Array) -> list[Array]:
    def zero(name: str) -> Array:
        return np.array(PRODUCT[name], np.int8)

    return [x, SCALES[0], zero("x_zp"), w, SCALES[1], zero("w_zp"), SCALES[2], zero("out_zp")]


def test_q_matmul():
    x, w, bias = bytes_of(7, 30), bytes_of(30, 6, seed=1), np.zeros(6, np.int32)
    expected = onnx_run("QLinearMatMul", *onnx_product_operands(x, w), output=TensorProto.INT8)
    (found,) = run_op(lambda *v: QMatMulOp(*v, **PRODUCT), x, w, bias)
    np.testing.assert_array_equal(found, expected)
    assert {-128, 127} <= set(found.reshape(-1).tolist()) != {-128, 127}


def test_q_matmul_adds_the_bias_before_scaling():
    x, w, bias = np.zeros((1, 2), np.int8), np.zeros((2, 3), np.int8), np.array([10, -30, 9999], np.int32)
    zeros = {"x_zp": 0, "w_zp": 0, "out_zp": 2, "mult": 0.25}
    np.testing.assert_array_equal(run_op(lambda *v: QMatMulOp(*v, **zeros), x, w, bias)[0], [[4, -6, 127]])


@pytest.mark.parametrize(
    ("groups", "options"),
    [(1, {}), (2, {"stride": [2, 1], "padding": [1, 2]}), (1, {"dilation": [2, 2], "padding": [2, 0, 1, 1]})],
)
def test_q_conv2d(groups: int, options: dict[str, Any]):
    x, w = bytes_of(2, 4, 7, 6), bytes_of(6, 4 // groups, 3, 2, seed=1)
    bias = np.random.default_rng(2).integers(-9999, 9999, 6).astype(np.int32)
    padding = options.get("padding", [0, 0])
    names = {"strides": options.get("stride", [1, 1]), "dilations": options.get("dilation", [1, 1])}
    pads = padding if len(padding) == 4 else padding * 2
    operands = [*onnx_product_operands(x, w), bias]
    expected = onnx_run("QLinearConv", *operands, output=TensorProto.INT8, group=groups, pads=pads, **names)
    build = lambda *v: QConv2dOp(*v, groups=groups, kernel_size=[3, 2], **PRODUCT, **options)  # noqa: E731
    np.testing.assert_array_equal(run_op(build, x, w, bias)[0], expected)


@pytest.mark.parametrize("block", [1, 3, 4, 10, 99])
@pytest.mark.parametrize("asym", [False, True])
def test_dequant_matmul(block: int, asym: bool):
    x, w = floats(2, 3, 10), bytes_of(10, 4)
    scale, zp = abs(floats(-(-10 // block), 4, seed=1)), floats(-(-10 // block), 4, seed=2) * 9
    stored = np.zeros((10, 4))
    for k in range(10):
        stored[k] = (w[k] - zp[k // block] * asym) * scale[k // block]
    scheme = "int8_block_asym" if asym else "int8_block"
    operands = [x, w, scale, zp][: 4 if asym else 3]
    (found,) = run_op(lambda *v: DequantMatMulOp(scheme, *v, block_size=block), *operands)
    assert_close([found], [(x @ stored).astype(np.float32)], rtol=1e-4, atol=1e-3)


def tensor(element: Any, *shape: int) -> TensorType:
    return TensorType(element, shape)


DECOMPOSED = {
    "quantize": (lambda v: QuantizeOp(v, [0.5, 0.1, 2.0], [3, -9, 0], 1), tensor(f32, DYNAMIC, 3)),
    "dequantize": (lambda v: DequantizeOp(v, [0.5, 0.1, 2.0], [3, -9, 0], -1), tensor(i8, 4, 3)),
    "q_matmul": (lambda *v: QMatMulOp(*v, **PRODUCT), tensor(i8, DYNAMIC, 4), tensor(i8, 4, 5), tensor(i32, 5)),
    "q_conv2d": (
        lambda *v: QConv2dOp(*v, **PRODUCT, groups=2, padding=[1, 1]),
        *(tensor(i8, DYNAMIC, 4, 5, 6), tensor(i8, 6, 2, 3, 2), tensor(i32, 6)),
    ),
    "dequant_matmul": (
        lambda *v: DequantMatMulOp("int8_block_asym", *v, block_size=2),
        *(tensor(bf16, DYNAMIC, 5), tensor(i8, 5, 4), tensor(f32, 3, 4), tensor(f32, 3, 4)),
    ),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions(name: str):
    build, *types = DECOMPOSED[name]
    module = op_module(build, *types)
    plain = decomposed(module, f"rlx.{name}")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        values = {}
        for i, type in enumerate(types):
            shape = [2 if d == DYNAMIC else d for d in type.get_shape()]
            whole = rng.integers(-128, 128, shape)
            values[f"arg{i}"] = whole.astype({i8: np.int8, i32: np.int32}.get(type.element_type, np.float32))
        assert_close(run_reference(plain, values), run_reference(module, values))


@pytest.mark.parametrize("element", [f16, bf16, f32, f64])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("mode", ["per_batch", "fixed", "ema"])
def test_fake_quantize_decomposed(mode: str, axis: int | None, element: Any):
    types = [tensor(element, 4, 3), tensor(element, 1 if axis is None else 3)][: 1 if mode == "per_batch" else 2]
    decay = 0.9 if mode == "ema" else None
    module = op_module(
        lambda *v: FakeQuantizeOp(*v, bits=4, axis=axis, scale_mode=mode, decay=decay, state_result=mode == "ema"),
        *types,
    )
    plain = decomposed(module, "rlx.fake_quantize")
    assert_same_meaning(module, plain)
