"""What an engine is: it compiles a lowered module once and runs it on NumPy arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DictionaryAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from rlx_dialect.dtypes import Array, bf16_from_bits, bf16_to_bits, round_to, storage_dtype
from rlx_dialect.graph import GraphError, arguments, output_names
from rlx_dialect.lowering import UNSIGNED
from rlx_dialect.shapes import Shape, compatible, show

_NUMPY_BF16 = "bfloat16"
"""The name of the dtype that packages such as ml_dtypes register."""


class Executable(Protocol):
    """A compiled graph with its parameters bound."""

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs in result order for a value of every input by name.

        bf16 values are float32 arrays (see :mod:`rlx_dialect.dtypes`). Raises BindingError.
        """
        ...


class Engine(Protocol):
    """A way to run a lowered module; which lowered form, is the engine's matter."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> Executable:
        """Compile the main function of ``module``; ``weights`` holds a value for each of its parameters.

        ``weights`` may load lazily: each parameter is read once. Raises BindingError, ToolError.
        """
        ...


class BindingError(ValueError):
    """Values that do not fit the inputs or parameters of a graph; the message lists every misfit."""


@dataclass(frozen=True)
class Slot:
    """A value that enters or leaves a graph: ``shape`` may have dynamic extents (-1)."""

    name: str
    element: Attribute
    shape: Shape

    def __str__(self) -> str:
        return f"{self.element} of shape {show(self.shape)}"

    def misfit(self, value: Array) -> str | None:
        """Why ``value`` cannot be bound here, or None."""
        name = value.dtype.name
        fits = name == storage_dtype(self.element).name or (
            isinstance(self.element, BFloat16Type) and name == _NUMPY_BF16
        )
        if fits and compatible(value.shape, self.shape):
            return None
        return f"'{self.name}' must be {self}, got {name} of shape {show(value.shape)}"

    def pack(self, value: Array) -> Array:
        """``value`` as contiguous memory in the element's own width (bf16 as uint16), copied only where it must be."""
        if value.dtype.name == _NUMPY_BF16:
            value = value.view(np.uint16)
        elif isinstance(self.element, BFloat16Type):
            value = bf16_to_bits(round_to(value, self.element).astype(np.float32, copy=False))
        # ascontiguousarray makes a rank-0 array rank 1; a file may hold the other byte order.
        return np.ascontiguousarray(value, value.dtype.newbyteorder("=")).reshape(value.shape)

    @property
    def packed_dtype(self) -> np.dtype[np.generic]:
        return np.dtype(np.uint16) if isinstance(self.element, BFloat16Type) else storage_dtype(self.element)

    def unpack(self, packed: Array) -> Array:
        """The value of packed memory: the opposite of :meth:`pack`."""
        return (
            bf16_from_bits(packed.astype(np.uint16, copy=False)) if isinstance(self.element, BFloat16Type) else packed
        )


@dataclass(frozen=True)
class Signature:
    """The named values of a lowered graph, each group in argument or result order."""

    inputs: tuple[Slot, ...]
    params: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    @staticmethod
    def of(function: FuncOp) -> Signature:
        groups: dict[str, list[Slot]] = {"input": [], "param": []}
        for index, argument in enumerate(arguments(function)):
            unsigned = _is_marked(function.arg_attrs, index)
            groups[argument.kind].append(_slot(argument.name, argument.value.type, unsigned))
        results = zip(output_names(function), function.function_type.outputs, strict=True)
        outputs = tuple(
            _slot(name, type, _is_marked(function.res_attrs, index)) for index, (name, type) in enumerate(results)
        )
        return Signature(tuple(groups["input"]), tuple(groups["param"]), outputs)


def _is_marked(attributes: ArrayAttr[DictionaryAttr] | None, index: int) -> bool:
    return attributes is not None and UNSIGNED in attributes.data[index].data


def _slot(name: str, type: Attribute, unsigned: bool) -> Slot:
    if not isinstance(type, TensorType | MemRefType):
        raise GraphError(f"'{name}' must be a tensor or a memref to cross the border of a graph, got {type}")
    element = type.element_type
    if unsigned:
        assert isinstance(element, IntegerType)
        element = IntegerType(element.width.data, Signedness.UNSIGNED)
    try:
        storage_dtype(element)
    except TypeError as error:
        raise GraphError(f"'{name}' cannot cross the border of a graph: {error}") from error
    return Slot(name, element, type.get_shape())


def bind(what: str, slots: Sequence[Slot], values: Mapping[str, Array]) -> list[Array]:
    """One packed array a slot, in slot order; ``what`` (``input``, ``parameter``) is for messages.

    Each value is read once. Raises BindingError that lists every missing, unknown or unfitting value.
    """
    problems: list[str] = []
    bound: list[Array] = []
    for slot in slots:
        if slot.name not in values:
            problems.append(f"'{slot.name}' is missing: expected {slot}")
            continue
        value = np.asarray(values[slot.name])
        if (misfit := slot.misfit(value)) is not None:
            problems.append(misfit)
        else:
            bound.append(slot.pack(value))
    names = {slot.name for slot in slots}
    if what == "input" and (unknown := [name for name in values if name not in names]):
        known = ", ".join(f"'{slot.name}'" for slot in slots) or "none"
        problems += [f"'{name}' is unknown; the inputs are {known}" for name in unknown]
    if problems:
        raise BindingError("\n".join(f"{what} {problem}" for problem in problems))
    return bound
