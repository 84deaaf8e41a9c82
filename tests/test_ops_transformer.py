"""Transformer blocks and layers against attention written out."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from attention_oracle import POSITIONS, SQ, B, D, in_layout, rotated_one_by_one, written_out
from helpers import assert_close, assert_round_trip, decomposed, parse
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, SSAValue

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.transformer import FusedAttentionBlockOp, FusedTransformerLayerOp

W, H, INNER = 10, 3, 12


def block_values(*, bias: bool, rope: bool, seed: int = 9) -> dict[str, Array]:
    """Operands of an attention block by name."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"hidden": (B, SQ, W), "qkv_w": (W, 3 * H * D), "out_w": (H * D, W)}
    shapes["mask"] = (B, SQ)
    if bias:
        shapes |= {"qkv_b": (3 * H * D,), "out_b": (W,)}
    if rope:
        shapes |= {"rope_cos": (POSITIONS, D // 2), "rope_sin": (POSITIONS, D // 2)}
    values: dict[str, Array] = {n: rng.standard_normal(s).astype(np.float32) * 0.4 for n, s in shapes.items()}
    values["mask"] = np.ones((B, SQ), np.float32)
    values["mask"][1, 3:] = 0
    return values


def operation(name: str, properties: str, values: Mapping[str, Array], result: str, keyword: str = "") -> ModuleOp:
    types = {n: f"tensor<{'x'.join(map(str, v.shape))}xf32>" for n, v in values.items()}
    arguments = ", ".join(f'%{n}: {t} {{rlx.param = "{n}"}}' for n, t in types.items())
    operands = ", ".join(f"%{n}" for n in types)
    return parse(
        f"func.func @main({arguments}) -> {result} {{\n"
        f"%y = {name} {keyword}{operands} {{{properties}}} : ({', '.join(types.values())}) -> {result}\n"
        f"func.return %y : {result}\n}}"
    )


def block_written_out(values: Mapping[str, Array]) -> Array:
    v = {n: x.astype(np.float64) for n, x in values.items()}
    qkv = v["hidden"] @ v["qkv_w"] + v.get("qkv_b", 0.0)
    q, k, value = (np.transpose(part.reshape(B, SQ, H, D), (0, 2, 1, 3)) for part in np.split(qkv, 3, axis=2))
    if "rope_cos" in v:
        q, k = (rotated_one_by_one(x, v["rope_cos"], v["rope_sin"], D, "neox") for x in (q, k))
    attended = written_out(q, k, value, seen=(v["mask"] >= 0.5)[:, None, None])
    return in_layout(attended, "bsd") @ v["out_w"] + v.get("out_b", 0.0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rope", [False, True])
def test_fused_attention_block(bias: bool, rope: bool):
    values = block_values(bias=bias, rope=rope)
    flags = ", has_bias" * bias + ", has_rope" * rope
    properties = f"num_heads = {H}, head_dim = {D}{flags}"
    module = operation("rlx.fused_attention_block", properties, values, f"tensor<{B}x{SQ}x{W}xf32>")
    assert_round_trip(module)
    expected = block_written_out(values).astype(np.float32)
    assert_close(run_reference(module, values), [expected])
    flat = decomposed(module, "rlx.fused_attention_block")
    assert_close(run_reference(flat, values), [expected])
    assert [op.name for op in flat.walk()].count("rlx.attention") == 1


def layer_norm(x: Array, gamma: Array, beta: Array | float, eps: float) -> Array:
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + eps) * gamma + beta


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu", ""])
def test_fused_transformer_layer(bias: bool, activation: str):
    rng = np.random.default_rng(10)
    block = block_values(bias=bias, rope=False)
    values = {n: block[n] for n in ("hidden", "qkv_w", "out_w")}
    shapes: dict[str, tuple[int, ...]] = {"ln1_g": (W,), "fc1_w": (W, INNER), "fc2_w": (INNER, W), "ln2_g": (W,)}
    values |= {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    values["mask"] = block["mask"]
    if bias:
        values |= {n: block[n] for n in ("qkv_b", "out_b")}
        more = {"ln1_b": (W,), "fc1_b": (INNER,), "fc2_b": (W,), "ln2_b": (W,)}
        values |= {n: rng.standard_normal(s).astype(np.float32) for n, s in more.items()}
    module = operation(
        "rlx.fused_transformer_layer",
        f"num_heads = {H}, head_dim = {D}, intermediate_size = {INNER}, eps1 = 1.0e-5, eps2 = 0.1"
        + ", has_bias" * bias,
        values,
        f"tensor<{B}x{SQ}x{W}xf32>",
        f"{activation} " if activation else "",
    )
    assert_round_trip(module)
    v = {n: x.astype(np.float64) for n, x in values.items()}
    h = layer_norm(block_written_out(values) + v["hidden"], v["ln1_g"], v.get("ln1_b", 0.0), 1e-5)
    f = h @ v["fc1_w"] + v.get("fc1_b", 0.0)
    if activation == "gelu":
        f = f * np.vectorize(math.erfc)(-f / math.sqrt(2)) / 2
    if activation == "relu":
        f = np.maximum(f, 0)
    f = f @ v["fc2_w"] + v.get("fc2_b", 0.0)
    expected = layer_norm(f + h, v["ln2_g"], v.get("ln2_b", 0.0), 0.1).astype(np.float32)
    assert_close(run_reference(module, values), [expected], rtol=1e-4, atol=1e-5)
    flat = decomposed(module, "rlx.fused_transformer_layer")
    assert_close(run_reference(flat, values), [expected], rtol=1e-4, atol=1e-5)


# Python API.


def value(*shape: int) -> SSAValue:
    return Block(arg_types=[TensorType(f32, shape)]).args[0]


def test_the_builder_infers_the_result_of_a_block():
    block = FusedAttentionBlockOp(
        value(2, 5, 10), value(10, 96), value(32, 7), value(2, 5), num_heads=4, head_dim=8, biases=(value(96), value(7))
    )
    block.verify()
    assert block.result.type == TensorType(f32, (2, 5, 7))
    assert block.find("qkv_b") is block.extras[0]
    assert block.find("rope_cos") is None


def test_a_transformer_layer_of_the_builder_is_valid():
    layer = FusedTransformerLayerOp(
        value(2, 5, 10),
        value(10, 96),
        value(32, 10),
        value(10),
        value(10, 12),
        value(12, 10),
        value(10),
        value(2, 5),
        num_heads=4,
        head_dim=8,
        intermediate_size=12,
        eps1=1e-5,
        eps2=1e-6,
        activation="gelu",
    )
    layer.verify()
    assert layer.result.type == TensorType(f32, (2, 5, 10))
