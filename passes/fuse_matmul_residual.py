"""A matrix product and the residual added to it become one operation.

Before, with the summands in any order::

    %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = rlx.binary add %0, %r : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>

After::

    %1 = rlx.fused_matmul_residual %x, %w, %r : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>) -> …

The residual has the very shape of the product. Only f32, because that is what the kernels of RLX's targets take; the
operation itself is for every element type. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.base import element_of
from rlx_dialect.ops.contraction import FusedMatMulResidualOp, MatMulOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.passes.matching.extents import Known
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import defining, not_absorbed, not_one_shape, orders
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

KERNEL_ELEMENT = f32


@dataclass(frozen=True)
class ResidualMatch(Match):
    product: MatMulOp
    add: BinaryOp
    residual: SSAValue


class FuseResidual(FusionPattern[BinaryOp, ResidualMatch]):
    """matmul → add of a value of its shape."""

    root = BinaryOp

    def __init__(self) -> None:
        self.extents: Known = {}

    def check(self, op: BinaryOp, /) -> ResidualMatch | Miss | None:
        if op.kind.data is not BinaryKind.ADD:
            return None
        declined: Miss | None = None
        for value, residual in orders(op):
            product = defining(value, MatMulOp)
            if product is None:
                continue
            miss = self._declined(op, product, residual)
            if miss is None:
                return ResidualMatch(product, op, residual)
            declined = declined or miss
        return declined

    def _declined(self, op: BinaryOp, product: MatMulOp, residual: SSAValue) -> Miss | None:
        if (element := element_of(op.result)) != KERNEL_ELEMENT:
            detail = f"the element type is {element}, the kernels are for {KERNEL_ELEMENT}"
            return Miss(Reason.ELEMENT_TYPE, op, detail, f"compute the product in {KERNEL_ELEMENT}")
        shapes = [product.result, residual, op.result]
        return not_one_shape(shapes, op, self.extents) or not_absorbed(product, op, op)

    def rewrite(self, match: ResidualMatch, rewriter: PatternRewriter, /) -> None:
        product, add = match.product, match.add
        rewriter.insertion_point = InsertPoint.before(add)
        fused = FusedMatMulResidualOp(product.lhs, product.rhs, match.residual, result_type=add.result.type)
        rewriter.replace(add, fused)
        rewriter.erase(product)


@dataclass(frozen=True)
class FuseMatMulResidual(PatternFusionPass):
    name = "rlx-fuse-matmul-residual"
    produces: ClassVar = (FusedMatMulResidualOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseResidual()]
