"""An attention block, the feed-forward layer behind it and both residual norms become one operation.

Before (post-norm, as in BERT)::

    %a = rlx.fused_attention_block %hidden, %qkv_w, %out_w, %mask, %qkv_b, %out_b {…} : …
    %h = rlx.fused_residual_ln %a, %hidden, %ln1_g, %ln1_b {eps = 1.0e-12} : …
    %f = rlx.fused_matmul_bias_act gelu %h, %fc1_w, %fc1_b : …
    %g = rlx.fused_matmul_bias_act %f, %fc2_w, %fc2_b : …
    %y = rlx.fused_residual_ln %g, %h, %ln2_g, %ln2_b {eps = 1.0e-12} : …

After::

    %y = rlx.fused_transformer_layer gelu %hidden, %qkv_w, %out_w, %ln1_g, %fc1_w, %fc2_w, %ln2_g, %mask, … : …

The two summands of a residual may come in either order, since a sum of two does not depend on it. Batch times
sequence must not exceed ``threshold``, as for the block. Numerics: ``wider``, because the values between of f16 or
bf16 need not be rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import shape_of
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp
from rlx_dialect.ops.normalization import FusedResidualLnOp
from rlx_dialect.ops.transformer import FusedAttentionBlockOp, FusedTransformerLayerOp
from rlx_dialect.passes.fuse_attention_block import over_threshold
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import is_used, one_use, used_by_only
from rlx_dialect.shapes import DYNAMIC, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class TransformerLayerMatch(Match):
    block: FusedAttentionBlockOp
    norm1: FusedResidualLnOp
    fc1: FusedMatMulBiasActOp
    fc2: FusedMatMulBiasActOp
    norm2: FusedResidualLnOp


class FuseTransformerLayer(FusionPattern[FusedAttentionBlockOp, TransformerLayerMatch]):
    """attention block → residual norm → two projections → residual norm."""

    root = FusedAttentionBlockOp

    def __init__(self, threshold: int):
        self.threshold = threshold

    def check(self, op: FusedAttentionBlockOp, /) -> TransformerLayerMatch | Miss | None:
        if not is_used(op.result):
            return None
        if op.has_bias is None or op.has_rope is not None:
            detail = "the block of a layer has biases and no rotary embedding"
            return Miss(Reason.ATTRIBUTES_DIFFER, op, detail, "nothing to do")
        norm1 = _residual_norm(op.result, op.hidden, op)
        if isinstance(norm1, Miss):
            return norm1
        h, fc1 = norm1.result, _first_projection(norm1, op)
        if isinstance(fc1, Miss):
            return fc1
        fc2 = one_use(fc1.result, op)
        if isinstance(fc2, Miss):
            return fc2
        if not isinstance(fc2, FusedMatMulBiasActOp) or fc2.input is not fc1.result or fc2.activation is not None:
            detail = f"the first projection goes to {fc2.name}, not into a second one without activation"
            return Miss(Reason.OTHER_CONSUMER, op, detail, "nothing to do")
        norm2 = _residual_norm(fc2.result, h, op)
        if isinstance(norm2, Miss):
            return norm2
        if (miss := used_by_only(h, [fc1, norm2], op)) is not None:
            return miss
        return (
            _other_weights(fc1, fc2, op)
            or over_threshold(op.hidden, self.threshold, op)
            or TransformerLayerMatch(op, norm1, fc1, fc2, norm2)
        )

    def rewrite(self, match: TransformerLayerMatch, rewriter: PatternRewriter, /) -> None:
        block, norm1, fc1, fc2, norm2 = match.block, match.norm1, match.fc1, match.fc2, match.norm2
        qkv_b, out_b = block.find("qkv_b"), block.find("out_b")
        assert qkv_b is not None
        assert out_b is not None
        rewriter.insertion_point = InsertPoint.before(norm2)
        fused = FusedTransformerLayerOp(
            block.hidden,
            block.qkv_w,
            block.out_w,
            norm1.gamma,
            fc1.weight,
            fc2.weight,
            norm2.gamma,
            block.mask,
            num_heads=block.num_heads.value.data,
            head_dim=block.head_dim.value.data,
            intermediate_size=shape_of(fc1.weight)[1],
            eps1=norm1.eps.value.data,
            eps2=norm2.eps.value.data,
            activation=None if fc1.activation is None else fc1.activation.data,
            biases=(qkv_b, out_b, norm1.beta, fc1.bias, fc2.bias, norm2.beta),
            result_type=norm2.result.type,
        )
        rewriter.replace(norm2, [fused], [fused.result] if norm2.sum is None else [fused.result, None])
        for op in (fc2, fc1, norm1, block):
            rewriter.erase(op)


def _residual_norm(value: SSAValue, residual: SSAValue, site: Operation) -> FusedResidualLnOp | Miss:
    """The norm of ``value`` + ``residual``, in either order, that is the only user of ``value``."""
    norm = one_use(value, site)
    if isinstance(norm, Miss):
        return norm
    name = f"%{value.name_hint}" if value.name_hint else "a value"
    if not isinstance(norm, FusedResidualLnOp) or value not in (norm.x, norm.residual):
        detail = f"{name} goes to {norm.name}, not into the sum of a residual norm"
        return Miss(Reason.OTHER_CONSUMER, site, detail, "nothing to do")
    if residual is not (norm.residual if norm.x is value else norm.x):
        detail = f"{name} is added to another value than the input of its part of the layer"
        return Miss(Reason.OTHER_OPERAND, site, detail, "nothing to do")
    if norm.bias is not None:
        return Miss(Reason.ATTRIBUTES_DIFFER, site, "a residual norm has a bias of its own", "nothing to do")
    if norm.sum is not None and is_used(norm.sum):
        return Miss(Reason.MORE_THAN_ONE_USE, site, "the sum that is normalised is used again", "nothing to do")
    return norm


def _first_projection(norm: FusedResidualLnOp, site: Operation) -> FusedMatMulBiasActOp | Miss:
    """The projection among the two users of the first norm; whether there are others is checked later."""
    for use in norm.result.uses:
        user = use.operation
        if isinstance(user, FusedMatMulBiasActOp) and user.input is norm.result and is_used(user.result):
            return user
    detail = "the first residual norm goes into no projection with bias"
    return Miss(Reason.OTHER_CONSUMER, site, detail, "nothing to do")


def _other_weights(fc1: FusedMatMulBiasActOp, fc2: FusedMatMulBiasActOp, site: Operation) -> Miss | None:
    weights = [shape_of(fc.weight) for fc in (fc1, fc2)]
    if any(len(shape) != 2 for shape in weights):
        detail = f"weights of shapes {' and '.join(map(show, weights))} are no matrices"
        return Miss(Reason.RANK, site, detail, "nothing to do")
    if weights[0][1] == DYNAMIC:
        detail = f"the width of the first projection, {show(weights[0])}, is unknown"
        return Miss(Reason.DYNAMIC_EXTENT, site, detail, "give the weight a static shape")
    return None


@dataclass(frozen=True)
class FuseTransformerLayerPass(PatternFusionPass):
    """``threshold``: the greatest batch times sequence of the hidden value."""

    name = "rlx-fuse-transformer-layer"
    produces: ClassVar = (FusedTransformerLayerOp,)
    numerics: ClassVar = Numerics.WIDER

    threshold: int = 64

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseTransformerLayer(self.threshold)]
