"""What xDSL tools can write for a lowered module: the code for each hardware, and reports of GPU kernels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import IO, Any

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.lowering.to_gpu.fragments import Unit
from rlx_dialect.lowering.to_gpu.simdgroup import SIMDGROUP
from rlx_dialect.lowering.to_mlx import python_module
from rlx_dialect.runtime import amd
from rlx_dialect.runtime.kernels import resources_table
from rlx_dialect.runtime.plan_json import plan_json
from rlx_dialect.runtime.ptx import ptx, reports
from rlx_dialect.runtime.spirv import PLAIN, SpirvKernel, assembly, metal_source, serialize
from rlx_dialect.runtime.toolchain import ToolError, portable_text
from rlx_dialect.runtime.traffic import launch_report
from rlx_dialect.runtime.wgsl import wgsl_source
from rlx_dialect.xdsl_compat import Context, Target


@dataclass(frozen=True)
class _TextTarget(Target):
    """A target that is a function of the module."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(self.text(module))

    @abstractmethod
    def text(self, module: ModuleOp) -> str:
        """What to write. Raises ToolError."""


class MlxPythonTarget(_TextTarget):
    """A Python module for MLX of what ``rlx-lower-to-mlx`` leaves, which is RLX operations."""

    name = "mlx-python"

    def text(self, module: ModuleOp) -> str:
        return python_module(module)


class MslTarget(_TextTarget):
    """The Metal text of every kernel."""

    name = "rlx-msl"

    def text(self, module: ModuleOp) -> str:
        return metal_source(_spirv(module, SIMDGROUP))


class WgslTarget(_TextTarget):
    """The WGSL text of every kernel."""

    name = "rlx-wgsl"

    def text(self, module: ModuleOp) -> str:
        return wgsl_source(_spirv(module))


class SpirvTarget(_TextTarget):
    """The SPIR-V assembly of every kernel."""

    name = "rlx-spirv"

    def text(self, module: ModuleOp) -> str:
        return assembly(_spirv(module))


class VulkanTarget(_TextTarget):
    """The SPIR-V assembly of every kernel, with cooperative matrices where it multiplies on the matrix unit."""

    name = "rlx-vulkan"

    def text(self, module: ModuleOp) -> str:
        return assembly(_spirv(module, None))


class PtxTarget(_TextTarget):
    """The PTX of all kernels, for each chip in turn."""

    name = "rlx-ptx"

    def text(self, module: ModuleOp) -> str:
        return "\n".join(f"// chip {chip}\n{code}" for chip, code in ptx(module).items())


class PtxasReportTarget(_TextTarget):
    """Registers, spills and shared memory of every kernel on NVIDIA's chips."""

    name = "rlx-ptxas-report"

    def text(self, module: ModuleOp) -> str:
        return resources_table(reports(ptx(module))) + "\n"


class AmdgcnTarget(_TextTarget):
    """The instructions of all kernels for AMD's chips, for each chip in turn."""

    name = "rlx-amdgcn"

    def text(self, module: ModuleOp) -> str:
        return "\n".join(f"// chip {c}\n{amd.code_object(module, c).disassembly()}" for c in amd.CHIPS)


class AmdgcnReportTarget(_TextTarget):
    """Registers, spills and shared memory of every kernel on AMD's chips."""

    name = "rlx-amdgcn-report"

    def text(self, module: ModuleOp) -> str:
        found = [r for chip in amd.CHIPS for r in amd.code_object(module, chip).resources()]
        return resources_table(found) + "\n"


class StablehloTarget(_TextTarget):
    """The StableHLO text that XLA takes, in MLIR's generic form."""

    name = "rlx-stablehlo"

    def text(self, module: ModuleOp) -> str:
        return portable_text(module)


class LaunchPlanTarget(_TextTarget):
    """Buffers and launches as JSON."""

    name = "rlx-launch-plan"

    def text(self, module: ModuleOp) -> str:
        return plan_json(module) + "\n"


class LaunchReportTarget(_TextTarget):
    """What each launch moves, and the least that the graph must."""

    name = "rlx-launch-report"

    def text(self, module: ModuleOp) -> str:
        return launch_report(module)


def _spirv(module: ModuleOp, unit: Unit[Any] | None = PLAIN) -> list[SpirvKernel]:
    """The kernels of a module that has any; raises ToolError where it has none, because it was not lowered."""
    if not (found := serialize(module, unit)):
        raise ToolError("the module has no GPU kernels: lower it first, as --pipeline=metal does")
    return found
