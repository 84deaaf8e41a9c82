"""Selection and replacement of elements by positions that are values, with the meanings of ONNX.

Indices have any integer element type. A negative one counts from the end of its axis; one outside the axis is
undefined (the reference reports it). Data have any element type, and results have that of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import BinaryKind, ScatterReduction, ScatterReductionAttr
from rlx_dialect.base import RlxOp, Value, rank_of
from rlx_dialect.dtypes import Array, is_bool, is_complex, is_integer
from rlx_dialect.ops.shape import AxisOp, front_axis
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, show
from rlx_dialect.xdsl_compat import Builder, InterpretationError

ZERO = IntegerAttr(0, i64)


class IndexingOp(RlxOp):
    """Base: operand 0 are the data, operand 1 the indices, operand 2 of a scatter the updates."""

    def check(self) -> None:
        if not is_integer(self.element(1)) or is_bool(self.element(1)):
            self.fail(f"{self.operand_name(1)} must have an integer element type, got {self.element(1)}")
        self.check_same_element(0, *range(2, len(self.operands)))

    def check_elements_shape(self, axis: int) -> None:
        """Indices have the rank of the data and, but along ``axis``, no extent above that of the data."""
        data, indices = self.shape(0), self.shape(1)
        limit = (*data[:axis], DYNAMIC, *data[axis + 1 :])
        if len(indices) != len(data) or any(i > d != DYNAMIC for i, d in zip(indices, limit, strict=True)):
            self.fail(f"{self.operand_name(1)} must have rank {len(data)} and fit {show(limit)}, got {show(indices)}")

    def in_range(self, indices: Array, extent: int) -> Array:
        """``indices`` as NumPy takes them; raises InterpretationError for one outside ``extent``."""
        wide = indices.astype(np.int64)
        if ((wide < -extent) | (wide >= extent)).any():
            raise InterpretationError(f"'{self.name}': an index is outside extent {extent}")
        return wide

    def elements_index(self, indices: Array, data: Array, axis: int) -> tuple[Array, ...]:
        """The NumPy index that reads ``data`` at the own position, but at ``indices`` along ``axis``."""
        grid: list[Array] = list(np.indices(indices.shape, sparse=True))
        grid[axis] = self.in_range(indices, data.shape[axis])
        return tuple(grid)

    def nd_index(self, indices: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
        """The NumPy index for index tuples along the last axis of ``indices`` into the leading axes of ``shape``."""
        return tuple(self.in_range(indices[..., i], shape[i]) for i in range(indices.shape[-1]))


def nd_depth(name: str, indices: Shape, rank: int) -> int:
    """How many axes index tuples of shape ``indices`` address; ``rank`` axes are there."""
    if not indices or not 1 <= indices[-1] <= rank:
        raise ShapeError(f"{name} must have a static last extent of 1 to {rank}, got {show(indices)}")
    return indices[-1]


@irdl_op_definition
class GatherOp(IndexingOp, AxisOp):
    """result[a…, i…, c…] = table[a…, indices[i…], c…]: indices replace ``axis``. An embedding look-up has axis 0."""

    name = "rlx.gather"
    table = operand_def()
    indices = operand_def()
    axis = prop_def(IntegerAttr[I64], default_value=ZERO)
    result = result_def()

    def __init__(self, table: Value, indices: Value, axis: int = 0, *, result_type: Attribute | None = None):
        super().__init__([table, indices], {"axis": front_axis(axis, table)}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.gather(self.shape(0), self.shape(1), self.axis.value.data)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (table, indices), axis = args, self.axis_index
        return (np.take(table, self.in_range(indices, table.shape[axis]), axis=axis),)


@irdl_op_definition
class GatherNdOp(IndexingOp):
    """Slices of data at index tuples along the last axis of indices, as ONNX's GatherND.

    data [b…, d1 … dn], indices [b…, i…, k] with k <= n and ``batch_dims`` leading axes b in common; result
    [b…, i…, d(k+1) … dn].
    """

    name = "rlx.gather_nd"
    data = operand_def()
    indices = operand_def()
    batch_dims = prop_def(IntegerAttr[I64], default_value=ZERO)
    result = result_def()

    def __init__(self, data: Value, indices: Value, *, batch_dims: int = 0, result_type: Attribute | None = None):
        super().__init__([data, indices], {"batch_dims": batch_dims}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        data, indices, batch = self.shape(0), self.shape(1), self.batch_dims.value.data
        if not 0 <= batch < min(len(data), len(indices)) or not shapes.compatible(data[:batch], indices[:batch]):
            raise ShapeError(
                f"operands 'data' and 'indices' must have {batch} leading batch axes in common and others, "
                f"got {show(data)} and {show(indices)}"
            )
        depth = nd_depth("operand 'indices'", indices, len(data) - batch)
        return (self.like(0, (*indices[:-1], *data[batch + depth :])),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (data, indices), batch = args, self.batch_dims.value.data
        grid = np.indices(indices.shape[:-1], sparse=True)[:batch]
        return (data[(*grid, *self.nd_index(indices, data.shape[batch:]))],)


@irdl_op_definition
class GatherElementsOp(IndexingOp, AxisOp):
    """result[p] = data[p with its coordinate along ``axis`` replaced by indices[p]].

    Indices have the rank of the data, and the result has their shape; but along ``axis`` no extent exceeds the data's.
    """

    name = "rlx.gather_elements"
    data = operand_def()
    indices = operand_def()
    axis = prop_def(IntegerAttr[I64], default_value=ZERO)
    result = result_def()

    def __init__(self, data: Value, indices: Value, axis: int = 0):
        super().__init__([data, indices], {"axis": front_axis(axis, data)})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, self.shape(1)),)

    def check(self) -> None:
        super().check()
        self.check_elements_shape(self.axis_index)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        data, indices = args
        return (data[self.elements_index(indices, data, self.axis_index)],)


Update = Callable[[Array, Any, Array], None]


def _assign(data: Array, index: Any, updates: Array) -> None:
    data[index] = updates


SCATTERS: Mapping[ScatterReduction, Update] = {
    ScatterReduction.NONE: _assign,
    ScatterReduction.ADD: np.add.at,
    ScatterReduction.MUL: np.multiply.at,
    ScatterReduction.MAX: np.maximum.at,
    ScatterReduction.MIN: np.minimum.at,
}
"""Each update in turn meets the element at its index; with ``none`` it replaces it, and the order among equal
indices is undefined."""

SCATTER_COMBINES: Mapping[ScatterReduction, BinaryKind] = {
    ScatterReduction.ADD: BinaryKind.ADD,
    ScatterReduction.MUL: BinaryKind.MUL,
    ScatterReduction.MAX: BinaryKind.MAX,
    ScatterReduction.MIN: BinaryKind.MIN,
}
"""The operation by which an update meets the element; ``none`` has none."""


class ScatterOp(IndexingOp):
    """Base of the scatters: the data, changed at the indices by the updates."""

    data = operand_def()
    indices = operand_def()
    updates = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.operands[0].type,)

    def check_reduction(self, reduction: ScatterReduction) -> None:
        element = self.element(0)
        if reduction in (ScatterReduction.ADD, ScatterReduction.MUL) and is_bool(element):
            self.fail(f"{self.operand_name(0)} of {reduction} must be numbers, got {element}")
        if reduction in (ScatterReduction.MAX, ScatterReduction.MIN) and is_complex(element):
            self.fail(f"{self.operand_name(0)} of {reduction} must be real, got {element}")

    def scattered(self, reduction: ScatterReduction, data: Array, index: Any, updates: Array) -> tuple[Array, ...]:
        result = data.copy()
        SCATTERS[reduction](result, index, updates)
        return (result,)


@irdl_op_definition
class ScatterAddOp(ScatterOp, AxisOp):
    """The data with slices added along ``axis``: the transpose (and gradient) of :class:`GatherOp`.

    For each i: result[a…, indices[i…], c…] += updates[a…, i…, c…]; updates have the shape that gathering has.
    """

    name = "rlx.scatter_add"
    axis = prop_def(IntegerAttr[I64], default_value=ZERO)

    def __init__(self, data: Value, indices: Value, updates: Value, axis: int = 0):
        super().__init__([data, indices, updates], {"axis": front_axis(axis, data)})

    def check(self) -> None:
        super().check()
        self.check_reduction(ScatterReduction.ADD)
        self.check_shape(2, shapes.gather(self.shape(0), self.shape(1), self.axis_index))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (data, indices, updates), axis = args, self.axis_index
        index = (*([slice(None)] * axis), self.in_range(indices, data.shape[axis]))
        return self.scattered(ScatterReduction.ADD, data, index, updates)


@irdl_op_definition
class GatherBackwardOp(IndexingOp, AxisOp):
    """The gradient of :class:`GatherOp` by its table: the slices of dy added up at their indices, else 0.

    dy [a…, i…, c…] and indices [i…] give [a…, ``extent``, c…], where ``extent`` is that of the table's ``axis``.
    """

    name = "rlx.gather_backward"
    dy = operand_def()
    indices = operand_def()
    axis = prop_def(IntegerAttr[I64], default_value=ZERO)
    extent = prop_def(IntegerAttr[I64])
    result = result_def()

    def __init__(self, dy: Value, indices: Value, axis: int = 0, *, extent: int):
        """``axis`` may count from the back of the table."""
        rank = rank_of(SSAValue.get(dy)) - rank_of(SSAValue.get(indices)) + 1
        (axis,) = shapes.from_front([axis], rank)
        super().__init__([dy, indices], {"axis": axis, "extent": extent})

    @property
    def axis_index(self) -> int:
        """The axis of the table, counted from the front."""
        return shapes.normal_axis(self.axis.value.data, max(0, len(self.shape(0)) - len(self.shape(1)) + 1))

    def infer_types(self) -> tuple[Attribute, ...]:
        dy, indices, axis, extent = self.shape(0), self.shape(1), self.axis_index, self.extent.value.data
        if extent < 0:
            raise ShapeError(f"extent must not be negative, got {extent}")
        end = axis + len(indices)
        if not shapes.compatible(dy[axis:end], indices):
            raise ShapeError(f"operand 'dy' must have the extents {show(indices)} at axis {axis}, got {show(dy)}")
        return (self.like(0, (*dy[:axis], extent, *dy[end:])),)

    def check(self) -> None:
        super().check()
        if is_bool(self.element(0)):
            self.fail("operand 'dy' must be of numbers, got i1")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (dy, indices), axis, extent = args, self.axis_index, self.extent.value.data
        result = np.zeros((*dy.shape[:axis], extent, *dy.shape[axis + indices.ndim :]), dy.dtype)
        SCATTERS[ScatterReduction.ADD](result, (*([slice(None)] * axis), self.in_range(indices, extent)), dy)
        return (result,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """A scatter into zeros."""
        # These are written with the operations of this file.
        from rlx_dialect.ops.extents import zeros_with
        from rlx_dialect.ops.formula import Term

        axis, dy = self.axis_index, Term(b, self.dy)
        zeros = zeros_with(dy, axis, len(self.shape(1)), self.extent.value.data)
        return self.as_results(b.insert(ScatterAddOp(zeros.value, self.indices, self.dy, axis)).result)


@irdl_op_definition
class ScatterNdOp(ScatterOp):
    """Slices of the data replaced or combined at index tuples along the last axis of indices, as ONNX's ScatterND.

    data [d1 … dn], indices [i…, k] with k <= n, updates [i…, d(k+1) … dn].
    """

    name = "rlx.scatter_nd"
    KEYWORD: ClassVar = "reduction"
    reduction = prop_def(ScatterReductionAttr, default_value=ScatterReductionAttr(ScatterReduction.NONE))

    def __init__(
        self,
        data: Value,
        indices: Value,
        updates: Value,
        *,
        reduction: ScatterReduction | str = ScatterReduction.NONE,
    ):
        super().__init__([data, indices, updates], {"reduction": reduction})

    def check(self) -> None:
        super().check()
        self.check_reduction(self.reduction.data)
        data, indices = self.shape(0), self.shape(1)
        depth = nd_depth("operand 'indices'", indices, len(data))
        self.check_shape(2, (*indices[:-1], *data[depth:]))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        data, indices, updates = args
        return self.scattered(self.reduction.data, data, self.nd_index(indices, data.shape), updates)


@irdl_op_definition
class ScatterElementsOp(ScatterOp, AxisOp):
    """data[p with its coordinate along ``axis`` replaced by indices[p]] replaced by or combined with updates[p].

    Indices and updates have one shape; see :class:`GatherElementsOp`.
    """

    name = "rlx.scatter_elements"
    KEYWORD: ClassVar = "reduction"
    axis = prop_def(IntegerAttr[I64], default_value=ZERO)
    reduction = prop_def(ScatterReductionAttr, default_value=ScatterReductionAttr(ScatterReduction.NONE))

    def __init__(
        self,
        data: Value,
        indices: Value,
        updates: Value,
        axis: int = 0,
        *,
        reduction: ScatterReduction | str = ScatterReduction.NONE,
    ):
        super().__init__([data, indices, updates], {"axis": front_axis(axis, data), "reduction": reduction})

    def check(self) -> None:
        super().check()
        self.check_reduction(self.reduction.data)
        self.check_elements_shape(self.axis_index)
        self.check_shape(2, self.shape(1))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        data, indices, updates = args
        index = self.elements_index(indices, data, self.axis_index)
        return self.scattered(self.reduction.data, data, index, updates)


@irdl_op_definition
class KvAppendOp(AxisOp):
    """The cache with ``update`` written over the positions from ``pos`` on along ``axis``.

    The shapes differ along ``axis`` only. A target may write into the cache's own memory.
    """

    name = "rlx.kv_append"
    cache = operand_def()
    update = operand_def()
    pos = prop_def(IntegerAttr[I64])
    result = result_def()

    def __init__(self, cache: Value, update: Value, axis: int, pos: int):
        super().__init__([cache, update], {"axis": front_axis(axis, cache), "pos": pos})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.cache.type,)

    def check(self) -> None:
        axis, pos, cache, update = self.axis_index, self.pos.value.data, self.shape(0), self.shape(1)
        self.check_same_element()
        self.check_shape(1, (*cache[:axis], DYNAMIC, *cache[axis + 1 :]))
        if pos < 0 or (DYNAMIC not in (cache[axis], update[axis]) and pos + update[axis] > cache[axis]):
            self.fail(f"pos {pos} + extent {show([update[axis]])} of operand 'update' exceeds {show([cache[axis]])}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (cache, update), axis, pos = args, self.axis_index, self.pos.value.data
        end = pos + update.shape[axis]
        if end > cache.shape[axis]:
            raise InterpretationError(f"'{self.name}': position {end} is outside extent {cache.shape[axis]}")
        result = cache.copy()
        result[(*([slice(None)] * axis), slice(pos, end))] = update
        return (result,)
