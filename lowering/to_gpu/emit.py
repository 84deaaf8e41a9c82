"""Writing scalar code: constants once each, and index arithmetic that folds what is known.

An index is an extent as long as it is the same for all invocations (a Python ``int``, or a
:class:`~.extents.Sym` that the host computes) and an SSA value of type ``index`` otherwise, so schedules write one
formula and the IR holds only what depends on the invocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.arithmetic import Real, convert_float
from rlx_dialect.lowering.to_gpu.extents import Extent, Sym, UnknownExtent, least
from rlx_dialect.xdsl_compat import Builder, InsertPoint

Index = Extent | SSAValue


def _truth(condition: SSAValue | None) -> bool | None:
    """Whether a condition, where None always holds, does; None where that is not known yet."""
    if condition is None:
        return True
    if isinstance(condition.owner, arith.ConstantOp) and isinstance(condition.owner.value, IntegerAttr):
        return bool(condition.owner.value.value.data)
    return None


class Emitter:
    """Inserts operations at the end of a block; constants go to its start, one of each."""

    def __init__(self, block: Block):
        self.b = Builder(InsertPoint.at_end(block))
        self._start = block
        self._last_at_start: Operation | None = None
        self._constants: dict[Attribute, SSAValue] = {}

    def op(self, operation: Operation) -> SSAValue:
        """Insert an operation of one result."""
        return self.b.insert(operation).results[0]

    # Constants.

    def constant(self, value: float | int | bool, type: Attribute) -> SSAValue:
        if isinstance(type, AnyFloat):
            attribute: FloatAttr | IntegerAttr = FloatAttr(float(value), type)
        else:
            assert isinstance(type, IntegerType | IndexType)
            attribute = IntegerAttr(int(value), type, truncate_bits=isinstance(type, IntegerType))
        if attribute not in self._constants:
            self._constants[attribute] = self.at_start(arith.ConstantOp(attribute, type))
        return self._constants[attribute]

    def at_start(self, operation: Operation) -> SSAValue:
        """Insert an operation of one result that is seen everywhere: after the others of its kind at the start."""
        if self._last_at_start is not None:
            self._start.insert_op_after(operation, self._last_at_start)
        elif (first := self._start.first_op) is not None:
            self._start.insert_op_before(operation, first)
        else:
            self._start.add_op(operation)
        self._last_at_start = operation
        return operation.results[0]

    def index(self, value: Index) -> SSAValue:
        if isinstance(value, Sym):
            return self.unknown(value)
        return self.constant(value, IndexType()) if isinstance(value, int) else value

    def unknown(self, extent: Sym) -> SSAValue:
        """An extent that is only known when the graph runs."""
        raise UnknownExtent(f"{extent} is known only when the graph runs")

    def both(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        """The conjunction of two conditions, where None always holds."""
        known = _truth(a)
        if known is not None:
            return b if known else a
        if _truth(b) is not None:
            return self.both(b, a)
        assert a is not None
        assert b is not None
        return self.op(arith.AndIOp(a, b))

    def converted(self, value: SSAValue, type: Attribute) -> SSAValue:
        """A float as another float type; other values have that type already."""
        return value if value.type == type else convert_float(value, type, self.b)

    def real(self, value: SSAValue) -> Real:
        """A float to write formulas with, in the type that it is computed in."""
        return Real(self.converted(value, wide_element(value.type)), self.b)

    # Index arithmetic; indices are never negative.

    def i_add(self, a: Index, b: Index) -> Index:
        if isinstance(a, Extent) and isinstance(b, Extent):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.op(arith.AddiOp(self.index(a), self.index(b)))

    def i_sub(self, a: Index, b: Index) -> Index:
        if isinstance(a, Extent) and isinstance(b, Extent):
            return a - b
        return a if b == 0 else self.op(arith.SubiOp(self.index(a), self.index(b)))

    def i_mul(self, a: Index, b: Extent) -> Index:
        if isinstance(a, Extent):
            return a * b
        if b in (0, 1):
            return 0 if b == 0 else a
        return self.op(arith.MuliOp(a, self.index(b)))

    def i_div(self, a: Index, b: Extent) -> Index:
        if isinstance(a, Extent) and isinstance(b, int):
            return a // b
        return a if b == 1 else self.op(arith.DivUIOp(self.index(a), self.index(b)))

    def i_rem(self, a: Index, b: Extent) -> Index:
        if isinstance(a, Extent) and isinstance(b, int):
            return a % b
        return 0 if b == 1 else self.op(arith.RemUIOp(self.index(a), self.index(b)))

    def i_min(self, a: Index, b: Extent) -> Index:
        if isinstance(a, Extent) and isinstance(b, int):
            return least(a, b)
        return self.op(arith.SelectOp(self.i_less(a, b), self.index(a), self.index(b)))

    def i_less(self, a: Index, b: Index) -> SSAValue:
        if isinstance(a, int) and isinstance(b, int):
            return self.constant(a < b, i1)
        return self.op(arith.CmpiOp(self.index(a), self.index(b), "ult"))

    def i_equal(self, a: Index, b: Index) -> SSAValue:
        return self.op(arith.CmpiOp(self.index(a), self.index(b), "eq"))

    def split(self, flat: Index, extents: Sequence[Extent]) -> list[Index]:
        """The row-major coordinates of element ``flat`` of a box of ``extents``."""
        coordinates: list[Index] = []
        for extent in reversed(extents[1:]):
            coordinates.append(self.i_rem(flat, extent))
            flat = self.i_div(flat, extent)
        return [flat, *reversed(coordinates)] if extents else []

    def dot(self, coordinates: Sequence[Index], strides: Sequence[Extent], start: Index = 0) -> Index:
        """start + Σ coordinate · stride; strides may be negative."""
        result = start
        for coordinate, stride in zip(coordinates, strides, strict=True):
            # One that is not known is taken for what it is modulo the width of an index.
            if isinstance(stride, Sym) or stride >= 0:
                result = self.i_add(result, self.i_mul(coordinate, stride))
            else:
                result = self.i_sub(result, self.i_mul(coordinate, -stride))
        return result

    # Control flow.

    def when(self, condition: SSAValue | None, then: Callable[[], None]) -> None:
        """Run ``then`` where ``condition`` holds (None: everywhere); what is known never to run is not written.

        WebGPU refuses an access that is out of bounds for sure, even behind a condition that never holds.
        """
        known = _truth(condition)
        if known is not None:
            if known:
                then()
            return
        assert condition is not None
        block = Block()
        self._within(block, then)
        block.add_op(scf.YieldOp())
        self.b.insert(scf.IfOp(condition, [], [block]))

    def loop(
        self,
        start: Index,
        stop: Index,
        step: int,
        initial: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """``for i in range(start, stop, step)`` carrying ``initial``; returns what the last round gave."""
        if isinstance(start, int) and isinstance(stop, int) and start >= stop:
            return initial
        block = Block(arg_types=[IndexType(), *(v.type for v in initial)])
        results: list[SSAValue] = []
        self._within(block, lambda: results.extend(body(block.args[0], block.args[1:])))
        block.add_op(scf.YieldOp(*results))
        loop = scf.ForOp(self.index(start), self.index(stop), self.index(step), list(initial), block)
        made = self.b.insert(loop).results
        if isinstance(stop, int) or not initial:
            return made
        # In MLIR's SPIR-V form what a loop of no rounds gives is undefined.
        some = self.i_less(start, stop)
        return [self.op(arith.SelectOp(some, last, first)) for last, first in zip(made, initial, strict=True)]

    def _within(self, block: Block, write: Callable[[], None]) -> None:
        outer, self.b = self.b, Builder(InsertPoint.at_end(block))
        write()
        self.b = outer
