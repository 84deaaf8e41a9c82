"""Products as ``rlx.matmul`` on the shape that their operand has.

A contraction is a matmul: see :mod:`rlx_dialect.passes.lower_dot_general`. A product of flattened rows, with its bias
or without, is one of the rows as they were::

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
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.shape import ReshapeOp
from rlx_dialect.passes.lower_dot_general import LowerContraction
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import defining, one_use, orders
from rlx_dialect.shapes import DYNAMIC, show
from rlx_dialect.xdsl_compat import PatternRewriter


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
    return [LowerContraction(), UnflattenProduct()]
