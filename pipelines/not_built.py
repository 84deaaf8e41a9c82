"""What the selection table asks for and nobody has built: named pipelines leave these passes out."""

from __future__ import annotations

PASSES_NOT_BUILT_YET = frozenset(
    {
        "rlx-fuse-attention-backward-all",
    }
)
