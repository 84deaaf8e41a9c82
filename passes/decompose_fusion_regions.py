"""Transform and batch regions become simple operations again, for targets that have no kernels for them.

Before::

    %0 = rlx.transform_region %x {steps = ["resize_nearest_2x"]} : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
    %1 = rlx.batch_elementwise_region(%a, %b) : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32> { … }

After::

    %0 = rlx.resize_nearest_2x %x : tensor<1x3x4x4xf32> -> tensor<1x3x8x8xf32>
    %2 = rlx.elementwise_region(%a) : tensor<1x8xf32> { … }
    %3 = rlx.elementwise_region(%b) : tensor<1x8xf32> { … }
    %1 = rlx.concat %2, %3 {axis = 0} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>

The prologue of a batch region becomes that of each region. ``rlx.elementwise_region`` is left alone, with a prologue
or without; taking those apart is what ``rlx-unfuse-elementwise-regions`` does, afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.region import BatchElementwiseRegionOp, TransformRegionOp
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.xdsl_compat import Context, ModulePass, PatternRewriter, RewritePattern, op_type_rewrite_pattern


class DecomposeRegion(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransformRegionOp | BatchElementwiseRegionOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, [], op.decompose(rewriter))


@dataclass(frozen=True)
class DecomposeFusionRegions(ModulePass):
    name = "rlx-decompose-fusion-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, [DecomposeRegion()])
