"""Batch norm, and any chain of sums and products with one number a channel, is one scale and one shift.

Before, with vectors of shape [C, 1, 1] (or [1, C, 1, 1]) that are known when the weights are loaded::

    %0 = rlx.binary sub %x, %mean       : (tensor<2x4x5x5xf32>, tensor<4x1x1xf32>) -> …
    %1 = rlx.binary mul %0, %inverse    : …
    %2 = rlx.binary mul %1, %gamma      : …
    %3 = rlx.binary add %2, %beta       : …

After::

    %0 = rlx.activation neg %mean        : tensor<4x1x1xf32>
    %1 = rlx.binary mul %0, %inverse     : (tensor<4x1x1xf32>, tensor<4x1x1xf32>) -> tensor<4x1x1xf32>
    %2 = rlx.binary mul %inverse, %gamma : …
    %3 = rlx.binary mul %1, %gamma       : …
    %4 = rlx.binary add %3, %beta        : …
    %5 = rlx.binary mul %x, %2           : (tensor<2x4x5x5xf32>, tensor<4x1x1xf32>) -> …
    %6 = rlx.binary add %5, %4           : …

``rlx.batch_norm_inference`` becomes the same along its last axis. Chains of three or more; what they start from is
computed on every call, or it would all be known before. A vector along the last axis is no channel: it may be a bias,
which a product takes in. Numerics: ``nan-policy``, since an infinite or zero statistic comes out otherwise; the rest is
sums in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import element_of, rank_of, shape_of
from rlx_dialect.dtypes import is_float, is_narrow
from rlx_dialect.graph import is_load_time
from rlx_dialect.ops.constant import scalar
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.normalization import BatchNormInferenceOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import defining, one_use, orders
from rlx_dialect.shapes import broadcasts_to
from rlx_dialect.xdsl_compat import PatternRewriter

MIN_STEPS = 3
"""Two are what a chain becomes."""

_KINDS = (BinaryKind.ADD, BinaryKind.SUB, BinaryKind.MUL, BinaryKind.DIV)


@dataclass(frozen=True)
class ChainMatch(Match):
    x: SSAValue
    steps: tuple[tuple[BinaryOp, SSAValue], ...]
    """The operations from the first to the last, and what each of them combines with."""


class ToScaleAndShift(FusionPattern[BinaryOp, ChainMatch]):
    """A chain that ends at the root, as long as it is."""

    root = BinaryOp
    numerics = Numerics.NAN_POLICY

    def __init__(self) -> None:
        self.known: dict[SSAValue, bool] = {}

    def check(self, op: BinaryOp, /) -> ChainMatch | Miss | None:
        lhs, rhs = op.operands
        if not (isinstance(lhs.owner, BinaryOp) or isinstance(rhs.owner, BinaryOp)):
            return None
        if rank_of(op.result) < 3 or not isinstance(op.result.type, TensorType) or not is_float(element_of(op.result)):
            return None
        steps: list[tuple[BinaryOp, SSAValue]] = []
        declined: Miss | None = None
        current = op
        while (step := self._step(current)) is not None:
            x, vector = step
            steps.append((current, vector))
            following = defining(x, BinaryOp)
            if following is None or self._step(following) is None:
                break
            user = one_use(x, op)
            if isinstance(user, Miss):
                declined = user
                break
            if following.parent is not op.parent:
                declined = Miss(Reason.OTHER_BLOCK, op, "the chain begins in another block", "move it into one block")
                break
            current = following
        if len(steps) < MIN_STEPS or not any(_is_channel(shape_of(vector)) for _, vector in steps):
            return declined
        first, vector = steps[-1]
        x = first.lhs if first.rhs is vector else first.rhs
        if is_load_time(x, self.known):
            return None
        return ChainMatch(x, tuple(reversed(steps)))

    def _step(self, op: BinaryOp) -> tuple[SSAValue, SSAValue] | None:
        """What is changed, and by what, if ``op`` is a step of a chain."""
        kind = op.kind.data
        if kind not in _KINDS:
            return None
        for x, vector in orders(op) if kind in (BinaryKind.ADD, BinaryKind.MUL) else [(op.lhs, op.rhs)]:
            shape = shape_of(vector)
            narrow = _is_channel(shape) or all(extent == 1 for extent in shape)
            if narrow and x.type == op.result.type and broadcasts_to(shape, shape_of(x)):
                return (x, vector) if is_load_time(vector, self.known) else None
        return None

    def rewrite(self, match: ChainMatch, rewriter: PatternRewriter, /) -> None:
        scale: SSAValue | None = None
        shift: SSAValue | None = None

        def combined(kind: BinaryKind, value: SSAValue, vector: SSAValue) -> SSAValue:
            return rewriter.insert(BinaryOp(kind, value, vector)).result

        for op, vector in match.steps:
            kind = op.kind.data
            if kind in (BinaryKind.MUL, BinaryKind.DIV):
                if scale is not None:
                    scale = combined(kind, scale, vector)
                elif kind is BinaryKind.MUL:
                    scale = vector
                else:
                    scale = rewriter.insert(ActivationOp(ActivationKind.RECIP, vector)).result
                shift = None if shift is None else combined(kind, shift, vector)
            elif shift is not None:
                shift = combined(kind, shift, vector)
            elif kind is BinaryKind.ADD:
                shift = vector
            else:
                shift = rewriter.insert(ActivationOp(ActivationKind.NEG, vector)).result
        last, _ = match.steps[-1]
        ops = [(BinaryKind.MUL, scale), (BinaryKind.ADD, shift)]
        value = match.x
        for kind, vector in ops:
            if vector is not None:
                value = rewriter.insert(BinaryOp(kind, value, vector, result_type=last.result.type)).result
        rewriter.replace(last, [], [value])
        for op, _ in reversed(match.steps[:-1]):
            rewriter.erase(op)


@dataclass(frozen=True)
class BatchNormMatch(Match):
    norm: BatchNormInferenceOp


class BatchNormToScaleAndShift(FusionPattern[BatchNormInferenceOp, BatchNormMatch]):
    """``rlx.batch_norm_inference`` with statistics from load time → mul and add of vectors along its last axis."""

    root = BatchNormInferenceOp
    numerics = Numerics.NAN_POLICY

    def __init__(self) -> None:
        self.known: dict[SSAValue, bool] = {}

    def check(self, op: BatchNormInferenceOp, /) -> BatchNormMatch | Miss | None:
        if is_load_time(op.x, self.known) or not all(is_load_time(v, self.known) for v in op.operands[1:]):
            return None
        element = element_of(op.x)
        if is_narrow(element):
            detail = f"a product and a sum in {element} are rounded where the norm is not"
            return Miss(Reason.ELEMENT_TYPE, op, detail, "cast to f32 first")
        return BatchNormMatch(op)

    def rewrite(self, match: BatchNormMatch, rewriter: PatternRewriter, /) -> None:
        norm = match.norm
        eps = scalar(rewriter, norm.eps.value.data, element_of(norm.x))

        def combined(kind: BinaryKind, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
            return rewriter.insert(BinaryOp(kind, lhs, rhs)).result

        inverse = rewriter.insert(ActivationOp(ActivationKind.RSQRT, combined(BinaryKind.ADD, norm.var, eps))).result
        scale = combined(BinaryKind.MUL, norm.gamma, inverse)
        shift = combined(BinaryKind.SUB, norm.beta, combined(BinaryKind.MUL, norm.mean, scale))
        product = rewriter.insert(BinaryOp(BinaryKind.MUL, norm.x, scale, result_type=norm.result.type))
        rewriter.replace(norm, BinaryOp(BinaryKind.ADD, product, shift, result_type=norm.result.type))


def _is_channel(shape: Sequence[int]) -> bool:
    """[C, 1, …] or [1, C, 1, …] with C above 1."""
    return shape[-1:] == (1,) and sum(extent != 1 for extent in shape) == 1 and min(shape) > 0


def patterns() -> Sequence[FusionPattern[Any, Any]]:
    return [ToScaleAndShift(), BatchNormToScaleAndShift()]
