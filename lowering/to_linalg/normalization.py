"""Normalisation over some axes and what is fused into it, computed in f32 or wider and rounded once.

The first linalg operation of each norm carries the barrier mark (see :data:`.tensors.BARRIER`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ActivationKind, NormKind, ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.arithmetic import Real, convert_float
from rlx_dialect.lowering.scalar import FLOAT_ACTIVATIONS, reals
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.reduction import count_as, divided_by_count, reduced, whole, without
from rlx_dialect.lowering.to_linalg.tensors import Operand, Read, Splat
from rlx_dialect.ops.normalization import (
    AdaLayerNormOp,
    AffineNormOp,
    FusedResidualLnOp,
    FusedResidualOp,
    FusedResidualRmsNormOp,
    GatedResidualOp,
    GroupNormOp,
    LayerNorm2dOp,
    LayerNormOp,
    RmsNormOp,
)
from rlx_dialect.xdsl_compat import Builder

Affine = Callable[[Real, Real, Real], Real]
"""What is made of the normalised element and an element of each of two operands."""


def normalized(
    c: Conversion,
    kind: NormKind,
    x: SSAValue,
    eps: float,
    operands: tuple[Operand, Operand],
    affine: Affine,
    element: Attribute,
    axes: Sequence[int] | None = None,
) -> SSAValue:
    """affine(n(x), operands…) over ``axes``, by default the last one, rounded to ``element``.

    The operands broadcast to x.
    """
    loops = c.extents(x)
    axes = [len(loops) - 1] if axes is None else axes
    rows, counted = without(len(loops), axes), [loops[axis] for axis in axes]
    x_element = element_of(x)
    wide = wide_element(x_element)
    means: list[Read] = []
    if kind is NormKind.LAYER_NORM:
        sums = reduced(c, ReduceKind.SUM, x_element, loops, [whole(c, x)], axes, barrier=True)
        means = [Read(divided_by_count(c, sums, counted), rows)]

    def centered(values: Sequence[Real]) -> Real:
        return values[0] - values[1] if means else values[0]

    def square(b: Builder, elements: list[SSAValue]) -> SSAValue:
        value = centered(reals(elements, b))
        return (value * value).value

    squares = reduced(c, ReduceKind.SUM, x_element, loops, [whole(c, x), *means], axes, square, barrier=not means)
    count = c.extent(c.symbols.of(counted))

    def factor(b: Builder, elements: list[SSAValue]) -> SSAValue:
        variance = Real(elements[0], b) / Real(count_as(wide, count, b), b)
        return FLOAT_ACTIVATIONS[ActivationKind.RSQRT](variance + eps).value

    factors = c.elementwise(c.extents(squares), [squares], wide, factor)

    def apply(b: Builder, elements: list[SSAValue]) -> SSAValue:
        *values, scale, first, second = reals(elements, b)
        return convert_float(affine(centered(values) * scale, first, second).value, element, b)

    return c.elementwise(loops, [x, *means, Read(factors, rows), *operands], element, apply)


def _scale_and_shift(norm: Real, gamma: Real, beta: Real) -> Real:
    return norm * gamma + beta


@lowers(LayerNormOp, RmsNormOp)
def norm(op: AffineNormOp, c: Conversion) -> SSAValue:
    x = c.value(op.x)
    operands = (c.operand(op.gamma), c.operand(op.beta))
    value = normalized(c, op.KIND, x, op.eps.value.data, operands, _scale_and_shift, element_of(x))
    extents = c.extents(value)
    if len(shape_of(op.result)) == len(extents):
        return value
    return c.reshape(value, [c.extent(c.symbols.of(extents[:-1])), extents[-1]])


@lowers(GroupNormOp)
def group_norm(op: GroupNormOp, c: Conversion) -> SSAValue:
    """Of [N, groups, channels of a group, spatial], over the last two."""
    x, groups = c.value(op.x), op.num_groups.value.data
    samples, channels, *spatial = extents = c.extents(x)
    size, width = c.quotient(channels, groups), c.extent(c.symbols.of(spatial))
    flat = c.split(c.reshape(x, [samples, channels, width]), 1, [groups, size])
    operands = (_of_groups(c, op.gamma, groups, size), _of_groups(c, op.beta, groups, size))
    eps, element = op.eps.value.data, element_of(x)
    value = normalized(c, NormKind.LAYER_NORM, flat, eps, operands, _scale_and_shift, element, [2, 3])
    return c.reshape(c.join(value, 1, channels), extents)


def _of_groups(c: Conversion, vector: SSAValue, groups: int, size: Extent) -> Operand:
    """[C] as what each group and each of its channels reads."""
    operand = c.operand(vector)
    return operand if isinstance(operand, Splat) else Read(c.split(operand, 0, [groups, size]), (1, 2))


@lowers(LayerNorm2dOp)
def layer_norm_2d(op: LayerNorm2dOp, c: Conversion) -> SSAValue:
    x, eps = c.value(op.x), op.eps.value.data
    found = [c.operand(o) for o in (op.gamma, op.beta)]
    gamma, beta = (o if isinstance(o, Splat) else Read(o, (1,)) for o in found)
    return normalized(c, NormKind.LAYER_NORM, x, eps, (gamma, beta), _scale_and_shift, element_of(x), [1])


@lowers(FusedResidualLnOp, FusedResidualRmsNormOp)
def fused_residual(op: FusedResidualOp, c: Conversion) -> list[SSAValue]:
    x = c.value(op.x)
    element = element_of(x)
    added = [op.residual, *([] if op.bias is None else [op.bias])]

    def add(b: Builder, elements: list[SSAValue]) -> SSAValue:
        total, *others = reals(elements, b)
        for other in others:
            total = total + other
        return total.value

    total = c.elementwise(c.extents(x), [x, *(c.operand(o) for o in added)], wide_element(element), add)
    operands = (c.operand(op.gamma), c.operand(op.beta))
    value = normalized(c, op.NORM.KIND, total, op.eps.value.data, operands, _scale_and_shift, element)
    return [value] if op.sum is None else [value, c.narrowed(total, element)]


@lowers(AdaLayerNormOp)
def ada_layer_norm(op: AdaLayerNormOp, c: Conversion) -> SSAValue:
    x = c.value(op.x)
    operands = (c.operand(op.scale), c.operand(op.shift))

    def modulate(norm: Real, scale: Real, shift: Real) -> Real:
        return norm * (1 + scale) + shift

    return normalized(c, op.norm.data, x, op.eps.value.data, operands, modulate, element_of(x))


@lowers(GatedResidualOp)
def gated_residual(op: GatedResidualOp, c: Conversion) -> SSAValue:
    x = c.value(op.x)
    element = element_of(x)

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        base, other, gate = reals(elements, b)
        return convert_float((base + gate * other).value, element, b)

    return c.elementwise(c.extents(x), [x, c.operand(op.y), c.operand(op.gate)], element, body)
