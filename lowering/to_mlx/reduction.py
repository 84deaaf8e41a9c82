"""Reductions and softmax; f16 and bf16 are reduced in f32."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerType

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_bool, storage_dtype
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import dtype, number, tuple_text
from rlx_dialect.lowering.to_mlx.writer import Writer
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


@lowers(ReduceOp)
def reduce(op: ReduceOp, w: Writer) -> str:
    kind, element, axes = op.kind.data, op.element(0), op.axis_indices
    if not axes:
        return w.value(op.input)
    keep = ", keepdims=True" if op.keep_dim is not None else ""
    where = f"axis={axes_text(axes)}{keep}"
    if is_bool(element):
        return f"{_OF_TRUTH[kind]}({w.value(op.input)}, {where})"
    if kind in _ADDED:
        value = w.narrowed(f"{FUNCTIONS[kind]}({w.wide(op.input)}, {where})", element)
        # MLX adds short integers up in 32 bits.
        short = isinstance(element, IntegerType) and element.width.data < 32
        return f"{value}.astype({dtype(element)})" if short else value
    extents = [op.shape(0)[axis] for axis in axes]
    dtype_of = storage_dtype(element)
    empty = number(lowest(dtype_of) if kind is ReduceKind.MAX else highest(dtype_of), element)
    if 0 in extents:
        shape = [w.extent(op.input, a) if a not in axes else "1" for a in range(len(op.shape(0)))]
        kept = [e for a, e in enumerate(shape) if op.keep_dim is not None or a not in axes]
        return f"mx.full({tuple_text(kept)}, {empty}, {dtype(element)})"
    if DYNAMIC in extents:
        return w.call("lowest_or", FUNCTIONS[kind], w.value(op.input), tuple_text(axes), op.keep_dim is not None, empty)
    return f"{FUNCTIONS[kind]}({w.value(op.input)}, {where})"


@lowers(SoftmaxOp)
def softmax(op: SoftmaxOp, w: Writer) -> str:
    if 0 in shape_of(op.input):
        return w.value(op.input)
    assert element_of(op.input) == element_of(op.result)
    return f"mx.softmax({w.value(op.input)}, axis={op.axis.value.data}, precise=True)"
