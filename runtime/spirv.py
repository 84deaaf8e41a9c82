"""GPU kernels as SPIR-V: serialised by mlir-opt and mlir-translate, and translated to Metal's language by SPIRV-Cross.

The input is a lowered module (``rlx-lower-to-gpu{target=metal}`` or ``wgpu``): every ``gpu.func`` kernel of its
``gpu.module``s becomes a SPIR-V module of its own, with one storage buffer an argument, bound in argument order
in descriptor set 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import func, gpu
from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseArrayBase,
    Float16Type,
    Float64Type,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from rlx_dialect.lowering.to_gpu.fragments import Unit, expanded, has_matrices
from rlx_dialect.lowering.to_gpu.kernel import kernel_module
from rlx_dialect.lowering.to_gpu.simdgroup import LANES
from rlx_dialect.lowering.to_gpu.units import plain
from rlx_dialect.runtime import cooperative, toolchain
from rlx_dialect.runtime.cooperative import with_branches, with_memory_model
from rlx_dialect.runtime.kernels import UnsupportedKernel, kernels
from rlx_dialect.runtime.metal_text import with_simdgroups
from rlx_dialect.runtime.toolchain import ToolMissing, portable_text
from rlx_dialect.xdsl_compat import Printer

VULKAN = "vulkan1.1"
"""The environment that spirv-val validates for, where a kernel needs no other."""

MSL_VERSION = "20300"
"""Metal 2.3 (macOS 11, iOS 14), the first with 64-bit integers in buffers."""

PLAIN = plain(LANES)
"""Products of matrices of subgroups as large as Apple's, on any device."""

# Buffers keep their bindings as indices: else those that a kernel does not touch would leave gaps to close.
_MSL = ("-", "--msl", "--msl-version", MSL_VERSION, "--msl-decoration-binding")

_EXTENSIONS = ("SPV_KHR_storage_buffer_storage_class", "SPV_KHR_16bit_storage")


@dataclass(frozen=True)
class SpirvKernel:
    """One kernel: ``code`` is a SPIR-V module whose only entry point is ``name``."""

    name: str
    code: bytes
    capabilities: frozenset[str]
    """SPIR-V capabilities that not every device has: Float16, Float64, Int64, CooperativeMatrixKHR."""

    def disassembly(self) -> str:
        """The module as SPIR-V assembly text. Raises ToolMissing, ToolFailed."""
        return toolchain.run("spirv-dis", ["--no-color"], self.code).decode()

    def msl(self) -> str:
        """The module as a Metal kernel. Raises UnsupportedKernel, ToolMissing, ToolFailed."""
        for capability, what in (("Float64", "f64"), (cooperative.CAPABILITY, "cooperative matrices")):
            if capability in self.capabilities:
                raise UnsupportedKernel(f"kernel '{self.name}': Metal has no {what}")
        return with_simdgroups(toolchain.run("spirv-cross", _MSL, self.code).decode())


@irdl_attr_definition
class _TargetEnv(ParametrizedAttribute):
    """MLIR's ``#spirv.target_env<#spirv.vce<version, [capabilities], [extensions]>, #spirv.resource_limits<>>``."""

    name = "spirv.target_env"
    version: StringAttr
    capabilities: ArrayAttr[StringAttr]
    extensions: ArrayAttr[StringAttr]

    def print_parameters(self, printer: Printer) -> None:
        capabilities, extensions = (", ".join(n.data for n in names) for names in (self.capabilities, self.extensions))
        vce = f"{self.version.data}, [{capabilities}], [{extensions}]"
        printer.print_string(f"<#spirv.vce<{vce}>, #spirv.resource_limits<>>")


@irdl_attr_definition
class _EntryPointAbi(ParametrizedAttribute):
    """MLIR's ``#spirv.entry_point_abi<workgroup_size = [x, y, z]>``."""

    name = "spirv.entry_point_abi"
    workgroup_size: DenseArrayBase[IntegerType]

    def print_parameters(self, printer: Printer) -> None:
        sizes = ", ".join(map(str, self.workgroup_size.get_values()))
        printer.print_string(f"<workgroup_size = [{sizes}]>")


def serialize(module: ModuleOp, unit: Unit[Any] | None = PLAIN) -> list[SpirvKernel]:
    """Every kernel of a lowered module, validated (where spirv-val is installed).

    ``unit`` multiplies its matrices; without one they are cooperative matrices of Vulkan 1.3.
    Raises UnsupportedKernel naming the kernel and the type, ToolMissing, ToolFailed.
    """
    functions = list(kernels(expanded(module, unit) if unit is not None else module))
    if not functions:
        return []
    capabilities = [_capabilities(f) for f in functions]
    both = zip(functions, capabilities, strict=True)
    separate = ModuleOp([_module_of(f, f"kernel{i}", needed, unit) for i, (f, needed) in enumerate(both)])
    lowered = toolchain.run("mlir-opt", [_PIPELINE], portable_text(separate)).decode()
    modules = [with_memory_model(text) for text in re.findall(r"(?ms)^  spirv\.module .*?^  \}$", lowered)]
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
        # A second opinion, not a step.
        return
    environment = cooperative.ENVIRONMENT if cooperative.CAPABILITY in kernel.capabilities else VULKAN
    toolchain.run("spirv-val", ["--target-env", environment, "-"], kernel.code)


def _module_of(function: gpu.FuncOp, name: str, capabilities: frozenset[str], unit: Unit[Any] | None) -> Operation:
    """A gpu.module of one kernel and what it calls, with what SPIR-V needs to know about its entry point."""
    size = function.attributes.get("known_block_size")
    if not isinstance(size, DenseArrayBase):
        raise UnsupportedKernel(f"kernel '{function.sym_name.data}' has no known_block_size")
    clone = function.clone()
    with_branches(clone)
    clone.attributes["spirv.entry_point_abi"] = _EntryPointAbi(size)
    called = sorted({op.callee.string_value() for op in function.walk() if isinstance(op, func.CallOp)})
    module = kernel_module(name, [clone, *(unit.function(callee) for callee in called if unit is not None)])
    module.attributes["spirv.target_env"] = _environment(capabilities)
    return module


_PIPELINE = (
    "--pass-pipeline=builtin.module(map-memref-spirv-storage-class{client-api=vulkan},"
    "gpu.module(convert-math-to-spirv,convert-func-to-spirv),convert-gpu-to-spirv,"
    "spirv.module(spirv-lower-abi-attrs,spirv-update-vce))"
)
"""Stock passes from the gpu dialect to spirv.modules that carry only the capabilities they use."""


def _environment(capabilities: frozenset[str]) -> _TargetEnv:
    """What a kernel may use that needs these capabilities."""
    version, extensions = "v1.3", _EXTENSIONS
    declared = ["Shader", "GroupNonUniformShuffle", *sorted(capabilities)]
    if "Float16" in capabilities:
        # With only one of the two, or none, f16 buffers are silently addressed as f32.
        declared.append("StorageBuffer16BitAccess")
    if cooperative.CAPABILITY in capabilities:
        version, extensions = cooperative.VERSION, (*extensions, *cooperative.EXTENSIONS)
    names = (ArrayAttr([StringAttr(name) for name in some]) for some in (declared, extensions))
    return _TargetEnv(StringAttr(version), *names)


def _capabilities(function: gpu.FuncOp) -> frozenset[str]:
    """The capabilities that the kernel asks for; raises UnsupportedKernel for types without a right form."""
    needed = {cooperative.CAPABILITY} if has_matrices(function) else set[str]()
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
