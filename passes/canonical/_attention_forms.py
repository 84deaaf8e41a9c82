"""One form for what stands around ``rlx.attention``: scale, axes, packed and repeated heads, constant masks.

Each pattern is about one of these and starts from any attention, so they compose: with a head split in front of Q, K
and V and a merge behind, ``bhsd`` becomes ``bshd`` and that ``bsd``, and the reshapes and transposes cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.attributes import AttentionLayout, BinaryKind, MaskKind
from rlx_dialect.base import RlxOp, element_of, shape_of
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.dtypes import round_to, wide_element
from rlx_dialect.operation import is_dead
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.shape import ConcatOp, ExpandOp, NarrowOp, ReshapeOp, TileOp, TransposeOp
from rlx_dialect.passes.canonical._masks import band_of, seen_by_bias, seen_by_custom
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Numerics
from rlx_dialect.passes.matching.values import defining
from rlx_dialect.shapes import DYNAMIC, Shape
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

SWAP = (0, 2, 1, 3)
"""[B, H, S, D] ↔ [B, S, H, D]."""


def changed(op: AttentionOp, **changes: Any) -> AttentionOp:
    """Attention like ``op`` with other operands or attributes, named as in its constructor."""

    def number(name: str) -> Any:
        attribute = getattr(op, name)
        return None if attribute is None else attribute.value.data

    names = ("num_heads", "num_kv_heads", "head_dim", "v_head_dim", "window", "score_scale", "attn_logit_softcap")
    given: dict[str, Any] = {name: number(name) for name in names}
    given |= {"mask": op.mask, "mask_kind": op.mask_kind.data, "layout": op.layout.data} | changes
    q, k, v = (given.pop(name, value) for name, value in (("q", op.q), ("k", op.k), ("v", op.v)))
    return AttentionOp(q, k, v, given.pop("mask"), **given)


def _replace(rewriter: PatternRewriter, op: AttentionOp, new: AttentionOp, back: Sequence[RlxOp] = ()) -> None:
    """Replace ``op`` by ``new`` and the operations ``back`` on its result, and delete what only ``op`` used."""
    before = dict.fromkeys(op.operands)
    last = back[-1] if back else new
    if not back:
        new.result.name_hint = op.result.name_hint
    rewriter.replace(op, [new, *back], [last.results[0]])
    for value in before:
        erase_dead_chain(rewriter, value)


def erase_dead_chain(rewriter: PatternRewriter, value: SSAValue) -> None:
    """Delete the operation of ``value`` if it is dead, and then what only it used."""
    pending = [value.owner]
    while pending:
        op = pending.pop()
        if isinstance(op, Operation) and op.parent is not None and is_dead(op):
            pending += [operand.owner for operand in op.operands]
            rewriter.erase(op)


def named_scale(scale: float, dim: int, element: Attribute) -> float | None:
    """None for the scale that attention has by default, as far as the type that it is computed in can tell."""
    default = round_to(np.asarray(1 / math.sqrt(dim)), wide_element(element))
    # A root of it on both sides, rounded twice, is off by more than one step.
    return None if abs(scale / float(default) - 1) <= 4 * np.finfo(default.dtype).eps else scale


@dataclass(frozen=True)
class View:
    """``value`` with its axes in another order, axis i being axis ``perm[i]``, or in another shape."""

    value: SSAValue
    perm: tuple[int, ...] | None = None
    new_shape: Shape | None = None

    def built(self, rewriter: PatternRewriter) -> SSAValue:
        if self.perm is not None and self.perm != tuple(range(len(self.perm))):
            return rewriter.insert(TransposeOp(self.value, self.perm)).result
        if self.new_shape is not None and self.new_shape != shape_of(self.value):
            return rewriter.insert(ReshapeOp(self.value, self.new_shape)).result
        return self.value


@dataclass(frozen=True)
class FormMatch(Match):
    attention: AttentionOp
    changes: dict[str, Any]


class AttentionForm(FusionPattern[AttentionOp, FormMatch]):
    """A pattern that changes operands or attributes of attention and keeps its result."""

    root = AttentionOp

    def rewrite(self, match: FormMatch, rewriter: PatternRewriter, /) -> None:
        rewriter.insertion_point = InsertPoint.before(match.attention)
        changes = {
            name: value.built(rewriter) if isinstance(value, View) else value for name, value in match.changes.items()
        }
        _replace(rewriter, match.attention, changed(match.attention, **changes))


class ScaleInFront(AttentionForm):
    """A number that Q or K is multiplied by, or divided by, belongs to the scale of the scores."""

    numerics = Numerics.REASSOCIATED

    def check(self, op: AttentionOp, /) -> FormMatch | None:
        changes: dict[str, Any] = {}
        scale = op.scale
        for name, value in (("q", op.q), ("k", op.k)):
            found = _scaled(value, op)
            if found is not None:
                source, factor = found
                changes[name] = source
                scale *= factor
        if not changes or not np.isfinite(scale) or scale == 0:
            return None
        named = named_scale(scale, op.head_dim.value.data, element_of(op.q))
        return FormMatch(op, changes | {"score_scale": named})


def _scaled(value: SSAValue, site: AttentionOp) -> tuple[View, float] | None:
    """What is scaled to ``value`` by one number, for ``site`` only, and the number; transposed as ``value`` is."""
    op, perm = value.owner, None
    if isinstance(op, TransposeOp) and _only_user(op.result, site):
        perm, op = op.perm.get_values(), op.input.owner
    if not isinstance(op, BinaryOp) or op.kind.data not in (BinaryKind.MUL, BinaryKind.DIV):
        return None
    if not op.result.has_one_use() and not _only_user(op.result, site):
        return None
    divided = op.kind.data is BinaryKind.DIV
    for source, other in ((op.lhs, op.rhs),) if divided else ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        number = scalar_value(other)
        if number and np.isfinite(number) and source.type == op.result.type:
            return View(source, perm), 1 / number if divided else number
    return None


def _only_user(value: SSAValue, op: Operation) -> bool:
    return all(use.operation is op for use in value.uses)


@dataclass(frozen=True)
class AxesMatch(Match):
    attention: AttentionOp
    operands: tuple[View, ...]
    """Q, K and V in the new layout."""
    layout: AttentionLayout


class HeadsBehindSequence(FusionPattern[AttentionOp, AxesMatch]):
    """``bhsd`` of Q, K and V that were transposed from [B, S, H, D] is ``bshd`` of what they were before.

    The result is transposed instead, where that is the only use of all three, or meets its own transpose.
    """

    root = AttentionOp
    numerics = Numerics.EXACT

    def check(self, op: AttentionOp, /) -> AxesMatch | None:
        if op.layout.data is not AttentionLayout.BHSD:
            return None
        turned = [defining(value, TransposeOp) for value in (op.q, op.k, op.v)]
        found = [t for t in turned if t is not None and t.perm.get_values() == SWAP]
        if len(found) < 3:
            return None
        if not all(_only_user(t.result, op) for t in found):
            users = [use.operation for use in op.result.uses]
            if not users or not all(isinstance(u, TransposeOp) and u.perm.get_values() == SWAP for u in users):
                return None
        return AxesMatch(op, tuple(View(t.input) for t in found), AttentionLayout.BSHD)

    def rewrite(self, match: AxesMatch, rewriter: PatternRewriter, /) -> None:
        op = match.attention
        rewriter.insertion_point = InsertPoint.before(op)
        q, k, v = (view.built(rewriter) for view in match.operands)
        new = changed(op, q=q, k=k, v=v, layout=match.layout)
        _replace(rewriter, op, new, [TransposeOp(new.result, SWAP, result_type=op.result.type)])


class PackedHeads(FusionPattern[AttentionOp, AxesMatch]):
    """``bshd`` of Q, K and V that were reshaped is ``bsd``; the result is reshaped instead.

    Where all three were split from [B, S, H·D], or the result is reshaped anyway.
    """

    root = AttentionOp
    numerics = Numerics.EXACT

    def check(self, op: AttentionOp, /) -> AxesMatch | None:
        if op.layout.data is not AttentionLayout.BSHD:
            return None
        reshapes = [r for r in (defining(value, ReshapeOp) for value in (op.q, op.k, op.v)) if r is not None]
        if len(reshapes) < 3 or any(shape_of(r.result)[:2].count(DYNAMIC) > 1 for r in reshapes):
            return None
        users = [use.operation for use in op.result.uses]
        merged = bool(users) and all(isinstance(user, ReshapeOp) for user in users)
        packed = [_packed(shape_of(r.result)) for r in reshapes]
        split = all(
            shape_of(r.input) == shape and _only_user(r.result, op) for r, shape in zip(reshapes, packed, strict=True)
        )
        if not merged and not split:
            return None
        views = (View(r.input, new_shape=shape) for r, shape in zip(reshapes, packed, strict=True))
        return AxesMatch(op, tuple(views), AttentionLayout.BSD)

    def rewrite(self, match: AxesMatch, rewriter: PatternRewriter, /) -> None:
        op = match.attention
        rewriter.insertion_point = InsertPoint.before(op)
        q, k, v = (view.built(rewriter) for view in match.operands)
        new = changed(op, q=q, k=k, v=v, layout=match.layout)
        _replace(rewriter, op, new, [ReshapeOp(new.result, shape_of(op.result), result_type=op.result.type)])


def _packed(shape: Shape) -> Shape:
    """[B, S, H, D] as [B, S, H·D]."""
    return (*shape[:2], shape[2] * shape[3])


class HeadsInBatch(FusionPattern[AttentionOp, AxesMatch]):
    """One head for each of a batch that was [B, H] before is attention of H heads; the result is reshaped instead."""

    root = AttentionOp
    numerics = Numerics.EXACT

    def check(self, op: AttentionOp, /) -> AxesMatch | None:
        if op.layout.data is not AttentionLayout.BSD or op.num_heads.value.data != 1:
            return None
        reshapes = [r for r in (defining(value, ReshapeOp) for value in (op.q, op.k, op.v)) if r is not None]
        shapes = [shape_of(r.input) for r in reshapes]
        leading = {shape[:2] for shape in shapes}
        if len(shapes) < 3 or len(leading) > 1 or any(len(s) != 4 or DYNAMIC in s for s in shapes):
            return None
        if any((s[0] * s[1], *s[2:]) != shape_of(r.result) for s, r in zip(shapes, reshapes, strict=True)):
            return None
        if op.mask is not None and shape_of(op.mask)[0] != 1:
            return None
        return AxesMatch(op, tuple(View(r.input) for r in reshapes), AttentionLayout.BHSD)

    def rewrite(self, match: AxesMatch, rewriter: PatternRewriter, /) -> None:
        op = match.attention
        rewriter.insertion_point = InsertPoint.before(op)
        q, k, v = (view.value for view in match.operands)
        new = changed(op, q=q, k=k, v=v, layout=match.layout, num_heads=shape_of(q)[1], num_kv_heads=None)
        _replace(rewriter, op, new, [ReshapeOp(new.result, shape_of(op.result), result_type=op.result.type)])


class RepeatedHeads(AttentionForm):
    """K and V whose heads were repeated, each several times in a row, are those with fewer heads."""

    numerics = Numerics.EXACT

    def check(self, op: AttentionOp, /) -> FormMatch | None:
        layout, heads = op.layout.data, op.num_heads.value.data
        if layout is AttentionLayout.BSD or op.kv_heads != heads:
            return None
        axis = 1 if layout is AttentionLayout.BHSD else 2
        k, v = (_before_repeat(value, axis) for value in (op.k, op.v))
        if k is None or v is None:
            return None
        heads_k, heads_v = ((view.new_shape or shape_of(view.value))[axis] for view in (k, v))
        return FormMatch(op, {"k": k, "v": v, "num_kv_heads": heads_k}) if heads_k == heads_v else None


def _before_repeat(value: SSAValue, axis: int) -> View | None:
    """What ``value`` of rank 4 is with each extent of ``axis`` repeated several times in a row, as a whole."""
    op, shape = value.owner, shape_of(value)
    if isinstance(op, ConcatOp):
        return _before_concat(op, axis)
    if isinstance(op, ExpandOp | TileOp):
        source = shape_of(op.input)
        single = len(source) == 4 and source[axis] == 1 and _differ(source, shape) == [axis]
        return View(op.input) if single and _repeats(op) else None
    if not isinstance(op, ReshapeOp) or not isinstance(repeat := op.input.owner, ExpandOp | TileOp):
        return None
    source, repeated = shape_of(repeat.input), shape_of(repeat.result)
    # [.., G, 1, ..] repeated to [.., G, g, ..], in which the two axes then become one.
    if len(source) != 5 or _differ(source, repeated) != [axis + 1] or source[axis + 1] != 1 or not _repeats(repeat):
        return None
    merged = (*repeated[:axis], repeated[axis] * repeated[axis + 1], *repeated[axis + 2 :])
    if DYNAMIC in repeated[axis : axis + 2] or merged != shape or shape.count(DYNAMIC) > 1:
        return None
    wanted = (*source[: axis + 1], *source[axis + 2 :])
    split = defining(repeat.input, ReshapeOp)
    if split is not None and shape_of(split.input) == wanted:
        return View(split.input)
    return View(repeat.input, new_shape=wanted)


def _differ(a: Shape, b: Shape) -> list[int]:
    return [axis for axis, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]


def _repeats(op: ExpandOp | TileOp) -> bool:
    """Whether unknown extents are kept: one that is given a length, or repeated, may have been another before."""
    source = shape_of(op.input)
    if isinstance(op, TileOp):
        return all(rep == 1 for extent, rep in zip(source, op.reps.get_values(), strict=True) if extent != 1)
    targets = op.target.get_values()[-len(source) :]
    return all(target == -1 for extent, target in zip(source, targets, strict=True) if extent == DYNAMIC)


def _before_concat(op: ConcatOp, axis: int) -> View | None:
    """The value whose heads, one by one and each as often as the others, are concatenated in order."""
    parts = [part for part in (defining(value, NarrowOp) for value in op.inputs) if part is not None]
    if op.axis_index != axis or len(parts) < len(op.inputs):
        return None
    source = parts[0].input
    heads = shape_of(source)[axis]
    if heads < 1 or len(parts) % heads or any(p.input is not source or p.axis_index != axis for p in parts):
        return None
    groups = len(parts) // heads
    wanted = [(head, 1) for head in range(heads) for _ in range(groups)]
    taken = [(part.start.value.data, part.len.value.data) for part in parts]
    return View(source) if groups > 1 and taken == wanted else None


class ConstantMask(AttentionForm):
    """A constant mask that lets through every key, those up to the query's own, or a window of them, has a kind."""

    def __init__(self, kind: MaskKind):
        """Of a ``bias``, hidden keys have another score than with the kinds; a custom mask means the same."""
        self.kind = kind
        self.numerics = Numerics.EXACT if kind is MaskKind.CUSTOM else Numerics.NAN_POLICY

    def check(self, op: AttentionOp, /) -> FormMatch | None:
        if op.mask is None or op.mask_kind.data is not self.kind or DYNAMIC in shape_of(op.mask):
            return None
        _, queries, keys = op.extents()
        seen = seen_by_custom(op.mask) if self.kind is MaskKind.CUSTOM else seen_by_bias(op.mask)
        if seen is None:
            return None
        return FormMatch(op, {"mask": None} | kind) if (kind := _kind_of(seen, queries, keys)) else None


def _kind_of(seen: NDArray[np.bool_], queries: int, keys: int) -> dict[str, Any] | None:
    if bool(seen.all()):
        return {"mask_kind": MaskKind.NONE}
    window = band_of(seen, queries, keys) if seen.ndim > 2 else None
    if window is None:
        return None
    if window >= keys:
        return {"mask_kind": MaskKind.CAUSAL}
    return {"mask_kind": MaskKind.SLIDING_WINDOW, "window": window}


def attention_forms() -> Sequence[FusionPattern[Any, Any]]:
    return [
        ConstantMask(MaskKind.CUSTOM),
        ConstantMask(MaskKind.BIAS),
        RepeatedHeads(),
        HeadsInBatch(),
        HeadsBehindSequence(),
        PackedHeads(),
        ScaleInFront(),
    ]
