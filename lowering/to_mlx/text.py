"""Python text of names, numbers and element types, as the printed module spells them."""

from __future__ import annotations

import builtins
import keyword
import math
import re
import textwrap
from collections.abc import Iterable

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    f32,
)
from xdsl.ir import Attribute

from rlx_dialect.dtypes import Array, is_bool, is_unsigned
from rlx_dialect.lowering import NotLowered
from rlx_dialect.shapes import DYNAMIC, Shape

_FLOATS: dict[type[Attribute], str] = {
    BFloat16Type: "bfloat16",
    Float16Type: "float16",
    Float32Type: "float32",
    Float64Type: "float64",
}
WIDTH = 120
"""The longest line of the printed module."""
_GREATEST_INT = 2**63 - 1
"""MLX makes no array of greater Python integers."""


def dtype_name(element: Attribute) -> str:
    """MLX's name of an element type; raises NotLowered where it has none."""
    if (known := _FLOATS.get(type(element))) is not None:
        return known
    if isinstance(element, IntegerType):
        if is_bool(element):
            return "bool_"
        if (width := element.width.data) in (8, 16, 32, 64):
            return f"{'u' if is_unsigned(element) else ''}int{width}"
    if isinstance(element, IndexType):
        return "int64"
    if isinstance(element, ComplexType) and element.element_type == f32:
        return "complex64"
    raise NotLowered(f"MLX has no element type {element}")


def dtype(element: Attribute) -> str:
    """The expression of an element type; raises NotLowered where MLX has none."""
    return f"mx.{dtype_name(element)}"


class Names:
    """Valid Python names, each given once; ``outer`` are those of the surrounding scope."""

    def __init__(self, reserved: Iterable[str] = (), outer: Names | None = None):
        self._used = {*keyword.kwlist, *dir(builtins), "mx", *reserved}
        self._outer = outer
        self._inside: set[str] = set()
        """Names of inner scopes, where one of this scope would be hidden."""

    def __contains__(self, name: str) -> bool:
        return name in self._used or (self._outer is not None and name in self._outer)

    def fresh(self, hint: str) -> str:
        """``hint`` made a valid name, with a number behind it where that name is taken."""
        base = re.sub(r"\W", "_", hint, flags=re.ASCII).strip("_") or "value"
        if base[0].isdigit():
            base = f"v{base}"
        name, number = base, 1
        while name in self or name in self._inside:
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        if self._outer is not None:
            self._outer._inside.add(name)
        return name


def tuple_text(items: Iterable[object]) -> str:
    """A tuple of things that are written as they print."""
    listed = [str(item) for item in items]
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def number(value: object, element: Attribute) -> str:
    """A literal that becomes exactly ``value``, which is one of ``element``."""
    if isinstance(value, np.generic):
        value = _shortest(value, element)
    if isinstance(value, complex):
        return f"complex({_real(value.real)}, {_real(value.imag)})"
    if isinstance(value, float):
        return _real(value)
    return repr(value)


def _shortest(value: np.generic, element: Attribute) -> object:
    # The shortest text of a float32 reads as the double next to it, and rounds to it again.
    if value.dtype in (np.float32, np.float16) and not isinstance(element, Float64Type):
        return float(str(value))
    return value.item()


def _real(value: float) -> str:
    if math.isnan(value):
        return "mx.nan"
    if math.isinf(value):
        return "mx.inf" if value > 0 else "-mx.inf"
    return repr(value)


def is_literal(value: object) -> bool:
    """Whether MLX takes the number as a Python literal."""
    return not isinstance(value, int | np.integer) or int(value) <= _GREATEST_INT


def array_text(values: Array, element: Attribute) -> str:
    """An expression of a constant array, over several lines where it is long."""
    kind = dtype(element)
    flat = values.ravel()
    if not values.size:
        return f"mx.zeros({tuple_text(values.shape)}, {kind})"
    if any(not is_literal(v) for v in (flat.max(), flat.min()) if values.dtype.kind in "ui"):
        return f"{array_text(values.astype(np.int64), IntegerType(64))}.astype({kind})"
    raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
    if values.ndim and (raw == raw[0]).all():
        return f"mx.full({tuple_text(values.shape)}, {number(flat[0], element)}, {kind})"
    return f"mx.array({_nested(values, element)}, {kind})"


def _nested(values: Array, element: Attribute) -> str:
    if not values.ndim:
        return number(values[()], element)
    return f"[{', '.join(_nested(part, element) for part in values)}]"


def folded(line: str, indent: str) -> list[str]:
    """A long line of comma-separated things as several; breaks only behind a comma, inside brackets."""
    if len(indent) + len(line) <= WIDTH:
        return [indent + line]
    if line.startswith("return ") and "(" not in line.partition(",")[0]:
        line = f"return ({line.removeprefix('return ')})"
    elif not re.search(r"[(\[{]", line.partition(",")[0]):
        return [indent + line]  # Names without brackets, which cannot go on in the next line.
    parts = textwrap.wrap(
        re.sub(r"(?<=,) ", "\n", line).replace(" ", "\0").replace("\n", " "),
        WIDTH - len(indent),
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [indent + part.replace("\0", " ") for part in parts]


def shape_text(shape: Shape) -> str:
    """Extents for people: ``[batch 2, ?]`` is ``[2, ?]``."""
    return f"[{', '.join('?' if d == DYNAMIC else str(d) for d in shape)}]"
