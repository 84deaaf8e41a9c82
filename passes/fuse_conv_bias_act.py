"""A convolution, the bias added to it, a residual and the activation of the sum become one operation.

Before::

    %0 = rlx.conv %x, %w {kernel_size = [3, 3], padding = [1, 1]} : …
    %1 = rlx.reshape %bias {new_shape = [16, 1, 1]} : tensor<16xf32> -> tensor<16x1x1xf32>
    %2 = rlx.binary add %0, %1 : (tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) -> tensor<2x16x8x8xf32>
    %3 = rlx.binary add %2, %r : (tensor<2x16x8x8xf32>, tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
    %4 = rlx.activation relu %3 : tensor<2x16x8x8xf32>

After::

    %4 = rlx.fused_conv_bias_act relu %x, %w, %bias, %r {kernel_size = [3, 3], padding = [1, 1]} : …

There is a pattern for each step, so that each stops where it has to. Which activations are taken in is data
(``epilogues``), and so are the convolutions that a kernel takes (:class:`KernelLimits`).

The bias is one value a channel: of shape [C, 1, 1] or [1, C, 1, 1], or what is expanded from that. A vector [C] alone
lies along the last spatial axis and is no bias. The residual has the very shape of the sum. Numerics: ``wider``,
because the sums of f16 or bf16 are not rounded in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import element_of, rank_of, shape_of
from rlx_dialect.dtypes import is_float
from rlx_dialect.ops.convolution import ConvOp, FusedConvBiasActOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.shape import ReshapeOp
from rlx_dialect.passes.matching.epilogue import FuseEpilogue
from rlx_dialect.passes.matching.extents import Known
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import (
    defining,
    erase_dead_sources,
    expand_sources,
    is_used,
    not_absorbed,
    not_one_shape,
    not_onto,
    one_use,
    orders,
    other_operand,
)
from rlx_dialect.shapes import DYNAMIC, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class KernelLimits:
    """The convolutions that a kernel takes; by default the one of RLX's cuda back end, which alone has one.

    A window of one element there is a product of matrices instead.
    """

    spatial_rank: int = 2
    groups: int = 1
    least_window: int = 2

    def exceeded_by(self, conv: ConvOp, site: Operation) -> Miss | None:
        """None if the kernel takes ``conv``; else why not, at ``site``."""
        groups, kernel = conv.groups.value.data, conv.window.kernel
        if len(kernel) != self.spatial_rank:
            found = f"{len(kernel)} spatial axes, the kernel takes {self.spatial_rank}"
        elif groups != self.groups:
            found = f"{groups} groups, the kernel takes {self.groups}"
        elif min(kernel) < self.least_window:
            found = f"a window of {show(kernel)}, the kernel takes {self.least_window} and more along each axis"
        else:
            return None
        return Miss(Reason.KERNEL_LIMIT, site, found, "lift the limits (kernel-limits=false) if the target can")


def channel_vector(value: SSAValue, conv: ConvOp, site: Operation, known: Known) -> SSAValue | Miss:
    """What has one element for each result channel of ``conv`` and gives ``value``, which meets its result.

    Of shape [C], or with extents of 1 beside C. Every shape on the way is read: equal extents do not make an axis the
    channels.
    """
    channels, rank = shape_of(conv.weight)[0], rank_of(conv.result)
    if channels == DYNAMIC:
        detail = f"the number of result channels of the weight {show(shape_of(conv.weight))} is unknown"
        return Miss(Reason.DYNAMIC_EXTENT, site, detail, "give the weight a static shape")
    if (miss := not_onto(value, conv.result, site, known)) is not None:
        return miss
    wanted = (1, channels, *[1] * (rank - 2))
    for source in expand_sources(value):
        shape = shape_of(source)
        if (1,) * (rank - len(shape)) + shape == wanted:
            reshape = defining(source, ReshapeOp)
            return source if reshape is None or shape_of(reshape.input) != (channels,) else reshape.input
    detail = f"{show(shape_of(value))} is not one value for each of the channels of {show(shape_of(conv.result))}"
    return Miss(Reason.BIAS_SHAPE, site, detail, f"reshape it to {show(wanted[1:])}")


def reshaped(vector: SSAValue, shape: Sequence[int], rewriter: PatternRewriter) -> SSAValue:
    """``vector`` in that shape."""
    return vector if shape_of(vector) == tuple(shape) else rewriter.insert(ReshapeOp(vector, shape)).result


@dataclass(frozen=True)
class ConvBiasMatch(Match):
    conv: ConvOp
    add: BinaryOp
    bias: SSAValue


class FuseConvBias(FusionPattern[ConvOp, ConvBiasMatch]):
    """conv → add of one value a channel."""

    root = ConvOp

    def __init__(self, limits: KernelLimits | None):
        self.limits = limits
        self.extents: Known = {}

    def check(self, op: ConvOp, /) -> ConvBiasMatch | Miss | None:
        if not is_used(op.result):
            return None
        add = one_use(op.result, op)
        if isinstance(add, Miss):
            return add
        if not isinstance(add, BinaryOp) or add.kind.data is not BinaryKind.ADD:
            detail = f"the result goes to {add.name}, not to the add of a bias"
            return Miss(Reason.OTHER_CONSUMER, op, detail, "nothing to do unless a bias was meant")
        if (miss := unsupported(op, self.limits)) is not None:
            return miss
        bias = channel_vector(other_operand(add, op.result), op, op, self.extents)
        return bias if isinstance(bias, Miss) else ConvBiasMatch(op, add, bias)

    def rewrite(self, match: ConvBiasMatch, rewriter: PatternRewriter, /) -> None:
        conv, add = match.conv, match.add
        sources = list(add.operands)
        rewriter.insertion_point = InsertPoint.before(add)
        bias = reshaped(match.bias, shape_of(conv.weight)[:1], rewriter)
        rewriter.replace(add, FusedConvBiasActOp.of(conv, bias, result_type=add.result.type))
        erase_dead_sources(sources, rewriter)


def unsupported(conv: ConvOp, limits: KernelLimits | None) -> Miss | None:
    """Why the fused operation, or a kernel of these limits, does not take ``conv``."""
    if not is_float(element_of(conv.result)):
        detail = f"the element type is {element_of(conv.result)}, the fused operation is for floats"
        return Miss(Reason.ELEMENT_TYPE, conv, detail, "nothing to do")
    return None if limits is None else limits.exceeded_by(conv, conv)


@dataclass(frozen=True)
class ConvResidualMatch(Match):
    fused: FusedConvBiasActOp
    add: BinaryOp
    residual: SSAValue


class FuseConvResidual(FusionPattern[BinaryOp, ConvResidualMatch]):
    """fused convolution without activation → add of a value of its shape."""

    root = BinaryOp
    numerics = Numerics.WIDER

    def __init__(self) -> None:
        self.extents: Known = {}

    def check(self, op: BinaryOp, /) -> ConvResidualMatch | Miss | None:
        if op.kind.data is not BinaryKind.ADD:
            return None
        declined: Miss | None = None
        for value, residual in orders(op):
            fused = defining(value, FusedConvBiasActOp)
            if fused is None or fused.residual is not None or fused.activation is not None:
                continue
            miss = not_one_shape([value, residual, op.result], op, self.extents) or not_absorbed(fused, op, op)
            if miss is None:
                return ConvResidualMatch(fused, op, residual)
            declined = declined or miss
        return declined

    def rewrite(self, match: ConvResidualMatch, rewriter: PatternRewriter, /) -> None:
        plain, add = match.fused, match.add
        rewriter.insertion_point = InsertPoint.before(add)
        rewriter.replace(add, FusedConvBiasActOp.of(plain, plain.bias, match.residual, result_type=add.result.type))
        rewriter.erase(plain)


@dataclass(frozen=True)
class FuseConvBiasAct(PatternFusionPass):
    """``epilogues``: the kinds of activation that are taken in; ``kernel_limits``: keep to RLX's kernel."""

    name = "rlx-fuse-conv-bias-act"
    produces: ClassVar = (FusedConvBiasActOp,)
    numerics: ClassVar = Numerics.WIDER

    epilogues: tuple[str, ...] = (ActivationKind.RELU.value,)
    kernel_limits: bool = True

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        limits = KernelLimits() if self.kernel_limits else None
        return [FuseConvBias(limits), *self.following()]

    def following(self) -> Sequence[FusionPattern[Any, Any]]:
        """What is taken in once a convolution and its bias are one operation."""
        epilogue = FuseEpilogue(FusedConvBiasActOp, self.epilogues, "the convolution and its bias")
        return [FuseConvResidual(), epilogue]
