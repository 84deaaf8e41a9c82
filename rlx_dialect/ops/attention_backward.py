"""The gradients of attention with respect to its queries, keys and values: each alone, or all three at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import (
    AttentionInput,
    AttentionInputAttr,
    AttentionLayout,
    AttentionLayoutAttr,
    MaskKind,
    MaskKindAttr,
)
from rlx_dialect.base import Value
from rlx_dialect.dtypes import Array, wide_element
from rlx_dialect.ops.attention_scores import ScoresOp, heads_back, heads_first, layout_shape, transposed
from rlx_dialect.ops.contraction import MatMulOp, matmul
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.reduction import ReduceOp, converted
from rlx_dialect.ops.shape import ConcatOp, NarrowOp
from rlx_dialect.shapes import DYNAMIC, Shape
from rlx_dialect.xdsl_compat import Builder


class AttentionGradientOp(ScoresOp):
    """Base of the gradients of rlx.attention without softcap, with the scale 1/√D and V's heads of extent D.

    q, k, v, the mask and the properties are those of the attention; ``dy`` is the gradient of its result. With the
    weights P = softmax(mask(scale · Q·Kᵀ)), per head::

        dV = Pᵀ·dY      dP = dY·Vᵀ      dS = scale · P∘(dP - rowsum(P∘dP))      dQ = dS·K      dK = dSᵀ·Q

    dS is 0 at keys that are not seen, because their score does not depend on anything, even in a row that sees none.
    Where a head of K and V serves several of Q, its gradient is the sum of theirs. f16 and bf16 are computed in f32.
    """

    KEYWORD: ClassVar = "mask_kind"
    q = operand_def()
    k = operand_def()
    v = operand_def()
    dy = operand_def()
    mask = opt_operand_def()
    mask_kind = prop_def(MaskKindAttr, default_value=MaskKindAttr(MaskKind.NONE))
    num_heads = prop_def(IntegerAttr[I64])
    num_kv_heads = opt_prop_def(IntegerAttr[I64])
    head_dim = prop_def(IntegerAttr[I64])
    layout = prop_def(AttentionLayoutAttr)
    window = opt_prop_def(IntegerAttr[I64])
    result = result_def()

    def input_shape(self, of: AttentionInput) -> Shape:
        """The shape of q, k or v, as far as the operands together tell."""
        batch, queries, keys = self.extents()
        seq, heads = (queries, self.heads) if of is AttentionInput.QUERY else (keys, self.kv_heads)
        return layout_shape(self.layout.data, batch, seq, heads, self.head_dim.value.data)

    def check(self) -> None:
        super().check()
        self.check_same_element(0, 3)
        self.check_shape(3, self.input_shape(AttentionInput.QUERY))

    def gradients(self, args: Sequence[Array], wanted: Sequence[AttentionInput]) -> list[Array]:
        """The gradients with respect to ``wanted``, of the shapes of q, k and v."""
        layout = self.layout.data
        q, dy = (heads_first(args[i], layout, self.heads) for i in (0, 3))
        k, v = map(self.key_heads, args[1:3])
        mask = None if self.mask is None else args[4]
        weights = self.weights(q, k, mask)
        d_weights = matmul(dy, v.swapaxes(2, 3))
        d_scores = weights * (d_weights - (weights * d_weights).sum(3, keepdims=True)) * self.scale
        if (seen := self.seen(mask, *weights.shape[2:])) is not None:
            d_scores = np.where(seen, d_scores, 0)

        def of_key_heads(x: Array) -> Array:
            return x.reshape(x.shape[0], self.kv_heads, -1, *x.shape[2:]).sum(2)

        formulas = {
            AttentionInput.QUERY: lambda: matmul(d_scores, k),
            AttentionInput.KEY: lambda: of_key_heads(matmul(d_scores.swapaxes(2, 3), q)),
            AttentionInput.VALUE: lambda: of_key_heads(matmul(weights.swapaxes(2, 3), dy)),
        }
        return [heads_back(formulas[of](), layout) for of in wanted]

    def decomposed_gradients(self, b: Builder, wanted: Sequence[AttentionInput]) -> list[SSAValue]:
        """:meth:`gradients` of operations at ``b``, in the wide element type."""
        wide, dim = wide_element(self.element(0)), self.head_dim.value.data
        heads = (self.heads, self.kv_heads, self.kv_heads, self.heads)
        q, k, v, dy = (
            self.to_heads(b, converted(b, x, wide), h, dim) for x, h in zip(self.operands[:4], heads, strict=True)
        )
        k, v = self.repeated(b, k), self.repeated(b, v)
        weights, visibility = self.weights_of(b, q, _swapped(b, k))
        batch, queries, keys = self.extents()

        def d_scores() -> SSAValue:
            p, dp = Term(b, weights), Term(b, _product(b, dy, _swapped(b, v)))
            d_scores = (p * (dp - (p * dp).reduce("sum", [3])) * self.scale).value
            return d_scores if visibility is None else visibility.choose(b, d_scores, 0.0)

        scores = None if wanted == [AttentionInput.VALUE] else d_scores()
        results: list[SSAValue] = []
        for of in wanted:
            if of is AttentionInput.VALUE:
                gradient = self._of_key_heads(b, _product(b, _swapped(b, weights), dy))
            elif of is AttentionInput.KEY:
                assert scores is not None
                gradient = self._of_key_heads(b, _product(b, _swapped(b, scores), q))
            else:
                assert scores is not None
                gradient = _product(b, scores, k)
            results.append(self.from_heads(b, gradient, batch, queries if of is AttentionInput.QUERY else keys))
        return results

    def _of_key_heads(self, b: Builder, x: SSAValue) -> SSAValue:
        """[B, H, S, D] summed over the query heads of each key head, [B, G, S, D]."""
        groups = self.heads // self.kv_heads
        if groups == 1:
            return x
        parts = [x]
        if self.kv_heads > 1:
            parts = [b.insert(NarrowOp(x, 1, head * groups, groups)).result for head in range(self.kv_heads)]
        sums = [b.insert(ReduceOp("sum", part, [1], keep_dim=True)).result for part in parts]
        return sums[0] if len(sums) == 1 else b.insert(ConcatOp(sums, 1)).result


def _product(b: Builder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return b.insert(MatMulOp(lhs, rhs)).result


def _swapped(b: Builder, x: SSAValue) -> SSAValue:
    """[B, H, I, J] as [B, H, J, I]."""
    return transposed(b, x, (0, 1, 3, 2))


@irdl_op_definition
class AttentionBackwardOp(AttentionGradientOp):
    """The gradient of attention ``wrt`` query, key or value, of the shape of that operand.

    Formulas are at :class:`AttentionGradientOp`.
    """

    name = "rlx.attention_backward"
    wrt = prop_def(AttentionInputAttr)

    def __init__(
        self,
        q: Value,
        k: Value,
        v: Value,
        dy: Value,
        mask: Value | None = None,
        *,
        wrt: AttentionInput | str,
        num_heads: int,
        head_dim: int,
        layout: AttentionLayout | str,
        mask_kind: MaskKind | str = MaskKind.NONE,
        num_kv_heads: int | None = None,
        window: int | None = None,
    ):
        super().__init__(
            [q, k, v, dy] if mask is None else [q, k, v, dy, mask],
            {
                "wrt": wrt,
                "mask_kind": mask_kind,
                "num_heads": num_heads,
                "num_kv_heads": None if num_kv_heads == num_heads else num_kv_heads,
                "head_dim": head_dim,
                "layout": layout,
                "window": window,
            },
        )

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, self.input_shape(self.wrt.data)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return tuple(self.gradients(args, [self.wrt.data]))

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        (gradient,) = self.decomposed_gradients(b, [self.wrt.data])
        return self.as_results(converted(b, gradient, self.element(0)))


@irdl_op_definition
class AttentionBackwardAllOp(AttentionGradientOp):
    """The gradients of self-attention with respect to query, key and value, in this order along axis 0: [3·B, …].

    q, k and v have one shape. Formulas are at :class:`AttentionGradientOp`.
    """

    name = "rlx.attention_backward_all"

    def __init__(
        self,
        q: Value,
        k: Value,
        v: Value,
        dy: Value,
        mask: Value | None = None,
        *,
        num_heads: int,
        head_dim: int,
        layout: AttentionLayout | str,
        mask_kind: MaskKind | str = MaskKind.NONE,
        window: int | None = None,
    ):
        super().__init__(
            [q, k, v, dy] if mask is None else [q, k, v, dy, mask],
            {
                "mask_kind": mask_kind,
                "num_heads": num_heads,
                "head_dim": head_dim,
                "layout": layout,
                "window": window,
            },
        )

    def infer_types(self) -> tuple[Attribute, ...]:
        batch, *rest = self.input_shape(AttentionInput.QUERY)
        return (self.like(0, (batch if batch == DYNAMIC else 3 * batch, *rest)),)

    def check(self) -> None:
        super().check()
        if self.kv_heads != self.heads:
            self.fail(f"num_kv_heads must be num_heads {self.heads}, got {self.kv_heads}")
        if not shapes.compatible(self.shape(0), self.shape(1)):
            shown = " and ".join(shapes.show(self.shape(index)) for index in (0, 1))
            self.fail(f"operands 'q' and 'k' must have one shape, got {shown}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.concatenate(self.gradients(args, list(AttentionInput))),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        whole = b.insert(ConcatOp(self.decomposed_gradients(b, list(AttentionInput)), 0)).result
        return self.as_results(converted(b, whole, self.element(0)))
