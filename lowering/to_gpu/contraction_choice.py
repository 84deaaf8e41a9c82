"""Which form of the contraction schedule a problem takes, and with which numbers: all rules of choice are here."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute

from rlx_dialect.dtypes import storage_dtype
from rlx_dialect.lowering.to_gpu.hardware import MATRIX, Hardware, MatrixTile, Tile
from rlx_dialect.lowering.to_gpu.matvec import Thin


@dataclass(frozen=True)
class Problem:
    """The extents that a form is chosen by."""

    batch: int
    rows: int
    columns: int
    depth: int


def groups_of(tile: Tile | MatrixTile, p: Problem) -> int:
    """Workgroups of a tiled contraction."""
    return p.batch * -(-p.rows // tile.rows) * -(-p.columns // tile.columns)


_TRAFFIC = 16
"""What reading an element from memory costs, in products."""


def cost(tile: Tile | MatrixTile, p: Problem, hardware: Hardware) -> int:
    """A measure of the time for a step of the contracted axes: what a workgroup does, times how often they take turns.

    A large tile reads less for each product; small ones keep more of the device busy, and waste less at the edges.
    """
    turns = -(-groups_of(tile, p) // hardware.units)
    return turns * (tile.rows * tile.columns + _TRAFFIC * (tile.rows + tile.columns))


def choose_tile(hardware: Hardware, p: Problem, rights: int, size: int) -> Tile:
    """The cheapest tile whose slices, with ``rights`` right factors, fit shared memory; elements take ``size``."""

    def bytes_of(tile: Tile) -> int:
        return (tile.rows + rights * tile.columns) * tile.depth * hardware.slices * size

    fitting = [tile for tile in hardware.tiles if bytes_of(tile) <= hardware.shared_bytes]
    return min(fitting, key=lambda tile: cost(tile, p, hardware))


def choose_matrix_tile(hardware: Hardware, p: Problem, rights: int, element: Attribute) -> MatrixTile | None:
    """The cheapest tile of the matrix unit; None where the hardware has none for factors of ``element``.

    Sums shorter than a matrix are no work for it.
    """
    if not isinstance(element, hardware.matrix_elements) or p.depth < MATRIX:
        return None
    size = storage_dtype(element).itemsize
    fitting = [t for t in hardware.matrix if t.shared(rights, hardware.slices, size) <= hardware.shared_bytes]
    return min(fitting, key=lambda tile: cost(tile, p, hardware), default=None)


THIN_ROWS = 4
"""Up to this many rows the thin form is faster than tiles."""


def choose_thin(hardware: Hardware, p: Problem, along_depth: bool) -> Thin:
    """One lane a column where columns alone keep the device busy or sums are short, else up to a workgroup."""
    lanes, wanted = 1, hardware.units * hardware.workgroup
    rows = 1 << (min(p.rows, THIN_ROWS) - 1).bit_length()
    while lanes < hardware.workgroup and lanes * 32 <= p.depth:
        busy = p.batch * -(-p.rows // rows) * p.columns * lanes >= wanted
        if busy and (lanes >= 32 or not along_depth):
            break
        lanes *= 2
    columns = hardware.workgroup // lanes
    while columns > 1 and columns // 2 >= p.columns:
        columns //= 2
    return Thin(rows, columns, lanes, along_depth)


def choose_parts(hardware: Hardware, tile: Tile | MatrixTile, p: Problem) -> int:
    """Into how many parts to split the contracted axes, so that the device has work for its units: a power of two."""
    parts = 1
    while parts < 16 and parts * 2 * groups_of(tile, p) <= hardware.units and parts * 8 * tile.depth <= p.depth:
        parts *= 2
    return parts
