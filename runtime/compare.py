"""How far two results are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import Attribute

from rlx_dialect.dtypes import Array, storage_dtype


@dataclass(frozen=True)
class Difference:
    """The largest errors of one output against the reference.

    ``relative`` is the largest |found - expected| / |expected| over elements whose expected value is not tiny
    (above 1e-3 of the output's largest magnitude): relative errors of values that cancel to nothing say nothing.
    """

    name: str
    absolute: float
    relative: float
    within: bool

    def __str__(self) -> str:
        verdict = "ok" if self.within else "BEYOND TOLERANCE"
        return f"{self.name}: largest error {self.absolute:.3g} absolute, {self.relative:.3g} relative: {verdict}"


def tolerance(dtype: np.dtype[np.generic]) -> float:
    """Default tolerance, absolute per unit of magnitude: an order above rounding in a deep float32 or float16 graph."""
    if not np.issubdtype(dtype, np.inexact):
        return 0.0
    parts = 2 if np.issubdtype(dtype, np.complexfloating) else 1
    return {2: 2e-2, 4: 1e-4, 8: 1e-8}[dtype.itemsize // parts]


def element_tolerance(element: Attribute) -> float:
    """:func:`tolerance` of values of this element type; those of bf16, eight times as coarse as f16, lie in float32."""
    return 1.6e-1 if isinstance(element, BFloat16Type) else tolerance(storage_dtype(element))


def difference(name: str, found: Array, expected: Array, atol: float, rtol: float) -> Difference:
    """Compare one output; NaN must meet NaN and an infinity its like. Raises ValueError on another shape."""
    if found.shape != expected.shape:
        raise ValueError(f"output '{name}' has shape {found.shape}, the reference {expected.shape}")
    kind = np.complex128 if np.iscomplexobj(expected) else np.float64
    f, e = found.astype(kind), expected.astype(kind)
    same = (f == e) | (np.isnan(f) & np.isnan(e))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(f - e))
    error = np.where(np.isnan(error), np.inf, error)
    size = np.where(np.isfinite(e), np.abs(e), 0.0)
    counts = size > 1e-3 * size.max(initial=0.0)
    relative = np.where(counts, error / np.where(counts, size, 1.0), 0.0)
    within = bool((error <= atol + rtol * size).all())
    return Difference(name, float(error.max(initial=0.0)), float(relative.max(initial=0.0)), within)
