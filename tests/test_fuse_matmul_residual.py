"""rlx-fuse-matmul-residual: both orders, shapes, each reason, mutants."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64, i32
from xdsl.ir import Attribute

from rlx_dialect.builder import GraphBuilder
from rlx_dialect.passes.fuse_matmul_residual import FuseMatMulResidual
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import print_module

FUSED = "rlx.fused_matmul_residual"


def residual(
    x: tuple[int, ...] = (2, 3, 4),
    w: tuple[int, ...] = (4, 5),
    r: tuple[int, ...] = (2, 3, 5),
    *,
    swapped: bool = False,
    returned: bool = False,
    kind: str = "add",
    element: Attribute = f32,
) -> ModuleOp:
    g = GraphBuilder()
    product = g.input("x", x, element) @ g.param("w", w, element)
    other = g.input("r", r, element)
    g.output("y", g.binary(kind, *((other, product) if swapped else (product, other))))
    if returned:
        g.output("product", product)
    return g.module()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "r"),
    [
        ((2, 3, 4), (4, 5), (2, 3, 5)),
        ((4, 4), (4, 4), (4, 4)),
        ((2, 3, 4), (2, 4, 3), (2, 3, 3)),
        ((1, 4), (4, 1), (1, 1)),
    ],
)
def test_shapes_and_orders(x: tuple[int, ...], w: tuple[int, ...], r: tuple[int, ...], swapped: bool):
    after = check_fusion(residual(x, w, r, swapped=swapped), FuseMatMulResidual(), fused={FUSED: 1})
    assert "rlx.fused_matmul_residual %x, %w, %r" in print_module(after)


def test_the_sum_of_two_products_takes_one_in():
    g = GraphBuilder()
    x = g.input("x", (2, 4))
    g.output("y", (x @ g.param("a", (4, 3))) + (x @ g.param("b", (4, 3))))
    check_fusion(g.module(), FuseMatMulResidual(), fused={FUSED: 1})


def test_the_second_summand_where_the_first_is_used_again():
    g = GraphBuilder()
    x = g.input("x", (2, 4))
    first = x @ g.param("a", (4, 3))
    g.output("y", first + (x @ g.param("b", (4, 3))))
    g.output("first", first)
    check_fusion(g.module(), FuseMatMulResidual(), fused={FUSED: 1})


def test_a_batch_that_is_one_value():
    g = GraphBuilder()
    x = g.input("x", (-1, 4))
    g.output("y", (x @ g.param("w", (4, 4))) + x)
    check_fusion(g.module(), FuseMatMulResidual(), fused={FUSED: 1})


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (residual(element=f16), Reason.ELEMENT_TYPE),
        (residual(element=bf16), Reason.ELEMENT_TYPE),
        (residual(element=f64), Reason.ELEMENT_TYPE),
        (residual(element=i32), Reason.ELEMENT_TYPE),
        (residual(r=(5,)), Reason.SHAPES_DIFFER),
        (residual(r=(1, 3, 5)), Reason.SHAPES_DIFFER),
        (residual(r=(1, 2, 3, 5)), Reason.SHAPES_DIFFER),
        (residual(x=(1, 4), r=(3, 5)), Reason.SHAPES_DIFFER),
        (residual(x=(-1, 4), r=(-1, 5)), Reason.DYNAMIC_EXTENT),
        (residual(returned=True), Reason.RETURNED),
    ],
)
def test_it_declines(module: ModuleOp, reason: Reason):
    check_declines(module, FuseMatMulResidual(), reason, at="rlx.binary")


def test_a_product_added_to_itself():
    g = GraphBuilder()
    product = g.input("x", (2, 4)) @ g.param("w", (4, 5))
    g.output("y", product + product)
    check_declines(g.module(), FuseMatMulResidual(), Reason.MORE_THAN_ONE_USE, at="rlx.binary")


def test_a_product_from_outside_of_the_block():
    T = "tensor<4x4xf32>"
    module = graph(
        f"%p = rlx.matmul %x, %w : ({T}, {T}) -> {T}\n"
        f'"test.op"() ({{\n%y = rlx.binary add %p, %x : ({T}, {T}) -> {T}\n'
        f'"test.termop"(%y) : ({T}) -> ()\n}}) : () -> ()',
        f"%x: {T}, %w: {T}",
        T,
        "%x",
    )
    assert [miss.reason for miss in FuseMatMulResidual().misses(module)] == [Reason.OTHER_BLOCK]


@pytest.mark.parametrize("kind", ["sub", "mul"])
def test_what_is_no_candidate(kind: str):
    assert FuseMatMulResidual().misses(residual(kind=kind)) == []
    check_fusion(residual(kind=kind), FuseMatMulResidual(), fused={FUSED: 0}, mutants=False)
