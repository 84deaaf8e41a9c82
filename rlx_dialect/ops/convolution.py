"""Convolution, pooling and resizing of [N, C, spatial…] tensors with one, two or three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import ActivationKind, ActivationKindAttr, ReduceKind, ReduceKindAttr
from rlx_dialect.base import RlxOp, Value, rank_of, shape_of
from rlx_dialect.dtypes import Array, is_bool, is_float, is_integer
from rlx_dialect.ops.elementwise import ACTIVATIONS, ActivationOp, BinaryOp
from rlx_dialect.ops.extents import constant, extent_of, merge_axes, unit_axis
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.reduction import REDUCTIONS, check_reducible, highest, lowest
from rlx_dialect.ops.shape import INTS, ReshapeOp
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, show
from rlx_dialect.xdsl_compat import Builder


@dataclass(frozen=True)
class Window:
    """How a window slides over the spatial axes: one entry an axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    """(before, after)."""
    dilation: tuple[int, ...]

    @property
    def span(self) -> tuple[int, ...]:
        """The extent from the first to the last position of the window."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def output(self, extents: Sequence[int]) -> Shape:
        """Spatial extents of the result for those of the operand; raises ShapeError where the window does not fit."""
        return tuple(
            shapes.window(extent, kernel, stride, *pair, dilation)
            for extent, kernel, stride, pair, dilation in zip(
                extents, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )

    def views(self, x: Array, fill: Any) -> Array:
        """[N, C, output…, kernel…]: what each position of the window covers; ``fill`` where that is padding."""
        spatial = tuple(range(2, x.ndim))
        padded = np.pad(x, [(0, 0), (0, 0), *self.padding], constant_values=fill)
        views = np.lib.stride_tricks.sliding_window_view(padded, self.span, spatial)
        steps = (*self.stride, *self.dilation)
        return views[(slice(None), slice(None), *(slice(None, None, s) for s in steps))]


def _unless_all(values: Sequence[int] | None, default: int) -> Sequence[int] | None:
    return None if values is None or all(v == default for v in values) else values


def window_properties(
    input: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] | None,
    padding: Sequence[int] | None,
    dilation: Sequence[int] | None,
) -> dict[str, object]:
    """The properties with defaults left out and symmetric padding written once, so that one window is one text."""
    rank = rank_of(SSAValue.get(input)) - 2
    padding = _unless_all(padding, 0)
    if padding is not None and len(padding) == 2 * rank and list(padding[:rank]) == list(padding[rank:]):
        padding = padding[:rank]
    return {
        "kernel_size": kernel_size,
        "stride": _unless_all(stride, 1),
        "padding": padding,
        "dilation": _unless_all(dilation, 1),
    }


class WindowOp(RlxOp):
    """Base: a window slides over the spatial axes of operand 0, [N, C, spatial…].

    ``kernel_size``, ``stride`` (by default 1) and ``dilation`` (by default 1) list one number a spatial axis;
    ``padding`` (by default 0) one, before and after alike, or two: all befores, then all afters.
    """

    kernel_size = prop_def(INTS)
    stride = opt_prop_def(INTS)
    padding = opt_prop_def(INTS)
    dilation = opt_prop_def(INTS)

    @property
    def spatial_rank(self) -> int:
        """Number of spatial axes, 1 to 3; raises ShapeError."""
        shape = self.shape(0)
        if not 3 <= len(shape) <= 5:
            raise ShapeError(f"{self.operand_name(0)} must have rank 3, 4 or 5, got {show(shape)}")
        return len(shape) - 2

    @property
    def window(self) -> Window:
        """The window with defaults filled in; raises ShapeError for numbers that are too few, too many or too small."""
        rank = self.spatial_rank
        lists: dict[str, tuple[int, ...]] = {}
        for name, attribute in (
            ("kernel_size", self.kernel_size),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ):
            values = (1,) * rank if attribute is None else tuple(attribute.get_values())
            if len(values) != rank or min(values) < 1:
                raise ShapeError(f"{name} {list(values)} must list {rank} positive numbers")
            lists[name] = values
        padding = [0] * rank if self.padding is None else self.padding.get_values()
        if any(p < 0 for p in padding):
            raise ShapeError(f"padding {list(padding)} must not be negative")
        pairs = tuple(shapes.paddings(padding, rank))
        return Window(lists["kernel_size"], lists["stride"], pairs, lists["dilation"])


class ConvolutionOp(WindowOp):
    """Base: operand 0 [N, Ci, spatial…] and operand 1, the weight [Co, Ci/groups, kernel…]."""

    groups = prop_def(IntegerAttr[I64], default_value=IntegerAttr(1, i64))

    def output_shape(self) -> Shape:
        """[N, Co, spatial…] of the result; raises ShapeError."""
        input, weight, groups = self.shape(0), self.shape(1), self.groups.value.data
        window, channels = self.window, input[1]
        if groups < 1:
            raise ShapeError(f"groups must be positive, got {groups}")
        if channels != DYNAMIC and channels % groups:
            raise ShapeError(f"operand 'input' must have a multiple of {groups} channels, got {show(input)}")
        wanted = (DYNAMIC, DYNAMIC if channels == DYNAMIC else channels // groups, *window.kernel)
        if not shapes.compatible(weight, wanted):
            raise ShapeError(f"operand 'weight' must have shape {show(wanted)}, got {show(weight)}")
        if weight[0] != DYNAMIC and weight[0] % groups:
            raise ShapeError(f"operand 'weight' must have a multiple of {groups} result channels, got {show(weight)}")
        return (input[0], weight[0], *window.output(input[2:]))

    def convolved(self, x: Array, weight: Array) -> Array:
        groups, rank = self.groups.value.data, x.ndim - 2
        views = np.moveaxis(self.window.views(x, 0), 1, 1 + rank)  # [N, output…, Ci, kernel…]
        batch, *extents = views.shape[: 1 + rank]
        # No -1 below: it cannot be found where an extent is 0.
        terms = shapes.product(weight.shape[1:])
        rows = views.reshape(batch * shapes.product(extents), groups, terms).swapaxes(0, 1)
        columns = weight.reshape(groups, weight.shape[0] // groups, terms).swapaxes(1, 2)
        product = np.matmul(rows, columns).swapaxes(0, 1)  # [N·output, groups, Co/groups]
        return np.moveaxis(product.reshape(batch, *extents, weight.shape[0]), -1, 1)


def window_properties_of(conv: ConvolutionOp) -> dict[str, Attribute]:
    names = ("kernel_size", "stride", "padding", "dilation", "groups")
    return {name: conv.properties[name] for name in names if name in conv.properties}


@irdl_op_definition
class ConvOp(ConvolutionOp):
    """Cross-correlation of input [N, Ci, spatial…] with weight [Co, Ci/groups, kernel…], floats or integers.

    result[n, o, p…] = Σ over c and k… of padded[n, c, p·stride + k·dilation…] · weight[o, c, k…], where c are the
    channels of o's group. Integer sums wrap around.
    """

    name = "rlx.conv"
    input = operand_def()
    weight = operand_def()
    result = result_def()

    def __init__(
        self,
        input: Value,
        weight: Value,
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: int = 1,
        kernel_size: Sequence[int] | None = None,
        result_type: Attribute | None = None,
    ):
        """``kernel_size`` is needed only where the weight's extents are dynamic."""
        kernel_size = shape_of(SSAValue.get(weight))[2:] if kernel_size is None else kernel_size
        window = window_properties(input, kernel_size, stride, padding, dilation)
        super().__init__([input, weight], window | {"groups": groups}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, self.output_shape()),)

    def check(self) -> None:
        self.check_same_element()
        element = self.element(0)
        if not is_float(element) and (not is_integer(element) or is_bool(element)):
            self.fail(f"operand 'input' must have a float or integer element type, got {element}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (self.convolved(*args),)


@irdl_op_definition
class FusedConvBiasActOp(ConvolutionOp):
    """activation(conv(input, weight) + bias [+ residual]), for floats; see :class:`ConvOp`.

    bias is [Co]; residual has the shape of the result and is added before the activation. Without a kind there is
    no activation.
    """

    name = "rlx.fused_conv_bias_act"
    KEYWORD: ClassVar = "activation"
    input = operand_def()
    weight = operand_def()
    bias = operand_def()
    residual = opt_operand_def()
    activation = opt_prop_def(ActivationKindAttr)
    result = result_def()

    def __init__(
        self,
        input: Value,
        weight: Value,
        bias: Value,
        residual: Value | None = None,
        *,
        activation: ActivationKind | str | None = None,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: int = 1,
        kernel_size: Sequence[int] | None = None,
        result_type: Attribute | None = None,
    ):
        """``kernel_size`` is needed only where the weight's extents are dynamic."""
        kernel_size = shape_of(SSAValue.get(weight))[2:] if kernel_size is None else kernel_size
        window = window_properties(input, kernel_size, stride, padding, dilation)
        super().__init__(
            [input, weight, bias, *([] if residual is None else [residual])],
            window | {"groups": groups, "activation": activation},
            result_types=[result_type],
        )

    @classmethod
    def of(
        cls,
        conv: ConvOp | FusedConvBiasActOp,
        bias: Value,
        residual: Value | None = None,
        *,
        weight: Value | None = None,
        result_type: Attribute,
    ) -> FusedConvBiasActOp:
        """The input, window and groups of ``conv``, and its weight unless another is given; without activation."""
        values = [conv.input, conv.weight if weight is None else weight, bias, residual]
        return cls.create(
            operands=[SSAValue.get(value) for value in values if value is not None],
            result_types=[result_type],
            properties=window_properties_of(conv),
        )

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, self.output_shape()),)

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'input' must have a float element type, got {self.element(0)}")
        self.check_same_element()
        output = self.output_shape()
        wanted = {2: output[1:2], 3: output}
        for index in range(2, len(self.operands)):
            self.check_shape(index, wanted[index])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, weight, bias, *residual = args
        value = self.convolved(x, weight) + bias.reshape(-1, *[1] * (x.ndim - 2))
        if residual:
            value = value + residual[0]
        return (value if self.activation is None else ACTIVATIONS[self.activation.data](value),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        conv = ConvOp.create(
            operands=[self.input, self.weight],
            result_types=[self.like(0, self.output_shape())],
            properties=window_properties_of(self),
        )
        ones = [1] * self.spatial_rank
        bias = b.insert(ReshapeOp(self.bias, [self.shape(2)[0], *ones])).result
        value = b.insert(BinaryOp("add", b.insert(conv).result, bias)).result
        if self.residual is not None:
            value = b.insert(BinaryOp("add", value, self.residual)).result
        if self.activation is not None:
            value = b.insert(ActivationOp(self.activation.data, value)).result
        return self.as_results(value)


@irdl_op_definition
class PoolOp(WindowOp):
    """``kind`` of the elements under each position of the window, per channel; element types as for ``rlx.reduce``.

    Padding is skipped, so every position must cover an element; ``mean`` divides by the number of elements, or
    with ``count_include_pad`` by the size of the window. A result extent that is rounded up (ceil_mode elsewhere)
    is a larger padding after.
    """

    name = "rlx.pool"
    KEYWORD: ClassVar = "kind"
    input = operand_def()
    kind = prop_def(ReduceKindAttr)
    count_include_pad = opt_prop_def(UnitAttr)
    result = result_def()

    def __init__(
        self,
        kind: ReduceKind | str,
        input: Value,
        kernel_size: Sequence[int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        count_include_pad: bool = False,
        result_type: Attribute | None = None,
    ):
        """Without ``stride`` the window moves by 1."""
        window = window_properties(input, kernel_size, stride, padding, dilation)
        properties = window | {"kind": kind, "count_include_pad": count_include_pad}
        super().__init__([input], properties, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        shape = self.shape(0)
        return (self.like(0, (*shape[:2], *self.window.output(shape[2:]))),)

    def check(self) -> None:
        check_reducible(self, self.kind.data)
        if self.count_include_pad is not None and self.kind.data is not ReduceKind.MEAN:
            self.fail(f"count_include_pad is for mean, not for {self.kind.data}")
        window, extents = self.window, self.shape(0)[2:]
        for axis, (extent, output) in enumerate(zip(extents, window.output(extents), strict=True)):
            before, after = window.padding[axis]
            misses = before >= window.span[axis]
            if extent != DYNAMIC and not misses:
                starts = range(-before, output * window.stride[axis] - before, window.stride[axis])
                # A window that starts in the padding steps to this position first; it may be behind the last element.
                firsts = (s % window.dilation[axis] for s in starts[: -(-before // window.stride[axis])])
                misses = starts[-1] >= extent or any(first >= extent for first in firsts)
            if misses:
                self.fail(f"padding {before}+{after} of spatial axis {axis}: a window would cover padding only")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x,), kind, window = args, self.kind.data, self.window
        fill = {
            ReduceKind.SUM: 0,
            ReduceKind.MEAN: 0,
            ReduceKind.PROD: 1,
            ReduceKind.MAX: lowest(x.dtype),
            ReduceKind.MIN: highest(x.dtype),
        }[kind]
        views = window.views(x, fill)
        covered = tuple(range(x.ndim, views.ndim))
        if kind is not ReduceKind.MEAN:
            return (REDUCTIONS[kind](views, covered).squeeze(covered),)
        total = REDUCTIONS[ReduceKind.SUM](views, covered).squeeze(covered)
        if self.count_include_pad is not None:
            return (total / x.dtype.type(shapes.product(window.kernel)),)
        count = window.views(np.ones((1, 1, *x.shape[2:]), x.dtype), 0).sum(covered)
        return (total / count,)


def resize_nearest_2x(x: Array) -> Array:
    """Each element of an NCHW array four times: twice along H and along W."""
    return x.repeat(2, axis=2).repeat(2, axis=3)


@irdl_op_definition
class ResizeNearest2xOp(RlxOp):
    """result[n, c, h, w] = input[n, c, h/2, w/2]: an NCHW tensor of any element type with H and W doubled."""

    name = "rlx.resize_nearest_2x"
    input = operand_def()
    result = result_def()

    def __init__(self, input: Value, *, result_type: Attribute | None = None):
        super().__init__([input], result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.resize_nearest_2x(self.shape(0))),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (resize_nearest_2x(args[0]),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Each element beside itself, then each row."""
        x = Term(b, self.input)
        for axis in (3, 2):
            single = unit_axis(x, axis + 1)
            x = merge_axes(single.concat(axis + 1, single), axis, 2)
        return self.as_results(x.value)


@irdl_op_definition
class Interpolate3dOp(RlxOp):
    """The nearest elements of an NCDHW tensor of any element type at the spatial extents ``size``.

    Position p of a result axis is position min(floor(p·in/out), in - 1) of the operand's.
    """

    name = "rlx.interpolate3d"
    input = operand_def()
    size = prop_def(INTS)
    result = result_def()

    def __init__(self, input: Value, size: Sequence[int]):
        super().__init__([input], {"size": size})

    def infer_types(self) -> tuple[Attribute, ...]:
        size, shape = self.size.get_values(), self.shape(0)
        if len(shape) != 5:
            raise ShapeError(f"operand 'input' must have rank 5 (NCDHW), got {show(shape)}")
        if len(size) != 3 or any(s < 0 for s in size):
            raise ShapeError(f"size {list(size)} must list 3 numbers that are not negative")
        if any(extent == 0 < wanted for extent, wanted in zip(shape[2:], size, strict=True)):
            raise ShapeError(f"operand 'input' has no elements to take: {show(shape)}")
        return (self.like(0, (*shape[:2], *size)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x = args[0]
        index = np.indices(self.size.get_values(), sparse=True)
        pairs = zip(index, x.shape[2:], self.size.get_values(), strict=True)
        return (x[(slice(None), slice(None), *(np.minimum(i * have // want, have - 1) for i, have, want in pairs))],)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """A gather along each axis that changes."""
        value = Term(b, self.input)
        for axis, (have, want) in enumerate(zip(self.shape(0)[2:], self.size.get_values(), strict=True), 2):
            if have == want:
                continue
            target = np.arange(want)
            if have == DYNAMIC:
                count = extent_of(value, axis)
                place = (constant(value, target, i32) * count).binary("div", want).binary("min", count - 1)
            else:
                place = constant(value, np.minimum(target * have // want, have - 1), i32)
            value = value.insert(GatherOp(value.value, place.value, axis))
        return (self.input,) if value.value is self.input else self.as_results(value.value)
