"""Convolution and pooling: loops over the result and the window, after padding; nearest resizing.

A convolution whose window is one element is the contraction over channels of what its stride leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from rlx_dialect.attributes import BinaryKind, ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.to_linalg import scalar
from rlx_dialect.lowering.to_linalg.arithmetic import NotLowered, convert_float
from rlx_dialect.lowering.to_linalg.contraction import contract
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.reduction import divided_by_count, reduced, start_value
from rlx_dialect.lowering.to_linalg.shape import padded
from rlx_dialect.lowering.to_linalg.tensors import Operand, Read
from rlx_dialect.ops.constant import dense_elements
from rlx_dialect.ops.convolution import (
    ConvolutionOp,
    ConvOp,
    FusedConvBiasActOp,
    PoolOp,
    ResizeNearest2xOp,
    Window,
)
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import Builder


def resize_nearest_2x(c: Conversion, x: SSAValue) -> SSAValue:
    """[N, C, H, W] read once for each of [N, C, H, 2, W, 2], seen as [N, C, 2H, 2W]."""
    n, channels, height, width = c.extents(x)
    loops: list[Extent] = [n, channels, height, 2, width, 2]
    doubled = c.elementwise(loops, [Read(x, (0, 1, 2, 4))], element_of(x), lambda _, elements: elements[0])
    twice = [c.extent(c.symbols.of([extent, 2])) for extent in (height, width)]
    return c.reshape(doubled, [n, channels, *twice])


@lowers(ResizeNearest2xOp)
def lower_resize(op: ResizeNearest2xOp, c: Conversion) -> SSAValue:
    return resize_nearest_2x(c, c.value(op.input))


def _result_extents(c: Conversion, window: Window, extents: Sequence[Extent], known: Sequence[int]) -> list[Extent]:
    """The spatial extents of the result for those of the padded operand."""
    result: list[Extent] = []
    for extent, span, stride, static in zip(extents, window.span, window.stride, known, strict=True):
        if static != DYNAMIC:
            result.append(static)
            continue
        last = c.op(arith.SubiOp(c.index(extent), c.index(span)))
        steps = last if stride == 1 else c.op(arith.DivUIOp(last, c.index(stride)))
        result.append(c.add_extents(steps, 1))
    return result


def _places(window: Window, first_output: int, first_kernel: int) -> list[AffineExpr]:
    """Where a window reads, for the loops over the result's and the window's axes that start at those numbers."""
    places: list[AffineExpr] = []
    for axis, (stride, dilation) in enumerate(zip(window.stride, window.dilation, strict=True)):
        output = AffineDimExpr(first_output + axis) * stride if stride != 1 else AffineDimExpr(first_output + axis)
        kernel = AffineDimExpr(first_kernel + axis) * dilation if dilation != 1 else AffineDimExpr(first_kernel + axis)
        places.append(output + kernel)
    return places


def _grouped(c: Conversion, value: SSAValue, axis: int, groups: int) -> SSAValue:
    """``value`` with an axis of channels split into groups and the channels of one group."""
    extents = list(c.extents(value))
    per_group = c.symbols.of([extents[axis]]).over(c.symbols.of([groups]))
    if per_group is None:
        raise NotLowered("groups of a dynamic number of channels")
    return c.reshape(value, [*extents[:axis], groups, c.extent(per_group), *extents[axis + 1 :]])


def convolved(op: ConvolutionOp, c: Conversion) -> SSAValue:
    """The convolution alone, [N, Co, spatial…]; the element type is the wide one."""
    x, weight = c.value(op.operands[0]), c.value(op.operands[1])
    window, groups, rank = op.window, op.groups.value.data, op.spatial_rank
    x = padded(c, x, [(0, 0), (0, 0), *window.padding], 0)
    extents = c.extents(x)
    spatial = _result_extents(c, window, extents[2:], shape_of(op.results[0])[2:])
    pointwise = all(k == 1 for k in window.kernel)
    if pointwise:
        for axis, (extent, stride) in enumerate(zip(spatial, window.stride, strict=True)):
            x = x if stride == 1 else c.narrow(x, 2 + axis, 0, extent, stride)
        weight = c.reshape(weight, c.extents(weight)[:2])
    grouped = groups != 1
    if grouped:
        x, weight = _grouped(c, x, 1, groups), _grouped(c, weight, 0, groups)
    # Loops: batch, [group,] result channel, result position…, input channel, window position….
    lead = [0, 1] if grouped else [0]
    channel = len(lead)
    outer, inner = channel + 1, channel + 1 + rank
    kernel = [] if pointwise else list(window.kernel)
    places = [*range(outer, inner)] if pointwise else _places(window, outer, inner + 1)
    per_group = c.extents(weight)[channel - 1]
    loops = [c.extents(x)[a] for a in lead] + [per_group, *spatial, c.extents(weight)[channel], *kernel]
    steps = range(inner + 1, inner + 1 + len(kernel))
    value = contract(
        c,
        loops,
        (x, [*lead, inner, *places]),
        (weight, [*lead[1:], channel, inner, *steps]),
        range(inner, len(loops)),
    )
    if not grouped:
        return value
    channels = c.extent(c.symbols.of([groups, per_group]))
    return c.reshape(value, [loops[0], channels, *spatial])


@lowers(ConvOp)
def conv(op: ConvOp, c: Conversion) -> SSAValue:
    return c.narrowed(convolved(op, c), element_of(c.value(op.input)))


@lowers(FusedConvBiasActOp)
def fused_conv_bias_act(op: FusedConvBiasActOp, c: Conversion) -> SSAValue:
    value = convolved(op, c)
    element = element_of(c.value(op.input))
    operands: list[Operand] = [value, Read(c.value(op.bias), (1,))]
    if op.residual is not None:
        operands.append(c.operand(op.residual))

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        total, *others = scalar.reals(elements, b)
        for other in others:
            total = total + other
        result = total.value if op.activation is None else scalar.activation(op.activation.data, total.value, b)
        return convert_float(result, element, b)

    return c.elementwise(c.extents(value), operands, element, body)


@lowers(PoolOp)
def pool(op: PoolOp, c: Conversion) -> SSAValue:
    x, kind, window, rank = c.value(op.input), op.kind.data, op.window, op.spatial_rank
    element = element_of(x)
    own = c.extents(x)
    x = padded(c, x, [(0, 0), (0, 0), *window.padding], start_value(kind, op.element(0)))
    extents = c.extents(x)
    spatial = _result_extents(c, window, extents[2:], shape_of(op.result)[2:])
    loops = [*extents[:2], *spatial, *window.kernel]
    # Nothing but this tensor, whose elements are not used, has the extents of the window.
    shape = Read(c.empty(window.kernel, element), tuple(range(2 + rank, 2 + 2 * rank)))
    read = Read(x, (0, 1, *_places(window, 2, 2 + rank)))
    value = reduced(c, kind, op.element(0), loops, [read, shape], range(2 + rank, 2 + 2 * rank))
    if kind is ReduceKind.MEAN:
        if op.count_include_pad is not None or not any(map(any, window.padding)):
            value = divided_by_count(c, value, window.kernel)
        else:
            value = _divided_by_covered(c, value, window, own[2:], spatial)
    return c.narrowed(value, element)


def _divided_by_covered(
    c: Conversion, sums: SSAValue, window: Window, extents: Sequence[Extent], spatial: Sequence[Extent]
) -> SSAValue:
    """Sums divided by the number of elements that are no padding: a product of one number an axis."""
    element = element_of(sums)
    counts: list[Operand] = []
    for axis, (extent, positions) in enumerate(zip(extents, spatial, strict=True)):
        if not isinstance(extent, int) or not isinstance(positions, int):
            raise NotLowered("the mean over a padded axis of dynamic extent")
        counts.append(Read(_covered(c, window, axis, extent, positions, element), (2 + axis,)))

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        total, count, *others = elements
        for other in others:
            count = scalar.binary(BinaryKind.MUL, count, other, b)
        return scalar.binary(BinaryKind.DIV, total, count, b)

    return c.elementwise(c.extents(sums), [sums, *counts], element, body)


def _covered(c: Conversion, window: Window, axis: int, extent: int, positions: int, element: Attribute) -> SSAValue:
    """A constant: how many elements of one axis the window covers at each position."""
    before, _ = window.padding[axis]
    starts = [position * window.stride[axis] - before for position in range(positions)]
    steps = [k * window.dilation[axis] for k in range(window.kernel[axis])]
    counts = [sum(0 <= start + step < extent for step in steps) for start in starts]
    type = TensorType(element, [positions])
    return c.op(arith.ConstantOp(dense_elements(np.array(counts), type)))
