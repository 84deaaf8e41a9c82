"""Attention spelled out in primitives, in the ways that exporters do; and the pass with the patterns for it alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.ir import Attribute

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.contraction import DotGeneralOp
from rlx_dialect.ops.shape import TileOp, TriluOp
from rlx_dialect.passes.canonical import attention
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps
from rlx_dialect.passes.matching.fusion import FusionPattern

ATTENTION = "rlx.attention"

# Batch 2, 3 queries, 5 keys, 4 heads, 6 lanes, 7 lanes of values: no two extents that could be mixed up are equal.
B, S, T, H, D, E = 2, 3, 5, 4, 6, 7
SCALE = 1 / math.sqrt(D)


@dataclass(frozen=True)
class AttentionOnly(CanonicalizeOps):
    """The pass with the patterns of this file alone."""

    produces: ClassVar = (AttentionOp,)

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return attention.patterns()


ONLY = AttentionOnly()


def swap(g: GraphBuilder, x: Value) -> Value:
    return g.transpose(x, [0, 2, 1, 3])


def split(g: GraphBuilder, x: Value, heads: int = H) -> Value:
    """[B, S, H·D] as [B, H, S, D]."""
    batch, seq, width = x.shape
    return swap(g, g.reshape(x, [batch, seq, heads, width // heads]))


def merge(g: GraphBuilder, x: Value) -> Value:
    """[B, H, S, D] as [B, S, H·D]."""
    batch, heads, seq, dim = x.shape
    return g.reshape(swap(g, x), [batch, seq, heads * dim])


def triangle(number: float, queries: int = S, keys: int = T) -> np.ndarray[Any, Any]:
    """0 for the keys that causal attention sees, ``number`` for the others."""
    return np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, 0.0, number)


def scaled(g: GraphBuilder, scores: Value, how: str) -> Value:
    match how:
        case "div":
            return scores / math.sqrt(D)
        case "mul":
            return scores * SCALE
        case "mul, commuted":
            return SCALE * scores
        case "twice":
            return (scores * 2.0) / 8.0
        case "cap":
            return g.tanh((scores * SCALE) / 5.0) * 5.0
        case "cap by product":
            return 5.0 * g.tanh(scores * (SCALE / 5.0))
        case _:
            return scores


def masked(g: GraphBuilder, scores: Value, how: str, element: Attribute = f32) -> Value:
    rank = len(scores.shape)
    rows = (B, 1, 1, T) if rank == 4 else (B, 1, T)
    match how:
        case "bias":
            return scores + g.input("bias", rows, element)
        case "bias, commuted":
            return g.input("bias", rows, element) + scores
        case "bias of heads and queries":
            return scores + g.input("bias", (1, H, S, T))
        case "bias of queries":
            return scores + g.input("bias", (S, T), element)
        case "seen":
            return g.where(g.input("seen", rows, i1), scores, -1e9)
        case "seen, -inf":
            return g.where(g.input("seen", rows, i1), scores, -math.inf)
        case "seen, lowest":
            return g.where(g.input("seen", rows, i1), scores, float(np.finfo(np.float32).min))
        case "hidden":
            return g.where(g.input("hidden", rows, i1), -1e9, scores)
        case "mask of 0":
            return g.where(g.compare("eq", g.reshape(g.input("mask", (B, T)), rows), 0.0), -math.inf, scores)
        case "mask below half":
            return g.where(g.compare("lt", g.reshape(g.input("mask", (B, T)), rows), 0.5), -1e9, scores)
        case "row":
            return g.where(g.reshape(g.input("seen", (B, T), i1), rows), scores, -1e9)
        case "causal":
            return scores + g.constant(triangle(-math.inf), element)
        case "causal, lowest":
            return scores + g.constant(triangle(float(np.finfo(np.float32).min)).reshape(1, 1, S, T))
        case "causal, seen":
            return g.where(g.constant(triangle(1.0) == 0, i1), scores, -1e9)
        case "causal, cut out":
            cut = g.insert(TriluOp(g.expand(g.constant(-math.inf), (S, T)).ssa, upper=True, diagonal=1 + T - S))
            return scores + g.reshape(cut, (1, 1, S, T))
        case "causal, positions":
            keys, queries = (g.constant(np.arange(n).reshape(shape), f32) for n, shape in ((T, (1, T)), (S, (S, 1))))
            return g.where(g.compare("le", keys, queries + float(T - S)), scores, -math.inf)
        case "window":
            return scores + g.constant(np.where(np.tri(S, T, T - S - 2), -math.inf, triangle(-math.inf)))
        case "two biases":
            return masked(g, masked(g, scores, "bias"), "bias of heads and queries of another name")
        case "bias of heads and queries of another name":
            return scores + g.input("more", (1, H, S, T))
        case "causal and bias":
            return masked(g, masked(g, scores, "causal, seen lowest"), "bias")
        case "bias and hidden":
            return g.where(g.input("hidden", (B, 1, S, T), i1), -math.inf, masked(g, scores, "bias"))
        case "causal, seen lowest":
            return g.where(g.constant(triangle(1.0) == 0, i1), scores, float(np.finfo(np.float32).min))
        case "nothing hidden":
            return g.where(g.constant(np.ones((1, 1, 1, T)), i1), scores, -1e9)
        case _:
            return scores


def spelled(
    *, scale: str = "div", mask: str = "none", heads: str = "given", products: str = "matmul", element: Attribute = f32
) -> ModuleOp:
    """Attention in primitives: see the functions above, and below for where heads come from."""
    g = GraphBuilder()
    packed = heads not in ("given", "one")
    shapes = [(B, S, H, D), (B, T, H, D), (B, T, H, E)]
    if heads == "one":
        q, k, v = (g.input(n, (b, s, d), element) for n, (b, s, _, d) in zip("qkv", shapes, strict=True))
    elif not packed and products == "matmul":
        q, k, v = (g.input(n, (b, h, s, d), element) for n, (b, s, h, d) in zip("qkv", shapes, strict=True))
    else:
        q, k, v = (g.input(n, (b, s, h * d), element) for n, (b, s, h, d) in zip("qkv", shapes, strict=True))
    if packed or products != "matmul":
        if scale == "before the split":
            q = q * SCALE
        q, k, v = (g.reshape(x, shape) for x, shape in zip((q, k, v), shapes, strict=True))
    if products != "matmul":
        q = q * SCALE if scale == "q" else q
        scores = g.insert(DotGeneralOp(q.ssa, k.ssa, [3], [3], [0, 2], [0, 2]))
    else:
        if packed:
            q, v = swap(g, q), swap(g, v)
            kt = (
                g.transpose(k, [0, 2, 3, 1])
                if heads == "split, keys at once"
                else g.transpose(swap(g, k), [0, 1, 3, 2])
            )
        else:
            kt = g.transpose(k, [0, 2, 1] if heads == "one" else [0, 1, 3, 2])
        if scale == "q":
            q = q / math.sqrt(D)
        elif scale == "both":
            q, kt = q * math.sqrt(SCALE), kt * math.sqrt(SCALE)
        scores = q @ kt
    weights = g.softmax(masked(g, scaled(g, scores, scale), mask, element))
    if products == "dot_general, turned":
        result = g.transpose(g.insert(DotGeneralOp(v.ssa, weights.ssa, [1], [3], [0, 2], [0, 1])), [0, 1, 3, 2])
    elif products == "matmul, turned":
        vt = g.transpose(g.reshape(v, (B, T, H, E)), [0, 2, 3, 1])
        result = g.transpose(vt @ g.transpose(weights, [0, 1, 3, 2]), [0, 1, 3, 2])
    elif products == "dot_general":
        result = g.insert(DotGeneralOp(weights.ssa, v.ssa, [3], [1], [0, 1], [0, 2]))
    else:
        result = weights @ v
    if packed and heads != "split, not merged":
        result = merge(g, result)
    g.output("y", result)
    return g.module()


def repeated(g: GraphBuilder, x: Value, how: str, groups: int) -> Value:
    """[B, G, T, D] with each head several times, as [B, H, T, D]."""
    batch, heads, seq, dim = x.shape
    whole = [batch, heads * groups, seq, dim]
    match how:
        case "expand":
            return g.reshape(g.expand(g.reshape(x, [batch, heads, 1, seq, dim]), [-1, -1, groups, -1, -1]), whole)
        case "tile":
            return g.reshape(
                g.insert(TileOp(g.reshape(x, [batch, heads, 1, seq, dim]).ssa, [1, 1, groups, 1, 1])), whole
            )
        case "concat":
            return g.concat([g.narrow(x, 1, h, 1) for h in range(heads) for _ in range(groups)], 1)
        case "interleaved expand":
            return g.reshape(g.expand(g.reshape(x, [batch, 1, heads, seq, dim]), [-1, groups, -1, -1, -1]), whole)
        case "interleaved concat":
            return g.concat([g.narrow(x, 1, h, 1) for _ in range(groups) for h in range(heads)], 1)
        case "tile as a whole":
            return g.insert(TileOp(x.ssa, [1, groups, 1, 1]))
        case "one head":
            return g.expand(x, whole)
        case _:
            return x


def grouped(k_how: str, v_how: str, *, kv_heads: int = 2, packed: bool = False) -> ModuleOp:
    g = GraphBuilder()
    if packed:
        q = split(g, g.input("q", (B, S, H * D)))
        k, v = (split(g, g.input(n, (B, T, kv_heads * d)), kv_heads) for n, d in (("k", D), ("v", E)))
    else:
        q = g.input("q", (B, H, S, D))
        k, v = (g.input(n, (B, kv_heads, T, d)) for n, d in (("k", D), ("v", E)))
    k, v = (repeated(g, x, how, H // kv_heads) for x, how in ((k, k_how), (v, v_how)))
    result = g.softmax((q @ g.transpose(k, [0, 1, 3, 2])) * SCALE) @ v
    g.output("y", merge(g, result) if packed else result)
    return g.module()


def primitives(
    *,
    q: Sequence[int] = (B, H, S, D),
    k: Sequence[int] = (B, H, T, D),
    v: Sequence[int] = (B, H, T, E),
    between: Any = lambda g, scores: scores,
    axis: int = -1,
    after: Any = lambda g, weights: weights,
) -> ModuleOp:
    """Attention of arguments of these shapes, with something between the product and the softmax, and behind."""
    g = GraphBuilder()
    x, y, z = (g.input(n, shape) for n, shape in zip("qkv", (q, k, v), strict=True))
    perm = [*range(len(k) - 2), len(k) - 1, len(k) - 2]
    scores = x @ g.transpose(y, perm)
    g.output("y", after(g, g.softmax(between(g, scores), axis)) @ z)
    return g.module()


def heads_in_batch(mask: str = "none", *, softmax_of_heads: bool = False, element: Attribute = f32) -> ModuleOp:
    """Products of [B·H, S, D], as older exporters have them; the scores are split where a mask is applied."""
    g = GraphBuilder()
    shapes = [(S, D), (T, D), (T, E)]
    q, k, v = (g.input(n, (B, s, H * d), element) for n, (s, d) in zip("qkv", shapes, strict=True))
    q, k, v = (g.reshape(split(g, x), (B * H, s, d)) for x, (s, d) in zip((q, k, v), shapes, strict=True))
    scores = (q @ g.transpose(k, [0, 2, 1])) * SCALE
    if mask == "rows of the batch":
        scores = scores + g.input("bias", (B * H, S, T))
    elif mask != "none":
        scores = masked(g, g.reshape(scores, (B, H, S, T)), mask, element)
        scores = scores if softmax_of_heads else g.reshape(scores, (B * H, S, T))
    weights = g.reshape(g.softmax(scores), (B * H, S, T))
    g.output("y", merge(g, g.reshape(weights @ v, (B, H, S, E))))
    return g.module()
