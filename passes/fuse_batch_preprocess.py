"""The same region on every slice of a batch, joined again, becomes one operation.

Before::

    %2 = rlx.elementwise_region(%0) : tensor<1x8xf32> { … }
    %3 = rlx.elementwise_region(%1) : tensor<1x8xf32> { … }
    %4 = rlx.concat %2, %3 {axis = 0} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>

After, where %0 and %1 are slices of one value along axis 0::

    %4 = rlx.batch_elementwise_region(%0, %1) : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32> { … }

The regions are compared operation by operation, not by their length; the slices have one shape, do not overlap, and
come in the order in which they lie in the batch. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rlx_dialect.ops.region import BatchElementwiseRegionOp, ElementwiseRegionOp
from rlx_dialect.ops.shape import ConcatOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.regions import not_in_order, slice_users
from rlx_dialect.passes.matching.values import not_absorbed
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class BatchMatch(Match):
    concat: ConcatOp
    regions: tuple[ElementwiseRegionOp, ...]


class FuseSlices(FusionPattern[ConcatOp, BatchMatch]):
    """narrows of one value → one region on each → concat, all along axis 0."""

    root = ConcatOp

    def check(self, op: ConcatOp, /) -> BatchMatch | Miss | None:
        regions = slice_users(op, ElementwiseRegionOp)
        if regions is None:
            return None
        for region in regions:
            if (miss := not_absorbed(region, op, op)) is not None:
                return miss
            if not _same_region(regions[0], region):
                detail = "the slices do not all go through the same operations"
                return Miss(Reason.ATTRIBUTES_DIFFER, op, detail, "nothing to do unless they were meant to")
        return not_in_order(regions, op) or BatchMatch(op, tuple(regions))

    def rewrite(self, match: BatchMatch, rewriter: PatternRewriter, /) -> None:
        first = match.regions[0]
        prologue = None if first.prologue is None else first.prologue.data
        inputs: list[SSAValue] = [region.inputs[0] for region in match.regions]
        rewriter.insertion_point = InsertPoint.before(match.concat)
        fused = BatchElementwiseRegionOp(
            inputs, first.body.clone(), prologue=prologue, result_type=match.concat.result.type
        )
        rewriter.replace(match.concat, fused)
        for region in match.regions:
            rewriter.erase(region)


def _same_region(a: ElementwiseRegionOp, b: ElementwiseRegionOp) -> bool:
    """Whether both compute the same of their operands: the same operations, attributes and edges."""
    return a.properties == b.properties and a.body.is_structurally_equivalent(b.body)


@dataclass(frozen=True)
class FuseBatchPreprocess(PatternFusionPass):
    name = "rlx-fuse-batch-preprocess"
    produces: ClassVar = (BatchElementwiseRegionOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseSlices()]
