"""Canonicalisation patterns of RLX operations, run by xDSL's ``canonicalize`` pass beside their folds.

The operations load this module when their patterns are asked for, so building and parsing a graph does not.
"""

from __future__ import annotations

from xdsl.ir import Operation

from rlx_dialect.ops.shape import NarrowOp, ReshapeOp, SliceOp, TransposeOp
from rlx_dialect.xdsl_compat import PatternRewriter, RewritePattern, op_type_rewrite_pattern


class ReshapeOfReshape(RewritePattern):
    """Only the last of two shapes counts: both keep the row-major order."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.input.owner, ReshapeOp):
            _replace(rewriter, op, ReshapeOp(inner.input, op.new_shape.get_values(), result_type=op.result.type))


class TransposeOfTranspose(RewritePattern):
    """Two permutations are one."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.input.owner, TransposeOp):
            first = inner.perm.get_values()
            perm = [first[p] for p in op.perm.get_values()]
            _replace(rewriter, op, TransposeOp(inner.input, perm, result_type=op.result.type))


class NarrowOfNarrow(RewritePattern):
    """A part of a part along one axis is one part."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: NarrowOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.input.owner, NarrowOp) and inner.axis_index == op.axis_index:
            start = inner.start.value.data + op.start.value.data
            part = NarrowOp(inner.input, op.axis_index, start, op.len.value.data, result_type=op.result.type)
            _replace(rewriter, op, part)


class SliceToNarrow(RewritePattern):
    """A slice of step 1 is a narrow, which more of the compiler knows."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        if op.step.value.data == 1:
            length = op.len.value.data
            start = op.start.value.data if length else 0  # Where nothing is taken, a slice may start anywhere.
            _replace(rewriter, op, NarrowOp(op.input, op.axis_index, start, length, result_type=op.result.type))


def _replace(rewriter: PatternRewriter, old: Operation, new: Operation) -> None:
    new.location = old.location
    new.attributes |= old.attributes
    rewriter.replace(old, new)
