"""Selection and change at positions that are values; a negative index counts from the end."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, TensorType, i32
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ScatterReduction
from rlx_dialect.base import element_of, rank_of
from rlx_dialect.dtypes import is_unsigned
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, lowers
from rlx_dialect.lowering.to_stablehlo.dialect import GatherAttr, ScatterAttr
from rlx_dialect.lowering.to_stablehlo.reduction import as_number
from rlx_dialect.lowering.to_stablehlo.tensors import Extent, Tensors, ints, listed, static_shape
from rlx_dialect.ops.indexing import (
    SCATTER_COMBINES,
    GatherBackwardOp,
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    KvAppendOp,
    ScatterAddOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from rlx_dialect.shapes import is_static


def positions(c: Tensors, indices: SSAValue, extent: Extent) -> SSAValue:
    """Indices with negative ones counted from the end of an axis of ``extent``; those below 32 bits as i32."""
    element = element_of(indices)
    assert isinstance(element, IntegerType)
    unsigned = is_unsigned(element)
    if element.width.data < 32:
        indices, element = c.convert(indices, i32), i32
    if unsigned:
        return indices
    length = c.broadcast(as_number(c, extent, element), [], c.extents(indices))
    negative = c.compare("LT", indices, c.like(indices, 0))
    return c.same("select", negative, c.same("add", indices, length), indices)


def gathered(
    c: Tensors,
    data: SSAValue,
    indices: SSAValue,
    axes: Sequence[int],
    offset: Sequence[int],
    extents: Sequence[Extent],
    vector: int,
) -> SSAValue:
    """Slices of data at ``indices``, whose axis ``vector`` lists positions along ``axes``.

    The other axes of the data are the axes ``offset`` of the result, which has ``extents``.
    """
    sizes: list[Extent] = [1 if a in axes else e for a, e in enumerate(c.extents(data))]
    numbers = GatherAttr.of(
        f"offset_dims = {listed(offset)}, collapsed_slice_dims = {listed(sorted(axes))}, "
        f"start_index_map = {listed(axes)}, index_vector_dim = {vector}"
    )
    element = element_of(data)
    if is_static(shape := static_shape(sizes)):
        operands = [data, indices]
        return c.made("gather", operands, element, extents, dimension_numbers=numbers, slice_sizes=ints(shape))
    return c.made("dynamic_gather", [data, indices, c.vector(sizes)], element, extents, dimension_numbers=numbers)


@lowers(GatherOp)
def gather(op: GatherOp, c: Conversion) -> SSAValue:
    axis, own, chosen = op.axis_index, c.extents(op.table), c.extents(op.indices)
    places = positions(c, op.indices, own[axis])
    extents = [*own[:axis], *chosen, *own[axis + 1 :]]
    offset = [a for a in range(len(extents)) if not axis <= a < axis + len(chosen)]
    return gathered(c, op.table, places, [axis], offset, extents, len(chosen))


def _tuples(c: Tensors, parts: Sequence[SSAValue]) -> SSAValue:
    """Positions of one shape, as index tuples along a new last axis."""
    element = element_of(parts[-1])
    return c.concat([c.unit_axis(c.convert(p, element), rank_of(p)) for p in parts], rank_of(parts[0]))


def _element_tuples(c: Tensors, data: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
    """The own position of each index, but the index along ``axis``."""
    for a, (index, extent) in enumerate(zip(c.extents(indices), c.extents(data), strict=True)):
        if a != axis:
            c.require(index, "LE", extent)
    places = positions(c, indices, c.extents(data)[axis])
    own, element = c.extents(places), element_of(places)
    return _tuples(c, [places if a == axis else c.iota(own, a, element) for a in range(len(own))])


@lowers(GatherElementsOp)
def gather_elements(op: GatherElementsOp, c: Conversion) -> SSAValue:
    rank, tuples = len(op.shape(0)), _element_tuples(c, op.data, op.indices, op.axis_index)
    return gathered(c, op.data, tuples, range(rank), [], c.extents(op.indices), rank)


def _nd_tuples(c: Tensors, data: SSAValue, indices: SSAValue, batch: int) -> SSAValue:
    """Index tuples with the positions of ``batch`` leading axes in front."""
    own, shape, last = c.extents(data), c.extents(indices), rank_of(indices) - 1
    depth = shape[-1]
    assert isinstance(depth, int)
    for a in range(batch):
        c.require(shape[a], "EQ", own[a])
    components = [
        positions(c, c.reshape(c.narrow(indices, last, i, 1), shape[:-1]), own[batch + i]) for i in range(depth)
    ]
    element = element_of(components[0])
    return _tuples(c, [*(c.iota(shape[:-1], a, element) for a in range(batch)), *components])


@lowers(GatherNdOp)
def gather_nd(op: GatherNdOp, c: Conversion) -> SSAValue:
    batch, own, last = op.batch_dims.value.data, c.extents(op.data), len(op.shape(1)) - 1
    tuples = _nd_tuples(c, op.data, op.indices, batch)
    axes = range(batch + op.shape(1)[-1])
    extents = [*c.extents(op.indices)[:-1], *own[len(axes) :]]
    return gathered(c, op.data, tuples, axes, range(last, len(extents)), extents, last)


def scattered(
    c: Tensors,
    reduction: ScatterReduction,
    data: SSAValue,
    indices: SSAValue,
    updates: SSAValue,
    axes: Sequence[int],
    window: Sequence[int],
    vector: int,
) -> SSAValue:
    """The data changed at ``indices``: as :func:`gathered`, where axes ``window`` of updates are the data's others."""
    element = element_of(data)
    kept = [e for a, e in enumerate(c.extents(data)) if a not in axes]
    for place, extent in zip(window, kept, strict=True):
        c.require(c.extents(updates)[place], "EQ", extent)
    numbers = ScatterAttr.of(
        f"update_window_dims = {listed(window)}, inserted_window_dims = {listed(sorted(axes))}, "
        f"scatter_dims_to_operand_dims = {listed(axes)}, index_vector_dim = {vector}"
    )
    if reduction is not ScatterReduction.NONE:
        data, updates = c.widened(data), c.widened(updates)
    wide = element_of(data)
    kind = SCATTER_COMBINES.get(reduction)
    scalar = TensorType(wide, [])
    body = c.body([scalar, scalar], lambda _, new: new) if kind is None else c.combiner(kind, wide)
    operands = [data, indices, updates]
    value = c.made("scatter", operands, wide, c.extents(data), [body], scatter_dimension_numbers=numbers)
    return c.convert(value, element)


def _scattered_along(c: Tensors, data: SSAValue, indices: SSAValue, updates: SSAValue, axis: int) -> SSAValue:
    rank, count = rank_of(updates), rank_of(indices)
    window = [a for a in range(rank) if not axis <= a < axis + count]
    places = positions(c, indices, c.extents(data)[axis])
    return scattered(c, ScatterReduction.ADD, data, places, updates, [axis], window, count)


@lowers(ScatterAddOp)
def scatter_add(op: ScatterAddOp, c: Conversion) -> SSAValue:
    return _scattered_along(c, op.data, op.indices, op.updates, op.axis_index)


@lowers(GatherBackwardOp)
def gather_backward(op: GatherBackwardOp, c: Conversion) -> SSAValue:
    axis, own = op.axis_index, c.extents(op.dy)
    shape = [*own[:axis], op.extent.value.data, *own[axis + len(op.shape(1)) :]]
    return _scattered_along(c, c.full(shape, op.element(0), 0), op.indices, op.dy, axis)


@lowers(ScatterNdOp)
def scatter_nd(op: ScatterNdOp, c: Conversion) -> SSAValue:
    last = len(op.shape(1)) - 1
    tuples = _nd_tuples(c, op.data, op.indices, 0)
    axes, window = range(op.shape(1)[-1]), range(last, len(op.shape(2)))
    return scattered(c, op.reduction.data, op.data, tuples, op.updates, axes, window, last)


@lowers(ScatterElementsOp)
def scatter_elements(op: ScatterElementsOp, c: Conversion) -> SSAValue:
    rank, tuples = len(op.shape(0)), _element_tuples(c, op.data, op.indices, op.axis_index)
    return scattered(c, op.reduction.data, op.data, tuples, op.updates, range(rank), [], rank)


@lowers(KvAppendOp)
def kv_append(op: KvAppendOp, c: Conversion) -> SSAValue:
    for axis, (new, extent) in enumerate(zip(c.extents(op.update), c.extents(op.cache), strict=True)):
        if axis == op.axis_index:
            c.require(c.plus(new, op.pos.value.data), "LE", extent)
        else:
            c.require(new, "EQ", extent)
    starts = [op.pos.value.data if a == op.axis_index else 0 for a in range(len(op.shape(0)))]
    operands = [op.cache, op.update, *(c.scalar(s, i32) for s in starts)]
    return c.made("dynamic_update_slice", operands, op.element(0), c.extents(op.cache))
