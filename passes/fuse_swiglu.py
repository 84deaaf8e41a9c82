"""The gated product of two halves of one value becomes one operation.

Before, with the factors in any order::

    %0 = rlx.narrow %packed {axis = 2, start = 0, len = 8} : tensor<2x3x16xf32> -> tensor<2x3x8xf32>
    %1 = rlx.narrow %packed {axis = 2, start = 8, len = 8} : tensor<2x3x16xf32> -> tensor<2x3x8xf32>
    %2 = rlx.activation silu %1 : tensor<2x3x8xf32>
    %3 = rlx.binary mul %0, %2 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>

After::

    %3 = rlx.fused_swiglu %packed : tensor<2x3x16xf32> -> tensor<2x3x8xf32>

The two parts are exactly the halves of the last axis; where the gate is the first one, the fused operation is marked
``gate_first``. The packed value may come from anywhere. Numerics: ``wider``, because the gate of f16 or bf16 is not
rounded before the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import rank_of, shape_of
from rlx_dialect.ops.contraction import FusedSwiGLUOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.shape import NarrowOp
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, PatternFusionPass, Reason
from rlx_dialect.passes.matching.values import defining, not_absorbed, orders
from rlx_dialect.shapes import DYNAMIC, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class HalvesMatch(Match):
    product: BinaryOp
    up: NarrowOp
    gate: NarrowOp
    silu: ActivationOp


class FuseHalves(FusionPattern[BinaryOp, HalvesMatch]):
    """two narrows, silu of one → mul."""

    root = BinaryOp

    def check(self, op: BinaryOp, /) -> HalvesMatch | Miss | None:
        if op.kind.data is not BinaryKind.MUL:
            return None
        for up_value, silu_value in orders(op):
            silu = defining(silu_value, ActivationOp)
            if silu is None or silu.kind.data is not ActivationKind.SILU:
                continue
            up, gate = defining(up_value, NarrowOp), defining(silu.input, NarrowOp)
            if up is not None and gate is not None:
                return _not_halves(op, up, gate, silu) or HalvesMatch(op, up, gate, silu)
        return None

    def rewrite(self, match: HalvesMatch, rewriter: PatternRewriter, /) -> None:
        product, up, gate = match.product, match.up, match.gate
        gate_first = gate.start.value.data < up.start.value.data
        rewriter.insertion_point = InsertPoint.before(product)
        rewriter.replace(product, FusedSwiGLUOp(up.input, gate_first=gate_first, result_type=product.result.type))
        for op in (match.silu, gate, up):
            rewriter.erase(op)


def _not_halves(op: BinaryOp, up: NarrowOp, gate: NarrowOp, silu: ActivationOp) -> Miss | None:
    """Why the two parts are not the halves of one value, each used once; None if they are."""
    if up.input is not gate.input:
        detail = "the two factors are parts of two values"
        return Miss(Reason.OTHER_OPERAND, op, detail, "compute both as one value, by one product")
    last = rank_of(up.input) - 1
    if (axes := {up.axis_index, gate.axis_index}) != {last}:
        detail = f"the parts are taken along axis {min(axes)}, the last one is {last}"
        return Miss(Reason.AXIS, op, detail, "pack the two along the last axis")
    width = shape_of(up.input)[last]
    if width == DYNAMIC:
        detail = f"how wide {show(shape_of(up.input))} is, is only known at run time"
        return Miss(Reason.DYNAMIC_EXTENT, op, detail, "give the packed value a static last extent")
    parts = sorted((part.start.value.data, part.len.value.data) for part in (up, gate))
    if parts != [(0, width // 2), (width // 2, width // 2)] or width % 2:
        listed = " and ".join(f"{start}…{start + length}" for start, length in parts)
        return Miss(Reason.NOT_ADJACENT, op, f"{listed} are not the halves of {width}", "pack nothing but the two")
    return not_absorbed(up, op, op) or not_absorbed(gate, silu, op) or not_absorbed(silu, op, op)


@dataclass(frozen=True)
class FuseSwiglu(PatternFusionPass):
    name = "rlx-fuse-swiglu"
    produces: ClassVar = (FusedSwiGLUOp,)
    numerics: ClassVar = Numerics.WIDER

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseHalves()]
