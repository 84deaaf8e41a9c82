"""A general contraction becomes a matrix product, its operands transposed and reshaped where they have to be.

Before::

    %0 = rlx.dot_general %x, %w {lhs_contracting = [2], rhs_contracting = [1]} : (tensor<2x3x8xf32>, …) -> …

After::

    %1 = rlx.transpose %w {perm = [1, 0]} : tensor<16x8xf32> -> tensor<8x16xf32>
    %0 = rlx.matmul %x, %1 : (tensor<2x3x8xf32>, tensor<8x16xf32>) -> tensor<2x3x16xf32>

In general: lhs to (batch, free, contracting), rhs to (batch, contracting, free), several free or contracting axes
flattened into one, matmul, and the result back to its shape. Steps that change nothing are left out. Without batch
axes the free axes of lhs stay as they are, because a matmul has any number of leading axes.

A flattening with more than one unknown extent cannot be written and is declined. Numerics: ``reassociated``: every
element is a sum of the same products, but engines differ in how they form it.
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
from rlx_dialect.shapes import DYNAMIC, Shape, is_static, product, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class ContractionMatch(Match):
    op: DotGeneralOp
    lhs_perm: list[int]
    rhs_perm: list[int]
    lhs_shape: Shape
    """Of lhs behind its transposition, as the product takes it; of rhs alike."""
    rhs_shape: Shape


class LowerContraction(FusionPattern[DotGeneralOp, ContractionMatch]):
    """dot_general → matmul."""

    root = DotGeneralOp

    def check(self, op: DotGeneralOp, /) -> ContractionMatch | Miss | None:
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
        lhs_free = [a for a in range(rank_of(op.lhs)) if a not in {*lhs_contracting, *lhs_batch}]
        rhs_free = [a for a in range(rank_of(op.rhs)) if a not in {*rhs_contracting, *rhs_batch}]
        lhs, rhs = shape_of(op.lhs), shape_of(op.rhs)
        batch = [lhs[a] for a in lhs_batch]
        rows, columns = [lhs[a] for a in lhs_free], [rhs[a] for a in rhs_free]
        inner = [_either(lhs[a], rhs[c]) for a, c in zip(lhs_contracting, rhs_contracting, strict=True)]
        # The one unknown extent of a shape may be that of the other operand, where only that one knows it.
        leading = rows if rows and not batch else [_flat(rows)]
        lhs_shape = (*batch, *leading, _flat(inner))
        rhs_shape = (*(rhs[a] for a in rhs_batch), _flat(inner), _flat(columns))
        match = ContractionMatch(
            op,
            [*lhs_batch, *lhs_free, *lhs_contracting],
            [*rhs_batch, *rhs_contracting, *rhs_free],
            lhs_shape,
            rhs_shape,
        )
        for value, perm, shape in (
            (op.lhs, match.lhs_perm, lhs_shape),
            (op.rhs, match.rhs_perm, rhs_shape),
        ):
            if not _can_reshape([shape_of(value)[p] for p in perm], shape):
                return _unknown(op, value, shape)
        if not _can_reshape(_product_shape(match), shape_of(op.result)):
            return _unknown(op, op.result, shape_of(op.result))
        return match

    def rewrite(self, match: ContractionMatch, rewriter: PatternRewriter, /) -> None:
        op = match.op
        rewriter.insertion_point = InsertPoint.before(op)
        lhs = _arranged(op.lhs, match.lhs_perm, match.lhs_shape, rewriter)
        rhs = _arranged(op.rhs, match.rhs_perm, match.rhs_shape, rewriter)
        result = shape_of(op.result)
        if _product_shape(match) == result:
            rewriter.replace(op, MatMulOp(lhs, rhs, result_type=op.result.type))
        else:
            value = rewriter.insert(MatMulOp(lhs, rhs)).result
            rewriter.replace(op, ReshapeOp(value, _written(result), result_type=op.result.type))


def _either(a: int, b: int) -> int:
    return b if a == DYNAMIC else a


def _flat(extents: Sequence[int]) -> int:
    return product(extents) if is_static(tuple(extents)) else DYNAMIC


def _product_shape(match: ContractionMatch) -> Shape:
    return (*match.lhs_shape[:-1], match.rhs_shape[-1])


def _can_reshape(old: Sequence[int], new: Shape) -> bool:
    """Whether a reshape can say ``new``, or is not needed."""
    return tuple(old) == new or new.count(DYNAMIC) < 2


def _written(shape: Shape) -> list[int]:
    return [-1 if extent == DYNAMIC else extent for extent in shape]


def _arranged(value: SSAValue, perm: list[int], shape: Shape, rewriter: PatternRewriter) -> SSAValue:
    if perm != sorted(perm):
        value = rewriter.insert(TransposeOp(value, perm)).result
    if shape_of(value) == shape:
        return value
    return rewriter.insert(ReshapeOp(value, _written(shape))).result


def _unknown(op: DotGeneralOp, value: SSAValue, shape: Shape) -> Miss:
    detail = f"{show(shape_of(value))} would have to be reshaped to {show(shape)}, of which several extents are unknown"
    return Miss(Reason.DYNAMIC_EXTENT, op, detail, "give all extents but one static ones")


@dataclass(frozen=True)
class LowerDotGeneral(PatternFusionPass):
    name = "rlx-lower-dot-general"
    produces: ClassVar = (MatMulOp,)
    numerics: ClassVar = Numerics.REASSOCIATED

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [LowerContraction()]
