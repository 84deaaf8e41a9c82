"""What Vulkan does not take, in what it takes: vectors as scalars, and AMD's matrix instructions through memory.

A kernel then runs anywhere, which shows what each lane reads, multiplies and writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, gpu, math, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    VectorType,
    f32,
)
from xdsl.ir import Operation, SSAValue

from rlx_dialect.lowering.to_gpu.amd_ops import AmdMatrixOp, MfmaOp
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.fragments import Rewriting
from rlx_dialect.lowering.to_gpu.kernel import SHARED_SPACE
from rlx_dialect.xdsl_compat import Rewriter

WAVE, SIZE = 64, 16
"""Lanes of a wave, and rows and columns of a matrix."""


def emulate(module: ModuleOp) -> ModuleOp:
    """A clone whose kernels hold elements of vectors one by one."""
    clone = module.clone()
    for function in [op for op in clone.walk() if isinstance(op, gpu.FuncOp)]:
        Rewriter.replace_op(function, _Emulation(function).finish())
    return clone


@dataclass(frozen=True)
class Instruction:
    """Where a lane's vectors belong, as the manuals have it: in groups of 16 lanes.

    Element (i, k) of the left factor and (k, i) of the right one are in lane i of a group, said by the reader's group
    and k, at a place of its vector. Element ``n`` of a lane's sums is in the row said by its group and n, and in the
    column of the lane's number in the group.
    """

    group: Callable[[Index, int], Index]
    place: Callable[[int], int]
    row: tuple[int, int]
    """What the lane's group and n count for."""


INSTRUCTIONS = {
    True: Instruction(lambda own, k: k // 4, lambda k: k % 4, (4, 1)),
    False: Instruction(lambda own, k: own, lambda k: k, (1, 4)),
}
"""MFMA, whose lanes hold four products' factors; and WMMA, whose lanes hold all, each group the same ones."""


class _Emulation(Rewriting):
    """Vectors are split into their elements."""

    def __init__(self, function: gpu.FuncOp):
        super().__init__(function)
        sizes = function.attributes["known_block_size"].get_values()
        self.threads: int = sizes[0] * sizes[1] * sizes[2]
        self.scratch: dict[int, tuple[SSAValue, SSAValue]] = {}
        """Memory for two factors, by the elements that a lane holds."""

    def take(self, op: Operation) -> bool:
        values, shares = self.values, self.shares
        match op:
            case vector.LoadOp():
                (count,) = op.result.type.get_shape()
                base, start = values[op.base], values[op.indices[0]]
                shares[op.result] = [self.read(base, self.i_add(start, i)) for i in range(count)]
            case vector.StoreOp():
                base, start = values[op.base], values[op.indices[0]]
                for i, value in enumerate(shares[op.vector]):
                    self.write(value, base, self.i_add(start, i))
            case vector.ExtractOp():
                (position,) = op.static_position.get_values()
                values[op.result] = shares[op.vector][position]
            case vector.BroadcastOp():
                assert isinstance(op.vector.type, VectorType)
                shares[op.vector] = [values[op.source]] * op.vector.type.element_count()
            case vector.InsertOp():
                (position,) = op.static_position.get_values()
                shares[op.result] = [*shares[op.dest]]
                shares[op.result][position] = values[op.source]
            case arith.ConstantOp() if isinstance(op.value, DenseIntOrFPElementsAttr):
                element = op.value.get_element_type()
                assert isinstance(element, AnyFloat)
                shares[op.result] = [self.constant(float(n), element) for n in op.value.get_values()]
            case arith.ExtFOp() if isinstance(op.result.type, VectorType):
                shares[op.result] = [self.converted(v, op.result.type.element_type) for v in shares[op.input]]
            case arith.SelectOp() if op.lhs in shares:
                pairs = zip(shares[op.lhs], shares[op.rhs], strict=True)
                shares[op.result] = [self.op(arith.SelectOp(values[op.cond], x, y)) for x, y in pairs]
            case AmdMatrixOp():
                self._multiply(op)
            case scf.ForOp():
                return False
            case _:
                assert not any(isinstance(v.type, VectorType) for v in op.operands), f"{op.name} of vectors"
                return False
        return True

    def read(self, source: SSAValue, at: Index) -> SSAValue:
        return self.op(memref.LoadOp.get(source, [self.index(at)]))

    def write(self, value: SSAValue, target: SSAValue, at: Index) -> None:
        self.b.insert(memref.StoreOp.get(value, target, [self.index(at)]))

    def _shared(self, element: AnyFloat, count: int) -> SSAValue:
        type = MemRefType(element, [self.threads * count], memory_space=IntegerAttr(SHARED_SPACE, 64))
        return self.at_start(memref.AllocOp([], [], type))

    def _multiply(self, op: AmdMatrixOp) -> None:
        """Lanes show each other their vectors, and each makes its own sums."""
        how = INSTRUCTIONS[isinstance(op, MfmaOp)]
        factors = [self.shares[op.sourceA], self.shares[op.sourceB]]
        count, element = len(factors[0]), factors[0][0].type
        assert isinstance(element, AnyFloat)
        if count not in self.scratch:
            self.scratch[count] = (self._shared(element, count), self._shared(element, count))
        scratch = self.scratch[count]
        for memory, share in zip(scratch, factors, strict=True):
            for i, value in enumerate(share):
                self.write(value, memory, self.i_add(self.i_mul(self.thread, count), i))
        self.b.insert(gpu.BarrierOp())
        lane = self.i_rem(self.thread, WAVE)
        group, column = self.i_div(lane, SIZE), self.i_rem(lane, SIZE)
        first = self.i_sub(self.thread, lane)

        def element_at(memory: SSAValue, i: Index, k: int) -> SSAValue:
            holder = self.i_add(self.i_add(first, self.i_mul(how.group(group, k), SIZE)), i)
            return self.converted(self.read(memory, self.i_add(self.i_mul(holder, count), how.place(k))), f32)

        sums = list(self.shares[op.destC])
        for k in range(SIZE):
            y = element_at(scratch[1], column, k)
            for n, total in enumerate(sums):
                row = self.i_add(self.i_mul(group, how.row[0]), n * how.row[1])
                sums[n] = self.op(math.FmaOp(element_at(scratch[0], row, k), y, total))
        self.b.insert(gpu.BarrierOp())
        self.shares[op.destD] = sums
