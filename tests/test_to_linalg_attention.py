"""Attention, rotary embedding and whole transformer blocks in linalg."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import built, compare

from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.transformer import FusedAttentionBlockOp, FusedTransformerLayerOp


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
