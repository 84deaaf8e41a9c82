"""Products as ``rlx.matmul`` on the shape that their operand has.

A contraction of the last axis of x with either axis of a weight [K, N] or [N, K], batched or not, is a matmul, of a
transposed weight where need be::

    %0 = rlx.dot_general %x, %w {lhs_contracting = [2], rhs_contracting = [1]} : …
    →
    %0 = rlx.transpose %w {perm = [1, 0]} : …
    %1 = rlx.matmul %x, %0 : …

A product of flattened rows, with its bias or without, is one of the rows as they were::

    %0 = rlx.reshape %x {new_shape = [6, 8]} : tensor<2x3x8xf32> -> tensor<6x8xf32>
    %1 = rlx.matmul %0, %w : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
    %2 = rlx.reshape %1 {new_shape = [2, 3, 16]} : tensor<6x16xf32> -> tensor<2x3x16xf32>
    →
    %2 = rlx.matmul %x, %w : (tensor<2x3x8xf32>, tensor<8x16xf32>) -> tensor<2x3x16xf32>

Numerics: ``reassociated``. Every element is a sum of the same products, but engines differ in how they form it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.base import rank_of, shape_of
from rlx_dialect.ops.contraction import DotGeneralOp, MatMulOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.shape import ReshapeOp, TransposeOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import defining, one_use, orders
from rlx_dialect.shapes import DYNAMIC, show
from rlx_dialect.xdsl_compat import PatternRewriter


@dataclass(frozen=True)
class ContractionMatch(Match):
    op: DotGeneralOp
    transposes_lhs: bool
    transposes_rhs: bool


class ToMatMul(FusionPattern[DotGeneralOp, ContractionMatch]):
    """dot_general over one axis, whose batch axes come first in both operands → matmul."""

    root = DotGeneralOp
    numerics = Numerics.REASSOCIATED

    def check(self, op: DotGeneralOp, /) -> ContractionMatch | Miss | None:
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
        batch = tuple(range(len(lhs_batch)))
        rows, columns = rank_of(op.lhs), rank_of(op.rhs)
        fits = columns == len(batch) + 2 and (rows == columns or (not batch and rows >= 2))
        if not fits or lhs_batch != batch or rhs_batch != batch or len(lhs_contracting) != 1:
            detail = f"contracting {lhs_contracting} and {rhs_contracting}, batch {lhs_batch} and {rhs_batch}"
            return Miss(Reason.AXIS, op, f"{detail} is more than a matmul does", "transpose the operands first")
        last, first = rows - 1, len(batch)
        if lhs_contracting[0] != last and (rows != columns or lhs_contracting[0] != first):
            detail = f"axis {lhs_contracting[0]} of the left operand is contracted, which is not its last"
            return Miss(Reason.AXIS, op, detail, "transpose the left operand first")
        return ContractionMatch(op, lhs_contracting[0] != last, rhs_contracting[0] != first)

    def rewrite(self, match: ContractionMatch, rewriter: PatternRewriter, /) -> None:
        op = match.op
        lhs = _transposed(op.lhs, rewriter) if match.transposes_lhs else op.lhs
        rhs = _transposed(op.rhs, rewriter) if match.transposes_rhs else op.rhs
        rewriter.replace(op, MatMulOp(lhs, rhs, result_type=op.result.type))


def _transposed(value: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """With the last two axes swapped."""
    *batch, rows, columns = range(rank_of(value))
    return rewriter.insert(TransposeOp(value, [*batch, columns, rows])).result


@dataclass(frozen=True)
class FlattenedMatch(Match):
    root: ReshapeOp
    x: SSAValue
    product: MatMulOp
    add: BinaryOp | None
    bias: SSAValue | None


class UnflattenProduct(FusionPattern[ReshapeOp, FlattenedMatch]):
    """reshape to rows → matmul [→ add of a bias] → reshape back; without the reshapes."""

    root = ReshapeOp
    numerics = Numerics.REASSOCIATED

    def check(self, op: ReshapeOp, /) -> FlattenedMatch | Miss | None:
        product, add, bias = _product_and_bias(op)
        flat = None if product is None else defining(product.lhs, ReshapeOp)
        if product is None or flat is None or rank_of(product.result) != 2 or rank_of(flat.input) < 3:
            return None
        inner = [product.result, *([] if add is None else [add.result])]
        for value in inner:
            if isinstance(user := one_use(value, op), Miss):
                return user
        x = shape_of(flat.input)
        wanted = (*x[:-1], shape_of(product.result)[-1])
        if shape_of(op.result) != wanted or x[-1] != shape_of(flat.result)[-1]:
            detail = f"{show(x)} times {show(shape_of(product.rhs))} is shaped into {show(shape_of(op.result))}"
            return Miss(Reason.SHAPES_DIFFER, op, detail, f"{show(wanted)} would be the shape of the product")
        # One unknown extent follows from the number of elements.
        if DYNAMIC in (x[-1], wanted[-1]) or x.count(DYNAMIC) > 1:
            detail = f"of {show(x)} and {show(wanted)} it is not known which extents are equal"
            return Miss(Reason.DYNAMIC_EXTENT, op, detail, "give all extents but one static ones")
        return FlattenedMatch(op, flat.input, product, add, bias)

    def rewrite(self, match: FlattenedMatch, rewriter: PatternRewriter, /) -> None:
        type_ = match.root.result.type
        product = MatMulOp(match.x, match.product.rhs, result_type=type_)
        if match.bias is None:
            rewriter.replace(match.root, product)
        else:
            rewriter.insert(product)
            rewriter.replace(match.root, BinaryOp(BinaryKind.ADD, product, match.bias, result_type=type_))
        if match.add is not None:
            rewriter.erase(match.add)
        rewriter.erase(match.product)


def _product_and_bias(op: ReshapeOp) -> tuple[MatMulOp | None, BinaryOp | None, SSAValue | None]:
    """The product that ``op`` reshapes, behind the add of a row [N] or [1, N] if there is one."""
    add = defining(op.input, BinaryOp)
    if add is None or add.kind.data is not BinaryKind.ADD:
        return defining(op.input, MatMulOp), None, None
    for value, bias in orders(add):
        product = defining(value, MatMulOp)
        row = shape_of(bias)[-1:] == shape_of(value)[-1:] and set(shape_of(bias)[:-1]) <= {1}
        if product is not None and row and rank_of(bias) in (1, 2):
            return product, add, bias
    return None, None, None


def patterns() -> Sequence[FusionPattern[Any, Any]]:
    return [ToMatMul(), UnflattenProduct()]
