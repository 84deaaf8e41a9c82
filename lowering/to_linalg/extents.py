"""Extents as products: what a reshape splits and joins, also where some of them are only known at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

Extent = int | SSAValue
"""A static extent, or an SSA value of type ``index``."""


@dataclass(frozen=True)
class Product:
    """``number`` times dynamic extents; equal products are equal at run time."""

    number: int = 1
    factors: tuple[int, ...] = ()
    """Numbers that stand for the dynamic extents, ascending; the same extent may occur twice."""

    def __mul__(self, other: Product) -> Product:
        return Product(self.number * other.number, tuple(sorted((*self.factors, *other.factors))))

    def over(self, other: Product) -> Product | None:
        """The quotient; None where it cannot be told to be one."""
        if other.number == 0 or self.number % other.number:
            return None
        left = Counter(self.factors)
        left.subtract(other.factors)
        if any(count < 0 for count in left.values()):
            return None
        return Product(self.number // other.number, tuple(sorted(left.elements())))


class Symbols:
    """The dynamic extents of a lowering, each with what it is a product of."""

    def __init__(self):
        self._product: dict[SSAValue, Product] = {}
        self._value: dict[Product, SSAValue] = {}
        self._atoms: list[SSAValue] = []

    def define(self, value: SSAValue, product: Product) -> None:
        """``value`` is that product."""
        self._product[value] = product
        self._value[product] = value

    def of(self, extents: Sequence[Extent]) -> Product:
        """The product of extents, as far as it is known what they are made of."""
        result = Product()
        for extent in extents:
            if isinstance(extent, int):
                result *= Product(extent)
                continue
            if extent not in self._product:
                self._atoms.append(extent)
                self.define(extent, Product(1, (len(self._atoms) - 1,)))
            result *= self._product[extent]
        return result

    def known(self, product: Product) -> Extent | None:
        """The extent that has this value, if there is one."""
        return self._value.get(product) if product.factors else product.number

    def factors(self, product: Product) -> list[SSAValue]:
        return [self._atoms[number] for number in product.factors]

    def copy(self) -> Symbols:
        other = Symbols()
        other._product, other._value = self._product.copy(), self._value.copy()
        other._atoms = self._atoms.copy()
        return other


Groups = list[tuple[list[int], list[int]]]
"""Axes before and axes after that hold the same elements, in order."""


def regroup(before: Sequence[Product], after: Sequence[Product]) -> Groups:
    """The finest grouping of two shapes of the same elements, so that groups hold equal products in order.

    An axis of extent 1 joins a neighbour. Where products cannot be told to be equal, the rest is one group. A shape
    without axes gives no groups: its single element is every element of the other.
    """
    groups: Groups = []
    i = j = 0
    while i < len(before) and j < len(after):
        start_i, start_j = i, j
        have, want = before[i], after[j]
        i, j = i + 1, j + 1
        while have != want:
            if want.over(have) is not None and i < len(before):
                have, i = have * before[i], i + 1
            elif have.over(want) is not None and j < len(after):
                want, j = want * after[j], j + 1
            elif i < len(before) and (have.number <= want.number or j == len(after)):
                have, i = have * before[i], i + 1
            elif j < len(after):
                want, j = want * after[j], j + 1
            else:
                break
        groups.append((list(range(start_i, i)), list(range(start_j, j))))
    if groups:
        groups[-1][0].extend(range(i, len(before)))
        groups[-1][1].extend(range(j, len(after)))
    return groups
