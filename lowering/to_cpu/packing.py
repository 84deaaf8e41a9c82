"""A factor of a contraction as panels: what a register tile reads at one step lies side by side in memory.

``packed[b, p, k, j]`` is the factor at batch b, free position p·width + j, contracted position k, in the type that it
is summed in; zero beyond the last free position and outside the factor's bounds. Prologues are applied on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, Schedule
from rlx_dialect.lowering.to_cpu.known import product
from rlx_dialect.lowering.to_gpu.contraction_spec import Factor
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.kernel import Access, BlockSize, Grid, KernelSpec, Operands
from rlx_dialect.shapes import Shape


@dataclass(frozen=True)
class PackSpec(KernelSpec):
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
    def block(self) -> BlockSize:
        return (1, 1, 1)

    @property
    def groups(self) -> Grid:
        return (product(self.batch) * self.panels, 1, 1)

    def emit(self, k: object) -> None:
        raise AssertionError("panels are for CPUs: Pack writes them")


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
        count, length = product(spec.free), product(spec.depth)
        memory = k.buffer(len(spec.slots) - 1)
        ragged = bool(count % spec.width or spec.factor.bounds)

        def group(number: SSAValue) -> None:
            of_batch, panel = k.split(number, (product(spec.batch), spec.panels))
            batch = k.split(of_batch, spec.batch)
            base = k.i_mul(number, length * spec.width)
            if ragged:
                zero = k.constant(0, spec.factor.type)
                k.each(0, length * spec.width, lambda i: k.write(zero, memory, k.i_add(base, i)))
            first = k.i_mul(panel, spec.width)
            last = k.i_min(k.i_add(first, spec.width), count)

            def step(depth: Sequence[Index], flat: Index) -> None:
                start = k.i_add(base, k.i_mul(flat, spec.width))

                def element(free: Sequence[Index], position: Index) -> None:
                    def write() -> None:
                        value = _element(k, spec.factor, batch, free, depth)
                        k.write(value, memory, k.i_add(start, k.i_sub(position, first)))

                    k.when(_exists(k, spec.factor, batch, free, depth), write)

                self._run(k, first, last, element)

            nest(k, spec.depth, step)

        k.groups(group)

    def _run(self, k: CpuKernel, first: Index, last: Index, element: Callable[[Sequence[Index], Index], None]) -> None:
        """``element(free, position)`` for the positions in range(first, last), along the innermost axis in loops."""
        free = self.spec.free
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
        # What lies before 0 is a large number without a sign.
        exists = k.both(exists, k.i_less(position, bound.extent))
    return exists


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
