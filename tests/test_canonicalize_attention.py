"""rlx-canonicalize-ops: attention that is spelled out becomes rlx.attention, in every spelling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attention_spellings import (
    ATTENTION,
    ONLY,
    SCALE,
    AttentionOnly,
    B,
    D,
    E,
    H,
    S,
    T,
    grouped,
    heads_in_batch,
    primitives,
    spelled,
    swap,
    triangle,
)
from fusion_harness import check_declines, check_fusion
from helpers import decomposed
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Attribute

from rlx_dialect.attributes import MaskKind
from rlx_dialect.builder import GraphBuilder
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.passes.canonical import attention
from rlx_dialect.passes.matching.fusion import Numerics, Reason
from rlx_dialect.xdsl_compat import Context, print_module


def only_attention(module: ModuleOp) -> AttentionOp:
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    return op


def others(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.") and op.name != ATTENTION]


SPELLINGS: list[tuple[dict[str, Any], str]] = [
    ({}, "none"),
    ({"scale": "none"}, "none score_scale=1.0"),
    *(({"scale": scale}, "none") for scale in ("mul", "mul, commuted", "q", "both")),
    ({"scale": "twice"}, "none score_scale=0.25"),
    *(({"scale": scale}, "none attn_logit_softcap=5.0") for scale in ("cap", "cap by product")),
    *(({"mask": mask}, "bias") for mask in ("bias", "bias, commuted", "bias of heads and queries", "bias of queries")),
    *(
        ({"mask": mask}, "custom")
        for mask in ("seen", "seen, -inf", "seen, lowest", "hidden", "mask of 0", "mask below half", "row")
    ),
    *(
        ({"mask": mask}, "causal")
        for mask in (
            "causal",
            "causal, lowest",
            "causal, seen",
            "causal, cut out",
            "causal, positions",
        )
    ),
    *(({"mask": mask}, "bias") for mask in ("two biases", "causal and bias", "bias and hidden")),
    ({"mask": "window"}, "sliding_window window=1"),
    ({"mask": "nothing hidden"}, "none"),
    *(({"heads": heads}, "none") for heads in ("split", "split, keys at once", "split, not merged", "one")),
    ({"heads": "one", "mask": "bias"}, "bias"),
    ({"heads": "one", "mask": "bias of queries"}, "bias"),
    ({"heads": "one", "mask": "seen"}, "custom"),
    ({"heads": "split", "scale": "before the split"}, "none"),
    *(
        ({"heads": heads, "products": products, "scale": "q"}, "none")
        for heads in ("split", "given")
        for products in ("dot_general", "dot_general, turned", "matmul, turned")
    ),
]  # fmt: skip


def attributes(op: AttentionOp) -> str:
    named = {
        name: getattr(op, name).value.data
        for name in ("score_scale", "attn_logit_softcap", "window")
        if getattr(op, name) is not None
    }
    return " ".join([op.mask_kind.data, *(f"{name}={value}" for name, value in named.items())])


@pytest.mark.parametrize(("spelling", "expected"), SPELLINGS, ids=[", ".join(s.values()) for s, _ in SPELLINGS])
def test_a_spelling(spelling: dict[str, Any], expected: str):
    after = check_fusion(spelled(**spelling), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert attributes(only_attention(after)) == expected


def test_heads_that_are_split_and_merged_are_packed():
    for heads in ("split", "split, keys at once"):
        after = check_fusion(spelled(heads=heads), ONLY, fused={ATTENTION: 1}, mutants=False)
        assert others(after) == []
        assert only_attention(after).layout.data == "bsd"


def test_heads_that_are_given_stay():
    after = check_fusion(spelled(), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert others(after) == []
    assert only_attention(after).layout.data == "bhsd"


def test_a_row_of_keys_is_a_mask_of_rank_2():
    for mask in ("row", "seen", "mask of 0"):
        after = check_fusion(spelled(mask=mask), ONLY, fused={ATTENTION: 1}, mutants=False)
        op = only_attention(after)
        assert op.mask is not None
        assert op.shape(3) == (B, T)
    assert others(check_fusion(spelled(mask="row"), ONLY, fused={ATTENTION: 1}, mutants=False)) == []
    below = check_fusion(spelled(mask="mask below half"), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert others(below) == []


@pytest.mark.parametrize("element", [f16, bf16, f64])
@pytest.mark.parametrize("mask", ["none", "bias", "causal"])
def test_other_element_types(element: Attribute, mask: str):
    check_fusion(spelled(mask=mask, element=element), ONLY, fused={ATTENTION: 1}, mutants=False)


def in_f32(*, mask_before_cast: bool = True, weights: Attribute = f16) -> ModuleOp:
    """f16 with the softmax in f32, as exporters write it."""
    g = GraphBuilder()
    q, k, v = (g.input(n, s, f16) for n, s in (("q", (B, H, S, D)), ("k", (B, H, T, D)), ("v", (B, H, T, E))))
    scores = (q @ g.transpose(k, [0, 1, 3, 2])) * SCALE
    if mask_before_cast:
        scores = g.cast(scores + g.input("bias", (B, 1, S, T), f16), f32)
    else:
        scores = g.cast(scores, f32) + g.input("bias", (B, 1, S, T))
    result = g.cast(g.softmax(scores), weights) @ g.cast(v, weights)
    g.output("y", result)
    return g.module()


def test_the_softmax_is_in_f32():
    check_fusion(in_f32(), ONLY, fused={ATTENTION: 1}, mutants=False)
    check_declines(in_f32(mask_before_cast=False), ONLY, Reason.ELEMENT_TYPE, at="rlx.matmul")
    check_declines(in_f32(weights=f32), ONLY, Reason.ELEMENT_TYPE, at="rlx.matmul")


@pytest.mark.parametrize(
    ("mask", "softmax_of_heads"),
    [("none", False), ("bias", False), ("bias", True), ("row", False), ("seen, -inf", True), ("causal", False)],
)
def test_heads_in_the_batch(mask: str, softmax_of_heads: bool):
    module = heads_in_batch(mask, softmax_of_heads=softmax_of_heads)
    after = check_fusion(module, ONLY, fused={ATTENTION: 1}, mutants=False)
    op = only_attention(after)
    assert (op.layout.data, op.num_heads.value.data) == ("bsd", H)
    assert set(others(after)) <= {"rlx.reshape"}


def test_a_mask_for_batch_and_heads_in_one_stays_with_them():
    after = check_fusion(heads_in_batch("rows of the batch"), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert only_attention(after).num_heads.value.data == 1


# Repeated heads.


@pytest.mark.parametrize("how", ["expand", "tile", "concat"])
@pytest.mark.parametrize("packed", [False, True])
def test_repeated_heads_are_shared(how: str, packed: bool):
    after = check_fusion(grouped(how, how, packed=packed), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert others(after) == []
    assert only_attention(after).kv_heads == 2


@pytest.mark.parametrize("how", ["one head", "broadcast", "expand"])
def test_one_head_is_shared(how: str):
    after = check_fusion(grouped(how, how, kv_heads=1), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert others(after) == []
    assert only_attention(after).kv_heads == 1


@pytest.mark.parametrize(
    ("k_how", "v_how"),
    [
        ("interleaved expand", "interleaved expand"),
        ("interleaved concat", "interleaved concat"),
        ("tile as a whole", "tile as a whole"),
        ("expand", "interleaved expand"),
    ],
)
def test_heads_in_another_order_are_not_shared(k_how: str, v_how: str):
    after = check_fusion(grouped(k_how, v_how), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert only_attention(after).num_kv_heads is None


# Its classes of numerics.


@pytest.mark.parametrize(
    ("spelling", "kept"),
    [
        ({"scale": "mul"}, True),
        ({"scale": "mul", "mask": "bias"}, True),
        ({"scale": "mul", "mask": "seen"}, True),
        ({"scale": "mul", "mask": "causal, seen"}, True),
        ({"scale": "div"}, False),
        ({"scale": "twice"}, False),
        ({"scale": "mul", "mask": "seen, -inf"}, False),
    ],
)
def test_strict_numerics(spelling: dict[str, Any], kept: bool):
    strict = AttentionOnly(strict=True)
    module = spelled(**spelling)
    after = module.clone()
    strict.apply(Context(), after)
    assert (ATTENTION in [op.name for op in after.walk()]) is kept
    assert [miss.reason for miss in strict.misses(module)] == ([] if kept else [Reason.NUMERICS])


def test_under_strict_numerics_a_scale_stays_in_front_and_a_triangle_a_bias():
    strict = AttentionOnly(strict=True)
    after = spelled(scale="q")
    strict.apply(Context(), after)
    assert only_attention(after).scale == 1.0
    after = spelled(scale="mul", mask="causal")
    strict.apply(Context(), after)
    assert only_attention(after).mask_kind.data is MaskKind.BIAS


def test_every_class_of_numerics_is_stated():
    assert {pattern.numerics for pattern in attention.patterns()} >= {
        Numerics.EXACT,
        Numerics.WIDER,
        Numerics.REASSOCIATED,
        Numerics.NAN_POLICY,
    }


# Mutants.


@pytest.mark.parametrize(
    "module",
    [
        spelled(scale="mul", mask="bias"),
        spelled(heads="split", mask="row"),
        spelled(scale="q", heads="split", products="dot_general, turned"),
        spelled(scale="q", heads="split", products="matmul, turned"),
        primitives(q=(2, 3, 3, 3), k=(2, 3, 3, 3), v=(2, 3, 3, 3)),
        grouped("expand", "expand"),
        heads_in_batch("bias"),
    ],
    ids=["bias", "split", "dot_general", "turned", "square", "grouped", "heads in batch"],
)
def test_mutants(module: ModuleOp):
    assert check_mutants(module, ONLY, fused=ATTENTION)["original"] == 1


# Constant masks that are none of the kinds.


@pytest.mark.parametrize(
    "mask",
    [
        np.triu(np.full((S, T), -math.inf), 1),
        triangle(-10.0),
        triangle(math.inf),
        np.where(triangle(1.0) == 0, 0.5, -math.inf),
        np.tril(np.full((S, T), -math.inf)),
        np.where(np.arange(T) % 2 == np.zeros((S, 1)), 0.0, -math.inf),
    ],
    ids=["corner at the start", "finite", "+inf", "not 0", "other side", "stripes"],
)
def test_a_constant_bias_that_is_no_triangle_stays(mask: np.ndarray[Any, Any]):
    g = GraphBuilder()
    q, k, v = (g.input(n, s) for n, s in (("q", (B, H, S, D)), ("k", (B, H, T, D)), ("v", (B, H, T, E))))
    g.output("y", g.softmax(q @ g.transpose(k, [0, 1, 3, 2]) + g.constant(mask)) @ v)
    after = check_fusion(g.module(), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert only_attention(after).mask_kind.data is MaskKind.BIAS


@pytest.mark.parametrize("kind", ["none", "causal", "custom", "bias"])
@pytest.mark.parametrize("layout", ["bsd", "bshd", "bhsd"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_what_attention_decomposes_into_is_attention_again(kind: str, layout: str, kv_heads: int):
    g = GraphBuilder()
    shapes = [(S, H, D), (T, kv_heads, D), (T, kv_heads, E)]
    order = {
        "bsd": lambda s, h, d: (B, s, h * d),
        "bshd": lambda s, h, d: (B, s, h, d),
        "bhsd": lambda s, h, d: (B, h, s, d),
    }
    q, k, v = (g.input(n, order[layout](*shape)) for n, shape in zip("qkv", shapes, strict=True))
    mask = {"custom": (B, T), "bias": (B, 1, S, T)}.get(kind)
    op = AttentionOp(
        q.ssa,
        k.ssa,
        v.ssa,
        g.input("mask", mask).ssa if mask else None,
        mask_kind=kind,
        num_heads=H,
        num_kv_heads=kv_heads,
        head_dim=D,
        v_head_dim=E,
        layout=layout,
    )
    g.output("y", g.insert(op))
    module = g.module()
    after = decomposed(module, ATTENTION)
    ONLY.apply(Context(), after)
    assert (
        print_module(after).replace("%0", "").split("rlx.attention")[1:]
        == print_module(module).replace("%0", "").split("rlx.attention")[1:]
    )


def test_an_unknown_batch_that_is_one_and_the_same():
    g = GraphBuilder()
    x = g.input("x", (-1, S, H * D))
    q, k, v = (x @ g.param(n, (H * D, H * d)) for n, d in (("wq", D), ("wk", D), ("wv", E)))
    q, k, v = (swap(g, g.reshape(y, (-1, S, H, d))) for y, d in ((q, D), (k, D), (v, E)))
    result = g.softmax((q @ g.transpose(k, [0, 1, 3, 2])) * SCALE + g.input("bias", (1, 1, S, S))) @ v
    g.output("y", g.reshape(swap(g, result), (-1, S, H * E)))
    after = check_fusion(g.module(), ONLY, fused={ATTENTION: 1}, mutants=False)
    assert others(after) == ["rlx.matmul"] * 3
