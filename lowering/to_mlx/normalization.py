"""Norms by ``mx.fast``, which computes in f32; f64 by their formulas."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from rlx_dialect.attributes import NormKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_narrow
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import number
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64, is_tensor_of_zeros
from rlx_dialect.ops.normalization import (
    AdaLayerNormOp,
    AffineNormOp,
    BatchNormInferenceOp,
    FusedResidualLnOp,
    FusedResidualOp,
    FusedResidualRmsNormOp,
    GatedResidualOp,
    GroupNormOp,
    LayerNorm2dOp,
    LayerNormOp,
    RmsNormOp,
)
from rlx_dialect.shapes import DYNAMIC, product


def _epsilon(attribute: FloatAttr) -> str:
    return repr(float(attribute.value.data))


def normalized(w: Writer, kind: NormKind, x: str, eps: FloatAttr, *, f64: bool) -> str:
    """The norm of an array of f32 or f64, without factors."""
    if f64:
        return w.call(kind.value, x, _epsilon(eps))
    if kind is NormKind.LAYER_NORM:
        return f"mx.fast.layer_norm({x}, None, None, {_epsilon(eps)})"
    return f"mx.fast.rms_norm({x}, None, {_epsilon(eps)})"


def affine(
    w: Writer, kind: NormKind, x: str, gamma: SSAValue, beta: SSAValue, eps: FloatAttr, of: Callable[[SSAValue], str]
) -> str:
    """n(x)·gamma + beta, where ``of`` gives the names of gamma and beta in the element type of ``x``."""
    if is_f64(gamma):
        return f"{normalized(w, kind, x, eps, f64=True)} * {of(gamma)} + {of(beta)}"
    if kind is NormKind.LAYER_NORM:
        added = "None" if is_tensor_of_zeros(beta) else of(beta)
        return f"mx.fast.layer_norm({x}, {of(gamma)}, {added}, {_epsilon(eps)})"
    value = f"mx.fast.rms_norm({x}, {of(gamma)}, {_epsilon(eps)})"
    return value if is_tensor_of_zeros(beta) else f"{value} + {of(beta)}"


@lowers(LayerNormOp, RmsNormOp)
def norm(op: AffineNormOp, w: Writer) -> str:
    element = op.element(0)
    # What ends in one call of MLX is rounded by it, once.
    whole = op.KIND is NormKind.LAYER_NORM or is_tensor_of_zeros(op.beta)
    if whole or not is_narrow(element):
        value = affine(w, op.KIND, w.value(op.x), op.gamma, op.beta, op.eps, w.value)
    else:
        value = w.narrowed(affine(w, op.KIND, w.wide(op.x), op.gamma, op.beta, op.eps, w.wide), element)
    if not isinstance(op, RmsNormOp) or not op.flattens:
        return value
    return f"{w.let('normed', value)}.reshape({_flat(op, w)})"


def _flat(op: RmsNormOp, w: Writer) -> str:
    leading = shape_of(op.x)[:-1]
    rows = shape_of(op.result)[0]
    if rows == DYNAMIC:
        rows = " * ".join(w.extent(op.x, axis) for axis in range(len(leading)))
    return f"{rows}, {w.extent(op.x, len(leading))}"


@lowers(FusedResidualLnOp, FusedResidualRmsNormOp)
def fused_residual(op: FusedResidualOp, w: Writer) -> list[str]:
    element = op.element(0)
    parts = [w.wide(o) for o in (op.x, op.residual, op.bias) if o is not None]
    total = w.let("total", " + ".join(parts))
    value = w.narrowed(affine(w, op.NORM.KIND, total, op.gamma, op.beta, op.eps, w.wide), element)
    return [value] if op.sum is None else [value, w.narrowed(total, element) if is_narrow(element) else total]


@lowers(AdaLayerNormOp)
def ada_layer_norm(op: AdaLayerNormOp, w: Writer) -> str:
    x, scale, shift = (w.wide(o) for o in op.operands)
    value = normalized(w, op.norm.data, x, op.eps, f64=is_f64(op.x))
    return w.narrowed(f"{value} * (1 + {scale}) + {shift}", op.element(0))


@lowers(GatedResidualOp)
def gated_residual(op: GatedResidualOp, w: Writer) -> str:
    x, y, gate = (w.wide(o) for o in op.operands)
    return w.narrowed(f"{x} + {gate} * {y}", op.element(0))


def of_channels(name: str, rank: int) -> str:
    """[C] shaped to broadcast against [N, C, spatial…]."""
    return f"{name}.reshape({', '.join(['-1', *['1'] * (rank - 2)])})" if rank > 2 else name


@lowers(GroupNormOp)
def group_norm(op: GroupNormOp, w: Writer) -> str:
    x, gamma, beta = (w.wide(o) for o in op.operands)
    shape, groups, rank = op.shape(0), op.num_groups.value.data, len(op.shape(0))
    extents = w.extents(op.x)
    count = f"{' * '.join(extents[1:])} // {groups}" if DYNAMIC in shape[1:] else product(shape[1:]) // groups
    rows = w.let("rows", f"{x}.reshape({extents[0]}, {groups}, {count})")
    normed = w.let("normed", normalized(w, NormKind.LAYER_NORM, rows, op.eps, f64=is_f64(op.x)))
    back = f"{normed}.reshape({', '.join(extents)})"
    return w.narrowed(f"{back} * {of_channels(gamma, rank)} + {of_channels(beta, rank)}", element_of(op.x))


@lowers(LayerNorm2dOp)
def layer_norm_2d(op: LayerNorm2dOp, w: Writer) -> str:
    last = w.let("channels_last", f"mx.moveaxis({w.value(op.x)}, 1, -1)")
    value = affine(w, NormKind.LAYER_NORM, last, op.gamma, op.beta, op.eps, w.value)
    return f"mx.moveaxis({value}, -1, 1)"


@lowers(BatchNormInferenceOp)
def batch_norm_inference(op: BatchNormInferenceOp, w: Writer) -> str:
    x, gamma, beta, mean, var = (w.wide(o) for o in op.operands)
    value = f"({x} - {mean}) / mx.sqrt({var} + {number(op.eps.value.data, element_of(op.x))}) * {gamma} + {beta}"
    return w.narrowed(value, element_of(op.x))
