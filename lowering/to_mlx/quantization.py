"""Integer products and floats of few bits; other quantisation is made of simpler operations."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import f32

from rlx_dialect.attributes import ScaledFormat, ScaleLayout
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import number
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.quantization import QMatMulOp
from rlx_dialect.ops.scaled import FORMATS, ScaledQuantizeOp, ScaledQuantScaleOp, decode_table, greatest_value
from rlx_dialect.shapes import DYNAMIC


@lowers(QMatMulOp)
def q_matmul(op: QMatMulOp, w: Writer) -> str:
    x, weight = (
        f"{w.value(value)}.astype(mx.int32) - {zero.value.data}" for value, zero in ((op.x, op.x_zp), (op.w, op.w_zp))
    )
    total = w.let("total", f"{w.call('byte_matmul', x, weight)} + {w.value(op.bias)}")
    scaled = w.let("scaled", f"mx.round({total}.astype(mx.float32) * {number(np.float32(op.mult.value.data), f32)})")
    return f"mx.clip({scaled} + {op.out_zp.value.data}, -128, 127).astype(mx.int8)"


def encoded(w: Writer, format: ScaledFormat, x: str) -> str:
    """The codes of an f32 array."""
    kind = FORMATS[format]
    nan = np.nonzero(np.isnan(decode_table(format)))[0]
    return w.call(
        "encode",
        x,
        kind.mantissa,
        1 - kind.bias,
        greatest_value(format),
        kind.sign,
        int(nan[0]) if len(nan) else 0,
        not kind.negative_zero_nan,
    )


@lowers(ScaledQuantizeOp)
def scaled_quantize(op: ScaledQuantizeOp, w: Writer) -> str:
    x, scale = w.wide(op.x), w.value(op.scale)
    if (block := op.block_size) is not None:
        table = w.array(op.scale_table(), f32, f"{op.scale_layout.data}_scales")
        width = w.extent(op.x, len(op.shape(0)) - 1)
        scale = w.let("scales", f"mx.take({table}, {scale}.astype(mx.uint8), axis=0)")
        scale = f"mx.repeat({scale}, {block}, axis=-1)[..., :{width}]"
    elif not op.shape(0):
        scale = f"{scale}.reshape(())"
    return encoded(w, op.format.data, f"{x} / {scale}")


@lowers(ScaledQuantScaleOp)
def scaled_quant_scale(op: ScaledQuantScaleOp, w: Writer) -> str:
    size = w.let("size", f"mx.abs({w.wide(op.x)})")
    greatest = number(np.float32(greatest_value(op.format.data)), f32)
    if (block := op.block_size) is None:
        most = w.let("most", f"mx.max(mx.concatenate([{size}.flatten(), mx.zeros((1,))]), keepdims=True)")
        return f"mx.where({most} == 0, 1.0, {most} / {greatest})"
    if 0 in op.shape(0) and op.shape(0)[-1] in (0, DYNAMIC):
        return f"mx.zeros({w.shape(op.x)}, mx.uint8)"
    most = w.let("most", w.call("blocks_of", size, block))
    if op.scale_layout.data is ScaleLayout.NVFP4:
        code = w.let("code", f"mx.maximum({encoded(w, ScaledFormat.F8E4M3, f'{most} / {greatest}')}, 1)")
        one = int(np.nonzero(decode_table(ScaledFormat.F8E4M3) == 1)[0][0])
        return f"mx.where({most} == 0, {one}, {code}).astype(mx.uint8)"
    return w.call("power_scales", most, math.frexp(greatest_value(op.format.data))[1] - 1)
