"""A relu and the product of its result with itself become one operation.

Before::

    %0 = rlx.activation relu %x : tensor<4x8xf32>
    %1 = rlx.binary mul %0, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>

After::

    %1 = rlx.square_relu %x : tensor<4x8xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.square_relu import SquareReluOp  # pyright: ignore
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import defining
from rlx_dialect.xdsl_compat import PatternRewriter


@dataclass(frozen=True)
class Square(Match):
    relu: ActivationOp
    product: BinaryOp


class SquareRelu(FusionPattern[BinaryOp, Square]):
    root = BinaryOp

    def check(self, op: BinaryOp, /) -> Square | Miss | None:
        relu = defining(op.lhs, ActivationOp)
        if relu is None or relu.kind.data is not ActivationKind.RELU or op.kind.data is not BinaryKind.MUL:
            return None
        if op.rhs is not op.lhs:
            return Miss(Reason.OTHER_CONSUMER, op, "the relu is multiplied by another value", "nothing to do")
        if len(list(relu.result.uses)) != 2:
            return Miss(Reason.MORE_THAN_ONE_USE, op, "the relu is used elsewhere too", "nothing to do")
        return Square(relu, op)

    def rewrite(self, match: Square, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(match.product, SquareReluOp(match.relu.input))
        rewriter.erase(match.relu)


@dataclass(frozen=True)
class FuseSquareRelu(PatternFusionPass):
    name = "rlx-fuse-square-relu"
    produces: ClassVar = (SquareReluOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [SquareRelu()]
