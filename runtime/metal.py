"""Run GPU kernels on Apple's GPUs through Metal itself, by PyObjC (macOS only).

The kernels are the Metal text of :mod:`.spirv`: buffers lie at the indices of a kernel's arguments, and a launch says
its workgroup. Elsewhere the engine ``wgpu`` runs the SPIR-V that this text is made from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.lowering.to_gpu.simdgroup import SIMDGROUP
from rlx_dialect.runtime.kernels import DeviceError
from rlx_dialect.runtime.launch_plan import Launch, LaunchPlan, LaunchPlans, launch_plans
from rlx_dialect.runtime.plan_engine import PlanExecutable
from rlx_dialect.runtime.spirv import SpirvKernel, serialize
from rlx_dialect.runtime.toolchain import ToolMissing

_PACKAGE = "Metal"
_DECLARED = re.compile(r"^kernel void (\w+)\(", re.MULTILINE)
_MOST_BUFFERS = 31
"""Entries of the table of buffer arguments."""

_WIDTH = HARDWARE["metal"].subgroup
"""Threads that exchange registers in kernels that do."""

_MATH_MODE_SAFE = 0
"""MTLMathModeSafe, which PyObjC has since macOS 15."""


def installed() -> bool:
    """Whether PyObjC's Metal can be imported."""
    return find_spec(_PACKAGE) is not None


def metal_api() -> Any:
    """PyObjC's module; raises ToolMissing."""
    if not installed():
        raise ToolMissing(
            "PyObjC's Metal is not installed; it comes with: pip install pyobjc-framework-Metal (macOS only). "
            "Elsewhere --engine=wgpu runs the same kernels as SPIR-V."
        )
    return import_module(_PACKAGE)


@cache
def open_device() -> Any:
    """The system's GPU, once a process. Raises ToolMissing, DeviceError."""
    device = metal_api().MTLCreateSystemDefaultDevice()
    if device is None:
        raise DeviceError("Metal found no GPU")
    return device


class MetalEngine:
    """Runs modules that ``rlx-lower-to-gpu{target=metal}`` made."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> MetalExecutable:
        """Compile the kernels and write the parameters.

        Raises BindingError, GraphError, UnsupportedKernel, DeviceError, ToolMissing, ToolFailed.
        """
        device = open_device()
        return MetalExecutable(launch_plans(module), serialize(module, SIMDGROUP), weights, metal_api(), device)


class MetalExecutable(PlanExecutable):
    """A compiled graph with its parameters in memory that the GPU sees."""

    def __init__(
        self, plans: LaunchPlans, kernels: Sequence[SpirvKernel], weights: Mapping[str, Array], api: Any, device: Any
    ):
        """``api`` is PyObjC's module Metal."""
        self._api = api
        self._device = device
        self._buffers: list[Any] = []
        self._pending: list[Any] = []
        self._queue = device.newCommandQueue()
        self._exchanging: set[str] = set()
        """Kernels whose threads exchange registers."""
        self._pipelines = {k.name: self._pipeline(k) for k in kernels if k.name in plans.kernels}
        super().__init__(plans, weights)

    def _pipeline(self, kernel: SpirvKernel) -> Any:
        """The compiled kernel; raises DeviceError with the compiler's words."""
        text = kernel.msl()
        library, error = self._device.newLibraryWithSource_options_error_(text, self._options(), None)
        if library is None:
            raise DeviceError(f"Metal refuses kernel '{kernel.name}': {error}")
        if "simd_" in text or "simdgroup_" in text:
            self._exchanging.add(kernel.name)
        # SPIRV-Cross gives a kernel another name where its own is a word of the language.
        declared = _DECLARED.search(text)
        function = library.newFunctionWithName_(declared[1] if declared else kernel.name)
        if function is None:
            raise DeviceError(f"Metal finds no kernel '{kernel.name}' in its text")
        pipeline, error = self._device.newComputePipelineStateWithFunction_error_(function, None)
        if pipeline is None:
            raise DeviceError(f"Metal refuses kernel '{kernel.name}': {error}")
        return pipeline

    def _options(self) -> Any:
        """Metal's default is fast mathematics, which takes infinities and NaN for impossible."""
        options = self._api.MTLCompileOptions.alloc().init()
        if options.respondsToSelector_("setMathMode:"):
            options.setMathMode_(_MATH_MODE_SAFE)
        else:
            options.setFastMathEnabled_(False)
        return options

    def _admit(self, plan: LaunchPlan) -> None:
        """Raise DeviceError that lists everything that the device has too little of."""
        problems: list[str] = []
        for launch in (*plan.setup, *plan.launches):
            count, most = len(launch.buffers), _MOST_BUFFERS
            if count > most:
                problems.append(f"kernel '{launch.kernel}' takes {count} buffers, at most {most}")
            x, y, z = launch.block
            pipeline = self._pipelines[launch.kernel]
            width = int(pipeline.threadExecutionWidth())
            # GPUs of Intel's in older Macs have other widths, and would give wrong values without a word.
            if launch.kernel in self._exchanging and width != _WIDTH:
                problems.append(f"kernel '{launch.kernel}' wants simdgroups of {_WIDTH} threads, not of {width}")
            threads, most = x * y * z, int(pipeline.maxTotalThreadsPerThreadgroup())
            if threads > most:
                problems.append(f"kernel '{launch.kernel}' wants {threads} threads in a threadgroup, at most {most}")
        most = int(self._device.maxBufferLength())
        problems += [f"a buffer of {n} bytes, at most {most}" for n in sorted(set(plan.sizes)) if n > most]
        if problems:
            name = self._device.name()
            raise DeviceError("\n".join([f"device '{name}' cannot run this graph:", *dict.fromkeys(problems)]))

    def _allocate(self, sizes: Sequence[int]) -> None:
        shared = self._api.MTLResourceStorageModeShared
        made = [self._device.newBufferWithLength_options_(size, shared) for size in sizes]
        if any(buffer is None for buffer in made):
            raise DeviceError(f"Metal has no memory for {sum(sizes)} bytes")
        self._buffers += made

    def _release(self, first: int) -> None:
        self._wait()
        del self._buffers[first:]

    def _write(self, buffer: int, data: bytes) -> None:
        # Memory is shared: a launch that still reads it must have ended.
        self._wait()
        self._bytes(buffer)[: len(data)] = data

    def _read(self, buffer: int) -> bytes:
        self._wait()
        return bytes(self._bytes(buffer))

    def _bytes(self, buffer: int) -> Any:
        return self._buffers[buffer].contents().as_buffer(self._sizes[buffer])

    def _launch(self, launches: Sequence[Launch]) -> None:
        commands = self._queue.commandBuffer()
        # Launches of one encoder run in order, and each sees what those before it wrote.
        encoder = commands.computeCommandEncoder()
        for launch in launches:
            encoder.setComputePipelineState_(self._pipelines[launch.kernel])
            for index, buffer in enumerate(launch.buffers):
                encoder.setBuffer_offset_atIndex_(self._buffers[buffer], 0, index)
            groups, block = self._api.MTLSize(*launch.groups), self._api.MTLSize(*launch.block)
            encoder.dispatchThreadgroups_threadsPerThreadgroup_(groups, block)
        encoder.endEncoding()
        commands.commit()
        self._pending.append(commands)

    def _wait(self) -> None:
        pending, self._pending = self._pending, []
        for commands in pending:
            commands.waitUntilCompleted()
            if (error := commands.error()) is not None:
                raise DeviceError(f"Metal stopped the kernels: {error}")
