"""rlx-fuse-attention-block: when it fuses, each reason not to, equal values, mutants."""

from __future__ import annotations

import pytest
from helpers import assert_same_meaning, decomposed, graph, parse
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.fuse_attention_block import FuseAttentionBlockPass
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, PatternRewriteWalker, print_module

FUSED = "rlx.fused_attention_block"
EXACT = {"rtol": 0.0, "atol": 0.0}

# Batch 2, sequence 3, width 5, 2 heads of 4 lanes, 7 columns out: no two extents that could be mixed up are equal.
HIDDEN, QKV, PART, OUT = "tensor<2x3x5xf32>", "tensor<2x3x24xf32>", "tensor<2x3x8xf32>", "tensor<2x3x7xf32>"
MASK, TABLE = "tensor<2x3xf32>", "tensor<3x2xf32>"
ARGUMENTS = {
    "x": HIDDEN,
    "w": "tensor<5x24xf32>",
    "b": "tensor<24xf32>",
    "ow": "tensor<8x7xf32>",
    "ob": "tensor<7xf32>",
    "mask": MASK,
    "cos": TABLE,
    "sin": TABLE,
}
PACKED = f"%p = rlx.fused_matmul_bias_act %x, %w, %b : ({HIDDEN}, tensor<5x24xf32>, tensor<24xf32>) -> {QKV}"
PACKED_PLAIN = f"%p = rlx.matmul %x, %w : ({HIDDEN}, tensor<5x24xf32>) -> {QKV}"


def narrow(name: str, start: int, length: int = 8) -> str:
    return f"%{name} = rlx.narrow %p {{axis = 2, start = {start}, len = {length}}} : {QKV} -> {PART}"


Q, K, V = (narrow(name, start) for name, start in (("q", 0), ("k", 8), ("v", 16)))
ATTENTION = (
    "%a = rlx.attention custom %q, %k, %v, %mask {num_heads = 2, head_dim = 4, layout = bsd} : "
    f"({PART}, {PART}, {PART}, {MASK}) -> {PART}"
)
PROJECTED = f"%o = rlx.fused_matmul_bias_act %a, %ow, %ob : ({PART}, tensor<8x7xf32>, tensor<7xf32>) -> {OUT}"
PROJECTED_PLAIN = f"%o = rlx.matmul %a, %ow : ({PART}, tensor<8x7xf32>) -> {OUT}"


def rope(name: str, x: str, cos: str = "%cos", sin: str = "%sin", more: str = "") -> str:
    return (
        f"%{name} = rlx.rope %{x}, {cos}, {sin} {{head_dim = 4{more}, layout = bsd}} : "
        f"({PART}, {TABLE}, {TABLE}) -> {PART}"
    )


ROTATED = ATTENTION.replace("%q, %k", "%rq, %rk")
BLOCK = (PACKED, Q, K, V, ATTENTION, PROJECTED)
PLAIN_BLOCK = (PACKED_PLAIN, Q, K, V, ATTENTION, PROJECTED_PLAIN)
ROPE_BLOCK = (PACKED, Q, K, V, rope("rq", "q"), rope("rk", "k"), ROTATED, PROJECTED)


def of(*lines: str, returned: str = "%o", types: str = OUT, **changed: str) -> ModuleOp:
    arguments = ", ".join(f"%{name}: {type}" for name, type in (ARGUMENTS | changed).items())
    return graph("\n".join(lines), arguments, types, returned)


def fuse(module: ModuleOp, threshold: int = 64) -> ModuleOp:
    after = module.clone()
    FuseAttentionBlockPass(threshold=threshold).apply(Context(), after)
    check_dominance(after)
    assert_same_meaning(module, after, **EXACT)
    return after


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def reasons(module: ModuleOp, threshold: int = 64) -> list[Reason]:
    return [miss.reason for miss in FuseAttentionBlockPass(threshold=threshold).misses(module)]


def replaced(lines: tuple[str, ...], old: str, new: str) -> list[str]:
    """``lines`` with ``old`` replaced by ``new``, which changes one of them at least."""
    result = [line.replace(old, new) for line in lines]
    assert result != list(lines)
    return result


# It fuses.


@pytest.mark.parametrize("lines", [BLOCK, PLAIN_BLOCK, ROPE_BLOCK], ids=["bias", "no bias", "rope"])
def test_a_block(lines: tuple[str, ...]):
    module = of(*lines)
    after = fuse(module)
    assert names(after) == [FUSED]
    assert reasons(module) == []
    assert_same_meaning(after, decomposed(after, FUSED), **EXACT)


def test_the_operands_come_in_the_order_of_the_operation():
    text = print_module(fuse(of(*ROPE_BLOCK)))
    assert f"%o = {FUSED} %x, %w, %ow, %mask, %b, %ob, %cos, %sin " in text
    assert "{num_heads = 2, head_dim = 4, has_bias, has_rope}" in text


def test_the_narrows_come_in_any_order():
    assert names(fuse(of(PACKED, V, K, Q, ATTENTION, PROJECTED))) == [FUSED]


def test_an_operand_is_defined_late():
    lines = (
        *BLOCK[:5],
        "%late = rlx.activation neg %ob : tensor<7xf32>",
        PROJECTED.replace("%ob", "%late"),
    )
    assert names(fuse(of(*lines))) == ["rlx.activation", FUSED]


def test_a_mask_of_truth_values():
    lines = replaced(BLOCK, MASK, "tensor<2x3xi1>")
    assert names(fuse(of(*lines, mask="tensor<2x3xi1>"))) == [FUSED]


def test_a_scale_that_is_the_default():
    assert names(fuse(of(*replaced(BLOCK, "layout = bsd", "layout = bsd, score_scale = 0.5")))) == [FUSED]


def test_two_blocks_in_a_row():
    """The second reads the first's result; extents are square here: width, heads times lanes and columns are 8."""
    x, w, ow = "tensor<2x3x8xf32>", "tensor<8x24xf32>", "tensor<8x8xf32>"
    first = [line.replace(HIDDEN, x).replace("tensor<5x24xf32>", w) for line in PLAIN_BLOCK[:5]]
    first.append(f"%o = rlx.matmul %a, %ow : ({PART}, {ow}) -> {x}")
    second = [line.replace("%x", "%o") for line in first]
    for name in ("p", "q", "k", "v", "a"):
        second = [line.replace(f"%{name} ", f"%{name}2 ").replace(f"%{name},", f"%{name}2,") for line in second]
    second[-1] = second[-1].replace("%o =", "%y =")
    module = graph("\n".join([*first, *second]), f"%x: {x}, %w: {w}, %ow: {ow}, %mask: {MASK}", x, "%y")
    assert names(fuse(module)) == [FUSED, FUSED]


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_other_element_types(element: str):
    module = parse(print_module(of(*BLOCK)).replace("f32", element))
    after = module.clone()
    FuseAttentionBlockPass().apply(Context(), after)
    assert names(after) == [FUSED]
    # Wider: the products are not rounded before their bias is added.
    tolerance = {"f16": 1e-2, "bf16": 1e-1}.get(element, 0.0)
    assert_same_meaning(module, after, rtol=tolerance, atol=tolerance)


def test_it_runs_under_xdsls_walker():
    module = of(*BLOCK)
    (pattern,) = FuseAttentionBlockPass().patterns()
    assert PatternRewriteWalker(pattern).rewrite_module(module)
    assert names(module) == [FUSED]


def test_strict_numerics():
    assert FuseAttentionBlockPass(strict=True).misses(of(*BLOCK)) == []
    narrow_floats = parse(print_module(of(*BLOCK)).replace("f32", "f16"))
    assert [m.reason for m in FuseAttentionBlockPass(strict=True).misses(narrow_floats)] == [Reason.NUMERICS]


# It declines.

CUSTOM = "rlx.attention custom %q, %k, %v, %mask"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            replaced(tuple(replaced(BLOCK, CUSTOM, "rlx.attention causal %q, %k, %v")), f", {MASK}) ->", ") ->"),
            Reason.MASK,
        ),
        (replaced(BLOCK, "layout = bsd", "layout = bsd, score_scale = 1.0"), Reason.ATTRIBUTES_DIFFER),
        (replaced(BLOCK, "layout = bsd", "layout = bsd, attn_logit_softcap = 5.0"), Reason.ATTRIBUTES_DIFFER),
        ((PACKED_PLAIN, *BLOCK[1:]), Reason.ATTRIBUTES_DIFFER),
        ((*BLOCK[:5], PROJECTED_PLAIN), Reason.ATTRIBUTES_DIFFER),
        (replaced(BLOCK, "rlx.fused_matmul_bias_act %x", "rlx.fused_matmul_bias_act gelu %x"), Reason.UNSUPPORTED_KIND),
        (replaced(BLOCK, "rlx.fused_matmul_bias_act %a", "rlx.fused_matmul_bias_act gelu %a"), Reason.UNSUPPORTED_KIND),
        ((PACKED, Q.replace("%q", "%k"), K.replace("%k", "%q"), V, ATTENTION, PROJECTED), Reason.NOT_ADJACENT),
        ((PACKED, narrow("q", 1), K, V, ATTENTION, PROJECTED), Reason.NOT_ADJACENT),
        ((PACKED, Q, K, ATTENTION.replace("%v", "%k"), PROJECTED), Reason.MORE_THAN_ONE_USE),
        ((*BLOCK[:5], f"%o = rlx.activation neg %a : {PART}"), Reason.OTHER_CONSUMER),
        ((f"%p = rlx.activation neg %qkv : {QKV}", *BLOCK[1:]), Reason.OTHER_OPERAND),
        ((*BLOCK[:3], f"%v = rlx.activation neg %q2 : {PART}", *BLOCK[4:]), Reason.OTHER_OPERAND),
        ((*ROPE_BLOCK[:4], rope("rq", "q"), ATTENTION.replace("%q", "%rq"), PROJECTED), Reason.ATTRIBUTES_DIFFER),
        (replaced(ROPE_BLOCK, "%rk = rlx.rope %k, %cos", "%rk = rlx.rope %k, %sin"), Reason.OTHER_OPERAND),
        (replaced(ROPE_BLOCK, "{head_dim = 4,", "{head_dim = 4, style = gptj,"), Reason.ATTRIBUTES_DIFFER),
        (replaced(ROPE_BLOCK, "{head_dim = 4,", "{head_dim = 4, n_rot = 2,"), Reason.ATTRIBUTES_DIFFER),
        (replaced(ROPE_BLOCK, "{head_dim = 4,", "{head_dim = 2,"), Reason.ATTRIBUTES_DIFFER),
    ],
)  # fmt: skip
def test_another_attention_or_other_projections(lines: list[str], reason: Reason):
    returned = PART if "neg %a" in lines[-1] else OUT
    module = of(*lines, types=returned, qkv=QKV, q2=PART)
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [reason]


@pytest.mark.parametrize("value", ["p", "q", "k", "v", "a"])
def test_a_value_between_is_used_again_or_returned(value: str):
    shape = {"p": QKV}.get(value, PART)
    module = of(*BLOCK, returned=f"%o, %{value}", types=f"{OUT}, {shape}")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.RETURNED]
    again = of(*BLOCK, f"%n = rlx.activation neg %{value} : {shape}", returned="%o, %n", types=f"{OUT}, {shape}")
    assert FUSED not in names(fuse(again))
    assert reasons(again) == [Reason.MORE_THAN_ONE_USE]


@pytest.mark.parametrize("value", ["rq", "rk"])
def test_a_rotated_value_is_used_again(value: str):
    module = of(*ROPE_BLOCK, f"%n = rlx.activation neg %{value} : {PART}", returned="%o, %n", types=f"{OUT}, {PART}")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.MORE_THAN_ONE_USE]


@pytest.mark.parametrize("mask", ["1x3", "2x1x3", "2x3x3", "1x1x1x3", "2x2x3x3"])
def test_a_mask_that_is_no_row_of_keys_for_each_batch(mask: str):
    other = f"tensor<{mask}xf32>"
    module = of(*replaced(BLOCK, MASK, other), mask=other)
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.MASK]


def test_heads_in_axes_of_their_own():
    heads = "tensor<2x3x2x4xf32>"
    split = [f"%{n}h = rlx.reshape %{n} {{new_shape = [2, 3, 2, 4]}} : {PART} -> {heads}" for n in "qkv"]
    attention = (
        "%h = rlx.attention custom %qh, %kh, %vh, %mask {num_heads = 2, head_dim = 4, layout = bshd} : "
        f"({heads}, {heads}, {heads}, {MASK}) -> {heads}"
    )
    merged = f"%a = rlx.reshape %h {{new_shape = [2, 3, 8]}} : {heads} -> {PART}"
    module = of(PACKED, Q, K, V, *split, attention, merged, PROJECTED)
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.AXIS]


def test_parts_along_another_axis():
    """Batch, sequence and columns are all 24 here, so only the axis tells the parts apart."""
    x, square, part = "tensor<3x24x24xf32>", "tensor<24x24xf32>", "tensor<3x8x24xf32>"
    lines = [
        f"%p = rlx.matmul %x, %w : ({x}, {square}) -> {x}",
        *(
            f"%{n} = rlx.narrow %p {{axis = 1, start = {8 * i}, len = 8}} : {x} -> {part}"
            for i, n in enumerate(("q", "k", "v"))
        ),
        "%a = rlx.attention custom %q, %k, %v, %mask {num_heads = 2, head_dim = 12, layout = bsd} : "
        f"({part}, {part}, {part}, tensor<3x8xf32>) -> {part}",
        f"%o = rlx.matmul %a, %w : ({part}, {square}) -> {part}",
    ]
    module = graph("\n".join(lines), f"%x: {x}, %w: {square}, %mask: tensor<3x8xf32>", part, "%o")
    assert FUSED not in names(fuse(module, 1000))
    assert reasons(module, 1000) == [Reason.AXIS]


def test_the_attention_is_the_weight_of_the_product():
    module = of(
        *BLOCK[:5],
        f"%o = rlx.matmul %y, %a : (tensor<2x7x3xf32>, {PART}) -> tensor<2x7x8xf32>",
        types="tensor<2x7x8xf32>",
        y="tensor<2x7x3xf32>",
    )
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.OTHER_CONSUMER]


def test_a_weight_for_each_batch():
    module = of(*replaced(BLOCK, "tensor<8x7xf32>", "tensor<2x8x7xf32>"), ow="tensor<2x8x7xf32>")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.RANK]


def test_the_threshold_is_that_of_the_hidden_value():
    """A further, smaller argument does not matter, nor a larger one."""
    for extra in ("tensor<1x1xf32>", "tensor<1000x1000xf32>"):
        module = of(*BLOCK, extra=extra)
        assert reasons(module, threshold=5) == [Reason.SIZE_THRESHOLD]
        assert names(module) == names(of(*BLOCK))
    assert FUSED not in names(fuse(of(*BLOCK), threshold=5))
    assert FUSED in names(fuse(of(*BLOCK), threshold=6))
    assert FuseAttentionBlockPass().threshold == 64


def test_an_unknown_batch():
    module = parse(print_module(of(*BLOCK)).replace("tensor<2x3x", "tensor<?x3x").replace(MASK, "tensor<?x3xf32>"))
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.SIZE_THRESHOLD]


def test_the_projection_is_computed_outside_of_the_attentions_block():
    inner = "\n".join(BLOCK[1:])
    module = of(
        PACKED,
        f'"test.op"() ({{ {inner}\n"test.termop"(%o) : ({OUT}) -> () }}) : () -> ()',
        returned="%x",
        types=HIDDEN,
    )
    assert reasons(module) == [Reason.OTHER_BLOCK]
    FuseAttentionBlockPass().apply(Context(), module)
    assert FUSED not in names(module)


@pytest.mark.parametrize("lines", [BLOCK, PLAIN_BLOCK, ROPE_BLOCK], ids=["bias", "no bias", "rope"])
def test_mutants(lines: tuple[str, ...]):
    # The order in which a BLAS sums depends on the number of rows, which some mutants change.
    counts = check_mutants(of(*lines), FuseAttentionBlockPass(), fused=FUSED)
    assert counts["original"] == 1
    for name, count in counts.items():
        if "returned" in name or "second use" in name:
            assert count == (("fused_matmul_bias_act#" in name and "#0" not in name) or name.endswith("matmul#5.0"))
    assert len(counts) > 100
