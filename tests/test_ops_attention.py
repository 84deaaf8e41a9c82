"""Attention and rotary embedding against loops written out and onnxruntime."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attention_oracle import POSITIONS, SK, SQ, B, D, E, in_layout, rotated_one_by_one, written_out
from helpers import assert_close, assert_round_trip, assert_same_meaning, decomposed, graph
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, SSAValue

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import VerifyException

LAYOUTS = ["bsd", "bshd", "bhsd"]
HEADS = [(4, 4), (4, 2), (4, 1)]
MASKS: dict[str, tuple[int, ...]] = {
    "keys": (B, SK),
    "pairs": (B, SQ, SK),
    "heads": (B, 4, SQ, SK),
    "shared": (1, 1, SQ, SK),
}


def shape_in(layout: str, batch: int | str, seq: int | str, heads: int, dim: int) -> list[int | str]:
    packed = {"bsd": [batch, seq, heads * dim], "bshd": [batch, seq, heads, dim], "bhsd": [batch, heads, seq, dim]}
    return packed[layout]


def attention(
    layout: str,
    *,
    heads: tuple[int, int] = (4, 4),
    kind: str = "",
    mask: tuple[int | str, ...] | None = None,
    mask_type: str = "f32",
    type: str = "f32",
    value_dim: int = D,
    more: str = "",
    extents: tuple[int | str, int | str, int | str] = (B, SQ, SK),
) -> ModuleOp:
    """A module of one attention whose arguments are q, k, v and the mask."""
    h, g = heads
    b, sq, sk = extents
    shapes = [shape_in(layout, *s) for s in ((b, sq, h, D), (b, sk, g, D), (b, sk, g, value_dim))]
    types = [f"tensor<{'x'.join(map(str, s))}x{type}>" for s in shapes]
    if mask is not None:
        types.append(f"tensor<{'x'.join(map(str, mask))}x{mask_type}>")
    result = f"tensor<{'x'.join(map(str, shape_in(layout, b, sq, h, value_dim)))}x{type}>"
    names = ["%q", "%k", "%v", "%m"][: len(types)]
    properties = [f"num_heads = {h}", f"head_dim = {D}", f"layout = {layout}"]
    if g != h:
        properties.append(f"num_kv_heads = {g}")
    if value_dim != D:
        properties.append(f"v_head_dim = {value_dim}")
    if more:
        properties.append(more)
    return graph(
        f"%y = rlx.attention {kind} {', '.join(names)} {{{', '.join(properties)}}} : ({', '.join(types)}) -> {result}",
        ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True)),
        result,
        "%y",
    )


def qkv(heads: tuple[int, int] = (4, 4), value_dim: int = D, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    shapes = ((B, heads[0], SQ, D), (B, heads[1], SK, D), (B, heads[1], SK, value_dim))
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def check(module: ModuleOp, layout: str, values: list[Array], mask: Array | None, expected: Array) -> None:
    """The module and its decomposition give ``expected`` ([B, H, Sq, E]); its text survives a round trip."""
    assert_round_trip(module)
    given = {f"arg{i}": in_layout(x, layout) for i, x in enumerate(values)}
    if mask is not None:
        given["arg3"] = mask
    wanted = in_layout(expected.astype(np.float32), layout)
    assert_close(run_reference(module, given), [wanted])
    assert_close(run_reference(decomposed(module, "rlx.attention"), given), [wanted])
    assert_same_meaning(module, decomposed(module, "rlx.attention"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("value_dim", [D, E])
def test_layouts_grouped_heads_and_value_width(layout: str, heads: tuple[int, int], value_dim: int):
    values = qkv(heads, value_dim)
    check(attention(layout, heads=heads, value_dim=value_dim), layout, values, None, written_out(*values))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scale_and_softcap(layout: str):
    values = qkv()
    module = attention(layout, more="score_scale = 0.7, attn_logit_softcap = 1.5")
    check(module, layout, values, None, written_out(*values, scale=0.7, cap=1.5))


@pytest.mark.parametrize("extents", [(SQ, SK), (SK, SQ), (SQ, SQ), (1, SK)])
@pytest.mark.parametrize("window", [None, 0, 2])
@pytest.mark.parametrize("layout", ["bsd", "bhsd"])
def test_causal_and_window_count_from_the_last_key(extents: tuple[int, int], window: int | None, layout: str):
    queries, keys = extents
    rng = np.random.default_rng(1)
    values = [rng.standard_normal((B, h, s, D)).astype(np.float32) for h, s in ((4, queries), (2, keys), (2, keys))]
    seen = np.zeros((queries, keys), bool)
    for i, j in itertools.product(range(queries), range(keys)):
        last = i + keys - queries
        seen[i, j] = j <= last and (window is None or j >= last - window)
    kind, more = ("causal", "") if window is None else ("sliding_window", f"window = {window}")
    module = attention(layout, heads=(4, 2), kind=kind, more=more, extents=(B, queries, keys))
    check(module, layout, values, None, written_out(*values, seen=seen))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("type", ["f32", "i1"])
def test_custom_mask_below_a_half_hides(layout: str, shape: tuple[int, ...], type: str):
    values = qkv((4, 2))
    mask = np.random.default_rng(2).choice(np.array([0, 0.25, 0.5, 1, 3]), shape).astype(np.float32)
    mask[0, ..., :] = 0  # Rows without a key: their weights are equal.
    given = mask if type == "f32" else mask >= 0.5
    axes = {2: (slice(None), None, None), 3: (slice(None), None), 4: ()}[len(shape)]
    module = attention(layout, heads=(4, 2), kind="custom", mask=shape, mask_type=type)
    expected = written_out(*values, seen=(mask >= 0.5)[axes])
    assert np.allclose(expected[0], np.repeat(values[2][0].mean(1), 2, 0)[:, None])
    check(module, layout, values, given, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(B, 4, SQ, SK), (1, 4, 1, SK), (B, 1, SQ, SK)])
def test_bias_is_added_after_scale_and_softcap(layout: str, shape: tuple[int, ...]):
    values = qkv((4, 2))
    bias = np.random.default_rng(3).standard_normal(shape).astype(np.float32) * 3
    bias[..., 2] = -np.inf
    module = attention(layout, heads=(4, 2), kind="bias", mask=shape, more="attn_logit_softcap = 0.5")
    check(module, layout, values, bias, written_out(*values, cap=0.5, bias=bias))


def test_a_row_that_the_bias_hides_whole_is_nan_and_one_that_the_mask_hides_is_not():
    values = {f"arg{i}": x for i, x in enumerate(qkv())}
    bias = np.zeros((1, 1, SQ, SK), np.float32)
    bias[..., 1, :] = -np.inf
    (found,) = run_reference(attention("bhsd", kind="bias", mask=bias.shape), {**values, "arg3": bias})
    assert np.isnan(found[:, :, 1]).all()
    assert not np.isnan(found[:, :, [0, 2, 3, 4]]).any()
    (found,) = run_reference(attention("bhsd", kind="custom", mask=bias.shape), {**values, "arg3": bias})
    assert not np.isnan(found).any()


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("mask", ["none", "causal", "custom", "bias"])
@pytest.mark.parametrize("packed", [False, True])
def test_attention_is_onnxs(heads: tuple[int, int], mask: str, packed: bool):
    h, g = heads
    rng = np.random.default_rng(4)
    # ONNX counts the diagonal from the first key, so causal is compared where that makes no difference.
    queries, keys = (SK, SK) if mask == "causal" else (SQ, SK)
    shapes = ((B, h, queries, D), (B, g, keys, D), (B, g, keys, E))
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    full = (B, h, queries, keys)
    given = {"custom": rng.random(full) < 0.7, "bias": rng.standard_normal(full).astype(np.float32)}.get(mask)
    layout = "bsd" if packed else "bhsd"
    inputs = [in_layout(x, layout) for x in (q, k, v)]
    attributes: dict[str, Any] = {"scale": 0.3, "softcap": 2.0, "is_causal": int(mask == "causal")}
    if packed:
        attributes |= {"q_num_heads": h, "kv_num_heads": g}
    expected = onnx_run("Attention", *inputs, given, opset=23, **attributes)
    module = attention(
        layout,
        heads=heads,
        kind="" if mask == "none" else mask,
        mask=None if given is None else full,
        mask_type="i1" if mask == "custom" else "f32",
        value_dim=E,
        more="score_scale = 0.3, attn_logit_softcap = 2.0",
        extents=(B, queries, keys),
    )
    values = {f"arg{i}": x for i, x in enumerate([*inputs, given]) if x is not None}
    assert_close(run_reference(module, values), [expected], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("type", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("kind", ["causal", "custom", "bias"])
def test_other_floats(type: str, kind: str):
    mask = None if kind == "causal" else (B, 4, SQ, SK)
    module = attention("bshd", heads=(4, 2), kind=kind, mask=mask, mask_type=type, type=type)
    values = random_values(module, 5)
    # Scores of 1e5 and more: f16 would overflow before the softmax.
    values["arg0"] = values["arg0"] * values["arg0"].dtype.type(200 if type == "f16" else 1)
    values["arg1"] = values["arg1"] * values["arg1"].dtype.type(500 if type == "f16" else 1)
    (found,) = run_reference(module, values)
    assert np.isfinite(found).all()
    (parts,) = run_reference(decomposed(module, "rlx.attention"), values)
    assert_close([parts], [found], rtol=1e-3 if type == "f16" else 1e-2 if type == "bf16" else 1e-12, atol=1e-6)
    q, k, v, *rest = (np.asarray(x, np.float64) for x in values.values())
    q, k, v = (np.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))
    seen = np.arange(SK) <= np.arange(SQ)[:, None] + SK - SQ if kind == "causal" else None
    seen = rest[0] >= 0.5 if kind == "custom" else seen
    expected = written_out(q, k, v, seen=seen, bias=rest[0] if kind == "bias" else None)
    tolerance = {"f16": 2e-3, "bf16": 1e-2, "f64": 1e-12}[type]
    np.testing.assert_allclose(np.transpose(found, (0, 2, 1, 3)), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("extents", [("?", SQ, SK), (B, "?", "?"), ("?", "?", "?"), (B, SQ, "?")])
@pytest.mark.parametrize(("kind", "more"), [("", ""), ("causal", ""), ("sliding_window", "window = 1")])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dynamic_extents(extents: tuple[int | str, int | str, int | str], kind: str, more: str, layout: str):
    module = attention(layout, heads=(4, 2), kind=kind, more=more, extents=extents)
    assert_round_trip(module)
    static = attention(layout, heads=(4, 2), kind=kind, more=more)
    values = random_values(static, 6)
    expected = run_reference(static, values)
    assert_close(run_reference(module, values), expected)
    assert_close(run_reference(decomposed(module, "rlx.attention"), values), expected)


@pytest.mark.parametrize("type", ["f32", "i1"])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_dynamic_masks(type: str, rank: int):
    mask = {2: (B, SK), 3: (B, SQ, SK), 4: (B, 4, SQ, SK)}[rank]
    static = attention("bhsd", kind="custom", mask=mask, mask_type=type)
    values = random_values(static, 11)
    unknown = {2: ("?", "?"), 3: ("?", "?", "?"), 4: ("?", 4, "?", "?")}[rank]
    module = attention("bhsd", kind="custom", mask=unknown, mask_type=type, extents=("?", "?", "?"))
    expected = run_reference(static, values)
    assert_close(run_reference(module, values), expected)
    assert_close(run_reference(decomposed(module, "rlx.attention"), values), expected)


# Rotary embedding.


def rope(
    layout: str, style: str, n_rot: int | None, type: str = "f32", width: int | None = None, batch: int | str = B
) -> ModuleOp:
    x = f"tensor<{'x'.join(map(str, shape_in(layout, batch, SQ, 3, D)))}x{type}>"
    table = f"tensor<{POSITIONS}x{width or (n_rot or D) // 2}x{type}>"
    rotated = f", n_rot = {n_rot}" if n_rot else ""
    return graph(
        f"%y = rlx.rope %x, %c, %s {{head_dim = {D}{rotated}, style = {style}, layout = {layout}}} "
        f": ({x}, {table}, {table}) -> {x}",
        f"%x: {x}, %c: {table}, %s: {table}",
        x,
        "%y",
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("n_rot", [None, 4])
@pytest.mark.parametrize("width", [None, 5])
def test_rope_turns_pairs(layout: str, style: str, n_rot: int | None, width: int | None):
    module = rope(layout, style, n_rot, width=width)
    assert_round_trip(module)
    rng = np.random.default_rng(7)
    x = rng.standard_normal((B, 3, SQ, D)).astype(np.float32)
    angles = rng.standard_normal((POSITIONS, width or (n_rot or D) // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    expected = in_layout(rotated_one_by_one(x, cos, sin, n_rot or D, style).astype(np.float32), layout)
    values = {"arg0": in_layout(x, layout), "arg1": cos, "arg2": sin}
    assert_close(run_reference(module, values), [expected])
    assert_same_meaning(module, decomposed(module, "rlx.rope"))
    if n_rot is not None:
        kept = run_reference(rope("bhsd", style, n_rot, width=width), {**values, "arg0": x})[0]
        assert (kept[..., n_rot:] == x[..., n_rot:]).all()


@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("n_rot", [None, 4])
@pytest.mark.parametrize("packed", [False, True])
def test_rope_is_onnxs(style: str, n_rot: int | None, packed: bool):
    rng = np.random.default_rng(8)
    layout = "bsd" if packed else "bhsd"
    x = in_layout(rng.standard_normal((B, 3, SQ, D)).astype(np.float32), layout)
    cos, sin = (rng.standard_normal((POSITIONS, (n_rot or D) // 2)).astype(np.float32) for _ in range(2))
    attributes: dict[str, int] = {"interleaved": int(style == "gptj"), "rotary_embedding_dim": n_rot or 0}
    if packed:
        attributes["num_heads"] = 3
    positions = np.broadcast_to(np.arange(SQ), (B, SQ))
    expected = onnx_run("RotaryEmbedding", x, cos, sin, positions, opset=23, **attributes)
    assert_close(run_reference(rope(layout, style, n_rot), {"arg0": x, "arg1": cos, "arg2": sin}), [expected])


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_rope_of_narrow_floats(type: str):
    module = rope("bsd", "neox", None, type)
    assert_same_meaning(module, decomposed(module, "rlx.rope"), rtol=1e-2, atol=2e-2)


def test_rope_with_dynamic_extents():
    for layout, style in itertools.product(LAYOUTS, ("neox", "gptj")):
        module = rope(layout, style, 4, batch="?")
        assert_same_meaning(module, decomposed(module, "rlx.rope"))
    x, table = "tensor<2x?x8xf32>", "tensor<?x2xf32>"
    text = f"%y = rlx.rope %x, %c, %c {{head_dim = 4, layout = bsd}} : ({x}, {table}, {table}) -> {x}"
    module = graph(text, f"%x: {x}, %c: {table}", x, "%y")
    values = random_values(module, dynamic=5)
    assert run_reference(module, values)[0].shape == (2, 5, 8)
    assert_close(run_reference(decomposed(module, "rlx.rope"), values), run_reference(module, values))


# Python API.


def value(*shape: int) -> SSAValue:
    return Block(arg_types=[TensorType(f32, shape)]).args[0]


def test_builders_infer_result_types():
    q, k, v = value(2, 5, 32), value(2, 7, 16), value(2, 7, 12)
    op = AttentionOp(q, k, v, num_heads=4, num_kv_heads=2, head_dim=8, v_head_dim=6, layout="bsd")
    assert op.result.type == TensorType(f32, (2, 5, 24))
    assert (op.kv_heads, op.value_dim, op.scale) == (2, 6, 1 / math.sqrt(8))
    plain = AttentionOp(q, q, q, num_heads=4, num_kv_heads=4, head_dim=8, v_head_dim=8, layout="bsd")
    assert plain.num_kv_heads is None
    assert plain.v_head_dim is None
    assert RopeOp(q, value(9, 4), value(9, 4), head_dim=8, n_rot=8, layout="bsd").n_rot is None
    with pytest.raises(VerifyException, match=r"operand 'k' must have shape 2x\?x32 in layout bsd, got 2x7x16"):
        AttentionOp(q, k, v, num_heads=4, head_dim=8, layout="bsd")
