"""rlx-fuse-transformer-layer: when it fuses, each reason not to, equal values, mutants."""

from __future__ import annotations

import pytest
from helpers import assert_same_meaning, decomposed, graph, parse
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.fuse_transformer_layer import FuseTransformerLayerPass
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, PatternRewriteWalker, print_module

FUSED = "rlx.fused_transformer_layer"
EXACT = {"rtol": 0.0, "atol": 0.0}

# Batch 2, sequence 3, width 5, 2 heads of 4 lanes, 7 columns inside.
X, F, V = "tensor<2x3x5xf32>", "tensor<2x3x7xf32>", "tensor<5xf32>"
ARGUMENTS = {
    "x": X,
    "qkv_w": "tensor<5x24xf32>",
    "out_w": "tensor<8x5xf32>",
    "mask": "tensor<2x3xf32>",
    "qkv_b": "tensor<24xf32>",
    "out_b": V,
    "g1": V,
    "b1": V,
    "fc1_w": "tensor<5x7xf32>",
    "fc1_b": "tensor<7xf32>",
    "fc2_w": "tensor<7x5xf32>",
    "fc2_b": V,
    "g2": V,
    "b2": V,
    "other": X,
}
BLOCK = (
    "%a = rlx.fused_attention_block %x, %qkv_w, %out_w, %mask, %qkv_b, %out_b "
    "{num_heads = 2, head_dim = 4, has_bias} : "
    f"({X}, tensor<5x24xf32>, tensor<8x5xf32>, tensor<2x3xf32>, tensor<24xf32>, {V}) -> {X}"
)
NORM1 = f"%h = rlx.fused_residual_ln %a, %x, %g1, %b1 {{eps = 1.0e-3}} : ({X}, {X}, {V}, {V}) -> {X}"
FC1 = f"%f = rlx.fused_matmul_bias_act gelu %h, %fc1_w, %fc1_b : ({X}, tensor<5x7xf32>, tensor<7xf32>) -> {F}"
FC2 = f"%g = rlx.fused_matmul_bias_act %f, %fc2_w, %fc2_b : ({F}, tensor<7x5xf32>, {V}) -> {X}"
NORM2 = f"%y = rlx.fused_residual_ln %g, %h, %g2, %b2 {{eps = 1.0e-2}} : ({X}, {X}, {V}, {V}) -> {X}"
LAYER = (BLOCK, NORM1, FC1, FC2, NORM2)


def of(*lines: str, returned: str = "%y", types: str = X, **changed: str) -> ModuleOp:
    arguments = ", ".join(f"%{name}: {type}" for name, type in (ARGUMENTS | changed).items())
    return graph("\n".join(lines), arguments, types, returned)


def fuse(module: ModuleOp, threshold: int = 64) -> ModuleOp:
    after = module.clone()
    FuseTransformerLayerPass(threshold=threshold).apply(Context(), after)
    check_dominance(after)
    assert_same_meaning(module, after, **EXACT)
    return after


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def reasons(module: ModuleOp, threshold: int = 64) -> list[Reason]:
    return [miss.reason for miss in FuseTransformerLayerPass(threshold=threshold).misses(module)]


def replaced(old: str, new: str) -> list[str]:
    """The layer with ``old`` replaced by ``new``, which changes one line at least."""
    lines = [line.replace(old, new) for line in LAYER]
    assert lines != list(LAYER)
    return lines


# It fuses.


def test_a_layer():
    module = of(*LAYER)
    after = fuse(module)
    assert names(after) == [FUSED]
    assert reasons(module) == []
    text = print_module(after)
    assert (
        f"%y = {FUSED} gelu %x, %qkv_w, %out_w, %g1, %fc1_w, %fc2_w, %g2, %mask, "
        "%qkv_b, %out_b, %b1, %fc1_b, %fc2_b, %b2 " in text
    )
    assert "{num_heads = 2, head_dim = 4, intermediate_size = 7, eps1 = 0.001, eps2 = 0.01, has_bias}" in text
    assert_same_meaning(after, decomposed(after, FUSED), **EXACT)


@pytest.mark.parametrize(
    "lines",
    [
        replaced("%a, %x, %g1", "%x, %a, %g1"),
        replaced("%g, %h, %g2", "%h, %g, %g2"),
        replaced("_act gelu", "_act"),
        replaced("_act gelu", "_act silu"),
    ],
    ids=["first sum commuted", "second sum commuted", "no activation", "another activation"],
)
def test_other_layers(lines: list[str]):
    assert names(fuse(of(*lines))) == [FUSED]


def test_a_sum_that_is_a_result_but_not_used():
    lines = [line.replace("%y =", "%y, %s =").replace(f"-> {X}", f"-> ({X}, {X})") for line in (NORM2,)]
    assert names(fuse(of(*LAYER[:4], *lines))) == [FUSED]


def test_two_layers_in_a_row():
    second = list(LAYER)
    for name in ("a", "h", "f", "g", "y"):
        second = [line.replace(f"%{name} ", f"%{name}_2 ").replace(f"%{name},", f"%{name}_2,") for line in second]
    second = [line.replace("%x,", "%y,") for line in second]
    module = of(*LAYER, *second, returned="%y_2")
    assert names(fuse(module)) == [FUSED, FUSED]


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_other_element_types(element: str):
    module = parse(print_module(of(*LAYER)).replace("f32", element))
    after = module.clone()
    FuseTransformerLayerPass().apply(Context(), after)
    assert names(after) == [FUSED]
    # Wider: products are not rounded before their bias is added.
    tolerance = {"f16": 5e-2, "bf16": 3e-1}.get(element, 0.0)
    assert_same_meaning(module, after, rtol=tolerance, atol=tolerance)


def test_it_runs_under_xdsls_walker():
    module = of(*LAYER)
    (pattern,) = FuseTransformerLayerPass().patterns()
    assert PatternRewriteWalker(pattern).rewrite_module(module)
    assert names(module) == [FUSED]


# It declines.

PLAIN_FC2 = f"%g = rlx.matmul %f, %fc2_w : ({F}, tensor<7x5xf32>) -> {X}"
EPS1 = "%g1, %b1 {eps = 1.0e-3}"
PLAIN_BLOCK = BLOCK.replace(", %qkv_b, %out_b", "").replace(", has_bias", "").replace(f", tensor<24xf32>, {V})", ")")
ROPE_BLOCK = (
    BLOCK.replace("%out_b ", "%out_b, %t, %t ")
    .replace("has_bias", "has_bias, has_rope")
    .replace(f"{V})", f"{V}, tensor<3x2xf32>, tensor<3x2xf32>)")
)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((PLAIN_BLOCK, *LAYER[1:]), Reason.ATTRIBUTES_DIFFER),
        ((ROPE_BLOCK, *LAYER[1:]), Reason.ATTRIBUTES_DIFFER),
        ((BLOCK, f"%y = rlx.activation neg %a : {X}"), Reason.OTHER_CONSUMER),
        ((BLOCK, NORM1, f"%y = rlx.binary add %h, %h : ({X}, {X}) -> {X}"), Reason.OTHER_CONSUMER),
        ((BLOCK, NORM1, FC1, PLAIN_FC2, NORM2), Reason.OTHER_CONSUMER),
        (replaced("_act %f", "_act tanh %f"), Reason.OTHER_CONSUMER),
        ((*LAYER[:4], f"%y = rlx.binary add %g, %h : ({X}, {X}) -> {X}"), Reason.OTHER_CONSUMER),
        (replaced("%a, %x, %g1", "%a, %other, %g1"), Reason.OTHER_OPERAND),
        (replaced("%g, %h, %g2", "%g, %x, %g2"), Reason.OTHER_OPERAND),
        (replaced(f"{EPS1} : ({X}, {X}", f"%b2, {EPS1} : ({X}, {X}, {V}"), Reason.ATTRIBUTES_DIFFER),
        (replaced("%a, %x, %g1", "%a, %a, %g1"), Reason.MORE_THAN_ONE_USE),
    ],
)  # fmt: skip
def test_another_layer(lines: list[str], reason: Reason):
    module = of(*lines, t="tensor<3x2xf32>")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [reason]


@pytest.mark.parametrize("value", ["a", "h", "f", "g"])
def test_a_value_between_is_used_again_or_returned(value: str):
    shape = {"f": F}.get(value, X)
    module = of(*LAYER, returned=f"%y, %{value}", types=f"{X}, {shape}")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.RETURNED]
    again = of(*LAYER, f"%n = rlx.activation neg %{value} : {shape}", returned="%y, %n", types=f"{X}, {shape}")
    assert FUSED not in names(fuse(again))
    assert reasons(again) == [Reason.MORE_THAN_ONE_USE]


@pytest.mark.parametrize("norm", [NORM1, NORM2])
def test_a_sum_is_used_again(norm: str):
    two = norm.replace(" = rlx", ", %s = rlx").replace(f"-> {X}", f"-> ({X}, {X})")
    module = of(*(two if line is norm else line for line in LAYER), returned="%y, %s", types=f"{X}, {X}")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.MORE_THAN_ONE_USE]


def test_a_weight_for_each_batch():
    module = of(*replaced("tensor<7x5xf32>", "tensor<2x7x5xf32>"), fc2_w="tensor<2x7x5xf32>")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.RANK]


def test_an_unknown_width_inside():
    text = print_module(of(*LAYER))
    for old, new in (("tensor<5x7xf32>", "tensor<5x?xf32>"), ("tensor<7xf32>", "tensor<?xf32>")):
        text = text.replace(old, new)
    module = parse(text.replace(F, "tensor<2x3x?xf32>"))
    assert reasons(module) == [Reason.DYNAMIC_EXTENT]


def test_the_threshold():
    assert FUSED not in names(fuse(of(*LAYER), threshold=5))
    assert reasons(of(*LAYER), threshold=5) == [Reason.SIZE_THRESHOLD]
    assert FUSED in names(fuse(of(*LAYER), threshold=6))
    dynamic = parse(print_module(of(*LAYER)).replace("tensor<2x3x", "tensor<?x3x"))
    assert reasons(dynamic) == [Reason.SIZE_THRESHOLD]


def test_the_norm_is_in_another_block():
    inner = "\n".join(LAYER[1:])
    module = of(BLOCK, f'"test.op"() ({{ {inner}\n"test.termop"(%y) : ({X}) -> () }}) : () -> ()', returned="%x")
    assert reasons(module) == [Reason.OTHER_BLOCK]


def test_mutants():
    counts = check_mutants(of(*LAYER), FuseTransformerLayerPass(), fused=FUSED)
    assert counts["original"] == 1
    assert counts["commuted 0 1 of fused_residual_ln#1"] == 1
    assert counts["commuted 0 1 of fused_residual_ln#4"] == 1
    assert len(counts) > 100
