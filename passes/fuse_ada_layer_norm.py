"""A norm without weights, scaled and shifted by a condition, becomes one operation.

Before, in either of two forms, with every sum and product in any order::

    %0 = rlx.layer_norm %x, %ones, %zeros {eps = 1.0e-6} : …
    %1 = rlx.binary add %one, %scale : (tensor<f32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
    %2 = rlx.binary mul %0, %1       : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
    %3 = rlx.binary add %2, %shift   : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>

    %1 = rlx.binary mul %0, %scale   : …
    %2 = rlx.binary add %0, %1       : …
    %3 = rlx.binary add %2, %shift   : …

After::

    %3 = rlx.ada_layer_norm layer_norm %x, %scale, %shift {eps = 1.0e-6} : …

The norm is layer_norm or rms_norm; its gamma is a constant of ones and its beta one of zeros, which others may use too.
What scale and shift repeat is taken from before an ``rlx.expand``, as long as its last extent is that of x; a reshape
stays where it is, because without it the axes would align otherwise. Numerics: ``wider`` for the first form,
``reassociated`` for the second, n + n·scale being n·(1 + scale) in the fused operation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.base import shape_of
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.normalization import AdaLayerNormOp, AffineNormOp
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
    other_operand,
    used_by_only,
)
from rlx_dialect.shapes import DYNAMIC, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class AdaMatch(Match):
    norm: AffineNormOp
    steps: tuple[Operation, ...]
    """The other matched operations, the last one first."""
    scale: SSAValue
    shift: SSAValue


class ModulatedNorm(FusionPattern[BinaryOp, AdaMatch]):
    """Base of the two forms; the root is the sum with the shift."""

    root = BinaryOp

    def __init__(self) -> None:
        self.extents: Known = {}

    def check(self, op: BinaryOp, /) -> AdaMatch | Miss | None:
        if op.kind.data is not BinaryKind.ADD:
            return None
        declined: Miss | None = None
        for scaled, shift in orders(op):
            inner = defining(scaled, BinaryOp)
            for found in () if inner is None else self.scalings(op, inner, shift):
                if isinstance(found, AdaMatch):
                    found = self.finished(found, op)
                if isinstance(found, AdaMatch):
                    return found
                declined = declined or found
        return declined

    @abstractmethod
    def scalings(self, op: BinaryOp, inner: BinaryOp, shift: SSAValue) -> Iterator[AdaMatch | Miss]:
        """Ways in which ``inner`` is the scaled norm, their uses checked; or why one is none."""

    def finished(self, match: AdaMatch, op: BinaryOp) -> AdaMatch | Miss:
        """The match with scale and shift as the fused operation takes them."""
        norm = match.norm
        if (miss := not_identity(norm, op)) or (
            miss := not_one_shape([norm.x, norm.result, op.result], op, self.extents)
        ):
            return miss
        scale, shift = (self._vector(value, norm.x, op) for value in (match.scale, match.shift))
        if isinstance(scale, Miss):
            return scale
        if isinstance(shift, Miss):
            return shift
        return AdaMatch(norm, match.steps, scale, shift)

    def _vector(self, value: SSAValue, x: SSAValue, site: Operation) -> SSAValue | Miss:
        """The smallest value that ``value`` repeats and that has the last extent of ``x``."""
        if (miss := not_onto(value, x, site, self.extents)) is not None:
            return miss
        last = shape_of(x)[-1:]
        if last == (DYNAMIC,):
            detail = f"the last extent of {show(shape_of(x))} is unknown"
            return Miss(Reason.DYNAMIC_EXTENT, site, detail, "give it a static last extent")
        for source in reversed(expand_sources(value)):
            if shape_of(source)[-1:] == last:
                return source
        detail = f"scale or shift of shape {show(shape_of(value))} has another last extent than {show(shape_of(x))}"
        return Miss(Reason.SHAPES_DIFFER, site, detail, "expand it along the last axis")

    def rewrite(self, match: AdaMatch, rewriter: PatternRewriter, /) -> None:
        norm, (last, *others) = match.norm, match.steps
        sources = [operand for op in (norm, *others, last) for operand in op.operands]
        rewriter.insertion_point = InsertPoint.before(last)
        fused = AdaLayerNormOp(
            norm.x,
            match.scale,
            match.shift,
            norm=norm.KIND,
            eps=norm.eps.value.data,
            result_type=last.results[0].type,
        )
        rewriter.replace(last, fused)
        for op in (*others, norm):
            rewriter.erase(op)
        erase_dead_sources(sources, rewriter)


class ScaledByOnePlus(ModulatedNorm):
    """n·(1 + scale) + shift."""

    numerics = Numerics.WIDER

    def scalings(self, op: BinaryOp, inner: BinaryOp, shift: SSAValue) -> Iterator[AdaMatch | Miss]:
        if inner.kind.data is not BinaryKind.MUL:
            return
        for normal, factor in orders(inner):
            norm = defining(normal, AffineNormOp)
            if norm is None or normal is shift:
                continue
            plus = defining(factor, BinaryOp)
            if plus is None or plus.kind.data is not BinaryKind.ADD:
                if not_identity(norm, op) is None:
                    detail = "the norm is multiplied by a value that is not computed as 1 + scale"
                    yield Miss(Reason.OTHER_OPERAND, op, detail, "add the 1 in the program")
                continue
            scale = next((value for one, value in orders(plus) if scalar_value(one) == 1), None)
            if scale is None:
                detail = "the norm is multiplied by a sum of which neither part is the constant 1"
                yield Miss(Reason.OTHER_CONSTANT, op, detail, "nothing to do unless 1 + scale was meant")
                continue
            absorbed = ((inner, op), (plus, inner), (norm, inner))
            misses = (not_absorbed(part, user, op) for part, user in absorbed)
            yield next((m for m in misses if m), None) or AdaMatch(norm, (op, inner, plus), scale, shift)


class PlusScaled(ModulatedNorm):
    """n + n·scale + shift."""

    numerics = Numerics.REASSOCIATED

    def scalings(self, op: BinaryOp, inner: BinaryOp, shift: SSAValue) -> Iterator[AdaMatch | Miss]:
        if inner.kind.data is not BinaryKind.ADD:
            return
        for normal, scaled in orders(inner):
            norm, product = defining(normal, AffineNormOp), defining(scaled, BinaryOp)
            if norm is None or product is None or product.kind.data is not BinaryKind.MUL:
                continue
            if normal not in product.operands:
                continue
            scale = other_operand(product, normal)
            if norm.parent is not op.parent:
                detail = "the norm is in another block than the sum with the shift"
                yield Miss(Reason.OTHER_BLOCK, op, detail, "move both into one block")
                continue
            yield (
                not_absorbed(inner, op, op)
                or not_absorbed(product, inner, op)
                or used_by_only(normal, [inner, product], op)
                or AdaMatch(norm, (op, inner, product), scale, shift)
            )


def not_identity(norm: AffineNormOp, site: Operation) -> Miss | None:
    """None if gamma is one everywhere and beta zero; else why the norm has weights of its own."""
    for name, vector, wanted in (("gamma", norm.gamma, 1), ("beta", norm.beta, 0)):
        if scalar_value(vector) != wanted:
            detail = f"{name} of the norm is no constant of {wanted}"
            return Miss(Reason.OTHER_CONSTANT, site, detail, "nothing to do: the adaptive norm has no weights")
    return None


def is_modulated(norm: AffineNormOp, forms: Sequence[ModulatedNorm]) -> bool:
    """Whether the norm would become part of an adaptive one, in one of the ``forms``."""
    if not_identity(norm, norm) is not None:
        return False
    near = {use.operation for use in norm.result.uses}
    if len(near) > 2:
        return False
    after = {use.operation for op in near for result in op.results for use in result.uses}
    matches = (form.decide(op) for form in forms for op in after)
    return any(isinstance(match, AdaMatch) and match.norm is norm for match in matches)


@dataclass(frozen=True)
class FuseAdaLayerNorm(PatternFusionPass):
    name = "rlx-fuse-ada-layer-norm"
    produces: ClassVar = (AdaLayerNormOp,)
    numerics: ClassVar = Numerics.REASSOCIATED

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [ScaledByOnePlus(), PlusScaled()]
