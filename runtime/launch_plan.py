"""The host side of a lowered GPU module as data: buffers, and kernels launched on them.

The host function holds ``memref.alloc``, ``memref.get_global``, ``memref.reinterpret_cast`` and
``gpu.launch_func`` in one block (see :mod:`rlx_dialect.lowering.to_gpu`), and where extents are known only when the
graph runs, index arithmetic on ``memref.dim`` for sizes and grids. :func:`launch_plans` reads formulas, of which
:meth:`LaunchPlans.at` makes the :class:`LaunchPlan` of given extents. Any engine for a GPU runs the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects import arith, cf, gpu, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.dtypes import Array, bf16_to_bits, storage_dtype
from rlx_dialect.graph import GraphError, arguments, main_function
from rlx_dialect.lowering.to_gpu.extents import Dim, Extent, Shape, evaluate, least, product, symbol
from rlx_dialect.lowering.to_gpu.host import ELEMENT, LOAD_TIME
from rlx_dialect.lowering.to_gpu.shapes import Check
from rlx_dialect.ops.constant import array_of
from rlx_dialect.runtime.engine import BindingError, Signature, Slot
from rlx_dialect.shapes import DYNAMIC

ALIGNMENT = 4
"""Buffers are a multiple of this many bytes: graphics APIs copy whole words."""


@dataclass(frozen=True)
class Launch:
    """One kernel on buffers, by number, in argument order."""

    kernel: str
    groups: tuple[int, int, int]
    block: tuple[int, int, int]
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class LaunchPlan:
    """What an engine does: ``sizes`` are the bytes of each buffer; the others name buffers by their number."""

    signature: Signature
    """The named values as the caller sees them."""
    stored: Signature
    """The same as buffers hold them; see :func:`to_buffer`."""
    sizes: tuple[int, ...]
    inputs: tuple[int, ...]
    params: tuple[int, ...]
    constants: Mapping[int, Array]
    setup: tuple[Launch, ...]
    """What is launched once, when the parameters are there; its results are read by the launches of each call."""
    launches: tuple[Launch, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class OpenLaunch:
    """A launch whose grid may depend on extents that are known when the graph runs."""

    kernel: str
    groups: tuple[Extent, Extent, Extent]
    block: tuple[int, int, int]
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class LaunchPlans:
    """The plans of one module: what a :class:`LaunchPlan` says, with formulas for what depends on unknown extents."""

    signature: Signature
    stored: Signature
    unknown: tuple[Dim, ...]
    """The unknown extents of the arguments, in argument order."""
    slots: tuple[tuple[str, int], ...]
    """Of each argument of the graph: ``input`` or ``param``, and its number among those."""
    checks: tuple[Check, ...]
    sizes: tuple[tuple[Extent, Attribute], ...]
    inputs: tuple[int, ...]
    params: tuple[int, ...]
    constants: Mapping[int, Array]
    told: Mapping[int, tuple[tuple[Extent, ...], Attribute]]
    """Buffers that hold extents."""
    setup: tuple[OpenLaunch, ...]
    launches: tuple[OpenLaunch, ...]
    outputs: tuple[int, ...]
    shapes: tuple[Shape, ...]
    """Of the outputs."""
    scratch: frozenset[int]

    @property
    def permanent(self) -> int:
        """How many buffers, the first ones of every plan, are the same for all extents. 0 where there is one plan."""
        return len(self.params) + len(self.constants) if self.unknown else 0

    @property
    def kernels(self) -> dict[str, int]:
        """The kernels that are launched, with how many buffers each takes."""
        return {launch.kernel: len(launch.buffers) for launch in (*self.setup, *self.launches)}

    def extents(self, params: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]]) -> dict[Dim, int]:
        """The unknown extents from the shapes of the parameters and inputs."""
        shapes = {"param": params, "input": inputs}
        found: dict[Dim, int] = {}
        for dim in self.unknown:
            kind, number = self.slots[dim.argument]
            found[dim] = shapes[kind][number][dim.axis]
        return found

    def at(self, extents: Mapping[Dim, int]) -> LaunchPlan:
        """The plan for known extents, with scratch buffers shared by lifetime.

        Raises BindingError where extents are not as the graph needs them.
        """

        def number(extent: Extent) -> int:
            return evaluate(extent, extents)

        problems = [c.message for c in self.checks if not _holds(c.relation, number(c.left), number(c.right))]
        if problems:
            raise BindingError("\n".join(problems))
        told = {
            buffer: np.array([number(e) for e in values], storage_dtype(element))
            for buffer, (values, element) in self.told.items()
        }
        plan = LaunchPlan(
            signature=self._with_shapes(self.signature, number),
            stored=self._with_shapes(self.stored, number),
            sizes=tuple(buffer_bytes(number(count), element) for count, element in self.sizes),
            inputs=self.inputs,
            params=self.params,
            constants=dict(self.constants) | told,
            setup=_started(self.setup, number),
            launches=_started(self.launches, number),
            outputs=self.outputs,
        )
        kept = [b for b in range(len(plan.sizes)) if b not in self.scratch]
        if self.unknown:
            first = {*self.params, *self.constants}
            kept = [*(b for b in kept if b in first), *(b for b in kept if b not in first)]
        return _share_scratch(plan, kept)

    def _with_shapes(self, signature: Signature, number: Callable[[Extent], int]) -> Signature:
        outputs = zip(signature.outputs, self.shapes, strict=True)
        return replace(
            signature, outputs=tuple(replace(s, shape=tuple(number(e) for e in shape)) for s, shape in outputs)
        )


def _holds(relation: str, left: int, right: int) -> bool:
    return left == right if relation == "eq" else left >= right


def _started(launches: Sequence[OpenLaunch], number: Callable[[Extent], int]) -> tuple[Launch, ...]:
    """The launches that have something to do."""
    started: list[Launch] = []
    for launch in launches:
        x, y, z = (number(n) for n in launch.groups)
        if x and y and z:
            started.append(Launch(launch.kernel, (x, y, z), launch.block, launch.buffers))
    return tuple(started)


class _Reader:
    """Reads a host function; one buffer a memref, views share it."""

    def __init__(self, module: ModuleOp):
        self.globals = {g.sym_name.data: g for g in module.ops if isinstance(g, memref.GlobalOp)}
        self.buffers: dict[SSAValue, int] = {}
        self.numbers: dict[SSAValue, Extent] = {}
        self.shapes: dict[SSAValue, Shape] = {}
        self.sizes: list[tuple[Extent, Attribute]] = []
        self.constants: dict[int, Array] = {}
        self.told: dict[int, dict[int, Extent]] = {}
        self.checks: list[Check] = []
        self.conditions: dict[SSAValue, tuple[str, Extent, Extent]] = {}
        self.setup: list[OpenLaunch] = []
        self.launches: list[OpenLaunch] = []
        self.scratch: set[int] = set()

    def new(self, value: SSAValue, shape: Shape) -> int:
        assert isinstance(value.type, MemRefType)
        self.buffers[value] = len(self.sizes)
        self.shapes[value] = shape
        self.sizes.append((product(shape), value.type.element_type))
        return self.buffers[value]

    def _filled(self, static: Sequence[int], unknown: Sequence[SSAValue]) -> Shape:
        """A shape with its unknown extents from operands."""
        rest = iter(unknown)
        return tuple(self.numbers[next(rest)] if e == DYNAMIC else e for e in static)

    def _grid(self, launch: gpu.LaunchFuncOp) -> tuple[Extent, Extent, Extent]:
        numbers = self.numbers
        return numbers[launch.gridSizeX], numbers[launch.gridSizeY], numbers[launch.gridSizeZ]

    def _block(self, launch: gpu.LaunchFuncOp) -> tuple[int, int, int]:
        x, y, z = (self.numbers[v] for v in (launch.blockSizeX, launch.blockSizeY, launch.blockSizeZ))
        assert isinstance(x, int)
        assert isinstance(y, int)
        assert isinstance(z, int)
        return x, y, z

    def read(self, function: FuncOp) -> Sequence[SSAValue]:
        """Everything but the results, which are returned."""
        for argument in function.body.block.args:
            if not isinstance(argument.type, MemRefType):
                raise GraphError(f"a buffer must be a memref, got {argument.type}")
            shape = argument.type.get_shape()
            dims = (symbol(Dim(argument.index, a)) if e == DYNAMIC else e for a, e in enumerate(shape))
            self.new(argument, tuple(dims))
        for op in function.body.block.ops:
            if isinstance(op, ReturnOp):
                return op.operands
            if not self._arithmetic(op) and not self._memory(op):
                raise GraphError(f"'{op.name}' has no place in the host function of a lowered GPU module")
        raise GraphError(f"@{function.sym_name.data} must end in func.return")

    def _arithmetic(self, op: Operation) -> bool:
        """Read an operation on extents, if it is one."""
        numbers = self.numbers
        match op:
            case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
                numbers[op.result] = op.value.value.data
            case memref.DimOp():
                axis = numbers[op.index]
                assert isinstance(axis, int)
                numbers[op.result] = self.shapes[op.source][axis]
            case arith.AddiOp():
                numbers[op.result] = numbers[op.lhs] + numbers[op.rhs]
            case arith.MuliOp():
                numbers[op.result] = numbers[op.lhs] * numbers[op.rhs]
            case arith.DivUIOp():
                numbers[op.result] = numbers[op.lhs] // numbers[op.rhs]
            case arith.MinUIOp():
                limit = numbers[op.rhs]
                assert isinstance(limit, int)
                numbers[op.result] = least(numbers[op.lhs], limit)
            case arith.IndexCastOp():
                numbers[op.result] = numbers[op.input]
            case arith.CmpiOp():
                relation = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
                self.conditions[op.result] = relation, numbers[op.lhs], numbers[op.rhs]
            case cf.AssertOp():
                relation, left, right = self.conditions[op.arg]
                self.checks.append(Check(left, right, op.msg.data, "eq" if relation == "eq" else "sge"))
            case _:
                return False
        return True

    def _memory(self, op: Operation) -> bool:
        """Read an operation on buffers, if it is one."""
        match op:
            case memref.AllocOp():
                number = self.new(op.memref, self._filled(_shape(op.memref), op.dynamic_sizes))
                if LOAD_TIME not in op.attributes:
                    self.scratch.add(number)
            case memref.GetGlobalOp():
                value = self.globals[op.name_.root_reference.data].initial_value
                assert isinstance(value, DenseIntOrFPElementsAttr)
                # Buffers hold elements in their own width: bf16, which NumPy lacks, as its bits.
                elements = array_of(value)
                is_bf16 = isinstance(value.get_element_type(), BFloat16Type)
                number = self.new(op.memref, _shape(op.memref))
                self.constants[number] = bf16_to_bits(elements) if is_bf16 else elements
            case memref.StoreOp():
                buffer = self.buffers[op.memref]
                (place,) = (self.numbers[i] for i in op.indices)
                assert isinstance(place, int)
                self.told.setdefault(buffer, {})[place] = self.numbers[op.value]
                self.scratch.discard(buffer)
            case memref.CastOp():
                self.buffers[op.dest] = self.buffers[op.source]
                self.shapes[op.dest] = self.shapes[op.source]
            case memref.ReinterpretCastOp():
                self.buffers[op.result] = self.buffers[op.source]
                self.shapes[op.result] = self._filled(op.static_sizes.get_values(), op.sizes)
            case gpu.LaunchFuncOp():
                buffers = tuple(self.buffers[v] for v in op.kernelOperands)
                launches = self.setup if LOAD_TIME in op.attributes else self.launches
                name = op.kernel.nested_references.data[-1].data
                launches.append(OpenLaunch(name, self._grid(op), self._block(op), buffers))
            case _:
                return False
        return True

    def all_told(self) -> dict[int, tuple[tuple[Extent, ...], Attribute]]:
        return {
            buffer: (tuple(values[place] for place in range(len(values))), self.sizes[buffer][1])
            for buffer, values in self.told.items()
        }


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, MemRefType)
    return value.type.get_shape()


def launch_plans(module: ModuleOp) -> LaunchPlans:
    """The plans of a lowered module's main function. Raises GraphError."""
    function = main_function(module)
    reader = _Reader(module)
    results = reader.read(function)
    named = arguments(function)
    unknown = [
        Dim(index, axis)
        for index, a in enumerate(function.body.block.args)
        for axis, extent in enumerate(reader.shapes[a])
        if not isinstance(extent, int)
    ]
    if unknown and reader.setup:
        raise GraphError("launches at load time want extents that are known then")
    counts = {"input": 0, "param": 0}
    slots: list[tuple[str, int]] = []
    for argument in named:
        slots.append((argument.kind, counts[argument.kind]))
        counts[argument.kind] += 1
    return LaunchPlans(
        signature=_signature(function),
        stored=Signature.of(function),
        unknown=tuple(unknown),
        slots=tuple(slots),
        checks=tuple(reader.checks),
        sizes=tuple(reader.sizes),
        inputs=tuple(reader.buffers[a.value] for a in named if a.kind == "input"),
        params=tuple(reader.buffers[a.value] for a in named if a.kind == "param"),
        constants=reader.constants,
        told=reader.all_told(),
        setup=tuple(reader.setup),
        launches=tuple(reader.launches),
        outputs=tuple(reader.buffers[v] for v in results),
        shapes=tuple(reader.shapes[v] for v in results),
        scratch=frozenset(reader.scratch),
    )


def launch_plan(module: ModuleOp) -> LaunchPlan:
    """The plan of a lowered module's main function whose extents are all known. Raises GraphError."""
    plans = launch_plans(module)
    if plans.unknown:
        raise GraphError("a buffer must be a memref of static shape where one plan is to serve")
    return plans.at({})


def buffer_bytes(count: int, element: Attribute) -> int:
    """The size of a buffer of so many elements."""
    # One element even where there are none: wgpu binds no less to a kernel.
    size = max(count, 1) * storage_dtype(element).itemsize
    return -(-size // ALIGNMENT) * ALIGNMENT


def _signature(function: FuncOp) -> Signature:
    """The named values, with the element types that the caller sees where buffers hold others (i1 in i32)."""
    plain = Signature.of(function)
    groups: dict[str, list[Slot]] = {"input": [], "param": []}
    seen = {s.name: s for s in (*plain.inputs, *plain.params)}
    for index, argument in enumerate(arguments(function)):
        groups[argument.kind].append(_seen_as(seen[argument.name], function.arg_attrs, index))
    outputs = tuple(_seen_as(slot, function.res_attrs, i) for i, slot in enumerate(plain.outputs))
    return Signature(tuple(groups["input"]), tuple(groups["param"]), outputs)


def _seen_as(slot: Slot, attributes: ArrayAttr[DictionaryAttr] | None, index: int) -> Slot:
    entry = None if attributes is None else attributes.data[index].data.get(ELEMENT)
    return slot if entry is None else replace(slot, element=entry)


def _share_scratch(plan: LaunchPlan, kept: Sequence[int]) -> LaunchPlan:
    """The same plan on fewer buffers: the ``kept`` ones in that order, then scratch, which serves again and again.

    A scratch buffer is free when its last reader has run.
    """
    last = {b: i for i, launch in enumerate(plan.launches) for b in launch.buffers}
    last.update(dict.fromkeys(plan.outputs, len(plan.launches)))
    number = {b: i for i, b in enumerate(kept)}
    own = frozenset(kept)
    sizes = [plan.sizes[b] for b in number]
    free: list[int] = []
    for index, launch in enumerate(plan.launches):
        for buffer in dict.fromkeys(launch.buffers):
            if buffer in number:
                continue
            wanted = plan.sizes[buffer]
            # The free one that is nearest in size; it grows if need be.
            best = min(free, key=lambda n: (abs(sizes[n] - wanted), n), default=None)
            if best is None:
                number[buffer] = len(sizes)
                sizes.append(wanted)
            else:
                free.remove(best)
                number[buffer] = best
                sizes[best] = max(sizes[best], wanted)
        free += [number[b] for b in dict.fromkeys(launch.buffers) if b not in own and last[b] == index]
    for buffer in plan.outputs:
        # An output that no launch writes: empty.
        if buffer not in number:
            number[buffer] = len(sizes)
            sizes.append(plan.sizes[buffer])

    return renumbered(plan, sizes, number)


def renumbered(plan: LaunchPlan, sizes: Sequence[int], number: Mapping[int, int]) -> LaunchPlan:
    """The same plan with other numbers for its buffers."""

    def of(launches: Sequence[Launch]) -> tuple[Launch, ...]:
        return tuple(replace(launch, buffers=tuple(number[b] for b in launch.buffers)) for launch in launches)

    return replace(
        plan,
        sizes=tuple(sizes),
        inputs=tuple(number[b] for b in plan.inputs),
        params=tuple(number[b] for b in plan.params),
        constants={number[b]: value for b, value in plan.constants.items()},
        setup=of(plan.setup),
        launches=of(plan.launches),
        outputs=tuple(number[b] for b in plan.outputs),
    )


def to_buffer(packed: Array, stored: Slot) -> bytes:
    """The bytes of a bound value (see :func:`rlx_dialect.runtime.engine.bind`) in its buffer, padded to whole words."""
    data = np.ascontiguousarray(packed).astype(stored.packed_dtype, copy=False).tobytes()
    return data + bytes(-len(data) % ALIGNMENT)


def from_buffer(data: bytes | memoryview, stored: Slot, seen: Slot) -> Array:
    """The value that a buffer holds, as the caller sees it."""
    packed = np.frombuffer(data, stored.packed_dtype, prod(stored.shape)).reshape(stored.shape)
    return seen.unpack(packed.astype(seen.packed_dtype))
