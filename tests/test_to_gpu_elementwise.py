"""The map schedule on a device: every kind of every element-wise operation, broadcasting, regions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import on_cpu
import pytest
from helpers import assert_close, graph, parse
from on_device import check, dims, launches, lower, run, several, tensor

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.ops.elementwise import BITWISE, INTEGER_ACTIVATIONS
from rlx_dialect.samples import EDGES, random_values

FLOATS = [*EDGES, 0.5, -0.5, 1.5, -2.5, 3.0, -3.0, 1e-5, 0.1, 7.9, -8.1, 30.0, -30.0, 0.99, -1.01]


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_activations(element: str):
    type = f"tensor<5x67x{element}>"
    kinds = list(ActivationKind)
    module = several([f"rlx.activation {k} %x : {type}" for k in kinds], f"%x: {type}", type)
    values = random_values(module)
    x = values["arg0"].copy()
    with np.errstate(over="ignore"):
        x.ravel()[: len(FLOATS)] = np.array(FLOATS).astype(x.dtype)
    found, expected = run(module, {"arg0": x}), run_reference(module, {"arg0": x})
    # An f16 result may round the other way.
    rtol, atol = (4e-6, 1e-6) if element == "f32" else (1e-3, 1e-6)
    for kind, f, e in zip(kinds, found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=rtol, atol=atol, err_msg=str(kind))


@pytest.mark.parametrize("engine", [run, on_cpu.run])
def test_circular_functions(engine: Callable[..., list[Array]]):
    """Of all f32: next to multiples of a quarter turn, of many turns, of no turn, and of what is no angle."""
    type = "tensor<6000xf32>"
    module = several([f"rlx.activation {k} %x : {type}" for k in ("sin", "cos", "tan")], f"%x: {type}", type)
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-30, 38.5, 4000) * random.choice([-1, 1], 4000)
    quarters = np.arange(-1000, 1000) * (np.pi / 2)
    x = np.concatenate([quarters, sizes]).astype(np.float32)
    x[-4:] = [0, np.inf, -np.inf, np.nan]
    functions = (np.sin, np.cos, np.tan)
    with np.errstate(invalid="ignore"):
        for found, function in zip(engine(module, {"arg0": x}), functions, strict=True):
            np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=4e-7, err_msg=function.__name__)


def test_integer_activations():
    type = "tensor<3x5xi32>"
    kinds = sorted(INTEGER_ACTIVATIONS)
    module = several([f"rlx.activation {k} %x : {type}" for k in kinds], f"%x: {type}", type)
    x = np.arange(-7, 8, dtype=np.int32).reshape(3, 5)
    assert_close(run(module, {"arg0": x}), run_reference(module, {"arg0": x}))


def test_float_binaries():
    type = "tensor<25x25xf32>"
    kinds = [k for k in BinaryKind if k not in BITWISE | {BinaryKind.MOD}]
    pairs = f"({type}, {type}) -> {type}"
    module = several([f"rlx.binary {k} %a, %b : {pairs}" for k in kinds], f"%a: {type}, %b: {type}", type)
    a, b = (np.array(v, np.float32) for v in np.meshgrid(FLOATS, FLOATS))
    values = {"arg0": a, "arg1": b}
    for kind, f, e in zip(kinds, run(module, values), run_reference(module, values), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6, err_msg=str(kind))


def test_float_remainder():
    type = "tensor<4x5xf32>"
    module = graph(f"%y = rlx.binary mod %a, %b : ({type}, {type}) -> {type}", f"%a: {type}, %b: {type}", type, "%y")
    a = np.array([7.5, -7.5, 0.3, 1e6, -0.0, np.inf, np.nan, 1.0, 2.0, -5.25] * 2, np.float32).reshape(4, 5)
    b = np.array([2, 2, 7, 9.5, 3, 2, 1, np.inf, 0, -2.5, -2, -3, 0.25, 4.5, -1, np.inf, 2, -np.inf, np.nan, 3])
    values = {"arg0": a, "arg1": b.astype(np.float32).reshape(4, 5)}
    assert_close(run(module, values), run_reference(module, values), rtol=0, atol=0)


def test_float_remainder_of_any_size():
    """Also of quotients that no float holds."""
    type = "tensor<5000xf32>"
    module = graph(f"%y = rlx.binary mod %a, %b : ({type}, {type}) -> {type}", f"%a: {type}, %b: {type}", type, "%y")
    random = np.random.default_rng(1)
    a, b = (10.0 ** random.uniform(-30, 34, 5000) * random.choice([-1, 1], 5000) for _ in range(2))
    # Quotients next to whole numbers, and equal numbers.
    a[:2000] = np.float32(b[:2000]) * np.arange(2000)
    values = {"arg0": a.astype(np.float32), "arg1": b.astype(np.float32)}
    assert np.isfinite(values["arg0"]).all()
    assert_close(run(module, values), run_reference(module, values), rtol=0, atol=0)


@pytest.mark.parametrize("element", ["i32", "i64", "ui32"])
def test_integer_binaries(element: str):
    type = f"tensor<11x11x{element}>"
    kinds = [k for k in BinaryKind if k is not BinaryKind.ATAN2]
    pairs = f"({type}, {type}) -> {type}"
    module = several([f"rlx.binary {k} %a, %b : {pairs}" for k in kinds], f"%a: {type}, %b: {type}", type)
    unsigned = element.startswith("u")
    numbers = np.array([0, 1, 2, 3, 5, 7, 31, 33, 100, 12345, 2**31 - 1], np.int64)
    signed = np.array([0, 1, -1, 2, -3, 7, -8, 31, -100, 2**31 - 1, -(2**31)], np.int64)
    dtype = {"i32": np.int32, "i64": np.int64, "ui32": np.uint32}[element]
    a, b = np.meshgrid(*[(numbers if unsigned else signed).astype(dtype)] * 2)
    values = {"arg0": a, "arg1": b}
    for kind, f, e in zip(kinds, run(module, values), run_reference(module, values), strict=True):
        np.testing.assert_array_equal(f, e, err_msg=str(kind))


@pytest.mark.parametrize("element", ["f32", "i32", "ui32", "i1"])
def test_comparisons(element: str):
    type = f"tensor<25x25x{element}>"
    kinds = list(CompareKind)
    pairs = f"({type}, {type}) -> tensor<25x25xi1>"
    arguments = f"%a: {type}, %b: {type}"
    module = several([f"rlx.compare {k} %a, %b : {pairs}" for k in kinds], arguments, "tensor<25x25xi1>")
    dtype = {"f32": np.float32, "i32": np.int32, "ui32": np.uint32, "i1": np.bool_}[element]
    numbers = np.array(FLOATS if element == "f32" else np.arange(-12, 13), np.float64)
    with np.errstate(all="ignore"):
        a, b = (
            v.astype(np.int64).astype(dtype) if element != "f32" else v.astype(dtype)
            for v in np.meshgrid(numbers, numbers)
        )
    values = {"arg0": a, "arg1": b}
    assert_close(run(module, values), run_reference(module, values))


def test_logic_of_truth_values():
    type = "tensor<2x2xi1>"
    kinds = ["bit_and", "bit_or", "bit_xor", "max", "min"]
    pairs = f"({type}, {type}) -> {type}"
    module = several([f"rlx.binary {k} %a, %b : {pairs}" for k in kinds], f"%a: {type}, %b: {type}", type)
    a, b = np.array([[0, 0], [1, 1]], bool), np.array([[0, 1], [0, 1]], bool)
    values = {"arg0": a, "arg1": b}
    assert_close(run(module, values), run_reference(module, values))


CASTS = [
    ("f32", "f16"), ("f16", "f32"), ("f32", "i32"), ("f32", "i64"), ("f32", "i1"), ("i32", "f32"), ("i32", "i64"),
    ("i64", "i32"), ("i64", "f32"), ("i1", "f32"), ("i1", "i32"), ("i32", "i1"), ("ui32", "f32"), ("ui32", "i64"),
    ("f16", "i32"), ("i32", "f16"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts(source: str, target: str):
    before, after = f"tensor<4x5x{source}>", f"tensor<4x5x{target}>"
    module = graph(f"%y = rlx.cast %x : {before} -> {after}", f"%x: {before}", after, "%y")
    numbers = np.linspace(-9.7, 9.9, 20).reshape(4, 5)
    numbers = np.abs(numbers) if source == "ui32" else numbers
    names = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64, "i1": np.bool_, "ui32": np.uint32}
    values = {"arg0": numbers.astype(names[source])}
    assert_close(run(module, values), run_reference(module, values), rtol=1e-6)


# Broadcasting, uses and results.

BROADCASTS = [
    ("2x3x5", "5"), ("5", "2x3x5"), ("2x3x5", "3x1"), ("2x1x5", "3x5"), ("1x3x1", "2x1x7"), ("2x3x5", ""),
    ("", "4x3"), ("1", "4x3"), ("7x300", "300"), ("4x1x6x1", "5x1x3"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), BROADCASTS)
def test_broadcasting(a: str, b: str):
    result = tensor("x".join(map(str, np.broadcast_shapes(dims(a), dims(b)))))
    pairs = f"({tensor(a)}, {tensor(b)}) -> {result}"
    check(graph(f"%y = rlx.binary sub %a, %b : {pairs}", f"%a: {tensor(a)}, %b: {tensor(b)}", result, "%y"))


def test_where_clamp_fma():
    module = parse("""
      !x = tensor<3x5xf32>
      func.func @main(%c: tensor<3x1xi1>, %a: !x, %b: tensor<5xf32>) -> (!x, !x, !x) {
        %0 = rlx.where %c, %a, %b : (tensor<3x1xi1>, !x, tensor<5xf32>) -> !x
        %1 = rlx.clamp %a {min = -0.5, max = 0.25} : !x
        %2 = rlx.fma %a, %b, %0 : (!x, tensor<5xf32>, !x) -> !x
        func.return %0, %1, %2 : !x, !x, !x
      }""")
    check(module)


# Regions.


def test_region_with_several_types_and_broadcasting():
    module = parse("""
      !x = tensor<4x7xf32>
      !v = tensor<7xf32>
      !s = tensor<f32>
      !m = tensor<4x1xi1>
      func.func @main(%a: !x, %b: !v, %s: !s, %m: !m) -> (!x, tensor<4x7xi1>) {
        %0 = rlx.elementwise_region(%a, %b, %s, %m) : (!x, !v, !s, !m) -> !x {
        ^bb0(%x: f32, %y: f32, %z: f32, %c: i1):
          %1 = rlx.binary add %x, %y : (f32, f32) -> f32
          %2 = rlx.activation gelu %1 : f32
          %3 = rlx.binary mul %2, %z : (f32, f32) -> f32
          %4 = rlx.where %c, %3, %x : (i1, f32, f32) -> f32
          rlx.yield %4 : f32
        }
        %5 = rlx.elementwise_region(%a, %a) : (!x, !x) -> tensor<4x7xi1> {
        ^bb0(%x: f32, %y: f32):
          %1 = rlx.binary mul %x, %y : (f32, f32) -> f32
          %2 = rlx.compare gt %1, %x : (f32, f32) -> i1
          rlx.yield %2 : i1
        }
        func.return %0, %5 : !x, tensor<4x7xi1>
      }""")
    assert launches(check(module)) == 2


def test_region_in_f16_rounds_each_step():
    module = parse("""
      func.func @main(%a: tensor<64x9xf16>, %b: tensor<9xf16>) -> tensor<64x9xf16> {
        %0 = rlx.elementwise_region(%a, %b) : (tensor<64x9xf16>, tensor<9xf16>) -> tensor<64x9xf16> {
        ^bb0(%x: f16, %y: f16):
          %1 = rlx.binary mul %x, %y : (f16, f16) -> f16
          %2 = rlx.binary add %1, %x : (f16, f16) -> f16
          %3 = rlx.binary sub %2, %y : (f16, f16) -> f16
          rlx.yield %3 : f16
        }
        func.return %0 : tensor<64x9xf16>
      }""")
    check(module, rtol=0, atol=0)


def test_region_with_resize_and_batch_region():
    module = parse("""
      !one = tensor<1x3x2x5xf32>
      !two = tensor<2x3x2x5xf32>
      !wide = tensor<3x3x4x10xf32>
      !all = tensor<3x3x2x5xf32>
      !big = tensor<1x3x4x10xf32>
      !b = tensor<1x3x1x1xf32>
      func.func @main(%a: !one, %b: !b, %d: !two) -> (!big, !all, !wide) {
        %0 = rlx.elementwise_region(%a, %b) {prologue = "resize_nearest_2x"} : (!one, !b) -> !big {
        ^bb0(%x: f32, %y: f32):
          %1 = rlx.binary add %x, %y : (f32, f32) -> f32
          rlx.yield %1 : f32
        }
        %2 = rlx.batch_elementwise_region(%a, %d) : (!one, !two) -> !all {
        ^bb0(%x: f32):
          %1 = rlx.activation relu %x : f32
          rlx.yield %1 : f32
        }
        %3 = rlx.batch_elementwise_region(%d, %a) {prologue = "resize_nearest_2x"} : (!two, !one) -> !wide {
        ^bb0(%x: f32):
          %1 = rlx.activation neg %x : f32
          rlx.yield %1 : f32
        }
        func.return %0, %2, %3 : !big, !all, !wide
      }""")
    check(module)


def test_region_with_more_operands_than_buffers_is_taken_apart():
    count = 11
    names = ", ".join(f"%a{i}" for i in range(count))
    types = ", ".join(["tensor<5xf32>"] * count)
    steps = "".join(f"%t{i} = rlx.binary add %t{i - 1}, %s{i} : (f32, f32) -> f32\n" for i in range(2, count))
    body = f"""%y = rlx.elementwise_region({names}) : ({types}) -> tensor<5xf32> {{
      ^bb0({", ".join(f"%s{i}: f32" for i in range(count))}):
        %t1 = rlx.binary add %s0, %s1 : (f32, f32) -> f32
        {steps}
        rlx.yield %t{count - 1} : f32
      }}"""
    arguments = ", ".join(f"%a{i}: tensor<5xf32>" for i in range(count))
    assert launches(check(graph(body, arguments, "tensor<5xf32>", "%y"))) == count - 1


def test_more_buffers_than_a_kernel_may_have_are_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(HARDWARE, "wgpu", replace(HARDWARE["wgpu"], max_buffers=2))
    type = "tensor<5xf32>"
    module = graph(f"%y = rlx.binary add %a, %b : ({type}, {type}) -> {type}", f"%a: {type}, %b: {type}", type, "%y")
    with pytest.raises(LoweringError, match=r"rlx.binary %y: a kernel takes 3 buffers, wgpu at most 2"):
        lower(module)
