"""The singular value decomposition by rotations of pairs of columns (one-sided Jacobi)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f64, i32

from rlx_dialect.ops.extents import constant, filled, unit_axis, without_axis
from rlx_dialect.ops.factorization import diagonal, looped, qr, scaled_down
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherElementsOp, GatherOp
from rlx_dialect.ops.ordering import argsorted
from rlx_dialect.ops.shape import ExpandOp


def _sweeps(columns: int, *, double: bool) -> int:
    """How often every pair is rotated: convergence is quadratic at the end, and one rotation does for two columns."""
    if columns <= 2:
        return 2
    return (7 if double else 5) + (columns - 1).bit_length()


def _next_round(columns: int) -> list[int]:
    """Which column goes where between two rounds, so that each pair meets once in ``columns`` - 1 rounds."""
    half = columns // 2
    return [0, half, *range(1, half - 1), *range(half + 1, columns), half - 1] if half > 1 else [0, 1]


class Jacobi:
    """The decomposition of ``a`` [..., rows, columns] with no fewer rows than columns.

    The columns of a·v are orthogonal once v is found: their lengths are the singular values.
    """

    def __init__(self, a: Term, rows: int, columns: int, *, with_v: bool):
        self._rows, self._columns = rows, columns
        small, self._scale = scaled_down(a)
        even = columns + columns % 2
        work = small
        if even > columns:
            # The column of zeros stays as it is, and last.
            work = work.concat(a.rank - 1, filled(small.narrow(a.rank - 1, 0, 1), 0.0))
        if with_v:
            one_row = work.narrow(a.rank - 2, 0, 1)
            zeros = filled(one_row.insert(ExpandOp(one_row.value, [*a.shape[:-2], even, even])), 0.0)
            work = work.concat(a.rank - 2, zeros + constant(a, np.eye(even)))
        rounds = _sweeps(even, double=a.element == f64) * (even - 1)
        self._work = looped(work, [np.zeros((rounds, 1), bool)], lambda w, _: self._round(w))
        turned = self._work.narrow(a.rank - 2, 0, rows)
        lengths = (turned * turned).reduce("sum", [a.rank - 2]).apply("sqrt")
        flat = without_axis(lengths, a.rank - 2)
        order = argsorted(flat, flat.rank - 1, i32, descending=True).narrow(flat.rank - 1, 0, columns)
        self._lengths, self._order = flat, order

    def _round(self, work: Term) -> Term:
        """Rotate column i and column i + half such that they become orthogonal, for each i of a half."""
        last, up = work.rank - 1, work.rank - 2
        columns = work.shape[last]
        half = columns // 2
        p, q = work.narrow(last, 0, half), work.narrow(last, half, half)
        left, right = p.narrow(up, 0, self._rows), q.narrow(up, 0, self._rows)
        product = (left * right).reduce("sum", [up])
        difference = (right * right).reduce("sum", [up]) - (left * left).reduce("sum", [up])
        slope = difference / (product * 2.0)
        size = 1.0 / (slope.apply("abs") + (slope * slope + 1.0).apply("sqrt"))
        tangent = slope.compare("lt", 0.0).where(-size, size)
        tangent = product.compare("eq", 0.0).where(product.like(0.0), tangent)
        cosine = 1.0 / (tangent * tangent + 1.0).apply("sqrt")
        sine = cosine * tangent
        turned = (p * cosine - q * sine).concat(last, p * sine + q * cosine)
        order = constant(work, _next_round(columns), i32)
        return turned.insert(GatherOp(turned.value, order.value, last))

    def _ordered(self, x: Term) -> Term:
        """The columns of ``x`` by falling singular values."""
        order = unit_axis(self._order, x.rank - 2)
        shape = [*x.shape[:-1], self._columns]
        order = order.insert(ExpandOp(order.value, shape))
        return x.insert(GatherElementsOp(x.value, order.value, x.rank - 1))

    def s(self) -> Term:
        """[..., columns]."""
        lengths = self._lengths
        found = lengths.insert(GatherElementsOp(lengths.value, self._order.value, lengths.rank - 1))
        return found * without_axis(self._scale, self._scale.rank - 1)

    def u(self) -> Term:
        """[..., rows, columns]: orthonormal also where a singular value is 0, as factors of orthogonal columns."""
        turned = self._ordered(self._work.narrow(self._work.rank - 2, 0, self._rows))
        q, r = qr(turned, self._rows, self._columns)
        signs = unit_axis(diagonal(r, self._columns), q.rank - 2)
        return signs.compare("lt", 0.0).where(-q, q)

    def v(self) -> Term:
        """[..., columns, columns]."""
        return self._ordered(self._work.narrow(self._work.rank - 2, self._rows, self._columns))
