"""What an importer knows of values without running the model: extents, and integers computed from them.

Dynamic extents have no number at import, yet a model computes with them: it takes the shape of a tensor, slices
the batch off, concatenates it with numbers and reshapes to that. Such a computation is followed at three sizes of
the dynamic extents at once. What comes out the same for all three does not depend on them and is a plain number;
two extents that are the same at each of the sizes are the same extent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike
from xdsl.ir import Attribute

from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.shapes import DYNAMIC, Shape

Extent = tuple[int, ...]
"""One extent at each of the sizes."""
Shapes = tuple[Shape, ...]
"""One shape at each of the sizes; ranks are equal."""

SIZES = 3

_STEP = 2 * 2 * 3 * 5 * 7


def _primes() -> Iterator[int]:
    candidate = 2
    while True:
        if all(candidate % d for d in range(2, int(candidate**0.5) + 1)):
            yield candidate
        candidate += 1


def _numbers(index: int) -> Extent:
    """The sizes of the dynamic extent that comes ``index``-th.

    One is small: what is cut off at some length is not cut off there. One is divisible by small numbers and one is
    not: rounding shows. Primes are in all of them: a product or sum of others is not the same by accident.
    """
    primes = list(islice(_primes(), index, index + 11))
    return (primes[0], _STEP * primes[5], _STEP * primes[10] + 1)


@dataclass(frozen=True)
class Known:
    """A value that is known at import, at each of the sizes."""

    element: Attribute
    arrays: tuple[Array, ...]

    @property
    def static(self) -> Array | None:
        """The value, if it does not depend on dynamic extents."""
        first, *rest = self.arrays
        # NaN is itself: a value that holds one depends on nothing for that.
        same = (np.array_equal(a, first, equal_nan=first.dtype.kind in "fc") for a in rest)
        return first if all(same) else None

    @property
    def shapes(self) -> Shapes:
        return tuple(a.shape for a in self.arrays)

    @classmethod
    def of(cls, element: Attribute, values: Iterable[ArrayLike]) -> Known:
        """``values`` are one value, or one for each of the sizes."""
        return cls(element, tuple(round_to(np.asarray(v), element) for v in values))


@dataclass
class DynamicExtents:
    """The dynamic extents of a model by name, each with its sizes."""

    by_name: dict[str, Extent] = field(default_factory=dict[str, Extent])

    def __getitem__(self, name: str) -> Extent:
        if name not in self.by_name:
            self.by_name[name] = _numbers(len(self.by_name))
        return self.by_name[name]

    def names(self) -> str:
        """The extents that have no number."""
        return ", ".join(name for name, extent in self.by_name.items() if not is_same(extent))

    def sizes(self) -> str:
        """The numbers that are tried for each of them."""
        return ", ".join(f"{name}={'/'.join(map(str, e))}" for name, e in self.by_name.items() if not is_same(e))

    def fix(self, name: str, number: int) -> None:
        """Make ``number`` of a dynamic extent."""
        self.by_name[name] = (number,) * SIZES

    def show(self, extent: Extent) -> str:
        """``extent`` as a number, by its name, or as ``?``."""
        if is_same(extent):
            return str(extent[0])
        return next((name for name, known in self.by_name.items() if known == extent), "?")


def is_same(extent: Sequence[int]) -> bool:
    """Whether an extent (or any number) is the same at each of the sizes."""
    return all(e == extent[0] for e in extent)


def static_shape(shapes: Shapes) -> Shape:
    """The shape with ``DYNAMIC`` for what differs."""
    return tuple(e[0] if is_same(e) else DYNAMIC for e in extents_of(shapes))


def extents_of(shapes: Sequence[Shape]) -> list[Extent]:
    """Axis by axis what ``shapes`` holds size by size."""
    return list(zip(*shapes, strict=True))


def by_size(extents: Sequence[Extent], sizes: int) -> Shapes:
    """The opposite of :func:`extents_of`."""
    return tuple(tuple(e[size] for e in extents) for size in range(sizes))
