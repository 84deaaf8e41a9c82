"""What decompositions need where extents are known only at run time: positions, and axes that come, go, split and join.

A reshape leaves one extent open. What has more of them open is written with rlx.expand, rlx.gather and rlx.gather_nd
instead, which costs a copy; so these functions reshape where that says it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Attribute

from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherNdOp, GatherOp
from rlx_dialect.ops.shape import ExpandOp, TriluOp
from rlx_dialect.shapes import DYNAMIC, product


def _reshapes(shape: Sequence[int]) -> bool:
    """Whether rlx.reshape finds the extent that is left open."""
    return DYNAMIC not in shape or (shape.count(DYNAMIC) == 1 and 0 not in shape)


def constant(x: Term, values: object, element: Attribute | None = None) -> Term:
    """``values`` as a constant at the place of ``x``, of its element type or ``element``."""
    array = np.asarray(values)
    return x.insert(ConstantOp.of(array, TensorType(element or x.element, array.shape)))


def filled(x: Term, value: float | bool, element: Attribute | None = None) -> Term:
    """``value`` in the shape of ``x``."""
    element = element or x.element
    number = Term(x.b, x.insert(ConstantOp.of(value, TensorType(element, ()))).value)
    if DYNAMIC not in x.shape:
        return x.insert(ExpandOp(number.value, x.shape))
    return x.compare("eq", x).where(number, value)


def ones_along(x: Term, axis: int, element: Attribute) -> Term:
    """A one for each position of ``axis``: [n]."""
    if x.shape[axis] != DYNAMIC:
        return constant(x, np.ones(x.shape[axis]), element)
    others = [a for a in range(x.rank) if a != axis]
    some = x.compare("eq", x)
    if others:  # The greatest of no elements is false; it is their number that counts here.
        some = some.reduce("max", others, keep_dim=False)
    one = constant(x, 1, element)
    return some.where(one, one)


def positions(x: Term, axis: int, element: Attribute = i32) -> Term:
    """0, 1, … n - 1 for the n positions of ``axis``: [n]. For an unknown n this sums a triangle of ones, n·n in all."""
    if x.shape[axis] != DYNAMIC:
        return constant(x, np.arange(x.shape[axis]), element)
    ones = ones_along(x, axis, i32)
    square = ones.reshape([-1, 1]) * ones.reshape([1, -1])
    below = square.insert(TriluOp(square.value, diagonal=-1))
    return below.reduce("sum", [1], keep_dim=False).cast(element)


def extent_of(x: Term, axis: int) -> Term:
    """The extent of ``axis`` as an i32 scalar."""
    if x.shape[axis] != DYNAMIC:
        return constant(x, x.shape[axis], i32)
    return ones_along(x, axis, i32).reduce("sum", [0], keep_dim=False)


def zeros_with(x: Term, axis: int, count: int, extent: int) -> Term:
    """Zeros in the shape of ``x`` with ``extent`` in the place of ``count`` axes from ``axis`` on."""
    shape = [*x.shape[:axis], extent, *x.shape[axis + count :]]
    if DYNAMIC not in shape:
        return x.insert(ExpandOp(constant(x, 0).value, shape))
    flags = filled(x, 0, i32)
    flags = flags.reduce("sum", range(axis, axis + count), keep_dim=False) if count else flags
    one = unit_axis(flags, axis)
    return one.insert(ExpandOp(one.value, shape)).cast(x.element)


def along(values: Term, axis: int, rank: int) -> Term:
    """[n] such that it broadcasts along ``axis`` of a tensor of ``rank``."""
    return values.reshape([*[1] * axis, values.shape[0], *[1] * (rank - axis - 1)])


def unit_axis(x: Term, axis: int) -> Term:
    """``x`` with an extent of 1 put in at ``axis``."""
    shape = [*x.shape[:axis], 1, *x.shape[axis:]]
    if _reshapes(shape):
        return x.reshape(shape)
    front = x.insert(ExpandOp(x.value, [1, *x.shape]))
    return front.transpose([*range(1, axis + 1), 0, *range(axis + 1, front.rank)])


def without_axis(x: Term, axis: int) -> Term:
    """``x`` without ``axis``, whose extent is 1; real numbers or truth values."""
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
    return x.reshape(shape) if _reshapes(shape) else x.reduce("max", [axis], keep_dim=False)


def split_axis(x: Term, axis: int, extents: Sequence[int]) -> Term:
    """``axis`` as several with ``extents``, one of which may be DYNAMIC."""
    shape = [*x.shape[:axis], *extents, *x.shape[axis + 1 :]]
    if _reshapes(shape):
        return x.reshape(shape)
    order = positions(x, axis).reshape(extents)
    return x.insert(GatherOp(x.value, order.value, axis))


def merged_positions(parts: Sequence[Term]) -> Term:
    """All tuples of the positions ``parts`` ([n] each), in row-major order: [n·m·…, count]."""
    rank = len(parts)
    nothing = along(parts[0], 0, rank) * 0
    for axis, part in enumerate(parts[1:], 1):
        nothing = nothing + along(part, axis, rank) * 0
    columns: list[Term] = []
    for axis, part in enumerate(parts):
        columns.append((nothing + along(part, axis, rank)).reshape([-1, 1]))
    return columns[0].concat(1, *columns[1:])


def merge_axes(x: Term, axis: int, count: int) -> Term:
    """``count`` axes from ``axis`` on as one."""
    middle = x.shape[axis : axis + count]
    whole = DYNAMIC if DYNAMIC in middle else product(middle)
    shape = [*x.shape[:axis], whole, *x.shape[axis + count :]]
    if _reshapes(shape):
        return x.reshape(shape)
    order = merged_positions([positions(x, a) for a in range(axis, axis + count)])
    if whole != DYNAMIC:
        order = order.reshape([whole, count])
    others = [a for a in range(x.rank) if not axis <= a < axis + count]
    front = x.transpose([*range(axis, axis + count), *others])
    merged = x.insert(GatherNdOp(front.value, order.value))
    return merged.transpose([*range(1, axis + 1), 0, *range(axis + 1, merged.rank)])


def flattened(x: Term, kept: int) -> Term:
    """The axes in front of the last ``kept`` as one, which may be 1: [n, kept…]."""
    count = x.rank - kept
    return merge_axes(x, 0, count) if count else unit_axis(x, 0)


def split_like(x: Term, axis: int, like: Term, axes: Sequence[int]) -> Term:
    """``axis`` as several with the extents of ``axes`` of ``like``."""
    shape = [*x.shape[:axis], *(like.shape[a] for a in axes), *x.shape[axis + 1 :]]
    if _reshapes(shape):
        return x.reshape(shape)
    if not axes:
        return without_axis(x, axis)
    place = along(positions(like, axes[0]), 0, len(axes))
    for index, other in enumerate(axes[1:], 1):
        place = place * extent_of(like, other) + along(positions(like, other), index, len(axes))
    return x.insert(GatherOp(x.value, place.value, axis))


def unflattened(x: Term, like: Term, kept: int) -> Term:
    """The first axis of ``x`` as the axes of ``like`` in front of its last ``kept``."""
    return split_like(x, 0, like, range(like.rank - kept))


def halves(x: Term, axis: int) -> tuple[Term, Term]:
    """The first and the second half of ``axis``."""
    if x.shape[axis] != DYNAMIC:
        half = x.shape[axis] // 2
        return x.narrow(axis, 0, half), x.narrow(axis, half, half)
    both = split_axis(x, axis, [2, DYNAMIC])
    first, second = (without_axis(both.narrow(axis, i, 1), axis) for i in range(2))
    return first, second
