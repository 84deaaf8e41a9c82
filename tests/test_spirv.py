"""Kernels written by hand, as SPIR-V and as Metal text."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from helpers import parse
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.spirv import UnsupportedKernel, assembly, metal_source, serialize, validate
from rlx_dialect.runtime.targets import MslTarget, SpirvTarget
from rlx_dialect.runtime.toolchain import ToolFailed, ToolMissing
from rlx_dialect.xdsl_compat import rlx_context


def kernel(element: str, body: str, *, name: str = "k", size: int = 8) -> str:
    """A kernel from memref %a to memref %b; ``body`` makes %y of the element %x at its own position %t."""
    return f"""
      "gpu.func"() <{{function_type = (memref<{size}x{element}>, memref<{size}x{element}>) -> ()}}> ({{
      ^bb0(%a: memref<{size}x{element}>, %b: memref<{size}x{element}>):
        %t = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
        %x = memref.load %a[%t] : memref<{size}x{element}>
        {body}
        memref.store %y, %b[%t] : memref<{size}x{element}>
        "gpu.return"() : () -> ()
      }}) {{sym_name = "{name}", gpu.kernel, known_block_size = array<i32: {size}, 1, 1>}} : () -> ()"""


def module(*kernels: str) -> ModuleOp:
    body = "\n".join(kernels)
    return parse(f'"gpu.module"() <{{sym_name = "kernels"}}> ({{ {body} }}) : () -> ()')


EXP = "%y = math.exp %x : f32"
SHARED = """"memref.global"() <{sym_name = "s", type = memref<8xf32, 3 : i64>, initial_value,
  sym_visibility = "private"}> : () -> ()"""
"""Memory of a workgroup, as the compilers of NVIDIA and AMD take it."""
REVERSED = """%s = memref.get_global @s : memref<8xf32, 3 : i64>
  memref.store %x, %s[%t] : memref<8xf32, 3 : i64>
  "gpu.barrier"() : () -> ()
  %c7 = arith.constant 7 : index
  %r = arith.subi %c7, %t : index
  %y = memref.load %s[%r] : memref<8xf32, 3 : i64>"""
DOUBLE = "%y = arith.addf %x, %x : {0}"


def test_each_kernel_is_a_module_of_its_own():
    first, second = serialize(module(kernel("f32", EXP), kernel("f32", DOUBLE.format("f32"), name="twice", size=5)))
    assert (first.name, second.name) == ("k", "twice")
    for k, size, operation in ((first, 8, "Exp"), (second, 5, "OpFAdd")):
        text = k.disassembly()
        assert text.count("OpEntryPoint") == 1
        assert f'OpEntryPoint GLCompute %{k.name} "{k.name}"' in text
        assert f"LocalSize {size} 1 1" in text
        assert operation in text
        assert text.count("DescriptorSet 0") == 2
        assert text.count(" Binding ") == 2


def test_no_kernels_give_nothing():
    assert serialize(parse("func.func @main() { func.return }")) == []


def test_f16_buffers_are_addressed_as_f16():
    (k,) = serialize(module(kernel("f16", DOUBLE.format("f16"))))
    text = k.disassembly()
    assert k.capabilities == {"Float16"}
    assert "OpCapability Float16" in text
    assert "OpCapability StorageBuffer16BitAccess" in text
    assert "ArrayStride 2" in text
    assert "OpTypeFloat 16" in text
    assert "OpTypeFloat 32" not in text
    assert "half" in k.msl()


def test_capabilities_are_those_of_each_kernel():
    narrow, wide = serialize(module(kernel("f32", EXP), kernel("i64", "%y = arith.addi %x, %x : i64", name="wide")))
    assert narrow.capabilities == frozenset()
    assert "Int64" not in narrow.disassembly()
    assert wide.capabilities == {"Int64"}
    assert "OpCapability Int64" in wide.disassembly()
    assert "long" in wide.msl()


def test_f64_has_spirv_but_no_msl():
    (k,) = serialize(module(kernel("f64", DOUBLE.format("f64"))))
    assert k.capabilities == {"Float64"}
    with pytest.raises(UnsupportedKernel, match="kernel 'k': Metal has no f64"):
        k.msl()


BF16 = """%w = arith.extf %x : bf16 to f32
          %y = arith.truncf %w : f32 to bf16"""
INNER_BF16 = """%n = arith.truncf %x : f32 to bf16
                %y = arith.extf %n : bf16 to f32"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (kernel("bf16", BF16), "kernel 'k': bf16 has no SPIR-V form; use f16 or f32"),
        (kernel("f32", INNER_BF16), "kernel 'k': bf16 has no SPIR-V form; use f16 or f32"),
        (kernel("i8", "%y = arith.addi %x, %x : i8"), "kernel 'k': a buffer of i8 has no SPIR-V form that every"),
        (kernel("i1", "%y = arith.andi %x, %x : i1"), "kernel 'k': a buffer of i1 has no SPIR-V form that every"),
        (kernel("f32", EXP).replace("known_block_size", "other"), "kernel 'k' has no known_block_size"),
    ],
)
def test_what_has_no_right_form_is_refused(text: str, message: str):
    with pytest.raises(UnsupportedKernel, match=message):
        serialize(module(text))


def test_what_the_compiler_lacks_is_its_error():
    with pytest.raises(ToolFailed, match=r"mlir-opt failed(.|\n)*math.erf"):
        serialize(module(kernel("f32", "%y = math.erf %x : f32")))


def test_shared_memory_and_barriers():
    body = """%s = memref.alloc() : memref<8xf32, 3 : i64>
      memref.store %x, %s[%t] : memref<8xf32, 3 : i64>
      "gpu.barrier"() : () -> ()
      %y = memref.load %s[%t] : memref<8xf32, 3 : i64>"""
    (k,) = serialize(module(kernel("f32", body)))
    assert "Workgroup" in k.disassembly()
    assert "threadgroup _" in k.msl()
    assert "threadgroup_barrier" in k.msl()


def test_invalid_code_is_found(monkeypatch: pytest.MonkeyPatch):
    toolchain.find("spirv-val")  # validation is left out where it is not installed
    (k,) = serialize(module(kernel("f32", EXP)))
    broken = replace(k, code=k.code[:-4])
    with pytest.raises(ToolFailed, match="spirv-val"):
        validate(broken)

    def missing(name: str):
        raise ToolMissing(name)

    monkeypatch.setattr(toolchain, "find", missing)
    validate(broken)


def test_texts_name_their_kernels():
    compiled = serialize(module(kernel("f32", EXP), kernel("f32", DOUBLE.format("f32"), name="twice")))
    metal, spirv = metal_source(compiled), assembly(compiled)
    assert metal.index("// kernel k\n") < metal.index("kernel void k(") < metal.index("// kernel twice\n")
    assert spirv.index("; kernel k\n") < spirv.index("; kernel twice\n")


def test_targets_write_the_same_texts():
    lowered = module(kernel("f32", EXP))
    compiled = serialize(lowered)
    for target, expected in ((MslTarget(), metal_source(compiled)), (SpirvTarget(), assembly(compiled))):
        output = io.StringIO()
        target.emit(rlx_context(), lowered, output)
        assert output.getvalue() == expected
