"""Gradients of normalisations and of gated residuals.

f16 and bf16 are computed in float32 and rounded once, by the decompositions too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import NormKind, NormKindAttr, ReduceKind
from rlx_dialect.base import Value
from rlx_dialect.dtypes import Array
from rlx_dialect.ops.extents import along, extent_of, filled, positions
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import ScatterAddOp
from rlx_dialect.ops.normalization import (
    ChannelNormOp,
    NormalizationOp,
    check_groups,
    from_group_rows,
    group_rows,
    normalized,
    of_channels,
)
from rlx_dialect.ops.reduction import REDUCTIONS
from rlx_dialect.ops.shape import ConcatOp
from rlx_dialect.shapes import DYNAMIC, Shape
from rlx_dialect.xdsl_compat import Builder

_MEAN, _SUM = REDUCTIONS[ReduceKind.MEAN], REDUCTIONS[ReduceKind.SUM]


def _leading(rank: int) -> tuple[int, ...]:
    return tuple(range(rank - 1))


def _summed(x: Array, axes: tuple[int, ...]) -> Array:
    return _SUM(x, axes).squeeze(axes)


def input_gradient(kind: NormKind, x: Array, g: Array, eps: float) -> Array:
    """The gradient of ``normalized(kind, x, eps)`` for the gradient ``g`` of the result, over the last axis."""
    last = (x.ndim - 1,)
    centered = x - _MEAN(x, last) if kind is NormKind.LAYER_NORM else x
    variance = _MEAN(centered * centered, last) + eps
    direct = g - _MEAN(g, last) if kind is NormKind.LAYER_NORM else g
    return direct / np.sqrt(variance) - centered * _MEAN(g * centered, last) / (variance * np.sqrt(variance))


def _norm_and_factor(kind: NormKind, x: Term, eps: float) -> tuple[Term, Term]:
    """The normalised ``x`` and 1/√(variance + eps)."""
    last = [x.rank - 1]
    centered = x - x.mean(last) if kind is NormKind.LAYER_NORM else x
    factor = ((centered * centered).mean(last) + eps).apply("rsqrt")
    return centered * factor, factor


def _input_gradient(kind: NormKind, x: Term, g: Term, eps: float) -> Term:
    """:func:`input_gradient` as operations."""
    last = [x.rank - 1]
    norm, factor = _norm_and_factor(kind, x, eps)
    direct = g - g.mean(last) if kind is NormKind.LAYER_NORM else g
    return (direct - norm * (g * norm).mean(last)) * factor


class NormBackwardOp(NormalizationOp):
    """Base: operand 0 is x [..., D], the last operand dy has its shape, those between are [D]."""

    KIND: ClassVar[NormKind]
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, *operands: Value, eps: float):
        super().__init__(operands, {"eps": eps})

    def check(self) -> None:
        self.check_elements()
        last = len(self.operands) - 1
        for index in range(1, last):
            self.check_shape(index, (self.width(),))
        self.check_shape(last, self.shape(0))
        self.check_eps(self.eps)


class NormBackwardInputOp(NormBackwardOp):
    """Base of the gradients with respect to x; operand 1 is gamma."""

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.operands[0].type,)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (input_gradient(self.KIND, args[0], args[-1] * args[1], self.eps.value.data),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, gamma, dy = Term.widened(b, self.operands[0], self.operands[1], self.operands[-1])
        value = _input_gradient(self.KIND, x, dy * gamma, self.eps.value.data)
        return self.as_results(value.cast(self.element(0)).value)


class NormBackwardGammaOp(NormBackwardOp):
    """Base of the gradients with respect to gamma: Σ dy·n(x) over all axes but the last."""

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, (self.width(),)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        norm = normalized(self.KIND, args[0], self.eps.value.data)
        return (_summed(args[-1] * norm, _leading(norm.ndim)),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, dy = Term.widened(b, self.operands[0], self.operands[-1])
        norm, _ = _norm_and_factor(self.KIND, x, self.eps.value.data)
        total = (dy * norm).reduce("sum", _leading(x.rank), keep_dim=False)
        return self.as_results(total.cast(self.element(0)).value)


@irdl_op_definition
class LayerNormBackwardInputOp(NormBackwardInputOp):
    """The gradient of rlx.layer_norm with respect to x [..., D]."""

    name = "rlx.layer_norm_backward_input"
    KIND: ClassVar = NormKind.LAYER_NORM
    x = operand_def()
    gamma = operand_def()
    dy = operand_def()


@irdl_op_definition
class LayerNormBackwardGammaOp(NormBackwardGammaOp):
    """The gradient of rlx.layer_norm with respect to gamma [D]."""

    name = "rlx.layer_norm_backward_gamma"
    KIND: ClassVar = NormKind.LAYER_NORM
    x = operand_def()
    dy = operand_def()


@irdl_op_definition
class RmsNormBackwardInputOp(NormBackwardInputOp):
    """The gradient of rlx.rms_norm with respect to x [..., D]; beta has no part in it."""

    name = "rlx.rms_norm_backward_input"
    KIND: ClassVar = NormKind.RMS_NORM
    x = operand_def()
    gamma = operand_def()
    beta = operand_def()
    dy = operand_def()


@irdl_op_definition
class RmsNormBackwardGammaOp(NormBackwardGammaOp):
    """The gradient of rlx.rms_norm with respect to gamma [D]; gamma and beta have no part in it."""

    name = "rlx.rms_norm_backward_gamma"
    KIND: ClassVar = NormKind.RMS_NORM
    x = operand_def()
    gamma = operand_def()
    beta = operand_def()
    dy = operand_def()


@irdl_op_definition
class RmsNormBackwardBetaOp(NormBackwardOp):
    """The gradient of rlx.rms_norm with respect to beta [D]: Σ dy over all axes but the last."""

    name = "rlx.rms_norm_backward_beta"
    KIND: ClassVar = NormKind.RMS_NORM
    x = operand_def()
    gamma = operand_def()
    beta = operand_def()
    dy = operand_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, (self.width(),)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (_summed(args[-1], _leading(args[-1].ndim)),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        (dy,) = Term.widened(b, self.dy)
        return self.as_results(dy.reduce("sum", _leading(dy.rank), keep_dim=False).cast(self.element(0)).value)


class GroupNormBackwardOp(ChannelNormOp):
    """Base: operand 0 is x [N, C, spatial…], or dy where x has no part; dy, the last operand, has its shape."""

    num_groups = prop_def(IntegerAttr[I64])
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, *operands: Value, num_groups: int, eps: float):
        super().__init__(operands, {"num_groups": num_groups, "eps": eps})

    def check(self) -> None:
        last = len(self.operands) - 1
        self.check_channels(range(2, 64), len(self.operands))
        for index in range(1, last):
            self.check_shape(index, self.shape(0)[1:2])
        self.check_shape(last, self.shape(0))
        check_groups(self, self.num_groups.value.data)
        self.check_eps(self.eps)

    def rows(self, x: Array) -> Array:
        """[N, groups, elements of a group]."""
        groups = self.num_groups.value.data
        return x.reshape(x.shape[0], groups, shapes.product(x.shape[1:]) // groups)

    def channel_sum(self, x: Term) -> tuple[SSAValue, ...]:
        """The sum over all axes but that of the channels, as result."""
        axes = [0, *range(2, x.rank)]
        return self.as_results(x.reduce("sum", axes, keep_dim=False).cast(self.element(0)).value)


@irdl_op_definition
class GroupNormBackwardInputOp(GroupNormBackwardOp):
    """The gradient of rlx.group_norm with respect to x [N, C, spatial…]."""

    name = "rlx.group_norm_backward_input"
    x = operand_def()
    gamma = operand_def()
    dy = operand_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, gamma, dy = args
        g = self.rows(dy * of_channels(gamma, x.ndim))
        return (input_gradient(NormKind.LAYER_NORM, self.rows(x), g, self.eps.value.data).reshape(x.shape),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, gamma, dy = Term.widened(b, *self.operands)
        g = dy * gamma.reshape([*gamma.shape, *[1] * (x.rank - 2)])
        rows, g_rows = (group_rows(term, self.num_groups.value.data) for term in (x, g))
        value = _input_gradient(NormKind.LAYER_NORM, rows, g_rows, self.eps.value.data)
        return self.as_results(from_group_rows(value, x).cast(self.element(0)).value)


@irdl_op_definition
class GroupNormBackwardGammaOp(GroupNormBackwardOp):
    """The gradient of rlx.group_norm with respect to gamma [C]."""

    name = "rlx.group_norm_backward_gamma"
    x = operand_def()
    dy = operand_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, self.shape(0)[1:2]),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, dy = args
        norm = normalized(NormKind.LAYER_NORM, self.rows(x), self.eps.value.data).reshape(x.shape)
        return (_summed(dy * norm, (0, *range(2, x.ndim))),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, dy = Term.widened(b, *self.operands)
        rows = group_rows(x, self.num_groups.value.data)
        norm, _ = _norm_and_factor(NormKind.LAYER_NORM, rows, self.eps.value.data)
        return self.channel_sum(dy * from_group_rows(norm, x))


@irdl_op_definition
class GroupNormBackwardBetaOp(GroupNormBackwardOp):
    """The gradient of rlx.group_norm with respect to beta [C]: the sum of dy over all other axes."""

    name = "rlx.group_norm_backward_beta"
    dy = operand_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, self.shape(0)[1:2]),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (_summed(args[0], (0, *range(2, args[0].ndim))),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        return self.channel_sum(Term.widened(b, self.dy)[0])


class PackedGradientOp(NormalizationOp):
    """Base: gradients of several operands one after the other, each flattened: a tensor of rank 1."""

    def packed_type(self, *indices: int) -> Attribute:
        """The type for the gradients of the operands ``indices``."""
        counts = [shapes.element_count(self.shape(index)) for index in indices]
        return self.like(0, (DYNAMIC if None in counts else sum(c for c in counts if c is not None),))

    def packed(self, parts: Sequence[Term]) -> tuple[SSAValue, ...]:
        flat = [part.reshape([-1]).cast(self.element(0)).value for part in parts]
        return self.as_results(parts[0].insert(ConcatOp(flat, 0)).value)

    def unbroadcast(self, x: Term, index: int) -> Term:
        """``x``, of the shape of operand 0, summed along the axes in which operand ``index`` broadcasts."""
        shape, whole = self.shape(index), self.shape(0)
        padded = [1] * (len(whole) - len(shape)) + list(shape)
        if DYNAMIC in padded:
            return self._scattered(x, Term(x.b, self.operands[index]))
        axes = [axis for axis, extent in enumerate(padded) if extent == 1 != whole[axis]]
        return x.reduce("sum", axes) if axes else x

    def _scattered(self, x: Term, operand: Term) -> Term:
        """:meth:`unbroadcast`, flat, where it is unknown which axes broadcast: each element goes where it came from."""
        place = filled(x, 0, i32)
        stride: Term | None = None
        for back in range(1, operand.rank + 1):
            axis, count = x.rank - back, extent_of(operand, operand.rank - back)
            own = along(positions(x, axis), axis, x.rank).binary("min", count - 1)
            place = place + (own if stride is None else own * stride)
            stride = count if stride is None else stride * count
        flat = filled(operand, 0.0, x.element).reshape([-1])
        targets, updates = (term.reshape([-1]).value for term in (place, x))
        return flat.insert(ScatterAddOp(flat.value, targets, updates))


def _unbroadcast(x: Array, shape: Shape) -> Array:
    """``x`` summed to ``shape``, which broadcasts to that of ``x``."""
    padded = (1,) * (x.ndim - len(shape)) + shape
    return _SUM(x, tuple(axis for axis, extent in enumerate(padded) if extent == 1)).reshape(shape)


def _flat(*parts: Array) -> tuple[Array, ...]:
    return (np.concatenate([part.reshape(-1) for part in parts]),)


@irdl_op_definition
class AdaLayerNormBackwardOp(PackedGradientOp):
    """The gradients of rlx.ada_layer_norm with respect to x, scale and shift, flattened one after the other.

    x [..., D], scale and shift as in the norm, dy as x.
    """

    name = "rlx.ada_layer_norm_backward"
    KEYWORD: ClassVar = "norm"
    x = operand_def()
    scale = operand_def()
    shift = operand_def()
    dy = operand_def()
    norm = prop_def(NormKindAttr, default_value=NormKindAttr(NormKind.LAYER_NORM))
    eps = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(
        self,
        x: Value,
        scale: Value,
        shift: Value,
        dy: Value,
        *,
        eps: float,
        norm: NormKind | str = NormKind.LAYER_NORM,
    ):
        super().__init__([x, scale, shift, dy], {"norm": norm, "eps": eps})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.packed_type(0, 1, 2),)

    def check(self) -> None:
        self.check_elements()
        self.check_modulation((1, 2))
        self.check_shape(3, self.shape(0))
        self.check_eps(self.eps)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, scale, shift, dy = args
        kind, eps = self.norm.data, self.eps.value.data
        dx = input_gradient(kind, x, dy * (1 + scale), eps)
        return _flat(dx, _unbroadcast(dy * normalized(kind, x, eps), scale.shape), _unbroadcast(dy, shift.shape))

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, scale, dy = Term.widened(b, self.x, self.scale, self.dy)
        kind, eps = self.norm.data, self.eps.value.data
        dx = _input_gradient(kind, x, dy * (scale + 1.0), eps)
        norm, _ = _norm_and_factor(kind, x, eps)
        return self.packed([dx, self.unbroadcast(dy * norm, 1), self.unbroadcast(dy, 2)])


@irdl_op_definition
class GatedResidualBackwardOp(PackedGradientOp):
    """The gradients of rlx.gated_residual with respect to x, y and gate, flattened one after the other."""

    name = "rlx.gated_residual_backward"
    x = operand_def()
    y = operand_def()
    gate = operand_def()
    dy = operand_def()
    result = result_def()

    def __init__(self, x: Value, y: Value, gate: Value, dy: Value):
        super().__init__([x, y, gate, dy])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.packed_type(0, 1, 2),)

    def check(self) -> None:
        self.check_elements()
        self.check_shape(1, self.shape(0))
        self.check_broadcasts(2)
        self.check_shape(3, self.shape(0))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        _, y, gate, dy = args
        return _flat(dy, dy * gate, _unbroadcast(dy * y, gate.shape))

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        y, gate, dy = Term.widened(b, self.y, self.gate, self.dy)
        return self.packed([dy, dy * gate, self.unbroadcast(dy * y, 2)])
