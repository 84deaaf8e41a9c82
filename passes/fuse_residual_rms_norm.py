"""A residual sum and the RMS norm of it become one operation.

Before::

    %0 = rlx.binary add %x, %residual : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
    %1 = rlx.rms_norm %0, %gamma, %beta {eps = 1.0e-6} : …

After, where the sum is used again, as in every block of a pre-norm decoder::

    %1, %0 = rlx.fused_residual_rms_norm %x, %residual, %gamma, %beta {eps = 1.0e-6} : … -> (…, tensor<2x3x8xf32>)

The pattern, and all there is to say about it, is that of :mod:`rlx_dialect.passes.fuse_residual_ln`. A norm whose
result is flattened is left alone. Numerics: ``wider``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlx_dialect.ops.normalization import FusedResidualRmsNormOp
from rlx_dialect.passes.fuse_residual_ln import FuseResidualNorm
from rlx_dialect.passes.matching.fusion import FusionPattern, Numerics, PatternFusionPass


@dataclass(frozen=True)
class FuseResidualRmsNorm(PatternFusionPass):
    name = "rlx-fuse-residual-rms-norm"
    produces: ClassVar = (FusedResidualRmsNormOp,)
    numerics: ClassVar = Numerics.WIDER

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseResidualNorm(FusedResidualRmsNormOp)]
