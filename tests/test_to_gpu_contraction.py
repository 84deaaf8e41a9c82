"""The contraction schedule on a device: forms, tiles, remainders along each axis, batches, operands that are views."""

from __future__ import annotations

from dataclasses import replace

import emulation
import numpy as np
import pytest
from helpers import assert_close, graph, parse
from nvidia import assert_assembles
from on_device import check, dims, kernel_names, launches, lower, run, tensor
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_gpu.contraction_choice import (
    Problem,
    choose_parts,
    choose_thin,
    choose_tile,
    groups_of,
)
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE, Hardware, Tile
from rlx_dialect.runtime.launch_plan import launch_plan
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values

MATMULS = [
    ("5x7", "7x9"), ("64x16", "16x64"), ("70x33", "33x65"), ("1x300", "300x5"), ("130x1", "1x70"), ("33x20", "20x1"),
    ("2x3x5x7", "7x9"), ("2x3x5x7", "2x3x7x4"), ("3x5x7", "2x1x7x4"), ("5x7", "3x7x4"), ("2x1x5x7", "1x3x7x4"),
    ("1x1", "1x1"), ("40x18", "40x18x20"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), MATMULS)
def test_matmul(a: str, b: str):
    result = tensor("x".join(map(str, np.matmul(np.zeros(dims(a)), np.zeros(dims(b))).shape)))
    types = f"({tensor(a)}, {tensor(b)}) -> {result}"
    check(graph(f"%y = rlx.matmul %a, %b : {types}", f"%a: {tensor(a)}, %b: {tensor(b)}", result, "%y"), atol=2e-5)


@pytest.mark.parametrize("element", ["f16", "i32", "ui32", "i64"])
def test_matmul_of_other_elements(element: str):
    a, b, c = f"tensor<3x20x35x{element}>", f"tensor<35x24x{element}>", f"tensor<3x20x24x{element}>"
    module = graph(f"%y = rlx.matmul %a, %b : ({a}, {b}) -> {c}", f"%a: {a}, %b: {b}", c, "%y")
    check(module, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["", "gelu ", "silu ", "relu ", "tanh "])
@pytest.mark.parametrize("shape", ["2x3x40x30", "5x30"])
def test_matmul_with_bias_and_activation(kind: str, shape: str):
    x, result = tensor(shape), tensor(shape.rpartition("x")[0] + "x70")
    types = f"({x}, tensor<30x70xf32>, tensor<70xf32>) -> {result}"
    arguments = f"%x: {x}, %w: tensor<30x70xf32>, %b: tensor<70xf32>"
    module = graph(f"%y = rlx.fused_matmul_bias_act {kind}%x, %w, %b : {types}", arguments, result, "%y")
    assert launches(check(module, atol=2e-5)) == 1


def test_fused_matmul_in_f16_rounds_once():
    types = "(tensor<40x30xf16>, tensor<30x20xf16>, tensor<20xf16>) -> tensor<40x20xf16>"
    arguments = "%x: tensor<40x30xf16>, %w: tensor<30x20xf16>, %b: tensor<20xf16>"
    body = f"%y = rlx.fused_matmul_bias_act gelu %x, %w, %b : {types}"
    check(graph(body, arguments, "tensor<40x20xf16>", "%y"), rtol=1e-3, atol=1e-5)


def test_matmul_with_residual():
    types = "(tensor<3x33x18xf32>, tensor<18x20xf32>, tensor<3x33x20xf32>) -> tensor<3x33x20xf32>"
    arguments = "%x: tensor<3x33x18xf32>, %w: tensor<18x20xf32>, %r: tensor<3x33x20xf32>"
    check(
        graph(f"%y = rlx.fused_matmul_residual %x, %w, %r : {types}", arguments, "tensor<3x33x20xf32>", "%y"), atol=2e-5
    )


DOTS = [
    ("4x5x6", "6x5x7", "lhs_contracting = [2, 1], rhs_contracting = [0, 1]", "4x7"),
    ("2x3x20", "4x20", "lhs_contracting = [2], rhs_contracting = [1]", "2x3x4"),
    ("20x2x3", "3x5x20", "lhs_contracting = [0], rhs_contracting = [2], lhs_batch = [2], rhs_batch = [0]", "3x2x5"),
    (
        "2x3x4x5",
        "3x6x2x5",
        "lhs_contracting = [3], rhs_contracting = [3], lhs_batch = [1, 0], rhs_batch = [0, 2]",
        "3x2x4x6",
    ),
    ("3", "4", "lhs_contracting = [], rhs_contracting = []", "3x4"),
    ("7", "7", "lhs_contracting = [0], rhs_contracting = [0]", ""),
]


@pytest.mark.parametrize(("a", "b", "axes", "result"), DOTS)
def test_dot_general(a: str, b: str, axes: str, result: str):
    types = f"({tensor(a)}, {tensor(b)}) -> {tensor(result)}"
    arguments = f"%a: {tensor(a)}, %b: {tensor(b)}"
    check(graph(f"%y = rlx.dot_general %a, %b {{{axes}}} : {types}", arguments, tensor(result), "%y"), atol=2e-5)


def test_products_read_views_where_they_lie():
    module = parse("""
      func.func @main(%x: tensor<2x6x3x8xf32>) -> (tensor<2x3x6x6xf32>, tensor<2x3x4x5xf32>) {
        %q = rlx.transpose %x {perm = [0, 2, 1, 3]} : tensor<2x6x3x8xf32> -> tensor<2x3x6x8xf32>
        %k = rlx.transpose %x {perm = [0, 2, 3, 1]} : tensor<2x6x3x8xf32> -> tensor<2x3x8x6xf32>
        %0 = rlx.matmul %q, %k : (tensor<2x3x6x8xf32>, tensor<2x3x8x6xf32>) -> tensor<2x3x6x6xf32>
        %a = rlx.narrow %q {axis = 2, start = 1, len = 4} : tensor<2x3x6x8xf32> -> tensor<2x3x4x8xf32>
        %r = rlx.reverse %k {axes = [2]} : tensor<2x3x8x6xf32>
        %b = rlx.slice %r {axis = 3, start = 4, len = 5, step = -1} : tensor<2x3x8x6xf32> -> tensor<2x3x8x5xf32>
        %1 = rlx.matmul %a, %b : (tensor<2x3x4x8xf32>, tensor<2x3x8x5xf32>) -> tensor<2x3x4x5xf32>
        func.return %0, %1 : tensor<2x3x6x6xf32>, tensor<2x3x4x5xf32>
      }""")
    assert launches(check(module, atol=2e-5)) == 2


def products(cases: list[tuple[str, str]], element: str = "f32") -> ModuleOp:
    """A graph of the matrix products of operands of the shapes of ``cases``."""
    arguments: list[str] = []
    body: list[str] = []
    types: list[str] = []
    for i, (a, b) in enumerate(cases):
        shape = np.matmul(np.zeros(dims(a), bool), np.zeros(dims(b), bool)).shape
        types.append(tensor("x".join(map(str, shape)), element))
        arguments += [f"%a{i}: {tensor(a, element)}", f"%b{i}: {tensor(b, element)}"]
        operands = f"({tensor(a, element)}, {tensor(b, element)})"
        body.append(f"%y{i} = rlx.matmul %a{i}, %b{i} : {operands} -> {types[-1]}")
    names, text, results = ", ".join(f"%y{i}" for i in range(len(cases))), "\n".join(body), ", ".join(types)
    return parse(
        f"func.func @main({', '.join(arguments)}) -> ({results}) {{\n{text}\nfunc.return {names} : {results}\n}}"
    )


def with_hardware(monkeypatch: pytest.MonkeyPatch, **fields: object) -> Hardware:
    """The row of wgpu with other fields, for this test."""
    changed = replace(HARDWARE["wgpu"], **fields)
    monkeypatch.setitem(HARDWARE, "wgpu", changed)
    return changed


IN_TILES = [("70x33", "33x65"), ("2x64x48", "2x48x64"), ("17x5", "5x40"), ("33x16", "16x33")]


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_tile_with_one_and_two_buffers(number: int, slices: int, monkeypatch: pytest.MonkeyPatch):
    tile = HARDWARE["wgpu"].tiles[number]
    with_hardware(monkeypatch, tiles=(tile,), slices=slices, units=1)
    assert launches(check(products(IN_TILES), atol=2e-5)) == len(IN_TILES)


def test_two_buffers_in_f16(monkeypatch: pytest.MonkeyPatch):
    with_hardware(monkeypatch, slices=2)
    check(products(IN_TILES[:2], "f16"), rtol=2e-3, atol=2e-3)


THIN = [
    ("1x300", "300x70"), ("3x70", "70x1000"), ("4x5", "5x9"), ("70x300", "300x2"), ("2x40x9", "2x9x1"),
    ("1x1", "1x600"),
]  # fmt: skip


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_few_rows_or_columns(element: str):
    tolerance = {"f32": 2e-5, "f16": 2e-3}[element]
    lowered = check(products(THIN, element), rtol=tolerance, atol=tolerance)
    assert launches(lowered) == len(THIN)


def test_few_rows_with_a_transposed_weight_and_an_epilogue():
    body = """
        %t = rlx.transpose %w {perm = [1, 0]} : tensor<50x300xf32> -> tensor<300x50xf32>
        %y = rlx.fused_matmul_bias_act silu %x, %t, %b : (tensor<3x300xf32>, tensor<300x50xf32>, tensor<50xf32>)
          -> tensor<3x50xf32>"""
    arguments = "%x: tensor<3x300xf32>, %w: tensor<50x300xf32>, %b: tensor<50xf32>"
    assert launches(check(graph(body, arguments, "tensor<3x50xf32>", "%y"), atol=2e-5)) == 1


@pytest.mark.parametrize("depth", [2048, 1999])
def test_long_sums_of_small_results_are_made_in_parts(depth: int):
    module = products([(f"20x{depth}", f"{depth}x30"), (f"2x9x{depth}", f"{depth}x17")])
    lowered = check(module, rtol=1e-4, atol=1e-4)
    assert launches(lowered) == 4
    values = random_values(module)
    assert all(np.array_equal(x, y) for x, y in zip(run(module, values), run(module, values), strict=True))


def test_a_sum_of_unknown_length_is_made_in_parts(monkeypatch: pytest.MonkeyPatch):
    with_hardware(monkeypatch, tiles=(Tile(16, 16, 8, 1, 1),))
    module = parse("""
      func.func @main(%x: tensor<20x?x5xf32> {rlx.input = "x"}, %w: tensor<?x5x30xf32> {rlx.input = "w"})
          -> tensor<20x30xf32> {
        %y = rlx.dot_general %x, %w {lhs_contracting = [1, 2], rhs_contracting = [0, 1]}
          : (tensor<20x?x5xf32>, tensor<?x5x30xf32>) -> tensor<20x30xf32>
        func.return %y : tensor<20x30xf32>
      }""")
    assert launches(lower(module)) == 2
    rng = np.random.default_rng(0)
    for length in (1, 37):
        x, w = rng.standard_normal((20, length, 5), "float32"), rng.standard_normal((length, 5, 30), "float32")
        values = {"x": x, "w": w}
        assert_close(run(module, values), run_reference(module, values), rtol=1e-4, atol=1e-4)


def test_the_epilogue_of_a_sum_in_parts():
    types = "(tensor<20x1500xf16>, tensor<1500x30xf16>, tensor<30xf16>) -> tensor<20x30xf16>"
    arguments = "%x: tensor<20x1500xf16>, %w: tensor<1500x30xf16>, %b: tensor<30xf16>"
    body = f"%y = rlx.fused_matmul_bias_act gelu %x, %w, %b : {types}"
    lowered = check(graph(body, arguments, "tensor<20x30xf16>", "%y"), rtol=2e-3, atol=1e-2)
    assert kernel_names(lowered) == ["matmul_bias_gelu", "matmul_bias_gelu_sum"]


def test_numbers_that_are_not_finite():
    module = products([("20x19", "19x33"), ("2x19", "19x33"), ("20x1030", "1030x33")])
    values = random_values(module)
    for i, k in enumerate((19, 19, 1030)):
        a, b = values[f"arg{2 * i}"], values[f"arg{2 * i + 1}"]
        a[1, k - 1], b[k - 1, 3], b[0, 7] = np.inf, np.nan, -np.inf
    assert_close(run(module, values), run_reference(module, values), rtol=1e-4, atol=1e-4)


def swiglu(product: str, result: str = "f32", *, first: bool = False) -> str:
    gate = " {gate_first}" if first else ""
    return f"{product}\n%y = rlx.fused_swiglu %p{gate} : tensor<6x40xf32> -> tensor<6x20x{result}>"


PLAIN_PRODUCT = "%p = rlx.matmul %x, %w : (tensor<6x30xf32>, tensor<30x40xf32>) -> tensor<6x40xf32>"
WITH_BIAS = (
    "%p = rlx.fused_matmul_bias_act %x, %w, %b "
    ": (tensor<6x30xf32>, tensor<30x40xf32>, tensor<40xf32>) -> tensor<6x40xf32>"
)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("product", [PLAIN_PRODUCT, WITH_BIAS])
def test_swiglu_of_a_product_is_one_launch(product: str, first: bool):
    arguments = "%x: tensor<6x30xf32>, %w: tensor<30x40xf32>, %b: tensor<40xf32>"
    lowered = check(graph(swiglu(product, first=first), arguments, "tensor<6x20xf32>", "%y"), atol=2e-5)
    assert kernel_names(lowered) == ["matmul_swiglu"]


def test_swiglu_of_few_rows_is_one_launch():
    body = """
        %p = rlx.matmul %x, %w : (tensor<1x300xf32>, tensor<300x90xf32>) -> tensor<1x90xf32>
        %y = rlx.fused_swiglu %p : tensor<1x90xf32> -> tensor<1x45xf32>"""
    arguments = "%x: tensor<1x300xf32>, %w: tensor<300x90xf32>"
    assert launches(check(graph(body, arguments, "tensor<1x45xf32>", "%y"), atol=2e-5)) == 1


def test_swiglu_of_what_others_use_too():
    module = parse(f"""
      func.func @main(%x: tensor<6x30xf32>, %w: tensor<30x40xf32>, %z: tensor<6x40xf32>)
          -> (tensor<6x40xf32>, tensor<6x20xf32>, tensor<6x20xf16>) {{
        {swiglu(PLAIN_PRODUCT)}
        %h = rlx.fused_swiglu %z : tensor<6x40xf32> -> tensor<6x20xf16>
        func.return %p, %y, %h : tensor<6x40xf32>, tensor<6x20xf32>, tensor<6x20xf16>
      }}""")
    assert kernel_names(check(module, rtol=1e-3, atol=2e-5)) == ["matmul", "swiglu", "swiglu_1"]


def test_the_choice_of_a_form():
    cuda = HARDWARE["cuda"]
    large, small, deep = Problem(1, 4096, 4096, 512), Problem(1, 32, 32, 64), Problem(1, 64, 64, 16384)
    assert choose_tile(cuda, large, 1, 4) == cuda.tiles[0]
    # With two right factors the slices of the largest tile are larger; they still fit.
    assert choose_tile(cuda, large, 2, 4) == cuda.tiles[0]
    assert choose_tile(cuda, small, 1, 4) == cuda.tiles[-1]
    assert choose_parts(cuda, cuda.tiles[0], large) == 1
    tile = choose_tile(cuda, deep, 1, 4)
    parts = choose_parts(cuda, tile, deep)
    assert 1 < parts * groups_of(tile, deep) <= cuda.units
    for row in HARDWARE.values():
        tile = choose_tile(row, large, 2, 8)
        assert (tile.rows + 2 * tile.columns) * tile.depth * 8 * row.slices <= row.shared_bytes
    few = choose_thin(cuda, Problem(1, 1, 4096, 4096), along_depth=False)
    assert (few.rows, few.columns * few.lanes) == (1, cuda.workgroup)
    assert choose_thin(cuda, Problem(1, 1, 1000000, 4096), along_depth=False).lanes == 1
    assert choose_thin(cuda, Problem(1, 1, 1000000, 4096), along_depth=True).lanes == 32
    # A column of short sums takes no more than a lane, and few columns no more than they need.
    short = choose_thin(cuda, Problem(512, 1, 49, 9), along_depth=False)
    assert (short.columns, short.lanes) == (64, 1)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_ptx_is_assembled(element: str):
    assert_assembles(lower(products([*IN_TILES, *THIN, ("20x2048", "2048x30")], element), "cuda"))


def test_the_matrix_unit_takes_f16():
    cases = [("70x64", "64x65"), ("2x64x33", "2x33x64")]
    ptx = assert_assembles(lower(products(cases, "f16"), "cuda"))
    assert "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32" in ptx
    assert ".shared .align 32" in ptx
    assert "ld.global.v4" in ptx
    for element in ("f32", "bf16"):
        assert "wmma" not in assert_assembles(lower(products(cases, element), "cuda"))
    # Few rows, and sums shorter than a matrix, are no work for it.
    assert "wmma" not in assert_assembles(lower(products([("2x64", "64x65"), ("70x8", "8x65")], "f16"), "cuda"))


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_vectors_of_elements(element: str, monkeypatch: pytest.MonkeyPatch):
    with_hardware(monkeypatch, vector_bytes=16, tiles=HARDWARE["wgpu"].tiles[1:2])
    cases = [("24x40", "40x32"), ("2x36x20", "2x20x12"), ("8x16", "16x9"), ("9x17", "17x8")]
    body = f"""
      func.func @main(%a: tensor<40x24x{element}>, %b: tensor<20x40x{element}>) -> tensor<24x20x{element}> {{
        %s = rlx.transpose %a {{perm = [1, 0]}} : tensor<40x24x{element}> -> tensor<24x40x{element}>
        %t = rlx.transpose %b {{perm = [1, 0]}} : tensor<20x40x{element}> -> tensor<40x20x{element}>
        %y = rlx.matmul %s, %t : (tensor<24x40x{element}>, tensor<40x20x{element}>) -> tensor<24x20x{element}>
        func.return %y : tensor<24x20x{element}>
      }}"""
    for module in (products(cases, element), parse(body)):
        lowered = lower(module)
        assert any(op.name == "vector.load" for op in lowered.walk())
        values = random_values(module)
        got = WgpuEngine().compile(emulation.emulate(lowered), {}).run(values)
        assert_close(got, run_reference(module, values), rtol=2e-3, atol=2e-3)


def test_rows_that_do_not_exist_are_not_written():
    """Three rows in tiles of four: WebGPU refuses a store out of bounds, even where it never runs."""
    module = graph(
        "%y = rlx.matmul %a, %b : (tensor<1x3x3xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>",
        "%a: tensor<1x3x3xf32>, %b: tensor<1x3x1xf32>",
        "tensor<1x3x1xf32>",
        "%y",
    )
    check(module)


def test_grids_beyond_a_limit_are_folded(monkeypatch: pytest.MonkeyPatch):
    """Seven batches and three tiles where a dimension has at most five workgroups: those too many do nothing."""
    with_hardware(monkeypatch, max_groups=5, tiles=HARDWARE["wgpu"].tiles[2:])
    module = products([("7x17x5", "7x5x9"), ("3x33", "33x100"), ("2x3x4", "2x4x5")])
    lowered = check(module)
    grids = [launch.groups for launch in launch_plan(lowered).launches]
    assert all(max(grid) <= 5 for grid in grids)
    assert (5, 3, 1) in grids


def test_a_batch_beyond_the_limit_of_the_hardware():
    module = products([("70000x2x3", "70000x3x4")])
    for target in HARDWARE:
        (launch,) = launch_plan(lower(module, target)).launches
        assert max(launch.groups) <= HARDWARE[target].max_groups
        assert np.prod(launch.groups) >= 70000


def test_a_grid_beyond_two_dimensions(monkeypatch: pytest.MonkeyPatch):
    with_hardware(monkeypatch, max_groups=2)
    with pytest.raises(LoweringError, match=r"rlx.matmul.* a grid of 5 workgroups exceeds 2 along two dimensions"):
        lower(products([("5x2x3", "5x3x4")]))
