"""What a window covers, one of its positions at a time, where the window's own operation does not say it.

A tap is one offset of the kernel: the elements that it covers while the window slides. Along an axis of known extent
that is a strided slice, along others a gather.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import i32

from rlx_dialect.ops.convolution import PoolOp, Window
from rlx_dialect.ops.extents import along, constant, extent_of, ones_along, positions
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.shape import PadOp, SliceOp
from rlx_dialect.shapes import DYNAMIC


def spatially_padded(x: Term, pairs: Sequence[tuple[int, int]], value: float = 0.0) -> Term:
    """x [N, C, spatial…] with ``value`` (before, after) each spatial axis; negative numbers take away."""
    if not any(map(any, pairs)):
        return x
    befores, afters = zip(*pairs, strict=True)
    return x.insert(PadOp(x.value, [0, 0, *befores, 0, 0, *afters], value=value))


@dataclass
class Taps:
    """The taps of ``window`` over x [N, C, spatial…]."""

    x: Term
    window: Window
    _places: dict[int, Term] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Spatial extents of what the window gives."""
        return tuple(self.window.output(self.x.shape[2:]))

    def place(self, axis: int) -> Term:
        """0, 1, … for the positions of the window along spatial ``axis``: [output]."""
        if axis not in self._places:
            self._places[axis] = self._place(axis)
        return self._places[axis]

    def _place(self, axis: int) -> Term:
        if self.outputs[axis] != DYNAMIC:
            return constant(self.x, np.arange(self.outputs[axis]), i32)
        # A pooling says how many there are.
        line = ones_along(self.x, axis + 2, i32).reshape([1, 1, DYNAMIC])
        line = spatially_padded(line, [self.window.padding[axis]])
        w = self.window
        kernel, stride, dilation = [w.kernel[axis]], [w.stride[axis]], [w.dilation[axis]]
        return positions(line.insert(PoolOp("max", line.value, kernel, stride=stride, dilation=dilation)), 2)

    def coordinate(self, axis: int, offset: int) -> Term:
        """Where the tap at ``offset`` lies in the padded operand, along spatial ``axis``: [output]."""
        return self.place(axis) * self.window.stride[axis] + offset * self.window.dilation[axis]

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """The offsets of the kernel in row-major order."""
        return iter(np.ndindex(*self.window.kernel))

    def padded(self, fill: float) -> Term:
        return spatially_padded(self.x, self.window.padding, fill)

    def of(self, padded: Term, offsets: Sequence[int]) -> Term:
        """[N, C, output…]: the tap at ``offsets`` of the :meth:`padded` operand."""
        for axis, offset in enumerate(offsets):
            if (count := self.outputs[axis]) == DYNAMIC:
                where = self.coordinate(axis, offset)
                padded = padded.insert(GatherOp(padded.value, where.value, axis + 2))
            else:
                start, step = offset * self.window.dilation[axis], self.window.stride[axis]
                padded = padded.insert(SliceOp(padded.value, axis + 2, start, count, step))
        return padded

    def flat_place(self, offsets: Sequence[int]) -> Term:
        """The position of the tap in the flattened spatial axes of x, for each output: [output…] that broadcasts."""
        rank = len(offsets)
        flat: Term | None = None
        for axis, offset in enumerate(offsets):
            own = along(self.coordinate(axis, offset) - self.window.padding[axis][0], axis, rank)
            flat = own if flat is None else flat * extent_of(self.x, axis + 2) + own
        assert flat is not None
        return flat

    def inside(self, offsets: Sequence[int]) -> Term | None:
        """Where the tap covers an element and no padding; None: everywhere."""
        found: Term | None = None
        for axis, offset in enumerate(offsets):
            before, _ = self.window.padding[axis]
            if not any(self.window.padding[axis]):
                continue
            at = self.coordinate(axis, offset)
            end = extent_of(self.x, axis + 2) + before
            own = along(at.compare("ge", before) & at.compare("lt", end), axis, len(offsets))
            found = own if found is None else found & own
        return found
