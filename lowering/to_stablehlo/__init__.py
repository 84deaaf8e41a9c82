"""RLX to StableHLO, which XLA compiles: one file a family of operations; ``-t rlx-stablehlo`` prints the module."""

from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_stablehlo.conversion import LowerToStablehlo

__all__ = ["LowerToStablehlo", "LoweringError"]
