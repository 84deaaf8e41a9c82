"""Attention and rotary position embedding."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr
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
from rlx_dialect.base import RlxOp, Value, shape_of
from rlx_dialect.dtypes import Array, is_float, wide_element
from rlx_dialect.ops.attention_scores import (
    ScoresOp,
    heads_back,
    heads_first,
    layout_shape,
    pack_heads,
    transposed,
    unpack_heads,
)
from rlx_dialect.ops.contraction import MatMulOp, matmul
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.extents import merge_axes, positions, split_axis
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.reduction import converted
from rlx_dialect.ops.shape import ConcatOp, NarrowOp, ReshapeOp
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError
from rlx_dialect.xdsl_compat import Builder


@irdl_op_definition
class AttentionOp(ScoresOp):
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
    def value_dim(self) -> int:
        return (self.head_dim if self.v_head_dim is None else self.v_head_dim).value.data

    @property
    def scale(self) -> float:
        return super().scale if self.score_scale is None else self.score_scale.value.data

    @property
    def softcap(self) -> float | None:
        return None if self.attn_logit_softcap is None else self.attn_logit_softcap.value.data

    def infer_types(self) -> tuple[Attribute, ...]:
        batch, queries, _ = self.extents()
        return (self.like(0, layout_shape(self.layout.data, batch, queries, self.heads, self.value_dim)),)

    def check(self) -> None:
        if self.v_head_dim is not None and self.value_dim < 1:
            self.fail(f"v_head_dim must be positive, got {self.value_dim}")
        if self.softcap is not None and not self.softcap > 0:
            self.fail(f"attn_logit_softcap must be positive, got {self.softcap}")
        super().check()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        q, k, v = heads_first(args[0], self.layout.data, self.heads), *map(self.key_heads, args[1:3])
        weights = self.weights(q, k, None if self.mask is None else args[3])
        return (heads_back(matmul(weights, v), self.layout.data),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Transposes, matrix products, a softmax; f16 and bf16 are cast to f32 first, so that scores do not overflow.

        Layout ``bsd`` takes one dynamic extent, because a reshape cannot keep two.
        """
        element, dim = self.element(0), self.head_dim.value.data
        wide = wide_element(element)
        sizes = ((self.heads, dim), (self.kv_heads, dim), (self.kv_heads, self.value_dim))
        q, k, v = (
            self.to_heads(b, converted(b, x, wide), *size) for x, size in zip(self.operands[:3], sizes, strict=True)
        )
        weights, _ = self.weights_of(b, q, transposed(b, self.repeated(b, k), (0, 1, 3, 2)))
        value = b.insert(MatMulOp(weights, self.repeated(b, v))).result
        batch, queries, _ = self.extents()
        return self.as_results(converted(b, self.from_heads(b, value, batch, queries), element))


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
        """Narrows, products and a concatenation."""
        dim, n, half = self.head_dim.value.data, self.rotated, self.rotated // 2
        packed = self.layout.data is AttentionLayout.BSD
        x: SSAValue = unpack_heads(b, self.operands[0], self.shape(0)[2] // dim, dim) if packed else self.operands[0]
        turned = x if n == dim else b.insert(NarrowOp(x, 3, 0, n)).result
        leading = shape_of(x)[:3]
        gptj = self.style.data is RopeStyle.GPTJ
        if gptj:
            turned = split_axis(Term(b, turned), 3, [half, 2]).value
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
            value = merge_axes(Term(b, value), 3, 2).value
        if n != dim:
            value = b.insert(ConcatOp([value, b.insert(NarrowOp(x, 3, n, dim - n)).result], 3)).result
        return self.as_results(pack_heads(b, value, *leading[:2]) if packed else value)

    def _table_rows(self, b: Builder, table: SSAValue) -> SSAValue:
        """The part of a table that is used, shaped to broadcast against pairs of lanes."""
        seq, half = self.shape(0)[self.seq_axis], self.rotated // 2
        if seq == DYNAMIC:
            rows = positions(Term(b, self.operands[0]), self.seq_axis).value
            table = b.insert(GatherOp(table, rows)).result
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
