"""What an element-wise region can evaluate, and regions made of operations."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ComplexType, TensorType
from xdsl.ir import SSAValue

from rlx_dialect.base import element_of
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
from rlx_dialect.passes.matching.fusion import Miss, Reason


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
