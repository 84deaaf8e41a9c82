"""A residual sum and the norm of it become one operation.

Before::

    %0 = rlx.binary add %x, %residual : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    %1 = rlx.layer_norm %0, %gamma, %beta {eps = 1.0e-5} : …

After::

    %1 = rlx.fused_residual_ln %x, %residual, %gamma, %beta {eps = 1.0e-5} : …

If the sum is used again, as in a pre-norm decoder, or returned, it is the second result of the fused operation::

    %1, %0 = rlx.fused_residual_ln %x, %residual, %gamma, %beta {eps = 1.0e-5} : … -> (…, tensor<2x3x8xf32>)

The fused operation stands where the norm stood, or, if the sum is used between the two, before the first such
use; what gamma and beta are computed from is moved up there if need be. Both summands must have the very shape of the
sum, extents that are only known at run time included. A norm that ``rlx-fuse-ada-layer-norm`` would take in is left to
it where the sum is used again: then that is less work. Numerics: ``wider``, because the norm sees the sum of f16 or
bf16 before it is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.normalization import AffineNormOp, FusedResidualLnOp, FusedResidualOp
from rlx_dialect.passes.fuse_ada_layer_norm import PlusScaled, ScaledByOnePlus, is_modulated
from rlx_dialect.passes.matching.extents import Known
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import Place, defining, insertion_place, not_one_shape
from rlx_dialect.xdsl_compat import PatternRewriter


@dataclass(frozen=True)
class ResidualNormMatch(Match):
    add: BinaryOp
    norm: AffineNormOp
    place: Place
    keeps_sum: bool


class FuseResidualNorm(FusionPattern[AffineNormOp, ResidualNormMatch]):
    """add → the norm that ``fused`` is made of."""

    def __init__(self, fused: type[FusedResidualOp]):
        self.fused = fused
        self.root = fused.NORM
        self.extents: Known = {}
        self.adaptive = (ScaledByOnePlus(), PlusScaled())

    def check(self, op: AffineNormOp, /) -> ResidualNormMatch | Miss | None:
        add = defining(op.x, BinaryOp)
        if add is None or add.kind.data is not BinaryKind.ADD:
            return None
        if add.parent is not op.parent:
            detail = f"the sum is computed in another block than {op.name}"
            return Miss(Reason.OTHER_BLOCK, op, detail, "move both into one block")
        if (miss := not_one_shape([add.lhs, add.rhs, add.result, op.result], op, self.extents)) is not None:
            return miss
        if add.result in op.operands[1:]:
            detail = "the sum is also the norm's gamma or beta"
            return Miss(Reason.MORE_THAN_ONE_USE, op, detail, "nothing to do: the sum has to be there first")
        keeps_sum = not op.x.has_one_use()
        if keeps_sum and self._is_modulated(op):
            detail = "the sum is used again, and the norm is part of an adaptive norm"
            return Miss(Reason.OTHER_CONSUMER, op, detail, "nothing to do: the adaptive norm takes it in")
        place = insertion_place(add, op, [add.result], op.operands[1:])
        return place if isinstance(place, Miss) else ResidualNormMatch(add, op, place, keeps_sum)

    def _is_modulated(self, norm: AffineNormOp) -> bool:
        for form in self.adaptive:
            form.strict = self.strict
        return is_modulated(norm, self.adaptive)

    def rewrite(self, match: ResidualNormMatch, rewriter: PatternRewriter, /) -> None:
        add, norm = match.add, match.norm
        rewriter.insertion_point = match.place.clear()
        fused = rewriter.insert(
            self.fused(
                add.lhs,
                add.rhs,
                norm.gamma,
                norm.beta,
                eps=norm.eps.value.data,
                sum_result=match.keeps_sum,
                result_type=norm.result.type,
            )
        )
        rewriter.replace(norm, [], [fused.result])
        if fused.sum is None:
            rewriter.erase(add)
        else:
            rewriter.replace(add, [], [fused.sum])


@dataclass(frozen=True)
class FuseResidualLn(PatternFusionPass):
    name = "rlx-fuse-residual-ln"
    produces: ClassVar = (FusedResidualLnOp,)
    numerics: ClassVar = Numerics.WIDER

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseResidualNorm(FusedResidualLnOp)]
