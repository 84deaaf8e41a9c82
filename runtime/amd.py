"""GPU kernels as code objects for AMD's chips: mlir-opt to LLVM's language, then LLVM's own tools.

The input is a lowered module (``rlx-lower-to-gpu{target=rocm}``). PyPI's mlir-opt has no code generator for AMD, so
that part is done by LLVM 19 or newer, as Debian and Ubuntu package it. A kernel's parameters are the addresses of its
buffers, in order. Nothing of ROCm is needed: a call of its device library is an error when the object is linked.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.lowering.double import WITHOUT_LIBRARY
from rlx_dialect.lowering.expansion import expand
from rlx_dialect.lowering.to_gpu.fragments import Unit, expanded
from rlx_dialect.lowering.to_gpu.units import MFMA, WMMA
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.kernels import Resources, UnsupportedKernel, device_text, index_width


@dataclass(frozen=True)
class Chip:
    """What is particular to a chip."""

    features: str
    """What LLVM is to switch on: waves of 64, so that one schedule fits all."""
    unit: Unit[Any]


_CHIPS: Mapping[str, Chip] = {"gfx942": Chip("", MFMA), "gfx1100": Chip("+wavefrontsize64", WMMA)}

CHIPS = tuple(_CHIPS)
"""MI300 and RX 7900."""

_TRIPLE = "amdgcn-amd-amdhsa"
_DEVICE_MODULE = re.compile(r"^  gpu\.module [^\n]*\{$\n(.*?)^  \}$", re.DOTALL | re.MULTILINE)
_INTRINSIC = re.compile(r"^(declare .*@llvm\..*\)) #\d+$", re.MULTILINE)
_USED_GROUP = re.compile(r"^(?:define|  ).*?(#\d+)", re.MULTILINE)
_GROUP = re.compile(r"^attributes (#\d+) = .*\n", re.MULTILINE)
_INSTRUCTION = re.compile(r"@__ocml_(ceil|floor|rint|trunc)_(f\d+)\(")
"""Functions of AMD's library that are instructions of all chips."""
_DEFINITION = re.compile(r"^define [^\n]*@(\w+)\((.*?)^\}", re.DOTALL | re.MULTILINE)
_LIBRARY_CALL = re.compile(r"call [^\n]*@(__oc\w+)\(")
_ADDRESS = re.compile(r"[ \t]*// [0-9A-F]+: .*$", re.MULTILINE)


@dataclass(frozen=True)
class CodeObject:
    """What HIP loads: an ELF file with all kernels of a module for one chip."""

    chip: str
    code: bytes

    def disassembly(self) -> str:
        """The instructions of every kernel. Raises ToolMissing, ToolFailed."""
        # The same code means other registers in waves of another size, which the file does not say.
        shown = ["--disassemble", f"--mattr={_CHIPS[self.chip].features}", "--no-show-raw-insn", "--no-leading-addr"]
        listing = _inspect("llvm-objdump-19", shown, self.code)
        return _ADDRESS.sub("", listing)

    def resources(self) -> list[Resources]:
        """What each kernel takes, by name. Raises ToolMissing, ToolFailed."""
        notes = _inspect("llvm-readelf-19", ["--notes"], self.code)
        # Each kernel is one entry of a YAML list; its keys come in alphabetical order, .args first.
        entries = re.split(r"^  - \.\w+:", notes, flags=re.MULTILINE)[1:]
        return sorted((_of_notes(entry, self.chip) for entry in entries), key=lambda r: r.kernel)


def code_object(module: ModuleOp, chip: str) -> CodeObject:
    """All kernels of a lowered module for a chip of :data:`CHIPS`. Raises ToolError, ToolMissing, ToolFailed."""
    device = [f"-mtriple={_TRIPLE}", f"-mcpu={chip}", f"-mattr={_CHIPS[chip].features}"]
    optimised = toolchain.run("opt-19", ["-O3", *device, "-", "-o", "-"], llvm_text(module, chip))
    relocatable = toolchain.run("llc-19", ["-O3", *device, "-filetype=obj", "-", "-o", "-"], optimised)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.o", Path(folder) / "kernels.hsaco"
        source.write_bytes(relocatable)
        # Without -z defs a missing function would be found when HIP loads the object, far from here.
        toolchain.run("ld.lld-19", ["-shared", "-z", "defs", str(source), "-o", str(target)])
        return CodeObject(chip, target.read_bytes())


def llvm_text(module: ModuleOp, chip: str) -> str:
    """All kernels of a lowered module in LLVM's language. Raises ToolError, ToolMissing, ToolFailed."""
    module = expanded(module.clone(), _CHIPS[chip].unit)
    expand(module, WITHOUT_LIBRARY)
    conversion = (
        f"convert-gpu-to-rocdl{{use-bare-ptr-memref-call-conv=1 index-bitwidth={index_width(module)} chipset={chip}}}"
    )
    device = f"gpu.module(lower-affine,convert-scf-to-cf,{conversion},canonicalize,cse,reconcile-unrealized-casts)"
    converted = toolchain.run("mlir-opt", [f"--pass-pipeline=builtin.module({device})"], device_text(module)).decode()
    bodies = "".join(match[1] for match in _DEVICE_MODULE.finditer(converted))
    text = toolchain.run("mlir-translate", ["--mlir-to-llvmir"], f"module {{\n{bodies}}}").decode()
    text = _INSTRUCTION.sub(r"@llvm.\1.\2(", text)
    _refuse_library_calls(text)
    return _older(text)


def _refuse_library_calls(text: str) -> None:
    """Raise UnsupportedKernel that lists the kernels that call AMD's device library, which is not linked."""
    problems: list[str] = []
    for function in _DEFINITION.finditer(text):
        calls = sorted(set(_LIBRARY_CALL.findall(function[2])))
        problems += [f"kernel '{function[1]}': {call} of AMD's device library has no other form here" for call in calls]
    if problems:
        raise UnsupportedKernel("\n".join(problems))


def _older(text: str) -> str:
    """LLVM text without the attributes of intrinsics: newer ones are unknown to an older LLVM, which has its own."""
    text = _INTRINSIC.sub(r"\1", text)
    used = set(_USED_GROUP.findall(text))
    return _GROUP.sub(lambda m: m[0] if m[1] in used else "", text)


def _inspect(tool: str, arguments: list[str], code: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.hsaco"
        path.write_bytes(code)
        return toolchain.run(tool, [*arguments, str(path)]).decode().replace(str(path), path.name)


def _of_notes(entry: str, chip: str) -> Resources:
    def value(key: str) -> str:
        match = re.search(rf"\.{key}: +(\S+)", entry)
        assert match is not None, f"no .{key} in the notes of a code object"
        return match[1]

    stack = int(value("private_segment_fixed_size"))
    return Resources(
        value("symbol").removesuffix(".kd"),
        chip,
        registers=int(value("vgpr_count")),
        spilled=4 * int(value("vgpr_spill_count")),
        stack=stack,
        shared=int(value("group_segment_fixed_size")),
    )
