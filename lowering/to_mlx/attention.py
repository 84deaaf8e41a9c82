"""Attention by MLX's fused form, and its gradients.

f16 and bf16 are converted to f32 first: MLX's form for the CPU would round the scores.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from rlx_dialect.attributes import AttentionInput, AttentionLayout, MaskKind
from rlx_dialect.base import element_of, rank_of, shape_of
from rlx_dialect.dtypes import is_bool, is_narrow
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.reduction import softmax_function
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.attention_backward import AttentionBackwardAllOp, AttentionBackwardOp, AttentionGradientOp
from rlx_dialect.ops.attention_scores import ScoresOp
from rlx_dialect.shapes import DYNAMIC

_TURNED = "mx.swapaxes({x}, 1, 2)"


def _heads(w: Writer, x: SSAValue, layout: AttentionLayout, heads: int, name: str) -> str:
    """The name of ``x`` in f32 (or f64) as [B, H, S, D]."""
    value = w.wide(x)
    if layout is AttentionLayout.BHSD:
        return value
    if layout is AttentionLayout.BSD:
        batch, seq, width = w.extents(x)
        dim = str(int(width) // heads) if width.isdecimal() else "-1"
        value = f"{value}.reshape({batch}, {seq}, {heads}, {dim})"
    return w.let(f"{name}_heads", _TURNED.format(x=value))


def _layout_back(w: Writer, value: str, layout: AttentionLayout, result: SSAValue) -> str:
    """[B, H, S, D] in the layout."""
    if layout is AttentionLayout.BHSD:
        return value
    value = _TURNED.format(x=value)
    if layout is AttentionLayout.BSHD:
        return value
    # flatten takes unknown extents.
    return f"{value}.flatten(2, 3)" if DYNAMIC in shape_of(result) else f"{value}.reshape{tuple(shape_of(result))}"


def _custom_mask(w: Writer, mask: SSAValue) -> str:
    """Where keys are seen, as [B or 1, H or 1, Sq or 1, Sk]; a NaN keeps its key."""
    index = {2: "[:, None, None, :]", 3: "[:, None, :, :]", 4: ""}[rank_of(mask)]
    seen = f"{w.value(mask)}{index}" if is_bool(element_of(mask)) else f"~({w.value(mask)}{index} < 0.5)"
    return w.let("seen", seen) if index or not is_bool(element_of(mask)) else seen


def _seen(w: Writer, op: ScoresOp, q: str, k: str) -> str | None:
    """Which keys each query sees, as an array; None where each sees all."""
    match op.mask_kind.data:
        case MaskKind.CUSTOM:
            assert op.mask is not None
            return _custom_mask(w, op.mask)
        case MaskKind.CAUSAL | MaskKind.SLIDING_WINDOW:
            _, queries, keys = op.extents()
            lengths = [
                f"{name}.shape[2]" if extent == DYNAMIC else extent for name, extent in ((q, queries), (k, keys))
            ]
            window = [] if op.window is None else [op.window.value.data]
            return w.let("seen", w.call("band", *lengths, *window))
        case MaskKind.NONE | MaskKind.BIAS:
            return None


def _bias(w: Writer, op: ScoresOp) -> str | None:
    return w.wide(op.mask) if op.mask_kind.data is MaskKind.BIAS and op.mask is not None else None


def _options(**options: str | None) -> list[str]:
    return [f"{name}={value}" for name, value in options.items() if value is not None]


@lowers(AttentionOp)
def attention(op: AttentionOp, w: Writer) -> str:
    layout, scale = op.layout.data, repr(op.scale)
    counts = (op.heads, op.kv_heads, op.kv_heads)
    q, k, v = (_heads(w, x, layout, n, name) for x, n, name in zip(op.operands, counts, "qkv", strict=False))
    value = _attended(w, op, q, k, v, scale)
    element = op.element(0)
    if layout is AttentionLayout.BHSD:
        return w.narrowed(value, element)
    attended = w.let("attended", value)
    value = _layout_back(w, attended, layout, op.result)
    return w.narrowed(value, element) if is_narrow(element) else value


def _attended(w: Writer, op: AttentionOp, q: str, k: str, v: str, scale: str) -> str:
    kind, (_, queries, keys) = op.mask_kind.data, op.extents()

    def plain() -> str:
        softcap = None if op.softcap is None else repr(op.softcap)
        options = _options(softcap=softcap, bias=_bias(w, op), seen=_seen(w, op, q, k))
        return w.call("plain_attention", q, k, v, scale, softmax_function(w, op.q), *options)

    if op.softcap is not None or is_f64(op.q):  # MLX's exponentials of float64 are those of float32.
        return plain()
    fused = f"mx.fast.scaled_dot_product_attention({q}, {k}, {v}, scale={scale}"
    if kind is MaskKind.NONE:
        return f"{fused})"
    if kind is MaskKind.BIAS:
        return f"{fused}, mask={_bias(w, op)})"
    known = DYNAMIC not in (queries, keys)
    if kind is MaskKind.CAUSAL and known and queries <= keys:
        return f'{fused}, mask="causal")'
    if kind is MaskKind.CAUSAL and not known:
        return w.call("causal_attention", q, k, v, scale)
    seen = _seen(w, op, q, k)
    if kind is MaskKind.SLIDING_WINDOW and known and queries <= keys:
        return f"{fused}, mask={seen})"  # Every query sees its own key.
    return w.call("attention", q, k, v, scale, seen)


@lowers(AttentionBackwardOp, AttentionBackwardAllOp)
def attention_backward(op: AttentionGradientOp, w: Writer) -> str:
    layout, element = op.layout.data, op.element(0)
    counts = (op.heads, op.kv_heads, op.kv_heads, op.heads)
    names = ("q", "k", "v", "dy")
    q, k, v, dy = (_heads(w, x, layout, n, name) for x, n, name in zip(op.operands[:4], counts, names, strict=True))
    options = _options(bias=_bias(w, op), seen=_seen(w, op, q, k))
    gradients = w.call("attention_gradients", q, k, v, dy, repr(op.scale), softmax_function(w, op.q), *options)
    if isinstance(op, AttentionBackwardOp):
        value = f"{gradients}[{list(AttentionInput).index(op.wrt.data)}]"
    else:
        value = f"mx.concatenate({gradients}, axis=0)"
    return w.narrowed(_layout_back(w, value, layout, op.result), element)
