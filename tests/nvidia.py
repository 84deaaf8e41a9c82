"""Kernels of the cuda target as PTX, and whether NVIDIA's assembler takes them."""

from __future__ import annotations

import shutil

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime.ptx import assemble, ptx


def assert_assembles(lowered: ModuleOp) -> str:
    """The PTX of a lowered module for the newest chip; ptxas takes that of every chip, where it is installed."""
    texts = ptx(lowered)
    for chip, text in texts.items():
        if shutil.which("ptxas") is not None:
            assert assemble(text, chip).code
    return list(texts.values())[-1]
