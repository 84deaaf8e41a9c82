"""The row schedule: invocations share the rows of a box, fold each row to numbers and write what depends on them.

A *row* is the part of the operands that one result of a fold is made of; *columns* run along it. ``lanes``
invocations take a row together: 1 where rows are short or neighbouring rows lie side by side in memory, up to a
workgroup where they are long. What a kernel does with its rows is a :class:`Program`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.dtypes import is_unsigned, wide_element
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.scalar import binary, neutral
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, Sym, estimate, product, up
from rlx_dialect.lowering.to_gpu.hardware import Hardware
from rlx_dialect.lowering.to_gpu.kernel import Access, BlockSize, Kernel, LinearSpec, Operands
from rlx_dialect.lowering.to_gpu.views import View, coalesce
from rlx_dialect.xdsl_compat import Builder

Columns = Callable[[Sequence[Index]], SSAValue]
"""A value of the row from the coordinates of a column."""

HELD = 8
"""Values of a row that one invocation keeps in registers; of longer rows they are read again for each use."""


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

    held: list[tuple[Sequence[Index], SSAValue | None, SSAValue]] | None
    """Coordinates, the condition under which there is such a column, the value."""
    make: Columns


class Row:
    """The row of this invocation."""

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
        self._shared: dict[Attribute, SSAValue] = {}
        self._starts = {o: k.dot(self.coordinates, o.row, o.access.offset) for o in spec.operands}

    def load(self, operand: Operand, column: Sequence[Index] = ()) -> SSAValue:
        """The element of the row's ``column`` (of the row itself where there are none), in its wide type."""
        return self.k.load_wide(self._along(operand, column), column, self._starts[operand])

    def store(self, value: SSAValue, operand: Operand, column: Sequence[Index] = ()) -> None:
        """Store in this row's ``column``; call within :meth:`each` or :meth:`once`."""
        self.k.store(value, self._along(operand, column), column, self._starts[operand])

    def _along(self, operand: Operand, column: Sequence[Index]) -> Access:
        access = operand.access
        return Access(access.source, access.element, operand.column[: len(column)], 0)

    def values(self, make: Columns) -> Values:
        """``make`` of each column of this invocation."""
        if isinstance(self.length, Sym) or (per_lane := up(self.length, self.spec.lanes)) > HELD:
            return Values(None, make)
        held: list[tuple[Sequence[Index], SSAValue | None, SSAValue]] = []
        for i in range(per_lane):
            column = self.k.i_add(self.lane, i * self.spec.lanes)
            inside = None
            if (i + 1) * self.spec.lanes > self.length:
                inside = self.k.i_less(column, self.length)
                column = self.k.i_min(column, self.length - 1)
            coordinates = self.k.split(column, self.spec.columns)
            held.append((coordinates, inside, make(coordinates)))
        return Values(held, make)

    def map(self, values: Values, change: Callable[[SSAValue], SSAValue]) -> Values:
        """``change`` of each value."""
        held = None if values.held is None else [(c, inside, change(v)) for c, inside, v in values.held]
        return Values(held, lambda column: change(values.make(column)))

    def fold(self, values: Values, fold: Fold, change: Callable[[SSAValue], SSAValue] = lambda v: v) -> SSAValue:
        """``change`` of every value of the row combined; all invocations of the row get it."""
        k = self.k
        if values.held is not None:
            total: SSAValue | None = None
            for _, inside, value in values.held:
                part = change(value)
                if inside is not None:
                    part = k.op(arith.SelectOp(inside, part, fold.neutral(k)))
                total = part if total is None else fold.combine(k.b, total, part)
            assert total is not None
        else:
            total = self._fold_loop(values, fold, change)
        return self._across_lanes(total, fold)

    def _fold_loop(self, values: Values, fold: Fold, change: Callable[[SSAValue], SSAValue]) -> SSAValue:
        k = self.k

        def step(column: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [fold.combine(k.b, carried[0], change(values.make(k.split(column, self.spec.columns))))]

        lanes = self.spec.lanes
        if isinstance(self.length, Sym):
            # A lane may have no column at all.
            return k.loop(self.lane, self.length, lanes, [fold.neutral(k)], step)[0]
        # Every lane has a first column here: a row that is not held is longer than its lanes.
        first = change(values.make(k.split(self.lane, self.spec.columns)))
        return k.loop(k.i_add(self.lane, lanes), self.length, lanes, [first], step)[0]

    def _across_lanes(self, value: SSAValue, fold: Fold) -> SSAValue:
        """Combine the values of a row's invocations in a tree in shared memory."""
        k, lanes = self.k, self.spec.lanes
        if lanes == 1:
            return value
        is_bool = value.type == i1
        if is_bool:
            # Shared memory holds no i1; 0 and 1 have the same extremes.
            value = k.op(arith.ExtUIOp(value, i32))
        if value.type not in self._shared:
            self._shared[value.type] = k.shared(value.type, self.spec.threads)
        shared, thread = self._shared[value.type], k.thread_id()
        k.write(value, shared, thread)
        k.barrier()
        half = lanes // 2
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
        return k.op(arith.CmpiOp(total, k.constant(0, i32), "ne")) if is_bool else total

    def each(self, values: Values, write: Callable[[Sequence[Index], SSAValue], None]) -> None:
        """``write(column, value)`` for each column of this invocation."""
        k = self.k
        if values.held is not None:
            for column, inside, value in values.held:
                k.when(k.both(self.exists, inside), lambda c=column, v=value: write(c, v))
            return

        def all_columns() -> None:
            def step(column: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                coordinates = k.split(column, self.spec.columns)
                write(coordinates, values.make(coordinates))
                return carried

            k.loop(self.lane, self.length, self.spec.lanes, [], step)

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
    parts = tuple(
        Operand(operands.access(v, ()), r, c) for v, r, c in zip(views, row_strides, column_strides, strict=True)
    )
    threads = hardware.workgroup
    lanes = _lanes(estimate(product(columns)), parts[0], threads)
    return RowSpec(operands.slots, row_box, column_box, parts, program, lanes, threads), operands


def _lanes(length: int, first: Operand, threads: int) -> int:
    """Invocations a row: neighbouring ones must read neighbouring elements of the first operand."""
    along_columns = not first.column or first.column[-1] == 1
    if length < 16 or (not along_columns and first.row and first.row[-1] == 1):
        return 1
    lanes = 1
    while lanes < threads and lanes * 4 < length:
        lanes *= 2
    return lanes
