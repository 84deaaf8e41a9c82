"""rlx-fuse-matmul-bias-act: when it fuses, each reason not to, equal values, mutants."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import assert_same_meaning, graph
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.fuse_matmul_bias_act import FuseMatMulBiasAct
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.fused_matmul_bias_act"
EXACT = {"rtol": 0.0, "atol": 0.0}
"""In f32 the reference computes the same steps in the same order."""


def linear(
    tail: str = "",
    returned: str = "%s",
    *,
    x: str = "4x8",
    w: str = "8x16",
    bias: str = "16",
    product: str = "4x16",
    out: str | None = None,
    element: str = "f32",
    prepare: str = "",
    added: str = "%bias",
    results: int = 1,
) -> ModuleOp:
    """x · w + bias, then ``tail``. ``prepare`` may make of %bias what is ``added``, of shape ``bias``."""
    types = {k: f"tensor<{v}x{element}>" for k, v in {"x": x, "w": w, "p": product, "b": bias}.items()}
    types["s"] = f"tensor<{out or product}x{element}>"
    argument = types["b"] if not prepare else f"tensor<16x{element}>"
    return graph(
        f"""{prepare}
        %p = rlx.matmul %x, %w : ({types["x"]}, {types["w"]}) -> {types["p"]}
        %s = rlx.binary add %p, {added} : ({types["p"]}, {types["b"]}) -> {types["s"]}
        {tail}""",
        f"%x: {types['x']}, %w: {types['w']}, %bias: {argument}",
        ", ".join([types["s"]] * results),
        returned,
    )


T = "tensor<4x16xf32>"
GELU = f"%a = rlx.activation gelu %s : {T}"


def fuse(module: ModuleOp, **options: tuple[str, ...]) -> ModuleOp:
    after = module.clone()
    FuseMatMulBiasAct(**options).apply(Context(), after)
    check_dominance(after)
    assert_same_meaning(module, after, **EXACT)
    return after


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def reasons(module: ModuleOp, **options: tuple[str, ...]) -> list[Reason]:
    return [miss.reason for miss in FuseMatMulBiasAct(**options).misses(module)]


# It fuses.


def test_without_activation():
    after = fuse(linear())
    assert names(after) == [FUSED]
    assert "%s = rlx.fused_matmul_bias_act %x, %w, %bias :" in print_module(after)
    assert reasons(linear()) == []


@pytest.mark.parametrize("kind", ["gelu", "silu"])
def test_with_activation(kind: str):
    after = fuse(linear(f"%a = rlx.activation {kind} %s : {T}", "%a"))
    assert names(after) == [FUSED]
    assert f"%a = rlx.fused_matmul_bias_act {kind} %x, %w, %bias" in print_module(after)


def test_the_bias_may_be_the_left_operand():
    swapped = graph(
        f"""%p = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> {T}
        %s = rlx.binary add %bias, %p : (tensor<16xf32>, {T}) -> {T}""",
        "%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>",
        T,
        "%s",
    )
    assert names(fuse(swapped)) == [FUSED]


def test_epilogues_are_data():
    relu = linear(f"%a = rlx.activation relu %s : {T}", "%a")
    assert names(fuse(relu)) == [FUSED, "rlx.activation"]
    assert names(fuse(relu, epilogues=("relu", "gelu_approx"))) == [FUSED]
    assert names(fuse(linear(GELU, "%a"), epilogues=("relu",))) == [FUSED, "rlx.activation"]


def test_an_unknown_epilogue_is_an_error():
    with pytest.raises(ValueError, match="swish"):
        FuseMatMulBiasAct(epilogues=("swish",)).apply(Context(), linear())


@pytest.mark.parametrize(
    ("x", "w", "product"),
    [("2x3x8", "8x16", "2x3x16"), ("2x3x8", "2x8x16", "2x3x16"), ("?x8", "8x16", "?x16"), ("1x8", "8x16", "1x16")],
)
def test_batched_and_dynamic_products(x: str, w: str, product: str):
    assert names(fuse(linear(x=x, w=w, product=product))) == [FUSED]


def test_a_square_product():
    assert names(fuse(linear(x="16x16", w="16x16", product="16x16"))) == [FUSED]


def test_a_bias_with_leading_ones_is_reshaped():
    after = fuse(linear(bias="1x16"))
    assert names(after) == ["rlx.reshape", FUSED]
    assert names(fuse(linear(x="2x3x8", product="2x3x16", bias="1x1x16"))) == ["rlx.reshape", FUSED]


def test_a_bias_behind_reshape_or_expand_is_taken_from_before():
    for prepare, bias in (
        ("%b = rlx.reshape %bias {new_shape = [1, 16]} : tensor<16xf32> -> tensor<1x16xf32>", "1x16"),
        ("%b = rlx.expand %bias {shape = [4, 16]} : tensor<16xf32> -> tensor<4x16xf32>", "4x16"),
    ):
        after = fuse(linear(prepare=prepare, bias=bias, added="%b"))
        assert names(after) == [FUSED]
        assert "rlx.fused_matmul_bias_act %x, %w, %bias" in print_module(after)


def test_a_transposed_weight_is_a_weight():
    module = graph(
        f"""%t = rlx.transpose %w {{perm = [1, 0]}} : tensor<16x8xf32> -> tensor<8x16xf32>
        %p = rlx.matmul %x, %t : (tensor<4x8xf32>, tensor<8x16xf32>) -> {T}
        %s = rlx.binary add %p, %bias : ({T}, tensor<16xf32>) -> {T}
        {GELU}""",
        "%x: tensor<4x8xf32>, %w: tensor<16x8xf32>, %bias: tensor<16xf32>",
        T,
        "%a",
    )
    assert names(fuse(module)) == ["rlx.transpose", FUSED]


def test_an_expanded_bias_that_others_use_stays():
    prepare = "%b = rlx.expand %bias {shape = [4, 16]} : tensor<16xf32> -> tensor<4x16xf32>"
    module = linear(f"%a = rlx.binary mul %s, %b : ({T}, {T}) -> {T}", "%a", prepare=prepare, bias="4x16", added="%b")
    assert names(fuse(module)) == ["rlx.expand", FUSED, "rlx.binary"]


def test_a_bias_defined_after_the_product():
    module = graph(
        f"""%p = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> {T}
        %b = rlx.activation neg %bias : tensor<16xf32>
        %s = rlx.binary add %p, %b : ({T}, tensor<16xf32>) -> {T}
        {GELU}""",
        "%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>",
        T,
        "%a",
    )
    assert names(fuse(module)) == ["rlx.activation", FUSED]


def test_a_fused_product_takes_its_activation_in():
    module = fuse(linear(GELU, "%a"), epilogues=())
    assert names(module) == [FUSED, "rlx.activation"]
    assert names(fuse(module)) == [FUSED]


# It declines, or stops half way.


def test_the_product_is_used_twice():
    module = linear(f"%t = rlx.activation tanh %p : {T}\n%a = rlx.binary add %s, %t : ({T}, {T}) -> {T}", "%a")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.MORE_THAN_ONE_USE]


def test_the_product_is_added_to_itself():
    module = linear(bias="4x16", added="%p", prepare=" ")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.MORE_THAN_ONE_USE]


def test_the_product_is_returned():
    module = linear("", "%s, %p", results=2)
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.RETURNED]


def test_the_sum_is_used_twice_or_returned():
    tail = f"{GELU}\n%b = rlx.binary mul %a, %s : ({T}, {T}) -> {T}"
    assert names(fuse(linear(tail, "%b"))) == [FUSED, "rlx.activation", "rlx.binary"]
    assert reasons(linear(tail, "%b")) == [Reason.MORE_THAN_ONE_USE]
    assert names(fuse(linear(GELU, "%a, %s", results=2))) == [FUSED, "rlx.activation"]
    assert reasons(linear(GELU, "%a, %s", results=2)) == [Reason.RETURNED]


def test_the_activation_is_none_of_the_epilogues():
    module = linear(f"%a = rlx.activation gelu_approx %s : {T}", "%a")
    assert names(fuse(module)) == [FUSED, "rlx.activation"]
    (miss,) = FuseMatMulBiasAct().misses(module)
    assert miss.reason is Reason.UNSUPPORTED_KIND
    assert str(miss) == (
        "rlx.activation %a: unsupported-kind: the product and its bias are fused, but the epilogue gelu_approx is "
        "not among gelu, silu (add gelu_approx to epilogues if the target's kernel has it)"
    )


@pytest.mark.parametrize(
    "body",
    [
        f"%s = rlx.activation relu %p : {T}",
        f"%s = rlx.binary sub %p, %bias : ({T}, tensor<16xf32>) -> {T}",
        f"%s = rlx.binary mul %p, %bias : ({T}, tensor<16xf32>) -> {T}",
    ],
)
def test_what_follows_is_no_add(body: str):
    module = graph(
        f"%p = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> {T}\n{body}",
        "%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>",
        T,
        "%s",
    )
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.OTHER_CONSUMER]


@pytest.mark.parametrize(
    ("bias", "shapes"),
    [
        ("4x16", {}),
        ("1", {}),
        ("1x1", {}),
        ("4x1", {}),
        ("4x1", {"x": "4x8", "w": "8x4", "product": "4x4"}),
        ("3x1x16", {"x": "3x4x8", "product": "3x4x16"}),
    ],
)
def test_the_bias_is_no_vector_along_the_last_axis(bias: str, shapes: dict[str, str]):
    module = linear(bias=bias, **shapes)
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.BIAS_SHAPE]


def test_a_scalar_is_no_bias():
    module = graph(
        f"""%p = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> {T}
        %s = rlx.binary add %p, %b : ({T}, tensor<f32>) -> {T}""",
        "%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<f32>",
        T,
        "%s",
    )
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.BIAS_SHAPE]


@pytest.mark.parametrize(
    ("bias", "shapes"),
    [
        ("5", {"w": "8x1", "product": "4x1", "out": "4x5"}),
        ("4x16", {"x": "1x8", "product": "1x16", "out": "4x16"}),
        ("1x1x16", {"out": "1x4x16"}),
        ("2x4x16", {"out": "2x4x16"}),
    ],
)
def test_the_bias_broadcasts_the_product(bias: str, shapes: dict[str, str]):
    module = linear(bias=bias, **shapes)
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.SHAPES_DIFFER]


def test_a_vector_on_a_product_of_one_column():
    assert names(fuse(linear(w="8x1", product="4x1", bias="1"))) == [FUSED]


@pytest.mark.parametrize(
    ("bias", "shapes"),
    [("?", {}), ("?", {"w": "8x?", "product": "4x?"}), ("16", {"w": "8x?", "product": "4x?", "out": "4x16"})],
)
def test_the_last_extents_are_not_known_to_be_equal(bias: str, shapes: dict[str, str]):
    module = linear(bias=bias, **shapes)
    FuseMatMulBiasAct().apply(Context(), module)
    assert FUSED not in names(module)
    assert reasons(module) == [Reason.DYNAMIC_EXTENT]


def test_an_expanded_bias_may_have_more_rows_than_the_product():
    prepare = "%b = rlx.expand %bias {shape = [3, 16]} : tensor<16xf32> -> tensor<?x16xf32>"
    module = linear(prepare=prepare, bias="?x16", added="%b", x="?x8", product="?x16")
    check_declines(module, FuseMatMulBiasAct(), Reason.DYNAMIC_EXTENT, at="rlx.matmul")


def test_an_expand_over_a_wrong_axis_is_no_bias():
    prepare = """%c = rlx.reshape %bias {new_shape = [16, 1]} : tensor<16xf32> -> tensor<16x1xf32>
        %b = rlx.expand %c {shape = [16, 16]} : tensor<16x1xf32> -> tensor<16x16xf32>"""
    module = linear(prepare=prepare, bias="16x16", added="%b", x="16x8", product="16x16")
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.BIAS_SHAPE]


def test_the_add_is_in_another_block():
    module = graph(
        f"""%p = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> {T}
        "test.op"() ({{
          %s = rlx.binary add %p, %bias : ({T}, tensor<16xf32>) -> {T}
          "test.termop"(%s) : ({T}) -> ()
        }}) : () -> ()""",
        "%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %bias: tensor<16xf32>",
        "tensor<4x8xf32>",
        "%x",
    )
    assert reasons(module) == [Reason.OTHER_BLOCK]
    FuseMatMulBiasAct().apply(Context(), module)
    assert FUSED not in names(module)


def test_an_unused_product_is_no_candidate():
    module = graph(
        f"%p = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> {T}",
        "%x: tensor<4x8xf32>, %w: tensor<8x16xf32>",
        "tensor<4x8xf32>",
        "%x",
    )
    assert reasons(module) == []


# Everything else that has to hold, mutants included.


@pytest.mark.parametrize(
    "module",
    [
        linear(GELU, "%a"),
        linear(f"%a = rlx.activation silu %s : {T}".replace("f32", "f16"), "%a", element="f16"),
        linear(x="6x6", w="6x6", product="6x6", bias="6"),
        linear(bias="1x16"),
        linear(x="?x3x8", product="?x3x16", element="bf16"),
        linear(element="f64"),
        linear(element="i32"),
    ],
    ids=["gelu", "silu f16", "square", "row bias", "batched bf16", "f64", "i32"],
)
def test_the_harness(module: ModuleOp):
    check_fusion(module, FuseMatMulBiasAct(), fused={FUSED: 1})


def test_mutants():
    counts = check_mutants(linear(GELU, "%a"), FuseMatMulBiasAct(), fused=FUSED, **EXACT)
    assert counts["original"] == 1
    assert counts["commuted 0 1 of binary#1"] == 1
    for name in ("second use, early, of matmul#0.0", "returned: matmul#0.0", "operand 0 also as 1 of binary#1"):
        assert counts[name] == 0
    assert counts["transpose there and back on operand 0 of binary#1"] == 0
    assert len(counts) > 40
