"""rlx-mark-transform-regions: chains of resizes, where they end, and resizes that a region does itself."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from region_helpers import image, names, nested, of, region, resize, unary
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.region import TransformRegionOp
from rlx_dialect.passes.mark_transform_regions import MarkTransformRegions
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

REGION = "rlx.transform_region"


def chain(count: int, *, height: int | str = 2, element: str = "f32", batch: int | str = 1) -> ModuleOp:
    heights = [height if isinstance(height, str) else height << i for i in range(count + 1)]
    lines = [resize(f"r{i + 1}", f"r{i}", heights[i], element=element, batch=batch) for i in range(count)]
    first, last = (image(h, element=element, batch=batch) for h in (heights[0], heights[-1]))
    return of(*lines, arguments=f"%r0: {first}", results=last, returned=f"%r{count}")


def marked(module: ModuleOp, *steps: int) -> ModuleOp:
    """What the pass makes of the module: regions with so many steps."""
    after = check_fusion(module, MarkTransformRegions(), fused={REGION: len(steps)})
    assert [len(op.steps) for op in after.walk() if isinstance(op, TransformRegionOp)] == list(steps)
    return after


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_chain_is_one_region(count: int):
    after = marked(chain(count), count)
    assert names(after) == [REGION]
    steps = ", ".join(['"resize_nearest_2x"'] * count)
    types = f"{image(2)} -> {image(2 << count)}"
    assert f"%r{count} = rlx.transform_region %r0 {{steps = [{steps}]}} : {types}" in print_module(after)


@pytest.mark.parametrize("element", ["f16", "bf16", "f64", "i32", "i1"])
def test_element_types(element: str):
    marked(chain(2, element=element), 2)


@pytest.mark.parametrize(("height", "batch"), [(2, "?"), ("?", 1), ("?", "?"), (3, 2)])
def test_extents(height: int | str, batch: int | str):
    marked(chain(2, height=height, batch=batch), 2)


def test_a_result_that_is_known_better():
    module = of(
        f"%0 = rlx.resize_nearest_2x %x : {image('?')} -> {image('?')}",
        f"%t = rlx.resize_nearest_2x %0 : {image('?')} -> {image(8)}",
        arguments=f"%x: {image('?')}",
        results=image(8),
    )
    after = module.clone()
    MarkTransformRegions().apply(Context(), after)
    after.verify()
    assert names(after) == [REGION]


def test_strict_numerics_are_kept():
    after = chain(3)
    MarkTransformRegions(strict=True).apply(Context(), after)
    assert names(after) == [REGION]


@pytest.mark.parametrize(
    ("tail", "returned", "results"),
    [
        ("", "%b, %a", [image(8), image(4)]),
        (f"%u = rlx.reverse %a {{axes = [2]}} : {image(4)} -> {image(4)}", "%b, %u", [image(8), image(4)]),
        (resize("c", "a", 4), "%b, %c", [image(8), image(8)]),
        (f'"test.op"() ({{\n"test.termop"(%a) : ({image(4)}) -> ()\n}}) : () -> ()', "%b", [image(8)]),
    ],
    ids=["returned", "used by another", "used by another resize", "used in another block"],
)
def test_a_chain_ends_at_a_value_that_is_used_again(tail: str, returned: str, results: list[str]):
    module = of(
        resize("a", "x", 2),
        resize("b", "a", 4),
        tail,
        arguments=f"%x: {image(2)}",
        results=", ".join(results),
        returned=returned,
    )
    MarkTransformRegions().apply(Context(), module)
    module.verify()
    assert names(module).count(REGION) == 1 + len([line for line in (tail, "x") if "resize" in line or line == "x"])
    assert all(len(op.steps) == 1 for op in module.walk() if isinstance(op, TransformRegionOp))


def test_a_chain_does_not_reach_into_another_block():
    module = of(
        resize("a", "x", 2),
        nested(resize("b", "a", 4), f'"test.termop"(%b) : ({image(8)}) -> ()'),
        arguments=f"%x: {image(2)}",
        results=image(2),
        returned="%x",
    )
    MarkTransformRegions().apply(Context(), module)
    module.verify()
    assert [len(op.steps) for op in module.walk() if isinstance(op, TransformRegionOp)] == [1, 1]


# What a region does itself.


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_resize_before_an_activation_is_left_for_it(count: int):
    height = 2 << count
    lines = [resize(f"r{i + 1}", f"r{i}", 2 << i) for i in range(count)]
    module = of(
        *lines,
        unary("t", "relu", f"r{count}", image(height)),
        arguments=f"%r0: {image(2)}",
        results=image(height),
    )
    miss = check_declines(module, MarkTransformRegions(), Reason.OTHER_CONSUMER, at="rlx.resize_nearest_2x")
    assert "rlx.activation can resize on the way in" in miss.detail
    after = marked(module, count - 1) if count > 1 else module
    assert names(after)[-2:] == ["rlx.resize_nearest_2x", "rlx.activation"]


def test_the_resize_of_one_operand_of_a_region_is_left_for_it():
    """It does only one."""
    large = image(4)
    module = of(
        resize("a", "x", 2),
        resize("b", "y", 2),
        region("t", {"a": large, "b": large}, large, "%r = rlx.binary add %a, %b : (f32, f32) -> f32"),
        arguments=f"%x: {image(2)}, %y: {image(2)}",
        results=large,
    )
    check_declines(module, MarkTransformRegions(), Reason.OTHER_CONSUMER, at="rlx.resize_nearest_2x")
    assert names(marked(module, 1)) == ["rlx.resize_nearest_2x", REGION, "rlx.elementwise_region"]


@pytest.mark.parametrize(
    ("line", "out"),
    [
        (unary("t", "softplus", "a", image(4)), image(4)),
        (f"%t = rlx.cast %a : {image(4)} -> {image(4, element='f16')}", image(4, element="f16")),
        (f"%t = rlx.reverse %a {{axes = [2]}} : {image(4)} -> {image(4)}", image(4)),
        (region("t", {"a": image(4)}, image(8), unary("r", "exp", "a", "f32"), prologue=True), image(8)),
        (
            region(
                "t",
                {"a": image(4), "y": image(4, batch=2)},
                image(4, batch=2),
                "%r = rlx.binary add %a, %y : (f32, f32) -> f32",
            ),
            image(4, batch=2),
        ),
    ],
    ids=["no step of a region", "change of type", "no region", "a region that resizes already", "a smaller operand"],
)
def test_a_resize_that_its_user_cannot_do(line: str, out: str):
    y = image(4, batch=2)
    module = of(resize("a", "x", 2), line, arguments=f"%x: {image(2)}, %y: {y}", results=out)
    assert MarkTransformRegions().misses(module) == []
    marked(module, 1)
