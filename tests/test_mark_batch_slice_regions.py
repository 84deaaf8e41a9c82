"""rlx-mark-batch-slice-regions: slices with one activation, each reason not to, and what comes of it."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from region_helpers import Part, batch, four_rows, names, nested, of, regions, unary
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.elementwise import NOT_REGION_FUSABLE_ACTIVATIONS
from rlx_dialect.passes.fuse_batch_preprocess import FuseBatchPreprocess
from rlx_dialect.passes.mark_batch_slice_regions import MarkBatchSliceRegions
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context

REGION = "rlx.elementwise_region"
HALVES: tuple[Part, ...] = ((0, 2, "relu"), (2, 2, "relu"))


def marked(module: ModuleOp, count: int, *, mutants: bool = True) -> ModuleOp:
    after = check_fusion(module, MarkBatchSliceRegions(), fused={REGION: count}, sample=four_rows, mutants=mutants)
    assert all(len(r.steps()) == 1 for r in regions(after))
    return after


def declines(module: ModuleOp, reason: Reason, *, misses: int = 1) -> None:
    check_declines(module, MarkBatchSliceRegions(), reason, at="rlx.concat", misses=misses)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", ["relu", "sigmoid", "exp"])
def test_every_slice_becomes_a_region(count: int, kind: str):
    after = marked(batch(*((i, 1, kind) for i in range(count))), count, mutants=kind == "relu")
    assert names(after) == ["rlx.narrow", REGION] * count + ["rlx.concat"]
    FuseBatchPreprocess().apply(Context(), after)
    after.verify()
    assert names(after) == ["rlx.narrow"] * count + ["rlx.batch_elementwise_region"]


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("shape", ["4", "4x8", "4x4", "4x2x3", "4x3x2x2", "4x?", "?x8"])
def test_shapes_and_element_types(shape: str, element: str):
    marked(batch(*HALVES, shape=shape, element=element), 2, mutants=False)


@pytest.mark.parametrize(
    "parts", [((0, 1, "relu"), (3, 1, "relu")), ((1, 1, "relu"), (2, 1, "relu")), ((0, 1, "relu"), (2, 1, "relu"))]
)
def test_slices_need_not_be_all(parts: tuple[Part, ...]):
    marked(batch(*parts), 2)


def casts(element: str) -> ModuleOp:
    t, s = f"tensor<4x8x{element}>", f"tensor<2x8x{element}>"
    return of(
        f"%a = rlx.narrow %x {{axis = 0, start = 0, len = 2}} : {t} -> {s}",
        f"%b = rlx.narrow %x {{axis = 0, start = 2, len = 2}} : {t} -> {s}",
        f"%c = rlx.cast %a : {s} -> {s}",
        f"%d = rlx.cast %b : {s} -> {s}",
        f"%t = rlx.concat %c, %d {{axis = 0}} : ({s}, {s}) -> {t}",
        arguments=f"%x: {t}",
        results=t,
    )


def test_casts_that_change_nothing():
    marked(casts("f16"), 2)


def test_a_slice_may_have_other_uses():
    marked(batch(*HALVES, returned="%t, %n0", more_results=("tensor<2x8xf32>",)), 2)


@pytest.mark.parametrize("kinds", [("relu", "sigmoid"), ("tanh", "tanh", "neg", "tanh")])
def test_other_activations(kinds: tuple[str, ...]):
    declines(batch(*((i, 1, kind) for i, kind in enumerate(kinds))), Reason.ATTRIBUTES_DIFFER)


@pytest.mark.parametrize("kind", sorted(NOT_REGION_FUSABLE_ACTIVATIONS))
def test_activations_that_regions_do_not_evaluate(kind: str):
    declines(batch((0, 2, kind), (2, 2, kind)), Reason.UNSUPPORTED_KIND)


def test_complex_numbers():
    declines(casts("complex<f32>"), Reason.ELEMENT_TYPE)


def test_an_activation_is_returned():
    declines(batch(*HALVES, returned="%t, %r1", more_results=("tensor<2x8xf32>",)), Reason.RETURNED)


def test_an_activation_is_used_again():
    tail = unary("u", "exp", "r0", "tensor<2x8xf32>")
    module = batch(*HALVES, tail=tail, returned="%t, %u", more_results=("tensor<2x8xf32>",))
    declines(module, Reason.MORE_THAN_ONE_USE)


def test_the_concatenation_takes_one_activation_twice():
    s = "tensor<2x8xf32>"
    module = of(
        f"%a = rlx.narrow %x {{axis = 0, start = 0, len = 2}} : tensor<4x8xf32> -> {s}",
        unary("r", "relu", "a", s),
        f"%t = rlx.concat %r, %r {{axis = 0}} : ({s}, {s}) -> tensor<4x8xf32>",
    )
    declines(module, Reason.MORE_THAN_ONE_USE)


def test_the_concatenation_is_in_another_block():
    s = "tensor<2x8xf32>"
    join = f"%t = rlx.concat %r0, %r1 {{axis = 0}} : ({s}, {s}) -> tensor<4x8xf32>"
    module = of(
        *(f"%n{i} = rlx.narrow %x {{axis = 0, start = {2 * i}, len = 2}} : tensor<4x8xf32> -> {s}" for i in (0, 1)),
        *(unary(f"r{i}", "relu", f"n{i}", s) for i in (0, 1)),
        nested(join, '"test.termop"(%t) : (tensor<4x8xf32>) -> ()'),
        returned="%x",
    )
    (miss,) = MarkBatchSliceRegions().misses(module)
    assert (miss.reason, miss.op.name) == (Reason.OTHER_BLOCK, "rlx.concat")
    MarkBatchSliceRegions().apply(Context(), module)
    assert REGION not in names(module)


def test_slices_of_different_lengths():
    declines(batch((0, 1, "relu"), (1, 3, "relu")), Reason.SHAPES_DIFFER)


@pytest.mark.parametrize("starts", [(2, 0), (0, 1), (0, 0)], ids=["other order", "overlap", "one slice twice"])
def test_slices_that_do_not_follow_one_another(starts: tuple[int, ...]):
    declines(batch(*((start, 2, "relu") for start in starts)), Reason.NOT_ADJACENT)


def test_no_slices_of_a_batch():
    s = "tensor<2x8xf32>"
    two_values = of(
        f"%a = rlx.narrow %x {{axis = 0, start = 0, len = 2}} : tensor<4x8xf32> -> {s}",
        f"%b = rlx.narrow %y {{axis = 0, start = 2, len = 2}} : tensor<4x8xf32> -> {s}",
        unary("r", "relu", "a", s),
        unary("q", "relu", "b", s),
        f"%t = rlx.concat %r, %q {{axis = 0}} : ({s}, {s}) -> tensor<4x8xf32>",
    )
    no_slice = of(
        unary("r", "relu", "x"),
        unary("q", "relu", "y"),
        "%t = rlx.concat %r, %q {axis = 0} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>",
        results="tensor<8x8xf32>",
    )
    one = batch((0, 2, "relu"))
    for module in (two_values, no_slice, one, batch(*HALVES, axis=1)):
        assert MarkBatchSliceRegions().misses(module) == []
        marked(module, 0)
