"""The contraction schedule: register tiles over packed panels of the right factor.

A tile of rows x vectors is held in registers over a stretch of the contracted axes that keeps the panel in the core's
own cache; then its sums go through a small buffer on the stack to the epilogue, a loop along the result's columns.
The left factor is read where it lies, one number at a time, where it has one contracted stride; else it is packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_cpu.cpus import Cpu
from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, CpuSpec, Schedule
from rlx_dialect.lowering.to_cpu.known import all_known, product
from rlx_dialect.lowering.to_cpu.packing import PackSpec, write_panel
from rlx_dialect.lowering.to_cpu.registers import Number, RegisterTile, add_products, choose_register_tile, tiles
from rlx_dialect.lowering.to_gpu.contraction_spec import ContractionSpec, Factor
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.kernel import Access
from rlx_dialect.lowering.to_gpu.views import coalesce

BLOCK_ROWS = 128
"""Rows of one group, about: the left factor's share stays in a cache, and threads have groups to share."""


MOST_CORES = 16
"""So many groups have a share for every core that is likely to be there."""

OWN_BYTES = 256 << 10
"""What a panel may take of a thread's stack."""


def choose_tile(cpu: Cpu, spec: ContractionSpec) -> RegisterTile:
    columns, factors = product(spec.columns), len(spec.rights)
    return choose_register_tile(cpu, cpu.lanes(spec.rhs.type), product(spec.rows), columns, factors)


@dataclass(frozen=True)
class PackedContraction(CpuSpec):
    """``whole`` with panels of its right factors in the last slots, in order; before them, maybe, those of the left.

    With ``own_panels`` each group makes the panel that it reads, on the core's stack.
    """

    whole: ContractionSpec
    tile: RegisterTile
    packs_left: bool
    own_panels: bool


def reads_left_in_place(spec: ContractionSpec) -> bool:
    """Whether a step along the contracted axes is one stride of the left factor, as memory holds it."""
    left = spec.lhs
    return not left.bounds and left.prologue is None and len(coalesce(spec.depth, [left.contracted])[0]) <= 1


def may_own_panels(cpu: Cpu, spec: ContractionSpec, tile: RegisterTile) -> bool:
    """Whether there are groups enough if each takes all rows of a panel, and a panel is small."""
    panels = product(spec.batch) * -(-product(spec.columns) // tile.width)
    size = product(spec.depth) * tile.width * len(spec.rights) * (cpu.vector_bytes // tile.lanes)
    enough = panels >= MOST_CORES or product(spec.rows) <= BLOCK_ROWS
    return enough and size <= min(OWN_BYTES, cpu.cache_bytes)


class Contraction(Schedule[PackedContraction]):
    """A group is a panel of columns and a block of rows; blocks of one panel follow each other."""

    def __init__(self, spec: PackedContraction, cpu: Cpu):
        super().__init__(spec, cpu)
        self.whole, self.tile = spec.whole, spec.tile
        self.rows, self.columns = product(self.whole.rows), product(self.whole.columns)
        self.length = product(self.whole.depth)
        self.panels = -(-self.columns // self.tile.width)
        height = self.tile.rows
        self.block_rows = -(-self.rows // height) * height if spec.own_panels else max(BLOCK_ROWS // height, 1) * height
        self.blocks = -(-self.rows // self.block_rows)
        self.type = self.whole.rhs.type
        factors = len(self.whole.rights)
        step = self.tile.width * factors * (cpu.vector_bytes // self.tile.lanes)
        stretches = max(-(-self.length * step // cpu.cache_bytes), 1)
        self.stretch = max(-(-self.length // stretches), 1)
        """How far along the contracted axes the sums are held in registers."""

    @property
    def groups(self) -> int:
        return product(self.whole.batch) * self.panels * self.blocks

    def pack(self, factor: Factor) -> PackSpec:
        """How the groups pack a right factor that they read in their own buffers."""
        batch, columns, depth = map(all_known, (self.whole.batch, self.whole.columns, self.whole.depth))
        return PackSpec(self.spec.slots, batch, columns, depth, factor, self.tile.width)

    @property
    def work(self) -> int:
        vectors = self.tile.vectors * len(self.whole.rights)
        return 2 * min(self.rows, self.block_rows) * vectors * max(self.length, 1)

    def emit(self, k: CpuKernel) -> None:
        _Writer(k, self).write()


class _Writer:
    """Writes one kernel."""

    def __init__(self, k: CpuKernel, schedule: Contraction):
        self.k, self.s = k, schedule
        self.whole, self.tile = schedule.whole, schedule.tile
        self.vector = VectorType(schedule.type, [self.tile.lanes])
        factors, slots = len(self.whole.rights), len(schedule.spec.slots)
        own = schedule.spec.own_panels
        self.last_left = slots - 1 if own else slots - factors - 1
        """The slot of the left factor's panels, where it is packed."""
        size = schedule.length * self.tile.width
        self.panels = [
            k.at_start(memref.AllocaOp.get(schedule.type, 64, shape=[size])) if own else k.buffer(slots - factors + i)
            for i in range(factors)
        ]
        self.at_once = schedule.stretch >= schedule.length
        """Whether a tile's sums are whole when its loop ends, so that the buffer need only hold one tile."""
        self.held = (self.tile.rows if self.at_once else schedule.block_rows) * self.tile.width
        """Sums of one right factor in the buffer."""
        self.sums = k.at_start(memref.AllocaOp.get(schedule.type, 64, shape=[factors * self.held]))
        self.flat_batch: Index = 0
        self.batch: list[Index] = []
        self.panel: Index = 0

    def write(self) -> None:
        k, s = self.k, self.s

        def group(number: SSAValue) -> None:
            self.flat_batch, self.panel, block = k.split(number, (product(self.whole.batch), s.panels, s.blocks))
            self.batch = k.split(self.flat_batch, self.whole.batch)
            if s.spec.own_panels:
                for factor, memory in zip(self.whole.rights, self.panels, strict=True):
                    write_panel(k, s.pack(factor), self.batch, self.panel, memory, 0)
            first = k.i_mul(block, s.block_rows)
            last = k.i_min(k.i_add(first, s.block_rows), s.rows)
            if self.at_once:
                tiles(k, self.tile, s.rows, first, last, self._whole_tile)
                return
            zero = k.constant(0, s.type)
            size = self.held * len(self.panels)
            k.each(0, size, lambda i: k.write(zero, self.sums, i))

            def stretch(start: SSAValue) -> None:
                stop = k.i_min(k.i_add(start, s.stretch), s.length)
                tiles(
                    k,
                    self.tile,
                    s.rows,
                    first,
                    last,
                    lambda row, count: self._stretch(k.i_sub(row, first), row, count, start, stop),
                )

            k.each(0, s.length, stretch, s.stretch)
            k.each(first, last, lambda row: self._finish(row, k.i_sub(row, first)))

        k.groups(group)

    def _whole_tile(self, row: Index, count: int) -> None:
        """The sums of ``count`` rows, and the epilogue."""
        k = self.k
        zero = k.op(vector.BroadcastOp(k.constant(0, self.s.type), self.vector))
        cells = self._cells(0, count)
        sums = self._products(row, count, 0, self.s.length, [zero] * len(cells))
        self._keep(sums, cells)
        for i in range(count):
            self._finish(k.i_add(row, i), i)

    def _stretch(self, held: Index, row: Index, count: int, start: Index, stop: Index) -> None:
        """Add a stretch to the sums of ``count`` rows, which are rows ``held`` and on of the buffer."""
        cells = self._cells(held, count)
        sums = [self.k.op(vector.LoadOp(self.sums, [self.k.index(at)], self.vector)) for at in cells]
        self._keep(self._products(row, count, start, stop, sums), cells)

    def _keep(self, sums: Sequence[SSAValue], cells: Sequence[Index]) -> None:
        for value, at in zip(sums, cells, strict=True):
            self.k.b.insert(vector.StoreOp(value, self.sums, [self.k.index(at)]))

    def _cells(self, held: Index, count: int) -> list[Index]:
        """Where each vector of sums lies, from row ``held`` of the buffer: factor by factor, row by row."""
        k, tile = self.k, self.tile
        start = k.i_mul(held, tile.width)
        return [
            k.i_add(start, f * self.held + i * tile.width + v * tile.lanes)
            for f in range(len(self.panels))
            for i in range(count)
            for v in range(tile.vectors)
        ]

    def _products(
        self, row: Index, count: int, start: Index, stop: Index, sums: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """``sums`` and the products of a stretch."""
        k, s, tile = self.k, self.s, self.tile
        number = k.i_add(k.i_mul(self.flat_batch, s.panels), self.panel)
        panel = 0 if s.spec.own_panels else k.i_mul(number, s.length * tile.width)
        panels = [(memory, panel) for memory in self.panels]
        return add_products(k, tile, panels, self._lefts(row, count), start, stop, sums)

    def _lefts(self, row: Index, count: int) -> list[Number]:
        """For each of ``count`` rows its element of the left factor at a place along the contracted axes."""
        k, s, left = self.k, self.s, self.whole.lhs
        if s.spec.packs_left:
            memory, height = k.buffer(self.last_left), self.tile.rows
            panel = k.i_add(k.i_mul(self.flat_batch, -(-s.rows // height)), k.i_div(row, height))
            start = k.i_mul(panel, s.length * height)
            return [
                lambda at, i=i: k.read(memory, k.i_add(k.i_add(start, k.i_mul(at, height)), i)) for i in range(count)
            ]
        _, (strides,) = coalesce(self.whole.depth, [left.contracted])
        access = Access(left.access.source, left.access.element, strides or (0,), 0)
        start = k.dot(self.batch, left.batch, left.access.offset)
        starts = [k.dot(k.split(k.i_add(row, i), self.whole.rows), left.free, start) for i in range(count)]
        return [lambda at, start=start: k.load_wide(access, [at], start) for start in starts]

    def _finish(self, row: Index, held: Index) -> None:
        """The epilogue of a row of the panel, whose sums are row ``held`` of the buffer."""
        k, s, width = self.k, self.s, self.tile.width
        first = k.i_mul(self.panel, width)
        stop = k.i_min(k.i_sub(s.columns, first), width) if s.columns % width else width
        start = k.i_mul(held, width)

        def column(j: SSAValue) -> None:
            place = k.i_add(start, j)
            sums = [k.read(self.sums, k.i_add(place, f * self.held)) for f in range(len(self.panels))]
            self.whole.store(k, self.batch, row, k.i_add(first, j), sums)

        k.each(0, stop, column)
