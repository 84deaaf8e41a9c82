"""``rlx.constant``: a value that is part of the program.

Large weights do not belong here: they are function arguments with ``rlx.param`` names, and their values lie
in the side file (:mod:`rlx_dialect.weights`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure

from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, bf16_from_bits, bf16_to_bits, is_bool, round_to, storage_dtype
from rlx_dialect.shapes import is_static
from rlx_dialect.xdsl_compat import Builder, Parser, Printer


@irdl_op_definition
class ConstantOp(RlxOp):
    """A dense (or dense-resource) value of static shape."""

    name = "rlx.constant"
    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: DenseIntOrFPElementsAttr | DenseResourceAttr):
        super().__init__([], {"value": value})

    @classmethod
    def of(cls, values: Array | float | int, type: Attribute) -> ConstantOp:
        """A constant of tensor type ``type``; ``values`` are broadcast to its shape."""
        return cls(dense_elements(np.asarray(values), type))

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.value.type,)

    def check(self) -> None:
        if not isinstance(self.value.type, TensorType) or not is_static(self.value.type.get_shape()):
            self.fail(f"value must be a tensor of static shape, got {self.value.type}")

    def fold(self) -> Sequence[SSAValue | Attribute]:
        return (self.value,)

    def array(self) -> Array | None:
        """The value in its storage dtype; None when it lies in a resource outside the IR."""
        return None if isinstance(self.value, DenseResourceAttr) else array_of(self.value)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        value = self.array()
        if value is None:
            self.fail("the value lies in a resource and cannot be evaluated")
        assert value is not None
        return (value,)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if not isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
            parser.raise_error(f"'rlx.constant': a dense or dense_resource value expected, got {value}")
        op = cls(value)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        if self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" ")
        text = str(self.value)
        elements = text.partition("> : ")[0]
        if "0x" in elements and '"' not in elements and isinstance(self.value, DenseIntOrFPElementsAttr):
            # xDSL 0.75 writes some floats in hex inside a dense list (infinities, NaN, large whole numbers) and reads
            # them back as integers; the raw form survives a round trip.
            text = f'dense<"0x{self.value.data.data.hex().upper()}"> : {self.value.type}'
        printer.print_string(text)


def scalar(b: Builder, value: float, element: Attribute) -> SSAValue:
    """A rank-0 constant at ``b``."""
    return b.insert(ConstantOp.of(value, TensorType(element, ()))).result


def array_of(value: DenseIntOrFPElementsAttr) -> Array:
    """The elements in their storage dtype, shaped; read-only."""
    element, raw = value.get_element_type(), value.data.data
    if isinstance(element, BFloat16Type):
        flat: Array = bf16_from_bits(np.frombuffer(raw, np.uint16))
    elif is_bool(element):
        flat = np.frombuffer(raw, np.uint8) != 0
    else:
        flat = np.frombuffer(raw, storage_dtype(element))
    flat.flags.writeable = False
    return flat.reshape(value.get_shape())


def splat(values: Array | None) -> complex | None:
    """The number that all values are, bit by bit; None when there are several, or none."""
    if values is None or not values.size:
        return None
    flat = values.ravel()
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    return flat[0].item() if (raw == raw[0]).all() else None


def _raw(values: Array, element: Attribute) -> bytes:
    if isinstance(element, BFloat16Type):
        return bf16_to_bits(values.astype(np.float32)).tobytes()
    if is_bool(element):  # xDSL's byte for true has all bits set, and equal values should be equal attributes.
        return (values.astype(np.uint8) * 0xFF).tobytes()
    return np.ascontiguousarray(values).tobytes()


def dense_elements(values: Array, type: Attribute) -> DenseIntOrFPElementsAttr:
    """``values``, broadcast to the static tensor type ``type`` and rounded to its element type."""
    assert isinstance(type, TensorType)
    rounded = np.broadcast_to(round_to(values, type.element_type), type.get_shape())
    return DenseIntOrFPElementsAttr(type, BytesAttr(_raw(rounded, type.element_type)))
