"""Elimination, factors and singular values as loops of masked steps.

A matrix is the last two axes; batches are in front and may be unknown, the matrix itself must be known, as it says how
many steps there are. Each step is one round of an ``rlx.scan`` whose carry is the matrix, or several side by side.
What a step takes out of it is masked, never multiplied by zero, so NaN and infinities stay where they belong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i1, i32
from xdsl.ir import Block, Region

from rlx_dialect.dtypes import Array
from rlx_dialect.ops.control_flow import ScanOp
from rlx_dialect.ops.extents import constant, filled, unit_axis
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.region import YieldOp
from rlx_dialect.ops.shape import ExpandOp, TriluOp
from rlx_dialect.xdsl_compat import Builder, InsertPoint


def looped(carry: Term, masks: Sequence[Array], step: Callable[..., Term], whole: Sequence[Term] = ()) -> Term:
    """``carry`` after ``step(carry, *whole, *masks[i])`` for each i; ``masks`` are truth values [steps, …]."""
    steps = len(masks[0])
    if not steps:
        return carry
    parts = [constant(carry, mask, i1) for mask in masks]
    seen = [carry.value.type, *(w.value.type for w in whole), *(TensorType(i1, p.shape[1:]) for p in parts)]
    block = Block(arg_types=seen)
    b = Builder(InsertPoint.at_end(block))
    b.insert(YieldOp(step(*(Term(b, argument) for argument in block.args)).value))
    wholes, taken = [w.value for w in whole], [p.value for p in parts]
    return carry.insert(ScanOp(carry.value, Region(block), length=steps, whole=wholes, parts=taken))


def picked(x: Term, mask: Term, axis: int) -> Term:
    """The only row (axis -2) or column (-1) of ``x`` that ``mask`` marks; the axis stays as an extent of 1."""
    return mask.where(x, 0.0).reduce("sum", [x.rank + axis])


def diagonal(x: Term, size: int) -> Term:
    """The first ``size`` elements of the diagonal: [..., size]."""
    eye = constant(x, np.eye(*x.shape[-2:], dtype=bool), i1)
    found = eye.where(x, 0.0).reduce("sum", [x.rank - 2], keep_dim=False)
    return found.narrow(x.rank - 2, 0, size)


def row_flags(flags: Term) -> Term:
    """Flags [n] for the columns, [1, n]."""
    return flags.reshape([1, -1])


def column_flags(flags: Term) -> Term:
    """Flags [n] for the rows, [n, 1]."""
    return flags.reshape([-1, 1])


def flipped(x: Term) -> Term:
    """The transposed matrices."""
    return x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _steps(count: int, size: int) -> tuple[Array, Array]:
    """For each of ``count`` steps: which of ``size`` positions is its own, and which come after."""
    return np.eye(count, size, dtype=bool), np.triu(np.ones((count, size), bool), 1)


def eliminated(matrix: Term, size: int) -> Term:
    """``matrix`` [..., size, size or more] after elimination with partial pivoting: what counts is its upper triangle.

    Of rows that change places one changes its sign, so the determinant of the square part stays. Where a column has
    no pivot, its diagonal element is 0.
    """

    def step(m: Term, own: Term, after: Term) -> Term:
        rows, columns, place = m.rank - 2, m.rank - 1, constant(m, np.arange(size).reshape(size, 1), i32)
        at, below = column_flags(own), column_flags(after)
        column = picked(m.narrow(columns, 0, size), row_flags(own), -1)
        height = (at | below).where(column.apply("abs"), -1.0)
        # A NaN is the greatest of its column, and equals nothing.
        highest = height.compare("eq", height.reduce("max", [rows])) | height.is_nan()
        pivot = place.compare("eq", highest.where(place, size).reduce("min", [rows]))
        pivot_row, pivot_element = picked(m, pivot, -2), picked(column, pivot, -2)
        swapped = at.where(pivot_row, pivot.where(-picked(m, at, -2), m))
        divisor = pivot_element.compare("eq", 0.0).where(pivot_element.like(1.0), pivot_element)
        factor = picked(swapped.narrow(columns, 0, size), row_flags(own), -1) / divisor
        return below.where(swapped - factor * pivot_row, swapped)

    return looped(matrix, _steps(max(size - 1, 0), size), step)


def substituted(a: Term, right: Term, size: int, *, lower: bool) -> Term:
    """The x with a·x = right [..., size, K], where a is triangular; NaN where its diagonal has a 0."""

    def step(x: Term, a: Term, own: Term, rest: Term) -> Term:
        at, left = column_flags(own), column_flags(rest)
        column = picked(a, row_flags(own), -1)
        found = picked(x, at, -2) / picked(column, at, -2)
        return at.where(found, left.where(x - column * found, x))

    own, after = _steps(size, size)
    masks = (own, after) if lower else (own[::-1], after[:, ::-1])
    x = looped(right, masks, step, [a])
    least = unit_axis(diagonal(a, size).apply("abs").reduce("min", [a.rank - 2]), a.rank - 2)
    return least.compare("eq", 0.0).where(x.like(math.nan), x)


def cholesky(a: Term, size: int) -> Term:
    """The lower triangular factor, column by column; NaN where a is not positive definite."""

    def step(m: Term, own: Term, after: Term) -> Term:
        at, below = column_flags(own), column_flags(after)
        column = picked(m, row_flags(own), -1)
        pivot = picked(column, at, -2)
        root = pivot.compare("gt", 0.0).where(pivot, math.nan).apply("sqrt")
        factor = at.where(root, below.where(column / root, 0.0))
        rest = row_flags(after).where(m - factor * flipped(factor), m)
        return row_flags(own).where(factor, rest)

    done = looped(a, _steps(size, size), step)
    lower = done.insert(TriluOp(done.value))
    bad = diagonal(lower, size).is_nan().reduce("max", [a.rank - 2])
    return unit_axis(bad, a.rank - 2).where(lower.like(math.nan), lower)


def scaled_down(a: Term) -> tuple[Term, Term]:
    """``a`` with elements of at most 1, so that squares do not overflow, and what it was divided by, [..., 1, 1]."""
    most = a.apply("abs").reduce("max", [a.rank - 2, a.rank - 1])
    scale = most.compare("eq", 0.0).where(most.like(1.0), most)
    return a / scale, scale


def qr(a: Term, rows: int, columns: int) -> tuple[Term, Term]:
    """q [..., rows, R] and r [..., R, columns] by reflections, with the signs that LAPACK's have."""
    rank = min(rows, columns)
    small, scale = scaled_down(a)
    identity = constant(a, np.eye(rows))
    with_identity = small.concat(a.rank - 1, filled(_widened(small, rows), 0.0) + identity)

    def step(w: Term, own: Term, after: Term, own_column: Term) -> Term:
        up = w.rank - 2
        at, below = column_flags(own), column_flags(after)
        column = picked(w, row_flags(own_column), -1)
        head, rest = picked(column, at, -2), below.where(column, 0.0)
        squares = (rest * rest).reduce("sum", [up])
        norm = (head * head + squares).apply("sqrt")
        first = head + head.compare("lt", 0.0).where(-norm, norm)
        mirror = at.where(first, rest)
        # What is zero below the diagonal needs no reflection, and gets none, in LAPACK too.
        weight = squares.compare("eq", 0.0).where(squares.like(0.0), 2.0 / (squares + first * first))
        return w - mirror * ((mirror * w).reduce("sum", [up]) * weight)

    count = max(min(rows - 1, columns), 0)
    own, after = _steps(count, rows)
    done = looped(with_identity, (own, after, np.eye(count, columns + rows, dtype=bool)), step)
    top = done.narrow(a.rank - 2, 0, rank)
    r = top.narrow(a.rank - 1, 0, columns) * scale
    upper = r.insert(TriluOp(r.value, upper=True))
    return flipped(top.narrow(a.rank - 1, columns, rows)), upper


def _widened(x: Term, columns: int) -> Term:
    """Something with the rows of ``x`` and as many ``columns``."""
    first = x.narrow(x.rank - 1, 0, 1)
    return first.insert(ExpandOp(first.value, [*x.shape[:-1], columns]))
