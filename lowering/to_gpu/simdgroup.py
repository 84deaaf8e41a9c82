"""Apple's matrix unit: an 8 x 8 matrix is a pair of numbers a lane, and a function multiplies two.

SPIR-V has no such unit, so the function's body there says with shuffles what it means; Metal's text gets another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, math, vector
from xdsl.dialects.builtin import AnyFloat, FunctionType, VectorType, f16, f32, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from rlx_dialect.lowering.to_gpu.emit import Emitter, Index
from rlx_dialect.lowering.to_gpu.fragments import Layout, Stored, Unit
from rlx_dialect.lowering.to_gpu.gpu_ops import ShuffleOp

LANES, SIZE = 32, 8
"""Invocations of a simdgroup, rows and columns of its matrices."""

ELEMENTS: dict[str, AnyFloat] = {"rlx_multiply_8x8": f16, "rlx_multiply_8x8_f32": f32}
"""Functions (left, left, right, right, sums, lane) -> sums, of a pair of each matrix, and their factors' type."""

_NAMES: dict[Attribute, str] = {element: name for name, element in ELEMENTS.items()}
_PAIR = VectorType(f32, [2])
_ROW_BITS, _COLUMN_BITS = 0b10110, 0b01001
"""Of a lane's number, those that say its row, and those that say the first of its two columns."""

_LAYOUT = Layout(
    rows=((2, 4, 1), (16, 2, 4)),
    columns=((1, 2, 2), (8, 2, 4)),
    elements=tuple((row, column + i) for row in (0, SIZE) for column in (0, SIZE) for i in (0, 1)),
)
"""A matrix of 16 x 16 as four of 8 x 8."""


@dataclass(frozen=True)
class SimdgroupUnit(Unit[list[SSAValue]]):
    """A factor is the pairs of its four matrices, one after the other."""

    def factor(self, e: Emitter, lane: Index, stored: Stored, role: str) -> list[SSAValue]:
        return [stored.read(e, row, column) for row, column in self.sums.places(e, lane)]

    def multiply(
        self, e: Emitter, lane: Index, left: list[SSAValue], right: list[SSAValue], sums: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        number = e.op(arith.IndexCastOp(e.index(lane), i32))

        def pair(factor: list[SSAValue], row: int, column: int) -> list[SSAValue]:
            first = 2 * (2 * row + column)
            return factor[first : first + 2]

        made = list(sums)
        for row in (0, 1):
            for column in (0, 1):
                for step in (0, 1):
                    total = made[2 * row + column]
                    operands = [*pair(left, row, step), *pair(right, step, column), total, number]
                    made[2 * row + column] = e.op(func.CallOp(_NAMES[left[0].type], operands, [_PAIR]))
        return made

    def function(self, name: str) -> Operation:
        return _multiply(name)


SIMDGROUP = SimdgroupUnit(LANES, _LAYOUT, 2)


def _multiply(name: str) -> func.FuncOp:
    """The meaning of the unit's multiplication."""
    block = Block(arg_types=[ELEMENTS[name]] * 4 + [_PAIR, i32])
    e, lane = Emitter(block), block.args[5]
    left, right = ([e.converted(v, f32) for v in block.args[i : i + 2]] for i in (0, 2))
    own = {bits: e.op(arith.AndIOp(lane, e.constant(bits, i32))) for bits in (_ROW_BITS, _COLUMN_BITS)}

    def of(value: SSAValue, kept: int, others: int) -> SSAValue:
        """The value of the lane that has this one's bits ``kept`` and those others."""
        holder = e.op(arith.OrIOp(own[kept], e.constant(others, i32)))
        return e.b.insert(ShuffleOp(value, holder, e.constant(LANES, i32), "idx")).result

    sums = [e.op(vector.ExtractOp(block.args[4], [i], f32)) for i in (0, 1)]
    for step in range(SIZE):
        x = of(left[step % 2], _ROW_BITS, (step // 2 % 2) | (step // 4) << 3)
        ys = [of(y, _COLUMN_BITS, (step % 4) << 1 | (step // 4) << 4) for y in right]
        sums = [e.op(math.FmaOp(x, y, total)) for y, total in zip(ys, sums, strict=True)]
    result = e.op(vector.BroadcastOp(sums[0], _PAIR))
    result = e.op(vector.InsertOp(sums[1], result, [1]))
    e.b.insert(func.ReturnOp(result))
    type = FunctionType.from_lists(list(block.arg_types), [_PAIR])
    return func.FuncOp(name, type, Region(block))
