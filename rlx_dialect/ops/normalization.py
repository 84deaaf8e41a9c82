"""Normalisation over the last axis, what is fused into it, gated residuals, and normalisation of channels.

f16 and bf16 are computed in float32 and rounded once, by the decompositions too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_result_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import NormKind, NormKindAttr, ReduceKind
from rlx_dialect.base import RlxOp, Value, element_of, rank_of
from rlx_dialect.dtypes import Array, is_float, wide_element
from rlx_dialect.ops.constant import ConstantOp, scalar
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.extents import merge_axes, split_axis, split_like
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.reduction import REDUCTIONS, ReduceOp, converted
from rlx_dialect.ops.shape import ReshapeOp, TransposeOp
from rlx_dialect.shapes import DYNAMIC, ShapeError, show
from rlx_dialect.xdsl_compat import Builder


def normalized(kind: NormKind, x: Array, eps: float) -> Array:
    """(x - mean)/√(variance + eps) for ``layer_norm``, x/√(mean(x²) + eps) for ``rms_norm``, over the last axis."""
    mean = REDUCTIONS[ReduceKind.MEAN]
    last = (x.ndim - 1,)
    centered = x - mean(x, last) if kind is NormKind.LAYER_NORM else x
    return centered * (1 / np.sqrt(mean(centered * centered, last) + eps))


def _binary(b: Builder, kind: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return b.insert(BinaryOp(kind, lhs, rhs)).result


def _insert_normalized(b: Builder, kind: NormKind, x: SSAValue, eps: float) -> SSAValue:
    """The operations of :func:`normalized` at ``b``."""
    last = [rank_of(x) - 1]
    centered = x
    if kind is NormKind.LAYER_NORM:
        centered = _binary(b, "sub", x, b.insert(ReduceOp("mean", x, last, keep_dim=True)).result)
    squares = _binary(b, "mul", centered, centered)
    variance = b.insert(ReduceOp("mean", squares, last, keep_dim=True)).result
    shifted = _binary(b, "add", variance, scalar(b, eps, element_of(x)))
    return _binary(b, "mul", centered, b.insert(ActivationOp("rsqrt", shifted)).result)


class NormalizationOp(RlxOp):
    """Base: operand 0 is the float tensor x [..., D], whose element type every operand has."""

    def width(self) -> int:
        """D, the extent that is normalised."""
        if not self.shape(0):
            raise ShapeError(f"{self.operand_name(0)} must have rank 1 or more, got {show(self.shape(0))}")
        return self.shape(0)[-1]

    def check_elements(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"{self.operand_name(0)} must have a float element type, got {self.element(0)}")
        self.check_same_element()

    def check_eps(self, eps: FloatAttr[Float64Type]) -> None:
        if not eps.value.data >= 0:
            self.fail(f"eps must not be negative, got {eps.value.data}")

    def check_vectors(self, first: int) -> None:
        """Operands from ``first`` on are [D]."""
        for index in range(first, len(self.operands)):
            self.check_shape(index, (self.width(),))

    def check_broadcasts(self, index: int) -> None:
        if not shapes.can_broadcast_to(self.shape(index), self.shape(0)):
            self.fail(
                f"{self.operand_name(index)} must broadcast to {show(self.shape(0))}, the shape of "
                f"{self.operand_name(0)}, got {show(self.shape(index))}"
            )

    def check_modulation(self, indices: Sequence[int]) -> None:
        """Operands ``indices`` broadcast to the shape of x and have its last extent."""
        width = (self.width(),)
        for index in indices:
            self.check_broadcasts(index)
            if not shapes.compatible(self.shape(index)[-1:], width):
                self.fail(
                    f"{self.operand_name(index)} must have last extent {show(width)} like {self.operand_name(0)}, "
                    f"got {show(self.shape(index))}"
                )


class AffineNormOp(NormalizationOp):
    """Base of the plain norms: n(x)·gamma + beta; gamma and beta are [D]."""

    KIND: ClassVar[NormKind]
    x = operand_def()
    gamma = operand_def()
    beta = operand_def()
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, x: Value, gamma: Value, beta: Value, *, eps: float, result_type: Attribute | None = None):
        super().__init__([x, gamma, beta], {"eps": eps}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        self.check_elements()
        self.check_vectors(1)
        self.check_eps(self.eps)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, gamma, beta = args
        return (normalized(self.KIND, x, self.eps.value.data) * gamma + beta,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, gamma, beta = (converted(b, o, wide_element(self.element(0))) for o in self.operands)
        scaled = _binary(b, "mul", _insert_normalized(b, self.KIND, x, self.eps.value.data), gamma)
        return self.as_results(converted(b, _binary(b, "add", scaled, beta), self.element(0)))


@irdl_op_definition
class LayerNormOp(AffineNormOp):
    """(x - mean)/√(variance + eps)·gamma + beta over the last axis; the variance is that of the population."""

    name = "rlx.layer_norm"
    KIND: ClassVar = NormKind.LAYER_NORM


@irdl_op_definition
class RmsNormOp(AffineNormOp):
    """x/√(mean(x²) + eps)·gamma + beta over the last axis.

    The result has the shape of x or, where its type says so and D is static, the leading axes flattened into one:
    [product of the leading extents, D] for an x of rank 3 or more.
    """

    name = "rlx.rms_norm"
    KIND: ClassVar = NormKind.RMS_NORM

    @property
    def flattens(self) -> bool:
        """Whether the result has the leading axes of x flattened."""
        return isinstance(self.result.type, TensorType) and rank_of(self.result) == 2 < rank_of(self.x)

    def infer_types(self) -> tuple[Attribute, ...]:
        if not self.flattens or self.width() == DYNAMIC:
            return (self.x.type,)
        return (self.like(0, shapes.reshape(self.shape(0), (-1, self.width()))),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (value,) = super().evaluate(*args)
        return (value.reshape(-1, value.shape[-1]) if self.flattens else value,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        if not self.flattens:
            return super().decompose(b)
        unflattened = b.insert(RmsNormOp(self.x, self.gamma, self.beta, eps=self.eps.value.data)).result
        return self.as_results(b.insert(ReshapeOp(unflattened, (-1, self.width()))).result)


class FusedResidualOp(NormalizationOp):
    """Base of norm(x + residual [+ bias]): residual has the shape of x; bias, gamma and beta are [D].

    The optional second result is the sum that is normalised, so that what uses it again needs no operation of
    its own.
    """

    NORM: ClassVar[type[AffineNormOp]]
    x = operand_def()
    residual = operand_def()
    bias = opt_operand_def()
    gamma = operand_def()
    beta = operand_def()
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()
    sum = opt_result_def()

    def __init__(
        self,
        x: Value,
        residual: Value,
        gamma: Value,
        beta: Value,
        *,
        eps: float,
        bias: Value | None = None,
        sum_result: bool = False,
        result_type: Attribute | None = None,
    ):
        """``sum_result`` asks for the second result; ``result_type`` is that of each result."""
        operands = [x, residual, *([] if bias is None else [bias]), gamma, beta]
        super().__init__(operands, {"eps": eps}, result_types=[result_type] * (2 if sum_result else 1))

    def infer_types(self) -> tuple[Attribute, ...]:
        return tuple(self.x.type for _ in self.results)

    def check(self) -> None:
        self.check_elements()
        self.check_shape(1, self.shape(0))
        self.check_vectors(2)
        self.check_eps(self.eps)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, residual, *bias, gamma, beta = args
        total = x + residual + bias[0] if bias else x + residual
        norm = normalized(self.NORM.KIND, total, self.eps.value.data) * gamma + beta
        return (norm,) if self.sum is None else (norm, total)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        total = _binary(b, "add", self.x, self.residual)
        if self.bias is not None:
            total = _binary(b, "add", total, self.bias)
        norm = b.insert(self.NORM(total, self.gamma, self.beta, eps=self.eps.value.data)).result
        return self.as_results(norm) if self.sum is None else self.as_results(norm, total)


@irdl_op_definition
class FusedResidualLnOp(FusedResidualOp):
    """layer_norm(x + residual [+ bias]), and optionally the sum; see :class:`FusedResidualOp`."""

    name = "rlx.fused_residual_ln"
    NORM: ClassVar = LayerNormOp


@irdl_op_definition
class FusedResidualRmsNormOp(FusedResidualOp):
    """rms_norm(x + residual [+ bias]), and optionally the sum; see :class:`FusedResidualOp`."""

    name = "rlx.fused_residual_rms_norm"
    NORM: ClassVar = RmsNormOp


_NORMS: dict[NormKind, type[AffineNormOp]] = {op.KIND: op for op in (LayerNormOp, RmsNormOp)}


@irdl_op_definition
class AdaLayerNormOp(NormalizationOp):
    """n(x)·(1 + scale) + shift with the affine-free ``norm`` n over the last axis.

    scale and shift broadcast to the shape of x and have its last extent.
    """

    name = "rlx.ada_layer_norm"
    KEYWORD: ClassVar = "norm"
    x = operand_def()
    scale = operand_def()
    shift = operand_def()
    norm = prop_def(NormKindAttr, default_value=NormKindAttr(NormKind.LAYER_NORM))
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(
        self,
        x: Value,
        scale: Value,
        shift: Value,
        *,
        eps: float,
        norm: NormKind | str = NormKind.LAYER_NORM,
        result_type: Attribute | None = None,
    ):
        super().__init__([x, scale, shift], {"norm": norm, "eps": eps}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        self.check_elements()
        self.check_modulation((1, 2))
        self.check_eps(self.eps)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, scale, shift = args
        # + 0 is the norm's beta, and makes +0.0 of -0.0.
        return ((normalized(self.norm.data, x, self.eps.value.data) + 0) * (1 + scale) + shift,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The norm with gamma 1 and beta 0; where D is dynamic, which no constant can be, its formula."""
        element, eps = self.element(0), self.eps.value.data
        if self.width() == DYNAMIC:
            wide = converted(b, self.x, wide_element(element))
            norm = converted(b, _insert_normalized(b, self.norm.data, wide, eps), element)
        else:
            vector = TensorType(element, (self.width(),))
            gamma, beta = (b.insert(ConstantOp.of(value, vector)) for value in (1, 0))
            norm = b.insert(_NORMS[self.norm.data](self.x, gamma, beta, eps=eps)).result
        factor = _binary(b, "add", self.scale, scalar(b, 1, element))
        return self.as_results(_binary(b, "add", _binary(b, "mul", norm, factor), self.shift))


@irdl_op_definition
class GatedResidualOp(NormalizationOp):
    """x + gate·y, for floats: y has the shape of x, and gate broadcasts to it."""

    name = "rlx.gated_residual"
    x = operand_def()
    y = operand_def()
    gate = operand_def()
    result = result_def()

    def __init__(self, x: Value, y: Value, gate: Value, *, result_type: Attribute | None = None):
        super().__init__([x, y, gate], result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        self.check_elements()
        self.check_shape(1, self.shape(0))
        self.check_broadcasts(2)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, y, gate = args
        return (x + gate * y,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        return self.as_results(_binary(b, "add", self.x, _binary(b, "mul", self.gate, self.y)))


class ChannelNormOp(NormalizationOp):
    """Base of the norms of x [N, C, spatial…]: n(x)·gamma + beta with gamma and beta [C]."""

    def check_channels(self, ranks: range, first: int) -> None:
        """x has one of ``ranks``; operands from ``first`` on are [C]."""
        shape = self.shape(0)
        if len(shape) not in ranks:
            wanted = f"rank {ranks[0]}" if len(ranks) == 1 else f"rank {ranks[0]} or more"
            self.fail(f"{self.operand_name(0)} must have {wanted}, got {show(shape)}")
        self.check_elements()
        for index in range(first, len(self.operands)):
            self.check_shape(index, shape[1:2])


def of_channels(vector: Array, rank: int) -> Array:
    """[C] shaped to broadcast against [N, C, spatial…] of ``rank`` axes."""
    return vector.reshape(-1, *[1] * (rank - 2))


def group_rows(x: Term, groups: int) -> Term:
    """``x`` [N, C, spatial…] as [N, groups, elements of a group]."""
    if x.shape.count(DYNAMIC) <= 1 and 0 not in x.shape:
        count = -1 if DYNAMIC in x.shape[1:] else shapes.product(x.shape[1:]) // groups
        return x.reshape([x.shape[0], groups, count])
    channels = DYNAMIC if x.shape[1] == DYNAMIC else x.shape[1] // groups
    return merge_axes(split_axis(x, 1, [groups, channels]), 2, x.rank - 1)


def from_group_rows(rows: Term, x: Term) -> Term:
    """What :func:`group_rows` makes of ``x``, back in the shape of ``x``."""
    if x.shape.count(DYNAMIC) <= 1 and 0 not in x.shape:
        return rows.reshape(x.shape)
    return split_like(merge_axes(rows, 1, 2), 1, x, range(1, x.rank))


def check_groups(op: RlxOp, groups: int) -> None:
    """Fail unless ``groups`` divides the channels of operand 0, axis 1."""
    channels = op.shape(0)[1]
    if groups < 1 or (channels != DYNAMIC and channels % groups):
        op.fail(f"num_groups {groups} must be positive and divide the {show([channels])} channels")


@irdl_op_definition
class GroupNormOp(ChannelNormOp):
    """(x - mean)/√(variance + eps)·gamma + beta, with the mean and variance of each sample and group of channels.

    x is [N, C, spatial…]; the ``num_groups`` groups are C/num_groups adjacent channels each.
    """

    name = "rlx.group_norm"
    x = operand_def()
    gamma = operand_def()
    beta = operand_def()
    num_groups = prop_def(IntegerAttr[I64])
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, x: Value, gamma: Value, beta: Value, *, num_groups: int, eps: float):
        super().__init__([x, gamma, beta], {"num_groups": num_groups, "eps": eps})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        self.check_channels(range(2, 64), 1)
        check_groups(self, self.num_groups.value.data)
        self.check_eps(self.eps)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, gamma, beta = args
        groups = self.num_groups.value.data
        rows = x.reshape(x.shape[0], groups, shapes.product(x.shape[1:]) // groups)
        norm = normalized(NormKind.LAYER_NORM, rows, self.eps.value.data).reshape(x.shape)
        return (norm * of_channels(gamma, x.ndim) + of_channels(beta, x.ndim),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """A norm of rows, one row a group."""
        x, gamma, beta = Term.widened(b, *self.operands)
        rows = group_rows(x, self.num_groups.value.data)
        normal = Term(b, _insert_normalized(b, NormKind.LAYER_NORM, rows.value, self.eps.value.data))
        norm = from_group_rows(normal, x)
        ones = [1] * (x.rank - 2)
        value = norm * gamma.reshape([*gamma.shape, *ones]) + beta.reshape([*beta.shape, *ones])
        return self.as_results(value.cast(self.element(0)).value)


@irdl_op_definition
class LayerNorm2dOp(ChannelNormOp):
    """(x - mean)/√(variance + eps)·gamma + beta of x [N, C, H, W], over the channels at each n, h, w."""

    name = "rlx.layer_norm_2d"
    x = operand_def()
    gamma = operand_def()
    beta = operand_def()
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, x: Value, gamma: Value, beta: Value, *, eps: float):
        super().__init__([x, gamma, beta], {"eps": eps})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        self.check_channels(range(4, 5), 1)
        self.check_eps(self.eps)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, gamma, beta = args
        mean = REDUCTIONS[ReduceKind.MEAN]
        centered = x - mean(x, (1,))
        norm = centered / np.sqrt(mean(centered * centered, (1,)) + self.eps.value.data)
        return (norm * of_channels(gamma, 4) + of_channels(beta, 4),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The layer norm of the channels as last axis."""
        last = b.insert(TransposeOp(self.x, [0, 2, 3, 1])).result
        norm = b.insert(LayerNormOp(last, self.gamma, self.beta, eps=self.eps.value.data)).result
        return self.as_results(b.insert(TransposeOp(norm, [0, 3, 1, 2])).result)


@irdl_op_definition
class BatchNormInferenceOp(NormalizationOp):
    """(x - mean)/√(var + eps)·gamma + beta with given statistics; x is [..., D], everything else [D]."""

    name = "rlx.batch_norm_inference"
    x = operand_def()
    gamma = operand_def()
    beta = operand_def()
    mean = operand_def()
    var = operand_def()
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, x: Value, gamma: Value, beta: Value, mean: Value, var: Value, *, eps: float):
        super().__init__([x, gamma, beta, mean, var], {"eps": eps})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        self.check_elements()
        self.check_vectors(1)
        self.check_eps(self.eps)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, gamma, beta, mean, var = args
        return ((x - mean) / np.sqrt(var + self.eps.value.data) * gamma + beta,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, gamma, beta, mean, var = Term.widened(b, *self.operands)
        factor = (var + self.eps.value.data).apply("rsqrt")
        return self.as_results(((x - mean) * factor * gamma + beta).cast(self.element(0)).value)
