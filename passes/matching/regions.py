"""What an element-wise region can evaluate, regions made of operations, and slices of a batch that become one again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import ComplexType, TensorType
from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import element_of, shape_of
from rlx_dialect.ops.elementwise import (
    NOT_REGION_FUSABLE_ACTIVATIONS,
    NOT_REGION_FUSABLE_BINARIES,
    ActivationOp,
    BinaryOp,
    CastOp,
    CompareOp,
    ElementwiseOp,
    WhereOp,
)
from rlx_dialect.ops.region import ElementwiseRegionOp, YieldOp, with_operands
from rlx_dialect.ops.shape import ConcatOp, NarrowOp
from rlx_dialect.passes.matching.fusion import Miss, Reason
from rlx_dialect.passes.matching.values import OpT, defining
from rlx_dialect.shapes import show


def fusable(op: ElementwiseOp) -> Miss | None:
    """None if a region can evaluate ``op``, else the reason why not."""
    if any(isinstance(element_of(value), ComplexType) for value in (*op.operands, *op.results)):
        return Miss(Reason.ELEMENT_TYPE, op, "regions do not compute with complex numbers", "split real and imaginary")
    if not all(isinstance(operand.type, TensorType) for operand in op.operands):
        return Miss(Reason.ELEMENT_TYPE, op, "regions take tensors, and it has a scalar", "use a tensor of rank 0")
    match op:
        case ActivationOp():
            what, fits = op.kind.data.value, op.kind.data not in NOT_REGION_FUSABLE_ACTIVATIONS
        case BinaryOp():
            what, fits = op.kind.data.value, op.kind.data not in NOT_REGION_FUSABLE_BINARIES
        case CastOp():
            what, fits = "a change of element type", op.input.type == op.result.type
        case CompareOp() | WhereOp():
            return None
        case _:
            what, fits = op.name, False
    return None if fits else Miss(Reason.UNSUPPORTED_KIND, op, f"regions do not evaluate {what}", "decompose it first")


def region_of(members: Sequence[ElementwiseOp], *, prologue: str | None = None) -> ElementwiseRegionOp:
    """The region that gives the result of the last of ``members``, each of which comes after what it uses.

    What they take from elsewhere become the operands, in the order in which they first occur. With a ``prologue``,
    operand 0 is still what the prologue gives; it is for the caller to set.
    """
    tail = members[-1]
    own = {member.results[0] for member in members}
    inputs = list(dict.fromkeys(operand for member in members for operand in member.operands if operand not in own))
    body = ElementwiseRegionOp.empty_body([element_of(value) for value in inputs])
    scalars: dict[SSAValue, SSAValue] = {}
    for value, argument in zip(inputs, body.block.args, strict=True):
        argument.name_hint = value.name_hint
        scalars[value] = argument
    for member in members:
        step = with_operands(member, [scalars[operand] for operand in member.operands])
        body.block.add_op(step)
        scalars[member.results[0]] = step.results[0]
    body.block.add_op(YieldOp(scalars[tail.results[0]]))
    return ElementwiseRegionOp(inputs, body, prologue=prologue, result_type=tail.results[0].type)


def slice_users(joined: ConcatOp, op_type: type[OpT] | tuple[type[OpT], ...]) -> list[OpT] | None:
    """The operations of class ``op_type`` that ``joined`` takes, each of one slice of one value, all along axis 0.

    None where ``joined`` takes anything else. The slices may have any order and lengths: see :func:`not_in_order`.
    """
    if joined.axis_index != 0 or len(joined.operands) < 2:
        return None
    users = [u for v in joined.operands if (u := defining(v, op_type)) is not None and len(u.operands) == 1]
    slices = _slices(users)
    if len(slices) != len(joined.operands) or any(s.input is not slices[0].input for s in slices):
        return None
    return users


def _slices(users: Sequence[Operation]) -> list[NarrowOp]:
    return [s for u in users if (s := defining(u.operands[0], NarrowOp)) is not None and s.axis_index == 0]


def not_in_order(users: Sequence[Operation], site: Operation) -> Miss | None:
    """None if the slices of :func:`slice_users` have one shape and follow one another, else why not, at ``site``."""
    slices = _slices(users)
    shapes = dict.fromkeys(show(shape_of(s.result)) for s in slices)
    if len(shapes) > 1:
        detail = f"the slices have the shapes {' and '.join(shapes)}"
        return Miss(Reason.SHAPES_DIFFER, site, detail, "cut the batch into equal parts")
    starts = [s.start.value.data for s in slices]
    if any(later - earlier < slices[0].len.value.data for earlier, later in pairwise(starts)):
        detail = f"the slices start at {', '.join(map(str, starts))}, and are {slices[0].len.value.data} long"
        return Miss(Reason.NOT_ADJACENT, site, detail, "join slices that do not overlap in the order of the batch")
    return None
