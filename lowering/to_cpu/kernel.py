"""One CPU kernel: a function of its buffers and of a range of groups, which threads share out among themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, Region, SSAValue

from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.to_cpu.cpus import BUFFERS, Cpu
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.kernel import BlockSize, Grid, Kernel, KernelSpec

WORK = "rlx.work"
"""Attribute of a kernel: about how many scalar operations one group takes."""

_REORDERED = arith.FastMathFlagsAttr([FastMathFlag.REASSOC])


def reordered(total: SSAValue) -> SSAValue:
    """A sum or product that is carried round a loop, which may from now on be made of parts in any order."""
    if isinstance(total.owner, arith.AddfOp | arith.MulfOp):
        total.owner.properties["fastmath"] = _REORDERED
    return total


@dataclass(frozen=True)
class CpuSpec(KernelSpec):
    """A spec that is for CPUs alone: its :class:`Schedule` counts the groups and writes the body."""

    @property
    def block(self) -> BlockSize:
        return (1, 1, 1)

    @property
    def groups(self) -> Grid:
        raise AssertionError("a schedule counts the groups")

    def emit(self, k: object) -> None:
        raise AssertionError("a schedule writes the body")


S = TypeVar("S", bound=KernelSpec)


class CpuKernel(Kernel):
    """Writes one ``func.func``: the buffers, then the first group and the one after the last."""

    def __init__(self, name: str, spec: KernelSpec, cpu: Cpu):
        super().__init__(name, spec, BUFFERS)
        self.cpu = cpu
        count = len(spec.slots)
        self.begin, self.end = (self._entry.insert_arg(IndexType(), count + i) for i in range(2))
        self.invocation: Mapping[str, Index] = {}
        """The numbers of an invocation, where the kernel is written for one."""

    def buffer(self, slot: int) -> SSAValue:
        """The memref of a slot."""
        return self._entry.args[slot]

    def groups(self, body: Callable[[SSAValue], None]) -> None:
        """``body`` for each group of the range."""
        self.each(self.begin, self.end, body)

    def each(self, start: Index, stop: Index, body: Callable[[SSAValue], None], step: int = 1) -> None:
        """``body(i)`` for i in range(start, stop, step)."""

        def once(i: SSAValue, carried: object) -> list[SSAValue]:
            body(i)
            return []

        self.loop(start, stop, step, [], once)

    def smaller(self, a: Index, b: Index) -> Index:
        return self._choice(min, "ult", a, b)

    def greater(self, a: Index, b: Index) -> Index:
        return self._choice(max, "ugt", a, b)

    def _choice(self, of_numbers: Callable[[int, int], int], predicate: str, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return of_numbers(a, b)
        x, y = self.index(a), self.index(b)
        return self.op(arith.SelectOp(self.op(arith.CmpiOp(x, y, predicate)), x, y))

    def function(self, work: int) -> func.FuncOp:
        """The finished kernel; ``work`` is about what one group takes."""
        self.b.insert(func.ReturnOp())
        # Distinct slots are distinct buffers, and nobody else touches them during the call.
        alone = DictionaryAttr({"llvm.noalias": UnitAttr()})
        ranges = DictionaryAttr({})
        kernel = func.FuncOp(
            self._name,
            FunctionType.from_lists(list(self._entry.arg_types), []),
            Region(self._entry),
            arg_attrs=ArrayAttr([*([alone] * len(self._spec.slots)), ranges, ranges]),
        )
        kernel.attributes[WORK] = IntegerAttr(max(work, 1), i64)
        return kernel

    # What the kernels of a GPU use: the invocation's numbers, and what cores do not have.

    def _id(self, op: type[Operation], dimension: str) -> SSAValue:
        return self.index(self.invocation[f"{op.name} {dimension}"])

    def shared(self, element: object, size: int) -> SSAValue:
        raise NotLowered(f"{type(self._spec).__name__} shares memory between invocations: it needs a CPU form")

    def barrier(self) -> None:
        raise NotLowered(f"{type(self._spec).__name__} has barriers: it needs a CPU form")


class Schedule(ABC, Generic[S]):
    """How one class of specs is written for a CPU."""

    def __init__(self, spec: S, cpu: Cpu):
        self.spec = spec
        self.cpu = cpu

    @property
    @abstractmethod
    def groups(self) -> int:
        """Parts that the work is shared out in."""

    @property
    @abstractmethod
    def work(self) -> int:
        """About how many scalar operations one group takes."""

    @abstractmethod
    def emit(self, k: CpuKernel) -> None:
        """Write the body."""
