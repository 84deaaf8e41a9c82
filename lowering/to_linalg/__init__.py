"""RLX to linalg on tensors: one file a family of operations, driven by ``rlx-lower-to-linalg``."""

from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_linalg.conversion import LowerToLinalg
from rlx_dialect.lowering.to_linalg.tensors import BARRIER, SCATTER

__all__ = ["BARRIER", "SCATTER", "LowerToLinalg", "LoweringError"]
