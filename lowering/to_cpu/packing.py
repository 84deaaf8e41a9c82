"""A factor of a contraction as panels: what a register tile reads at one step lies side by side in memory.

``packed[b, p, k, j]`` is the factor at batch b, free position p·width + j, contracted position k, in the type that it
is summed in; zero beyond the last free position and outside the factor's bounds. Prologues are applied on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, CpuSpec, Schedule
from rlx_dialect.lowering.to_cpu.known import known, product
from rlx_dialect.lowering.to_gpu.contraction_spec import Factor
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.kernel import Access, Grid, Operands
from rlx_dialect.shapes import Shape


@dataclass(frozen=True)
class PackSpec(CpuSpec):
    """The panels of ``factor``, in the last slot; a group is a panel."""

    batch: Shape
    free: Shape
    depth: Shape
    factor: Factor
    width: int

    @property
    def panels(self) -> int:
        return -(-product(self.free) // self.width)

    @property
    def groups(self) -> Grid:
        return (product(self.batch) * self.panels, 1, 1)


def alone(factor: Factor, operands: Operands) -> tuple[Factor, Operands]:
    """The factor in a launch of its own, with the buffers that it reads."""
    own = Operands()

    def access(old: Access) -> Access:
        if not isinstance(old.source, int):
            return old
        buffer = operands.buffers[old.source]
        if buffer not in own.buffers:
            own.buffers.append(buffer)
        return replace(old, source=own.buffers.index(buffer))

    def moved(old: Factor) -> Factor:
        return replace(old, access=access(old.access), others=tuple(map(moved, old.others)))

    return moved(factor), own


class Pack(Schedule[PackSpec]):
    """Contracted positions one after the other, each with a run along the free positions."""

    @property
    def groups(self) -> int:
        return product(self.spec.groups)

    @property
    def work(self) -> int:
        return 4 * product(self.spec.depth) * self.spec.width

    def emit(self, k: CpuKernel) -> None:
        spec = self.spec
        memory = k.buffer(len(spec.slots) - 1)

        def group(number: SSAValue) -> None:
            of_batch, panel = k.split(number, (product(spec.batch), spec.panels))
            batch = k.split(of_batch, spec.batch)
            write_panel(k, spec, batch, panel, memory, k.i_mul(number, product(spec.depth) * spec.width))

        k.groups(group)


def write_panel(
    k: CpuKernel, spec: PackSpec, batch: Sequence[Index], panel: Index, memory: SSAValue, base: Index
) -> None:
    """Write one panel to ``memory`` from position ``base`` on."""
    form = _Vectors if _Vectors.fits(k, spec) else _Elements
    form(k, spec, batch, panel, memory, base).write()


class _Elements:
    """A panel one element after the other."""

    def __init__(
        self, k: CpuKernel, spec: PackSpec, batch: Sequence[Index], panel: Index, memory: SSAValue, base: Index
    ):
        self.k, self.spec, self.factor = k, spec, spec.factor
        self.batch, self.memory, self.base = batch, memory, base
        self.count = product(spec.free)
        self.first = k.i_mul(panel, spec.width)

    def write(self) -> None:
        k, spec = self.k, self.spec
        if self.count % spec.width or self.factor.bounds:
            zero = k.constant(0, self.factor.type)
            size = product(spec.depth) * spec.width
            k.each(0, size, lambda i: k.write(zero, self.memory, k.i_add(self.base, i)))
        last = k.i_min(k.i_add(self.first, spec.width), self.count)

        def step(depth: Sequence[Index], flat: Index) -> None:
            start = k.i_add(self.base, k.i_mul(flat, spec.width))

            def element(free: Sequence[Index], position: Index) -> None:
                def write() -> None:
                    value = _element(k, self.factor, self.batch, free, depth)
                    k.write(value, self.memory, k.i_add(start, k.i_sub(position, self.first)))

                k.when(_exists(k, self.factor, self.batch, free, depth), write)

            self._run(self.first, last, element)

        nest(k, spec.depth, step)

    def _run(self, first: Index, last: Index, element: Callable[[Sequence[Index], Index], None]) -> None:
        """``element(free, position)`` for the positions in range(first, last), along the innermost axis in loops."""
        k, free = self.k, self.spec.free
        if len(free) < 2:
            k.each(first, last, lambda i: element([i] if free else [], i))
            return
        extent = free[-1]

        def row(number: SSAValue) -> None:
            start = k.i_mul(number, extent)
            outer = k.split(number, free[:-1])
            low = k.i_sub(k.greater(first, start), start)
            high = k.i_sub(k.smaller(last, k.i_add(start, extent)), start)
            k.each(low, high, lambda i: element([*outer, i], k.i_add(start, i)))

        k.each(k.i_div(first, extent), k.i_add(k.i_div(k.i_sub(last, 1), extent), 1), row)


@dataclass(frozen=True)
class _Run:
    """What a vector takes of one row of the innermost free axis: the lanes in range(low, high).

    ``first`` is where lane 0 would be in that row; it may lie before it. Numbers have a sign here.
    """

    outer: Sequence[Index]
    first: Index
    low: Index
    high: Index


class _Vectors(_Elements):
    """A panel one vector after the other, where the innermost free axis is dense in memory.

    A vector has parts of two rows of that axis at most. What does not exist is zero.
    """

    @staticmethod
    def fits(k: CpuKernel, spec: PackSpec) -> bool:
        factor, lanes = spec.factor, k.cpu.lanes(spec.factor.type)
        dense = bool(spec.free) and factor.free[-1] == 1 and (len(spec.free) == 1 or spec.free[-1] >= lanes)
        source = factor.access.source
        as_stored = isinstance(source, int) and spec.slots[source].storage == factor.type and factor.prologue is None
        forward = all(isinstance(b.free[-1], int) and b.free[-1] >= 0 for b in factor.bounds) if dense else False
        return dense and as_stored and forward and spec.width % lanes == 0

    def write(self) -> None:
        k, spec = self.k, self.spec
        lanes = k.cpu.lanes(self.factor.type)
        type = VectorType(self.factor.type, [lanes])
        runs = [self._runs(k.i_add(self.first, v), lanes) for v in range(0, spec.width, lanes)]
        zero = k.op(vector.BroadcastOp(k.constant(0, self.factor.type), type))

        def step(depth: Sequence[Index], flat: Index) -> None:
            start = k.i_add(self.base, k.i_mul(flat, spec.width))
            for v, parts in enumerate(runs):
                value = zero
                for run in parts:
                    value = self._load(run, depth, value)
                k.b.insert(vector.StoreOp(value, self.memory, [k.index(k.i_add(start, v * lanes))]))

        nest(k, spec.depth, step)

    def _runs(self, position: Index, lanes: int) -> list[_Run]:
        """The rows that the positions from ``position`` on are of."""
        k, free = self.k, self.spec.free
        rest = k.i_sub(self.count, position) if self.count % self.spec.width else lanes
        if len(free) == 1:
            return [_Run((), position, 0, rest)]
        extent = free[-1]
        row, place = k.i_div(position, extent), k.i_rem(position, extent)
        left = k.i_sub(extent, place)
        # Behind the last row is none, but a vector that ends with it needs none.
        behind = k.split(k.i_add(row, 1), free[:-1])
        return [
            _Run(k.split(row, free[:-1]), place, 0, self._least(left, rest)),
            _Run(behind, k.i_sub(place, extent), left, rest),
        ]

    def _load(self, run: _Run, depth: Sequence[Index], others: SSAValue) -> SSAValue:
        """The lanes of a run, and those of ``others``."""
        k, factor = self.k, self.factor
        assert isinstance(others.type, VectorType)
        (lanes,) = others.type.get_shape()
        place = k.dot([*run.outer, run.first], factor.free, k.dot(self.batch, factor.batch, factor.access.offset))
        place = k.index(k.dot(depth, factor.contracted, place))
        assert isinstance(factor.access.source, int)
        memory = k.buffer(factor.access.source)
        low, high = self._existing(run, depth)
        if low == 0 and high == lanes:
            return k.op(vector.LoadOp(memory, [place], others.type))
        # The numbers of a mask are narrow ones.
        high = self._least(self._greatest(high, 0), lanes)
        mask = self._before(high, lanes)
        if low != 0:
            mask = k.op(arith.XOrIOp(mask, self._before(self._least(self._greatest(low, 0), high), lanes)))
        return k.op(vector.MaskedLoadOp(memory, [place], mask, others))

    def _existing(self, run: _Run, depth: Sequence[Index]) -> tuple[Index, Index]:
        """The lanes of a run that lie within the factor's bounds."""
        k, low, high = self.k, run.low, run.high
        for bound in self.factor.bounds:
            step = bound.free[-1]
            assert isinstance(step, int)
            start = k.dot(depth, bound.contracted, k.dot(self.batch, bound.batch, bound.start))
            start = k.dot([*run.outer, run.first], bound.free, start)
            if step == 0:
                there = _is_inside(k, start, known(bound.extent))
                high = k.op(arith.SelectOp(there, k.index(high), k.index(0)))
                continue
            low = self._greatest(low, self._quotient(k.i_sub(0, start), step))
            high = self._least(high, self._quotient(k.i_sub(bound.extent, start), step))
        return low, high

    def _before(self, lane: Index, lanes: int) -> SSAValue:
        """The lanes before ``lane``."""
        return self.k.op(vector.CreateMaskOp([self.k.index(lane)], VectorType(i1, [lanes])))

    # Numbers with a sign.

    def _quotient(self, a: Index, by: int) -> Index:
        """``a / by`` rounded up; 0 where ``a`` is negative, unless ``by`` is 1."""
        return a if by == 1 else self.k.i_div(self.k.i_add(self._greatest(a, 0), by - 1), by)

    def _least(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.k.op(arith.MinSIOp(self.k.index(a), self.k.index(b)))

    def _greatest(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.k.op(arith.MaxSIOp(self.k.index(a), self.k.index(b)))


def nest(k: CpuKernel, extents: Shape, body: Callable[[Sequence[Index], Index], None]) -> None:
    """``body(coordinates, number)`` for each place of a box, in loops."""

    def level(axis: int, coordinates: tuple[Index, ...], flat: Index) -> None:
        if axis == len(extents):
            body(coordinates, flat)
            return
        start = k.i_mul(flat, extents[axis])
        k.each(0, extents[axis], lambda i: level(axis + 1, (*coordinates, i), k.i_add(start, i)))

    level(0, (), 0)


def _exists(
    k: CpuKernel, factor: Factor, batch: Sequence[Index], free: Sequence[Index], depth: Sequence[Index]
) -> SSAValue | None:
    """Whether an element lies within the factor's bounds; None: always."""
    exists = None
    for bound in factor.bounds:
        position = k.dot(depth, bound.contracted, k.dot(free, bound.free, k.dot(batch, bound.batch, bound.start)))
        exists = k.both(exists, _is_inside(k, position, known(bound.extent)))
    return exists


def _is_inside(k: CpuKernel, position: Index, extent: int) -> SSAValue:
    """Whether a position that may lie before 0 is one of ``extent``."""
    if isinstance(position, int):
        return k.constant(0 <= position < extent, i1)
    # What lies before 0 is a large number without a sign.
    return k.i_less(position, extent)


def _element(
    k: CpuKernel, factor: Factor, batch: Sequence[Index], free: Sequence[Index], depth: Sequence[Index]
) -> SSAValue:
    """An element that exists, after the prologue."""
    start = k.dot(free, factor.free, k.dot(batch, factor.batch, factor.access.offset))
    value = k.load_wide(Access(factor.access.source, factor.access.element, factor.contracted, 0), depth, start)
    if factor.prologue is None:
        return value
    others = [_element(k, other, batch, free, depth) for other in factor.others]
    return k.converted(factor.prologue.write(k.b, [value, *others]), factor.type)
