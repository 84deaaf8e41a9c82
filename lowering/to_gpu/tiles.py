"""The tiled form of the contraction schedule: a workgroup makes a tile of the result from slices in shared memory.

Operands are read where they lie, so a transposed or sliced one needs no copy. Products are summed in f32 for f16 and
bf16. Where the hardware says so, there are two buffers of slices: the next is read while the last is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_gpu.contraction_spec import (
    ContractionSpec,
    Factor,
    Line,
    multiply_add,
    position_in,
    remains,
)
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.hardware import Tile
from rlx_dialect.lowering.to_gpu.kernel import Grid, Kernel
from rlx_dialect.shapes import Shape, product


@dataclass(frozen=True)
class TiledContraction(ContractionSpec):
    """A contraction in tiles; ``buffers`` is how many slices of each factor shared memory holds, 1 or 2."""

    tile: Tile
    buffers: int

    @property
    def block(self) -> Grid:
        return (*self.tile.threads, 1)

    @property
    def groups(self) -> Grid:
        tile = self.tile
        return (
            -(-product(self.columns) // tile.columns),
            -(-product(self.rows) // tile.rows),
            product(self.batch),
        )

    def emit(self, k: Kernel) -> None:
        _Writer(k, self).write()


class _Slice:
    """One factor's share of a tile: how shared memory is filled from it.

    Shared memory holds ``depth`` rows of ``width`` elements, so that neighbours in the tile are neighbours there.
    """

    def __init__(self, w: _Writer, factor: Factor, free: Shape, group: Index, width: int):
        k, spec = w.k, w.spec
        self.w, self.width = w, width
        self.type = factor.type
        self.size = width * spec.tile.depth
        self.shared = k.shared(self.type, self.size * spec.buffers)
        threads_x, threads_y = spec.tile.threads
        threads = threads_x * threads_y
        self.steps: list[tuple[Index, Index, Line]] = []
        """For each element that an invocation moves: its place in shared memory, its step along the contracted
        axes, and the elements along them."""
        extent = product(free)
        along_depth = bool(factor.contracted) and factor.contracted[-1] == 1
        for i in range(-(-self.size // threads)):
            flat = k.i_add(w.thread, i * threads)
            # Neighbouring invocations read neighbouring elements.
            if along_depth:
                step, place = k.i_rem(flat, spec.tile.depth), k.i_div(flat, spec.tile.depth)
            else:
                step, place = k.i_div(flat, width), k.i_rem(flat, width)
            position = k.i_add(k.i_mul(group, width), place)
            if remains(extent, width):
                # Beyond the edge anything will do: no result is made of it.
                position = k.i_min(position, extent - 1)
            line = Line(k, factor, w.batch, k.split(position, free))
            self.steps.append((k.i_add(k.i_mul(step, width), place), step, line))

    def load(self, first: Index, *, ahead: bool = False) -> list[SSAValue]:
        """This invocation's elements of the slice that starts at ``first``; ``ahead``: there may be none."""
        k, spec = self.w.k, self.w.spec
        length = product(spec.depth)
        partial = remains(length, spec.tile.depth)
        values: list[SSAValue] = []
        for _, step, line in self.steps:
            position = k.i_add(first, step)
            # Both factors are zero beyond the end: 0 times whatever the other has could be NaN.
            exists = k.i_less(position, length) if partial else None
            if partial or ahead:
                position = k.i_min(position, length - 1)
            values.append(line.load(k.split(position, spec.depth), exists))
        return values

    def keep(self, values: Sequence[SSAValue], buffer: Index) -> None:
        """Write this invocation's elements to the buffer that starts at ``buffer``."""
        for value, (place, _, _) in zip(values, self.steps, strict=True):
            self.w.k.write(value, self.shared, self.w.k.i_add(place, buffer))

    def read(self, step: SSAValue, place: Index, buffer: Index) -> SSAValue:
        k = self.w.k
        return k.read(self.shared, k.i_add(k.i_add(k.i_mul(step, self.width), place), buffer))


class _Writer:
    """Writes one tiled kernel."""

    def __init__(self, k: Kernel, spec: TiledContraction):
        self.k, self.spec = k, spec
        tile = spec.tile
        self.batch = spec.batch_coordinates(k)
        self.column_group, self.row_group = spec.group(k, 0), spec.group(k, 1)
        self.x, self.y = k.thread_id("x"), k.thread_id("y")
        self.thread = k.i_add(k.i_mul(self.y, tile.threads[0]), self.x)
        self.left = _Slice(self, spec.lhs, spec.rows, self.row_group, tile.rows)
        self.rights = [_Slice(self, r, spec.columns, self.column_group, tile.columns) for r in spec.rights]

    @property
    def slices(self) -> list[_Slice]:
        return [self.left, *self.rights]

    def write(self) -> None:
        spec = self.spec
        zero = self.k.constant(0, self.left.type)
        sums = [zero] * (spec.tile.per_row * spec.tile.per_column * len(self.rights))
        self._finish(self._in_turn(sums) if spec.buffers == 1 else self._ahead(sums))

    def _in_turn(self, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Fill the slices, use them, fill them again."""
        k, spec = self.k, self.spec

        def round_(first: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            for part in self.slices:
                part.keep(part.load(first), 0)
            k.barrier()
            sums = self._use(0, sums)
            k.barrier()
            return sums

        return k.loop(0, product(spec.depth), spec.tile.depth, sums, round_)

    def _ahead(self, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Use slices while the next ones are read, into the other buffer."""
        k, spec = self.k, self.spec
        for part in self.slices:
            part.keep(part.load(0), 0)

        def round_(first: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            turn, sums = carried[0], carried[1:]
            k.barrier()
            loaded = [part.load(k.i_add(first, spec.tile.depth), ahead=True) for part in self.slices]
            sums = self._use(turn, sums)
            other = k.i_sub(1, turn)
            for part, values in zip(self.slices, loaded, strict=True):
                part.keep(values, k.i_mul(other, part.size))
            return [k.index(other), *sums]

        return k.loop(0, product(spec.depth), spec.tile.depth, [k.index(0), *sums], round_)[1:]

    def _use(self, turn: Index, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Add the products of the slices in the buffers of ``turn``, 0 or 1."""
        return self.k.loop(0, self.spec.tile.depth, 1, sums, lambda step, sums: self._step(step, turn, sums))

    def _step(self, step: SSAValue, turn: Index, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Add one product to each result of this invocation."""
        k, tile = self.k, self.spec.tile
        buffer = k.i_mul(turn, self.left.size)
        rows = [self.left.read(step, self._row(i), buffer) for i in range(tile.per_row)]
        pairs: list[tuple[SSAValue, SSAValue]] = []
        for right in self.rights:
            buffer = k.i_mul(turn, right.size)
            columns = [right.read(step, self._column(j), buffer) for j in range(tile.per_column)]
            pairs += [(row, column) for row in rows for column in columns]
        return [multiply_add(k, x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

    # Results of one invocation are a workgroup's width apart: its neighbours then read and write side by side.

    def _row(self, i: int) -> Index:
        return self.k.i_add(self.y, i * self.spec.tile.threads[1])

    def _column(self, j: int) -> Index:
        return self.k.i_add(self.x, j * self.spec.tile.threads[0])

    def _finish(self, sums: Sequence[SSAValue]) -> None:
        k, spec, tile = self.k, self.spec, self.spec.tile
        per_factor = tile.per_row * tile.per_column
        for i in range(tile.per_row):
            row, row_exists = position_in(k, self.row_group, tile.rows, self._row(i), product(spec.rows))

            def finish_row(i: int = i, row: Index = row) -> None:
                for j in range(tile.per_column):
                    place, extent = self._column(j), product(spec.columns)
                    column, exists = position_in(k, self.column_group, tile.columns, place, extent)
                    own = sums[i * tile.per_column + j :: per_factor]

                    def store(column: Index = column, own: Sequence[SSAValue] = own) -> None:
                        spec.store(k, self.batch, row, column, own)

                    k.when(exists, store)

            k.when(row_exists, finish_row)
