"""Extents as the CPU kernels take them: numbers, since what has others was refused before."""

from __future__ import annotations

from collections.abc import Iterable

from rlx_dialect.lowering.to_gpu.extents import Extent
from rlx_dialect.shapes import Shape


def known(extent: Extent) -> int:
    """``extent``, which is a number."""
    assert isinstance(extent, int), f"{extent} was let through"
    return extent


def all_known(extents: Iterable[Extent]) -> Shape:
    """``extents``, which are numbers."""
    return tuple(map(known, extents))


def product(extents: Iterable[Extent]) -> int:
    """The product of ``extents``, which are numbers."""
    result = 1
    for extent in extents:
        result *= known(extent)
    return result
