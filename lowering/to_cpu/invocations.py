"""Kernels that have no CPU form of their own, as loops over the invocations of a GPU.

That suits those whose invocations neither share memory nor wait for each other: gathers, triangles and the like.
"""

from __future__ import annotations

from xdsl.dialects import gpu
from xdsl.ir import SSAValue

from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, Schedule
from rlx_dialect.lowering.to_cpu.known import product
from rlx_dialect.lowering.to_gpu.kernel import KernelSpec

_DIMENSIONS = ("x", "y", "z")


class Invocations(Schedule[KernelSpec]):
    """A workgroup is a group; its invocations are a loop."""

    @property
    def groups(self) -> int:
        return product(self.spec.groups)

    @property
    def work(self) -> int:
        return 8 * product(self.spec.block)

    def emit(self, k: CpuKernel) -> None:
        z, y, x = reversed(self.spec.groups)

        def group(number: SSAValue) -> None:
            blocks = dict(zip(reversed(_DIMENSIONS), k.split(number, (z, y, x)), strict=True))

            def thread(flat: SSAValue) -> None:
                threads = dict(zip(reversed(_DIMENSIONS), k.split(flat, tuple(reversed(self.spec.block))), strict=True))
                k.invocation = {f"{gpu.BlockIdOp.name} {d}": blocks[d] for d in _DIMENSIONS} | {
                    f"{gpu.ThreadIdOp.name} {d}": threads[d] for d in _DIMENSIONS
                }
                self.spec.emit(k)

            k.each(0, product(self.spec.block), thread)

        k.groups(group)
