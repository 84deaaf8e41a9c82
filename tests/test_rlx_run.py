"""rlx-run: inputs and outputs as files, the check, its exit status, its messages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import parse
from xdsl.dialects.builtin import ComplexType, bf16, f16, f32, f64, i32

from rlx_dialect.runtime import rlx_run
from rlx_dialect.runtime.compare import difference, element_tolerance
from rlx_dialect.xdsl_compat import print_module

MLP = """func.func @main(%x: tensor<3x5xf32> {rlx.input = "x"}, %w: tensor<5x7xf32> {rlx.param = "w"},
                %b: tensor<7xf32> {rlx.param = "b"})
    -> (tensor<3x7xf32> {rlx.output = "y"}, tensor<3x5xf32> {rlx.output = "same"}) {
  %0 = rlx.matmul %x, %w : (tensor<3x5xf32>, tensor<5x7xf32>) -> tensor<3x7xf32>
  %1 = rlx.binary add %0, %b : (tensor<3x7xf32>, tensor<7xf32>) -> tensor<3x7xf32>
  %2 = rlx.activation gelu %1 : tensor<3x7xf32>
  func.return %2, %x : tensor<3x7xf32>, tensor<3x5xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    return path


def run(*arguments: str | Path) -> int | str | None:
    with pytest.raises(SystemExit) as exit_:
        rlx_run.main([str(a) for a in arguments])
    return exit_.value.code


@pytest.mark.parametrize("engine", ["reference", "iree"])
def test_check_prints_the_error_of_each_output(model: Path, engine: str, capsys: pytest.CaptureFixture[str]):
    assert run(model, "--engine", engine, "--check") == 0
    out = capsys.readouterr().out
    assert "y: float32 3x7" in out
    assert "same: largest error 0 absolute, 0 relative: ok" in out


def test_check_beyond_tolerance_is_exit_status_1(model: Path, capsys: pytest.CaptureFixture[str]):
    # gelu by IREE's approximation of erf is never bit-equal to the reference.
    assert run(model, "--check", "--atol", "0", "--rtol", "0") == 1
    out = capsys.readouterr().out
    assert "y: largest error" in out
    assert "BEYOND TOLERANCE" in out


def test_the_tolerance_of_check_is_the_element_types():
    """bf16 lies in float32, and a complex number in two floats."""
    found = [element_tolerance(element) for element in (f16, bf16, f32, ComplexType(f32), f64, i32)]
    assert found == [2e-2, 1.6e-1, 1e-4, 1e-4, 1e-8, 0.0]


def test_check_of_bf16_that_rounds_once_less(tmp_path: Path):
    model, t = tmp_path / "model.mlir", "tensor<5x9xbf16>"
    model.write_text(
        f"""func.func @main(%x: {t}, %w: tensor<9x9xbf16>, %b: tensor<9xbf16>) -> {t} {{
          %0 = rlx.matmul %x, %w : ({t}, tensor<9x9xbf16>) -> {t}
          %1 = rlx.binary add %0, %b : ({t}, tensor<9xbf16>) -> {t}
          func.return %1 : {t}
        }}"""
    )
    assert run(model, "--engine=reference", "--check") == 0


T = "tensor<2xf32>"


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        (
            f"%0 = arith.addf %x, %x : {T}",
            ["--engine=reference"],
            r"operations of RLX only, not\n  arith.addf at .*:2:",
        ),
        (
            f"%0 = arith.addf %x, %x : {T}",
            ["--target=tpu"],
            r"operations of StableHLO only, not\n  arith.addf at .*:2:",
        ),
        (f'%0 = "a.b"(%x) : ({T}) -> {T}', ["--target=tpu"], r"operations of StableHLO only, not\n  a.b at .*:2:"),
        (f"%0 = func.call @main(%x) : ({T}) -> {T}", [], "functions call each other in a circle: @main, @main"),
    ],
)
def test_what_cannot_run_is_an_error(tmp_path: Path, body: str, options: list[str], message: str):
    model = tmp_path / "model.mlir"
    model.write_text(f"func.func @main(%x: {T}) -> {T} {{\n  {body}\n  func.return %0 : {T}\n}}")
    assert re.search(message, str(run(model, *options)))


def test_what_no_engine_holds(tmp_path: Path):
    model = tmp_path / "model.mlir"
    model.write_text("func.func @main(%x: tensor<2xi4>) -> tensor<2xi4> { func.return %x : tensor<2xi4> }")
    assert run(model) == "rlx-run: 'arg0' cannot cross the border of a graph: no NumPy dtype for element type i4"


def test_inputs_and_outputs_are_npz_files_by_name(model: Path, tmp_path: Path):
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.savez(tmp_path / "in.npz", x=x)
    assert run(model, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz") == 0
    with np.load(tmp_path / "out.npz") as out:
        assert sorted(out.files) == ["same", "y"]
        np.testing.assert_array_equal(out["same"], x)


def test_outputs_may_have_any_name(model: Path, tmp_path: Path):
    model.write_text(MLP.replace('"y"', '"file"').replace('"same"', '"layer/0 é"'))
    assert run(model, "--engine=reference", "--outputs", tmp_path / "out.npz") == 0
    with np.load(tmp_path / "out.npz") as out:
        assert sorted(out.files) == ["file", "layer/0 é"]
        assert out["file"].shape == (3, 7)
    assert "cannot be written" in str(run(model, "--engine=reference", "--outputs", tmp_path / "no/out.npz"))


def test_random_inputs_depend_on_the_seed_alone(model: Path, tmp_path: Path):
    stored: list[np.ndarray] = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run(model, "--engine=reference", "--seed", str(seed), "--outputs", tmp_path / f"{name}.npz") == 0
        with np.load(tmp_path / f"{name}.npz") as out:
            stored.append(out["same"])
    np.testing.assert_array_equal(stored[0], stored[1])
    assert (stored[0] != stored[2]).any()


def test_random_indices_stay_inside_the_table():
    module = parse(
        """func.func @main(%t: tensor<3x4xf32>, %i: tensor<50xi64> {rlx.input = "i"}) -> tensor<50x4xf32> {
  %0 = rlx.gather %t, %i {axis = 0} : (tensor<3x4xf32>, tensor<50xi64>) -> tensor<50x4xf32>
  func.return %0 : tensor<50x4xf32>
}"""
    )
    values = rlx_run.random_inputs(rlx_run.main_function(module), 0, 2)
    assert set(values["i"].tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({}, "input 'x' is missing: expected f32 of shape 3x5"),
        ({"x": np.zeros((3, 5), np.float32), "z": np.zeros(1)}, "input 'z' is unknown; the inputs are 'x'"),
        ({"x": np.zeros((3, 4), np.float32)}, "input 'x' must be f32 of shape 3x5, got float32 of shape 3x4"),
        ({"x": np.zeros((3, 5))}, "input 'x' must be f32 of shape 3x5, got float64 of shape 3x5"),
    ],
)
def test_inputs_that_do_not_fit(model: Path, tmp_path: Path, stored: dict[str, np.ndarray], message: str):
    np.savez(tmp_path / "in.npz", **stored)
    assert f"in.npz: {message}" in str(run(model, "--inputs", tmp_path / "in.npz"))


def test_messages_for_bad_files(model: Path, tmp_path: Path):
    assert "nowhere.mlir: error: an .mlir file expected" in str(run(tmp_path / "nowhere.mlir"))
    np.save(tmp_path / "single.npy", np.zeros(3))
    for name, content in (("text.npz", b"no archive"), ("empty.npz", b""), ("cut.npz", b"PK\x03\x04 cut")):
        (tmp_path / name).write_bytes(content)
        assert f"{name}: an .npz file of inputs expected" in str(run(model, "--inputs", tmp_path / name))
    assert "it holds a single array" in str(run(model, "--inputs", tmp_path / "single.npy"))
    model.write_text(MLP.replace("gelu", "glu"))
    assert "mlp.mlir:6:23: error: 'rlx.activation': 'glu' is none of gelu," in str(run(model))
    model.write_text(MLP.replace("rlx.binary add %0, %b", "rlx.binary bit_or %0, %b"))
    message = str(run(model))
    assert "mlp.mlir:5:3: error: 'rlx.binary': operands of bit_or must have an integer element type" in message
    assert len(message.splitlines()) == 2


def test_a_target_without_an_engine(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rlx_run, "TARGET_ENGINES", {"cpu": "iree", "wgpu": "wgpu"})
    assert run(model, "--target=cuda") == "rlx-run: no engine runs target 'cuda' (targets with one: cpu, wgpu)"
    assert run(model, "--target=cuda", "--engine=reference", "--check") == 0
    assert str(run(model, "--target=wgpu", "--engine=iree")).endswith(
        "engine 'iree' does not take what target 'wgpu' lowers to (it takes: cpu)"
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cuda", "no NVIDIA GPU can be used here: libcuda.so.1 or nvcuda.dll is not installed; it comes with NVIDIA's"),
        ("rocm", "no AMD GPU can be used here: libamdhip64.so or "),
    ],
)
def test_no_driver_is_one_line(model: Path, target: str, message: str, monkeypatch: pytest.MonkeyPatch):
    def nothing(name: str):
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", nothing)
    assert str(run(model, f"--target={target}")).startswith(f"rlx-run: {message}")


def test_wgpu_stands_in_for_metal_and_says_so(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("rlx_dialect.runtime.metal.find_spec", lambda name: None)
    assert run(model, "--target=metal", "--check") == 0
    assert "engine 'wgpu' runs the SPIR-V that the Metal kernels are made from" in capsys.readouterr().err
    assert "PyObjC's Metal is not installed" in str(run(model, "--target=metal", "--engine=metal"))


def test_numbers_out_of_range(model: Path, capsys: pytest.CaptureFixture[str]):
    for option in ("--bench=0", "--dynamic=-1", "--seed=-1"):
        assert run(model, option) == 2
        assert "is less than" in capsys.readouterr().err


def test_names_beyond_ascii_and_the_other_byte_order(model: Path, tmp_path: Path):
    module = parse(MLP.replace('"w"', '"gew/ü"').replace('"x"', '"é"'))
    model.write_text(print_module(module))
    x = np.arange(15, dtype=">f4").reshape(3, 5)
    np.savez(tmp_path / "in.npz", é=x)
    assert run(model, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", "--check") == 0
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["same"], x)


def test_two_outputs_of_one_name_are_refused(model: Path):
    model.write_text(MLP.replace('"same"', '"y"'))
    assert str(run(model)) == "rlx-run: @main: several results are named y"


def test_bench_prints_times(model: Path, capsys: pytest.CaptureFixture[str]):
    assert run(model, "--engine=reference", "--bench", "3") == 0
    assert "3 runs: median" in capsys.readouterr().out


def test_difference_of_special_values():
    nan, inf = np.nan, np.inf
    expected = np.array([nan, inf, -inf, 1.0], np.float32)
    assert difference("y", expected, expected, 0, 0).within
    for other in ([0, inf, -inf, 1], [nan, -inf, -inf, 1], [nan, inf, -inf, nan], [nan, 3e38, -inf, 1]):
        found = np.array(other, np.float32)
        result = difference("y", found, expected, 1e-2, 1e-2)
        assert not result.within
        assert result.absolute == inf
    with pytest.raises(ValueError, match="output 'y' has shape"):
        difference("y", expected[:3], expected, 0, 0)
