"""What ends several fusions: the activation of a fused result becomes part of the fused operation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xdsl.ir import Operation

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp
from rlx_dialect.ops.convolution import FusedConvBiasActOp
from rlx_dialect.ops.elementwise import ActivationOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import defining, not_absorbed
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

WithEpilogue = FusedMatMulBiasActOp | FusedConvBiasActOp
"""The operations that have a property ``activation``."""


@dataclass(frozen=True)
class EpilogueMatch(Match):
    fused: WithEpilogue
    activation: ActivationOp


class FuseEpilogue(FusionPattern[ActivationOp, EpilogueMatch]):
    """An operation of class ``fused`` without activation → activation of one of the ``kinds``."""

    root = ActivationOp
    numerics = Numerics.WIDER

    def __init__(self, fused: type[WithEpilogue], kinds: Collection[ActivationKind | str], before: str):
        """``before`` names what is fused without the activation. Raises ValueError for a kind that there is not."""
        self.fused = fused
        self.kinds = [ActivationKind(kind) for kind in kinds]
        self.before = before

    def check(self, op: ActivationOp, /) -> EpilogueMatch | Miss | None:
        fused = defining(op.input, self.fused)
        if fused is None or fused.activation is not None:
            return None
        kind = op.kind.data
        if kind not in self.kinds:
            known = ", ".join(self.kinds) or "none"
            detail = f"{self.before} are fused, but the epilogue {kind} is not among {known}"
            return Miss(Reason.UNSUPPORTED_KIND, op, detail, f"add {kind} to epilogues if the target's kernel has it")
        return not_absorbed(fused, op, op) or EpilogueMatch(fused, op)

    def rewrite(self, match: EpilogueMatch, rewriter: PatternRewriter, /) -> None:
        plain, activation = match.fused, match.activation
        rewriter.insertion_point = InsertPoint.before(activation)
        fused: Operation = type(plain).create(
            operands=plain.operands,
            result_types=activation.result_types,
            properties=plain.properties | {"activation": activation.kind},
        )
        rewriter.replace(activation, fused)
        rewriter.erase(plain)
