"""Branches and bounded loops become straight-line code.

Before::

    %0 = rlx.if(%p, %x) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      %1 = rlx.activation exp %a : tensor<4xf32>
      rlx.yield %1 : tensor<4xf32>
    } else {
    ^bb0(%a: tensor<4xf32>):
      rlx.yield %a : tensor<4xf32>
    }

After::

    %1 = rlx.activation exp %x : tensor<4xf32>
    %0 = rlx.where %p, %1, %x : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

A ``rlx.while`` runs all its ``max_iterations``, and an ``rlx.where`` in each keeps the values once the condition has
failed. One without a bound, or with a larger one than ``max-unroll``, is an error. ``rlx.scan`` stays as it is unless
``unroll-scan`` asks for its steps one after the other. Bodies may hold further control flow.

For a target whose lowering writes branches and loops (``loops``) all that stays: nothing is computed that is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.operation import describe
from rlx_dialect.ops.control_flow import IfOp, ScanOp, WhileOp
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.xdsl_compat import (
    Context,
    DiagnosticException,
    ModulePass,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)


class LowerIf(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, [], op.decompose(rewriter))


@dataclass
class LowerWhile(RewritePattern):
    max_unroll: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: WhileOp, rewriter: PatternRewriter, /) -> None:
        if op.max_iterations is None:
            raise DiagnosticException(f"{describe(op)}: it has no max_iterations, and the target has no loops")
        if (count := op.max_iterations.value.data) > self.max_unroll:
            raise DiagnosticException(f"{describe(op)}: {count} iterations are more than max-unroll={self.max_unroll}")
        rewriter.replace(op, [], op.decompose(rewriter))


@dataclass
class UnrollScan(RewritePattern):
    max_unroll: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ScanOp, rewriter: PatternRewriter, /) -> None:
        if op.steps > self.max_unroll:
            raise DiagnosticException(f"{describe(op)}: {op.steps} steps are more than max-unroll={self.max_unroll}")
        rewriter.replace(op, [], op.decompose(rewriter))


@dataclass(frozen=True)
class LowerControlFlow(ModulePass):
    """``max_unroll``: the most iterations of a loop; ``unroll_scan``: take scans apart, too; ``loops``: see above."""

    name = "rlx-lower-control-flow"

    max_unroll: int = 1024
    unroll_scan: bool = False
    loops: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scans = [UnrollScan(self.max_unroll)] if self.unroll_scan else []
        others = [] if self.loops else [LowerIf(), LowerWhile(self.max_unroll)]
        apply_patterns(op, [*others, *scans])
