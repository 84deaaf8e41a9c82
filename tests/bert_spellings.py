"""One BERT encoder, spelled in four ways that mean the same.

- ``canonical``: the operations of the dialect; Q, K and V are thirds of one product;
- ``onnx``: as PyTorch exports: separate projections, scores divided by √D, an additive mask, erf-gelu and layer norms
  in primitives, with a power of 2, a square root and a division;
- ``jax``: as StableHLO: dot_general with batch axes, Q scaled, truth values for a mask, transposed weights, expanded
  biases, layer norms by the mean of squares and a reciprocal root;
- ``tf``: products of matrices [B·S, W], means as sums times 1/n, a power of -1/2, a softmax in primitives, operands
  of sums and products the other way round.

Batch 2, 5 tokens, 3 heads of 4 lanes, 20 columns inside: no two extents that could be mixed up are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.dtypes import Array
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.contraction import DotGeneralOp

BATCH, SEQ, HEADS, DIM, INNER = 2, 5, 3, 4, 20
WIDTH = HEADS * DIM
EPS = 1e-6
LAYERS = 6


class Canonical:
    """The dialect's own operations; the other spellings say otherwise piece by piece."""

    def __init__(self, layers: int = LAYERS):
        self.g = GraphBuilder()
        x = self.g.input("x", (BATCH, SEQ, WIDTH))
        self.mask = self.g.input("mask", (BATCH, SEQ))
        for layer in range(layers):
            x = self.layer(x, f"layer{layer}")
        self.g.output("y", x)

    def layer(self, x: Value, name: str) -> Value:
        attended = self.linear(self.attention(x, name), f"{name}.out", WIDTH)
        h = self.layer_norm(self.residual(attended, x), f"{name}.ln1")
        inner = self.gelu(self.linear(h, f"{name}.fc1", INNER))
        return self.layer_norm(self.residual(self.linear(inner, f"{name}.fc2", WIDTH), h), f"{name}.ln2")

    def vector(self, name: str, width: int) -> Value:
        return self.g.param(name, (width,))

    def linear(self, x: Value, name: str, width: int) -> Value:
        return x @ self.g.param(f"{name}.w", (x.shape[-1], width)) + self.vector(f"{name}.b", width)

    def residual(self, x: Value, residual: Value) -> Value:
        return x + residual

    def gelu(self, x: Value) -> Value:
        return self.g.gelu(x)

    def layer_norm(self, x: Value, name: str) -> Value:
        return self.g.layer_norm(x, self.vector(f"{name}.g", WIDTH), self.vector(f"{name}.b", WIDTH), eps=EPS)

    def attention(self, x: Value, name: str) -> Value:
        packed = self.linear(x, f"{name}.qkv", 3 * WIDTH)
        q, k, v = (part.ssa for part in self.g.split(packed, 2, [WIDTH] * 3))
        return self.g.insert(
            AttentionOp(q, k, v, self.mask.ssa, mask_kind="custom", num_heads=HEADS, head_dim=DIM, layout="bsd")
        )

    def projections(self, x: Value, name: str) -> list[Value]:
        """Q, K and V as [B, S, H, D]."""
        projected = [self.linear(x, f"{name}.{part}", WIDTH) for part in "qkv"]
        return [self.g.reshape(y, (BATCH, SEQ, HEADS, DIM)) for y in projected]

    def merged(self, x: Value) -> Value:
        """[B, H, S, D] as [B, S, H·D]."""
        return self.g.reshape(self.g.transpose(x, [0, 2, 1, 3]), (BATCH, SEQ, WIDTH))

    def additive_mask(self, number: float) -> Value:
        return (1.0 - self.g.reshape(self.mask, (BATCH, 1, 1, SEQ))) * number


class Onnx(Canonical):
    def gelu(self, x: Value) -> Value:
        return (x * (self.g.activation("erf", x / math.sqrt(2.0)) + 1.0)) * 0.5

    def layer_norm(self, x: Value, name: str) -> Value:
        centered = x - self.g.reduce("mean", x, [-1], keep_dim=True)
        variance = self.g.reduce("mean", centered**2.0, [-1], keep_dim=True)
        normal = centered / self.g.sqrt(variance + EPS)
        return normal * self.vector(f"{name}.g", WIDTH) + self.vector(f"{name}.b", WIDTH)

    def attention(self, x: Value, name: str) -> Value:
        g = self.g
        q, k, v = (g.transpose(y, [0, 2, 1, 3]) for y in self.projections(x, name))
        scores = (q @ g.transpose(k, [0, 1, 3, 2])) / math.sqrt(DIM)
        weights = g.softmax(scores + self.additive_mask(float(np.finfo(np.float32).min)))
        return self.merged(weights @ v)


class Jax(Canonical):
    def linear(self, x: Value, name: str, width: int) -> Value:
        weight = self.g.transpose(self.g.param(f"{name}.wt", (width, x.shape[-1])), [1, 0])
        product = self.g.insert(DotGeneralOp(x.ssa, weight.ssa, [2], [0]))
        return product + self.row(f"{name}.b", width)

    def row(self, name: str, width: int) -> Value:
        return self.g.expand(self.g.reshape(self.vector(name, width), (1, 1, width)), (BATCH, SEQ, width))

    def gelu(self, x: Value) -> Value:
        return 0.5 * x * (1.0 + self.g.activation("erf", x * math.sqrt(0.5)))

    def layer_norm(self, x: Value, name: str) -> Value:
        mean = self.g.reduce("mean", x, [-1], keep_dim=True)
        variance = self.g.reduce("mean", x * x, [-1], keep_dim=True) - mean * mean
        if name.endswith("ln2"):
            # Rounding may make it negative, which some guard against.
            variance = self.g.binary("max", variance, 0.0)
        factor = self.g.activation("rsqrt", variance + EPS) * self.row(f"{name}.g", WIDTH)
        return (x - mean) * factor + self.row(f"{name}.b", WIDTH)

    def attention(self, x: Value, name: str) -> Value:
        g = self.g
        q, k, v = self.projections(x, name)
        q = q * (1.0 / math.sqrt(DIM))
        scores = g.insert(DotGeneralOp(q.ssa, k.ssa, [3], [3], [0, 2], [0, 2]))
        seen = g.reshape(g.compare("gt", self.mask, 0.0), (BATCH, 1, 1, SEQ))
        weights = g.softmax(g.where(g.expand(seen, scores.shape), scores, float(np.finfo(np.float32).min)))
        result = g.insert(DotGeneralOp(v.ssa, weights.ssa, [1], [3], [0, 2], [0, 1]))
        return g.reshape(g.transpose(result, [0, 3, 1, 2]), (BATCH, SEQ, WIDTH))


class Tf(Canonical):
    def linear(self, x: Value, name: str, width: int) -> Value:
        matrix = self.g.reshape(x, (BATCH * SEQ, x.shape[-1]))
        product = matrix @ self.g.param(f"{name}.w", (x.shape[-1], width))
        return self.g.reshape(self.vector(f"{name}.b", width) + product, (BATCH, SEQ, width))

    def residual(self, x: Value, residual: Value) -> Value:
        return residual + x

    def gelu(self, x: Value) -> Value:
        return (0.5 * (1.0 + self.g.activation("erf", 0.70710678 * x))) * x

    def layer_norm(self, x: Value, name: str) -> Value:
        def mean(y: Value) -> Value:
            return (1.0 / WIDTH) * self.g.reduce("sum", y, [-1], keep_dim=True)

        centered = x - mean(x)
        normal = (EPS + mean(centered * centered)) ** -0.5 * centered
        return self.vector(f"{name}.b", WIDTH) + self.vector(f"{name}.g", WIDTH) * normal

    def attention(self, x: Value, name: str) -> Value:
        g = self.g
        q, k, v = self.projections(x, name)
        q, v = (g.transpose(y, [0, 2, 1, 3]) for y in (q, v))
        scores = self.additive_mask(-1e9) + (1.0 / math.sqrt(DIM)) * (q @ g.transpose(k, [0, 2, 3, 1]))
        powers = g.exp(scores - g.reduce("max", scores, [-1], keep_dim=True))
        return self.merged((powers / g.reduce("sum", powers, [-1], keep_dim=True)) @ v)


SPELLINGS: dict[str, type[Canonical]] = {"canonical": Canonical, "onnx": Onnx, "jax": Jax, "tf": Tf}


def bert(spelling: str, layers: int = LAYERS) -> ModuleOp:
    return SPELLINGS[spelling](layers).g.module()


def values(names: Sequence[tuple[str, tuple[int, ...]]], seed: int = 0) -> dict[str, Array]:
    """A value for each argument (name and shape) of any spelling: the same weights, packed or transposed as there."""

    def drawn(name: str, shape: Sequence[int]) -> Array:
        # By name, so that the order and number of arguments do not matter.
        rng = np.random.default_rng([seed, *name.encode()])
        scale = 1 / math.sqrt(shape[0]) if len(shape) == 2 else 1.0
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    def value(name: str, shape: tuple[int, ...]) -> Array:
        if name == "mask":
            # The last tokens of each sequence are padding.
            return (np.arange(SEQ) < np.arange(SEQ - BATCH + 1, SEQ + 1)[:, None]).astype(np.float32)
        stem, _, part = name.rpartition(".")
        if part == "wt":
            return value(f"{stem}.w", shape[::-1]).T.copy()
        if stem.endswith(".qkv"):
            thirds = (*shape[:-1], WIDTH)
            return np.concatenate([value(f"{stem[:-3]}{p}.{part}", thirds) for p in "qkv"], -1)
        return drawn(name, shape)

    return {name: value(name, shape) for name, shape in names}
