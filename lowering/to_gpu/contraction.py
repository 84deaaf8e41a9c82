"""Contractions: matrix products with broadcast batches, XLA's general dot, and what is fused into them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.dtypes import is_unsigned
from rlx_dialect.lowering.scalar import activation, binary, widen
from rlx_dialect.lowering.to_gpu.contract import Axes, Source, contract
from rlx_dialect.lowering.to_gpu.contraction_spec import PLAIN, Epilogue
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.extents import Shape
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Body
from rlx_dialect.lowering.to_gpu.views import View
from rlx_dialect.ops.contraction import (
    DotGeneralOp,
    FusedMatMulBiasActOp,
    FusedMatMulResidualOp,
    FusedSwiGLUOp,
    MatMulOp,
)
from rlx_dialect.xdsl_compat import Builder


def biased(kind: ActivationKind | None, adds: int, *, unsigned: bool = False) -> Epilogue:
    """The activation (None: none) of the sum with ``adds`` operands added to it."""

    def write(b: Builder, total: SSAValue, extras: Sequence[SSAValue]) -> SSAValue:
        for extra in extras:
            total = binary(BinaryKind.ADD, total, extra, b, unsigned=unsigned)
        return total if kind is None else activation(kind, total, b, unsigned=unsigned)

    return Epilogue(f"{adds} added, {kind}", write)


def matrices(lhs: View, rhs: View, shape: Shape) -> tuple[Axes, View, View]:
    """The axes and the factors of a product of [..., M, K] and [..., K, N] as ``shape``, [..., M, N]."""
    *batch, m, n = shape
    depth = lhs.shape[-1]
    right = rhs.broadcast((*batch, depth, n)).transpose([*range(len(batch)), len(batch) + 1, len(batch)])
    return Axes(tuple(batch), (m,), (n,), (depth,)), lhs.broadcast((*batch, m, depth)), right


def _products(
    h: Host, name: str, lhs: SSAValue, rhs: SSAValue, result: SSAValue, extra: SSAValue | None, e: Epilogue
) -> None:
    """A product of matrices with an epilogue that may take one more operand."""
    made = h.result(result)
    axes, left, right = matrices(h.view(lhs), h.view(rhs), made.shape)
    extras = [] if extra is None else [h.view(extra).broadcast(made.shape)]
    contract(h, name, axes, left, right, made, extras, e)


@lowers(MatMulOp)
def matmul(op: MatMulOp, h: Host) -> None:
    if _gated(op) is None:
        _products(h, "matmul", op.lhs, op.rhs, op.result, None, PLAIN)


@lowers(FusedMatMulResidualOp)
def matmul_residual(op: FusedMatMulResidualOp, h: Host) -> None:
    add = biased(None, 1, unsigned=is_unsigned(op.element(0)))
    _products(h, "matmul_residual", op.lhs, op.rhs, op.result, op.residual, add)


@lowers(FusedMatMulBiasActOp)
def matmul_bias_act(op: FusedMatMulBiasActOp, h: Host) -> None:
    if _gated(op) is not None:
        return
    kind = None if op.activation is None else op.activation.data
    name = "matmul_bias" if kind is None else f"matmul_bias_{kind}"
    _products(h, name, op.input, op.weight, op.result, op.bias, biased(kind, 1, unsigned=is_unsigned(op.element(0))))


@lowers(DotGeneralOp)
def dot_general(op: DotGeneralOp, h: Host) -> None:
    lhs, rhs, result = h.view(op.lhs), h.view(op.rhs), h.result(op.result)
    lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
    lhs_free = [a for a in range(len(lhs.shape)) if a not in {*lhs_contracting, *lhs_batch}]
    rhs_free = [a for a in range(len(rhs.shape)) if a not in {*rhs_contracting, *rhs_batch}]
    axes = Axes(
        batch=tuple(lhs.shape[a] for a in lhs_batch),
        rows=tuple(lhs.shape[a] for a in lhs_free),
        columns=tuple(rhs.shape[a] for a in rhs_free),
        depth=tuple(lhs.shape[a] for a in lhs_contracting),
    )
    lhs = lhs.transpose([*lhs_batch, *lhs_free, *lhs_contracting])
    rhs = rhs.transpose([*rhs_batch, *rhs_free, *rhs_contracting])
    contract(h, "dot_general", axes, lhs, rhs, result, [], PLAIN)


# SwiGLU: the product and the gate in one launch, with a sum for each half.


def _gated(op: MatMulOp | FusedMatMulBiasActOp) -> FusedSwiGLUOp | None:
    """The gate that alone uses a product, whose kernel then makes the product, too."""
    if isinstance(op, FusedMatMulBiasActOp) and op.activation is not None:
        return None
    users = [use.operation for use in op.result.uses]
    return users[0] if len(users) == 1 and isinstance(users[0], FusedSwiGLUOp) else None


def _swiglu(b: Builder, low: SSAValue, high: SSAValue, *, gate_first: bool) -> SSAValue:
    up, gate = (high, low) if gate_first else (low, high)
    return binary(BinaryKind.MUL, up, activation(ActivationKind.SILU, gate, b), b)


@lowers(FusedSwiGLUOp)
def fused_swiglu(op: FusedSwiGLUOp, h: Host) -> None:
    first = op.gate_first is not None
    result = h.result(op.result)
    product_ = op.packed.owner
    if isinstance(product_, MatMulOp | FusedMatMulBiasActOp) and _gated(product_) is op:
        _gated_product(product_, h, result, gate_first=first)
        return
    axis, width = len(result.shape) - 1, result.shape[-1]
    packed = h.view(op.packed)
    halves = [packed.slice(axis, start, width) for start in (0, width)]

    def write(b: Builder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        low, high = (widen(v, b) for v in values)
        return [_swiglu(b, low, high, gate_first=first)]

    h.launch_map("swiglu", halves, [result], Body(f"swiglu {first} {result.element}", write))


def _gated_product(op: MatMulOp | FusedMatMulBiasActOp, h: Host, result: View, *, gate_first: bool) -> None:
    width = result.shape[-1]
    weight = h.view(op.operands[1])
    halves = [weight.slice(len(weight.shape) - 1, start, width) for start in (0, width)]
    axes, left, low = matrices(h.view(op.operands[0]), halves[0], result.shape)
    _, _, high = matrices(h.view(op.operands[0]), halves[1], result.shape)
    extras: list[View] = []
    if isinstance(op, FusedMatMulBiasActOp):
        bias = h.view(op.bias)
        extras = [bias.slice(0, start, width).broadcast(result.shape) for start in (0, width)]

    def write(b: Builder, total: SSAValue, others: Sequence[SSAValue]) -> SSAValue:
        sums = [total, others[0]]
        if len(others) > 1:
            sums = [binary(BinaryKind.ADD, x, y, b) for x, y in zip(sums, others[1:], strict=True)]
        return _swiglu(b, *sums, gate_first=gate_first)

    epilogue = Epilogue(f"swiglu {gate_first} {bool(extras)}", write)
    contract(h, "matmul_swiglu", axes, left, [Source(low), Source(high)], result, extras, epilogue)
