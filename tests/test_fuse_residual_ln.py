"""rlx-fuse-residual-ln: when it fuses, in which form and where, each reason not to, equal values, mutants."""

from __future__ import annotations

import time

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import assert_same_meaning, decomposed, graph, parse
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.normalization import FusedResidualRmsNormOp
from rlx_dialect.passes.fuse_residual_ln import FuseResidualLn, FuseResidualNorm
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.passes.matching.fusion import Miss, Reason
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.fused_residual_ln"
EXACT = {"rtol": 0.0, "atol": 0.0}
T = "tensor<2x3x8xf32>"
V = "tensor<8xf32>"
ADD = f"%s = rlx.binary add %x, %r : ({T}, {T}) -> {T}"
NORM = f"%n = rlx.layer_norm %s, %g, %b {{eps = 1.0e-3}} : ({T}, {V}, {V}) -> {T}"


def of(*lines: str, returned: str = "%n", extra: str = "") -> ModuleOp:
    arguments = f"%x: {T}, %r: {T}, %g: {V}, %b: {V}{extra}"
    return graph("\n".join(lines), arguments, ", ".join([T] * len(returned.split(","))), returned)


def fuse(module: ModuleOp) -> ModuleOp:
    after = module.clone()
    FuseResidualLn().apply(Context(), after)
    check_dominance(after)
    assert_same_meaning(module, after, **EXACT)
    return after


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def reasons(module: ModuleOp) -> list[Reason]:
    return [miss.reason for miss in FuseResidualLn().misses(module)]


# It fuses.


def test_the_sum_is_used_by_the_norm_only():
    after = fuse(of(ADD, NORM))
    assert names(after) == [FUSED]
    assert "%n = rlx.fused_residual_ln %x, %r, %g, %b {eps = 0.001} :" in print_module(after)
    assert reasons(of(ADD, NORM)) == []


def test_the_order_of_x_and_residual_is_kept():
    after = fuse(of(f"%s = rlx.binary add %r, %x : ({T}, {T}) -> {T}", NORM))
    assert "rlx.fused_residual_ln %r, %x, %g, %b" in print_module(after)


def test_the_sum_is_used_again_after_the_norm():
    module = of(ADD, NORM, f"%t = rlx.binary mul %n, %s : ({T}, {T}) -> {T}", returned="%t")
    after = fuse(module)
    assert names(after) == [FUSED, "rlx.binary"]
    assert "%n, %s = rlx.fused_residual_ln" in print_module(after)


def test_the_sum_is_returned():
    after = fuse(of(ADD, NORM, returned="%n, %s"))
    assert names(after) == [FUSED]
    assert "func.return %n, %s" in print_module(after)


def test_the_sum_is_used_between_add_and_norm():
    module = of(ADD, f"%m = rlx.activation tanh %s : {T}", f"%k = rlx.activation neg %m : {T}", NORM, returned="%n, %k")
    assert names(fuse(module)) == [FUSED, "rlx.activation", "rlx.activation"]


def test_the_sum_is_used_before_and_after_the_norm():
    module = of(
        ADD,
        f"%y = rlx.activation exp %x : {T}",
        f"%m = rlx.binary sub %s, %y : ({T}, {T}) -> {T}",
        NORM,
        f"%t = rlx.binary mul %m, %s : ({T}, {T}) -> {T}",
        returned="%n, %t",
    )
    assert names(fuse(module)) == ["rlx.activation", FUSED, "rlx.binary", "rlx.binary"]


def test_the_sum_is_used_in_a_block_between():
    module = of(ADD, f'"test.op"() ({{ "test.termop"(%s) : ({T}) -> () }}) : () -> ()', NORM)
    FuseResidualLn().apply(Context(), module)
    check_dominance(module)
    assert [op.name for op in module.walk()][2:] == [FUSED, "test.op", "test.termop", "func.return"]


def test_gamma_is_defined_between_add_and_norm():
    module = of(ADD, f"%h = rlx.activation neg %g : {V}", NORM.replace("%g", "%h"))
    assert names(fuse(module)) == ["rlx.activation", FUSED]


def test_gamma_is_defined_before_an_early_use_of_the_sum():
    module = of(
        ADD,
        f"%h = rlx.activation neg %g : {V}",
        f"%m = rlx.activation tanh %s : {T}",
        NORM.replace("%g", "%h"),
        returned="%n, %m",
    )
    assert names(fuse(module)) == ["rlx.activation", FUSED, "rlx.activation"]


def test_a_value_added_to_itself():
    assert names(fuse(of(f"%s = rlx.binary add %x, %x : ({T}, {T}) -> {T}", NORM))) == [FUSED]


def test_two_norms_of_one_sum():
    """The first takes the sum in, the second reads it."""
    module = of(ADD, NORM, NORM.replace("%n", "%m").replace("1.0e-3", "1.0e-2"), returned="%n, %m")
    assert names(fuse(module)) == [FUSED, "rlx.layer_norm"]


def test_a_chain_of_residual_blocks():
    lines = []
    for i in range(4):
        lines.append(
            f"%s{i} = rlx.binary add %{f's{i - 1}' if i else 'x'}, %{f'm{i - 1}' if i else 'r'} : ({T}, {T}) -> {T}"
        )
        lines.append(f"%n{i} = rlx.layer_norm %s{i}, %g, %b {{eps = 1.0e-5}} : ({T}, {V}, {V}) -> {T}")
        lines.append(f"%m{i} = rlx.activation gelu %n{i} : {T}")
    after = fuse(of(*lines, returned="%m3"))
    assert names(after) == [FUSED, "rlx.activation"] * 4
    assert print_module(after).count("%s") == 6


def test_one_dimension_and_square():
    v = graph(
        f"%s = rlx.binary add %x, %r : ({V}, {V}) -> {V}\n"
        f"%n = rlx.layer_norm %s, %x, %r {{eps = 1.0e-3}} : ({V}, {V}, {V}) -> {V}",
        f"%x: {V}, %r: {V}",
        V,
        "%n",
    )
    assert names(fuse(v)) == [FUSED]


def test_another_norm_is_the_same_pattern():
    module = of(ADD, NORM.replace("layer_norm", "rms_norm"), returned="%n, %s")
    after = module.clone()
    assert apply_patterns(after, [FuseResidualNorm(FusedResidualRmsNormOp)])
    assert names(after) == ["rlx.fused_residual_rms_norm"]
    assert_same_meaning(module, after, **EXACT)
    assert names(fuse(module)) == names(module)


# It declines.


@pytest.mark.parametrize(
    ("x", "r"), [("8", "2x3x8"), ("2x3x8", "8"), ("2x1x8", "2x3x8"), ("2x3x8", "3x8"), ("2x3x1", "2x3x8")]
)
def test_the_summands_broadcast(x: str, r: str):
    module = graph(
        f"%s = rlx.binary add %x, %r : (tensor<{x}xf32>, tensor<{r}xf32>) -> {T}\n{NORM}",
        f"%x: tensor<{x}xf32>, %r: tensor<{r}xf32>, %g: {V}, %b: {V}",
        T,
        "%n",
    )
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.SHAPES_DIFFER]


def test_both_summands_broadcast():
    module = graph(
        f"%s = rlx.binary add %x, %r : (tensor<2x1x8xf32>, tensor<1x3x8xf32>) -> {T}\n{NORM}",
        f"%x: tensor<2x1x8xf32>, %r: tensor<1x3x8xf32>, %g: {V}, %b: {V}",
        T,
        "%n",
    )
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.SHAPES_DIFFER]


def test_unknown_extents_may_broadcast():
    d = "tensor<?x8xf32>"
    module = graph(
        f"%s = rlx.binary add %x, %r : ({d}, {d}) -> {d}\n"
        f"%n = rlx.layer_norm %s, %g, %b {{eps = 1.0e-3}} : ({d}, {V}, {V}) -> {d}",
        f"%x: {d}, %r: {d}, %g: {V}, %b: {V}",
        d,
        "%n",
    )
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.DYNAMIC_EXTENT]


D = "tensor<?x?x8xf32>"


def dynamic_block(*between: str) -> ModuleOp:
    """x + f(x) and its norm, for an x of unknown batch and length."""
    return graph(
        "\n".join(
            [
                *between,
                f"%s = rlx.binary add %x, %f : ({D}, {D}) -> {D}",
                f"%n = rlx.layer_norm %s, %g, %b {{eps = 1.0e-3}} : ({D}, {V}, {V}) -> {D}",
            ]
        ),
        f"%x: {D}, %w: tensor<8x8xf32>, %g: {V}, %b: {V}, %m: tensor<?x?xi1>",
        D,
        "%n",
    )


FEED_FORWARD = (
    f"%h = rlx.matmul %x, %w : ({D}, tensor<8x8xf32>) -> {D}",
    f"%a = rlx.activation gelu %h : {D}",
    f"%f = rlx.matmul %a, %w : ({D}, tensor<8x8xf32>) -> {D}",
)
ATTENTION = (
    f"%f = rlx.attention custom %x, %x, %x, %m {{num_heads = 2, head_dim = 4, layout = bsd}} : "
    f"({D}, {D}, {D}, tensor<?x?xi1>) -> {D}",
)


@pytest.mark.parametrize("between", [FEED_FORWARD, ATTENTION], ids=["feed-forward", "attention"])
def test_unknown_extents_of_one_value_are_equal(between: tuple[str, ...]):
    module = dynamic_block(*between)
    assert FUSED in names(fuse(module))
    assert reasons(module) == []
    if between is FEED_FORWARD:
        counts = check_mutants(module, FuseResidualLn(), fused=FUSED)
        assert counts["original"] == counts["extent 0 of argument 0 set to 1"] == 1
        assert counts["transpose there and back on operand 1 of binary#3"] == 1
        assert counts["transpose on operand 0 of binary#3"] == 0


def test_one_pass_over_many_dynamic_sums_is_linear():
    """What is known of extents above one sum is kept for the next."""

    def seconds(blocks: int) -> float:
        lines: list[str] = []
        for i in range(blocks):
            lines += [
                line.replace("%x", f"%n{i}").replace("%h", f"%h{i}").replace("%a", f"%a{i}") for line in FEED_FORWARD
            ]
            lines[-1] = lines[-1].replace("%f", f"%f{i}")
            lines.append(f"%s{i} = rlx.binary add %n{i}, %f{i} : ({D}, {D}) -> {D}")
            lines.append(f"%n{i + 1} = rlx.layer_norm %s{i}, %g, %g {{eps = 1.0e-3}} : ({D}, {V}, {V}) -> {D}")
        module = graph("\n".join(lines), f"%n0: {D}, %w: tensor<8x8xf32>, %g: {V}", D, f"%n{blocks}")
        start = time.process_time()
        FuseResidualLn().apply(Context(), module)
        assert names(module).count(FUSED) == blocks
        return time.process_time() - start

    assert seconds(240) < 16 * seconds(30)


@pytest.mark.parametrize(
    "gamma",
    [
        [f"%h = rlx.activation neg %g : {V}"],
        [f"%h = rlx.constant dense<2.0> : {V}"],
        [f"%k = rlx.activation neg %g : {V}", f"%h = rlx.binary mul %k, %b : ({V}, {V}) -> {V}"],
    ],
    ids=["computed", "constant", "in two steps"],
)
def test_gamma_is_defined_after_an_early_use_of_the_sum(gamma: list[str]):
    """It is moved up; what order a program is written in must not matter."""
    module = of(ADD, f"%m = rlx.activation tanh %s : {T}", *gamma, NORM.replace("%g", "%h"), returned="%n, %m")
    after = check_fusion(module, FuseResidualLn(), fused={FUSED: 1})
    assert names(after)[-2:] == [FUSED, "rlx.activation"]


def test_gamma_comes_from_what_cannot_be_moved():
    module = of(
        ADD,
        f"%m = rlx.activation tanh %s : {T}",
        f'%h = "test.op"() : () -> {V}',
        NORM.replace("%g", "%h"),
        returned="%n, %m",
    )
    (miss,) = FuseResidualLn().misses(module)
    assert miss.reason is Reason.DEFINED_TOO_LATE
    assert miss.detail == "%h is defined after rlx.activation, which uses an intermediate value"
    FuseResidualLn().apply(Context(), module)
    assert FUSED not in names(module)


def modulated(returned: str, gamma: str = "1.0") -> ModuleOp:
    """A residual sum and an adaptive norm of it."""
    return of(
        f"%one = rlx.constant dense<{gamma}> : {V}",
        f"%zero = rlx.constant dense<0.0> : {V}",
        ADD,
        f"%n = rlx.layer_norm %s, %one, %zero {{eps = 1.0e-3}} : ({T}, {V}, {V}) -> {T}",
        "%c = rlx.constant dense<1.0> : tensor<f32>",
        f"%p = rlx.binary add %g, %c : ({V}, tensor<f32>) -> {V}",
        f"%m = rlx.binary mul %n, %p : ({T}, {V}) -> {T}",
        f"%t = rlx.binary add %m, %b : ({T}, {V}) -> {T}",
        returned=returned,
    )


def test_an_adaptive_norm_of_a_sum_that_lives_on_is_left_to_it():
    """Sum and adaptive norm cost less than sum and norm, then scale and shift; where the sum is done, they do not."""
    check_declines(modulated("%t, %s"), FuseResidualLn(), Reason.OTHER_CONSUMER, at="rlx.layer_norm")
    check_fusion(modulated("%t"), FuseResidualLn(), fused={FUSED: 1}, mutants=False)
    check_fusion(modulated("%t, %s", gamma="2.0"), FuseResidualLn(), fused={FUSED: 1}, mutants=False)
    check_fusion(modulated("%t, %s, %n"), FuseResidualLn(), fused={FUSED: 1}, mutants=False)


def test_strict_numerics_leave_a_norm_only_to_what_they_allow():
    """n + n·g + b changes the order of operations in an adaptive norm."""
    text = print_module(modulated("%t, %s")).replace(f"add %g, %c : ({V}, tensor<f32>) -> {V}", "PLUS")
    other = text.replace("PLUS", f"mul %n, %g : ({T}, {V}) -> {T}").replace(
        f"mul %n, %p : ({T}, {V})", f"add %n, %p : ({T}, {T})"
    )
    check_declines(parse(other), FuseResidualLn(), Reason.OTHER_CONSUMER, at="rlx.layer_norm")
    check_fusion(parse(other), FuseResidualLn(strict=True), fused={FUSED: 1}, mutants=False)


def vectors(*lines: str) -> ModuleOp:
    return graph("\n".join([f"%s = rlx.binary add %x, %r : ({V}, {V}) -> {V}", *lines]), f"%x: {V}, %r: {V}", V, "%n")


def test_gamma_or_beta_is_the_sum_or_computed_from_it():
    for gamma, beta in (("%s", "%x"), ("%x", "%s")):
        module = vectors(f"%n = rlx.layer_norm %s, {gamma}, {beta} {{eps = 1.0e-3}} : ({V}, {V}, {V}) -> {V}")
        assert FUSED not in names(fuse(module))
        assert reasons(module) == [Reason.MORE_THAN_ONE_USE]
    module = vectors(
        f"%h = rlx.activation neg %s : {V}",
        f"%n = rlx.layer_norm %s, %h, %x {{eps = 1.0e-3}} : ({V}, {V}, {V}) -> {V}",
    )
    assert FUSED not in names(fuse(module))
    assert reasons(module) == [Reason.DEFINED_TOO_LATE]


def test_the_sum_is_computed_outside_of_the_norms_block():
    module = of(ADD, f'"test.op"() ({{ {NORM}\n"test.termop"(%n) : ({T}) -> () }}) : () -> ()', returned="%x")
    assert reasons(module) == [Reason.OTHER_BLOCK]
    FuseResidualLn().apply(Context(), module)
    assert FUSED not in names(module)


def test_a_norm_that_flattens_its_result():
    flat = "tensor<6x8xf32>"
    module = graph(
        f"{ADD}\n%n = rlx.rms_norm %s, %g, %b {{eps = 1.0e-3}} : ({T}, {V}, {V}) -> {flat}",
        f"%x: {T}, %r: {T}, %g: {V}, %b: {V}",
        flat,
        "%n",
    )
    pattern = FuseResidualNorm(FusedResidualRmsNormOp)
    found = [pattern.check(op) for op in module.walk() if isinstance(op, pattern.root)]
    assert [miss.reason for miss in found if isinstance(miss, Miss)] == [Reason.SHAPES_DIFFER]


@pytest.mark.parametrize(
    "lines",
    [
        [NORM.replace("%s", "%x")],
        [ADD.replace("add", "sub"), NORM],
        [f"%s = rlx.activation tanh %x : {T}", NORM],
        [ADD, NORM.replace("layer_norm", "rms_norm")],
    ],
    ids=["argument", "difference", "activation", "another norm"],
)
def test_what_is_no_candidate(lines: list[str]):
    assert FUSED not in names(fuse(of(*lines)))
    assert reasons(of(*lines)) == []


# All that is asked of every fusion.

SQUARE = graph(
    "%s = rlx.binary add %x, %r : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n%n = rlx.layer_norm "
    f"%s, %g, %b {{eps = 1.0e-3}} : (tensor<8x8xf32>, {V}, {V}) -> tensor<8x8xf32>",
    f"%x: tensor<8x8xf32>, %r: tensor<8x8xf32>, %g: {V}, %b: {V}",
    "tensor<8x8xf32>",
    "%n",
)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("returned", ["%n", "%n, %s"])
def test_every_element_type(element: str, returned: str):
    module = parse(print_module(of(ADD, NORM, returned=returned)).replace("f32", element))
    after = check_fusion(module, FuseResidualLn(), fused={FUSED: 1}, mutants=element == "f16")
    assert names(decomposed(after, FUSED)) == names(module)


def test_strict_keeps_sums_that_are_rounded():
    module = of(ADD, NORM)
    check_fusion(module, FuseResidualLn(strict=True), fused={FUSED: 1}, mutants=False)
    narrow = parse(print_module(module).replace("f32", "bf16"))
    check_declines(narrow, FuseResidualLn(strict=True), Reason.NUMERICS, at="rlx.layer_norm")


@pytest.mark.parametrize(
    "module",
    [
        of(ADD, NORM),
        of(ADD, f"%m = rlx.activation tanh %s : {T}", NORM, returned="%n, %m"),
        SQUARE,
        vectors(f"%n = rlx.layer_norm %s, %x, %r {{eps = 1.0e-3}} : ({V}, {V}, {V}) -> {V}"),
    ],
    ids=["2x3x8", "early use", "square", "vectors"],
)
def test_mutants(module: ModuleOp):
    check_fusion(module, FuseResidualLn(), fused={FUSED: 1}, mutants=False)
    counts = check_mutants(module, FuseResidualLn(), fused=FUSED)
    assert counts["original"] == 1
    for name in ("commuted 0 1 of binary#0", "second use, early, of binary#0.0", "returned: binary#0.0"):
        assert counts[name] == 1
    for name, count in counts.items():
        if "on operand 0 of layer_norm" in name or "dynamic" in name:
            assert count == 0 or "argument 2" in name or "argument 3" in name, name
    assert len(counts) > 30
