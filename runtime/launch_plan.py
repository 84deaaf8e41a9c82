"""The host side of a lowered GPU module as data: buffers, and kernels launched on them.

The host function holds ``memref.alloc``, ``memref.get_global``, ``memref.reinterpret_cast`` and
``gpu.launch_func`` in one block (see :mod:`rlx_dialect.lowering.to_gpu`). Any engine for a GPU runs the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects import arith, gpu, memref
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
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.dtypes import Array, bf16_to_bits, storage_dtype
from rlx_dialect.graph import GraphError, arguments, main_function
from rlx_dialect.lowering.to_gpu.host import ELEMENT, LOAD_TIME
from rlx_dialect.ops.constant import array_of
from rlx_dialect.runtime.engine import Signature, Slot
from rlx_dialect.shapes import is_static, product

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


class _Reader:
    """Reads a host function; one buffer a memref, views share it."""

    def __init__(self, module: ModuleOp):
        self.globals = {g.sym_name.data: g for g in module.ops if isinstance(g, memref.GlobalOp)}
        self.buffers: dict[SSAValue, int] = {}
        self.numbers: dict[SSAValue, int] = {}
        self.sizes: list[int] = []
        self.constants: dict[int, Array] = {}
        self.setup: list[Launch] = []
        self.launches: list[Launch] = []
        self.scratch: set[int] = set()

    def new(self, value: SSAValue) -> int:
        self.buffers[value] = len(self.sizes)
        self.sizes.append(_bytes(value.type))
        return self.buffers[value]

    def _three(self, x: SSAValue, y: SSAValue, z: SSAValue) -> tuple[int, int, int]:
        return self.numbers[x], self.numbers[y], self.numbers[z]

    def read(self, function: FuncOp) -> Sequence[SSAValue]:
        """Everything but the results, which are returned."""
        for argument in function.body.block.args:
            self.new(argument)
        for op in function.body.block.ops:
            match op:
                case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
                    self.numbers[op.result] = op.value.value.data
                case memref.AllocOp():
                    number = self.new(op.memref)
                    if LOAD_TIME not in op.attributes:
                        self.scratch.add(number)
                case memref.GetGlobalOp():
                    value = self.globals[op.name_.root_reference.data].initial_value
                    assert isinstance(value, DenseIntOrFPElementsAttr)
                    # Buffers hold elements in their own width: bf16, which NumPy lacks, as its bits.
                    elements = array_of(value)
                    is_bf16 = isinstance(value.get_element_type(), BFloat16Type)
                    self.constants[self.new(op.memref)] = bf16_to_bits(elements) if is_bf16 else elements
                case memref.ReinterpretCastOp():
                    self.buffers[op.result] = self.buffers[op.source]
                case gpu.LaunchFuncOp():
                    grid = self._three(op.gridSizeX, op.gridSizeY, op.gridSizeZ)
                    block = self._three(op.blockSizeX, op.blockSizeY, op.blockSizeZ)
                    buffers = tuple(self.buffers[v] for v in op.kernelOperands)
                    launches = self.setup if LOAD_TIME in op.attributes else self.launches
                    name = op.kernel.nested_references.data[-1].data
                    launches.append(Launch(name, grid, block, buffers))
                case ReturnOp():
                    return op.operands
                case _:
                    raise GraphError(f"'{op.name}' has no place in the host function of a lowered GPU module")
        raise GraphError(f"@{function.sym_name.data} must end in func.return")


def launch_plan(module: ModuleOp) -> LaunchPlan:
    """The plan of a lowered module's main function, with scratch buffers shared by lifetime. Raises GraphError."""
    function = main_function(module)
    reader = _Reader(module)
    results = reader.read(function)
    outputs = tuple(reader.buffers[v] for v in results)
    plan = LaunchPlan(
        signature=_signature(function),
        stored=Signature.of(function),
        sizes=tuple(reader.sizes),
        inputs=tuple(reader.buffers[a.value] for a in arguments(function) if a.kind == "input"),
        params=tuple(reader.buffers[a.value] for a in arguments(function) if a.kind == "param"),
        constants=reader.constants,
        setup=tuple(reader.setup),
        launches=tuple(reader.launches),
        outputs=outputs,
    )
    return _share_scratch(plan, reader.scratch)


def _bytes(type: Attribute) -> int:
    if not isinstance(type, MemRefType) or not is_static(type.get_shape()):
        raise GraphError(f"a buffer must be a memref of static shape, got {type}")
    size = product(type.get_shape()) * storage_dtype(type.element_type).itemsize
    return max(-(-size // ALIGNMENT), 1) * ALIGNMENT


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


def _share_scratch(plan: LaunchPlan, scratch: set[int]) -> LaunchPlan:
    """The same plan on fewer buffers: a scratch buffer whose last reader has run serves again."""
    last = {b: i for i, launch in enumerate(plan.launches) for b in launch.buffers}
    last.update(dict.fromkeys(plan.outputs, len(plan.launches)))
    number = {b: i for i, b in enumerate(b for b in range(len(plan.sizes)) if b not in scratch)}
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
        free += [number[b] for b in dict.fromkeys(launch.buffers) if b in scratch and last[b] == index]
    for buffer in plan.outputs:
        # An output that no launch writes: empty.
        if buffer not in number:
            number[buffer] = len(sizes)
            sizes.append(plan.sizes[buffer])

    def renumbered(launches: Sequence[Launch]) -> tuple[Launch, ...]:
        return tuple(replace(launch, buffers=tuple(number[b] for b in launch.buffers)) for launch in launches)

    return replace(
        plan,
        sizes=tuple(sizes),
        inputs=tuple(number[b] for b in plan.inputs),
        params=tuple(number[b] for b in plan.params),
        constants={number[b]: value for b, value in plan.constants.items()},
        setup=renumbered(plan.setup),
        launches=renumbered(plan.launches),
        outputs=tuple(number[b] for b in plan.outputs),
    )


def to_buffer(packed: Array, stored: Slot) -> bytes:
    """The bytes of a bound value (see :func:`rlx_dialect.runtime.engine.bind`) in its buffer, padded to whole words."""
    data = np.ascontiguousarray(packed).astype(stored.packed_dtype, copy=False).tobytes()
    return data + bytes(-len(data) % ALIGNMENT)


def from_buffer(data: bytes | memoryview, stored: Slot, seen: Slot) -> Array:
    """The value that a buffer holds, as the caller sees it."""
    packed = np.frombuffer(data, stored.packed_dtype, product(stored.shape)).reshape(stored.shape)
    return seen.unpack(packed.astype(seen.packed_dtype))
