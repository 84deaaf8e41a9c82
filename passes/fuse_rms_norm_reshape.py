"""An RMS norm whose leading axes are then flattened gives the flattened result itself.

Before::

    %0 = rlx.rms_norm %x, %gamma, %beta {eps = 1.0e-6} : (tensor<2x3x8xf32>, …) -> tensor<2x3x8xf32>
    %1 = rlx.reshape %0 {new_shape = [6, 8]} : tensor<2x3x8xf32> -> tensor<6x8xf32>

After::

    %1 = rlx.rms_norm %x, %gamma, %beta {eps = 1.0e-6} : (tensor<2x3x8xf32>, …) -> tensor<6x8xf32>

Where a leading extent is unknown, the reshape must leave the first one open, [-1, 8]. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlx_dialect.base import rank_of, shape_of
from rlx_dialect.ops.normalization import RmsNormOp
from rlx_dialect.ops.shape import ReshapeOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import defining, not_absorbed
from rlx_dialect.shapes import DYNAMIC, is_static, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class FlattenedNormMatch(Match):
    norm: RmsNormOp
    reshape: ReshapeOp


class FlattenedNorm(FusionPattern[ReshapeOp, FlattenedNormMatch]):
    """rms_norm → reshape to [all leading extents, last extent]."""

    root = ReshapeOp

    def check(self, op: ReshapeOp, /) -> FlattenedNormMatch | Miss | None:
        norm = defining(op.input, RmsNormOp)
        if norm is None or norm.flattens or rank_of(norm.x) < 3:
            return None
        (*leading, last), new_shape = shape_of(norm.x), op.new_shape.get_values()
        if len(new_shape) != 2:
            detail = f"the reshape to {show(shape_of(op.result))} is no flattening of the leading axes"
            return Miss(Reason.RANK, op, detail, "nothing to do")
        if last == DYNAMIC or (not is_static(leading) and new_shape[0] != -1):
            detail = f"of {show(shape_of(norm.x))} extents are unknown that the reshape to {list(new_shape)} names"
            return Miss(Reason.DYNAMIC_EXTENT, op, detail, f"reshape to [-1, {show([last])}]")
        if last == 0 or shape_of(op.result)[1] != last:
            detail = f"the reshape to {show(shape_of(op.result))} does not keep the last extent {last}"
            return Miss(Reason.SHAPES_DIFFER, op, detail, "nothing to do")
        return not_absorbed(norm, op, op) or FlattenedNormMatch(norm, op)

    def rewrite(self, match: FlattenedNormMatch, rewriter: PatternRewriter, /) -> None:
        norm, reshape = match.norm, match.reshape
        rewriter.insertion_point = InsertPoint.before(reshape)
        rewriter.replace(
            reshape,
            RmsNormOp(norm.x, norm.gamma, norm.beta, eps=norm.eps.value.data, result_type=reshape.result.type),
        )
        rewriter.erase(norm)


@dataclass(frozen=True)
class FuseRmsNormReshape(PatternFusionPass):
    name = "rlx-fuse-rms-norm-reshape"
    produces: ClassVar = (RmsNormOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FlattenedNorm()]
