"""Attention, rotary embedding and whole transformer blocks in linalg."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from linalg_helpers import built, compare, lowered
from xdsl.dialects.builtin import TensorType

from rlx_dialect.dtypes import Array
from rlx_dialect.lowering.to_linalg import attention
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.transformer import FusedAttentionBlockOp, FusedTransformerLayerOp
from rlx_dialect.samples import random_values


@pytest.mark.parametrize(("layout", "element"), [("bsd", "f32"), ("bshd", "f32"), ("bhsd", "f32"), ("bsd", "bf16")])
def test_attention(layout: str, element: str):
    # Two batches, four heads of three lanes over two groups of keys and values with five lanes; 6 queries, 7 keys.
    shapes = {
        "bsd": ("2x6x12", "2x7x6", "2x7x10"),
        "bshd": ("2x6x4x3", "2x7x2x3", "2x7x2x5"),
        "bhsd": ("2x4x6x3", "2x2x7x3", "2x2x7x5"),
    }[layout]
    q, k, v = (f"tensor<{s}x{element}>" for s in shapes)
    heads = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 3, "v_head_dim": 5, "layout": layout}
    module = built(
        {"q": q, "k": k, "v": v, "seen": "tensor<2x7xi1>", "bias": f"tensor<1x4x6x7x{element}>"},
        lambda q, k, v, seen, bias: [
            AttentionOp(q, k, v, **heads),
            AttentionOp(q, k, v, **heads, mask_kind="causal", score_scale=0.25),
            AttentionOp(q, k, v, **heads, mask_kind="sliding_window", window=2),
            AttentionOp(q, k, v, seen, **heads, mask_kind="custom", attn_logit_softcap=2.0),
            AttentionOp(q, k, v, bias, **heads, mask_kind="bias"),
        ],
    )
    compare(module, rtol=1e-4 if element == "f32" else 2e-2, atol=1e-5 if element == "f32" else 1e-2)


LONG = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 3, "v_head_dim": 5}
KINDS = (
    {},
    {"mask_kind": "causal", "score_scale": 0.25},
    {"mask_kind": "sliding_window", "window": 4},
)


@pytest.fixture
def blocks_of_eight(monkeypatch: pytest.MonkeyPatch):
    """Attention streams, whatever its size, in blocks of 8 queries and keys (4 in f64)."""
    monkeypatch.setattr(attention, "MANY_SCORES", 1)
    monkeypatch.setattr(attention, "BLOCK_BITS", 8 * 32)


@pytest.mark.usefixtures("blocks_of_eight")
@pytest.mark.parametrize(("layout", "element"), [("bsd", "f32"), ("bshd", "f16"), ("bhsd", "f64")])
def test_streaming_attention(layout: str, element: str):
    # 13 queries and 21 keys: the last blocks overlap those before; the first query of a window sees keys of two blocks.
    shapes = {
        "bsd": ("2x13x12", "2x21x6", "2x21x10"),
        "bshd": ("2x13x4x3", "2x21x2x3", "2x21x2x5"),
        "bhsd": ("2x4x13x3", "2x2x21x3", "2x2x21x5"),
    }[layout]
    q, k, v = (f"tensor<{s}x{element}>" for s in shapes)
    module = built(
        {"q": q, "k": k, "v": v, "seen": "tensor<2x1x21xi1>", "bias": f"tensor<1x4x13x21x{element}>"},
        lambda q, k, v, seen, bias: [
            *(AttentionOp(q, k, v, **LONG, **kind, layout=layout) for kind in KINDS),
            AttentionOp(q, k, v, seen, **LONG, layout=layout, mask_kind="custom", attn_logit_softcap=2.0),
            AttentionOp(q, k, v, bias, **LONG, layout=layout, mask_kind="bias"),
        ],
    )
    values = random_values(module, 0)
    values["seen"][0] = False  # All keys weigh the same.
    values["bias"][0, 1, :, :9] = -np.inf
    values["bias"][0, 2, 3] = -np.inf  # A row of nothing but -inf is NaN.
    tolerance = {"f64": 1e-9, "f32": 1e-5, "f16": 4e-3}[element]
    compare(module, values, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("blocks_of_eight")
def test_streaming_attention_of_unknown_extents():
    module = built(
        {
            **dict.fromkeys("qkv", "tensor<?x?x12xf32>"),
            "seen": "tensor<?x?xf32>",
            **dict.fromkeys(("a", "b", "c"), "tensor<1x19x12xf32>"),
        },
        lambda q, k, v, seen, a, b, c: [
            AttentionOp(q, k, v, num_heads=4, head_dim=3, layout="bsd", mask_kind="causal"),
            AttentionOp(q, k, v, seen, num_heads=4, head_dim=3, layout="bsd", mask_kind="custom"),
            # More queries than keys: the first ones see none.
            AttentionOp(a, k, v, num_heads=4, head_dim=3, layout="bsd", mask_kind="causal"),
            AttentionOp(a, b, c, num_heads=4, head_dim=3, layout="bsd", mask_kind="sliding_window", window=0),
        ],
    )
    given: list[dict[str, Array]] = []
    for extent in (3, 11):
        values = random_values(module, 0, dynamic=extent)
        given.append(values | {n: values[n][:1] for n in ("q", "k", "v", "seen")})
    compare(module, *given, rtol=1e-4, atol=1e-5)


def test_long_attention_keeps_no_scores():
    """2,000 tokens: nothing in the IR has as many elements as one head has scores; nor through the fused block."""
    length = 2000
    module = built(
        {
            **dict.fromkeys(("q", "k", "v", "x"), f"tensor<1x{length}x64xf32>"),
            "mask": f"tensor<1x{length}xf32>",
            "qkv": "tensor<64x192xf32>",
            "out": "tensor<64x64xf32>",
        },
        lambda q, k, v, x, mask, qkv, out: [
            AttentionOp(q, k, v, num_heads=2, head_dim=32, layout="bsd", mask_kind="causal"),
            FusedAttentionBlockOp(x, qkv, out, mask, num_heads=2, head_dim=32),
        ],
    )
    after = lowered(module)
    types = [v.type for op in after.walk() for v in (*op.results, *(a for r in op.regions for a in r.block.args))]
    shapes = [t.get_shape() for t in types if isinstance(t, TensorType)]
    assert (1, 2, 1, 256, 256) in shapes
    assert not [s for s in shapes if sum(e >= length for e in s) > 1 or prod(s) >= length * length // 4]


def test_attention_with_a_dynamic_batch():
    module = built(
        {name: f"tensor<?x{length}x12xf32>" for name, length in (("q", 6), ("k", 7), ("v", 7))},
        lambda q, k, v: [AttentionOp(q, k, v, num_heads=4, head_dim=3, layout="bsd", mask_kind="causal")],
    )
    compare(module, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("style", ["neox", "gptj"])
def test_rope(style: str):
    module = built(
        {"x": "tensor<2x5x12xf32>", "h": "tensor<2x3x5x4xf32>", "c": "tensor<8x2xf32>", "s": "tensor<8x2xf32>"},
        lambda x, h, c, s: [
            RopeOp(x, c, s, head_dim=4, layout="bsd", style=style),
            RopeOp(h, c, s, head_dim=4, layout="bhsd", style=style, n_rot=2),
        ],
    )
    compare(module)


def test_transformer_blocks():
    types = {
        "hidden": "2x5x8",
        "qkv": "8x24",
        "out": "8x8",
        "mask": "2x5",
        "qkv_b": "24",
        "out_b": "8",
        "cos": "5x2",
        "sin": "5x2",
        "g": "8",
        "fc1": "8x16",
        "fc2": "16x8",
        "fc1_b": "16",
    }
    module = built(
        {name: f"tensor<{shape}xf32>" for name, shape in types.items()},
        lambda x, qkv, out, mask, qkv_b, out_b, cos, sin, g, fc1, fc2, fc1_b: [
            FusedAttentionBlockOp(x, qkv, out, mask, num_heads=2, head_dim=4, biases=(qkv_b, out_b), rope=(cos, sin)),
            FusedTransformerLayerOp(
                x,
                qkv,
                out,
                g,
                fc1,
                fc2,
                g,
                mask,
                num_heads=2,
                head_dim=4,
                intermediate_size=16,
                eps1=1e-5,
                eps2=1e-5,
                activation="gelu",
                biases=(qkv_b, out_b, g, fc1_b, out_b, g),
            ),
        ],
    )
    rng = np.random.default_rng(0)
    values = {
        name: (0.5 * rng.standard_normal([int(e) for e in shape.split("x")])).astype(np.float32)
        for name, shape in types.items()
    }
    values["mask"] = (rng.random((2, 5)) < 0.7).astype(np.float32)
    compare(module, values, rtol=1e-4, atol=1e-5)
