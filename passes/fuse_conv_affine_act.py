"""A convolution whose channels are scaled and shifted, as a batch norm does, becomes one with other weights and a bias.

Before::

    %0 = rlx.conv %x, %w {kernel_size = [3, 3], padding = [1, 1]} : …
    %1 = rlx.binary mul %0, %s : (tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<2x16x8x8xf32>
    %2 = rlx.binary add %1, %t : (tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<2x16x8x8xf32>
    %3 = rlx.activation relu %2 : tensor<2x16x8x8xf32>

After, where %s is a reshape of %scale and %t one of %shift::

    %0 = rlx.reshape %scale {new_shape = [16, 1, 1, 1]} : tensor<16xf32> -> tensor<16x1x1x1xf32>
    %1 = rlx.binary mul %w, %0 : (tensor<16x16x3x3xf32>, tensor<16x1x1x1xf32>) -> tensor<16x16x3x3xf32>
    %3 = rlx.fused_conv_bias_act relu %x, %1, %shift {kernel_size = [3, 3], padding = [1, 1]} : …

A residual and the activation are taken in as in ``rlx-fuse-conv-bias-act``, with its options; neither has to be there.
Weight and scale must be known when the weights are loaded, or the weight would be scaled anew on every call. Numerics:
``nan-policy``: sums are formed of other products, and a weight or scale that is infinite may give NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.base import shape_of
from rlx_dialect.graph import is_load_time
from rlx_dialect.ops.convolution import ConvOp, FusedConvBiasActOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.passes.fuse_conv_bias_act import (
    FuseConvBiasAct,
    KernelLimits,
    channel_vector,
    reshaped,
    unsupported,
)
from rlx_dialect.passes.matching.extents import Known
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import erase_dead_sources, one_use, other_operand
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class ConvAffineMatch(Match):
    conv: ConvOp
    mul: BinaryOp
    add: BinaryOp
    scale: SSAValue
    shift: SSAValue


class FuseConvAffine(FusionPattern[ConvOp, ConvAffineMatch]):
    """conv → mul by one value a channel → add of one value a channel."""

    root = ConvOp
    numerics = Numerics.NAN_POLICY

    def __init__(self, limits: KernelLimits | None):
        self.limits = limits
        self.extents: Known = {}
        self.load_time: dict[SSAValue, bool] = {}

    def check(self, op: ConvOp, /) -> ConvAffineMatch | Miss | None:
        if not any(_is(use.operation, BinaryKind.MUL) for use in op.result.uses):
            return None
        mul = one_use(op.result, op)
        if isinstance(mul, Miss):
            return mul
        assert isinstance(mul, BinaryOp)
        add = one_use(mul.result, op) if mul.result.first_use is not None else None
        if add is None or isinstance(add, Miss):
            return add
        if not isinstance(add, BinaryOp) or not _is(add, BinaryKind.ADD):
            detail = f"the scaled result goes to {add.name}, not to the add of a shift"
            return Miss(Reason.OTHER_CONSUMER, op, detail, "nothing to do unless a shift was meant")
        if (miss := unsupported(op, self.limits)) is not None:
            return miss
        scale = channel_vector(other_operand(mul, op.result), op, op, self.extents)
        if isinstance(scale, Miss):
            return scale
        for name, value in (("weight", op.weight), ("scale", scale)):
            if not is_load_time(value, self.load_time):
                detail = f"the {name} is computed on every call, and so would be the scaled weight"
                return Miss(Reason.COPIED_EVERY_CALL, op, detail, f"make the {name} a constant or a parameter")
        shift = channel_vector(other_operand(add, mul.result), op, op, self.extents)
        return shift if isinstance(shift, Miss) else ConvAffineMatch(op, mul, add, scale, shift)

    def rewrite(self, match: ConvAffineMatch, rewriter: PatternRewriter, /) -> None:
        conv, mul, add = match.conv, match.mul, match.add
        channels, *others = shape_of(conv.weight)
        sources = [*mul.operands, *add.operands]
        rewriter.insertion_point = InsertPoint.before(add)
        scale = reshaped(match.scale, (channels, *[1] * len(others)), rewriter)
        weight = rewriter.insert(BinaryOp(BinaryKind.MUL, conv.weight, scale)).result
        shift = reshaped(match.shift, [channels], rewriter)
        fused = FusedConvBiasActOp.of(conv, shift, weight=weight, result_type=add.result.type)
        rewriter.replace(add, fused)
        erase_dead_sources(sources, rewriter)


def _is(op: object, kind: BinaryKind) -> bool:
    return isinstance(op, BinaryOp) and op.kind.data is kind


@dataclass(frozen=True)
class FuseConvAffineAct(FuseConvBiasAct):
    name = "rlx-fuse-conv-affine-act"
    numerics: ClassVar = Numerics.NAN_POLICY

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        limits = KernelLimits() if self.kernel_limits else None
        return [FuseConvAffine(limits), *self.following()]
