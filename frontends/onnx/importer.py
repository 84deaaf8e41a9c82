"""From an ONNX model to an RLX graph: one walk over the nodes that the outputs need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr

from rlx_dialect.base import shape_of
from rlx_dialect.builder import Value
from rlx_dialect.dtypes import Array, is_integer
from rlx_dialect.frontends.onnx.known import SIZES, DynamicExtents, Extent, Known, by_size
from rlx_dialect.frontends.onnx.model import OnnxError, element_type, opset_versions, read_model, tensor_array
from rlx_dialect.frontends.onnx.node import ImportGraph, Node, Operand, short_name
from rlx_dialect.frontends.onnx.registry import Result, handlers
from rlx_dialect.shapes import ShapeError, element_count, product
from rlx_dialect.xdsl_compat import InterpretationError, VerifyException

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

LARGEST_KNOWN = 4096
"""Integers, and numbers that stand in a node, are followed at import up to so many elements: the former may decide on
shapes, and the latter are masks and tables, which spellings are recognised by, rather than weights."""
LARGEST_KNOWN_WEIGHT = 16
"""Float initialisers are weights beyond so many elements."""
LARGEST_FOLD = 1 << 20
"""Nothing larger is computed at import."""


class Weights(Mapping[str, Array]):
    """The values of a graph's parameters by name, made when they are asked for."""

    def __init__(self, make: Mapping[str, Callable[[], Array]]):
        self._make = make

    def __getitem__(self, name: str) -> Array:
        return self._make[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)


@dataclass(frozen=True)
class ImportedModel:
    """A graph and the values of its parameters."""

    module: ModuleOp
    weights: Mapping[str, Array]


def import_onnx(
    source: Path | bytes,
    *,
    name: str | None = None,
    folder: Path | None = None,
    extents: Mapping[str, int] | None = None,
    batch: int | None = None,
) -> ImportedModel:
    """The RLX graph ``@main`` of an ONNX file or of its bytes.

    Inputs, outputs and initialisers keep their names; initialisers become parameters, small integers and scalars
    constants. ``extents`` gives numbers for dynamic extents by name (``<input>.<axis>`` for one that has none),
    ``batch`` for the first extent of each input that is dynamic there. ``name`` is what errors call the model,
    ``folder`` holds the files that tensors may lie in. Raises OnnxError, naming every unsupported operator at once.
    """
    path = source if isinstance(source, Path) else None
    name = name or (str(path) if path is not None else "<bytes>")
    folder = folder or (path.parent if path is not None else Path())
    return _Importer(read_model(source, name), name, folder).run(extents or {}, batch)


def parse_extents(texts: Sequence[str]) -> dict[str, int]:
    """Numbers for dynamic extents, each written ``NAME=N``; raises OnnxError."""
    extents: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            raise OnnxError(f"'{text}' must be a dynamic extent and its number, as in seq=128")
        extents[name] = int(number)
    return extents


class _Importer:
    def __init__(self, model: ModelProto, name: str, folder: Path):
        self.model = model
        self.name = name
        self.folder = folder
        self.opsets = opset_versions(model, name)
        self.handlers = handlers()
        self.extents = DynamicExtents()
        self.graph = ImportGraph("main", SIZES, self.extents)
        self.operands: dict[str, Operand] = {}
        self.needed, self.nodes = self._needed_nodes()

    def run(self, extents: Mapping[str, int], batch: int | None) -> ImportedModel:
        self._check_operators()
        initialisers = {t.name for t in self.model.graph.initializer}
        inputs = [i for i in self.model.graph.input if i.name not in initialisers]
        self._fix_extents({i.name: self._extents(i) for i in inputs}, extents, batch)
        for value in inputs:
            self._input(value)
        for tensor in self.model.graph.initializer:
            self.operands[tensor.name] = self._initialiser(tensor.name, tensor)
        for proto in self.nodes:
            self._node(proto)
        for output in self.model.graph.output:
            if output.name not in self.operands:
                raise self._error(f"output '{output.name}' is computed by no node")
            try:
                self.graph.output(output.name, self.graph.place(self.operands[output.name]))
            except OnnxError as error:
                raise self._error(f"output '{output.name}': {error}") from error
        return ImportedModel(self.graph.module(), Weights(self.graph.weights))

    def _error(self, message: str) -> OnnxError:
        return OnnxError(f"{self.name}: {message}")

    # What is to be imported.

    def _needed_nodes(self) -> tuple[set[str], list[NodeProto]]:
        """The names that outputs depend on, and the nodes that compute them, in order."""
        needed = {o.name for o in self.model.graph.output}
        nodes: list[NodeProto] = []
        for proto in reversed(self.model.graph.node):
            if needed.intersection(proto.output):
                needed.update(proto.input)
                nodes.append(proto)
        return needed, nodes[::-1]

    def _check_operators(self) -> None:
        unsupported: dict[str, list[str]] = {}
        for proto in self.nodes:
            if (_domain(proto), proto.op_type) not in self.handlers:
                domain = _domain(proto)
                operator = f"{domain}.{proto.op_type}" if domain else proto.op_type
                unsupported.setdefault(operator, []).append(_node_name(proto))
        if unsupported:
            lines = [f"  {operator}: {', '.join(map(repr, names))}" for operator, names in sorted(unsupported.items())]
            count = f"{len(lines)} operators are" if len(lines) > 1 else "1 operator is"
            raise self._error("\n".join([f"{count} not supported (operator: nodes)", *lines]))

    # Inputs and initialisers.

    def _extents(self, value: ValueInfoProto) -> list[int | str]:
        """A number or a name for each extent of an input."""
        if not value.type.HasField("tensor_type"):
            raise self._error(f"input '{value.name}' must be a tensor")
        type = value.type.tensor_type
        if not type.HasField("shape"):
            raise self._error(f"input '{value.name}' must have a shape; the model does not give its rank")
        return [
            # Some exporters write -1 for what they do not know.
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or f"{value.name}.{axis}"
            for axis, d in enumerate(type.shape.dim)
        ]

    def _fix_extents(
        self, inputs: Mapping[str, Sequence[int | str]], extents: Mapping[str, int], batch: int | None
    ) -> None:
        """Give dynamic extents their numbers: by name, and ``batch`` to those that come first in an input."""
        dynamic = {e for own in inputs.values() for e in own if isinstance(e, str)}
        leading = {e for own in inputs.values() for e in own[:1] if isinstance(e, str)}
        if unknown := [name for name in extents if name not in dynamic]:
            there = ", ".join(sorted(dynamic)) or "none"
            raise self._error(f"no dynamic extent is named {', '.join(map(repr, unknown))}; there are: {there}")
        if batch is not None and not leading:
            raise self._error("no input has a dynamic first extent that could be the batch")
        for name, number in {**dict.fromkeys(sorted(leading), batch), **extents}.items():
            if number is not None:
                if number < 1:
                    raise self._error(f"extent '{name}' must be positive, got {number}")
                self.extents.fix(name, number)

    def _input(self, value: ValueInfoProto) -> None:
        element = element_type(value.type.tensor_type.elem_type, f"{self.name}: input '{value.name}'")
        extents: list[Extent] = [self.extents[e] if isinstance(e, str) else (e,) * SIZES for e in self._extents(value)]
        shapes = by_size(extents, SIZES)
        placed = self.graph.dynamic_input(value.name, shapes, element)
        self.operands[value.name] = Operand(value.name, element, shapes, value=placed)

    def _initialiser(self, name: str, tensor: TensorProto, *, is_node: bool = False) -> Operand:
        """The operand of a tensor that is stored in the model, in a node or beside them."""
        element = element_type(tensor.data_type, f"{self.name}: tensor '{name}'")
        shape = tuple(tensor.dims)
        make = partial(tensor_array, tensor, element, self.folder)
        if product(shape) <= (LARGEST_KNOWN if is_node or is_integer(element) else LARGEST_KNOWN_WEIGHT):
            return Operand.of_known(name, Known.of(element, [make()] * SIZES), None if is_node else make)
        return Operand(name, element, (shape,) * SIZES, weight=make)

    # Nodes.

    def _node(self, proto: NodeProto) -> None:
        label = f"node '{_node_name(proto)}' ({proto.op_type})"
        if (tensor := _constant_tensor(proto)) is not None:
            self.operands[proto.output[0]] = self._initialiser(proto.output[0], tensor, is_node=True)
            return
        operands = [self._operand(n, label) if n else None for n in proto.input]
        self.graph.inserted.clear()
        try:
            results = self._folded(proto, operands)
            if results is None:
                results = self._built(proto, self.graph, operands)
        except OnnxError as error:
            raise self._error(f"{label}: {error}") from error
        except (ShapeError, VerifyException) as error:
            sizes = self.extents.sizes()
            raise self._error(f"{label}: {error}{f' (tried with {sizes})' if sizes else ''}") from error
        self._locate(proto, results)
        for index, name in enumerate(proto.output):
            if index < len(results):
                self.operands[name] = self._result(name, results[index])
            elif name in self.needed:
                raise self._error(f"{label}: output #{index} ('{name}') is not supported")

    def _operand(self, name: str, label: str) -> Operand:
        if name not in self.operands:
            raise self._error(f"{label} reads '{name}', which is no input, initialiser or output of an earlier node")
        return self.operands[name]

    def _result(self, name: str, result: Result) -> Operand:
        if isinstance(result, Known):
            array = result.static
            if array is None or array.size <= LARGEST_KNOWN:
                return Operand.of_known(name, result)
            return Operand(name, result.element, result.shapes, weight=lambda: array)
        return Operand(name, result.element, self.graph.shapes_of(result.ssa), value=result)

    def _built(self, proto: NodeProto, graph: ImportGraph, operands: Sequence[Operand | None]) -> Sequence[Result]:
        from onnx.helper import get_attribute_value

        node = Node(
            proto.op_type,
            self.opsets.get(_domain(proto), 1),
            list(proto.output),
            graph,
            operands,
            {a.name: get_attribute_value(a) for a in proto.attribute},
        )
        results = self.handlers[_domain(proto), proto.op_type](node)
        return [results] if isinstance(results, Value | Known) else results

    def _folded(self, proto: NodeProto, operands: Sequence[Operand | None]) -> list[Known] | None:
        """The results of a node whose operands are known, computed by the reference interpreter at each size."""
        known = [None if o is None else o.known for o in operands]
        if not operands or any(k is None and o is not None for k, o in zip(known, operands, strict=True)):
            return None
        if sum(a.size for k in known if k is not None for a in k.arrays) > LARGEST_FOLD:
            return None
        same = all(k is None or k.static is not None for k in known)
        at_sizes: list[list[Known]] = []
        for size in range(1 if same else SIZES):
            scratch = ImportGraph("main", 1, self.extents, scratch=True)
            scratch_operands = [
                None if o is None or k is None else Operand.of_known(o.name, Known(k.element, (k.arrays[size],)))
                for o, k in zip(operands, known, strict=True)
            ]
            values = _evaluated(scratch, self._built(proto, scratch, scratch_operands))
            if values is None:
                return None
            at_sizes.append(values)
        if same:
            at_sizes *= SIZES
        return [Known(r[0].element, tuple(k.arrays[0] for k in r)) for r in zip(*at_sizes, strict=True)]

    def _locate(self, proto: NodeProto, results: Sequence[Result]) -> None:
        """Give what was built for a node its name: as location, and for the results as names in the text."""
        location = NameLoc(StringAttr(_node_name(proto)), NoneAttr())
        for op in self.graph.inserted:
            op.location = location
        for result in results:
            if isinstance(result, Value) and result.ssa.name_hint is None:
                result.named(short_name(_node_name(proto)))


def _evaluated(graph: ImportGraph, results: Sequence[Result]) -> list[Known] | None:
    """The values of ``results`` in a scratch graph; None when that is too much work or not defined."""
    if any((element_count(shape_of(r)) or 0) > LARGEST_FOLD for op in graph.inserted for r in op.results):
        return None
    try:
        arrays = iter(graph.evaluate([r for r in results if isinstance(r, Value)]))
    except InterpretationError:
        return None
    return [r if isinstance(r, Known) else Known(r.element, (next(arrays),)) for r in results]


def _constant_tensor(proto: NodeProto) -> TensorProto | None:
    """The tensor of a node that is an initialiser in another form."""
    tensors = [a.t for a in proto.attribute if a.name == "value"]
    return tensors[0] if proto.op_type == "Constant" and tensors else None


def _domain(proto: NodeProto) -> str:
    return "" if proto.domain == "ai.onnx" else proto.domain


def _node_name(proto: NodeProto) -> str:
    return proto.name or next((o for o in proto.output if o), proto.op_type)
