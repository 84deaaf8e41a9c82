"""Selection by positions that are values: loops that extract the element at a computed position."""

from __future__ import annotations

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import SSAValue

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_unsigned
from rlx_dialect.lowering.arithmetic import constant
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.tensors import Read, counters
from rlx_dialect.ops.indexing import GatherElementsOp, GatherNdOp, GatherOp, KvAppendOp
from rlx_dialect.xdsl_compat import Builder


def position(b: Builder, index: SSAValue, extent: Extent, unsigned: bool) -> SSAValue:
    """An index value as a position; a negative one counts from the end of its axis."""
    if unsigned and index.type != i64:
        # index_cast would extend the sign.
        index = b.insert(arith.ExtUIOp(index, i64)).result
    place = index if index.type == IndexType() else b.insert(arith.IndexCastOp(index, IndexType())).result
    if unsigned:
        return place
    length = constant(extent, IndexType(), b) if isinstance(extent, int) else extent
    from_end = b.insert(arith.AddiOp(place, length)).result
    negative = b.insert(arith.CmpiOp(place, constant(0, IndexType(), b), "slt")).result
    return b.insert(arith.SelectOp(negative, from_end, place)).result


@lowers(GatherOp)
def gather(op: GatherOp, c: Conversion) -> SSAValue:
    table, indices, axis = c.value(op.table), c.value(op.indices), op.axis_index
    own, chosen = c.extents(table), c.extents(indices)
    loops = [*own[:axis], *chosen, *own[axis + 1 :]]
    end = axis + len(chosen)

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        at = counters(b, len(loops))
        place = position(b, elements[0], own[axis], is_unsigned(op.element(1)))
        return b.insert(tensor.ExtractOp(table, [*at[:axis], place, *at[end:]], element_of(table))).result

    return c.elementwise(loops, [Read(indices, tuple(range(axis, end)))], element_of(table), body)


@lowers(GatherElementsOp)
def gather_elements(op: GatherElementsOp, c: Conversion) -> SSAValue:
    data, indices, axis = c.value(op.data), c.value(op.indices), op.axis_index
    loops, own = c.extents(indices), c.extents(data)

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        at = counters(b, len(loops))
        at[axis] = position(b, elements[0], own[axis], is_unsigned(op.element(1)))
        return b.insert(tensor.ExtractOp(data, at, element_of(data))).result

    return c.elementwise(loops, [indices], element_of(data), body)


@lowers(GatherNdOp)
def gather_nd(op: GatherNdOp, c: Conversion) -> SSAValue:
    data, indices, batch = c.value(op.data), c.value(op.indices), op.batch_dims.value.data
    own, tuples = c.extents(data), c.extents(indices)
    depth = tuples[-1]
    assert isinstance(depth, int)
    loops = [*tuples[:-1], *own[batch + depth :]]

    def body(b: Builder, _: list[SSAValue]) -> SSAValue:
        at = counters(b, len(loops))
        tuple_at = at[: len(tuples) - 1]
        places: list[SSAValue] = []
        for component in range(depth):
            of_tuple = [*tuple_at, constant(component, IndexType(), b)]
            index = b.insert(tensor.ExtractOp(indices, of_tuple, element_of(indices))).result
            places.append(position(b, index, own[batch + component], is_unsigned(op.element(1))))
        source = [*at[:batch], *places, *at[len(tuples) - 1 :]]
        return b.insert(tensor.ExtractOp(data, source, element_of(data))).result

    return c.generic(loops, [], element_of(data), body)


@lowers(KvAppendOp)
def kv_append(op: KvAppendOp, c: Conversion) -> SSAValue:
    cache, update = c.value(op.cache), c.value(op.update)
    offsets = [0] * len(c.extents(cache))
    offsets[op.axis_index] = op.pos.value.data
    return c.insert(update, cache, offsets)
