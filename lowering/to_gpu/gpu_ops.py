"""Operations of MLIR's gpu dialect that xDSL's lacks, under the same names; they print in generic form.

Subgroups: invocations that run in step, and read each other's registers. Matrix units: a subgroup holds a matrix
together, and multiplies whole matrices.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IndexType,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from rlx_dialect.xdsl_compat import Printer


@irdl_attr_definition
class ShuffleModeAttr(ParametrizedAttribute, SpacedOpaqueSyntaxAttribute):
    """``#gpu<shuffle_mode xor>``, or ``idx``."""

    name = "gpu.shuffle_mode"
    mode: StringAttr

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(self.mode.data)


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """The ``value`` of the invocation whose number in its subgroup of ``width`` is this one's xor ``offset``.

    With the mode ``idx`` its number is ``offset``.
    """

    name = "gpu.shuffle"
    value = operand_def()
    offset = operand_def(i32)
    width = operand_def(i32)
    mode = prop_def(ShuffleModeAttr)
    result = result_def()
    valid = result_def(i1)

    def __init__(self, value: SSAValue, offset: SSAValue, width: SSAValue, mode: str = "xor"):
        super().__init__(
            operands=[value, offset, width],
            properties={"mode": ShuffleModeAttr(StringAttr(mode))},
            result_types=[value.type, i1],
        )


@irdl_attr_definition
class MmaMatrixType(ParametrizedAttribute, TypeAttribute):
    """``!gpu.mma_matrix<16x16xf16, "AOp">``: a matrix in the registers of a subgroup; "AOp", "BOp" or "COp".

    MLIR has none of bf16: those are expanded (:mod:`.fragments`) before it sees them.
    """

    name = "gpu.mma_matrix"
    rows: IntAttr
    columns: IntAttr
    element: Float16Type | BFloat16Type | Float32Type
    role: StringAttr

    @classmethod
    def of(cls, rows: int, columns: int, element: Attribute, role: str) -> MmaMatrixType:
        assert isinstance(element, Float16Type | BFloat16Type | Float32Type)
        return cls(IntAttr(rows), IntAttr(columns), element, StringAttr(role))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f'<{self.rows.data}x{self.columns.data}x{self.element}, "{self.role.data}">')


@irdl_op_definition
class SubgroupMmaConstantMatrixOp(IRDLOperation):
    """A matrix of one number."""

    name = "gpu.subgroup_mma_constant_matrix"
    value = operand_def()
    result = result_def(MmaMatrixType)

    def __init__(self, value: SSAValue, type: MmaMatrixType):
        super().__init__(operands=[value], result_types=[type])


@irdl_op_definition
class SubgroupMmaLoadMatrixOp(IRDLOperation):
    """A matrix whose rows lie ``leadDimension`` elements apart in ``source``, the first at ``indices``.

    With ``transpose`` its columns do.
    """

    name = "gpu.subgroup_mma_load_matrix"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    leadDimension = prop_def(IntegerAttr[IndexType])
    transpose = opt_prop_def(UnitAttr)
    result = result_def(MmaMatrixType)

    def __init__(self, source: SSAValue, at: SSAValue, pitch: int, type: MmaMatrixType, *, transpose: bool = False):
        properties: dict[str, Attribute] = {"leadDimension": IntegerAttr(pitch, IndexType())}
        if transpose:
            properties["transpose"] = UnitAttr()
        super().__init__(operands=[source, [at]], properties=properties, result_types=[type])


@irdl_op_definition
class SubgroupMmaStoreMatrixOp(IRDLOperation):
    """Write a matrix to ``target``, its rows ``leadDimension`` elements apart."""

    name = "gpu.subgroup_mma_store_matrix"
    source = operand_def(MmaMatrixType)
    target = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    leadDimension = prop_def(IntegerAttr[IndexType])

    def __init__(self, source: SSAValue, target: SSAValue, at: SSAValue, pitch: int):
        properties = {"leadDimension": IntegerAttr(pitch, IndexType())}
        super().__init__(operands=[source, target, [at]], properties=properties)


@irdl_op_definition
class SubgroupMmaComputeOp(IRDLOperation):
    """a · b + c."""

    name = "gpu.subgroup_mma_compute"
    a = operand_def(MmaMatrixType)
    b = operand_def(MmaMatrixType)
    c = operand_def(MmaMatrixType)
    result = result_def(MmaMatrixType)

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue):
        super().__init__(operands=[a, b, c], result_types=[c.type])
