"""Kernels as code objects for AMD's chips: ELF files for their chip that need nothing from outside."""

from __future__ import annotations

import io

import pytest
from gpu_code import FLAGS, MACHINE, machine
from test_spirv import EXP, REVERSED, SHARED, kernel, module

from rlx_dialect.runtime.amd import CHIPS, code_object, llvm_text
from rlx_dialect.runtime.kernels import UnsupportedKernel
from rlx_dialect.runtime.targets import AmdgcnReportTarget, AmdgcnTarget
from rlx_dialect.xdsl_compat import rlx_context


@pytest.mark.parametrize("chip", CHIPS)
def test_a_kernel_is_an_elf_for_its_chip(chip: str):
    compiled = code_object(module(kernel("f32", EXP)), chip)
    assert machine(compiled.code) == (MACHINE, FLAGS[chip])
    (found,) = compiled.resources()
    assert (found.kernel, found.chip, found.spilled, found.shared) == ("k", chip, 0, 0)
    assert 0 < found.registers < 32
    text = compiled.disassembly()
    assert "<k>:" in text
    assert "v_exp_f32" in text
    assert "global_load" in text
    assert "s_endpgm" in text


def test_what_needs_the_device_library_is_named():
    body = "%e = math.erf %x : f32\n%y = math.tanh %e : f32"
    with pytest.raises(UnsupportedKernel) as error:
        code_object(module(kernel("f32", EXP), kernel("f32", body, name="two")), "gfx942")
    assert str(error.value) == (
        "kernel 'two': __ocml_erf_f32 of AMD's device library has no other form here\n"
        "kernel 'two': __ocml_tanh_f32 of AMD's device library has no other form here"
    )


def test_instructions_are_no_library_calls():
    text = llvm_text(module(kernel("f32", "%f = math.floor %x : f32\n%y = math.ceil %f : f32")), "gfx942")
    assert "@llvm.floor.f32(" in text
    assert "@llvm.ceil.f32(" in text
    assert "__ocml" not in text


def test_functions_of_f64_are_no_library_calls():
    functions = ("atan", "cos", "erf", "exp", "expm1", "log", "log1p", "sin", "tan", "tanh")
    lines = [f"%v{i + 1} = math.{name} %v{i} : f64" for i, name in enumerate(("exp", *functions))]
    body = "\n".join(lines).replace("%v0", "%x") + "\n%y = math.powf %v1, %v11 : f64"
    code_object(module(kernel("f64", body)), "gfx1100")


def test_shared_memory_is_in_the_report():
    (found,) = code_object(module(SHARED, kernel("f32", REVERSED)), "gfx1100").resources()
    assert found.shared == 32


def test_targets_write_the_texts():
    lowered = module(kernel("f32", EXP))
    output = io.StringIO()
    AmdgcnTarget().emit(rlx_context(), lowered, output)
    assert [line for line in output.getvalue().splitlines() if line.startswith("// chip")] == [
        f"// chip {chip}" for chip in CHIPS
    ]
    output = io.StringIO()
    AmdgcnReportTarget().emit(rlx_context(), lowered, output)
    assert len(output.getvalue().splitlines()) == 2 + len(CHIPS)
