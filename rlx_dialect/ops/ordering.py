"""Sorting as simpler operations: by counting, or by a network of comparisons where there are too many pairs to count.

Both order by three keys that are compared in turn: the element with NaN replaced by the greatest value; a class, which
says NaN, other or padding; and the position, so that equal elements keep their order. Class and position are one
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from rlx_dialect.dtypes import is_bool, is_float, storage_dtype
from rlx_dialect.ops.extents import constant, filled, flattened, positions, unflattened, unit_axis
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.reduction import highest, lowest
from rlx_dialect.ops.shape import ReverseOp
from rlx_dialect.shapes import DYNAMIC, product

MOST_PAIRS = 1 << 24
"""As many comparisons are counted at once; where there are more, and the extent is known, a network sorts."""


CLASS = 1 << 29
"""What the second key of a later class has more than its position."""


@dataclass(frozen=True)
class _Keyed:
    """Elements with their second key, position + class · :data:`CLASS`, in i32."""

    value: Term
    place: Term

    def comes_before(self, other: _Keyed, *, descending: bool) -> Term:
        """Where an element of this sorts in front of that of ``other``."""
        ahead = self.value.compare("gt" if descending else "lt", other.value)
        return ahead | (self.value.compare("eq", other.value) & self.place.compare("lt", other.place))

    def both(self, change: Callable[[Term], Term]) -> _Keyed:
        return _Keyed(change(self.value), change(self.place))


def _keyed(x: Term, position: Term, *, descending: bool) -> _Keyed:
    """``position`` broadcasts to ``x``; NaN counts as the greatest."""
    if not is_float(x.element):
        return _Keyed(x, position)
    nan, later = x.is_nan(), position + CLASS
    first, second = (position, later) if descending else (later, position)
    return _Keyed(nan.where(x.like(math.inf), x), nan.where(first, second))


def argsorted(x: Term, axis: int, element: Attribute, *, descending: bool) -> Term:
    """The indices of ``x`` in order along ``axis``, of integer type ``element``; see :mod:`.sorting`.

    Counting compares all pairs of each row, n·n for n elements; the network compares n·log²n.
    """
    if is_bool(x.element):
        x = x.cast(i32)
    to_end = [*(a for a in range(x.rank) if a != axis), axis]
    rows = x.transpose(to_end)
    extent = rows.shape[-1]
    pairs = product(1 if d == DYNAMIC else d for d in rows.shape[:-1]) * extent * extent
    sort = _by_network if extent != DYNAMIC and pairs > MOST_PAIRS else _by_counting
    order = sort(rows, descending=descending).cast(element)
    return order.transpose([to_end.index(a) for a in range(x.rank)])


def _by_counting(x: Term, *, descending: bool) -> Term:
    """An element's rank is the number of those in front of it; the index at a rank is of the element that has it."""
    last = x.rank - 1
    position = positions(x, last)
    keyed = _keyed(x, position, descending=descending)
    # [..., element, each other]
    here, there = (keyed.both(lambda t, b=back: unit_axis(t, t.rank - b)) for back in (0, 1))
    rank = there.comes_before(here, descending=descending).cast(i32).reduce("sum", [last + 1], keep_dim=False)
    # [..., element, rank]
    has = unit_axis(rank, x.rank).compare("eq", position)
    return has.where(position.reshape([-1, 1]), 0).reduce("sum", [last], keep_dim=False)


def _by_network(x: Term, *, descending: bool) -> Term:
    """Bitonic sorting of a power of two of elements: ordered halves are merged after one of them is turned round."""
    count = x.shape[-1]
    size = 1 << (count - 1).bit_length()
    rows = flattened(x, 1)
    zeros = filled(rows, 0, i32)
    keyed = _keyed(rows, zeros + constant(zeros, np.arange(count)), descending=descending)
    if size > count:
        dtype = storage_dtype(x.element)
        last = (lowest if descending else highest)(np.dtype(np.float64) if is_float(x.element) else dtype)
        rest = constant(zeros, np.arange(count, size) + 2 * CLASS)
        padding = _Keyed(filled(rows.narrow(1, 0, size - count), last), zeros.narrow(1, 0, size - count) + rest)
        keyed = _joined(keyed, padding, 1)
    for merged in (2 << i for i in range((size - 1).bit_length())):
        keyed = _exchanged(keyed, rows.shape[0], merged, turn=True, descending=descending)
        for part in (merged >> i for i in range(1, (merged - 1).bit_length())):
            keyed = _exchanged(keyed, rows.shape[0], part, turn=False, descending=descending)
    place = keyed.place.reshape([rows.shape[0], size]).narrow(1, 0, count)
    return unflattened(place.binary("bit_and", CLASS - 1), x, 1)


def _exchanged(keyed: _Keyed, rows: int, size: int, *, turn: bool, descending: bool) -> _Keyed:
    """Each part of ``size`` elements with those that sort first in its first half, compared with the other half's.

    With ``turn`` the second half is read, and written, backwards.
    """
    boxes = keyed.both(lambda t: t.reshape([rows, product(t.shape[1:]) // size, 2, size // 2]))
    low, high = (boxes.both(lambda t, i=i: t.narrow(2, i, 1)) for i in range(2))
    if turn:
        high = high.both(_turned)
    wrong = high.comes_before(low, descending=descending)
    first = _Keyed(wrong.where(high.value, low.value), wrong.where(high.place, low.place))
    second = _Keyed(wrong.where(low.value, high.value), wrong.where(low.place, high.place))
    return _joined(first, second.both(_turned) if turn else second, 2)


def _turned(x: Term) -> Term:
    return x.insert(ReverseOp(x.value, [x.rank - 1]))


def _joined(first: _Keyed, second: _Keyed, axis: int) -> _Keyed:
    return _Keyed(first.value.concat(axis, second.value), first.place.concat(axis, second.place))
