"""Matrices of a subgroup as what each invocation holds of them: ``gpu.subgroup_mma`` in a target's own operations.

A :class:`Unit` says which elements an invocation holds and how two matrices are multiplied. NVIDIA's compiler takes the
operations as they are; elsewhere :func:`expanded` rewrites kernels for a unit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import IndexType, ModuleOp, VectorType, f32, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from rlx_dialect.lowering.to_gpu.emit import Emitter, Index
from rlx_dialect.lowering.to_gpu.gpu_ops import (
    MmaMatrixType,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from rlx_dialect.xdsl_compat import Rewriter

Digit = tuple[int, int, int]
"""A part (divisor, modulus, weight) of a number made of a lane's: lane / divisor % modulus · weight."""


def of_lane(e: Emitter, lane: Index, digits: Iterable[Digit]) -> Index:
    """The sum of the digits."""
    total: Index = 0
    for divisor, modulus, weight in digits:
        total = e.i_add(total, e.i_mul(e.i_rem(e.i_div(lane, divisor), modulus), weight))
    return total


@dataclass(frozen=True)
class Layout:
    """Which elements of a matrix a lane holds: from a first one, given by digits, those at ``elements``."""

    rows: tuple[Digit, ...]
    columns: tuple[Digit, ...]
    elements: tuple[tuple[int, int], ...]
    """Rows and columns beyond the first."""

    def places(self, e: Emitter, lane: Index) -> list[tuple[Index, Index]]:
        """Row and column of each element that ``lane`` holds."""
        row, column = of_lane(e, lane, self.rows), of_lane(e, lane, self.columns)
        return [(e.i_add(row, i), e.i_add(column, j)) for i, j in self.elements]


@dataclass(frozen=True)
class Stored:
    """A matrix in memory: that of row r, column c lies at ``start`` + r·pitches[0] + c·pitches[1]."""

    memory: SSAValue
    start: SSAValue
    pitches: tuple[int, int]
    element: Attribute

    def at(self, e: Emitter, row: Index, column: Index) -> Index:
        return e.i_add(self.start, e.i_add(e.i_mul(row, self.pitches[0]), e.i_mul(column, self.pitches[1])))

    def read(self, e: Emitter, row: Index, column: Index) -> SSAValue:
        return e.op(memref.LoadOp.get(self.memory, [e.index(self.at(e, row, column))]))


F = TypeVar("F")
"""What stands for a factor between its load and its use."""


@dataclass(frozen=True)
class Unit(ABC, Generic[F]):
    """How subgroups of ``lanes`` invocations multiply matrices of 16 x 16.

    ``sums`` says who holds which sums, in vectors of ``width`` (1: scalars).
    """

    lanes: int
    sums: Layout
    width: int

    @property
    def sum_types(self) -> list[Attribute]:
        """The types of an invocation's share of a matrix of sums."""
        own = f32 if self.width == 1 else VectorType(f32, [self.width])
        return [own] * (len(self.sums.elements) // self.width)

    @abstractmethod
    def factor(self, e: Emitter, lane: Index, stored: Stored, role: str) -> F:
        """Read a factor; ``role`` is "AOp" for the left one, "BOp" for the right one."""

    @abstractmethod
    def multiply(self, e: Emitter, lane: Index, left: F, right: F, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """left · right + sums."""

    def function(self, name: str) -> Operation:
        """What expanded kernels call by that name, to stand in their gpu.module."""
        raise AssertionError(f"{name} is no function of the unit")


def has_matrices(function: gpu.FuncOp) -> bool:
    """Whether a kernel uses matrix units."""
    return any(isinstance(result.type, MmaMatrixType) for op in function.walk() for result in op.results)


def expanded(module: ModuleOp, unit: Unit[Any]) -> ModuleOp:
    """A lowered module whose kernels run on ``unit``; itself where none uses matrices.

    Workgroups of kernels with matrices have one axis and are made of whole subgroups.
    """
    if not any(isinstance(op, gpu.FuncOp) and has_matrices(op) for op in module.walk()):
        return module
    clone = module.clone()
    for function in [op for op in clone.walk() if isinstance(op, gpu.FuncOp) and has_matrices(op)]:
        Rewriter.replace_op(function, _Expansion(function, unit).finish())
    return clone


class Rewriting(Emitter):
    """Writes a kernel again, where several values may stand for one."""

    def __init__(self, function: gpu.FuncOp):
        self._function = function
        old = function.body.block
        self._entry = Block(arg_types=old.arg_types)
        super().__init__(self._entry)
        self.thread = self.at_start(gpu.ThreadIdOp(gpu.DimensionAttr(gpu.DimensionEnum.X)))
        self.values: dict[SSAValue, SSAValue] = dict(zip(old.args, self._entry.args, strict=True))
        """What is used for the old values."""
        self.shares: dict[SSAValue, Sequence[SSAValue]] = {}
        """The values that stand for one."""

    def finish(self) -> gpu.FuncOp:
        """The new kernel."""
        self.rewrite(self._function.body.block.ops)
        made = gpu.FuncOp(self._function.sym_name.data, (list(self._entry.arg_types), []), Region(self._entry))
        made.attributes |= self._function.attributes
        return made

    def take(self, op: Operation) -> bool:
        """Write what stands for an operation; False where it may stay as it is."""
        raise AssertionError("to be overridden")

    def rewrite(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            if self.take(op):
                continue
            if isinstance(op, scf.ForOp):
                self._loop(op)
            else:
                self._other(op)

    def _all(self, value: SSAValue) -> Sequence[SSAValue]:
        return self.shares[value] if value in self.shares else [self.values[value]]

    def _bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue], like: Sequence[SSAValue]) -> None:
        """Let ``new`` stand for ``old``, which are split as ``like`` are."""
        place = 0
        for value, other in zip(old, like, strict=True):
            if other in self.shares:
                count = len(self.shares[other])
                self.shares[value] = new[place : place + count]
                place += count
            else:
                self.values[value] = new[place]
                place += 1

    def _loop(self, op: scf.ForOp) -> None:
        first = [v for start in op.iter_args for v in self._all(start)]
        block = Block(arg_types=[IndexType(), *(v.type for v in first)])
        self.values[op.body.block.args[0]] = block.args[0]
        self._bind(op.body.block.args[1:], block.args[1:], op.iter_args)
        *steps, end = op.body.block.ops

        def write() -> None:
            self.rewrite(steps)
            self.b.insert(scf.YieldOp(*(v for last in end.operands for v in self._all(last))))

        self._within(block, write)
        start, stop, step = (self.values[v] for v in (op.lb, op.ub, op.step))
        self._bind(op.results, self.b.insert(scf.ForOp(start, stop, step, first, block)).results, op.iter_args)

    def _other(self, op: Operation) -> None:
        """An operation that is split inside its regions at most."""
        made = op.clone_without_regions(self.values)
        for old, new in zip(op.regions, made.regions, strict=True):
            for block in old.blocks:
                copy = Block(arg_types=block.arg_types)
                new.add_block(copy)
                self.values.update(zip(block.args, copy.args, strict=True))
                self._within(copy, lambda ops=block.ops: self.rewrite(ops))
        self.b.insert(made)


class _Expansion(Rewriting):
    """Matrices of sums are split into this invocation's share of them."""

    def __init__(self, function: gpu.FuncOp, unit: Unit[Any]):
        super().__init__(function)
        self.unit = unit
        self.lane = self.i_rem(self.thread, unit.lanes)
        self.factors: dict[SSAValue, Any] = {}

    def take(self, op: Operation) -> bool:
        values, shares, unit = self.values, self.shares, self.unit
        match op:
            case SubgroupMmaConstantMatrixOp():
                shares[op.result] = [self._filled(values[op.value], type) for type in unit.sum_types]
            case SubgroupMmaLoadMatrixOp():
                pitch = op.leadDimension.value.data
                pitches = (pitch, 1) if op.transpose is None else (1, pitch)
                type = op.result.type
                stored = Stored(values[op.source], values[op.indices[0]], pitches, type.element)
                self.factors[op.result] = unit.factor(self, self.lane, stored, type.role.data)
            case SubgroupMmaComputeOp():
                left, right = self.factors[op.a], self.factors[op.b]
                shares[op.result] = unit.multiply(self, self.lane, left, right, shares[op.c])
            case SubgroupMmaStoreMatrixOp():
                pitches = (op.leadDimension.value.data, 1)
                self._store(shares[op.source], Stored(values[op.target], values[op.indices[0]], pitches, f32))
            case arith.SelectOp() if op.lhs in shares:
                # Between the sums before and after a round that may not take place.
                condition = values[op.cond]
                if unit.width > 1:
                    # SPIR-V wants one for each element.
                    condition = self.op(vector.BroadcastOp(condition, VectorType(i1, [unit.width])))
                pairs = zip(shares[op.lhs], shares[op.rhs], strict=True)
                shares[op.result] = [self.op(arith.SelectOp(condition, a, b)) for a, b in pairs]
            case _:
                return False
        return True

    def _filled(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self.op(vector.BroadcastOp(value, type)) if isinstance(type, VectorType) else value

    def _store(self, share: Sequence[SSAValue], target: Stored) -> None:
        width = self.unit.width
        for i, (row, column) in enumerate(self.unit.sums.places(self, self.lane)):
            value = share[i // width]
            if width > 1:
                value = self.op(vector.ExtractOp(value, [i % width], f32))
            self.b.insert(memref.StoreOp.get(value, target.memory, [self.index(target.at(self, row, column))]))
