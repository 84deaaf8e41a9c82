"""The map schedule: one invocation an element of the result, or a vector of them.

Element-wise operations and regions with NumPy broadcasting, and every copy that an operand's addressing can
express. Operands need not be dense: a broadcast, transposed or sliced operand is read where it lies. Several maps
with one body can be one launch, in which each has workgroups of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import vector
from xdsl.ir import SSAValue

from rlx_dialect.dtypes import storage_dtype
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.to_gpu.elements import ElementSpec
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, product, up
from rlx_dialect.lowering.to_gpu.hardware import Hardware
from rlx_dialect.lowering.to_gpu.kernel import Access, BlockSize, Body, Kernel, LinearSpec, Operands, Slot
from rlx_dialect.lowering.to_gpu.views import View, coalesce, dense_strides

Place = Callable[[Access], tuple[Access, Sequence[Index]]]
"""How an invocation addresses an operand, and the coordinates of its first element."""


@dataclass(frozen=True)
class MapSpec(ElementSpec):
    """outputs[i…] = body(inputs[i…]) for i… in ``box``; an invocation has ``lanes`` elements along the last axis."""

    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]
    body: Body
    lanes: int = 1

    @property
    def _pieces(self) -> Shape:
        """The box of what one invocation does."""
        return self.box if self.lanes == 1 else (*self.box[:-1], up(self.box[-1], self.lanes))

    @property
    def places(self) -> Extent:
        return product(self._pieces)

    def element(self, k: Kernel, flat: Index) -> None:
        dense, lanes = dense_strides(self.box), self.lanes
        rest = lanes > 1 and bool(self.box[-1] % lanes)
        split = rest or any(a.strides != dense for a in (*self.inputs, *self.outputs))
        coordinates = k.split(flat, self._pieces) if split else []
        if coordinates:
            coordinates[-1] = k.i_mul(coordinates[-1], lanes)

        def at(access: Access) -> tuple[Access, Sequence[Index]]:
            if not rest and access.strides == dense:
                return replace(access, strides=(1,)), [k.i_mul(flat, lanes)]
            return access, coordinates

        if not rest:
            self._lanes(k, at, lanes)
            return
        first, end = coordinates[-1], self.box[-1]
        k.when(k.i_less(k.i_add(first, lanes - 1), end), lambda: self._lanes(k, at, lanes))

        def single(position: SSAValue, carried: object) -> Sequence[SSAValue]:
            self._lanes(k, lambda access: (access, [*coordinates[:-1], position]), 1)
            return []

        def singles() -> None:
            k.loop(first, end, 1, [], single)

        k.when(k.i_less(end, k.i_add(first, lanes)), singles)

    def _lanes(self, k: Kernel, at: Place, count: int) -> None:
        """Write ``count`` elements side by side along the last axis."""
        columns = [self._read(k, *at(access), count) for access in self.inputs]
        rows = [self.body.write(k.b, [column[i] for column in columns]) for i in range(count)]
        for access, values in zip(self.outputs, zip(*rows, strict=True), strict=True):
            place, coordinates = at(access)
            if count == 1:
                k.store(values[0], place, coordinates)
            else:
                self._write(k, values, place, coordinates)

    def _read(self, k: Kernel, access: Access, coordinates: Sequence[Index], count: int) -> Sequence[SSAValue]:
        """The elements of an operand from ``coordinates`` on along the last axis."""
        step = access.strides[-1] if access.strides else 0
        if count == 1 or step == 0:
            return [k.load(access, coordinates)] * count
        if not is_aligned(access, self.slots, count):
            return [k.load(access, coordinates, i * step) for i in range(count)]
        assert isinstance(access.source, int)
        storage, element = self.slots[access.source].storage, signless(access.element)
        whole = k.load_vector(replace(access, element=storage), coordinates, 0, count)
        return [k.of_storage(k.op(vector.ExtractOp(whole, [i], storage)), element) for i in range(count)]

    def _write(self, k: Kernel, values: Sequence[SSAValue], access: Access, coordinates: Sequence[Index]) -> None:
        stored = [k.to_storage(value, access.element) for value in values]
        k.store_vector(stored, replace(access, element=stored[0].type), coordinates, 0)


@dataclass(frozen=True)
class PartsSpec(LinearSpec):
    """Several maps, one after the other's workgroups."""

    parts: tuple[MapSpec, ...]

    @property
    def block(self) -> BlockSize:
        return self.parts[0].block

    @property
    def count(self) -> Extent:
        total: Extent = 0
        for part in self.parts:
            total = total + part.count
        return total

    def emit(self, k: Kernel) -> None:
        first: Extent = 0
        for part in self.parts:
            # In front of the part's first group this is a very large number.
            group = k.i_sub(k.linear_group(), first)
            k.when(k.i_less(group, part.count), lambda p=part, g=group: p.emit_group(k, g, all_there=True))
            first = first + part.count


def is_aligned(access: Access, slots: Sequence[Slot], lanes: int) -> bool:
    """Whether ``lanes`` elements along the last axis, from a multiple of that on, lie whole in an aligned vector."""
    if not isinstance(access.source, int) or not access.strides or access.strides[-1] != 1:
        return False
    return not any(bool(number % lanes) for number in (*access.strides[:-1], access.offset))


def _choose_lanes(spec: MapSpec, hardware: Hardware) -> int:
    """As many as make a vector of the widest operand, but not so many that parts of the device idle."""
    operands = (*spec.inputs, *spec.outputs)
    runs = [a.source for a in operands if isinstance(a.source, int) and a.strides and a.strides[-1] == 1]
    if not runs or any(a.strides and a.strides[-1] not in (0, 1) for a in operands):
        return 1
    size = product(spec.box)
    lanes = hardware.vector_bytes // max(storage_dtype(spec.slots[source].storage).itemsize for source in runs)
    while lanes > 1:
        enough = not isinstance(size, int) or size >= hardware.units * hardware.workgroup * lanes
        if enough and all(is_aligned(a, spec.slots, lanes) for a in spec.outputs):
            return lanes
        lanes //= 2
    return 1


def map_kernel(
    inputs: Sequence[View], outputs: Sequence[View], body: Body, hardware: Hardware, operands: Operands
) -> MapSpec:
    """The kernel that applies ``body`` to ``inputs``, broadcast to the (one) shape of the outputs.

    Its buffers are added to ``operands``.
    """
    shape = outputs[0].shape
    views = [*(v.broadcast(shape) for v in inputs), *outputs]
    box, strides = coalesce(shape, [v.strides for v in views])
    accesses = [operands.access(v, s) for v, s in zip(views, strides, strict=True)]
    split = len(inputs)
    spec = MapSpec(operands.slots, box, hardware.workgroup, tuple(accesses[:split]), tuple(accesses[split:]), body)
    return replace(spec, lanes=_choose_lanes(spec, hardware))
