"""Attention and rotary embedding written out, one element at a time, in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np

from rlx_dialect.dtypes import Array

B, SQ, SK, D, E = 2, 5, 7, 8, 6
"""Batch, queries, keys, width of a head and of its values."""
POSITIONS = 9
"""Rows of the rotary tables."""


def in_layout(x: Array, layout: str) -> Array:
    """[B, H, S, D] in ``layout``."""
    if layout == "bhsd":
        return x
    x = np.transpose(x, (0, 2, 1, 3))
    return x.reshape(*x.shape[:2], -1) if layout == "bsd" else x


def written_out(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float = 1 / math.sqrt(D),
    cap: float | None = None,
    seen: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """[B, H, Sq, E] one weight at a time in Python floats; ``seen`` and ``bias`` broadcast to [B, H, Sq, Sk]."""
    batch, heads, queries, _ = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    full = (batch, heads, queries, keys)
    seen = np.broadcast_to(True if seen is None else seen, full)
    bias = np.broadcast_to(0.0 if bias is None else bias, full)
    result = np.zeros((batch, heads, queries, v.shape[3]))
    for b, h, i in itertools.product(range(batch), range(heads), range(queries)):
        scores: list[float] = []
        for j in range(keys):
            score = scale * sum(float(x) * float(y) for x, y in zip(q[b, h, i], k[b, h // group, j], strict=True))
            score = score if cap is None else cap * math.tanh(score / cap)
            scores.append(score + float(bias[b, h, i, j]) if seen[b, h, i, j] else -1e9)
        weights = [math.exp(s - max(scores)) for s in scores]
        for j in range(keys):
            result[b, h, i] += weights[j] / sum(weights) * v[b, h // group, j]
    return result


def rotated_one_by_one(x: Array, cos: Array, sin: Array, n_rot: int, style: str) -> Array:
    """[B, H, S, D] with each pair of lanes turned as a complex number."""
    result = x.astype(np.float64).copy()
    for position, pair in itertools.product(range(x.shape[2]), range(n_rot // 2)):
        a, b = (pair, pair + n_rot // 2) if style == "neox" else (2 * pair, 2 * pair + 1)
        turn = complex(cos[position, pair], sin[position, pair])
        turned = (x[:, :, position, a].astype(float) + 1j * x[:, :, position, b]) * turn
        result[:, :, position, a], result[:, :, position, b] = turned.real, turned.imag
    return result
