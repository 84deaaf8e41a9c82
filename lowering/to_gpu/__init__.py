"""RLX to GPU kernels: one file a schedule, driven by ``rlx-lower-to-gpu``."""

from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_gpu.conversion import LowerToGpu

__all__ = ["LowerToGpu", "LoweringError"]
