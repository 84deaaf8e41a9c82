"""The contraction schedule on a device: each tile, remainders along each axis, batches, operands that are views."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import graph, parse
from on_device import check, dims, launches, tensor

MATMULS = [
    ("5x7", "7x9"), ("64x16", "16x64"), ("70x33", "33x65"), ("1x300", "300x5"), ("130x1", "1x70"), ("33x20", "20x1"),
    ("2x3x5x7", "7x9"), ("2x3x5x7", "2x3x7x4"), ("3x5x7", "2x1x7x4"), ("5x7", "3x7x4"), ("2x1x5x7", "1x3x7x4"),
    ("1x1", "1x1"), ("40x18", "40x18x20"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), MATMULS)
def test_matmul(a: str, b: str):
    result = tensor("x".join(map(str, np.matmul(np.zeros(dims(a)), np.zeros(dims(b))).shape)))
    types = f"({tensor(a)}, {tensor(b)}) -> {result}"
    check(graph(f"%y = rlx.matmul %a, %b : {types}", f"%a: {tensor(a)}, %b: {tensor(b)}", result, "%y"), atol=2e-5)


@pytest.mark.parametrize("element", ["f16", "i32", "ui32", "i64"])
def test_matmul_of_other_elements(element: str):
    a, b, c = f"tensor<3x20x35x{element}>", f"tensor<35x24x{element}>", f"tensor<3x20x24x{element}>"
    module = graph(f"%y = rlx.matmul %a, %b : ({a}, {b}) -> {c}", f"%a: {a}, %b: {b}", c, "%y")
    check(module, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["", "gelu ", "silu ", "relu ", "tanh "])
@pytest.mark.parametrize("shape", ["2x3x40x30", "5x30"])
def test_matmul_with_bias_and_activation(kind: str, shape: str):
    x, result = tensor(shape), tensor(shape.rpartition("x")[0] + "x70")
    types = f"({x}, tensor<30x70xf32>, tensor<70xf32>) -> {result}"
    arguments = f"%x: {x}, %w: tensor<30x70xf32>, %b: tensor<70xf32>"
    module = graph(f"%y = rlx.fused_matmul_bias_act {kind}%x, %w, %b : {types}", arguments, result, "%y")
    assert launches(check(module, atol=2e-5)) == 1


def test_fused_matmul_in_f16_rounds_once():
    types = "(tensor<40x30xf16>, tensor<30x20xf16>, tensor<20xf16>) -> tensor<40x20xf16>"
    arguments = "%x: tensor<40x30xf16>, %w: tensor<30x20xf16>, %b: tensor<20xf16>"
    body = f"%y = rlx.fused_matmul_bias_act gelu %x, %w, %b : {types}"
    check(graph(body, arguments, "tensor<40x20xf16>", "%y"), rtol=1e-3, atol=1e-5)


def test_matmul_with_residual():
    types = "(tensor<3x33x18xf32>, tensor<18x20xf32>, tensor<3x33x20xf32>) -> tensor<3x33x20xf32>"
    arguments = "%x: tensor<3x33x18xf32>, %w: tensor<18x20xf32>, %r: tensor<3x33x20xf32>"
    check(
        graph(f"%y = rlx.fused_matmul_residual %x, %w, %r : {types}", arguments, "tensor<3x33x20xf32>", "%y"), atol=2e-5
    )


DOTS = [
    ("4x5x6", "6x5x7", "lhs_contracting = [2, 1], rhs_contracting = [0, 1]", "4x7"),
    ("2x3x20", "4x20", "lhs_contracting = [2], rhs_contracting = [1]", "2x3x4"),
    ("20x2x3", "3x5x20", "lhs_contracting = [0], rhs_contracting = [2], lhs_batch = [2], rhs_batch = [0]", "3x2x5"),
    (
        "2x3x4x5",
        "3x6x2x5",
        "lhs_contracting = [3], rhs_contracting = [3], lhs_batch = [1, 0], rhs_batch = [0, 2]",
        "3x2x4x6",
    ),
    ("3", "4", "lhs_contracting = [], rhs_contracting = []", "3x4"),
    ("7", "7", "lhs_contracting = [0], rhs_contracting = [0]", ""),
]


@pytest.mark.parametrize(("a", "b", "axes", "result"), DOTS)
def test_dot_general(a: str, b: str, axes: str, result: str):
    types = f"({tensor(a)}, {tensor(b)}) -> {tensor(result)}"
    arguments = f"%a: {tensor(a)}, %b: {tensor(b)}"
    check(graph(f"%y = rlx.dot_general %a, %b {{{axes}}} : {types}", arguments, tensor(result), "%y"), atol=2e-5)


def test_products_read_views_where_they_lie():
    module = parse("""
      func.func @main(%x: tensor<2x6x3x8xf32>) -> (tensor<2x3x6x6xf32>, tensor<2x3x4x5xf32>) {
        %q = rlx.transpose %x {perm = [0, 2, 1, 3]} : tensor<2x6x3x8xf32> -> tensor<2x3x6x8xf32>
        %k = rlx.transpose %x {perm = [0, 2, 3, 1]} : tensor<2x6x3x8xf32> -> tensor<2x3x8x6xf32>
        %0 = rlx.matmul %q, %k : (tensor<2x3x6x8xf32>, tensor<2x3x8x6xf32>) -> tensor<2x3x6x6xf32>
        %a = rlx.narrow %q {axis = 2, start = 1, len = 4} : tensor<2x3x6x8xf32> -> tensor<2x3x4x8xf32>
        %r = rlx.reverse %k {axes = [2]} : tensor<2x3x8x6xf32>
        %b = rlx.slice %r {axis = 3, start = 4, len = 5, step = -1} : tensor<2x3x8x6xf32> -> tensor<2x3x8x5xf32>
        %1 = rlx.matmul %a, %b : (tensor<2x3x4x8xf32>, tensor<2x3x8x5xf32>) -> tensor<2x3x4x5xf32>
        func.return %0, %1 : tensor<2x3x6x6xf32>, tensor<2x3x4x5xf32>
      }""")
    assert launches(check(module, atol=2e-5)) == 2
