"""The command line ``rlx-import`` and ONNX as an input of ``rlx-opt`` and ``xdsl-opt``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import parse
from onnx import helper
from onnx_cases import model as make_model
from test_onnx_models import MAGIKA, onnxruntime_outputs

from rlx_dialect.dtypes import Array
from rlx_dialect.frontends.rlx_import import main as rlx_import
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.pipelines.rlx_opt import main as rlx_opt
from rlx_dialect.weights import find_weights


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A model with a dynamic batch and one parameter."""
    weight = np.arange(18, dtype=np.float32).reshape(3, 6)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    model = make_model(nodes, {"x": np.zeros((2, 3), np.float32)}, ["y"], {"w": weight}, dynamic={"x": {0: "n"}})
    path = tmp_path / "in" / "net.onnx"
    path.parent.mkdir()
    onnx.save(model, path)
    return path


def outputs_of(mlir: Path, **inputs: Array) -> list[Array]:
    module = parse(mlir.read_text())
    weights = find_weights(module, mlir)
    return run_reference(module, {**(weights or {}), **inputs})


def test_module_and_side_file_are_written_and_belong_together(
    net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output = tmp_path / "out.mlir"
    rlx_import([str(net), "-o", str(output)])
    assert capsys.readouterr().out == (
        f"{output}: 2 operations; inputs x: tensor<?x3xf32>\n{tmp_path / 'out.safetensors'}: 1 parameters, 0.0 MB\n"
    )
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    np.testing.assert_allclose(outputs_of(output, x=x), onnxruntime_outputs(onnx.load(net), {"x": x}), rtol=1e-6)


def test_side_file_elsewhere_is_found(net: Path, tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    output = tmp_path / "a" / "m.mlir"
    rlx_import([str(net), "-o", str(output), "--weights", str(tmp_path / "b" / "w.safetensors")])
    assert 'rlx.weights = "../b/w.safetensors"' in output.read_text()
    assert outputs_of(output, x=np.ones((1, 3), np.float32))[0].shape == (1, 6)


def test_default_output_is_named_like_the_model_and_lies_here(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    rlx_import([str(net), "--batch", "5"])
    assert "tensor<5x3xf32>" in (tmp_path / "net.mlir").read_text()
    assert (tmp_path / "net.safetensors").exists()


def test_dims_by_name(net: Path, tmp_path: Path):
    rlx_import([str(net), "-o", str(tmp_path / "m.mlir"), "--dim", "n=7"])
    assert "tensor<7x3xf32>" in (tmp_path / "m.mlir").read_text()


def test_without_parameters_there_is_no_side_file(tmp_path: Path):
    model = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": np.zeros(2, np.float32)}, ["y"])
    onnx.save(model, tmp_path / "neg.onnx")
    rlx_import([str(tmp_path / "neg.onnx"), "-o", str(tmp_path / "neg.mlir")])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["neg.mlir", "neg.onnx"]
    assert "rlx.weights" not in (tmp_path / "neg.mlir").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.onnx"], "rlx-import: gone.onnx: cannot be read: No such file or directory"),
        (["NET", "-o", "no/folder/m.mlir"], "rlx-import: no/folder/m.safetensors: cannot be written: "),
        (["NET", "--dim", "n"], "rlx-import: 'n' must be a dynamic extent and its number, as in seq=128"),
        (["NET", "--dim", "m=2"], "no dynamic extent is named 'm'; there are: n"),
    ],
)
def test_errors_end_the_command_with_one_message(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as error:
        rlx_import([str(net) if a == "NET" else a for a in arguments])
    assert message in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_rlx_opt_reads_onnx(net: Path, capsys: pytest.CaptureFixture[str]):
    rlx_opt([str(net), "-p", "rlx-fuse-matmul-bias-act"])
    assert "rlx.matmul %x, %w" in capsys.readouterr().out


def test_rlx_opt_follows_a_side_file_that_the_frontend_writes(net: Path, tmp_path: Path):
    output = tmp_path / "m.mlir"
    rlx_opt([str(net), "-f", 'onnx{batch=2 weights="w.safetensors"}', "-o", str(output)])
    assert (net.parent / "w.safetensors").exists()
    text = output.read_text()
    assert "tensor<2x3xf32>" in text
    assert 'rlx.weights = "in/w.safetensors"' in text
    assert outputs_of(output, x=np.ones((2, 3), np.float32))[0].shape == (2, 6)


def test_rlx_opt_reports_what_is_not_supported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    nodes = [helper.make_node("NonZero", ["x"], ["y"], name="where")]
    onnx.save(make_model(nodes, {"x": np.zeros(2, np.float32)}, ["y"]), tmp_path / "m.onnx")
    with pytest.raises(SystemExit):
        rlx_opt([str(tmp_path / "m.onnx")])
    assert "1 operator is not supported (operator: nodes)\n  NonZero: 'where'" in capsys.readouterr().err


def test_xdsl_opt_reads_magika_by_its_file_name():
    tool = Path(sys.executable).parent / "xdsl-opt"
    done = subprocess.run([tool, MAGIKA[-1]], capture_output=True, text=True, check=True)
    function = main_function(parse(done.stdout))
    assert str(function.function_type.outputs.data[0]) == "tensor<?x214xf32>"


def test_the_onnx_package_is_imported_only_to_read_a_model():
    code = (
        "import sys; from rlx_dialect.universe import RLX_UNIVERSE; RLX_UNIVERSE.all_frontends['onnx']();"
        "import rlx_dialect.frontends.rlx_import;"
        "from rlx_dialect.frontends.onnx.registry import handlers; handlers(); print('onnx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
