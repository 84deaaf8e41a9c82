"""The row schedule: a core takes one row after the other, and goes over its columns in loops that LLVM vectorises.

What a program makes of a row's columns is kept in a row of scratch memory when it is first made, so that an
exponential is computed once. Sums are allowed to be reordered, which is what vector accumulators do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, Schedule, reordered
from rlx_dialect.lowering.to_cpu.known import product
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.rows import Columns, Fold, Row, RowSpec, Values

GROUP = 8192
"""About how many elements make a group."""

SCRATCH = 1 << 14
"""Columns of a row that are kept in scratch memory; those of longer rows are made again for each use."""


class CpuRow(Row):
    """A row that one core goes over alone."""

    k: CpuKernel

    def __init__(self, k: CpuKernel, spec: RowSpec, row: Index):
        self.k = k
        self.spec = spec
        self.length = product(spec.columns)
        self.lane = 0
        self.exists = None
        self.coordinates = k.split(row, spec.rows)
        self._shared = {}
        self._starts = {o: k.dot(self.coordinates, o.row, o.access.offset) for o in spec.operands}
        self._flat: Index = 0

    # Columns are walked by nested loops: a split of their number would keep LLVM from seeing the strides.

    def _walk(
        self, carried: Sequence[SSAValue], body: Callable[[Sequence[Index], Sequence[SSAValue]], Sequence[SSAValue]]
    ) -> Sequence[SSAValue]:
        """``body(column, carried)`` for each column in order."""

        def level(axis: int, column: tuple[Index, ...], flat: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            if axis == len(self.spec.columns):
                self._flat = flat
                return body(column, carried)
            extent = self.spec.columns[axis]
            start = self.k.i_mul(flat, extent)
            return self.k.loop(
                0, extent, 1, carried, lambda i, inner: level(axis + 1, (*column, i), self.k.i_add(start, i), inner)
            )

        return level(0, (), 0, carried)

    def values(self, make: Columns) -> Values:
        return Values(None, self._once(make))

    def map(self, values: Values, change: Callable[[SSAValue], SSAValue]) -> Values:
        return Values(None, self._once(lambda column: change(values.make(column))))

    def _once(self, make: Columns) -> Columns:
        """``make``, whose values are kept by the first loop that uses them, and read by the later ones."""
        if self.length > SCRATCH:
            return make
        kept: list[tuple[SSAValue, SSAValue, SSAValue]] = []

        def once(column: Sequence[Index]) -> SSAValue:
            k = self.k
            place = k.index(self._flat)
            if not kept:
                value = make(column)
                if value.type == i1:
                    # MLIR 22 stops at a store of an i1; a truth value is made again.
                    return value
                memory = k.at_start(memref.AllocaOp.get(value.type, shape=[self.length]))
                k.b.insert(memref.StoreOp.get(value, memory, [place]))
                kept.append((memory, place, value))
                return value
            memory, made_at, value = kept[0]
            return value if place is made_at else k.op(memref.LoadOp.get(memory, [place]))

        return once

    def fold(self, values: Values, fold: Fold, change: Callable[[SSAValue], SSAValue] = lambda v: v) -> SSAValue:
        def step(column: Sequence[Index], carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [reordered(fold.combine(self.k.b, carried[0], change(values.make(column))))]

        return self._walk([fold.neutral(self.k)], step)[0]

    def each(self, values: Values, write: Callable[[Sequence[Index], SSAValue], None]) -> None:
        def step(column: Sequence[Index], carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            write(column, values.make(column))
            return carried

        self._walk([], step)


class Rows(Schedule[RowSpec]):
    """A group is some rows."""

    @property
    def _rows(self) -> int:
        return max(GROUP // product(self.spec.columns), 1)

    @property
    def groups(self) -> int:
        return -(-product(self.spec.rows) // self._rows)

    @property
    def work(self) -> int:
        return 16 * self._rows * product(self.spec.columns)

    def emit(self, k: CpuKernel) -> None:
        spec, count = self.spec, product(self.spec.rows)

        def group(number: SSAValue) -> None:
            first = k.i_mul(number, self._rows)
            last = k.i_min(k.i_add(first, self._rows), count)
            k.each(first, last, lambda row: spec.program.write(CpuRow(k, spec, row), spec.operands))

        k.groups(group)
