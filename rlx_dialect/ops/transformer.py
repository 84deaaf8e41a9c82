"""Whole transformer blocks as single operations."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, UnitAttr, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, var_operand_def

from rlx_dialect import shapes
from rlx_dialect.attributes import ActivationKind, ActivationKindAttr, AttentionLayout, MaskKind
from rlx_dialect.base import RlxOp, Value, element_of, shape_of
from rlx_dialect.dtypes import is_bool, is_float
from rlx_dialect.ops.attention import AttentionOp, RopeOp, check_rope_table
from rlx_dialect.ops.constant import ConstantOp, scalar
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, WhereOp
from rlx_dialect.ops.normalization import LayerNormOp
from rlx_dialect.ops.shape import NarrowOp
from rlx_dialect.shapes import DYNAMIC, Shape, is_static
from rlx_dialect.xdsl_compat import Builder


class TransformerOp(RlxOp):
    """Base of the blocks: operands that are always there, and ``extras`` that flags add, all found by name."""

    ALWAYS: ClassVar[tuple[str, ...]]

    def extra_names(self) -> tuple[str, ...]:
        """Names of the ``extras`` that the flags ask for, in order."""
        raise AssertionError(f"{self.name} names no extras")

    def operand_name(self, index: int) -> str:
        names = (*self.ALWAYS, *self.extra_names())
        return f"operand '{names[index]}'" if index < len(names) else f"operand #{index}"

    def find(self, name: str) -> SSAValue | None:
        """The operand of that name; None for one that the flags leave out."""
        names = (*self.ALWAYS, *self.extra_names())
        return self.operands[names.index(name)] if name in names else None

    def check_block(self, expected: dict[str, Shape]) -> None:
        """Verify operand count, element types, sizes and epsilons, and shapes by operand name (DYNAMIC matches all)."""
        extras = self.extra_names()
        if len(self.operands) != len(self.ALWAYS) + len(extras):
            self.fail(
                f"{len(self.ALWAYS) + len(extras)} operands expected ({', '.join((*self.ALWAYS, *extras))}), "
                f"got {len(self.operands)}"
            )
        for name, attribute in self.properties.items():
            if isinstance(attribute, IntegerAttr) and attribute.value.data < 1:
                self.fail(f"{name} must be positive, got {attribute.value.data}")
            if isinstance(attribute, FloatAttr) and not attribute.value.data >= 0:
                self.fail(f"{name} must not be negative, got {attribute.value.data}")
        element = self.element(0)
        if not is_float(element):
            self.fail(f"operand 'hidden' must have a float element type, got {element}")
        for index, name in enumerate((*self.ALWAYS, *extras)):
            found = self.element(index)
            if name == "mask":
                if not is_float(found) and not is_bool(found):
                    self.fail(f"operand 'mask' must have a float element type or i1, got {found}")
            elif found != element:
                self.fail(f"operand '{name}' must have element type {element} like operand 'hidden', got {found}")
            if (wanted := expected.get(name)) is not None and not shapes.compatible(self.shape(index), wanted):
                self.fail(
                    f"operand '{name}' must have shape {shapes.show(wanted)}, got {shapes.show(self.shape(index))}"
                )

    def hidden_extents(self) -> tuple[int, int, int]:
        """Batch, sequence and width of operand 'hidden'."""
        shape = self.shape(0)
        if len(shape) != 3:
            raise shapes.ShapeError(f"operand 'hidden' must have rank 3, got {shapes.show(shape)}")
        return shape[0], shape[1], shape[2]


def _linear(b: Builder, x: SSAValue, weight: SSAValue, bias: SSAValue | None) -> SSAValue:
    product = b.insert(MatMulOp(x, weight)).result
    return product if bias is None else b.insert(BinaryOp("add", product, bias)).result


def _zeros_like(b: Builder, x: SSAValue) -> SSAValue:
    if is_static(shape_of(x)):
        return b.insert(ConstantOp.of(0.0, x.type)).result
    # No constant has dynamic extents.
    return b.insert(WhereOp(scalar(b, True, i1), scalar(b, 0.0, element_of(x)), x)).result


@irdl_op_definition
class FusedAttentionBlockOp(TransformerOp):
    """Self-attention with its projections: [B, S, W] -> [B, S, N].

    With H = ``num_heads`` and D = ``head_dim``: hidden [B, S, W] · qkv_w [W, 3·H·D] (+ qkv_b [3·H·D]) gives Q, K and
    V, in this order; with ``has_rope``, Q and K are rotated (style neox, all D lanes; tables [≥ S, ≥ D/2]);
    attention with the custom mask [B, S] (below 0.5: the key is not seen) and scale 1/√D; · out_w [H·D, N] (+ out_b
    [N]). ``extras``: qkv_b, out_b with ``has_bias``, then rope_cos, rope_sin with ``has_rope``.
    """

    name = "rlx.fused_attention_block"
    ALWAYS: ClassVar = ("hidden", "qkv_w", "out_w", "mask")
    hidden = operand_def()
    qkv_w = operand_def()
    out_w = operand_def()
    mask = operand_def()
    extras = var_operand_def()
    num_heads = prop_def(IntegerAttr[I64])
    head_dim = prop_def(IntegerAttr[I64])
    has_bias = opt_prop_def(UnitAttr)
    has_rope = opt_prop_def(UnitAttr)
    result = result_def()

    def __init__(
        self,
        hidden: Value,
        qkv_w: Value,
        out_w: Value,
        mask: Value,
        *,
        num_heads: int,
        head_dim: int,
        biases: tuple[Value, Value] | None = None,
        rope: tuple[Value, Value] | None = None,
        result_type: Attribute | None = None,
    ):
        """``biases`` are qkv_b and out_b, ``rope`` the tables cos and sin."""
        super().__init__(
            [hidden, qkv_w, out_w, mask, *(biases or ()), *(rope or ())],
            {
                "num_heads": num_heads,
                "head_dim": head_dim,
                "has_bias": biases is not None,
                "has_rope": rope is not None,
            },
            result_types=[result_type],
        )

    def extra_names(self) -> tuple[str, ...]:
        biases = () if self.has_bias is None else ("qkv_b", "out_b")
        return (*biases, *(() if self.has_rope is None else ("rope_cos", "rope_sin")))

    def infer_types(self) -> tuple[Attribute, ...]:
        batch, seq, _ = self.hidden_extents()
        return (self.like(0, (batch, seq, *self.shape(2)[1:])),)

    def check(self) -> None:
        batch, seq, width = self.hidden_extents()
        dim = self.head_dim.value.data
        packed = self.num_heads.value.data * dim
        out = self.shape(2)[1] if len(self.shape(2)) == 2 else DYNAMIC
        self.check_block(
            {
                "qkv_w": (width, 3 * packed),
                "out_w": (packed, DYNAMIC),
                "mask": (batch, seq),
                "qkv_b": (3 * packed,),
                "out_b": (out,),
            },
        )
        if self.has_rope is not None:
            if dim % 2:
                self.fail(f"head_dim must be even with has_rope, got {dim}")
            for name in ("rope_cos", "rope_sin"):
                table = self.find(name)
                assert table is not None
                check_rope_table(f"operand '{name}'", shape_of(table), seq, dim)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        heads, dim = self.num_heads.value.data, self.head_dim.value.data
        layout = AttentionLayout.BSD
        qkv = _linear(b, self.hidden, self.qkv_w, self.find("qkv_b"))
        q, k, v = (b.insert(NarrowOp(qkv, 2, part * heads * dim, heads * dim)).result for part in range(3))
        cos, sin = self.find("rope_cos"), self.find("rope_sin")
        if cos is not None and sin is not None:
            q, k = (b.insert(RopeOp(x, cos, sin, head_dim=dim, layout=layout)).result for x in (q, k))
        attention = AttentionOp(
            q, k, v, self.mask, mask_kind=MaskKind.CUSTOM, num_heads=heads, head_dim=dim, layout=layout
        )
        return self.as_results(_linear(b, b.insert(attention).result, self.out_w, self.find("out_b")))


@irdl_op_definition
class FusedTransformerLayerOp(TransformerOp):
    """A post-norm (BERT) encoder layer: [B, S, W] -> [B, S, W].

    a = attention block of hidden (see :class:`FusedAttentionBlockOp`); h = layer_norm(a + hidden; ln1, ``eps1``);
    f = activation(h · fc1_w + fc1_b) · fc2_w + fc2_b; result = layer_norm(f + h; ln2, ``eps2``). Without a kind there
    is no activation. qkv_w [W, 3·H·D], out_w [H·D, W], fc1_w [W, I], fc2_w [I, W], ln1_g and ln2_g [W],
    mask [B, S], with I = ``intermediate_size``. ``extras`` with ``has_bias``: qkv_b, out_b, ln1_b, fc1_b, fc2_b, ln2_b;
    without it they are zero.
    """

    name = "rlx.fused_transformer_layer"
    KEYWORD: ClassVar = "activation"
    ALWAYS: ClassVar = ("hidden", "qkv_w", "out_w", "ln1_g", "fc1_w", "fc2_w", "ln2_g", "mask")
    BIASES: ClassVar = ("qkv_b", "out_b", "ln1_b", "fc1_b", "fc2_b", "ln2_b")
    hidden = operand_def()
    qkv_w = operand_def()
    out_w = operand_def()
    ln1_g = operand_def()
    fc1_w = operand_def()
    fc2_w = operand_def()
    ln2_g = operand_def()
    mask = operand_def()
    extras = var_operand_def()
    activation = opt_prop_def(ActivationKindAttr)
    num_heads = prop_def(IntegerAttr[I64])
    head_dim = prop_def(IntegerAttr[I64])
    intermediate_size = prop_def(IntegerAttr[I64])
    eps1 = prop_def(FloatAttr[Float64Type])
    eps2 = prop_def(FloatAttr[Float64Type])
    has_bias = opt_prop_def(UnitAttr)
    result = result_def()

    def __init__(
        self,
        hidden: Value,
        qkv_w: Value,
        out_w: Value,
        ln1_g: Value,
        fc1_w: Value,
        fc2_w: Value,
        ln2_g: Value,
        mask: Value,
        *,
        num_heads: int,
        head_dim: int,
        intermediate_size: int,
        eps1: float,
        eps2: float,
        activation: ActivationKind | str | None = None,
        biases: tuple[Value, Value, Value, Value, Value, Value] | None = None,
        result_type: Attribute | None = None,
    ):
        """``biases`` are qkv_b, out_b, ln1_b, fc1_b, fc2_b and ln2_b."""
        super().__init__(
            [hidden, qkv_w, out_w, ln1_g, fc1_w, fc2_w, ln2_g, mask, *(biases or ())],
            {
                "activation": activation,
                "num_heads": num_heads,
                "head_dim": head_dim,
                "intermediate_size": intermediate_size,
                "eps1": eps1,
                "eps2": eps2,
                "has_bias": biases is not None,
            },
            result_types=[result_type],
        )

    def extra_names(self) -> tuple[str, ...]:
        return () if self.has_bias is None else self.BIASES

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.hidden.type,)

    def check(self) -> None:
        batch, seq, width = self.hidden_extents()
        packed, inner = self.num_heads.value.data * self.head_dim.value.data, self.intermediate_size.value.data
        self.check_block(
            {
                "qkv_w": (width, 3 * packed),
                "out_w": (packed, width),
                "fc1_w": (width, inner),
                "fc2_w": (inner, width),
                "mask": (batch, seq),
                "qkv_b": (3 * packed,),
                "fc1_b": (inner,),
                **dict.fromkeys(("ln1_g", "ln2_g", "ln1_b", "ln2_b", "out_b", "fc2_b"), (width,)),
            },
        )

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        biases = dict(zip(self.extra_names(), self.extras, strict=True))
        block = FusedAttentionBlockOp(
            self.hidden,
            self.qkv_w,
            self.out_w,
            self.mask,
            num_heads=self.num_heads.value.data,
            head_dim=self.head_dim.value.data,
            biases=(biases["qkv_b"], biases["out_b"]) if biases else None,
        )
        attended = b.insert(block).result
        h = self._normalized(b, attended, self.hidden, self.ln1_g, biases.get("ln1_b"), self.eps1)
        f = _linear(b, h, self.fc1_w, biases.get("fc1_b"))
        if self.activation is not None:
            f = b.insert(ActivationOp(self.activation.data, f)).result
        f = _linear(b, f, self.fc2_w, biases.get("fc2_b"))
        return self.as_results(self._normalized(b, f, h, self.ln2_g, biases.get("ln2_b"), self.eps2))

    def _normalized(
        self,
        b: Builder,
        x: SSAValue,
        residual: SSAValue,
        gamma: SSAValue,
        beta: SSAValue | None,
        eps: FloatAttr[Float64Type],
    ) -> SSAValue:
        total = b.insert(BinaryOp("add", x, residual)).result
        if beta is None:
            beta = _zeros_like(b, gamma)
        return b.insert(LayerNormOp(total, gamma, beta, eps=eps.value.data)).result
