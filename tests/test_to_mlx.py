"""The printed module and the engine: names, constants, shapes, control flow, parameters from a file, examples."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import onnxruntime
import pytest
from helpers import graph, op_module, parse
from mlx_helpers import assert_agrees, uncompiled_run
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, bf16, f16, f32, f64, i1, i32

from rlx_dialect.builder import GraphBuilder
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_mlx import LowerToMlx, python_module
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.contraction import DotGeneralOp, FusedMatMulBiasActOp, GroupedMatMulOp, MatMulOp
from rlx_dialect.ops.convolution import ConvOp
from rlx_dialect.ops.indexing import ScatterElementsOp
from rlx_dialect.ops.rope import RopeBackwardOp
from rlx_dialect.pipelines.named import run_named
from rlx_dialect.pipelines.rlx_opt import main as rlx_opt
from rlx_dialect.runtime import rlx_run
from rlx_dialect.runtime.mlx import MlxEngine, MlxError
from rlx_dialect.runtime.toolchain import ToolMissing
from rlx_dialect.samples import random_values
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import rlx_context

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
UI64 = IntegerType(64, Signedness.UNSIGNED)


def lowered(module: ModuleOp) -> ModuleOp:
    clone = module.clone()
    LowerToMlx().apply(rlx_context(), clone)
    clone.verify()
    return clone


def loaded(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(text, "printed", "exec"), namespace)
    return namespace


def assert_same(module: ModuleOp, values: Mapping[str, Array]) -> None:
    assert_agrees(module, uncompiled_run(module, values), values)


# The examples.


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs_with_the_reference_values(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    if example.stem != "mlp":  # One is compiled: MLX starts g++ for each kernel.
        monkeypatch.setattr(mx, "compile", lambda function: function)
    with pytest.raises(SystemExit) as exit_:
        rlx_run.main([str(example), "--target=mlx", "--check"])
    assert exit_.value.code == 0
    assert ": ok" in capsys.readouterr().out


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_printed_example_is_python_that_ruff_takes(example: Path):
    out = io.StringIO()
    with redirect_stdout(out):
        rlx_opt(["--pipeline=mlx", "-t", "mlx-python", str(example)])
    text = out.getvalue()
    ruff = Path(sys.executable).parent / "ruff"
    done = subprocess.run([ruff, "format", "-"], input=text, capture_output=True, text=True, check=True)
    assert loaded(done.stdout)["OUTPUTS"] == loaded(text)["OUTPUTS"]
    assert max(map(len, text.splitlines())) <= 120
    assert {line for line in text.splitlines() if "import" in line} == {"import mlx.core as mx"}


def test_magika_equals_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    from magika_content_type import model_folder  # pyright: ignore[reportMissingImports]

    from rlx_dialect.frontends.rlx_import import main as rlx_import

    monkeypatch.setattr(mx, "compile", lambda function: function)
    model = model_folder() / "model.onnx"
    rlx_import([str(model), "-o", str(tmp_path / "magika.mlir")])
    inputs = np.random.default_rng(0).integers(0, 257, (2, 2048), np.int32)
    np.savez(tmp_path / "in.npz", bytes=inputs)
    files = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    with pytest.raises(SystemExit) as exit_:
        rlx_run.main([str(tmp_path / "magika.mlir"), "--target=mlx", *files])
    assert exit_.value.code == 0
    (expected,) = onnxruntime.InferenceSession(str(model)).run(None, {"bytes": inputs})
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["target_label"], np.asarray(expected), rtol=0, atol=1e-5)


# The module.


def test_odd_names_are_kept_in_tables_and_parameters_come_from_a_file(tmp_path: Path):
    g = GraphBuilder("net")
    x = g.input('in "x"', (2, 3))
    g.output("class", x @ g.param("0/w:a", (3, 3)) + g.param("0.w.a", (3,)) * g.input("gelu", (3,)))
    module = g.module()
    printed = loaded(python_module(lowered(module)))
    assert list(printed["INPUTS"]) == ['in "x"', "gelu"]
    assert list(printed["PARAMETERS"]) == ["0/w:a", "0.w.a"]
    assert printed["OUTPUTS"] == ("class",)
    names = [*printed["INPUTS"].values(), *printed["PARAMETERS"].values()]
    assert all(map(str.isidentifier, names))
    assert len(set(names)) == 4
    values = random_values(module)
    arrays = {name: mx.array(value) for name, value in values.items()}
    path = tmp_path / "weights.safetensors"
    mx.save_safetensors(str(path), {n: arrays[n] for n in printed["PARAMETERS"]} | {"other": mx.array([1])})
    inputs = {name: arrays[name] for name in printed["INPUTS"]}
    found = printed["run"]({**inputs, **printed["load"](str(path))})
    np.testing.assert_allclose(np.array(found["class"]), run_reference(module, values)[0], rtol=1e-5)


def test_one_compiled_function_takes_every_size_of_a_dynamic_extent():
    module = graph(
        "%0 = rlx.softmax %x : tensor<?x4xf32>\n"
        "%1 = rlx.reduce sum %0 {axes = [0]} : (tensor<?x4xf32>) -> tensor<4xf32>",
        "%x: tensor<?x4xf32>",
        "tensor<4xf32>",
        "%1",
    )
    executable = MlxEngine().compile(lowered(module), {})
    for rows in (3, 5, 3, 0):
        values = {"arg0": np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)}
        assert_agrees(module, executable.run(values), values)


@pytest.mark.parametrize(
    ("element", "values"),
    [
        (f32, [0.1, 1e30, np.nan, np.inf, -np.inf, -0.0]),
        (f16, [0.1, 65504, np.nan, np.inf, -np.inf, 6e-8]),
        (bf16, [0.1, 3e38, np.nan, np.inf, -np.inf, -1]),
        (f64, [0.1, 1e300, np.nan, np.inf, -np.inf, 1 / 3]),
        (UI64, [0, 1, 2**63, 2**64 - 1, 5, 7]),
        (IntegerType(64), [0, -(2**63), 2**63 - 1, -1, 5, 7]),
        (i1, [True, False, True, True, False, False]),
    ],
    ids=str,
)
def test_constants_of_every_kind(element: Any, values: list[Any]):
    dtype = np.uint64 if element == UI64 else np.int64 if isinstance(values[0], int) else np.float64
    data = np.array(values, dtype)

    def constant(numbers: Array) -> ModuleOp:
        return op_module(lambda: ConstantOp.of(round_to(numbers, element), TensorType(element, numbers.shape)))

    assert_same(constant(data.reshape(2, 3)), {})
    assert_same(constant(np.tile(data, 300)), {})
    for value in data:
        assert_same(constant(np.full((2, 2), value)), {})
        assert_same(constant(np.array(value)), {})
        # A number beside an array is a literal.
        text = f"tensor<2x{element}>"
        module = graph(
            "%1 = rlx.compare eq %x, %x : (T, T) -> tensor<2xi1>".replace("T", text),
            f"%x: {text}",
            "tensor<2xi1>",
            "%1",
        )
        (block,) = module.body.block.first_op.regions[0].blocks  # pyright: ignore[reportOptionalMemberAccess]
        number = ConstantOp.of(round_to(np.array(value), element), TensorType(element, ()))
        block.insert_op_before(number, block.first_op)  # pyright: ignore[reportArgumentType]
        number.next_op.operands[1] = number.result  # pyright: ignore[reportOptionalMemberAccess]
        assert_same(module, {"arg0": round_to(data[:2], element)})


def test_what_is_not_lowered_or_no_graph_does_not_print():
    with pytest.raises(LoweringError, match=r"rlx\.axial_rope_2d"):
        python_module(
            graph(
                "%0 = rlx.axial_rope_2d %x {end_x = 2, end_y = 1, head_dim = 4, num_heads = 1} : tensor<1x2x4xf32>",
                "%x: tensor<1x2x4xf32>",
                "tensor<1x2x4xf32>",
                "%0",
            )
        )
    with pytest.raises(LoweringError, match=r"arith\.addf: it is not of the RLX dialect"):
        python_module(parse("func.func @main(%x: f32) -> f32 {\n%0 = arith.addf %x, %x : f32\nfunc.return %0 : f32\n}"))


def test_names_of_regions_and_constants_are_none_of_the_functions_they_stand_in():
    text = """func.func @main(%x: tensor<2xf32>, %TABLE: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %y_body = rlx.activation exp %x : tensor<2xf32>
  %table = rlx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %sum = rlx.binary add %table, %TABLE : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %y = rlx.elementwise_region(%y_body) : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: f32):
    %0 = rlx.activation neg %a : f32
    rlx.yield %0 : f32
  }
  func.return %y, %sum : tensor<2xf32>, tensor<2xf32>
}"""
    assert_same(parse(text), random_values(parse(text)))


def test_several_graphs_are_lowered_and_only_a_main_one_prints():
    graph_text = "func.func @NAME(%x: tensor<2xf32>) -> tensor<2xf32> {\nfunc.return %x : tensor<2xf32>\n}\n"
    module = lowered(parse(graph_text.replace("NAME", "a") + graph_text.replace("NAME", "run")))
    with pytest.raises(ValueError, match="one function, or one named @main"):
        python_module(module)
    text = python_module(parse(graph_text.replace("NAME", "run") + graph_text.replace("NAME", "main")))
    assert "def run_2(x):" in text
    assert loaded(text)["run"]({"arg0": mx.array([1.0, 2.0])})["out0"].tolist() == [1, 2]


def test_what_does_not_fit_a_cache_is_an_error():
    text = """func.func @main(%c: tensor<?x2xf32>, %u: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %0 = rlx.kv_append %c, %u {axis = 0, pos = 2} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %0 : tensor<?x2xf32>
}"""
    values = {"arg0": np.zeros((4, 2), np.float32), "arg1": np.ones((2, 2), np.float32)}
    assert_same(parse(text), values)
    with pytest.raises(MlxError, match="position 5 is outside extent 4"):
        uncompiled_run(parse(text), {**values, "arg1": np.ones((3, 2), np.float32)})


def test_mlx_itself_says_what_does_not_fit():
    text = "func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {\n"
    text += "%0 = rlx.binary add %x, %y : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>\n"
    module = parse(text + "func.return %0 : tensor<?xf32>\n}")
    executable = MlxEngine().compile(lowered(module), {})
    with pytest.raises(MlxError, match="broadcast"):
        executable.run({"arg0": np.ones(2, np.float32), "arg1": np.ones(3, np.float32)})


# Attention where queries see no key, and in few bits.


@pytest.mark.parametrize("element", [f32, bf16, f64], ids=str)
@pytest.mark.parametrize("kind", ["none", "causal", "sliding_window", "custom", "bias"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_masks(kind: str, element: Any, dynamic: bool):
    for queries, keys in ((3, 5), (5, 3), (1, 4)):
        rng = np.random.default_rng(queries)
        shapes = [(2, queries, 4, 6), (2, keys, 2, 6), (2, keys, 2, 6)]
        arrays = [round_to(rng.standard_normal(s) * 3, element) for s in shapes]
        elements = [element] * 3
        if kind == "custom":
            seen = rng.random((2, queries, keys)) < 0.5
            seen[0, 0] = False
            arrays.append(seen)
            elements.append(i1)
        if kind == "bias":
            arrays.append(round_to(rng.standard_normal((1, 4, queries, keys)), element))
            elements.append(element)
        options: dict[str, Any] = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 6, "layout": "bshd"}
        options |= {"mask_kind": kind, "window": 1 if kind == "sliding_window" else None}
        types = [TensorType(e, a.shape) for e, a in zip(elements, arrays, strict=True)]
        if dynamic:
            types[:3] = [TensorType(element, (2, DYNAMIC, *s[2:])) for s in shapes]
            if kind == "custom":
                types[3] = TensorType(i1, (2, DYNAMIC, DYNAMIC))
            if kind == "bias":
                types[3] = TensorType(element, (1, 4, DYNAMIC, DYNAMIC))
        module = op_module(lambda *o, options=options: AttentionOp(*o, **options), *types)
        assert_same(module, {f"arg{i}": a for i, a in enumerate(arrays)})


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("style", ["neox", "gptj"])
def test_rope_with_constant_tables_is_the_fused_call_where_angles_are_multiples(style: str, plain: bool):
    angles = np.arange(300)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    angles = angles if plain else np.sqrt(angles)
    for op_class in (RopeOp, RopeBackwardOp):
        for layout, shape in (("bsd", (2, 290, 24)), ("bshd", (2, 290, 2, 12)), ("bhsd", (2, 2, DYNAMIC, 12))):
            g = GraphBuilder()
            x = g.input("x", shape)
            tables = [g.constant(function(angles)).ssa for function in (np.cos, np.sin)]
            op = op_class(x.ssa, *tables, head_dim=12, n_rot=8, style=style, layout=layout)
            g.output("y", g.insert(op))
            module = g.module()
            assert ("mx.fast.rope(" in python_module(lowered(module))) == plain
            assert_same(module, random_values(module, dynamic=300))


# Regions and control flow by the whole pipeline.


def test_regions_of_one_body_share_a_function_and_compile():
    text = """func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = rlx.elementwise_region(%x, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: f32, %b: f32):
    %s = rlx.binary add %a, %b : (f32, f32) -> f32
    %t = rlx.activation gelu %s : f32
    rlx.yield %t : f32
  }
  %1 = rlx.elementwise_region(%0, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: f32, %b: f32):
    %s = rlx.binary add %a, %b : (f32, f32) -> f32
    %t = rlx.activation gelu %s : f32
    rlx.yield %t : f32
  }
  func.return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}"""
    module = parse(text)
    assert python_module(lowered(module)).count("_body(") == 3
    values = random_values(module, edges=True)
    assert_agrees(module, MlxEngine().compile(lowered(module), {}).run(values), values)


def test_scan_compiles_and_data_dependent_loops_do_not():
    scan = """func.func @main(%h: tensor<2xf32>, %x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %y = rlx.scan(%h, %x) {length = 3, save_trajectory} : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32> {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %s = rlx.binary add %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    rlx.yield %s : tensor<2xf32>
  }
  func.return %y : tensor<3x2xf32>
}"""
    module = parse(scan)
    assert "@mx.compile\ndef main(" in python_module(lowered(module))
    values = random_values(module)
    assert_agrees(module, MlxEngine().compile(lowered(module), {}).run(values), values)
    loop = """func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
  %y = rlx.while(%x) : (tensor<2xi32>) -> tensor<2xi32> {
  ^bb0(%a: tensor<2xi32>):
    %limit = rlx.constant dense<100> : tensor<i32>
    %most = rlx.reduce max %a {axes = [0]} : (tensor<2xi32>) -> tensor<i32>
    %less = rlx.compare lt %most, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    rlx.yield %less : tensor<i1>
  } do {
  ^bb0(%a: tensor<2xi32>):
    %twice = rlx.binary add %a, %a : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    rlx.yield %twice : tensor<2xi32>
  }
  func.return %y : tensor<2xi32>
}"""
    module = parse(loop)
    run_named(module, "mlx")
    text = python_module(module)
    assert "# Not compiled: the values of rlx.while decide what runs.\ndef main(" in text
    for start in ([3, 1], [200, 1]):
        values = {"arg0": np.array(start, np.int32)}
        assert_agrees(parse(loop), MlxEngine().compile(module, {}).run(values), values)


def test_parameters_are_uploaded_once_and_f64_runs_on_the_cpu():
    g = GraphBuilder()
    g.output("y", g.exp(g.input("x", (2, 3), f64)) + g.param("w", (3,), f64))
    module = g.module()
    values = random_values(module)
    executable = MlxEngine().compile(lowered(module), {"w": values["w"]})
    assert "with mx.stream(mx.cpu):" in python_module(lowered(module))
    before = executable.params["w"]
    for _ in range(2):
        assert_agrees(module, executable.run({"x": values["x"]}), values)
    assert executable.params["w"] is before


@pytest.mark.parametrize("element", [f16, bf16], ids=str)
def test_long_narrow_products_are_summed_in_f32(element: Any):
    many = 3000
    builds: list[tuple[Any, list[tuple[int, ...]]]] = [
        (MatMulOp, [(2, many), (many, 3)]),
        (lambda x, w, b: FusedMatMulBiasActOp(x, w, b, activation="gelu"), [(2, many), (many, 3), (3,)]),
        (lambda x, w: DotGeneralOp(x, w, [1, 2], [2, 0]), [(2, 50, many // 50), (many // 50, 3, 50)]),
        (ConvOp, [(1, 30, 10, 10), (2, 30, 10, 10)]),
    ]
    for build, shapes in builds:
        module = op_module(build, *(TensorType(element, s) for s in shapes))
        # Of one sign: an accumulator of few bits would stop growing.
        values = {n: round_to(np.abs(v) / 10, element) for n, v in random_values(module).items()}
        assert_same(module, values)


@pytest.mark.parametrize("element", [f16, bf16, f64], ids=str)
def test_rows_meet_matrices_of_every_float(element: Any):
    """MLX selects matrices of f32 alone on the CPU."""
    types = TensorType(element, [3, 4]), TensorType(element, [2, 4, 5]), TensorType(i32, [3])
    module = op_module(GroupedMatMulOp, *types)
    assert_same(module, {**random_values(module, 0), "arg2": np.array([1, 0, 1], np.int32)})


@pytest.mark.parametrize("element", [f16, f32, f64], ids=str)
@pytest.mark.parametrize("join", ["max", "min"])
def test_scatters_keep_nan(join: str, element: Any):
    """Of the data and of each update; MLX's own scatters forget one that another number follows."""
    floats, indices = TensorType(element, [6]), TensorType(i32, [6])
    module = op_module(partial(ScatterElementsOp, reduction=join), floats, indices, floats)
    data, updates = ([np.nan, 1, 1, 1, np.nan, 0], [2, np.nan, 3, 3, np.nan, -2])
    values = {"arg0": round_to(np.array(data), element), "arg2": round_to(np.array(updates), element)}
    assert_same(module, {**values, "arg1": np.array([0, 1, 1, 2, 2, 5], np.int32)})


def test_without_mlx_the_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rlx_dialect.runtime.mlx.find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match=r"pip install 'rlx-dialect\[mlx\]'"):
        MlxEngine().compile(parse("func.func @main() {\nfunc.return\n}"), {})
