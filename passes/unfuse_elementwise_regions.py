"""Regions become the element-wise operations of their bodies again, for targets whose kernels have no regions.

Before::

    %2 = rlx.elementwise_region(%x, %s) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = rlx.binary mul %a, %b : (f32, f32) -> f32
      %1 = rlx.activation tanh %0 : f32
      rlx.yield %1 : f32
    }

After::

    %0 = rlx.binary mul %x, %s : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %1 = rlx.activation tanh %0 : tensor<4x8xf32>

With ``keep-prologue`` a region that starts with a resize stays: the GPU back ends have a kernel for those.
``rlx.batch_elementwise_region`` and ``rlx.transform_region`` are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.xdsl_compat import Context, ModulePass, PatternRewriter, RewritePattern, op_type_rewrite_pattern


@dataclass
class UnfuseRegion(RewritePattern):
    keep_prologue: bool

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ElementwiseRegionOp, rewriter: PatternRewriter, /) -> None:
        if op.prologue is None or not self.keep_prologue:
            rewriter.replace(op, [], op.decompose(rewriter))


@dataclass(frozen=True)
class UnfuseElementwiseRegions(ModulePass):
    """``keep_prologue``: leave regions that start with a resize."""

    name = "rlx-unfuse-elementwise-regions"

    keep_prologue: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, [UnfuseRegion(self.keep_prologue)])
