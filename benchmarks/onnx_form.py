"""The graphs of :mod:`workloads` as ONNX models, spelled as exporters spell them, for engines that read those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ActivationKind, AttentionLayout, MaskKind
from rlx_dialect.base import RlxOp, shape_of
from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function, output_names
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.convolution import ConvOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.normalization import LayerNormOp, RmsNormOp
from rlx_dialect.ops.shape import ConcatOp, NarrowOp, ReshapeOp

OPSET = 20
HIDDEN_SCORE = -1e9
"""What exporters add to the score of a key that is not seen."""

T = TypeVar("T", bound=RlxOp)
_WRITERS: dict[type[RlxOp], Callable[[OnnxForm, RlxOp], str]] = {}


def writes(kind: type[T]) -> Callable[[Callable[[OnnxForm, T], str]], Callable[[OnnxForm, T], str]]:
    """Registers how an operation is written; the function gives the name of its result."""

    def register(function: Callable[[OnnxForm, T], str]) -> Callable[[OnnxForm, T], str]:
        _WRITERS[kind] = cast("Callable[[OnnxForm, RlxOp], str]", function)
        return function

    return register


class OnnxForm:
    """A model that grows node by node; values are known by name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, Array] = {}
        """Values that the model holds, by name."""
        self.names: dict[SSAValue, str] = {}

    def value(self, value: SSAValue) -> str:
        return self.names[value]

    def store(self, array: Array, name: str | None = None) -> str:
        name = name or f"constant_{len(self.stored)}"
        self.stored[name] = array
        return name

    def number(self, value: float) -> str:
        return self.store(np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        return self.store(np.array(values, np.int64))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; the name of its result, of its first one where it has several."""
        names = [f"{kind}_{len(self.nodes)}{'' if i == 0 else f'_{i}'}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def reshape(self, name: str, *shape: int) -> str:
        return self.node("Reshape", name, self.integers(*shape))

    def slice(self, name: str, axis: int, start: int, stop: int) -> str:
        return self.node("Slice", name, *(self.integers(n) for n in (start, stop, axis)))


def onnx_model(module: ModuleOp, weights: Mapping[str, Array]) -> bytes:
    """The model of a graph of f32 values, its parameters inside. Raises KeyError for an operation without a writer."""
    function, form = main_function(module), OnnxForm()
    inputs: list[onnx.ValueInfoProto] = []
    for argument in arguments(function):
        form.names[argument.value] = argument.name
        if argument.kind == "param":
            form.store(weights[argument.name], argument.name)
        else:
            shape = shape_of(argument.value)
            inputs.append(helper.make_tensor_value_info(argument.name, onnx.TensorProto.FLOAT, shape))
    outputs: list[onnx.ValueInfoProto] = []
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            for name, value in zip(output_names(function), op.arguments, strict=True):
                form.nodes.append(helper.make_node("Identity", [form.value(value)], [name]))
                outputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape_of(value)))
            continue
        assert isinstance(op, RlxOp)
        form.names[op.results[0]] = _WRITERS[type(op)](form, op)
    stored = [numpy_helper.from_array(array, name) for name, array in form.stored.items()]
    graph = helper.make_graph(form.nodes, "graph", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return model.SerializeToString()


@writes(ConstantOp)
def _constant(form: OnnxForm, op: ConstantOp) -> str:
    return form.store(op.evaluate()[0])


@writes(MatMulOp)
def _matmul(form: OnnxForm, op: MatMulOp) -> str:
    return form.node("MatMul", *map(form.value, op.operands))


@writes(BinaryOp)
def _binary(form: OnnxForm, op: BinaryOp) -> str:
    return form.node(op.kind.data.value.capitalize(), *map(form.value, op.operands))


@writes(ActivationOp)
def _activation(form: OnnxForm, op: ActivationOp) -> str:
    kind, x = op.kind.data, form.value(op.operands[0])
    if kind is ActivationKind.SILU:
        return form.node("Mul", x, form.node("Sigmoid", x))
    if kind is ActivationKind.GELU_APPROX:
        return form.node("Gelu", x, approximate="tanh")
    return form.node(kind.value.capitalize(), x)


@writes(NarrowOp)
def _narrow(form: OnnxForm, op: NarrowOp) -> str:
    start, length = op.start.value.data, op.len.value.data
    return form.slice(form.value(op.operands[0]), op.axis.value.data, start, start + length)


@writes(ReshapeOp)
def _reshape(form: OnnxForm, op: ReshapeOp) -> str:
    name, shape = form.value(op.operands[0]), shape_of(op.results[0])
    if name in form.stored:
        return form.store(form.stored[name].reshape(shape))
    return form.reshape(name, *shape)


@writes(ConcatOp)
def _concat(form: OnnxForm, op: ConcatOp) -> str:
    return form.node("Concat", *map(form.value, op.operands), axis=op.axis.value.data)


@writes(ConvOp)
def _conv(form: OnnxForm, op: ConvOp) -> str:
    window = op.window
    assert op.groups.value.data == 1
    pads = [before for before, _ in window.padding] + [after for _, after in window.padding]
    return form.node(
        "Conv", *map(form.value, op.operands), kernel_shape=window.kernel, strides=window.stride, pads=pads
    )


@writes(LayerNormOp)
def _layer_norm(form: OnnxForm, op: LayerNormOp) -> str:
    return form.node("LayerNormalization", *map(form.value, op.operands), axis=-1, epsilon=op.eps.value.data)


@writes(RmsNormOp)
def _rms_norm(form: OnnxForm, op: RmsNormOp) -> str:
    x, gamma, beta = map(form.value, op.operands)
    assert not form.stored[beta].any()
    mean = form.node("ReduceMean", form.node("Pow", x, form.number(2)), form.integers(-1))
    root = form.node("Sqrt", form.node("Add", mean, form.number(op.eps.value.data)))
    return form.node("Mul", form.node("Div", x, root), gamma)


@writes(RopeOp)
def _rope(form: OnnxForm, op: RopeOp) -> str:
    batch, seq, width = shape_of(op.x)
    dim = op.head_dim.value.data
    assert op.layout.data is AttentionLayout.BSD
    x = form.reshape(form.value(op.x), batch, seq, width // dim, dim)
    cos, sin = (form.reshape(form.value(table), seq, 1, dim // 2) for table in (op.cos, op.sin))
    low, high = form.slice(x, 3, 0, dim // 2), form.slice(x, 3, dim // 2, dim)
    first = form.node("Sub", form.node("Mul", low, cos), form.node("Mul", high, sin))
    second = form.node("Add", form.node("Mul", high, cos), form.node("Mul", low, sin))
    return form.reshape(form.node("Concat", first, second, axis=3), batch, seq, width)


@writes(AttentionOp)
def _attention(form: OnnxForm, op: AttentionOp) -> str:
    batch, queries, _ = shape_of(op.q)
    keys, heads, dim = shape_of(op.k)[1], op.heads, op.head_dim.value.data
    assert op.layout.data is AttentionLayout.BSD
    assert op.kv_heads == heads

    def split(value: SSAValue, length: int, *order: int) -> str:
        return form.node("Transpose", form.reshape(form.value(value), batch, length, heads, dim), perm=order)

    q, k, v = split(op.q, queries, 0, 2, 1, 3), split(op.k, keys, 0, 2, 3, 1), split(op.v, keys, 0, 2, 1, 3)
    scores = form.node("Mul", form.node("MatMul", q, k), form.number(op.scale))
    if op.mask_kind.data is MaskKind.CAUSAL and queries > 1:
        hidden = np.triu(np.full((queries, keys), HIDDEN_SCORE, np.float32), keys - queries + 1)
        scores = form.node("Add", scores, form.store(hidden))
    elif op.mask is not None:
        hidden = form.node("Less", form.reshape(form.value(op.mask), batch, 1, 1, keys), form.number(0.5))
        scores = form.node("Add", scores, form.node("Where", hidden, form.number(HIDDEN_SCORE), form.number(0)))
    weighted = form.node("MatMul", form.node("Softmax", scores, axis=-1), v)
    return form.reshape(form.node("Transpose", weighted, perm=[0, 2, 1, 3]), batch, queries, heads * dim)
