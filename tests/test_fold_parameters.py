"""Folding of parameters: what becomes a parameter, what stays, names and signature, values, files, rlx-run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import assert_close, parse
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.builder import GraphBuilder
from rlx_dialect.dtypes import Array
from rlx_dialect.fold_parameters import NAME_LENGTH, FoldedWeights, fold_parameters
from rlx_dialect.graph import arguments, main_function, output_names
from rlx_dialect.interpreter import run_reference
from rlx_dialect.pipelines.diagnostics import OptError
from rlx_dialect.pipelines.rlx_opt import RlxOpt
from rlx_dialect.runtime import rlx_run
from rlx_dialect.samples import random_values
from rlx_dialect.weights import SideFile, random_weights, write_weights
from rlx_dialect.xdsl_compat import parse_module, print_module, rlx_context

X = 'tensor<2x4xf32> {rlx.input = "x"}'


def of(arguments: str, *lines: str, returned: str = "%y", results: str = "tensor<2x4xf32>") -> ModuleOp:
    body = "\n".join(lines)
    return parse(
        f"func.func @main(%x: {X}, {arguments}) -> ({results}) {{\n{body}\nfunc.return {returned} : {results}\n}}"
    )


def param(name: str, type: str) -> str:
    return f'%{name}: {type} {{rlx.param = "{name}"}}'


def fold(module: ModuleOp) -> tuple[ModuleOp, FoldedWeights]:
    """The folded copy, which gives the same results, and its weights."""
    values = random_values(module)
    function = main_function(module)
    weights = {a.name: values[a.name] for a in arguments(function) if a.kind == "param"}
    after = module.clone()
    folded = fold_parameters(after, weights)
    after.verify()
    inputs = {a.name: values[a.name] for a in arguments(function) if a.kind == "input"}
    assert [a.name for a in arguments(main_function(after)) if a.kind == "input"] == list(inputs)
    assert output_names(main_function(after)) == output_names(function)
    assert_close(run_reference(after, {**inputs, **folded}), run_reference(module, values), rtol=0, atol=0)
    return after, folded


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


W = "tensor<4x2xf32>"
CONCAT = f"%c = rlx.concat %a, %b {{axis = 1}} : ({W}, {W}) -> tensor<4x4xf32>"
MATMUL = "%y = rlx.matmul %x, %c : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>"


def test_a_concatenation_of_weights_becomes_a_parameter():
    after, weights = fold(of(f"{param('a', W)}, {param('b', W)}", CONCAT, MATMUL))
    assert names(after) == ["rlx.matmul"]
    assert '%c: tensor<4x4xf32> {rlx.param = "concat(a, b)"}' in print_module(after)
    assert list(weights) == ["concat(a, b)"]
    assert len(weights) == 1
    with pytest.raises(KeyError):
        weights["a"]


def test_inputs_without_a_name_keep_the_one_of_their_place():
    module = of(f"{param('a', W)}, {param('b', W)}, %z: tensor<2x4xf32>", CONCAT, MATMUL.replace("%x", "%z"))
    after, _ = fold(module)
    assert [a.name for a in arguments(main_function(after))] == ["x", "arg3", "concat(a, b)"]


def test_what_is_computed_in_several_steps_is_one_parameter():
    after, weights = fold(
        of(
            f"{param('a', W)}, {param('b', 'tensor<2x4xf32>')}, {param('s', 'tensor<4xf32>')}",
            f"%t = rlx.transpose %b {{perm = [1, 0]}} : tensor<2x4xf32> -> {W}",
            CONCAT.replace("%b", "%t").replace("%c", "%u"),
            "%c = rlx.binary mul %u, %s : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>",
            MATMUL,
        )
    )
    assert names(after) == ["rlx.matmul"]
    assert list(weights) == ["binary(a, b, s)"]


def test_a_weight_that_is_still_used_stays_and_one_that_nothing_uses_goes():
    T = "tensor<4x4xf32>"
    after, weights = fold(
        of(
            f"{param('a', T)}, {param('unused', T)}",
            f"%c = rlx.transpose %a {{perm = [1, 0]}} : {T} -> {T}",
            MATMUL.replace("%y", "%0"),
            MATMUL.replace("%c", "%a").replace("%x", "%0"),
        )
    )
    assert list(weights) == ["a", "transpose(a)"]
    assert names(after) == ["rlx.matmul", "rlx.matmul"]


def test_expansions_reshapes_and_constants_stay_at_run_time():
    lines = [
        "%k = rlx.constant dense<2.0> : tensor<4xf32>",
        "%m = rlx.binary mul %a, %k : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
        "%r = rlx.reshape %m {new_shape = [1, 4]} : tensor<4xf32> -> tensor<1x4xf32>",
        "%e = rlx.expand %r {shape = [2, 4]} : tensor<1x4xf32> -> tensor<2x4xf32>",
        "%z = rlx.binary add %x, %e : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>",
        "%y = rlx.binary add %z, %k : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>",
    ]
    after, weights = fold(of(param("a", "tensor<4xf32>"), *lines))
    assert names(after) == ["rlx.constant", "rlx.reshape", "rlx.expand", "rlx.binary", "rlx.binary"]
    assert list(weights) == ["binary(a)"]


def test_what_follows_from_constants_alone_is_a_constant_where_it_is_small():
    lines = [
        "%k = rlx.constant dense<2.0> : tensor<4xf32>",
        "%m = rlx.activation sqrt %k : tensor<4xf32>",
        "%y = rlx.binary add %x, %m : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>",
    ]
    after, weights = fold(of(param("a", "tensor<4xf32>"), *lines))
    assert names(after) == ["rlx.constant", "rlx.binary"]
    assert list(weights) == []
    big = [line.replace("tensor<4xf32>", "tensor<600x2x4xf32>") for line in lines]
    big[2] = "%y = rlx.reduce sum %m {axes = [0]} : tensor<600x2x4xf32> -> tensor<2x4xf32>"
    big.append("%z = rlx.binary add %x, %m : (tensor<2x4xf32>, tensor<600x2x4xf32>) -> tensor<600x2x4xf32>")
    after, weights = fold(of(param("a", "tensor<4xf32>"), *big, returned="%z", results="tensor<600x2x4xf32>"))
    assert list(weights) == ["activation()"]
    assert weights["activation()"].shape == (600, 2, 4)


def test_a_returned_weight_and_two_equal_names():
    T = "tensor<2x4xf32>"
    after, weights = fold(
        of(
            param("a", T),
            f"%m = rlx.activation neg %a : {T}",
            f"%y = rlx.activation exp %a : {T}",
            returned="%y, %m",
            results=f"{T}, {T}",
        )
    )
    assert names(after) == []
    assert list(weights) == ["activation(a)", "activation(a) #2"]


def test_long_names_are_cut():
    parts = [f"layers.{i}.attention.weight" for i in range(8)]
    g = GraphBuilder()
    x = g.input("x", (2, 4))
    g.output("y", x @ g.concat([g.param(name, (4, 1)) for name in parts], 1))
    module = g.module()
    weights = fold_parameters(module, random_weights(main_function(module)))
    (name,) = weights
    assert len(name) == NAME_LENGTH
    assert name.startswith("concat(layers.0.attention.weight, ")
    assert name.endswith("...)")


def test_run_time_work_dynamic_shapes_and_failing_operations_stay():
    module = of(
        f"{param('a', 'tensor<4x4xf32>')}, {param('i', 'tensor<2xi64>')}",
        "%g = rlx.gather %a, %i {axis = 0} : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>",
        "%d = rlx.reshape %a {new_shape = [-1, 8]} : tensor<4x4xf32> -> tensor<?x8xf32>",
        "%e = rlx.activation neg %d : tensor<?x8xf32>",
        "%y = rlx.binary add %x, %g : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>",
        returned="%y, %e",
        results="tensor<2x4xf32>, tensor<?x8xf32>",
    )
    weights: dict[str, Array] = {"a": np.ones((4, 4), np.float32), "i": np.array([0, 9])}
    before = names(module)
    assert list(fold_parameters(module, weights)) == ["a", "i"]
    assert names(module) == before
    weights["i"] = np.array([0, 3])
    assert list(fold_parameters(module, weights)) == ["a", "gather(a, i)"]
    assert names(module) == ["rlx.reshape", "rlx.activation", "rlx.binary"]


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_other_element_types(element: str):
    module = of(f"{param('a', W)}, {param('b', W)}", CONCAT, MATMUL)
    after, _ = fold(parse(print_module(module).replace("f32", element)))
    assert names(after) == ["rlx.matmul"]


def test_weights_that_are_not_computed_with_are_not_read():
    class Lazy(dict[str, Array]):
        def __getitem__(self, name: str) -> Array:
            assert name != "w", "read too early"
            return super().__getitem__(name)

    module = of(
        f"{param('a', W)}, {param('b', W)}, {param('w', 'tensor<4x4xf32>')}",
        CONCAT,
        MATMUL.replace("%y", "%0"),
        MATMUL.replace("%x", "%0").replace("%c", "%w"),
    )
    weights = fold_parameters(module, Lazy(random_weights(main_function(module))))
    assert list(weights) == ["w", "concat(a, b)"]


# Files and tools.

MODEL = """func.func @main(%x: tensor<3x5xf32> {rlx.input = "x"}, %u: tensor<5x7xf32> {rlx.param = "up"},
                %g: tensor<5x7xf32> {rlx.param = "gate"}) -> (tensor<3x7xf32> {rlx.output = "y"}) {
  %0 = rlx.matmul %x, %u : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  %1 = rlx.matmul %x, %g : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  %2 = rlx.activation silu %1 : tensor<3x7xf32>
  %3 = rlx.binary mul %0, %2 : (tensor<3x7xf32>, tensor<3x7xf32>) -> tensor<3x7xf32>
  func.return %3 : tensor<3x7xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text(MODEL)
    function = main_function(parse(MODEL))
    write_weights(path.with_suffix(".safetensors"), function, random_weights(function, 7))
    return path


@pytest.mark.parametrize("name", ["elsewhere/out.mlir", "model.mlir"])
def test_rlx_opt_writes_the_folded_side_file_beside_the_output(model: Path, tmp_path: Path, name: str):
    before = parse_module(model.read_text(), rlx_context())
    inputs = {"x": random_values(before)["x"]}
    expected = run_reference(before, {**inputs, **SideFile(model.with_suffix(".safetensors"))})
    out = tmp_path / name
    out.parent.mkdir(exist_ok=True)
    RlxOpt(args=["--pipeline=cpu-fuse", "--fold-weights", str(model), "-o", str(out)]).run()
    after = parse(out.read_text())
    assert names(after) == ["rlx.matmul", "rlx.fused_swiglu"]
    assert f'rlx.weights = "{out.stem}.safetensors"' in out.read_text()
    weights = SideFile(out.with_suffix(".safetensors"))
    assert list(weights) == ["concat(up, gate)"]
    assert_close(run_reference(after, {**inputs, **weights}), expected)


def test_rlx_opt_folds_before_it_lowers(model: Path, tmp_path: Path):
    out = tmp_path / "out.mlir"
    RlxOpt(args=["--pipeline=cpu", "--fold-weights", str(model), "-o", str(out)]).run()
    assert '"concat(up, gate)"' in out.read_text()
    assert "tensor.concat" not in out.read_text()
    assert "insert_slice" not in out.read_text()


def test_rlx_opt_needs_both_files(model: Path, tmp_path: Path):
    with pytest.raises(OptError, match="it needs an input file and -o"):
        RlxOpt(args=["--fold-weights", str(model)])
    model.with_suffix(".safetensors").unlink()
    with pytest.raises(OptError, match=r"no \.safetensors file beside it"):
        RlxOpt(args=["--fold-weights", str(model), "-o", str(tmp_path / "out.mlir")]).run()


def test_rlx_run_lowers_no_concatenation(model: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []
    verify = rlx_run.verify_module
    monkeypatch.setattr(rlx_run, "verify_module", lambda m, *a: (verify(m, *a), seen.append(print_module(m))))
    with pytest.raises(SystemExit) as exit_:
        rlx_run.main([str(model), "--check"])
    assert exit_.value.code == 0
    fused, lowered = seen
    assert "rlx.concat" in fused
    assert "concat(up, gate)" in lowered
    assert "insert_slice" not in lowered
    assert "tensor.concat" not in lowered


def test_rlx_run_folds_for_the_reference_too(model: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        rlx_run.main([str(model), "--engine=reference", "--check"])
    assert exit_.value.code == 0
    assert "largest error 0 absolute" in capsys.readouterr().out
