"""Scatters: a loop over the updates, in order, that changes the data at one place in each round.

Every scatter is brought to one form: data [places, width…], an index of the first axis for each update, updates
[count, width…]. The loop carries the mark :data:`SCATTER`, by which an engine may put a scatter of its own in its
place (see :mod:`rlx_dialect.runtime.iree_form`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import ScatterReduction
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_unsigned
from rlx_dialect.lowering.arithmetic import constant
from rlx_dialect.lowering.to_linalg.complex_numbers import binary
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.indexing import position
from rlx_dialect.lowering.to_linalg.tensors import SCATTER, Read, counters
from rlx_dialect.ops.indexing import SCATTER_COMBINES, GatherBackwardOp, ScatterAddOp, ScatterElementsOp, ScatterNdOp
from rlx_dialect.xdsl_compat import Builder


def scattered(
    c: Conversion,
    kind: ScatterReduction,
    data: SSAValue,
    places: SSAValue,
    updates: SSAValue,
    *,
    unsigned: bool = False,
) -> SSAValue:
    """data [n, width…] after updates [count, width…] met the rows at places [count, 1], one after the other."""
    count, *width = c.extents(updates)
    if 0 in c.extents(updates):
        return data
    element, rest = element_of(data), [0] * len(width)
    row = [1, *width]

    def combine(b: Builder, elements: list[SSAValue]) -> SSAValue:
        update, old = elements
        met_by = SCATTER_COMBINES.get(kind)
        return update if met_by is None else binary(met_by, old, update, b, unsigned=unsigned)

    def step(index: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
        place = c.op(tensor.ExtractOp(places, [index, c.index(0)], i64))
        at = c.op(arith.IndexCastOp(place, IndexType()))
        update = c.slice(updates, [index, *rest], row)
        old = c.slice(values[0], [at, *rest], row)
        return [c.insert(c.elementwise(row, [update, old], element, combine), values[0], [at, *rest])]

    (result,) = c.loop(count, [data], step)
    assert isinstance(result.owner, Operation)
    result.owner.attributes[SCATTER] = UnitAttr()
    return result


def _scatter_slices(
    c: Conversion, data: SSAValue, indices: SSAValue, updates: SSAValue, axis: int, *, unsigned_indices: bool
) -> SSAValue:
    """Slices of updates [a…, i…, c…] added at indices [i…] of axis ``axis`` of data [a…, n, c…]."""
    own, chosen = c.extents(data), c.extents(indices)
    before, width = own[:axis], own[axis + 1 :]
    loops = [*before, *chosen]

    def place(b: Builder, elements: list[SSAValue]) -> SSAValue:
        index = position(b, elements[0], own[axis], unsigned_indices)
        return _as_i64(linear(b, [*counters(b, axis), index], [*before, own[axis]]), b)

    places = c.elementwise(loops, [Read(indices, tuple(range(axis, len(loops))))], i64, place)
    count = c.extent(c.symbols.of(loops))
    rows = c.reshape(data, [c.extent(c.symbols.of([*before, own[axis]])), *width])
    changed = scattered(
        c, ScatterReduction.ADD, rows, c.reshape(places, [count, 1]), c.reshape(updates, [count, *width])
    )
    return c.reshape(changed, own)


@lowers(ScatterAddOp)
def scatter_add(op: ScatterAddOp, c: Conversion) -> SSAValue:
    data, indices, updates = map(c.value, op.operands)
    return _scatter_slices(c, data, indices, updates, op.axis_index, unsigned_indices=is_unsigned(op.element(1)))


@lowers(GatherBackwardOp)
def gather_backward(op: GatherBackwardOp, c: Conversion) -> SSAValue:
    dy, indices, axis = c.value(op.dy), c.value(op.indices), op.axis_index
    own = c.extents(dy)
    extents = [*own[:axis], op.extent.value.data, *own[axis + len(shape_of(indices)) :]]
    zeros = c.filled(extents, element_of(dy), 0)
    return _scatter_slices(c, zeros, indices, dy, axis, unsigned_indices=is_unsigned(op.element(1)))


@lowers(ScatterNdOp)
def scatter_nd(op: ScatterNdOp, c: Conversion) -> SSAValue:
    data, indices, updates = map(c.value, op.operands)
    own, tuples = c.extents(data), c.extents(indices)
    depth = shape_of(indices)[-1]
    loops, width = tuples[:-1], own[depth:]

    def place(b: Builder, _: list[SSAValue]) -> SSAValue:
        at = counters(b, len(loops))
        components: list[SSAValue] = []
        for number in range(depth):
            of_tuple = [*at, constant(number, IndexType(), b)]
            index = b.insert(tensor.ExtractOp(indices, of_tuple, element_of(indices))).result
            components.append(position(b, index, own[number], is_unsigned(op.element(1))))
        return _as_i64(linear(b, components, own[:depth]), b)

    places = c.generic(loops, [], i64, place)
    count = c.extent(c.symbols.of(loops))
    changed = scattered(
        c,
        op.reduction.data,
        c.reshape(data, [c.extent(c.symbols.of(own[:depth])), *width]),
        c.reshape(places, [count, 1]),
        c.reshape(updates, [count, *width]),
        unsigned=is_unsigned(op.element(0)),
    )
    return c.reshape(changed, own)


@lowers(ScatterElementsOp)
def scatter_elements(op: ScatterElementsOp, c: Conversion) -> SSAValue:
    data, indices, updates = map(c.value, op.operands)
    own, loops, axis = c.extents(data), c.extents(indices), op.axis_index

    def place(b: Builder, elements: list[SSAValue]) -> SSAValue:
        at = counters(b, len(loops))
        at[axis] = position(b, elements[0], own[axis], is_unsigned(op.element(1)))
        return _as_i64(linear(b, at, own), b)

    places = c.elementwise(loops, [indices], i64, place)
    count = c.extent(c.symbols.of(loops))
    changed = scattered(
        c,
        op.reduction.data,
        c.reshape(data, [c.extent(c.symbols.of(own))]),
        c.reshape(places, [count, 1]),
        c.reshape(updates, [count]),
        unsigned=is_unsigned(op.element(0)),
    )
    return c.reshape(changed, own)


def linear(b: Builder, at: Sequence[SSAValue], extents: Sequence[Extent]) -> SSAValue:
    """The row-major number of the element at a position."""
    number, *others = at
    for index, extent in zip(others, extents[1:], strict=True):
        length = constant(extent, IndexType(), b) if isinstance(extent, int) else extent
        scaled = b.insert(arith.MuliOp(number, length)).result
        number = b.insert(arith.AddiOp(scaled, index)).result
    return number


def _as_i64(value: SSAValue, b: Builder) -> SSAValue:
    return b.insert(arith.IndexCastOp(value, i64)).result
