"""rlx-fuse-region-prologue: which resize a region takes in and where its operand goes, each reason not to."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from region_helpers import image, names, nested, of, region, regions, resize, unary
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr

from rlx_dialect.ops.elementwise import NOT_REGION_FUSABLE_ACTIVATIONS
from rlx_dialect.passes.fuse_region_prologue import FuseRegionPrologue
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

REGION = "rlx.elementwise_region"
SMALL, LARGE = image(8), image(16)


def sub(a: str, b: str, element: str = "f32") -> str:
    return f"%r = rlx.binary sub %{a}, %{b} : ({element}, {element}) -> {element}"


def fused(module: ModuleOp, *, mutants: bool = True) -> ModuleOp:
    """What the pass makes of the module: one region, which resizes."""
    before = len(regions(module))
    after = check_fusion(module, FuseRegionPrologue(), fused={REGION: max(before, 1)}, mutants=mutants)
    assert [r.prologue is not None for r in regions(after)].count(True) == 1
    return after


def declines(module: ModuleOp, reason: Reason, at: str = REGION) -> None:
    check_declines(module, FuseRegionPrologue(), reason, at=at)


def with_operands(*operands: str, prologue: bool = False, tail: str = "", returned: str = "%t", results: str = LARGE):
    """A region of two operands, one or both of them resized from %x or %y to %a."""
    body = region("t", dict.fromkeys(operands, LARGE), LARGE, sub(operands[0], operands[-1]), prologue=prologue)
    lines = [resize("a", "x", 8), resize("b", "w", 8), body, tail]
    if "b" not in operands:
        del lines[1]
    return of(*lines, arguments=f"%x: {SMALL}, %w: {SMALL}, %y: {LARGE}", results=results, returned=returned)


# It fuses.


@pytest.mark.parametrize("kind", ["relu", "tanh"])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_an_activation_becomes_a_region(kind: str, element: str):
    large = image(16, element=element)
    module = of(
        resize("a", "x", 8, element=element),
        unary("t", kind, "a", large),
        arguments=f"%x: {image(8, element=element)}",
        results=large,
    )
    after = fused(module)
    assert names(after) == [REGION]
    assert f'%t = rlx.elementwise_region(%x) {{prologue = "resize_nearest_2x"}} : {image(8, element=element)} ->' in (
        print_module(after)
    )
    assert len(regions(after)[0].steps()) == 1


def test_a_cast_that_changes_nothing_becomes_a_region():
    module = of(resize("a", "x", 8), f"%t = rlx.cast %a : {LARGE} -> {LARGE}", arguments=f"%x: {SMALL}", results=LARGE)
    assert names(fused(module)) == [REGION]


def test_the_first_operand():
    (after,) = regions(fused(with_operands("a", "y")))
    assert [v.name_hint for v in after.inputs] == ["x", "y"]


def test_another_operand_changes_places_with_the_first():
    (after,) = regions(fused(with_operands("y", "a")))
    assert [v.name_hint for v in after.inputs] == ["x", "y"]
    assert [v.name_hint for v in after.body.block.args] == ["a_", "y_"]
    (step,) = after.steps()
    assert list(step.operands) == [after.body.block.args[1], after.body.block.args[0]]


def test_the_last_of_three_operands():
    types = {"y": LARGE, "s": "tensor<3x1x1xf16>", "a": LARGE}
    steps = ("%c = rlx.cast %s : f16 -> f32", "%p = rlx.binary mul %c, %y : (f32, f32) -> f32", sub("p", "a"))
    module = of(
        resize("a", "x", 8),
        region("t", types, LARGE, *steps),
        arguments=f"%x: {SMALL}, %y: {LARGE}, %s: tensor<3x1x1xf16>",
        results=LARGE,
    )
    (after,) = regions(fused(module))
    assert [v.name_hint for v in after.inputs] == ["x", "s", "y"]


@pytest.mark.parametrize("small", ["3x1x1xf32", "1x3x1x1xf32", "16xf32", "f32"])
@pytest.mark.parametrize("first", [False, True])
def test_other_operands_may_be_broadcast(small: str, first: bool):
    s = f"tensor<{small}>"
    operands = {"s": s, "a": LARGE} if first else {"a": LARGE, "s": s}
    module = of(
        resize("a", "x", 8),
        region("t", operands, LARGE, sub("a", "s")),
        arguments=f"%x: {SMALL}, %s: {s}",
        results=LARGE,
    )
    fused(module, mutants=small == "3x1x1xf32")


@pytest.mark.parametrize("element", ["f16", "bf16", "f64", "i32"])
def test_element_types(element: str):
    large = image(16, element=element)
    module = of(
        resize("a", "x", 8, element=element),
        region("t", {"y": large, "a": large}, large, sub("y", "a", element)),
        arguments=f"%x: {image(8, element=element)}, %y: {large}",
        results=large,
    )
    fused(module, mutants=False)


@pytest.mark.parametrize(("height", "batch"), [("?", 1), (8, "?"), ("?", "?")])
def test_unknown_extents_of_the_only_full_operand(height: int | str, batch: int | str):
    out = image(height if isinstance(height, str) else 16, batch=batch)
    module = of(
        resize("a", "x", height, batch=batch),
        region("t", {"s": "tensor<3x1x1xf32>", "a": out}, out, sub("s", "a")),
        arguments=f"%x: {image(height, batch=batch)}, %s: tensor<3x1x1xf32>",
        results=out,
    )
    fused(module, mutants=False)


def test_unknown_extents_that_are_one():
    """Both operands come from %x."""
    small, large = image(8, batch="?"), image(16, batch="?")
    module = of(
        resize("a", "x", 8, batch="?"),
        unary("e", "neg", "x", small),
        f"%y = rlx.concat %e, %e {{axis = 2}} : ({small}, {small}) -> tensor<?x3x16x8xf32>",
        f"%z = rlx.concat %y, %y {{axis = 3}} : (tensor<?x3x16x8xf32>, tensor<?x3x16x8xf32>) -> {large}",
        region("t", {"z": large, "a": large}, large, sub("a", "z")),
        arguments=f"%x: {small}",
        results=large,
    )
    fused(module, mutants=False)


def test_the_first_resize_that_it_can_do():
    """The one of %a is returned as well."""
    module = with_operands("a", "b", returned="%t, %a", results=f"{LARGE}, {LARGE}")
    (after,) = regions(fused(module))
    assert [v.name_hint for v in after.inputs] == ["w", "a"]


def test_what_comes_before_the_resize_does_not_matter():
    module = of(
        resize("a", "x", 4),
        resize("b", "a", 8),
        unary("t", "relu", "b", LARGE),
        arguments=f"%x: {image(4)}",
        results=LARGE,
    )
    assert names(fused(module)) == ["rlx.resize_nearest_2x", REGION]


def test_attributes_and_locations_are_kept():
    module = with_operands("y", "a")
    (old,) = regions(module)
    old.attributes["test.mark"] = StringAttr("here")
    old.steps()[0].location = FileLineColLoc(StringAttr("m"), IntAttr(3), IntAttr(1))
    FuseRegionPrologue(strict=True).apply(Context(), module)
    (new,) = regions(module)
    assert new.attributes == {"test.mark": StringAttr("here")}
    assert str(new.steps()[0].location) == 'loc("m":3:1)'
    assert new.result.name_hint == "t"


# It does not.


def test_a_region_resizes_one_operand():
    module = with_operands("a", "b")
    declines(module, Reason.OTHER_OPERAND)
    assert names(fused(module)) == ["rlx.resize_nearest_2x", REGION]


def test_the_operand_is_resized_already():
    body = region("t", {"a": LARGE}, image(32), unary("r", "exp", "a", "f32"), prologue=True)
    declines(of(resize("a", "x", 8), body, arguments=f"%x: {SMALL}", results=image(32)), Reason.OTHER_OPERAND)


ACTIVATION = unary("t", "relu", "a", LARGE)
BODY = region("t", {"y": LARGE, "a": LARGE}, LARGE, sub("y", "a"))


@pytest.mark.parametrize(("line", "at"), [(BODY, REGION), (ACTIVATION, "rlx.activation")], ids=["region", "activation"])
@pytest.mark.parametrize(
    ("tail", "returned", "reason"),
    [
        ("", "%t, %a", Reason.RETURNED),
        (unary("u", "softplus", "a", LARGE), "%t, %u", Reason.MORE_THAN_ONE_USE),
        (nested(f'"test.termop"(%a) : ({LARGE}) -> ()'), "%t, %y", Reason.MORE_THAN_ONE_USE),
    ],
    ids=["returned", "used", "used in another block"],
)
def test_the_resized_value_has_other_uses(line: str, at: str, tail: str, returned: str, reason: Reason):
    module = of(
        resize("a", "x", 8),
        line,
        tail,
        arguments=f"%x: {SMALL}, %y: {LARGE}",
        results=f"{LARGE}, {LARGE}",
        returned=returned,
    )
    misses = FuseRegionPrologue().misses(module)
    assert (misses[0].reason, misses[0].op.name) == (reason, at)
    FuseRegionPrologue().apply(Context(), module)
    assert "prologue" not in print_module(module)


def test_the_region_takes_the_value_twice():
    """As one operand of the activation's square, and as two of the region."""
    body = BODY.replace("(%y, %a)", "(%a, %a)")
    module = of(resize("a", "x", 8), body, arguments=f"%x: {SMALL}", results=LARGE)
    misses = FuseRegionPrologue().misses(module)
    assert {m.reason for m in misses} == {Reason.MORE_THAN_ONE_USE}


@pytest.mark.parametrize(("line", "at"), [(BODY, REGION), (ACTIVATION, "rlx.activation")], ids=["region", "activation"])
def test_the_resize_is_in_another_block(line: str, at: str):
    module = of(
        resize("a", "x", 8),
        nested(line, f'"test.termop"(%t) : ({LARGE}) -> ()'),
        arguments=f"%x: {SMALL}, %y: {LARGE}",
        results=LARGE,
        returned="%y",
    )
    (miss,) = FuseRegionPrologue().misses(module)
    assert (miss.reason, miss.op.name) == (Reason.OTHER_BLOCK, at)
    FuseRegionPrologue().apply(Context(), module)
    assert "prologue" not in print_module(module)


def test_a_resized_operand_that_is_broadcast_stays():
    large = image(16, batch=2)
    module = of(
        resize("a", "x", 8),
        region("t", {"y": large, "a": LARGE}, large, sub("y", "a")),
        arguments=f"%x: {SMALL}, %y: {large}",
        results=large,
    )
    declines(module, Reason.SHAPES_DIFFER)


def test_a_resized_operand_that_may_be_broadcast_stays():
    """%x and %y may have different batches."""
    large = image(16, batch="?")
    module = of(
        resize("a", "x", 8, batch="?"),
        region("t", {"y": large, "a": large}, large, sub("y", "a")),
        arguments=f"%x: {image(8, batch='?')}, %y: {large}",
        results=large,
    )
    declines(module, Reason.DYNAMIC_EXTENT)


@pytest.mark.parametrize("kind", sorted(NOT_REGION_FUSABLE_ACTIVATIONS))
def test_activations_that_regions_do_not_evaluate(kind: str):
    module = of(resize("a", "x", 8), unary("t", kind, "a", LARGE), arguments=f"%x: {SMALL}", results=LARGE)
    declines(module, Reason.UNSUPPORTED_KIND, "rlx.activation")


def test_a_change_of_type():
    half = image(16, element="f16")
    module = of(resize("a", "x", 8), f"%t = rlx.cast %a : {LARGE} -> {half}", arguments=f"%x: {SMALL}", results=half)
    declines(module, Reason.UNSUPPORTED_KIND, "rlx.cast")


def test_complex_numbers():
    small, large = image(8, element="complex<f32>"), image(16, element="complex<f32>")
    module = of(
        resize("a", "x", 8, element="complex<f32>"),
        f"%t = rlx.cast %a : {large} -> {large}",
        arguments=f"%x: {small}",
        results=large,
    )
    declines(module, Reason.ELEMENT_TYPE, "rlx.cast")
