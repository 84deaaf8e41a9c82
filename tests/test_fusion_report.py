"""The report: its fields and its line, what it says of passes, and which misses it keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import graph, parse
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.fuse_matmul_bias_act import FuseMatMulBiasAct
from rlx_dialect.passes.matching.fusion import Numerics, Reason
from rlx_dialect.pipelines.environment import NOTHING_SET, Environment
from rlx_dialect.pipelines.fuse import Fuse
from rlx_dialect.pipelines.gate import GraphIoProfile
from rlx_dialect.pipelines.inventory import Inventory, graph_operations
from rlx_dialect.pipelines.recorder import run_recorded
from rlx_dialect.pipelines.report import FusionReport, MissedFusion, bytes_text, pattern_id, top_reasons
from rlx_dialect.pipelines.targets import CPU, CUDA, METAL
from rlx_dialect.xdsl_compat import PassPipeline, all_passes, print_module, rlx_context

ARGUMENTS = """%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x16xf32> {rlx.param = "w"},
               %b: tensor<16xf32> {rlx.param = "bias"}"""


def dense(after: str = "relu") -> ModuleOp:
    body = f"""%0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = rlx.binary add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %act = rlx.activation {after} %1 : tensor<4x16xf32>"""
    return graph(body, ARGUMENTS, "tensor<4x16xf32>", "%act")


def twice_used() -> ModuleOp:
    body = """%h = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = rlx.binary add %h, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %2 = rlx.binary mul %1, %h : tensor<4x16xf32>"""
    return graph(body, ARGUMENTS, "tensor<4x16xf32>", "%2")


def recorded(module: ModuleOp, text: str, target: Any = None) -> FusionReport:
    return run_recorded(module, PassPipeline.parse_spec(all_passes(), text).passes, rlx_context(), target).report()


# Counts.


def test_nodes_are_arguments_and_operations():
    assert Inventory.of(dense()).nodes == 6
    _, report = Fuse(CPU, NOTHING_SET).run_with_report(dense())
    assert (report.nodes_before, report.nodes_after) == (6, 5)
    _, report = Fuse(CPU, NOTHING_SET).run_with_report(dense("gelu"))
    assert (report.nodes_before, report.nodes_after) == (6, 4)


EVERYTHING = """func.func @main(%x: tensor<1x4x8x8xf32>, %q: tensor<1x4x2x8xf32>, %t: tensor<4x4xf32>) -> () {
  %0 = rlx.activation silu %x : tensor<1x4x8x8xf32>
  %1 = rlx.binary mul %0, %x : tensor<1x4x8x8xf32>
  %2 = rlx.binary add %1, %x : tensor<1x4x8x8xf32>
  %3 = rlx.narrow %x {axis = 2, start = 0, len = 4} : tensor<1x4x8x8xf32> -> tensor<1x4x4x8xf32>
  %4 = rlx.elementwise_region(%3) {prologue = "resize_nearest_2x"} : (tensor<1x4x4x8xf32>) -> tensor<1x4x8x16xf32> {
  ^bb0(%s: f32):
    %u = rlx.activation silu %s : f32
    rlx.yield %u : f32
  }
  %5 = rlx.elementwise_region(%x) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> {
  ^bb0(%s: f32):
    %u = rlx.activation relu %s : f32
    rlx.yield %u : f32
  }
  func.return
}"""


def test_what_is_counted():
    report = FusionReport.scan(parse(EVERYTHING))
    assert (report.silu, report.mul, report.narrow) == (1, 1, 1), "bodies of regions do not count"
    assert (report.elementwise_region, report.fk_prologue_region) == (2, 1)
    assert report.nodes_before == report.nodes_after == 9
    assert report.attention == report.rope == report.matmul_before == 0
    assert len(list(graph_operations(parse(EVERYTHING)))) == 6


def test_the_summary_line():
    before, after = twice_used(), twice_used()
    line = FusionReport.analyze(before, after).summary_line()
    assert line == (
        "nodes=6→6 matmul=1→1 fused_mm_act=0 fused_swiglu=0 elementwise_region=0 transform_region=0 batch_region=0 "
        "fk_prologue=0 missed_mm_act=1 missed_swiglu=0 missed_shared_mm=0"
    )
    assert line == FusionReport.scan(before).summary_line()


def test_analysis_compares_two_modules_and_leaves_them_alone():
    before, after = dense(), Fuse(CUDA, NOTHING_SET).run(dense())
    texts = print_module(before), print_module(after)
    report = FusionReport.analyze(before, after)
    assert (print_module(before), print_module(after)) == texts
    assert (report.matmul_before, report.matmul_after, report.fused_matmul_bias_act) == (1, 0, 1)
    assert report.made == {"fused_matmul_bias_act": 1}
    assert report.saved.kernel_launches == 2
    assert FusionReport.analyze(before, before, []).missed == ()


# Misses.


def test_misses_come_from_the_deciding_check():
    _, report = Fuse(CPU, NOTHING_SET).run_with_report(twice_used())
    (miss,) = [m for m in report.missed if m.pattern == "matmul_bias_act"]
    (decided,) = FuseMatMulBiasAct().misses(twice_used())
    assert (miss.node, miss.context, miss.reason) == ("rlx.matmul", "%h", Reason.MORE_THAN_ONE_USE)
    assert (miss.detail, miss.hint) == (decided.detail, decided.hint)
    assert str(miss) == f"matmul_bias_act: rlx.matmul %h: {decided.detail} ({decided.hint})"
    assert report.missed_matmul_bias_act() == 1
    assert report.missed_swiglu() == report.missed_shared_matmul() == 0


def test_a_miss_of_what_is_fused_later_is_none():
    """The products of a SwiGLU go to no bias, and become one operation all the same."""
    body = """%up = rlx.matmul %x, %wu : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %gate = rlx.matmul %x, %wg : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %s = rlx.activation silu %gate : tensor<4x16xf32>
    %y = rlx.binary mul %up, %s : tensor<4x16xf32>"""
    arguments = '%x: tensor<4x8xf32>, %wu: tensor<8x16xf32> {rlx.param = "u"}, %wg: tensor<8x16xf32> {rlx.param = "g"}'
    declined = recorded(graph(body, arguments, "tensor<4x16xf32>", "%y"), "rlx-fuse-matmul-bias-act")
    assert [m.reason for m in declined.missed] == [Reason.OTHER_CONSUMER] * 2
    _, report = Fuse(METAL, NOTHING_SET).run_with_report(graph(body, arguments, "tensor<4x16xf32>", "%y"))
    assert report.fused_swiglu == 1
    assert [m for m in report.missed if m.pattern == "matmul_bias_act"] == []


def test_a_site_is_described_as_it_was_when_it_was_missed():
    """A later pass may rename or move it."""
    report = recorded(twice_used(), "rlx-fuse-matmul-bias-act,rlx-mark-elementwise-regions")
    (miss,) = [m for m in report.missed if m.pattern == "matmul_bias_act"]
    assert "2 uses: rlx.binary, rlx.binary" in miss.detail


def test_one_site_is_one_line_a_pass():
    again = recorded(twice_used(), "rlx-fuse-matmul-bias-act,rlx-fuse-matmul-bias-act")
    assert again.missed_matmul_bias_act() == 1


def test_pattern_ids():
    assert pattern_id("rlx-fuse-matmul-bias-act") == "matmul_bias_act"
    assert pattern_id("rlx-mark-elementwise-regions") == "mark_elementwise_regions"
    miss = MissedFusion("swiglu_dual_matmul", "rlx.binary", "", Reason.RANK, "d", "h")
    empty = Inventory.of(parse("func.func @f() { func.return }"))
    report = FusionReport.of(empty, empty, [miss, miss, MissedFusion("swiglu", "", "", Reason.AXIS, "", "")])
    assert report.missed_swiglu() == 3
    assert [(r, len(m)) for r, m in report.reasons()] == [(Reason.RANK, 2), (Reason.AXIS, 1)]
    assert top_reasons(report.missed, 1) == ["rank ×2, as swiglu_dual_matmul: rlx.binary: d (h)"]


# Passes and savings.


def test_what_a_pass_did():
    _, report = Fuse(CUDA, NOTHING_SET).run_with_report(dense())
    by_name = {p.name: p for p in report.passes}
    bias = by_name["rlx-fuse-matmul-bias-act"]
    assert (bias.numerics, bias.strict, bias.made, len(bias.rewrites)) == (Numerics.WIDER, False, 1, 2)
    first, second = bias.rewrites
    assert (first.pattern, first.removed, first.inserted) == (
        "FuseBias",
        ("rlx.matmul", "rlx.binary"),
        ("rlx.fused_matmul_bias_act",),
    )
    assert first.saved == GraphIoProfile(1, 0, 0, 2 * 256), "the product is neither written nor read"
    assert second.pattern == "FuseEpilogue"
    assert bias.saved == first.saved + second.saved == report.saved
    assert bias.gain_ns == pytest.approx(2 * 2_000 + 1024 / 800)
    assert by_name["rlx-dce"].numerics is None
    assert not by_name["rlx-dce"].did_something
    assert [p.name for p in report.passes] == [
        p.name for p in PassPipeline.parse_spec(all_passes(), Fuse(CUDA, NOTHING_SET).pipeline()).passes
    ]


def test_what_is_computed_at_load_time_saves_no_call():
    body = """%w2 = rlx.activation relu %w : tensor<8x16xf32>
    %w3 = rlx.activation tanh %w2 : tensor<8x16xf32>
    %0 = rlx.matmul %x, %w3 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>"""
    module = graph(body, ARGUMENTS, "tensor<4x16xf32>", "%0")
    report = recorded(module, "rlx-mark-elementwise-regions", CUDA)
    assert report.elementwise_region == 1
    assert report.saved == GraphIoProfile()


def test_strict_numerics_are_shown():
    _, report = Fuse(CUDA, NOTHING_SET).numerics("strict").run_with_report(dense())
    assert all(p.strict for p in report.passes if p.numerics is not None)
    assert "wider, strict" in str(report)


def test_without_a_target_there_is_no_gate():
    report = recorded(dense(), "rlx-fuse-matmul-bias-act")
    assert report.target is None
    assert report.gain_ns is None
    assert str(report).startswith("fusion report\n  nodes=6→5 ")
    assert "by the target's gate" not in str(report)


# How it is shown.


def test_the_text():
    _, report = Fuse(CPU, NOTHING_SET).run_with_report(dense())
    lines = str(report).splitlines()
    assert lines[0] == "fusion report for cpu"
    assert lines[1] == f"  {report.summary_line()}"
    assert lines[2] == "  made: fused_matmul_bias_act 1"
    assert lines[3] == "  saved a call: 1 launches, 512 B of traffic; 0.1 µs by the target's gate"
    assert lines[4].split() == ["pass", "numerics", "made", "rewrites", "launches", "traffic", "to", "host", "gain"]
    assert lines[6].split() == ["rlx-fuse-matmul-bias-act", "wider", "1", "1", "1", "512", "B", "0", "B", "0.1", "µs"]
    assert lines[-3] == "  left on the table: 1"
    assert lines[-2] == "    unsupported-kind (1)"
    assert lines[-1].startswith("      matmul_bias_act: rlx.activation %act: the product and its bias are fused, but ")


def test_the_json_has_stable_keys():
    _, report = Fuse(CUDA, NOTHING_SET).run_with_report(twice_used())
    assert report.missed
    _, worked = Fuse(CUDA, NOTHING_SET).run_with_report(dense())
    data = json.loads(report.to_json())
    assert list(data) == [
        "target",
        "summary_line",
        "summary",
        "operations",
        "made",
        "saved",
        "passes",
        "reasons",
        "missed",
    ]
    assert list(data["summary"]) == [
        "nodes_before",
        "nodes_after",
        "matmul_before",
        "matmul_after",
        "attention",
        "rope",
        "narrow",
        "silu",
        "mul",
        "fused_matmul_bias_act",
        "fused_swiglu",
        "fused_residual_ln",
        "fused_residual_rms_norm",
        "fused_attention_block",
        "fused_transformer_layer",
        "elementwise_region",
        "transform_region",
        "batch_elementwise_region",
        "fk_prologue_region",
    ]
    assert data["summary"]["nodes_before"] == 6
    assert data["target"] == "cuda"
    costs = ["kernel_launches", "sync_points", "host_output_bytes", "device_traffic_bytes", "gain_ns"]
    assert list(data["saved"]) == costs
    assert list(data["passes"][0]) == ["name", "numerics", "strict", "made", "saved", "rewrites"]
    rewrites = [r for p in json.loads(worked.to_json())["passes"] for r in p["rewrites"]]
    assert {tuple(r) for r in rewrites} == {("pattern", "removed", "inserted", "context", "saved")}
    assert {tuple(m) for m in data["missed"]} == {("pattern", "node", "context", "reason", "detail", "hint")}
    assert data["reasons"]["more-than-one-use"] >= 1


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (-1500, "-1.5 kB"), (13_000_000, "13.0 MB"), (2 * 10**15, "2000.0 TB")],
)
def test_sizes(count: int, text: str):
    assert bytes_text(count) == text


# Where it comes out of the API.


def test_the_variable_prints_it(capsys: pytest.CaptureFixture[str]):
    Fuse(CPU, Environment(variables={"RLX_FUSION_REPORT": "yes"})).run(dense())
    shown = capsys.readouterr()
    assert shown.err.startswith("fusion report for cpu\n  nodes=6→5 ")
    assert shown.out == ""
    Fuse(CPU, Environment(variables={"RLX_FUSION_REPORT": "0"})).run(dense())
    assert capsys.readouterr().err == ""


def test_running_with_a_report_does_the_same():
    for target in (CPU, CUDA, METAL):
        module, _ = Fuse(target, NOTHING_SET).run_with_report(dense())
        assert print_module(module) == print_module(Fuse(target, NOTHING_SET).run(dense()))
