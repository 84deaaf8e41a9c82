import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import graph, parse
from linalg_helpers import aligned
from xdsl.dialects.builtin import bf16

from rlx_dialect.dtypes import bf16_to_bits, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.pipelines.named import run_pipeline
from rlx_dialect.runtime.engine import BindingError
from rlx_dialect.runtime.iree import IreeEngine, IreeExecutable
from rlx_dialect.runtime.iree_form import hand_off
from rlx_dialect.runtime.toolchain import ToolError, ToolFailed, portable_text
from rlx_dialect.samples import random_values

ENGINE = IreeEngine(driver="local-sync")

MATMUL = """
func.func @mm(%x: tensor<?x3xf32> {rlx.input = "x"}, %w: tensor<3x5xf32> {rlx.param = "blocks.0/w"},
              %s: tensor<?x5xf32> {rlx.input = "s"}) -> (tensor<?x5xf32>, tensor<?x3xf32>) {
  %m = linalg.matmul ins(%x, %w : tensor<?x3xf32>, tensor<3x5xf32>) outs(%s : tensor<?x5xf32>) -> tensor<?x5xf32>
  func.return %m, %x : tensor<?x5xf32>, tensor<?x3xf32>
}
"""


def identity(element: str, shape: str = "2x3") -> str:
    """A graph whose result is a copy of its input."""
    rank = len(shape.split("x")) if shape else 0
    type = f"tensor<{shape}x{element}>" if shape else f"tensor<{element}>"
    axes = ", ".join(f"d{i}" for i in range(rank))
    iterators = ", ".join(['"parallel"'] * rank)
    return f"""
func.func @main(%x: {type} {{rlx.input = "x"}}) -> {type} {{
  %e = tensor.empty() : {type}
  %y = linalg.generic {{indexing_maps = [affine_map<({axes}) -> ({axes})>, affine_map<({axes}) -> ({axes})>],
       iterator_types = [{iterators}]}} ins(%x : {type}) outs(%e : {type}) {{
  ^bb0(%a: {element}, %b: {element}):
    linalg.yield %a : {element}
  }} -> {type}
  func.return %y : {type}
}}
"""


@pytest.fixture(scope="module")
def matmul() -> IreeExecutable:
    weights = {"blocks.0/w": np.arange(15, dtype=np.float32).reshape(3, 5), "unused": np.zeros(3)}
    return ENGINE.compile(parse(MATMUL), weights)


def test_parameters_dynamic_extent_and_several_results(matmul: IreeExecutable):
    rng = np.random.default_rng(0)
    for rows in (1, 4):
        x = rng.standard_normal((rows, 3)).astype(np.float32)
        s = rng.standard_normal((rows, 5)).astype(np.float32)
        y, same = matmul.run({"s": s, "x": x})
        np.testing.assert_allclose(y, x @ np.arange(15.0).reshape(3, 5) + s, rtol=1e-5)
        np.testing.assert_array_equal(same, x)
        assert y.dtype == same.dtype == np.float32


def test_outputs_do_not_alias_inputs_and_inputs_are_not_written(matmul: IreeExecutable):
    x, s = np.ones((2, 3), np.float32), np.ones((2, 5), np.float32)
    first, same = matmul.run({"x": x, "s": s})
    kept = first.copy()
    assert (x == 1).all()
    assert (s == 1).all()
    same[...] = 7
    assert (x == 1).all()
    matmul.run({"x": 2 * x, "s": s})
    np.testing.assert_array_equal(first, kept)


def test_read_only_and_strided_inputs(matmul: IreeExecutable):
    x = np.arange(12, dtype=np.float32).reshape(3, 4).T[:, ::1]
    s = np.zeros((4, 5), np.float32)
    s.flags.writeable = False
    y, _ = matmul.run({"x": x, "s": s})
    np.testing.assert_allclose(y, x @ np.arange(15.0).reshape(3, 5))


@pytest.mark.parametrize("element", ["f16", "f32", "f64", "i8", "i16", "i32", "i64", "i1"])
def test_element_types(element: str):
    executable = ENGINE.compile(parse(identity(element)), {})
    values = np.array([[0, 1, 1], [1, 0, 1]]) if element == "i1" else np.array([[-1, 0, 1], [100, 3, -4]])
    dtype = {"i": "int", "f": "float"}[element[0]] + element[1:]
    values = values.astype("bool" if element == "i1" else dtype)
    (found,) = executable.run({"x": values})
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


def test_bf16_is_float32_outside():
    executable = ENGINE.compile(parse(identity("bf16")), {})
    values = np.array([[1.0, 3.14159, np.inf], [-1e30, 0.0, 1e-3]], np.float32)
    (found,) = executable.run({"x": values})
    np.testing.assert_array_equal(found, round_to(values, bf16))
    with pytest.raises(BindingError, match="input 'x' must be bf16 of shape 2x3, got uint16 of shape 2x3"):
        executable.run({"x": bf16_to_bits(values)})


def test_rank_zero_and_empty():
    (found,) = ENGINE.compile(parse(identity("f32", "")), {}).run({"x": np.array(2.5, np.float32)})
    assert found.shape == ()
    assert found == 2.5
    (found,) = ENGINE.compile(parse(identity("f32", "0x3")), {}).run({"x": np.zeros((0, 3), np.float32)})
    assert found.shape == (0, 3)


def test_misfitting_inputs_are_listed_at_once(matmul: IreeExecutable):
    with pytest.raises(BindingError) as caught:
        matmul.run({"x": np.zeros((2, 4), np.float32), "y": np.zeros(1)})
    assert str(caught.value).splitlines() == [
        "input 'x' must be f32 of shape ?x3, got float32 of shape 2x4",
        "input 's' is missing: expected f32 of shape ?x5",
        "input 'y' is unknown; the inputs are 'x', 's'",
    ]
    with pytest.raises(
        BindingError, match="'x' must be f32 of shape ?".replace("?", r"\?x3, got float64 of shape 2x3")
    ):
        matmul.run({"x": np.zeros((2, 3)), "s": np.zeros((2, 5), np.float32)})


def test_missing_parameter():
    with pytest.raises(BindingError, match=r"parameter 'blocks\.0/w' is missing: expected f32 of shape 3x5"):
        ENGINE.compile(parse(MATMUL), {})


NORM = """
func.func @main(%x: tensor<{n}x3xf32> {{rlx.input = "x"}}) -> (tensor<{n}x3xf32>, tensor<{n}x3xf32>) {{
  %z = math.absf %x : tensor<{n}x3xf32>
  %a = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
       iterator_types = ["parallel", "parallel"]}} ins(%z : tensor<{n}x3xf32>) outs(%x : tensor<{n}x3xf32>) {{
  ^bb0(%s: f32, %t: f32):
    %u = arith.addf %s, %s : f32
    linalg.yield %u : f32
  }} -> tensor<{n}x3xf32>
  %before = tensor.cast %a : tensor<{n}x3xf32> to tensor<?x?xf32>
  %b = "linalg.generic"(%a, %x) <{{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
       iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>],
       operandSegmentSizes = array<i32: 1, 1>}}> ({{
  ^bb0(%s: f32, %t: f32):
    %u = arith.mulf %s, %s : f32
    linalg.yield %u : f32
  }}) {{rlx.barrier_before}} : (tensor<{n}x3xf32>, tensor<{n}x3xf32>) -> tensor<{n}x3xf32>
  func.return %b, %a : tensor<{n}x3xf32>, tensor<{n}x3xf32>
}}
"""


def test_no_barrier_below_inputs_and_their_sums():
    module = parse(NORM.format(n=4).replace("ins(%z", "ins(%x"))
    assert "util.optimization_barrier" not in portable_text(hand_off(module, ()))


@pytest.mark.parametrize("rows", ["4", "?"])
def test_barrier_before_a_norm(rows: str):
    module = parse(NORM.format(n=rows))
    lines = [line.strip() for line in portable_text(hand_off(module, ())).splitlines()]
    (barrier,) = [line for line in lines if "util.optimization_barrier" in line]
    assert '"util.optimization_barrier"(%a)' in barrier
    # Above the barrier the value itself is used, below it what the barrier gives (with its extents tied to it).
    (cast,) = [i for i, line in enumerate(lines) if '"tensor.cast"(%a)' in line]
    assert cast < lines.index(barrier)
    behind = lines[lines.index(barrier) if rows == "4" else lines.index(barrier) + 3].split(" = ")[0]
    assert behind != "%a"
    (norm,) = [line for line in lines if line.startswith("%b = ")]
    (returned,) = [line for line in lines if "func.return" in line]
    assert f"({behind}, %x)" in norm
    assert f"(%b, {behind})" in returned
    executable = ENGINE.compile(module, {})
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    b, a = executable.run({"x": x})
    np.testing.assert_array_equal(b, 4 * x * x)
    np.testing.assert_array_equal(a, 2 * x)


def test_a_parameter_of_unknown_extent_is_as_large_as_its_value():
    module = parse("""
func.func @main(%x: tensor<1xf32> {rlx.input = "x"}, %w: tensor<?x1xf32> {rlx.param = "w"}) -> tensor<1xf32> {
  %s = rlx.reduce sum %w {axes = [0]} : tensor<?x1xf32> -> tensor<1xf32>
  %y = rlx.binary add %x, %s : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  func.return %y : tensor<1xf32>
}
""")
    run_pipeline(module, "rlx-lower-to-linalg")
    weights = {"w": np.ones((5, 1), np.float32)}
    (found,) = ENGINE.compile(module, weights).run({"x": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(found, [5.0])


PRODUCTS = [(2, "", 3, 6, 8), (2, "", 17, 6, 8), (3, "", 3, 33, 65), (2, "3x", 1, 6, 8), (2, "3x", 5, 9, 7)]
"""Batches, further rows, rows, inner extent, columns."""


def test_rows_that_are_computed_and_padded():
    """IREE's data tiling fuses a softmax, or a norm, into the tiling of its rows, with sums of other rows."""
    arguments: dict[str, str] = {}
    lines: list[str] = []
    outputs: dict[str, str] = {}
    for n, (batch, more, rows, inner, columns) in enumerate(PRODUCTS):
        a, y = (f"tensor<{batch}x{more}{rows}x{last}xf32>" for last in (inner, columns))
        b, c = (f"tensor<{batch}x{'1x' if more else ''}{s}xf32>" for s in (f"{inner}x{columns}", f"{columns}x{inner}"))
        perm = "[0, 1, 3, 2]" if more else "[0, 2, 1]"
        arguments |= {f"a{n}": a, f"b{n}": b, f"c{n}": c}
        lines += [
            f"%p{n} = rlx.softmax %a{n} {{axis = -1}} : {a} -> {a}",
            f"%y{n} = rlx.matmul %p{n}, %b{n} : ({a}, {b}) -> {y}",
            f"%s{n} = rlx.softmax %c{n} {{axis = -1}} : {c} -> {c}",
            f"%t{n} = rlx.transpose %s{n} {{perm = {perm}}} : {c} -> {b}",
            f"%z{n} = rlx.matmul %a{n}, %t{n} : ({a}, {b}) -> {y}",
        ]
        outputs |= {f"%y{n}": y, f"%z{n}": y}
    module = graph(
        "\n".join(lines),
        ", ".join(f"%{name}: {type}" for name, type in arguments.items()),
        ", ".join(outputs.values()),
        ", ".join(outputs),
    )
    values = random_values(module)
    expected = run_reference(module, values)
    run_pipeline(module, "rlx-lower-to-linalg")
    found = ENGINE.compile(module, {}).run(values)
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)


def test_rows_that_are_computed_and_padded_in_a_branch():
    """There a barrier would make IREE lose track of buffers."""
    a, b, y = "tensor<2x3x6xf32>", "tensor<2x6x8xf32>", "tensor<2x3x8xf32>"
    module = graph(
        f"""%y = rlx.if(%c, %a, %b) : (tensor<i1>, {a}, {b}) -> {y} {{
    ^bb0(%u: {a}, %v: {b}):
      %p = rlx.softmax %u {{axis = -1}} : {a} -> {a}
      %q = rlx.matmul %p, %v : ({a}, {b}) -> {y}
      rlx.yield %q : {y}
    }} else {{
    ^bb0(%u: {a}, %v: {b}):
      %q = rlx.matmul %u, %v : ({a}, {b}) -> {y}
      rlx.yield %q : {y}
    }}""",
        f"%c: tensor<i1>, %a: {a}, %b: {b}",
        y,
        "%y",
    )
    values = random_values(module) | {"arg0": np.array(True)}
    (expected,) = run_reference(module, values)
    run_pipeline(module, "rlx-lower-to-linalg")
    (found,) = ENGINE.compile(module, {}).run(values)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_attention_of_one_head_and_an_unknown_batch():
    """IREE's data tiling gives other values here."""
    x = "tensor<?x3x2xf32>"
    module = graph(
        f"%y = rlx.attention none %q, %k, %v {{num_heads = 1, head_dim = 2, layout = bsd}} : ({x}, {x}, {x}) -> {x}",
        f"%q: {x}, %k: {x}, %v: {x}",
        x,
        "%y",
    )
    values = random_values(module, dynamic=3)
    (expected,) = run_reference(module, values)
    run_pipeline(module, "rlx-lower-to-linalg")
    (found,) = ENGINE.compile(module, {}).run(values)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


ONES = """
%c = rlx.compare eq %x, %x : (tensor<{n}xf32>, tensor<{n}xf32>) -> tensor<{n}xi1>
%o = rlx.constant dense<1{point}> : tensor<{e}>
%w = rlx.where %c, %o, %o : (tensor<{n}xi1>, tensor<{e}>, tensor<{e}>) -> tensor<{n}x{e}>
%0 = rlx.reduce sum %w {{axes = [0, 1]}} : tensor<{n}x{e}> -> tensor<{e}>
%t = rlx.transpose %w {{perm = [1, 0]}} : tensor<{n}x{e}> -> tensor<{t}x{e}>
%1 = rlx.matmul %w, %t : (tensor<{n}x{e}>, tensor<{t}x{e}>) -> tensor<{m}x{e}>
"""


@pytest.mark.parametrize(("element", "point"), [("f32", ".0"), ("i32", "")])
@pytest.mark.parametrize(("n", "t", "m"), [("?x?", "?x?", "?x?"), ("3x100", "100x3", "3x3")])
def test_terms_that_are_all_one_number(n: str, t: str, m: str, element: str, point: str):
    """Fused with the sum, IREE would join that number once a vector."""
    body = ONES.format(n=n, t=t, m=m, e=element, point=point)
    module = graph(
        body, f'%x: tensor<{n}xf32> {{rlx.input = "x"}}', f"tensor<{element}>, tensor<{m}x{element}>", "%0, %1"
    )
    run_pipeline(module, "rlx-lower-to-linalg")
    count, products = ENGINE.compile(module, {}).run({"x": np.zeros((3, 100), np.float32)})
    assert count == 300
    np.testing.assert_array_equal(products, np.full((3, 3), 100))


def test_a_scatter_into_an_input_leaves_it_as_it_was():
    module = graph(
        "%y = rlx.scatter_add %x, %i, %u {axis = 0} : "
        "(tensor<5x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<5x4xf32>",
        '%x: tensor<5x4xf32> {rlx.input = "x"}, %i: tensor<3xi64>, %u: tensor<3x4xf32>',
        "tensor<5x4xf32>",
        "%y",
    )
    x, indices, updates = np.zeros((5, 4), np.float32), np.array([0, 2, 2]), np.ones((3, 4), np.float32)
    values = {name: aligned(v) for name, v in (("x", x), ("arg1", indices), ("arg2", updates))}
    run_pipeline(module, "rlx-lower-to-linalg")
    (found,) = ENGINE.compile(module, {}).run(values)
    np.testing.assert_array_equal(values["x"], x)
    np.testing.assert_array_equal(found[:, 0], [1, 0, 2, 0, 0])


def test_what_is_appended_to_a_cache_leaves_the_cache_as_it_was():
    module = graph(
        "%y = rlx.kv_append %x, %u {axis = 1, pos = 2} : (tensor<2x5x4xf32>, tensor<2x3x4xf32>) -> tensor<2x5x4xf32>",
        '%x: tensor<2x5x4xf32> {rlx.input = "x"}, %u: tensor<2x3x4xf32>',
        "tensor<2x5x4xf32>",
        "%y",
    )
    run_pipeline(module, "rlx-lower-to-linalg")
    cache, update = (aligned(np.full(shape, n, np.float32)) for n, shape in ((0, (2, 5, 4)), (1, (2, 3, 4))))
    (found,) = ENGINE.compile(module, {}).run({"x": cache, "arg1": update})
    np.testing.assert_array_equal(found[0, :, 0], [0, 0, 1, 1, 1])
    assert not cache.any()


def test_several_graphs_in_one_compilation():
    modules = [parse(identity(element)) for element in ("f32", "i8")]
    one, other = ENGINE.compile_all(modules)
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(other.run({"x": x.astype(np.int8)})[0], x.astype(np.int8))
    np.testing.assert_array_equal(one.run({"x": x.astype(np.float32)})[0], x.astype(np.float32))


def test_compile_errors_are_shown():
    text = """
func.func @main(%x: tensor<2x3xf32> {rlx.input = "x"}) -> tensor<7xf32> {
  %y = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xf32> into tensor<7xf32>
  func.return %y : tensor<7xf32>
}
"""
    with pytest.raises(ToolFailed, match=r"error: 'tensor\.collapse_shape' op"):
        ENGINE.compile(parse(text), {})


def test_inputs_at_any_address():
    executable = ENGINE.compile(parse(NORM.format(n="?")), {})
    memory = np.zeros(64, np.float32)
    for offset in range(16):
        x = memory[offset : offset + 12].reshape(4, 3)
        x[...] = np.arange(12).reshape(4, 3)
        b, _ = executable.run({"x": x})
        np.testing.assert_array_equal(b, 4 * x * x)


def test_a_process_that_ran_on_all_cores_ends_cleanly(tmp_path: Path):
    (tmp_path / "module.mlir").write_text(identity("f32"))
    script = """
import sys
from pathlib import Path
import numpy as np
from rlx_dialect.runtime.iree import IreeEngine
from rlx_dialect.xdsl_compat import parse_module, rlx_context
module = parse_module(Path(sys.argv[1]).read_text(), rlx_context())
kept = IreeEngine(driver="local-task").compile(module, {}).run({"x": np.ones((2, 3), np.float32)})
print(kept[0].sum())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "module.mlir")], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr


def test_unknown_extents_that_meet_must_be_equal():
    """Compiled code does not broadcast an extent that turns out to be 1: it stops, and computes nothing wrong."""
    type = "tensor<?x?xf32>"
    body = (
        f"%0 = rlx.binary sub %a, %b : ({type}, {type}) -> {type}\n%1 = rlx.matmul %a, %c : ({type}, {type}) -> {type}"
    )
    names = ", ".join(f'%{n}: {type} {{rlx.input = "{n}"}}' for n in "abc")
    module = graph(body, names, f"{type}, {type}", "%0, %1")
    run_pipeline(module, "rlx-lower-to-linalg")
    executable = IreeEngine().compile(module, {})
    one = {n: np.ones(s, np.float32) for n, s in (("a", (3, 4)), ("b", (3, 4)), ("c", (4, 5)))}
    np.testing.assert_array_equal(executable.run(one)[1], np.full((3, 5), 4))
    for name, shape in (("a", (1, 4)), ("b", (1, 4)), ("b", (3, 1)), ("c", (1, 5))):
        with pytest.raises(ToolError, match="unknown extents that meet must be equal"):
            executable.run({**one, name: np.ones(shape, np.float32)})
