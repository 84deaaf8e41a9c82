"""Gradients of norms and gated residuals whose operands broadcast, which may be known at run time only."""

from __future__ import annotations

from rlx_dialect.attributes import NormKind
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.norm_backward import AdaLayerNormBackwardOp, GatedResidualBackwardOp


@lowers(AdaLayerNormBackwardOp)
def ada_layer_norm_backward(op: AdaLayerNormBackwardOp, w: Writer) -> str:
    arguments = [w.wide(o) for o in op.operands]
    centering = op.norm.data is NormKind.LAYER_NORM
    value = w.call("ada_layer_norm_backward", *arguments, repr(op.eps.value.data), centering)
    return w.narrowed(value, op.element(0))


@lowers(GatedResidualBackwardOp)
def gated_residual_backward(op: GatedResidualBackwardOp, w: Writer) -> str:
    y, gate, dy = (w.wide(o) for o in (op.y, op.gate, op.dy))
    d_gate = w.call("summed_to", f"{dy} * {y}", f"{gate}.shape")
    parts = f"{dy}.flatten(), ({dy} * {gate}).flatten(), {d_gate}.flatten()"
    return w.narrowed(f"mx.concatenate([{parts}])", op.element(0))
