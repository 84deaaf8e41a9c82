"""rlx-decompose-fusion-regions: what each region becomes, of slices of any length and rank."""

from __future__ import annotations

import pytest
from region_helpers import Part, applied, batch, image, names, of, region, regions, unary
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.decompose_fusion_regions import DecomposeFusionRegions
from rlx_dialect.passes.fuse_batch_preprocess import FuseBatchPreprocess
from rlx_dialect.passes.unfuse_elementwise_regions import UnfuseElementwiseRegions
from rlx_dialect.xdsl_compat import Context, print_module

REGION, RESIZE = "rlx.elementwise_region", "rlx.resize_nearest_2x"


def decompose(module: ModuleOp) -> ModuleOp:
    after = applied(DecomposeFusionRegions(), module)
    assert print_module(applied(DecomposeFusionRegions(), after)) == print_module(after)
    return after


def transform(steps: int, small: str, large: str) -> ModuleOp:
    listed = ", ".join(['"resize_nearest_2x"'] * steps)
    line = f"%t = rlx.transform_region %x {{steps = [{listed}]}} : {small} -> {large}"
    return of(line, arguments=f"%x: {small}", results=large)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_a_transform_region_becomes_resizes(steps: int, element: str):
    module = transform(steps, image(2, element=element), image(2 << steps, element=element))
    assert names(decompose(module)) == [RESIZE] * steps


@pytest.mark.parametrize("known", ["?", 8])
def test_a_transform_region_may_know_more_extents_than_its_operand(known: int | str):
    module = transform(2, image("?", batch="?"), image(known, batch="?"))
    DecomposeFusionRegions().apply(Context(), module)
    module.verify()
    assert names(module) == [RESIZE] * 2
    assert f"%t = rlx.resize_nearest_2x %0 : {image('?', batch='?')} -> {image(known, batch='?')}" in print_module(
        module
    )


def batched(*parts: Part, shape: str, element: str = "f32", prologue: bool = False) -> ModuleOp:
    module = batch(*parts, shape=shape, element=element, regions=True, prologue=prologue)
    FuseBatchPreprocess().apply(Context(), module)
    assert "rlx.batch_elementwise_region" in names(module)
    return module


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("rest", ["", "x8", "x?", "x2x3", "x3x2x2"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_a_batch_region_becomes_a_region_for_each_slice(length: int, rest: str, element: str):
    parts = [(i * length, length, "relu exp") for i in range(2)]
    module = batched(*parts, shape=f"{2 * length}{rest}", element=element)
    after = decompose(module)
    assert names(after) == ["rlx.narrow", "rlx.narrow", REGION, REGION, "rlx.concat"]
    assert [str(r.result.type) for r in regions(after)] == [f"tensor<{length}{rest}x{element}>"] * 2
    assert names(applied(UnfuseElementwiseRegions(), after)) == [
        *["rlx.narrow"] * 2,
        *["rlx.activation"] * 4,
        "rlx.concat",
    ]


@pytest.mark.parametrize("length", [1, 2])
def test_the_prologue_becomes_that_of_each_region(length: int):
    module = batched(*((i * length, length, "relu") for i in range(4)), shape=f"{4 * length}x3x2x2", prologue=True)
    after = decompose(module)
    assert [r.prologue is not None for r in regions(after)] == [True] * 4
    kept = applied(UnfuseElementwiseRegions(keep_prologue=True), after)
    assert print_module(kept) == print_module(after)
    assert names(applied(UnfuseElementwiseRegions(), after))[4:] == [RESIZE, "rlx.activation"] * 4 + ["rlx.concat"]


@pytest.mark.parametrize("prologue", [False, True])
def test_element_wise_regions_stay(prologue: bool):
    out = image(4 if prologue else 2)
    body = region("t", {"x": image(2)}, out, unary("r", "exp", "x", "f32"), prologue=prologue)
    module = of(body, arguments=f"%x: {image(2)}", results=out)
    assert print_module(decompose(module)) == print_module(module)


def test_slices_that_overlap_or_come_from_anywhere():
    """The operation takes them, though no pass makes it of them."""
    s = "tensor<2x8xf32>"
    module = of(
        f"%n = rlx.narrow %x {{axis = 0, start = 1, len = 2}} : tensor<4x8xf32> -> {s}",
        f"""%t = rlx.batch_elementwise_region(%y, %n, %n) : (tensor<3x8xf32>, {s}, {s}) -> tensor<7x8xf32> {{
        ^bb0(%a: f32):
          %r = rlx.activation exp %a : f32
          rlx.yield %r : f32
        }}""",
        arguments="%x: tensor<4x8xf32>, %y: tensor<3x8xf32>",
        results="tensor<7x8xf32>",
    )
    assert names(decompose(module)) == ["rlx.narrow", *[REGION] * 3, "rlx.concat"]
