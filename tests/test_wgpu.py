"""Host functions and kernels written by hand, planned and run on a device."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers import parse
from on_device import lower
from test_spirv import kernel
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.graph import GraphError
from rlx_dialect.runtime import wgpu as engine
from rlx_dialect.runtime.engine import BindingError
from rlx_dialect.runtime.launch_plan import Launch, launch_plan
from rlx_dialect.runtime.toolchain import ToolMissing
from rlx_dialect.runtime.wgpu import DeviceError, WgpuEngine, open_device

VECTOR = "memref<8xf32>"


def host(body: str, arguments: str, results: str, returned: str, *kernels: str) -> ModuleOp:
    """A module of a host function and kernels; ``LAUNCH name (a, b)`` in the body launches one on 8 invocations."""

    def launch(match: re.Match[str]) -> str:
        operands = [o.strip() for o in match[2].split(",")]
        sizes = f"array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, {len(operands)}, 0>"
        types = ", ".join(["index"] * 6 + [VECTOR] * len(operands))
        return (
            f'"gpu.launch_func"(%c1, %c1, %c1, %c8, %c1, %c1, {", ".join(operands)})'
            f" <{{kernel = @kernels::@{match[1]}, operandSegmentSizes = {sizes}}}> : ({types}) -> ()"
        )

    body = re.sub(r"LAUNCH (\w+) \((.*?)\)", launch, body)
    return parse(f"""
      builtin.module attributes {{gpu.container_module}} {{
        func.func @main({arguments}) -> ({results}) {{
          %c1 = arith.constant 1 : index
          %c8 = arith.constant 8 : index
          {body}
          func.return {returned} : {results}
        }}
        "gpu.module"() <{{sym_name = "kernels"}}> ({{ {" ".join(kernels)} }}) : () -> ()
      }}""")


NEGATE = kernel("f32", "%y = arith.negf %x : f32", name="negate")
SQUARE = kernel("f32", "%y = arith.mulf %x, %x : f32", name="square")
CHAIN = """
  %a = memref.alloc() : memref<8xf32>
  LAUNCH square (%x, %a)
  %b = memref.alloc() : memref<8xf32>
  LAUNCH negate (%a, %b)
  %c = memref.alloc() : memref<8xf32>
  LAUNCH square (%b, %c)
  %d = memref.alloc() : memref<8xf32>
  LAUNCH negate (%c, %d)
"""
X = np.linspace(-2, 2, 8, dtype=np.float32)
INPUT = f'%x: {VECTOR} {{rlx.input = "x"}}'


def chain() -> ModuleOp:
    return host(CHAIN, INPUT, f"{VECTOR}, {VECTOR}", "%d, %b", NEGATE, SQUARE)


def test_a_plan_shares_scratch_but_not_results():
    plan = launch_plan(chain())
    x, d, b = plan.inputs[0], *plan.outputs
    (first, second, third, fourth) = plan.launches
    assert first == Launch("square", (1, 1, 1), (8, 1, 1), (x, first.buffers[1]))
    assert second.buffers == (first.buffers[1], b)
    # %a is free again, and %c may lie there; what is returned keeps its place.
    assert third.buffers == (b, first.buffers[1])
    assert fourth.buffers == (first.buffers[1], d)
    assert len({x, d, b, first.buffers[1]}) == 4
    assert plan.sizes == (32,) * 4


def test_a_chain_of_kernels_runs_again_and_again():
    executable = WgpuEngine().compile(chain(), {})
    for scale in (1, 3):
        d, b = executable.run({"x": X * scale})
        np.testing.assert_allclose(b, -((X * scale) ** 2), rtol=1e-6)
        np.testing.assert_allclose(d, -((X * scale) ** 4), rtol=1e-6)


def test_parameters_are_read_once_and_stay():
    class Once(dict[str, np.ndarray]):
        reads = 0

        def __getitem__(self, key: str) -> np.ndarray:
            self.reads += 1
            return super().__getitem__(key)

    add = kernel("f32", "%y = arith.addf %x, %x : f32", name="double")
    body = "%a = memref.alloc() : memref<8xf32>\nLAUNCH double (%w, %a)"
    arguments = f'{INPUT}, %w: {VECTOR} {{rlx.param = "w"}}'
    weights = Once(w=X.copy(), unused=X)
    executable = WgpuEngine().compile(host(body, arguments, f"{VECTOR}, {VECTOR}", "%a, %x", add), weights)
    assert weights.reads == 1
    dict.__getitem__(weights, "w")[:] = 0
    doubled, same = executable.run({"x": X + 1})
    np.testing.assert_array_equal(doubled, 2 * X)
    np.testing.assert_array_equal(same, X + 1)


def test_what_a_run_needs_is_made_once(monkeypatch: pytest.MonkeyPatch):
    """No buffer, pipeline or binding is made by a run, and it writes nothing but its inputs."""
    add = kernel("f32", "%y = arith.addf %x, %x : f32", name="double")
    body = "%a = memref.alloc() : memref<8xf32>\nLAUNCH double (%w, %a)\nLAUNCH double (%x, %a)"
    module = host(body, f'{INPUT}, %w: {VECTOR} {{rlx.param = "w"}}', VECTOR, "%a", add)
    executable = WgpuEngine().compile(module, {"w": X})
    executable.run({"x": X})
    handle = open_device().handle

    def refuse(*arguments: object, **options: object):
        raise AssertionError("made anew")

    for maker in ("create_buffer", "create_bind_group", "create_compute_pipeline", "create_shader_module"):
        monkeypatch.setattr(type(handle), maker, refuse)
    written: list[int] = []
    write = type(handle.queue).write_buffer

    def count(queue: object, buffer: object, offset: int, data: bytes):
        written.append(len(data))
        write(queue, buffer, offset, data)  # pyright: ignore

    monkeypatch.setattr(type(handle.queue), "write_buffer", count)
    (y,) = executable.run({"x": X + 1})
    np.testing.assert_array_equal(y, 2 * (X + 1))
    assert written == [32]


def test_launches_alone_work_on_what_the_buffers_hold():
    executable = WgpuEngine().compile(chain(), {})
    expected = executable.run({"x": X})
    executable.launch()
    for found, value in zip(executable.run({"x": X}), expected, strict=True):
        np.testing.assert_array_equal(found, value)


def test_results_are_copies():
    executable = WgpuEngine().compile(chain(), {})
    first = executable.run({"x": X})[0]
    kept = first.copy()
    executable.run({"x": X + 1})
    np.testing.assert_array_equal(first, kept)


def test_views_of_one_buffer_share_it():
    cast = "memref.reinterpret_cast"
    body = f"""
      %f = {cast} %x to offset: [0], sizes: [8], strides: [1] : memref<2x4xf32> to {VECTOR}
      %a = memref.alloc() : {VECTOR}
      LAUNCH negate (%f, %a)
      %r = {cast} %a to offset: [0], sizes: [4, 2], strides: [2, 1] : {VECTOR} to memref<4x2xf32>"""
    lowered = host(body, "%x: memref<2x4xf32>", "memref<4x2xf32>", "%r", NEGATE)
    (y,) = WgpuEngine().compile(lowered, {}).run({"arg0": X.reshape(2, 4)})
    np.testing.assert_array_equal(y, -X.reshape(4, 2))


def test_a_buffer_may_be_bound_twice():
    add = f"""
      "gpu.func"() <{{function_type = ({VECTOR}, {VECTOR}, {VECTOR}) -> ()}}> ({{
      ^bb0(%a: {VECTOR}, %b: {VECTOR}, %c: {VECTOR}):
        %t = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
        %x = memref.load %a[%t] : {VECTOR}
        %z = memref.load %b[%t] : {VECTOR}
        %y = arith.addf %x, %z : f32
        memref.store %y, %c[%t] : {VECTOR}
        "gpu.return"() : () -> ()
      }}) {{sym_name = "add", gpu.kernel, known_block_size = array<i32: 8, 1, 1>}} : () -> ()"""
    body = "%a = memref.alloc() : memref<8xf32>\nLAUNCH add (%x, %x, %a)"
    (y,) = WgpuEngine().compile(host(body, INPUT, VECTOR, "%a", add), {}).run({"x": X})
    np.testing.assert_array_equal(y, 2 * X)


def test_odd_numbers_of_f16_and_truth_values():
    module = parse("""
      func.func @main(%h: tensor<5xf16> {rlx.input = "h"}, %b: tensor<3xi1> {rlx.input = "b"},
                      %s: tensor<f16> {rlx.input = "s"}) -> (tensor<5xf16>, tensor<3xi1>, tensor<f16>) {
        %0 = rlx.binary add %h, %s : (tensor<5xf16>, tensor<f16>) -> tensor<5xf16>
        func.return %0, %b, %s : tensor<5xf16>, tensor<3xi1>, tensor<f16>
      }""")
    values = {
        "h": np.arange(5, dtype=np.float16),
        "b": np.array([True, False, True]),
        "s": np.array(0.5, np.float16),
    }
    h, b, s = WgpuEngine().compile(lower(module), {}).run(values)
    np.testing.assert_array_equal(h, values["h"] + np.float16(0.5))
    np.testing.assert_array_equal(b, values["b"])
    np.testing.assert_array_equal(s, values["s"])
    assert (h.dtype, b.dtype, s.dtype) == (np.float16, np.bool_, np.float16)
    assert s.shape == ()


def test_misfits_are_named():
    executable = WgpuEngine().compile(chain(), {})
    with pytest.raises(BindingError, match="input 'x' must be f32 of shape 8, got float64 of shape 4"):
        executable.run({"x": np.zeros(4)})
    with pytest.raises(BindingError, match="input 'x' is missing: expected f32 of shape 8"):
        executable.run({})
    arguments = f'%w: {VECTOR} {{rlx.param = "w"}}'
    with pytest.raises(BindingError, match="parameter 'w' is missing: expected f32 of shape 8"):
        WgpuEngine().compile(host("", arguments, VECTOR, "%w", NEGATE), {})


def test_truth_values_must_be_truth_values():
    module = parse("func.func @main(%b: tensor<3xi1>) -> tensor<3xi1> { func.return %b : tensor<3xi1> }")
    executable = WgpuEngine().compile(lower(module), {})
    with pytest.raises(BindingError, match="input 'arg0' must be i1 of shape 3, got int32 of shape 3"):
        executable.run({"arg0": np.zeros(3, np.int32)})


def test_other_operations_on_the_host_are_refused():
    body = "%a = memref.load %x[%c1] : memref<8xf32>"
    with pytest.raises(GraphError, match=r"'memref\.load' has no place in the host function"):
        launch_plan(host(body, INPUT, VECTOR, "%x", NEGATE))


def test_all_limits_are_listed(monkeypatch: pytest.MonkeyPatch):
    device = open_device()
    limits = dict(device.limits)
    limits["max-storage-buffers-per-shader-stage"] = 1
    limits["max-storage-buffer-binding-size"] = 16
    small = replace(device, name="small", features=frozenset(), limits=limits)
    monkeypatch.setattr(engine, "open_device", lambda: small)
    module = parse("""
      func.func @main(%h: tensor<16xf16>, %i: tensor<2xi64>) -> (tensor<16xf16>, tensor<2xi64>) {
        %0 = rlx.activation neg %h : tensor<16xf16>
        %1 = rlx.activation neg %i : tensor<2xi64>
        func.return %0, %1 : tensor<16xf16>, tensor<2xi64>
      }""")
    with pytest.raises(DeviceError) as error:
        WgpuEngine().compile(lower(module), {})
    assert str(error.value) == (
        "device 'small' cannot run this graph:\n"
        "kernel 'map_neg' needs shader-f16\n"
        "kernel 'map_neg_1' needs shader-int64\n"
        "kernel 'map_neg' takes 2 buffers, at most 1\n"
        "kernel 'map_neg_1' takes 2 buffers, at most 1\n"
        "a buffer of 32 bytes, at most 16"
    )


def test_grids_beyond_the_device_are_refused(monkeypatch: pytest.MonkeyPatch):
    device = open_device()
    small = replace(device, limits={**device.limits, "max-compute-workgroups-per-dimension": 2})
    monkeypatch.setattr(engine, "open_device", lambda: small)
    module = parse("""
      func.func @main(%x: tensor<1000xf32>) -> tensor<1000xf32> {
        %0 = rlx.activation neg %x : tensor<1000xf32>
        func.return %0 : tensor<1000xf32>
      }""")
    with pytest.raises(DeviceError, match="kernel 'map_neg' is launched on 4x1x1 workgroups, at most 2 a dimension"):
        WgpuEngine().compile(lower(module), {})


def test_a_kernel_that_wgpu_refuses_is_named():
    infinite = kernel("f32", "%i = arith.constant 0x7F800000 : f32\n%y = arith.addf %x, %i : f32", name="infinite")
    body = "%a = memref.alloc() : memref<8xf32>\nLAUNCH infinite (%x, %a)"
    with pytest.raises(DeviceError, match=r"wgpu refuses kernel 'infinite': (.|\n)*infinite"):
        WgpuEngine().compile(host(body, INPUT, VECTOR, "%a", infinite), {})


def test_no_adapter_and_no_wgpu(monkeypatch: pytest.MonkeyPatch):
    import wgpu

    def nothing(**options: object):
        raise RuntimeError("Request adapter failed")

    open_device.cache_clear()
    monkeypatch.setattr(wgpu.gpu, "request_adapter_sync", nothing)
    with pytest.raises(DeviceError, match=r"wgpu found no adapter(.|\n)*mesa-vulkan-drivers"):
        open_device()
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match=r"pip install 'rlx-dialect\[gpu\]'"):
        open_device()
    open_device.cache_clear()
