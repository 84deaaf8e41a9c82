"""GPU kernels as PTX, NVIDIA's assembly language, by mlir-opt; and what ptxas says of them.

The input is a lowered module (``rlx-lower-to-gpu{target=cuda}``). A kernel's parameters are the addresses of its
buffers, in order. CUDA drivers take the text as it is; ptxas makes machine code of it ahead of time.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.kernels import Resources, device_text, index_width

CHIPS = ("sm_80", "sm_90")
"""The chips whose code is checked: A100 and H100. Drivers take code of an older chip on a newer one."""

_PTX_VERSION = "ptx80"
"""What CUDA 12.0 and later read."""

_OBJECT = re.compile(r'#gpu\.object<#nvvm\.target<[^>]*?chip = "(\w+)".*?assembly = "((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)

_ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>[^']+)' for '(?P<chip>\w+)'\n(?:.*\n)*?"
    r"\s+(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, \d+ bytes spill loads\n"
    r".*?Used (?P<registers>\d+) registers(?P<rest>.*)"
)
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Cubin:
    """Machine code of one chip for all kernels of a module."""

    chip: str
    code: bytes
    resources: tuple[Resources, ...]


def ptx(module: ModuleOp, chips: Sequence[str] = CHIPS) -> dict[str, str]:
    """The PTX of all kernels of a lowered module, by chip. Raises ToolError, ToolMissing, ToolFailed."""
    attached = ",".join(f"nvvm-attach-target{{chip={chip} features=+{_PTX_VERSION} O=3}}" for chip in chips)
    conversion = f"convert-gpu-to-nvvm{{use-bare-ptr-memref-call-conv=1 index-bitwidth={index_width(module)}}}"
    device = f"gpu.module(lower-affine,convert-scf-to-cf,{conversion},canonicalize,cse,reconcile-unrealized-casts)"
    pipeline = f"--pass-pipeline=builtin.module({attached},{device},gpu-module-to-binary{{format=isa}})"
    text = toolchain.run("mlir-opt", [pipeline], device_text(module)).decode()
    found = {match[1]: _unescaped(match[2]) for match in _OBJECT.finditer(text)}
    assert list(found) == list(chips), f"mlir-opt wrote code for {list(found)}"
    return found


def _unescaped(text: str) -> str:
    """MLIR's string literal as the text that it stands for."""
    return _ESCAPE.sub(lambda m: m[1] if len(m[1]) == 1 else chr(int(m[1], 16)), text)


def assemble(text: str, chip: str) -> Cubin:
    """Machine code of PTX, and what each kernel takes. Raises ToolMissing, ToolFailed."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.ptx", Path(folder) / "kernels.cubin"
        source.write_text(text)
        said = toolchain.run("ptxas", [f"-arch={chip}", "-v", str(source), "-o", str(target)], stderr=True).decode()
        return Cubin(chip, target.read_bytes(), tuple(_resources(said)))


def _resources(said: str) -> list[Resources]:
    """The report of ``ptxas -v``, in the order of kernel names."""
    found: list[Resources] = []
    for match in _ENTRY.finditer(said):
        shared = _SHARED.search(match["rest"])
        found.append(
            Resources(
                match["kernel"],
                match["chip"],
                registers=int(match["registers"]),
                spilled=int(match["stores"]),
                stack=int(match["stack"]),
                shared=int(shared[1]) if shared else 0,
            )
        )
    return sorted(found, key=lambda r: r.kernel)


def reports(texts: Mapping[str, str]) -> list[Resources]:
    """What the kernels take on each chip of :func:`ptx`'s result. Raises ToolMissing, ToolFailed."""
    return [r for chip, text in texts.items() for r in assemble(text, chip).resources]
