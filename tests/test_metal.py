"""The Metal engine against a stand-in for PyObjC's module, and what its text says of buffers and workgroups."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_code import BUFFER, SIGNATURE
from helpers import parse
from on_device import lower
from test_cuda import KERNELS
from test_spirv import EXP, kernel, module
from test_wgpu import INPUT, VECTOR, X, chain, host

from rlx_dialect.runtime import metal
from rlx_dialect.runtime.kernels import DeviceError
from rlx_dialect.runtime.metal import MetalEngine
from rlx_dialect.runtime.spirv import serialize
from rlx_dialect.runtime.toolchain import ToolMissing


class Buffer:
    def __init__(self, size: int):
        self.memory = bytearray(size)

    def contents(self) -> Any:
        return SimpleNamespace(as_buffer=lambda size: memoryview(self.memory)[:size])


class Options:
    def __init__(self):
        self.fast: bool | None = None

    def respondsToSelector_(self, name: str) -> bool:
        return False

    def setFastMathEnabled_(self, fast: bool) -> None:
        self.fast = fast


class Device:
    """A GPU of Apple's that runs kernels by name when they are waited for."""

    def __init__(self):
        self.sources: dict[str, str] = {}
        self.most_threads = 1024
        self.width = 32
        self.error: str | None = None
        self.refuses = False
        self.launched: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
        self.encoders = 0

    # What PyObjC calls the methods.

    def name(self) -> str:
        return "Fake"

    def maxBufferLength(self) -> int:
        return 1 << 20

    def newCommandQueue(self) -> Any:
        return SimpleNamespace(commandBuffer=lambda: Commands(self))

    def newBufferWithLength_options_(self, size: int, options: int) -> Buffer:
        assert options == 0
        return Buffer(size)

    def newLibraryWithSource_options_error_(self, source: str, options: Options, error: None) -> tuple[Any, Any]:
        assert options.fast is False
        if self.refuses:
            return None, "no such word"
        for name in re.findall(r"kernel void (\w+)\(", source):
            self.sources[name] = source
        return SimpleNamespace(newFunctionWithName_=lambda name: name if name in self.sources else None), None

    def newComputePipelineStateWithFunction_error_(self, function: str, error: None) -> tuple[Any, Any]:
        state = SimpleNamespace(
            kernel=function,
            maxTotalThreadsPerThreadgroup=lambda: self.most_threads,
            threadExecutionWidth=lambda: self.width,
        )
        return state, None


class Commands:
    def __init__(self, device: Device):
        self.device = device
        self.steps: list[tuple[str, list[Buffer], tuple[int, ...], tuple[int, ...]]] = []
        self.state: Any = None
        self.bound: dict[int, Buffer] = {}
        self.committed = False

    def computeCommandEncoder(self) -> Commands:
        self.device.encoders += 1
        return self

    def setComputePipelineState_(self, state: Any) -> None:
        self.state = state

    def setBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, index: int) -> None:
        assert offset == 0
        self.bound[index] = buffer

    def dispatchThreadgroups_threadsPerThreadgroup_(self, groups: tuple[int, ...], block: tuple[int, ...]) -> None:
        # By the indices that the text asks for, not in the order they were set.
        signature = SIGNATURE.search(self.device.sources[self.state.kernel])
        assert signature is not None
        places = {int(argument): int(index) for argument, index in BUFFER.findall(signature[2])}
        self.steps.append((self.state.kernel, [self.bound[places[i]] for i in sorted(places)], groups, block))

    def endEncoding(self) -> None:
        pass

    def commit(self) -> None:
        self.committed = True

    def waitUntilCompleted(self) -> None:
        assert self.committed
        for name, buffers, groups, block in self.steps:
            # SPIRV-Cross puts a dash before what is a word of the language.
            KERNELS[name.strip("_")]([np.frombuffer(b.memory, np.float32) for b in buffers])
            self.device.launched.append((name, groups, block))

    def error(self) -> str | None:
        return self.device.error


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    fake = Device()
    api = SimpleNamespace(
        MTLCreateSystemDefaultDevice=lambda: fake,
        MTLCompileOptions=SimpleNamespace(alloc=lambda: SimpleNamespace(init=Options)),
        MTLResourceStorageModeShared=0,
        MTLSize=lambda *sizes: sizes,
    )
    monkeypatch.setattr(metal, "metal_api", lambda: api)
    monkeypatch.setattr(metal, "open_device", lambda: fake)
    return fake


def test_a_chain_of_kernels_runs_again_and_again(device: Device):
    executable = MetalEngine().compile(chain(), {})
    for scale in (1, 3):
        d, b = executable.run({"x": X * scale})
        np.testing.assert_allclose(b, -((X * scale) ** 2), rtol=1e-6)
        np.testing.assert_allclose(d, -((X * scale) ** 4), rtol=1e-6)
    assert device.launched[:2] == [("square", (1, 1, 1), (8, 1, 1)), ("negate", (1, 1, 1), (8, 1, 1))]
    assert device.encoders == 2
    executable.launch()
    assert len(device.launched) == 12


def test_parameters_stay(device: Device):
    add = kernel("f32", "%y = arith.addf %x, %x : f32", name="double")
    body = "%a = memref.alloc() : memref<8xf32>\nLAUNCH double (%w, %a)"
    arguments = f'{INPUT}, %w: {VECTOR} {{rlx.param = "w"}}'
    weights = {"w": X.copy()}
    executable = MetalEngine().compile(host(body, arguments, f"{VECTOR}, {VECTOR}", "%a, %x", add), weights)
    # A word of Metal's language: the text calls the kernel otherwise.
    assert list(device.sources) == ["_double"]
    weights["w"][:] = 0
    doubled, same = executable.run({"x": X + 1})
    np.testing.assert_array_equal(doubled, 2 * X)
    np.testing.assert_array_equal(same, X + 1)


def test_misfits_are_listed(device: Device):
    device.most_threads = 4
    with pytest.raises(DeviceError) as error:
        MetalEngine().compile(chain(), {})
    assert str(error.value) == (
        "device 'Fake' cannot run this graph:\n"
        "kernel 'square' wants 8 threads in a threadgroup, at most 4\n"
        "kernel 'negate' wants 8 threads in a threadgroup, at most 4"
    )


def test_threads_exchange_only_in_simdgroups_of_the_width_that_kernels_were_written_for(device: Device):
    vector = "tensor<512xf32>"
    row = parse(f"""func.func @main(%x: {vector} {{rlx.input = "x"}}) -> {vector} {{
      %0 = rlx.softmax %x {{axis = -1}} : {vector} -> {vector}
      func.return %0 : {vector}
    }}""")
    MetalEngine().compile(lower(row, "metal"), {})
    device.width = 8
    with pytest.raises(DeviceError, match="wants simdgroups of 32 threads, not of 8"):
        MetalEngine().compile(lower(row, "metal"), {})
    MetalEngine().compile(chain(), {})


def test_what_metal_says_is_passed_on(device: Device):
    executable = MetalEngine().compile(chain(), {})
    device.error = "a fault"
    with pytest.raises(DeviceError, match="Metal stopped the kernels: a fault"):
        executable.run({"x": X})
    device.refuses = True
    with pytest.raises(DeviceError, match="Metal refuses kernel 'negate': no such word"):
        MetalEngine().compile(chain(), {})


def test_no_metal_and_no_gpu(monkeypatch: pytest.MonkeyPatch):
    metal.open_device.cache_clear()
    monkeypatch.setattr(metal, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match=r"pip install pyobjc-framework-Metal .*\n?.*--engine=wgpu"):
        metal.open_device()
    monkeypatch.setattr(metal, "metal_api", lambda: SimpleNamespace(MTLCreateSystemDefaultDevice=lambda: None))
    with pytest.raises(DeviceError, match="Metal found no GPU"):
        metal.open_device()


def test_buffers_lie_at_the_indices_of_their_arguments():
    """Also where a kernel does not touch one of them."""
    untouched = (
        kernel("f32", EXP).replace(f"({VECTOR}, ", f"({VECTOR}, {VECTOR}, ").replace("%b:", f"%u: {VECTOR}, %b:")
    )
    (compiled,) = serialize(module(untouched))
    signature = SIGNATURE.search(compiled.msl())
    assert signature is not None
    assert dict(BUFFER.findall(signature[2])).items() >= {("0", "0"), ("2", "2")}
