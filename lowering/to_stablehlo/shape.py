"""Operations that move, repeat or select elements by static positions."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from rlx_dialect.attributes import PadMode
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, lowers
from rlx_dialect.lowering.to_stablehlo.tensors import Extent, Tensors
from rlx_dialect.ops.convolution import ResizeNearest2xOp
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
from rlx_dialect.shapes import product


@lowers(ReshapeOp)
def reshape(op: ReshapeOp, c: Conversion) -> SSAValue:
    wanted, own = op.new_shape.get_values(), c.extents(op.input)
    known = product(d for d in wanted if d != -1)
    left = c.over(c.count(own), known) if -1 in wanted else 0
    return c.reshape(op.input, [left if d == -1 else d for d in wanted])


@lowers(TransposeOp)
def transpose(op: TransposeOp, c: Conversion) -> SSAValue:
    return c.transpose(op.input, op.perm.get_values())


@lowers(NarrowOp)
def narrow(op: NarrowOp, c: Conversion) -> SSAValue:
    return c.narrow(op.input, op.axis_index, op.start.value.data, op.len.value.data)


@lowers(SliceOp)
def slice_(op: SliceOp, c: Conversion) -> SSAValue:
    axis, positions = op.axis_index, op.positions()
    if not positions:
        return c.narrow(op.input, axis, 0, 0)
    if positions.step > 0:
        return c.narrow(op.input, axis, positions[0], len(positions), positions.step)
    taken = c.narrow(op.input, axis, positions[-1], len(positions), -positions.step)
    return c.reverse(taken, [axis])


@lowers(ConcatOp)
def concat(op: ConcatOp, c: Conversion) -> SSAValue:
    return c.concat(op.inputs, op.axis_index)


@lowers(ExpandOp)
def expand(op: ExpandOp, c: Conversion) -> SSAValue:
    target, own = op.target.get_values(), c.extents(op.input)
    padded: list[Extent] = [*[1] * (len(target) - len(own)), *own]
    return c.broadcast_to(op.input, [e if t == -1 else t for t, e in zip(target, padded, strict=True)])


@lowers(ReverseOp)
def reverse(op: ReverseOp, c: Conversion) -> SSAValue:
    return c.reverse(op.input, op.axis_indices)


@lowers(PadOp)
def pad(op: PadOp, c: Conversion) -> SSAValue:
    if op.mode.data is PadMode.CONSTANT:
        value = op.value.value.data
        return c.pad(op.input, op.pairs(), value)
    x = c.pad(op.input, [(min(p, 0), min(q, 0)) for p, q in op.pairs()], 0)
    for axis, (before, after) in enumerate(op.pairs()):
        x = _continued(c, x, axis, max(before, 0), max(after, 0), op.mode.data)
    return x


def _continued(c: Tensors, x: SSAValue, axis: int, before: int, after: int, mode: PadMode) -> SSAValue:
    """``x`` with elements of its own put before and after along ``axis``."""
    extent = c.extents(x)[axis]
    parts: list[SSAValue] = []
    for count, is_before in ((before, True), (after, False)):
        if is_before and count == 0:
            parts.append(x)
            continue
        if count == 0:
            continue
        match mode:
            case PadMode.REFLECT:
                part = _turned_from(c, x, axis, 1 if is_before else c.minus(extent, count + 1), count)
            case PadMode.WRAP:
                part = _taken(c, x, axis, c.minus(extent, count) if is_before else 0, count)
            case _:
                edge = _taken(c, x, axis, 0 if is_before else c.minus(extent, 1), 1)
                own = list(c.extents(edge))
                part = c.broadcast_to(edge, [*own[:axis], count, *own[axis + 1 :]])
        parts += [part, x] if is_before else [part]
    return parts[0] if len(parts) == 1 else c.concat(parts, axis)


def _turned_from(c: Tensors, x: SSAValue, axis: int, start: Extent, count: int) -> SSAValue:
    return c.reverse(_taken(c, x, axis, start, count), [axis])


def _taken(c: Tensors, x: SSAValue, axis: int, start: Extent, count: Extent) -> SSAValue:
    """``count`` elements from ``start`` on, which may be computed."""
    own = list(c.extents(x))
    starts: list[Extent] = [start if a == axis else 0 for a in range(len(own))]
    return c.slice(x, starts, [*own[:axis], count, *own[axis + 1 :]])


@lowers(TileOp)
def tile(op: TileOp, c: Conversion) -> SSAValue:
    """[1, d0, 1, d1, …] broadcast to [r0, d0, r1, d1, …], seen as [r0·d0, r1·d1, …]."""
    own, reps = c.extents(op.input), op.reps.get_values()
    split: list[Extent] = []
    spread: list[Extent] = []
    for extent, count in zip(own, reps, strict=True):
        split += [1, extent]
        spread += [count, extent]
    whole = c.broadcast_to(c.reshape(op.input, split), spread)
    return c.reshape(whole, [c.times(e, r) for e, r in zip(own, reps, strict=True)])


@lowers(TriluOp)
def trilu(op: TriluOp, c: Conversion) -> SSAValue:
    return triangle(c, op.input, op.diagonal.value.data, upper=op.upper is not None)


def triangle(c: Tensors, x: SSAValue, diagonal: int, *, upper: bool) -> SSAValue:
    """A triangle of the last two axes, zero elsewhere; see :class:`rlx_dialect.ops.shape.TriluOp`."""
    matrix, rank = c.extents(x)[-2:], len(c.extents(x))
    most = 2**31 - 1  # The positions are of i32.
    distance = c.same("subtract", c.iota(matrix, 1, i32), c.iota(matrix, 0, i32))
    number = c.like(distance, max(-most, min(diagonal, most)))
    kept = c.compare("GE" if upper else "LE", distance, number)
    kept = c.broadcast(kept, [rank - 2, rank - 1], c.extents(x))
    return c.same("select", kept, x, c.like(x, 0))


@lowers(RollOp)
def roll(op: RollOp, c: Conversion) -> SSAValue:
    x = op.input
    for axis, shift in zip(op.axis_indices, op.shifts.get_values(), strict=True):
        x = _rolled(c, x, axis, shift)
    return x


def _rolled(c: Tensors, x: SSAValue, axis: int, shift: int) -> SSAValue:
    extent = c.extents(x)[axis]
    if isinstance(extent, int):
        first = extent - shift % extent if extent else 0
        if first == extent:
            return x
        return c.concat([c.narrow(x, axis, first, extent - first), c.narrow(x, axis, 0, first)], axis)
    # The shift modulo the extent: twice the operand holds every roll of it.
    double = c.concat([x, x], axis)
    shifted = c.op("remainder", [c.scalar(shift, i32), extent], extent.type)
    wrapped = c.op("remainder", [c.op("add", [shifted, extent], extent.type), extent], extent.type)
    return _taken(c, double, axis, c.minus(extent, wrapped), extent)


@lowers(ResizeNearest2xOp)
def resize_nearest_2x(op: ResizeNearest2xOp, c: Conversion) -> SSAValue:
    """[N, C, H, W] broadcast to [N, C, H, 2, W, 2]."""
    n, channels, height, width = c.extents(op.input)
    doubled = c.broadcast(op.input, [0, 1, 2, 4], [n, channels, height, 2, width, 2])
    return c.reshape(doubled, [n, channels, c.times(height, 2), c.times(width, 2)])
