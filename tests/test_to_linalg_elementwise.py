"""Element-wise operations, regions and constants in linalg."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import TOLERANCE, Values, case, compare, lowered, with_edges
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.dtypes import round_to, storage_dtype
from rlx_dialect.graph import main_function
from rlx_dialect.runtime.toolchain import portable_text

TRIGONOMETRIC = {ActivationKind.SIN, ActivationKind.COS, ActivationKind.TAN}


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_activations(element: str):
    type = f"tensor<4x40x{element}>"
    kinds = [k for k in ActivationKind if k not in TRIGONOMETRIC]
    module = case({"x": type}, *(f"%y_{k} = rlx.activation {k} %x : {type}" for k in kinds))
    with_edges(module, rtol=TOLERANCE[element], atol=1e-6)


def test_trigonometric_functions_keep_their_digits_far_from_zero():
    type = "tensor<4x64xf32>"
    module = case({"x": type}, *(f"%y_{k} = rlx.activation {k} %x : {type}" for k in sorted(TRIGONOMETRIC)))
    rng = np.random.default_rng(0)
    x = (rng.uniform(-1, 1, (4, 64)) * np.array([[1], [10], [1e3], [1e6]])).astype(np.float32)
    x[0, :3] = np.nan, np.inf, -np.inf
    compare(module, {"x": x}, rtol=5e-5, atol=1e-6)


def test_f64_is_computed_in_f64():
    type = "tensor<4x40xf64>"
    kinds = ["exp", "log", "sqrt", "rsqrt", "sigmoid", "softplus", "round", "recip"]
    module = case(
        {"x": type, "y": type},
        *(f"%y_{k} = rlx.activation {k} %x : {type}" for k in kinds),
        f"%y_div = rlx.binary div %x, %y : ({type}, {type}) -> {type}",
        f"%y_mm = rlx.dot_general %x, %y {{lhs_contracting = [1], rhs_contracting = [1]}} : ({type}, {type}) "
        "-> tensor<4x4xf64>",
    )
    compare(module, rtol=1e-10, atol=1e-12)


INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui32"]


def integers(module: ModuleOp, seed: int) -> Values:
    """Numbers of all sizes, with the extremes, zero and minus one among them."""
    rng = np.random.default_rng(seed)
    values: Values = {}
    for name, argument in zip(("x", "y"), main_function(module).body.block.args, strict=False):
        dtype = storage_dtype(argument.type.element_type)
        bounds = np.iinfo(dtype)
        value = rng.integers(bounds.min, bounds.max, (4, 40), dtype, endpoint=True)
        value[0] = rng.choice(
            np.array([bounds.min, bounds.max, 0, 1, bounds.max if bounds.min == 0 else -1], dtype), 40
        )
        value[1:3] = rng.integers(0 if bounds.min == 0 else -9, 9, (2, 40))
        values[name] = value
    return values


@pytest.mark.parametrize("element", INTEGERS)
def test_integers(element: str):
    type = f"tensor<4x40x{element}>"
    binaries = [k for k in BinaryKind if k is not BinaryKind.ATAN2]
    module = case(
        {"x": type, "y": type},
        *(f"%y_{k} = rlx.binary {k} %x, %y : ({type}, {type}) -> {type}" for k in binaries),
        *(f"%y_{k} = rlx.activation {k} %x : {type}" for k in ("relu", "neg", "abs", "sign")),
        *(f"%y_{k} = rlx.compare {k} %x, %y : ({type}, {type}) -> tensor<4x40xi1>" for k in CompareKind),
    )
    compare(module, integers(module, 0), integers(module, 1))


def test_booleans():
    type = "tensor<4x40xi1>"
    binaries = ["max", "min", "bit_and", "bit_or", "bit_xor"]
    module = case(
        {"x": type, "y": type},
        *(f"%y_{k} = rlx.binary {k} %x, %y : ({type}, {type}) -> {type}" for k in binaries),
        *(f"%y_{k} = rlx.compare {k} %x, %y : ({type}, {type}) -> {type}" for k in CompareKind),
    )
    compare(module)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_binaries_comparisons_and_selection(element: str):
    type = f"tensor<4x40x{element}>"
    binaries = ["add", "sub", "mul", "div", "max", "min", "pow", "mod", "atan2"]
    module = case(
        {"x": type, "y": type, "z": type},
        *(f"%y_{k} = rlx.binary {k} %x, %y : ({type}, {type}) -> {type}" for k in binaries),
        *(f"%y_{k} = rlx.compare {k} %x, %y : ({type}, {type}) -> tensor<4x40xi1>" for k in CompareKind),
        f"%y_where = rlx.where %y_lt, %x, %y : (tensor<4x40xi1>, {type}, {type}) -> {type}",
        f"%y_fma = rlx.fma %x, %y, %z : ({type}, {type}, {type}) -> {type}",
        f"%y_clamp = rlx.clamp %x {{min = -0.5, max = 1.25}} : {type}",
        f"%y_stop = rlx.stop_gradient %x : {type}",
    )
    with_edges(module, rtol=TOLERANCE[element], atol=1e-6)


CASTS = ["f32", "f16", "bf16", "f64", "i8", "i16", "i32", "i64", "ui8", "ui32", "i1"]


@pytest.mark.parametrize("element", CASTS)
def test_casts(element: str):
    type = f"tensor<4x40x{element}>"
    module = case({"x": type}, *(f"%y_{to} = rlx.cast %x : {type} -> tensor<4x40x{to}>" for to in CASTS))
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 127, (4, 40)) if "f" in element else rng.integers(0, 127, (4, 40))
    values = np.where(rng.random((4, 40)) < 0.2, 0, values)
    compare(module, {"x": round_to(values, main_function(module).body.block.args[0].type.element_type)}, rtol=0, atol=0)


def test_broadcasting_is_in_the_maps():
    module = case(
        {"a": "tensor<4x1x5xf32>", "b": "tensor<3x1xf32>", "c": "tensor<f32>", "d": "tensor<1xi1>"},
        "%y0 = rlx.binary sub %a, %b : (tensor<4x1x5xf32>, tensor<3x1xf32>) -> tensor<4x3x5xf32>",
        "%y1 = rlx.binary div %c, %y0 : (tensor<f32>, tensor<4x3x5xf32>) -> tensor<4x3x5xf32>",
        "%y2 = rlx.where %d, %b, %a : (tensor<1xi1>, tensor<3x1xf32>, tensor<4x1x5xf32>) -> tensor<4x3x5xf32>",
        "%y3 = rlx.binary add %c, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>",
    )
    generics = [op for op in lowered(module).walk() if op.name == "linalg.generic"]
    assert len(generics) == 4
    compare(module)


def test_dynamic_extents():
    module = case(
        {"a": "tensor<?x?x5xf32>", "b": "tensor<?x1xf32>", "c": "tensor<?xf32>"},
        "%y0 = rlx.binary sub %a, %b : (tensor<?x?x5xf32>, tensor<?x1xf32>) -> tensor<?x?x5xf32>",
        "%y1 = rlx.activation relu %y0 : tensor<?x?x5xf32>",
        # Only run time tells whether c has one element or five.
        "%y2 = rlx.binary mul %y1, %c : (tensor<?x?x5xf32>, tensor<?xf32>) -> tensor<?x?x5xf32>",
    )
    rng = np.random.default_rng(0)
    shapes = [{"a": (2, 3, 5), "b": (3, 1), "c": (count,)} for count in (1, 5)]
    compare(module, *({n: rng.standard_normal(s).astype(np.float32) for n, s in each.items()} for each in shapes))
    # Each extent is asked for once; b's only to check that it is a's.
    ops = [op.name for op in lowered(module).walk()]
    assert ops.count("tensor.dim") == 4
    assert ops.count("cf.assert") == 1


def test_constants():
    module = case(
        {"x": "tensor<2x3xf32>", "k": "tensor<2x3xi32>", "h": "tensor<2x3xbf16>", "u": "tensor<2x3xui8>"},
        "%c = rlx.constant dense<2.5> : tensor<f32>",
        "%d = rlx.constant dense<[1.0, -2.0, 3.0]> : tensor<3xf32>",
        "%s = rlx.constant dense<3.0> : tensor<2x3xf32>",
        "%i = rlx.constant dense<0xFF800000> : tensor<2x3xf32>",
        '%n = rlx.constant dense<"0x0000803F000080FF0000C07F"> : tensor<3xf32>',
        "%k0 = rlx.constant dense<[-1, 2, 70000]> : tensor<3xi32>",
        "%h0 = rlx.constant dense<[1.0, -2.0, 3.0]> : tensor<3xbf16>",
        "%u0 = rlx.constant dense<[1, 200, 255]> : tensor<3xui8>",
        "%b0 = rlx.constant dense<[true, false, true]> : tensor<3xi1>",
        "%y0 = rlx.binary mul %x, %c : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>",
        "%y1 = rlx.binary mul %x, %d : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
        "%y2 = rlx.binary sub %s, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        "%y3 = rlx.binary max %i, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        "%y4 = rlx.binary add %x, %n : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
        "%y5 = rlx.binary mul %k, %k0 : (tensor<2x3xi32>, tensor<3xi32>) -> tensor<2x3xi32>",
        "%y6 = rlx.binary mul %h, %h0 : (tensor<2x3xbf16>, tensor<3xbf16>) -> tensor<2x3xbf16>",
        "%y7 = rlx.binary max %u, %u0 : (tensor<2x3xui8>, tensor<3xui8>) -> tensor<2x3xui8>",
        "%y8 = rlx.where %b0, %x, %s : (tensor<3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        "%y9 = rlx.reshape %n {new_shape = [3, 1]} : tensor<3xf32> -> tensor<3x1xf32>",
        "%y10 = rlx.reshape %i {new_shape = [6]} : tensor<2x3xf32> -> tensor<6xf32>",
    )
    compare(module)
    text = portable_text(lowered(module))
    # A number that all elements are is no operand; what is not finite is in no dense literal of floats.
    assert "dense<3.0" not in text
    assert "0x7F" not in text.replace("0x7FC00000 : f32", "")


# Regions.


def test_regions_are_one_loop_nest():
    module = case(
        {"a": "tensor<4x6xf32>", "b": "tensor<6xf16>", "c": "tensor<f32>"},
        "%y0 = rlx.elementwise_region(%a, %b, %c) : (tensor<4x6xf32>, tensor<6xf16>, tensor<f32>) -> tensor<4x6xf16> {",
        "^bb0(%s: f32, %t: f16, %u: f32):",
        "  %0 = rlx.cast %t : f16 -> f32",
        "  %1 = rlx.binary mul %s, %0 : (f32, f32) -> f32",
        "  %2 = rlx.compare gt %1, %u : (f32, f32) -> i1",
        "  %3 = rlx.activation silu %1 : f32",
        "  %4 = rlx.where %2, %3, %u : (i1, f32, f32) -> f32",
        "  %5 = rlx.cast %4 : f32 -> f16",
        "  %6 = rlx.binary add %5, %t : (f16, f16) -> f16",
        "  rlx.yield %6 : f16",
        "}",
    )
    assert [op.name for op in lowered(module).walk() if op.name.startswith("linalg.")] == [
        "linalg.generic",
        "linalg.yield",
    ]
    with_edges(module, rtol=2e-3)


def test_region_prologue_and_batches():
    body = ["^bb0(%s: f32):", "  %0 = rlx.activation tanh %s : f32", "  rlx.yield %0 : f32", "}"]
    module = case(
        {"a": "tensor<1x2x3x5xf32>", "b": "tensor<1x2x3x5xf32>"},
        '%y0 = rlx.elementwise_region(%a) {prologue = "resize_nearest_2x"} : '
        "tensor<1x2x3x5xf32> -> tensor<1x2x6x10xf32> {",
        *body,
        "%y1 = rlx.batch_elementwise_region(%a, %b) : "
        "(tensor<1x2x3x5xf32>, tensor<1x2x3x5xf32>) -> tensor<2x2x3x5xf32> {",
        *body,
        '%y2 = rlx.transform_region %a {steps = ["resize_nearest_2x", "resize_nearest_2x"]} : '
        "tensor<1x2x3x5xf32> -> tensor<1x2x12x20xf32>",
    )
    compare(module)
