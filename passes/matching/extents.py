"""Whether two extents that are only known at run time are provably one.

An extent is followed back through the operations that keep it. Two that come from the same place are equal; others
may be or may not be.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import rank_of, shape_of
from rlx_dialect.ops.attention import RopeOp
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp, MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp
from rlx_dialect.ops.shape import ExpandOp, NarrowOp, ReshapeOp, TransposeOp
from rlx_dialect.shapes import DYNAMIC, product

Place = tuple[SSAValue, int]
"""A value, and one of its axes counted from the front."""


def same_extent(a: Place, b: Place) -> bool:
    """Whether both axes provably have one extent: equal static ones, or unknown ones of one origin."""
    x, y = (shape_of(value)[axis] for value, axis in (a, b))
    return x == y and (x != DYNAMIC or origin(*a) == origin(*b))


def origin(value: SSAValue, axis: int) -> Place:
    """The earliest value and axis from which the unknown extent of ``axis`` provably comes.

    Only operations that have one unknown extent to take it from are followed, so the walk does not branch.
    """
    while (step := _STEPS.get(type(value.owner))) is not None and (before := step(value.owner, axis)) is not None:
        value, axis = before
    return value, axis


def _same_axis(op: Operation, axis: int) -> Place | None:
    return op.operands[0], axis


def _transposed(op: Operation, axis: int) -> Place | None:
    assert isinstance(op, TransposeOp)
    return op.input, op.perm.get_values()[axis]


def _reshaped(op: Operation, axis: int) -> Place | None:
    """The single unknown extent stays the same where the others have one product before and after."""
    assert isinstance(op, ReshapeOp)
    before, after = shape_of(op.input), shape_of(op.result)
    known = [product(extent for extent in shape if extent != DYNAMIC) for shape in (before, after)]
    if before.count(DYNAMIC) != 1 or after.count(DYNAMIC) != 1 or known[0] != known[1] or not known[0]:
        return None
    return op.input, before.index(DYNAMIC)


def _narrowed(op: Operation, axis: int) -> Place | None:
    assert isinstance(op, NarrowOp)
    return None if axis == op.axis_index else (op.input, axis)


def _expanded(op: Operation, axis: int) -> Place | None:
    assert isinstance(op, ExpandOp)
    return (op.input, axis + rank_of(op.input) - rank_of(op.result)) if op.target.get_values()[axis] == -1 else None


def _multiplied(op: Operation, axis: int) -> Place | None:
    lhs, rhs = op.operands[:2]
    return (lhs, axis) if rank_of(rhs) == 2 and axis < rank_of(lhs) - 1 else None


def _combined(op: Operation, axis: int) -> Place | None:
    """The operand that alone has an extent there."""
    rank = rank_of(op.results[0])
    places = [(operand, axis - rank + rank_of(operand)) for operand in op.operands]
    having = [place for place in places if place[1] >= 0 and shape_of(place[0])[place[1]] != 1]
    return having[0] if len(having) == 1 else None


_STEPS: dict[type[object], Callable[[Operation, int], Place | None]] = {
    ActivationOp: _same_axis,
    CastOp: _same_axis,
    RopeOp: _same_axis,
    TransposeOp: _transposed,
    ReshapeOp: _reshaped,
    NarrowOp: _narrowed,
    ExpandOp: _expanded,
    MatMulOp: _multiplied,
    FusedMatMulBiasActOp: _multiplied,
    BinaryOp: _combined,
}
