"""Which operands of batched products IREE would compute wrongly, since it pads their rows where it tiles them.

Where the last rows of a tile are padding, IREE 3.13 fuses what computes an operand into the tiling of it, and a softmax
there divides by the sums of other rows: ``softmax(a) · b`` of 2×3×6 and 2×6×8 is wrong by half its size.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

_TILE = 16
"""A multiple of all tiles that IREE chooses for rows and columns; DYNAMIC is no multiple of it."""


def padded_operands(op: Operation) -> list[SSAValue]:
    """The operands of a product for each matrix of a batch that have rows (or columns) beyond whole tiles."""
    if not isinstance(op, linalg.GenericOp) or len(op.inputs) != 2:
        return []
    if IteratorTypeAttr.reduction() not in op.iterator_types:
        return []
    left, right, out = (_axes(m.data) for m in op.indexing_maps)
    if not left & right & out:
        return []
    return [
        value
        for value, map, other in zip(op.inputs, op.indexing_maps, (right, left), strict=False)
        if not _fills_tiles(value, map.data, (left | right) & out - other)
    ]


def _axes(map: AffineMap) -> set[int]:
    return {int(axis) for axis in map.used_dims()}


def _fills_tiles(value: SSAValue, map: AffineMap, axes: set[int]) -> bool:
    """Whether the last of ``axes`` that the operand has is a whole number of tiles long."""
    assert isinstance(value.type, TensorType)
    extents = [
        extent for extent, expr in zip(value.type.get_shape(), map.results, strict=True) if expr.used_dims() & axes
    ]
    return not extents or (extents[-1] > 0 and extents[-1] % _TILE == 0)
