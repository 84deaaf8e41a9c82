"""Rotary position embedding in primitives becomes ``rlx.rope``.

Before, with the halves of x turned against each other (style neox; there are other spellings)::

    %x1 = rlx.narrow %x {axis = 3, start = 0, len = 4}     : …
    %x2 = rlx.narrow %x {axis = 3, start = 4, len = 4}     : …
    %n2 = rlx.activation neg %x2                           : …
    %turned = rlx.concat %n2, %x1 {axis = 3}               : …
    %a = rlx.binary mul %x, %cos                           : …
    %b = rlx.binary mul %turned, %sin                      : …
    %y = rlx.binary add %a, %b                             : …

After::

    %y = rlx.rope %x, %cos, %sin {head_dim = 8, layout = bhsd} : …

Tables of all lanes, as above, are right only if both lanes of a pair have the same numbers there: one value
concatenated with itself or repeated, or constants that are so, with functions of each element in between. Tables have
a row for each index of the sequence, and which axis of x that is, they tell by their extents of 1. Numerics: ``wider``;
a·c + (-b)·s is a·c - b·s to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import ActivationKind, AttentionLayout, BinaryKind, RopeStyle
from rlx_dialect.base import element_of, rank_of, shape_of
from rlx_dialect.ops.attention import RopeOp
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.shape import ConcatOp, ExpandOp, NarrowOp, ReshapeOp, SliceOp, TileOp, TransposeOp
from rlx_dialect.passes.canonical._attention_forms import SWAP, erase_dead_chain
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import defining, one_use, orders
from rlx_dialect.shapes import DYNAMIC, Shape, is_static, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

_LAYOUTS = {(4, 1): AttentionLayout.BSHD, (4, 2): AttentionLayout.BHSD, (3, 1): AttentionLayout.BSD}
"""By rank of x and axis of the sequence."""


Part = tuple[SSAValue, range]
"""Positions of the last axis of a value."""


@dataclass(frozen=True)
class RotaryMatch(Match):
    root: Operation
    x: Part
    cos: SSAValue
    sin: SSAValue
    layout: AttentionLayout
    style: RopeStyle
    lanes: int
    """Of each head."""
    paired: bool
    """Whether the tables [.., D/2, 1] are for pairs in an axis of their own."""


class RotaryPattern(FusionPattern[Any, RotaryMatch]):
    """Base of the spellings: how a match is replaced."""

    numerics = Numerics.WIDER

    def rewrite(self, match: RotaryMatch, rewriter: PatternRewriter, /) -> None:
        rewriter.insertion_point = InsertPoint.before(match.root)
        value, positions = match.x
        cos, sin = (_rows(match, table, rewriter) for table in (match.cos, match.sin))
        before = list(match.root.operands)
        if len(positions) != shape_of(value)[-1]:
            value = rewriter.insert(NarrowOp(value, rank_of(value) - 1, positions.start, len(positions))).result
        rope = RopeOp(value, cos, sin, head_dim=match.lanes, layout=match.layout, style=match.style)
        rewriter.replace(match.root, rope)
        for value in before:
            erase_dead_chain(rewriter, value)


def _rows(match: RotaryMatch, table: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """``table`` with its extents of 1 dropped, [S, ≥ D/2], and one column for each pair."""
    shape = shape_of(table)
    if match.paired:
        shape = shape[:-1]
    rows, width = max(shape[:-1], default=1), shape[-1]
    if shape_of(table) != (rows, width):
        table = rewriter.insert(ReshapeOp(table, [rows, width])).result
    if match.style is RopeStyle.GPTJ and width == match.lanes:
        table = rewriter.insert(SliceOp(table, 1, 0, width // 2, 2)).result
    return table


class TurnedHalves(RotaryPattern):
    """x·cos + turned(x)·sin, where turned(x) are the pairs (a, b) of x as (-b, a)."""

    root = BinaryOp

    def check(self, op: BinaryOp, /) -> RotaryMatch | Miss | None:
        if op.kind.data is not BinaryKind.ADD:
            return None
        for plain, other in orders(op):
            left, right = (_product(value) for value in (plain, other))
            if left is None or right is None:
                continue
            for turned, sin in orders(right):
                found = _turned(turned)
                if found is None:
                    continue
                x, style, inner = found
                for same, cos in orders(left):
                    if _whole(same) == x or _part(same) == x:
                        return _rotation(op, [left.result, right.result, turned, *inner], x, cos, sin, style)
        return None


def _product(value: SSAValue) -> BinaryOp | None:
    op = defining(value, BinaryOp)
    return op if op is not None and op.kind.data is BinaryKind.MUL else None


def _whole(value: SSAValue) -> Part:
    return value, range(shape_of(value)[-1])


def _turned(value: SSAValue) -> tuple[Part, RopeStyle, list[SSAValue]] | None:
    """The x whose pairs (a, b) are (-b, a) in ``value``, their style, and what must not be used again in between."""
    concat = defining(value, ConcatOp)
    if concat is not None and concat.axis_index == rank_of(value) - 1 and len(concat.inputs) == 2:
        pair = _negated_and_plain(concat.inputs)
        if pair is None:
            return None
        parts = [_part(value) for value in pair]
        if None in parts or shape_of(concat.inputs[0])[-1] == DYNAMIC:
            return None
        (b, b_at), (a, a_at) = (part for part in parts if part is not None)
        x = _adjacent((a, a_at), (b, b_at))
        return None if x is None else (x, RopeStyle.NEOX, [concat.inputs[0]])
    flat = defining(value, ReshapeOp)
    stack = defining(flat.input, ConcatOp) if flat is not None else None
    if stack is None or not _flattens_last(stack.result, value) or len(stack.inputs) != 2:
        return None
    if stack.axis_index != rank_of(stack.result) - 1:
        return None
    return _turned_pairs(stack, value)


def _adjacent(a: Part, b: Part) -> Part | None:
    """Two parts of one value as one, where they are as long and the second follows the first."""
    half = len(a[1])
    both = range(a[1].start, a[1].start + 2 * half)
    return (a[0], both) if half and a[0] is b[0] and (a[1], b[1]) == (both[:half], both[half:]) else None


def _turned_pairs(stack: ConcatOp, value: SSAValue) -> tuple[Part, RopeStyle, list[SSAValue]] | None:
    """Of style gptj: [.., D/2, 1] and [.., D/2, 1] side by side, cut from x or given an axis after a slice of it."""
    pair = _negated_and_plain(stack.inputs)
    if pair is None:
        pair = _negated_and_plain([_before_unsqueeze(part) for part in stack.inputs])
    if pair is None:
        return None
    parts = [_part(_before_unsqueeze(part)) for part in pair]
    if None in parts:
        return None
    (b, b_at), (a, a_at) = (part for part in parts if part is not None)
    lanes = shape_of(value)[-1]
    if lanes == DYNAMIC or a is not b:
        return None
    if (a_at, b_at) == (range(0, lanes, 2), range(1, lanes + 1, 2)) and shape_of(a) == shape_of(value):
        return _whole(a), RopeStyle.GPTJ, [stack.result, stack.inputs[0]]
    split = defining(a, ReshapeOp)
    if split is not None and (a_at, b_at) == (range(1), range(1, 2)) and _flattens_last(a, split.input):
        return _whole(split.input), RopeStyle.GPTJ, [stack.result, stack.inputs[0]]
    return None


def _negated_and_plain(values: Sequence[SSAValue]) -> tuple[SSAValue, SSAValue] | None:
    negated = defining(values[0], ActivationOp)
    if negated is None or negated.kind.data is not ActivationKind.NEG:
        return None
    return negated.input, values[1]


def _before_unsqueeze(value: SSAValue) -> SSAValue:
    """What ``value`` is with an axis of extent 1 behind; itself where it is not made so."""
    op = defining(value, ReshapeOp)
    return op.input if op is not None and (*shape_of(op.input), 1) == shape_of(value) else value


def _part(value: SSAValue) -> Part | None:
    """The value of whose last axis ``value`` is a part, and the positions."""
    op = defining(value, (NarrowOp, SliceOp))
    if op is None or op.axis_index != rank_of(value) - 1:
        return None
    if isinstance(op, SliceOp):
        positions = op.positions()
        return op.input, range(positions.start, positions.stop, positions.step)
    start = op.start.value.data
    return op.input, range(start, start + op.len.value.data)


def _flattens_last(pairs: SSAValue, flat: SSAValue) -> bool:
    """Whether ``flat`` [.., D] has the elements of ``pairs`` [.., D/2, 2], as a reshape between them keeps them."""
    a, b = shape_of(pairs), shape_of(flat)
    # Of two unknown extents it is not known which is which.
    return (*a[:-2], 2 * a[-2], 2) == (*b, *a[-1:]) and a[-2] != DYNAMIC and a.count(DYNAMIC) <= 1


class CombinedHalves(RotaryPattern):
    """a·cos - b·sin and b·cos + a·sin, one behind the other (neox) or side by side (gptj)."""

    root = (ConcatOp, ReshapeOp)

    def check(self, op: ConcatOp | ReshapeOp, /) -> RotaryMatch | Miss | None:
        concat = op if isinstance(op, ConcatOp) else defining(op.input, ConcatOp)
        if concat is None or len(concat.inputs) != 2 or concat.axis_index != rank_of(concat.result) - 1:
            return None
        found = _combined(concat)
        if found is None:
            return None
        a, b, cos, sin, inner = found
        x = _adjacent(a, b)
        if x is None:
            return None
        if isinstance(op, ConcatOp):
            return None if _is_stack(concat) else _rotation(op, inner, x, cos, sin, RopeStyle.NEOX)
        pairs = shape_of(x[0])
        split = defining(x[0], ReshapeOp) if x == _whole(x[0]) and pairs[-1] == 2 else None
        if split is None or split.input.type != op.result.type:
            return None
        inner = [concat.result, *inner]
        if _flattens_last(x[0], op.result):
            return _rotation(op, inner, _whole(split.input), cos, sin, RopeStyle.GPTJ, paired=True)
        heads = (*pairs[:-2], 2 * pairs[-2])
        if len(heads) != 4 or not is_static(heads[1:]) or shape_of(op.result) != (*heads[:2], heads[2] * heads[3]):
            return None
        return _rotation(op, inner, _whole(split.input), cos, sin, RopeStyle.GPTJ, paired=True, heads=heads)


def _is_stack(concat: ConcatOp) -> bool:
    """Whether the pairs are still to be flattened."""
    return rank_of(concat.result) == 5


def _combined(concat: ConcatOp) -> tuple[Part, Part, SSAValue, SSAValue, list[SSAValue]] | None:
    """a, b, cos and sin of the two sums, and the values between that must not be used again."""
    first, second = (defining(value, BinaryOp) for value in concat.inputs)
    if first is None or second is None:
        return None
    if (first.kind.data, second.kind.data) != (BinaryKind.SUB, BinaryKind.ADD):
        return None
    ac, bs = _product(first.lhs), _product(first.rhs)
    if ac is None or bs is None:
        return None
    for plain, crossed in orders(second):
        bc, as_ = _product(plain), _product(crossed)
        if bc is None or as_ is None:
            continue
        for (a, cos), (b, sin) in ((p, q) for p in orders(ac) for q in orders(bs)):
            if {bc.lhs, bc.rhs} == {b, cos} and {as_.lhs, as_.rhs} == {a, sin}:
                parts = (_part(a), _part(b))
                if parts[0] is not None and parts[1] is not None:
                    inner = [*concat.inputs, ac.result, bs.result, bc.result, as_.result]
                    return parts[0], parts[1], cos, sin, inner
    return None


def _rotation(
    root: Operation,
    inner: Sequence[SSAValue],
    x: Part,
    cos: SSAValue,
    sin: SSAValue,
    style: RopeStyle,
    *,
    paired: bool = False,
    heads: Shape | None = None,
) -> RotaryMatch | Miss:
    """The match, or why ``x`` and the tables are not those of a rope operation.

    ``heads`` is the shape [B, S, H, D] of an x [B, S, H·D].
    """
    for value in inner:
        user = one_use(value, root)
        if isinstance(user, Miss):
            return user
        assert isinstance(value.owner, Operation)
        if value.owner.parent is not root.parent:
            return Miss(Reason.OTHER_BLOCK, root, f"{value.owner.name} is in another block", "move both into one block")
    shape = (*shape_of(x[0])[:-1], len(x[1]))
    if heads is not None:
        shape = heads
    elif len(shape) not in (3, 4) or shape_of(root.results[0]) != shape:
        detail = f"x has the shape {show(shape)}, the result {show(shape_of(root.results[0]))}"
        return Miss(Reason.RANK, root, detail, "rope takes [B, H, S, D], [B, S, H, D] or [B, S, D]")
    if any(element_of(table) != element_of(x[0]) for table in (cos, sin)):
        return Miss(Reason.ELEMENT_TYPE, root, "the tables have another element type than x", "cast them first")
    axes = [_sequence_axis(shape_of(table)[:-1] if paired else shape_of(table), shape) for table in (cos, sin)]
    if DYNAMIC in shape[1:] or any(DYNAMIC in shape_of(table) for table in (cos, sin)):
        detail = f"extents of x {show(shape)} or of the tables are unknown"
        return Miss(Reason.DYNAMIC_EXTENT, root, detail, "give them static shapes, but for the batch")
    if axes[0] is None or axes[0] != axes[1]:
        shapes = " and ".join(show(shape_of(table)) for table in (cos, sin))
        detail = f"tables of shape {shapes} do not have one row for each index of one axis of {show(shape)}"
        return Miss(Reason.AXIS, root, detail, "nothing to do unless rope was meant")
    for table in () if paired else (cos, sin):
        if shape_of(table)[-1] == shape[-1] and not _same_in_pairs(table, style):
            detail = "whether both lanes of each pair have the same angle is not known"
            return Miss(Reason.OTHER_OPERAND, root, detail, "repeat tables of half as many lanes in the graph")
    layout = _LAYOUTS[len(shape), axes[0]]
    if heads is not None:
        if layout is not AttentionLayout.BSHD:
            return Miss(Reason.AXIS, root, "the tables have a row for each head", "nothing to do")
        layout = AttentionLayout.BSD
    return RotaryMatch(root, x, cos, sin, layout, style, shape[-1], paired)


def _sequence_axis(shape: Shape, x: Shape) -> int | None:
    """The axis of x [.., D] along which a table of ``shape`` has its rows; None where there are several or none."""
    half = x[-1] // 2
    if shape[-1:] not in ((x[-1],), (half,)) or len(shape) > len(x):
        return None
    aligned = (*(1,) * (len(x) - len(shape)), *shape)
    axes = [axis for axis, extent in enumerate(aligned[:-1]) if extent != 1]
    if not axes:
        # One position: the axis of extent 1 that can be a sequence.
        axes = [axis for axis in range(len(x) - 2, 0, -1) if x[axis] == 1][:1]
    fits = len(axes) == 1 and (len(x), axes[0]) in _LAYOUTS and aligned[axes[0]] == x[axes[0]]
    return axes[0] if fits else None


def _same_in_pairs(table: SSAValue, style: RopeStyle) -> bool:
    """Whether columns j and j + D/2 (neox), or 2j and 2j + 1 (gptj), of ``table`` [.., D] are provably equal."""
    width = shape_of(table)[-1]
    pending, seen = [table], {table}
    while pending:
        value = pending.pop()
        if shape_of(value)[-1:] in ((), (1,)):
            continue  # The same number for all lanes.
        needed = _pairs_need(value, style) if shape_of(value)[-1] == width else None
        if needed is None:
            return False
        pending += [operand for operand in needed if operand not in seen]
        seen.update(needed)
    return True


def _pairs_need(table: SSAValue, style: RopeStyle) -> Sequence[SSAValue] | None:
    """The values whose columns have to be equal in pairs, so that those of ``table`` are; None if that is not known."""
    op, last = table.owner, rank_of(table) - 1
    neox = style is RopeStyle.NEOX
    match op:
        case ConstantOp():
            return () if _constant_in_pairs(op, style) else None
        case ConcatOp() if op.axis_index == last:
            return () if neox and len(op.inputs) == 2 and op.inputs[0] is op.inputs[1] else None
        case TileOp() if op.reps.get_values()[last] != 1:
            return () if neox and op.reps.get_values()[last] == 2 else None
        case ReshapeOp():
            repeat = defining(op.input, (ExpandOp, TileOp, ConcatOp))
            if repeat is not None and shape_of(op.input)[-2:] == (shape_of(table)[-1] // 2, 2):
                return () if not neox and _repeats_last(repeat) else None
            return [op.input] if shape_of(op.input)[-1:] == shape_of(table)[-1:] else None
        case TransposeOp():
            return [op.input] if op.perm.get_values()[last] == last else None
        case NarrowOp() | SliceOp():
            return [op.input] if op.axis_index != last else None
        case GatherOp():
            return [op.table] if op.axis_index < rank_of(op.table) - 1 else None
        case ActivationOp() | CastOp() | BinaryOp() | ExpandOp() | ConcatOp() | TileOp():
            return op.operands
        case _:
            return None


def _repeats_last(op: ExpandOp | TileOp | ConcatOp) -> bool:
    """Whether the last axis, of extent 2, holds one value twice."""
    if isinstance(op, ConcatOp):
        return op.axis_index == rank_of(op.result) - 1 and len(op.inputs) == 2 and op.inputs[0] is op.inputs[1]
    return shape_of(op.input)[-1:] == (1,)


def _constant_in_pairs(op: ConstantOp, style: RopeStyle) -> bool:
    array = op.array()
    if array is None or array.shape[-1] % 2:
        return False
    half = array.shape[-1] // 2
    first, second = (
        (array[..., :half], array[..., half:]) if style is RopeStyle.NEOX else (array[..., ::2], array[..., 1::2])
    )
    return np.array_equal(first, second, equal_nan=True)


@dataclass(frozen=True)
class RopeMatch(Match):
    root: Operation
    rope: RopeOp
    x: SSAValue


class PartialRotation(FusionPattern[ConcatOp, RopeMatch]):
    """The rotated first lanes of x, and behind them its other lanes → rope of x with ``n_rot``."""

    root = ConcatOp
    numerics = Numerics.EXACT

    def check(self, op: ConcatOp, /) -> RopeMatch | Miss | None:
        if len(op.inputs) != 2 or op.axis_index != rank_of(op.result) - 1:
            return None
        rope = defining(op.inputs[0], RopeOp)
        if rope is None or rope.layout.data is AttentionLayout.BSD:
            return None
        first, second = _part(rope.x), _part(op.inputs[1])
        if first is None or second is None or first[0] is not second[0]:
            return None
        x, lanes = first[0], shape_of(first[0])[-1]
        cut = rope.head_dim.value.data
        if first[1] != range(cut) or second[1] != range(cut, lanes) or lanes % 2 or x.type != op.result.type:
            return None
        user = one_use(rope.result, op)
        return user if isinstance(user, Miss) else RopeMatch(op, rope, x)

    def rewrite(self, match: RopeMatch, rewriter: PatternRewriter, /) -> None:
        _replace_rope(match, rewriter, match.rope.layout.data, shape_of(match.x)[-1], ())


class RopeBehindTranspose(FusionPattern[RopeOp, RopeMatch]):
    """rope in ``bhsd`` of a transposed [B, S, H, D] is transposed rope in ``bshd``."""

    root = RopeOp
    numerics = Numerics.EXACT

    def check(self, op: RopeOp, /) -> RopeMatch | None:
        turned = defining(op.x, TransposeOp)
        if op.layout.data is not AttentionLayout.BHSD or turned is None or turned.perm.get_values() != SWAP:
            return None
        return RopeMatch(op, op, turned.input) if turned.result.has_one_use() else None

    def rewrite(self, match: RopeMatch, rewriter: PatternRewriter, /) -> None:
        _replace_rope(match, rewriter, AttentionLayout.BSHD, match.rope.head_dim.value.data, SWAP)


class RopeBehindReshape(FusionPattern[RopeOp, RopeMatch]):
    """rope in ``bshd`` of a [B, S, H·D] that was split into heads is split rope in ``bsd``."""

    root = RopeOp
    numerics = Numerics.EXACT

    def check(self, op: RopeOp, /) -> RopeMatch | None:
        split = defining(op.x, ReshapeOp)
        if op.layout.data is not AttentionLayout.BSHD or split is None or not split.result.has_one_use():
            return None
        batch, seq, heads, dim = shape_of(op.x)
        packed = heads != DYNAMIC and shape_of(split.input) == (batch, seq, heads * dim)
        return RopeMatch(op, op, split.input) if packed and (batch, seq).count(DYNAMIC) < 2 else None

    def rewrite(self, match: RopeMatch, rewriter: PatternRewriter, /) -> None:
        _replace_rope(match, rewriter, AttentionLayout.BSD, match.rope.head_dim.value.data, ())


def _replace_rope(
    match: RopeMatch, rewriter: PatternRewriter, layout: AttentionLayout, dim: int, perm: Sequence[int]
) -> None:
    """Rope of ``match.x`` in ``layout``, transposed or reshaped to the type of what it replaces."""
    rope, root, type_ = match.rope, match.root, match.root.results[0].type
    rewriter.insertion_point = InsertPoint.before(root)
    new = RopeOp(match.x, rope.cos, rope.sin, head_dim=dim, n_rot=rope.rotated, style=rope.style.data, layout=layout)
    before = list(root.operands)
    if perm:
        result: Operation = TransposeOp(rewriter.insert(new).result, perm, result_type=type_)
    elif new.result.type != type_:
        result = ReshapeOp(rewriter.insert(new).result, shape_of(root.results[0]), result_type=type_)
    else:
        result = new
    rewriter.replace(root, result)
    for value in before:
        erase_dead_chain(rewriter, value)


def patterns() -> Sequence[FusionPattern[Any, Any]]:
    return [TurnedHalves(), CombinedHalves(), PartialRotation(), RopeBehindTranspose(), RopeBehindReshape()]
