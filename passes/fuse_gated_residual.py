"""A residual sum whose summand is gated becomes one operation.

Before, with sum and product in any order::

    %0 = rlx.binary mul %gate, %y : (tensor<2x1x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    %1 = rlx.binary add %x, %0    : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>

After::

    %1 = rlx.gated_residual %x, %y, %gate : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> …

x and y have one shape. The gate, or what it repeats where it is an ``rlx.expand``, has a smaller one, of rank 1 or
more, which broadcasts to that of x and has its last extent. y is another value than x: x + gate·x is what the
adaptive norm is made of. Only f32, because that is what the kernels of RLX's targets take; the operation itself is for
every float. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.normalization import GatedResidualOp
from rlx_dialect.passes.matching.extents import Known
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import (
    defining,
    erase_dead_sources,
    expand_sources,
    not_absorbed,
    not_one_shape,
    not_onto,
    orders,
)
from rlx_dialect.shapes import DYNAMIC, Shape, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

KERNEL_ELEMENT = f32


@dataclass(frozen=True)
class GatedMatch(Match):
    add: BinaryOp
    product: BinaryOp
    x: SSAValue
    y: SSAValue
    gate: SSAValue


class GatedSum(FusionPattern[BinaryOp, GatedMatch]):
    """mul by a gate → add."""

    root = BinaryOp

    def __init__(self) -> None:
        self.extents: Known = {}

    def check(self, op: BinaryOp, /) -> GatedMatch | Miss | None:
        if op.kind.data is not BinaryKind.ADD:
            return None
        declined: Miss | None = None
        for x, summand in orders(op):
            product = defining(summand, BinaryOp)
            if product is None or product.kind.data is not BinaryKind.MUL:
                continue
            for gate, y in orders(product):
                found = self._gated(op, product, x, y, gate)
                if isinstance(found, GatedMatch):
                    return found
                declined = declined or found
        return declined

    def _gated(
        self, op: BinaryOp, product: BinaryOp, x: SSAValue, y: SSAValue, gate: SSAValue
    ) -> GatedMatch | Miss | None:
        shape = shape_of(x)
        sources = [source for source in expand_sources(gate) if shape_of(source) != shape]
        if not sources or shape_of(product.result) != shape or shape_of(y) != shape:
            return None
        if element_of(x) != KERNEL_ELEMENT:
            detail = f"the element type is {element_of(x)}, the kernels are for {KERNEL_ELEMENT}"
            return Miss(Reason.ELEMENT_TYPE, op, detail, f"compute the residual in {KERNEL_ELEMENT}")
        if y is x:
            detail = "the gated value is the one that it is added to"
            return Miss(Reason.OTHER_OPERAND, op, detail, "nothing to do: x + gate·x is no residual")
        if shape_of(sources[-1]) == ():
            return Miss(Reason.RANK, op, "the gate is one number", "nothing to do: an element-wise region takes it")
        if (miss := not_absorbed(product, op, op)) is not None:
            return miss
        if (miss := not_one_shape([x, y, op.result], op, self.extents)) is not None:
            return miss
        if (miss := not_onto(gate, x, op, self.extents)) is not None:
            return miss
        fitting = [source for source in sources if _same_last(shape_of(source), shape)]
        if not fitting:
            dynamic = DYNAMIC in (shape[-1], shape_of(sources[-1])[-1])
            detail = f"the last extents of the gate {show(shape_of(sources[-1]))} and of {show(shape)} are not the same"
            reason = Reason.DYNAMIC_EXTENT if dynamic else Reason.SHAPES_DIFFER
            return Miss(reason, op, detail, "give the gate the last extent of what it gates")
        return GatedMatch(op, product, x, y, fitting[-1])

    def rewrite(self, match: GatedMatch, rewriter: PatternRewriter, /) -> None:
        add, product = match.add, match.product
        factors = list(product.operands)
        rewriter.insertion_point = InsertPoint.before(add)
        rewriter.replace(add, GatedResidualOp(match.x, match.y, match.gate, result_type=add.result.type))
        rewriter.erase(product)
        erase_dead_sources(factors, rewriter)


def _same_last(gate: Shape, x: Shape) -> bool:
    return gate[-1:] == x[-1:] != (DYNAMIC,)


@dataclass(frozen=True)
class FuseGatedResidual(PatternFusionPass):
    name = "rlx-fuse-gated-residual"
    produces: ClassVar = (GatedResidualOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [GatedSum()]
