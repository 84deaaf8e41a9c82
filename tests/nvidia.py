"""Kernels of the cuda target as PTX, and whether NVIDIA's assembler takes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.toolchain import portable_text

_PASSES = (
    "nvvm-attach-target{chip=sm_90 features=+ptx80 O=3},"
    "gpu.module(convert-scf-to-cf,convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=true},reconcile-unrealized-casts),"
    "gpu-module-to-binary{format=isa}"
)


def ptx_of(lowered: ModuleOp) -> str:
    """The PTX of a lowered module."""
    text = toolchain.run("mlir-opt", [f"--pass-pipeline=builtin.module({_PASSES})"], portable_text(lowered)).decode()
    (assembly,) = re.findall(r'assembly = "((?:[^"\\]|\\.)*)"', text)
    return re.sub(r"\\([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), assembly).rstrip("\0")


def assert_assembles(lowered: ModuleOp) -> str:
    """The PTX of a lowered module, which ptxas takes where it is installed."""
    ptx = ptx_of(lowered)
    if (ptxas := shutil.which("ptxas")) is not None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "kernels.ptx"
            source.write_text(ptx)
            command = [ptxas, "-arch=sm_90", "-o", os.devnull, source]
            subprocess.run(command, check=True, capture_output=True, text=True)
    return ptx
