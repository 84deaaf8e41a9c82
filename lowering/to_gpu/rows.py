"""The row schedule: invocations share the rows of a box, fold each row to numbers and write what depends on them.

A *row* is the part of the operands that one result of a fold is made of; *columns* run along it. ``lanes``
invocations take a row together: 1 where rows are short or neighbouring rows lie side by side in memory, at most a
subgroup where that can hold the row, up to a workgroup where it is long. Subgroups fold by exchanges of registers;
only what several subgroups found goes through shared memory. What a kernel does with its rows is a :class:`Program`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.dtypes import is_unsigned, storage_dtype, wide_element
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.scalar import binary, neutral
from rlx_dialect.lowering.to_gpu.contraction_spec import remains
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, Sym, estimate, product, up
from rlx_dialect.lowering.to_gpu.hardware import Hardware
from rlx_dialect.lowering.to_gpu.kernel import Access, BlockSize, Kernel, LinearSpec, Operands, Slot
from rlx_dialect.lowering.to_gpu.views import View, coalesce
from rlx_dialect.xdsl_compat import Builder

Columns = Callable[[Sequence[Index]], SSAValue]
"""A value of the row from the coordinates of a column."""

WAVE = 64
"""Invocations that the widest hardware runs in step: workgroups of fewer leave a part of it idle."""

MANY = 32
"""Rows for each unit of the device that occupy it, each in one invocation."""


@dataclass(frozen=True)
class Fold:
    """How values of an RLX element type are folded to one."""

    kind: BinaryKind
    element: Attribute

    def combine(self, b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        return binary(self.kind, x, y, b, unsigned=is_unsigned(self.element))

    def neutral(self, k: Kernel) -> SSAValue:
        """What changes nothing when it is combined with, in the type that the element is computed in."""
        return k.constant(neutral(self.kind, self.element), wide_element(signless(self.element)))


@dataclass(frozen=True)
class Operand:
    """An operand addressed by row and by column."""

    access: Access
    row: Shape
    column: Shape
    wide: bool
    """Whether :attr:`RowSpec.width` columns lie side by side, where memory aligns them."""


@dataclass(frozen=True)
class Program:
    """What a kernel does with each row; two programs with one key write the same code."""

    key: str
    write: Callable[[Row, Sequence[Operand]], None] = field(compare=False, repr=False)


@dataclass(frozen=True)
class RowSpec(LinearSpec):
    """``program`` applied to each of the ``rows`` of operands, in the order of their accesses."""

    rows: Shape
    columns: Shape
    operands: tuple[Operand, ...]
    program: Program
    width: int
    """Neighbouring columns that an invocation takes together."""
    lanes: int
    threads: int

    @property
    def block(self) -> BlockSize:
        return (self.threads, 1, 1)

    @property
    def count(self) -> Extent:
        return up(product(self.rows) * self.lanes, self.threads)

    def emit(self, k: Kernel) -> None:
        self.program.write(Row(k, self), self.operands)


@dataclass
class Values:
    """A value for each column of this invocation: held, or made anew for each use."""

    held: list[tuple[Sequence[Index], SSAValue | None, list[SSAValue]]] | None
    """The first of neighbouring columns, the condition under which there are such columns, their values."""
    make: Columns


@dataclass
class Piece:
    """Neighbouring columns, whose elements are moved together."""

    first: Sequence[Index]
    number: int = 0
    """Which of them is being written."""
    loaded: dict[Operand, SSAValue] = field(default_factory=dict)
    stored: dict[Operand, list[SSAValue]] = field(default_factory=dict)


class Row:
    """The row of this invocation."""

    _piece: Piece | None = None

    def __init__(self, k: Kernel, spec: RowSpec):
        self.k = k
        self.spec = spec
        self.length = product(spec.columns)
        lanes, count = spec.lanes, product(spec.rows)
        thread = k.thread_id()
        self.lane: Index = k.i_rem(thread, lanes)
        row = k.i_add(k.i_mul(k.linear_group(), spec.threads // lanes), k.i_div(thread, lanes))
        whole = (count * lanes) % spec.threads == 0 and k.grid_is_exact
        # Invocations without a row do the last one too, so that all of them meet at the barriers.
        self.exists = None if whole else k.i_less(row, count)
        self.coordinates = k.split(row if whole else k.i_min(row, count - 1), spec.rows)
        self.pieces = up(self.length, spec.width)
        self._shared: dict[Attribute, SSAValue] = {}
        self._turn = 0
        self._starts = {o: k.dot(self.coordinates, o.row, o.access.offset) for o in spec.operands}

    def load(self, operand: Operand, column: Sequence[Index] = ()) -> SSAValue:
        """The element of the row's ``column`` (of the row itself where there are none), in its wide type."""
        k, piece, start = self.k, self._piece, self._starts[operand]
        access = self._along(operand, column)
        if piece is None or not operand.wide or not column:
            return k.load_wide(access, column, start)
        if operand not in piece.loaded:
            piece.loaded[operand] = k.load_vector(access, piece.first, start, self.spec.width)
        element = signless(access.element)
        value = k.op(vector.ExtractOp(piece.loaded[operand], [piece.number], element))
        return k.converted(value, wide_element(element))

    def store(self, value: SSAValue, operand: Operand, column: Sequence[Index] = ()) -> None:
        """Store in this row's ``column``; call within :meth:`each` or :meth:`once`."""
        if self._piece is not None and operand.wide and column:
            self._piece.stored.setdefault(operand, []).append(value)
        else:
            self.k.store(value, self._along(operand, column), column, self._starts[operand])

    def _along(self, operand: Operand, column: Sequence[Index]) -> Access:
        access = operand.access
        return Access(access.source, access.element, operand.column[: len(column)], 0)

    # Columns are taken in pieces of neighbours; a piece exists as a whole or not at all.

    def _first(self, piece: Index) -> Sequence[Index]:
        return self.k.split(self.k.i_mul(piece, self.spec.width), self.spec.columns)

    def _neighbours(self, first: Sequence[Index], visit: Callable[[int, Sequence[Index]], None]) -> None:
        """``visit(number, column)`` for each column of the piece that starts at ``first``."""
        if self.spec.width == 1:
            visit(0, first)
            return
        self._piece = piece = Piece(first)
        for number in range(self.spec.width):
            piece.number = number
            visit(number, [*first[:-1], self.k.i_add(first[-1], number)])
        self._piece = None
        for operand, values in piece.stored.items():
            self.k.store_vector(values, self._along(operand, first), first, self._starts[operand])

    def _made(self, make: Columns, first: Sequence[Index]) -> list[SSAValue]:
        """``make`` of each column of a piece."""
        made: list[SSAValue] = []
        self._neighbours(first, lambda number, column: made.append(make(column)))
        return made

    def values(self, make: Columns) -> Values:
        """``make`` of each column of this invocation."""
        k, spec, pieces = self.k, self.spec, self.pieces
        if isinstance(pieces, Sym) or up(pieces, spec.lanes) * spec.width > k.hardware.held:
            return Values(None, make)
        held: list[tuple[Sequence[Index], SSAValue | None, list[SSAValue]]] = []
        for i in range(up(pieces, spec.lanes)):
            piece = k.i_add(self.lane, i * spec.lanes)
            inside = None
            if (i + 1) * spec.lanes > pieces:
                inside = k.i_less(piece, pieces)
                piece = k.i_min(piece, pieces - 1)
            first = self._first(piece)
            held.append((first, inside, self._made(make, first)))
        return Values(held, make)

    def map(self, values: Values, change: Callable[[SSAValue], SSAValue]) -> Values:
        """``change`` of each value."""
        held = None if values.held is None else [(c, inside, [*map(change, vs)]) for c, inside, vs in values.held]
        return Values(held, lambda column: change(values.make(column)))

    def fold(self, values: Values, fold: Fold, change: Callable[[SSAValue], SSAValue] = lambda v: v) -> SSAValue:
        """``change`` of every value of the row combined; all invocations of the row get it."""
        k = self.k
        if values.held is not None:
            parts: list[SSAValue] = []
            for _, inside, held in values.held:
                part = self._combined(fold, [change(value) for value in held])
                parts.append(part if inside is None else k.op(arith.SelectOp(inside, part, fold.neutral(k))))
            total = self._combined(fold, parts)
        else:
            total = self._fold_loop(values, fold, change)
        return self._across_lanes(total, fold)

    def _combined(self, fold: Fold, values: Sequence[SSAValue]) -> SSAValue:
        first, *others = values
        for value in others:
            first = fold.combine(self.k.b, first, value)
        return first

    def _fold_loop(self, values: Values, fold: Fold, change: Callable[[SSAValue], SSAValue]) -> SSAValue:
        k, lanes = self.k, self.spec.lanes

        def changed(piece: Index) -> list[SSAValue]:
            return self._made(lambda column: change(values.make(column)), self._first(piece))

        def step(piece: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [self._combined(fold, [*carried, *changed(piece)])]

        if isinstance(self.pieces, Sym):
            # A lane may have no column at all.
            return k.loop(self.lane, self.pieces, lanes, [fold.neutral(k)], step)[0]
        # Every lane has a first column here: a row that is not held is longer than its lanes.
        first = self._combined(fold, changed(self.lane))
        return k.loop(k.i_add(self.lane, lanes), self.pieces, lanes, [first], step)[0]

    def _across_lanes(self, value: SSAValue, fold: Fold) -> SSAValue:
        """Combine the values of a row's invocations."""
        k, lanes, subgroup = self.k, self.spec.lanes, self.k.hardware.subgroup
        if lanes == 1:
            return value
        is_bool = value.type == i1
        if is_bool:
            # Neither registers nor shared memory exchange i1; 0 and 1 have the same extremes.
            value = k.op(arith.ExtUIOp(value, i32))
        if not subgroup:
            value = self._in_a_tree(value, fold)
        else:
            value = self._in_subgroups(value, fold, min(lanes, subgroup))
            if lanes > subgroup:
                value = self._between_subgroups(value, fold)
        return k.op(arith.CmpiOp(value, k.constant(0, i32), "ne")) if is_bool else value

    def _memory(self, type: Attribute, size: int) -> SSAValue:
        if type not in self._shared:
            self._shared[type] = self.k.shared(type, size)
        return self._shared[type]

    def _in_a_tree(self, value: SSAValue, fold: Fold) -> SSAValue:
        """Combine the values of the lanes in a tree in shared memory."""
        k, thread = self.k, self.k.thread_id()
        shared = self._memory(value.type, self.spec.threads)
        k.write(value, shared, thread)
        k.barrier()
        half = self.spec.lanes // 2
        while half:

            def step(half: int = half) -> None:
                pair = k.read(shared, thread), k.read(shared, k.i_add(thread, half))
                k.write(fold.combine(k.b, *pair), shared, thread)

            k.when(k.i_less(self.lane, half), step)
            k.barrier()
            half //= 2
        total = k.read(shared, k.i_sub(thread, self.lane))
        # Nobody may write for the next fold before everybody has read.
        k.barrier()
        return total

    def _in_subgroups(self, value: SSAValue, fold: Fold, count: int) -> SSAValue:
        """Combine the values of ``count`` neighbours of a subgroup, a power of two; each of them gets the result."""
        apart = count // 2
        while apart:
            value = fold.combine(self.k.b, value, self.k.exchange(value, apart))
            apart //= 2
        return value

    def _between_subgroups(self, value: SSAValue, fold: Fold) -> SSAValue:
        """Combine what a row's subgroups found: each reads all of it."""
        k, subgroup, thread = self.k, self.k.hardware.subgroup, self.k.thread_id()
        many, parts = self.spec.threads // subgroup, self.spec.lanes // subgroup
        # Folds take two places in turn: who writes the next but one has met all that read this one.
        shared, start = self._memory(value.type, 2 * many), self._turn * many
        self._turn = 1 - self._turn
        write = k.i_equal(k.i_rem(thread, subgroup), 0)
        k.when(write, lambda: k.write(value, shared, k.i_add(k.i_div(thread, subgroup), start)))
        k.barrier()
        first = k.i_div(k.i_sub(thread, self.lane), subgroup)
        found = k.read(shared, k.i_add(k.i_add(first, k.i_rem(self.lane, parts)), start))
        return self._in_subgroups(found, fold, parts)

    def each(self, values: Values, write: Callable[[Sequence[Index], SSAValue], None]) -> None:
        """``write(column, value)`` for each column of this invocation."""
        k = self.k

        def write_held(first: Sequence[Index], held: Sequence[SSAValue]) -> None:
            self._neighbours(first, lambda number, column: write(column, held[number]))

        if values.held is not None:
            for first, inside, held in values.held:
                k.when(k.both(self.exists, inside), lambda f=first, h=held: write_held(f, h))
            return

        def all_columns() -> None:
            def step(piece: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                self._neighbours(self._first(piece), lambda number, column: write(column, values.make(column)))
                return carried

            k.loop(self.lane, self.pieces, self.spec.lanes, [], step)

        k.when(self.exists, all_columns)

    def once(self, write: Callable[[], None]) -> None:
        """``write()`` by one invocation of the row."""
        first = None if self.spec.lanes == 1 else self.k.i_equal(self.lane, 0)
        self.k.when(self.k.both(self.exists, first), write)


def row_kernel(
    rows: Shape, columns: Shape, views: Sequence[View], program: Program, hardware: Hardware
) -> tuple[RowSpec, Operands]:
    """The kernel that runs ``program`` on rows of ``views``, and its buffers.

    The shape of every view is that of the rows followed by that of the columns; a view that lacks one of them is
    broadcast along it (stride 0).
    """
    rank = len(rows)
    row_box, row_strides = coalesce(rows, [v.strides[:rank] for v in views])
    column_box, column_strides = coalesce(columns, [v.strides[rank:] for v in views])
    operands = Operands()
    accesses = [operands.access(v, ()) for v in views]
    slots = operands.slots
    width = _width(column_box, accesses, column_strides, hardware)
    parts = tuple(
        Operand(access, r, c, _is_wide(width, access, slots, r, c))
        for access, r, c in zip(accesses, row_strides, column_strides, strict=True)
    )
    if not any(part.wide for part in parts):
        width = 1
    count, length = estimate(product(rows)), estimate(product(columns))
    lanes = _lanes(count, length, width, parts[0], hardware)
    threads = hardware.workgroup
    # Few rows are spread over the device.
    while threads > max(lanes, WAVE) and count * lanes < threads * hardware.units:
        threads //= 2
    return RowSpec(slots, row_box, column_box, parts, program, width, lanes, threads), operands


def _width(columns: Shape, accesses: Sequence[Access], strides: Sequence[Shape], hardware: Hardware) -> int:
    """How many neighbouring columns make the largest vector that no operand exceeds and no row ends in."""
    beside = [a for a, s in zip(accesses, strides, strict=True) if isinstance(a.source, int) and s and s[-1] == 1]
    if not beside:
        return 1
    width = hardware.vector_bytes // max(storage_dtype(signless(a.element)).itemsize for a in beside)
    width = min(width, hardware.held)
    while width > 1 and remains(columns[-1], width):
        width //= 2
    return max(width, 1)


def _is_wide(width: int, access: Access, slots: Sequence[Slot], row: Shape, column: Shape) -> bool:
    """Whether ``width`` columns of an operand can be moved as one vector."""
    if width == 1 or not isinstance(access.source, int) or not column or column[-1] != 1:
        return False
    plain = slots[access.source].storage == signless(access.element)
    return plain and not any(remains(apart, width) for apart in (access.offset, *row, *column[:-1]))


def _lanes(count: int, length: int, width: int, first: Operand, hardware: Hardware) -> int:
    """Invocations for each of ``count`` rows: neighbouring ones read neighbouring elements of the first operand."""
    along_columns = not first.column or first.column[-1] == 1
    side_by_side = not along_columns and bool(first.row) and first.row[-1] == 1
    if length < 16 or (side_by_side and count >= MANY * hardware.units):
        return 1
    lanes = 1
    while lanes < hardware.workgroup and lanes * max(width, 4) < length:
        lanes *= 2
    # What a subgroup can hold needs no barrier.
    return min(lanes, hardware.subgroup) if length <= hardware.subgroup * hardware.held else lanes
