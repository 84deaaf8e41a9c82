"""The IO gate: what a graph costs, and when a rewrite pays on which target."""

from __future__ import annotations

import pytest
from helpers import graph, parse
from xdsl.dialects.builtin import ComplexType, IntegerType, TensorType, bf16, f16, f32, f64, i1, i8, i64

from rlx_dialect.graph import main_function
from rlx_dialect.pipelines.gate import (
    HOST_STEPS,
    GraphIoProfile,
    byte_size,
    profile,
    profile_block,
    profile_module,
    score,
    should_fuse,
    should_fuse_with_target,
)
from rlx_dialect.pipelines.targets import CPU, CUDA, METAL, MLX, ROCM, TPU, WGPU, Target
from rlx_dialect.shapes import DYNAMIC

DENSE = GraphIoProfile(3, 0, 33_554_432, 184_549_376)
FUSED = GraphIoProfile(4, 1, 1_048_576, 219_152_384)
"""RLX's worked example: peaks instead of a whole spectrum, for one more launch and a stop of the device."""


@pytest.mark.parametrize(
    ("target", "nanoseconds", "pays"),
    [
        (METAL, 30_327_340.96, True),
        (MLX, 30_327_340.96, True),
        (CPU, 31_813_745.84, True),
        (CUDA, -14_415_136.64, False),
        (ROCM, -14_415_136.64, False),
        (WGPU, -24_566_383.68, False),
        (TPU, -24_566_383.68, False),
    ],
    ids=lambda v: v.name if isinstance(v, Target) else "",
)
def test_the_worked_example(target: Target, nanoseconds: float, pays: bool):
    assert score(target.gate, DENSE, FUSED) == pytest.approx(nanoseconds, abs=0.01)
    assert should_fuse_with_target(target, DENSE, FUSED) is pays
    assert should_fuse(target.gate, DENSE, FUSED) is pays


def test_each_term():
    nothing = GraphIoProfile()
    gate = CUDA.gate
    assert score(gate, GraphIoProfile(kernel_launches=2), nothing) == 4_000
    assert score(gate, GraphIoProfile(sync_points=1), nothing) == 20_000
    assert score(gate, nothing, GraphIoProfile(sync_points=1)) == -20_000 - 15_000_000
    assert score(gate, GraphIoProfile(device_traffic_bytes=8_000), nothing) == 10
    assert score(gate, GraphIoProfile(host_output_bytes=5_000), nothing) == 100
    assert score(METAL.gate, GraphIoProfile(host_output_bytes=5_000), nothing) == 5_000, (
        "RLX's weight of unified memory"
    )


def test_a_gain_has_to_be_large_enough():
    assert not should_fuse_with_target(CUDA, GraphIoProfile(kernel_launches=2), GraphIoProfile())
    assert should_fuse_with_target(CUDA, GraphIoProfile(kernel_launches=3), GraphIoProfile())
    assert should_fuse_with_target(CPU, DENSE, DENSE), "the CPU wants no gain"


def test_bytes_of_types():
    for element, size in ((f64, 8), (f32, 4), (f16, 2), (bf16, 2), (i64, 8), (i8, 1), (i1, 1), (ComplexType(f32), 8)):
        assert byte_size(TensorType(element, [3, 5])) == 15 * size
        assert byte_size(element) == size
    assert byte_size(IntegerType(4)) == 1
    assert byte_size(TensorType(f32, [3, DYNAMIC])) == 0
    assert byte_size(TensorType(f32, [])) == 4


VIEWS = """
%c = rlx.constant dense<1.0> : tensor<8xf32>
%0 = rlx.reshape %x {new_shape = [8, 4]} : tensor<4x8xf32> -> tensor<8x4xf32>
%1 = rlx.transpose %0 {perm = [1, 0]} : tensor<8x4xf32> -> tensor<4x8xf32>
%2 = rlx.narrow %1 {axis = 0, start = 0, len = 2} : tensor<4x8xf32> -> tensor<2x8xf32>
"""


def test_views_cost_nothing_even_as_outputs():
    module = graph(VIEWS, "%x: tensor<4x8xf32>", "tensor<2x8xf32>, tensor<4x8xf32>, tensor<8xf32>", "%2, %x, %c")
    assert profile_module(module) == GraphIoProfile()


def test_each_other_operation_is_a_launch_that_moves_operands_and_results():
    body = """%0 = rlx.binary add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %1 = rlx.activation relu %0 : tensor<4x8xf32>"""
    module = graph(body, "%x: tensor<4x8xf32>, %b: tensor<8xf32>", "tensor<4x8xf32>", "%1")
    assert profile_module(module) == GraphIoProfile(2, 0, 128, (128 + 32 + 128) + (128 + 128))
    function = main_function(module)
    assert profile_block(function.body.block) == profile_module(module)
    add, relu, _ = function.body.block.ops
    assert profile([add]) == GraphIoProfile(1, 0, 0, 288)
    assert profile([add, relu], add.results) == GraphIoProfile(2, 0, 128, 544)


def test_a_region_is_one_launch():
    body = """%0 = rlx.elementwise_region(%x, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
    ^bb0(%s: f32, %t: f32):
      %u = rlx.binary add %s, %t : (f32, f32) -> f32
      %v = rlx.activation relu %u : f32
      rlx.yield %v : f32
    }"""
    module = graph(body, "%x: tensor<4x8xf32>, %b: tensor<8xf32>", "tensor<4x8xf32>", "%0")
    assert profile_module(module) == GraphIoProfile(1, 0, 128, 288)


def test_functions_are_added_up():
    one = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { %0 = rlx.activation relu %x : tensor<2xf32>"
    one += "\nfunc.return %0 : tensor<2xf32> }"
    assert profile_module(parse(one + one.replace("@f", "@g"))) == GraphIoProfile(2, 0, 16, 32)


def test_unknown_extents_count_no_bytes():
    body = "%0 = rlx.binary add %x, %b : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>"
    module = graph(body, "%x: tensor<?x8xf32>, %b: tensor<8xf32>", "tensor<?x8xf32>", "%0")
    assert profile_module(module) == GraphIoProfile(1, 0, 0, 32)


def test_sums_and_differences():
    assert GraphIoProfile(1, 1, -32_505_856, 34_603_008) == FUSED - DENSE
    assert DENSE + (FUSED - DENSE) == FUSED
    assert "rlx.welch_peaks" in HOST_STEPS
