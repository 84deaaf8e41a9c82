"""Masks of attention: in the shape that the operation wants, and which keys a constant one lets through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float16Type
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import CompareKind, MaskKind
from rlx_dialect.base import RlxOp, element_of, evaluate_op, rank_of, shape_of
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.dtypes import Array, is_bool, is_float, round_to
from rlx_dialect.ops.attention_scores import MASKED_SCORE
from rlx_dialect.ops.constant import ConstantOp, scalar
from rlx_dialect.ops.elementwise import BinaryOp, CompareOp, WhereOp
from rlx_dialect.ops.shape import ExpandOp, ReshapeOp, TransposeOp
from rlx_dialect.passes.matching.values import defining
from rlx_dialect.shapes import DYNAMIC, element_count
from rlx_dialect.xdsl_compat import Builder, InterpretationError

LARGEST_MASK = 1 << 22
"""Elements of a constant mask that is worth looking at: 2048 queries and keys."""
DEEPEST_MASK = 16
"""Operations in a row, from constants to such a mask."""


ABSORBING = -1e30
"""A score that no other, added to it, changes."""


@dataclass(frozen=True)
class Mask:
    """One operation on scores: a bias is added, or ``hidden`` is put where keys are not seen."""

    value: SSAValue
    rank: int
    """Of the scores."""
    hidden: float | None = None
    """None for a bias."""
    shown: bool = True
    """Whether ``value`` holds where keys are seen, rather than where they are hidden."""


def built_mask(b: Builder, masks: Sequence[Mask], rank: int, element: Attribute) -> tuple[MaskKind, SSAValue | None]:
    """The kind and the operand for ``masks``, the last of which is applied first, on scores of that rank.

    Several become one bias. Where hidden keys are among them their score has to absorb others (:data:`ABSORBING`).
    """
    if not masks:
        return MaskKind.NONE, None
    if len(masks) == 1 and masks[0].hidden is not None:
        seen = as_rank_4(b, seen_where(b, masks[0].value, masks[0].shown), rank)
        return MaskKind.CUSTOM, row_mask(b, seen)
    bias: SSAValue | None = None
    for mask in reversed(masks):
        if mask.hidden is not None:
            visible, hidden = scalar(b, 0.0, element) if bias is None else bias, scalar(b, mask.hidden, element)
            bias = b.insert(WhereOp(mask.value, *((visible, hidden) if mask.shown else (hidden, visible)))).result
        else:
            bias = mask.value if bias is None else b.insert(BinaryOp("add", bias, mask.value)).result
    assert bias is not None
    return MaskKind.BIAS, as_rank_4(b, bias, rank)


def hides(number: float, element: Attribute) -> bool:
    """Whether a score of ``number`` hides its key as -1e9 does: nothing that is computed in ``element`` is as low.

    f16 has no number below -65504, so that one does.
    """
    return number <= (float(np.finfo(np.float16).min) if isinstance(element, Float16Type) else MASKED_SCORE)


def is_masked_score(number: float, element: Attribute) -> bool:
    """Whether ``number`` is the very score that attention gives to hidden keys."""
    return number == float(round_to(np.asarray(MASKED_SCORE), element)) and not isinstance(element, Float16Type)


def as_rank_4(b: Builder, mask: SSAValue, rank: int) -> SSAValue:
    """``mask``, which broadcasts against scores [B, H, Sq, Sk] or, where ``rank`` is 3, [B, Sq, Sk], as rank 4."""
    if rank == 4 and (missing := 4 - rank_of(mask)):
        if shape_of(mask).count(DYNAMIC) > 1:
            return b.insert(ExpandOp(mask, [*(1,) * missing, *(-1,) * rank_of(mask)])).result
        return b.insert(ReshapeOp(mask, [*(1,) * missing, *shape_of(mask)])).result
    if rank == 3:
        batch, queries, keys = (*(1,) * (3 - rank_of(mask)), *shape_of(mask))
        return b.insert(ReshapeOp(mask, [batch, 1, queries, keys])).result
    return mask


def row_mask(b: Builder, mask: SSAValue) -> SSAValue:
    """A custom mask of rank 4 as [B, Sk] where it is the same for all heads and queries."""
    batch, heads, queries, keys = shape_of(mask)
    turned = defining(mask, TransposeOp)
    if turned is not None and turned.perm.get_values() == (2, 0, 1, 3):
        # How attention itself takes its mask apart, two unknown extents included.
        expanded = defining(turned.input, ExpandOp)
        if expanded is not None and rank_of(expanded.input) == 2 and expanded.target.get_values() == (1, 1, -1, -1):
            return expanded.input
    if (heads, queries) != (1, 1) or batch == keys == DYNAMIC:
        return mask
    return b.insert(ReshapeOp(mask, [batch, keys])).result


def seen_where(b: Builder, condition: SSAValue, holds: bool) -> SSAValue:
    """The custom mask for keys that are seen where ``condition`` holds, or, with ``holds`` false, where it does not."""
    if holds:
        return condition
    compare = defining(condition, CompareOp)
    if compare is not None:
        kind, number = compare.kind.data, scalar_value(compare.rhs)
        if kind is CompareKind.LT and number == 0.5 and is_float(element_of(compare.lhs)) and rank_of(compare.rhs) == 0:
            return compare.lhs
        if kind is CompareKind.EQ and is_bool(element_of(compare.lhs)) and number == 0 and rank_of(compare.rhs) == 0:
            return compare.lhs
        if kind in (CompareKind.EQ, CompareKind.NE):
            other = CompareKind.NE if kind is CompareKind.EQ else CompareKind.EQ
            return b.insert(CompareOp(other, compare.lhs, compare.rhs)).result
    return b.insert(CompareOp("eq", condition, scalar(b, False, element_of(condition)))).result


def constant_expression(value: SSAValue) -> Array | None:
    """The value of pure operations on constants; None where it is larger than a mask or not known."""
    return _evaluated(value, DEEPEST_MASK, {})


def _evaluated(value: SSAValue, depth: int, known: dict[SSAValue, Array | None]) -> Array | None:
    if value not in known:
        known[value] = _evaluated_anew(value, depth, known)
    return known[value]


def _evaluated_anew(value: SSAValue, depth: int, known: dict[SSAValue, Array | None]) -> Array | None:
    op = value.owner
    count = element_count(shape_of(value))
    if not isinstance(op, RlxOp) or op.regions or depth == 0 or count is None or count > LARGEST_MASK:
        return None
    if isinstance(op, ConstantOp):
        return op.array()
    args: list[Array] = []
    for operand in op.operands:
        if (array := _evaluated(operand, depth - 1, known)) is None:
            return None
        args.append(array)
    try:
        results: dict[SSAValue, Array] = dict(zip(op.results, evaluate_op(op, args), strict=True))
        return results[value]
    except InterpretationError:
        return None


def seen_by_custom(mask: SSAValue) -> NDArray[np.bool_] | None:
    """Which keys a custom mask lets through, where that is constant."""
    values = constant_expression(mask)
    return None if values is None else values if values.dtype == np.bool_ else ~(values < 0.5)


def seen_by_bias(mask: SSAValue) -> NDArray[np.bool_] | None:
    """Which keys a constant bias leaves as they are, where it hides all others; every query must see one."""
    values = constant_expression(mask)
    if values is None:
        return None
    seen = values == 0
    lowest = float(np.max(values, where=~seen, initial=-np.inf))
    if not hides(lowest, element_of(mask)) or np.isnan(values).any() or not seen.any(axis=-1).all():
        return None
    return seen


def band_of(seen: NDArray[np.bool_], queries: int, keys: int) -> int | None:
    """The window of sliding attention that lets through exactly ``seen`` […, Sq, Sk]; at least ``keys``: causal.

    None where ``seen`` is no such band.
    """
    if seen.shape[-2:] != (queries, keys):
        return None
    last = np.arange(queries)[:, None] + (keys - queries)
    offsets = last - np.arange(keys)
    causal = offsets >= 0
    if bool((seen == causal).all()):
        return keys
    # The last query tells the width, all others have to agree.
    window = int(np.count_nonzero(seen.reshape(-1, queries, keys)[0, -1])) - 1
    return window if window >= 0 and bool((seen == (causal & (offsets <= window))).all()) else None
