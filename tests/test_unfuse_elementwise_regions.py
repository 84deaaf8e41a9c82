"""rlx-unfuse-elementwise-regions."""

from __future__ import annotations

import pytest
from helpers import parse
from region_helpers import T, binary, chain, image, mark, names, nested, of, region, unary, unfuse
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr

from rlx_dialect.ops.elementwise import ElementwiseOp
from rlx_dialect.passes.unfuse_elementwise_regions import UnfuseElementwiseRegions
from rlx_dialect.xdsl_compat import Context, print_module


def test_unfusing_gives_back_what_was_marked():
    for module in (chain(5), of(binary("a", "mul", "x", "y"), unary("b", "tanh", "a"), binary("t", "add", "b", "a"))):
        assert print_module(unfuse(mark(module))) == print_module(module)


def test_unfusing_a_region_with_broadcast_operands_uses_the_smaller_shapes():
    module = parse(
        f"""func.func @main(%x: {T}, %s: tensor<8xf32>) -> {T} {{
        %0 = rlx.elementwise_region(%x, %s) : ({T}, tensor<8xf32>) -> {T} {{
        ^bb0(%a: f32, %b: f32):
          %1 = rlx.activation exp %b : f32
          %2 = rlx.binary mul %a, %1 : (f32, f32) -> f32
          rlx.yield %2 : f32
        }}
        func.return %0 : {T} }}"""
    )
    after = unfuse(module)
    assert names(after) == ["rlx.activation", "rlx.binary"]
    assert "rlx.activation exp %s : tensor<8xf32>" in print_module(after)


def resized() -> ModuleOp:
    small, large = "tensor<1x3x4x5xf32>", "tensor<1x3x8x10xf32>"
    return parse(
        f"""func.func @main(%x: {small}, %y: {large}) -> {large} {{
        %0 = rlx.elementwise_region(%x, %y) {{prologue = "resize_nearest_2x"}} : ({small}, {large}) -> {large} {{
        ^bb0(%a: f32, %b: f32):
          %1 = rlx.binary mul %a, %b : (f32, f32) -> f32
          %2 = rlx.activation tanh %1 : f32
          rlx.yield %2 : f32
        }}
        func.return %0 : {large} }}"""
    )


def test_unfusing_a_region_with_a_prologue():
    assert names(unfuse(resized())) == ["rlx.resize_nearest_2x", "rlx.binary", "rlx.activation"]
    assert print_module(unfuse(resized(), keep_prologue=True)) == print_module(resized())


def test_unfusing_keeps_locations():
    module = of(unary("a", "exp", "x"), unary("t", "neg", "a"))
    for line, op in enumerate(op for op in module.walk() if isinstance(op, ElementwiseOp)):
        op.location = FileLineColLoc(StringAttr("m"), IntAttr(line), IntAttr(1))
    back = unfuse(mark(module))
    assert [str(op.location) for op in back.walk() if isinstance(op, ElementwiseOp)] == ['loc("m":0:1)', 'loc("m":1:1)']


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("shape", ["4x4", "?x8"])
def test_unfusing_in_other_types_and_shapes(shape: str, element: str):
    t = f"tensor<{shape}x{element}>"
    module = of(
        region("t", {"x": t, "y": t}, t, binary("a", "mul", "x", "y", *[element] * 3), unary("r", "exp", "a", element)),
        arguments=f"%x: {t}, %y: {t}",
        results=t,
    )
    assert names(unfuse(module)) == ["rlx.binary", "rlx.activation"]


def test_regions_of_transforms_and_of_batches_stay():
    module = of(
        f"""%0 = rlx.transform_region %x {{steps = ["resize_nearest_2x"]}} : {image(2)} -> {image(4)}
        %t = rlx.batch_elementwise_region(%0, %0) : ({image(4)}, {image(4)}) -> {image(4, batch=2)} {{
        ^bb0(%a: f32):
          %r = rlx.activation exp %a : f32
          rlx.yield %r : f32
        }}""",
        arguments=f"%x: {image(2)}",
        results=image(4, batch=2),
    )
    assert print_module(unfuse(module)) == print_module(module)


def test_unfusing_in_every_block():
    inner = region("i", {"x": T}, T, unary("r", "exp", "x", "f32"))
    outer = region("t", {"x": T}, T, unary("r", "neg", "x", "f32"))
    module = of(nested(inner, f'"test.termop"(%i) : ({T}) -> ()'), outer)
    UnfuseElementwiseRegions().apply(Context(), module)
    module.verify()
    assert names(module) == ["rlx.activation", "rlx.activation"]
