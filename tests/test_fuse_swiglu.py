"""rlx-fuse-swiglu: halves in both orders, each reason, other element types and shapes, mutants."""

from __future__ import annotations

from functools import partial

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Attribute

from rlx_dialect.builder import GraphBuilder
from rlx_dialect.passes.fuse_swiglu import FuseSwiglu
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import print_module

FUSED = "rlx.fused_swiglu"


def halves(
    shape: tuple[int, ...] = (2, 3, 8),
    *,
    axis: int = -1,
    parts: tuple[tuple[int, int], tuple[int, int]] = ((0, 4), (4, 4)),
    gate_left: bool = False,
    kind: str = "silu",
    element: Attribute = f32,
    also: str = "",
) -> ModuleOp:
    """up · silu(gate), which are the ``parts`` (start, length) of an input; ``also`` is returned as well."""
    g = GraphBuilder()
    packed = g.input("packed", shape, element)
    up, gate = (g.narrow(packed, axis, *part) for part in parts)
    silu = g.activation(kind, gate)
    g.output("y", silu * up if gate_left else up * silu)
    if also:
        g.output("also", {"up": up, "gate": gate, "silu": silu}[also])
    return g.module()


@pytest.mark.parametrize("gate_left", [False, True])
@pytest.mark.parametrize("parts", [((0, 4), (4, 4)), ((4, 4), (0, 4))], ids=["up first", "gate first"])
def test_both_halves_in_both_orders(parts: tuple[tuple[int, int], tuple[int, int]], gate_left: bool):
    after = check_fusion(halves(parts=parts, gate_left=gate_left), FuseSwiglu(), fused={FUSED: 1})
    assert ("gate_first" in print_module(after)) == (parts[0][0] == 4)


@pytest.mark.parametrize("element", [f16, bf16, f64])
def test_other_element_types(element: Attribute):
    check_fusion(halves(element=element), FuseSwiglu(), fused={FUSED: 1})


@pytest.mark.parametrize("shape", [(8,), (8, 8), (-1, 3, 8), (-1, -1, 8), (2, 3, 4, 8)])
def test_other_shapes(shape: tuple[int, ...]):
    check_fusion(halves(shape), FuseSwiglu(), fused={FUSED: 1})


def test_narrow_floats_are_left_alone_by_strict_numerics():
    strict = FuseSwiglu(strict=True)
    check_fusion(halves(), strict, fused={FUSED: 1}, mutants=False)
    check_declines(halves(element=f16), strict, Reason.NUMERICS, at="rlx.binary")


def test_parts_of_two_values():
    g = GraphBuilder()
    a, b = (g.input(name, (2, 8)) for name in "ab")
    g.output("y", g.narrow(a, 1, 0, 4) * g.silu(g.narrow(b, 1, 4, 4)))
    check_declines(g.module(), FuseSwiglu(), Reason.OTHER_OPERAND, at="rlx.binary")


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_along_another_axis(axis: int):
    check_declines(halves((8, 8, 8), axis=axis), FuseSwiglu(), Reason.AXIS, at="rlx.binary")


@pytest.mark.parametrize(
    ("width", "parts"),
    [
        (9, ((0, 4), (4, 4))),
        (9, ((0, 4), (5, 4))),
        (10, ((1, 4), (5, 4))),
        (8, ((0, 4), (0, 4))),
        (8, ((1, 4), (4, 4))),
        (8, ((0, 2), (2, 2))),
        (5, ((0, 2), (2, 2))),
    ],
)
def test_parts_that_are_not_the_halves(width: int, parts: tuple[tuple[int, int], tuple[int, int]]):
    check_declines(halves((2, width), parts=parts), FuseSwiglu(), Reason.NOT_ADJACENT, at="rlx.binary")


def test_a_width_that_is_not_known():
    eight = partial(random_values, dynamic=8)
    check_declines(halves((2, -1)), FuseSwiglu(), Reason.DYNAMIC_EXTENT, at="rlx.binary", sample=eight)


@pytest.mark.parametrize("also", ["up", "gate", "silu"])
def test_a_part_that_is_returned(also: str):
    check_declines(halves(also=also), FuseSwiglu(), Reason.RETURNED, at="rlx.binary")


def test_a_part_that_is_used_again():
    g = GraphBuilder()
    up, gate = g.split(g.input("packed", (2, 8)), 1, [4, 4])
    g.output("y", up * g.silu(gate))
    g.output("z", g.tanh(gate))
    check_declines(g.module(), FuseSwiglu(), Reason.MORE_THAN_ONE_USE, at="rlx.binary")


def test_parts_from_outside_of_the_block():
    T, P = "tensor<2x4xf32>", "tensor<2x8xf32>"
    module = graph(
        f"%u = rlx.narrow %p {{axis = 1, start = 0, len = 4}} : {P} -> {T}\n"
        f"%g = rlx.narrow %p {{axis = 1, start = 4, len = 4}} : {P} -> {T}\n"
        f'"test.op"() ({{\n%s = rlx.activation silu %g : {T}\n%y = rlx.binary mul %u, %s : ({T}, {T}) -> {T}\n'
        f'"test.termop"(%y) : ({T}) -> ()\n}}) : () -> ()',
        f"%p: {P}",
        P,
        "%p",
    )
    assert [miss.reason for miss in FuseSwiglu().misses(module)] == [Reason.OTHER_BLOCK]


def test_what_is_no_candidate():
    for module in (halves(kind="sigmoid"), halves(kind="gelu")):
        check_fusion(module, FuseSwiglu(), fused={FUSED: 0}, mutants=False)
        assert FuseSwiglu().misses(module) == []
    g = GraphBuilder()
    x = g.input("x", (2, 4))
    g.output("y", x * g.silu(x))
    assert FuseSwiglu().misses(g.module()) == []
