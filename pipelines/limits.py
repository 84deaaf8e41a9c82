"""How large an element-wise region may grow before a target's region kernel can no longer take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx_dialect.pipelines.options import FusionOptions
    from rlx_dialect.pipelines.targets import Target


@dataclass(frozen=True)
class FusionLimits:
    """At most ``max_steps`` operations and ``max_inputs`` distinct operands in one region."""

    max_steps: int
    max_inputs: int

    def __post_init__(self) -> None:
        if self.max_steps < 1 or self.max_inputs < 1:
            raise ValueError(f"limits must be at least 1, got {self}")

    def clamped(self, other: FusionLimits) -> FusionLimits:
        return FusionLimits(min(self.max_steps, other.max_steps), min(self.max_inputs, other.max_inputs))

    def __str__(self) -> str:
        return "unbounded" if self == UNBOUNDED else f"{self.max_steps} steps, {self.max_inputs} inputs"


GPU_NATIVE = FusionLimits(32, 16)
"""What a region kernel holds: 32 steps, 16 inputs."""
UNBOUNDED = FusionLimits(2**32 - 1, 2**32 - 1)


def resolve_fusion_limits(target: Target, options: FusionOptions) -> FusionLimits:
    """The limits that count: the options' where they state any, else the target's.

    Where regions are not taken apart again afterwards, a kernel has to hold them, so GPU_NATIVE bounds both.
    """
    limits = options.fusion_limits or target.limits
    return limits if options.unfuse_elementwise_regions else limits.clamped(GPU_NATIVE)
