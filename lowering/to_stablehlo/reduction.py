"""Reductions and running reductions. f16 and bf16 are gathered in f32 and rounded at the end."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, declines, lowers
from rlx_dialect.lowering.to_stablehlo.tensors import Extent, Tensors, ints, neutral, pairs
from rlx_dialect.ops.reduction import COMBINES, ReduceOp
from rlx_dialect.ops.scan import CumulativeOp
from rlx_dialect.shapes import DYNAMIC


def as_number(c: Tensors, extent: Extent, element: Attribute) -> SSAValue:
    """An extent as a scalar of type ``element``."""
    return c.scalar(extent, element) if isinstance(extent, int) else c.convert(extent, element)


def divided_by(c: Tensors, sums: SSAValue, count: Extent) -> SSAValue:
    number = as_number(c, count, element_of(sums))
    return c.same("divide", sums, c.broadcast(number, [], c.extents(sums)))


@lowers(ReduceOp)
def reduce(op: ReduceOp, c: Conversion) -> SSAValue:
    axes, kind, own = op.axis_indices, op.kind.data, c.extents(op.input)
    if not axes:
        return op.input
    value = c.reduce(kind, c.widened(op.input), axes)
    if kind is ReduceKind.MEAN:
        value = divided_by(c, value, c.count([own[a] for a in axes]))
    value = c.convert(value, op.element(0))
    return value if op.keep_dim is None else c.reshape(value, [1 if a in axes else e for a, e in enumerate(own)])


def windowed(
    c: Tensors,
    kind: ReduceKind,
    value: SSAValue,
    kernel: Sequence[int],
    extents: Sequence[Extent],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> SSAValue:
    """``kind`` of what each position of a window covers, one entry an axis; the result has ``extents``."""
    element = element_of(value)
    return c.made(
        "reduce_window",
        [value, c.scalar(neutral(kind, element), element)],
        element,
        extents,
        [c.combiner(COMBINES[kind], element)],
        window_dimensions=ints(kernel),
        window_strides=ints(stride),
        window_dilations=ints(dilation),
        padding=pairs(padding),
    )


@declines(CumulativeOp)
def unknown_length(op: CumulativeOp) -> str | None:
    extent = op.shape(0)[op.axis_index]
    return "the axis has an unknown extent" if extent == DYNAMIC else None


@lowers(CumulativeOp)
def cumulative(op: CumulativeOp, c: Conversion) -> SSAValue:
    """A window over a position and all before it; XLA makes a tree of it."""
    axis, kind, x = op.axis_index, op.kind.data, c.widened(op.input)
    own = c.extents(x)
    extent = shape_of(x)[axis]
    if extent == 0:
        return op.input
    ones, here = [1] * len(own), range(len(own))
    if op.exclusive is not None:
        shifted = [(1, -1) if a == axis else (0, 0) for a in here]
        x = c.pad(x, shifted, neutral(kind, element_of(x)))
    kernel = [extent if a == axis else 1 for a in here]
    before = [(extent - 1, 0) if a == axis else (0, 0) for a in here]
    return c.convert(windowed(c, kind, x, kernel, own, ones, ones, before), op.element(0))
