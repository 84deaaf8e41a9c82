"""rlx-fuse-conv-bias-act: spellings of the bias, residual and epilogue, kernel limits, each reason not to, mutants."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph, parse
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.convolution import FusedConvBiasActOp
from rlx_dialect.passes.fuse_conv_bias_act import FuseConvBiasAct
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.fused_conv_bias_act"
DEFAULT = FuseConvBiasAct()
OUT = "2x4x5x5"
RESHAPE = "%b = rlx.reshape %bias {new_shape = [4, 1, 1]} : tensor<4xf32> -> tensor<4x1x1xf32>"


def conv(
    tail: str = "",
    returned: str = "%s",
    *,
    x: str = "2x3x5x5",
    w: str = "4x3x3x3",
    out: str = OUT,
    window: str = "padding = [1, 1]",
    argument: str = "4",
    prepare: str = RESHAPE,
    added: str = "%b",
    bias: str = "4x1x1",
    sum: str | None = None,
    element: str = "f32",
    swapped: bool = False,
) -> ModuleOp:
    """conv(x, w) + bias, then ``tail``. ``prepare`` makes of %bias what is ``added``, of shape ``bias``."""
    tx, tw, to, ta, tb, ts = (f"tensor<{shape}x{element}>" for shape in (x, w, out, argument, bias, sum or out))
    kernel = ", ".join(w.split("x")[2:])
    operands = f"{added}, %p : ({tb}, {to})" if swapped else f"%p, {added} : ({to}, {tb})"
    return graph(
        f"""{prepare.replace("f32", element)}
        %p = rlx.conv %x, %w {{kernel_size = [{kernel}]{", " if window else ""}{window}}} : ({tx}, {tw}) -> {to}
        %s = rlx.binary add {operands} -> {ts}
        {tail.replace("f32", element)}""",
        f"%x: {tx}, %w: {tw}, %bias: {ta}, %r: {ts}",
        ", ".join([ts] * len(returned.split(","))),
        returned,
    )


X = "tensor<2x3x5x5xf32>"
T = f"tensor<{OUT}xf32>"
EXPAND = f"{RESHAPE}\n%e = rlx.expand %b {{shape = [2, 4, 5, 5]}} : tensor<4x1x1xf32> -> {T}"
RELU = f"%a = rlx.activation relu %s : {T}"
RESIDUAL = f"%t = rlx.binary add %s, %r : ({T}, {T}) -> {T}"


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def fuses(module: ModuleOp, fusion: FuseConvBiasAct = DEFAULT) -> ModuleOp:
    return check_fusion(module, fusion, fused={FUSED: 1}, mutants=False)


def declines(module: ModuleOp, reason: Reason, at: str = "rlx.conv") -> None:
    check_declines(module, FuseConvBiasAct(), reason, at=at)


# It fuses.


def test_bias_residual_and_activation():
    assert names(fuses(conv())) == [FUSED]
    assert "%s = rlx.fused_conv_bias_act %x, %w, %bias {kernel_size = [3, 3], padding = [1, 1]}" in print_module(
        fuses(conv())
    )
    assert names(fuses(conv(RELU, "%a"))) == [FUSED]
    after = fuses(conv(f"{RESIDUAL}\n%a = rlx.activation relu %t : {T}", "%a"))
    assert names(after) == [FUSED]
    assert "%a = rlx.fused_conv_bias_act relu %x, %w, %bias, %r " in print_module(after)
    assert names(fuses(conv(RESIDUAL, "%t"))) == [FUSED]


@pytest.mark.parametrize("swapped", [False, True])
def test_both_orders(swapped: bool):
    residual = f"%t = rlx.binary add %r, %s : ({T}, {T}) -> {T}" if swapped else RESIDUAL
    assert names(fuses(conv(residual, "%t", swapped=swapped))) == [FUSED]


@pytest.mark.parametrize(
    ("argument", "prepare", "added", "bias", "rest"),
    [
        ("4", RESHAPE, "%b", "4x1x1", []),
        ("4", RESHAPE.replace("[4, 1, 1]", "[1, 4, 1, 1]").replace("<4x1x1x", "<1x4x1x1x"), "%b", "1x4x1x1", []),
        ("4x1x1", "", "%bias", "4x1x1", ["rlx.reshape"]),
        ("1x4x1x1", "", "%bias", "1x4x1x1", ["rlx.reshape"]),
        ("4", EXPAND, "%e", OUT, []),
        (
            "4x1x1",
            "%d = rlx.expand %bias {shape = [4, 5, 5]} : tensor<4x1x1xf32> -> tensor<4x5x5xf32>\n"
            f"%e = rlx.expand %d {{shape = [2, 4, 5, 5]}} : tensor<4x5x5xf32> -> {T}",
            "%e",
            OUT,
            ["rlx.reshape"],
        ),
    ],
    ids=["4x1x1", "1x4x1x1", "argument 4x1x1", "argument 1x4x1x1", "expanded", "expanded twice"],
)
def test_spellings_of_the_bias(argument: str, prepare: str, added: str, bias: str, rest: list[str]):
    module = conv(RELU, "%a", argument=argument, prepare=prepare, added=added, bias=bias)
    assert names(fuses(module)) == [*rest, FUSED]


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_element_types(element: str):
    assert names(fuses(conv(f"{RESIDUAL}\n%a = rlx.activation relu %t : {T}", "%a", element=element))) == [FUSED]


@pytest.mark.parametrize(
    ("shapes", "window"),
    [
        ({"x": "?x3x5x5", "out": "?x4x5x5"}, "padding = [1, 1]"),
        ({"x": "2x3x?x?", "out": "2x4x?x?"}, "padding = [1, 1]"),
        ({"x": "4x4x4x4", "w": "4x4x3x3", "out": "4x4x4x4"}, "padding = [1, 1]"),
        ({"x": "2x3x7x9", "out": "2x4x2x3"}, "stride = [2, 3], dilation = [2, 1]"),
        ({"x": "2x3x5x5", "w": "1x3x3x3", "out": "2x1x5x5", "argument": "1", "bias": "1x1x1"}, "padding = [1, 1]"),
        ({"x": "2x3x5x5", "w": "4x3x2x3", "out": "2x4x4x3"}, ""),
    ],
    ids=["batch", "space", "all fours", "stride and dilation", "one channel", "2x3"],
)
def test_shapes(shapes: dict[str, str], window: str):
    prepare = RESHAPE if "bias" not in shapes else RESHAPE.replace("4", "1")
    after = fuses(conv(window=window, prepare=prepare, **shapes))
    assert names(after) == [FUSED]
    assert window in print_module(after)


def test_a_vector_of_one_channel_is_a_bias():
    module = conv(w="1x3x3x3", out="2x1x5x5", argument="1", prepare="", added="%bias", bias="1")
    assert names(fuses(module)) == [FUSED]


def test_the_residual_is_another_convolution():
    """A block whose shortcut has a convolution: one is the residual of the other."""
    module = conv(
        f"""%q = rlx.conv %x, %w {{kernel_size = [3, 3], padding = [1, 1]}} : ({X}, tensor<4x3x3x3xf32>) -> {T}
        %u = rlx.binary add %q, %b : ({T}, tensor<4x1x1xf32>) -> {T}
        %t = rlx.binary add %s, %u : ({T}, {T}) -> {T}
        %a = rlx.activation relu %t : {T}""",
        "%a",
    )
    after = check_fusion(module, FuseConvBiasAct(), fused={FUSED: 2}, mutants=False)
    first, second = (op for op in after.walk() if isinstance(op, FusedConvBiasActOp))
    assert first.residual is None
    assert second.residual is first.result
    assert names(after) == [FUSED, FUSED]


def test_a_bias_that_others_use_stays():
    assert names(fuses(conv(returned="%s, %e", prepare=EXPAND))) == ["rlx.reshape", "rlx.expand", FUSED]


def test_epilogues_are_data():
    gelu = conv(f"%a = rlx.activation gelu %s : {T}", "%a")
    assert names(fuses(gelu)) == [FUSED, "rlx.activation"]
    assert names(fuses(gelu, FuseConvBiasAct(epilogues=("gelu", "silu")))) == [FUSED]
    assert names(fuses(conv(RELU, "%a"), FuseConvBiasAct(epilogues=()))) == [FUSED, "rlx.activation"]
    with pytest.raises(ValueError, match="swish"):
        FuseConvBiasAct(epilogues=("swish",)).apply(Context(), gelu)


# It declines, or stops half way.


POINTWISE = {"w": "4x3x1x1", "window": ""}
GROUPED = {"x": "2x4x5x5", "w": "4x2x3x3", "window": "padding = [1, 1], groups = 2"}
LINE = {"x": "2x3x5", "w": "4x3x3", "out": "2x4x5", "window": "padding = [1]", "bias": "4x1"}
ROW = {"w": "4x3x1x3", "window": "padding = [0, 1]"}
VOLUME = {"x": "1x3x4x4x4", "w": "4x3x3x3x3", "out": "1x4x2x2x2", "window": "", "bias": "4x1x1x1"}


@pytest.mark.parametrize("case", [POINTWISE, GROUPED, ROW, LINE, VOLUME], ids=["1x1", "groups", "1x3", "1-D", "3-D"])
def test_kernel_limits(case: dict[str, str]):
    """The kernel does not take them; the operation does."""
    ones = case.get("bias", "4x1x1").replace("x", ", ")
    prepare = RESHAPE.replace("[4, 1, 1]", f"[{ones}]").replace("4x1x1", case.get("bias", "4x1x1"))
    module = conv(prepare=prepare, **case)
    declines(module, Reason.KERNEL_LIMIT)
    assert names(fuses(module, FuseConvBiasAct(kernel_limits=False))) == [FUSED]


@pytest.mark.parametrize(
    ("shapes", "prepare", "bias"),
    [
        ({}, "", "1"),
        ({"x": "2x3x4x4", "out": "2x4x4x4"}, "", "4"),
        ({"x": "2x3x4x4", "out": "2x4x4x4"}, RESHAPE.replace("1, 1]", "1]").replace("4x1x1", "4x1"), "4x1"),
        (
            {"x": "2x3x4x4", "out": "2x4x4x4"},
            "%c = rlx.reshape %bias {new_shape = [1, 1, 1, 4]} : tensor<4xf32> -> tensor<1x1x1x4xf32>\n"
            "%b = rlx.expand %c {shape = [2, 4, 4, 4]} : tensor<1x1x1x4xf32> -> tensor<2x4x4x4xf32>",
            "2x4x4x4",
        ),
        (
            {"x": "4x3x5x5", "out": "4x4x5x5"},
            RESHAPE.replace("[4,", "[4, 1,").replace("4x1x1", "4x1x1x1"),
            "4x1x1x1",
        ),
        (
            {"x": "2x3x2x2", "out": "2x4x2x2"},
            "%b = rlx.reshape %bias {new_shape = [1, 1, 2, 2]} : tensor<4xf32> -> tensor<1x1x2x2xf32>",
            "1x1x2x2",
        ),
        ({}, "%b = rlx.reshape %bias {new_shape = [1, 1, 1]} : tensor<1xf32> -> tensor<1x1x1xf32>", "1x1x1"),
    ],
    ids=["[1]", "[C] along W = C", "[C, 1]", "[1, 1, 1, C] expanded", "[N, 1, 1, 1], N = C", "C elements", "[1, 1, 1]"],
)
def test_the_bias_is_not_one_value_a_channel(shapes: dict[str, str], prepare: str, bias: str):
    argument = "1" if bias in ("1", "1x1x1") else "4"
    added = "%b" if prepare else "%bias"
    declines(conv(argument=argument, prepare=prepare, added=added, bias=bias, **shapes), Reason.BIAS_SHAPE)


def test_a_whole_tensor_is_no_bias():
    """conv + residual without a bias before it."""
    declines(conv(added="%r", bias=OUT), Reason.BIAS_SHAPE)


def test_the_bias_broadcasts_the_convolution():
    b = "%b = rlx.reshape %bias {new_shape = [4, 1, 1, 1]} : tensor<4xf32> -> tensor<4x1x1x1xf32>"
    one = {"x": "1x3x5x5", "out": "1x4x5x5", "sum": "4x4x5x5"}
    declines(conv(prepare=b, bias="4x1x1x1", **one), Reason.SHAPES_DIFFER)
    channel = {"w": "1x3x3x3", "out": "2x1x5x5", "sum": "2x4x5x5"}
    declines(conv(**channel), Reason.SHAPES_DIFFER)


@pytest.mark.parametrize(
    "shapes",
    [
        {"w": "?x3x3x3", "out": "2x?x5x5", "sum": "2x4x5x5"},
        {"x": "?x3x5x5", "out": "?x4x5x5", "argument": "3x4x1x1", "prepare": "", "added": "%bias", "bias": "3x4x1x1"},
    ],
    ids=["channels", "rows"],
)
def test_unknown_extents(shapes: dict[str, str]):
    (miss,) = FuseConvBiasAct().misses(conv(**shapes))
    assert miss.reason is Reason.DYNAMIC_EXTENT


def test_integers():
    declines(conv(element="i32"), Reason.ELEMENT_TYPE)


def test_the_convolution_is_used_again_or_returned():
    tail = f"%z = rlx.binary mul %s, %p : ({T}, {T}) -> {T}"
    declines(conv(tail, "%z"), Reason.MORE_THAN_ONE_USE)
    declines(conv(returned="%s, %p"), Reason.RETURNED)
    declines(conv(added="%p", bias=OUT), Reason.MORE_THAN_ONE_USE)


@pytest.mark.parametrize("kind", ["sub", "mul"])
def test_what_follows_is_no_add(kind: str):
    declines(parse(print_module(conv()).replace("rlx.binary add", f"rlx.binary {kind}")), Reason.OTHER_CONSUMER)


def test_the_sum_is_used_again_or_returned():
    """The bias is taken in, what follows is not."""
    for tail, value in ((RELU, "%a"), (RESIDUAL, "%t")):
        again = conv(f"{tail}\n%z = rlx.binary mul {value}, %s : ({T}, {T}) -> {T}", "%z")
        at = "rlx.activation" if value == "%a" else "rlx.binary"
        declines(again, Reason.MORE_THAN_ONE_USE, at)
        declines(conv(tail, f"{value}, %s"), Reason.RETURNED, at)
        after = again.clone()
        FuseConvBiasAct().apply(Context(), after)
        assert names(after) == [FUSED, at, "rlx.binary"]


def test_the_activation_is_none_of_the_epilogues():
    declines(conv(f"%a = rlx.activation tanh %s : {T}", "%a"), Reason.UNSUPPORTED_KIND, "rlx.activation")


@pytest.mark.parametrize("r", ["4x1x1", "1x4x5x5", "2x1x5x5"])
def test_the_residual_has_another_shape(r: str):
    """A second bias is none."""
    tail = f"""%c = rlx.constant dense<1.0> : tensor<{r}xf32>
        %t = rlx.binary add %s, %c : ({T}, tensor<{r}xf32>) -> {T}"""
    declines(conv(tail, "%t"), Reason.SHAPES_DIFFER, "rlx.binary")


def test_the_residual_is_added_after_the_activation():
    """The fused operation adds it before."""
    tail = f"{RELU}\n%t = rlx.binary add %a, %r : ({T}, {T}) -> {T}"
    assert names(fuses(conv(tail, "%t"))) == [FUSED, "rlx.binary"]


def test_the_sum_is_in_another_block():
    module = graph(
        f"""%b = rlx.reshape %bias {{new_shape = [4, 1, 1]}} : tensor<4xf32> -> tensor<4x1x1xf32>
        %p = rlx.conv %x, %w {{kernel_size = [3, 3], padding = [1, 1]}} : ({T}, tensor<4x4x3x3xf32>) -> {T}
        "test.op"() ({{
          %s = rlx.binary add %p, %b : ({T}, tensor<4x1x1xf32>) -> {T}
          "test.termop"(%s) : ({T}) -> ()
        }}) : () -> ()""",
        f"%x: {T}, %w: tensor<4x4x3x3xf32>, %bias: tensor<4xf32>",
        T,
        "%x",
    )
    (miss,) = FuseConvBiasAct().misses(module)
    assert miss.reason is Reason.OTHER_BLOCK
    FuseConvBiasAct().apply(Context(), module)
    assert FUSED not in names(module)


def test_strict_numerics():
    assert FuseConvBiasAct(strict=True).misses(conv(RELU, "%a")) == []
    check_declines(conv(element="f16"), FuseConvBiasAct(strict=True), Reason.NUMERICS, at="rlx.conv")


# Mutants.


@pytest.mark.parametrize(
    "module",
    [
        conv(f"{RESIDUAL}\n%a = rlx.activation relu %t : {T}", "%a"),
        conv(x="4x4x4x4", w="4x4x3x3", out="4x4x4x4"),
    ],
    ids=["residual and relu", "all fours"],
)
def test_mutants(module: ModuleOp):
    counts = check_mutants(module, FuseConvBiasAct(), fused=FUSED)
    assert counts["original"] == 1
    assert 10 < sum(counts.values()) < len(counts) - 5
    for name in ("second use, early, of conv#1.0", "returned: conv#1.0"):
        assert counts[name] == 0
