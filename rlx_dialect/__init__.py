"""RLX: machine-learning operations as an xDSL dialect.

``from rlx_dialect import RLX`` gives the dialect; ``ctx.load_dialect(RLX)`` is all that an
own xDSL flow needs. Passes, lowerings, pipelines, frontends and engines are sub-packages.
"""

from rlx_dialect.dialect import RLX

__all__ = ["RLX"]
