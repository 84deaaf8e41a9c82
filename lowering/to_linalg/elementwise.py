"""Element-wise operations: one ``linalg.generic`` each, broadcasting by its indexing maps."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.arithmetic import constant
from rlx_dialect.lowering.to_linalg.complex_numbers import emit
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.tensors import Splat
from rlx_dialect.ops.elementwise import (
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    ElementwiseOp,
    FmaOp,
    StopGradientOp,
    WhereOp,
)


@lowers(ActivationOp, BinaryOp, CastOp, ClampOp, CompareOp, FmaOp, WhereOp)
def elementwise(op: ElementwiseOp, c: Conversion) -> SSAValue:
    (result,) = op.results
    operands = [c.operand(o) for o in op.operands]
    if not isinstance(result.type, TensorType):
        scalars = [constant(o.value, o.type, c.b) if isinstance(o, Splat) else o for o in operands]
        return emit(op, scalars, c.b)
    loops = c.broadcast_loops(operands, shape_of(result))
    return c.elementwise(loops, operands, c.lowered(element_of(result)), lambda b, elements: emit(op, elements, b))


@lowers(StopGradientOp)
def stop_gradient(op: StopGradientOp, c: Conversion) -> SSAValue:
    return c.value(op.input)
