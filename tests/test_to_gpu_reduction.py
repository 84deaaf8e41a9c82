"""The row schedule on a device: rows of one invocation, of a share of a workgroup, and longer than it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_close, graph, parse
from on_device import check, dims, launches, run, several, tensor

from rlx_dialect.interpreter import run_reference
from rlx_dialect.samples import random_values


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ("5x7", [1]), ("5x7", [0]), ("5x7", [0, 1]), ("3x40x5", [1]), ("3x40x5", [0, 2]), ("2x3x300", [2]),
        ("2x3000", [1]), ("3000x3", [0]), ("70x1030", [0]), ("1x1", [0]), ("4", [0]), ("2x3x4", []), ("6x9000", [0, 1]),
    ],
)  # fmt: skip
def test_reductions(shape: str, axes: list[int]):
    extents = dims(shape)
    kept = tuple(1 if i in axes else d for i, d in enumerate(extents))
    result = tensor("x".join(map(str, kept)))
    kinds = ("sum", "mean", "max", "min")
    operations = [f"rlx.reduce {k} %x {{axes = {axes}, keep_dim}} : {tensor(shape)} -> {result}" for k in kinds]
    check(several(operations, f"%x: {tensor(shape)}", result), rtol=1e-5, atol=2e-5)


def test_reductions_that_drop_axes_and_products():
    module = parse("""
      func.func @main(%x: tensor<3x4x5xf32>) -> (tensor<3x5xf32>, tensor<4xf32>, tensor<f32>) {
        %0 = rlx.reduce prod %x {axes = [1]} : tensor<3x4x5xf32> -> tensor<3x5xf32>
        %1 = rlx.reduce sum %x {axes = [0, 2]} : tensor<3x4x5xf32> -> tensor<4xf32>
        %2 = rlx.reduce max %x {axes = [0, 1, 2]} : tensor<3x4x5xf32> -> tensor<f32>
        func.return %0, %1, %2 : tensor<3x5xf32>, tensor<4xf32>, tensor<f32>
      }""")
    check(module)


@pytest.mark.parametrize("length", [5, 100, 3000])
def test_reductions_of_integers_and_truth_values(length: int):
    module = parse(f"""
      func.func @main(%x: tensor<3x{length}xi32>, %u: tensor<3x{length}xui32>, %b: tensor<3x{length}xi1>)
          -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xui32>, tensor<3xui32>,
              tensor<3xi1>, tensor<3xi1>) {{
        %0 = rlx.reduce sum %x {{axes = [1]}} : tensor<3x{length}xi32> -> tensor<3xi32>
        %1 = rlx.reduce max %x {{axes = [1]}} : tensor<3x{length}xi32> -> tensor<3xi32>
        %2 = rlx.reduce min %x {{axes = [1]}} : tensor<3x{length}xi32> -> tensor<3xi32>
        %3 = rlx.reduce max %u {{axes = [1]}} : tensor<3x{length}xui32> -> tensor<3xui32>
        %4 = rlx.reduce min %u {{axes = [1]}} : tensor<3x{length}xui32> -> tensor<3xui32>
        %5 = rlx.reduce max %b {{axes = [1]}} : tensor<3x{length}xi1> -> tensor<3xi1>
        %6 = rlx.reduce min %b {{axes = [1]}} : tensor<3x{length}xi1> -> tensor<3xi1>
        func.return %0, %1, %2, %3, %4, %5, %6
          : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xui32>, tensor<3xui32>, tensor<3xi1>, tensor<3xi1>
      }}""")
    rng = np.random.default_rng(1)
    x = rng.integers(-100, 100, (3, length)).astype(np.int32)
    u = rng.integers(0, 2**32, (3, length)).astype(np.uint32)
    b = np.zeros((3, length), bool)
    b[1] = True
    b[2, length // 2] = True
    values = {"arg0": x, "arg1": u, "arg2": b}
    assert_close(run(module, values), run_reference(module, values))


@pytest.mark.parametrize("length", [5, 100, 3000])
def test_reductions_meet_numbers_that_are_not_finite(length: int):
    type, result = f"tensor<4x{length}xf32>", "tensor<4xf32>"
    operations = [f"rlx.reduce {k} %x {{axes = [1]}} : {type} -> {result}" for k in ("sum", "max", "min")]
    x = np.ones((4, length), np.float32)
    x[0], x[1, -1], x[2, 0], x[3, length // 2] = -np.inf, np.nan, np.inf, -np.inf
    module = several(operations, f"%x: {type}", result)
    assert_close(run(module, {"arg0": x}), run_reference(module, {"arg0": x}))


@pytest.mark.parametrize(
    ("shape", "axis"), [("5x7", 1), ("5x7", 0), ("3x4x130", -1), ("2x1100x3", 1), ("2x2500", 1), ("9", 0), ("4x1", 1)]
)
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_softmax(shape: str, axis: int, element: str):
    type = tensor(shape, element)
    attribute = "" if axis == -1 else f" {{axis = {axis}}}"
    module = graph(f"%y = rlx.softmax %x{attribute} : {type}", f"%x: {type}", type, "%y")
    check(module, rtol=1e-5 if element == "f32" else 2e-3)


def test_softmax_of_masked_rows():
    type = "tensor<4x70xf32>"
    module = graph(f"%y = rlx.softmax %x : {type}", f"%x: {type}", type, "%y")
    x = np.random.default_rng(0).standard_normal((4, 70)).astype(np.float32)
    x[0, 3:], x[1], x[2, 5], x[3] = -np.inf, -np.inf, np.nan, -1e9
    assert_close(run(module, {"arg0": x}), run_reference(module, {"arg0": x}))


@pytest.mark.parametrize("shape", ["3x5", "2x3x130", "2x2100"])
@pytest.mark.parametrize("element", ["f32", "f16"])
def test_norms(shape: str, element: str):
    type, vector = tensor(shape, element), tensor(shape.rpartition("x")[2], element)
    operands = f"({type}, {vector}, {vector}) -> {type}"
    operations = [
        f"rlx.layer_norm %x, %g, %b {{eps = 1.0e-5}} : {operands}",
        f"rlx.rms_norm %x, %g, %b {{eps = 1.0e-6}} : {operands}",
    ]
    module = several(operations, f"%x: {type}, %g: {vector}, %b: {vector}", type)
    check(module, rtol=1e-5 if element == "f32" else 2e-3, atol=5e-6 if element == "f32" else 2e-3)


def test_norm_of_a_large_mean():
    type = "tensor<3x300xf32>"
    body = f"%y = rlx.layer_norm %x, %g, %g {{eps = 1.0e-5}} : ({type}, tensor<300xf32>, tensor<300xf32>) -> {type}"
    module = graph(body, f"%x: {type}, %g: tensor<300xf32>", type, "%y")
    values = random_values(module)
    values["arg0"] = values["arg0"] + np.float32(1000)
    assert_close(run(module, values), run_reference(module, values), rtol=1e-3, atol=1e-3)


def test_flattening_rms_norm():
    operands = "(tensor<2x3x10xf32>, tensor<10xf32>, tensor<10xf32>) -> tensor<6x10xf32>"
    arguments = "%x: tensor<2x3x10xf32>, %g: tensor<10xf32>, %b: tensor<10xf32>"
    check(graph(f"%y = rlx.rms_norm %x, %g, %b {{eps = 1.0e-6}} : {operands}", arguments, "tensor<6x10xf32>", "%y"))


@pytest.mark.parametrize("name", ["fused_residual_ln", "fused_residual_rms_norm"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [6, 150, 2100])
def test_residual_norms_with_and_without_their_sum(name: str, bias: bool, width: int):
    type, vector = f"tensor<2x3x{width}xf32>", f"tensor<{width}xf32>"
    extra, extra_type = (", %c", f", {vector}") if bias else ("", "")
    operands = f"%x, %r{extra}, %g, %b {{eps = 1.0e-5}}"
    types = f"({type}, {type}{extra_type}, {vector}, {vector})"
    module = parse(f"""
      func.func @main(%x: {type}, %r: {type}, %c: {vector}, %g: {vector}, %b: {vector}) -> ({type}, {type}, {type}) {{
        %0, %1 = rlx.{name} {operands} : {types} -> ({type}, {type})
        %2 = rlx.{name} {operands} : {types} -> {type}
        func.return %0, %1, %2 : {type}, {type}, {type}
      }}""")
    assert launches(check(module, atol=5e-6)) == 2


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_adaptive_norm_and_gated_residual(norm: str):
    module = parse(f"""
      !x = tensor<2x3x10xf32>
      !s = tensor<2x1x10xf32>
      !v = tensor<10xf32>
      func.func @main(%x: !x, %s: !s, %t: !v) -> (!x, !x) {{
        %0 = rlx.ada_layer_norm {norm} %x, %s, %t {{eps = 1.0e-5}} : (!x, !s, !v) -> !x
        %1 = rlx.gated_residual %x, %0, %s : (!x, !x, !s) -> !x
        func.return %0, %1 : !x, !x
      }}""")
    check(module, atol=5e-6)
