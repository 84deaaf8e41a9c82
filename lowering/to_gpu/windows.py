"""Windows that slide over [N, C, spatial…]: one invocation an element of the result, which folds what it covers.

A window as rows of a matrix (im2col) is the same without a fold: each element of the result covers one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind, ReduceKind
from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.elements import ElementSpec
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, product
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Access, Kernel, Operands
from rlx_dialect.lowering.to_gpu.rows import Fold
from rlx_dialect.lowering.to_gpu.views import View, coalesce
from rlx_dialect.ops.convolution import PoolOp, Window
from rlx_dialect.ops.reduction import COMBINES
from rlx_dialect.ops.transposed_convolution import Im2ColOp


@dataclass(frozen=True)
class Slide:
    """A spatial axis: its padded position is Σ coordinate · ``strides`` over the box and the taps."""

    strides: Shape
    before: int
    """Padding in front."""
    extent: Extent
    padded: bool
    """Whether a position may be in the padding."""


@dataclass(frozen=True)
class WindowSpec(ElementSpec):
    """result[p] = ``fold`` over the taps t of source[p, the position of p and t along each spatial axis]."""

    taps: tuple[int, ...]
    """The extents of the window; without any, each element covers one."""
    source: Access
    """Strides of the box, then of the spatial axes."""
    slides: tuple[Slide, ...]
    result: Access
    fold: Fold
    """How elements are folded; padding is its neutral element."""
    mean: bool
    """Whether the result is divided by the number of elements, without padding."""
    divisor: int | None
    """That number where it is always the same."""

    def element(self, k: Kernel, flat: Index) -> None:
        here = k.split(flat, self.box)
        if not self.taps:
            k.store(self._covered(k, here, [])[0], self.result, here)
            return
        zero = [k.constant(0, wide_element(signless(self.source.element)))] if self._counts else []

        def tap(number: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            value, inside = self._covered(k, here, k.split(number, self.taps))
            found = [self.fold.combine(k.b, carried[0], value)]
            for count in carried[1:]:
                one = k.constant(1, count.type)
                found.append(
                    k.op(arith.AddfOp(count, one if inside is None else k.op(arith.SelectOp(inside, one, zero[0]))))
                )
            return found

        total, *counts = k.loop(0, product(self.taps), 1, [self.fold.neutral(k), *zero], tap)
        if self.mean:
            count = counts[0] if counts else k.constant(self.divisor or 1, total.type)
            total = k.op(arith.DivfOp(total, count))
        k.store(total, self.result, here)

    @property
    def _counts(self) -> bool:
        """Whether elements are counted."""
        return self.mean and self.divisor is None

    def _covered(self, k: Kernel, here: Sequence[Index], taps: Sequence[Index]) -> tuple[SSAValue, SSAValue | None]:
        """What a tap covers, the fold's neutral element in the padding; and where it is not (None: nowhere)."""
        inside: SSAValue | None = None
        places: list[Index] = []
        for slide in self.slides:
            place = k.dot([*here, *taps], slide.strides)
            if slide.padded:
                # In front of the axis this is a very large number.
                place = k.i_sub(place, slide.before)
                within = k.i_less(place, slide.extent)
                inside = k.both(inside, within)
                place = k.op(arith.SelectOp(within, k.index(place), k.index(0)))
            places.append(place)
        value = k.load_wide(self.source, [*here, *places])
        return (value if inside is None else k.op(arith.SelectOp(inside, value, self.fold.neutral(k)))), inside


def _slides(window: Window, source: View, box: int, outputs: int, taps: int) -> list[Slide]:
    """Of a box and taps with so many axes, where window positions start at axis ``outputs`` and taps at ``taps``."""
    slides: list[Slide] = []
    rank = len(window.kernel)
    for axis in range(rank):
        strides = [0] * box
        strides[outputs + axis] = window.stride[axis]
        strides[taps + axis] = window.dilation[axis]
        before, after = window.padding[axis]
        slides.append(Slide(tuple(strides), before, source.shape[axis + 2], bool(before or after)))
    return slides


def _launch(
    h: Host,
    name: str,
    source: View,
    result: View,
    window: Window,
    fold: Fold,
    *,
    channels: Sequence[int],
    outputs: int,
    taps: int,
    mean: bool = False,
    divisor: int | None = None,
) -> None:
    """Launch a window over ``result``, viewed as a box.

    ``channels`` are the axes of the box that batch and channels are, ``outputs`` the first of the positions, ``taps``
    the first of the kernel's, which are behind the box where they are folded.
    """
    shape = result.shape
    folded = taps == len(shape)
    kernel = window.kernel if folded else ()
    slides = _slides(window, source, len(shape) + len(kernel), outputs, taps)
    own: list[Extent] = [0] * len(shape)
    for axis, place in enumerate(channels):
        own[place] = source.strides[axis]
    split = len(shape)
    box, (own_steps, result_steps, *steps) = coalesce(
        shape, [tuple(own), result.strides, *(s.strides[:split] for s in slides)]
    )
    operands = Operands()
    spec = WindowSpec(
        source=operands.access(source, (*own_steps, *source.strides[2:])),
        result=operands.access(result, result_steps),
        slots=operands.slots,
        box=box,
        taps=kernel,
        slides=tuple(
            Slide((*step, *s.strides[split:]), s.before, s.extent, s.padded)
            for step, s in zip(steps, slides, strict=True)
        ),
        fold=fold,
        mean=mean,
        divisor=divisor,
        threads=h.hardware.workgroup,
    )
    if product(shape) != 0:
        h.launch(name, spec, operands)


@lowers(PoolOp)
def pool(op: PoolOp, h: Host) -> None:
    source, result, kind, window = h.view(op.input), h.result(op.result), op.kind.data, op.window
    is_mean = kind is ReduceKind.MEAN
    always = op.count_include_pad is not None or not any(map(any, window.padding))
    _launch(
        h,
        f"pool_{kind}",
        source,
        result,
        window,
        Fold(COMBINES[kind], source.element),
        channels=(0, 1),
        outputs=2,
        taps=len(result.shape),
        mean=is_mean,
        divisor=math.prod(window.kernel) if is_mean and always else None,
    )


@lowers(Im2ColOp)
def im2col(op: Im2ColOp, h: Host) -> None:
    """[N·output…, C·kernel…] as the box [N, output…, C, kernel…]."""
    source, window, rank = h.view(op.input), op.window, op.spatial_rank
    result = h.result(op.result)
    outputs = [
        (extent + sum(pair) - span) // stride + 1
        for extent, pair, span, stride in zip(source.shape[2:], window.padding, window.span, window.stride, strict=True)
    ]
    box = h.reshape(result, (source.shape[0], *outputs, source.shape[1], *window.kernel))
    # The neutral element of a sum is what padding holds; of truth values, that of a maximum.
    kind = BinaryKind.MAX if source.element == i1 else BinaryKind.ADD
    _launch(
        h,
        "im2col",
        source,
        box,
        window,
        Fold(kind, source.element),
        channels=(0, 1 + rank),
        outputs=1,
        taps=2 + rank,
    )
