"""The map schedule: loops over the box, the innermost along the axis that most operands are dense in.

That loop is scalar code without calls or branches, which LLVM turns into vector code with its own remainder.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, Schedule
from rlx_dialect.lowering.to_cpu.known import all_known, product
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.kernel import Access
from rlx_dialect.lowering.to_gpu.map import MapSpec, PartsSpec
from rlx_dialect.shapes import Shape

CHUNK = 8192
"""Elements of one group, at most as many along the innermost axis."""


class Map(Schedule[MapSpec]):
    """A group is a piece of the innermost axis, or several whole ones."""

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The axes of the box, the innermost loop's last."""
        spec = self.spec
        accesses = (*spec.inputs, *spec.outputs)

        def fitness(axis: int) -> tuple[bool, int, int]:
            dense = sum(a.strides[axis] == 1 for a in accesses) + sum(a.strides[axis] == 1 for a in spec.outputs)
            return spec.box[axis] >= 8, dense, axis

        axes = range(len(spec.box))
        inner = max(axes, key=fitness, default=None)
        return () if inner is None else (*(a for a in axes if a != inner), inner)

    @cached_property
    def _box(self) -> tuple[Shape, int]:
        """The extents of the outer loops, and of the innermost."""
        shape = all_known(self.spec.box[a] for a in self._order)
        return shape[:-1], shape[-1] if shape else 1

    @property
    def _pieces(self) -> int:
        return -(-self._box[1] // CHUNK)

    @property
    def _rows(self) -> int:
        """Whole innermost axes of one group."""
        return max(CHUNK // self._box[1], 1)

    @property
    def groups(self) -> int:
        return -(-product(self._box[0]) // self._rows) * self._pieces

    @property
    def work(self) -> int:
        return 4 * (len(self.spec.inputs) + len(self.spec.outputs)) * min(CHUNK, self._rows * self._box[1])

    def emit(self, k: CpuKernel) -> None:
        k.groups(lambda number: self.group(k, number))

    def group(self, k: CpuKernel, number: Index) -> None:
        """Write the work of a group."""
        outer, inner = self._box
        count = product(outer)
        first, piece = k.split(number, (-(-count // self._rows), self._pieces))
        start = k.i_mul(piece, CHUNK)
        stop = k.i_min(k.i_add(start, CHUNK), inner)
        row = k.i_mul(first, self._rows)
        last = k.i_min(k.i_add(row, self._rows), count)
        k.each(row, last, lambda r: k.each(start, stop, lambda i: self._element(k, (*k.split(r, outer), i))))

    def _element(self, k: CpuKernel, coordinates: tuple[Index, ...]) -> None:
        def at(access: Access) -> Access:
            return replace(access, strides=tuple(access.strides[a] for a in self._order))

        place = coordinates if self.spec.box else ()
        values = [k.load(at(access), place) for access in self.spec.inputs]
        for value, access in zip(self.spec.body.write(k.b, values), self.spec.outputs, strict=True):
            k.store(value, at(access), place)


class Parts(Schedule[PartsSpec]):
    """The groups of several maps, one after the other."""

    @cached_property
    def _maps(self) -> list[Map]:
        return [Map(part, self.cpu) for part in self.spec.parts]

    @property
    def groups(self) -> int:
        return sum(m.groups for m in self._maps)

    @property
    def work(self) -> int:
        return max(m.work for m in self._maps)

    def emit(self, k: CpuKernel) -> None:
        first = 0
        for each in self._maps:
            start, stop = k.greater(k.begin, first), k.smaller(k.end, first + each.groups)
            k.each(start, stop, lambda number, m=each, f=first: m.group(k, k.i_sub(number, f)))
            first += each.groups
