"""rlx-fuse-ada-layer-norm: both forms in every order, what scale and shift repeat, each reason not to, mutants."""

from __future__ import annotations

from itertools import product

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import assert_same_meaning, graph, parse
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.normalization import AdaLayerNormOp
from rlx_dialect.passes.fuse_ada_layer_norm import FuseAdaLayerNorm
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.ada_layer_norm"
X, W = "2x3x8", "2x1x8"
ORDERS = ("ab", "ba")


def swap(a: str, b: str, order: str) -> tuple[str, str]:
    return (a, b) if order == "ab" else (b, a)


def ada(
    form: str = "A",
    *,
    x: str = X,
    scale: str = W,
    shift: str = W,
    width: str = "8",
    norm: str = "layer_norm",
    gamma: str = "1.0",
    beta: str = "0.0",
    one: str = "1.0",
    prepare: str = "",
    used: tuple[str, str] = ("%scale", "%shift"),
    used_shapes: tuple[str, str] | None = None,
    orders: tuple[str, str, str] = ("ab", "ab", "ab"),
    tail: str = "",
    returned: str = "%y",
    element: str = "f32",
) -> ModuleOp:
    """A norm of %x, scaled and shifted. ``prepare`` may make of %scale and %shift what is ``used``."""
    c, t = used_shapes or (scale, shift)
    names = {"x": x, "c": c, "t": t, "v": width, "n": ""}
    tx, tc, tt, tv, ts = (f"tensor<{shape}{'x' if shape else ''}{element}>" for shape in names.values())
    inner, factor, outer = orders
    if form == "A":
        a, b = swap("%one", used[0], factor)
        ta, tb = swap(ts, tc, factor)
        p, q = swap("%n", "%p", inner)
        tp, tq = swap(tx, tc, inner)
        steps = f"""%one = rlx.constant dense<{one}> : {ts}
        %p = rlx.binary add {a}, {b} : ({ta}, {tb}) -> {tc}
        %m = rlx.binary mul {p}, {q} : ({tp}, {tq}) -> {tx}"""
    else:
        a, b = swap("%n", used[0], factor)
        ta, tb = swap(tx, tc, factor)
        p, q = swap("%n", "%p", inner)
        steps = f"""%p = rlx.binary mul {a}, {b} : ({ta}, {tb}) -> {tx}
        %m = rlx.binary add {p}, {q} : ({tx}, {tx}) -> {tx}"""
    a, b = swap("%m", used[1], outer)
    ta, tb = swap(tx, tt, outer)
    return graph(
        f"""%g = rlx.constant dense<{gamma}> : {tv}
        %b = rlx.constant dense<{beta}> : {tv}
        {prepare}
        %n = rlx.{norm} %x, %g, %b {{eps = 1.0e-6}} : ({tx}, {tv}, {tv}) -> {tx}
        {steps}
        %y = rlx.binary add {a}, {b} : ({ta}, {tb}) -> {tx}
        {tail}""",
        f"%x: {tx}, %scale: tensor<{scale}x{element}>, %shift: tensor<{shift}x{element}>",
        ", ".join([tx] * len(returned.split(","))),
        returned,
    )


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


# It fuses.


@pytest.mark.parametrize("form", "AB")
@pytest.mark.parametrize("orders", list(product(ORDERS, ORDERS, ORDERS)), ids="-".join)
def test_every_order(form: str, orders: tuple[str, str, str]):
    after = check_fusion(ada(form, orders=orders), FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)
    assert names(after) == [FUSED]
    assert "%y = rlx.ada_layer_norm %x, %scale, %shift {eps = 1.0e-6}" in print_module(after)


@pytest.mark.parametrize("form", "AB")
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_norms_and_element_types(form: str, norm: str, element: str):
    after = check_fusion(ada(form, norm=norm, element=element), FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)
    (op,) = (op for op in after.walk() if isinstance(op, AdaLayerNormOp))
    assert op.norm.data == norm


def test_the_first_form_is_exact_and_the_second_is_not():
    module = ada("A")
    after = module.clone()
    FuseAdaLayerNorm(strict=True).apply(Context(), after)
    assert names(after) == [FUSED]
    assert_same_meaning(module, after, rtol=0.0, atol=0.0)
    check_declines(ada("B"), FuseAdaLayerNorm(strict=True), Reason.NUMERICS, at="rlx.binary")
    check_declines(ada("A", element="f16"), FuseAdaLayerNorm(strict=True), Reason.NUMERICS, at="rlx.binary")


@pytest.mark.parametrize(
    ("x", "scale", "shift", "width"),
    [
        ("2x3x8", "8", "2x3x8", "8"),
        ("8x8", "1x8", "8x8", "8"),
        ("8", "8", "8", "8"),
        ("2x3x8", "3x8", "1x1x8", "8"),
        ("?x3x8", "8", "1x1x8", "8"),
        ("?x?x8", "1x8", "8", "8"),
        ("2x3x1", "2x1x1", "1", "1"),
    ],
)
@pytest.mark.parametrize("form", "AB")
def test_shapes(form: str, x: str, scale: str, shift: str, width: str):
    module = ada(form, x=x, scale=scale, shift=shift, width=width)
    check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)


@pytest.mark.parametrize("form", "AB")
def test_a_condition_for_each_of_an_unknown_number_of_samples(form: str):
    """The scale has the very batch that x has, since it is computed from x."""
    t, p = "tensor<?x3x8xf32>", "tensor<?x1x8xf32>"
    scaled = (
        f"%p = rlx.binary add %one, %c : (tensor<f32>, {p}) -> {p}\n%m = rlx.binary mul %n, %p : ({t}, {p}) -> {t}"
        if form == "A"
        else f"%p = rlx.binary mul %n, %c : ({t}, {p}) -> {t}\n%m = rlx.binary add %n, %p : ({t}, {t}) -> {t}"
    )
    module = graph(
        f"""%c = rlx.reduce mean %x {{axes = [1], keep_dim}} : {t} -> {p}
        %g = rlx.constant dense<1.0> : tensor<8xf32>
        %b = rlx.constant dense<0.0> : tensor<8xf32>
        %one = rlx.constant dense<1.0> : tensor<f32>
        %n = rlx.layer_norm %x, %g, %b {{eps = 1.0e-6}} : ({t}, tensor<8xf32>, tensor<8xf32>) -> {t}
        {scaled}
        %y = rlx.binary add %m, %c : ({t}, {p}) -> {t}""",
        f"%x: {t}",
        t,
        "%y",
    )
    check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)


EXPANDS = """%e = rlx.expand %scale {shape = [2, 3, 8]} : tensor<2x1x8xf32> -> tensor<2x3x8xf32>
        %f = rlx.expand %shift {shape = [2, 3, 8]} : tensor<2x1x8xf32> -> tensor<2x3x8xf32>"""


@pytest.mark.parametrize("form", "AB")
def test_what_is_expanded_is_taken_from_before(form: str):
    module = ada(form, prepare=EXPANDS, used=("%e", "%f"), used_shapes=(X, X))
    after = check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)
    assert names(after) == [FUSED]
    assert "%x, %scale, %shift" in print_module(after)


def test_an_expand_along_the_last_axis_stays():
    prepare = "%e = rlx.expand %scale {shape = [2, 3, 8]} : tensor<2x1x1xf32> -> tensor<2x3x8xf32>"
    module = ada(scale="2x1x1", prepare=prepare, used=("%e", "%shift"), used_shapes=(X, W))
    after = check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)
    assert names(after) == ["rlx.expand", FUSED]


@pytest.mark.parametrize(("x", "scale"), [("2x3x8", "2x8"), ("3x3x8", "3x8"), ("8x8x8", "8x8")])
def test_a_reshape_stays_because_axes_would_align_otherwise(x: str, scale: str):
    """[B, D] → [B, 1, D]: without it, B would meet the sequence."""
    batch = scale.partition("x")[0]
    prepare = (
        f"%e = rlx.reshape %scale {{new_shape = [{batch}, 1, 8]}} : tensor<{scale}xf32> -> tensor<{batch}x1x8xf32>"
    )
    module = ada(x=x, scale=scale, shift="8", prepare=prepare, used=("%e", "%shift"), used_shapes=(f"{batch}x1x8", "8"))
    after = check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)
    assert names(after) == ["rlx.reshape", FUSED]


def test_gamma_and_beta_that_others_use_stay():
    module = ada(
        gamma="1.0",
        tail=f"%o = rlx.layer_norm %y, %g, %b {{eps = 1.0e-3}} : (tensor<{X}xf32>, tensor<8xf32>, tensor<8xf32>) -> "
        f"tensor<{X}xf32>",
        returned="%o",
    )
    after = check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)
    assert names(after) == ["rlx.constant", "rlx.constant", FUSED, "rlx.layer_norm"]


def test_gamma_and_beta_behind_expand_and_reshape():
    module = graph(
        """%one = rlx.constant dense<1.0> : tensor<1xf32>
        %zero = rlx.constant dense<0.0> : tensor<2x4xf32>
        %g = rlx.expand %one {shape = [8]} : tensor<1xf32> -> tensor<8xf32>
        %b = rlx.reshape %zero {new_shape = [8]} : tensor<2x4xf32> -> tensor<8xf32>
        %n = rlx.rms_norm %x, %g, %b {eps = 1.0e-6} : (tensor<3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
        %p = rlx.binary add %g, %scale : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        %m = rlx.binary mul %n, %p : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
        %y = rlx.binary add %m, %shift : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>""",
        "%x: tensor<3x8xf32>, %scale: tensor<8xf32>, %shift: tensor<8xf32>",
        "tensor<3x8xf32>",
        "%y",
    )
    assert names(check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)) == [FUSED]


def test_scale_and_shift_defined_between():
    """As when a condition is computed right before its use."""
    module = parse(
        print_module(ada())
        .replace("%m = ", f"%late = rlx.activation neg %shift : tensor<{W}xf32>\n    %m = ")
        .replace("%m, %shift", "%m, %late")
    )
    assert names(check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)) == ["rlx.activation", FUSED]


# It declines.


def declines(module: ModuleOp, reason: Reason, **more: int) -> None:
    check_declines(module, FuseAdaLayerNorm(), reason, at="rlx.binary", **more)


@pytest.mark.parametrize("form", "AB")
@pytest.mark.parametrize(
    "weights",
    [{"gamma": "2.0"}, {"beta": "1.0"}, {"gamma": "[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]"}, {"gamma": "0.0"}],
)
def test_the_norm_has_weights(form: str, weights: dict[str, str]):
    declines(ada(form, **weights), Reason.OTHER_CONSTANT)


@pytest.mark.parametrize("form", "AB")
def test_the_weights_are_parameters(form: str):
    text = print_module(ada(form)).replace("%scale: ", "%w: tensor<8xf32>, %scale: ")
    declines(parse(text.replace("%x, %g, %b", "%x, %w, %b")), Reason.OTHER_CONSTANT)
    declines(parse(text.replace("%x, %g, %b", "%x, %g, %w")), Reason.OTHER_CONSTANT)


def test_what_is_added_to_the_scale_is_not_one():
    declines(ada(one="2.0"), Reason.OTHER_CONSTANT)


def test_the_factor_is_not_computed_as_a_sum():
    text = print_module(ada()).replace("%p = rlx.binary add", "%p = rlx.binary sub")
    declines(parse(text), Reason.OTHER_OPERAND)
    declines(parse(print_module(ada()).replace("mul %n, %p", "mul %n, %scale")), Reason.OTHER_OPERAND)


@pytest.mark.parametrize("form", "AB")
@pytest.mark.parametrize("value", ["m", "n"])
def test_a_value_between_is_used_again_or_returned(form: str, value: str):
    t = f"tensor<{X}xf32>"
    tail = f"%z = rlx.binary mul %y, %{value} : ({t}, {t}) -> {t}"
    declines(ada(form, tail=tail, returned="%z"), Reason.MORE_THAN_ONE_USE)
    declines(ada(form, returned=f"%y, %{value}"), Reason.RETURNED)


@pytest.mark.parametrize("form", "AB")
def test_the_scaled_part_is_used_again(form: str):
    t = f"tensor<{X}xf32>"
    shape = f"tensor<{W if form == 'A' else X}xf32>"
    tail = f"%z = rlx.binary mul %y, %p : ({t}, {shape}) -> {t}"
    declines(ada(form, tail=tail, returned="%z"), Reason.MORE_THAN_ONE_USE)


@pytest.mark.parametrize("form", "AB")
@pytest.mark.parametrize(
    ("scale", "shift"), [("2x1x1", W), (W, "2x3x1"), ("1", W), ("2x3x1", "8")], ids=["scale", "shift", "one", "rows"]
)
def test_another_last_extent(form: str, scale: str, shift: str):
    declines(ada(form, scale=scale, shift=shift), Reason.SHAPES_DIFFER)


def test_the_scale_stretches_the_norm():
    t, p = "tensor<1x3x8xf32>", "tensor<2x1x8xf32>"
    y = "tensor<2x3x8xf32>"
    module = graph(
        f"""%g = rlx.constant dense<1.0> : tensor<8xf32>
        %b = rlx.constant dense<0.0> : tensor<8xf32>
        %n = rlx.layer_norm %x, %g, %b {{eps = 1.0e-6}} : ({t}, tensor<8xf32>, tensor<8xf32>) -> {t}
        %p = rlx.binary add %c, %g : ({p}, tensor<8xf32>) -> {p}
        %m = rlx.binary mul %n, %p : ({t}, {p}) -> {y}
        %y = rlx.binary add %m, %c : ({y}, {p}) -> {y}""",
        f"%x: {t}, %c: {p}",
        y,
        "%y",
    )
    declines(module, Reason.SHAPES_DIFFER)


@pytest.mark.parametrize("form", "AB")
@pytest.mark.parametrize(("x", "scale"), [("?x3x8", "?x1x8"), ("?x3x8", "1x3x8")])
def test_unknown_extents(form: str, x: str, scale: str):
    """A batch of the condition of its own proves nothing; an x of unknown batch does not mind what lacks one."""
    module = ada(form, x=x, scale=scale, shift="8")
    if scale.startswith("?"):
        declines(module, Reason.DYNAMIC_EXTENT)
    else:
        check_fusion(module, FuseAdaLayerNorm(), fused={FUSED: 1}, mutants=False)


def test_a_norm_of_unknown_width():
    t = "tensor<2x?xf32>"
    v = "tensor<?xf32>"
    module = graph(
        f"""%one = rlx.constant dense<1.0> : tensor<1xf32>
        %zero = rlx.constant dense<0.0> : tensor<1xf32>
        %g = rlx.expand %one {{shape = [3]}} : tensor<1xf32> -> {v}
        %b = rlx.expand %zero {{shape = [3]}} : tensor<1xf32> -> {v}
        %n = rlx.layer_norm %x, %g, %b {{eps = 1.0e-6}} : ({t}, {v}, {v}) -> {t}
        %p = rlx.binary add %x, %one : ({t}, tensor<1xf32>) -> {t}
        %m = rlx.binary mul %n, %p : ({t}, {t}) -> {t}
        %y = rlx.binary add %m, %x : ({t}, {t}) -> {t}""",
        f"%x: {t}",
        t,
        "%y",
    )
    declines(module, Reason.DYNAMIC_EXTENT)


def test_a_norm_that_flattens_its_result():
    t, f, v = "tensor<2x3x8xf32>", "tensor<6x8xf32>", "tensor<8xf32>"
    module = graph(
        f"""%g = rlx.constant dense<1.0> : {v}
        %b = rlx.constant dense<0.0> : {v}
        %n = rlx.rms_norm %x, %g, %b {{eps = 1.0e-6}} : ({t}, {v}, {v}) -> {f}
        %p = rlx.binary add %c, %g : ({v}, {v}) -> {v}
        %m = rlx.binary mul %n, %p : ({f}, {v}) -> {f}
        %y = rlx.binary add %m, %c : ({f}, {v}) -> {f}""",
        f"%x: {t}, %c: {v}",
        f,
        "%y",
    )
    declines(module, Reason.SHAPES_DIFFER)


@pytest.mark.parametrize("form", "AB")
def test_the_norm_is_in_another_block(form: str):
    t = f"tensor<{X}xf32>"
    text = print_module(ada(form, tail="", returned="%n"))
    lines = text.splitlines()
    (start,) = (i for i, line in enumerate(lines) if line.lstrip().startswith("%p ="))
    (end,) = (i for i, line in enumerate(lines) if line.lstrip().startswith("%y ="))
    inner = [*lines[start : end + 1], f'"test.termop"(%y) : ({t}) -> ()']
    text = "\n".join([*lines[:start], '"test.op"() ({', *inner, "}) : () -> ()", *lines[end + 1 :]])
    module = parse(text.replace("return %n", "return %x"))
    (miss,) = FuseAdaLayerNorm().misses(module)
    assert miss.reason is Reason.OTHER_BLOCK
    FuseAdaLayerNorm().apply(Context(), module)
    assert FUSED not in names(module)


def test_what_is_no_candidate():
    """Plain scale and shift of something that is no norm, or of a norm that has weights anyway."""
    t = f"tensor<{X}xf32>"
    for line in (f"%n = rlx.activation tanh %x : {t}", f"%n = rlx.softmax %x {{axis = 2}} : {t}"):
        for form in "AB":
            text = print_module(ada(form)).splitlines()
            text = [line if "layer_norm" in old else old for old in text]
            assert FuseAdaLayerNorm().misses(parse("\n".join(text))) == []
    assert (
        FuseAdaLayerNorm().misses(parse(print_module(ada(gamma="2.0")).replace("mul %n, %p", "mul %n, %scale"))) == []
    )


# Mutants.


@pytest.mark.parametrize(
    "module",
    [
        ada("A"),
        ada("B"),
        ada("A", norm="rms_norm", x="8x8", scale="8x8", shift="1x8"),
        ada("B", prepare=EXPANDS, used=("%e", "%f"), used_shapes=(X, X)),
    ],
    ids=["A", "B", "square", "expands"],
)
def test_mutants(module: ModuleOp):
    counts = check_mutants(module, FuseAdaLayerNorm(), fused=FUSED)
    assert counts["original"] == 1
    fused = sum(counts.values())
    assert 10 < fused < len(counts) - 10
    assert not any(count for name, count in counts.items() if name.startswith("returned: layer_norm"))
