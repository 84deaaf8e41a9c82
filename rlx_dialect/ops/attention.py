"""Attention and rotary position embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, f32, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import (
    AttentionLayout,
    AttentionLayoutAttr,
    MaskKind,
    MaskKindAttr,
    RopeStyle,
    RopeStyleAttr,
)
from rlx_dialect.base import RlxOp, Value, element_of, rank_of, shape_of
from rlx_dialect.dtypes import Array, is_bool, is_float, wide_element
from rlx_dialect.ops.constant import scalar
from rlx_dialect.ops.contraction import MatMulOp, matmul
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp, CompareOp, WhereOp
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


def _check_heads(name: str, shape: Shape, layout: AttentionLayout, batch: int, heads: int, dim: int) -> tuple[int, int]:
    """Batch and sequence extents of operand ``name``; raises ShapeError when it has not the given other extents."""
    wanted = layout_shape(layout, batch, DYNAMIC, heads, dim)
    if not shapes.compatible(shape, wanted):
        raise ShapeError(
            f"operand '{name}' must have shape {shapes.show(wanted)} in layout {layout}, got {shapes.show(shape)}"
        )
    return shape[0], shape[2 if layout is AttentionLayout.BHSD else 1]


def _heads_first(x: Array, layout: AttentionLayout, heads: int) -> Array:
    """``x`` as [B, H, S, D]."""
    if layout is AttentionLayout.BSD:
        x = x.reshape(*x.shape[:2], heads, x.shape[2] // heads)
    return x if layout is AttentionLayout.BHSD else x.swapaxes(1, 2)


def _heads_back(x: Array, layout: AttentionLayout) -> Array:
    """[B, H, S, D] in ``layout``."""
    if layout is AttentionLayout.BHSD:
        return x
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3]) if layout is AttentionLayout.BSD else x


def _unpack_heads(b: Builder, x: SSAValue, heads: int, dim: int) -> SSAValue:
    """[B, S, H·D] as [B, S, H, D]."""
    batch, seq, _ = shape_of(x)
    return b.insert(ReshapeOp(x, [batch, seq, heads, dim])).result


def _pack_heads(b: Builder, x: SSAValue, batch: int, seq: int) -> SSAValue:
    """[B, S, H, D] as [B, S, H·D]; ``batch`` and ``seq`` may be known better than from the type of ``x``."""
    *_, heads, dim = shape_of(x)
    return b.insert(ReshapeOp(x, [batch, seq, heads * dim])).result


def _transposed(b: Builder, x: SSAValue, perm: Sequence[int]) -> SSAValue:
    return b.insert(TransposeOp(x, perm)).result


@irdl_op_definition
class AttentionOp(RlxOp):
    """softmax(mask(softcap(scale · Q·Kᵀ))) · V per head; operands and result have one float element type.

    With H = ``num_heads``, G = ``num_kv_heads`` (a divisor of H, by default H), D = ``head_dim``, E = ``v_head_dim``
    (by default D): query head h uses the keys and values of head h / (H / G). Shapes by ``layout``:

    ====  ==============  ==============  ==============  ==============
    ..    q               k               v               result
    bsd   [B, Sq, H·D]    [B, Sk, G·D]    [B, Sk, G·E]    [B, Sq, H·E]
    bshd  [B, Sq, H, D]   [B, Sk, G, D]   [B, Sk, G, E]   [B, Sq, H, E]
    bhsd  [B, H, Sq, D]   [B, G, Sk, D]   [B, G, Sk, E]   [B, H, Sq, E]
    ====  ==============  ==============  ==============  ==============

    Scores s = ``score_scale`` (by default 1/√D) · Q·Kᵀ, then c·tanh(s/c) for ``attn_logit_softcap`` c, then the mask:

    - ``causal``: key k is seen by query q iff k ≤ q + (Sk - Sq);
    - ``sliding_window``: iff also k ≥ q + (Sk - Sq) - ``window``, so ``window`` + 1 keys;
    - ``custom``: iff the mask operand, of type float or i1, is not below 0.5; its shape is [B, Sk], [B, Sq, Sk] or
      [B, H, Sq, Sk];
    - ``bias``: every key; the mask operand [B, H, Sq, Sk] of the operands' element type is added to the scores.

    B, H and Sq of a mask operand may be 1. A key that is not seen has the score -1e9: where no key is, all weigh the
    same. f16 and bf16 are computed in f32.
    """

    name = "rlx.attention"
    KEYWORD: ClassVar = "mask_kind"
    q = operand_def()
    k = operand_def()
    v = operand_def()
    mask = opt_operand_def()
    mask_kind = prop_def(MaskKindAttr, default_value=MaskKindAttr(MaskKind.NONE))
    num_heads = prop_def(IntegerAttr[I64])
    num_kv_heads = opt_prop_def(IntegerAttr[I64])
    head_dim = prop_def(IntegerAttr[I64])
    v_head_dim = opt_prop_def(IntegerAttr[I64])
    layout = prop_def(AttentionLayoutAttr)
    window = opt_prop_def(IntegerAttr[I64])
    score_scale = opt_prop_def(FloatAttr[Float64Type])
    attn_logit_softcap = opt_prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(
        self,
        q: Value,
        k: Value,
        v: Value,
        mask: Value | None = None,
        *,
        num_heads: int,
        head_dim: int,
        layout: AttentionLayout | str,
        mask_kind: MaskKind | str = MaskKind.NONE,
        num_kv_heads: int | None = None,
        v_head_dim: int | None = None,
        window: int | None = None,
        score_scale: float | None = None,
        attn_logit_softcap: float | None = None,
        result_type: Attribute | None = None,
    ):
        super().__init__(
            [q, k, v] if mask is None else [q, k, v, mask],
            {
                "mask_kind": mask_kind,
                "num_heads": num_heads,
                "num_kv_heads": None if num_kv_heads == num_heads else num_kv_heads,
                "head_dim": head_dim,
                "v_head_dim": None if v_head_dim == head_dim else v_head_dim,
                "layout": layout,
                "window": window,
                "score_scale": score_scale,
                "attn_logit_softcap": attn_logit_softcap,
            },
            result_types=[result_type],
        )

    @property
    def kv_heads(self) -> int:
        return (self.num_heads if self.num_kv_heads is None else self.num_kv_heads).value.data

    @property
    def value_dim(self) -> int:
        return (self.head_dim if self.v_head_dim is None else self.v_head_dim).value.data

    @property
    def scale(self) -> float:
        """What Q·Kᵀ is multiplied by."""
        return 1 / math.sqrt(self.head_dim.value.data) if self.score_scale is None else self.score_scale.value.data

    def extents(self) -> tuple[int, int, int]:
        """Batch, query and key extents; raises ShapeError when Q, K and V do not fit together."""
        layout, heads, dim = self.layout.data, self.num_heads.value.data, self.head_dim.value.data
        batch, queries = _check_heads("q", self.shape(0), layout, DYNAMIC, heads, dim)
        batch_k, keys = _check_heads("k", self.shape(1), layout, batch, self.kv_heads, dim)
        batch = batch_k if batch == DYNAMIC else batch
        _, keys_v = _check_heads("v", self.shape(2), layout, batch, self.kv_heads, self.value_dim)
        if not shapes.compatible([keys], [keys_v]):
            raise ShapeError(f"operands 'k' and 'v' must have one sequence extent, got {keys} and {keys_v}")
        return batch, queries, keys_v if keys == DYNAMIC else keys

    def infer_types(self) -> tuple[Attribute, ...]:
        batch, queries, _ = self.extents()
        return (
            self.like(0, layout_shape(self.layout.data, batch, queries, self.num_heads.value.data, self.value_dim)),
        )

    def check(self) -> None:
        for name in ("num_heads", "num_kv_heads", "head_dim", "v_head_dim"):
            value: IntegerAttr[I64] | None = getattr(self, name)
            if value is not None and value.value.data < 1:
                self.fail(f"{name} must be positive, got {value.value.data}")
        if self.num_heads.value.data % self.kv_heads:
            self.fail(f"num_kv_heads {self.kv_heads} must divide num_heads {self.num_heads.value.data}")
        if self.attn_logit_softcap is not None and not self.attn_logit_softcap.value.data > 0:
            self.fail(f"attn_logit_softcap must be positive, got {self.attn_logit_softcap.value.data}")
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
        element, shape = self.element(3), self.shape(3)
        full = (batch, self.num_heads.value.data, queries, keys)
        if self.mask_kind.data is MaskKind.BIAS:
            self.check_same_element(0, 3)
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

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        layout, groups = self.layout.data, self.num_heads.value.data // self.kv_heads
        q = _heads_first(args[0], layout, self.num_heads.value.data)
        k, v = (np.repeat(_heads_first(x, layout, self.kv_heads), groups, axis=1) for x in args[1:3])
        scores = matmul(q, k.swapaxes(2, 3)) * self.scale
        if self.attn_logit_softcap is not None:
            cap = self.attn_logit_softcap.value.data
            scores = cap * np.tanh(scores / cap)
        if self.mask_kind.data is MaskKind.BIAS:
            scores = scores + args[3]
        elif self.mask_kind.data is MaskKind.CUSTOM:
            # [B, Sk] and [B, Sq, Sk] leave out axes after the first.
            mask = np.expand_dims(args[3], tuple(range(1, 5 - args[3].ndim)))
            scores = np.where(mask < 0.5, MASKED_SCORE, scores)
        elif self.mask_kind.data is not MaskKind.NONE:
            queries, keys = scores.shape[2:]
            last = np.arange(queries)[:, None] + (keys - queries)
            seen = np.arange(keys) <= last
            if self.window is not None:
                seen &= np.arange(keys) >= last - self.window.value.data
            scores = np.where(seen, scores, MASKED_SCORE)
        return (_heads_back(matmul(softmax(scores, 3), v), layout),)

    # Decomposition.

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Transposes, matrix products, a softmax; f16 and bf16 are cast to f32 first, so that scores do not overflow.

        Layout ``bsd`` takes one dynamic extent, because a reshape cannot keep two.
        """
        layout = self.layout.data
        if layout is AttentionLayout.BSD and any(shape_of(x)[:2].count(DYNAMIC) > 1 for x in self.operands[:3]):
            self.fail("cannot be decomposed in layout bsd with batch and sequence dynamic: heads cannot be split")
        element = self.element(0)
        wide = wide_element(element)
        dim = self.head_dim.value.data
        sizes = ((self.num_heads.value.data, dim), (self.kv_heads, dim), (self.kv_heads, self.value_dim))
        q, k, v = (
            self._to_heads(b, converted(b, x, wide), *size) for x, size in zip(self.operands[:3], sizes, strict=True)
        )
        keys = _transposed(b, self._repeated(b, k), (0, 1, 3, 2))
        scores = b.insert(MatMulOp(q, keys)).result
        scores = b.insert(BinaryOp("mul", scores, scalar(b, self.scale, wide))).result
        if self.attn_logit_softcap is not None:
            cap = scalar(b, self.attn_logit_softcap.value.data, wide)
            scores = b.insert(BinaryOp("div", scores, cap)).result
            scores = b.insert(ActivationOp("tanh", scores)).result
            scores = b.insert(BinaryOp("mul", scores, cap)).result
        scores = self._masked(b, scores)
        weights = b.insert(SoftmaxOp(scores, 3)).result
        value = b.insert(MatMulOp(weights, self._repeated(b, v))).result
        if layout is not AttentionLayout.BHSD:
            value = _transposed(b, value, (0, 2, 1, 3))
        if layout is AttentionLayout.BSD:
            batch, queries, _ = self.extents()
            value = _pack_heads(b, value, batch, queries)
        return self.as_results(converted(b, value, element))

    def _to_heads(self, b: Builder, x: SSAValue, heads: int, dim: int) -> SSAValue:
        """``x`` as [B, H, S, D]."""
        layout = self.layout.data
        if layout is AttentionLayout.BSD:
            x = _unpack_heads(b, x, heads, dim)
        return x if layout is AttentionLayout.BHSD else _transposed(b, x, (0, 2, 1, 3))

    def _repeated(self, b: Builder, x: SSAValue) -> SSAValue:
        """Each head of [B, G, S, D] repeated to [B, H, S, D]; a single one is left to broadcast."""
        groups = self.num_heads.value.data // self.kv_heads
        if groups == 1 or self.kv_heads == 1:
            return x
        heads = [b.insert(NarrowOp(x, 1, head, 1)).result for head in range(self.kv_heads)]
        return b.insert(ConcatOp([h for h in heads for _ in range(groups)], 1)).result

    def _masked(self, b: Builder, scores: SSAValue) -> SSAValue:
        if self.mask_kind.data is MaskKind.NONE:
            return scores
        element = element_of(scores)
        if self.mask is None:
            return b.insert(WhereOp(self._band(b, scores), scores, scalar(b, MASKED_SCORE, element))).result
        if self.mask_kind.data is MaskKind.BIAS:
            return b.insert(BinaryOp("add", scores, converted(b, self.mask, element))).result
        mask = self.mask
        if (left_out := 4 - rank_of(mask)) > 0:
            # A reshape would not keep two dynamic extents.
            mask = b.insert(ExpandOp(mask, [*(1,) * left_out, *(-1,) * rank_of(mask)])).result
            mask = _transposed(b, mask, (left_out, *range(left_out), *range(left_out + 1, 4)))
        if is_bool(element_of(mask)):
            return b.insert(WhereOp(mask, scores, scalar(b, MASKED_SCORE, element))).result
        # As "below 0.5", so that a NaN in the mask keeps its key as in the definition.
        hidden = b.insert(CompareOp("lt", mask, scalar(b, 0.5, element_of(mask)))).result
        return b.insert(WhereOp(hidden, scalar(b, MASKED_SCORE, element), scores)).result

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


def check_rope_table(name: str, table: Shape, seq: int, n_rot: int) -> None:
    """Raises ShapeError unless ``table`` has rank 2, a row for each of ``seq`` positions and a column for each pair."""
    if len(table) != 2 or 0 <= table[0] < seq or 0 <= table[1] < n_rot // 2:
        rows = "positions" if seq == DYNAMIC else str(seq)
        raise ShapeError(f"{name} must have at least {rows} rows of {n_rot // 2}, got {shapes.show(table)}")


class RotaryOp(RlxOp):
    """Base of the rotations by tables: pairs of lanes of each head of operand 0 rotate by angles with cos and sin.

    Operand 0, x, has the sequence on axis 1 for layouts bsd [B, S, H·D] and bshd [B, S, H, D] and on axis 2 for bhsd
    [B, H, S, D], where D is ``head_dim``. ``cos`` and ``sin`` are [positions, ≥ n_rot/2] of x's element type; their
    row i belongs to index i of the sequence, their column j to pair j. The first ``n_rot`` lanes (by default all D)
    rotate, the others are copied. The pairs are (j, j + n_rot/2) in style neox and (2j, 2j + 1) in style gptj.
    """

    INVERSE: ClassVar = False
    """Whether it rotates the other way."""
    head_dim = prop_def(IntegerAttr[I64])
    n_rot = opt_prop_def(IntegerAttr[I64])
    style = prop_def(RopeStyleAttr, default_value=RopeStyleAttr(RopeStyle.NEOX))
    layout = prop_def(AttentionLayoutAttr)
    result = result_def()

    def __init__(
        self,
        x: Value,
        cos: Value,
        sin: Value,
        *,
        head_dim: int,
        layout: AttentionLayout | str,
        n_rot: int | None = None,
        style: RopeStyle | str = RopeStyle.NEOX,
    ):
        n_rot = None if n_rot == head_dim else n_rot
        super().__init__([x, cos, sin], {"head_dim": head_dim, "n_rot": n_rot, "style": style, "layout": layout})

    @property
    def rotated(self) -> int:
        """How many lanes of each head rotate."""
        return (self.head_dim if self.n_rot is None else self.n_rot).value.data

    @property
    def seq_axis(self) -> int:
        return 2 if self.layout.data is AttentionLayout.BHSD else 1

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.operands[0].type,)

    def check(self) -> None:
        dim = self.head_dim.value.data
        if dim < 2 or dim % 2:
            self.fail(f"head_dim must be positive and even, got {dim}")
        if not 0 < self.rotated <= dim or self.rotated % 2:
            self.fail(f"n_rot must be even and between 2 and head_dim {dim}, got {self.rotated}")
        if not is_float(self.element(0)):
            self.fail(f"{self.operand_name(0)} must have a float element type, got {self.element(0)}")
        packed = self.layout.data is AttentionLayout.BSD
        shape = self.shape(0)
        if len(shape) != (3 if packed else 4):
            self.fail(
                f"{self.operand_name(0)} must have rank {3 if packed else 4} in layout {self.layout.data}, "
                f"got {shapes.show(shape)}"
            )
        if shape[-1] == DYNAMIC or (shape[-1] % dim if packed else shape[-1] != dim):
            wanted = "a multiple of head_dim" if packed else "head_dim"
            self.fail(f"the last extent of {self.operand_name(0)} must be {wanted} {dim}, got {shapes.show(shape)}")
        self.check_same_element()
        for index in (1, 2):
            check_rope_table(self.operand_name(index), self.shape(index), shape[self.seq_axis], self.rotated)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, n, half = args[0], self.rotated, self.rotated // 2
        dim = self.head_dim.value.data
        heads = x.reshape(*x.shape[:2], x.shape[2] // dim, dim) if x.ndim == 3 else x
        cos, sin = (t[: x.shape[self.seq_axis], :half] for t in args[1:])
        if self.seq_axis == 1:
            cos, sin = cos[:, None], sin[:, None]
        neox = self.style.data is RopeStyle.NEOX
        first, second = (slice(0, half), slice(half, n)) if neox else (slice(0, n, 2), slice(1, n, 2))
        result = heads.copy()
        a, b = heads[..., first], heads[..., second]
        sin = -sin if self.INVERSE else sin
        result[..., first] = a * cos - b * sin
        result[..., second] = b * cos + a * sin
        return (result.reshape(x.shape),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Narrows, products and a concatenation; the sequence must be static, the batch may be dynamic."""
        if self.shape(0)[self.seq_axis] == DYNAMIC:
            self.fail("cannot be decomposed with a dynamic sequence: the rows of the tables are not known")
        dim, n, half = self.head_dim.value.data, self.rotated, self.rotated // 2
        packed = self.layout.data is AttentionLayout.BSD
        x: SSAValue = _unpack_heads(b, self.operands[0], self.shape(0)[2] // dim, dim) if packed else self.operands[0]
        turned = x if n == dim else b.insert(NarrowOp(x, 3, 0, n)).result
        leading = shape_of(x)[:3]
        gptj = self.style.data is RopeStyle.GPTJ
        if gptj:
            if leading.count(DYNAMIC) > 1:
                self.fail("cannot be decomposed in style gptj with batch and heads dynamic: pairs cannot be split")
            turned = b.insert(ReshapeOp(turned, [*leading, half, 2])).result
        axis, width = (4, 1) if gptj else (3, half)
        first = b.insert(NarrowOp(turned, axis, 0, width)).result
        second = b.insert(NarrowOp(turned, axis, width, width)).result
        cos, sin = (self._table_rows(b, table) for table in self.operands[1:])

        def combined(p: SSAValue, q: SSAValue, kind: str) -> SSAValue:
            left, right = (b.insert(BinaryOp("mul", value, table)).result for value, table in ((p, cos), (q, sin)))
            return b.insert(BinaryOp(kind, left, right)).result

        kinds = ("add", "sub") if self.INVERSE else ("sub", "add")
        pairs = ((first, second), (second, first))
        parts = [combined(p, q, kind) for (p, q), kind in zip(pairs, kinds, strict=True)]
        value = b.insert(ConcatOp(parts, axis)).result
        if gptj:
            value = b.insert(ReshapeOp(value, [*leading, n])).result
        if n != dim:
            value = b.insert(ConcatOp([value, b.insert(NarrowOp(x, 3, n, dim - n)).result], 3)).result
        return self.as_results(_pack_heads(b, value, *leading[:2]) if packed else value)

    def _table_rows(self, b: Builder, table: SSAValue) -> SSAValue:
        """The part of a table that is used, shaped to broadcast against pairs of lanes."""
        seq, half = self.shape(0)[self.seq_axis], self.rotated // 2
        for axis, extent in ((0, seq), (1, half)):
            if shape_of(table)[axis] != extent:
                table = b.insert(NarrowOp(table, axis, 0, extent)).result
        heads = (1,) if self.seq_axis == 1 else ()
        lanes = (half,) if self.style.data is RopeStyle.NEOX else (half, 1)
        shape = (seq, *heads, *lanes)
        return table if shape == shape_of(table) else b.insert(ReshapeOp(table, shape)).result


@irdl_op_definition
class RopeOp(RotaryOp):
    """Rotary position embedding: pairs (a, b) become (a·c - b·s, b·c + a·s); see :class:`RotaryOp`."""

    name = "rlx.rope"
    x = operand_def()
    cos = operand_def()
    sin = operand_def()
