"""Floats of few bits: every code, and every rounding, against ml_dtypes; scales and products against formulas."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_close, decomposed, op_module
from xdsl.dialects.builtin import TensorType, bf16, f32, i8

from rlx_dialect.attributes import ScaledFormat
from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.scaled import (
    E8M0,
    FORMATS,
    UI8,
    ScaledDequantizeOp,
    ScaledMatMulOp,
    ScaledQuantizeOp,
    ScaledQuantScaleOp,
    decode_table,
    encode,
    greatest_value,
)
from rlx_dialect.shapes import DYNAMIC

ORACLES: dict[str, Any] = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f6e2m3": ml_dtypes.float6_e2m3fn,
    "f6e3m2": ml_dtypes.float6_e3m2fn,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
}
FORMAT_NAMES = list(ORACLES)


def run(build: Any, *arrays: Array, types: list[Any]) -> Array:
    values = {f"arg{i}": a for i, a in enumerate(arrays)}
    shaped = [TensorType(t, a.shape) for t, a in zip(types, arrays, strict=True)]
    (result,) = run_reference(op_module(build, *shaped), values)
    dynamic = [TensorType(t, [DYNAMIC] * a.ndim) for t, a in zip(types, arrays, strict=True)]
    np.testing.assert_array_equal(run_reference(op_module(build, *dynamic), values)[0], result)
    return result


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bytes_of(*shape: int, seed: int = 0, below: int = 256) -> Array:
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.uint8)


def test_every_format_has_an_oracle():
    assert {str(f) for f in FORMATS} == set(ORACLES) == {str(f) for f in ScaledFormat}


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_code(name: str):
    format = ScaledFormat(name)
    codes = np.arange(2 * FORMATS[format].sign, dtype=np.uint8)
    expected = codes.view(ORACLES[name]).astype(np.float32)
    np.testing.assert_array_equal(decode_table(format)[codes], expected)
    numbers = codes[~np.isnan(expected)]
    np.testing.assert_array_equal(np.signbit(decode_table(format)[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_value_is_its_own_and_middles_go_to_the_even_code(name: str):
    format = ScaledFormat(name)
    values = np.unique(decode_table(format)[np.isfinite(decode_table(format))]).astype(np.float64)
    middles = (values[:-1] + values[1:]) / 2
    near = [np.nextafter(middles.astype(np.float32), np.float32(to)) for to in (-np.inf, np.inf)]
    x = np.concatenate([values, middles, *near]).astype(np.float32)
    expected = x.astype(ORACLES[name]).astype(np.float32)
    np.testing.assert_array_equal(decode_table(format)[encode(format, x)], expected)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_what_is_too_large_saturates(name: str):
    format = ScaledFormat(name)
    greatest = float(ml_dtypes.finfo(ORACLES[name]).max)
    assert greatest_value(format) == greatest
    x = np.array([1e30, np.inf, -1e30, -np.inf, greatest * 1.5], np.float32)
    np.testing.assert_array_equal(decode_table(format)[encode(format, x)], np.array([1, 1, -1, -1, 1]) * greatest)


@pytest.mark.parametrize("name", FORMAT_NAMES[:4])
def test_nan_stays_nan_where_the_format_has_one(name: str):
    format = ScaledFormat(name)
    assert np.isnan(decode_table(format)[encode(format, np.array([np.nan], np.float32))]).all()


def test_every_power_of_two_scale():
    expected = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(E8M0, expected)


def block_scales(scale: Array, width: int, block: int, dtype: Any) -> Array:
    return np.repeat(scale.view(dtype).astype(np.float32), block, axis=-1)[..., :width]


LAYOUTS: list[tuple[str, int | None, int, Any]] = [
    ("mx_e8m0", None, 32, ml_dtypes.float8_e8m0fnu),
    ("mx_e8m0", 7, 7, ml_dtypes.float8_e8m0fnu),
    ("nvfp4", None, 16, ml_dtypes.float8_e4m3fn),
]


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_one_scale_for_a_tensor(name: str):
    x = floats(3, 40) * 50
    scale = run(lambda v: ScaledQuantScaleOp(name, v), x, types=[f32])
    assert_close([scale], [np.array([abs(x).max() / greatest_value(ScaledFormat(name))], np.float32)])
    codes = run(lambda v, s: ScaledQuantizeOp(name, v, s), x, scale, types=[f32, f32])
    expected = (x / scale).astype(ORACLES[name])
    np.testing.assert_array_equal(codes, expected.view(np.uint8))
    back = run(lambda v, s: ScaledDequantizeOp(name, v, s), codes, scale, types=[UI8, f32])
    assert_close([back], [expected.astype(np.float32) * scale])


@pytest.mark.parametrize(("layout", "block", "size", "dtype"), LAYOUTS)
@pytest.mark.parametrize("name", ["f8e4m3", "f8e5m2", "f4e2m1"])
def test_a_scale_a_block(name: str, layout: str, block: int | None, size: int, dtype: Any):
    # So large that the scales of NVFP4 do not vanish, which have no exponents to spare.
    x = floats(3, 70) * np.exp(floats(3, 70, seed=1) * 2) * greatest_value(ScaledFormat(name))
    options: dict[str, Any] = {"scale_layout": layout, "block": block}
    scale = run(lambda v: ScaledQuantScaleOp(name, v, **options), x, types=[f32])
    assert scale.shape == (3, -(-70 // size))
    assert scale.dtype == np.uint8
    wide = block_scales(scale, 70, size, dtype)
    # A block's greatest value fills the format: within a binade of its greatest (MX), or about to it (NVFP4).
    fill = np.array([abs(x / wide)[:, s : s + size].max(1) for s in range(0, 70, size)])
    greatest = greatest_value(ScaledFormat(name))
    if layout == "nvfp4":
        np.testing.assert_allclose(fill, greatest, rtol=1 / 8)
    else:
        np.testing.assert_array_equal(np.floor(np.log2(fill)), np.floor(np.log2(greatest)))
    codes = run(lambda v, s: ScaledQuantizeOp(name, v, s, **options), x, scale, types=[f32, UI8])
    clipped = np.clip(x / wide, -greatest, greatest)
    np.testing.assert_array_equal(codes, clipped.astype(ORACLES[name]).view(np.uint8))
    back = run(lambda v, s: ScaledDequantizeOp(name, v, s, **options), codes, scale, types=[UI8, UI8])
    assert_close([back], [clipped.astype(ORACLES[name]).astype(np.float32) * wide])


def test_scales_at_the_edges():
    zeros = np.zeros((2, 4), np.float32)
    assert run(lambda v: ScaledQuantScaleOp("f8e4m3", v), zeros, types=[f32]) == 1
    x = np.array([[0, 0, 1e-40, 0, np.inf, 1, np.nan, 1]], np.float32)
    mx = run(lambda v: ScaledQuantScaleOp("f8e4m3", v, scale_layout="mx_e8m0", block=2), x, types=[f32])
    np.testing.assert_array_equal(mx, [[127, 0, 254, 255]])
    nv = run(lambda v: ScaledQuantScaleOp("f4e2m1", v, scale_layout="nvfp4", block=2), x, types=[f32])
    np.testing.assert_array_equal(nv, [[0x38, 1, 0x7E, 0x7F]])


@pytest.mark.parametrize(("layout", "block", "size", "dtype"), [("per_tensor", None, 0, None), *LAYOUTS])
@pytest.mark.parametrize("biased", [False, True])
def test_scaled_matmul(layout: str, block: int | None, size: int, dtype: Any, biased: bool):
    # Codes below 0x60 are positive and finite, and scales near 1 keep the sum within float32.
    lhs, rhs, bias = bytes_of(3, 40, below=0x60), bytes_of(5, 40, seed=1) & 0x1F, floats(5)
    left = lhs.view(ml_dtypes.float8_e5m2).astype(np.float64)
    right = rhs.view(np.uint8).astype(np.uint8).view(ml_dtypes.float6_e3m2fn).astype(np.float64)
    if dtype is None:
        scales = [np.array([0.5], np.float32), np.array([3.0], np.float32)]
        expected = 1.5 * left @ right.T
    else:
        middle = 127 if layout == "mx_e8m0" else 0x38
        scales = [middle + bytes_of(m, -(-40 // size), seed=m, below=4) for m in (3, 5)]
        left, right = (v * block_scales(s, 40, size, dtype) for v, s in zip((left, right), scales, strict=True))
        expected = left @ right.T
    operands = [lhs, rhs, *scales, *([bias] if biased else [])]
    element = f32 if dtype is None else UI8
    found = run(
        lambda *v: ScaledMatMulOp(*v, lhs_format="f8e5m2", rhs_format="f6e3m2", scale_layout=layout, block=block),
        *operands,
        types=[UI8, UI8, element, element, *([f32] if biased else [])],
    )
    assert_close([found], [(expected + bias * biased).astype(np.float32)])


@pytest.mark.parametrize("element", [UI8, i8])
@pytest.mark.parametrize(("layout", "block"), [("per_tensor", None), ("mx_e8m0", 3), ("nvfp4", 3)])
def test_decompositions(element: Any, layout: str, block: int | None):
    scale = f32 if layout == "per_tensor" else element
    types = [TensorType(element, [2, 7]), TensorType(scale, [1] if block is None else [2, 3])]
    module = op_module(lambda *v: ScaledDequantizeOp("f8e4m3", *v, scale_layout=layout, block=block), *types)
    product = op_module(
        lambda x, s, c: ScaledMatMulOp(
            *(x, x, s, s, c), lhs_format="f8e4m3", rhs_format="f4e2m1", scale_layout=layout, block=block
        ),
        *types,
        TensorType(f32, [2]),
    )
    dtype = np.int8 if element is i8 else np.uint8
    values = {
        "arg0": bytes_of(2, 7).view(dtype),
        "arg1": np.array([0.3], np.float32) if block is None else bytes_of(2, 3, seed=1).view(dtype),
        "arg2": floats(2),
    }
    for whole, name in ((module, "scaled_dequantize"), (product, "scaled_matmul")):
        given = {k: values[k] for k in list(values)[: 2 if whole is module else 3]}
        plain = decomposed(whole, f"rlx.{name}")
        assert_close(run_reference(plain, given), run_reference(whole, given))


@pytest.mark.parametrize("element", [f32, bf16])
def test_the_scale_of_a_tensor_decomposed(element: Any):
    module = op_module(lambda v: ScaledQuantScaleOp("f8e5m2", v), TensorType(element, [2, DYNAMIC]))
    plain = decomposed(module, "rlx.scaled_quant_scale")
    for x in (floats(2, 9), np.zeros((2, 3), np.float32), np.full((2, 1), np.nan, np.float32)):
        assert_close(run_reference(plain, {"arg0": x}), run_reference(module, {"arg0": x}))


def same_in_parts(build: Any, *arrays: Array, types: list[Any]) -> None:
    """Whole and decomposed, with extents known, the last one unknown, and all unknown."""
    for axes in ((), (-1,), (-1, -2)):
        shaped = [
            TensorType(t, [DYNAMIC if i - a.ndim in axes else d for i, d in enumerate(a.shape)])
            for t, a in zip(types, arrays, strict=True)
        ]
        module = op_module(build, *shaped)
        values = {f"arg{i}": a for i, a in enumerate(arrays)}
        (name,) = {op.name for op in module.walk() if isinstance(op, RlxOp)}
        (expected,), (found,) = run_reference(module, values), run_reference(decomposed(module, name), values)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", FORMAT_NAMES)
@pytest.mark.parametrize(("layout", "block"), [("per_tensor", None), ("mx_e8m0", 3), ("nvfp4", 4), ("mx_e8m0", None)])
def test_quantization_in_parts(name: str, layout: str, block: int | None):
    format, options = ScaledFormat(name), {"scale_layout": layout, "block": block}
    values = np.unique(decode_table(format)[np.isfinite(decode_table(format))]).astype(np.float64)
    middles = (values[:-1] + values[1:]) / 2
    near = [np.nextafter(middles.astype(np.float32), np.float32(to)) for to in (-np.inf, np.inf)]
    edges = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        1e30,
        1e-30,
        -1e-30,
        *([np.nan] if np.isnan(decode_table(format)).any() else []),
    ]
    x = np.concatenate([values, middles, *near, edges]).astype(np.float32)[None]
    # Infinite scales make NaN, which not every format has.
    finite = np.where(np.isfinite(x), x, 1)
    scale = run(lambda v: ScaledQuantScaleOp(name, v, **options), finite, types=[f32])
    one = {"per_tensor": 1.0, "mx_e8m0": 127, "nvfp4": 0x38}[layout]
    element = f32 if layout == "per_tensor" else UI8
    for scales in (np.full_like(scale, one), scale):
        same_in_parts(lambda v, s: ScaledQuantizeOp(name, v, s, **options), x, scales, types=[f32, element])
    wild = floats(3, 70) * np.exp(floats(3, 70, seed=1) * 20)
    wild[0, 5:9], wild[1, 8:12], wild[2, 60:] = 0, np.inf, np.nan
    for given in (x, wild, wild[:, :1]):
        same_in_parts(lambda v: ScaledQuantScaleOp(name, v, **options), given, types=[f32])
    same_in_parts(lambda v: ScaledQuantScaleOp(name, v, **options), wild[0], types=[f32])


def test_a_last_extent_that_is_unknown():
    codes, scales = bytes_of(2, 7), bytes_of(2, 3, seed=1)
    build = lambda *v: ScaledDequantizeOp("f8e5m2", *v, scale_layout="nvfp4", block=3)  # noqa: E731
    same_in_parts(build, codes, scales, types=[UI8, UI8])
