"""The attention schedule: a block of queries against all keys, in a buffer of block x keys on the core's stack.

Keys and values are packed into panels, as the right factors of two products; between them each row of scores is made
a row of powers in place. Keys that no query of a causal block sees are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math, memref, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.to_cpu.cpus import Cpu
from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, CpuSpec, Schedule, reordered
from rlx_dialect.lowering.to_cpu.known import known, product
from rlx_dialect.lowering.to_cpu.registers import Number, RegisterTile, add_products, choose_register_tile, tiles
from rlx_dialect.lowering.to_gpu.attention import AttentionSpec, Part
from rlx_dialect.lowering.to_gpu.contraction_spec import Factor
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent
from rlx_dialect.lowering.to_gpu.kernel import Access

MOST_ROWS = 64
SCORES = 1 << 16
"""Scores that a block holds, unless one row has more."""


@dataclass(frozen=True)
class PackedAttention(CpuSpec):
    """``whole`` with panels of keys and of values in the last two slots."""

    whole: AttentionSpec
    to_keys: RegisterTile
    to_values: RegisterTile


def choose_tiles(cpu: Cpu, spec: AttentionSpec) -> tuple[RegisterTile, RegisterTile]:
    """Tiles of equally many rows for the products with keys and with values."""
    lanes = cpu.lanes(wide_element(spec.q.access.element))
    by_values = choose_register_tile(cpu, lanes, product(spec.rows), spec.value_dim)
    vectors = min((cpu.registers - 1) // (by_values.rows + 1), -(-known(spec.keys) // lanes), 8)
    return RegisterTile(by_values.rows, vectors, lanes), by_values


def keys_factor(spec: AttentionSpec) -> Factor:
    return Factor(spec.k.access, spec.k.batch, spec.k.row, (spec.k.column,))


def values_factor(spec: AttentionSpec) -> Factor:
    return Factor(spec.v.access, spec.v.batch, (spec.v.column,), spec.v.row)


class Attention(Schedule[PackedAttention]):
    """A group is a block of rows of one batch."""

    def __init__(self, spec: PackedAttention, cpu: Cpu):
        super().__init__(spec, cpu)
        self.whole = spec.whole
        self.rows = product(self.whole.rows)
        self.pitch = -(-known(self.whole.keys) // spec.to_keys.width) * spec.to_keys.width
        height = spec.to_keys.rows
        self.block_rows = max(min(MOST_ROWS, SCORES // self.pitch) // height, 1) * height

    @property
    def blocks(self) -> int:
        return -(-self.rows // self.block_rows)

    @property
    def groups(self) -> int:
        return product(self.whole.batch) * self.blocks

    @property
    def work(self) -> int:
        width = self.whole.dim + self.whole.value_dim
        return min(self.rows, self.block_rows) * known(self.whole.keys) * (width // self.spec.to_keys.lanes + 4)

    def emit(self, k: CpuKernel) -> None:
        k.groups(lambda number: _Block(k, self, number).write())


class _Block:
    """Writes the work of one group."""

    def __init__(self, k: CpuKernel, schedule: Attention, number: Index):
        self.k, self.s, self.spec = k, schedule, schedule.whole
        self.type = wide_element(self.spec.q.access.element)
        self.flat_batch, block = k.split(number, (product(self.spec.batch), schedule.blocks))
        self.batch = k.split(self.flat_batch, self.spec.batch)
        self.first = k.i_mul(block, schedule.block_rows)
        self.last = k.i_min(k.i_add(self.first, schedule.block_rows), schedule.rows)
        self.keys, self.values = (k.buffer(len(schedule.spec.slots) - i) for i in (2, 1))
        self.scores = self._buffer(schedule.block_rows * schedule.pitch)
        self.totals = self._buffer(schedule.block_rows)
        self.tile_sums = self._buffer(schedule.spec.to_values.rows * schedule.spec.to_values.width)

    def _buffer(self, size: int) -> SSAValue:
        return self.k.at_start(memref.AllocaOp.get(self.type, 64, shape=[size]))

    def write(self) -> None:
        k, stop = self.k, self._visible()
        self._products_with_keys(stop)
        k.each(self.first, self.last, lambda row: self._powers(row, stop))
        self._products_with_values(stop)

    def _visible(self) -> Index:
        """The end of the keys that any row of the block sees."""
        k, spec = self.k, self.spec
        if not spec.scores.by_position or not spec.each_sees_a_key:
            return spec.keys
        queries = spec.rows[-1]
        last = k.i_sub(self.last, 1)
        seen = k.i_add(k.i_rem(last, queries), spec.keys - queries + 1)
        if len(spec.rows) == 1:
            return seen
        # A block may hold the end of one head and the start of the next.
        first_head, last_head = (k.index(k.i_div(row, queries)) for row in (self.first, last))
        one_head = k.op(arith.CmpiOp(first_head, last_head, "eq"))
        return k.op(arith.SelectOp(one_head, k.index(seen), k.index(spec.keys)))

    def _held(self, row: Index) -> Index:
        """Where the row's scores start."""
        return self.k.i_mul(self.k.i_sub(row, self.first), self.s.pitch)

    def _panel(self, number: Index, panels: int, length: Extent, tile: RegisterTile) -> Index:
        k = self.k
        return k.i_mul(k.i_add(k.i_mul(self.flat_batch, panels), number), known(length) * tile.width)

    def _zeros(self, tile: RegisterTile, count: int) -> list[SSAValue]:
        zero = self.k.op(vector.BroadcastOp(self.k.constant(0, self.type), VectorType(self.type, [tile.lanes])))
        return [zero] * (count * tile.vectors)

    def _products_with_keys(self, stop: Index) -> None:
        k, s, tile = self.k, self.s, self.s.spec.to_keys
        panels = s.pitch // tile.width

        def panel(number: SSAValue) -> None:
            place = self._panel(number, panels, self.spec.dim, tile)

            def of_tile(row: Index, count: int) -> None:
                lefts = [self._query(k.i_add(row, i)) for i in range(count)]
                zeros = self._zeros(tile, count)
                sums = add_products(k, tile, [(self.keys, place)], lefts, 0, self.spec.dim, zeros)
                start = k.i_add(self._held(row), k.i_mul(number, tile.width))
                for i, value in enumerate(sums):
                    at = i // tile.vectors * s.pitch + i % tile.vectors * tile.lanes
                    k.b.insert(vector.StoreOp(value, self.scores, [k.index(k.i_add(start, at))]))

            tiles(k, tile, s.rows, self.first, self.last, of_tile)

        k.each(0, k.i_div(k.i_add(stop, tile.width - 1), tile.width), panel)

    def _start(self, part: Part, row: Index) -> Index:
        """The address of a row of an operand."""
        k = self.k
        start = k.dot(self.batch, part.batch, part.access.offset)
        return k.dot(k.split(row, self.spec.rows), part.row, start)

    def _query(self, row: Index) -> Number:
        part = self.spec.q
        start, access = self._start(part, row), Access(part.access.source, part.access.element, (part.column,), 0)
        return lambda at: self.k.load_wide(access, [at], start)

    def _powers(self, row: Index, stop: Index) -> None:
        """The row's products as scores, and those as powers; and the sum of these."""
        k, spec = self.k, self.spec
        held, coordinates = self._held(row), k.split(row, spec.rows)

        def score(key: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            place = k.i_add(held, key)
            value = spec.score(k, self.batch, coordinates, key, k.read(self.scores, place))
            k.write(value, self.scores, place)
            return [k.real(carried[0]).max(k.real(value)).value]

        (greatest,) = k.loop(0, stop, 1, [k.constant(float("-inf"), self.type)], score)

        def power(key: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            place = k.i_add(held, key)
            value = (k.real(k.read(self.scores, place)) - k.real(greatest)).apply(math.ExpOp)
            k.write(value.value, self.scores, place)
            return [reordered((k.real(carried[0]) + value).value)]

        (total,) = k.loop(0, stop, 1, [k.constant(0, self.type)], power)
        k.write(total, self.totals, k.i_sub(row, self.first))

    def _products_with_values(self, stop: Index) -> None:
        k, s, tile, spec = self.k, self.s, self.s.spec.to_values, self.spec
        panels = -(-spec.value_dim // tile.width)
        part = spec.result
        access = Access(part.access.source, part.access.element, (part.column,), 0)

        def panel(number: SSAValue) -> None:
            place = self._panel(number, panels, spec.keys, tile)
            column = k.i_mul(number, tile.width)
            width = k.i_min(k.i_sub(spec.value_dim, column), tile.width) if spec.value_dim % tile.width else tile.width

            def of_tile(row: Index, count: int) -> None:
                lefts = [self._power(k.i_add(row, i)) for i in range(count)]
                zeros = self._zeros(tile, count)
                sums = add_products(k, tile, [(self.values, place)], lefts, 0, stop, zeros)
                for i, value in enumerate(sums):
                    k.b.insert(vector.StoreOp(value, self.tile_sums, [k.index(i * tile.lanes)]))
                for i in range(count):
                    finish(k.i_add(row, i), i)

            def finish(row: Index, i: int) -> None:
                start = self._start(part, row)
                total = k.real(k.read(self.totals, k.i_sub(row, self.first)))

                def element(j: SSAValue) -> None:
                    value = k.real(k.read(self.tile_sums, k.i_add(j, i * tile.width))) / total
                    k.store(value.value, access, [k.i_add(column, j)], start)

                k.each(0, width, element)

            tiles(k, tile, s.rows, self.first, self.last, of_tile)

        k.each(0, panels, panel)

    def _power(self, row: Index) -> Number:
        held = self._held(row)
        return lambda at: self.k.read(self.scores, self.k.i_add(held, at))
