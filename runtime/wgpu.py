"""Run GPU kernels through wgpu: Vulkan, Metal or Direct3D, or Mesa's Vulkan on the CPU where there is no GPU.

Parameters are uploaded once, when a graph is compiled. A run writes the inputs, launches every kernel in one
pass on buffers that stay on the device, and reads the outputs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.runtime.engine import bind
from rlx_dialect.runtime.launch_plan import Launch, LaunchPlan, from_buffer, launch_plan, to_buffer
from rlx_dialect.runtime.spirv import SpirvKernel, serialize
from rlx_dialect.runtime.toolchain import ToolError, ToolMissing

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


class DeviceError(ToolError):
    """No device, or one that cannot run the graph."""


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
        return WgpuExecutable(launch_plan(module), serialize(module), weights, open_device())


class WgpuExecutable:
    """A compiled graph with its parameters on the device."""

    def __init__(self, plan: LaunchPlan, kernels: list[SpirvKernel], weights: Mapping[str, Array], device: Device):
        import wgpu

        self._plan = plan
        self._device = device
        _check_limits(plan, kernels, device)
        parameters = bind("parameter", plan.signature.params, weights)
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        self._buffers = [device.handle.create_buffer(size=size, usage=usage) for size in plan.sizes]
        for buffer, value, slot in zip(plan.params, parameters, plan.stored.params, strict=True):
            self._write(buffer, to_buffer(value, slot))
        for buffer, value in plan.constants.items():
            data = value.tobytes()
            self._write(buffer, data + bytes(-len(data) % 4))
        arity = {launch.kernel: len(launch.buffers) for launch in plan.launches}
        pipelines = {k.name: self._pipeline(k, arity[k.name]) for k in kernels if k.name in arity}
        self._steps = [
            (pipelines[launch.kernel][0], self._bind(launch, pipelines[launch.kernel][1]), launch.groups)
            for launch in plan.launches
        ]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs in result order. Raises BindingError."""
        signature, stored = self._plan.signature, self._plan.stored
        values = bind("input", signature.inputs, inputs)
        for buffer, value, slot in zip(self._plan.inputs, values, stored.inputs, strict=True):
            self._write(buffer, to_buffer(value, slot))
        encoder = self._device.handle.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for pipeline, group, groups in self._steps:
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(*groups)
        compute.end()
        self._device.handle.queue.submit([encoder.finish()])
        return [
            from_buffer(cast("memoryview", self._device.handle.queue.read_buffer(self._buffers[buffer])), slot, seen)
            for buffer, slot, seen in zip(self._plan.outputs, stored.outputs, signature.outputs, strict=True)
        ]

    def _write(self, buffer: int, data: bytes) -> None:
        if data:
            self._device.handle.queue.write_buffer(self._buffers[buffer], 0, data)

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
            shader = handle.create_shader_module(code=cast("str", kernel.code))
            pipeline = handle.create_compute_pipeline(
                layout=handle.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={"module": shader, "entry_point": kernel.name},
            )
        return pipeline, layout

    def _bind(self, launch: Launch, layout: Any) -> Any:
        entries = [
            {"binding": i, "resource": {"buffer": self._buffers[b], "offset": 0, "size": self._buffers[b].size}}
            for i, b in enumerate(launch.buffers)
        ]
        return self._device.handle.create_bind_group(layout=layout, entries=entries)


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
    for launch in plan.launches:
        if len(launch.buffers) > bindings:
            problems.append(f"kernel '{launch.kernel}' takes {len(launch.buffers)} buffers, at most {bindings}")
        if max(launch.groups) > groups:
            shape = "x".join(map(str, launch.groups))
            problems.append(f"kernel '{launch.kernel}' is launched on {shape} workgroups, at most {groups} a dimension")
    problems += [f"a buffer of {n} bytes, at most {size}" for n in sorted(set(plan.sizes)) if n > size]
    if problems:
        raise DeviceError("\n".join([f"device '{device.name}' cannot run this graph:", *dict.fromkeys(problems)]))
