"""rlx-fuse-conv-affine-act: scale and shift in every order, residual, epilogue, load-time weights, reasons, mutants."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from fusion_harness import check_declines, check_fusion
from helpers import assert_close, graph, parse
from mutants import check_mutants
from test_fuse_conv_bias_act import GROUPED, LINE, POINTWISE, VOLUME
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.interpreter import run_reference
from rlx_dialect.passes.fuse_conv_affine_act import FuseConvAffineAct
from rlx_dialect.passes.fuse_conv_bias_act import FuseConvBiasAct
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.fused_conv_bias_act"
DEFAULT = FuseConvAffineAct()
OUT = "2x4x5x5"
T = f"tensor<{OUT}xf32>"
RELU = f"%a = rlx.activation relu %s : {T}"
RESIDUAL = f"%t = rlx.binary add %s, %r : ({T}, {T}) -> {T}"


def batch_norm(
    tail: str = "",
    returned: str = "%s",
    *,
    x: str = "2x3x5x5",
    w: str = "4x3x3x3",
    out: str = OUT,
    window: str = "padding = [1, 1]",
    bias: str = "4x1x1",
    arguments: str = "4",
    scale: str = "%c",
    shift: str = "%d",
    prepare: str = "",
    orders: tuple[str, str] = ("ab", "ab"),
    element: str = "f32",
    kinds: tuple[str, str] = ("param", "param"),
) -> ModuleOp:
    """conv(x, w) · scale + shift, then ``tail``; %scale and %shift are reshaped to ``bias``."""
    tx, tw, to, tv, tb = (f"tensor<{shape}x{element}>" for shape in (x, w, out, arguments, bias))
    kernel = ", ".join(w.split("x")[2:])
    ones = bias.replace("x", ", ")

    def operands(a: str, b: str, order: str) -> str:
        return f"{a}, {b} : ({to}, {tb})" if order == "ab" else f"{b}, {a} : ({tb}, {to})"

    reshapes = (
        ""
        if bias == arguments
        else (
            f"""%c = rlx.reshape %scale {{new_shape = [{ones}]}} : {tv} -> {tb}
        %d = rlx.reshape %shift {{new_shape = [{ones}]}} : {tv} -> {tb}"""
        )
    )
    return graph(
        f"""{reshapes}
        {prepare}
        %p = rlx.conv %x, %w {{kernel_size = [{kernel}]{", " if window else ""}{window}}} : ({tx}, {tw}) -> {to}
        %m = rlx.binary mul {operands("%p", scale, orders[0])} -> {to}
        %s = rlx.binary add {operands("%m", shift, orders[1])} -> {to}
        {tail.replace("f32", element)}""",
        f"""%x: {tx}, %w: {tw} {{rlx.{kinds[0]} = "w"}}, %scale: {tv} {{rlx.{kinds[1]} = "scale"}},
        %shift: {tv}, %r: {to}""",
        ", ".join([to] * len(returned.split(","))),
        returned,
    )


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def fuses(module: ModuleOp, fusion: FuseConvAffineAct = DEFAULT, more: int = 0) -> ModuleOp:
    return check_fusion(module, fusion, fused={FUSED: 1}, mutants=False, more_operations=more)


def declines(module: ModuleOp, reason: Reason, at: str = "rlx.conv") -> None:
    check_declines(module, DEFAULT, reason, at=at)


SCALED_WEIGHT = ["rlx.reshape", "rlx.binary"]


# It fuses.


@pytest.mark.parametrize("orders", list(product(("ab", "ba"), ("ab", "ba"))), ids="-".join)
def test_every_order(orders: tuple[str, str]):
    after = fuses(batch_norm(orders=orders))
    assert names(after) == [*SCALED_WEIGHT, FUSED]
    assert "rlx.reshape %scale {new_shape = [4, 1, 1, 1]}" in print_module(after)
    assert "%s = rlx.fused_conv_bias_act %x, %1, %shift" in print_module(after)


@pytest.mark.parametrize(
    ("tail", "returned", "rest"),
    [
        (RELU, "%a", []),
        (RESIDUAL, "%t", []),
        (f"{RESIDUAL}\n%a = rlx.activation relu %t : {T}", "%a", []),
        (f"%t = rlx.binary add %r, %s : ({T}, {T}) -> {T}", "%t", []),
        (f"%a = rlx.activation gelu %s : {T}", "%a", ["rlx.activation"]),
        (f"{RELU}\n%t = rlx.binary add %a, %r : ({T}, {T}) -> {T}", "%t", ["rlx.binary"]),
    ],
    ids=["relu", "residual", "residual, relu", "residual first", "gelu", "residual after relu"],
)
def test_what_follows(tail: str, returned: str, rest: list[str]):
    assert names(fuses(batch_norm(tail, returned))) == [*SCALED_WEIGHT, FUSED, *rest]


def test_epilogues_are_data():
    module = batch_norm(f"%a = rlx.activation gelu %s : {T}", "%a")
    assert names(fuses(module, FuseConvAffineAct(epilogues=("gelu",)))) == [*SCALED_WEIGHT, FUSED]


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_element_types(element: str):
    """What rounding the scaled weight costs is checked below."""
    after = batch_norm(RELU, "%a", element=element)
    DEFAULT.apply(Context(), after)
    assert names(after) == [*SCALED_WEIGHT, FUSED]


@pytest.mark.parametrize(("element", "tolerance"), [("f16", 2e-2), ("bf16", 2e-1), ("f64", 1e-12)])
def test_rounding_the_scaled_weight(element: str, tolerance: float):
    module = batch_norm(element=element)
    after = module.clone()
    DEFAULT.apply(Context(), after)
    values = random_values(module)
    assert_close(run_reference(after, values), run_reference(module, values), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": "?x3x5x5", "out": "?x4x5x5"},
        {"x": "2x3x?x?", "out": "2x4x?x?"},
        {"x": "4x4x4x4", "w": "4x4x3x3", "out": "4x4x4x4"},
        {"x": "2x3x9x7", "out": "2x4x4x3", "window": "stride = [2, 2]"},
    ],
    ids=["batch", "space", "all fours", "stride"],
)
def test_shapes(shapes: dict[str, str]):
    assert names(fuses(batch_norm(**shapes))) == [*SCALED_WEIGHT, FUSED]


def test_channels_without_a_reshape():
    module = batch_norm(bias="4x1x1", arguments="4x1x1", scale="%scale", shift="%shift")
    assert names(fuses(module, more=1)) == [*SCALED_WEIGHT, "rlx.reshape", FUSED]


def test_a_scale_that_is_computed_from_parameters():
    """As canonicalisation leaves a batch norm: gamma times the inverse root of the variance."""
    prepare = """%v = rlx.activation rsqrt %c : tensor<4x1x1xf32>
        %k = rlx.constant dense<2.0> : tensor<f32>
        %e = rlx.binary mul %v, %k : (tensor<4x1x1xf32>, tensor<f32>) -> tensor<4x1x1xf32>"""
    module = batch_norm(prepare=prepare, scale="%e")
    after = module.clone()
    DEFAULT.apply(Context(), after)
    assert names(after).count(FUSED) == 1
    values = random_values(module) | {"scale": np.array([0.5, 1, 2, 3], np.float32)}
    assert_close(run_reference(after, values), run_reference(module, values), rtol=1e-5, atol=1e-5)


def test_a_constant_scale_and_an_expanded_one():
    prepare = f"""%k = rlx.constant dense<[[[2.0]], [[3.0]], [[-1.0]], [[0.5]]]> : tensor<4x1x1xf32>
        %e = rlx.expand %k {{shape = [2, 4, 5, 5]}} : tensor<4x1x1xf32> -> {T}
        %f = rlx.expand %d {{shape = [2, 4, 5, 5]}} : tensor<4x1x1xf32> -> {T}"""
    text = print_module(batch_norm(prepare=prepare)).replace(
        f"%p, %c : ({T}, tensor<4x1x1xf32>)", f"%p, %e : ({T}, {T})"
    )
    text = text.replace(f"%m, %d : ({T}, tensor<4x1x1xf32>)", f"%m, %f : ({T}, {T})")
    after = fuses(parse(text))
    assert names(after) == ["rlx.reshape", "rlx.constant", *SCALED_WEIGHT, FUSED]
    assert ", %shift {" in print_module(after).split(FUSED)[1]


def test_the_bias_pass_leaves_it_alone():
    """Both are in one pipeline; each says what it is not for."""
    (miss,) = FuseConvBiasAct().misses(batch_norm())
    assert miss.reason is Reason.OTHER_CONSUMER
    plain = parse(print_module(batch_norm()).replace("rlx.binary mul", "rlx.binary sub"))
    assert DEFAULT.misses(plain) == []


# It declines.


@pytest.mark.parametrize("kinds", [("input", "param"), ("param", "input")], ids=["weight", "scale"])
def test_the_weight_would_be_scaled_on_every_call(kinds: tuple[str, str]):
    declines(batch_norm(kinds=kinds), Reason.COPIED_EVERY_CALL)


@pytest.mark.parametrize("case", [POINTWISE, GROUPED, LINE, VOLUME], ids=["1x1", "groups", "1-D", "3-D"])
def test_kernel_limits(case: dict[str, str]):
    declines(batch_norm(**case), Reason.KERNEL_LIMIT)
    assert names(fuses(batch_norm(**case), FuseConvAffineAct(kernel_limits=False))) == [*SCALED_WEIGHT, FUSED]


def test_scale_or_shift_is_not_one_value_a_channel():
    square = {"x": "4x4x4x4", "w": "4x4x3x3", "out": "4x4x4x4"}
    text = print_module(batch_norm(**square))
    t, b = "tensor<4x4x4x4xf32>", "tensor<4x1x1xf32>"
    for name, value, vector in (("%p", "%c", "%scale"), ("%m", "%d", "%shift")):
        bare = text.replace(f"{name}, {value} : ({t}, {b})", f"{name}, {vector} : ({t}, tensor<4xf32>)")
        assert bare != text
        declines(parse(bare), Reason.BIAS_SHAPE)
    declines(batch_norm(bias="4x1", **square), Reason.BIAS_SHAPE)
    declines(batch_norm(bias="4x1x1x1", **square), Reason.BIAS_SHAPE)


def test_a_value_between_is_used_again_or_returned():
    for value in ("%p", "%m"):
        tail = f"%z = rlx.binary mul %s, {value} : ({T}, {T}) -> {T}"
        declines(batch_norm(tail, "%z"), Reason.MORE_THAN_ONE_USE)
        declines(batch_norm(returned=f"%s, {value}"), Reason.RETURNED)


def test_no_shift_follows():
    text = print_module(batch_norm()).replace("rlx.binary add", "rlx.binary max")
    declines(parse(text), Reason.OTHER_CONSUMER)


def test_unknown_channels():
    (miss,) = DEFAULT.misses(batch_norm(w="?x3x3x3", out="2x?x5x5"))
    assert miss.reason is Reason.DYNAMIC_EXTENT


def test_integers():
    declines(batch_norm(element="i32"), Reason.ELEMENT_TYPE)


def test_the_scaled_value_is_in_another_block():
    lines = print_module(batch_norm()).splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.lstrip().startswith("%s ="))
    inner = ['"test.op"() ({', lines[at], f'"test.termop"(%s) : ({T}) -> ()', "}) : () -> ()"]
    module = parse("\n".join([*lines[:at], *inner, *lines[at + 1 :]]).replace("return %s", "return %r"))
    (miss,) = DEFAULT.misses(module)
    assert miss.reason is Reason.OTHER_BLOCK
    DEFAULT.apply(Context(), module)
    assert FUSED not in names(module)


def test_strict_numerics():
    check_declines(batch_norm(), FuseConvAffineAct(strict=True), Reason.NUMERICS, at="rlx.conv")


# Mutants.


@pytest.mark.parametrize(
    "module",
    [
        batch_norm(f"{RESIDUAL}\n%a = rlx.activation relu %t : {T}", "%a"),
        batch_norm(x="4x4x4x4", w="4x4x3x3", out="4x4x4x4"),
    ],
    ids=["residual and relu", "all fours"],
)
def test_mutants(module: ModuleOp):
    counts = check_mutants(module, DEFAULT, fused=FUSED, more_operations=2)
    assert counts["original"] == 1
    assert 10 < sum(counts.values()) < len(counts) - 5
    for name in ("second use, early, of conv#2.0", "returned: conv#2.0", "returned: binary#3.0"):
        assert counts[name] == 0
