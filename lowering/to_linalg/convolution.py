"""Convolution and pooling: loops over the result and the window, after padding; nearest resizing.

A convolution is computed with channels last (IREE's code for it is up to five times faster); the transposes at
its ends meet those of its neighbours. One whose window is a single element is the contraction over channels of
what its stride leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IndexType, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from rlx_dialect.attributes import BinaryKind, ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering import scalar
from rlx_dialect.lowering.arithmetic import constant, convert_float
from rlx_dialect.lowering.to_linalg.contraction import contract
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.reduction import divided_by_count, reduced
from rlx_dialect.lowering.to_linalg.shape import padded
from rlx_dialect.lowering.to_linalg.tensors import Operand, Read, counters
from rlx_dialect.ops.constant import dense_elements
from rlx_dialect.ops.convolution import (
    ConvolutionOp,
    ConvOp,
    FusedConvBiasActOp,
    PoolOp,
    ResizeNearest2xOp,
    Window,
)
from rlx_dialect.ops.reduction import COMBINES
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


def _reached(c: Conversion, x: SSAValue, window: Window, first: int, output: Sequence[int]) -> SSAValue:
    """The padded operand, whose spatial axes start at ``first``, without what one window alone leaves over.

    IREE drops loops of one round, and takes such an axis to be as long as the window.
    """
    extents = c.extents(x)
    kept = list(extents)
    for axis, (span, positions) in enumerate(zip(window.span, output, strict=True), first):
        if positions == 1:
            kept[axis] = span
    return x if kept == list(extents) else c.slice(x, [0] * len(kept), kept)


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


def convolved(op: ConvolutionOp, c: Conversion) -> SSAValue:
    """The convolution alone, [N, Co, spatial…]; the element type is the wide one."""
    x, weight = c.value(op.operands[0]), c.value(op.operands[1])
    window, groups = op.window, op.groups.value.data
    output = shape_of(op.results[0])[2:]
    if groups == 1 and all(k == 1 for k in window.kernel):
        return _pointwise(c, x, weight, window, output)
    rank = op.spatial_rank
    channels_last = c.transpose(x, [0, *range(2, 2 + rank), 1])
    value = _channels_last(c, channels_last, weight, window, groups, output)
    return c.transpose(value, [0, 1 + rank, *range(1, 1 + rank)])


def _pointwise(c: Conversion, x: SSAValue, weight: SSAValue, window: Window, output: Sequence[int]) -> SSAValue:
    """Σ over channels of what the stride leaves of [N, C, spatial…]."""
    rank = len(output)
    x = padded(c, x, [(0, 0), (0, 0), *window.padding], 0)
    batch, channels, *extents = c.extents(x)
    spatial = _result_extents(c, window, extents, output)
    if any(stride != 1 for stride in window.stride):
        x = c.slice(x, [0] * (2 + rank), [batch, channels, *spatial], [1, 1, *window.stride])
    weight = c.reshape(weight, c.extents(weight)[:2])
    loops = [batch, c.extents(weight)[0], *spatial, channels]
    channel = 2 + rank
    return contract(c, loops, (x, [0, channel, *range(2, channel)]), (weight, [1, channel]), [channel])


def _channels_last(
    c: Conversion, x: SSAValue, weight: SSAValue, window: Window, groups: int, output: Sequence[int]
) -> SSAValue:
    """Channels last in the operand x and the result: the innermost loop is then over adjacent elements."""
    rank = len(output)
    x = _reached(c, padded(c, x, [(0, 0), *window.padding, (0, 0)], 0), window, 1, output)
    batch, *extents, channels = c.extents(x)
    spatial = _result_extents(c, window, extents, output)
    inputs, outputs = (c.quotient(e, groups) for e in (channels, c.extents(weight)[0]))
    # The channels are from here on whole groups, also where only run time tells their number.
    x = c.agreed(x, [*c.extents(x)[:-1], c.extent(c.symbols.of([groups, inputs]))])
    weight = c.agreed(weight, [c.extent(c.symbols.of([groups, outputs])), inputs, *window.kernel])
    loops: list[Extent] = [batch, *spatial]

    def loop(extent: Extent) -> list[int]:
        """The number of one more loop; none for an extent of 1, so that a depthwise convolution is one."""
        if extent == 1:
            return []
        loops.append(extent)
        return [len(loops) - 1]

    group, result = loop(groups), loop(outputs)
    kernel = range(len(loops), len(loops) + rank)
    loops += window.kernel
    channel = loop(inputs)
    many = [e for e in (groups, inputs) if e != 1]
    x = c.reshape(x, [*c.extents(x)[:-1], *many])
    weight = c.reshape(weight, [groups, outputs, inputs, *window.kernel])
    weight = c.transpose(weight, [*range(3, 3 + rank), 0, 2, 1])
    weight = c.reshape(weight, [*window.kernel, *many, *([] if outputs == 1 else [outputs])])
    value = contract(
        c,
        loops,
        (x, [0, *_places(window, 1, kernel.start), *group, *channel]),
        (weight, [*kernel, *group, *channel, *result]),
        [*kernel, *channel],
    )
    return c.reshape(value, [batch, *spatial, c.extent(c.symbols.of([groups, outputs]))])


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
    x = padded(c, x, [(0, 0), (0, 0), *window.padding], scalar.neutral(COMBINES[kind], op.element(0)))
    output = shape_of(op.result)[2:]
    x = _reached(c, x, window, 2, output)
    extents = c.extents(x)
    spatial = _result_extents(c, window, extents[2:], output)
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
        covered = (
            _covered(c, window, axis, extent, positions, element)
            if isinstance(extent, int) and isinstance(positions, int)
            else _covered_dynamically(c, window, axis, extent, positions, element)
        )
        counts.append(Read(covered, (2 + axis,)))

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


def _covered_dynamically(
    c: Conversion, window: Window, axis: int, extent: Extent, positions: Extent, element: Attribute
) -> SSAValue:
    """The same for an extent that only run time tells."""
    before, _ = window.padding[axis]
    length = c.index(extent)

    def body(b: Builder, _: list[SSAValue]) -> SSAValue:
        def number(value: int) -> SSAValue:
            return constant(value, IndexType(), b)

        (position,) = counters(b, 1)
        start = b.insert(arith.MuliOp(position, number(window.stride[axis]))).result
        count = constant(0, i64, b)
        for step in range(window.kernel[axis]):
            offset = step * window.dilation[axis] - before
            place = b.insert(arith.AddiOp(start, number(offset))).result
            # Read as unsigned, a negative place is beyond every extent.
            inside = b.insert(arith.CmpiOp(place, length, "ult")).result
            count = b.insert(arith.AddiOp(count, b.insert(arith.ExtUIOp(inside, i64)).result)).result
        assert isinstance(element, AnyFloat)
        return b.insert(arith.SIToFPOp(count, element)).result

    return c.generic([positions], [], element, body)
