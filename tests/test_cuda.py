"""Plans on drivers of GPUs that are not there: a library that remembers its calls and runs the kernels with NumPy."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from helpers import parse
from on_device import lower
from test_amd import FLAGS
from test_spirv import kernel
from test_wgpu import INPUT, NEGATE, SQUARE, VECTOR, X, chain, host

from rlx_dialect.runtime import cuda, hip
from rlx_dialect.runtime.cuda import CUDA, CudaDriver, CudaEngine, chip_for
from rlx_dialect.runtime.driver import DriverExecutable, Interface
from rlx_dialect.runtime.hip import HIP, HipDriver, HipEngine
from rlx_dialect.runtime.kernels import DeviceError
from rlx_dialect.runtime.toolchain import ToolMissing

KERNELS: dict[str, Callable[[Sequence[np.ndarray]], None]] = {
    "negate": lambda b: np.negative(b[0], out=b[1]),
    "square": lambda b: np.square(b[0], out=b[1]),
    "double": lambda b: np.add(b[0], b[0], out=b[1]),
}
STATUS = 700


def chip_of(code: Any) -> int:
    """The lowest byte of the flags of an ELF file."""
    return ctypes.string_at(ctypes.cast(code, ctypes.c_void_p).value or 0, 64)[48]


class Library:
    """A driver's library: functions by the names of an interface, each noted when called."""

    def __init__(self, interface: Interface, capability: tuple[int, int] = (9, 0), *, takes: int | None = None):
        self.interface = interface
        self.capability = capability
        self.takes = takes
        """The chip in the flags of the ELF files that it loads; None for all code."""
        self.calls: list[str] = []
        self.memory: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.launched: list[tuple[str, tuple[int, ...]]] = []
        self.broken: str | None = None
        self._roles = {getattr(interface, role): role for role in Interface.__dataclass_fields__}

    def __getattr__(self, name: str) -> Callable[..., int]:
        role = self._roles.get(name, name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if role == self.broken:
                return STATUS
            if (act := getattr(type(self), f"do_{role}", None)) is not None:
                act(self, *arguments)
            return STATUS if role == "load" and self.takes not in (None, chip_of(arguments[1])) else 0

        return call

    def do_error(self, status: Any, text: Any) -> None:
        assert status.value == STATUS
        text._obj.value = b"an illegal address"

    def do_device_name(self, name: Any, length: Any, device: Any) -> None:
        name.value = b"Fake"

    def do_cuDeviceGetAttribute(self, value: Any, number: Any, device: Any) -> None:
        value._obj.value = self.capability[number.value - 75]

    def do_allocate(self, address: Any, size: Any) -> None:
        memory = ctypes.create_string_buffer(size.value)
        address._obj.value = ctypes.addressof(memory)
        self.memory[address._obj.value] = memory

    def do_free(self, address: Any) -> None:
        del self.memory[address.value]

    def do_write(self, address: Any, data: Any, size: Any) -> None:
        ctypes.memmove(address.value, data, size.value)

    def do_read(self, data: Any, address: Any, size: Any) -> None:
        ctypes.memmove(data, address.value, size.value)

    def do_load(self, module: Any, code: Any) -> None:
        module._obj.value = 77

    def do_function(self, function: Any, module: Any, name: Any) -> None:
        assert module.value == 77
        function._obj.value = 1000 + len(self.names)
        self.names[function._obj.value] = name.value.decode()

    def do_launch(self, function: Any, *rest: Any) -> None:
        *extents, shared, stream, parameters, extra = rest
        assert (shared.value, stream.value, extra.value) == (0, None, None)
        places = [ctypes.c_void_p.from_address(place).value for place in parameters]
        arrays = [np.frombuffer(self.memory[place or 0], np.float32) for place in places]
        name = self.names[function.value]
        KERNELS[name]([a.view() for a in arrays])
        self.launched.append((name, tuple(e.value for e in extents)))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """An NVIDIA GPU that the engine finds."""
    fake = Library(CUDA)
    monkeypatch.setattr(cuda, "open_device", lambda: CudaDriver(fake))
    return fake


def test_a_chain_of_kernels_runs_again_and_again(library: Library):
    executable = CudaEngine().compile(chain(), {})
    for scale in (1, 3):
        d, b = executable.run({"x": X * scale})
        np.testing.assert_allclose(b, -((X * scale) ** 2), rtol=1e-6)
        np.testing.assert_allclose(d, -((X * scale) ** 4), rtol=1e-6)
    extents = (1, 1, 1, 8, 1, 1)
    assert library.launched == 2 * [(name, extents) for name in ("square", "negate", "square", "negate")]
    # The context is current before anything is allocated, in whatever thread runs.
    assert library.calls.index("cuCtxSetCurrent") < library.calls.index("cuMemAlloc_v2")
    assert library.calls.count("cuCtxSetCurrent") == 3


def test_parameters_are_uploaded_once(library: Library):
    add = kernel("f32", "%y = arith.addf %x, %x : f32", name="double")
    body = "%a = memref.alloc() : memref<8xf32>\nLAUNCH double (%w, %a)"
    arguments = f'{INPUT}, %w: {VECTOR} {{rlx.param = "w"}}'
    executable = CudaEngine().compile(host(body, arguments, f"{VECTOR}, {VECTOR}", "%a, %x", add), {"w": X})
    assert library.calls.count(CUDA.write) == 1
    for _ in range(3):
        doubled, same = executable.run({"x": X + 1})
        np.testing.assert_array_equal(doubled, 2 * X)
        np.testing.assert_array_equal(same, X + 1)
    assert library.calls.count(CUDA.write) == 4
    assert library.calls.count(CUDA.allocate) == 3


def test_launches_alone_copy_nothing(library: Library):
    executable = CudaEngine().compile(chain(), {})
    executable.run({"x": X})
    copies = [library.calls.count(name) for name in (CUDA.write, CUDA.read)]
    executable.launch()
    assert [library.calls.count(name) for name in (CUDA.write, CUDA.read)] == copies
    assert library.calls[-1] == "cuCtxSynchronize"
    assert len(library.launched) == 8


def test_memory_is_given_back(library: Library):
    executable = CudaEngine().compile(chain(), {})
    executable.run({"x": X})
    assert len(library.memory) == 4
    del executable
    gc.collect()
    assert library.memory == {}


def test_a_graph_without_kernels_loads_nothing(library: Library):
    module = parse("func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { func.return %x : tensor<8xf32> }")
    (y,) = CudaEngine().compile(lower(module, "cuda"), {}).run({"arg0": X})
    np.testing.assert_array_equal(y, X)
    assert CUDA.load not in library.calls


def test_a_failing_call_is_named_with_the_drivers_words(library: Library):
    executable = CudaEngine().compile(chain(), {})
    library.broken = "wait"
    with pytest.raises(DeviceError, match="NVIDIA: cuCtxSynchronize failed with status 700: an illegal address"):
        executable.launch()


@pytest.mark.parametrize(("capability", "chip"), [((8, 0), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90"),
                                                  ((12, 0), "sm_90")])  # fmt: skip
def test_the_newest_code_that_a_device_takes(capability: tuple[int, int], chip: str):
    assert chip_for(CudaDriver(Library(CUDA, capability))) == chip


def test_an_old_device_is_refused():
    with pytest.raises(DeviceError, match="'Fake' is a sm_75; code is written for sm_80 and newer"):
        chip_for(CudaDriver(Library(CUDA, (7, 5))))


def test_amd_takes_the_code_object_of_its_chip(monkeypatch: pytest.MonkeyPatch):
    fake = Library(HIP, takes=FLAGS["gfx1100"])
    monkeypatch.setattr(hip, "open_device", lambda: HipDriver(fake))
    executable = HipEngine().compile(chain(), {})
    d, b = executable.run({"x": X})
    np.testing.assert_allclose(b, -(X**2), rtol=1e-6)
    np.testing.assert_allclose(d, -(X**4), rtol=1e-6)
    # gfx942 first, which it refuses; then its own, to try and to run.
    assert fake.calls.count("hipModuleLoadData") == 3
    fake.takes = 0x36
    with pytest.raises(DeviceError, match="'Fake' takes the code of no chip that is written for:\ngfx942: AMD: "):
        HipEngine().compile(chain(), {})


@pytest.mark.parametrize("module", [cuda, hip])
def test_no_driver(module: Any, monkeypatch: pytest.MonkeyPatch):
    def nothing(name: str):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", nothing)
    module.open_device.cache_clear()
    with pytest.raises(ToolMissing, match="GPU can be used here: "):
        module.open_device()


def test_truth_values_and_constants_cross_the_border(library: Library):
    module = parse("""
      func.func @main(%b: tensor<3xi1>) -> (tensor<3xi1>, tensor<2xf32>) {
        %c = rlx.constant dense<[1.0, 2.5]> : tensor<2xf32>
        func.return %b, %c : tensor<3xi1>, tensor<2xf32>
      }""")
    values = np.array([True, False, True])
    b, c = CudaEngine().compile(lower(module, "cuda"), {}).run({"arg0": values})
    np.testing.assert_array_equal(b, values)
    np.testing.assert_array_equal(c, [1.0, 2.5])


def test_executables_of_one_driver_are_apart(library: Library):
    first: DriverExecutable = CudaEngine().compile(chain(), {})
    second = CudaEngine().compile(host("%a = memref.alloc() : memref<8xf32>\nLAUNCH negate (%x, %a)", INPUT, VECTOR,
                                       "%a", NEGATE, SQUARE), {})  # fmt: skip
    kept = first.run({"x": X})[0]
    (negated,) = second.run({"x": X})
    np.testing.assert_array_equal(negated, -X)
    np.testing.assert_array_equal(first.run({"x": X})[0], kept)
