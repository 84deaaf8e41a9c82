"""The same region on every slice of a batch, joined again, becomes one operation.

Before::

    %2 = rlx.elementwise_region(%0) : tensor<1x8xf32> { … }
    %3 = rlx.elementwise_region(%1) : tensor<1x8xf32> { … }
    %4 = rlx.concat %2, %3 {axis = 0} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>

After, where %0 and %1 are slices of one value along axis 0::

    %4 = rlx.batch_elementwise_region(%0, %1) : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32> { … }

The regions are compared operation by operation, not by their length; the slices have one shape and come in the order
in which they lie in the batch. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rlx_dialect.base import shape_of
from rlx_dialect.ops.region import BatchElementwiseRegionOp, ElementwiseRegionOp
from rlx_dialect.ops.shape import ConcatOp, NarrowOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import defining, not_absorbed
from rlx_dialect.shapes import show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class BatchMatch(Match):
    concat: ConcatOp
    regions: tuple[ElementwiseRegionOp, ...]


class FuseSlices(FusionPattern[ConcatOp, BatchMatch]):
    """narrows of one value → one region on each → concat, all along axis 0."""

    root = ConcatOp

    def check(self, op: ConcatOp, /) -> BatchMatch | Miss | None:
        if op.axis_index != 0 or len(op.operands) < 2:
            return None
        regions = [r for v in op.operands if (r := defining(v, ElementwiseRegionOp)) is not None]
        if len(regions) != len(op.operands) or any(len(r.inputs) != 1 for r in regions):
            return None
        narrows = [n for r in regions if (n := defining(r.inputs[0], NarrowOp)) is not None and n.axis_index == 0]
        if len(narrows) != len(regions) or any(n.input is not narrows[0].input for n in narrows):
            return None
        return self._not_one(op, regions, narrows) or BatchMatch(op, tuple(regions))

    def _not_one(
        self, op: ConcatOp, regions: Sequence[ElementwiseRegionOp], narrows: Sequence[NarrowOp]
    ) -> Miss | None:
        first = regions[0]
        for region, narrow in zip(regions, narrows, strict=True):
            if (miss := not_absorbed(region, op, op)) is not None:
                return miss
            if not _same_region(first, region):
                detail = "the slices do not all go through the same operations"
                return Miss(Reason.ATTRIBUTES_DIFFER, op, detail, "nothing to do unless they were meant to")
            own, wanted = shape_of(narrow.result), shape_of(narrows[0].result)
            if own != wanted:
                detail = f"the slices have the shapes {show(wanted)} and {show(own)}"
                return Miss(Reason.SHAPES_DIFFER, op, detail, "cut the batch into equal parts")
        starts = [narrow.start.value.data for narrow in narrows]
        if starts != sorted(set(starts)):
            detail = f"the slices start at {', '.join(map(str, starts))}, in this order"
            return Miss(Reason.NOT_ADJACENT, op, detail, "join the slices in the order of the batch")
        return None

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
