"""``fuse``, ``Fuse``, and running named pipelines and strings: in place, names kept, options from the right place."""

from __future__ import annotations

import pytest
from helpers import graph
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.pipelines.environment import NOTHING_SET, Environment
from rlx_dialect.pipelines.fuse import Fuse, fuse
from rlx_dialect.pipelines.limits import FusionLimits
from rlx_dialect.pipelines.named import named_pipeline, pipeline_text, run_named, run_pipeline
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.selection import PassSpec, fusion_passes
from rlx_dialect.pipelines.targets import CPU, CUDA, METAL
from rlx_dialect.xdsl_compat import print_module

MLP = """
%0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
%1 = rlx.binary add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
%2 = rlx.activation relu %1 : tensor<4x16xf32>
"""


def mlp() -> ModuleOp:
    arguments = '%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x16xf32> {rlx.param = "w"}'
    arguments += ', %b: tensor<16xf32> {rlx.param = "bias"}'
    return graph(MLP, arguments, "tensor<4x16xf32>", "%2")


def operations(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def test_fuse_works_in_place_and_keeps_names():
    module = mlp()
    assert Fuse(CPU, NOTHING_SET).run(module) is module
    assert operations(module) == ["rlx.fused_matmul_bias_act", "rlx.activation"]
    text = print_module(module)
    assert all(f'{kind} = "{name}"' in text for kind, name in (("input", "x"), ("param", "w"), ("param", "bias")))
    other = mlp()
    assert fuse(other, CPU) is other
    assert print_module(other) == text


def test_a_builder_can_be_used_again():
    base = Fuse(METAL, NOTHING_SET)
    assert base.skip_fusion().pipeline() == "rlx-lower-control-flow,rlx-lower-dot-general"
    assert base.skip_fusion().skip_fusion(False).pipeline() == base.pipeline() == named_pipeline("metal-fuse")
    module = mlp()
    base.skip_fusion().run(module)
    assert operations(module) == ["rlx.matmul", "rlx.binary", "rlx.activation"]
    kept = base.options(FusionOptions(keep_elementwise_regions=True)).limits(FusionLimits(5, 6))
    assert "rlx-mark-elementwise-regions{max-steps=5 max-inputs=6}" in kept.pipeline()


def test_environment_of_a_builder():
    variables = Environment(variables={"RLX_DISABLE_MATMUL_BIAS_FUSION": "1", "RLX_KEEP_ELEMENTWISE_REGIONS": "1"})
    assert "matmul-bias" not in Fuse(CUDA, variables).pipeline()
    assert "rlx-mark-elementwise-regions" not in Fuse(CPU, variables).pipeline(), "cpu reads it on request only"
    assert "rlx-mark-elementwise-regions" in Fuse(CPU, variables).merge_env().pipeline()


def test_the_process_environment_reaches_the_edges_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLX_METAL_NO_FUSION", "1")
    assert Fuse(METAL).pipeline() == "rlx-lower-control-flow,rlx-lower-dot-general"
    assert fusion_passes(METAL) == fusion_passes(METAL, FusionOptions())
    assert len(fusion_passes(METAL)) == 18
    module = mlp()
    run_named(module, "cuda-fuse")
    assert operations(module) == ["rlx.matmul", "rlx.binary", "rlx.activation"]
    run_named(module, "cuda-fuse", FusionOptions())
    assert operations(module) == ["rlx.fused_matmul_bias_act"]


def test_running_a_string_leaves_out_nothing():
    module = mlp()
    run_pipeline(module, pipeline_text(["rlx-fuse-matmul-bias-act", PassSpec("rlx-fuse-swiglu"), PassSpec("rlx-dce")]))
    assert operations(module) == ["rlx.fused_matmul_bias_act", "rlx.activation"]
    with pytest.raises(ValueError, match="rlx-no-such-pass"):
        run_pipeline(module, "rlx-no-such-pass")
