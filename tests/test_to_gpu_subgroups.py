"""The row schedule with subgroups: what invocations exchange, what goes through shared memory, vectors along rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from emulation import emulate
from helpers import assert_close, graph, parse
from nvidia import assert_assembles
from on_device import lower, several, tensor
from test_to_gpu_contraction import with_hardware
from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp

from rlx_dialect.dtypes import Array, storage_dtype
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.lowering.to_gpu.kernel import SHARED_SPACE
from rlx_dialect.runtime.amd import CHIPS, code_object
from rlx_dialect.runtime.kernels import kernels
from rlx_dialect.runtime.spirv import serialize
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values

ROWS = ["3x1", "7x16", "5x17", "5x64", "3x257", "2x3x96", "4x512", "2x600", "2x2048", "2x4099", "2x5000"]
"""Of a part of a subgroup, of one, of several; held and not; whole vectors and not."""


@pytest.fixture
def subgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowering for wgpu as if its subgroups were of 32, and vectors of 16 bytes."""
    with_hardware(monkeypatch, subgroup=32, held=16, vector_bytes=16)


def found(module: ModuleOp, values: Mapping[str, Array], target: str = "wgpu") -> list[Array]:
    """What the kernels compute; exchanges go through memory, and vectors are taken apart."""
    return WgpuEngine().compile(emulate(lower(module, target)), {}).run(values)


def rows(shapes: Sequence[str], element: str) -> ModuleOp:
    """A softmax, a norm, a sum and a maximum of rows of each shape."""
    arguments: list[str] = []
    body: list[str] = []
    names: list[str] = []
    results: list[str] = []
    for i, shape in enumerate(shapes):
        outer, _, width = shape.rpartition("x")
        x, g, one = tensor(shape, element), tensor(width, element), tensor(outer, element)
        axis = outer.count("x") + 1
        arguments += [f"%x{i}: {x}", f"%g{i}: {g}"]
        body += [
            f"%s{i} = rlx.softmax %x{i} : {x}",
            f"%n{i} = rlx.layer_norm %x{i}, %g{i}, %g{i} {{eps = 1.0e-5}} : ({x}, {g}, {g}) -> {x}",
            f"%r{i} = rlx.reduce sum %x{i} {{axes = [{axis}]}} : {x} -> {one}",
            f"%m{i} = rlx.reduce max %x{i} {{axes = [{axis}]}} : {x} -> {one}",
        ]
        names += [f"%{kind}{i}" for kind in "snrm"]
        results += [x, x, one, one]
    text, types = "\n".join(body), ", ".join(results)
    return parse(
        f"func.func @main({', '.join(arguments)}) -> ({types}) {{\n{text}\nfunc.return {', '.join(names)} : {types}\n}}"
    )


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_values(element: str, subgroups: None):
    module = rows(ROWS, element)
    lowered = {op.name for op in lower(module).walk()}
    assert {"gpu.shuffle", "vector.load", "vector.store", "gpu.barrier"} <= lowered
    values = random_values(module)
    close = {"rtol": 1e-5, "atol": 2e-5} if element == "f32" else {"rtol": 2e-3, "atol": 4e-3}
    assert_close(found(module, values), run_reference(module, values), **close)


def test_metal_s_own_row():
    module = rows(["3x40", "2x700", "2x5000"], "f32")
    values = random_values(module)
    assert_close(found(module, values, "metal"), run_reference(module, values), rtol=1e-5, atol=2e-5)
    assert all("simd_shuffle_xor" in k.msl() for k in serialize(lower(module, "metal")))


def test_numbers_that_are_not_finite(subgroups: None):
    module = rows(["6x1", "6x40", "6x48", "6x700"], "f32")
    values = random_values(module)
    for x in (values[f"arg{i}"] for i in (0, 2, 4, 6)):
        x[0], x[1, -1], x[2, 0], x[3, x.shape[1] // 2] = -np.inf, np.nan, np.inf, -np.inf
        x[4, x.shape[1] // 3 :] = np.nan
    assert_close(found(module, values), run_reference(module, values), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("length", [100, 3000])
def test_integers_and_truth_values(length: int, subgroups: None):
    types = {"i32": "i32", "u": "ui32", "l": "i64", "b": "i1"}
    kinds = {"i32": ("sum", "max", "min"), "u": ("max", "min"), "l": ("sum", "max", "min"), "b": ("max", "min")}
    pairs = [(name, kind) for name, own in kinds.items() for kind in own]
    body = "\n".join(
        f"%y{i} = rlx.reduce {kind} %{name} {{axes = [1]}} : {tensor(f'3x{length}', types[name])} -> "
        f"{tensor('3', types[name])}"
        for i, (name, kind) in enumerate(pairs)
    )
    arguments = ", ".join(f"%{name}: {tensor(f'3x{length}', type)}" for name, type in types.items())
    results = ", ".join(tensor("3", types[name]) for name, _ in pairs)
    names = ", ".join(f"%y{i}" for i in range(len(pairs)))
    module = parse(f"func.func @main({arguments}) -> ({results}) {{\n{body}\nfunc.return {names} : {results}\n}}")
    rng = np.random.default_rng(1)
    truths = np.zeros((3, length), bool)
    truths[1], truths[2, length // 2] = True, True
    values = {
        "arg0": rng.integers(-100, 100, (3, length)).astype(np.int32),
        "arg1": rng.integers(0, 2**32, (3, length)).astype(np.uint32),
        "arg2": rng.integers(-(2**60), 2**60, (3, length)),
        "arg3": truths,
    }
    assert_close(found(module, values), run_reference(module, values))


def test_rows_that_lie_side_by_side_and_slices(subgroups: None):
    """Few long rows are shared; rows of a slice start where vectors are not aligned."""
    module = parse("""
      func.func @main(%x: tensor<2x300x3xf32>, %z: tensor<4x72xf32>)
          -> (tensor<2x300x3xf32>, tensor<4x64xf32>, tensor<4x64xf32>) {
        %0 = rlx.softmax %x {axis = 1} : tensor<2x300x3xf32>
        %a = rlx.narrow %z {axis = 1, start = 4, len = 64} : tensor<4x72xf32> -> tensor<4x64xf32>
        %b = rlx.narrow %z {axis = 1, start = 3, len = 64} : tensor<4x72xf32> -> tensor<4x64xf32>
        %1 = rlx.softmax %a : tensor<4x64xf32>
        %2 = rlx.softmax %b : tensor<4x64xf32>
        func.return %0, %1, %2 : tensor<2x300x3xf32>, tensor<4x64xf32>, tensor<4x64xf32>
      }""")
    values = random_values(module)
    assert_close(found(module, values), run_reference(module, values))


@pytest.mark.parametrize("width", [6, 160, 2100])
def test_residual_norms(width: int, subgroups: None):
    type, vector = f"tensor<2x3x{width}xf32>", f"tensor<{width}xf32>"
    scale = f"tensor<2x1x{width}xf32>"
    module = parse(f"""
      func.func @main(%x: {type}, %r: {type}, %c: {vector}, %g: {vector}, %b: {vector}, %s: {scale})
          -> ({type}, {type}, {type}, {type}) {{
        %0, %1 = rlx.fused_residual_ln %x, %r, %c, %g, %b {{eps = 1.0e-5}}
          : ({type}, {type}, {vector}, {vector}, {vector}) -> ({type}, {type})
        %2 = rlx.fused_residual_rms_norm %x, %r, %g, %b {{eps = 1.0e-5}}
          : ({type}, {type}, {vector}, {vector}) -> {type}
        %3 = rlx.ada_layer_norm layer_norm %x, %s, %b {{eps = 1.0e-5}} : ({type}, {scale}, {vector}) -> {type}
        func.return %0, %1, %2, %3 : {type}, {type}, {type}, {type}
      }}""")
    values = random_values(module)
    assert_close(found(module, values), run_reference(module, values), rtol=1e-5, atol=1e-5)


def test_rows_of_unknown_number_and_length(subgroups: None):
    type, one = "tensor<?x?xf32>", "tensor<?xf32>"
    module = parse(f"""
      func.func @main(%x: {type}, %z: tensor<?x64xf32>) -> ({type}, {one}, tensor<?x64xf32>) {{
        %0 = rlx.softmax %x : {type}
        %1 = rlx.reduce mean %x {{axes = [1]}} : {type} -> {one}
        %2 = rlx.softmax %z : tensor<?x64xf32>
        func.return %0, %1, %2 : {type}, {one}, tensor<?x64xf32>
      }}""")
    executable = WgpuEngine().compile(emulate(lower(module)), {})
    rng = np.random.default_rng(0)
    for count, length in ((1, 1), (3, 7), (40, 33), (2, 1000)):
        values = {n: rng.standard_normal((count, w)).astype(np.float32) for n, w in (("arg0", length), ("arg1", 64))}
        assert_close(executable.run(values), run_reference(module, values), rtol=1e-5, atol=1e-6)


def test_no_barrier_where_a_subgroup_holds_the_row():
    lowered = lower(rows(["100x64", "128x768", "8x1024"], "f16"), "cuda")
    assert not any(isinstance(op, gpu.BarrierOp | memref.GlobalOp) for op in lowered.walk())
    ptx = assert_assembles(lowered)
    assert "bar.sync" not in ptx
    assert {"shfl.sync.bfly.b32", "ld.global.v4.b32", "st.global.v4.b32"} <= set(ptx.split())


def test_one_barrier_a_fold_between_subgroups():
    type = "tensor<4x4096xf32>"
    lowered = lower(graph(f"%y = rlx.softmax %x : {type}", f"%x: {type}", type, "%y"), "cuda")
    assert sum(isinstance(op, gpu.BarrierOp) for op in lowered.walk()) == 2
    (memory,) = [op for op in lowered.walk() if isinstance(op, memref.GlobalOp)]
    # Two places for each of eight subgroups.
    assert memory.type == MemRefType(memory.type.element_type, [16], memory_space=memory.type.memory_space)


def test_wide_numbers_are_exchanged_in_halves():
    operations = [
        several([f"rlx.reduce {kind} %x {{axes = [1]}} : {tensor('3x700', e)} -> {tensor('3', e)}"
                 for kind in ("sum", "max")], f"%x: {tensor('3x700', e)}", tensor("3", e))
        for e in ("f64", "i64", "i8", "bf16")
    ]  # fmt: skip
    for module in operations:
        lowered = lower(module, "cuda")
        types = {op.operands[0].type for op in lowered.walk() if op.name == "gpu.shuffle"}
        assert {str(t) for t in types} <= {"i32", "f32"}
        assert "shfl.sync" in assert_assembles(lowered)


def test_waves_of_amd():
    lowered = lower(rows(["100x64", "3x5000"], "f16"), "rocm")
    for chip in CHIPS:
        compiled = code_object(lowered, chip)
        assert [r for r in compiled.resources() if r.spilled] == []


@pytest.mark.parametrize("name", HARDWARE)
def test_kernels_share_no_more_memory_than_there_is(name: str):
    lowered = lower(rows(ROWS, "f32"), name)
    globals = {op.sym_name.data: op.type for op in lowered.walk() if isinstance(op, memref.GlobalOp)}
    sizes: dict[str, int] = {}
    for kernel in kernels(lowered):
        types = [op.memref.type for op in kernel.walk() if isinstance(op, memref.AllocOp)]
        types += [globals[op.name_.root_reference.data] for op in kernel.walk() if isinstance(op, memref.GetGlobalOp)]
        sizes[kernel.sym_name.data] = sum(map(_bytes, types))
    assert 0 < max(sizes.values()) <= HARDWARE[name].shared_bytes


def _bytes(type: MemRefType) -> int:
    assert type.memory_space is not None
    assert type.memory_space.value.data == SHARED_SPACE
    return int(np.prod(type.get_shape())) * storage_dtype(type.element_type).itemsize


def test_a_kernel_that_shares_too_much_is_refused(monkeypatch: pytest.MonkeyPatch):
    with_hardware(monkeypatch, shared_bytes=512)
    type = "tensor<2x5000xf32>"
    with pytest.raises(LoweringError, match="a kernel shares 1024 bytes in a workgroup, wgpu 512"):
        lower(graph(f"%y = rlx.softmax %x : {type}", f"%x: {type}", type, "%y"))
