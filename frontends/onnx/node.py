"""What an importing function sees: a graph being built that knows extents, and one ONNX node with its operands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, SSAValue

from rlx_dialect.base import RlxOp, evaluate_op, shape_of
from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.dtypes import Array, is_bool
from rlx_dialect.frontends.onnx.known import DynamicExtents, Extent, Known, Shapes, extents_of, is_same, static_shape
from rlx_dialect.frontends.onnx.model import OnnxError
from rlx_dialect.shapes import DYNAMIC, Shape, is_static, product

LARGEST_CONSTANT = 4096
LARGEST_NAMED_CONSTANT = 16
"""Known values of more elements become parameters: they belong in the side file, not in the text. Those that are
initialisers have names that users go by, so the second limit is theirs; truth values are masks."""


GIVE_NUMBERS = "give them numbers with --dim NAME=N"


def short_name(name: str) -> str:
    """The last parts of a path, which name a value well enough in the text; whole ones make lines that nobody reads."""
    path = re.sub(r":0$", "", name).split("/")
    return "_".join(path[-2:]).rstrip("_")


@dataclass
class Operand:
    """An ONNX value: what is known of it at import, and where it is in the graph once something needs it there."""

    name: str
    element: Attribute
    shapes: Shapes
    known: Known | None = None
    weight: Callable[[], Array] | None = None
    """Gives the array of an initialiser."""
    value: Value | None = None

    @property
    def array(self) -> Callable[[], Array] | None:
        """Gives the array of an initialiser, of one that is read at import too."""
        static = None if self.known is None else self.known.static
        return self.weight if static is None else lambda: static

    @classmethod
    def of_known(cls, name: str, known: Known, weight: Callable[[], Array] | None = None) -> Operand:
        return cls(name, known.element, known.shapes, known=known, weight=weight)


class ImportGraph(GraphBuilder):
    """A graph builder that follows extents through every operation at each of the sizes (see :mod:`.known`)."""

    def __init__(self, name: str, sizes: int, extents: DynamicExtents, *, scratch: bool = False):
        super().__init__(name)
        self.sizes = sizes
        self.extents = extents
        self.scratch = scratch
        """A scratch graph is evaluated and thrown away: all its known values are constants."""
        self.weights: dict[str, Callable[[], Array]] = {}
        self.inserted: list[RlxOp] = []
        self._shapes: dict[SSAValue, Shapes] = {}

    def insert_all(self, op: RlxOp) -> tuple[Value, ...]:
        if any(not is_static(shape_of(o)) for o in op.operands):
            for result, shapes in zip(op.results, self._shapes_of_results(op), strict=True):
                self._shapes[result] = shapes
        self.inserted.append(op)
        return super().insert_all(op)

    def shapes_of(self, value: SSAValue) -> Shapes:
        return self._shapes.get(value, (shape_of(value),) * self.sizes)

    def _shapes_of_results(self, op: RlxOp) -> list[Shapes]:
        """The operation's own shape rule, asked once for each of the sizes."""
        operands = [(o.type, self.shapes_of(o)) for o in op.operands]
        inferred: list[list[Shape]] = []
        for size in range(self.sizes):
            # Arguments of a block stand for operands of other types.
            block = Block(
                arg_types=[TensorType(t.element_type, s[size]) if isinstance(t, TensorType) else t for t, s in operands]
            )
            probe = type(op).create(
                operands=block.args, properties=op.properties, result_types=[r.type for r in op.results]
            )
            types = probe.infer_types()
            inferred.append([t.get_shape() for t in types if isinstance(t, TensorType)])
        return list(zip(*inferred, strict=True))

    def dynamic_input(self, name: str, shapes: Shapes, element: Attribute) -> Value:
        value = self.input(name, static_shape(shapes), element)
        self._shapes[value.ssa] = shapes
        return value

    def place(self, operand: Operand) -> Value:
        """The operand as a value of this graph; raises OnnxError when a known value depends on dynamic extents."""
        if operand.value is None:
            operand.value = self._placed(operand)
        return operand.value

    def _placed(self, operand: Operand) -> Value:
        if operand.known is None:
            assert operand.weight is not None
            return self.weight(operand.name, operand.shapes[0], operand.element, operand.weight)
        array = operand.known.static
        if array is None:
            raise OnnxError(
                f"the value of '{operand.name}' depends on dynamic extents ({self.extents.names()}); {GIVE_NUMBERS}"
            )
        is_weight = operand.weight is not None and not is_bool(operand.element)
        largest = LARGEST_NAMED_CONSTANT if is_weight else LARGEST_CONSTANT
        if array.size <= largest or self.scratch:
            return self.constant(array, operand.element)
        return self.weight(operand.name, array.shape, operand.element, lambda: array)

    def evaluate(self, values: Sequence[Value]) -> list[Array]:
        """The arrays that values of a scratch graph have; raises InterpretationError where they are not defined."""
        arrays: dict[SSAValue, Array] = {}
        for op in self.inserted:
            arrays.update(zip(op.results, evaluate_op(op, [arrays[o] for o in op.operands]), strict=True))
        return [arrays[v.ssa] for v in values]

    def weight(self, name: str, shape: Shape, element: Attribute, make: Callable[[], Array]) -> Value:
        self.weights[name] = make
        return self.param(name, shape, element).named(short_name(name))


@dataclass
class Node:
    """One ONNX node: its operands, its attributes, and the graph that it is built in."""

    op_type: str
    opset: int
    outputs: Sequence[str]
    """Names; an output that is not asked for may have none."""
    graph: ImportGraph
    operands: Sequence[Operand | None]
    attributes: Mapping[str, object]

    def fail(self, message: str) -> NoReturn:
        raise OnnxError(message)

    # Operands.

    def has(self, index: int) -> bool:
        """Whether the optional operand is there."""
        return index < len(self.operands) and self.operands[index] is not None

    def operand(self, index: int) -> Operand:
        operand = self.operands[index] if index < len(self.operands) else None
        if operand is None:
            self.fail(f"input #{index} is missing")
        return operand

    def value(self, index: int) -> Value:
        return self.graph.place(self.operand(index))

    def values(self) -> list[Value]:
        return [self.value(i) for i in range(len(self.operands))]

    def known(self, index: int) -> Known:
        """An operand that decides on shapes; it must not depend on the data that the model is run with."""
        operand = self.operand(index)
        if operand.known is None and operand.weight is not None:
            operand.known = Known(operand.element, (operand.weight(),) * self.graph.sizes)
        if operand.known is None:
            self.fail(f"input #{index} ('{operand.name}') must be known at import, but it is computed from the data")
        return operand.known

    def array(self, index: int) -> Array:
        """A known operand that must not depend on dynamic extents either."""
        array = self.known(index).static
        if array is None:
            self.fail(
                f"input #{index} ('{self.operand(index).name}') depends on dynamic extents "
                f"({self.graph.extents.names()}); {GIVE_NUMBERS}"
            )
        return array

    def ints(self, index: int) -> list[int]:
        return [int(v) for v in self.array(index).reshape(-1)]

    def extents(self, index: int) -> list[Extent]:
        """A known rank-1 operand whose elements may be dynamic extents."""
        arrays = self.known(index).arrays
        if len({a.shape for a in arrays}) > 1:
            self.fail(f"input #{index} ('{self.operand(index).name}') must have a static length")
        return [tuple(int(v) for v in e) for e in np.stack([a.reshape(-1) for a in arrays], axis=1)]

    def derived(
        self, indices: Iterable[int], names: Sequence[str], build: Callable[[Sequence[Value]], list[Value]]
    ) -> list[Value]:
        """What ``build`` makes of operands; parameters with the computed values, where all are initialisers.

        Those are called like the node's output with one of ``names`` behind it. For small operands: they are read.
        """
        operands = [self.operand(i) for i in indices]
        arrays = [o.array for o in operands]
        if self.graph.scratch or None in arrays:
            return build([self.graph.place(o) for o in operands])
        scratch = ImportGraph("main", 1, self.graph.extents, scratch=True)
        values = build([scratch.constant(a(), o.element) for a, o in zip(arrays, operands, strict=True) if a])
        return [
            self.graph.weight(f"{self.outputs[0]}.{name}", value.shape, value.element, partial(np.asarray, array))
            for name, value, array in zip(names, values, scratch.evaluate(values), strict=True)
        ]

    # Extents of values.

    def shapes(self, value: Value) -> Shapes:
        return self.graph.shapes_of(value.ssa)

    def extents_of(self, value: Value) -> list[Extent]:
        return extents_of(self.shapes(value))

    def static_shape_of_axes(self, value: Value, axes: Iterable[int]) -> Shape:
        """The extents of ``axes``, where an operator needs numbers."""
        extents = [self.extents_of(value)[axis] for axis in axes]
        if not all(map(is_same, extents)):
            self.fail(f"the extents {self.show(extents)} must be static; {GIVE_NUMBERS}")
        return tuple(e[0] for e in extents)

    def product(self, extents: Sequence[Extent]) -> Extent:
        return tuple(product(e[size] for e in extents) for size in range(self.graph.sizes))

    def show(self, extents: Sequence[Extent]) -> str:
        return "x".join(map(self.graph.extents.show, extents)) or "scalar"

    def reshape(self, x: Value, extents: Sequence[Extent]) -> Value:
        """``x`` with these extents, of which one may be dynamic."""
        shape = [e[0] if is_same(e) else DYNAMIC for e in extents]
        if list(extents) == self.extents_of(x):
            return x
        if shape.count(DYNAMIC) > 1:
            self.fail(
                f"the new shape {self.show(extents)} has {shape.count(DYNAMIC)} dynamic extents, and a reshape can "
                f"have one; {GIVE_NUMBERS}"
            )
        return self.graph.reshape(x, shape)

    # Attributes.

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        assert isinstance(value, int)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.integer(name, int(default)))

    def real(self, name: str, default: float) -> float:
        value = self.attributes.get(name, default)
        assert isinstance(value, float | int)
        return float(value)

    def word(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> list[int] | None:
        value = self.attributes.get(name)
        return None if value is None else [int(v) for v in np.asarray(value).reshape(-1)]

    def axes(self, index: int, *, since: int) -> list[int] | None:
        """Axes that are operand ``index`` from operator set ``since`` on and an attribute before; None if absent."""
        if self.opset < since:
            return self.integers("axes")
        return self.ints(index) if self.has(index) else None
