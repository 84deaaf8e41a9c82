"""Gradients of attention against finite differences of the forward operation in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attention_oracle import in_layout
from gradients import check_decomposition, finite_difference, near, reals
from helpers import decomposed, op_module, run_op
from xdsl.dialects.builtin import TensorType, f32

from rlx_dialect.attributes import AttentionInput
from rlx_dialect.dtypes import Array
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.attention_backward import AttentionBackwardAllOp, AttentionBackwardOp

B, H, SQ, SK, D = 2, 4, 3, 5, 2
LAYOUTS = ["bsd", "bshd", "bhsd"]
WRT = list(AttentionInput)
MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"mask_kind": "causal"},
    "window": {"mask_kind": "sliding_window", "window": 1},
    "keys": {"mask_kind": "custom"},
    "pairs": {"mask_kind": "custom"},
    "heads": {"mask_kind": "custom"},
    "bool": {"mask_kind": "custom"},
    "bias": {"mask_kind": "bias"},
}


def operands(layout: str, *, kv_heads: int = H, queries: int = SQ, keys: int = SK) -> list[Array]:
    """q, k, v and dy."""
    sizes = ((H, queries), (kv_heads, keys), (kv_heads, keys), (H, queries))
    return [in_layout(reals(B, heads, seq, D, seed=i), layout) for i, (heads, seq) in enumerate(sizes)]


def mask_of(name: str, queries: int = SQ, keys: int = SK) -> list[Array]:
    """The mask operand, if there is one. One query, or one whole batch, sees no key."""
    shapes = {
        "keys": (B, keys),
        "pairs": (B, queries, keys),
        "heads": (B, H, queries, keys),
        "bool": (1, 1, queries, keys),
    }
    if name == "bias":
        return [reals(B, H, queries, keys, seed=9)]
    if name not in shapes:
        return []
    mask = np.random.default_rng(8).random(shapes[name]) < 0.6
    mask[(0,) * (mask.ndim - 1)] = False
    return [mask if name == "bool" else mask.astype(np.float64)]


def build(op: Any, layout: str, mask: str = "none", kv_heads: int = H, **more: Any):
    """A constructor that takes the operands."""
    if op is not AttentionBackwardAllOp:
        more["num_kv_heads"] = kv_heads
    return lambda *v: op(*v, num_heads=H, head_dim=D, layout=layout, **MASKS[mask], **more)


def check(layout: str, mask: str, wrt: AttentionInput, kv_heads: int = H, queries: int = SQ, keys: int = SK) -> None:
    *qkv, dy = operands(layout, kv_heads=kv_heads, queries=queries, keys=keys)
    masks = mask_of(mask, queries, keys)
    (found,) = run_op(build(AttentionBackwardOp, layout, mask, kv_heads, wrt=wrt), *qkv, dy, *masks)
    forward = build(AttentionOp, layout, mask, kv_heads)
    near(found, finite_difference(forward, [*qkv, *masks], WRT.index(wrt), dy))


@pytest.mark.parametrize("wrt", WRT)
@pytest.mark.parametrize("mask", MASKS)
def test_each_mask(mask: str, wrt: AttentionInput):
    check("bhsd", mask, wrt)


@pytest.mark.parametrize("wrt", WRT)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_and_number_of_key_heads(layout: str, kv_heads: int, wrt: AttentionInput):
    check(layout, "causal", wrt, kv_heads)


@pytest.mark.parametrize("wrt", WRT)
def test_fewer_keys_than_queries(wrt: AttentionInput):
    """The first queries of a causal attention then see no key: their weights are uniform, and do not change."""
    check("bshd", "causal", wrt, queries=5, keys=3)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_is_the_three_one_after_the_other(layout: str, mask: str):
    given = [*operands(layout, keys=SQ), *mask_of(mask, SQ, SQ)]
    (found,) = run_op(build(AttentionBackwardAllOp, layout, mask), *given)
    each = [run_op(build(AttentionBackwardOp, layout, mask, wrt=wrt), *given)[0] for wrt in WRT]
    np.testing.assert_array_equal(found, np.concatenate(each))


def dynamic(layout: str, given: list[Array]) -> list[tuple[int, ...]]:
    """Axes of operands that are dynamic together: the batch, and the sequences where heads have an axis."""
    seq = {"bsd": (), "bshd": (1,), "bhsd": (2,)}[layout]
    return [(0, *seq) if i < 4 else (0,) for i in range(len(given))]


@pytest.mark.parametrize("wrt", WRT)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("layout", "kv_heads"), [("bsd", 2), ("bshd", 1), ("bhsd", 4)])
def test_the_decomposition_means_the_same(layout: str, kv_heads: int, mask: str, wrt: AttentionInput):
    given = [*operands(layout, kv_heads=kv_heads), *mask_of(mask)]
    axes = dynamic(layout, given)
    check_decomposition(build(AttentionBackwardOp, layout, mask, kv_heads, wrt=wrt), *given, dynamic=axes)


@pytest.mark.parametrize("mask", ["none", "causal", "pairs"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_decomposition_of_all_means_the_same(layout: str, mask: str):
    given = [*operands(layout, keys=SQ), *mask_of(mask, SQ, SQ)]
    check_decomposition(build(AttentionBackwardAllOp, layout, mask), *given, dynamic=dynamic(layout, given))


def test_only_what_is_wanted_is_computed():
    types = [TensorType(f32, a.shape) for a in operands("bhsd")]
    counts = {
        wrt: sum(o.name == "rlx.matmul" for o in decomposed(module, "rlx.attention_backward").walk())
        for wrt in WRT
        for module in [op_module(build(AttentionBackwardOp, "bhsd", wrt=wrt), *types)]
    }
    assert counts == {"query": 3, "key": 3, "value": 2}
