"""Extents that are known when a graph is lowered, or only when it runs: formulas are written once for both.

An extent is a Python ``int``, or a :class:`Sym`: a polynomial over the unknown extents of the graph's arguments, and
over quotients and minima of such polynomials. Sums, products and divisions by numbers give extents again, in one
normal form, so that ``==`` tells extents that are provably equal. A choice that depends on an unknown extent (``<``,
``range``, an index) raises :class:`UnknownExtent`; ``if extent:`` reads "maybe", so a test for remainders holds for
every extent that is not provably a multiple.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from rlx_dialect.lowering import NotLowered


class UnknownExtent(NotLowered):
    """A schedule would have to know an extent that is known only when the graph runs."""


@dataclass(frozen=True)
class Dim:
    """The extent of an argument of the graph along an axis."""

    argument: int
    axis: int

    @cached_property
    def text(self) -> str:
        return f"d{self.argument}.{self.axis}"


@dataclass(frozen=True)
class Quotient:
    """``of`` divided by ``by``, rounded down; ``of`` is never negative."""

    of: Sym
    by: int

    @cached_property
    def text(self) -> str:
        return f"({self.of})/{self.by}"


@dataclass(frozen=True)
class Least:
    """The smaller of ``of`` and ``limit``; neither is ever negative."""

    of: Sym
    limit: int

    @cached_property
    def text(self) -> str:
        return f"min({self.of}, {self.limit})"


Atom = Dim | Quotient | Least
Monomial = tuple[Atom, ...]
"""A product of atoms in one order for all; the empty one is 1."""


@dataclass(frozen=True, eq=True)
class Sym:
    """Σ coefficient · monomial, with no coefficient of 0 and some monomial that is not 1."""

    terms: tuple[tuple[Monomial, int], ...]

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return " + ".join(
            "*".join([*([str(c)] if c != 1 or not m else []), *(a.text for a in m)]) for m, c in self.terms
        )

    def __add__(self, other: Extent) -> Extent:
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _extent(total)

    __radd__ = __add__

    def __neg__(self) -> Sym:
        return Sym(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Extent) -> Extent:
        return self + -other

    def __rsub__(self, other: Extent) -> Extent:
        return -self + other

    def __mul__(self, other: Extent) -> Extent:
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                monomial = tuple(sorted((*left, *right), key=_order))
                total[monomial] = total.get(monomial, 0) + a * b
        return _extent(total)

    __rmul__ = __mul__

    def __floordiv__(self, by: Extent) -> Extent:
        """Rounded down, where numerator and ``by`` are not negative; ``-(-a // b)`` rounds up."""
        if isinstance(by, Sym):
            self._unknown(f"a division by {by}")
        if all(c <= 0 for m, c in self.terms if m):
            # floor(-a/b) = -ceil(a/b): quotients are of what is not negative.
            return -((by - 1 - self) // by)
        whole = _extent({m: c // by for m, c in self.terms if c % by == 0 or not m})
        rest = _extent({m: c % by if not m else c for m, c in self.terms if c % by})
        if isinstance(rest, Sym):
            return whole + Sym((((Quotient(rest, by),), 1),))
        return whole + rest // by

    def __rfloordiv__(self, other: int) -> NoReturn:
        self._unknown(f"the quotient of {other} and {self}")

    def __mod__(self, by: Extent) -> Extent:
        return self - self // by * by

    def __rmod__(self, other: int) -> NoReturn:
        self._unknown(f"the remainder of {other} and {self}")

    def _unknown(self, what: str) -> NoReturn:
        raise UnknownExtent(f"{what} is known only when the graph runs")

    def __lt__(self, other: Extent) -> NoReturn:
        self._unknown(f"whether {self} is less than {other}")

    def __gt__(self, other: Extent) -> NoReturn:
        self._unknown(f"whether {self} is more than {other}")

    def __le__(self, other: Extent) -> NoReturn:
        self._unknown(f"whether {self} is at most {other}")

    def __ge__(self, other: Extent) -> NoReturn:
        self._unknown(f"whether {self} is at least {other}")

    def __index__(self) -> NoReturn:
        self._unknown(str(self))


Extent = int | Sym
Shape = tuple[Extent, ...]


def _order(atom: Atom) -> str:
    return atom.text


def _terms(extent: Extent) -> Iterable[tuple[Monomial, int]]:
    return extent.terms if isinstance(extent, Sym) else (((), extent),)


def _extent(total: Mapping[Monomial, int]) -> Extent:
    terms = sorted(((m, c) for m, c in total.items() if c), key=lambda t: (-len(t[0]), [a.text for a in t[0]]))
    if all(not m for m, _ in terms):
        return sum(c for _, c in terms)
    return Sym(tuple(terms))


def symbol(atom: Atom) -> Sym:
    """The extent that is only itself."""
    return Sym((((atom,), 1),))


def least(extent: Extent, limit: int) -> Extent:
    """The smaller of the two; neither is negative."""
    return symbol(Least(extent, limit)) if isinstance(extent, Sym) else min(extent, limit)


def product(extents: Iterable[Extent]) -> Extent:
    result: Extent = 1
    for extent in extents:
        result = result * extent
    return result


def up(extent: Extent, by: int) -> Extent:
    """``extent`` divided by ``by``, rounded up."""
    return -(-extent // by)


def is_known(extents: Sequence[Extent]) -> bool:
    """Whether all are numbers."""
    return not any(isinstance(e, Sym) for e in extents)


def dims(extent: Extent) -> set[Dim]:
    """The unknown extents of arguments that ``extent`` is made of."""
    found: set[Dim] = set()
    for monomial, _ in _terms(extent):
        for atom in monomial:
            found |= {atom} if isinstance(atom, Dim) else dims(atom.of)
    return found


def substitute(extent: Extent, values: Mapping[Dim, Extent]) -> Extent:
    """``extent`` with other extents in the place of unknown ones."""
    if not isinstance(extent, Sym):
        return extent
    total: Extent = 0
    for monomial, coefficient in extent.terms:
        part: Extent = coefficient
        for atom in monomial:
            part = part * _substituted(atom, values)
        total = total + part
    return total


def _substituted(atom: Atom, values: Mapping[Dim, Extent]) -> Extent:
    match atom:
        case Dim():
            return values.get(atom, symbol(atom))
        case Quotient():
            return substitute(atom.of, values) // atom.by
        case Least():
            return least(substitute(atom.of, values), atom.limit)


def evaluate(extent: Extent, values: Mapping[Dim, int]) -> int:
    """The number that ``extent`` is; ``values`` has all its unknown extents."""
    result = substitute(extent, values)
    assert isinstance(result, int), f"{result} is not known"
    return result


TYPICAL = 128
"""What a schedule that is chosen by size takes an unknown extent of an argument for."""


def estimate(extent: Extent) -> int:
    """A number to choose a schedule by, never to compute with."""
    return evaluate(extent, dict.fromkeys(dims(extent), TYPICAL))
