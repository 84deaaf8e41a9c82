"""``rlx-opt``: named pipelines as text, what it says when something is wrong, and what it leaves alone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers import parse
from opt_helpers import Result, run_opt
from xdsl.dialects.builtin import ModuleOp, StringAttr

from rlx_dialect.graph import main_function
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.pipelines.diagnostics import OptError
from rlx_dialect.pipelines.named import PIPELINE_NAMES, named_pipeline
from rlx_dialect.pipelines.rlx_opt import RlxOpt
from rlx_dialect.weights import find_weights, write_weights
from rlx_dialect.xdsl_compat import Context, ModulePass, VerifyException, parse_module, rlx_context

TOOL = Path(__file__).parent.parent / "tools" / "rlx-opt"

MLP = """\
func.func @mlp(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x16xf32> {rlx.param = "w"},
               %bias: tensor<16xf32> {rlx.param = "bias"}) -> tensor<4x16xf32> {
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %0, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = rlx.activation gelu %1 : tensor<4x16xf32>
  func.return %2 : tensor<4x16xf32>
}
"""
INVALID = MLP.replace("8x16xf32> {rlx", "9x16xf32> {rlx").replace("tensor<8x16", "tensor<9x16")


Tool = Callable[..., Result]


@pytest.fixture
def opt() -> Tool:
    return run_opt


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    return path


@pytest.fixture
def invalid(tmp_path: Path) -> Path:
    path = tmp_path / "invalid.mlir"
    path.write_text(INVALID)
    return path


# Named pipelines.


@pytest.mark.parametrize("name", PIPELINE_NAMES)
def test_a_named_pipeline_is_the_text_it_prints(opt: Tool, model: Path, name: str):
    printed = opt("--pipeline", name, "--print-pipeline", model)
    assert printed == Result(0, named_pipeline(name) + "\n", "")
    by_name = opt("--pipeline", name, model)
    by_text = opt("-p", printed.out.strip(), model)
    assert by_name == by_text
    assert by_name.status == 0
    assert by_name.out != opt(model).out


def test_fusion_happens(opt: Tool, model: Path):
    out = opt("--pipeline=metal-fuse", model).out
    assert "rlx.fused_matmul_bias_act gelu %x, %w, %bias" in out
    assert "rlx.matmul" not in out


def test_environment_is_in_the_text(opt: Tool, model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLX_DISABLE_MATMUL_BIAS_FUSION", "1")
    text = opt("--pipeline=cpu-fuse", "--print-pipeline").out.strip()
    assert "matmul-bias" not in text
    monkeypatch.delenv("RLX_DISABLE_MATMUL_BIAS_FUSION")
    assert "rlx.matmul" in opt("-p", text, model).out
    monkeypatch.setenv("RLX_FUSE_ATTN_THRESHOLD", "many")
    assert opt("--pipeline=cpu", model) == Result(
        1, "", "error: RLX_FUSE_ATTN_THRESHOLD must be an integer, got 'many'\n"
    )


def test_the_list_of_pipelines(opt: Tool):
    lines = opt("--list-pipelines").out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == list(PIPELINE_NAMES)
    assert all(line.split()[1] == named_pipeline(line.split()[0]).split()[0] for line in lines)


def test_a_text_prints_as_itself(opt: Tool):
    assert opt("-p", "rlx-dce,cse", "--print-pipeline").out == "rlx-dce,cse\n"


# Mistakes in the command line.


def test_pipeline_and_passes_exclude_each_other(opt: Tool, model: Path):
    assert opt("--pipeline=cpu", "-p", "rlx-dce", model) == Result(
        1, "", "error: --pipeline and -p exclude each other\n"
    )


def test_an_unknown_pipeline_lists_the_known_ones(opt: Tool, model: Path):
    result = opt("--pipeline=metl", model)
    assert result.status == 1
    assert result.err.startswith("error: unknown pipeline 'metl'; known pipelines: cpu, cpu-fuse, metal, metal-fuse")


def test_mistakes_in_passes(opt: Tool, model: Path):
    unknown = opt("-p", "rlx-fuse-matmul-bias", model).err
    assert unknown.startswith("error: unknown pass 'rlx-fuse-matmul-bias' (similar: rlx-fuse-matmul-bias-act")
    assert opt("-p", "rlx-dce{size=3}", model).err.startswith("error: rlx-dce: Provided arguments")
    assert opt("-p", ",", model).err.startswith("error: Error parsing pass pipeline specification")


def test_files_that_cannot_be_read(opt: Tool, tmp_path: Path):
    (tmp_path / "a.bin").write_bytes(b"\xff")
    (tmp_path / "b.mlir").write_bytes(b"\xff\xfe")
    assert opt(tmp_path / "none.mlir").err == f"{tmp_path}/none.mlir: error: No such file or directory\n"
    assert opt(tmp_path).err == f"{tmp_path}: error: Is a directory\n"
    assert "Unrecognized file extension 'bin'; known are .mlir, .onnx" in opt(tmp_path / "a.bin").err
    assert f"{tmp_path}/b.mlir: error: no text: " in opt(tmp_path / "b.mlir").err


def test_a_file_without_operations_is_an_empty_module(opt: Tool, tmp_path: Path):
    path = tmp_path / "empty.mlir"
    for text in ("", "\n\n", "// nothing here\n  // nor here"):
        path.write_text(text)
        assert opt("-p", "rlx-dce", path) == Result(0, "builtin.module {\n}\n\n", "")
        assert opt("--no-implicit-module", path).status == 1


# Mistakes in the module.


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%0 = rlx.reverse %x {axes = [99999999999999999999]} : tensor<2xf32>", "99999999999999999999 is out of range"),
        ("%0 = rlx.reverse %x {axes = [" + 5000 * "9" + "]} : tensor<2xf32>", "4300 digits"),
        ("%0 = rlx.constant dense<1> : tensor<2xi128>", "Format not implemented for i128"),
        ("%0 = rlx.constant dense<1.0> : tensor<2xf80>", "xDSL cannot hold a value of this type"),
    ],
)
def test_numbers_that_cannot_be_held(opt: Tool, tmp_path: Path, line: str, says: str):
    path = tmp_path / "numbers.mlir"
    path.write_text(f"func.func @main(%x: tensor<2xf32>) {{\n  {line}\n  func.return\n}}\n")
    result = opt(path)
    assert result.status == 1
    assert result.err.startswith(f"{path}:2:3: error: ")
    assert says in result.err
    assert len(result.err.splitlines()) == 1


def test_nesting_has_an_end(opt: Tool, tmp_path: Path):
    path = tmp_path / "nested.mlir"
    path.write_text("module {" * 2000 + "}" * 2000)
    assert opt(path) == Result(1, "", f"{path}: error: nested too deeply\n")


def test_a_syntax_error_shows_its_line(opt: Tool, model: Path):
    model.write_text(MLP.replace("gelu %1", "glu %1"))
    lines = opt(model).err.splitlines()
    assert lines[0].startswith(f"{model}:5:23: error: 'rlx.activation': 'glu' is none of gelu, ")
    assert lines[1:] == ["  %2 = rlx.activation glu %1 : tensor<4x16xf32>", " " * 22 + "^"]


def test_an_invalid_operation_is_named_and_the_module_not_dumped(opt: Tool, invalid: Path):
    result = opt(invalid)
    assert (result.status, result.out) == (1, "")
    first, second = result.err.splitlines()
    assert first.startswith(f"{invalid}:3:3: error: 'rlx.matmul': ")
    assert "8 and 9" in first
    assert second == ("  in @mlp: %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<9x16xf32>) -> tensor<4x16xf32>")


def test_a_use_before_the_definition_is_found(opt: Tool, model: Path):
    """xDSL's verifier does not look."""
    lines = MLP.splitlines(keepends=True)
    model.write_text("".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    first, second = opt(model).err.splitlines()
    assert first == (
        f"{model}:3:3: error: 'rlx.binary': operand #0, defined by 'rlx.matmul', does not dominate this use"
    )
    assert second.startswith("  in @mlp: %0 = rlx.binary add %1, %bias : ")


def test_input_is_verified_before_any_pass_runs(opt: Tool, invalid: Path):
    assert opt("--pipeline=cpu", invalid).err == opt(invalid).err


def test_verification_can_be_left_out(invalid: Path):
    # In a process of its own: xDSL patches a class for it.
    command = [sys.executable, str(TOOL), "--disable-verify", str(invalid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tensor<9x16xf32>" in done.stdout


def test_diagnostics_of_split_input(opt: Tool, tmp_path: Path):
    path = tmp_path / "several.mlir"
    path.write_text(f"{MLP}// -----\n{INVALID}// -----\n{MLP.replace('rlx.matmul', 'rlx.mtmul')}")
    result = opt("--split-input-file", "--verify-diagnostics", "--parsing-diagnostics", path)
    assert result.status == 0
    assert result.out.count("func.func @mlp") == 1
    lines = MLP.count("\n") + 1
    assert f"{path}:{lines + 3}:3: error: 'rlx.matmul': " in result.out
    assert f"{path}:{2 * lines + 3}:18\n  %0 = rlx.mtmul %x, %w" in result.out
    assert opt("--split-input-file", path).err.startswith(f"{path}:{lines + 3}:3: error: 'rlx.matmul': ")


def test_explicit_locations_are_kept_and_others_known(opt: Tool, model: Path):
    model.write_text(MLP.replace("tensor<4x16xf32>\n  func", 'tensor<4x16xf32> loc("net.py":70:2)\n  func'))
    out = opt("--print-debuginfo", "-p", "rlx-dce", model).out
    assert 'rlx.activation gelu %1 : tensor<4x16xf32> loc("net.py":70:2)' in out
    assert f'loc("{model}":4:3)' in out


# Passes that fail.


@dataclass(frozen=True)
class Breaks(ModulePass):
    """Leaves an invalid matmul."""

    name = "breaks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, MatMulOp):
                inner.operands = (inner.operands[1], inner.operands[0])


@dataclass(frozen=True)
class Refuses(ModulePass):
    name = "refuses"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise VerifyException("'rlx.matmul': no such lowering")


@dataclass(frozen=True)
class Crashes(ModulePass):
    name = "crashes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("missing")


class OptWithBadPasses(RlxOpt):
    def register_all_passes(self) -> None:
        super().register_all_passes()
        for bad in (Breaks, Refuses, Crashes):
            self.register_pass(bad.name, lambda bad=bad: bad)


def failure(*args: str | Path) -> OptError:
    with pytest.raises(OptError) as caught:
        OptWithBadPasses(args=[str(a) for a in args]).run()
    return caught.value


def test_a_pass_that_refuses_is_named(model: Path):
    error = failure("-p", "rlx-dce,refuses", model)
    assert str(error) == f"{model}: error: refuses: 'rlx.matmul': no such lowering"
    assert not error.internal


def test_a_pass_that_crashes_is_a_mistake_of_ours(model: Path, capsys: pytest.CaptureFixture[str]):
    error = failure("-p", "crashes", model)
    assert str(error) == f"{model}: error: crashes: KeyError: 'missing', a mistake in the pass"
    assert error.internal
    assert isinstance(error.__cause__, KeyError)


def test_a_pass_that_breaks_the_module_is_found(model: Path):
    at_end = str(failure("-p", "breaks,rlx-dce", model))
    assert at_end.startswith(f"{model}:3:3: error: after the last pass (--verify-each finds which): 'rlx.matmul': ")
    assert at_end.splitlines()[1].startswith("  in @mlp: %0 = rlx.matmul %w, %x : ")
    each = str(failure("-p", "rlx-dce,breaks,rlx-dce", "--verify-each", model))
    assert each.startswith(f"{model}:3:3: error: after breaks: 'rlx.matmul': ")
    alone = str(failure("-p", "breaks", model))
    assert alone.startswith(f"{model}:3:3: error: after breaks: 'rlx.matmul': ")


def test_a_crash_shows_the_traceback_too(model: Path, monkeypatch: pytest.MonkeyPatch, opt: Tool):
    monkeypatch.setattr("rlx_dialect.pipelines.rlx_opt.RlxOpt", OptWithBadPasses)
    crash = opt("-p", "crashes", model)
    assert crash.status == 1
    assert "Traceback" in crash.err
    assert crash.err.endswith("error: crashes: KeyError: 'missing', a mistake in the pass\n")
    assert "Traceback" not in opt("-p", "refuses", model).err


# Output.


def test_output_is_written_only_when_all_went_well(opt: Tool, model: Path, invalid: Path, tmp_path: Path):
    output = tmp_path / "out.mlir"
    output.write_text("precious")
    assert opt("-o", output, invalid).status == 1
    assert output.read_text() == "precious"
    assert opt("-o", output, model) == Result(0, "", "")
    assert output.read_text() == opt(model).out
    assert opt("-o", tmp_path / "no" / "out.mlir", model).err == (
        f"{tmp_path}/no/out.mlir: error: No such file or directory\n"
    )


def test_xdsl_options_still_work(opt: Tool, model: Path):
    generic = opt("--print-op-generic", model).out
    assert '"rlx.matmul"(%x, %w)' in generic
    assert opt("-t", "mlir", model).out == opt(model).out
    timed = opt("-p", "rlx-dce,cse", "--time-passes", model)
    assert timed.out == opt("-p", "rlx-dce,cse", model).out
    assert [line.split()[1] for line in timed.err.splitlines()] == ["rlx-dce", "cse"]
    between = opt("-p", "rlx-fuse-matmul-bias-act,rlx-dce", "--print-between-passes", model).out
    assert between.startswith("IR after rlx-fuse-matmul-bias-act:\nbuiltin.module {")
    assert between.count("func.func @mlp") == 2
    assert opt("-t", "nonsense", model).status == 2


@pytest.mark.parametrize("target", ["rlx-msl", "rlx-spirv", "rlx-wgsl"])
def test_kernels_of_a_module_that_has_none(opt: Tool, model: Path, target: str):
    assert opt("-t", target, model) == Result(
        1,
        "",
        f"{model}: error: {target}: the module has no GPU kernels: lower it first, as --pipeline=metal does\n",
    )


def test_standard_input(opt: Tool, model: Path, monkeypatch: pytest.MonkeyPatch):
    for args in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MLP.encode())))
        assert opt(*args) == opt(model)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(INVALID.encode())))
    assert opt().err.startswith("stdin:3:3: error: 'rlx.matmul': ")


def test_in_process_use(model: Path, capsys: pytest.CaptureFixture[str]):
    RlxOpt(args=["-p", "rlx-fuse-matmul-bias-act", str(model)]).run()
    assert "rlx.fused_matmul_bias_act gelu" in capsys.readouterr().out


def test_the_tool_of_the_checkout(model: Path):
    command = [sys.executable, str(TOOL), "--pipeline=cpu-fuse", str(model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "rlx.fused_matmul_bias_act gelu" in done.stdout
    assert os.access(TOOL, os.X_OK)


# The side file of weights.


@pytest.fixture
def weighted(model: Path) -> Path:
    values = {"w": np.ones((8, 16), np.float32), "bias": np.zeros(16, np.float32)}
    write_weights(model.with_suffix(".safetensors"), main_function(parse(MLP)), values)
    return model


def weights_of(path: Path) -> str | None:
    module = parse_module(path.read_text(), rlx_context())
    assert (found := find_weights(module, path)) is not None
    assert found["w"].shape == (8, 16)
    name = module.attributes.get("rlx.weights")
    assert name is None or isinstance(name, StringAttr)
    return name and name.data


def test_weights_are_found_from_wherever_the_module_is_written(opt: Tool, weighted: Path, tmp_path: Path):
    other = tmp_path / "deep" / "er"
    other.mkdir(parents=True)
    assert opt("-o", tmp_path / "fused.mlir", weighted).status == 0
    assert weights_of(tmp_path / "fused.mlir") == "mlp.safetensors"
    assert opt("-o", other / "mlp.mlir", weighted).status == 0
    assert weights_of(other / "mlp.mlir") == "../../mlp.safetensors"
    assert opt("-o", tmp_path / "deep" / "again.mlir", other / "mlp.mlir").status == 0
    assert weights_of(tmp_path / "deep" / "again.mlir") == "../mlp.safetensors"
    assert opt("-o", other / "beside.mlir", other / "mlp.mlir").status == 0
    assert weights_of(other / "beside.mlir") == "../../mlp.safetensors"


def test_weights_that_are_found_anyway_are_not_named(opt: Tool, weighted: Path, tmp_path: Path):
    assert opt("-o", weighted, "-p", "rlx-dce", weighted).status == 0
    assert weights_of(weighted) is None
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "mlp.safetensors").symlink_to(weighted.with_suffix(".safetensors"))
    assert opt("-o", tmp_path / "deep" / "mlp.mlir", weighted).status == 0
    assert weights_of(tmp_path / "deep" / "mlp.mlir") is None


def test_an_absolute_name_stays(opt: Tool, weighted: Path, tmp_path: Path):
    side = weighted.with_suffix(".safetensors")
    named = tmp_path / "named.mlir"
    named.write_text(f'builtin.module attributes {{rlx.weights = "{side}"}} {{\n{MLP}}}\n')
    (tmp_path / "deep").mkdir()
    assert opt("-o", tmp_path / "deep" / "x.mlir", named).status == 0
    assert weights_of(tmp_path / "deep" / "x.mlir") == str(side)


def test_a_graph_without_side_file_gets_no_name(opt: Tool, model: Path, tmp_path: Path):
    assert opt("-o", tmp_path / "out.mlir", model).status == 0
    assert "rlx.weights" not in (tmp_path / "out.mlir").read_text()
