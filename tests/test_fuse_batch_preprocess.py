"""rlx-fuse-batch-preprocess: regions of slices that become one operation, and each reason not to."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from region_helpers import Part, batch, binary, four_rows, names, nested, of, region, unary
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.region import BatchElementwiseRegionOp
from rlx_dialect.passes.fuse_batch_preprocess import FuseBatchPreprocess
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.batch_elementwise_region"
HALVES: tuple[Part, ...] = ((0, 2, "relu exp"), (2, 2, "relu exp"))


def fused(module: ModuleOp, count: int = 1, *, mutants: bool = True) -> ModuleOp:
    return check_fusion(module, FuseBatchPreprocess(), fused={FUSED: count}, sample=four_rows, mutants=mutants)


def declines(module: ModuleOp, reason: Reason) -> None:
    check_declines(module, FuseBatchPreprocess(), reason, at="rlx.concat")


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kinds", ["relu", "tanh neg exp"])
def test_regions_become_one_operation(count: int, kinds: str):
    after = fused(batch(*((i, 1, kinds) for i in range(count)), regions=True))
    assert names(after) == ["rlx.narrow"] * count + [FUSED]
    (op,) = [op for op in after.walk() if isinstance(op, BatchElementwiseRegionOp)]
    assert [v.name_hint for v in op.inputs] == [f"n{i}" for i in range(count)]
    assert op.result.name_hint == "t"
    assert len(op.steps()) == len(kinds.split())


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("shape", ["4", "4x8", "4x4", "4x2x3", "4x3x2x2", "4x?", "?x8"])
def test_shapes_and_element_types(shape: str, element: str):
    fused(batch(*HALVES, shape=shape, element=element, regions=True), mutants=False)


@pytest.mark.parametrize("length", [1, 2])
def test_with_a_prologue(length: int):
    parts = [(i * length, length, "relu") for i in range(2)]
    after = fused(batch(*parts, shape=f"{2 * length}x3x2x2", regions=True, prologue=True))
    assert 'prologue = "resize_nearest_2x"' in print_module(after)


def test_slices_need_not_be_all():
    fused(batch((0, 1, "relu"), (2, 1, "relu"), regions=True))


def test_names_do_not_matter():
    """What is compared is what is computed."""
    t, s = "tensor<4x8xf32>", "tensor<2x8xf32>"
    module = of(
        *(f"%n{i} = rlx.narrow %x {{axis = 0, start = {2 * i}, len = 2}} : {t} -> {s}" for i in (0, 1)),
        region("p", {"n0": s}, s, unary("one", "neg", "n0", "f32"), binary("r", "sub", "one", "n0", *["f32"] * 3)),
        region("q", {"n1": s}, s, unary("two", "neg", "n1", "f32"), binary("r", "sub", "two", "n1", *["f32"] * 3)),
        f"%t = rlx.concat %p, %q {{axis = 0}} : ({s}, {s}) -> {t}",
    )
    fused(module)


@pytest.mark.parametrize(
    "second",
    [
        binary("r", "sub", "n1", "two", *["f32"] * 3),
        binary("r", "sub", "two", "two", *["f32"] * 3),
        binary("r", "add", "two", "n1", *["f32"] * 3),
    ],
    ids=["other order", "other operand", "other kind"],
)
def test_regions_of_one_length_that_compute_something_else(second: str):
    t, s = "tensor<4x8xf32>", "tensor<2x8xf32>"
    module = of(
        *(f"%n{i} = rlx.narrow %x {{axis = 0, start = {2 * i}, len = 2}} : {t} -> {s}" for i in (0, 1)),
        region("p", {"n0": s}, s, unary("one", "neg", "n0", "f32"), binary("r", "sub", "one", "n0", *["f32"] * 3)),
        region("q", {"n1": s}, s, unary("two", "neg", "n1", "f32"), second),
        f"%t = rlx.concat %p, %q {{axis = 0}} : ({s}, {s}) -> {t}",
    )
    declines(module, Reason.ATTRIBUTES_DIFFER)


@pytest.mark.parametrize("kinds", [("relu", "sigmoid"), ("relu", "relu exp"), ("exp", "exp", "neg", "exp")])
def test_other_steps(kinds: tuple[str, ...]):
    declines(batch(*((i, 1, k) for i, k in enumerate(kinds)), regions=True), Reason.ATTRIBUTES_DIFFER)


def test_a_prologue_of_one_only():
    """A slice that is resized and one of the same shape that is not are of different values."""
    small, large = "tensor<2x3x2x2xf32>", "tensor<2x3x4x4xf32>"
    one, out = "tensor<1x3x2x2xf32>", "tensor<1x3x4x4xf32>"
    module = of(
        f"%a = rlx.narrow %x {{axis = 0, start = 0, len = 1}} : {small} -> {one}",
        f"%b = rlx.narrow %y {{axis = 0, start = 1, len = 1}} : {large} -> {out}",
        region("p", {"a": one}, out, unary("r", "exp", "a", "f32"), prologue=True),
        region("q", {"b": out}, out, unary("r", "exp", "b", "f32")),
        f"%t = rlx.concat %p, %q {{axis = 0}} : ({out}, {out}) -> {large}",
        arguments=f"%x: {small}, %y: {large}",
        results=large,
    )
    assert FuseBatchPreprocess().misses(module) == []
    fused(module, 0)


def test_a_prologue_of_one_only_where_nothing_has_an_extent():
    """Resized or not, an image of no rows is the same, so that only the prologue differs."""
    t, s = "tensor<2x3x0x0xf32>", "tensor<1x3x0x0xf32>"
    module = of(
        *(f"%n{i} = rlx.narrow %x {{axis = 0, start = {i}, len = 1}} : {t} -> {s}" for i in (0, 1)),
        region("p", {"n0": s}, s, unary("r", "exp", "n0", "f32"), prologue=True),
        region("q", {"n1": s}, s, unary("r", "exp", "n1", "f32")),
        f"%t = rlx.concat %p, %q {{axis = 0}} : ({s}, {s}) -> {t}",
        arguments=f"%x: {t}",
        results=t,
    )
    declines(module, Reason.ATTRIBUTES_DIFFER)


@pytest.mark.parametrize("starts", [(2, 0), (0, 1)], ids=["other order", "overlap"])
def test_slices_that_do_not_follow_one_another(starts: tuple[int, ...]):
    declines(batch(*((start, 2, "relu") for start in starts), regions=True), Reason.NOT_ADJACENT)


def test_slices_of_different_lengths():
    declines(batch((0, 1, "relu"), (1, 3, "relu"), regions=True), Reason.SHAPES_DIFFER)


def test_a_region_is_returned():
    module = batch(*HALVES, regions=True, returned="%t, %r0", more_results=("tensor<2x8xf32>",))
    declines(module, Reason.RETURNED)


def test_a_region_is_used_again():
    tail = unary("u", "exp", "r0", "tensor<2x8xf32>")
    module = batch(*HALVES, regions=True, tail=tail, returned="%t, %u", more_results=("tensor<2x8xf32>",))
    declines(module, Reason.MORE_THAN_ONE_USE)


def test_the_concatenation_is_in_another_block():
    s = "tensor<2x8xf32>"
    join = f"%t = rlx.concat %r0, %r1 {{axis = 0}} : ({s}, {s}) -> tensor<4x8xf32>"
    module = of(
        *(f"%n{i} = rlx.narrow %x {{axis = 0, start = {2 * i}, len = 2}} : tensor<4x8xf32> -> {s}" for i in (0, 1)),
        *(region(f"r{i}", {f"n{i}": s}, s, unary("r", "relu", f"n{i}", "f32")) for i in (0, 1)),
        nested(join, '"test.termop"(%t) : (tensor<4x8xf32>) -> ()'),
        returned="%x",
    )
    (miss,) = FuseBatchPreprocess().misses(module)
    assert (miss.reason, miss.op.name) == (Reason.OTHER_BLOCK, "rlx.concat")
    FuseBatchPreprocess().apply(Context(), module)
    assert FUSED not in names(module)


def test_no_slices_of_a_batch():
    s = "tensor<2x8xf32>"
    narrows = [f"%n{i} = rlx.narrow %x {{axis = 0, start = {2 * i}, len = 2}} : tensor<4x8xf32> -> {s}" for i in (0, 1)]
    join = f"%t = rlx.concat %r0, %r1 {{axis = 0}} : ({s}, {s}) -> tensor<4x8xf32>"
    first = region("r0", {"n0": s}, s, unary("r", "relu", "n0", "f32"))
    two_operands = of(
        *narrows, first, region("r1", {"n1": s, "n0": s}, s, binary("r", "add", "n1", "n0", *["f32"] * 3)), join
    )
    no_region = of(*narrows, first, unary("r1", "relu", "n1", s), join)
    for module in (two_operands, no_region, batch((0, 2, "relu"), regions=True), batch(*HALVES, regions=True, axis=1)):
        assert FuseBatchPreprocess().misses(module) == []
        fused(module, 0, mutants=False)
