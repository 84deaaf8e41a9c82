"""The contraction schedule on matrix units: f16 or bf16 factors, f32 sums, ``gpu.subgroup_mma_*``.

Slices lie in shared memory as they do in buffers, each subgroup multiplies 16 x 16 matrices of them, and the sums go
back through shared memory, so that the epilogue and the edges are those of the other forms. What the matrices become
on a chip is said by :mod:`.units`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_gpu.contraction_spec import ContractionSpec, Factor, position_in
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Shape, product
from rlx_dialect.lowering.to_gpu.gpu_ops import (
    MmaMatrixType,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from rlx_dialect.lowering.to_gpu.hardware import MATRIX, MatrixTile
from rlx_dialect.lowering.to_gpu.kernel import BlockSize, Grid, Kernel
from rlx_dialect.lowering.to_gpu.tiles import Slice, Staging, groups_of_tiles, rounds

_SUM = MmaMatrixType.of(MATRIX, MATRIX, f32, "COp")


@dataclass(frozen=True)
class MatrixContraction(ContractionSpec):
    """A contraction of factors of one type in tiles of matrices; ``buffers`` as in :class:`.tiles.TiledContraction`."""

    tile: MatrixTile
    buffers: int

    @property
    def block(self) -> BlockSize:
        return (self.tile.threads, 1, 1)

    @property
    def groups(self) -> Grid:
        return groups_of_tiles(self, self.tile.rows, self.tile.columns)

    def emit(self, k: Kernel) -> None:
        _Writer(k, self).write()


class _Writer:
    """Writes one kernel."""

    def __init__(self, k: Kernel, spec: MatrixContraction):
        self.k, self.spec = k, spec
        tile = spec.tile
        self.batch = spec.batch_coordinates(k)
        self.column_group, self.row_group = spec.group(k, 0), spec.group(k, 1)
        self.thread = k.thread_id()
        subgroup = k.i_div(self.thread, tile.subgroup)
        across = tile.columns // tile.per_column // MATRIX
        self.row = k.i_mul(k.i_div(subgroup, across), tile.per_row * MATRIX)
        """The first row of this subgroup in the tile, and its first column."""
        self.column = k.i_mul(k.i_rem(subgroup, across), tile.per_column * MATRIX)
        staging = Staging(tile.depth, spec.buffers, tile.threads, wide=False)

        def part(factor: Factor, free: Shape, group: Index, width: int, pitches: tuple[int, int]) -> Slice:
            return Slice(k, spec, staging, factor, free, group, width, pitches, self.batch, self.thread)

        self.left = part(spec.lhs, spec.rows, self.row_group, tile.rows, (tile.left_pitch, 1))
        pitches = (tile.right_pitch, 1) if tile.along_depth else (1, tile.right_pitch)
        self.rights = [part(r, spec.columns, self.column_group, tile.columns, pitches) for r in spec.rights]
        self.sums = [k.shared(f32, tile.rows * tile.sum_pitch) for _ in spec.rights]

    def write(self) -> None:
        k, spec, tile = self.k, self.spec, self.spec.tile
        zero = k.op(SubgroupMmaConstantMatrixOp(k.constant(0, f32), _SUM))
        count = tile.per_row * tile.per_column
        sums = rounds(k, spec, [self.left, *self.rights], [zero] * (count * len(self.rights)), self._use)
        for number, (row, column) in enumerate(self._places()):
            for shared, total in zip(self.sums, sums[number::count], strict=True):
                at = k.i_add(k.i_mul(row, tile.sum_pitch), column)
                k.b.insert(SubgroupMmaStoreMatrixOp(total, shared, k.index(at), tile.sum_pitch))
        k.barrier()
        k.loop(self.thread, tile.rows * tile.columns, tile.threads, [], self._store)

    def _places(self) -> list[tuple[Index, Index]]:
        """Where the matrices of this subgroup's sums lie in the tile."""
        k, tile = self.k, self.spec.tile
        return [
            (k.i_add(self.row, i * MATRIX), k.i_add(self.column, j * MATRIX))
            for i in range(tile.per_row)
            for j in range(tile.per_column)
        ]

    def _use(self, turn: Index, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        k, tile = self.k, self.spec.tile

        def load(part: Slice, place: Index, step: int, pitch: int, role: str) -> SSAValue:
            at = k.i_add(part.at(place, step), k.i_mul(turn, part.size))
            type = MmaMatrixType.of(MATRIX, MATRIX, part.type, role)
            transpose = role == "BOp" and tile.along_depth
            return k.op(SubgroupMmaLoadMatrixOp(part.shared, k.index(at), pitch, type, transpose=transpose))

        for step in range(0, tile.depth, MATRIX):
            rows = [
                load(self.left, k.i_add(self.row, i * MATRIX), step, tile.left_pitch, "AOp")
                for i in range(tile.per_row)
            ]
            pairs: list[tuple[SSAValue, SSAValue]] = []
            for right in self.rights:
                columns = [
                    load(right, k.i_add(self.column, j * MATRIX), step, tile.right_pitch, "BOp")
                    for j in range(tile.per_column)
                ]
                pairs += [(row, column) for row in rows for column in columns]
            sums = [k.op(SubgroupMmaComputeOp(*pair, total)) for pair, total in zip(pairs, sums, strict=True)]
        return sums

    def _store(self, flat: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        k, spec, tile = self.k, self.spec, self.spec.tile
        place_row, place_column = k.i_div(flat, tile.columns), k.i_rem(flat, tile.columns)
        row, row_exists = position_in(k, self.row_group, tile.rows, place_row, product(spec.rows))
        column, column_exists = position_in(k, self.column_group, tile.columns, place_column, product(spec.columns))

        def store() -> None:
            at = k.i_add(k.i_mul(place_row, tile.sum_pitch), place_column)
            spec.store(k, self.batch, row, column, [k.read(shared, at) for shared in self.sums])

        k.when(k.both(row_exists, column_exists), store)
        return carried
