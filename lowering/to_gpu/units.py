"""The matrix units that kernels are expanded for, and their plain form.

Which lane holds what is from AMD's instruction set manuals and, for Apple's, from kernels that its compiler takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import math, vector
from xdsl.dialects.builtin import VectorType, f32
from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_gpu.amd_ops import AmdMatrixOp, MfmaOp, WmmaOp
from rlx_dialect.lowering.to_gpu.emit import Emitter, Index
from rlx_dialect.lowering.to_gpu.fragments import Layout, Stored, Unit
from rlx_dialect.lowering.to_gpu.hardware import MATRIX
from rlx_dialect.lowering.to_gpu.kernel import vector_alignment


@dataclass(frozen=True)
class VectorUnit(Unit[SSAValue]):
    """One instruction multiplies vectors of the lanes: AMD's. Both factors lie along the contracted axis in memory.

    ``left`` holds rows of the left factor; the right one is held in the same way by columns.
    """

    left: Layout
    operation: type[AmdMatrixOp]

    def factor(self, e: Emitter, lane: Index, stored: Stored, role: str) -> SSAValue:
        free, along = stored.pitches if role == "AOp" else stored.pitches[::-1]
        assert along == 1, "a factor whose elements along the contracted axis lie apart"
        places = self.left.places(e, lane)
        own = Stored(stored.memory, stored.start, (free, 1), stored.element)
        type = VectorType(stored.element, [len(places)])
        load = vector.LoadOp(stored.memory, [e.index(own.at(e, *places[0]))], type)
        load.attributes["alignment"] = vector_alignment(type)
        return e.op(load)

    def multiply(
        self, e: Emitter, lane: Index, left: SSAValue, right: SSAValue, sums: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        (total,) = sums
        return [e.op(self.operation(left, right, total))]


MFMA = VectorUnit(
    lanes=64,
    sums=Layout(((16, 4, 4),), ((1, 16, 1),), ((0, 0), (1, 0), (2, 0), (3, 0))),
    width=4,
    left=Layout(((1, 16, 1),), ((16, 4, 4),), ((0, 0), (0, 1), (0, 2), (0, 3))),
    operation=MfmaOp,
)
"""v_mfma_f32_16x16x16_f16 and _bf16, of CDNA 3."""

WMMA = VectorUnit(
    lanes=64,
    sums=Layout(((16, 4, 1),), ((1, 16, 1),), ((0, 0), (4, 0), (8, 0), (12, 0))),
    width=4,
    left=Layout(((1, 16, 1),), (), tuple((0, i) for i in range(MATRIX))),
    operation=WmmaOp,
)
"""v_wmma_f32_16x16x16_f16 and _bf16 of RDNA 3, in waves of 64: four groups of 16 lanes hold the same factors."""


@dataclass(frozen=True)
class PlainUnit(Unit[Stored]):
    """No unit: each lane makes some rows of a column from the factors where they lie in memory.

    Memory must not change between the load of a factor and its use.
    """

    def factor(self, e: Emitter, lane: Index, stored: Stored, role: str) -> Stored:
        return stored

    def multiply(
        self, e: Emitter, lane: Index, left: Stored, right: Stored, sums: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        places = self.sums.places(e, lane)

        def step(k: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            y = e.converted(right.read(e, k, places[0][1]), f32)
            xs = [e.converted(left.read(e, row, k), f32) for row, _ in places]
            return [e.op(math.FmaOp(x, y, total)) for x, total in zip(xs, sums, strict=True)]

        return e.loop(0, MATRIX, 1, sums, step)


def plain(lanes: int) -> PlainUnit:
    """The plain form for subgroups of ``lanes``: a multiple of 16 that divides 256."""
    rows = MATRIX * MATRIX // lanes
    elements = tuple((i, 0) for i in range(rows))
    return PlainUnit(lanes, Layout(((MATRIX, lanes // MATRIX, rows),), ((1, MATRIX, 1),), elements), 1)
