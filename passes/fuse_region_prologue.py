"""An element-wise region resizes one of its operands itself, on the way in.

Before::

    %0 = rlx.resize_nearest_2x %x : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
    %1 = rlx.elementwise_region(%y, %0) : … -> tensor<1x3x16x16xf32> { ^bb0(%a: f32, %b: f32): … }

After, with the resized operand first::

    %1 = rlx.elementwise_region(%x, %y) {prologue = "resize_nearest_2x"} : … { ^bb0(%b: f32, %a: f32): … }

A single activation of a resize becomes a region of one step that way. A region resizes one operand, the first that
nothing else uses and that provably has the full shape of the region: kernels do not broadcast it. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, SSAValue

from rlx_dialect.ops.convolution import ResizeNearest2xOp
from rlx_dialect.ops.elementwise import ActivationOp, CastOp
from rlx_dialect.ops.region import RESIZE_NEAREST_2X, ElementwiseRegionOp
from rlx_dialect.passes.matching.extents import Known
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.regions import fusable, region_of
from rlx_dialect.passes.matching.values import defining, not_absorbed, not_one_shape
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class ResizedOperandMatch(Match):
    region: ElementwiseRegionOp
    resize: ResizeNearest2xOp
    position: int


class ResizeOperand(FusionPattern[ElementwiseRegionOp, ResizedOperandMatch]):
    """resize → region."""

    root = ElementwiseRegionOp

    def __init__(self) -> None:
        self.extents: Known = {}

    def check(self, op: ElementwiseRegionOp, /) -> ResizedOperandMatch | Miss | None:
        declined: Miss | None = None
        for position, operand in enumerate(op.inputs):
            resize = defining(operand, ResizeNearest2xOp)
            if resize is None:
                continue
            if (miss := self._declined(op, resize)) is None:
                return ResizedOperandMatch(op, resize, position)
            declined = declined or miss
        return declined

    def _declined(self, op: ElementwiseRegionOp, resize: ResizeNearest2xOp) -> Miss | None:
        """Why the region cannot resize that operand; None if it can."""
        if op.prologue is not None:
            detail = "the region starts with a resize already"
            return Miss(Reason.OTHER_OPERAND, op, detail, "nothing to do: a region resizes one operand, once")
        if (miss := not_absorbed(resize, op, op)) is not None:
            return miss
        return not_one_shape([resize.result, op.result], op, self.extents)

    def rewrite(self, match: ResizedOperandMatch, rewriter: PatternRewriter, /) -> None:
        region, resize, position = match.region, match.resize, match.position
        order = list(range(len(region.inputs)))
        order[0], order[position] = position, 0
        inputs = list(region.inputs)
        inputs[position] = resize.input
        old = region.body.block
        body = ElementwiseRegionOp.empty_body([old.args[i].type for i in order])
        values: dict[SSAValue, SSAValue] = {}
        for index, argument in zip(order, body.block.args, strict=True):
            argument.name_hint = old.args[index].name_hint
            values[old.args[index]] = argument
        for op in old.ops:
            body.block.add_op(op.clone(values))
        rewriter.insertion_point = InsertPoint.before(region)
        fused = ElementwiseRegionOp(
            [inputs[i] for i in order], body, prologue=RESIZE_NEAREST_2X, result_type=region.result.type
        )
        fused.attributes |= region.attributes
        rewriter.replace(region, fused)
        rewriter.erase(resize)


@dataclass(frozen=True)
class ResizedUnaryMatch(Match):
    op: ActivationOp | CastOp
    resize: ResizeNearest2xOp


class ResizeUnary(FusionPattern[ActivationOp | CastOp, ResizedUnaryMatch]):
    """resize → activation."""

    root = (ActivationOp, CastOp)

    def check(self, op: ActivationOp | CastOp, /) -> ResizedUnaryMatch | Miss | None:
        resize = defining(op.input, ResizeNearest2xOp)
        if resize is None:
            return None
        return fusable(op) or not_absorbed(resize, op, op) or ResizedUnaryMatch(op, resize)

    def rewrite(self, match: ResizedUnaryMatch, rewriter: PatternRewriter, /) -> None:
        rewriter.insertion_point = InsertPoint.before(match.op)
        region = region_of([match.op], prologue=RESIZE_NEAREST_2X)
        region.operands[0] = match.resize.input
        rewriter.replace(match.op, region)
        rewriter.erase(match.resize)


@dataclass(frozen=True)
class FuseRegionPrologue(PatternFusionPass):
    name = "rlx-fuse-region-prologue"
    produces: ClassVar = (ElementwiseRegionOp,)
    numerics: ClassVar = Numerics.EXACT

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [ResizeOperand(), ResizeUnary()]


class Prologues:
    """Which resizes the pass would make part of a region, for who wants to leave those alone."""

    def __init__(self) -> None:
        self.patterns = FuseRegionPrologue().patterns()

    def takes(self, user: Operation, resize: ResizeNearest2xOp) -> bool:
        """Whether ``user`` would do ``resize``, the first resize among its operands that it can."""
        found = (pattern.decide(user) for pattern in self.patterns)
        return any(isinstance(m, ResizedOperandMatch | ResizedUnaryMatch) and m.resize is resize for m in found)
