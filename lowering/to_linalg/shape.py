"""Shape operations: views and slices where there are such, loops that move elements for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.attributes import PadMode
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.arithmetic import constant
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent, Product
from rlx_dialect.lowering.to_linalg.tensors import Read, static_shape
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
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import Builder, InsertPoint

Index = Callable[[Builder, SSAValue], SSAValue]
"""The position on an axis that an element comes from, for the position that it goes to."""


@lowers(ReshapeOp)
def reshape(op: ReshapeOp, c: Conversion) -> SSAValue:
    x = c.value(op.input)
    total = c.symbols.of(c.extents(x))
    # What the result's type knows goes before the -1 of the attribute.
    known = [w if r == DYNAMIC else r for r, w in zip(shape_of(op.result), op.new_shape.get_values(), strict=True)]
    extents: list[Extent] = [_rest(c, total, known) if e == -1 else e for e in known]
    return c.reshape(x, extents)


def _rest(c: Conversion, total: Product, shape: Sequence[int]) -> Extent:
    """What is left of ``total`` elements for the one extent of ``shape`` that is -1."""
    known = c.symbols.of([e for e in shape if e != -1])
    rest = total.over(known)
    if rest is not None:
        return c.extent(rest)
    return c.op(arith.DivUIOp(c.index(c.extent(total)), c.index(known.number)))


@lowers(TransposeOp)
def transpose(op: TransposeOp, c: Conversion) -> SSAValue:
    return c.transpose(c.value(op.input), op.perm.get_values())


@lowers(NarrowOp)
def narrow(op: NarrowOp, c: Conversion) -> SSAValue:
    return c.narrow(c.value(op.input), op.axis_index, op.start.value.data, op.len.value.data)


@lowers(SliceOp)
def slice_(op: SliceOp, c: Conversion) -> SSAValue:
    x, axis, positions = c.value(op.input), op.axis_index, op.positions()
    if not positions:
        return c.narrow(x, axis, 0, 0)
    last = axis == len(c.extents(x)) - 1
    if positions.step == 1 or (positions.step > 0 and not last):
        return c.narrow(x, axis, positions.start, len(positions), positions.step)

    # IREE 3.13 does not compile what computes positions in a slice with steps along the last axis.
    def index(b: Builder, loop: SSAValue) -> SSAValue:
        steps = b.insert(arith.MuliOp(loop, constant(positions.step, IndexType(), b))).result
        return b.insert(arith.AddiOp(steps, constant(positions.start, IndexType(), b))).result

    extents = [len(positions) if a == axis else e for a, e in enumerate(c.extents(x))]
    return moved(c, x, extents, [index if a == axis else None for a in range(len(extents))])


def moved(c: Conversion, x: SSAValue, extents: Sequence[Extent], sources: Sequence[Index | None]) -> SSAValue:
    """A tensor of ``extents`` whose elements come from positions of ``x`` that are computed, axis by axis."""

    def position(b: Builder, loops: list[SSAValue]) -> list[SSAValue]:
        return [loop if index is None else index(b, loop) for loop, index in zip(loops, sources, strict=True)]

    return c.picked(extents, x, position)


def _reversed(c: Conversion, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    extents = c.extents(x)

    def from_the_end(extent: Extent) -> Index:
        def index(b: Builder, loop: SSAValue) -> SSAValue:
            one = constant(1, IndexType(), b)
            last = (
                constant(extent - 1, IndexType(), b)
                if isinstance(extent, int)
                else b.insert(arith.SubiOp(extent, one)).result
            )
            return b.insert(arith.SubiOp(last, loop)).result

        return index

    return moved(c, x, extents, [from_the_end(e) if a in axes else None for a, e in enumerate(extents)])


@lowers(ReverseOp)
def reverse(op: ReverseOp, c: Conversion) -> SSAValue:
    return _reversed(c, c.value(op.input), op.axis_indices)


@lowers(ConcatOp)
def concat(op: ConcatOp, c: Conversion) -> SSAValue:
    return c.concat([c.value(o) for o in op.inputs], op.axis_index)


@lowers(ExpandOp)
def expand(op: ExpandOp, c: Conversion) -> SSAValue:
    x = c.value(op.input)
    own = c.extents(x)
    shape = shape_of(op.result)
    target = op.target.get_values()
    padded = [1] * (len(shape) - len(own)) + list(own)
    loops = [s if s != DYNAMIC else h if t == -1 else t for s, t, h in zip(shape, target, padded, strict=True)]
    return c.elementwise(loops, [x], element_of(x), lambda _, elements: elements[0])


@lowers(TileOp)
def tile(op: TileOp, c: Conversion) -> SSAValue:
    """Loops [r0, d0, r1, d1, …] whose repetitions the operand does not see, then a view."""
    x, reps = c.value(op.input), op.reps.get_values()
    own = c.extents(x)
    loops: list[Extent] = []
    access: list[int] = []
    for repetitions, extent in zip(reps, own, strict=True):
        if repetitions != 1:
            loops.append(repetitions)
        access.append(len(loops))
        loops.append(extent)
    extents = [c.extent(c.symbols.of([r, e])) for r, e in zip(reps, own, strict=True)]
    repeated = c.elementwise(loops, [Read(x, tuple(access))], element_of(x), lambda _, elements: elements[0])
    return c.reshape(repeated, extents)


@lowers(TriluOp)
def trilu(op: TriluOp, c: Conversion) -> SSAValue:
    x = c.value(op.input)
    loops, element = c.extents(x), element_of(x)
    rank, upper = len(loops), op.upper is not None

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        row, column = (b.insert(linalg.IndexOp(axis)).result for axis in (rank - 2, rank - 1))
        distance = b.insert(arith.SubiOp(column, row)).result
        diagonal = constant(op.diagonal.value.data, IndexType(), b)
        kept = b.insert(arith.CmpiOp(distance, diagonal, "sge" if upper else "sle")).result
        return b.insert(arith.SelectOp(kept, elements[0], constant(0, element, b))).result

    return c.elementwise(loops, [x], element, body)


@lowers(RollOp)
def roll(op: RollOp, c: Conversion) -> SSAValue:
    x = c.value(op.input)
    for shift, axis in zip(op.shifts.get_values(), op.axis_indices, strict=True):
        extent = c.extents(x)[axis]
        if not isinstance(extent, int):
            x = _rolled_dynamically(c, x, axis, shift)
        elif extent and shift % extent:
            split = extent - shift % extent
            x = c.concat([c.narrow(x, axis, split, extent - split), c.narrow(x, axis, 0, split)], axis)
    return x


def _rolled_dynamically(c: Conversion, x: SSAValue, axis: int, shift: int) -> SSAValue:
    extents = c.extents(x)
    extent = c.index(extents[axis])

    def index(b: Builder, loop: SSAValue) -> SSAValue:
        back = b.insert(arith.RemSIOp(constant(shift, IndexType(), b), extent)).result
        place = b.insert(arith.AddiOp(b.insert(arith.SubiOp(loop, back)).result, extent)).result
        return b.insert(arith.RemSIOp(place, extent)).result

    return moved(c, x, extents, [index if a == axis else None for a in range(len(extents))])


@lowers(PadOp)
def pad(op: PadOp, c: Conversion) -> SSAValue:
    x, pairs = c.value(op.input), op.pairs()
    for axis, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            kept = c.add_extents(c.extents(x)[axis], min(before, 0) + min(after, 0))
            x = c.narrow(x, axis, max(-before, 0), kept)
    width = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if op.mode.data is PadMode.CONSTANT:
        return padded(c, x, width, op.value.value.data)
    extents = [c.add_extents(e, sum(pair)) for e, pair in zip(c.extents(x), width, strict=True)]
    sources = [
        _mirrored(op.mode.data, before, extent) if before or after else None
        for extent, (before, after) in zip(c.extents(x), width, strict=True)
    ]
    return moved(c, x, extents, sources)


def padded(c: Conversion, x: SSAValue, width: Sequence[tuple[int, Extent]], value: float) -> SSAValue:
    """``x`` with ``width`` more elements (before, after) on each axis, all ``value``."""
    if all(pair == (0, 0) for pair in width):
        return x
    element = element_of(x)
    extents = [
        c.add_extents(c.add_extents(e, before), after) for e, (before, after) in zip(c.extents(x), width, strict=True)
    ]
    block = Block(arg_types=[IndexType()] * len(width))
    scalar = constant(value, element, c.b)
    Builder(InsertPoint.at_end(block)).insert(tensor.YieldOp(scalar))
    low, high = zip(*width, strict=True)
    type = TensorType(element, static_shape(extents))
    return c.made(tensor.PadOp(x, [], c.dynamic(high), Region(block), low, static_shape(high), type), extents)


def _mirrored(mode: PadMode, before: int, extent: Extent) -> Index:
    """Where an element of a padded axis comes from in reflect, edge and wrap mode."""

    def index(b: Builder, loop: SSAValue) -> SSAValue:
        def number(value: Extent) -> SSAValue:
            return constant(value, IndexType(), b) if isinstance(value, int) else value

        def minus(x: SSAValue, y: SSAValue) -> SSAValue:
            return b.insert(arith.SubiOp(x, y)).result

        own = minus(loop, number(before))
        zero, last = number(0), minus(number(extent), number(1))
        if mode is PadMode.EDGE:
            return b.insert(arith.MinSIOp(b.insert(arith.MaxSIOp(own, zero)).result, last)).result
        low = b.insert(arith.CmpiOp(own, zero, "slt")).result
        high = b.insert(arith.CmpiOp(own, last, "sgt")).result
        if mode is PadMode.REFLECT:
            below, above = minus(zero, own), minus(b.insert(arith.AddiOp(last, last)).result, own)
        else:
            below, above = b.insert(arith.AddiOp(own, number(extent))).result, minus(own, number(extent))
        return b.insert(arith.SelectOp(low, below, b.insert(arith.SelectOp(high, above, own)).result)).result

    return index
