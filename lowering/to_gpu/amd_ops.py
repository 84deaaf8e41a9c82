"""Operations of MLIR's amdgpu dialect under the same names; they print in generic form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, VectorType, i32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def


class AmdMatrixOp(IRDLOperation):
    """sourceA · sourceB + destC of 16 x 16 matrices, each a vector a lane."""

    sourceA = operand_def(VectorType)
    sourceB = operand_def(VectorType)
    destC = operand_def(VectorType)
    m = prop_def(IntegerAttr)
    n = prop_def(IntegerAttr)
    k = prop_def(IntegerAttr)
    destD = result_def(VectorType)

    SIZES: ClassVar[Mapping[str, int]] = {"m": 16, "n": 16, "k": 16}

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue):
        properties = {name: IntegerAttr(size, i32) for name, size in self.SIZES.items()}
        super().__init__(operands=[a, b, c], result_types=[c.type], properties=properties)


@irdl_op_definition
class MfmaOp(AmdMatrixOp):
    """The instruction of CDNA chips."""

    name = "amdgpu.mfma"
    blocks = prop_def(IntegerAttr)

    SIZES: ClassVar[Mapping[str, int]] = {**AmdMatrixOp.SIZES, "blocks": 1}


@irdl_op_definition
class WmmaOp(AmdMatrixOp):
    """The instruction of RDNA chips."""

    name = "amdgpu.wmma"
