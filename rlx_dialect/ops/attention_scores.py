"""What attention and its gradients have in common: heads, masks, and the weights of the keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, f32, i1
from xdsl.ir import SSAValue

from rlx_dialect import shapes
from rlx_dialect.attributes import AttentionLayout, AttentionLayoutAttr, MaskKind, MaskKindAttr
from rlx_dialect.base import RlxOp, element_of, rank_of, shape_of
from rlx_dialect.dtypes import Array, is_bool, is_float
from rlx_dialect.ops.constant import scalar
from rlx_dialect.ops.contraction import MatMulOp, matmul
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp, CompareOp, WhereOp
from rlx_dialect.ops.extents import merge_axes, split_axis
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.reduction import SoftmaxOp, converted, softmax
from rlx_dialect.ops.shape import ConcatOp, ExpandOp, NarrowOp, ReshapeOp, ReverseOp, TransposeOp, TriluOp
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError
from rlx_dialect.xdsl_compat import Builder

MASKED_SCORE = -1e9
"""What replaces the score of a masked key: finite, so that a row whose keys are all masked is uniform, not NaN."""


def layout_shape(layout: AttentionLayout, batch: int, seq: int, heads: int, dim: int) -> Shape:
    """The shape of a tensor of heads in ``layout``."""
    if layout is AttentionLayout.BSD:
        return (batch, seq, heads * dim)
    return (batch, seq, heads, dim) if layout is AttentionLayout.BSHD else (batch, heads, seq, dim)


def check_heads(name: str, shape: Shape, layout: AttentionLayout, batch: int, heads: int, dim: int) -> tuple[int, int]:
    """Batch and sequence extents of operand ``name``; raises ShapeError when it has not the given other extents."""
    wanted = layout_shape(layout, batch, DYNAMIC, heads, dim)
    if not shapes.compatible(shape, wanted):
        raise ShapeError(
            f"operand '{name}' must have shape {shapes.show(wanted)} in layout {layout}, got {shapes.show(shape)}"
        )
    return shape[0], shape[2 if layout is AttentionLayout.BHSD else 1]


def heads_first(x: Array, layout: AttentionLayout, heads: int) -> Array:
    """``x`` as [B, H, S, D]."""
    if layout is AttentionLayout.BSD:
        x = x.reshape(*x.shape[:2], heads, x.shape[2] // heads)
    return x if layout is AttentionLayout.BHSD else x.swapaxes(1, 2)


def heads_back(x: Array, layout: AttentionLayout) -> Array:
    """[B, H, S, D] in ``layout``."""
    if layout is AttentionLayout.BHSD:
        return x
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3]) if layout is AttentionLayout.BSD else x


def unpack_heads(b: Builder, x: SSAValue, heads: int, dim: int) -> SSAValue:
    """[B, S, H·D] as [B, S, H, D]."""
    return split_axis(Term(b, x), 2, [heads, dim]).value


def pack_heads(b: Builder, x: SSAValue, batch: int, seq: int) -> SSAValue:
    """[B, S, H, D] as [B, S, H·D]; ``batch`` and ``seq`` may be known better than from the type of ``x``."""
    *_, heads, dim = shape_of(x)
    if (batch, seq).count(DYNAMIC) <= 1:
        return b.insert(ReshapeOp(x, [batch, seq, heads * dim])).result
    return merge_axes(Term(b, x), 2, 2).value


def transposed(b: Builder, x: SSAValue, perm: Sequence[int]) -> SSAValue:
    return b.insert(TransposeOp(x, perm)).result


@dataclass(frozen=True)
class Visibility:
    """Which keys a query sees, in a decomposition: a condition that broadcasts to the scores."""

    condition: SSAValue
    hides: bool
    """The condition holds for the keys that are not seen."""

    def choose(self, b: Builder, seen: SSAValue, otherwise: float) -> SSAValue:
        """``seen`` at the keys that are, a number at the others."""
        hidden = scalar(b, otherwise, element_of(seen))
        values = (hidden, seen) if self.hides else (seen, hidden)
        return b.insert(WhereOp(self.condition, *values)).result


class ScoresOp(RlxOp):
    """Base of the operations on scores of Q·Kᵀ; see :class:`rlx_dialect.ops.attention.AttentionOp` for what they mean.

    The first operands are q, k and v, the last one is the mask where there is one. A subclass defines the operands and
    the properties below, so that they are written in its own order.
    """

    if TYPE_CHECKING:
        mask: SSAValue | None
        mask_kind: MaskKindAttr
        num_heads: IntegerAttr[I64]
        num_kv_heads: IntegerAttr[I64] | None
        head_dim: IntegerAttr[I64]
        layout: AttentionLayoutAttr
        window: IntegerAttr[I64] | None

    @property
    def heads(self) -> int:
        return self.num_heads.value.data

    @property
    def kv_heads(self) -> int:
        return (self.num_heads if self.num_kv_heads is None else self.num_kv_heads).value.data

    @property
    def value_dim(self) -> int:
        """The extent of a head of V."""
        return self.head_dim.value.data

    @property
    def scale(self) -> float:
        """What Q·Kᵀ is multiplied by."""
        return 1 / math.sqrt(self.head_dim.value.data)

    @property
    def softcap(self) -> float | None:
        """The bound of the scores, where they have one."""
        return None

    def extents(self) -> tuple[int, int, int]:
        """Batch, query and key extents; raises ShapeError when Q, K and V do not fit together."""
        layout, heads, dim = self.layout.data, self.num_heads.value.data, self.head_dim.value.data
        batch, queries = check_heads("q", self.shape(0), layout, DYNAMIC, heads, dim)
        batch_k, keys = check_heads("k", self.shape(1), layout, batch, self.kv_heads, dim)
        batch = batch_k if batch == DYNAMIC else batch
        _, keys_v = check_heads("v", self.shape(2), layout, batch, self.kv_heads, self.value_dim)
        if not shapes.compatible([keys], [keys_v]):
            raise ShapeError(f"operands 'k' and 'v' must have one sequence extent, got {keys} and {keys_v}")
        return batch, queries, keys_v if keys == DYNAMIC else keys

    def check(self) -> None:
        for name in ("num_heads", "num_kv_heads", "head_dim"):
            value: IntegerAttr[I64] | None = getattr(self, name)
            if value is not None and value.value.data < 1:
                self.fail(f"{name} must be positive, got {value.value.data}")
        if self.heads % self.kv_heads:
            self.fail(f"num_kv_heads {self.kv_heads} must divide num_heads {self.heads}")
        if not is_float(self.element(0)):
            self.fail(f"operand 'q' must have a float element type, got {self.element(0)}")
        self.check_same_element(0, 1, 2)
        self._check_mask_kind()
        if self.mask is not None:
            self._check_mask(*self.extents())

    def _check_mask_kind(self) -> None:
        kind = self.mask_kind.data
        wants_mask = kind in (MaskKind.CUSTOM, MaskKind.BIAS)
        if wants_mask != (self.mask is not None):
            self.fail(f"mask kind {kind} takes {'a' if wants_mask else 'no'} mask operand")
        if (kind is MaskKind.SLIDING_WINDOW) != (self.window is not None):
            self.fail("'window' belongs to mask kind sliding_window and is needed there")
        if self.window is not None and self.window.value.data < 0:
            self.fail(f"window must not be negative, got {self.window.value.data}")

    def _check_mask(self, batch: int, queries: int, keys: int) -> None:
        index = len(self.operands) - 1
        element, shape = self.element(index), self.shape(index)
        full = (batch, self.heads, queries, keys)
        if self.mask_kind.data is MaskKind.BIAS:
            self.check_same_element(0, index)
            ranks = {4: full}
        else:
            if not is_float(element) and not is_bool(element):
                self.fail(f"operand 'mask' must have a float element type or i1, got {element}")
            ranks = {2: (batch, keys), 3: (batch, queries, keys), 4: full}
        wanted = ranks.get(len(shape), full)
        if (
            len(shape) != len(wanted)
            or not shapes.compatible(shape[-1:], wanted[-1:])
            or any(
                not shapes.compatible([found], [extent])
                for found, extent in zip(shape, wanted, strict=True)
                if found != 1
            )
        ):
            self.fail(f"operand 'mask' must have shape {shapes.show(wanted)}, got {shapes.show(shape)}")

    # Meaning.

    def key_heads(self, x: Array) -> Array:
        """K or V as [B, H, S, ·], each head repeated for the query heads that use it."""
        return np.repeat(heads_first(x, self.layout.data, self.kv_heads), self.heads // self.kv_heads, axis=1)

    def seen(self, mask: Array | None, queries: int, keys: int) -> Array | None:
        """Where a query sees a key, broadcasting to [B, H, Sq, Sk]; None where each sees all."""
        match self.mask_kind.data:
            case MaskKind.NONE | MaskKind.BIAS:
                return None
            case MaskKind.CUSTOM:
                assert mask is not None
                # [B, Sk] and [B, Sq, Sk] leave out axes after the first. A NaN keeps its key.
                return ~(np.expand_dims(mask, tuple(range(1, 5 - mask.ndim))) < 0.5)
            case MaskKind.CAUSAL | MaskKind.SLIDING_WINDOW:
                last = np.arange(queries)[:, None] + (keys - queries)
                seen = np.arange(keys) <= last
                if self.window is not None:
                    seen &= np.arange(keys) >= last - self.window.value.data
                return seen

    def weights(self, q: Array, k: Array, mask: Array | None) -> Array:
        """How much each key counts, [B, H, Sq, Sk], for q and k with heads first and repeated."""
        scores = matmul(q, k.swapaxes(2, 3)) * self.scale
        if self.softcap is not None:
            scores = self.softcap * np.tanh(scores / self.softcap)
        if self.mask_kind.data is MaskKind.BIAS:
            assert mask is not None
            scores = scores + mask
        if (seen := self.seen(mask, *scores.shape[2:])) is not None:
            scores = np.where(seen, scores, MASKED_SCORE)
        return softmax(scores, 3)

    # Decomposition.

    def to_heads(self, b: Builder, x: SSAValue, heads: int, dim: int) -> SSAValue:
        """``x`` as [B, H, S, D]."""
        layout = self.layout.data
        if layout is AttentionLayout.BSD:
            x = unpack_heads(b, x, heads, dim)
        return x if layout is AttentionLayout.BHSD else transposed(b, x, (0, 2, 1, 3))

    def repeated(self, b: Builder, x: SSAValue) -> SSAValue:
        """Each head of [B, G, S, D] repeated to [B, H, S, D]; a single one is left to broadcast."""
        groups = self.heads // self.kv_heads
        if groups == 1 or self.kv_heads == 1:
            return x
        heads = [b.insert(NarrowOp(x, 1, head, 1)).result for head in range(self.kv_heads)]
        return b.insert(ConcatOp([h for h in heads for _ in range(groups)], 1)).result

    def from_heads(self, b: Builder, x: SSAValue, batch: int, seq: int) -> SSAValue:
        """[B, H, S, D] in the layout; ``batch`` and ``seq`` may be known better than from the type of ``x``."""
        layout = self.layout.data
        if layout is not AttentionLayout.BHSD:
            x = transposed(b, x, (0, 2, 1, 3))
        return pack_heads(b, x, batch, seq) if layout is AttentionLayout.BSD else x

    def weights_of(self, b: Builder, q: SSAValue, keys: SSAValue) -> tuple[SSAValue, Visibility | None]:
        """:meth:`weights` for q [B, H, Sq, D] and the keys [B, H, D, Sk]; and which keys are seen."""
        scores = b.insert(MatMulOp(q, keys)).result
        element = element_of(scores)
        scores = b.insert(BinaryOp("mul", scores, scalar(b, self.scale, element))).result
        if self.softcap is not None:
            cap = scalar(b, self.softcap, element)
            scores = b.insert(BinaryOp("div", scores, cap)).result
            scores = b.insert(ActivationOp("tanh", scores)).result
            scores = b.insert(BinaryOp("mul", scores, cap)).result
        if self.mask_kind.data is MaskKind.BIAS:
            assert self.mask is not None
            scores = b.insert(BinaryOp("add", scores, converted(b, self.mask, element))).result
        visibility = self._visibility(b, scores)
        if visibility is not None:
            scores = visibility.choose(b, scores, MASKED_SCORE)
        return b.insert(SoftmaxOp(scores, 3)).result, visibility

    def _visibility(self, b: Builder, scores: SSAValue) -> Visibility | None:
        if self.mask_kind.data in (MaskKind.NONE, MaskKind.BIAS):
            return None
        mask = self.mask
        if mask is None:
            return Visibility(self._band(b, scores), hides=False)
        if (left_out := 4 - rank_of(mask)) > 0:
            # A reshape would not keep two dynamic extents.
            mask = b.insert(ExpandOp(mask, [*(1,) * left_out, *(-1,) * rank_of(mask)])).result
            mask = transposed(b, mask, (left_out, *range(left_out), *range(left_out + 1, 4)))
        if is_bool(element_of(mask)):
            return Visibility(mask, hides=False)
        # As "below 0.5", so that a NaN in the mask keeps its key as in the definition.
        return Visibility(b.insert(CompareOp("lt", mask, scalar(b, 0.5, element_of(mask)))).result, hides=True)

    def _band(self, b: Builder, scores: SSAValue) -> SSAValue:
        """The i1 mask of causal and sliding_window attention: a band of ones cut out by rlx.trilu."""
        one = scalar(b, 1.0, f32)
        queries, keys = shape_of(scores)[2:]
        window = None if self.window is None else self.window.value.data
        if DYNAMIC not in (queries, keys):
            ones = b.insert(ExpandOp(one, [queries, keys])).result
            last = keys - queries
            band = b.insert(TriluOp(ones, upper=False, diagonal=last)).result
            if window is not None:
                band = b.insert(TriluOp(band, upper=True, diagonal=last - window)).result
            return b.insert(CastOp(band, i1)).result
        # The last query sees the last key. Counted from the end the diagonal is 0, whatever the extents.
        always = scalar(b, True, i1)
        ones = b.insert(WhereOp(always, one, converted(b, scores, f32))).result
        band = b.insert(TriluOp(ones, upper=True, diagonal=0)).result
        if window is not None:
            band = b.insert(TriluOp(band, upper=False, diagonal=window)).result
        return b.insert(CastOp(b.insert(ReverseOp(band, [2, 3])).result, i1)).result
