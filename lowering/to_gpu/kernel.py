"""One GPU kernel: what describes it, and what writes it.

A :class:`KernelSpec` holds everything that a kernel depends on, so two launches with equal specs share one
kernel. Its :meth:`~KernelSpec.emit` writes the body through a :class:`Kernel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

from xdsl.dialects import arith, gpu, memref, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from rlx_dialect.dtypes import storage_dtype, wide_element
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.to_gpu.emit import Emitter, Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, Sym, is_known, least, product, up
from rlx_dialect.lowering.to_gpu.gpu_ops import ShuffleOp
from rlx_dialect.lowering.to_gpu.hardware import Hardware
from rlx_dialect.lowering.to_gpu.views import Buffer, Literal, View
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import Builder

Grid = tuple[Extent, Extent, Extent]
BlockSize = tuple[int, int, int]
SHARED_SPACE = 3
"""The memory space number of workgroup memory in the gpu dialect's default numbering."""


SHARED_ALIGNMENT = 32
"""Bytes that workgroup memory is aligned to: what matrix units and vectors ask for."""

FLOAT_OF_BITS: Mapping[Attribute, AnyFloat] = {i32: f32, i64: f64}
"""The float whose bits an integer in a buffer may be; see :class:`.views.Buffer`."""


def flat_type(storage: Attribute, size: Extent) -> MemRefType:
    """A memref of one axis."""
    return MemRefType(storage, [size if isinstance(size, int) else DYNAMIC])


def vector_alignment(type: VectorType) -> IntegerAttr:
    """The bytes of a vector, as an attribute; xDSL's operations have no such property."""
    return IntegerAttr(min(type.element_count() * storage_dtype(type.element_type).itemsize, 16), i64)


@dataclass(frozen=True)
class Slot:
    """A buffer parameter of a kernel."""

    storage: Attribute
    size: Extent

    @property
    def type(self) -> MemRefType:
        return flat_type(self.storage, self.size)


@dataclass(frozen=True)
class Access:
    """How a kernel addresses one operand: element at coordinates c lies at offset + Σ c·strides of its slot."""

    source: int | Literal
    element: Attribute
    strides: Shape
    offset: Extent


@dataclass(frozen=True)
class Body:
    """Scalar code for the elements of the operands; two bodies with one key write the same code.

    ``write`` takes and returns signless scalars of the element types.
    """

    key: str
    write: Callable[[Builder, Sequence[SSAValue]], Sequence[SSAValue]] = field(compare=False, repr=False)


MOVE = Body("move", lambda b, values: values)


@dataclass
class Operands:
    """Collects the distinct buffers of one launch; a buffer that occurs twice is bound once."""

    buffers: list[Buffer] = field(default_factory=list)
    _views: dict[Buffer, set[View]] = field(default_factory=dict)

    def access(self, view: View, strides: Shape | None = None) -> Access:
        """How the kernel reads or writes ``view``; ``strides`` where the box it runs over is not the view's own."""
        source: int | Literal
        if isinstance(view.source, Literal):
            source = view.source
        else:
            if view.source not in self.buffers:
                self.buffers.append(view.source)
            source = self.buffers.index(view.source)
            self._views.setdefault(view.source, set()).add(view)
        return Access(source, view.element, view.strides if strides is None else strides, view.offset)

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(Slot(b.storage, b.size) for b in self.buffers)

    @property
    def touched(self) -> tuple[int, ...] | None:
        """Elements of each buffer that the launch can read or write; None where an extent is unknown."""
        counts: list[int] = []
        for buffer in self.buffers:
            seen = [self._spread(view) for view in self._views.get(buffer, ())]
            if not isinstance(buffer.size, int) or not seen or not all(isinstance(n, int) for n in seen):
                return None
            counts.append(min(buffer.size, sum(n for n in seen if isinstance(n, int))))
        return tuple(counts)

    @staticmethod
    def _spread(view: View) -> object:
        """Elements of its buffer that a view shows: an axis along which it repeats them counts once."""
        return product([e for e, stride in zip(view.shape, view.strides, strict=True) if stride != 0])


@dataclass(frozen=True)
class KernelSpec(ABC):
    """A kernel of a schedule: all that its code depends on, except the hardware."""

    slots: tuple[Slot, ...]

    @property
    @abstractmethod
    def block(self) -> BlockSize:
        """Invocations of a workgroup along x, y, z."""

    @property
    @abstractmethod
    def groups(self) -> Grid:
        """Workgroups along x, y, z that there is work for."""

    @abstractmethod
    def emit(self, k: Kernel) -> None:
        """Write the kernel's body."""


@dataclass(frozen=True)
class LinearSpec(KernelSpec):
    """A kernel whose workgroups are counted along x; :meth:`Kernel.linear_group` gives their number."""

    @property
    @abstractmethod
    def count(self) -> Extent:
        """How many workgroups there are."""

    @property
    def groups(self) -> Grid:
        return (self.count, 1, 1)


def launch_grid(spec: KernelSpec, limit: int) -> Grid:
    """The grid to launch: that of ``spec``, or, where a dimension is beyond ``limit``, one along x and y for all of it.

    Some workgroups may then be more than were asked for. Raises ValueError where that is too much too.
    """
    groups = spec.groups
    if not is_known(groups):
        x, _, z = groups
        # An engine refuses what turns out to be too much where nothing can be folded.
        folds = isinstance(spec, LinearSpec) and isinstance(x, Sym)
        return (least(x, limit), up(x, limit), z) if folds else groups
    if max(groups) <= limit:
        return groups
    count = product(groups)
    y = -(-count // limit)
    if y > limit:
        raise ValueError(f"a grid of {count} workgroups exceeds {limit} along two dimensions")
    return -(-count // y), y, 1


def kernel_module(name: str, kernels: Sequence[Operation] = ()) -> gpu.ModuleOp:
    """A gpu.module of ``kernels``."""
    return gpu.ModuleOp.create(properties={"sym_name": StringAttr(name)}, regions=[Region(Block(kernels))])


class Kernel(Emitter):
    """Writes one gpu.func."""

    def __init__(self, name: str, spec: KernelSpec, hardware: Hardware):
        self._entry = Block(arg_types=[s.type for s in spec.slots])
        super().__init__(self._entry)
        self._name = name
        self._spec = spec
        self.hardware = hardware
        self._ids: dict[tuple[type[Operation], str], SSAValue] = {}
        self._blocks: dict[str, Index] = {}
        """The numbers of the workgroup along the dimensions of a grid that is folded."""
        self._globals: list[memref.GlobalOp] = []
        self._shared_bytes = 0
        self._extents: dict[Sym, SSAValue] = {}

    @property
    def extents(self) -> tuple[Sym, ...]:
        """What the kernel has to be told when it runs: the elements of one more buffer, after the others."""
        return tuple(self._extents)

    def unknown(self, extent: Sym) -> SSAValue:
        if extent not in self._extents:
            place = len(self._spec.slots)
            if not self._extents:
                self._entry.insert_arg(MemRefType(self.hardware.extent, [DYNAMIC]), place)
            at = self.constant(len(self._extents), IndexType())
            number = self.at_start(memref.LoadOp.get(self._entry.args[place], [at]))
            self._extents[extent] = self.at_start(arith.IndexCastOp(number, IndexType()))
        return self._extents[extent]

    def finish(self) -> list[Operation]:
        """What to put into the gpu.module: the function, and the globals that it uses."""
        self.b.insert(gpu.ReturnOp([]))
        func = gpu.FuncOp(self._name, (list(self._entry.arg_types), []), Region(self._entry))
        # MLIR wants these two as attributes; xDSL models them under other names.
        func.attributes["gpu.kernel"] = UnitAttr()
        func.attributes["known_block_size"] = DenseArrayBase.from_list(i32, self._spec.block)
        return [*self._globals, func]

    # The invocation.

    def write_body(self) -> None:
        """Write what the kernel is for; workgroups of a folded grid that nobody asked for do nothing."""
        groups = self._spec.groups
        if isinstance(self._spec, LinearSpec) or launch_grid(self._spec, self.hardware.max_groups) == groups:
            self._spec.emit(self)
            return
        flat = self.linear_group()
        self._blocks = dict(zip("zyx", self.split(flat, tuple(reversed(groups))), strict=True))
        self.when(None if self.grid_is_exact else self.i_less(flat, product(groups)), lambda: self._spec.emit(self))

    def thread_id(self, dimension: OneOf["x", "y"] = "x") -> SSAValue:
        return self._id(gpu.ThreadIdOp, dimension)

    def block_id(self, dimension: OneOf["x", "y", "z"] = "x") -> SSAValue:
        return self.index(self._blocks[dimension]) if self._blocks else self._id(gpu.BlockIdOp, dimension)

    def _id(self, op: type[gpu.ThreadIdOp | gpu.BlockIdOp], dimension: str) -> SSAValue:
        key = (op, dimension)
        if key not in self._ids:
            self._ids[key] = self.at_start(op(gpu.DimensionAttr(gpu.DimensionEnum(dimension))))
        return self._ids[key]

    @property
    def grid_is_exact(self) -> bool:
        """Whether the launched grid has no more workgroups than the kernel asked for."""
        groups = self._spec.groups
        return is_known(groups) and product(launch_grid(self._spec, self.hardware.max_groups)) == product(groups)

    def linear_group(self) -> Index:
        """The number of this workgroup where the grid counts them along x, and from there along y."""
        x, y, _ = launch_grid(self._spec, self.hardware.max_groups)
        if x * y == 1:
            return 0
        group: Index = self.block_id("x")
        return group if y == 1 else self.i_add(self.i_mul(self.block_id("y"), x), group)

    # Memory.

    def load(self, access: Access, coordinates: Sequence[Index], start: Index = 0) -> SSAValue:
        """The element at ``start`` + coordinates: a signless scalar of the element type."""
        element = signless(access.element)
        if isinstance(access.source, Literal):
            return self.constant(access.source.value, element)
        address = self.dot(coordinates, access.strides, self.i_add(start, access.offset))
        value = self.op(memref.LoadOp.get(self._entry.args[access.source], [self.index(address)]))
        return self.of_storage(value, element)

    def of_storage(self, value: SSAValue, element: Attribute) -> SSAValue:
        """What memory holds as a scalar of the signless ``element``."""
        if value.type == element:
            return value
        if element == i1:
            return self.op(arith.CmpiOp(value, self.constant(0, value.type), "ne"))
        # The bits of a float as wide as the integer that holds them.
        return self.converted(self.op(arith.BitcastOp(value, FLOAT_OF_BITS[value.type])), element)

    def to_storage(self, value: SSAValue, element: Attribute) -> SSAValue:
        """A scalar of the RLX type ``element``, or of the type that it is computed in, as memory holds it."""
        if element == i1:
            return self.op(arith.ExtUIOp(value, self.hardware.bool_storage))
        return self.converted(value, signless(element))

    def load_wide(self, access: Access, coordinates: Sequence[Index], start: Index = 0) -> SSAValue:
        """The same in the type that it is computed in: f32 for f16."""
        wide = wide_element(signless(access.element))
        if isinstance(access.source, Literal):
            return self.constant(access.source.value, wide)
        return self.converted(self.load(access, coordinates, start), wide)

    def load_vector(self, access: Access, coordinates: Sequence[Index], start: Index, count: int) -> SSAValue:
        """``count`` elements that lie side by side from there on, which memory aligns to their bytes."""
        assert isinstance(access.source, int)
        address = self.dot(coordinates, access.strides, self.i_add(start, access.offset))
        type = VectorType(signless(access.element), [count])
        load = vector.LoadOp(self._entry.args[access.source], [self.index(address)], type)
        load.attributes["alignment"] = vector_alignment(type)
        return self.op(load)

    def store(self, value: SSAValue, access: Access, coordinates: Sequence[Index], start: Index = 0) -> None:
        """Store a scalar of the element type, or of the type that it is computed in."""
        assert isinstance(access.source, int)
        value = self.to_storage(value, access.element)
        address = self.dot(coordinates, access.strides, self.i_add(start, access.offset))
        self.b.insert(memref.StoreOp.get(value, self._entry.args[access.source], [self.index(address)]))

    def store_vector(
        self, values: Sequence[SSAValue], access: Access, coordinates: Sequence[Index], start: Index
    ) -> None:
        """Store scalars side by side from there on; memory aligns it to the bytes of all of them."""
        assert isinstance(access.source, int)
        element = signless(access.element)
        first, *others = (self.converted(v, element) for v in values)
        type = VectorType(element, [len(values)])
        whole = self.op(vector.BroadcastOp(first, type))
        for place, value in enumerate(others, 1):
            whole = self.op(vector.InsertOp(value, whole, [place]))
        address = self.dot(coordinates, access.strides, self.i_add(start, access.offset))
        self.write_vector(whole, self._entry.args[access.source], address)

    def shared(self, element: Attribute, size: int) -> SSAValue:
        """``size`` elements that the invocations of the workgroup share, uninitialised.

        Raises ValueError where the hardware has not as much.
        """
        bytes = size * storage_dtype(element).itemsize
        self._shared_bytes += -(-bytes // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
        if self._shared_bytes > (most := self.hardware.shared_bytes):
            raise ValueError(f"a kernel shares {self._shared_bytes} bytes in a workgroup, {self.hardware.name} {most}")
        type = MemRefType(element, [size], memory_space=IntegerAttr(SHARED_SPACE, 64))
        if not self.hardware.shared_global:
            return self.at_start(memref.AllocOp([], [], type))
        name = f"{self._name}_shared{len(self._globals)}"
        self._globals.append(memref.GlobalOp.get(StringAttr(name), type, UnitAttr(), alignment=SHARED_ALIGNMENT))
        return self.at_start(memref.GetGlobalOp(name, type))

    def read(self, shared: SSAValue, at: Index) -> SSAValue:
        return self.op(memref.LoadOp.get(shared, [self.index(at)]))

    def write(self, value: SSAValue, shared: SSAValue, at: Index) -> None:
        self.b.insert(memref.StoreOp.get(value, shared, [self.index(at)]))

    def write_vector(self, value: SSAValue, memory: SSAValue, at: Index) -> None:
        """Write the elements of a vector side by side, from where memory aligns them."""
        store = vector.StoreOp(value, memory, [self.index(at)])
        assert isinstance(value.type, VectorType)
        store.attributes["alignment"] = vector_alignment(value.type)
        self.b.insert(store)

    def barrier(self) -> None:
        """Wait for the workgroup; its writes to shared memory are then seen by all of it."""
        self.b.insert(gpu.BarrierOp())

    def exchange(self, value: SSAValue, apart: int) -> SSAValue:
        """The ``value`` of the invocation whose number in the subgroup differs in the bit of ``apart``."""
        type = value.type
        if type == f64:
            return self.op(arith.BitcastOp(self.exchange(self.op(arith.BitcastOp(value, i64)), apart), f64))
        if type == i64:
            # Registers hold 32 bits, and Metal exchanges nothing wider.
            half = self.constant(32, i64)
            parts = value, self.op(arith.ShRUIOp(value, half))
            low, high = (
                self.op(arith.ExtUIOp(self.exchange(self.op(arith.TruncIOp(part, i32)), apart), i64)) for part in parts
            )
            return self.op(arith.OrIOp(low, self.op(arith.ShLIOp(high, half))))
        if isinstance(type, IntegerType) and type != i32:
            return self.op(arith.TruncIOp(self.exchange(self.op(arith.ExtUIOp(value, i32)), apart), type))
        shuffle = ShuffleOp(value, self.constant(apart, i32), self.constant(self.hardware.subgroup, i32))
        return self.b.insert(shuffle).result
