"""The kernels of a module for a CPU, and the host functions that launch them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from rlx_dialect.lowering.to_cpu.cpus import BUFFERS, Cpu
from rlx_dialect.lowering.to_cpu.invocations import Invocations
from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, Schedule
from rlx_dialect.lowering.to_cpu.map import Map
from rlx_dialect.lowering.to_cpu.math import CPU_EXPANSIONS
from rlx_dialect.lowering.to_cpu.rows import Rows
from rlx_dialect.lowering.to_gpu.expand import expand
from rlx_dialect.lowering.to_gpu.host import KERNELS, Host, KernelModule
from rlx_dialect.lowering.to_gpu.kernel import KernelSpec
from rlx_dialect.lowering.to_gpu.map import MapSpec
from rlx_dialect.lowering.to_gpu.rows import RowSpec

SCHEDULES: Mapping[type[KernelSpec], type[Schedule[Any]]] = {
    KernelSpec: Invocations,
    MapSpec: Map,
    RowSpec: Rows,
}
"""Who writes a spec for a CPU: what stands here for the nearest of its base classes."""


class CpuKernels(KernelModule):
    """A module of ``func.func`` kernels, each distinct one once."""

    def __init__(self, cpu: Cpu):
        super().__init__(BUFFERS)
        self.cpu = cpu
        self.op = ModuleOp([], sym_name=StringAttr(KERNELS))

    def schedule(self, spec: KernelSpec) -> Schedule[Any]:
        return next(SCHEDULES[c] for c in type(spec).__mro__ if c in SCHEDULES)(spec, self.cpu)

    def write(self, name: str, spec: KernelSpec) -> list[Operation]:
        schedule = self.schedule(spec)
        kernel = CpuKernel(name, spec, self.cpu)
        schedule.emit(kernel)
        function = kernel.function(schedule.work)
        expand(function, CPU_EXPANSIONS.keys(), CPU_EXPANSIONS)
        return [function]

    def extents(self, spec: KernelSpec) -> tuple[int, ...]:
        return (self.schedule(spec).groups, 1, 1, 1, 1, 1)

    def host(self, function: FuncOp) -> Host:
        return Host(function, self)
