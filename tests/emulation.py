"""What Vulkan does not take, in what it takes: vectors as scalars, and matrix instructions through memory.

A kernel then runs anywhere, which shows what each lane reads, multiplies and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, gpu, math, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    VectorType,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.lowering.to_gpu.amd_ops import AmdMatrixOp, MfmaOp
from rlx_dialect.lowering.to_gpu.emit import Emitter, Index
from rlx_dialect.lowering.to_gpu.fragments import Rewriting
from rlx_dialect.lowering.to_gpu.kernel import SHARED_SPACE
from rlx_dialect.lowering.to_gpu.simdgroup import ELEMENTS
from rlx_dialect.xdsl_compat import Rewriter


def emulate(module: ModuleOp) -> ModuleOp:
    """A clone whose kernels hold elements of vectors one by one."""
    clone = module.clone()
    for function in [op for op in clone.walk() if isinstance(op, gpu.FuncOp)]:
        Rewriter.replace_op(function, _Emulation(function).finish())
    return clone


Place = tuple[Index, int]
"""A lane of the subgroup, and the number of an element that it holds."""


@dataclass(frozen=True)
class Instruction:
    """Where the elements that lanes hold belong, as the manuals have it; for subgroups of ``lanes``."""

    lanes: int
    size: int
    left: Callable[[Emitter, Index, Index, int], Place]
    """What a lane, its number given, reads for a row and a column of the left factor."""
    right: Callable[[Emitter, Index, int, Index, int], Place]
    """The same for a row and a column of the right factor: that of the lane's sum of the given number."""
    sums: Callable[[Emitter, Index], list[tuple[Index, Index]]]
    """Rows and columns of the sums of a lane."""


def _in_group(e: Emitter, group: Index, number: Index) -> Index:
    return e.i_add(e.i_mul(group, 16), number)


def _pair(e: Emitter, row: Index, column: Index) -> Index:
    """The lane of a simdgroup that holds an element and its neighbour."""
    low = e.i_add(e.i_mul(e.i_rem(row, 4), 2), e.i_rem(e.i_div(column, 2), 2))
    return e.i_add(low, e.i_add(e.i_mul(e.i_div(row, 4), 16), e.i_mul(e.i_div(column, 4), 8)))


def _first_of_pair(e: Emitter, lane: Index) -> tuple[Index, Index]:
    quad = e.i_div(lane, 4)
    row = e.i_add(e.i_mul(e.i_div(quad, 4), 4), e.i_rem(e.i_div(lane, 2), 4))
    return row, e.i_add(e.i_mul(e.i_rem(e.i_div(quad, 2), 2), 4), e.i_mul(e.i_rem(lane, 2), 2))


MFMA = Instruction(
    64,
    16,
    lambda e, lane, row, k: (_in_group(e, k // 4, row), k % 4),
    lambda e, lane, k, column, n: (_in_group(e, k // 4, column), k % 4),
    lambda e, lane: [(e.i_add(e.i_mul(e.i_div(lane, 16), 4), n), e.i_rem(lane, 16)) for n in range(4)],
)
"""Four groups of 16 lanes share the contracted axis."""

WMMA = Instruction(
    64,
    16,
    lambda e, lane, row, k: (_in_group(e, e.i_div(lane, 16), row), k),
    lambda e, lane, k, column, n: (_in_group(e, e.i_div(lane, 16), column), k),
    lambda e, lane: [(e.i_add(e.i_div(lane, 16), 4 * n), e.i_rem(lane, 16)) for n in range(4)],
)
"""Each group of 16 lanes has its own copy of the factors."""

SIMDGROUP = Instruction(
    32,
    8,
    lambda e, lane, row, k: (_pair(e, row, k), k % 2),
    lambda e, lane, k, column, n: (_pair(e, k, column), n),
    lambda e, lane: [(row, e.i_add(column, n)) for row, column in [_first_of_pair(e, lane)] for n in (0, 1)],
)


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
                count = len(shares[op.lhs])
                conditions = shares[op.cond] if op.cond in shares else [values[op.cond]] * count
                chosen = zip(conditions, shares[op.lhs], shares[op.rhs], strict=True)
                shares[op.result] = [self.op(arith.SelectOp(*three)) for three in chosen]
            case AmdMatrixOp():
                how = MFMA if isinstance(op, MfmaOp) else WMMA
                shares[op.destD] = self._multiply(how, *(shares[v] for v in op.operands))
            case func.CallOp() if op.callee.string_value() in ELEMENTS:
                *factors, total, _ = op.arguments
                a0, a1, b0, b1 = (values[v] for v in factors)
                shares[op.results[0]] = self._multiply(SIMDGROUP, [a0, a1], [b0, b1], shares[total])
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

    def _shared(self, element: Attribute, count: int) -> SSAValue:
        type = MemRefType(element, [self.threads * count], memory_space=IntegerAttr(SHARED_SPACE, 64))
        return self.at_start(memref.AllocOp([], [], type))

    def _multiply(
        self, how: Instruction, left: Sequence[SSAValue], right: Sequence[SSAValue], sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Lanes show each other their factors, and each makes its own sums."""
        count, element = len(left), left[0].type
        if count not in self.scratch:
            self.scratch[count] = (self._shared(element, count), self._shared(element, count))
        scratch = self.scratch[count]
        for memory, share in zip(scratch, (left, right), strict=True):
            for i, value in enumerate(share):
                self.write(value, memory, self.i_add(self.i_mul(self.thread, count), i))
        self.b.insert(gpu.BarrierOp())
        lane = self.i_rem(self.thread, how.lanes)
        first = self.i_sub(self.thread, lane)

        def shown(memory: SSAValue, place: Place) -> SSAValue:
            at = self.i_add(self.i_mul(self.i_add(first, place[0]), count), place[1])
            return self.converted(self.read(memory, at), f32)

        made = list(sums)
        for n, (row, column) in enumerate(how.sums(self, lane)):
            for k in range(how.size):
                x = shown(scratch[0], how.left(self, lane, row, k))
                y = shown(scratch[1], how.right(self, lane, k, column, n))
                made[n] = self.op(math.FmaOp(x, y, made[n]))
        self.b.insert(gpu.BarrierOp())
        return made
