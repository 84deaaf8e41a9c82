"""Pass lists in short: ``LCF LDG CAN MBA …``."""

from __future__ import annotations

from collections.abc import Iterable

from rlx_dialect.pipelines.conditions import claim_names
from rlx_dialect.pipelines.selection import PassSpec
from rlx_dialect.pipelines.targets import Target

ABBREVIATIONS = {
    "rlx-lower-control-flow": "LCF",
    "rlx-lower-dot-general": "LDG",
    "rlx-canonicalize-ops": "CAN",
    "rlx-fuse-matmul-bias-act": "MBA",
    "rlx-fuse-conv-bias-act": "CBA",
    "rlx-fuse-conv-affine-act": "CAA",
    "rlx-fuse-attention-block": "FAB",
    "rlx-fuse-attention-backward-all": "ABA",
    "rlx-fuse-residual-ln": "RLN",
    "rlx-fuse-residual-rms-norm": "RRN",
    "rlx-fuse-ada-layer-norm": "ADA",
    "rlx-fuse-gated-residual": "GR",
    "rlx-fuse-rms-norm-reshape": "RNR",
    "rlx-fuse-transformer-layer": "FTL",
    "rlx-fuse-swiglu-dual-matmul": "SGD",
    "rlx-fuse-matmul-residual": "MMR",
    "rlx-fuse-shared-input-matmul": "SIM",
    "rlx-fuse-swiglu": "SG",
    "rlx-mark-elementwise-regions": "ME",
    "rlx-mark-batch-slice-regions": "MBS",
    "rlx-mark-transform-regions": "MT",
    "rlx-fuse-region-prologue": "RP",
    "rlx-fuse-batch-preprocess": "BP",
    "rlx-decompose-fusion-regions": "DEC",
    "rlx-unfuse-elementwise-regions": "U",
    "rlx-select-peaks-only-outputs": "SPO",
    "rlx-dce": "DCE",
}


def short(specs: Iterable[PassSpec]) -> str:
    """``LCF LDG …``; unfusing is ``UG`` in the form that keeps prologue regions, ``UC`` in the other."""
    words: list[str] = []
    for spec in specs:
        word = ABBREVIATIONS[spec.name]
        if word == "U":
            word = "UG" if dict(spec.options)["keep-prologue"] else "UC"
        words.append(word)
    return " ".join(words)


def claims(target: Target, *more: str) -> set[str]:
    return set(claim_names(target.claims)) | set(more)
