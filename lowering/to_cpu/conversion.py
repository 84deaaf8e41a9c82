"""The pass ``rlx-lower-to-cpu``: native kernels, and the host function that launches them.

The op files of :mod:`rlx_dialect.lowering.to_gpu` turn operations into schedules (specs); this package writes the
same specs for a CPU. The host function is the same as that of a GPU: a launch says how many groups a kernel has.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.lowering.to_cpu.cpus import CPUS, host_cpu
from rlx_dialect.lowering.to_cpu.host import CpuKernels
from rlx_dialect.lowering.to_gpu.conversion import lower_graphs
from rlx_dialect.xdsl_compat import Context, ModulePass


@dataclass(frozen=True)
class LowerToCpu(ModulePass):
    """Write graphs as native CPU kernels and host functions that launch them; raises LoweringError.

    ``cpu`` is the instruction set: avx512, avx2 or neon; this machine's where it is not given.
    """

    name = "rlx-lower-to-cpu"
    cpu: str | None = None

    def __post_init__(self) -> None:
        if self.cpu is not None and self.cpu not in CPUS:
            raise ValueError(f"unknown cpu '{self.cpu}'; known: {', '.join(CPUS)}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_graphs(op, CpuKernels(CPUS[self.cpu or host_cpu()]), "not yet lowered to native CPU kernels")
