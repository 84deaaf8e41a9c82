"""Lowered modules for the tests of GPU compilers, and what the compilers of each target must make of all kernels.

Many graphs are one module, as starting a compiler takes longer than what it does.
"""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from op_cases import OpCase
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from rlx_dialect.graph import main_function
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_gpu import LowerToGpu
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.lowering.to_gpu.simdgroup import SIMDGROUP
from rlx_dialect.pipelines.named import FUSE_SUFFIX, run_named
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.runtime import amd, ptx, toolchain
from rlx_dialect.runtime.kernels import kernels
from rlx_dialect.runtime.spirv import serialize
from rlx_dialect.xdsl_compat import rlx_context

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.mlir"))


def _lowered(functions: Iterable[FuncOp], target: str) -> ModuleOp:
    """One module of clones of ``functions`` under names of their own, lowered."""
    module = ModuleOp([])
    for index, function in enumerate(functions):
        clone = function.clone()
        clone.properties["sym_name"] = StringAttr(f"main{index}")
        module.body.block.add_op(clone)
    LowerToGpu(target).apply(rlx_context(), module)
    return module


@cache
def _example(path: Path, target: str) -> FuncOp:
    module = read_module(path, rlx_context())
    run_named(module, f"{target}{FUSE_SUFFIX}")
    return main_function(module)


@cache
def lowered_examples(target: str) -> ModuleOp:
    """All examples, fused for the target and lowered."""
    return _lowered((_example(path, target) for path in EXAMPLES), target)


NOT_LOWERED: Mapping[str, tuple[str, str]] = {
    "conv-convolution-dynamic_conv-0": ("it is not understood what the extent", "a convolution of unknown channels"),
    **dict.fromkeys(
        ("det-linear_algebra-determinants-1", "qr-linear_algebra-factors-3", "svd-linear_algebra-factors-2"),
        ("a matrix of unknown extents: they are the number of steps", "a matrix of unknown extents"),
    ),
}
"""Cases that no GPU target takes: what the error says, and the reason in few words."""


def is_refused(case: OpCase, target: str) -> bool:
    """Whether the target is known to take no kernels of a case; :func:`refusal` makes sure."""
    return case.id in NOT_LOWERED or any(HARDWARE[target].storage(e) is None for e in _elements(case))


def _elements(case: OpCase) -> set[Attribute]:
    function = main_function(case.module()).function_type
    return {t.element_type for t in (*function.inputs, *function.outputs) if isinstance(t, TensorType)}


def refusal(case: OpCase, target: str) -> str:
    """Why the target does not lower a case, in few words that are the same for the same reason."""
    with pytest.raises(LoweringError) as error:
        LowerToGpu(target).apply(rlx_context(), case.module())
    if (reason := no_buffers(error.value)) is not None:
        return reason
    message, reason = NOT_LOWERED[case.id]
    assert message in str(error.value), case.id
    return reason


def no_buffers(error: LoweringError) -> str | None:
    """The reason in few words where a target has no buffers of some elements."""
    elements = {problem.rpartition(" of ")[2] for problem in error.problems if "has no buffers of" in problem}
    return f"no buffers of {', '.join(sorted(elements))}" if elements else None


def lowered_cases(cases: Iterable[OpCase], target: str) -> ModuleOp:
    """Cases side by side in one lowered module."""
    return _lowered((main_function(case.module()) for case in cases), target)


def names(module: ModuleOp) -> set[str]:
    """The kernels of a lowered module."""
    return {f.sym_name.data for f in kernels(module)}


SIGNATURE = re.compile(r"^kernel void (\w+)\((.*)\)$", re.MULTILINE)
"""Of a kernel in Metal's language: its name and its arguments."""
BUFFER = re.compile(r"_arg_(\d+) \[\[buffer\((\d+)\)\]\]")
"""Among those: the number of a buffer's argument, and the index that Metal wants it at."""


def check_metal(lowered: ModuleOp) -> None:
    """Every kernel has Metal text made from SPIR-V that spirv-val takes, with each buffer at its argument's index."""
    toolchain.find("spirv-val")  # validation is left out where it is not installed
    compiled = serialize(lowered, SIMDGROUP)
    assert {k.name for k in compiled} == names(lowered)
    arity = {f.sym_name.data: len(f.body.block.args) for f in kernels(lowered)}
    for k in compiled:
        signature = SIGNATURE.search(k.msl())
        assert signature is not None, k.name
        # SPIRV-Cross puts a dash before what is a word of the language.
        assert signature[1].strip("_") == k.name
        found = BUFFER.findall(signature[2])
        assert all(argument == index for argument, index in found)
        assert len(found) <= arity[k.name]


def check_cuda(lowered: ModuleOp) -> None:
    """ptxas takes every kernel for every chip; none spills."""
    found = ptx.reports(ptx.ptx(lowered))
    assert {(r.kernel, r.chip) for r in found} == {(name, chip) for name in names(lowered) for chip in ptx.CHIPS}
    assert [r for r in found if r.spilled or not r.registers] == []


def check_rocm(lowered: ModuleOp) -> None:
    """For every chip there is an ELF of all kernels that wants nothing from outside; none spills."""
    for chip in amd.CHIPS:
        compiled = amd.code_object(lowered, chip)
        assert machine(compiled.code) == (MACHINE, FLAGS[chip])
        assert undefined(compiled.code) == []
        found = compiled.resources()
        assert {r.kernel for r in found} == names(lowered)
        assert [r for r in found if r.spilled] == []


MACHINE = 0xE0
"""EM_AMDGPU."""
FLAGS = {"gfx942": 0x4C, "gfx1100": 0x41}
"""EF_AMDGPU_MACH_AMDGCN_…: the lowest byte of the ELF flags."""


def machine(code: bytes) -> tuple[int, int]:
    """The ELF header's machine and the chip in its flags."""
    assert code[:5] == b"\x7fELF\x02"
    return struct.unpack_from("<H", code, 18)[0], struct.unpack_from("<I", code, 48)[0] & 0xFF


def undefined(code: bytes) -> list[str]:
    """Names that a code object wants from outside."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.hsaco"
        path.write_bytes(code)
        table = toolchain.run("llvm-readelf-19", ["--dyn-syms", str(path)]).decode()
    assert "Symbol table '.dynsym'" in table
    rows = [line.split() for line in table.splitlines() if " UND" in line]
    return [row[-1] for row in rows if row[-1] != "UND"]


CHECKS: Mapping[str, Callable[[ModuleOp], None]] = {"metal": check_metal, "cuda": check_cuda, "rocm": check_rocm}
"""What must hold of the kernels of each target that nothing here runs."""
