"""A tile of sums in registers: a block of rows times one panel of columns, one contracted place after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import AnyFloat, VectorType
from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_cpu.cpus import Cpu
from rlx_dialect.lowering.to_cpu.kernel import CpuKernel
from rlx_dialect.lowering.to_gpu.emit import Index

Number = Callable[[SSAValue], SSAValue]
"""An element of a row of the left factor by its place along the contracted axes."""

_MOST_ROWS = 8
_MOST_VECTORS = 8


@dataclass(frozen=True)
class RegisterTile:
    """``rows`` x ``vectors`` x ``lanes`` sums of each right factor."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        return self.vectors * self.lanes


def choose_register_tile(cpu: Cpu, lanes: int, rows: int, columns: int, factors: int = 1) -> RegisterTile:
    """The tile that takes the fewest cycles, padding and loads counted; the larger of two that take equally many."""

    def tile(vectors: int) -> RegisterTile:
        # One register holds a number of the left factor.
        most = (cpu.registers - 1) // (vectors * factors) - 1
        return RegisterTile(min(most, _MOST_ROWS, rows), vectors, lanes)

    def cost(t: RegisterTile) -> tuple[float, int]:
        blocks = -(-rows // t.rows)
        loads = blocks * (t.vectors * factors + t.rows) / 4
        # Sums of one vector wait for each other: with few of them, that is what takes the time.
        sums = max(rows * t.vectors * factors, blocks * 8)
        return -(-columns // t.width) * (sums + loads), -t.rows * t.vectors

    # A row at least, and its share of the panel.
    most = min(_MOST_VECTORS, -(-columns // lanes), (cpu.registers - 1) // (2 * factors))
    return min((tile(v) for v in range(1, most + 1)), key=cost)


def tiles(
    k: CpuKernel, tile: RegisterTile, rows: int, first: Index, last: Index, body: Callable[[Index, int], None]
) -> None:
    """``body(row, count)`` for range(first, last) of ``rows`` rows: whole tiles, and what is left of them.

    ``first`` is a multiple of the tile's height, and so is ``last`` unless it is ``rows``.
    """
    rest = rows % tile.rows
    whole = k.i_mul(k.i_div(last, tile.rows), tile.rows) if rest else last
    k.each(first, whole, lambda row: body(row, tile.rows), tile.rows)
    if rest:
        k.when(k.i_less(whole, last), lambda: body(whole, rest))


def add_products(
    k: CpuKernel,
    tile: RegisterTile,
    panels: Sequence[tuple[SSAValue, Index]],
    lefts: Sequence[Number],
    start: Index,
    stop: Index,
    sums: Sequence[SSAValue],
) -> Sequence[SSAValue]:
    """``sums`` (by right factor, by row, by vector) with the products of the places in range(start, stop).

    ``panels`` are the memory of each right factor, and where its panel starts there.
    """
    if not sums:
        return sums
    type = sums[0].type
    assert isinstance(type, VectorType)

    def step(at: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        places = [k.i_add(panel, k.i_mul(at, tile.width)) for _, panel in panels]
        rights = [
            [k.op(vector.LoadOp(memory, [k.index(k.i_add(place, v * tile.lanes))], type)) for v in range(tile.vectors)]
            for (memory, _), place in zip(panels, places, strict=True)
        ]
        numbers = [k.op(vector.BroadcastOp(left(at), type)) for left in lefts]
        pairs = [(number, right) for own in rights for number in numbers for right in own]
        return [_multiply_add(k, x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

    return k.loop(start, stop, 1, sums, step)


def _multiply_add(k: CpuKernel, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
    assert isinstance(x.type, VectorType)
    if isinstance(x.type.element_type, AnyFloat):
        return k.op(vector.FMAOp(x, y, total))
    return k.op(arith.AddiOp(k.op(arith.MuliOp(x, y)), total))
