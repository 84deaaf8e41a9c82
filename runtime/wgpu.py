"""Run GPU kernels through wgpu: Vulkan, Metal or Direct3D, or Mesa's Vulkan on the CPU where there is no GPU.

Pipelines and bindings are made once, all launches of a run are one pass; see :mod:`.plan_engine`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.lowering.to_gpu.subgroups import through_memory
from rlx_dialect.runtime.kernels import DeviceError
from rlx_dialect.runtime.launch_plan import ALIGNMENT, Launch, LaunchPlan, LaunchPlans, launch_plans
from rlx_dialect.runtime.plan_engine import PlanExecutable
from rlx_dialect.runtime.spirv import SpirvKernel, serialize
from rlx_dialect.runtime.toolchain import ToolMissing
from rlx_dialect.runtime.wgsl import translate

if TYPE_CHECKING:
    import wgpu

_FEATURES = {"Float16": "shader-f16", "Float64": "shader-f64", "Int64": "shader-int64"}
"""The feature of a device behind each SPIR-V capability."""

_LIMITS = (
    "max-buffer-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-storage-size",
    "max-compute-workgroups-per-dimension",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
)
"""What is asked for as high as the adapter has it."""


@dataclass(frozen=True)
class Device:
    """An open device and what it can do."""

    handle: wgpu.GPUDevice
    name: str
    features: frozenset[str]
    limits: Mapping[str, int]


@cache
def open_device() -> Device:
    """The fastest adapter's device, one a process. Raises ToolMissing, DeviceError."""
    if find_spec("wgpu") is None:
        raise ToolMissing("wgpu is not installed; it comes with: pip install 'rlx-dialect[gpu]'")
    # Without it Vulkan's loader prints an error about windows that nobody wants here.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    import wgpu

    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except (RuntimeError, OSError) as error:
        raise DeviceError(
            f"wgpu found no adapter ({error}). It needs a GPU with a Vulkan, Metal or Direct3D driver; Debian's "
            "mesa-vulkan-drivers is one that runs on the CPU (it may want XDG_RUNTIME_DIR to name a folder)."
        ) from error
    features = frozenset(f for f in _FEATURES.values() if f in adapter.features)
    limits = {name: adapter.limits[name] for name in _LIMITS}
    handle = adapter.request_device_sync(required_features=sorted(features), required_limits=limits)
    return Device(handle, adapter.info["device"], features, limits)


class WgpuEngine:
    """Runs modules that ``rlx-lower-to-gpu`` made for ``wgpu`` or ``metal``."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> WgpuExecutable:
        """Compile the kernels and upload the parameters.

        Raises BindingError, GraphError, UnsupportedKernel, DeviceError, ToolMissing, ToolFailed.
        """
        return WgpuExecutable(launch_plans(module), serialize(through_memory(module)), weights, open_device())


class WgslEngine:
    """Runs the same kernels handed over as WGSL text, as a browser would take them."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> WgpuExecutable:
        """As :meth:`WgpuEngine.compile`; raises ToolMissing also where naga or Node.js is missing."""
        kernels = serialize(through_memory(module))
        return WgpuExecutable(launch_plans(module), kernels, weights, open_device(), translate(kernels))


class WgpuExecutable(PlanExecutable):
    """A compiled graph with its parameters on the device."""

    def __init__(
        self,
        plans: LaunchPlans,
        kernels: list[SpirvKernel],
        weights: Mapping[str, Array],
        device: Device,
        texts: Sequence[str] = (),
    ):
        """``texts`` are the kernels in WGSL, where that is what the device shall be given."""
        self._device = device
        self._kernels = kernels
        self._texts = {k.name: text for k, text in zip(kernels, texts, strict=True)} if texts else {}
        self._buffers: list[wgpu.GPUBuffer] = []
        self._pipelines: dict[str, tuple[Any, Any]] = {}
        self._groups: dict[Launch, Any] = {}
        super().__init__(plans, weights)

    def _admit(self, plan: LaunchPlan) -> None:
        _check_limits(plan, self._kernels, self._device)
        if not self._pipelines:
            arity = self._plans.kernels
            self._pipelines = {k.name: self._pipeline(k, arity[k.name]) for k in self._kernels if k.name in arity}

    def _allocate(self, sizes: Sequence[int]) -> None:
        import wgpu

        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        self._buffers += [self._device.handle.create_buffer(size=size, usage=usage) for size in sizes]

    def _release(self, first: int) -> None:
        del self._buffers[first:]
        self._groups.clear()

    def _write(self, buffer: int, data: bytes) -> None:
        self._device.handle.queue.write_buffer(self._buffers[buffer], 0, data)

    def _read(self, buffer: int) -> memoryview:
        return cast("memoryview", self._device.handle.queue.read_buffer(self._buffers[buffer]))

    def _launch(self, launches: Sequence[Launch]) -> None:
        encoder = self._device.handle.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for launch in launches:
            compute.set_pipeline(self._pipelines[launch.kernel][0])
            compute.set_bind_group(0, self._bind(launch))
            compute.dispatch_workgroups(*launch.groups)
        compute.end()
        self._device.handle.queue.submit([encoder.finish()])

    def _wait(self) -> None:
        # wgpu 0.32 fails in on_submitted_work_done; a word that is read comes after all that was submitted.
        if self._buffers:
            self._device.handle.queue.read_buffer(self._buffers[0], 0, ALIGNMENT)

    def _pipeline(self, kernel: SpirvKernel, arity: int) -> tuple[Any, Any]:
        """The pipeline of one kernel and the layout of its buffers."""
        import wgpu

        handle = self._device.handle
        # Not "auto": that leaves out buffers that a kernel does not touch.
        entries = [
            {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": wgpu.BufferBindingType.storage}}
            for i in range(arity)
        ]
        with _refusals(kernel.name):
            layout = handle.create_bind_group_layout(entries=entries)
            # The annotation says str, which is for WGSL.
            code = self._texts.get(kernel.name) or cast("str", kernel.code)
            shader = handle.create_shader_module(code=code)
            pipeline = handle.create_compute_pipeline(
                layout=handle.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={"module": shader, "entry_point": kernel.name},
            )
        return pipeline, layout

    def _bind(self, launch: Launch) -> Any:
        """The buffers of a launch, bound once."""
        if launch not in self._groups:
            buffers = [self._buffers[b] for b in launch.buffers]
            entries = [
                {"binding": i, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
                for i, buffer in enumerate(buffers)
            ]
            layout = self._pipelines[launch.kernel][1]
            self._groups[launch] = self._device.handle.create_bind_group(layout=layout, entries=entries)
        return self._groups[launch]


@contextmanager
def _refusals(kernel: str) -> Iterator[None]:
    """wgpu's refusal of a kernel as a DeviceError that names it."""
    import wgpu

    try:
        yield
    except wgpu.GPUError as error:
        raise DeviceError(f"wgpu refuses kernel '{kernel}': {error}") from error


def _check_limits(plan: LaunchPlan, kernels: list[SpirvKernel], device: Device) -> None:
    """Raise DeviceError that lists everything that the device has too little of."""
    problems = [
        f"kernel '{k.name}' needs {_FEATURES[c]}"
        for k in kernels
        for c in sorted(k.capabilities)
        if _FEATURES[c] not in device.features
    ]
    bindings = device.limits["max-storage-buffers-per-shader-stage"]
    groups = device.limits["max-compute-workgroups-per-dimension"]
    size = min(device.limits["max-storage-buffer-binding-size"], device.limits["max-buffer-size"])
    for launch in (*plan.setup, *plan.launches):
        if len(launch.buffers) > bindings:
            problems.append(f"kernel '{launch.kernel}' takes {len(launch.buffers)} buffers, at most {bindings}")
        if max(launch.groups) > groups:
            shape = "x".join(map(str, launch.groups))
            problems.append(f"kernel '{launch.kernel}' is launched on {shape} workgroups, at most {groups} a dimension")
    problems += [f"a buffer of {n} bytes, at most {size}" for n in sorted(set(plan.sizes)) if n > size]
    if problems:
        raise DeviceError("\n".join([f"device '{device.name}' cannot run this graph:", *dict.fromkeys(problems)]))
