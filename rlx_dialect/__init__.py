"""RLX: machine-learning operations as an xDSL dialect.

``from rlx_dialect import RLX`` gives the dialect; ``ctx.load_dialect(RLX)`` is all that an
own xDSL flow needs. Passes, lowerings, pipelines, frontends and engines are sub-packages.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx_dialect.dialect import RLX

__all__ = ["RLX"]


def __getattr__(name: str) -> Any:
    """Import the operations when they are asked for: xDSL tools import this package at every start."""
    if name != "RLX":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from rlx_dialect.dialect import RLX

    return RLX
