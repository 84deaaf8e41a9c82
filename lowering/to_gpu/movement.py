"""Shape operations: most only change how a value is addressed; what strides cannot say is copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith

from rlx_dialect.attributes import PadMode
from rlx_dialect.dtypes import is_float
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.elements import ElementSpec
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, Sym, product
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import MOVE, Access, Kernel, Operands
from rlx_dialect.lowering.to_gpu.shapes import Check
from rlx_dialect.lowering.to_gpu.views import Literal, View
from rlx_dialect.ops.convolution import ResizeNearest2xOp
from rlx_dialect.ops.elementwise import StopGradientOp
from rlx_dialect.ops.indexing import KvAppendOp
from rlx_dialect.ops.region import TransformRegionOp
from rlx_dialect.ops.shape import (
    ConcatOp,
    ExpandOp,
    NarrowOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    RollOp,
    SliceOp,
    TileOp,
    TransposeOp,
    TriluOp,
)


@lowers(ReshapeOp)
def reshape(op: ReshapeOp, h: Host) -> None:
    h.set(op.result, h.reshape(h.view(op.input), h.shape(op.result)))


@lowers(TransposeOp)
def transpose(op: TransposeOp, h: Host) -> None:
    h.set(op.result, h.view(op.input).transpose(op.perm.get_values()))


def _check_end(h: Host, extent: Extent, end: Extent, name: str) -> None:
    """See to it that ``end`` is within an axis."""
    h.check(Check(extent, end, f"{name}: position {end} is beyond extent {extent}", "sge"))


@lowers(NarrowOp)
def narrow(op: NarrowOp, h: Host) -> None:
    _check_end(h, h.shape(op.input)[op.axis_index], op.start.value.data + op.len.value.data, op.name)
    h.set(op.result, h.view(op.input).slice(op.axis_index, op.start.value.data, op.len.value.data))


@lowers(SliceOp)
def strided_slice(op: SliceOp, h: Host) -> None:
    positions = op.positions()
    if positions:
        _check_end(h, h.shape(op.input)[op.axis_index], max(positions) + 1, op.name)
    h.set(op.result, h.view(op.input).slice(op.axis_index, positions.start, len(positions), positions.step))


@lowers(ExpandOp)
def expand(op: ExpandOp, h: Host) -> None:
    h.set(op.result, h.view(op.input).broadcast(h.shape(op.result)))


@lowers(StopGradientOp)
def stop_gradient(op: StopGradientOp, h: Host) -> None:
    h.set(op.result, h.view(op.input))


def reversed_along(view: View, axis: int) -> View:
    extent = view.shape[axis]
    # Where there is no last element, nothing is read.
    return view.slice(axis, extent - 1 if isinstance(extent, Sym) else max(extent - 1, 0), extent, -1)


@lowers(ReverseOp)
def reverse(op: ReverseOp, h: Host) -> None:
    view = h.view(op.input)
    for axis in op.axis_indices:
        view = reversed_along(view, axis)
    h.set(op.result, view)


def concatenated(h: Host, parts: Sequence[View], axis: int, name: str | None) -> View:
    """A dense value of the parts one after the other along ``axis``."""
    first = parts[0].shape
    extent: Extent = 0
    for part in parts:
        extent = extent + part.shape[axis]
    result = h.new(parts[0].element, (*first[:axis], extent, *first[axis + 1 :]), name)
    h.launch_maps("concat", [([part], [target]) for part, target in side_by_side(parts, result, axis)], MOVE)
    return result


def side_by_side(parts: Sequence[View], result: View, axis: int) -> Iterator[tuple[View, View]]:
    """The parts and the places for them in ``result``, one after the other along ``axis``.

    Both have one more axis in front: parts that lie evenly spaced in one buffer are one view.
    """
    start: Extent = 0
    for part, count in _runs(parts):
        length = part.shape[axis + 1]
        target = result.slice(axis, start, count * length)
        split = target.reshape((*target.shape[:axis], count, length, *target.shape[axis + 1 :]))
        assert split is not None
        yield part, split.transpose([axis, *(a for a in range(len(split.shape)) if a != axis)])
        start = start + count * length


def _runs(parts: Sequence[View]) -> Iterator[tuple[View, int]]:
    """Neighbouring parts that lie evenly spaced in one buffer, as one view with an axis in front, and their number.

    Repeating the heads of grouped attention concatenates many slices of one value.
    """
    first = 0
    while first < len(parts):
        start, last = parts[first], first + 1
        step = parts[last].offset - start.offset if last < len(parts) else 0
        while last < len(parts) and parts[last] == replace(start, offset=start.offset + (last - first) * step):
            last += 1
        count = last - first
        yield replace(start, shape=(count, *start.shape), strides=(step, *start.strides)), count
        first = last


@lowers(ConcatOp)
def concat(op: ConcatOp, h: Host) -> None:
    h.set(op.result, concatenated(h, [h.view(o) for o in op.inputs], op.axis_index, op.result.name_hint))


@lowers(RollOp)
def roll(op: RollOp, h: Host) -> None:
    view = h.view(op.input)
    for shift, axis in zip(op.shifts.get_values(), op.axis_indices, strict=True):
        extent = view.shape[axis]
        moved = shift % extent if extent else 0
        if moved:
            parts = [view.slice(axis, extent - moved, moved), view.slice(axis, 0, extent - moved)]
            view = concatenated(h, parts, axis, op.result.name_hint)
    h.set(op.result, view)


@lowers(KvAppendOp)
def kv_append(op: KvAppendOp, h: Host) -> None:
    cache, update = h.view(op.cache), h.view(op.update)
    axis, start = op.axis_index, op.pos.value.data
    end = start + update.shape[axis]
    _check_end(h, cache.shape[axis], end, op.name)
    rest = cache.slice(axis, end, cache.shape[axis] - end)
    h.set(op.result, concatenated(h, [cache.slice(axis, 0, start), update, rest], axis, op.result.name_hint))


@lowers(TileOp)
def tile(op: TileOp, h: Host) -> None:
    view = h.view(op.input)
    once = view.reshape([e for extent in view.shape for e in (1, extent)])
    assert once is not None
    repeated = once.broadcast([e for pair in zip(op.reps.get_values(), view.shape, strict=True) for e in pair])
    h.set(op.result, h.reshape(repeated, h.shape(op.result)))


@lowers(PadOp)
def pad(op: PadOp, h: Host) -> None:
    view, pairs = h.view(op.input), op.pairs()
    for axis, (before, after) in enumerate(pairs):
        removed = max(-before, 0)
        view = view.slice(axis, removed, view.shape[axis] - removed - max(-after, 0))
    if op.mode.data is PadMode.CONSTANT:
        result = h.result(op.result)
        value = op.value.value.data
        number = value if is_float(view.element) else int(value)
        h.copy(View(Literal(number), view.element, (), ()), result)
        inner = result
        for axis, (before, _) in enumerate(pairs):
            inner = inner.slice(axis, max(before, 0), view.shape[axis])
        h.copy(view, inner)
        return
    for axis, (before, after) in enumerate(pairs):
        sides = _border(view, axis, op.mode.data, max(before, 0), max(after, 0))
        if any(s.shape[axis] for s in sides):
            view = concatenated(h, [sides[0], view, sides[1]], axis, op.result.name_hint)
    h.set(op.result, view)


def _border(view: View, axis: int, mode: PadMode, before: int, after: int) -> tuple[View, View]:
    """What a padding that is not constant puts before and after ``view`` along ``axis``."""
    extent = view.shape[axis]
    if mode is PadMode.REFLECT:
        # The mirror is the edge itself, which does not occur twice.
        return view.slice(axis, before, before, -1), view.slice(axis, extent - 2, after, -1)
    if mode is PadMode.WRAP:
        return view.slice(axis, extent - before, before), view.slice(axis, 0, after)

    def edge(at: Extent, count: int) -> View:
        return view.slice(axis, at, 1).broadcast((*view.shape[:axis], count, *view.shape[axis + 1 :]))

    return edge(0, before), edge(extent - 1, after)


def resized_box(shape: Shape, times: int = 2) -> Shape:
    """[…, H, times, W, times] for the result shape […, times·H, times·W] of a resize."""
    *outer, height, width = shape
    return (*outer, height // times, times, width // times, times)


def resized(view: View, times: int = 2) -> View:
    """[…, H, W] read as the :func:`resized_box` of its resize: each element ``times``² times."""
    *outer, height, width = view.shape
    single = view.reshape((*outer, height, 1, width, 1))
    assert single is not None
    return single.broadcast((*outer, height, times, width, times))


@lowers(ResizeNearest2xOp, TransformRegionOp)
def resize(op: ResizeNearest2xOp | TransformRegionOp, h: Host) -> None:
    result = h.result(op.result)
    times = 2 ** len(op.steps) if isinstance(op, TransformRegionOp) else 2
    h.copy(resized(h.view(op.input), times), h.reshape(result, resized_box(result.shape, times)))


_FAR = 1 << 30
"""A diagonal beyond all corners whose numbers an index holds."""


@dataclass(frozen=True)
class TriangleSpec(ElementSpec):
    """A triangle of the last two axes of ``box``, zero elsewhere."""

    source: Access
    result: Access
    upper: bool
    diagonal: int

    def element(self, k: Kernel, flat: Index) -> None:
        coordinates = k.split(k.index(flat), self.box)
        row, column = coordinates[-2:]
        # column - row < limit, without negative numbers; the upper triangle is what is left at its own limit.
        limit = self.diagonal + (0 if self.upper else 1)
        below = k.i_less(k.i_add(column, max(-limit, 0)), k.i_add(row, max(limit, 0)))
        value = k.load(self.source, coordinates)
        zero = k.constant(0, value.type)
        kept = (zero, value) if self.upper else (value, zero)
        k.store(k.op(arith.SelectOp(below, *kept)), self.result, coordinates)


@lowers(TriluOp)
def trilu(op: TriluOp, h: Host) -> None:
    source, result = h.view(op.input), h.result(op.result)
    operands = Operands()
    accesses = operands.access(source), operands.access(result)
    upper, (rows, columns) = op.upper is not None, source.shape[-2:]
    # Beyond the corners all diagonals are alike, and indices are narrow.
    most = columns if isinstance(columns, int) else _FAR
    least = -rows if isinstance(rows, int) else -_FAR
    diagonal = min(max(op.diagonal.value.data, least), most)
    spec = TriangleSpec(operands.slots, source.shape, h.hardware.workgroup, *accesses, upper, diagonal)
    if product(source.shape):
        h.launch("trilu", spec, operands)
