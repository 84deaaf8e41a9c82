"""Targets, the selection table and the named pipelines: which passes run for whom, and why."""

from __future__ import annotations

import gc

import pytest
from pass_lists import ABBREVIATIONS, claims, short

from rlx_dialect.passes import load_pass, pass_modules
from rlx_dialect.pipelines.collector import paused_collector
from rlx_dialect.pipelines.conditions import claim_names
from rlx_dialect.pipelines.environment import NOTHING_SET, Environment
from rlx_dialect.pipelines.fuse import Fuse
from rlx_dialect.pipelines.limits import GPU_NATIVE, UNBOUNDED, FusionLimits
from rlx_dialect.pipelines.named import (
    PIPELINE_NAMES,
    UnknownPipeline,
    fusion_pipeline,
    named_pipeline,
    newcomers,
    pipeline_target,
    pipeline_text,
)
from rlx_dialect.pipelines.options import FusionOptions, NumericsPolicy
from rlx_dialect.pipelines.selection import (
    ROWS,
    Newcomer,
    PassSpec,
    decide,
    fk_passes_after_elementwise_regions,
    fusion_passes,
    fusion_passes_for_supported,
    selection_table,
    situation_of,
)
from rlx_dialect.pipelines.targets import (
    CPU,
    CUDA,
    METAL,
    MLX,
    TARGETS,
    TPU,
    WGPU,
    Target,
    find_target,
    targets_table,
)
from rlx_dialect.xdsl_compat import all_passes, parse_pipeline

# The lists of the targets are in test_rlx_facts.py.


def test_an_empty_claim_set_claims_everything():
    everything = [r.pass_name for r in ROWS]
    cpu = [s.name for s in fusion_passes_for_supported([], FusionOptions(), CPU)]
    absent = {"rlx-fuse-transformer-layer", "rlx-unfuse-elementwise-regions"}
    assert cpu == [name for name in everything if name not in absent]
    assert len(cpu) == 25
    metal = [s.name for s in fusion_passes_for_supported([], FusionOptions(), METAL)]
    assert metal == [name for name in cpu if name != "rlx-decompose-fusion-regions"]
    assert len(metal) == 24


def test_every_row_has_its_place():
    assert [ABBREVIATIONS[r.pass_name] for r in ROWS] == list(ABBREVIATIONS.values())
    assert len(ROWS) == 27


def test_passes_after_marking():
    assert short(fk_passes_after_elementwise_regions(TPU.claims, FusionOptions(), TPU)) == "MBS MT RP BP DEC DCE"
    off = FusionOptions(fk_fusion=False)
    assert short(fk_passes_after_elementwise_regions(TPU.claims, off, TPU)) == "DEC DCE"
    half = FusionOptions(fuse_region_prologue=False, native_fk_regions=True)
    assert short(fk_passes_after_elementwise_regions(METAL.claims, half, METAL)) == "MBS MT BP DCE"


# What switches a row off.

SWITCHES = [
    ("disable_matmul_bias_fusion", CUDA, {"MBA"}),
    ("disable_conv_bias_act_fusion", CUDA, {"CBA", "CAA"}),
    ("disable_residual_ln_fusion", CUDA, {"RLN"}),
    ("disable_gated_residual_fusion", CUDA, {"GR"}),
    ("no_weight_concat_fusion", METAL, {"SGD", "SIM"}),
    ("no_shared_input_matmul", METAL, {"SIM"}),
]


@pytest.mark.parametrize(("option", "target", "gone"), SWITCHES, ids=[s[0] for s in SWITCHES])
def test_a_switch(option: str, target: Target, gone: set[str]):
    options = FusionOptions().with_arguments(**{option: True})
    assert set(short(fusion_passes(target)).split()) - set(short(fusion_passes(target, options)).split()) == gone


def test_the_transformer_layer_is_opt_in():
    on = FusionOptions(enable_fuse_transformer_layer=True)
    assert short(fusion_passes(WGPU, on)) == short(fusion_passes(WGPU)).replace("RNR", "RNR FTL")
    assert short(fusion_passes(CPU, on)) == short(fusion_passes(CPU))


def test_claims_of_operations_that_no_target_has():
    found = fusion_passes_for_supported(claims(CPU, "fused_matmul_residual"), FusionOptions.for_cpu(), CPU)
    assert short(found) == short(fusion_passes(CPU)).replace("SGD", "SGD MMR")
    backward = fusion_passes_for_supported({"attention_backward_all"}, FusionOptions(cpu_attn_bwd_fuse=True), CUDA)
    assert "rlx-fuse-attention-backward-all{enabled=true}" in [str(s) for s in backward]


def test_options_of_passes():
    options = FusionOptions(fuse_attn_threshold=128)
    assert PassSpec("rlx-fuse-attention-block", (("threshold", 128),)) in fusion_passes(WGPU, options)
    assert "rlx-mark-elementwise-regions{max-steps=32 max-inputs=16}" in map(str, fusion_passes(CUDA))
    small = FusionOptions(fusion_limits=FusionLimits(6, 40))
    assert "rlx-mark-elementwise-regions{max-steps=6 max-inputs=16}" in map(str, fusion_passes(CUDA, small))
    assert "rlx-unfuse-elementwise-regions{keep-prologue=false}" in map(str, fusion_passes(CPU))
    peaks = fusion_passes_for_supported({"fft", "welch_peaks"}, FusionOptions(no_io_peaks_output=True), TPU)
    assert "rlx-select-peaks-only-outputs{enabled=false readback-bw=40.0 min-gain=10000.0}" in map(str, peaks)


def test_strict_numerics_reach_every_fusion():
    """The table says which passes are fusions, so that a pipeline is text before any pass is imported."""
    from rlx_dialect.passes.matching.fusion import FusionPass

    modules = pass_modules()
    said = {row.pass_name: row.is_fusion for row in ROWS if row.pass_name in modules}
    assert said == {name: issubclass(load_pass(name, modules[name]), FusionPass) for name in said}
    for target in TARGETS.values():
        default, strict = (fusion_pipeline(target, FusionOptions(numerics=n)) for n in NumericsPolicy)
        assert "strict" not in default
        specs = list(parse_pipeline(strict))
        assert [s.name for s in specs] == [s.name for s in parse_pipeline(default)]
        known = all_passes()
        for passes in (known[s.name]().from_pass_spec(s) for s in specs):
            assert not isinstance(passes, FusionPass) or passes.strict


def test_an_unknown_policy():
    assert FusionOptions(numerics="strict").numerics is NumericsPolicy.STRICT  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="'fast' is not a valid NumericsPolicy"):
        FusionOptions().with_arguments(numerics="fast")


def test_epilogues_are_part_of_a_claim():
    texts = {
        t.name: {s.name: dict(s.options) for s in fusion_passes(t, claims="+fused_conv_bias_act")}
        for t in TARGETS.values()
    }
    kinds = {name: passes["rlx-fuse-matmul-bias-act"]["epilogues"] for name, passes in texts.items()}
    assert kinds == {name: "gelu,silu" if name in ("cpu", "tpu") else "gelu,silu,gelu_approx,relu" for name in TARGETS}
    assert {p["rlx-fuse-conv-bias-act"]["epilogues"] for p in texts.values()} == {"relu"}
    assert {p["rlx-fuse-conv-affine-act"]["epilogues"] for p in texts.values()} == {"relu"}


def test_decisions_say_why():
    options = FusionOptions().merge_env(Environment(variables={"RLX_DISABLE_MATMUL_BIAS_FUSION": "1"}))
    reasons = {d.spec.name: (d.selected, d.reason) for d in decide(situation_of(METAL, options))}
    assert reasons["rlx-fuse-matmul-bias-act"] == (
        False,
        "disable_matmul_bias_fusion is true (environment RLX_DISABLE_MATMUL_BIAS_FUSION=1)",
    )
    assert reasons["rlx-fuse-conv-bias-act"] == (False, "metal does not claim fused_conv_bias_act")
    assert reasons["rlx-mark-elementwise-regions"] == (False, "unfuse_elementwise_regions is true (target metal)")
    assert reasons["rlx-fuse-residual-rms-norm"] == (True, "metal claims fused_residual_rms_norm")
    assert reasons["rlx-dce"] == (True, "always")
    skipped = decide(situation_of(METAL, FusionOptions(skip_fusion=True)))[-1]
    assert (skipped.selected, skipped.reason) == (False, "skip_fusion is true (argument)")


def test_tables_can_be_read():
    lines = selection_table().splitlines()
    assert len(lines) == 29
    assert "rlx-fuse-swiglu-dual-matmul      claims fused_swiglu and not no_weight_concat_fusion" in lines
    assert any(line.startswith("rlx-dce") and line.endswith("always") for line in selection_table(CUDA).splitlines())
    rows = {line.split("  ")[0]: line.split() for line in targets_table().splitlines()}
    assert rows["rlx.dot_general"][1:] == ["x", "x", "x", "–", "x", "x", "–"]
    assert rows["gate unified_memory"][2:] == ["yes", "yes", "yes", "no", "no", "no", "no"]
    assert rows["gate dispatch_ns"][2:] == ["50", "500", "500", "3,000", "2,000", "2,000", "3,000"]


# Targets.

CLAIMS = {
    "matmul": "cpu metal mlx wgpu cuda rocm tpu",
    "dot_general": "cpu metal mlx cuda rocm",
    "elementwise_region": "cpu metal mlx wgpu cuda rocm tpu",
    "transform_region": "metal mlx wgpu cuda rocm tpu",
    "batch_elementwise_region": "metal mlx wgpu cuda rocm tpu",
    "fused_swiglu": "cpu metal mlx wgpu",
    "fused_matmul_bias_act": "cpu metal mlx wgpu cuda rocm tpu",
    "fused_conv_bias_act": "cuda",
    "fused_residual_ln": "cpu metal mlx wgpu cuda rocm tpu",
    "fused_residual_rms_norm": "cpu metal mlx wgpu cuda rocm",
    "fused_attention_block": "cpu wgpu",
    "fused_transformer_layer": "wgpu",
    "ada_layer_norm": "cpu metal mlx wgpu cuda rocm tpu",
    "gated_residual": "cpu metal mlx wgpu cuda rocm tpu",
}


def test_claims_of_targets():
    found = {
        operation: " ".join(t.name for t in TARGETS.values() if operation in claim_names(t.claims))
        for operation in sorted({name for t in TARGETS.values() for name in claim_names(t.claims)})
    }
    assert found == dict(sorted(CLAIMS.items()))


def test_gate_constants_and_limits():
    gates = {t.name: tuple(vars(t.gate).values()) for t in TARGETS.values()}
    assert gates["metal"] == gates["mlx"] == (500, 5_000, 200, 200, True, 2_000_000, 1_000)
    assert gates["cuda"] == gates["rocm"] == (2_000, 20_000, 800, 50, False, 15_000_000, 5_000)
    assert gates["wgpu"] == gates["tpu"] == (3_000, 30_000, 100, 40, False, 25_000_000, 10_000)
    assert gates["cpu"] == (50, 0, 50, 50, True, 0, 0)
    assert {t.name: t.limits for t in TARGETS.values()} == {n: UNBOUNDED if n == "cpu" else GPU_NATIVE for n in TARGETS}


def test_a_new_target_is_one_row():
    claimed = frozenset(op for op in CUDA.claims if op.name in ("rlx.matmul", "rlx.fused_residual_ln"))
    mine = Target("mine", claimed, FusionLimits(4, 2), CUDA.gate, "rlx-lower-to-linalg", unfuses_regions=True)
    assert short(fusion_passes(mine)) == "LCF LDG CAN RLN RNR SIM MBS MT RP BP DEC UG DCE"
    assert Fuse(mine, NOTHING_SET).pipeline() == pipeline_text(fusion_passes(mine, None, newcomers()))


def test_an_unknown_target_lists_the_known_ones():
    with pytest.raises(ValueError, match="unknown target 'vulkan'; known targets: cpu, metal, mlx, wgpu, cuda"):
        find_target("vulkan")
    assert find_target("mlx") is MLX


# Named pipelines.


def test_names():
    forms = {t.name: ["", "-fuse", *(f"-{form}" for form in t.other_lowerings)] for t in TARGETS.values()}
    assert list(PIPELINE_NAMES) == [name + form for name, all_forms in forms.items() for form in all_forms]
    assert {"mlx-linalg", "tpu-linalg"} <= set(PIPELINE_NAMES)
    assert list(TARGETS) == ["cpu", "metal", "mlx", "wgpu", "cuda", "rocm", "tpu"]
    with pytest.raises(UnknownPipeline, match="unknown pipeline 'metl'; known pipelines: cpu, cpu-fuse, metal"):
        named_pipeline("metl")


@pytest.mark.parametrize("name", PIPELINE_NAMES)
def test_a_named_pipeline_is_a_valid_string(name: str):
    specs = list(parse_pipeline(named_pipeline(name)))
    target = pipeline_target(name)
    names = [s.name for s in specs]
    fusions = [s.name for s in fusion_passes(target) if s.name in pass_modules()]
    assert names[: len(fusions)] == fusions
    rest = names[len(fusions) :]
    assert rest == [] if name.endswith("-fuse") else rest[0] == "rlx-legalize" and rest[1].startswith("rlx-lower-to-")
    known = all_passes()
    for spec in specs:
        known[spec.name]().from_pass_spec(spec)


def test_the_lowering_of_each_target():
    assert {t.name: named_pipeline(t.name).rpartition(",")[2] for t in TARGETS.values()} == {
        "cpu": "rlx-lower-to-linalg",
        "metal": "rlx-lower-to-gpu{target=metal}",
        "mlx": "rlx-lower-to-mlx",
        "wgpu": "rlx-lower-to-gpu{target=wgpu}",
        "cuda": "rlx-lower-to-gpu{target=cuda}",
        "rocm": "rlx-lower-to-gpu{target=rocm}",
        "tpu": "rlx-lower-to-stablehlo",
    }


def test_every_row_is_a_pass():
    """Nobody may misspell a row."""
    assert {r.pass_name for r in ROWS} <= set(pass_modules())


# Fusions that have no row.


def test_a_newcomer_runs_after_the_fusions_where_it_is_claimed():
    late = Newcomer("rlx-fuse-z", frozenset({"fused_swiglu", "matmul"}))
    early = Newcomer("rlx-fuse-a", frozenset({"matmul"}))
    names = [s.name for s in fusion_passes(METAL, None, [late, early])]
    place = names.index("rlx-fuse-swiglu")
    assert names[place + 1 : place + 4] == ["rlx-fuse-a", "rlx-fuse-z", "rlx-mark-batch-slice-regions"]
    cuda = [s.name for s in fusion_passes(CUDA, None, [late, early])]
    place = cuda.index("rlx-fuse-shared-input-matmul")
    assert cuda[place + 1 : place + 3] == ["rlx-fuse-a", "rlx-mark-elementwise-regions"]
    assert "rlx-fuse-z" not in cuda
    assert len(fusion_passes(METAL, FusionOptions(skip_fusion=True), [late, early])) == 2


def test_newcomers_are_the_discovered_fusions_without_a_row():
    from rlx_dialect.passes.matching.fusion import FusionPass

    rows = {r.pass_name for r in ROWS}
    loaded = {name: load_pass(name, module) for name, module in pass_modules().items()}
    assert {n.pass_name for n in newcomers()} == {
        n for n, p in loaded.items() if n not in rows and issubclass(p, FusionPass)
    }
    built_in = loaded["rlx-fuse-matmul-bias-act"]
    assert issubclass(built_in, FusionPass)
    assert Newcomer.of(built_in) == Newcomer("rlx-fuse-matmul-bias-act", frozenset({"fused_matmul_bias_act"}))


def test_passes_are_named_after_their_files():
    assert pass_modules()["rlx-fuse-matmul-bias-act"] == "rlx_dialect.passes.fuse_matmul_bias_act"
    with pytest.raises(ImportError, match="has no pass named 'rlx-other'"):
        load_pass("rlx-other", "rlx_dialect.passes.dce")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_paused_and_then_as_it_was(enabled: bool, monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []
    monkeypatch.setattr(gc, "isenabled", lambda: enabled)
    monkeypatch.setattr(gc, "disable", lambda: calls.append("disable"))
    monkeypatch.setattr(gc, "enable", lambda: calls.append("enable"))
    with pytest.raises(ZeroDivisionError), paused_collector():
        raise ZeroDivisionError
    assert calls == (["disable", "enable"] if enabled else ["disable"])
