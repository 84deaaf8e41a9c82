"""Operations that move, repeat or select elements by static positions."""

from __future__ import annotations

from rlx_dialect.attributes import PadMode
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_integer
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import dtype, number, tuple_text
from rlx_dialect.lowering.to_mlx.writer import Writer, static_or_none
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


@lowers(ReshapeOp)
def reshape(op: ReshapeOp, w: Writer) -> str:
    target = static_or_none(op.result) or op.new_shape.get_values()
    if static_or_none(op.result) == ():
        target = ()
    if target.count(-1) and 0 in target:
        # MLX finds no extent of what has no elements.
        target = [0 if extent == -1 else extent for extent in target]
    return f"mx.reshape({w.value(op.input)}, {tuple_text(target)})"


@lowers(TransposeOp)
def transpose(op: TransposeOp, w: Writer) -> str:
    return f"mx.transpose({w.value(op.input)}, {tuple_text(op.perm.get_values())})"


def along(name: str, axis: int, part: str) -> str:
    """``part`` of one axis and everything else."""
    return f"{name}[{', '.join([*[':'] * axis, part])}]"


@lowers(NarrowOp)
def narrow(op: NarrowOp, w: Writer) -> str:
    start = op.start.value.data
    return along(w.value(op.input), op.axis_index, f"{start or ''}:{start + op.len.value.data}")


@lowers(SliceOp)
def slice_(op: SliceOp, w: Writer) -> str:
    positions = op.positions()
    if not positions:
        return along(w.value(op.input), op.axis_index, "0:0")
    end = positions[-1] + (1 if positions.step > 0 else -1)
    return along(w.value(op.input), op.axis_index, f"{positions[0]}:{'' if end < 0 else end}:{positions.step}")


@lowers(ConcatOp)
def concat(op: ConcatOp, w: Writer) -> str:
    return f"mx.concatenate([{', '.join(w.values(op.inputs))}], axis={op.axis_index})"


@lowers(ExpandOp)
def expand(op: ExpandOp, w: Writer) -> str:
    target = op.target.get_values()
    missing = len(target) - len(op.shape(0))
    shape = [w.extent(op.input, axis - missing) if extent == -1 else extent for axis, extent in enumerate(target)]
    return f"mx.broadcast_to({w.value(op.input)}, {tuple_text(shape)})"


@lowers(ReverseOp)
def reverse(op: ReverseOp, w: Writer) -> str:
    axes = op.axis_indices
    return f"mx.flip({w.value(op.input)}, {tuple_text(axes)})" if axes else w.value(op.input)


@lowers(PadOp)
def pad(op: PadOp, w: Writer) -> str:
    x, pairs, mode = w.value(op.input), op.pairs(), op.mode.data
    if any(p < 0 for pair in pairs for p in pair):
        parts = [f"{max(-a, 0) or ''}:{_end(w, op, axis, b)}" for axis, (a, b) in enumerate(pairs)]
        x = w.let("kept", f"{x}[{', '.join(parts)}]")
    added = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not any(a or b for a, b in added):
        return x
    if mode is PadMode.CONSTANT:
        element = element_of(op.input)
        value = int(op.value.value.data) if is_integer(element) else op.value.value.data
        return f"mx.pad({x}, {tuple_text(added)}, constant_values=mx.array({number(value, element)}, {dtype(element)}))"
    if mode is PadMode.EDGE:
        return f'mx.pad({x}, {tuple_text(added)}, mode="edge")'
    helper = "mirrored" if mode is PadMode.REFLECT else "wrapped"
    for axis, (before, after) in enumerate(added):
        if before or after:
            x = w.let("padded", w.call(helper, x, axis, before, after))
    return x


def _end(w: Writer, op: PadOp, axis: int, after: int) -> str:
    """Where the part that a negative pad leaves ends; empty for the end of the axis."""
    if after >= 0:
        return ""
    extent = op.shape(0)[axis]
    return f"{w.extent(op.input, axis)} - {-after}" if extent == DYNAMIC else str(extent + after)


@lowers(TileOp)
def tile(op: TileOp, w: Writer) -> str:
    return f"mx.tile({w.value(op.input)}, {tuple_text(op.reps.get_values())})"


@lowers(TriluOp)
def trilu(op: TriluOp, w: Writer) -> str:
    function = "mx.tril" if op.upper is None else "mx.triu"
    diagonal = op.diagonal.value.data
    return f"{function}({w.value(op.input)}{f', {diagonal}' if diagonal else ''})"


@lowers(RollOp)
def roll(op: RollOp, w: Writer) -> str:
    x, shifts, axes = w.value(op.input), op.shifts.get_values(), op.axis_indices
    if not axes or 0 in shape_of(op.input):
        return x
    return f"mx.roll({x}, {tuple_text(shifts)}, {tuple_text(axes)})"
