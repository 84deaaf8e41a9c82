"""Order. MLX sorts stably, with NaN at the end."""

from __future__ import annotations

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_bool
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import dtype
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.sorting import ArgReduceOp, ArgSortOp, OrderOp, SortOp, TopKOp
from rlx_dialect.shapes import DYNAMIC


def _comparable(op: OrderOp, w: Writer) -> str:
    """Operand 0; truth values as bytes."""
    x = w.value(op.operands[0])
    return f"{x}.astype(mx.uint8)" if is_bool(op.element(0)) else x


@lowers(ArgSortOp)
def argsort(op: ArgSortOp, w: Writer) -> str:
    indices = w.call("sorted_indices", _comparable(op, w), op.axis_index, op.descending is not None)
    return f"{indices}.astype({dtype(element_of(op.result))})"


@lowers(SortOp)
def sort(op: SortOp, w: Writer) -> str:
    x, axis = w.value(op.input), op.axis_index
    indices = w.let("order", w.call("sorted_indices", _comparable(op, w), axis, op.descending is not None))
    return f"mx.take_along_axis({x}, {indices}, axis={axis})"


@lowers(TopKOp)
def top_k(op: TopKOp, w: Writer) -> str:
    axis = len(shape_of(op.input)) - 1
    indices = w.call("sorted_indices", _comparable(op, w), axis, True)
    return f"{indices}[..., : {op.k.value.data}].astype({dtype(element_of(op.result))})"


@lowers(ArgReduceOp)
def arg_reduce(op: ArgReduceOp, w: Writer) -> str:
    function = "mx.argmax" if op.kind.data is ReduceKind.MAX else "mx.argmin"
    keep = ", keepdims=True" if op.keep_dim is not None else ""
    others = op.shape(0)[: op.axis_index] + op.shape(0)[op.axis_index + 1 :]
    if DYNAMIC in others or 0 in others:
        value = w.call("arg_reduced", function, _comparable(op, w), op.axis_index, op.keep_dim is not None)
    else:
        value = f"{function}({_comparable(op, w)}, axis={op.axis_index}{keep})"
    return f"{value}.astype({dtype(element_of(op.result))})"
