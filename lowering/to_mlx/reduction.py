"""Reductions and softmax; f16 and bf16 are reduced in f32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_bool, storage_dtype
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import array_text, dtype, is_literal, number, tuple_text
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64
from rlx_dialect.ops.reduction import ReduceOp, SoftmaxOp, highest, lowest
from rlx_dialect.shapes import DYNAMIC

FUNCTIONS: Mapping[ReduceKind, str] = {
    ReduceKind.SUM: "mx.sum",
    ReduceKind.MEAN: "mx.mean",
    ReduceKind.MAX: "mx.max",
    ReduceKind.MIN: "mx.min",
    ReduceKind.PROD: "mx.prod",
}
_OF_TRUTH: Mapping[ReduceKind, str] = {ReduceKind.MAX: "mx.any", ReduceKind.MIN: "mx.all"}
_ADDED = (ReduceKind.SUM, ReduceKind.MEAN, ReduceKind.PROD)


def axes_text(axes: tuple[int, ...]) -> str:
    return str(axes[0]) if len(axes) == 1 else tuple_text(axes)


def _empty(kind: ReduceKind, element: Attribute) -> str:
    """What reducing nothing gives."""
    of = storage_dtype(element)
    values = {ReduceKind.SUM: 0, ReduceKind.PROD: 1, ReduceKind.MEAN: float("nan")}
    if kind in values:
        return number(values[kind], element)
    value = lowest(of) if kind is ReduceKind.MAX else highest(of)
    return number(value, element) if is_literal(value) else array_text(np.asarray(value, of), element)


@lowers(ReduceOp)
def reduce(op: ReduceOp, w: Writer) -> str:
    kind, element, axes = op.kind.data, op.element(0), op.axis_indices
    if not axes:
        return w.value(op.input)
    extents, keeps = [op.shape(0)[axis] for axis in axes], op.keep_dim is not None
    if 0 in extents:
        # MLX reduces nothing to no defined value, and may not return.
        shape = ["1" if a in axes else w.extent(op.input, a) for a in range(len(op.shape(0)))]
        kept = [e for a, e in enumerate(shape) if keeps or a not in axes]
        return f"mx.full({tuple_text(kept)}, {_empty(kind, element)}, {dtype(element)})"
    x, function = w.value(op.input), _OF_TRUTH[kind] if is_bool(element) else FUNCTIONS[kind]
    if kind in _ADDED:
        x = w.wide(op.input)
    if DYNAMIC in extents:
        value = w.call("reduced", function, x, tuple_text(axes), keeps, _empty(kind, element))
    else:
        value = f"{function}({x}, axis={axes_text(axes)}{', keepdims=True' if keeps else ''})"
    if kind not in _ADDED:
        return value
    # MLX adds short integers up in 32 bits.
    short = isinstance(element, IntegerType) and element.width.data < 32
    return f"{value}.astype({dtype(element)})" if short else w.narrowed(value, element)


@lowers(SoftmaxOp)
def softmax(op: SoftmaxOp, w: Writer) -> str:
    if 0 in shape_of(op.input):
        return w.value(op.input)
    assert element_of(op.input) == element_of(op.result)
    axis = op.axis.value.data
    if is_f64(op.input):
        return w.call("softmax_f64", w.value(op.input), axis)
    return f"mx.softmax({w.value(op.input)}, axis={axis}, precise=True)"


def softmax_function(w: Writer, value: SSAValue) -> str:
    """The function that is a softmax of arrays of the element type of ``value``, once widened."""
    return w.printed.helper("softmax_f64") if is_f64(value) else "mx.softmax"
