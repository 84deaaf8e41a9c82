"""Graphs from Python: a thin, typed layer over the operation classes.

    g = GraphBuilder()
    x = g.input("x", (4, 8))
    y = g.relu(x @ g.param("w", (8, 16)) + g.param("b", (16,)))
    g.output("y", y)
    module = g.module()

Types of results are inferred; a mistake raises VerifyException at the line that makes it. An operation that has
no method here is inserted with :meth:`GraphBuilder.insert`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind, ReduceKind
from rlx_dialect.base import RlxOp, element_of, shape_of
from rlx_dialect.dtypes import Array
from rlx_dialect.graph import INPUT, OUTPUT, PARAM
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp, ClampOp, CompareOp, WhereOp
from rlx_dialect.ops.normalization import LayerNormOp, RmsNormOp
from rlx_dialect.ops.reduction import ReduceOp, SoftmaxOp
from rlx_dialect.ops.shape import ConcatOp, ExpandOp, NarrowOp, ReshapeOp, TransposeOp
from rlx_dialect.shapes import DYNAMIC, Shape
from rlx_dialect.xdsl_compat import Builder, InsertPoint


def ssa_name(name: str) -> str:
    """``name`` as the name of an SSA value: what MLIR does not allow there becomes ``_``."""
    word = re.sub(r"[^\w$.-]", "_", name, flags=re.ASCII)
    return word if re.match(r"[A-Za-z_$.-]", word) else f"_{word}"


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a graph that is being built. Arithmetic with numbers makes rank-0 constants of its element type."""

    graph: GraphBuilder
    ssa: SSAValue

    @property
    def shape(self) -> Shape:
        return shape_of(self.ssa)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element(self) -> Attribute:
        return element_of(self.ssa)

    def named(self, name: str) -> Value:
        """This value, with ``name`` as its name in the text."""
        self.ssa.name_hint = ssa_name(name)
        return self

    def __add__(self, other: Operand) -> Value:
        return self.graph.binary("add", self, other)

    def __radd__(self, other: float) -> Value:
        return self.graph.binary("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.graph.binary("sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.graph.binary("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.graph.binary("mul", self, other)

    def __rmul__(self, other: float) -> Value:
        return self.graph.binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.graph.binary("div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.graph.binary("div", other, self)

    def __pow__(self, other: Operand) -> Value:
        return self.graph.binary("pow", self, other)

    def __neg__(self) -> Value:
        return self.graph.activation("neg", self)

    def __matmul__(self, other: Value) -> Value:
        return self.graph.insert(MatMulOp(self.ssa, other.ssa))


Operand = Value | float


class GraphBuilder:
    """Builds one ``func.func`` of RLX operations, its inputs, parameters and outputs named."""

    def __init__(self, name: str = "main"):
        self.name = name
        self._block = Block()
        self._argument_attributes: list[DictionaryAttr] = []
        self._outputs: list[tuple[str, SSAValue]] = []
        self._names: set[str] = set()
        self._constants: dict[Attribute, Value] = {}
        self.builder = Builder(InsertPoint.at_end(self._block))

    # The ends of the graph.

    def input(self, name: str, shape: Sequence[int], element: Attribute = f32) -> Value:
        """What changes with every call; an extent of -1 is dynamic."""
        return self._argument(INPUT, name, shape, element)

    def param(self, name: str, shape: Sequence[int], element: Attribute = f32) -> Value:
        """A weight; its value lies in the side file under ``name``."""
        return self._argument(PARAM, name, shape, element)

    def _argument(self, kind: str, name: str, shape: Sequence[int], element: Attribute) -> Value:
        if name in self._names:
            raise ValueError(f"there is an input or parameter named '{name}' already")
        self._names.add(name)
        extents = [DYNAMIC if extent == -1 else extent for extent in shape]
        value = self._block.insert_arg(TensorType(element, extents), len(self._block.args))
        value.name_hint = ssa_name(name)
        self._argument_attributes.append(DictionaryAttr({kind: StringAttr(name)}))
        return Value(self, value)

    def constant(self, values: Array | float | Sequence[float], element: Attribute = f32) -> Value:
        """A value that is part of the program; equal constants are one operation."""
        array = np.asarray(values)
        op = ConstantOp.of(array, TensorType(element, array.shape))
        if (known := self._constants.get(op.value)) is not None:
            return known
        self._constants[op.value] = value = self.insert(op)
        return value

    def output(self, name: str, value: Value) -> None:
        self._outputs.append((name, value.ssa))

    def module(self) -> ModuleOp:
        """The finished, verified module; nothing can be added after it."""
        results = [value for _, value in self._outputs]
        self.builder.insert(ReturnOp(*results))
        function = FuncOp(
            self.name,
            ([a.type for a in self._block.args], [r.type for r in results]),
            Region(self._block),
            arg_attrs=ArrayAttr(self._argument_attributes),
            res_attrs=ArrayAttr(DictionaryAttr({OUTPUT: StringAttr(name)}) for name, _ in self._outputs),
        )
        module = ModuleOp([function])
        module.verify()
        return module

    # Operations.

    def insert(self, op: RlxOp) -> Value:
        """Append an operation of one result."""
        return self.insert_all(op)[0]

    def insert_all(self, op: RlxOp) -> tuple[Value, ...]:
        """Append an operation, verify it, and give all its results."""
        op.verify_()
        self.builder.insert(op)
        return tuple(Value(self, result) for result in op.results)

    def _ssa(self, value: Operand, like: Operand) -> SSAValue:
        """``value``, or a constant of the element type of ``like``."""
        if isinstance(value, Value):
            return value.ssa
        return self.constant(value, like.element if isinstance(like, Value) else f32).ssa

    def activation(self, kind: ActivationKind | str, x: Value) -> Value:
        return self.insert(ActivationOp(kind, x.ssa))

    def gelu(self, x: Value) -> Value:
        return self.activation("gelu", x)

    def relu(self, x: Value) -> Value:
        return self.activation("relu", x)

    def silu(self, x: Value) -> Value:
        return self.activation("silu", x)

    def tanh(self, x: Value) -> Value:
        return self.activation("tanh", x)

    def exp(self, x: Value) -> Value:
        return self.activation("exp", x)

    def sqrt(self, x: Value) -> Value:
        return self.activation("sqrt", x)

    def binary(self, kind: BinaryKind | str, lhs: Operand, rhs: Operand) -> Value:
        return self.insert(BinaryOp(kind, self._ssa(lhs, rhs), self._ssa(rhs, lhs)))

    def compare(self, kind: CompareKind | str, lhs: Operand, rhs: Operand) -> Value:
        return self.insert(CompareOp(kind, self._ssa(lhs, rhs), self._ssa(rhs, lhs)))

    def where(self, condition: Value, on_true: Operand, on_false: Operand) -> Value:
        return self.insert(WhereOp(condition.ssa, self._ssa(on_true, on_false), self._ssa(on_false, on_true)))

    def clamp(self, x: Value, min: float, max: float) -> Value:
        return self.insert(ClampOp(x.ssa, min, max))

    def cast(self, x: Value, element: Attribute) -> Value:
        """``x`` itself when it has the element type already."""
        return x if x.element == element else self.insert(CastOp(x.ssa, element))

    def reduce(self, kind: ReduceKind | str, x: Value, axes: Sequence[int], *, keep_dim: bool = False) -> Value:
        return self.insert(ReduceOp(kind, x.ssa, axes, keep_dim=keep_dim))

    def softmax(self, x: Value, axis: int = -1) -> Value:
        return self.insert(SoftmaxOp(x.ssa, axis))

    def layer_norm(self, x: Value, gamma: Value, beta: Value, *, eps: float) -> Value:
        return self.insert(LayerNormOp(x.ssa, gamma.ssa, beta.ssa, eps=eps))

    def rms_norm(self, x: Value, gamma: Value, beta: Value, *, eps: float) -> Value:
        return self.insert(RmsNormOp(x.ssa, gamma.ssa, beta.ssa, eps=eps))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """One extent may be -1: it takes what is left. ``x`` itself when that changes nothing."""
        return x if tuple(shape) == x.shape else self.insert(ReshapeOp(x.ssa, shape))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        return self.insert(TransposeOp(x.ssa, perm))

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """Broadcast to ``shape``, where -1 keeps the extent."""
        return self.insert(ExpandOp(x.ssa, shape))

    def narrow(self, x: Value, axis: int, start: int, length: int) -> Value:
        return self.insert(NarrowOp(x.ssa, axis, start, length))

    def split(self, x: Value, axis: int, lengths: Sequence[int]) -> list[Value]:
        """Adjacent parts of these lengths along ``axis``."""
        starts = np.cumsum([0, *lengths]).tolist()
        return [self.narrow(x, axis, start, length) for start, length in zip(starts, lengths, strict=False)]

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        return self.insert(ConcatOp([v.ssa for v in values], axis))
