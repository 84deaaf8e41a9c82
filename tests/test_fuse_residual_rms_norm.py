"""rlx-fuse-residual-rms-norm: pre-norm decoders, both forms, whatever order a program is written in, reasons."""

from __future__ import annotations

import random

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph, parse
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.normalization import FusedResidualRmsNormOp
from rlx_dialect.passes.fuse_residual_rms_norm import FuseResidualRmsNorm
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.fused_residual_rms_norm"
BLOCKS = 16
SEQ, WIDTH, HEADS, HEAD = 4, 8, 2, 4
T = "tensor<2x3x8xf32>"
V = "tensor<8xf32>"
ADD = f"%s = rlx.binary add %x, %r : ({T}, {T}) -> {T}"
NORM = f"%n = rlx.rms_norm %s, %g, %b {{eps = 1.0e-6}} : ({T}, {V}, {V}) -> {T}"


def of(*lines: str, returned: str = "%n") -> ModuleOp:
    arguments = f"%x: {T}, %r: {T}, %g: {V}, %b: {V}"
    return graph("\n".join(lines), arguments, ", ".join([T] * len(returned.split(","))), returned)


def decoder(blocks: int, batch: int = 1, seq: int = SEQ) -> ModuleOp:
    """As examples/llama_block.mlir, ``blocks`` times with a norm at the end; an extent of -1 is dynamic."""
    g = GraphBuilder()
    hidden = g.input("hidden", (batch, seq, WIDTH))
    cos, sin = (g.input(f"rope_{name}", (SEQ, HEAD // 2)) for name in ("cos", "sin"))
    zeros = g.constant([0.0] * WIDTH)

    def norm(name: str, x: Value) -> Value:
        return g.rms_norm(x, g.param(f"{name}.weight", (WIDTH,)), zeros, eps=1e-6)

    def linear(name: str, x: Value, rows: int, columns: int) -> Value:
        return x @ g.param(f"{name}.weight", (rows, columns))

    def rope(x: Value) -> Value:
        return g.insert(RopeOp(x.ssa, cos.ssa, sin.ssa, head_dim=HEAD, layout="bsd"))

    for i in range(blocks):
        x = norm(f"{i}.input_norm", hidden)
        q, k, v = (linear(f"{i}.{p}_proj", x, WIDTH, WIDTH) for p in "qkv")
        mixed = g.insert(
            AttentionOp(
                rope(q).ssa, rope(k).ssa, v.ssa, mask_kind="causal", num_heads=HEADS, head_dim=HEAD, layout="bsd"
            )
        )
        hidden = hidden + linear(f"{i}.o_proj", mixed, WIDTH, WIDTH)
        x = norm(f"{i}.post_attention_norm", hidden)
        up, gate = (linear(f"{i}.{p}_proj", x, WIDTH, 3 * WIDTH) for p in ("up", "gate"))
        hidden = hidden + linear(f"{i}.down_proj", up * g.silu(gate), 3 * WIDTH, WIDTH)
    g.output("hidden", norm("norm", hidden))
    return g.module()


def count(module: ModuleOp, name: str) -> int:
    return sum(op.name == name for op in module.walk())


def test_a_decoder_of_sixteen_blocks():
    """A norm after the attention of each block, the first norms of 15 blocks and the last one: all 32 pairs."""
    after = check_fusion(decoder(BLOCKS), FuseResidualRmsNorm(), fused={FUSED: 2 * BLOCKS}, mutants=False)
    assert count(after, "rlx.rms_norm") == 1
    assert count(after, "rlx.binary") == BLOCKS
    two = [op for op in after.walk() if isinstance(op, FusedResidualRmsNormOp) and op.sum is not None]
    assert len(two) == 2 * BLOCKS - 1
    assert FuseResidualRmsNorm().misses(decoder(BLOCKS)) == []


@pytest.mark.parametrize("extents", [(-1, SEQ), (1, -1), (-1, -1)], ids=["batch", "length", "both"])
def test_a_decoder_of_unknown_extents(extents: tuple[int, int]):
    after = decoder(3, *extents)
    FuseResidualRmsNorm().apply(Context(), after)
    assert count(after, FUSED) == 6


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_the_program_does_not_matter(seed: int):
    """Any order in which definitions come before uses gives the same fusions."""
    module = decoder(4)
    shuffle(module, random.Random(seed))
    check_dominance(module)
    check_fusion(module, FuseResidualRmsNorm(), fused={FUSED: 8}, mutants=False)


def shuffle(module: ModuleOp, rng: random.Random) -> None:
    """Another order of the operations of the only function, definitions still before their uses."""
    (function,) = module.ops
    block = function.regions[0].block
    *waiting, _ = list(block.ops)
    placed: set[Operation] = set()
    order: list[Operation] = []
    while waiting:
        ready = [op for op in waiting if all(o.owner in placed or o.owner is block for o in op.operands)]
        op = rng.choice(ready)
        waiting.remove(op)
        placed.add(op)
        order.append(op)
    for op in order:
        op.detach()
    assert block.last_op is not None
    block.insert_ops_before(order, block.last_op)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("returned", ["%n", "%n, %s"])
def test_one_pair(element: str, returned: str):
    module = parse(print_module(of(ADD, NORM, returned=returned)).replace("f32", element))
    after = check_fusion(module, FuseResidualRmsNorm(), fused={FUSED: 1})
    assert "eps = 1.0e-6" in print_module(after)


def test_the_sum_is_used_before_the_norm_and_gamma_is_defined_late():
    module = of(
        ADD,
        f"%m = rlx.activation tanh %s : {T}",
        f"%h = rlx.constant dense<2.0> : {V}",
        NORM.replace("%g", "%h"),
        returned="%n, %m",
    )
    after = check_fusion(module, FuseResidualRmsNorm(), fused={FUSED: 1})
    assert [op.name for op in after.walk() if op.name.startswith("rlx.")] == ["rlx.constant", FUSED, "rlx.activation"]


# It declines.


@pytest.mark.parametrize(("x", "r"), [("8", "2x3x8"), ("2x3x8", "2x1x8"), ("1x3x8", "2x1x8")])
def test_the_summands_broadcast(x: str, r: str):
    module = graph(
        f"%s = rlx.binary add %x, %r : (tensor<{x}xf32>, tensor<{r}xf32>) -> {T}\n{NORM}",
        f"%x: tensor<{x}xf32>, %r: tensor<{r}xf32>, %g: {V}, %b: {V}",
        T,
        "%n",
    )
    check_declines(module, FuseResidualRmsNorm(), Reason.SHAPES_DIFFER, at="rlx.rms_norm")


def test_unknown_extents_of_two_arguments():
    d = "tensor<?x8xf32>"
    module = graph(
        f"%s = rlx.binary add %x, %r : ({d}, {d}) -> {d}\n{NORM.replace(T, d)}",
        f"%x: {d}, %r: {d}, %g: {V}, %b: {V}",
        d,
        "%n",
    )
    check_declines(module, FuseResidualRmsNorm(), Reason.DYNAMIC_EXTENT, at="rlx.rms_norm")


def test_the_norm_flattens_its_result():
    flat = "tensor<6x8xf32>"
    module = graph(
        f"{ADD}\n%n = rlx.rms_norm %s, %g, %b {{eps = 1.0e-6}} : ({T}, {V}, {V}) -> {flat}",
        f"%x: {T}, %r: {T}, %g: {V}, %b: {V}",
        flat,
        "%n",
    )
    check_declines(module, FuseResidualRmsNorm(), Reason.SHAPES_DIFFER, at="rlx.rms_norm")


def test_gamma_is_computed_from_the_sum():
    module = graph(
        f"%s = rlx.binary add %x, %r : ({V}, {V}) -> {V}\n%h = rlx.activation neg %s : {V}\n"
        f"%n = rlx.rms_norm %s, %h, %x {{eps = 1.0e-6}} : ({V}, {V}, {V}) -> {V}",
        f"%x: {V}, %r: {V}",
        V,
        "%n",
    )
    check_declines(module, FuseResidualRmsNorm(), Reason.DEFINED_TOO_LATE, at="rlx.rms_norm")


def test_strict_numerics_decline_narrow_floats_only():
    assert FuseResidualRmsNorm(strict=True).misses(of(ADD, NORM)) == []
    module = parse(print_module(of(ADD, NORM)).replace("f32", "bf16"))
    check_declines(module, FuseResidualRmsNorm(strict=True), Reason.NUMERICS, at="rlx.rms_norm")
