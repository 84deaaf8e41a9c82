"""The same activation on every slice of a batch: each becomes a region, so that they can become one kernel.

Before::

    %0 = rlx.narrow %x {axis = 0, start = 0, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
    %1 = rlx.narrow %x {axis = 0, start = 1, len = 1} : tensor<2x8xf32> -> tensor<1x8xf32>
    %2 = rlx.activation relu %0 : tensor<1x8xf32>
    %3 = rlx.activation relu %1 : tensor<1x8xf32>
    %4 = rlx.concat %2, %3 {axis = 0} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>

After::

    %2 = rlx.elementwise_region(%0) : tensor<1x8xf32> { ^bb0(%a: f32): %b = rlx.activation relu %a : f32 … }
    %3 = rlx.elementwise_region(%1) : …
    %4 = rlx.concat %2, %3 {axis = 0} : …

``rlx-fuse-batch-preprocess`` makes one operation of it. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlx_dialect.ops.elementwise import ActivationOp, CastOp
from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.ops.shape import ConcatOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.regions import fusable, not_in_order, region_of, slice_users
from rlx_dialect.passes.matching.values import not_absorbed
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class SlicesMatch(Match):
    unaries: tuple[ActivationOp | CastOp, ...]


class MarkSlices(FusionPattern[ConcatOp, SlicesMatch]):
    """narrows of one value → the same activation of each → concat, all along axis 0."""

    root = ConcatOp

    def check(self, op: ConcatOp, /) -> SlicesMatch | Miss | None:
        unaries = slice_users(op, (ActivationOp, CastOp))
        if unaries is None:
            return None
        first = unaries[0]
        for unary in unaries:
            if (miss := fusable(unary)) is not None:
                return Miss(miss.reason, op, f"{unary.name}: {miss.detail}", miss.hint)
            if type(unary) is not type(first) or unary.properties != first.properties:
                detail = "the slices do not all have the same activation"
                return Miss(Reason.ATTRIBUTES_DIFFER, op, detail, "nothing to do unless they were meant to")
            if (miss := not_absorbed(unary, op, op)) is not None:
                return miss
        return not_in_order(unaries, op) or SlicesMatch(tuple(unaries))

    def rewrite(self, match: SlicesMatch, rewriter: PatternRewriter, /) -> None:
        for unary in match.unaries:
            rewriter.insertion_point = InsertPoint.before(unary)
            rewriter.replace(unary, region_of([unary]))


@dataclass(frozen=True)
class MarkBatchSliceRegions(PatternFusionPass):
    name = "rlx-mark-batch-slice-regions"
    produces: ClassVar = (ElementwiseRegionOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [MarkSlices()]
