"""rlx-fuse-attention-backward-all: three gradients in any order, each reason, switched off, mutants."""

from __future__ import annotations

from typing import Any

import pytest
from fusion_harness import check_declines, check_fusion
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Attribute

from rlx_dialect.attributes import AttentionInput
from rlx_dialect.builder import GraphBuilder
from rlx_dialect.ops.attention_backward import AttentionBackwardOp
from rlx_dialect.passes.fuse_attention_backward_all import FuseAttentionBackwardAll
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import print_module

FUSED = "rlx.attention_backward_all"
SITE = "rlx.attention_backward"
ON = FuseAttentionBackwardAll(enabled=True)
ALL = list(AttentionInput)


def gradients(
    wanted: list[AttentionInput] = ALL,
    *,
    q_shape: tuple[int, ...] = (2, 3, 8),
    k_shape: tuple[int, ...] = (2, 3, 8),
    mask: tuple[int, ...] | None = None,
    masks: int = 1,
    element: Attribute = f32,
    last: dict[str, Any] | None = None,
    **properties: Any,
) -> ModuleOp:
    """The ``wanted`` gradients of one attention. ``last``: properties of the last one alone."""
    g = GraphBuilder()
    q, k, v = (g.input(name, shape, element) for name, shape in (("q", q_shape), ("k", k_shape), ("v", k_shape)))
    dy = g.input("dy", q_shape, element)
    operands = [g.input(f"mask{i}", mask, element).ssa for i in range(masks)] if mask is not None else [None]
    common = {"num_heads": 2, "head_dim": 4, "layout": "bsd", **properties}
    for i, of in enumerate(wanted):
        own = common | (last or {}) if i == len(wanted) - 1 else common
        chosen = operands[-1] if i == len(wanted) - 1 else operands[0]
        g.output(f"d{i}", g.insert(AttentionBackwardOp(q.ssa, k.ssa, v.ssa, dy.ssa, chosen, wrt=of, **own)))
    return g.module()


@pytest.mark.parametrize("wanted", [ALL, ALL[::-1], [ALL[1], ALL[2], ALL[0]]])
def test_any_order(wanted: list[AttentionInput]):
    after = check_fusion(gradients(wanted), ON, fused={FUSED: 1}, more_operations=1)
    text = print_module(after)
    starts = [text.index(f"start = {2 * ALL.index(of)}, len = 2") for of in wanted]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    "properties",
    [
        {"mask_kind": "causal"},
        {"mask_kind": "sliding_window", "window": 1},
        {"mask_kind": "custom", "mask": (2, 3)},
        {"mask_kind": "bias", "mask": (1, 2, 3, 3)},
        {"layout": "bshd", "q_shape": (3, 3, 2, 4), "k_shape": (3, 3, 2, 4)},
        {"layout": "bhsd", "q_shape": (2, 2, 2, 4), "k_shape": (2, 2, 2, 4), "mask_kind": "causal"},
        {"element": f16},
        {"element": bf16},
        {"element": f64},
    ],
)
def test_masks_layouts_and_element_types(properties: dict[str, Any]):
    strict = FuseAttentionBackwardAll(enabled=True, strict=True)
    check_fusion(gradients(**properties), strict, fused={FUSED: 1}, more_operations=1)


def test_two_attentions():
    g = GraphBuilder()
    shared = [g.input(name, (2, 3, 8)).ssa for name in ("q", "k", "v")]
    dys = [g.input(name, (2, 3, 8)).ssa for name in ("a", "b")]
    for of in ALL:
        for i, dy in enumerate(dys):
            op = AttentionBackwardOp(*shared, dy, wrt=of, num_heads=2, head_dim=4, layout="bsd")
            g.output(f"{of}{i}", g.insert(op))
    check_fusion(g.module(), ON, fused={FUSED: 2}, more_operations=2)


def test_a_second_gradient_with_respect_to_one_operand_is_left():
    module = gradients([*ALL, ALL[0]])
    after = check_fusion(module, ON, fused={FUSED: 1}, more_operations=1, mutants=False)
    assert sum(op.name == SITE for op in after.walk()) == 1


def test_switched_off():
    miss = check_declines(gradients(), FuseAttentionBackwardAll(), Reason.SWITCHED_OFF, at=SITE)
    assert "enabled=true" in miss.hint


@pytest.mark.parametrize(
    ("module", "reason", "misses"),
    [
        (gradients(ALL[:2]), Reason.GROUP_SIZE, 1),
        (gradients(ALL[2:]), Reason.GROUP_SIZE, 1),
        (gradients(mask=(2, 3), masks=2, mask_kind="custom"), Reason.MASK, 2),
        (gradients(last={"mask_kind": "causal"}), Reason.ATTRIBUTES_DIFFER, 2),
        (gradients(last={"num_heads": 1, "head_dim": 8}), Reason.ATTRIBUTES_DIFFER, 2),
        (
            gradients(mask_kind="sliding_window", window=1, last={"window": 2}),
            Reason.ATTRIBUTES_DIFFER,
            2,
        ),
        (
            gradients(
                q_shape=(2, 2, 2, 4), k_shape=(2, 2, 2, 4), layout="bshd", mask_kind="causal", last={"layout": "bhsd"}
            ),
            Reason.ATTRIBUTES_DIFFER,
            2,
        ),
        (gradients(k_shape=(2, 5, 8)), Reason.SHAPES_DIFFER, 1),
        (gradients(k_shape=(2, 3, 4), num_kv_heads=1), Reason.SHAPES_DIFFER, 1),
        (gradients(q_shape=(-1, 3, 8), k_shape=(-1, 3, 8)), Reason.DYNAMIC_EXTENT, 1),
    ],
)
@pytest.mark.parametrize("fusion", [ON, FuseAttentionBackwardAll()], ids=["on", "off"])
def test_it_declines(module: ModuleOp, reason: Reason, misses: int, fusion: FuseAttentionBackwardAll):
    check_declines(module, fusion, reason, at=SITE, misses=misses)


def test_what_is_no_candidate():
    g = GraphBuilder()
    g.output("x", g.tanh(g.input("x", (2, 3))))
    assert ON.misses(g.module()) == []
