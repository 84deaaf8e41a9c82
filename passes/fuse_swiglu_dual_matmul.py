"""The gated product of two matrix products of one input becomes one matrix product and the gate.

Before, with the factors in any order::

    %0 = rlx.matmul %x, %up : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    %1 = rlx.matmul %x, %gate : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    %2 = rlx.activation silu %1 : tensor<2x8xf32>
    %3 = rlx.binary mul %0, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>

After::

    %0 = rlx.concat %up, %gate {axis = 1} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %1 = rlx.matmul %x, %0 : (tensor<2x4xf32>, tensor<4x16xf32>) -> tensor<2x16xf32>
    %3 = rlx.fused_swiglu %1 : tensor<2x16xf32> -> tensor<2x8xf32>

Both products may have a bias; the gate's may have taken in the silu. The weights and biases are known at load time,
so that the concatenation is made once. Numerics: ``wider``, because the gate of f16 or bf16 is not rounded before the
product; each column of the one matrix product is the sum that it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import shape_of
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp, FusedSwiGLUOp, MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.packing import Product, not_packable, packed
from rlx_dialect.passes.matching.values import defining, not_absorbed, orders
from rlx_dialect.shapes import show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class DualMatch(Match):
    op: BinaryOp
    up: Product
    gate: Product
    silu: ActivationOp | None
    """None where the gate's product has taken it in."""


class FuseDualProduct(FusionPattern[BinaryOp, DualMatch]):
    """two products, silu of one → mul."""

    root = BinaryOp

    def __init__(self) -> None:
        self.load_time: dict[SSAValue, bool] = {}

    def check(self, op: BinaryOp, /) -> DualMatch | Miss | None:
        if op.kind.data is not BinaryKind.MUL:
            return None
        declined: Miss | None = None
        for up_value, gate_value in orders(op):
            up, (gate, silu) = _plain_product(up_value), _gate(gate_value)
            if up is None or gate is None:
                continue
            match = DualMatch(op, up, gate, silu)
            miss = self._declined(match)
            if miss is None:
                return match
            declined = declined or miss
        return declined

    def _declined(self, match: DualMatch) -> Miss | None:
        op, up, gate, silu = match.op, match.up, match.gate, match.silu
        if up.input is not gate.input:
            detail = "the two products are of different inputs"
            return Miss(Reason.OTHER_OPERAND, op, detail, "nothing to do unless one input was meant")
        if (up.bias is None) != (gate.bias is None):
            detail = "one of the two products has a bias"
            return Miss(Reason.ATTRIBUTES_DIFFER, op, detail, "give the other one a bias of zeros")
        for product in (up, gate):
            if (miss := not_packable(product, op, self.load_time)) is not None:
                return miss
        if (shapes := [shape_of(p.weight) for p in (up, gate)])[0] != shapes[1]:
            detail = f"the weights have the shapes {show(shapes[0])} and {show(shapes[1])}"
            return Miss(Reason.SHAPES_DIFFER, op, detail, "give both weights one shape")
        if silu is None:
            return not_absorbed(up.op, op, op) or not_absorbed(gate.op, op, op)
        return not_absorbed(up.op, op, op) or not_absorbed(gate.op, silu, op) or not_absorbed(silu, op, op)

    def rewrite(self, match: DualMatch, rewriter: PatternRewriter, /) -> None:
        op = match.op
        rewriter.insertion_point = InsertPoint.before(op)
        both = packed([match.up, match.gate], rewriter)
        rewriter.replace(op, FusedSwiGLUOp(both, result_type=op.result.type))
        for matched in (match.silu, match.gate.op, match.up.op):
            if matched is not None:
                rewriter.erase(matched)


def _plain_product(value: SSAValue) -> Product | None:
    op = defining(value, (MatMulOp, FusedMatMulBiasActOp))
    if op is None or (isinstance(op, FusedMatMulBiasActOp) and op.activation is not None):
        return None
    return Product.of(op)


def _gate(value: SSAValue) -> tuple[Product | None, ActivationOp | None]:
    """The product whose silu ``value`` is, and the silu where it is an operation of its own."""
    activation = defining(value, ActivationOp)
    if activation is not None:
        silu = activation.kind.data is ActivationKind.SILU
        return (_plain_product(activation.input), activation) if silu else (None, None)
    fused = defining(value, FusedMatMulBiasActOp)
    if fused is None or fused.activation is None or fused.activation.data is not ActivationKind.SILU:
        return None, None
    return Product.of(fused), None


@dataclass(frozen=True)
class FuseSwigluDualMatmul(PatternFusionPass):
    name = "rlx-fuse-swiglu-dual-matmul"
    produces: ClassVar = (FusedSwiGLUOp,)
    numerics: ClassVar = Numerics.WIDER

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseDualProduct()]
