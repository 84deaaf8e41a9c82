"""What ``rlx-opt`` says about fusion: reports, expectations, options, comparison of targets, claims and numerics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from opt_helpers import Result, run_opt
from xdsl.ir import Operation

from rlx_dialect.ops.elementwise import ActivationOp
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.passes.matching.fusion import FusionPass
from rlx_dialect.pipelines.compare import fusions
from rlx_dialect.pipelines.diagnostics import OptError
from rlx_dialect.pipelines.expect import Expectation
from rlx_dialect.pipelines.named import named_pipeline
from rlx_dialect.pipelines.options import OPTION_NAMES, FusionOptions
from rlx_dialect.pipelines.rlx_opt import RlxOpt
from rlx_dialect.pipelines.targets import TARGETS
from rlx_dialect.xdsl_compat import Context, ModulePass, PatternRewriter, RewritePattern

MLP = """\
func.func @mlp(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x16xf32> {rlx.param = "w"},
              %bias: tensor<16xf32> {rlx.param = "bias"}, %y: tensor<4x8xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %h = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %h, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = rlx.activation gelu %1 : tensor<4x16xf32>
  %twice = rlx.matmul %y, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %3 = rlx.binary max %twice, %2 : tensor<4x16xf32>
  %4 = rlx.binary add %twice, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  func.return %3, %4 : tensor<4x16xf32>, tensor<4x16xf32>
}
"""
FUSE = "rlx-fuse-matmul-bias-act"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    return path


# --fusion-report.


def test_the_report_of_passes_that_are_written_out(model: Path):
    plain, reported = run_opt("-p", FUSE, model), run_opt("-p", FUSE, "--fusion-report", model)
    assert (reported.status, reported.out) == (0, plain.out)
    lines = reported.err.splitlines()
    assert lines[0] == "fusion report"
    assert lines[1].startswith("  nodes=10→8 matmul=2→1 fused_mm_act=1 ")
    assert lines[-2] == "    more-than-one-use (1)"
    assert lines[-1].startswith(f"      matmul_bias_act: rlx.matmul %twice at {model}:6:3: %twice has 2 uses: ")
    assert run_opt("-p", FUSE, "--fusion-report=text", model) == reported


def test_the_report_of_a_named_pipeline_ends_where_fusion_does(model: Path):
    fused, lowered = (run_opt(f"--pipeline={name}", "--fusion-report", model) for name in ("wgpu-fuse", "wgpu"))
    assert fused.err.startswith("fusion report for wgpu\n")
    assert lowered.err == fused.err
    assert "gpu.module" in lowered.out


def test_the_report_for_machines(model: Path):
    result = run_opt("--pipeline=cuda-fuse", "--fusion-report=json", model)
    data = json.loads(result.err)
    assert data["target"] == "cuda"
    assert data["summary"]["nodes_before"] == 10
    assert result.out == run_opt("--pipeline=cuda-fuse", model).out
    assert run_opt("-p", FUSE, "--fusion-report=xml", model).status == 2


def test_the_report_can_stand_before_the_file_or_behind_it(model: Path):
    assert run_opt("-p", FUSE, model, "--fusion-report") == run_opt("-p", FUSE, "--fusion-report", model)


def test_a_report_of_each_part_of_a_split_file(tmp_path: Path):
    path = tmp_path / "two.mlir"
    path.write_text(f"{MLP}// -----\n{MLP}")
    assert run_opt("--split-input-file", "-p", FUSE, "--fusion-report", path).err.count("fusion report") == 2


# --expect.


@pytest.mark.parametrize(
    ("text", "holding", "failing"),
    [("==2", {2}, {1, 3}), (">=2", {2, 3}, {1}), ("<=2", {1, 2}, {3}), (">2", {3}, {1, 2}), ("<2", {1}, {2, 3})],
)
def test_operators(text: str, holding: set[int], failing: set[int]):
    wanted = Expectation.parse(f"rlx.fused_swiglu {text}")
    assert str(wanted) == f"fused_swiglu{text}"
    assert all(map(wanted.holds, holding))
    assert not any(map(wanted.holds, failing))


@pytest.mark.parametrize("text", ["fused_swiglu", "fused_swiglu=2", "fused_swiglu>=", ">=2", "fused_swiglu>=-1"])
def test_an_expectation_has_three_parts(text: str, model: Path):
    assert run_opt("-p", FUSE, "--expect", text, model) == Result(
        1, "", f"error: an expectation is an operation, one of == >= <= > <, a number; got '{text}'\n"
    )


def test_an_expectation_of_an_unknown_operation(model: Path):
    result = run_opt("-p", FUSE, "--expect", "fused_matmul_bias_akt>=1", model)
    assert result.status == 1
    assert result.err.startswith("error: unknown operation 'fused_matmul_bias_akt' (similar: fused_matmul_bias_act")


def test_expectations_that_hold_say_nothing(model: Path):
    plain = run_opt("--pipeline=metal", model)
    expected = ["--expect", "fused_matmul_bias_act==1", "--expect=matmul>=1", "--expect", "rlx.activation==0"]
    assert run_opt("--pipeline=metal", *expected, model) == plain


def test_what_fails_says_the_reasons_of_the_passes_that_would_make_it(model: Path, tmp_path: Path):
    output = tmp_path / "out.mlir"
    result = run_opt("-p", FUSE, "--expect", "fused_matmul_bias_act>=2", "--expect", "matmul==0", "-o", output, model)
    assert (result.status, result.out) == (1, "")
    assert not output.exists()
    reason = f"more-than-one-use ×1, as matmul_bias_act: rlx.matmul %twice at {model}:6:3: %twice has 2 uses: "
    lines = result.err.splitlines()
    assert lines[0] == f"{model}: error: fused_matmul_bias_act>=2 expected, 1 found: the most frequent reasons are"
    assert lines[1].startswith(f"  {reason}")
    assert lines[2] == f"{model}: error: matmul==0 expected, 1 found: the most frequent reasons are"
    assert lines[3].startswith(f"  {reason}")


def test_a_reason_outlives_its_operation(tmp_path: Path):
    """Products that take no bias become one, and still it is said why they took none."""
    path = tmp_path / "two.mlir"
    path.write_text("""\
func.func @main(%x: tensor<4x8xf32> {rlx.input = "x"}, %v: tensor<8x16xf32> {rlx.param = "v"},
                %w: tensor<8x16xf32> {rlx.param = "w"}, %r: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %0 = rlx.matmul %x, %v : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %2 = rlx.binary add %0, %r : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  func.return %1, %2 : tensor<4x16xf32>, tensor<4x16xf32>
}
""")
    result = run_opt("--pipeline=cuda-fuse", "--expect", "matmul==1", "--expect", "fused_matmul_bias_act>=1", path)
    assert result.status == 1
    assert "bias-shape ×1, as matmul_bias_act: rlx.matmul" in result.err
    assert "matmul==1" not in result.err


def test_what_fails_for_want_of_a_pass_says_why_it_is_not_there(model: Path, monkeypatch: pytest.MonkeyPatch):
    def why(*args: str) -> str:
        result = run_opt(*args, model)
        assert result.status == 1
        return result.err.strip().removeprefix(f"{model}: error: ")

    assert why("--pipeline=cuda", "--expect=fused_swiglu>=1") == (
        "fused_swiglu>=1 expected, 0 found: the pipeline of cuda has no pass that makes it: "
        "cuda does not claim fused_swiglu"
    )
    assert why("-p", "rlx-dce", "--expect=fused_residual_ln>0") == (
        "fused_residual_ln>0 expected, 0 found: none of the passes makes it; rlx-fuse-residual-ln would"
    )
    assert why("--pipeline=cuda", "--expect=fused_residual_ln>0") == (
        "fused_residual_ln>0 expected, 0 found: rlx-fuse-residual-ln found no candidate that it declined"
    )
    assert why("--pipeline=cuda", "--expect=cumulative>0") == "cumulative>0 expected, 0 found: no fusion makes it"
    assert why("-p", FUSE, "--expect=fused_matmul_bias_act<1") == (
        f"fused_matmul_bias_act<1 expected, 1 found: {FUSE} made 1"
    )
    assert why("-p", "rlx-dce", "--expect=matmul<1") == "matmul<1 expected, 2 found: nothing fuses it"
    monkeypatch.setenv("RLX_DISABLE_RESIDUAL_LN_FUSION", "1")
    assert why("--pipeline=tpu", "--expect=fused_residual_ln>0").endswith(
        "makes it: disable_residual_ln_fusion is true (environment RLX_DISABLE_RESIDUAL_LN_FUSION=1)"
    )


# --print-options.


def rows(text: str) -> dict[str, list[str]]:
    return {
        line.split("  ")[0].strip(): [c.strip() for c in line.split("  ") if c.strip()] for line in text.splitlines()
    }


def test_options_are_shown_with_where_they_came_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLX_NO_FK_FUSION", "on")
    monkeypatch.setenv("RLX_FUSE_ATTN_THRESHOLD", "128")
    shown = rows(run_opt("--pipeline=metal", "--print-options", "--numerics=strict", "--claims=+fft,-matmul").out)
    assert set(OPTION_NAMES) <= set(shown)
    assert shown["skip_fusion"][1:] == ["false", "default"]
    assert shown["unfuse_elementwise_regions"][1:] == ["true", "target metal"]
    assert shown["fk_fusion"][1:] == ["false", "environment RLX_NO_FK_FUSION=on"]
    assert shown["fuse_attn_threshold"][1:] == ["128", "environment RLX_FUSE_ATTN_THRESHOLD=128"]
    assert shown["native_fk_regions"][1:] == ["true", "target metal"]
    assert shown["numerics"][1:] == ["strict", "argument"]
    assert shown["fusion_limits"][1:] == ["–", "default"]
    assert shown["region limits"][1:] == ["32 steps, 16 inputs", "target metal"]
    assert shown["claims"][1:] == ["11 operations", "target metal; argument +fft -matmul"]


def test_limits_that_regions_lower_say_so(monkeypatch: pytest.MonkeyPatch):
    assert rows(run_opt("--pipeline=cpu", "--print-options").out)["region limits"][1:] == ["unbounded", "target cpu"]
    monkeypatch.setenv("RLX_KEEP_ELEMENTWISE_REGIONS", "1")
    assert rows(run_opt("--pipeline=cpu", "--print-options").out)["region limits"][1:] == [
        "32 steps, 16 inputs",
        "target cpu; regions stay, so at most 32 steps, 16 inputs",
    ]


# --claims and --numerics.


def test_claims_and_numerics_are_in_the_text(model: Path):
    args = ["--claims=-fused_residual_ln", "--numerics=strict"]
    text = run_opt("--pipeline=tpu-fuse", "--print-pipeline", *args).out.strip()
    options = FusionOptions().with_arguments(numerics="strict")
    assert text == named_pipeline("tpu-fuse", options, claims="-fused_residual_ln")
    assert "strict=true" in text
    assert "residual-ln" not in text
    assert run_opt("--pipeline=tpu-fuse", *args, model) == run_opt("-p", text, model)
    assert run_opt("--pipeline=cpu", "--print-pipeline", "--numerics=default") == run_opt(
        "--pipeline=cpu", "--print-pipeline"
    )


def test_strict_numerics_keep_narrow_floats_apart(model: Path):
    narrow = model.with_name("narrow.mlir")
    narrow.write_text(MLP.replace("f32", "f16"))
    assert "fused" in run_opt("--pipeline=metal-fuse", narrow).out
    assert "fused" not in run_opt("--pipeline=metal-fuse", "--numerics=strict", narrow).out
    assert "fused" in run_opt("--pipeline=metal-fuse", "--numerics=strict", model).out
    report = run_opt("--pipeline=metal-fuse", "--numerics=strict", "--fusion-report", narrow).err
    assert "numerics (1)\n      matmul_bias_act: rlx.matmul %h" in report


def test_arguments_about_a_target_need_one(model: Path):
    for argument in ("--claims=+fft", "--numerics=strict", "--print-options"):
        name = argument.partition("=")[0]
        assert run_opt(argument, "-p", FUSE, model) == Result(
            1, "", f"error: {name} is about a target: give --pipeline too\n"
        )
    assert run_opt("--pipeline=cpu", "--claims=+fused_swiglo", model).err.startswith(
        "error: unknown operation 'fused_swiglo' (similar: fused_swiglu"
    )
    assert run_opt("--pipeline=cpu", "--numerics=loose", model).status == 2


# Tables of fusions and targets.


def test_the_list_of_fusions():
    lines = run_opt("--list-fusions").out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == [found.name for found in fusions()]
    table = rows("\n".join(lines))
    assert table[FUSE][1:] == ["fused_matmul_bias_act", "wider", " ".join(TARGETS)]
    assert table["rlx-fuse-swiglu"][1:] == ["fused_swiglu", "wider", "cpu metal mlx wgpu"]
    assert table["rlx-fuse-matmul-residual"][-1] == "–"
    assert all(issubclass(found, FusionPass) for found in fusions())


def test_targets_are_compared(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLX_NO_SHARED_INPUT_MATMUL", "1")
    result = run_opt("--compare-targets", model)
    assert (result.status, result.err) == (0, "")
    table = rows(result.out)
    heading = next(iter(result.out.splitlines())).split()
    assert heading == list(TARGETS)
    cells = {name: dict(zip(TARGETS, row[1:], strict=True)) for name, row in table.items() if name.startswith("rlx-")}
    assert set(cells[FUSE].values()) == {"1"}
    assert cells["rlx-fuse-matmul-residual"] == dict.fromkeys(TARGETS, "no claim")
    assert set(cells["rlx-fuse-shared-input-matmul"].values()) == {"no_shared_input_matmul=true"}
    assert cells["rlx-fuse-transformer-layer"]["wgpu"] == "enable_fuse_transformer_layer=false"
    assert cells["rlx-select-peaks-only-outputs"]["tpu"] == "no claim: fft"
    last = result.out.splitlines()[-1]
    assert last.startswith("no candidate where they run: ")
    assert {"rlx-fuse-swiglu,", "rlx-mark-elementwise-regions,"} <= set(last.split())


def test_targets_are_compared_under_claims(model: Path):
    more = run_opt("--compare-targets", "--claims=+fused_matmul_residual", "--numerics=strict", model)
    assert "no claim" not in rows(more.out).get("rlx-fuse-matmul-residual", [])
    both = run_opt("--compare-targets", "--pipeline=cpu", model)
    assert both.err == "error: --compare-targets runs every target's own pipeline, and takes no --pipeline or -p\n"


def test_a_comparison_can_be_written_to_a_file(model: Path, tmp_path: Path):
    path = tmp_path / "table.txt"
    assert run_opt("--compare-targets", "-o", path, model).status == 0
    assert path.read_text() == run_opt("--compare-targets", model).out


# --check-rewrites.


@dataclass(frozen=True)
class Wrong(ModulePass):
    """Makes exp of gelu."""

    name = "wrong"

    def apply(self, ctx: Context, op: Operation) -> None:
        apply_patterns(op, [WrongPattern()])


class WrongPattern(RewritePattern):
    root = ActivationOp

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(op, ActivationOp)
        if op.kind.data == "gelu":
            rewriter.replace(op, ActivationOp("exp", op.input))


class OptWithWrongPass(RlxOpt):
    def register_all_passes(self) -> None:
        super().register_all_passes()
        self.register_pass("wrong", lambda: Wrong)


def test_rewrites_are_checked(model: Path, capsys: pytest.CaptureFixture[str]):
    right = run_opt("--pipeline=cuda-fuse", "--check-rewrites", model)
    assert right.out == run_opt("--pipeline=cuda-fuse", model).out
    assert "rewrites checked, none wrong" in right.err
    OptWithWrongPass(args=["-p", "wrong", str(model)]).run()
    assert "rlx.activation exp" in capsys.readouterr().out
    with pytest.raises(OptError, match=r"WrongPattern \(exact\) changes values: "):
        OptWithWrongPass(args=["-p", "wrong", "--check-rewrites", str(model)]).run()


def test_a_variable_asks_for_the_report(model: Path, monkeypatch: pytest.MonkeyPatch):
    asked = run_opt("-p", FUSE, "--fusion-report", model)
    monkeypatch.setenv("RLX_FUSION_REPORT", "1")
    assert run_opt("-p", FUSE, model) == asked
    monkeypatch.setenv("RLX_FUSION_REPORT", "off")
    assert run_opt("-p", FUSE, model).err == ""
