"""Element types of the IR and the NumPy dtypes that stand for them.

NumPy has no bfloat16. A bf16 value is held as a float32 that bfloat16 represents exactly;
:func:`round_to` makes it so. Everything that is narrower than float32 is computed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
    f32,
    f64,
)
from xdsl.ir import Attribute

Array = NDArray[Any]

_FLOATS: dict[type[Attribute], type[np.floating]] = {
    BFloat16Type: np.float32,
    Float16Type: np.float16,
    Float32Type: np.float32,
    Float64Type: np.float64,
}


def is_float(element: Attribute) -> bool:
    return type(element) in _FLOATS


def is_narrow(element: Attribute) -> bool:
    """Whether ``element`` is a float that is computed in a wider one: f16 and bf16."""
    return isinstance(element, Float16Type | BFloat16Type)


def is_integer(element: Attribute) -> bool:
    """True for integers and index, i1 included."""
    return isinstance(element, IntegerType | IndexType)


def is_bool(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.width.data == 1


def is_complex(element: Attribute) -> bool:
    return isinstance(element, ComplexType)


def is_scalar(type: Attribute) -> bool:
    """Whether ``type`` is that of one number or truth value."""
    return is_float(type) or is_integer(type) or is_complex(type)


def is_unsigned(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.signedness.data == Signedness.UNSIGNED


def integer_limits(element: Attribute) -> tuple[int, int]:
    """The least and the greatest value of an integer type. Signless ones count as signed, but i1 holds 0 and 1."""
    width = element.width.data if isinstance(element, IntegerType) else 64
    if width == 1 or is_unsigned(element):
        return 0, 2**width - 1
    return -(2 ** (width - 1)), 2 ** (width - 1) - 1


def storage_dtype(element: Attribute) -> np.dtype[np.generic]:
    """The NumPy dtype that holds values of ``element``; raises TypeError for a type without one."""
    if (known := _FLOATS.get(type(element))) is not None:
        return np.dtype(known)
    if isinstance(element, IntegerType):
        width = element.width.data
        if width == 1:
            return np.dtype(np.bool_)
        if width in (8, 16, 32, 64):
            return np.dtype(f"{'u' if is_unsigned(element) else 'i'}{width // 8}")
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if isinstance(element, ComplexType):
        if element.element_type == f32:
            return np.dtype(np.complex64)
        if element.element_type == f64:
            return np.dtype(np.complex128)
    raise TypeError(f"no NumPy dtype for element type {element}")


def has_storage(element: Attribute) -> bool:
    """Whether NumPy can hold values of ``element``; it cannot for i4, for example."""
    try:
        storage_dtype(element)
    except TypeError:
        return False
    return True


def compute_dtype(element: Attribute) -> np.dtype[np.generic]:
    """The dtype in which the reference computes with ``element``: float32 for f16 and bf16, itself otherwise."""
    if is_narrow(element):
        return np.dtype(np.float32)
    return storage_dtype(element)


def wide_element(element: Attribute) -> Attribute:
    """The element type in which ``element`` is computed: f32 for f16 and bf16, itself otherwise."""
    return f32 if is_narrow(element) else element


def round_to(values: Array, element: Attribute) -> Array:
    """``values`` as values of ``element``, in its storage dtype; rounds once, to nearest even, and NaN stays NaN."""
    if isinstance(element, BFloat16Type):
        return _round_bf16(_round_to_odd(np.asarray(values)))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(storage_dtype(element), copy=False)


def _round_to_odd(values: Array) -> NDArray[np.float32]:
    """``values`` as float32 such that rounding them again to fewer bits is as if they had been rounded once.

    Of the two neighbours of a value that float32 has not, the one with an odd mantissa, which no tie has.
    """
    if values.dtype == np.float32 or values.dtype.kind not in "iuf":
        return values.astype(np.float32, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = values.astype(np.float32)
        exact = nearest.astype(np.longdouble)
        wide = values.astype(np.longdouble)
        away = np.where(wide > exact, np.float32(np.inf), np.float32(-np.inf))
        even = (np.ascontiguousarray(nearest).view(np.uint32).reshape(nearest.shape) & 1) == 0
    return np.where(even & (wide != exact) & np.isfinite(nearest), np.nextafter(nearest, away), nearest)


def _round_bf16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    bits = np.ascontiguousarray(values).view(np.uint32)
    # Half of the dropped 16 bits, plus one when the kept part is odd: round to nearest, ties to even.
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32)).reshape(values.shape)


def bf16_to_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The 16-bit patterns of values that bfloat16 represents exactly."""
    return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).reshape(values.shape)


def bf16_from_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)
