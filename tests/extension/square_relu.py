"""An operation that a newcomer adds: this file is all of it (see CONTRIBUTING.md)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from rlx_dialect.dtypes import Array
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, ElementwiseOp
from rlx_dialect.xdsl_compat import Builder


@irdl_op_definition
class SquareReluOp(ElementwiseOp):
    """max(x, 0)² of each element."""

    name = "rlx.square_relu"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    result = result_def()

    def __init__(self, input: SSAValue | Operation):
        super().__init__([input])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.maximum(args[0], 0) ** 2,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        relu = b.insert(ActivationOp("relu", self.input)).result
        return (b.insert(BinaryOp("mul", relu, relu)).result,)
