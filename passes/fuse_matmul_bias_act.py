"""A matrix product, the bias added to it and the activation of the sum become one operation.

Before::

    %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = rlx.binary add %0, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %2 = rlx.activation gelu %1 : tensor<4x16xf32>

After::

    %2 = rlx.fused_matmul_bias_act gelu %x, %w, %bias : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> …

There are two patterns, so that each stops where it has to: the product and the bias; then their result and the
activation. Which activations are taken in is data (``epilogues``), for it depends on the target's kernel.

The bias is a vector along the last axis, [N], or written as [1, N], [1, 1, N], …, or such a vector behind an
``rlx.expand`` or ``rlx.reshape``. Numerics: ``wider``, because the sum and the activation of f16 or bf16 are no
longer rounded in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import shape_of
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp, MatMulOp
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.shape import ExpandOp, ReshapeOp
from rlx_dialect.passes.matching.epilogue import FuseEpilogue
from rlx_dialect.passes.matching.extents import Known
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import (
    defining,
    erase_dead_sources,
    is_used,
    not_onto,
    one_use,
    other_operand,
)
from rlx_dialect.shapes import DYNAMIC, Shape, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class BiasMatch(Match):
    product: MatMulOp
    add: BinaryOp
    bias: SSAValue
    """The vector, of shape [N] or [1, …, 1, N]."""


class FuseBias(FusionPattern[MatMulOp, BiasMatch]):
    """matmul → add of a vector."""

    root = MatMulOp

    def __init__(self) -> None:
        self.extents: Known = {}

    def check(self, op: MatMulOp, /) -> BiasMatch | Miss | None:
        if not is_used(op.result):
            return None
        add = one_use(op.result, op)
        if isinstance(add, Miss):
            return add
        if not isinstance(add, BinaryOp) or add.kind.data is not BinaryKind.ADD:
            detail = f"the product goes to {add.name}, not to the add of a bias"
            return Miss(Reason.OTHER_CONSUMER, op, detail, "nothing to do unless a bias was meant")
        bias, product = other_operand(add, op.result), shape_of(op.result)
        if DYNAMIC in (product[-1], *shape_of(bias)[-1:]):
            detail = f"the last extent of the product {show(product)} or of the added {show(shape_of(bias))} is unknown"
            return Miss(Reason.DYNAMIC_EXTENT, op, detail, "give the weight and the bias a static last extent")
        if (miss := not_onto(bias, op.result, op, self.extents)) is not None:
            return miss
        vector = _before_broadcast(bias)
        if not _is_row(shape_of(vector), product[-1]):
            detail = f"the added {show(shape_of(bias))} is no vector along the last axis of {show(product)}"
            return Miss(Reason.BIAS_SHAPE, op, detail, f"a bias has the shape {show(product[-1:])}")
        return BiasMatch(op, add, vector)

    def rewrite(self, match: BiasMatch, rewriter: PatternRewriter, /) -> None:
        product, add, bias = match.product, match.add, match.bias
        sources = list(add.operands)
        rewriter.insertion_point = InsertPoint.before(add)
        if len(shape_of(bias)) > 1:
            bias = rewriter.insert(ReshapeOp(bias, [shape_of(bias)[-1]])).result
        fused = FusedMatMulBiasActOp(product.lhs, product.rhs, bias, result_type=add.result.type)
        rewriter.replace(add, fused)
        erase_dead_sources(sources, rewriter)


def _is_row(shape: Shape, width: int) -> bool:
    """[width] or [1, …, 1, width]."""
    return shape[-1:] == (width,) and all(extent == 1 for extent in shape[:-1])


def _before_broadcast(value: SSAValue) -> SSAValue:
    """The row that ``value`` repeats or reshapes, where it does; else ``value``."""
    while len(shape := shape_of(value)) > 1 and (op := defining(value, (ExpandOp, ReshapeOp))):
        if not _is_row(shape_of(op.input), shape[-1]):
            break
        value = op.input
    return value


@dataclass(frozen=True)
class FuseMatMulBiasAct(PatternFusionPass):
    """``epilogues``: the kinds of activation that are taken in."""

    name = "rlx-fuse-matmul-bias-act"
    produces: ClassVar = (FusedMatMulBiasActOp,)
    numerics: ClassVar = Numerics.WIDER

    epilogues: tuple[str, ...] = (ActivationKind.GELU.value, ActivationKind.SILU.value)

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseBias(), FuseEpilogue(FusedMatMulBiasActOp, self.epilogues, "the product and its bias")]
