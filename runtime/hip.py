"""Run GPU kernels on AMD's GPUs through HIP, the run-time library of ROCm."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.runtime.amd import CHIPS, code_object
from rlx_dialect.runtime.driver import Driver, DriverExecutable, Interface
from rlx_dialect.runtime.kernels import DeviceError, kernels
from rlx_dialect.runtime.launch_plan import launch_plans

HIP = Interface(
    vendor="AMD",
    libraries=("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7", "amdhip64.dll"),
    hint="ROCm",
    initialize="hipInit",
    device="hipDeviceGet",
    device_name="hipDeviceGetName",
    allocate="hipMalloc",
    free="hipFree",
    write="hipMemcpyHtoD",
    read="hipMemcpyDtoH",
    load="hipModuleLoadData",
    function="hipModuleGetFunction",
    launch="hipModuleLaunchKernel",
    wait="hipDeviceSynchronize",
    error="hipDrvGetErrorString",
)


class HipDriver(Driver):
    """An AMD GPU."""

    def __init__(self, library: Any):
        super().__init__(HIP, library)

    def activate(self) -> None:
        self.call("hipSetDevice", ctypes.c_int(self.device))


@cache
def open_device() -> HipDriver:
    """The first GPU, once a process. Raises ToolMissing, DeviceError."""
    return HipDriver(HIP.library())


class HipEngine:
    """Runs modules that ``rlx-lower-to-gpu{target=rocm}`` made."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> DriverExecutable:
        """Compile the kernels and upload the parameters.

        Raises BindingError, GraphError, UnsupportedKernel, DeviceError, ToolMissing, ToolFailed.
        """
        driver = open_device()
        code = _loadable(module, driver) if any(kernels(module)) else b""
        return DriverExecutable(launch_plans(module), code, weights, driver)


def _loadable(module: ModuleOp, driver: HipDriver) -> bytes:
    """The code object of the first chip that the device takes: HIP says which chip a device is in no stable way."""
    refusals: list[str] = []
    driver.activate()
    for chip in CHIPS:
        code = code_object(module, chip).code
        try:
            driver.load(code)
        except DeviceError as error:
            refusals.append(f"{chip}: {error}")
        else:
            return code
    raise DeviceError("\n".join([f"'{driver.name}' takes the code of no chip that is written for:", *refusals]))
