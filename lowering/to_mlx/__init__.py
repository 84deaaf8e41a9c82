"""RLX to Python for Apple's MLX: one file a family of operations; ``-t mlx-python`` prints the module."""

from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_mlx.conversion import LowerToMlx, python_module

__all__ = ["LowerToMlx", "LoweringError", "python_module"]
