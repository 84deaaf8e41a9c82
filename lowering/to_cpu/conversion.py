"""The pass ``rlx-lower-to-cpu``: native kernels, and the host function that launches them.

The op files of :mod:`rlx_dialect.lowering.to_gpu` turn operations into schedules (specs); this package writes the
same specs for a CPU. The host function is the same as that of a GPU: a launch says how many groups a kernel has.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from rlx_dialect.base import shape_of
from rlx_dialect.lowering.to_cpu.cpus import CPUS, host_cpu
from rlx_dialect.lowering.to_cpu.host import CpuKernels
from rlx_dialect.lowering.to_cpu.specialise import has_unknown_extents, specialise
from rlx_dialect.lowering.to_gpu.conversion import lower_graphs
from rlx_dialect.xdsl_compat import Context, ModulePass


@dataclass(frozen=True)
class LowerToCpu(ModulePass):
    """Write graphs as native CPU kernels and host functions that launch them; raises LoweringError.

    ``cpu`` is the instruction set: avx512, avx2 or neon; this machine's where it is not given. Kernels are written for
    known extents: a module with a graph whose arguments have others stays as it is, until the engine knows them.
    """

    name = "rlx-lower-to-cpu"
    cpu: str | None = None

    def __post_init__(self) -> None:
        if self.cpu is not None and self.cpu not in CPUS:
            raise ValueError(f"unknown cpu '{self.cpu}'; known: {', '.join(CPUS)}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        graphs = [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]
        if any(map(has_unknown_extents, graphs)):
            return
        for graph in graphs:
            # What is inside may say less than follows from the arguments.
            specialise(graph, [shape_of(argument) for argument in graph.body.block.args])
        lower_graphs(op, CpuKernels(CPUS[self.cpu or host_cpu()]), "not yet lowered to native CPU kernels")
