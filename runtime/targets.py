"""What xDSL tools can write for a lowered GPU module: ``-t rlx-msl`` and ``-t rlx-spirv``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime.spirv import SpirvKernel, assembly, metal_source, serialize
from rlx_dialect.runtime.toolchain import ToolError
from rlx_dialect.xdsl_compat import Context, Target


@dataclass(frozen=True)
class MslTarget(Target):
    """The Metal text of every kernel."""

    name = "rlx-msl"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(metal_source(_kernels(module)))


@dataclass(frozen=True)
class SpirvTarget(Target):
    """The SPIR-V assembly of every kernel."""

    name = "rlx-spirv"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(assembly(_kernels(module)))


def _kernels(module: ModuleOp) -> list[SpirvKernel]:
    """The kernels of a module that has any; raises ToolError where it has none, because it was not lowered."""
    if not (found := serialize(module)):
        raise ToolError("the module has no GPU kernels: lower it first, as --pipeline=metal does")
    return found
