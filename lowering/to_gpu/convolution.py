"""Convolution as a contraction over channels and window, with no matrix of windows in memory.

What the window covers at a position is affine in the coordinates of the result and of the window, so it is a view of
the operand: [N, groups, result…, channels, window…]. Where padding lets it reach beyond an edge, a bound says which
elements count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_gpu.contract import Axes, Limit, Source, contract
from rlx_dialect.lowering.to_gpu.contraction import biased
from rlx_dialect.lowering.to_gpu.contraction_spec import PLAIN, Epilogue, Prologue
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.views import View
from rlx_dialect.ops.convolution import ConvolutionOp, ConvOp, FusedConvBiasActOp, Window


def _grouped(view: View, axis: int, groups: int) -> View:
    """``view`` with ``axis`` as groups and the channels of each."""
    extent, stride = view.shape[axis] // groups, view.strides[axis]
    return replace(
        view,
        shape=(*view.shape[:axis], groups, extent, *view.shape[axis + 1 :]),
        strides=(*view.strides[:axis], extent * stride, stride, *view.strides[axis + 1 :]),
    )


def windows(x: View, window: Window, groups: int, output: Shape) -> Source:
    """[N, groups, result…, channels, window…]: what each position of the window covers; zero beyond the edges."""
    grouped = _grouped(x, 1, groups)
    rank = len(output)
    steps = grouped.strides[3:]
    view = replace(
        grouped,
        shape=(*grouped.shape[:2], *output, grouped.shape[2], *window.kernel),
        strides=(
            *grouped.strides[:2],
            *(step * stride for step, stride in zip(steps, window.stride, strict=True)),
            grouped.strides[2],
            *(step * apart for step, apart in zip(steps, window.dilation, strict=True)),
        ),
        offset=grouped.offset - sum(s * before for s, (before, _) in zip(steps, window.padding, strict=True)),
    )
    limits: list[Limit] = []
    for axis, (extent, (before, after)) in enumerate(zip(x.shape[2:], window.padding, strict=True)):
        if before or after:
            strides: list[Extent] = [0] * len(view.shape)
            strides[2 + axis], strides[3 + rank + axis] = window.stride[axis], window.dilation[axis]
            limits.append(Limit(tuple(strides), -before, extent))
    return Source(view, tuple(limits))


def convolve(
    op: ConvolutionOp,
    h: Host,
    name: str,
    per_channel: Sequence[SSAValue],
    whole: Sequence[SSAValue],
    e: Epilogue,
    prologues: tuple[Prologue | None, Prologue | None] = (None, None),
) -> None:
    """Convolve; the epilogue reads vectors of a number for each result channel, then tensors like the result.

    ``prologues`` are those of the operand and of the weight; padding is zero after them.
    """
    x, weight, made = h.view(op.operands[0]), h.view(op.operands[1]), h.result(op.results[0])
    groups, output = op.groups.value.data, made.shape[2:]
    result = _grouped(made, 1, groups)
    kernels = _grouped(weight, 0, groups)
    axes = Axes(batch=(made.shape[0], groups), rows=kernels.shape[1:2], columns=output, depth=kernels.shape[2:])
    left = kernels.broadcast((made.shape[0], *kernels.shape))
    extras = [h.view(v).repeat([1] * len(output)).broadcast(made.shape) for v in per_channel]
    extras += [h.view(v) for v in whole]
    extras = [_grouped(v, 1, groups) for v in extras]
    right = replace(windows(x, op.window, groups, output), prologue=prologues[0])
    contract(h, name, axes, Source(left, prologue=prologues[1]), right, result, extras, e)


@lowers(ConvOp)
def conv(op: ConvOp, h: Host) -> None:
    convolve(op, h, "conv", [], [], PLAIN)


@lowers(FusedConvBiasActOp)
def fused_conv_bias_act(op: FusedConvBiasActOp, h: Host) -> None:
    kind = None if op.activation is None else op.activation.data
    whole = [] if op.residual is None else [op.residual]
    name = "conv_bias" if kind is None else f"conv_bias_{kind}"
    convolve(op, h, name, [op.bias], whole, biased(kind, 1 + len(whole)))
