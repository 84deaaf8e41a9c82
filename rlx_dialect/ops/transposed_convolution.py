"""The transpose of convolution, the gradients of convolution and pooling, and windows as rows of a matrix.

Windows are those of :mod:`rlx_dialect.ops.convolution`: one, two or three spatial axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.base import Value, shape_of
from rlx_dialect.dtypes import Array, is_float
from rlx_dialect.ops.contraction import DotGeneralOp
from rlx_dialect.ops.convolution import ConvOp, WindowOp, window_properties
from rlx_dialect.ops.extents import filled, merge_axes, split_axis, split_like, unit_axis
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import ScatterElementsOp
from rlx_dialect.ops.reduction import lowest
from rlx_dialect.ops.shape import INTS, NarrowOp, PadOp, ReverseOp
from rlx_dialect.ops.taps import Taps, spatially_padded
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, show
from rlx_dialect.xdsl_compat import Builder

ONE = IntegerAttr(1, i64)


class FloatWindowOp(WindowOp):
    """Base: operands of one float element type."""

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"{self.operand_name(0)} must have a float element type, got {self.element(0)}")
        self.check_same_element()


def _check_groups(groups: int, *operands: Shape) -> None:
    """Raises ShapeError unless ``groups`` divides the channels, axis 1, of each operand shape."""
    if groups < 1 or any(shape[1] != DYNAMIC and shape[1] % groups for shape in operands):
        shown = " and ".join(map(show, operands))
        raise ShapeError(f"groups {groups} must be positive and divide the channels of {shown}")


@irdl_op_definition
class ConvTransposeOp(FloatWindowOp):
    """The transpose of a convolution: input [N, Ci, spatial…], weight [Ci, Co/groups, kernel…], floats.

    result[n, o, p·stride + k·dilation - padding before…] sums input[n, c, p…] · weight[c, o, k…] over the channels c of
    o's group; its spatial extents are (in - 1)·stride + dilation·(kernel - 1) + 1 - padding + ``output_padding``,
    where output_padding (by default 0) is less than the stride or the dilation.
    """

    name = "rlx.conv_transpose"
    input = operand_def()
    weight = operand_def()
    output_padding = opt_prop_def(INTS)
    groups = prop_def(IntegerAttr[I64], default_value=ONE)
    result = result_def()

    def __init__(
        self,
        input: Value,
        weight: Value,
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: int = 1,
        kernel_size: Sequence[int] | None = None,
    ):
        """``kernel_size`` is needed only where the weight's extents are dynamic."""
        kernel_size = shape_of(SSAValue.get(weight))[2:] if kernel_size is None else kernel_size
        window = window_properties(input, kernel_size, stride, padding, dilation)
        extra = output_padding if output_padding is not None and any(output_padding) else None
        super().__init__([input, weight], window | {"output_padding": extra, "groups": groups})

    @property
    def extra(self) -> tuple[int, ...]:
        """``output_padding`` of each spatial axis; raises ShapeError."""
        rank, window = self.spatial_rank, self.window
        extra = (0,) * rank if self.output_padding is None else tuple(self.output_padding.get_values())
        limits = [max(pair) for pair in zip(window.stride, window.dilation, strict=True)]
        if len(extra) != rank or not all(0 <= e < limit for e, limit in zip(extra, limits, strict=True)):
            raise ShapeError(f"output_padding {list(extra)} must list {rank} numbers from 0 to below {limits}")
        return extra

    def output(self, extents: Sequence[int]) -> Shape:
        """Spatial extents of the result for those of the operand; raises ShapeError."""
        window = self.window
        result: list[int] = []
        for extent, stride, span, pair, extra in zip(
            extents, window.stride, window.span, window.padding, self.extra, strict=True
        ):
            found = extent if extent == DYNAMIC else (extent - 1) * stride + span - sum(pair) + extra
            if found != DYNAMIC and found < 1:
                raise ShapeError(f"extent {extent} with padding {pair[0]}+{pair[1]} leaves a result extent of {found}")
            result.append(found)
        return tuple(result)

    def infer_types(self) -> tuple[Attribute, ...]:
        input, weight, groups = self.shape(0), self.shape(1), self.groups.value.data
        window = self.window
        _check_groups(groups, input)
        wanted = (input[1], DYNAMIC, *window.kernel)
        if not shapes.compatible(weight, wanted):
            raise ShapeError(f"operand 'weight' must have shape {show(wanted)}, got {show(weight)}")
        channels = DYNAMIC if weight[1] == DYNAMIC else weight[1] * groups
        return (self.like(0, (input[0], channels, *self.output(input[2:]))),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x, weight), groups, window = args, self.groups.value.data, self.window
        extents = self.output(x.shape[2:])
        whole = [
            max(before + extent, n * stride + span)
            for extent, n, stride, span, (before, _) in zip(
                extents, x.shape[2:], window.stride, window.span, window.padding, strict=True
            )
        ]
        outputs = weight.shape[1]
        total = np.zeros((x.shape[0], groups * outputs, *whole), x.dtype)
        split = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
        kernels = weight.reshape(groups, x.shape[1] // groups, *weight.shape[1:])
        for k in np.ndindex(*window.kernel):
            part = np.einsum("ngc...,gco->ngo...", split, kernels[(slice(None), slice(None), slice(None), *k)])
            places = tuple(
                slice(i * d, i * d + n * s, s)
                for i, d, n, s in zip(k, window.dilation, x.shape[2:], window.stride, strict=True)
            )
            total[(slice(None), slice(None), *places)] += part.reshape(x.shape[0], groups * outputs, *x.shape[2:])
        kept = tuple(slice(pair[0], pair[0] + e) for pair, e in zip(window.padding, extents, strict=True))
        return (total[(slice(None), slice(None), *kept)],)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Zeros between the elements, and a convolution with the weight mirrored and its channels swapped."""
        window, rank, groups = self.window, self.spatial_rank, self.groups.value.data
        x, weight = Term(b, self.input), Term(b, self.weight)
        inserted = [s - 1 for s in window.stride]
        if any(inserted):
            x = _spread(x, inserted)
        reach = [span - 1 for span in window.span]
        before = [r - pair[0] for r, pair in zip(reach, window.padding, strict=True)]
        after = [
            r - pair[1] + extra - i
            for r, pair, extra, i in zip(reach, window.padding, self.extra, inserted, strict=True)
        ]
        x = spatially_padded(x, list(zip(before, after, strict=True)))
        kernel = self._mirrored(weight, groups, rank)
        conv = ConvOp(x.value, kernel.value, dilation=window.dilation, groups=groups, kernel_size=window.kernel)
        return self.as_results(x.insert(conv).value)

    def _mirrored(self, weight: Term, groups: int, rank: int) -> Term:
        """[Ci, Co/groups, kernel…] as the weight [Co, Ci/groups, kernel…] of the convolution."""
        spatial = range(2, 2 + rank)
        turned = weight.insert(ReverseOp(weight.value, list(spatial)))
        if groups == 1:
            return turned.transpose([1, 0, *spatial])
        ins = self.shape(0)[1]
        split = split_axis(turned, 0, [groups, DYNAMIC if ins == DYNAMIC else ins // groups])
        return merge_axes(split.transpose([0, 2, 1, *(a + 1 for a in spatial)]), 0, 2)


def _spread(x: Term, inserted: Sequence[int]) -> Term:
    """``inserted`` zeros behind each element along each spatial axis of [N, C, spatial…]."""
    if DYNAMIC not in x.shape[1:]:
        # [N, C, H, W] -> [N, C, H, 1, W, 1] -> [N, C, H, s, W, s] -> [N, C, H·s, W·s]
        apart = x.reshape([*x.shape[:2], *itertools.chain(*((d, 1) for d in x.shape[2:]))])
        after = [0, 0, *itertools.chain(*((0, i) for i in inserted))]
        padded = apart.insert(PadOp(apart.value, [*[0] * apart.rank, *after]))
        return padded.reshape([*x.shape[:2], *(d * (i + 1) for d, i in zip(x.shape[2:], inserted, strict=True))])
    for axis, zeros in enumerate(inserted, 2):
        if zeros:
            apart = unit_axis(x, axis + 1)
            after = [0] * apart.rank
            after[axis + 1] = zeros
            x = merge_axes(apart.insert(PadOp(apart.value, [*[0] * apart.rank, *after])), axis, 2)
    return x


@irdl_op_definition
class ConvBackwardInputOp(FloatWindowOp):
    """The gradient of rlx.conv with respect to its input: dy [N, Co, output…] and the weight [Co, Ci/groups, kernel…].

    The result is [N, Ci, ``size``…]; size lists the spatial extents of the convolution's input.
    """

    name = "rlx.conv_backward_input"
    dy = operand_def()
    weight = operand_def()
    size = prop_def(INTS)
    groups = prop_def(IntegerAttr[I64], default_value=ONE)
    result = result_def()

    def __init__(
        self,
        dy: Value,
        weight: Value,
        size: Sequence[int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: int = 1,
        kernel_size: Sequence[int] | None = None,
    ):
        kernel_size = shape_of(SSAValue.get(weight))[2:] if kernel_size is None else kernel_size
        window = window_properties(dy, kernel_size, stride, padding, dilation)
        super().__init__([dy, weight], window | {"size": size, "groups": groups})

    def infer_types(self) -> tuple[Attribute, ...]:
        dy, weight, groups, size = self.shape(0), self.shape(1), self.groups.value.data, self.size.get_values()
        window = self.window
        if len(size) != self.spatial_rank:
            raise ShapeError(f"size {list(size)} must list {self.spatial_rank} numbers")
        _check_groups(groups, dy)
        if not shapes.compatible(dy[2:], window.output(size)):
            raise ShapeError(f"operand 'dy' must have spatial extents {show(window.output(size))}, got {show(dy)}")
        wanted = (dy[1], DYNAMIC, *window.kernel)
        if not shapes.compatible(weight, wanted):
            raise ShapeError(f"operand 'weight' must have shape {show(wanted)}, got {show(weight)}")
        return (self.like(0, (dy[0], DYNAMIC if weight[1] == DYNAMIC else weight[1] * groups, *size)),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The transposed convolution; what the stride left over at the end of the input is its output padding."""
        window = self.window
        extra = [
            (size + sum(pair) - span) % stride
            for size, pair, span, stride in zip(
                self.size.get_values(), window.padding, window.span, window.stride, strict=True
            )
        ]
        befores, afters = zip(*window.padding, strict=True)
        op = ConvTransposeOp(
            self.dy,
            self.weight,
            stride=window.stride,
            padding=[*befores, *afters],
            output_padding=extra,
            dilation=window.dilation,
            groups=self.groups.value.data,
            kernel_size=window.kernel,
        )
        return self.as_results(b.insert(op).result)


@irdl_op_definition
class ConvBackwardWeightOp(FloatWindowOp):
    """The gradient of rlx.conv with respect to its weight: x [N, Ci, spatial…] and dy [N, Co, output…].

    The result is [Co, Ci/groups, kernel…].
    """

    name = "rlx.conv_backward_weight"
    x = operand_def()
    dy = operand_def()
    groups = prop_def(IntegerAttr[I64], default_value=ONE)
    result = result_def()

    def __init__(
        self,
        x: Value,
        dy: Value,
        kernel_size: Sequence[int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: int = 1,
    ):
        window = window_properties(x, kernel_size, stride, padding, dilation)
        super().__init__([x, dy], window | {"groups": groups})

    def infer_types(self) -> tuple[Attribute, ...]:
        x, dy, groups = self.shape(0), self.shape(1), self.groups.value.data
        window = self.window
        wanted = (x[0], DYNAMIC, *window.output(x[2:]))
        if not shapes.compatible(dy, wanted):
            raise ShapeError(f"operand 'dy' must have shape {show(wanted)}, got {show(dy)}")
        _check_groups(groups, x, dy)
        return (self.like(0, (dy[1], DYNAMIC if x[1] == DYNAMIC else x[1] // groups, *window.kernel)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x, dy), groups = args, self.groups.value.data
        rank = x.ndim - 2
        views = self.window.views(x, 0)
        views = views.reshape(x.shape[0], groups, x.shape[1] // groups, *views.shape[2:])
        split = dy.reshape(x.shape[0], groups, dy.shape[1] // groups, *dy.shape[2:])
        places, kernel = list(range(4, 4 + rank)), list(range(8, 8 + rank))
        # Letters: 0 the batch, 1 the group, 2 and 3 its channels of dy and x.
        value = np.einsum(split, [0, 1, 2, *places], views, [0, 1, 3, *places, *kernel], [1, 2, 3, *kernel])
        return (value.reshape(dy.shape[1], x.shape[1] // groups, *self.window.kernel),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """A convolution in which batch and channels, stride and dilation change places; or products of the taps."""
        window, rank, groups = self.window, self.spatial_rank, self.groups.value.data
        x, dy = Term(b, self.x), Term(b, self.dy)
        spatial = list(range(2, 2 + rank))
        if DYNAMIC in (*x.shape, *dy.shape[2:]):
            return self.as_results(self._by_taps(x, dy).value)
        if groups == 1:
            swapped = x.transpose([1, 0, *spatial])
        else:
            split = self._grouped(x).transpose([2, 1, 0, *(a + 1 for a in spatial)])
            swapped = merge_axes(split, 1, 2)
        befores, afters = zip(*window.padding, strict=True)
        conv = ConvOp(
            swapped.value,
            dy.transpose([1, 0, *spatial]).value,
            stride=window.dilation,
            padding=[*befores, *afters],
            dilation=window.stride,
            groups=groups,
        )
        value = x.insert(conv)
        for axis, extent in enumerate(window.kernel, 2):
            # Positions after the kernel's come from elements that the stride left over.
            if value.shape[axis] != extent:
                value = value.insert(NarrowOp(value.value, axis, 0, extent))
        return self.as_results(value.transpose([1, 0, *spatial]).value)

    def _grouped(self, x: Term) -> Term:
        """[N, C, spatial…] as [N, groups, C/groups, spatial…]."""
        groups, channels = self.groups.value.data, x.shape[1]
        return split_axis(x, 1, [groups, DYNAMIC if channels == DYNAMIC else channels // groups])

    def _by_taps(self, x: Term, dy: Term) -> Term:
        """For each offset of the kernel the products of dy and what it covers, summed over batch and positions."""
        taps, groups = Taps(x, self.window), self._grouped(dy)
        summed, padded = [0, *range(3, groups.rank)], taps.padded(0.0)
        products: list[Term] = []
        for offsets in taps:
            covered = self._grouped(taps.of(padded, offsets))
            product = x.insert(DotGeneralOp(groups.value, covered.value, summed, summed, [1], [1]))
            products.append(unit_axis(product, 3))
        stacked = products[0].concat(3, *products[1:])  # [groups, Co/groups, Ci/groups, kernel]
        return split_axis(merge_axes(stacked, 0, 2), 2, self.window.kernel)


@irdl_op_definition
class MaxPoolBackwardOp(FloatWindowOp):
    """The gradient of ``rlx.pool max``: each dy goes to the first of the greatest elements that its window covers.

    x [N, C, spatial…], dy [N, C, output…], result as x. First is meant in row-major order; NaN counts as greatest.
    """

    name = "rlx.max_pool_backward"
    x = operand_def()
    dy = operand_def()
    result = result_def()

    def __init__(
        self,
        x: Value,
        dy: Value,
        kernel_size: Sequence[int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
    ):
        super().__init__([x, dy], window_properties(x, kernel_size, stride, padding, dilation))

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        super().check()
        shape = self.shape(0)
        self.check_shape(1, (*shape[:2], *self.window.output(shape[2:])))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x, dy), window = args, self.window
        rank = x.ndim - 2
        views = window.views(x, lowest(x.dtype))
        # Where each covered position is in the flattened operand; -1 for padding, which must not win a tie.
        here = window.views(np.arange(x[0, 0].size).reshape(1, 1, *x.shape[2:]), -1)
        flat = views.reshape(*views.shape[: 2 + rank], -1)
        places = np.broadcast_to(here.reshape(*here.shape[: 2 + rank], -1), flat.shape)
        # Where all elements are -inf, padding is as great; argmax takes a NaN for the greatest.
        hopeless = flat.max(-1) == -np.inf
        first = np.where(hopeless, (places >= 0).argmax(-1), flat.argmax(-1))
        place = np.take_along_axis(places, first[..., None], -1)[..., 0]
        result = np.zeros((*x.shape[:2], x[0, 0].size), x.dtype)
        rows = np.ix_(*map(np.arange, place.shape))
        np.add.at(result, (rows[0], rows[1], place), dy)
        return (result.reshape(x.shape),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The position of the first of the greatest under each window, and a scatter that adds dy there."""
        x, dy = Term.widened(b, self.x, self.dy)
        taps, rank = Taps(x, self.window), self.spatial_rank
        padded = taps.padded(-math.inf)
        covered = [(offsets, taps.of(padded, offsets)) for offsets in taps]
        most = covered[0][1]
        for _, tap in covered[1:]:
            most = most.binary("max", tap)
        place = filled(dy, 0, i32)
        # The last to claim a window is the first of the greatest.
        for offsets, tap in reversed(covered):
            found = tap.compare("eq", most) | tap.is_nan()
            if (inside := taps.inside(offsets)) is not None:
                found = found & inside
            place = found.where(taps.flat_place(offsets), place)
        zeros = merge_axes(filled(x, 0.0), 2, rank)
        places, terms = (merge_axes(term, 2, rank).value for term in (place, dy))
        total = zeros.insert(ScatterElementsOp(zeros.value, places, terms, 2, reduction="add"))
        shaped = split_like(total, 2, x, range(2, 2 + rank))
        return self.as_results(shaped.cast(self.element(0)).value)


@irdl_op_definition
class Im2ColOp(WindowOp):
    """What each position of the window covers as a row: [N·output…, C·kernel…] of any numbers; padding is 0."""

    name = "rlx.im2col"
    input = operand_def()
    result = result_def()

    def __init__(
        self,
        input: Value,
        kernel_size: Sequence[int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
    ):
        super().__init__([input], window_properties(input, kernel_size, stride, padding, dilation))

    def infer_types(self) -> tuple[Attribute, ...]:
        shape, window = self.shape(0), self.window
        rows = shapes.element_count((shape[0], *window.output(shape[2:])))
        columns = shapes.element_count((shape[1], *window.kernel))
        return (self.like(0, tuple(DYNAMIC if n is None else n for n in (rows, columns))),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, rank = args[0], args[0].ndim - 2
        views = np.moveaxis(self.window.views(x, 0), 1, 1 + rank)
        columns = x.shape[1] * shapes.product(self.window.kernel)
        return (views.reshape(shapes.product(views.shape[: 1 + rank]), columns),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The taps of the window, joined."""
        taps, rank = Taps(Term(b, self.input), self.window), self.spatial_rank
        padded = taps.padded(0)
        parts = [unit_axis(taps.of(padded, offsets), 2) for offsets in taps]
        joined = parts[0].concat(2, *parts[1:])  # [N, C, kernel, output…]
        rows = joined.transpose([0, *range(3, 3 + rank), 1, 2])
        return self.as_results(merge_axes(merge_axes(rows, 1 + rank, 2), 0, 1 + rank).value)
