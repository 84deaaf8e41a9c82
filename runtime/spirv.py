"""GPU kernels as SPIR-V: serialised by mlir-opt and mlir-translate, and translated to Metal's language by SPIRV-Cross.

The input is a lowered module (``rlx-lower-to-gpu{target=metal}`` or ``wgpu``): every ``gpu.func`` kernel of its
``gpu.module``s becomes a SPIR-V module of its own, with one storage buffer an argument, bound in argument order
in descriptor set 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import gpu
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float64Type,
    IntegerType,
    MemRefType,
    ModuleOp,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from rlx_dialect.lowering.to_gpu.kernel import kernel_module
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.kernels import UnsupportedKernel, kernels
from rlx_dialect.runtime.toolchain import ToolMissing, portable_text
from rlx_dialect.xdsl_compat import Printer

VULKAN = "vulkan1.1"
"""The environment that spirv-val validates for."""

MSL_VERSION = "20300"
"""Metal 2.3 (macOS 11, iOS 14), the first with 64-bit integers in buffers."""

# Buffers keep their bindings as indices: else those that a kernel does not touch would leave gaps to close.
_MSL = ("-", "--msl", "--msl-version", MSL_VERSION, "--msl-decoration-binding")

_EXTENSIONS = ("SPV_KHR_storage_buffer_storage_class", "SPV_KHR_16bit_storage")


@dataclass(frozen=True)
class SpirvKernel:
    """One kernel: ``code`` is a SPIR-V module whose only entry point is ``name``."""

    name: str
    code: bytes
    capabilities: frozenset[str]
    """SPIR-V capabilities for number types beyond 32 bits: Float16, Float64, Int64."""

    def disassembly(self) -> str:
        """The module as SPIR-V assembly text. Raises ToolMissing, ToolFailed."""
        return toolchain.run("spirv-dis", ["--no-color"], self.code).decode()

    def msl(self) -> str:
        """The module as a Metal kernel. Raises UnsupportedKernel for f64, ToolMissing, ToolFailed."""
        if "Float64" in self.capabilities:
            raise UnsupportedKernel(f"kernel '{self.name}': Metal has no f64")
        return toolchain.run("spirv-cross", _MSL, self.code).decode()


@irdl_attr_definition
class _EntryPointAbi(ParametrizedAttribute):
    """MLIR's ``#spirv.entry_point_abi<workgroup_size = [x, y, z]>``."""

    name = "spirv.entry_point_abi"
    workgroup_size: DenseArrayBase[IntegerType]

    def print_parameters(self, printer: Printer) -> None:
        sizes = ", ".join(map(str, self.workgroup_size.get_values()))
        printer.print_string(f"<workgroup_size = [{sizes}]>")


def serialize(module: ModuleOp) -> list[SpirvKernel]:
    """Every kernel of a lowered module, validated (where spirv-val is installed).

    Raises UnsupportedKernel naming the kernel and the type, ToolMissing, ToolFailed.
    """
    functions = list(kernels(module))
    if not functions:
        return []
    capabilities = [_capabilities(f) for f in functions]
    separate = ModuleOp([_module_of(f, f"kernel{i}") for i, f in enumerate(functions)])
    lowered = toolchain.run("mlir-opt", [_pipeline(frozenset().union(*capabilities))], portable_text(separate)).decode()
    modules = re.findall(r"(?ms)^  spirv\.module .*?^  \}$", lowered)
    marker = "rlx-end-of-spirv-module"
    binary = toolchain.run(
        "mlir-translate",
        ["--serialize-spirv", "--no-implicit-module", "--split-input-file", f"--output-split-marker={marker}"],
        "\n// -----\n".join(modules),
    )
    parts = binary.split(f"{marker}\n".encode())
    named = zip(functions, parts, capabilities, strict=True)
    result = [SpirvKernel(f.sym_name.data, code, needed) for f, code, needed in named]
    for kernel in result:
        validate(kernel)
    return result


def validate(kernel: SpirvKernel) -> None:
    """Check the module with spirv-val; raises ToolFailed. Nothing is checked where spirv-val is not installed."""
    try:
        toolchain.find("spirv-val")
    except ToolMissing:
        # A second opinion, not a step: Debian and Homebrew have it, but pip does not.
        return
    toolchain.run("spirv-val", ["--target-env", VULKAN, "-"], kernel.code)


def _module_of(function: gpu.FuncOp, name: str) -> Operation:
    """A gpu.module of one kernel, with what SPIR-V needs to know about its entry point."""
    size = function.attributes.get("known_block_size")
    if not isinstance(size, DenseArrayBase):
        raise UnsupportedKernel(f"kernel '{function.sym_name.data}' has no known_block_size")
    clone = function.clone()
    clone.attributes["spirv.entry_point_abi"] = _EntryPointAbi(size)
    return kernel_module(name, [clone])


def _pipeline(capabilities: frozenset[str]) -> str:
    """Stock passes from the gpu dialect to spirv.modules that carry only the capabilities they use."""
    declared = ["Shader", *sorted(capabilities)]
    if "Float16" in capabilities:
        # With only one of the two, or none, f16 buffers are silently addressed as f32.
        declared.append("StorageBuffer16BitAccess")
    target = f"ver=v1.3 caps={','.join(declared)} exts={','.join(_EXTENSIONS)} client_api=Vulkan"
    return (
        f"--pass-pipeline=builtin.module(spirv-attach-target{{{target}}},"
        "map-memref-spirv-storage-class{client-api=vulkan},gpu.module(convert-math-to-spirv),convert-gpu-to-spirv,"
        "spirv.module(spirv-lower-abi-attrs,spirv-update-vce))"
    )


def _capabilities(function: gpu.FuncOp) -> frozenset[str]:
    """The capabilities that the kernel's types ask for; raises UnsupportedKernel for types without a right form."""
    needed: set[str] = set()
    name = function.sym_name.data
    for type in dict.fromkeys(_types(function)):
        element = type.element_type if isinstance(type, MemRefType) else type
        match element:
            case BFloat16Type():
                raise UnsupportedKernel(f"kernel '{name}': bf16 has no SPIR-V form; use f16 or f32")
            case IntegerType() if isinstance(type, MemRefType) and element.width.data not in (32, 64):
                raise UnsupportedKernel(
                    f"kernel '{name}': a buffer of {element} has no SPIR-V form that every device takes; use i32"
                )
            case Float16Type():
                needed.add("Float16")
            case Float64Type():
                needed.add("Float64")
            case IntegerType() if element.width.data == 64:
                needed.add("Int64")
            case _:
                pass
    return frozenset(needed)


def _types(function: gpu.FuncOp) -> Iterator[Attribute]:
    for op in function.walk():
        for region in op.regions:
            for block in region.blocks:
                yield from block.arg_types
        yield from op.result_types


def metal_source(compiled: Sequence[SpirvKernel]) -> str:
    """The Metal text of every kernel, each under a comment with its name."""
    return "\n".join(f"// kernel {k.name}\n{k.msl()}" for k in compiled)


def assembly(compiled: Sequence[SpirvKernel]) -> str:
    """The SPIR-V assembly of every kernel, each under a comment with its name."""
    return "\n".join(f"; kernel {k.name}\n{k.disassembly()}" for k in compiled)
