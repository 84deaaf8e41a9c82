"""Which reductions IREE would compute wrongly, since all their terms are one number.

When a reduction is fused with what makes such terms, the number stands in its body. Vectorised code (IREE 3.13, as
the vectoriser of MLIR) then joins it once for all lanes of a vector: 100 ones have the sum 7. Sums of ones are how
decompositions count an extent that only run time tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Operation, SSAValue

_SAME = (arith.CmpiOp, arith.SubiOp, arith.XOrIOp)
"""Of two equal operands they are known without them."""
_ABSORBED = (arith.MuliOp, arith.AndIOp, arith.MinUIOp, arith.ShLIOp, arith.ShRUIOp, arith.ShRSIOp)
"""With a zero they are zero."""
_MOVED = (
    linalg.TransposeOp,
    linalg.BroadcastOp,
    tensor.CastOp,
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
    tensor.ExtractSliceOp,
    tensor.PadOp,
)
"""Their elements are those of the first operand."""

Known = Mapping[SSAValue, SSAValue]
"""What stands for an argument of a body: the tensor that it is an element of."""


def joins_one_number(op: Operation) -> bool:
    """Whether ``op`` is a reduction whose terms do not depend on any element of a tensor."""
    if isinstance(op, linalg.GenericOp):
        return IteratorTypeAttr.reduction() in op.iterator_types and _yields_constant(op)
    return isinstance(op, linalg.MatmulOp) and all(_is_constant(value, {}) for value in op.inputs)


def _yields_constant(op: linalg.GenericOp) -> bool:
    """What a reduction gathered so far counts as known."""
    block = op.body.block
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, op.inputs, strict=False))
    gathered: dict[SSAValue, SSAValue] = {argument: argument for argument in block.args[len(op.inputs) :]}
    assert block.last_op is not None
    return all(_is_constant(value, known | gathered) for value in block.last_op.operands)


def _is_constant(value: SSAValue, known: Known) -> bool:
    """Whether compilers see that all elements of ``value``, or ``value`` itself in a body, are one number."""
    if value in known:
        return known[value] is value or _is_constant(known[value], {})
    op = value.owner
    match op:
        case arith.ConstantOp():
            return not isinstance(op.value, DenseIntOrFPElementsAttr) or op.value.is_splat()
        case arith.SelectOp() if _are_equal(op.lhs, op.rhs):
            return _is_constant(op.lhs, known)
        case linalg.FillOp():
            return _is_constant(op.inputs[0], known)
        case linalg.GenericOp():
            return IteratorTypeAttr.reduction() not in op.iterator_types and _yields_constant(op)
        case Operation():
            if isinstance(op, _SAME) and op.operands[0] is op.operands[1]:
                return True
            if isinstance(op, _ABSORBED) and any(map(_is_zero, op.operands)):
                return True
            if isinstance(op, _MOVED):
                return _is_constant(op.operands[0], known)
            return op.dialect_name() in ("arith", "math") and all(_is_constant(v, known) for v in op.operands)
        case _:
            return False


def _are_equal(a: SSAValue, b: SSAValue) -> bool:
    return a is b or (_number(a) is not None and _number(a) == _number(b))


def _number(value: SSAValue) -> Attribute | None:
    return value.owner.value if isinstance(value.owner, arith.ConstantOp) else None


def _is_zero(value: SSAValue) -> bool:
    number = _number(value)
    return isinstance(number, IntegerAttr) and number.value.data == 0
