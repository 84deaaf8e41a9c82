"""Regions: the scalar body becomes the body of one ``linalg.generic``."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.to_linalg.complex_numbers import emit
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.convolution import resize_nearest_2x
from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.xdsl_compat import Builder


@lowers(ElementwiseRegionOp)
def elementwise_region(op: ElementwiseRegionOp, c: Conversion) -> SSAValue:
    operands = [c.operand(o) for o in op.inputs]
    if op.prologue is not None:
        operands[0] = resize_nearest_2x(c, c.value(op.inputs[0]))
    assert isinstance(op.result.type, TensorType)

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        values: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, elements, strict=True))
        for step in op.steps():
            value = emit(step, [values[o] for o in step.operands], b)
            (result,) = step.results
            value.name_hint = value.name_hint or result.name_hint
            values[result] = value
        return values[op.yielded]

    loops = c.broadcast_loops(operands, shape_of(op.result))
    return c.elementwise(loops, operands, c.lowered(element_of(op.result)), body)
