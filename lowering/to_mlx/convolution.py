"""Convolution, pooling and resizing: MLX convolves channels-last; helpers turn the axes around."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_bool, is_float, storage_dtype
from rlx_dialect.lowering.to_mlx.conversion import declines, lowers
from rlx_dialect.lowering.to_mlx.elementwise import activated
from rlx_dialect.lowering.to_mlx.normalization import of_channels
from rlx_dialect.lowering.to_mlx.reduction import FUNCTIONS
from rlx_dialect.lowering.to_mlx.text import dtype, number, tuple_text
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64
from rlx_dialect.ops.convolution import (
    ConvolutionOp,
    ConvOp,
    FusedConvBiasActOp,
    Interpolate3dOp,
    PoolOp,
    ResizeNearest2xOp,
    Window,
    WindowOp,
)
from rlx_dialect.ops.reduction import highest, lowest
from rlx_dialect.ops.transposed_convolution import ConvBackwardWeightOp, ConvTransposeOp, Im2ColOp, MaxPoolBackwardOp
from rlx_dialect.shapes import DYNAMIC, element_count, product


def _places(window: Window, padding: tuple[tuple[int, int], ...] | None = None) -> list[str]:
    """Stride, padding and dilation as arguments of the helpers."""
    return [tuple_text(window.stride), tuple_text(padding or window.padding), tuple_text(window.dilation)]


def _helper(x: SSAValue, weight: SSAValue) -> str:
    # MLX stops the process where there are no channels, and convolves no integers and no float64.
    fits = is_float(element_of(x)) and not is_f64(x) and 0 not in (*shape_of(x), *shape_of(weight))
    return "conv" if fits else "window_conv"


def convolved(w: Writer, op: ConvolutionOp, x: SSAValue, weight: SSAValue) -> str:
    return w.call(_helper(x, weight), w.value(x), w.value(weight), *_places(op.window), op.groups.value.data)


@lowers(ConvOp)
def conv(op: ConvOp, w: Writer) -> str:
    return convolved(w, op, op.input, op.weight)


@lowers(FusedConvBiasActOp)
def fused_conv_bias_act(op: FusedConvBiasActOp, w: Writer) -> str:
    value = f"{convolved(w, op, op.input, op.weight)} + {of_channels(w.value(op.bias), len(op.shape(0)))}"
    if op.residual is not None:
        value = f"{value} + {w.value(op.residual)}"
    if op.activation is None:
        return value
    element = op.element(0)
    y = w.widened(w.let("conv_bias", value), element)
    return w.narrowed(activated(w, op.activation.data, y, f64=is_f64(op.input)), element)


def windows(w: Writer, op: WindowOp, x: str, fill: str) -> str:
    """[N, C, output…, kernel…]."""
    return w.call("windows", x, tuple_text(op.window.kernel), *_places(op.window), fill)


_FILLS: Mapping[ReduceKind, int] = {ReduceKind.SUM: 0, ReduceKind.MEAN: 0, ReduceKind.PROD: 1}


@lowers(PoolOp)
def pool(op: PoolOp, w: Writer) -> str:
    kind, element, rank = op.kind.data, op.element(0), op.spatial_rank
    axes = tuple_text(range(2 + rank, 2 + 2 * rank))
    if kind in _FILLS:
        fill = str(_FILLS[kind])
    else:
        of = storage_dtype(element)
        fill = number(lowest(of) if kind is ReduceKind.MAX else highest(of), element)
    covered = windows(w, op, w.wide(op.input), fill)
    if is_bool(element):
        return f"{'mx.any' if kind is ReduceKind.MAX else 'mx.all'}({covered}, axis={axes})"
    if kind is not ReduceKind.MEAN:
        value = w.narrowed(f"{FUNCTIONS[kind]}({covered}, axis={axes})", element)
        short = isinstance(element, IntegerType) and element.width.data < 32
        return f"{value}.astype({dtype(element)})" if short else value
    if op.count_include_pad is not None or not any(map(any, op.window.padding)):
        return w.narrowed(f"mx.mean({covered}, axis={axes})", element)
    total = w.let("total", f"mx.sum({covered}, axis={axes})")
    kind_of = "mx.float64" if is_f64(op.input) else "mx.float32"
    ones = f"mx.ones({tuple_text(['1', '1', *w.extents(op.input)[2:]])}, {kind_of})"
    count = w.let("count", f"mx.sum({windows(w, op, ones, '0')}, axis={axes})")
    return w.narrowed(f"{total} / {count}", element)


def resized_2x(x: str) -> str:
    """H and W of an NCHW array doubled."""
    return f"mx.repeat(mx.repeat({x}, 2, axis=2), 2, axis=3)"


@lowers(ResizeNearest2xOp)
def resize_nearest_2x(op: ResizeNearest2xOp, w: Writer) -> str:
    return resized_2x(w.value(op.input))


@lowers(Interpolate3dOp)
def interpolate3d(op: Interpolate3dOp, w: Writer) -> str:
    x = w.value(op.input)
    for axis, (have, want) in enumerate(zip(op.shape(0)[2:], op.size.get_values(), strict=True), 2):
        if have != want:
            extent = w.extent(op.input, axis)
            last = f"{extent} - 1" if have == DYNAMIC else str(have - 1)
            positions = f"[min(i * {extent} // {want}, {last}) for i in range({want})]"
            x = w.let("resized", w.call("taken", x, axis, positions))
    return x


@lowers(ConvTransposeOp)
def conv_transpose(op: ConvTransposeOp, w: Writer) -> str:
    window = op.window
    reach = [span - 1 for span in window.span]
    padding = tuple(
        (r - before, r - after + extra)
        for r, (before, after), extra in zip(reach, window.padding, op.extra, strict=True)
    )
    x, weight = w.value(op.input), w.value(op.weight)
    return w.call("conv_transpose", x, weight, *_places(window, padding), op.groups.value.data)


@declines(ConvTransposeOp)
def _conv_transpose_of_f64(op: ConvTransposeOp) -> str | None:
    return None if _helper(op.input, op.weight) == "conv" else "MLX convolves no float64, and nothing without elements"


@lowers(ConvBackwardWeightOp)
def conv_backward_weight(op: ConvBackwardWeightOp, w: Writer) -> str:
    convolve = w.printed.helper(_helper(op.x, op.dy))
    kernel = tuple_text(op.window.kernel)
    arguments = [w.value(op.x), w.value(op.dy), kernel, *_places(op.window), op.groups.value.data]
    return w.call("conv_backward_weight", convolve, *arguments)


@lowers(MaxPoolBackwardOp)
def max_pool_backward(op: MaxPoolBackwardOp, w: Writer) -> str:
    element = op.element(0)
    x, dy = w.value(op.x), w.wide(op.dy)
    kernel = tuple_text(op.window.kernel)
    return w.narrowed(w.call("max_pool_backward", x, dy, kernel, *_places(op.window)), element)


@lowers(Im2ColOp)
def im2col(op: Im2ColOp, w: Writer) -> str:
    rank, kernel = op.spatial_rank, op.window.kernel
    covered = w.let("covered", f"mx.moveaxis({windows(w, op, w.value(op.input), '0')}, 1, {1 + rank})")
    rows, columns = shape_of(op.result)
    if element_count(shape_of(op.result)) is None:
        places = " * ".join(f"{covered}.shape[{axis}]" for axis in range(1 + rank))
        return f"{covered}.reshape({places}, {w.extent(op.input, 1)} * {product(kernel)})"
    return f"{covered}.reshape({rows}, {columns})"
