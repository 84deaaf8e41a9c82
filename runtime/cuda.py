"""Run GPU kernels on NVIDIA's GPUs through the CUDA driver, which compiles the PTX itself: no toolkit is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.runtime.driver import Driver, DriverExecutable, Interface
from rlx_dialect.runtime.kernels import DeviceError, kernels
from rlx_dialect.runtime.launch_plan import launch_plans
from rlx_dialect.runtime.ptx import CHIPS, ptx

CUDA = Interface(
    vendor="NVIDIA",
    libraries=("libcuda.so.1", "nvcuda.dll"),
    hint="NVIDIA's driver",
    initialize="cuInit",
    device="cuDeviceGet",
    device_name="cuDeviceGetName",
    allocate="cuMemAlloc_v2",
    free="cuMemFree_v2",
    write="cuMemcpyHtoD_v2",
    read="cuMemcpyDtoH_v2",
    load="cuModuleLoadData",
    function="cuModuleGetFunction",
    launch="cuLaunchKernel",
    wait="cuCtxSynchronize",
    error="cuGetErrorString",
)

_CAPABILITY = (75, 76)
"""The attributes of a device that hold its compute capability, major and minor."""


class CudaDriver(Driver):
    """An NVIDIA GPU with its primary context."""

    def __init__(self, library: Any):
        super().__init__(CUDA, library)
        self._context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), ctypes.c_int(self.device))
        major, minor = (self._attribute(a) for a in _CAPABILITY)
        self.chip = f"sm_{major}{minor}"
        self.capability = (major, minor)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), ctypes.c_int(self.device))
        return value.value

    def activate(self) -> None:
        self.call("cuCtxSetCurrent", self._context)


@cache
def open_device() -> CudaDriver:
    """The first GPU, once a process. Raises ToolMissing, DeviceError."""
    return CudaDriver(CUDA.library())


def chip_for(driver: CudaDriver) -> str:
    """The newest chip of :data:`.ptx.CHIPS` whose code the device takes; raises DeviceError where it is too old."""
    able = [chip for chip in CHIPS if _capability(chip) <= driver.capability]
    if not able:
        raise DeviceError(f"'{driver.name}' is a {driver.chip}; code is written for {CHIPS[0]} and newer")
    return able[-1]


def _capability(chip: str) -> tuple[int, int]:
    number = int(chip.removeprefix("sm_"))
    return number // 10, number % 10


class CudaEngine:
    """Runs modules that ``rlx-lower-to-gpu{target=cuda}`` made."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> DriverExecutable:
        """Compile the kernels and upload the parameters.

        Raises BindingError, GraphError, DeviceError, ToolMissing, ToolFailed.
        """
        driver = open_device()
        chip = chip_for(driver)
        code = ptx(module, [chip])[chip].encode() if any(kernels(module)) else b""
        return DriverExecutable(launch_plans(module), code, weights, driver)
