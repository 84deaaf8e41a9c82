"""Environment, limits and options: truth rule, precedence, what each variable does, where values come from."""

from __future__ import annotations

import dataclasses
import os

import pytest

from rlx_dialect.pipelines.environment import Environment
from rlx_dialect.pipelines.limits import GPU_NATIVE, UNBOUNDED, FusionLimits, resolve_fusion_limits
from rlx_dialect.pipelines.options import OPTION_NAMES, VARIABLES, FusionOptions
from rlx_dialect.pipelines.targets import CPU, CUDA, METAL, MLX, ROCM, TARGETS, TPU, WGPU


def env(**variables: str) -> Environment:
    return Environment(variables=variables)


# The environment.


@pytest.mark.parametrize("value", ["", "  ", "0", "false", "FALSE", "off", "Off", "no", " No "])
def test_false_words(value: str):
    assert not env(RLX_X=value).flag("X")
    assert not env(RLX_X=value).flag_or("X", True)
    assert not env(RLX_X=value).is_unset("X")


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "yes", "on", "2", "00", "007", "maybe", "-1"])
def test_everything_else_is_true(value: str):
    assert env(RLX_X=value).flag("X")
    assert env(RLX_X=value).flag_or("X", False)


def test_unset():
    assert env().is_unset("X")
    assert not env().flag("X")
    assert env().flag_or("X", True)
    assert env().integer("X") is None


def test_the_prefix_is_added_when_missing():
    environment = Environment(overrides={"A": "1"}, variables={"RLX_B": "1"})
    assert [environment.flag(k) for k in ("A", "RLX_A", "B", "RLX_B")] == [True] * 4
    assert Environment(variables={"B": "1"}).is_unset("B"), "a process variable counts only with its prefix"


def test_overrides_come_first():
    environment = Environment(overrides={"X": "0"}, variables={"RLX_X": "1", "RLX_Y": "1"})
    assert not environment.flag("X")
    assert environment.flag("Y")
    assert environment.origin("X") == "override RLX_X=0"
    assert environment.origin("Y") == "environment RLX_Y=1"


def test_exactly_one():
    assert env(RLX_X="1").is_one("X")
    assert not any(env(RLX_X=v).is_one("X") for v in ("true", " 1", "01", ""))


def test_current_is_a_snapshot(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLX_X", "1")
    before = Environment.current({"Y": "2"})
    monkeypatch.setenv("RLX_X", "0")
    assert before.flag("X")
    assert before.get("Y") == "2"
    assert not Environment.current().flag("X")
    assert all(key.startswith("RLX_") for key in before.variables)
    assert "PATH" in os.environ


def test_a_bad_integer_names_its_variable():
    with pytest.raises(ValueError, match=r"RLX_FUSE_ATTN_THRESHOLD must be an integer, got 'many'"):
        FusionOptions().merge_env(env(RLX_FUSE_ATTN_THRESHOLD="many"))


# Options.


def test_the_options_of_rlx_and_their_defaults():
    assert {name: getattr(FusionOptions(), name) for name in OPTION_NAMES[:11]} == {
        "skip_fusion": False,
        "unfuse_elementwise_regions": False,
        "keep_elementwise_regions": False,
        "decompose_fusion_regions": False,
        "fk_fusion": True,
        "fuse_region_prologue": True,
        "fuse_batch_preprocess": True,
        "native_fk_regions": False,
        "fusion_limits": None,
        "disable_conv_bias_act_fusion": False,
        "no_io_peaks_output": False,
    }


def test_options_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FusionOptions().fk_fusion = False  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError, match="no_such_option"):
        FusionOptions().with_arguments(no_such_option=True)


EFFECTS = [
    ("RLX_METAL_NO_FUSION", "skip_fusion", "yes", True),
    ("RLX_METAL_UNFUSE_REGIONS", "unfuse_elementwise_regions", "yes", True),
    ("RLX_KEEP_ELEMENTWISE_REGIONS", "keep_elementwise_regions", "yes", True),
    ("RLX_DECOMPOSE_FUSION_REGIONS", "decompose_fusion_regions", "yes", True),
    ("RLX_NO_FK_FUSION", "fk_fusion", "yes", False),
    ("RLX_FUSE_REGION_PROLOGUE", "fuse_region_prologue", "off", False),
    ("RLX_FUSE_BATCH_PREPROCESS", "fuse_batch_preprocess", "0", False),
    ("RLX_NATIVE_FK_REGIONS", "native_fk_regions", "yes", True),
    ("RLX_DISABLE_CONV_BIAS_ACT_FUSION", "disable_conv_bias_act_fusion", "yes", True),
    ("RLX_NO_IO_PEAKS_OUTPUT", "no_io_peaks_output", "yes", True),
    ("RLX_DISABLE_MATMUL_BIAS_FUSION", "disable_matmul_bias_fusion", "1", True),
    ("RLX_DISABLE_RESIDUAL_LN_FUSION", "disable_residual_ln_fusion", "1", True),
    ("RLX_DISABLE_GATED_RESIDUAL_FUSION", "disable_gated_residual_fusion", "1", True),
    ("RLX_CPU_ATTN_BWD_FUSE", "cpu_attn_bwd_fuse", "1", True),
    ("RLX_ENABLE_FUSE_TRANSFORMER_LAYER", "enable_fuse_transformer_layer", "yes", True),
    ("RLX_NO_WEIGHT_CONCAT_FUSION", "no_weight_concat_fusion", "yes", True),
    ("RLX_NO_SHARED_INPUT_MATMUL", "no_shared_input_matmul", "yes", True),
    ("RLX_FUSE_ATTN_THRESHOLD", "fuse_attn_threshold", "128", 128),
    ("RLX_KERNEL_DISPATCH", "kernel_dispatch", "force_common", "force-common"),
    ("RLX_KERNEL_DISPATCH", "kernel_dispatch", "native", "force-native"),
]


@pytest.mark.parametrize(("variable", "option", "value", "expected"), EFFECTS)
def test_what_a_variable_does(variable: str, option: str, value: str, expected: bool | int | str):
    options = FusionOptions().merge_env(env(**{variable: value}))
    assert options == FusionOptions(**{option: expected})  # pyright: ignore[reportArgumentType]
    assert options.origin(option) == f"environment {variable}={value}"


def test_every_variable_is_covered_above():
    assert {v for v, *_ in EFFECTS} | {"RLX_NO_NATIVE_FK_REGIONS"} == {f"RLX_{v.key}" for v in VARIABLES}


@pytest.mark.parametrize("variable", [v for v, _, value, _ in EFFECTS if value == "1"])
def test_true_does_not_switch_an_exact_one_variable(variable: str):
    assert FusionOptions().merge_env(env(**{variable: "true"})) == FusionOptions()


def test_variables_only_turn_flags_on():
    options = FusionOptions(skip_fusion=True, disable_conv_bias_act_fusion=True, decompose_fusion_regions=True)
    off = env(RLX_METAL_NO_FUSION="0", RLX_DISABLE_CONV_BIAS_ACT_FUSION="0", RLX_DECOMPOSE_FUSION_REGIONS="0")
    assert options.merge_env(off) == options
    assert FusionOptions(fuse_region_prologue=False).with_values("here").merge_env(env()).fuse_region_prologue is False


def test_no_native_wins_over_native():
    both = env(RLX_NATIVE_FK_REGIONS="1", RLX_NO_NATIVE_FK_REGIONS="1")
    for target in (METAL, TPU, CPU):
        assert not FusionOptions().merge_env(both).apply_native_fk_defaults(target).native_fk_regions


def test_native_defaults():
    for target in TARGETS.values():
        options = FusionOptions().apply_native_fk_defaults(target)
        assert options.native_fk_regions == (target is not CPU)
    assert FusionOptions().merge_env(env(RLX_NATIVE_FK_REGIONS="1")).apply_native_fk_defaults(CPU).native_fk_regions
    asked = FusionOptions().with_arguments(native_fk_regions=False)
    assert not asked.apply_native_fk_defaults(TPU).native_fk_regions


# What targets make of them.


def test_canonical_options_without_environment():
    unfusing = FusionOptions(unfuse_elementwise_regions=True)
    assert FusionOptions.for_cpu() == FusionOptions.for_metal() == FusionOptions.for_wgpu() == unfusing
    for target in TARGETS.values():
        expected = unfusing if target in (CPU, METAL, MLX, WGPU) else FusionOptions()
        assert FusionOptions.for_target(target) == expected


def test_which_variables_canonical_options_read():
    environment = env(
        RLX_METAL_NO_FUSION="1",
        RLX_KEEP_ELEMENTWISE_REGIONS="1",
        RLX_NO_FK_FUSION="1",
        RLX_NO_IO_PEAKS_OUTPUT="1",
        RLX_NO_SHARED_INPUT_MATMUL="1",
    )
    metal = FusionOptions(skip_fusion=True, keep_elementwise_regions=True, fk_fusion=False, no_shared_input_matmul=True)
    assert FusionOptions.for_metal(environment) == metal
    assert FusionOptions.for_target(MLX, environment) == metal
    assert FusionOptions.for_wgpu(environment) == FusionOptions(
        keep_elementwise_regions=True, no_shared_input_matmul=True
    )
    for target in (CUDA, ROCM, TPU):
        assert FusionOptions.for_target(target, environment) == FusionOptions(no_shared_input_matmul=True)
    assert FusionOptions.for_cpu(environment) == FusionOptions(
        unfuse_elementwise_regions=True, no_shared_input_matmul=True
    )


@pytest.mark.parametrize("target", [CPU, METAL, MLX, WGPU])
def test_keeping_regions_lifts_the_habit_but_not_a_wish(target):
    keep = env(RLX_KEEP_ELEMENTWISE_REGIONS="1")
    kept = FusionOptions.for_target(target).merge_env(keep)
    assert not kept.unfuse_elementwise_regions
    assert kept.origin("unfuse_elementwise_regions") == "environment RLX_KEEP_ELEMENTWISE_REGIONS=1"
    assert not kept.apply_unfuse_default(target).unfuse_elementwise_regions
    both = env(RLX_KEEP_ELEMENTWISE_REGIONS="1", RLX_METAL_UNFUSE_REGIONS="1")
    assert FusionOptions.for_target(target).merge_env(both).unfuse_elementwise_regions
    wished = FusionOptions().with_arguments(unfuse_elementwise_regions=True)
    assert wished.merge_env(keep).unfuse_elementwise_regions


def test_arguments_beat_the_environment_whichever_comes_first():
    off = env(RLX_NO_FK_FUSION="1")
    assert FusionOptions().merge_env(off).with_arguments(fk_fusion=True).fk_fusion
    assert FusionOptions().with_arguments(fk_fusion=True).merge_env(off).fk_fusion
    assert FusionOptions(fuse_attn_threshold=7).merge_env(env(RLX_FUSE_ATTN_THRESHOLD="9")).fuse_attn_threshold == 7


def test_origins():
    options = FusionOptions.for_metal(env(RLX_NO_FK_FUSION="on")).with_arguments(no_io_peaks_output=True)
    assert options.origin("skip_fusion") == "default"
    assert options.origin("unfuse_elementwise_regions") == "target metal"
    assert options.origin("fk_fusion") == "environment RLX_NO_FK_FUSION=on"
    assert options.origin("no_io_peaks_output") == "argument"
    assert FusionOptions(skip_fusion=True).origin("skip_fusion") == "argument"


# Limits.


def test_limits_of_a_target():
    assert (FusionLimits(32, 16), FusionLimits(4294967295, 4294967295)) == (GPU_NATIVE, UNBOUNDED)
    assert resolve_fusion_limits(CPU, FusionOptions.for_cpu()) == UNBOUNDED
    for target in (METAL, MLX, WGPU, CUDA, ROCM, TPU):
        assert resolve_fusion_limits(target, FusionOptions.for_target(target)) == GPU_NATIVE


def test_regions_that_stay_are_clamped():
    wide = FusionLimits(64, 8)
    assert resolve_fusion_limits(CPU, FusionOptions()) == GPU_NATIVE
    assert resolve_fusion_limits(CUDA, FusionOptions(fusion_limits=wide)) == FusionLimits(32, 8)
    assert resolve_fusion_limits(CUDA, FusionOptions(fusion_limits=wide, unfuse_elementwise_regions=True)) == wide


def test_stated_limits_count_even_where_they_equal_the_gpus():
    assert resolve_fusion_limits(CPU, FusionOptions.for_cpu().with_arguments(fusion_limits=GPU_NATIVE)) == GPU_NATIVE


def test_limits_are_positive():
    with pytest.raises(ValueError, match="at least 1"):
        FusionLimits(0, 4)
