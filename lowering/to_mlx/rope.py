"""Rotary embedding: MLX's fused form where the tables are constants of plain frequencies, else by the tables."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32

from rlx_dialect.attributes import AttentionLayout, RopeStyle
from rlx_dialect.dtypes import Array
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.writer import Writer, constant_array
from rlx_dialect.ops.attention import RopeOp, RotaryOp
from rlx_dialect.ops.rope import RopeBackwardOp

TABLE_ERROR = 2e-5
"""How far MLX's cosines and sines may be from those of the tables."""


def periods(op: RotaryOp) -> Array | None:
    """What ``mx.fast.rope`` divides positions by to have the angles of the tables; None where it cannot have them.

    The tables must be f32 constants of cos(p·f) and sin(p·f) for positions p and a frequency f of each pair.
    """
    tables = [constant_array(o) for o in op.operands[1:]]
    if op.element(0) != f32 or any(t is None or len(t) < 2 for t in tables):
        return None
    cos, sin = (np.asarray(t, np.float64)[:, : op.rotated // 2] for t in tables)
    rows = min(len(cos), len(sin))
    angle = np.arctan2(sin[:rows], cos[:rows])
    frequency, position = angle[1], 1
    while (position := 2 * position) < rows:
        # The angle of a later row says it more precisely, once the full turns before it are known.
        turns = np.round((frequency * position - angle[position]) / (2 * np.pi))
        frequency = (angle[position] + turns * 2 * np.pi) / position
    if not (np.abs(frequency) > 1e-12).all():
        return None
    period = (1 / frequency).astype(np.float32)
    angles = np.arange(rows, dtype=np.float32)[:, None] * (np.float32(1) / period)
    errors = [np.abs(function(angles) - t[:rows]).max() for function, t in ((np.cos, cos), (np.sin, sin))]
    return period if max(errors) < TABLE_ERROR else None


@lowers(RopeOp, RopeBackwardOp)
def rope(op: RotaryOp, w: Writer) -> str:
    packed = op.layout.data is AttentionLayout.BSD
    shape, dim = w.extents(op.operands[0]), op.head_dim.value.data
    value = w.wide(op.operands[0])
    if packed:
        value = f"{value}.reshape({shape[0]}, {shape[1]}, {op.shape(0)[2] // dim}, {dim})"
    traditional = op.style.data is RopeStyle.GPTJ
    if (divisors := periods(op)) is not None:
        name = w.array(-divisors if op.INVERSE else divisors, f32, "rope_periods")
        options = f"traditional={traditional}, base=None, scale=1.0, offset=0, freqs={name}"
        if op.seq_axis == 2:
            return f"mx.fast.rope({value}, {op.rotated}, {options})"
        value = f"mx.fast.rope(mx.swapaxes({value}, 1, 2), {op.rotated}, {options})"
        value = f"mx.swapaxes({value}, 1, 2)"
    else:
        cos, sin = (w.wide(o) for o in op.operands[1:])
        sin = f"-{sin}" if op.INVERSE else sin
        value = w.call("rotated", value, cos, sin, op.seq_axis, op.rotated, traditional)
    if packed:
        value = f"{value}.reshape({', '.join(shape)})"
    return w.narrowed(value, op.element(0))
