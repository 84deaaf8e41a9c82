"""Values as strided views of flat buffers, so that most shape operations need no kernel.

Transposing, slicing, reversing, broadcasting and most reshaping only change how a buffer is addressed; the
kernel that reads the value does the addressing. :func:`coalesce` then shortens the box that a kernel runs over
to as few axes as the addressing needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Attribute, SSAValue

from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, Sym, dims, evaluate, is_known, least, product
from rlx_dialect.shapes import DYNAMIC


def dense_strides(shape: Sequence[Extent]) -> Shape:
    """Row-major strides in elements."""
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Buffer:
    """A flat host memref of ``size`` elements.

    ``storage`` is their type in memory: the element type without a sign, an integer for a truth value, or, where a
    constant is not finite, an integer with the bits of the float that the element is computed in.
    """

    value: SSAValue
    storage: Attribute
    size: Extent


@dataclass(frozen=True)
class Literal:
    """One number known when the kernel is written; it takes no buffer."""

    value: float | int | bool


@dataclass(frozen=True)
class View:
    """Element (i, j, …) of ``shape`` lies at ``offset`` + i·strides[0] + j·strides[1] + … of ``source``."""

    source: Buffer | Literal
    element: Attribute
    shape: Shape
    strides: Shape
    offset: Extent = 0

    def __post_init__(self) -> None:
        if DYNAMIC in self.shape:
            raise NotLowered("an unknown extent was taken from a type, not from the operand's view")

    @property
    def is_dense(self) -> bool:
        """Whether the view is its whole buffer in row-major order."""
        return (
            isinstance(self.source, Buffer)
            and self.offset == 0
            and self.source.size == product(self.shape)
            and all(
                e == 1 or s == d for e, s, d in zip(self.shape, self.strides, dense_strides(self.shape), strict=True)
            )
        )

    def transpose(self, perm: Sequence[int]) -> View:
        return replace(self, shape=tuple(self.shape[p] for p in perm), strides=tuple(self.strides[p] for p in perm))

    def slice(self, axis: int, start: Extent, length: Extent, step: int = 1) -> View:
        """``length`` elements along ``axis`` from ``start``, each ``step`` (maybe negative) after the last."""
        shape, strides = list(self.shape), list(self.strides)
        shape[axis] = length
        strides[axis] = strides[axis] * step
        return replace(
            self,
            shape=tuple(shape),
            strides=tuple(strides),
            offset=self.offset + start * self.strides[axis],
        )

    def broadcast(self, shape: Sequence[Extent]) -> View:
        """NumPy broadcasting to ``shape``. Raises NotLowered where it is not known whether that stretches an axis."""
        missing = len(shape) - len(self.shape)
        strides: list[Extent] = [0] * missing
        for have, want, stride in zip(self.shape, shape[missing:], self.strides, strict=True):
            strides.append(stride * _steps(have, want))
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def repeat(self, extents: Sequence[Extent]) -> View:
        """The view with more axes at the end, along which it does not change."""
        return replace(self, shape=(*self.shape, *extents), strides=(*self.strides, *([0] * len(extents))))

    def reshape(self, shape: Sequence[Extent]) -> View | None:
        """The same elements in row-major order as ``shape``; None where strides cannot say it."""
        if 0 in shape:
            return replace(self, shape=tuple(shape), strides=(0,) * len(shape))
        old = [(e, s) for e, s in zip(self.shape, self.strides, strict=True) if e != 1]
        if not is_known((*self.shape, *shape)) and self.is_dense:
            # What holds all of a buffer does so in any shape.
            return replace(self, shape=tuple(shape), strides=dense_strides(shape))
        strides: list[Extent] = [0] * len(shape)
        new = [i for i, extent in enumerate(shape) if extent != 1]
        i = j = 0
        while i < len(old) and j < len(new):
            # The smallest group of old axes and of new axes that hold equally many elements.
            first, last = i, j
            have, want = old[i][0], shape[new[j]]
            while have != want:
                if _less(have, want):
                    i += 1
                    if i == len(old):
                        return None
                    have = have * old[i][0]
                else:
                    j += 1
                    if j == len(new):
                        return None
                    want = want * shape[new[j]]
            for a in range(first, i):
                if old[a][1] != old[a + 1][1] * old[a + 1][0]:
                    return None
            step = old[i][1]
            for k in range(j, last - 1, -1):
                strides[new[k]] = step
                step = step * shape[new[k]]
            i, j = i + 1, j + 1
        if i < len(old) or j < len(new):
            # Extents that are not known, of which it is not known either that they are 1.
            return None
        return replace(self, shape=tuple(shape), strides=tuple(strides))


def _steps(have: Extent, want: Extent) -> Extent:
    """1 where an axis of extent ``have`` is stepped through for one of ``want``, 0 where it is stretched."""
    if have == want:
        return 1
    if have == 1:
        return 0
    if isinstance(have, Sym) and isinstance(want, int):
        # It is 1 or the wanted extent: the host has checked it; see shapes.Shapes.
        return 0 if want == 1 else least(have - 1, 1)
    if isinstance(have, int) and isinstance(want, int):
        return 0
    raise NotLowered(f"it is not known whether an axis of extent {have} is one of extent {want}")


def _less(have: Extent, want: Extent) -> bool:
    """Which of two different products is the smaller one, for some extents, where it is not known."""
    difference = have - want
    return evaluate(difference, {d: 1_000_003 + 30 * i for i, d in enumerate(sorted(dims(difference), key=str))}) < 0


def coalesce(shape: Sequence[Extent], strides: Sequence[Sequence[Extent]]) -> tuple[Shape, list[Shape]]:
    """The same box without unit axes, and with neighbours merged that every list of strides steps through alike."""
    axes: list[tuple[Extent, list[Extent]]] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        steps = [s[axis] for s in strides]
        if axes and all(outer == inner * extent for outer, inner in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * extent, steps)
        else:
            axes.append((extent, steps))
    return tuple(e for e, _ in axes), [tuple(steps[i] for _, steps in axes) for i in range(len(strides))]
