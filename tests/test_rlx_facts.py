"""What RLX's own tests and tables say of its fusion pipeline, stated for ours.

Ours differs in two ways, and nowhere else. Every list has ``rlx-canonicalize-ops`` (CAN) behind the two lowerings. And
RLX has two front doors that disagree: its ``fusion_passes`` unfuses regions by habit for cpu and metal only, its
``Fuse::new`` for mlx and wgpu as well. Ours has one meaning, that of ``Fuse::new`` (D14), and
``DOORS_THAT_DISAGREE`` says for whom that is another list than ``fusion_passes`` gives.
"""

from __future__ import annotations

import pytest
from helpers import graph
from pass_lists import claims, short
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.graph import arguments, main_function, outputs
from rlx_dialect.ops.elementwise import ActivationOp
from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.pipelines.environment import NOTHING_SET, Environment
from rlx_dialect.pipelines.fuse import Fuse
from rlx_dialect.pipelines.gate import GraphIoProfile, should_fuse_with_target
from rlx_dialect.pipelines.named import pipeline_text, run_pipeline
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.selection import (
    fk_passes_after_elementwise_regions,
    fusion_passes,
    fusion_passes_for_supported,
)
from rlx_dialect.pipelines.targets import CPU, CUDA, METAL, MLX, ROCM, TARGETS, TPU, WGPU, Target

# The pass lists without any variable, as RLX has them.

FUSION_PASSES = {
    CPU: "LCF LDG MBA FAB RLN RRN ADA GR RNR SGD SIM SG MBS MT RP BP DEC UC DCE",
    METAL: "LCF LDG MBA RLN RRN ADA GR RNR SGD SIM SG MBS MT RP BP UG DCE",
    MLX: "LCF LDG MBA RLN RRN ADA GR RNR SGD SIM SG ME MBS MT RP BP DCE",
    WGPU: "LCF LDG MBA FAB RLN RRN ADA GR RNR SGD SIM SG ME MBS MT RP BP DCE",
    CUDA: "LCF LDG MBA CBA CAA RLN RRN ADA GR RNR SIM ME MBS MT RP BP DCE",
    ROCM: "LCF LDG MBA RLN RRN ADA GR RNR SIM ME MBS MT RP BP DCE",
    TPU: "LCF LDG MBA RLN ADA GR RNR SIM ME MBS MT RP BP DCE",
}
"""RLX's ``fusion_passes(target, default)``."""
FUSE_NEW = FUSION_PASSES | {
    MLX: "LCF LDG MBA RLN RRN ADA GR RNR SGD SIM SG MBS MT RP BP UG DCE",
    WGPU: "LCF LDG MBA FAB RLN RRN ADA GR RNR SGD SIM SG MBS MT RP BP UG DCE",
}
"""RLX's ``Fuse::new(target)`` and ``fuse``."""
FOR_SUPPORTED = FUSION_PASSES | {
    CPU: "LCF LDG MBA FAB RLN RRN ADA GR RNR SGD SIM SG ME MBS MT RP BP DEC DCE",
    METAL: "LCF LDG MBA RLN RRN ADA GR RNR SGD SIM SG ME MBS MT RP BP DCE",
}
"""RLX's ``fusion_passes_for_supported(claims of the target, default, target)``."""
COUNTS = {CPU: 19, METAL: 17, MLX: 17, WGPU: 18, CUDA: 17, ROCM: 15, TPU: 14}
DOORS_THAT_DISAGREE = {MLX, WGPU}

EACH_TARGET = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))


def ours(theirs: str) -> str:
    return theirs.replace("LCF LDG", "LCF LDG CAN")


def test_the_tables_are_consistent():
    assert set(FUSION_PASSES) == set(TARGETS.values())
    assert {t for t in COUNTS if FUSION_PASSES[t] != FUSE_NEW[t]} == DOORS_THAT_DISAGREE
    for lists in (FUSION_PASSES, FUSE_NEW, FOR_SUPPORTED):
        assert {t: len(text.split()) for t, text in lists.items()} == COUNTS


@EACH_TARGET
def test_both_front_doors_are_the_list_of_fuse_new(target: Target):
    wanted = ours(FUSE_NEW[target])
    assert short(fusion_passes(target)) == wanted
    assert short(fusion_passes(target, FusionOptions())) == wanted
    assert short(fusion_passes(target, FusionOptions.resolve(target, NOTHING_SET))) == wanted
    assert Fuse(target, NOTHING_SET).pipeline() == pipeline_text(fusion_passes(target))
    assert (wanted == ours(FUSION_PASSES[target])) == (target not in DOORS_THAT_DISAGREE)


@EACH_TARGET
def test_a_claim_set_of_ones_own(target: Target):
    """The options mean exactly what they say: by default, regions stay."""
    assert short(fusion_passes_for_supported(target.claims, FusionOptions(), target)) == ours(FOR_SUPPORTED[target])


# RLX's tests, by their number in its list.


def dense() -> ModuleOp:
    body = """%0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = rlx.binary add %0, %bias : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %2 = rlx.activation relu %1 : tensor<4x16xf32>"""
    inputs = '%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x16xf32> {rlx.param = "w"}'
    return graph(body, inputs + ', %bias: tensor<16xf32> {rlx.param = "bias"}', "tensor<4x16xf32>", "%2")


def test_1_names_and_outputs_survive_and_relu_stays_on_cpu():
    module, report = Fuse(CPU, NOTHING_SET).run_with_report(dense())
    assert (report.nodes_before, report.nodes_after) == (6, 5)
    function = main_function(module)
    assert [(a.kind, a.name) for a in arguments(function)] == [("input", "x"), ("param", "w"), ("param", "bias")]
    assert len(outputs(function)) == 1
    assert report.fused_matmul_bias_act == 1
    assert [op.kind.data for op in module.walk() if isinstance(op, ActivationOp)] == ["relu"]


def test_2_cpu_by_default():
    names = [s.name for s in fusion_passes(CPU, FusionOptions())]
    assert len(names) == 19 + 1
    assert names[2:5] == ["rlx-canonicalize-ops", "rlx-fuse-matmul-bias-act", "rlx-fuse-attention-block"]
    assert "rlx-fuse-region-prologue" in names
    assert "rlx-mark-elementwise-regions" not in names
    assert names[-1] == "rlx-dce"


@EACH_TARGET
def test_3_skipping_fusion_leaves_two_passes(target: Target):
    skipped = fusion_passes(target, FusionOptions(skip_fusion=True))
    assert [s.name for s in skipped] == ["rlx-lower-control-flow", "rlx-lower-dot-general"]


def test_4_metal_claims_have_no_attention_block():
    found = short(fusion_passes_for_supported(METAL.claims, FusionOptions(), METAL)).split()
    assert "FAB" not in found
    assert "MBA" in found


def test_5_cuda_claims_have_no_swiglu():
    found = short(fusion_passes_for_supported(CUDA.claims, FusionOptions(), CUDA)).split()
    assert not {"SG", "SGD"} & set(found)
    assert "MBA" in found


def test_6_cpu_options_unfuse():
    assert "UC" in short(fusion_passes_for_supported(CPU.claims, FusionOptions.for_cpu(), CPU)).split()


def test_7_metal_unfuses():
    assert "UG" in short(fusion_passes(METAL, FusionOptions())).split()


def test_8_a_resize_before_relu_is_the_prologue_of_a_region():
    body = """%0 = rlx.resize_nearest_2x %x : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
    %1 = rlx.activation relu %0 : tensor<1x3x16x16xf32>"""
    module = graph(body, "%x: tensor<1x3x8x8xf32>", "tensor<1x3x16x16xf32>", "%1")
    run_pipeline(module, pipeline_text(fusion_passes(METAL, FusionOptions())))
    (region,) = [op for op in module.walk() if isinstance(op, ElementwiseRegionOp)]
    assert region.prologue is not None
    assert region.prologue.data == "resize_nearest_2x"


def test_9_passes_after_marking():
    options = FusionOptions().apply_native_fk_defaults(TPU)
    assert short(fk_passes_after_elementwise_regions(TPU.claims, options, TPU)) == "MBS MT RP BP DCE"


def test_10_native_regions_need_no_decomposition():
    assert "DEC" not in short(fusion_passes(TPU, FusionOptions())).split()
    off = Environment(variables={"RLX_NO_NATIVE_FK_REGIONS": "1"})
    assert "DEC" in short(fusion_passes(TPU, FusionOptions().merge_env(off))).split()
    assert "DEC" in short(fusion_passes(TPU, FusionOptions(decompose_fusion_regions=True))).split()


def test_11_native_regions_that_are_asked_for():
    native = FusionOptions(native_fk_regions=True, decompose_fusion_regions=False, unfuse_elementwise_regions=False)
    assert "DEC" not in short(fusion_passes(TPU, native)).split()
    assert "DEC" not in short(fusion_passes(METAL, native)).split()


def test_12_keeping_regions():
    kept = FusionOptions(keep_elementwise_regions=True, unfuse_elementwise_regions=False)
    found = set(short(fusion_passes(METAL, kept)).split())
    assert {"RP", "ME"} <= found
    assert "UG" not in found
    asked = FusionOptions().with_arguments(unfuse_elementwise_regions=False)
    assert short(fusion_passes(METAL, asked)) == ours(FOR_SUPPORTED[METAL])


def test_13_peaks_need_both_claims():
    both = claims(METAL, "fft", "rlx.welch_peaks")
    assert "SPO" in short(fusion_passes_for_supported(both, FusionOptions(), METAL)).split()
    assert "SPO" not in short(fusion_passes_for_supported(claims(METAL, "fft"), FusionOptions(), METAL)).split()


def test_14_the_gate_lets_metal_pay_for_smaller_outputs_and_wgpu_not():
    before, after = GraphIoProfile(3, 0, 33_554_432, 184_549_376), GraphIoProfile(4, 1, 1_048_576, 219_152_384)
    assert should_fuse_with_target(METAL, before, after)
    assert not should_fuse_with_target(WGPU, before, after)


# Two more of its stored tests, which are about whole pipelines.


@pytest.mark.parametrize(("kind", "nodes"), [("gelu", 4), ("exp", 5)])
def test_an_activation_folds_where_the_kernel_has_it(kind: str, nodes: int):
    body = f"""%0 = rlx.matmul %x, %w : (tensor<4x15x384xf32>, tensor<384x1536xf32>) -> tensor<4x15x1536xf32>
    %1 = rlx.binary add %0, %b : (tensor<4x15x1536xf32>, tensor<1536xf32>) -> tensor<4x15x1536xf32>
    %2 = rlx.activation {kind} %1 : tensor<4x15x1536xf32>"""
    inputs = "%x: tensor<4x15x384xf32>, %w: tensor<384x1536xf32>, %b: tensor<1536xf32>"
    _, report = Fuse(CPU, NOTHING_SET).run_with_report(graph(body, inputs, "tensor<4x15x1536xf32>", "%2"))
    assert (report.nodes_before, report.nodes_after, report.fused_matmul_bias_act) == (6, nodes, 1)


def test_relu_folds_where_the_claim_says_that_the_kernel_has_it():
    _, report = Fuse(METAL, NOTHING_SET).run_with_report(dense())
    assert report.nodes_after == 4
