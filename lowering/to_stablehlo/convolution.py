"""Convolution and pooling of [N, C, spatial…] tensors. f16 and bf16 are multiplied exactly and summed in f32."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind, ReduceKind
from rlx_dialect.base import element_of
from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.to_stablehlo.contraction import finished
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, declines, lowers
from rlx_dialect.lowering.to_stablehlo.dialect import ConvAttr
from rlx_dialect.lowering.to_stablehlo.elementwise import binary
from rlx_dialect.lowering.to_stablehlo.reduction import divided_by, windowed
from rlx_dialect.lowering.to_stablehlo.tensors import Extent, Tensors, ints, pairs
from rlx_dialect.ops.convolution import ConvolutionOp, ConvOp, FusedConvBiasActOp, PoolOp, Window
from rlx_dialect.ops.transposed_convolution import ConvTransposeOp, MaxPoolBackwardOp
from rlx_dialect.shapes import product


def _output(c: Tensors, window: Window, extents: Sequence[Extent]) -> list[Extent]:
    """The spatial extents of the result for those of the operand."""
    steps = zip(extents, window.span, window.stride, window.padding, strict=True)
    return [c.plus(c.over(c.plus(e, sum(pair) - span), stride), 1) for e, span, stride, pair in steps]


def _convolution(
    c: Tensors,
    x: SSAValue,
    weight: SSAValue,
    output: Sequence[Extent],
    groups: int,
    *,
    stride: Sequence[int],
    spread: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> SSAValue:
    """x [N, Ci, spatial…], elements ``spread`` apart, and weight [Co, Ci/groups, kernel…] give [N, Co, output…].

    The element type is the wide one.
    """
    axes = "".join(f", {axis}" for axis in range(len(output)))
    return c.made(
        "convolution",
        [x, weight],
        wide_element(element_of(x)),
        [c.extents(x)[0], c.extents(weight)[0], *output],
        window_strides=ints(stride),
        padding=pairs(padding),
        lhs_dilation=ints(spread),
        rhs_dilation=ints(dilation),
        dimension_numbers=ConvAttr.of(f"[b, f{axes}]x[o, i{axes}]->[b, f{axes}]"),
        feature_group_count=IntegerAttr(groups, i64),
        batch_group_count=IntegerAttr(1, i64),
        precision_config=c.precision,
    )


def convolved(op: ConvolutionOp, c: Tensors) -> SSAValue:
    """The convolution alone; the element type is the wide one."""
    x, weight = op.operands[:2]
    window = op.window
    return _convolution(
        c,
        x,
        weight,
        _output(c, window, c.extents(x)[2:]),
        op.groups.value.data,
        stride=window.stride,
        spread=[1] * op.spatial_rank,
        dilation=window.dilation,
        padding=window.padding,
    )


@lowers(ConvOp)
def conv(op: ConvOp, c: Conversion) -> SSAValue:
    return c.convert(convolved(op, c), op.element(0))


@lowers(FusedConvBiasActOp)
def fused_conv_bias_act(op: FusedConvBiasActOp, c: Conversion) -> SSAValue:
    value = convolved(op, c)
    bias = c.broadcast(c.widened(op.bias), [1], c.extents(value))
    value = binary(c, BinaryKind.ADD, value, bias)
    if op.residual is not None:
        value = binary(c, BinaryKind.ADD, value, c.widened(op.residual))
    return finished(c, value, None if op.activation is None else op.activation.data, op.element(0))


@lowers(ConvTransposeOp)
def conv_transpose(op: ConvTransposeOp, c: Conversion) -> SSAValue:
    """Elements as far apart as the stride says, under the mirrored weight with its channels swapped."""
    window, groups, own = op.window, op.groups.value.data, c.extents(op.input)
    ins, outs, *kernel = c.extents(op.weight)
    spatial = range(3, 3 + len(kernel))
    split = c.reshape(op.weight, [groups, c.over(ins, groups), outs, *kernel])
    turned = c.reverse(c.transpose(split, [0, 2, 1, *spatial]), list(spatial))
    weight = c.reshape(turned, [c.times(outs, groups), c.over(ins, groups), *kernel])
    places = list(zip(window.span, window.padding, op.extra, window.stride, own[2:], strict=True))
    padding = [(span - 1 - pair[0], span - 1 - pair[1] + extra) for span, pair, extra, *_ in places]
    output = [
        c.plus(c.times(c.minus(extent, 1), stride), span - sum(pair) + extra)
        for span, pair, extra, stride, extent in places
    ]
    ones = [1] * len(kernel)
    value = _convolution(
        c,
        op.input,
        weight,
        output,
        groups,
        stride=ones,
        spread=window.stride,
        dilation=window.dilation,
        padding=padding,
    )
    return c.convert(value, op.element(0))


@lowers(PoolOp)
def pool(op: PoolOp, c: Conversion) -> SSAValue:
    kind, window = op.kind.data, op.window
    x = c.widened(op.input)
    own = c.extents(x)
    extents = [*own[:2], *_output(c, window, own[2:])]
    sizes = ([1, 1, *window.kernel], extents, [1, 1, *window.stride], [1, 1, *window.dilation])
    value = windowed(c, kind, x, *sizes, [(0, 0), (0, 0), *window.padding])
    if kind is ReduceKind.MEAN:
        if op.count_include_pad is not None or not any(map(any, window.padding)):
            value = divided_by(c, value, product(window.kernel))
        else:
            ones = c.like(x, 1)
            counts = windowed(c, ReduceKind.SUM, ones, *sizes, [(0, 0), (0, 0), *window.padding])
            value = c.same("divide", value, counts)
    return c.convert(value, op.element(0))


@declines(MaxPoolBackwardOp)
def with_gaps(op: MaxPoolBackwardOp) -> str | None:
    return "select_and_scatter has no dilation" if any(d != 1 for d in op.window.dilation) else None


@lowers(MaxPoolBackwardOp)
def max_pool_backward(op: MaxPoolBackwardOp, c: Conversion) -> SSAValue:
    """The first of equal elements stays selected, and so does a NaN."""
    x, dy, window = c.widened(op.x), c.widened(op.dy), op.window
    element = element_of(x)
    scalar = TensorType(element, [])
    select = c.body([scalar, scalar], lambda first, other: c.same("or", c.compare("GE", first, other), c.is_nan(first)))
    value = c.made(
        "select_and_scatter",
        [x, dy, c.scalar(0, element)],
        element,
        c.extents(x),
        [select, c.combiner(BinaryKind.ADD, element)],
        window_dimensions=ints([1, 1, *window.kernel]),
        window_strides=ints([1, 1, *window.stride]),
        padding=pairs([(0, 0), (0, 0), *window.padding]),
    )
    return c.convert(value, op.element(0))
