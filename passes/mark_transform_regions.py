"""Resizes that feed each other become one region of transformations.

Before::

    %0 = rlx.resize_nearest_2x %x : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
    %1 = rlx.resize_nearest_2x %0 : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>

After::

    %1 = rlx.transform_region %x {steps = ["resize_nearest_2x", "resize_nearest_2x"]} : …

A chain ends where a value is used again, and before a resize that an element-wise region can do on the way in
(``rlx-fuse-region-prologue``), which costs nothing there. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation

from rlx_dialect.ops.convolution import ResizeNearest2xOp
from rlx_dialect.ops.region import RESIZE_NEAREST_2X, TransformRegionOp
from rlx_dialect.passes.fuse_region_prologue import Prologues
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import defining
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class ChainMatch(Match):
    chain: tuple[ResizeNearest2xOp, ...]
    """From the first to the last."""


class MarkChain(FusionPattern[ResizeNearest2xOp, ChainMatch]):
    """resize → … → resize, at the last one."""

    root = ResizeNearest2xOp

    def __init__(self) -> None:
        self.prologues = Prologues()

    def check(self, op: ResizeNearest2xOp, /) -> ChainMatch | Miss | None:
        user = _only_user(op)
        if user is not None and self.prologues.takes(user, op):
            detail = f"{user.name} can resize on the way in"
            return Miss(Reason.OTHER_CONSUMER, op, detail, "nothing to do: rlx-fuse-region-prologue does it")
        if isinstance(user, ResizeNearest2xOp) and not self._is_prologue(user):
            return None
        chain = [op]
        while (above := defining(chain[-1].input, ResizeNearest2xOp)) is not None and _only_user(above) is chain[-1]:
            chain.append(above)
        return ChainMatch(tuple(reversed(chain)))

    def _is_prologue(self, op: ResizeNearest2xOp) -> bool:
        user = _only_user(op)
        return user is not None and self.prologues.takes(user, op)

    def rewrite(self, match: ChainMatch, rewriter: PatternRewriter, /) -> None:
        *inner, tail = match.chain
        rewriter.insertion_point = InsertPoint.before(tail)
        steps = [RESIZE_NEAREST_2X] * len(match.chain)
        rewriter.replace(tail, TransformRegionOp(match.chain[0].input, steps, result_type=tail.result.type))
        for op in reversed(inner):
            rewriter.erase(op)


def _only_user(op: ResizeNearest2xOp) -> Operation | None:
    """The operation at the one use edge of the result, in the same block."""
    use = op.result.first_use
    if use is None or not op.result.has_one_use() or use.operation.parent is not op.parent:
        return None
    return use.operation


@dataclass(frozen=True)
class MarkTransformRegions(PatternFusionPass):
    name = "rlx-mark-transform-regions"
    produces: ClassVar = (TransformRegionOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [MarkChain()]
