"""Products of quantised numbers: each is decoded as it is read, and the sum is coded as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.lowering.arithmetic import Real, constant
from rlx_dialect.lowering.scalar import activation, binary
from rlx_dialect.lowering.to_gpu.contract import Axes, Limit, Source, contract
from rlx_dialect.lowering.to_gpu.contraction import matrices
from rlx_dialect.lowering.to_gpu.contraction_spec import PLAIN, Epilogue, Prologue, remains
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.convolution import convolve
from rlx_dialect.lowering.to_gpu.extents import Extent, up
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.views import View
from rlx_dialect.ops.quantization import DequantMatMulOp, QConv2dOp, QMatMulOp, QuantizedProductOp
from rlx_dialect.xdsl_compat import Builder


def _shifted(zero_point: int) -> Prologue:
    """An i8 without its zero point, in i32."""

    def write(b: Builder, values: Sequence[SSAValue]) -> SSAValue:
        wide = b.insert(arith.ExtSIOp(values[0], i32)).result
        return b.insert(arith.SubiOp(wide, constant(zero_point, i32, b))).result

    return Prologue(f"less {zero_point}", i32, write)


def _requantized(op: QuantizedProductOp) -> Epilogue:
    """saturate(round((sum + bias)·mult) + out_zp)."""
    mult, zero_point = op.mult.value.data, op.out_zp.value.data

    def write(b: Builder, total: SSAValue, extras: Sequence[SSAValue]) -> SSAValue:
        total = binary(BinaryKind.ADD, total, extras[0], b)
        scaled = Real(b.insert(arith.SIToFPOp(total, f32)).result, b) * mult
        shifted = Real(activation(ActivationKind.ROUND, scaled.value, b), b) + zero_point
        return b.insert(arith.FPToSIOp(shifted.clip(-128, 127).value, i8)).result

    return Epilogue(f"{mult} {zero_point}", write)


@lowers(QMatMulOp)
def q_matmul(op: QMatMulOp, h: Host) -> None:
    made = h.result(op.result)
    axes, left, right = matrices(h.view(op.x), h.view(op.w), made.shape)
    x = Source(left, prologue=_shifted(op.x_zp.value.data))
    w = Source(right, prologue=_shifted(op.w_zp.value.data))
    contract(h, "q_matmul", axes, x, w, made, [h.view(op.bias).broadcast(made.shape)], _requantized(op))


@lowers(QConv2dOp)
def q_conv2d(op: QConv2dOp, h: Host) -> None:
    prologues = _shifted(op.x_zp.value.data), _shifted(op.w_zp.value.data)
    convolve(op, h, "q_conv2d", [op.bias], [], _requantized(op), prologues)


def _blocked(view: View, blocks: Extent, size: int) -> View:
    """``view`` with its last axis as blocks of ``size``, of which the last may reach beyond it."""
    step = view.strides[-1]
    return replace(view, shape=(*view.shape[:-1], blocks, size), strides=(*view.strides[:-1], step * size, step))


@lowers(DequantMatMulOp)
def dequant_matmul(op: DequantMatMulOp, h: Host) -> None:
    made, size = h.result(op.result), op.block_size.value.data
    axes, left, right = matrices(h.view(op.x), h.view(op.w_q), made.shape)
    (depth,) = axes.depth
    blocks = up(depth, size)
    x, w = _blocked(left, blocks, size), _blocked(right, blocks, size)
    limits: tuple[Limit, ...] = ()
    if remains(depth, size):
        limits = (Limit((*[0] * (len(x.shape) - 2), size, 1), 0, depth),)
    tables = [o for o in (op.scale, op.zp) if o is not None]
    # [K/block, N] as [..., N, K/block, block].
    others = [h.view(o).transpose([1, 0]).repeat([size]).broadcast(w.shape) for o in tables]

    def write(b: Builder, values: Sequence[SSAValue]) -> SSAValue:
        weight, scale, *zero_point = values
        number = Real(b.insert(arith.SIToFPOp(weight, f32)).result, b)
        if zero_point:
            number = number - Real(zero_point[0], b)
        return (number * Real(scale, b)).value

    stored = Source(w, limits, Prologue(f"dequantized {len(others)}", f32, write), tuple(others))
    axes = Axes(axes.batch, axes.rows, axes.columns, (blocks, size))
    contract(h, "dequant_matmul", axes, Source(x, limits), stored, made, [], PLAIN)
