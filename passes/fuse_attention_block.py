"""Self-attention and the projections around it become one operation, for small inputs.

Before::

    %qkv = rlx.fused_matmul_bias_act %hidden, %qkv_w, %qkv_b : …
    %q = rlx.narrow %qkv {axis = 2, start = 0, len = 8} : …
    %k = rlx.narrow %qkv {axis = 2, start = 8, len = 8} : …
    %v = rlx.narrow %qkv {axis = 2, start = 16, len = 8} : …
    %a = rlx.attention custom %q, %k, %v, %mask {num_heads = 2, head_dim = 4, layout = bsd} : …
    %o = rlx.fused_matmul_bias_act %a, %out_w, %out_b : …

After::

    %o = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b {num_heads = 2, head_dim = 4, …} : …

Both projections have a bias, or both are plain products. Q and K may both be rotated by ``rlx.rope`` with the same
tables in between (style neox, all lanes). The fused operation has the custom mask [B, S] and the scale 1/√D only, so
every other attention is left as it is, and so are projections of Q, K and V that are not one product. Batch times
sequence of the hidden value must not exceed ``threshold``: the operation is for inputs so small that the start of
each kernel counts. Numerics: ``wider``, because the values between of f16 or bf16 need not be rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import AttentionLayout, MaskKind, RopeStyle
from rlx_dialect.base import shape_of
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp, MatMulOp
from rlx_dialect.ops.shape import NarrowOp
from rlx_dialect.ops.transformer import FusedAttentionBlockOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import defining, is_used, one_use, used_by_only
from rlx_dialect.shapes import is_static, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

Projection = FusedMatMulBiasActOp | MatMulOp
_PROJECTIONS = (FusedMatMulBiasActOp, MatMulOp)


def over_threshold(hidden: SSAValue, threshold: int, site: Operation) -> Miss | None:
    """None if batch times sequence of ``hidden`` [B, S, W] is known and at most ``threshold``."""
    batch, seq, _ = shape_of(hidden)
    if is_static([batch, seq]) and batch * seq <= threshold:
        return None
    detail = f"batch × sequence is {show([batch, seq])}, the threshold {threshold}"
    return Miss(Reason.SIZE_THRESHOLD, site, detail, "raise the threshold (RLX_FUSE_ATTN_THRESHOLD)")


@dataclass(frozen=True)
class AttentionBlockMatch(Match):
    packed: Projection
    narrows: tuple[NarrowOp, ...]
    ropes: tuple[RopeOp, ...]
    """Of Q and K, or none."""
    attention: AttentionOp
    out: Projection


class FuseAttentionBlock(FusionPattern[AttentionOp, AttentionBlockMatch]):
    """projection → thirds → (rope of Q and K) → attention → projection."""

    root = AttentionOp

    def __init__(self, threshold: int):
        self.threshold = threshold

    def check(self, op: AttentionOp, /) -> AttentionBlockMatch | Miss | None:
        if not is_used(op.result):
            return None
        if (miss := _other_attention(op)) is not None:
            return miss
        ropes = _rotations(op)
        if isinstance(ropes, Miss):
            return ropes
        narrows = _thirds(op, ropes)
        if isinstance(narrows, Miss):
            return narrows
        packed = defining(narrows[0].input, _PROJECTIONS)
        if packed is None:
            detail = "Q, K and V are parts of a value that is no projection"
            return Miss(Reason.OTHER_OPERAND, op, detail, "nothing to do unless it was meant to be one")
        out = one_use(op.result, op)
        if isinstance(out, Miss):
            return out
        if not isinstance(out, _PROJECTIONS) or out.operands[0] is not op.result:
            return Miss(
                Reason.OTHER_CONSUMER, op, f"its result goes to {out.name}, not into a projection", "nothing to do"
            )
        match = AttentionBlockMatch(packed, narrows, ropes, op, out)
        return _other_projections(match) or over_threshold(packed.operands[0], self.threshold, op) or match

    def rewrite(self, match: AttentionBlockMatch, rewriter: PatternRewriter, /) -> None:
        attention, packed, out = match.attention, match.packed, match.out
        assert attention.mask is not None
        biases = None
        if isinstance(packed, FusedMatMulBiasActOp) and isinstance(out, FusedMatMulBiasActOp):
            biases = (packed.bias, out.bias)
        rewriter.insertion_point = InsertPoint.before(out)
        fused = FusedAttentionBlockOp(
            packed.operands[0],
            packed.operands[1],
            out.operands[1],
            attention.mask,
            num_heads=attention.num_heads.value.data,
            head_dim=attention.head_dim.value.data,
            biases=biases,
            rope=(match.ropes[0].cos, match.ropes[0].sin) if match.ropes else None,
            result_type=out.result.type,
        )
        rewriter.replace(out, fused)
        for op in (attention, *match.ropes, *match.narrows, packed):
            rewriter.erase(op)


def _other_attention(op: AttentionOp) -> Miss | None:
    """Why the block's attention is another one than ``op``."""
    if op.mask is None or op.mask_kind.data is not MaskKind.CUSTOM:
        detail = f"mask kind {op.mask_kind.data}, where the block has a custom mask"
        return Miss(Reason.MASK, op, detail, "nothing to do")
    if op.layout.data is not AttentionLayout.BSD:
        detail = f"layout {op.layout.data}, where the block has bsd"
        return Miss(Reason.AXIS, op, detail, "split and merge heads right around the attention")
    batch, _, keys = op.extents()
    if shape_of(op.mask) != (batch, keys):
        detail = f"a mask of shape {show(shape_of(op.mask))}, where the block takes {show((batch, keys))}"
        return Miss(Reason.MASK, op, detail, "give one row of keys for each batch")
    default = 1 / math.sqrt(op.head_dim.value.data)
    differing = [
        name
        for name, differs in (
            ("score_scale", op.scale != default),
            ("attn_logit_softcap", op.attn_logit_softcap is not None),
            ("v_head_dim", op.value_dim != op.head_dim.value.data),
            ("num_kv_heads", op.kv_heads != op.num_heads.value.data),
        )
        if differs
    ]
    if differing:
        detail = f"{', '.join(differing)}: the block has the default only"
        return Miss(Reason.ATTRIBUTES_DIFFER, op, detail, "nothing to do")
    return None


def _rotations(op: AttentionOp) -> tuple[RopeOp, ...] | Miss:
    """The rope operations of Q and K; none where neither is rotated."""
    found = [rope for rope in (defining(op.q, RopeOp), defining(op.k, RopeOp)) if rope is not None]
    if not found:
        return ()
    dim = op.head_dim.value.data
    for rope in found:
        user = one_use(rope.result, op)
        if isinstance(user, Miss):
            return user
        if rope.style.data is not RopeStyle.NEOX or rope.rotated != dim or rope.head_dim.value.data != dim:
            detail = f"{rope.name} of style {rope.style.data} turns {rope.rotated} lanes, the block all in style neox"
            return Miss(Reason.ATTRIBUTES_DIFFER, op, detail, "nothing to do")
    if len(found) == 1:
        return Miss(Reason.ATTRIBUTES_DIFFER, op, "only one of Q and K is rotated", "nothing to do")
    if found[0].cos is not found[1].cos or found[0].sin is not found[1].sin:
        return Miss(Reason.OTHER_OPERAND, op, "Q and K are rotated by different tables", "use one pair of tables")
    return tuple(found)


def _thirds(op: AttentionOp, ropes: Sequence[RopeOp]) -> tuple[NarrowOp, ...] | Miss:
    """The operations that cut Q, K and V, in this order, out of one value that nothing else uses."""
    q, k = (rope.x for rope in ropes) if ropes else (op.q, op.k)
    narrows = [n for n in (defining(q, NarrowOp), defining(k, NarrowOp), defining(op.v, NarrowOp)) if n is not None]
    if len(narrows) < 3 or any(n.input is not narrows[0].input for n in narrows):
        detail = "Q, K and V are not parts of one value"
        return Miss(Reason.OTHER_OPERAND, op, detail, "project them by one product")
    for narrow in narrows:
        user = one_use(narrow.result, op)
        if isinstance(user, Miss):
            return user
    packed = narrows[0].input
    width = op.num_heads.value.data * op.head_dim.value.data
    if any(n.axis_index != len(shape_of(packed)) - 1 for n in narrows):
        return Miss(Reason.AXIS, op, "Q, K and V are cut along another axis than the last", "nothing to do")
    cuts = [(n.start.value.data, n.len.value.data) for n in narrows]
    if cuts != [(part * width, width) for part in range(3)] or shape_of(packed)[-1] != 3 * width:
        detail = f"Q, K and V are {cuts} (start, length) of {show(shape_of(packed)[-1:])} columns"
        return Miss(Reason.NOT_ADJACENT, op, detail, "order the columns of the weight as Q, K, V")
    return used_by_only(packed, narrows, op) or tuple(narrows)


def _other_projections(match: AttentionBlockMatch) -> Miss | None:
    """Why the two projections are not those of a block."""
    op, projections = match.attention, (match.packed, match.out)
    for projection in projections:
        if projection.parent is not op.parent:
            return Miss(Reason.OTHER_BLOCK, op, f"{projection.name} is in another block", "move both into one block")
        if isinstance(projection, FusedMatMulBiasActOp) and projection.activation is not None:
            detail = f"a projection ends with {projection.activation.data}"
            return Miss(Reason.UNSUPPORTED_KIND, op, detail, "nothing to do")
        shapes = [shape_of(operand) for operand in projection.operands[:2]]
        if [len(shape) for shape in shapes] != [3, 2]:
            detail = f"a projection of {show(shapes[0])} by {show(shapes[1])}, where the block has ranks 3 and 2"
            return Miss(Reason.RANK, op, detail, "nothing to do")
    if type(match.packed) is not type(match.out):
        return Miss(Reason.ATTRIBUTES_DIFFER, op, "only one of the projections has a bias", "give both a bias")
    return None


@dataclass(frozen=True)
class FuseAttentionBlockPass(PatternFusionPass):
    """``threshold``: the greatest batch times sequence of the hidden value."""

    name = "rlx-fuse-attention-block"
    produces: ClassVar = (FusedAttentionBlockOp,)
    numerics: ClassVar = Numerics.WIDER

    threshold: int = 64

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseAttentionBlock(self.threshold)]
