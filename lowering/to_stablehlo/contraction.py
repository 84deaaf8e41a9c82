"""Matrix products and what is fused into them: f16 and bf16 are multiplied exactly and summed in f32."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, lowers
from rlx_dialect.lowering.to_stablehlo.elementwise import activation, binary
from rlx_dialect.lowering.to_stablehlo.tensors import Tensors
from rlx_dialect.ops.contraction import (
    DotGeneralOp,
    FusedMatMulBiasActOp,
    FusedMatMulResidualOp,
    MatMulOp,
)


def matmul(c: Tensors, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """[..., M, K] · [..., K, N] -> [..., M, N] with broadcast batches; the element type is the wide one."""
    *left, rows, inner = c.extents(lhs)
    right = c.extents(rhs)[:-2]
    m = len(left)
    if len(right) <= m and all(e == 1 for e in right):
        flat = rhs if not right else c.reshape(rhs, c.extents(rhs)[-2:])
        return c.dot(lhs, flat, ([m + 1], [0]))
    batch = c.common([left, right])
    lhs = c.broadcast_to(lhs, [*batch, rows, inner])
    rhs = c.broadcast_to(rhs, [*batch, *c.extents(rhs)[-2:]])
    axes = range(len(batch))
    return c.dot(lhs, rhs, ([len(batch) + 1], [len(batch)]), (axes, axes))


@lowers(MatMulOp)
def lower_matmul(op: MatMulOp, c: Conversion) -> SSAValue:
    return c.convert(matmul(c, op.lhs, op.rhs), op.element(0))


@lowers(DotGeneralOp)
def dot_general(op: DotGeneralOp, c: Conversion) -> SSAValue:
    lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
    value = c.dot(op.lhs, op.rhs, (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))
    return c.convert(value, op.element(0))


def finished(c: Tensors, value: SSAValue, kind: ActivationKind | None, element: Attribute) -> SSAValue:
    """activation(value), rounded once to ``element``."""
    return c.convert(value if kind is None else activation(c, kind, value), element)


def _plus(c: Tensors, product: SSAValue, added: SSAValue) -> SSAValue:
    return binary(c, BinaryKind.ADD, product, c.broadcast_to(c.widened(added), c.extents(product)))


@lowers(FusedMatMulBiasActOp)
def fused_matmul_bias_act(op: FusedMatMulBiasActOp, c: Conversion) -> SSAValue:
    kind = None if op.activation is None else op.activation.data
    return finished(c, _plus(c, matmul(c, op.input, op.weight), op.bias), kind, op.element(0))


@lowers(FusedMatMulResidualOp)
def fused_matmul_residual(op: FusedMatMulResidualOp, c: Conversion) -> SSAValue:
    return finished(c, _plus(c, matmul(c, op.lhs, op.rhs), op.residual), None, op.element(0))
