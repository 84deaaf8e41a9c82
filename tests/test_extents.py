"""Extents that are equal at every call: followed through operations by their own shape rules."""

from __future__ import annotations

import sys
import time

import pytest
from helpers import graph
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from rlx_dialect.graph import main_function, outputs
from rlx_dialect.passes.matching.extents import Known, extents
from rlx_dialect.xdsl_compat import print_module


def of(arguments: dict[str, str], *lines: str, result: str = "tensor<?xf32>", returned: str = "r") -> ModuleOp:
    listed = ", ".join(f"%{name}: tensor<{type}>" for name, type in arguments.items())
    return graph("\n".join(lines), listed, result, f"%{returned}")


def symbols(module: ModuleOp) -> list[str]:
    """The extents of the first result: "2", "x0" for axis 0 of argument %x, "8*x0*x1", "own"."""
    value = outputs(main_function(module))[0]
    return [_text(extent, value) for extent in extents(value)]


def _text(extent: tuple[int, tuple[tuple[tuple[SSAValue, int], int], ...]], value: SSAValue) -> str:
    coefficient, atoms = extent
    if any(atom == value for (atom, _), _ in atoms):
        return "own"
    names = [f"{atom.name_hint}{axis}" + (f"^{power}" if power > 1 else "") for (atom, axis), power in atoms]
    return "*".join(([str(coefficient)] if coefficient != 1 or not atoms else []) + sorted(names))


X = {"x": "?x8xf32"}
D = "tensor<?x8xf32>"
DD = f"({D}, {D}) -> {D}"


@pytest.mark.parametrize(
    ("arguments", "lines", "result", "expected"),
    [
        (X, [f"%r = rlx.activation relu %x : {D}"], D, ["x0", "8"]),
        (X, [f"%a = rlx.activation relu %x : {D}", f"%r = rlx.binary add %x, %a : {DD}"], D, ["x0", "8"]),
        ({**X, "y": "?x8xf32"}, [f"%r = rlx.binary add %x, %y : {DD}"], D, ["own", "8"]),
        ({**X, "y": "1x8xf32"}, [f"%r = rlx.binary add %x, %y : ({D}, tensor<1x8xf32>) -> {D}"], D, ["x0", "8"]),
        ({**X, "y": "8xf32"}, [f"%r = rlx.binary add %y, %x : (tensor<8xf32>, {D}) -> {D}"], D, ["x0", "8"]),
        ({**X, "w": "8x8xf32"}, [f"%r = rlx.matmul %x, %w : ({D}, tensor<8x8xf32>) -> {D}"], D, ["x0", "8"]),
        (
            {"x": "?x?xf32", "w": "?x4xf32"},
            ["%r = rlx.matmul %x, %w : (tensor<?x?xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>"],
            "tensor<?x4xf32>",
            ["x0", "4"],
        ),
        (
            {"x": "?x3x?xf32", "y": "?x?x5xf32"},
            ["%r = rlx.matmul %x, %y : (tensor<?x3x?xf32>, tensor<?x?x5xf32>) -> tensor<?x3x5xf32>"],
            "tensor<?x3x5xf32>",
            ["own", "3", "5"],
        ),
        (
            {"x": "2x?x3x?xf32"},
            ["%r = rlx.transpose %x {perm = [3, 0, 2, 1]} : tensor<2x?x3x?xf32> -> tensor<?x2x3x?xf32>"],
            "tensor<?x2x3x?xf32>",
            ["x3", "2", "3", "x1"],
        ),
        (
            {"x": "?x?x8xf32"},
            ["%r = rlx.reshape %x {new_shape = [-1, 4]} : tensor<?x?x8xf32> -> tensor<?x4xf32>"],
            "tensor<?x4xf32>",
            ["2*x0*x1", "4"],
        ),
        (
            {"x": "?x128x8xf32"},
            [
                "%a = rlx.reshape %x {new_shape = [-1, 8]} : tensor<?x128x8xf32> -> tensor<?x8xf32>",
                "%b = rlx.activation relu %a : tensor<?x8xf32>",
                "%r = rlx.reshape %b {new_shape = [-1, 128, 2, 4]} : tensor<?x8xf32> -> tensor<?x128x2x4xf32>",
            ],
            "tensor<?x128x2x4xf32>",
            ["x0", "128", "2", "4"],
        ),
        (
            {"x": "?x3xf32"},
            ["%r = rlx.reshape %x {new_shape = [-1, 2]} : tensor<?x3xf32> -> tensor<?x2xf32>"],
            "tensor<?x2xf32>",
            ["own", "2"],
        ),
        (
            {"x": "?x?xf32"},
            ["%r = rlx.reduce sum %x {axes = [0]} : tensor<?x?xf32> -> tensor<?xf32>"],
            "tensor<?xf32>",
            ["x1"],
        ),
        (
            {"x": "?x?xf32"},
            ["%r = rlx.reduce sum %x {axes = [0], keep_dim} : tensor<?x?xf32> -> tensor<1x?xf32>"],
            "tensor<1x?xf32>",
            ["1", "x1"],
        ),
        (
            {"x": "?x?xf32", "y": "?x?xf32"},
            ["%r = rlx.concat %x, %y {axis = 1} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>"],
            "tensor<?x?xf32>",
            ["x0", "own"],
        ),
        (
            {"x": "?x?xf32"},
            ["%r = rlx.narrow %x {axis = 1, start = 0, len = 2} : tensor<?x?xf32> -> tensor<?x2xf32>"],
            "tensor<?x2xf32>",
            ["x0", "2"],
        ),
        (
            {"t": "10x8xf32", "i": "?x?xi32"},
            ["%r = rlx.gather %t, %i {axis = 0} : (tensor<10x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>"],
            "tensor<?x?x8xf32>",
            ["i0", "i1", "8"],
        ),
        (
            {"x": "?x8xf32", "g": "8xf32"},
            [f"%r = rlx.layer_norm %x, %g, %g {{eps = 1.0e-5}} : ({D}, tensor<8xf32>, tensor<8xf32>) -> {D}"],
            D,
            ["x0", "8"],
        ),
        (
            {"x": "?x4x8xf32", "g": "8xf32"},
            [
                "%r = rlx.rms_norm %x, %g, %g {eps = 1.0e-5} : "
                f"(tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> {D}"
            ],
            D,
            ["4*x0", "8"],
        ),
        (
            X,
            ["%r = rlx.expand %x {shape = [3, -1, 8]} : tensor<?x8xf32> -> tensor<3x?x8xf32>"],
            "tensor<3x?x8xf32>",
            ["3", "x0", "8"],
        ),
        (
            {"q": "?x?x8xf32", "m": "?x?xi1"},
            [
                "%r = rlx.attention custom %q, %q, %q, %m {num_heads = 2, head_dim = 4, layout = bsd} : "
                "(tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?xi1>) -> tensor<?x?x8xf32>"
            ],
            "tensor<?x?x8xf32>",
            ["q0", "q1", "8"],
        ),
        (
            {"x": "?x8xf32", "y": "8xf32"},
            [
                f"""%r = rlx.elementwise_region(%x, %y) : ({D}, tensor<8xf32>) -> {D} {{
                ^bb0(%a: f32, %b: f32):
                  %s = rlx.binary add %a, %b : (f32, f32) -> f32
                  rlx.yield %s : f32
                }}"""
            ],
            D,
            ["x0", "8"],
        ),
        (X, [f'%r = "test.op"(%x) : ({D}) -> {D}'], D, ["own", "8"]),
        (X, [f'%t = "test.op"(%x) : ({D}) -> {D}', f"%r = rlx.activation relu %t : {D}"], D, ["t0", "8"]),
    ],
)
def test_rules(arguments: dict[str, str], lines: list[str], result: str, expected: list[str]):
    module = of(arguments, *lines, result=result)
    before = print_module(module)
    uses = [len(list(argument.uses)) for argument in main_function(module).body.block.args]
    assert symbols(module) == expected
    assert print_module(module) == before
    assert [len(list(argument.uses)) for argument in main_function(module).body.block.args] == uses


def chain(length: int) -> ModuleOp:
    lines = [f"%v{i + 1} = rlx.activation relu %v{i} : {D}" for i in range(length)]
    return of({"v0": "?x8xf32"}, *lines, result=D, returned=f"v{length}")


def test_a_deep_graph_is_no_recursion():
    assert symbols(chain(2 * sys.getrecursionlimit())) == ["v00", "8"]


def test_many_questions_about_one_graph_are_linear():
    def seconds(length: int) -> float:
        module = chain(length)
        known: Known = {}
        start = time.process_time()
        for op in main_function(module).body.block.ops:
            for result in op.results:
                assert len(extents(result, known)) == 2
        return time.process_time() - start

    seconds(10)
    assert min(seconds(1600) for _ in range(3)) < 16 * min(seconds(200) for _ in range(3))
