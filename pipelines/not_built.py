"""What the selection table asks for and nobody has built: named pipelines leave these passes out."""

from __future__ import annotations

PASSES_NOT_BUILT_YET = frozenset(
    {
        "rlx-lower-control-flow",
        "rlx-lower-dot-general",
        "rlx-fuse-attention-backward-all",
        "rlx-mark-batch-slice-regions",
        "rlx-mark-transform-regions",
        "rlx-fuse-region-prologue",
        "rlx-fuse-batch-preprocess",
        "rlx-decompose-fusion-regions",
        "rlx-select-peaks-only-outputs",
    }
)
