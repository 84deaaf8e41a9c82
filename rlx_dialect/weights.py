"""The side file: a graph's weights by parameter name, in safetensors format beside its ``.mlir`` file.

The format is a JSON header (name, dtype, shape and byte range of each tensor) and the raw bytes. It is read by
memory map, so that a tensor costs memory only while it is used, and written tensor by tensor. bf16 tensors,
which NumPy has no dtype for, are float32 arrays here (see :mod:`rlx_dialect.dtypes`) and 16 bits in the file.

A module names its file in the attribute ``rlx.weights``, relative to the folder of the ``.mlir`` file; without
the attribute it is ``<stem>.safetensors`` beside it.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, bf16_from_bits, bf16_to_bits, is_bool, is_float, round_to, storage_dtype
from rlx_dialect.graph import Argument, arguments, main_function, text_of
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.shape import ExpandOp, ReshapeOp
from rlx_dialect.shapes import Shape, compatible, is_static, product, show

WEIGHTS = "rlx.weights"
SUFFIX = ".safetensors"

_LENGTH_BYTES = 8
_ALIGNMENT = 8
_MAX_EXTENT = 2**63 - 1


def _unsigned(width: int) -> Attribute:
    return IntegerType(width, Signedness.UNSIGNED)


_DTYPE_NAMES: dict[Attribute, str] = {
    f64: "F64",
    f32: "F32",
    f16: "F16",
    bf16: "BF16",
    **{IntegerType(w): f"I{w}" for w in (8, 16, 32, 64)},
    **{_unsigned(w): f"U{w}" for w in (8, 16, 32, 64)},
    i1: "BOOL",
    ComplexType(f32): "C64",
}
_ELEMENTS = {name: element for element, name in _DTYPE_NAMES.items()}


class WeightsError(ValueError):
    """A side file that cannot be read or written, or that does not fit its graph."""


@dataclass(frozen=True)
class Entry:
    """One tensor of a side file; its bytes are ``begin`` to ``end`` of the file."""

    element: Attribute
    shape: Shape
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.element} of shape {show(self.shape)}"


class SideFile(Mapping[str, Array]):
    """The tensors of a safetensors file; each is mapped from the file when it is asked for (read-only).

    Opening reads the header only. Raises WeightsError for anything that is not such a file.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self._bytes = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise WeightsError(f"{path}: a {SUFFIX} file expected: {error}") from error
        self.entries: Mapping[str, Entry] = self._read_header()

    def __getitem__(self, name: str) -> Array:
        entry = self.entries[name]
        raw = self._bytes[entry.begin : entry.end]
        if isinstance(entry.element, BFloat16Type):
            return bf16_from_bits(raw.view(np.uint16)).reshape(entry.shape)
        return raw.view(storage_dtype(entry.element)).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def _fail(self, what: str) -> WeightsError:
        return WeightsError(f"{self.path}: not a valid {SUFFIX} file: {what}")

    def _read_header(self) -> dict[str, Entry]:
        size = len(self._bytes)
        length = int.from_bytes(self._bytes[:_LENGTH_BYTES].tobytes(), "little")
        start = _LENGTH_BYTES + length
        if size < _LENGTH_BYTES or start > size:
            raise self._fail(f"the file has {size} bytes, its header {start}")
        try:
            header = json.loads(self._bytes[_LENGTH_BYTES:start].tobytes().decode())
        except (ValueError, RecursionError) as error:
            raise self._fail(f"its header is no JSON: {error}") from error
        if not isinstance(header, dict):
            raise self._fail("its header is no JSON object")
        tensors = cast("dict[str, Any]", header)
        return {name: self._read_entry(name, tensors[name], start) for name in tensors if name != "__metadata__"}

    def _read_entry(self, name: str, value: Any, start: int) -> Entry:
        try:
            dtype, shape, (begin, end) = value["dtype"], tuple(map(int, value["shape"])), value["data_offsets"]
            entry = Entry(_ELEMENTS[dtype], shape, start + int(begin), start + int(end))
            if not all(0 <= extent <= _MAX_EXTENT for extent in shape):
                raise ValueError("no shape")
        except (KeyError, TypeError, ValueError) as error:
            raise self._fail(f"tensor '{name}' is described by {value}") from error
        count = _file_dtype(entry.element).itemsize * product(shape)
        if not (start <= entry.begin <= entry.end <= len(self._bytes)) or entry.end - entry.begin != count:
            raise self._fail(f"tensor '{name}' of {count} bytes lies at {begin} to {end}")
        return entry


def _file_dtype(element: Attribute) -> np.dtype[np.generic]:
    return np.dtype(np.uint16) if isinstance(element, BFloat16Type) else storage_dtype(element)


def _parameters(function: FuncOp) -> list[Argument]:
    return [a for a in arguments(function) if a.kind == "param"]


def _parameter_type(parameter: Argument) -> tuple[Attribute, Shape]:
    type = parameter.value.type
    if not isinstance(type, TensorType):
        raise WeightsError(f"parameter '{parameter.name}' must be a tensor, got {type}")
    return type.element_type, type.get_shape()


@dataclass(frozen=True)
class _Slot:
    """A parameter as it lies in a file."""

    name: str
    element: Attribute
    shape: Shape

    @classmethod
    def of(cls, path: Path, parameter: Argument) -> _Slot:
        element, shape = _parameter_type(parameter)
        if element not in _DTYPE_NAMES:
            raise WeightsError(f"{path}: parameter '{parameter.name}' of {element} has no {SUFFIX} form")
        return cls(parameter.name, element, _static(parameter.name, shape))

    def raw(self, path: Path, value: Array) -> Array:
        """``value`` as contiguous memory in the element type."""
        if value.shape != self.shape:
            raise WeightsError(
                f"{path}: parameter '{self.name}' must have shape {show(self.shape)}, got {show(value.shape)}"
            )
        value = round_to(value, self.element)
        if isinstance(self.element, BFloat16Type):
            value = bf16_to_bits(cast("np.ndarray[Any, np.dtype[np.float32]]", value))
        return np.ascontiguousarray(value)


def _static(name: str, shape: Shape) -> Shape:
    if not is_static(shape):
        raise WeightsError(f"parameter '{name}' must have a static shape, got {show(shape)}")
    return shape


def write_weights(path: Path, function: FuncOp, weights: Mapping[str, Array]) -> None:
    """Write the value of each parameter of ``function`` to ``path``, one tensor at a time.

    Each is read from ``weights`` once, so that they may be made as they are read, and converted to the parameter's
    element type. The file appears only when it is complete. Raises WeightsError for a missing value, another
    shape, or an element type that the format has no name for.
    """
    parameters = [_Slot.of(path, parameter) for parameter in _parameters(function)]
    if missing := [p.name for p in parameters if p.name not in weights]:
        raise WeightsError(f"{path}: no value for parameter " + ", ".join(map(repr, missing)))
    # Wide elements first: every tensor is then aligned to its element, as readers of the format expect.
    parameters.sort(key=lambda p: (-_file_dtype(p.element).itemsize, p.name))
    header: dict[str, dict[str, object]] = {}
    offset = 0
    for p in parameters:
        end = offset + _file_dtype(p.element).itemsize * product(p.shape)
        header[p.name] = {"dtype": _DTYPE_NAMES[p.element], "shape": list(p.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
            for p in parameters:
                file.write(p.raw(path, weights[p.name]).data)
        os.replace(part, path)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def check_weights(file: SideFile, function: FuncOp) -> None:
    """Raise WeightsError, listing every parameter that ``file`` lacks or has with another element type or shape."""
    misfits: list[str] = []
    for parameter in _parameters(function):
        element, shape = _parameter_type(parameter)
        entry = file.entries.get(parameter.name)
        expected = f"parameter '{parameter.name}': {element} of shape {show(shape)} expected"
        if entry is None:
            misfits.append(f"{expected}, not in the file")
        elif entry.element != element or not compatible(entry.shape, shape):
            misfits.append(f"{expected}, {entry} found")
    if misfits:
        raise WeightsError("\n".join([f"{file.path}: does not fit @{function.sym_name.data}:", *misfits]))


def find_weights(module: ModuleOp, mlir: Path) -> SideFile | None:
    """The checked side file of ``module``, read from file ``mlir``; None when there is none and none is named.

    Raises WeightsError when the file that ``rlx.weights`` names cannot be read, or a file does not fit.
    """
    attribute = module.attributes.get(WEIGHTS)
    named = text_of(attribute)
    if attribute is not None and named is None:
        raise WeightsError(f"{mlir}: {WEIGHTS} must be a string, got {attribute}")
    path = mlir.with_suffix(SUFFIX) if named is None else mlir.parent / named
    if named is None and not path.exists():
        return None
    file = SideFile(path)
    check_weights(file, main_function(module))
    return file


def random_weights(function: FuncOp, seed: int = 0) -> dict[str, Array]:
    """A value for each parameter of ``function``, the same for the same seed, name and type.

    Matrices and kernels are normal with deviation 1/sqrt(fan in), so that deep graphs stay finite; vectors that
    something is multiplied by are near 1, others near 0. Integers and truth values are 0 or 1. Raises WeightsError
    for a dynamic shape.
    """
    values: dict[str, Array] = {}
    for parameter in _parameters(function):
        element, shape = _parameter_type(parameter)
        _static(parameter.name, shape)
        # A generator of its own for each name: one parameter more or less leaves the others as they are.
        rng = np.random.default_rng([seed, zlib.crc32(parameter.name.encode())])
        if is_float(element):
            mean, deviation = _distribution(parameter.value, shape)
            value: Array = mean + deviation * rng.standard_normal(shape)
        else:
            value = rng.integers(0, 2, shape).astype(bool) if is_bool(element) else rng.integers(0, 2, shape)
        values[parameter.name] = round_to(value, element)
    return values


def _distribution(value: SSAValue, shape: Shape) -> tuple[float, float]:
    """Mean and standard deviation of a random parameter, by what uses it."""
    if len(shape) < 2:
        return (1.0 if _scales(value) else 0.0), 0.1
    convolves = any("conv" in use.operation.name for use in value.uses)
    fan_in = product(shape[1:]) if convolves else shape[-2]
    return 0.0, 1 / math.sqrt(max(fan_in, 1))


def _scales(value: SSAValue) -> bool:
    """Whether something is multiplied by ``value``: a norm, or what a reshape of it is multiplied with."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, BinaryOp) and op.kind.data is BinaryKind.MUL:
            return True
        if isinstance(op, ReshapeOp | ExpandOp) and _scales(op.result):
            return True
        if isinstance(op, RlxOp) and "'gamma'" in op.operand_name(use.index):
            return True
    return False
