"""Losses by rows: a formula of their own, as MLX's cross entropy has another meaning for infinities."""

from __future__ import annotations

from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.reduction import softmax_function
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64
from rlx_dialect.ops.loss import SoftmaxCrossEntropyBackwardOp, SoftmaxCrossEntropyWithLogitsOp


@lowers(SoftmaxCrossEntropyWithLogitsOp)
def softmax_cross_entropy_with_logits(op: SoftmaxCrossEntropyWithLogitsOp, w: Writer) -> str:
    exp = w.printed.helper("exp_f64") if is_f64(op.logits) else "mx.exp"
    logs = w.let("logs", w.call("log_softmax", w.wide(op.logits), exp))
    chosen = f"mx.take_along_axis({logs}, {w.value(op.labels)}[:, None], axis=1)[:, 0]"
    return w.narrowed(f"-{chosen}", op.element(0))


@lowers(SoftmaxCrossEntropyBackwardOp)
def softmax_cross_entropy_backward(op: SoftmaxCrossEntropyBackwardOp, w: Writer) -> str:
    logits, d_loss = w.wide(op.logits), w.wide(op.d_loss)
    hot = f"({w.value(op.labels)}[:, None] == mx.arange({w.extent(op.logits, 1)}))"
    weights = w.let("weights", f"{softmax_function(w, op.logits)}({logits}, axis=-1)")
    return w.narrowed(f"({weights} - {hot}) * {d_loss}[:, None]", op.element(0))
