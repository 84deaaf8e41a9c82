"""rlx-canonicalize-ops: what looks like attention and is none, or is not known to be, and the reason given."""

from __future__ import annotations

import math

import pytest
from attention_spellings import (
    ONLY,
    B,
    D,
    E,
    H,
    S,
    T,
    masked,
    primitives,
)
from fusion_harness import check_declines
from helpers import parse
from xdsl.dialects.builtin import ModuleOp, i1

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.contraction import DotGeneralOp
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import print_module


def twice(g: GraphBuilder, scores: Value) -> Value:
    """Masked twice, with a score of hidden keys that the second mask adds to."""
    return masked(g, masked(g, scores, "seen"), "bias")


def scaled_after_mask(g: GraphBuilder, scores: Value) -> Value:
    return masked(g, scores, "bias") * 0.5


def returned(g: GraphBuilder, x: Value) -> Value:
    g.output("between", x)
    return x


def used_again(g: GraphBuilder, x: Value) -> Value:
    g.output("again", g.exp(x))
    return x


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (primitives(axis=2), Reason.AXIS),
        (primitives(q=(B, H, T, D), axis=2), Reason.AXIS),
        (primitives(after=returned), Reason.RETURNED),
        (primitives(after=used_again), Reason.MORE_THAN_ONE_USE),
        (primitives(between=returned), Reason.RETURNED),
        (primitives(between=used_again), Reason.MORE_THAN_ONE_USE),
        (primitives(between=lambda g, s: used_again(g, s) * 0.5), Reason.MORE_THAN_ONE_USE),
        (primitives(between=lambda g, s: used_again(g, g.tanh(s)) * 5.0), Reason.MORE_THAN_ONE_USE),
        (primitives(between=lambda g, s: g.tanh(used_again(g, s / 5.0)) * 5.0), Reason.MORE_THAN_ONE_USE),
        (primitives(between=lambda g, s: g.exp(s)), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: g.exp(s) * 2.0), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: g.tanh(s) * -2.0), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: g.tanh(s) * 2.0 * 3.0), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: 2.0 / s), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: s * g.input("m", (B, H, S, T))), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: g.input("a", s.shape) + g.input("b", s.shape)), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: g.input("a", (B, H, S, T))), Reason.OTHER_OPERAND),
        (primitives(between=lambda g, s: s * 0.0), Reason.OTHER_CONSTANT),
        (primitives(between=lambda g, s: s * math.inf), Reason.OTHER_CONSTANT),
        (primitives(between=lambda g, s: g.where(g.input("m", (B, 1, 1, T), i1), s, -1e4)), Reason.OTHER_CONSTANT),
        (primitives(between=lambda g, s: g.where(g.input("m", (B, 1, 1, T), i1), s, 0.0)), Reason.OTHER_CONSTANT),
        (
            primitives(between=lambda g, s: g.where(g.input("m", (T,), i1), s, g.input("n", (T,)))),
            Reason.MASK,
        ),
        (primitives(between=twice), Reason.MASK),
        (primitives(between=scaled_after_mask), Reason.MASK),
        (primitives(between=lambda g, s: g.where(g.input("m", (T,), i1), s * 0.5, -1e9) * 0.5), Reason.MASK),
        (primitives(between=lambda g, s: s + g.input("m", (B, H, S, 1))), Reason.MASK),
        (primitives(between=lambda g, s: g.where(g.input("m", (S, 1), i1), s, -1e9)), Reason.MASK),
        (primitives(q=(1, H, S, D), between=lambda g, s: s), Reason.SHAPES_DIFFER),
        (primitives(k=(1, H, T, D)), Reason.SHAPES_DIFFER),
        (primitives(v=(1, H, T, E)), Reason.SHAPES_DIFFER),
        (primitives(k=(B, 1, T, D)), Reason.SHAPES_DIFFER),
        (primitives(q=(B, 1, S, D)), Reason.SHAPES_DIFFER),
        (
            primitives(
                q=(1, H, S, D), k=(1, H, T, D), v=(1, H, T, E), between=lambda g, s: s + g.input("m", (B, 1, 1, T))
            ),
            Reason.SHAPES_DIFFER,
        ),
        (primitives(q=(S, D), k=(T, D), v=(T, E)), Reason.RANK),
        (primitives(q=(2, B, H, S, D), k=(2, B, H, T, D), v=(2, B, H, T, E)), Reason.RANK),
        (primitives(q=(-1, H, S, D), k=(-1, H, T, D), v=(-1, H, T, E)), Reason.DYNAMIC_EXTENT),
        (primitives(q=(B, -1, S, D), k=(B, -1, T, D), v=(B, -1, T, E)), Reason.DYNAMIC_EXTENT),
        (
            primitives(k=(B, H, -1, D), v=(B, H, -1, E), between=lambda g, s: s + g.input("m", (1, 1, 1, -1))),
            Reason.DYNAMIC_EXTENT,
        ),
    ],
)  # fmt: skip
def test_what_is_no_attention_or_not_known_to_be(module: ModuleOp, reason: Reason):
    check_declines(module, ONLY, reason, at="rlx.matmul")


def test_the_product_is_in_another_block():
    g = GraphBuilder()
    g.output("y", g.input("x", (B, H, S, E)))
    text = print_module(primitives())
    inner = text[text.index("%2 = rlx.softmax") : text.index("func.return")]
    module = parse(
        text.replace(inner, f'"test.op"() ({{ {inner} "test.termop"(%3) : (tensor<2x4x3x7xf32>) -> () }}) : () -> ()\n')
        .replace("func.return %3 : tensor<2x4x3x7xf32>", "func.return %q : tensor<2x4x3x6xf32>")
        .replace("-> (tensor<2x4x3x7xf32> {", "-> (tensor<2x4x3x6xf32> {")
    )
    assert [miss.reason for miss in ONLY.misses(module)] == [Reason.OTHER_BLOCK]


def test_scores_that_are_split_otherwise():
    """4 heads in the batch are 2 × 2 in one place and 1 × 4 in another; or another axis is split."""

    def split_twice(g: GraphBuilder, scores: Value) -> Value:
        other = g.reshape(masked(g, g.reshape(scores, (2, 2, S, T)), "bias"), (4, S, T))
        return g.reshape(g.reshape(other, (1, 4, S, T)) + g.input("more", (T,)), (4, S, T))

    def split_queries(g: GraphBuilder, scores: Value) -> Value:
        return g.reshape(g.reshape(scores, (4, 1, S, T)) * 0.5, (S, 4, T)) * 0.5

    for q, between in (((4, S, D), split_twice), ((4, S, D), split_queries)):
        shapes = {"q": q, "k": (4, T, D), "v": (4 if between is split_twice else S, T, E)}
        check_declines(primitives(between=between, **shapes), ONLY, Reason.RANK, at="rlx.matmul")


def test_a_mask_of_the_batch_in_front_of_the_split():
    def between(g: GraphBuilder, scores: Value) -> Value:
        split_scores = masked(g, g.reshape(scores, (2, 2, S, T)), "bias")
        return g.reshape(split_scores, (4, S, T)) + g.input("more", (4, 1, T))

    check_declines(
        primitives(q=(4, S, D), k=(4, T, D), v=(4, T, E), between=between), ONLY, Reason.MASK, at="rlx.matmul"
    )


def test_weights_that_are_contracted_along_the_queries():
    g = GraphBuilder()
    q, k = g.input("q", (B, H, T, D)), g.input("k", (B, H, T, D))
    weights = g.softmax(q @ g.transpose(k, [0, 1, 3, 2]))
    v = g.input("v", (B, H, T, E))
    g.output("y", g.insert(DotGeneralOp(weights.ssa, v.ssa, [2], [2], [0, 1], [0, 1])))
    check_declines(g.module(), ONLY, Reason.AXIS, at="rlx.dot_general")


def test_what_is_no_candidate():
    g = GraphBuilder()
    x = g.input("x", (B, H, S, S))
    g.output("y", x @ g.softmax(x))
    g.output("z", g.exp(x) @ x)
    assert ONLY.misses(g.module()) == []
