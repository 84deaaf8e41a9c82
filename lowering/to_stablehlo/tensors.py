"""Building StableHLO operations, static ones where all extents are known and dynamic ones where they are not.

An extent is an ``int``, or an i32 scalar where it is only known at run time. XLA itself compiles static shapes only:
it gets the text with the shapes of the actual inputs, folds what is computed of extents here and infers the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BoolAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from rlx_dialect.attributes import BinaryKind, ReduceKind
from rlx_dialect.base import element_of, rank_of, shape_of
from rlx_dialect.dtypes import Array, is_bool, is_narrow, storage_dtype, wide_element
from rlx_dialect.lowering.to_stablehlo.dialect import (
    OPERATIONS,
    CustomCallOp,
    DirectionAttr,
    DotAttr,
    PrecisionAttr,
    ReturnOp,
)
from rlx_dialect.ops.constant import dense_elements
from rlx_dialect.ops.reduction import COMBINES, highest, lowest
from rlx_dialect.shapes import DYNAMIC, is_static, product
from rlx_dialect.xdsl_compat import Builder, InsertPoint

Extent = int | SSAValue
"""A static extent, or a tensor<i32> of rank 0."""

COMBINERS = {BinaryKind.ADD: "add", BinaryKind.MUL: "multiply", BinaryKind.MAX: "maximum", BinaryKind.MIN: "minimum"}
"""The operations that reductions join elements with."""

PRECISIONS = ("highest", "high", "default")
"""How a TPU multiplies f32 numbers: exactly, or as sums of three or of one product of bf16 numbers."""


def ints(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def pairs(values: Sequence[tuple[int, int]]) -> DenseIntOrFPElementsAttr:
    """``dense<[[1, 2], …]> : tensor<Nx2xi64>``."""
    return dense_elements(np.array(values, np.int64).reshape(-1, 2), TensorType(i64, [len(values), 2]))


def listed(values: Sequence[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def static_shape(extents: Sequence[Extent]) -> list[int]:
    return [e if isinstance(e, int) else DYNAMIC for e in extents]


def typed(element: Attribute, extents: Sequence[Extent]) -> TensorType:
    return TensorType(element, static_shape(extents))


def neutral(kind: ReduceKind, element: Attribute) -> Any:
    """What ``kind`` joins with any value to that value."""
    if kind in (ReduceKind.MAX, ReduceKind.MIN):
        dtype = np.dtype(np.float32) if is_narrow(element) else storage_dtype(element)
        return (lowest if kind is ReduceKind.MAX else highest)(dtype)
    return 1 if kind is ReduceKind.PROD else 0


class Tensors:
    """Inserts operations at :attr:`b`."""

    def __init__(self, b: Builder, precision: str):
        self.b = b
        self.precision = ArrayAttr([PrecisionAttr.of(precision.upper())] * 2)
        self.known_extents: dict[SSAValue, tuple[Extent, ...]] = {}

    def ops(
        self,
        name: str,
        operands: Sequence[SSAValue],
        types: Sequence[Attribute],
        regions: Sequence[Region] = (),
        **properties: Attribute,
    ) -> Operation:
        """Insert ``stablehlo.name``."""
        op = OPERATIONS[name].create(
            operands=operands, result_types=types, properties=dict(properties), regions=list(regions)
        )
        return self.b.insert(op)

    def op(
        self,
        name: str,
        operands: Sequence[SSAValue],
        type: Attribute,
        regions: Sequence[Region] = (),
        **properties: Attribute,
    ) -> SSAValue:
        """Insert an operation of one result."""
        return self.ops(name, operands, [type], regions, **properties).results[0]

    def made(
        self,
        name: str,
        operands: Sequence[SSAValue],
        element: Attribute,
        extents: Sequence[Extent],
        regions: Sequence[Region] = (),
        **properties: Attribute,
    ) -> SSAValue:
        """Insert an operation whose result has these extents."""
        value = self.op(name, operands, typed(element, extents), regions, **properties)
        self.known_extents[value] = tuple(extents)
        return value

    @contextmanager
    def nested(self, b: Builder) -> Generator[None, None, None]:
        """Insert at ``b``, inside a region: extents that are asked for there are not known outside."""
        outer = self.b, self.known_extents
        self.b, self.known_extents = b, self.known_extents.copy()
        try:
            yield
        finally:
            self.b, self.known_extents = outer

    def body(self, types: Sequence[Attribute], write: Callable[..., SSAValue]) -> Region:
        """A region of one block with arguments of ``types``, which returns what ``write`` makes of them."""
        block = Block(arg_types=types)
        with self.nested(Builder(InsertPoint.at_end(block))):
            self.b.insert(ReturnOp.create(operands=[write(*block.args)]))
        return Region(block)

    def combiner(self, kind: BinaryKind, element: Attribute) -> Region:
        """The body of a reduction that joins elements by ``kind`` (add, mul, max or min)."""
        scalar, name = TensorType(element, []), COMBINERS[kind]
        if is_bool(element):
            # Truth values have an order too, but not every compiler's reduction knows it.
            name = {"maximum": "or", "minimum": "and"}.get(name, name)
        return self.body([scalar, scalar], lambda x, y: self.op(name, [x, y], scalar))

    # Extents.

    def extents(self, value: SSAValue) -> tuple[Extent, ...]:
        if value not in self.known_extents:
            self.known_extents[value] = tuple(
                self.op("get_dimension_size", [value], TensorType(i32, []), dimension=IntegerAttr(axis, i64))
                if extent == DYNAMIC
                else extent
                for axis, extent in enumerate(shape_of(value))
            )
        return self.known_extents[value]

    def extent(self, extent: Extent) -> SSAValue:
        """An extent as an i32 scalar."""
        return self.scalar(extent, i32) if isinstance(extent, int) else extent

    def calculate(self, name: str, a: Extent, b: Extent, known: Callable[[int, int], int]) -> Extent:
        """``name`` of two extents; ``known`` says it for static ones."""
        if isinstance(a, int) and isinstance(b, int):
            return known(a, b)
        return self.op(name, [self.extent(a), self.extent(b)], TensorType(i32, []))

    def plus(self, a: Extent, b: Extent) -> Extent:
        return self.calculate("add", a, b, int.__add__)

    def minus(self, a: Extent, b: Extent) -> Extent:
        return self.calculate("subtract", a, b, int.__sub__)

    def times(self, a: Extent, b: Extent) -> Extent:
        if 1 in (a, b):
            return b if a == 1 else a
        return self.calculate("multiply", a, b, int.__mul__)

    def over(self, a: Extent, b: Extent) -> Extent:
        return a if b == 1 else self.calculate("divide", a, b, int.__floordiv__)

    def count(self, extents: Sequence[Extent]) -> Extent:
        """Their product."""
        result: Extent = product(e for e in extents if isinstance(e, int))
        for extent in extents:
            if not isinstance(extent, int):
                result = self.times(result, extent)
        return result

    def require(self, a: Extent, direction: str, b: Extent) -> None:
        """XLA refuses shapes where ``direction`` (EQ or LE) does not hold of extents that nothing else checks."""
        if a == b or (isinstance(a, int) and isinstance(b, int)):
            return
        holds = self.compare(direction, self.extent(a), self.extent(b))
        message = "unknown extents do not fit each other: {0} " + {"EQ": "is not", "LE": "exceeds"}[direction] + " {1}"
        self.b.insert(
            CustomCallOp.create(
                operands=[holds, self.extent(a), self.extent(b)],
                properties={"call_target_name": StringAttr("shape_assertion"), "has_side_effect": BoolAttr(1, i1)},
                attributes={"error_message": StringAttr(message)},
            )
        )

    def vector(self, extents: Sequence[Extent]) -> SSAValue:
        """Extents as a tensor [n] of i32, which operations of dynamic shape take."""
        if all(isinstance(e, int) for e in extents):
            return self.constant(np.array(extents, np.int32), TensorType(i32, [len(extents)]))
        one = TensorType(i32, [1])
        parts = [
            self.op("constant", [], one, value=dense_elements(np.array([e]), one))
            if isinstance(e, int)
            else self.op("reshape", [e], one)
            for e in extents
        ]
        return (
            parts[0]
            if len(parts) == 1
            else self.op("concatenate", parts, TensorType(i32, [len(parts)]), dimension=IntegerAttr(0, i64))
        )

    # Constants.

    def constant(self, values: Array, type: TensorType) -> SSAValue:
        """``values``, broadcast to the static ``type``; one number for all elements is written once."""
        array = np.asarray(values)
        first = array.reshape(-1)[:1]
        if type.get_shape() and array.size and (array == first).all() and not np.signbit(array).any():
            return self.full(type.get_shape(), type.element_type, first[0])
        return self.op("constant", [], type, value=dense_elements(array, type))

    def scalar(self, value: Any, element: Attribute) -> SSAValue:
        type = TensorType(element, [])
        return self.op("constant", [], type, value=dense_elements(np.asarray(value), type))

    def full(self, extents: Sequence[Extent], element: Attribute, value: Any) -> SSAValue:
        """Every element ``value``."""
        return self.broadcast(self.scalar(value, element), [], extents)

    def like(self, value: SSAValue, number: Any) -> SSAValue:
        """``number`` in the shape and of the element type of ``value``."""
        return self.full(self.extents(value), element_of(value), number)

    def iota(self, extents: Sequence[Extent], axis: int, element: Attribute) -> SSAValue:
        """The position along ``axis``."""
        dimension = IntegerAttr(axis, i64)
        if is_static(static_shape(extents)):
            return self.made("iota", [], element, extents, iota_dimension=dimension)
        return self.made("dynamic_iota", [self.vector(extents)], element, extents, iota_dimension=dimension)

    # Shapes.

    def cast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """``value`` with more or fewer extents known statically."""
        assert isinstance(type, TensorType)
        if value.type == type:
            return value
        extents = [s if s != DYNAMIC else e for s, e in zip(type.get_shape(), self.extents(value), strict=True)]
        cast = self.op("convert", [value], type)
        self.known_extents[cast] = tuple(extents)
        return cast

    def broadcast(self, value: SSAValue, axes: Sequence[int], extents: Sequence[Extent]) -> SSAValue:
        """Axis i of ``value``, which may have extent 1, is axis ``axes[i]`` of the result."""
        own = self.extents(value)
        if tuple(axes) == tuple(range(len(extents))) and own == tuple(extents):
            return value
        element, dimensions = element_of(value), ints(axes)
        if is_static(static_shape([*extents, *own])):
            return self.made("broadcast_in_dim", [value], element, extents, broadcast_dimensions=dimensions)
        operands = [value, self.vector(extents)]
        return self.made("dynamic_broadcast_in_dim", operands, element, extents, broadcast_dimensions=dimensions)

    def broadcast_to(self, value: SSAValue, extents: Sequence[Extent]) -> SSAValue:
        """As NumPy does: aligned at the right."""
        return self.broadcast(value, range(len(extents) - rank_of(value), len(extents)), extents)

    def common(self, shapes: Sequence[Sequence[Extent]]) -> list[Extent]:
        """The extents that values of these shapes broadcast to together."""
        rank = max(map(len, shapes))
        result: list[Extent] = []
        for axis in range(-rank, 0):
            here = list(dict.fromkeys(s[axis] for s in shapes if len(s) >= -axis))
            known = [e for e in here if isinstance(e, int) and e != 1]
            unknown = [e for e in here if not isinstance(e, int)]
            extent: Extent = known[0] if known else 1
            for other in [] if known else unknown:
                extent = other if extent == 1 else self._greater(extent, other)
            result.append(extent)
        return result

    def _greater(self, a: Extent, b: Extent) -> Extent:
        """Of two extents one of which may be 1 the other."""
        one = self.compare("EQ", self.extent(a), self.scalar(1, i32))
        return self.op("select", [one, self.extent(b), self.extent(a)], TensorType(i32, []))

    def together(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """``values`` broadcast to one shape."""
        extents = self.common([self.extents(v) for v in values])
        return [self.broadcast_to(v, extents) for v in values]

    def reshape(self, value: SSAValue, extents: Sequence[Extent]) -> SSAValue:
        if self.extents(value) == tuple(extents):
            return value
        if is_static([*static_shape(extents), *shape_of(value)]):
            return self.made("reshape", [value], element_of(value), extents)
        return self.made("dynamic_reshape", [value, self.vector(extents)], element_of(value), extents)

    def unit_axis(self, value: SSAValue, axis: int) -> SSAValue:
        own = self.extents(value)
        return self.reshape(value, [*own[:axis], 1, *own[axis:]])

    def transpose(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        if list(perm) == list(range(len(perm))):
            return value
        own = self.extents(value)
        return self.made("transpose", [value], element_of(value), [own[p] for p in perm], permutation=ints(perm))

    def slice(
        self, value: SSAValue, starts: Sequence[Extent], lengths: Sequence[Extent], strides: Sequence[int] | None = None
    ) -> SSAValue:
        """``lengths[i]`` elements from ``starts[i]`` on, ``strides[i]`` apart, along each axis."""
        strides = [1] * len(starts) if strides is None else strides
        limits = [
            self.plus(start, length if stride == 1 else self.plus(self.times(self.minus(length, 1), stride), 1))
            if length != 0
            else start
            for start, length, stride in zip(starts, lengths, strides, strict=True)
        ]
        element = element_of(value)
        first, end = ([e for e in extents if isinstance(e, int)] for extents in (starts, limits))
        if len(first) == len(end) == len(limits):
            return self.made(
                "slice",
                [value],
                element,
                lengths,
                start_indices=ints(first),
                limit_indices=ints(end),
                strides=ints(strides),
            )
        operands = [value, *map(self.vector, (starts, limits, strides))]
        return self.made("real_dynamic_slice", operands, element, lengths)

    def narrow(self, value: SSAValue, axis: int, start: int, length: Extent, stride: int = 1) -> SSAValue:
        own = list(self.extents(value))
        lengths = [*own[:axis], length, *own[axis + 1 :]]
        starts = [start if a == axis else 0 for a in range(len(own))]
        return self.slice(value, starts, lengths, [stride if a == axis else 1 for a in range(len(own))])

    def pad(self, value: SSAValue, pads: Sequence[tuple[int, int]], fill: Any) -> SSAValue:
        """``fill`` before and after each axis; negative pads remove."""
        if not any(map(any, pads)):
            return value
        extents = [self.plus(e, sum(pair)) for e, pair in zip(self.extents(value), pads, strict=True)]
        element = element_of(value)
        low, high = zip(*pads, strict=True)
        return self.made(
            "pad",
            [value, self.scalar(fill, element)],
            element,
            extents,
            edge_padding_low=ints(low),
            edge_padding_high=ints(high),
            interior_padding=ints([0] * len(pads)),
        )

    def concat(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        first = list(self.extents(values[0]))
        total: Extent = 0
        for value in values:
            total = self.plus(total, self.extents(value)[axis]) if total != 0 else self.extents(value)[axis]
        for value in values[1:]:
            first = [o if isinstance(o, int) else e for e, o in zip(first, self.extents(value), strict=True)]
        first[axis] = total
        return self.made("concatenate", values, element_of(values[0]), first, dimension=IntegerAttr(axis, i64))

    def reverse(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        return self.made("reverse", [value], element_of(value), self.extents(value), dimensions=ints(axes))

    # Elements.

    def same(self, name: str, *values: SSAValue) -> SSAValue:
        """An operation on values of one shape, whose result has the element type of the last."""
        return self.made(name, values, element_of(values[-1]), self.extents(values[-1]))

    def convert(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The values as numbers of another element type; see StableHLO's convert."""
        if element_of(value) == element:
            return value
        return self.made("convert", [value], element, self.extents(value))

    def widened(self, value: SSAValue) -> SSAValue:
        """f16 and bf16 as f32."""
        return self.convert(value, wide_element(element_of(value)))

    def compare(self, direction: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """``direction`` is EQ, NE, LT, LE, GT or GE; x and y have one shape."""
        return self.made("compare", [x, y], i1, self.extents(x), comparison_direction=DirectionAttr.of(direction))

    def is_nan(self, x: SSAValue) -> SSAValue:
        return self.compare("NE", x, x)

    def part(self, name: str, value: SSAValue) -> SSAValue:
        """The ``real`` or ``imag`` part."""
        element = element_of(value)
        assert isinstance(element, ComplexType)
        return self.made(name, [value], element.element_type, self.extents(value))

    def complex(self, real: SSAValue, imag: SSAValue) -> SSAValue:
        element = element_of(real)
        assert isinstance(element, AnyFloat)
        return self.made("complex", [real, imag], ComplexType(element), self.extents(real))

    # Reductions and products.

    def reduce(self, kind: ReduceKind, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """``kind`` over ``axes``, which are dropped; a mean is the sum. The element type is kept."""
        if not axes:
            return value
        element, own = element_of(value), self.extents(value)
        return self.made(
            "reduce",
            [value, self.scalar(neutral(kind, element), element)],
            element,
            [e for a, e in enumerate(own) if a not in axes],
            [self.combiner(COMBINES[kind], element)],
            dimensions=ints(axes),
        )

    def dot(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        contracting: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> SSAValue:
        """Batch axes, free axes of lhs, free axes of rhs; the element type is the wide one."""
        left, right = self.extents(lhs), self.extents(rhs)
        free = [
            e
            for own, used in ((left, (*batch[0], *contracting[0])), (right, (*batch[1], *contracting[1])))
            for a, e in enumerate(own)
            if a not in used
        ]
        shared = [left[a] if isinstance(left[a], int) else right[b] for a, b in zip(batch[0], batch[1], strict=True)]
        numbers = ", ".join(
            f"{side}_{what}_dimensions = {listed(axes)}"
            for what, sides in (("batching", batch), ("contracting", contracting))
            for side, axes in zip(("lhs", "rhs"), sides, strict=True)
        )
        element = wide_element(element_of(lhs))
        return self.made(
            "dot_general",
            [lhs, rhs],
            element,
            [*shared, *free],
            dot_dimension_numbers=DotAttr.of(numbers),
            precision_config=self.precision,
        )
