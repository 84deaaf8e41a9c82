"""What the fusions look for, as steps of the random graphs of :mod:`random_graphs`, each with near misses.

A site is a function of the generator. Extents are small; a value in the middle may be kept for later steps, which
gives it a second use, or be returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import f32

from rlx_dialect.builder import Value
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.contraction import DotGeneralOp
from rlx_dialect.ops.convolution import ConvOp, ResizeNearest2xOp
from rlx_dialect.ops.normalization import LayerNormOp, RmsNormOp
from rlx_dialect.ops.shape import ReshapeOp, TransposeOp
from rlx_dialect.shapes import DYNAMIC

if TYPE_CHECKING:
    from random_graphs import Generator


def _maybe_kept(r: Generator, value: Value, probability: float = 0.1) -> Value:
    return r.keep(value) if r.chance(probability) else value


def _commuted(r: Generator, kind: str, a: Value, b: Value) -> Value:
    return r.g.binary(kind, *([b, a] if r.chance(0.5) else [a, b]))


def _tokens(r: Generator, width: int | None = None) -> Value:
    """[batch, sequence, width], of a width that is not 1."""
    shape = (r.batch, r.choice([2, 3]), width or r.choice([2, 4, 6]))
    return r.leaf(shape, r.float)


def gated_residual(r: Generator) -> None:
    """x + gate·y, with gates that broadcast in the right way and in others."""
    x = _tokens(r)
    y = r.leaf(x.shape, x.element) if r.chance(0.8) else x
    shapes = [(1, 1, x.shape[2]), (1, x.shape[1], x.shape[2]), (x.shape[2],), (1,), x.shape, (x.shape[1], 1)]
    gate = r.leaf(r.choice(shapes), x.element)
    if r.chance(0.3) and gate.rank == 3 and DYNAMIC not in x.shape:
        gate = r.g.expand(gate, x.shape)
    r.keep(_commuted(r, "add", x, _maybe_kept(r, _commuted(r, "mul", gate, y))))


def adaptive_norm(r: Generator) -> None:
    """n·(1 + scale) + shift and n + n·scale + shift, the norm's gamma and beta being ones and zeros or not."""
    x = _tokens(r)
    width = x.shape[2]
    gamma, beta = (r.g.constant(np.full(width, v if r.chance(0.9) else 0.5), x.element) for v in (1.0, 0.0))
    norm = r.g.insert(r.choice([LayerNormOp, RmsNormOp])(x.ssa, gamma.ssa, beta.ssa, eps=1e-5))
    scale, shift = (r.leaf(r.choice([(1, 1, width), (width,), (1, x.shape[1], width)]), x.element) for _ in range(2))
    if r.chance(0.5):
        total = _commuted(r, "mul", norm, _maybe_kept(r, _commuted(r, "add", r.g.constant(1.0, x.element), scale)))
    else:
        total = _commuted(r, "add", norm, _maybe_kept(r, _commuted(r, "mul", norm, scale)))
    r.keep(_commuted(r, "add", total, shift))


def norm_then_flatten(r: Generator) -> None:
    x = _tokens(r)
    gamma, beta = (r.leaf(x.shape[-1:], x.element) for _ in range(2))
    norm = _maybe_kept(r, r.g.insert(RmsNormOp(x.ssa, gamma.ssa, beta.ssa, eps=1e-6)))
    rows = [-1, x.shape[2]] if DYNAMIC in x.shape else [x.shape[0] * x.shape[1], x.shape[2]]
    flat = r.g.insert(ReshapeOp(norm.ssa, rows if r.chance(0.8) else [*rows, 1]))
    # A number of rows that is not the batch must not meet it.
    r.keep(r.g.reduce("max", flat, [0]))


def _weight(r: Generator, rows: int, columns: int) -> Value:
    """A parameter, constant or input of rank 2; perhaps a transposed one."""
    if r.chance(0.15):
        return r.g.insert(TransposeOp(r.leaf((columns, rows), r.float).ssa, [1, 0]))
    return r.leaf((rows, columns), r.float)


def gated_products(r: Generator) -> None:
    """up · silu(gate) of one input, or of two; with biases in some graphs."""
    x = _tokens(r)
    wide, other = r.choice([2, 3]), r.chance(0.1)
    products: list[Value] = []
    for _ in range(2):
        source = r.leaf(x.shape, x.element) if other and products else x
        product = source @ _weight(r, x.shape[2], wide)
        products.append(_maybe_kept(r, product))
    if r.chance(0.3):
        products = [p + r.leaf((wide,), r.float) for p in products]
    gate = _maybe_kept(r, r.g.activation("silu" if r.chance(0.85) else "gelu", products[0]))
    r.keep(_commuted(r, "mul", products[1], gate))


def packed_gate(r: Generator) -> None:
    """up · silu(gate) of the two halves of one value."""
    half = r.choice([2, 3])
    packed = _tokens(r, 2 * half if r.chance(0.9) else 2 * half + 1)
    parts = [r.g.narrow(packed, 2, start, half) for start in (0, half)]
    if r.chance(0.5):
        parts.reverse()
    up, gate = parts
    r.keep(_commuted(r, "mul", _maybe_kept(r, up), _maybe_kept(r, r.g.silu(gate))))


def shared_input(r: Generator) -> None:
    x = _tokens(r)
    for _ in range(r.choice([2, 3, 5])):
        product = x @ _weight(r, x.shape[2], r.choice([1, 2, 3]))
        r.keep(product + r.leaf(product.shape[-1:], r.float) if r.chance(0.3) else product)


def product_and_residual(r: Generator) -> None:
    x = _tokens(r)
    product = _maybe_kept(r, x @ _weight(r, x.shape[2], x.shape[2]))
    r.keep(_commuted(r, "add", product, x if r.chance(0.8) else r.leaf((1, *x.shape[1:]), x.element)))


def convolution(r: Generator) -> None:
    """conv (· scale) + shift (+ residual) (+ relu), per channel or, where height and channels agree, not."""
    channels, kernel = r.choice([2, 3]), r.choice([1, 3])
    x = r.leaf((r.choice([1, 2]), channels, 3, 3), r.float)
    weight = r.leaf((channels, channels, kernel, kernel), r.float)
    value = r.g.insert(ConvOp(x.ssa, weight.ssa, padding=[kernel // 2] * 2))

    def per_channel() -> Value:
        vector = r.leaf((channels,), r.float)
        shape = r.choice([(channels, 1, 1), (1, channels, 1, 1)])
        return r.g.reshape(vector, shape if r.chance(0.9) or channels != 3 else (3, 1))

    if r.chance(0.5):
        value = _commuted(r, "mul", _maybe_kept(r, value), per_channel())
    value = _commuted(r, "add", _maybe_kept(r, value), per_channel())
    if r.chance(0.4):
        value = _commuted(r, "add", value, x)
    if r.chance(0.8):
        value = r.g.activation(r.choice(["relu", "relu", "tanh"]), value)
    r.keep(r.g.reduce("mean", value, [2, 3]))


def attention_block(r: Generator) -> None:
    """A packed projection, its three parts, attention, the projection back; biases and masks in most graphs."""
    heads, dim = r.choice([(1, 2), (2, 2), (2, 1)])
    hidden = heads * dim
    x = _tokens(r, hidden)
    packed = x @ r.leaf((hidden, 3 * hidden), r.float)
    packed = packed + r.leaf((3 * hidden,), r.float) if r.chance(0.8) else packed
    parts = [_maybe_kept(r, part, 0.05) for part in r.g.split(packed, 2, [hidden] * 3)]
    if r.chance(0.1):
        parts.reverse()
    custom = r.chance(0.7)
    mask = r.leaf((1, x.shape[1]), r.float).ssa if custom else None
    op = AttentionOp(
        *(p.ssa for p in parts),
        mask,
        num_heads=heads,
        head_dim=dim,
        layout="bsd",
        mask_kind="custom" if custom else r.choice(["none", "causal"]),
    )
    attended = r.g.insert(op)
    out = attended @ r.leaf((hidden, hidden), r.float)
    r.keep(out + r.leaf((hidden,), r.float) if r.chance(0.8) else out)


def resized(r: Generator) -> None:
    """Resizes in a row, then element-wise operations on an image of that size."""
    x = r.leaf((1, r.choice([1, 2]), 2, 2), r.float)
    for _ in range(r.choice([1, 1, 2])):
        x = _maybe_kept(r, r.g.insert(ResizeNearest2xOp(x.ssa)), 0.05)
    if r.chance(0.7):
        x = _commuted(r, "add", x, r.leaf(x.shape if r.chance(0.7) else x.shape[1:], r.float))
    x = r.g.activation(r.choice(["relu", "tanh", "softplus"]), x)
    r.keep(r.g.reduce("sum", x, [2, 3]))


def batch_slices(r: Generator) -> None:
    """The same unary on every slice of a batch, joined again; in another order or another unary in some graphs."""
    parts, rows = r.choice([2, 4]), r.choice([1, 2])
    x = r.leaf((parts * rows, r.choice([2, 3])), r.float)
    slices = r.g.split(x, 0, [rows] * parts)
    kind = r.choice(["relu", "sigmoid", "softplus"])
    done = [_maybe_kept(r, r.g.activation(kind if r.chance(0.95) else "neg", s), 0.05) for s in slices]
    if r.chance(0.15):
        done.reverse()
    r.keep(r.g.concat(done, 0))


def dot_general(r: Generator) -> None:
    """A contraction with batch dimensions, or of several dimensions, in any order of axes."""
    b, m, n, k = (r.choice([1, 2, 3]) for _ in range(4))
    element = r.float
    if r.chance(0.5):
        lhs, rhs = r.leaf((b, m, k), element), r.leaf((n, b, k), element)
        op = DotGeneralOp(lhs.ssa, rhs.ssa, [2], [2], lhs_batch=[0], rhs_batch=[1])
    else:
        lhs, rhs = r.leaf((k, m, b), element), r.leaf((b, k, n), element)
        op = DotGeneralOp(lhs.ssa, rhs.ssa, [0, 2], [1, 0])
    r.keep(r.g.insert(op))


def spelled_activation(r: Generator) -> None:
    """gelu, silu, sigmoid and mish in primitives; with a constant that is wrong in some graphs."""
    x = r.pick_float()
    wrong = 1.1 if r.chance(0.15) else 1.0
    g = r.g

    def gelu() -> Value:
        inner = x / (2**0.5 * wrong) if r.chance(0.5) else x * (0.5**0.5 * wrong)
        return _commuted(r, "mul", x * 0.5, 1.0 + g.activation("erf", inner))

    def gelu_approx() -> Value:
        cubic = x * x * x if r.chance(0.5) else x**3.0
        return x * 0.5 * (1.0 + g.tanh((x + cubic * 0.044715) * (0.7978845608 * wrong)))

    spellings: list[Callable[[], Value]] = [
        gelu,
        gelu_approx,
        lambda: _commuted(r, "mul", x, g.activation("sigmoid", x)),
        lambda: x / (wrong + g.exp(-x)),
        lambda: 1.0 / (1.0 + g.exp(-x)),
        lambda: g.binary("max", x, 0.0),
        lambda: x * g.tanh(g.activation("softplus", x)),
        lambda: x * g.clamp(x + 3.0, 0.0, 6.0) / 6.0,
    ]
    r.keep(r.choice(spellings)())


def spelled_norm(r: Generator) -> None:
    """Layer norm, RMS norm and softmax in primitives, over the last axis or another one."""
    x = _tokens(r)
    g, axis = r.g, 2 if r.chance(0.85) else 1
    if r.chance(0.25):
        shifted = g.exp(x - g.reduce("max", x, [axis], keep_dim=True))
        r.keep(shifted / g.reduce("sum", shifted, [axis], keep_dim=True))
        return
    centred = _maybe_kept(r, x - g.reduce("mean", x, [axis], keep_dim=True), 0.05) if r.chance(0.6) else x
    squares = centred * centred if r.chance(0.5) else centred**2.0
    shifted = g.reduce("mean", squares, [axis], keep_dim=True) + 1e-5
    if r.chance(0.5):
        normed = centred / g.sqrt(shifted)
    else:
        normed = _commuted(r, "mul", centred, g.activation("rsqrt", shifted))
    if r.chance(0.8):
        normed = _commuted(r, "mul", normed, r.leaf(x.shape[-1:], x.element))
    if r.chance(0.6):
        normed = _commuted(r, "add", normed, r.leaf(x.shape[-1:], x.element))
    r.keep(normed)


def spelled_attention(r: Generator) -> None:
    """Scores, scale, mask, softmax, values; with heads in their own dimension."""
    heads, dim = r.choice([1, 2]), r.choice([2, 3])
    shape = (r.batch, heads, r.choice([2, 3]), dim)
    q, k, v = (r.leaf(shape, r.float) for _ in range(3))
    g = r.g
    keys = g.transpose(k, [0, 1, 3, 2])
    scores = (q * dim**-0.5) @ keys if r.chance(0.5) else (q @ keys) / dim**0.5
    if r.chance(0.4):
        scores = scores + r.leaf((1, 1, 1, shape[2]), r.float)
    elif r.chance(0.3):
        seen = r.g.compare("lt", r.leaf((1, 1, shape[2], shape[2]), r.float), 0.5)
        scores = g.where(seen, scores, -1e9)
    attended = g.softmax(_maybe_kept(r, scores, 0.05)) @ v
    r.keep(g.transpose(attended, [0, 2, 1, 3]) if r.chance(0.5) else attended)


def narrow_cast(r: Generator) -> None:
    """A narrow float computed in f32 and rounded back, as exporters write norms."""
    x = r.pick_float()
    r.keep(r.g.cast(r.g.tanh(r.g.cast(x, f32)), x.element))


SITES: tuple[tuple[Callable[[Generator], None], int], ...] = (
    (gated_residual, 1),
    (adaptive_norm, 2),
    (norm_then_flatten, 1),
    (gated_products, 2),
    (packed_gate, 1),
    (shared_input, 1),
    (product_and_residual, 1),
    (convolution, 2),
    (attention_block, 2),
    (resized, 1),
    (batch_slices, 1),
    (dot_general, 1),
    (spelled_activation, 3),
    (spelled_norm, 3),
    (spelled_attention, 1),
    (narrow_cast, 1),
)
"""Every site and how often it is chosen."""
