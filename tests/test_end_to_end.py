"""The whole way, as users go it: every example through every target's pipeline, and to real outputs where one runs."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from rlx_dialect.pipelines.rlx_opt import main as rlx_opt
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.pipelines.targets import TARGETS
from rlx_dialect.runtime import rlx_run, toolchain
from rlx_dialect.runtime.toolchain import portable_text
from rlx_dialect.xdsl_compat import parse_module, rlx_context

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))


def opt(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of rlx-opt."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            rlx_opt([str(a) for a in arguments])
        except SystemExit as exit_:
            return int(exit_.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_lowers_for_every_target(example: Path, target: str):
    status, text, error = opt(f"--pipeline={target}", example)
    assert (status, error) == (0, "")
    if target == "mlx":  # Its form is RLX, which prints as Python.
        assert opt(f"--pipeline={target}", "-t", "mlx-python", example)[1].count("@mx.compile\ndef main(") == 1
        return
    assert " rlx." not in text
    if target == "tpu":  # XLA's parser takes this one; see test_xla.
        assert "stablehlo." in text
        return
    # The very text that mlir-opt takes: generic form, without our argument attributes.
    toolchain.run("mlir-opt", ["-"], portable_text(parse_module(text, rlx_context())))


@pytest.mark.parametrize("target", ["cpu", "wgpu", "tpu"])
@pytest.mark.parametrize("example", ["mlp", "bert_layer"])
def test_example_runs_with_the_reference_values(example: str, target: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        rlx_run.main([str(ROOT / f"examples/{example}.mlir"), f"--target={target}", "--check"])
    assert exit_.value.code == 0
    assert ": ok" in capsys.readouterr().out


@pytest.mark.parametrize("target", TARGETS)
def test_the_printed_pipeline_does_the_same(target: str):
    bert = ROOT / "examples/bert_layer.mlir"
    _, text, _ = opt(f"--pipeline={target}", "--print-pipeline")
    assert opt("-p", text.strip(), bert) == opt(f"--pipeline={target}", bert)


def test_metal_is_spirv_that_becomes_msl():
    mlp = ROOT / "examples/mlp.mlir"
    status, msl, _ = opt("--pipeline=metal", mlp, "-t", "rlx-msl")
    assert status == 0
    assert msl.count("kernel void") == msl.count("// kernel ") > 0
    status, assembly, _ = opt("--pipeline=metal", mlp, "-t", "rlx-spirv")
    assert status == 0
    assert assembly.count("OpEntryPoint GLCompute") == msl.count("kernel void")


def test_plain_xdsl_opt_fuses_an_example():
    done = subprocess.run(
        [Path(sys.executable).parent / "xdsl-opt", "-p", "rlx-fuse-matmul-bias-act", ROOT / "examples/mlp.mlir"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("rlx.fused_matmul_bias_act") == 3


def test_magika_on_the_cpu_equals_onnxruntime(tmp_path: Path):
    sys.path.insert(0, str(ROOT / "examples"))
    from magika_content_type import model_folder  # pyright: ignore[reportMissingImports]

    from rlx_dialect.frontends.rlx_import import main as rlx_import

    model = model_folder() / "model.onnx"
    rlx_import([str(model), "-o", str(tmp_path / "magika.mlir")])
    inputs = np.random.default_rng(0).integers(0, 257, (3, 2048), np.int32)
    np.savez(tmp_path / "in.npz", bytes=inputs)
    arguments = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"), "--check"]
    with pytest.raises(SystemExit) as exit_:
        rlx_run.main([str(tmp_path / "magika.mlir"), *arguments])
    assert exit_.value.code == 0
    (expected,) = onnxruntime.InferenceSession(str(model)).run(None, {"bytes": inputs})
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["target_label"], np.asarray(expected), rtol=0, atol=1e-5)


def test_module_from_a_file_knows_its_lines():
    module = read_module(ROOT / "examples/mlp.mlir", rlx_context())
    assert 'mlp.mlir":5:5' in str(next(op for op in module.walk() if op.name == "rlx.matmul").location)
