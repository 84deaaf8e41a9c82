"""Convolution on a device: one to three axes, strides, pads, dilations, groups, epilogues; one launch each."""

from __future__ import annotations

import re

import pytest
from helpers import graph, parse
from nvidia import assert_assembles
from on_device import check, launches, lower
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp

from rlx_dialect.shapes import product

ONE_BY_ONE = ("2x8x6x5", "12x8x1x1", "kernel_size = [1, 1]")
CONVOLUTIONS = [
    ONE_BY_ONE,
    ("1x3x9x11", "5x3x3x3", "kernel_size = [3, 3]"),
    ("2x3x9x11", "20x3x3x2", "kernel_size = [3, 2], stride = [2, 3], padding = [1, 0, 2, 1], dilation = [2, 1]"),
    # Padding beyond the window: some positions cover nothing.
    ("1x2x4x4", "3x2x2x2", "kernel_size = [2, 2], padding = [3, 3]"),
    ("2x6x20", "4x6x5", "kernel_size = [5], padding = [2]"),
    ("1x2x5x6x7", "3x2x2x3x2", "kernel_size = [2, 3, 2], stride = [1, 2, 2], padding = [1, 1, 1]"),
    # Groups, and a window for each channel.
    ("2x8x7x7", "12x2x3x3", "kernel_size = [3, 3], padding = [1, 1], groups = 4"),
    ("2x10x9x9", "10x1x3x3", "kernel_size = [3, 3], padding = [1, 1], stride = [2, 2], groups = 10"),
    ("2x5x30", "10x1x7", "kernel_size = [7], padding = [6, 0], groups = 5"),
    # Long sums for a small result, in parts.
    ("1x64x5x5", "24x64x3x3", "kernel_size = [3, 3], padding = [1, 1]"),
]


def convolutions(cases: list[tuple[str, str, str]], element: str, *, op: str = "rlx.conv", more: str = "") -> ModuleOp:
    """A graph of all of ``cases``; result types come from what the operation infers."""
    arguments: list[str] = []
    body: list[str] = []
    types: list[str] = []
    for i, (x, w, properties) in enumerate(cases):
        x_type, w_type = f"tensor<{x}x{element}>", f"tensor<{w}x{element}>"
        result = f"tensor<{output(x, w, properties)}x{element}>"
        operands, operand_types = [f"%x{i}", f"%w{i}"], [x_type, w_type]
        if "bias" in op:
            operands.append(f"%b{i}")
            operand_types.append(f"tensor<{w.split('x')[0]}x{element}>")
        if more == "residual":
            operands.append(f"%r{i}")
            operand_types.append(result)
        arguments += [f"{n}: {t}" for n, t in zip(operands, operand_types, strict=True)]
        listed = ", ".join(operands)
        body.append(f"%y{i} = {op} {listed} {{{properties}}} : ({', '.join(operand_types)}) -> {result}")
        types.append(result)
    names = ", ".join(f"%y{i}" for i in range(len(cases)))
    text = "\n".join(body)
    results = ", ".join(types)
    return parse(
        f"func.func @main({', '.join(arguments)}) -> ({results}) {{\n{text}\nfunc.return {names} : {results}\n}}"
    )


def output(x: str, w: str, properties: str) -> str:
    """The shape of the result, by the textbook formula."""
    found = re.findall(r"(\w+) = \[([^\]]*)\]", properties)
    lists = {name: [int(n) for n in values.split(",")] for name, values in found}
    extents, kernel = [int(n) for n in x.split("x")], [int(n) for n in w.split("x")][2:]
    rank = len(kernel)
    padding = lists.get("padding", [0] * rank)
    padding = padding * 2 if len(padding) == rank else padding
    stride, dilation = lists.get("stride", [1] * rank), lists.get("dilation", [1] * rank)
    spatial = [
        (e + padding[i] + padding[rank + i] - dilation[i] * (k - 1) - 1) // stride[i] + 1
        for i, (e, k) in enumerate(zip(extents[2:], kernel, strict=True))
    ]
    return "x".join(map(str, [extents[0], int(w.split("x")[0]), *spatial]))


def test_convolutions():
    lowered = check(convolutions(CONVOLUTIONS, "f32"), atol=3e-5)
    # The last one is split: a launch for the parts and one for their sum.
    assert launches(lowered) == len(CONVOLUTIONS) + 1


@pytest.mark.parametrize("element", ["f16", "i32"])
def test_convolutions_of_other_elements(element: str):
    check(convolutions(CONVOLUTIONS[2:4], element), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("kind", "more"), [("relu", ""), ("silu", "residual"), ("", "residual")])
def test_epilogues(kind: str, more: str):
    cases = [CONVOLUTIONS[2], CONVOLUTIONS[7], CONVOLUTIONS[-1]]
    lowered = check(convolutions(cases, "f32", op=f"rlx.fused_conv_bias_act {kind}".strip(), more=more), atol=3e-5)
    assert launches(lowered) == 4


def test_no_matrix_of_windows():
    module = convolutions([("2x64x56x56", "64x64x3x3", "kernel_size = [3, 3], padding = [1, 1]")], "f32")
    lowered = lower(module, "cuda")
    made = [op.memref.type for op in lowered.walk() if isinstance(op, memref.AllocOp)]
    assert [product(type.get_shape()) for type in made if isinstance(type, MemRefType)] == [2 * 64 * 56 * 56]


def test_views_are_convolved_where_they_lie():
    body = """
        %t = rlx.transpose %x {perm = [0, 3, 1, 2]} : tensor<2x9x8x3xf32> -> tensor<2x3x9x8xf32>
        %r = rlx.reverse %t {axes = [3]} : tensor<2x3x9x8xf32>
        %y = rlx.conv %r, %w {kernel_size = [3, 3], padding = [1, 1]}
          : (tensor<2x3x9x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x9x8xf32>"""
    arguments = "%x: tensor<2x9x8x3xf32>, %w: tensor<4x3x3x3xf32>"
    assert launches(check(graph(body, arguments, "tensor<2x4x9x8xf32>", "%y"), atol=2e-5)) == 1


def test_ptx_is_assembled():
    assert_assembles(lower(convolutions(CONVOLUTIONS, "f16"), "cuda"))
