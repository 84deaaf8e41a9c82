"""The part of a GPU driver's C interface that running a launch plan takes, through ctypes.

CUDA's driver and HIP have the same functions under other names, so :class:`Driver` is written once, and
:mod:`.cuda` and :mod:`.hip` say what differs. No Python package of a vendor is needed.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlx_dialect.dtypes import Array
from rlx_dialect.runtime.kernels import DeviceError
from rlx_dialect.runtime.launch_plan import Launch, LaunchPlans
from rlx_dialect.runtime.plan_engine import PlanExecutable
from rlx_dialect.runtime.toolchain import ToolMissing

_NAME_LENGTH = 256


@dataclass(frozen=True)
class Interface:
    """What one vendor calls the functions."""

    vendor: str
    libraries: tuple[str, ...]
    """Files of the driver, by their names on the systems that have it."""
    hint: str
    """Where the driver comes from."""
    initialize: str
    device: str
    device_name: str
    allocate: str
    free: str
    write: str
    read: str
    load: str
    function: str
    launch: str
    wait: str
    error: str

    def library(self) -> Any:
        """The driver's library; raises ToolMissing."""
        for name in self.libraries:
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        names = " or ".join(self.libraries)
        raise ToolMissing(f"no {self.vendor} GPU can be used here: {names} is not installed; it comes with {self.hint}")


class Driver:
    """An open device. Addresses and handles are integers."""

    def __init__(self, interface: Interface, library: Any):
        """Open the first device. Raises DeviceError, where there is none too."""
        self._interface = interface
        self._library = library
        self._images: list[bytes] = []
        self.call(interface.initialize, ctypes.c_uint(0))
        device = ctypes.c_int()
        self.call(interface.device, ctypes.byref(device), ctypes.c_int(0))
        self.device = device.value
        name = ctypes.create_string_buffer(_NAME_LENGTH)
        self.call(interface.device_name, name, ctypes.c_int(_NAME_LENGTH), device)
        self.name = name.value.decode(errors="replace")

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function that returns a status; raises DeviceError with the driver's text where that is not 0."""
        status = int(getattr(self._library, function)(*arguments))
        if status:
            text = ctypes.c_char_p()
            getattr(self._library, self._interface.error)(ctypes.c_int(status), ctypes.byref(text))
            why = (text.value or b"unknown error").decode(errors="replace")
            raise DeviceError(f"{self._interface.vendor}: {function} failed with status {status}: {why}")

    def activate(self) -> None:
        """Make the device the one that this thread's calls mean."""

    def load(self, code: bytes) -> int:
        """A handle of the module that ``code`` is."""
        module = ctypes.c_void_p()
        # Text ends with a zero byte, a binary knows its own length. HIP goes on reading it.
        self._images.append(code)
        self.call(self._interface.load, ctypes.byref(module), ctypes.c_char_p(code))
        return module.value or 0

    def function(self, module: int, name: str) -> int:
        """A handle of a kernel of a module."""
        function = ctypes.c_void_p()
        symbol = ctypes.c_char_p(name.encode())
        self.call(self._interface.function, ctypes.byref(function), ctypes.c_void_p(module), symbol)
        return function.value or 0

    def allocate(self, size: int) -> int:
        """The address of ``size`` new bytes, at least 1."""
        address = ctypes.c_void_p()
        self.call(self._interface.allocate, ctypes.byref(address), ctypes.c_size_t(size))
        return address.value or 0

    def free(self, address: int) -> None:
        self.call(self._interface.free, ctypes.c_void_p(address))

    def write(self, address: int, data: bytes) -> None:
        """Copy to the device."""
        self.call(self._interface.write, ctypes.c_void_p(address), ctypes.c_char_p(data), ctypes.c_size_t(len(data)))

    def read(self, address: int, size: int) -> bytes:
        """Copy from the device, after the launches before."""
        data = ctypes.create_string_buffer(size)
        self.call(self._interface.read, data, ctypes.c_void_p(address), ctypes.c_size_t(size))
        return data.raw

    def launch(
        self, function: int, groups: tuple[int, int, int], block: tuple[int, int, int], addresses: Sequence[int]
    ) -> None:
        """Start a kernel on buffers; it runs after those that were started before."""
        values = (ctypes.c_void_p * len(addresses))(*addresses)
        # The interface takes the place of each parameter's value.
        width = ctypes.sizeof(ctypes.c_void_p)
        places = [ctypes.addressof(values) + width * i for i in range(len(addresses))]
        parameters = (ctypes.c_void_p * len(places))(*places)
        extents = [ctypes.c_uint(n) for n in (*groups, *block)]
        shared, stream, extra = ctypes.c_uint(0), ctypes.c_void_p(), ctypes.c_void_p()
        self.call(self._interface.launch, ctypes.c_void_p(function), *extents, shared, stream, parameters, extra)

    def wait(self) -> None:
        """Return when all that was started has ended."""
        self.call(self._interface.wait)


class DriverExecutable(PlanExecutable):
    """A plan on a device that a driver opened; its memory is given back with it."""

    def __init__(self, plans: LaunchPlans, code: bytes, weights: Mapping[str, Array], driver: Driver):
        self._driver = driver
        self._addresses: list[int] = []
        driver.activate()
        # A driver refuses a module without kernels.
        module = driver.load(code) if plans.kernels else 0
        self._functions = {name: driver.function(module, name) for name in plans.kernels}
        weakref.finalize(self, _free, driver, self._addresses).atexit = False
        super().__init__(plans, weights)

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        self._driver.activate()
        return super().run(inputs)

    def _allocate(self, sizes: Sequence[int]) -> None:
        for size in sizes:
            self._addresses.append(self._driver.allocate(size))

    def _release(self, first: int) -> None:
        _free(self._driver, self._addresses[first:])
        del self._addresses[first:]

    def _write(self, buffer: int, data: bytes) -> None:
        self._driver.write(self._addresses[buffer], data)

    def _read(self, buffer: int) -> bytes:
        return self._driver.read(self._addresses[buffer], self._sizes[buffer])

    def _launch(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            addresses = [self._addresses[b] for b in launch.buffers]
            self._driver.launch(self._functions[launch.kernel], launch.groups, launch.block, addresses)

    def _wait(self) -> None:
        self._driver.wait()


def _free(driver: Driver, addresses: Sequence[int]) -> None:
    driver.activate()
    for address in addresses:
        driver.free(address)
