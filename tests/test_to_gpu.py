"""``rlx-lower-to-gpu``: results and constants, what is decomposed, what is refused, and every target."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import assert_close, assert_round_trip, graph, parse
from on_device import check, kernel_names, launches, lower, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_gpu import LoweringError, LowerToGpu, conversion
from rlx_dialect.lowering.to_gpu.conversion import LOWERINGS
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.ops.convolution import PoolOp
from rlx_dialect.ops.indexing import ScatterAddOp
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.launch_plan import launch_plan
from rlx_dialect.runtime.spirv import metal_source, serialize
from rlx_dialect.runtime.toolchain import portable_text
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import print_module


def test_results_that_are_inputs_intermediates_and_equal():
    module = parse("""
      func.func @main(%x: tensor<3x5xf32> {rlx.input = "x"}, %w: tensor<5xf32> {rlx.param = "w"})
          -> (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<5xf32>, tensor<15xf32>, tensor<3x5xf32>) {
        %0 = rlx.binary add %x, %w : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
        %1 = rlx.binary mul %0, %0 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
        %2 = rlx.reshape %x {new_shape = [15]} : tensor<3x5xf32> -> tensor<15xf32>
        func.return %x, %0, %1, %w, %2, %0
          : tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<5xf32>, tensor<15xf32>, tensor<3x5xf32>
      }""")
    lowered = check(module)
    assert launches(lowered) == 2


def test_a_graph_without_kernels():
    lowered = check(graph("", "%x: tensor<2x3xf32>", "tensor<2x3xf32>", "%x"))
    assert launches(lowered) == 0
    assert_round_trip(lowered)


def test_constants_are_literals_or_globals():
    module = parse("""
      !x = tensor<2x3xf32>
      !v = tensor<3xf32>
      !b = tensor<2x2xi1>
      !h = tensor<3xf16>
      func.func @main(%x: !x) -> (!x, !x, !x, !b, !h, !v, !h, !h) {
        %one = rlx.constant dense<1.5> : !x
        %v = rlx.constant dense<[1.0, -2.0, 4.0]> : !v
        %low = rlx.constant dense<"0x000080FF000080BF0000C07F"> : !v
        %t = rlx.constant dense<[[true, false], [false, true]]> : !b
        %h = rlx.constant dense<[0.5, 65504.0, -1.0]> : !h
        %inf = rlx.constant dense<"0x007C00BC00FC"> : !h
        %0 = rlx.binary add %x, %one : (!x, !x) -> !x
        %1 = rlx.binary mul %x, %v : (!x, !v) -> !x
        %2 = rlx.binary max %x, %low : (!x, !v) -> !x
        %3 = rlx.activation neg %inf : !h
        func.return %0, %1, %2, %t, %h, %low, %3, %inf : !x, !x, !x, !b, !h, !v, !h, !h
      }""")
    lowered = check(module)
    # As text too: the bits of numbers that are not finite go through xDSL's parser.
    values = random_values(module)
    again = parse(print_module(lowered))
    assert_close(WgpuEngine().compile(again, {}).run(values), run_reference(module, values))


@pytest.mark.parametrize("number", ["0x7F800000", "0xFF800000", "0x7FC00000"])
def test_literals_that_are_not_finite(number: str):
    bits = int(number, 16).to_bytes(4, "little").hex().upper()
    body = f'%c = rlx.constant dense<"0x{bits}"> : tensor<1xf32>\n'
    body += "%y = rlx.binary max %x, %c : (tensor<4x3xf32>, tensor<1xf32>) -> tensor<4x3xf32>"
    check(graph(body, "%x: tensor<4x3xf32>", "tensor<4x3xf32>", "%y"))


def test_extents_of_0():
    module = parse("""
      !e = tensor<3x0xf32>
      !v = tensor<0xf32>
      func.func @main(%x: !e, %w: tensor<0x4xf32>, %g: !v, %b: tensor<4xf32>, %y: tensor<3x2xf32>, %i: tensor<0xi32>)
          -> (!e, !e, !e, tensor<3xf32>, tensor<3xf32>, tensor<3x4xf32>, tensor<3x2xf32>, tensor<0x2xf32>,
              tensor<0x4xf32>) {
        %0 = rlx.activation exp %x : !e
        %1 = rlx.softmax %x : !e
        %2 = rlx.layer_norm %x, %g, %g {eps = 1.0e-5} : (!e, !v, !v) -> !e
        %3 = rlx.reduce sum %x {axes = [1]} : !e -> tensor<3xf32>
        %4 = rlx.reduce max %x {axes = [1]} : !e -> tensor<3xf32>
        %5 = rlx.fused_matmul_bias_act relu %x, %w, %b : (!e, tensor<0x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
        %6 = rlx.concat %x, %y {axis = 1} : (!e, tensor<3x2xf32>) -> tensor<3x2xf32>
        %7 = rlx.gather %y, %i : (tensor<3x2xf32>, tensor<0xi32>) -> tensor<0x2xf32>
        func.return %0, %1, %2, %3, %4, %5, %6, %7, %w
          : !e, !e, !e, tensor<3xf32>, tensor<3xf32>, tensor<3x4xf32>, tensor<3x2xf32>, tensor<0x2xf32>, tensor<0x4xf32>
      }""")
    check(module)


def test_equal_operations_share_a_kernel():
    type = "tensor<6x5xf32>"
    body = "\n".join(f"%y{i + 1} = rlx.activation silu %y{i} : {type}" for i in range(4))
    lowered = check(graph(body, f"%y0: {type}", type, "%y4"))
    assert kernel_names(lowered) == ["map_silu"]
    assert launches(lowered) == 4


def test_attention_rope_and_swiglu_are_decomposed():
    module = parse("""
      !x = tensor<2x5x12xf32>
      !c = tensor<5x2xf32>
      !half = tensor<2x5x6xf32>
      func.func @main(%q: !x, %k: !x, %c: !c) -> (!x, !half) {
        %0 = rlx.rope %q, %c, %c {head_dim = 4, n_rot = 4, layout = bsd} : (!x, !c, !c) -> !x
        %1 = rlx.attention causal %0, %k, %k {num_heads = 3, head_dim = 4, layout = bsd} : (!x, !x, !x) -> !x
        %2 = rlx.fused_swiglu %k : !x -> !half
        func.return %1, %2 : !x, !half
      }""")
    check(module, atol=1e-5)


def refused(module: ModuleOp, target: str = "wgpu") -> list[str]:
    """The problems that a refusal lists."""
    with pytest.raises(LoweringError) as error:
        lower(module, target)
    assert str(error.value).count("\n") == len(error.value.problems)
    return list(error.value.problems)


@pytest.fixture
def fewer_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two operations that are not made of simpler ones have no kernels."""
    kept = LOWERINGS.get
    missing = (PoolOp, ScatterAddOp)
    monkeypatch.setattr(LOWERINGS, "get", lambda op_type: None if op_type in missing else kept(op_type))


@pytest.mark.usefixtures("fewer_kernels")
def test_all_that_is_not_lowered_is_one_error():
    module = parse("""
      !x = tensor<1x2x5x5xf32>
      !y = tensor<1x2x3x3xf32>
      !v = tensor<4xf32>
      func.func @main(%x: !x, %i: tensor<2xi64>) -> (!y, !v) {
        %c = rlx.pool max %x {kernel_size = [3, 3]} : !x -> !y
        %a = rlx.activation relu %c : !y
        %z = rlx.constant dense<0.0> : !v
        %u = rlx.constant dense<1.0> : tensor<2xf32>
        %s = rlx.scatter_add %z, %i, %u : (!v, tensor<2xi64>, tensor<2xf32>) -> !v
        func.return %a, %s : !y, !v
      }""")
    with pytest.raises(LoweringError) as error:
        lower(module)
    assert str(error.value) == (
        "2 operations not yet lowered to gpu for wgpu:\n"
        "  rlx.pool %c: it has no kernel and is not made of simpler operations\n"
        "  rlx.scatter_add %s: it has no kernel and is not made of simpler operations"
    )


@pytest.mark.usefixtures("fewer_kernels")
def test_a_part_of_a_decomposition_names_the_whole():
    types = "(tensor<2x6x4xf32>, tensor<2x6xi64>) -> tensor<7x4xf32>"
    body = f"%y = rlx.gather_backward %g, %i {{extent = 7}} : {types}"
    (problem,) = refused(graph(body, "%g: tensor<2x6x4xf32>, %i: tensor<2x6xi64>", "tensor<7x4xf32>", "%y"))
    assert problem.startswith("rlx.scatter_add")
    assert ", a part of rlx.gather_backward %y: it has no kernel" in problem


def test_what_needs_to_know_an_extent_is_refused_by_name():
    body = "%y = rlx.roll %x {shifts = [1], dims = [0]} : tensor<?x3xf32>"
    assert refused(graph(body, "%x: tensor<?x3xf32>", "tensor<?x3xf32>", "%y")) == [
        "rlx.roll %y: the remainder of 1 and d0.0 is known only when the graph runs"
    ]


LOOPS = """
  !v = tensor<4xf32>
  !x = tensor<6x4xf32>
  func.func @main(%s: !v, %x: !x) -> (!v, !v) {
    %s1 = rlx.scan(%s, %x) {length = 6} : (!v, !x) -> !v {
    ^bb0(%carry: !v, %step: !v):
      %n = rlx.binary add %carry, %step : (!v, !v) -> !v
      rlx.yield %n : !v
    }
    %w1 = rlx.while(%s) BOUND: !v -> !v {
    ^bb0(%a: !v):
      %m = rlx.reduce max %a {axes = [0]} : !v -> tensor<f32>
      %z = rlx.constant dense<9.0> : tensor<f32>
      %c = rlx.compare lt %m, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
      rlx.yield %c : tensor<i1>
    } do {
    ^bb0(%a: !v):
      %w = rlx.binary add %a, %a : (!v, !v) -> !v
      rlx.yield %w : !v
    }
    func.return %s1, %w1 : !v, !v
  }"""


def test_loops_become_straight_line_code_up_to_a_limit(monkeypatch: pytest.MonkeyPatch):
    module = parse(LOOPS.replace("BOUND", "{max_iterations = 3} "))
    check(module)
    monkeypatch.setattr(conversion, "MAX_ROUNDS", 5)
    assert refused(module) == [
        f"rlx.{name}: with its {count} iterations, loops run more than 5 times, each launched alone"
        for name, count in (("scan %s1", 6), ("while %w1", 3))
    ]


def test_a_loop_without_a_bound_is_among_the_problems():
    assert refused(parse(LOOPS.replace("BOUND", ""))) == [
        "rlx.while %w1: it has no max_iterations, and the target has no loops of launches"
    ]


@pytest.mark.parametrize("element", ["bf16", "f64", "i8", "i16", "complex<f32>"])
@pytest.mark.parametrize("target", ["wgpu", "metal"])
def test_elements_that_a_target_has_no_buffers_for(element: str, target: str):
    type = tensor("2x3", element)
    assert refused(graph(f"%y = rlx.stop_gradient %x : {type}", f"%x: {type}", type, "%y"), target) == [
        f"argument %x of @main: {target} has no buffers of {element}",
        f"rlx.stop_gradient %y: {target} has no buffers of {element}",
    ]


def test_other_dialects_and_resources_are_refused():
    module = parse("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %c = rlx.constant dense_resource<w> : tensor<2xf32>
        %0 = rlx.binary add %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        %sum = arith.addf %0, %0 : tensor<2xf32>
        func.return %sum : tensor<2xf32>
      }""")
    assert refused(module) == [
        "rlx.constant %c: its value lies in a resource outside the IR",
        "arith.addf %sum: it is not of the RLX dialect",
    ]


def test_an_unknown_target_is_refused():
    with pytest.raises(ValueError, match="unknown target 'tpu'; known targets: metal, wgpu, cuda, rocm"):
        LowerToGpu("tpu")


def test_grids_beyond_a_limit_are_folded():
    count = 65535 * 256 + 300
    lowered = lower(
        graph(
            f"%y = rlx.activation neg %x : tensor<{count}xf32>",
            f"%x: tensor<{count}xf32>",
            f"tensor<{count}xf32>",
            "%y",
        )
    )
    (launch,) = launch_plan(lowered).launches
    x, y, z = launch.groups
    assert (y, z) == (2, 1)
    assert x <= 65535
    assert x * y * 256 >= count


def test_a_folded_grid_covers_every_element_once(monkeypatch: pytest.MonkeyPatch):
    small = replace(HARDWARE["wgpu"], max_groups=13)
    monkeypatch.setitem(HARDWARE, "wgpu", small)
    module = parse("""
      func.func @main(%x: tensor<6000xf32>, %y: tensor<2000x20xf32>, %i: tensor<2000xi32>)
          -> (tensor<6000xf32>, tensor<2000xf32>, tensor<2000x20xf32>, tensor<2000x20xf32>) {
        %0 = rlx.activation neg %x : tensor<6000xf32>
        %1 = rlx.reduce sum %y {axes = [1]} : tensor<2000x20xf32> -> tensor<2000xf32>
        %2 = rlx.gather %y, %i : (tensor<2000x20xf32>, tensor<2000xi32>) -> tensor<2000x20xf32>
        %3 = rlx.trilu %y : tensor<2000x20xf32>
        func.return %0, %1, %2, %3 : tensor<6000xf32>, tensor<2000xf32>, tensor<2000x20xf32>, tensor<2000x20xf32>
      }""")
    lowered = check(module)
    assert all(y > 1 for _, y, _ in (launch.groups for launch in launch_plan(lowered).launches))


def test_names_survive():
    module = parse("""
      func.func @net(%x: tensor<2x3xi1> {rlx.input = "x"}, %u: tensor<3xui32> {rlx.param = "u"})
          -> (tensor<2x3xi1> {rlx.output = "same"}, tensor<3xui32>) attributes {rlx.weights = "w.safetensors"} {
        func.return %x, %u : tensor<2x3xi1>, tensor<3xui32>
      }""")
    (function,) = (op for op in lower(module).ops if isinstance(op, FuncOp))
    text = print_module(function)
    assert '@net(%x: memref<2x3xi32> {rlx.input = "x", rlx.element = i1}' in text
    assert '%u: memref<3xi32> {rlx.param = "u", rlx.element = ui32}' in text
    assert '(memref<2x3xi32> {rlx.output = "same", rlx.element = i1}' in text
    assert "rlx.weights" in text


EVERYTHING = """
  !x = tensor<3x70xELEMENT>
  !w = tensor<70x40xELEMENT>
  !v = tensor<40xELEMENT>
  !y = tensor<3x40xELEMENT>
  !b = tensor<3x40xi1>
  !g = tensor<5x70xELEMENT>
  !t = tensor<40x3xELEMENT>
  !i = tensor<5xi32>
  func.func @main(%x: !x, %w: !w, %g: !v, %i: !i, %m: !b)
      -> (!y, !g, !v, !t) {
    %0 = rlx.fused_matmul_bias_act gelu %x, %w, %g : (!x, !w, !v) -> !y
    %1 = rlx.layer_norm %0, %g, %g {eps = 1.0e-5} : (!y, !v, !v) -> !y
    %2 = rlx.activation tanh %1 : !y
    %3 = rlx.where %m, %2, %1 : (!b, !y, !y) -> !y
    %4 = rlx.softmax %3 : !y
    %5 = rlx.gather %x, %i : (!x, !i) -> !g
    %6 = rlx.reduce max %4 {axes = [0]} : !y -> !v
    %7 = rlx.transpose %4 {perm = [1, 0]} : !y -> !t
    func.return %4, %5, %6, %7 : !y, !g, !v, !t
  }"""

TARGET_ELEMENTS = [
    ("metal", "f32"), ("metal", "f16"), ("wgpu", "f32"), ("wgpu", "f16"), ("cuda", "f32"), ("cuda", "f16"),
    ("cuda", "bf16"), ("cuda", "f64"), ("rocm", "f32"), ("rocm", "f16"), ("rocm", "bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "element"), TARGET_ELEMENTS)
def test_mlir_takes_the_lowered_module(target: str, element: str):
    lowered = lower(parse(EVERYTHING.replace("ELEMENT", element)), target)
    toolchain.run("mlir-opt", ["--verify-each"], portable_text(lowered))


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_cuda_kernels_become_ptx(element: str, tmp_path: Path):
    lowered = lower(parse(EVERYTHING.replace("ELEMENT", element)), "cuda")
    passes = (
        "nvvm-attach-target{chip=sm_90 features=+ptx80 O=3},"
        "gpu.module(convert-scf-to-cf,convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=true},reconcile-unrealized-casts),"
        "gpu-module-to-binary{format=isa}"
    )
    text = toolchain.run("mlir-opt", [f"--pass-pipeline=builtin.module({passes})"], portable_text(lowered)).decode()
    (assembly,) = re.findall(r'assembly = "((?:[^"\\]|\\.)*)"', text)
    ptx = re.sub(r"\\([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), assembly)
    assert ptx.count(".entry") == len(kernel_names(lowered))
    if (ptxas := shutil.which("ptxas")) is not None:
        source = tmp_path / "kernels.ptx"
        source.write_text(ptx.rstrip("\\0"))
        subprocess.run([ptxas, "-arch=sm_90", "-o", os.devnull, source], check=True, capture_output=True)


def test_rocm_kernels_call_no_device_library():
    lowered = lower(parse(EVERYTHING.replace("ELEMENT", "f32")), "rocm")
    passes = (
        "lower-affine,rocdl-attach-target{chip=gfx942},gpu.module(convert-scf-to-cf,"
        "convert-gpu-to-rocdl{use-bare-ptr-memref-call-conv=true chipset=gfx942},canonicalize,"
        "reconcile-unrealized-casts)"
    )
    text = toolchain.run("mlir-opt", [f"--pass-pipeline=builtin.module({passes})"], portable_text(lowered)).decode()
    assert "rocdl.kernel" in text
    assert "__ocml" not in text


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_metal_kernels_become_msl(element: str):
    lowered = lower(parse(EVERYTHING.replace("ELEMENT", element)), "metal")
    text = metal_source(serialize(lowered))
    for name in kernel_names(lowered):
        assert f"kernel void {name}(" in text
    assert "threadgroup_barrier" in text
