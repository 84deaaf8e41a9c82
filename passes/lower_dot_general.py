"""A general contraction becomes a matrix product, its operands transposed and reshaped where they have to be.

Before::

    %0 = rlx.dot_general %x, %w {lhs_contracting = [2], rhs_contracting = [1]} : (tensor<2x3x8xf32>, …) -> …

After::

    %1 = rlx.transpose %w {perm = [1, 0]} : tensor<16x8xf32> -> tensor<8x16xf32>
    %0 = rlx.matmul %x, %1 : (tensor<2x3x8xf32>, tensor<8x16xf32>) -> tensor<2x3x16xf32>

In general: lhs to (batch, free, contracting), rhs to (batch, contracting, free), several free or contracting axes
flattened into one, matmul, and the result back to its shape. Steps that change nothing are left out. Without batch
axes the free axes of lhs stay as they are, because a matmul has any number of leading axes.

A contraction of several axes whose extents are not known is declined, and so is one that needs a reshape to more than
one unknown extent, which cannot be written. Numerics: ``reassociated``: every element is a sum of the same products,
but engines differ in how they form it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rlx_dialect.base import rank_of, shape_of
from rlx_dialect.ops.contraction import DotGeneralOp, MatMulOp
from rlx_dialect.ops.shape import ReshapeOp, TransposeOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.shapes import DYNAMIC, Shape, is_static, matmul, product, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class ContractionMatch(Match):
    op: DotGeneralOp
    lhs: list[list[int]]
    """For each axis of the product's left operand the axes of lhs that it is made of."""
    rhs: list[list[int]]

    def shapes(self) -> tuple[Shape, Shape]:
        """Of the product's operands."""
        return _flattened(self.op.lhs, self.lhs), _flattened(self.op.rhs, self.rhs)

    def is_result(self) -> bool:
        """Whether the product has the shape of the result."""
        if all(len(axes) == 1 for axes in (*self.lhs[:-1], self.rhs[-1])):
            return True
        return matmul(*self.shapes()) == shape_of(self.op.result)


class LowerContraction(FusionPattern[DotGeneralOp, ContractionMatch]):
    """dot_general → matmul."""

    root = DotGeneralOp
    numerics = Numerics.REASSOCIATED

    def check(self, op: DotGeneralOp, /) -> ContractionMatch | Miss | None:
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
        rows = [a for a in range(rank_of(op.lhs)) if a not in {*lhs_contracting, *lhs_batch}]
        columns = [a for a in range(rank_of(op.rhs)) if a not in {*rhs_contracting, *rhs_batch}]
        leading = [[a] for a in rows] if rows and not lhs_batch else [rows]
        lhs, rhs = shape_of(op.lhs), shape_of(op.rhs)
        contracted = [(lhs[a], rhs[b]) for a, b in zip(lhs_contracting, rhs_contracting, strict=True)]
        if sum(DYNAMIC in pair for pair in contracted) > 1:
            detail = f"flattened, the contracted axes of {show(lhs)} and {show(rhs)} may fit though they differ"
            return Miss(Reason.DYNAMIC_EXTENT, op, detail, "give all contracted extents but one static ones")
        match = ContractionMatch(
            op,
            [*([a] for a in lhs_batch), *leading, list(lhs_contracting)],
            [*([a] for a in rhs_batch), list(rhs_contracting), columns],
        )
        for value, groups, shape in zip((op.lhs, op.rhs), (match.lhs, match.rhs), match.shapes(), strict=True):
            if _permuted(value, groups) != shape and not _can_be_written(shape):
                return _unknown(op, value, shape)
        result = shape_of(op.result)
        if not match.is_result() and not _can_be_written(result):
            return _unknown(op, op.result, result)
        return match

    def rewrite(self, match: ContractionMatch, rewriter: PatternRewriter, /) -> None:
        op = match.op
        rewriter.insertion_point = InsertPoint.before(op)
        lhs, rhs = _arranged(op.lhs, match.lhs, rewriter), _arranged(op.rhs, match.rhs, rewriter)
        if match.is_result():
            rewriter.replace(op, MatMulOp(lhs, rhs, result_type=op.result.type))
        else:
            value = rewriter.insert(MatMulOp(lhs, rhs)).result
            rewriter.replace(op, ReshapeOp(value, shape_of(op.result), result_type=op.result.type))


def _permuted(value: SSAValue, groups: Sequence[Sequence[int]]) -> Shape:
    return tuple(shape_of(value)[a] for axes in groups for a in axes)


def _flattened(value: SSAValue, groups: Sequence[Sequence[int]]) -> Shape:
    """The shape with one axis for each of ``groups``.

    An extent that only the other operand knows stays unknown: the reshape would hide that the operands do not fit.
    """
    extents = [[shape_of(value)[a] for a in axes] for axes in groups]
    return tuple(product(e) if is_static(tuple(e)) else DYNAMIC for e in extents)


def _can_be_written(shape: Shape) -> bool:
    """Whether a reshape can say ``shape``, in which one extent may follow from the number of elements."""
    return is_static(shape) or (shape.count(DYNAMIC) == 1 and 0 not in shape)


def _arranged(value: SSAValue, groups: Sequence[Sequence[int]], rewriter: PatternRewriter) -> SSAValue:
    shape = _flattened(value, groups)
    perm = [a for axes in groups for a in axes]
    if perm != sorted(perm):
        value = rewriter.insert(TransposeOp(value, perm)).result
    if shape_of(value) == shape:
        return value
    return rewriter.insert(ReshapeOp(value, shape)).result


def _unknown(op: DotGeneralOp, value: SSAValue, shape: Shape) -> Miss:
    detail = f"{show(shape_of(value))} would have to be reshaped to {show(shape)}, which is not known well enough"
    return Miss(Reason.DYNAMIC_EXTENT, op, detail, "give all extents but one static ones")


@dataclass(frozen=True)
class LowerDotGeneral(PatternFusionPass):
    name = "rlx-lower-dot-general"
    produces: ClassVar = (MatMulOp,)
    numerics: ClassVar = Numerics.REASSOCIATED

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [LowerContraction()]
