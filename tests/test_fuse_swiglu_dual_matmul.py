"""rlx-fuse-swiglu-dual-matmul: forms, orders, biases, each reason, mutants, the LLaMA example."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph, parse
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Attribute

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp
from rlx_dialect.passes.fuse_swiglu_dual_matmul import FuseSwigluDualMatmul
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.pipelines.named import run_named
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import print_module

FUSED = "rlx.fused_swiglu"
LLAMA = Path(__file__).parent.parent / "examples" / "llama_block.mlir"


def dual(
    x_shape: tuple[int, ...] = (2, 3, 4),
    *,
    up_shape: tuple[int, ...] = (4, 5),
    gate_shape: tuple[int, ...] = (4, 5),
    bias: str = "",
    gate_left: bool = False,
    gate_first: bool = False,
    activation: str = "silu",
    weights: str = "param",
    two_inputs: bool = False,
    also: str = "",
    element: Attribute = f32,
) -> ModuleOp:
    """up · activation(gate) of products of ``x``.

    ``bias``: which of "up" and "gate" have one; with "silu" in it the gate's product has taken in the activation.
    """
    g = GraphBuilder()
    x = g.input("x", x_shape, element)
    other = g.input("x2", x_shape, element) if two_inputs else x
    leaf = g.param if weights == "param" else g.input

    def product(name: str, source: Value, shape: tuple[int, ...], kind: str | None = None) -> Value:
        weight = leaf(f"{name}.weight", shape, element)
        if name not in bias:
            return source @ weight
        vector = leaf(f"{name}.bias", shape[-1:], element)
        return g.insert(FusedMatMulBiasActOp(source.ssa, weight.ssa, vector.ssa, activation=kind))

    taken_in = activation if "silu" in bias else None
    if gate_first:
        gate, up = product("gate", other, gate_shape, taken_in), product("up", x, up_shape)
    else:
        up, gate = product("up", x, up_shape), product("gate", other, gate_shape, taken_in)
    gated = gate if taken_in else g.activation(activation, gate)
    g.output("y", gated * up if gate_left else up * gated)
    if also:
        g.output("also", {"up": up, "gate": gate, "silu": gated}[also])
    return g.module()


@pytest.mark.parametrize("gate_first", [False, True])
@pytest.mark.parametrize("gate_left", [False, True])
@pytest.mark.parametrize("bias", ["", "up gate", "up gate silu"])
def test_forms_and_orders(bias: str, gate_left: bool, gate_first: bool):
    module = dual(bias=bias, gate_left=gate_left, gate_first=gate_first)
    after = check_fusion(module, FuseSwigluDualMatmul(), fused={FUSED: 1}, more_operations=1, mutants=gate_left)
    operations = [op.name for op in after.walk() if op.name.startswith("rlx.")]
    product = "rlx.fused_matmul_bias_act" if bias else "rlx.matmul"
    assert operations == ["rlx.concat"] * (2 if bias else 1) + [product, FUSED]
    assert "rlx.concat %up.weight, %gate.weight {axis = 1}" in print_module(after)
    assert "gate_first" not in print_module(after)


@pytest.mark.parametrize("element", [f16, bf16, f64])
@pytest.mark.parametrize("bias", ["", "up gate silu"])
def test_other_element_types(bias: str, element: Attribute):
    check_fusion(dual(bias=bias, element=element), FuseSwigluDualMatmul(), fused={FUSED: 1}, more_operations=1)


@pytest.mark.parametrize("x", [(1, 4), (4, 4), (-1, 4), (-1, -1, 4)])
def test_other_shapes_of_the_input(x: tuple[int, ...]):
    square = dual(x, up_shape=(4, 4), gate_shape=(4, 4))
    check_fusion(square, FuseSwigluDualMatmul(), fused={FUSED: 1})
    check_fusion(dual(x), FuseSwigluDualMatmul(), fused={FUSED: 1})


def test_weights_that_are_computed_from_parameters():
    g = GraphBuilder()
    x = g.input("x", (2, 4))
    up, gate = (x @ g.transpose(g.param(name, (5, 4)), [1, 0]) for name in ("up", "gate"))
    g.output("y", up * g.silu(gate))
    check_fusion(g.module(), FuseSwigluDualMatmul(), fused={FUSED: 1})


def test_strict_numerics():
    strict = FuseSwigluDualMatmul(strict=True)
    check_fusion(dual(), strict, fused={FUSED: 1}, mutants=False)
    check_declines(dual(element=bf16), strict, Reason.NUMERICS, at="rlx.binary")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (dual(two_inputs=True), Reason.OTHER_OPERAND),
        (dual(bias="up"), Reason.ATTRIBUTES_DIFFER),
        (dual(bias="gate silu"), Reason.ATTRIBUTES_DIFFER),
        (dual(up_shape=(2, 4, 5)), Reason.RANK),
        (dual(up_shape=(4, -1)), Reason.DYNAMIC_EXTENT),
        (dual(weights="input"), Reason.COPIED_EVERY_CALL),
        (dual(weights="input", bias="up gate"), Reason.COPIED_EVERY_CALL),
        (dual(up_shape=(4, 1)), Reason.SHAPES_DIFFER),
        (dual(also="up"), Reason.RETURNED),
        (dual(also="gate"), Reason.RETURNED),
        (dual(also="silu"), Reason.RETURNED),
        (dual(also="gate", bias="up gate silu"), Reason.RETURNED),
    ],
)
def test_it_declines(module: ModuleOp, reason: Reason):
    five = partial(random_values, dynamic=5)
    check_declines(module, FuseSwigluDualMatmul(), reason, at="rlx.binary", sample=five)


def test_the_bytes_of_weights_that_would_be_copied_are_said():
    miss = check_declines(dual(weights="input"), FuseSwigluDualMatmul(), Reason.COPIED_EVERY_CALL, at="rlx.binary")
    assert miss.detail == "the weight %up.weight is known only at run time: its 80 bytes would be copied"
    assert miss.hint == "make the weight a parameter (rlx.param)"


def test_an_input_of_unknown_width_may_not_fit_both_weights():
    (miss,) = FuseSwigluDualMatmul().misses(dual((2, -1), up_shape=(3, 5)))
    assert miss.reason is Reason.SHAPES_DIFFER


def test_one_product_used_twice():
    g = GraphBuilder()
    product = g.input("x", (2, 4)) @ g.param("w", (4, 5))
    g.output("y", product * g.silu(product))
    check_declines(g.module(), FuseSwigluDualMatmul(), Reason.MORE_THAN_ONE_USE, at="rlx.binary")


def test_products_from_outside_of_the_block():
    T, W = "tensor<2x4xf32>", "tensor<4x4xf32>"
    module = graph(
        f"%u = rlx.matmul %x, %wu : ({T}, {W}) -> {T}\n%g = rlx.matmul %x, %wg : ({T}, {W}) -> {T}\n"
        f'"test.op"() ({{\n%s = rlx.activation silu %g : {T}\n%y = rlx.binary mul %u, %s : ({T}, {T}) -> {T}\n'
        f'"test.termop"(%y) : ({T}) -> ()\n}}) : () -> ()',
        f'%x: {T}, %wu: {W} {{rlx.param = "u"}}, %wg: {W} {{rlx.param = "g"}}',
        T,
        "%x",
    )
    assert [miss.reason for miss in FuseSwigluDualMatmul().misses(module)] == [Reason.OTHER_BLOCK]


def test_what_is_no_candidate():
    g = GraphBuilder()
    x, w = g.input("x", (2, 4)), g.param("w", (4, 4))
    g.output("y", (x @ w) * g.silu(x))
    for module in (dual(activation="gelu"), dual(bias="up gate silu", activation="gelu"), g.module()):
        assert FuseSwigluDualMatmul().misses(module) == []
        check_fusion(module, FuseSwigluDualMatmul(), fused={FUSED: 0}, mutants=False)


@pytest.mark.parametrize("target", ["cpu", "metal", "mlx", "wgpu"])
def test_the_llama_block(target: str):
    module = parse(LLAMA.read_text())
    run_named(module, f"{target}-fuse")
    text = print_module(module)
    assert "rlx.concat %up_proj.weight, %gate_proj.weight {axis = 1}" in text
    assert "rlx.concat %q_proj.weight, %k_proj.weight, %v_proj.weight {axis = 1}" in text
    assert text.count("rlx.fused_swiglu") == 1
    assert text.count("rlx.matmul") == 4
