"""Element-wise operations and regions: one map kernel each."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.arithmetic import Real, convert_float
from rlx_dialect.lowering.scalar import emit_scalar
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Body
from rlx_dialect.lowering.to_gpu.movement import resized, resized_box, side_by_side
from rlx_dialect.lowering.to_gpu.views import View
from rlx_dialect.ops.elementwise import (
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    ElementwiseOp,
    FmaOp,
    WhereOp,
)
from rlx_dialect.ops.normalization import GatedResidualOp
from rlx_dialect.ops.region import BatchElementwiseRegionOp, ElementwiseRegionOp, RegionOp
from rlx_dialect.xdsl_compat import Builder


def _step_key(op: ElementwiseOp, result: Attribute) -> str:
    """All that the scalar code of ``op`` depends on besides the types of its operands."""
    properties = " ".join(f"{name}={value}" for name, value in sorted(op.properties.items()))
    return f"{op.name} {properties} -> {result}"


@lowers(ActivationOp, BinaryOp, CastOp, ClampOp, CompareOp, FmaOp, WhereOp)
def elementwise(op: ElementwiseOp, h: Host) -> None:
    (result,) = op.results
    body = Body(_step_key(op, element_of(result)), lambda b, values: [emit_scalar(op, values, b)])
    h.launch_map(_hint(op), [h.view(o) for o in op.operands], [h.result(result)], body)


def _hint(op: ElementwiseOp) -> str:
    """A kernel's name says the kind of an operation that has one. A bare ``tanh`` is taken in Metal's language."""
    match op:
        case ActivationOp() | BinaryOp() | CompareOp():
            return f"map_{op.kind.data}"
        case _:
            return op.name.replace("rlx.", "map_")


@lowers(GatedResidualOp)
def gated_residual(op: GatedResidualOp, h: Host) -> None:
    def write(b: Builder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        x, y, gate = (Real(convert_float(v, wide_element(v.type), b), b) for v in values)
        # In the wider type throughout; the store rounds.
        return [(x + gate * y).value]

    h.launch_map("gated_residual", [h.view(o) for o in op.operands], [h.result(op.result)], Body(op.name, write))


def _region_body(op: RegionOp) -> Body:
    """The body of a region; its key numbers the values, so that names make no difference."""
    numbers: dict[SSAValue, int] = {a: i for i, a in enumerate(op.body.block.args)}
    steps: list[str] = []
    for step in op.steps():
        used = [numbers[o] for o in step.operands]
        for result in step.results:
            numbers[result] = len(numbers)
            steps.append(f"{used} {_step_key(step, result.type)}")

    def write(b: Builder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        known: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, values, strict=True))
        for step in op.steps():
            (result,) = step.results
            known[result] = emit_scalar(step, [known[o] for o in step.operands], b)
        return [known[op.yielded]]

    return Body("\n".join([*steps, f"yield {numbers[op.yielded]}"]), write)


@lowers(ElementwiseRegionOp)
def elementwise_region(op: ElementwiseRegionOp, h: Host) -> None:
    h.launch_maps("region", [_operands(op, [h.view(o) for o in op.inputs], h.result(op.result), h)], _region_body(op))


@lowers(BatchElementwiseRegionOp)
def batch_elementwise_region(op: BatchElementwiseRegionOp, h: Host) -> None:
    result = h.result(op.result)
    slices = side_by_side([h.view(o) for o in op.inputs], result, 0)
    h.launch_maps("region", [_operands(op, [part], target, h) for part, target in slices], _region_body(op))


def _operands(op: RegionOp, inputs: Sequence[View], result: View, h: Host) -> tuple[Sequence[View], Sequence[View]]:
    """What a region reads and writes, over one box for both."""
    views = [v.broadcast(result.shape) for v in inputs[1:]]
    first = inputs[0]
    if op.prologue is not None:
        box = resized_box(result.shape)
        first, result = resized(first), h.reshape(result, box)
        views = [h.reshape(v, box) for v in views]
    return [first, *views], [result]
