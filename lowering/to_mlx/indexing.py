"""Gathers and scatters by arrays of indices; a negative index counts from the end, to MLX too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlx_dialect.attributes import ScatterReduction
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_float
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import dtype, tuple_text
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.indexing import (
    GatherBackwardOp,
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    KvAppendOp,
    ScatterAddOp,
    ScatterElementsOp,
    ScatterNdOp,
    ScatterOp,
)
from rlx_dialect.shapes import DYNAMIC


@lowers(GatherOp)
def gather(op: GatherOp, w: Writer) -> str:
    return f"mx.take({w.value(op.table)}, {w.value(op.indices)}, axis={op.axis_index})"


def _grid(w: Writer, extents: Sequence[str], axis: int) -> str:
    """The own coordinate along ``axis``, shaped to broadcast to ``extents``."""
    shape = ["-1" if a == axis else "1" for a in range(len(extents))]
    return f"mx.arange({extents[axis]}).reshape({', '.join(shape)})"


@lowers(GatherNdOp)
def gather_nd(op: GatherNdOp, w: Writer) -> str:
    indices, batch = w.value(op.indices), op.batch_dims.value.data
    extents = w.extents(op.indices)
    index = [_grid(w, extents[:-1], axis) for axis in range(batch)]
    index += [f"{indices}[..., {i}]" for i in range(op.shape(1)[-1])]
    return f"{w.value(op.data)}[{', '.join(index)}]"


@lowers(GatherElementsOp)
def gather_elements(op: GatherElementsOp, w: Writer) -> str:
    data, axis = w.value(op.data), op.axis_index
    have, wanted = op.shape(0), op.shape(1)
    if any(a != axis and (h == DYNAMIC or h != n) for a, (h, n) in enumerate(zip(have, wanted, strict=True))):
        extents = w.extents(op.indices)
        parts = [":" if a == axis else f":{extent}" for a, extent in enumerate(extents)]
        data = f"{data}[{', '.join(parts)}]"
    return f"mx.take_along_axis({data}, {w.value(op.indices)}, axis={axis})"


_UPDATES: Mapping[ScatterReduction, str] = {
    ScatterReduction.ADD: "add",
    ScatterReduction.MUL: "multiply",
    ScatterReduction.MAX: "maximum",
    ScatterReduction.MIN: "minimum",
}


def scattered(w: Writer, op: ScatterOp, reduction: ScatterReduction, index: str) -> str:
    """The data with the updates at ``index``, a tuple without parentheses; f16 and bf16 are combined in f32."""
    if 0 in shape_of(op.updates):
        return w.value(op.data)
    if reduction is ScatterReduction.NONE:
        return w.call("replaced", w.value(op.data), f"({index},)", w.value(op.updates))
    update, data, updates, element = _UPDATES[reduction], w.wide(op.data), w.wide(op.updates), op.element(0)
    if is_float(element) and reduction in (ScatterReduction.MAX, ScatterReduction.MIN):
        return w.narrowed(w.call("joined", f"mx.{update}", data, f"({index},)", updates), element)
    return w.narrowed(f"{data}.at[{index}].{update}({updates})", element)


@lowers(ScatterAddOp)
def scatter_add(op: ScatterAddOp, w: Writer) -> str:
    index = ", ".join([*[":"] * op.axis_index, w.value(op.indices)])
    return scattered(w, op, ScatterReduction.ADD, index)


@lowers(GatherBackwardOp)
def gather_backward(op: GatherBackwardOp, w: Writer) -> str:
    axis, indices, element = op.axis_index, len(op.shape(1)), op.element(0)
    extents = w.extents(op.dy)
    shape = [*extents[:axis], str(op.extent.value.data), *extents[axis + indices :]]
    wide = "mx.float32" if w.wide(op.dy) != w.value(op.dy) else dtype(element)
    zeros = f"mx.zeros({tuple_text(shape)}, {wide})"
    if 0 in op.shape(0):
        return w.narrowed(zeros, element)
    index = ", ".join([*[":"] * axis, w.value(op.indices)])
    return w.narrowed(f"{zeros}.at[{index}].add({w.wide(op.dy)})", element)


@lowers(ScatterNdOp)
def scatter_nd(op: ScatterNdOp, w: Writer) -> str:
    indices = w.value(op.indices)
    index = [f"{indices}[..., {i}]" for i in range(op.shape(1)[-1])]
    return scattered(w, op, op.reduction.data, ", ".join(index))


@lowers(ScatterElementsOp)
def scatter_elements(op: ScatterElementsOp, w: Writer) -> str:
    extents, axis = w.extents(op.indices), op.axis_index
    index = [w.value(op.indices) if a == axis else _grid(w, extents, a) for a in range(len(extents))]
    return scattered(w, op, op.reduction.data, ", ".join(index))


@lowers(KvAppendOp)
def kv_append(op: KvAppendOp, w: Writer) -> str:
    cache, update, axis, pos = w.value(op.cache), w.value(op.update), op.axis_index, op.pos.value.data
    if 0 in shape_of(op.update):
        return cache
    assert element_of(op.cache) == element_of(op.update)
    if DYNAMIC in (shape_of(op.cache)[axis], shape_of(op.update)[axis]):
        return w.call("appended", cache, update, axis, pos)  # MLX would move an update that does not fit.
    return f"mx.slice_update({cache}, {update}, mx.array([{pos}]), axes=[{axis}])"
