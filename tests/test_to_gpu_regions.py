"""Regions that resize their input, that only resize, and that work on a batch in slices are one launch each."""

from __future__ import annotations

import on_cpu
import pytest
from helpers import graph, parse
from on_device import check, launches, lower
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.ops.region import BatchElementwiseRegionOp, ElementwiseRegionOp, TransformRegionOp
from rlx_dialect.pipelines.named import FUSE_SUFFIX, run_named
from rlx_dialect.pipelines.targets import TARGETS
from rlx_dialect.runtime.launch_plan import launch_plan

RELU = "rlx.activation relu"
SMALL, BIG, HUGE = "tensor<3x2x4x5xf32>", "tensor<3x2x8x10xf32>", "tensor<3x2x16x20xf32>"
PART = "tensor<1x2x4x5xf32>"

SLICES = [f"%s{i} = rlx.narrow %x {{axis = 0, start = {i}, len = 1}} : {SMALL} -> {PART}" for i in range(3)]
PATTERNS = {
    ElementwiseRegionOp: (f"%r = rlx.resize_nearest_2x %x : {SMALL} -> {BIG}\n%y = {RELU} %r : {BIG}", BIG),
    TransformRegionOp: (
        f"%r = rlx.resize_nearest_2x %x : {SMALL} -> {BIG}\n%y = rlx.resize_nearest_2x %r : {BIG} -> {HUGE}",
        HUGE,
    ),
    BatchElementwiseRegionOp: (
        "\n".join([*SLICES, *(f"%a{i} = {RELU} %s{i} : {PART}" for i in range(3))])
        + f"\n%y = rlx.concat %a0, %a1, %a2 {{axis = 0}} : ({PART}, {PART}, {PART}) -> {SMALL}",
        SMALL,
    ),
}
"""What becomes a region of each kind, and the type of its result."""


def pattern(region: type) -> ModuleOp:
    body, result = PATTERNS[region]
    return graph(body, f"%x: {SMALL}", result, "%y")


GPUS = [t for t in TARGETS if t in HARDWARE]
CLAIMED = [(t, r) for t in GPUS for r in PATTERNS if r in TARGETS[t].claims]


def test_every_gpu_claims_all_three():
    assert len(CLAIMED) == 3 * len(GPUS)


@pytest.mark.parametrize(("target", "region"), CLAIMED)
def test_one_launch(target: str, region: type):
    module = pattern(region)
    run_named(module, f"{target}{FUSE_SUFFIX}")
    assert sum(isinstance(op, region) for op in module.walk()) == 1
    assert len(launch_plan(lower(module, target)).launches) == 1


@pytest.mark.parametrize("region", PATTERNS)
def test_values(region: type):
    module = pattern(region)
    run_named(module, f"wgpu{FUSE_SUFFIX}")
    assert any(isinstance(op, region) for op in module.walk())
    check(module, rtol=0, atol=0)
    on_cpu.check(module, rtol=0, atol=0)


NEGATED = """{
  ^bb0(%s: f32):
    %n = rlx.activation neg %s : f32
    rlx.yield %n : f32
  }"""


def batch(extents: list[int], prologue: str = "") -> ModuleOp:
    """A batch region of slices that lie in buffers of their own."""
    types = [f"tensor<{e}x2x3x5xf32>" for e in extents]
    result = f"tensor<{sum(extents)}x2x{'6x10' if prologue else '3x5'}xf32>"
    names = ", ".join(f"%a{i}" for i in range(len(extents)))
    return graph(
        f"%y = rlx.batch_elementwise_region({names}) {prologue} : ({', '.join(types)}) -> {result} {NEGATED}",
        ", ".join(f"%a{i}: {type}" for i, type in enumerate(types)),
        result,
        "%y",
    )


@pytest.mark.parametrize("prologue", ["", '{prologue = "resize_nearest_2x"}'])
def test_slices_of_several_buffers(prologue: str):
    # The third has more than one workgroup, and the last none.
    module = batch([1, 2, 19, 1, 0], prologue)
    assert launches(check(module, rtol=0, atol=0)) == 1
    on_cpu.check(module, rtol=0, atol=0)


def test_as_many_slices_a_launch_as_it_may_have_buffers():
    assert HARDWARE["wgpu"].max_buffers == 8
    assert launches(check(batch([1] * 10), rtol=0, atol=0)) == 2


def test_slices_of_one_buffer_take_one():
    slices, parts = [], []
    for i in range(12):
        parts.append((3 * i % 11, 1 + i % 2))
        start, length = parts[-1]
        slices.append(f"%s{i} = rlx.narrow %x {{axis = 0, start = {start}, len = {length}}} : tensor<12x7xf32> -> ")
        slices[-1] += f"tensor<{length}x7xf32>"
    names, types = ", ".join(f"%s{i}" for i in range(12)), ", ".join(f"tensor<{n}x7xf32>" for _, n in parts)
    module = parse(f"""
      func.func @main(%x: tensor<12x7xf32>) -> tensor<18x7xf32> {{
        {chr(10).join(slices)}
        %y = rlx.batch_elementwise_region({names}) : ({types}) -> tensor<18x7xf32> {NEGATED}
        func.return %y : tensor<18x7xf32>
      }}""")
    assert launches(check(module, rtol=0, atol=0)) == 1
    on_cpu.check(module, rtol=0, atol=0)


def test_a_batch_of_unknown_extents():
    """The rest of a kernel's parameters are eight buffers: one is for the extents."""
    types = ", ".join(["tensor<?x3xf32>"] * 7)
    names = ", ".join(f"%a{i}" for i in range(7))
    module = graph(
        f"%y = rlx.batch_elementwise_region({names}) : ({types}) -> tensor<?x3xf32> {NEGATED}",
        ", ".join(f"%a{i}: tensor<?x3xf32>" for i in range(7)),
        "tensor<?x3xf32>",
        "%y",
    )
    assert launches(lower(module)) == 2
    assert launches(lower(module, "cuda")) == 1
