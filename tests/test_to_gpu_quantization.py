"""Products of quantised numbers: one launch each, run by the kernels' other emitter (wgpu has no buffers of i8)."""

from __future__ import annotations

import pytest
from helpers import parse
from nvidia import assert_assembles
from on_cpu import check
from on_device import kernel_names, lower
from xdsl.dialects.builtin import ModuleOp

Q_MATMUL = """
  %y = rlx.q_matmul %x, %w, %b {x_zp = 3, w_zp = -2, out_zp = 5, mult = 0.001}
    : (tensor<2x20x33xi8>, tensor<33x18xi8>, tensor<18xi32>) -> tensor<2x20x18xi8>"""
Q_CONV = """
  %y = rlx.q_conv2d %x, %w, %b {x_zp = 3, w_zp = -2, out_zp = 5, mult = 0.001, kernel_size = [3, 3], padding = [1, 1],
    groups = 2} : (tensor<2x4x7x6xi8>, tensor<10x2x3x3xi8>, tensor<10xi32>) -> tensor<2x10x7x6xi8>"""


def dequantized(x: str, element: str, k: int, n: int, block: int, *, zero_points: bool) -> ModuleOp:
    blocks = -(-k // block)
    scheme = "int8_block_asym" if zero_points else "int8_block"
    types = [f"tensor<{x}x{k}x{element}>", f"tensor<{k}x{n}xi8>", *[f"tensor<{blocks}x{n}xf32>"] * (1 + zero_points)]
    names = ["%x", "%w", "%s", "%z"][: len(types)]
    arguments = ", ".join(f"{name}: {type}" for name, type in zip(names, types, strict=True))
    result = f"tensor<{x}x{n}xf32>"
    return parse(f"""
      func.func @main({arguments}) -> {result} {{
        %y = rlx.dequant_matmul {scheme} {", ".join(names)} {{block_size = {block}}} : ({", ".join(types)}) -> {result}
        func.return %y : {result}
      }}""")


def quantized(body: str, x: str, w: str, b: str, result: str) -> ModuleOp:
    return parse(f"func.func @main(%x: {x}, %w: {w}, %b: {b}) -> {result} {{\n{body}\nfunc.return %y : {result}\n}}")


CASES = {
    "q_matmul": quantized(Q_MATMUL, "tensor<2x20x33xi8>", "tensor<33x18xi8>", "tensor<18xi32>", "tensor<2x20x18xi8>"),
    "q_conv2d": quantized(Q_CONV, "tensor<2x4x7x6xi8>", "tensor<10x2x3x3xi8>", "tensor<10xi32>", "tensor<2x10x7x6xi8>"),
    "dequant_matmul": dequantized("20", "f32", 64, 18, 16, zero_points=False),
    "dequant_matmul, a short last block": dequantized("2x5", "f16", 50, 18, 16, zero_points=True),
    "dequant_matmul, one row": dequantized("1", "f32", 50, 40, 32, zero_points=True),
}


@pytest.mark.parametrize("name", CASES)
def test_products_of_quantised_numbers(name: str):
    module = CASES[name]
    check(module)
    lowered = lower(module, "cuda")
    assert kernel_names(lowered) == [name.partition(",")[0]]
    assert_assembles(lowered)
