"""What xDSL tools can write for a lowered GPU module: ``-t rlx-msl`` and ``-t rlx-spirv``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime.spirv import assembly, metal_source, serialize
from rlx_dialect.xdsl_compat import Context, Target


@dataclass(frozen=True)
class MslTarget(Target):
    """The Metal text of every kernel."""

    name = "rlx-msl"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(metal_source(serialize(module)))


@dataclass(frozen=True)
class SpirvTarget(Target):
    """The SPIR-V assembly of every kernel."""

    name = "rlx-spirv"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(assembly(serialize(module)))
