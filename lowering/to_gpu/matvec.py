"""The thin form of the contraction schedule: few rows, as in decoding, where each weight is used once or a few times.

An invocation sums its share of the contracted axes for one column and all rows of its group, straight from memory;
``lanes`` invocations share a column and add up their sums in a tree in shared memory. With one lane it is also the
form of short sums (convolution channel by channel).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.lowering.scalar import binary
from rlx_dialect.lowering.to_gpu.contraction_spec import ContractionSpec, Line, multiply_add, position_in, remains
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, product
from rlx_dialect.lowering.to_gpu.kernel import BlockSize, Grid, Kernel
from rlx_dialect.lowering.to_gpu.tiles import groups_of_tiles


@dataclass(frozen=True)
class Thin:
    """How a workgroup of the thin form covers its part of the result: ``lanes`` invocations a column."""

    rows: int
    columns: int
    lanes: int
    along_depth: bool
    """Neighbouring invocations are neighbours along the contracted axes, else along the columns."""


@dataclass(frozen=True)
class ThinContraction(ContractionSpec):
    """A contraction of few rows."""

    thin: Thin

    @property
    def block(self) -> BlockSize:
        return (self.thin.columns * self.thin.lanes, 1, 1)

    @property
    def groups(self) -> Grid:
        return groups_of_tiles(self, self.thin.rows, self.thin.columns)

    def emit(self, k: Kernel) -> None:
        thin, thread = self.thin, k.thread_id()
        batch = self.batch_coordinates(k)
        if thin.along_depth:
            lane, place = k.i_rem(thread, thin.lanes), k.i_div(thread, thin.lanes)
        else:
            lane, place = k.i_div(thread, thin.columns), k.i_rem(thread, thin.columns)
        extent = product(self.columns)
        column, column_exists = position_in(k, self.group(k, 0), thin.columns, place, extent)
        rows = [position_in(k, self.group(k, 1), thin.rows, i, product(self.rows)) for i in range(thin.rows)]

        def within(position: Index, extent: Extent, width: int) -> Index:
            return k.i_min(position, extent - 1) if remains(extent, width) else position

        # Beyond the edge anything will do: no result is made of it.
        left_at = [k.split(within(row, product(self.rows), thin.rows), self.rows) for row, _ in rows]
        left = [Line(k, self.lhs, batch, at) for at in left_at]
        at_column = k.split(within(column, extent, thin.columns), self.columns)
        right = [Line(k, factor, batch, at_column) for factor in self.rights]

        def step(position: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            depth = k.split(position, self.depth)
            lefts, rights = [line.load(depth) for line in left], [line.load(depth) for line in right]
            pairs = [(x, y) for y in rights for x in lefts]
            return [multiply_add(k, x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

        zero = k.constant(0, self.lhs.type)
        sums = k.loop(lane, product(self.depth), thin.lanes, [zero] * (thin.rows * len(right)), step)
        if thin.lanes > 1:
            # One array for all: of each, an invocation reads at last what only it writes next.
            shared = k.shared(self.lhs.type, thin.columns * thin.lanes)
            sums = [self._across_lanes(k, total, shared, lane) for total in sums]
        first = None if thin.lanes == 1 else k.i_equal(lane, 0)
        for i, (row, row_exists) in enumerate(rows):

            def store(row: Index = row, own: Sequence[SSAValue] = sums[i :: thin.rows]) -> None:
                self.store(k, batch, row, column, own)

            k.when(k.both(first, k.both(row_exists, column_exists)), store)

    def _across_lanes(self, k: Kernel, total: SSAValue, shared: SSAValue, lane: Index) -> SSAValue:
        """The sum over the lanes of a column, known to its first one."""
        thin, thread = self.thin, k.thread_id()
        apart = 1 if thin.along_depth else thin.columns
        k.write(total, shared, thread)
        k.barrier()
        half = thin.lanes // 2
        while half:

            def step(half: int = half) -> None:
                pair = k.read(shared, thread), k.read(shared, k.i_add(thread, half * apart))
                k.write(binary(BinaryKind.ADD, *pair, k.b), shared, thread)

            k.when(k.i_less(lane, half), step)
            k.barrier()
            half //= 2
        return k.read(shared, thread)
