"""The host side of a lowered graph: buffers, launches, and the values that the graph's operations stand for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from xdsl.dialects import arith, cf, gpu, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_float, storage_dtype, wide_element
from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.expansion import expand
from rlx_dialect.lowering.to_gpu.elementary import ELEMENTARY
from rlx_dialect.lowering.to_gpu.expand import EXPANSIONS
from rlx_dialect.lowering.to_gpu.extents import (
    Atom,
    Dim,
    Extent,
    Least,
    Quotient,
    Shape,
    Sym,
    is_known,
    product,
)
from rlx_dialect.lowering.to_gpu.hardware import Hardware
from rlx_dialect.lowering.to_gpu.kernel import (
    MOVE,
    Body,
    Kernel,
    KernelSpec,
    Operands,
    flat_type,
    kernel_module,
    launch_grid,
)
from rlx_dialect.lowering.to_gpu.map import MapSpec, PartsSpec, map_kernel
from rlx_dialect.lowering.to_gpu.rows import Program, row_kernel
from rlx_dialect.lowering.to_gpu.shapes import Check, Shapes
from rlx_dialect.lowering.to_gpu.views import Buffer, Literal, View, dense_strides
from rlx_dialect.ops.constant import ConstantOp, dense_elements, splat
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import Builder, InsertPoint

ELEMENT = "rlx.element"
"""Argument or result attribute: the element type of the value where its buffer holds another (i1 in i32)."""

TOUCHED = "rlx.touched"
"""Attribute of a launch: how many elements of each buffer it can read or write, where that is known."""

LOAD_TIME = "rlx.load_time"
"""Unit attribute of a launch that depends on parameters only, and of the allocation that it fills."""

KERNELS = "kernels"

MOST_PARTS = 32
"""How many maps one launch is made of: each has code of its own."""

_EXPANSIONS = EXPANSIONS | ELEMENTARY
"""What :attr:`.hardware.Hardware.expand` chooses from."""


# A graph has thousands of these two; xDSL's constructors take ten times as long as the attributes made once.


@cache
def _flat_type(storage: Attribute, size: Extent) -> MemRefType:
    return flat_type(storage, size)


@cache
def _segments(*sizes: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)


def _alloc(storage: Attribute, size: Extent, unknown: Sequence[SSAValue]) -> memref.AllocOp:
    return memref.AllocOp.create(
        operands=unknown,
        result_types=[_flat_type(storage, size)],
        properties={"operandSegmentSizes": _segments(len(unknown), 0)},
    )


def _launch(
    kernel: SymbolRefAttr, extents: Sequence[SSAValue], buffers: Sequence[SSAValue], touched: Sequence[int] | None
) -> gpu.LaunchFuncOp:
    """A launch on ``extents`` (three of the grid, three of the block); see :data:`TOUCHED`."""
    segments = _segments(0, *([1] * 6), *([0] * 4), len(buffers), 0)
    return gpu.LaunchFuncOp.create(
        operands=[*extents, *buffers],
        properties={"kernel": kernel, "operandSegmentSizes": segments},
        attributes={} if touched is None else {TOUCHED: DenseArrayBase.from_list(i64, touched)},
    )


def _static(extents: Sequence[Extent]) -> list[int]:
    """Extents as a type says them."""
    return [e if isinstance(e, int) else DYNAMIC for e in extents]


class KernelModule:
    """The gpu.module of a lowered module: each distinct kernel once."""

    def __init__(self, hardware: Hardware):
        self.hardware = hardware
        self._expansions = {name: _EXPANSIONS[name] for name in hardware.expand}
        self._symbols: dict[KernelSpec, SymbolRefAttr] = {}
        self.told: dict[KernelSpec, tuple[Sym, ...]] = {}
        """The extents that a kernel finds in one more buffer, after its operands."""
        self._taken: dict[str, int] = {}
        self.op: gpu.ModuleOp | ModuleOp = kernel_module(KERNELS)

    def symbol(self, hint: str, spec: KernelSpec) -> SymbolRefAttr:
        """The kernel of ``spec``; written when it is new, and then named after ``hint``."""
        symbol = self._symbols.get(spec)
        if symbol is None:
            count = self._taken.get(hint, 0)
            self._taken[hint] = count + 1
            name = f"{hint}_{count}" if count else hint
            symbol = self._symbols[spec] = SymbolRefAttr(KERNELS, [name])
            for op in self.write(name, spec):
                expand(op, self._expansions)
                self.op.body.block.add_op(op)
        return symbol

    # What another emitter of the same specs overrides.

    def write(self, name: str, spec: KernelSpec) -> list[Operation]:
        """The function of ``spec``, and the globals that it uses."""
        kernel = Kernel(name, spec, self.hardware)
        kernel.write_body()
        self.told[spec] = kernel.extents
        return kernel.finish()

    def extents(self, spec: KernelSpec) -> tuple[Extent, ...]:
        """The grid and the block of a launch of ``spec``. Raises ValueError for what the hardware cannot."""
        return (*launch_grid(spec, self.hardware.max_groups), *spec.block)

    def host(self, function: FuncOp) -> Host:
        """What writes the host function of a graph that launches these kernels."""
        return Host(function, self)


class Host:
    """Writes the host function of one graph while its operations are lowered in order."""

    def __init__(self, function: FuncOp, kernels: KernelModule):
        self.hardware = kernels.hardware
        self.kernels = kernels
        self.globals: list[memref.GlobalOp] = []
        self._function = function
        self._entry = Block(arg_types=[self.memref_type(a.type) for a in function.body.block.args])
        self._b = Builder(InsertPoint.at_end(self._entry))
        self._numbers: dict[Extent, SSAValue] = {}
        self._atoms: dict[Atom, SSAValue] = {}
        self._told: dict[tuple[Sym, ...], SSAValue] = {}
        self._shapes: Shapes | None = None
        self._views: dict[SSAValue, View] = {}
        self._originals: dict[Buffer, tuple[SSAValue, Shape]] = {}
        for old, new in zip(function.body.block.args, self._entry.args, strict=True):
            new.name_hint = old.name_hint

    def know(self, shapes: Shapes) -> None:
        """Take the extents of values from ``shapes``, and check what they rest on when the graph runs."""
        self._shapes = shapes
        for check in shapes.checks:
            self.check(check)

    def check(self, check: Check) -> None:
        """Stop the graph where extents are not as they have to be. Raises NotLowered where they never are."""
        difference = check.left - check.right
        if isinstance(difference, int):
            if difference < 0 or (difference and check.relation == "eq"):
                raise NotLowered(check.message)
            return
        pair = self._number(check.left), self._number(check.right)
        holds = self._b.insert(arith.CmpiOp(*pair, check.relation)).result
        self._b.insert(cf.AssertOp(holds, check.message))

    # Values.

    def shape(self, value: SSAValue) -> Shape:
        """The extents of a tensor of the graph."""
        assert self._shapes is not None, "the extents of the graph were not told"
        return self._shapes.of(value)

    def storage(self, element: Attribute) -> Attribute:
        storage = self.hardware.storage(element)
        assert storage is not None, f"{element} was let through"
        return storage

    def memref_type(self, tensor: Attribute) -> MemRefType:
        """The memref that holds a tensor."""
        assert isinstance(tensor, TensorType)
        return MemRefType(self.storage(tensor.element_type), tensor.get_shape())

    def view(self, value: SSAValue) -> View:
        """Where the elements of a tensor of the graph lie."""
        if value not in self._views:
            if isinstance(value, BlockArgument):
                # Kernels see arguments flat.
                view = self._flat(self._entry.args[value.index], element_of(value), self.shape(value))
            else:
                assert isinstance(value.owner, ConstantOp)
                view = self._constant(value.owner)
            self._views[value] = view
        return self._views[value]

    def set(self, value: SSAValue, view: View) -> None:
        """Say where the elements of a tensor of the graph lie."""
        self._views[value] = view

    def new(self, element: Attribute, shape: Shape, name: str | None = None) -> View:
        """An uninitialised dense value."""
        storage, size = self.storage(element), product(shape)
        buffer = self._b.insert(_alloc(storage, size, self._unknown((size,)))).memref
        buffer.name_hint = name
        return View(Buffer(buffer, storage, size), element, shape, dense_strides(shape))

    def result(self, value: SSAValue) -> View:
        """An uninitialised dense value that from now on is a result of a graph's operation."""
        view = self.new(element_of(value), self.shape(value), value.name_hint)
        self.set(value, view)
        return view

    def _constant(self, op: ConstantOp) -> View:
        """The value of a constant: a literal where all elements are one number, else a global of the module."""
        values, element = op.array(), element_of(op.result)
        assert values is not None, "a value in a resource was let through"
        if (number := splat(values)) is not None:
            assert not isinstance(number, complex), f"{element} was let through"
            return View(Literal(number), element, values.shape, (0,) * values.ndim)
        storage = self.storage(element)
        if is_float(element) and not np.isfinite(values).all():
            # NaN and infinities in a dense literal do not survive xDSL's parser: write their bits.
            wide = storage_dtype(wide_element(element))
            storage = IntegerType(8 * wide.itemsize)
            values = values.astype(wide).view(storage_dtype(storage))
        dense = values.astype(storage_dtype(storage), copy=False).ravel()
        stored = dense_elements(dense, TensorType(storage, dense.shape))
        type = MemRefType(storage, dense.shape)
        name = f"{self._function.sym_name.data}_constant{len(self.globals)}"
        self.globals.append(memref.GlobalOp.get(StringAttr(name), type, stored, constant=UnitAttr()))
        buffer = self._b.insert(memref.GetGlobalOp(name, type)).memref
        return View(Buffer(buffer, storage, dense.size), element, values.shape, dense_strides(values.shape))

    def dense(self, view: View, name: str | None = None) -> View:
        """``view``, or a copy of it where it is not a whole buffer in row-major order."""
        if view.is_dense and isinstance(view.source, Buffer) and view.source.storage == self.storage(view.element):
            return view
        copy = self.new(view.element, view.shape, name)
        self.copy(view, copy)
        return copy

    def reshape(self, view: View, shape: Shape) -> View:
        """The elements of ``view`` in row-major order as ``shape``, copied only where strides cannot say it."""
        reshaped = view.reshape(shape)
        if reshaped is None:
            reshaped = self.dense(view).reshape(shape)
            assert reshaped is not None
        return reshaped

    def copy(self, source: View, target: View) -> None:
        """Write the elements of ``source``, broadcast to it, to ``target``."""
        self.launch_map("copy", [source], [target], MOVE)

    # Operations of the host.

    def launch(self, hint: str, spec: KernelSpec, operands: Operands) -> None:
        """Launch the kernel of ``spec``, named after ``hint``. Raises ValueError for what the hardware cannot."""
        extents = [self._number(n) for n in self.kernels.extents(spec)]
        symbol = self.kernels.symbol(hint, spec)
        buffers = [b.value for b in operands.buffers]
        if told := self.kernels.told.get(spec):
            buffers.append(self._telling(told))
        count, most = len(buffers), self.hardware.max_buffers
        if count > most:
            raise ValueError(f"a kernel takes {count} buffers, {self.hardware.name} at most {most}")
        self._b.insert(_launch(symbol, extents, buffers, operands.touched))

    def _telling(self, extents: tuple[Sym, ...]) -> SSAValue:
        """A buffer that holds the numbers."""
        if extents not in self._told:
            type = self.hardware.extent
            buffer = self._b.insert(_alloc(type, len(extents), ())).memref
            for place, extent in enumerate(extents):
                number = self._b.insert(arith.IndexCastOp(self._number(extent), type)).result
                self._b.insert(memref.StoreOp.get(number, buffer, [self._number(place)]))
            self._told[extents] = self._b.insert(memref.CastOp.get(buffer, MemRefType(type, [DYNAMIC]))).results[0]
        return self._told[extents]

    def launch_rows(self, hint: str, rows: Shape, columns: Shape, views: Sequence[View], program: Program) -> None:
        """Launch the kernel that runs ``program`` on rows; see :func:`.rows.row_kernel`."""
        if product(rows) and product(columns):
            self.launch(hint, *row_kernel(rows, columns, views, program, self.hardware))

    def launch_map(self, hint: str, inputs: Sequence[View], outputs: Sequence[View], body: Body) -> None:
        """Launch the kernel that applies ``body`` to each element; see :func:`.map.map_kernel`."""
        self.launch_maps(hint, [(inputs, outputs)], body)

    def launch_maps(self, hint: str, parts: Sequence[tuple[Sequence[View], Sequence[View]]], body: Body) -> None:
        """Apply ``body`` to the elements of several inputs and outputs, none of which reads what another writes.

        That is one launch, as long as one kernel takes all the buffers.
        """
        full = [(inputs, outputs) for inputs, outputs in parts if product(outputs[0].shape)]
        while full:
            operands, maps = Operands(), list[MapSpec]()
            for inputs, outputs in full[:MOST_PARTS]:
                if maps and not self._takes(operands, [*inputs, *outputs]):
                    break
                maps.append(map_kernel(inputs, outputs, body, self.hardware, operands))
            spec = maps[0] if len(maps) == 1 else PartsSpec(operands.slots, tuple(maps))
            self.launch(hint, spec, operands)
            full = full[len(maps) :]

    def _takes(self, operands: Operands, views: Sequence[View]) -> bool:
        """Whether one kernel takes the buffers of ``views`` too, and one that tells it extents."""
        buffers = {*operands.buffers, *(v.source for v in views if isinstance(v.source, Buffer))}
        known = is_known([b.size for b in buffers])
        return len(buffers) + (0 if known else 1) <= self.hardware.max_buffers

    def _number(self, value: Extent) -> SSAValue:
        if isinstance(value, Sym):
            if value not in self._numbers:
                self._numbers[value] = self._sum(value)
        elif value not in self._numbers:
            op = arith.ConstantOp(IntegerAttr(value, IndexType()))
            first = self._entry.first_op
            if first is None:
                self._entry.add_op(op)
            else:
                self._entry.insert_op_before(op, first)
            self._numbers[value] = op.result
        return self._numbers[value]

    def _sum(self, extent: Sym) -> SSAValue:
        total: SSAValue | None = None
        for monomial, coefficient in extent.terms:
            part = None if coefficient == 1 and monomial else self._number(coefficient)
            for atom in monomial:
                factor = self._atom(atom)
                part = factor if part is None else self._b.insert(arith.MuliOp(part, factor)).result
            assert part is not None
            total = part if total is None else self._b.insert(arith.AddiOp(total, part)).result
        assert total is not None
        return total

    def _atom(self, atom: Atom) -> SSAValue:
        if atom not in self._atoms:
            match atom:
                case Dim():
                    op = memref.DimOp(self._entry.args[atom.argument], self._number(atom.axis))
                case Quotient():
                    op = arith.DivUIOp(self._number(atom.of), self._number(atom.by))
                case Least():
                    op = arith.MinUIOp(self._number(atom.of), self._number(atom.limit))
            self._atoms[atom] = self._b.insert(op).results[0]
        return self._atoms[atom]

    def _unknown(self, extents: Sequence[Extent]) -> list[SSAValue]:
        return [self._number(e) for e in extents if isinstance(e, Sym)]

    def _flat(self, value: SSAValue, element: Attribute, shape: Shape) -> View:
        type = value.type
        assert isinstance(type, MemRefType)
        size = product(shape)
        flat = value if type == flat_type(type.element_type, size) else self._cast(value, (size,))
        buffer = Buffer(flat, type.element_type, size)
        self._originals[buffer] = value, shape
        return View(buffer, element, shape, dense_strides(shape))

    def _cast(self, value: SSAValue, shape: Shape) -> SSAValue:
        type = value.type
        assert isinstance(type, MemRefType)
        strides = dense_strides(shape)
        target = MemRefType(type.element_type, _static(shape))
        unknown = self._unknown(shape), self._unknown(strides)
        cast = memref.ReinterpretCastOp(value, [], *unknown, [0], _static(shape), _static(strides), target)
        cast.result.name_hint = value.name_hint
        return self._b.insert(cast).result

    def finish(self, results: Sequence[SSAValue]) -> FuncOp:
        """The host function, which returns the buffers of ``results``."""
        returned: list[SSAValue] = []
        for value in results:
            view = self.dense(self.view(value), value.name_hint)
            assert isinstance(view.source, Buffer)
            type = MemRefType(view.source.storage, _static(view.shape))
            original, shape = self._originals.get(view.source, (None, ()))
            if original is not None and shape == view.shape:
                returned.append(original)
            else:
                same = view.source.value.type == type
                returned.append(view.source.value if same else self._cast(view.source.value, view.shape))
        self._b.insert(ReturnOp(*returned))
        old = self._function
        host = FuncOp(
            old.sym_name.data,
            FunctionType.from_lists(list(self._entry.arg_types), [v.type for v in returned]),
            Region(self._entry),
            old.sym_visibility,
            arg_attrs=self._marked(old.arg_attrs, old.function_type.inputs.data),
            res_attrs=self._marked(old.res_attrs, old.function_type.outputs.data),
        )
        host.attributes |= old.attributes
        return host

    def _marked(
        self, attributes: ArrayAttr[DictionaryAttr] | None, types: Sequence[Attribute]
    ) -> ArrayAttr[DictionaryAttr] | None:
        """Argument or result attributes that also say which element type a buffer stands for."""
        entries = [dict(e.data) for e in attributes] if attributes is not None else [{} for _ in types]
        for entry, type in zip(entries, types, strict=True):
            assert isinstance(type, TensorType)
            if self.storage(type.element_type) != type.element_type:
                entry[ELEMENT] = type.element_type
        return ArrayAttr(DictionaryAttr(e) for e in entries) if any(entries) else None
