"""rlx-mark-elementwise-regions."""

from __future__ import annotations

import random
import time

import pytest
from fusion_harness import check_fusion
from helpers import assert_same_meaning, graph
from mutants import check_mutants
from region_helpers import EXACT, T, binary, chain, mark, names, nested, of, regions, sizes, unary
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr

from rlx_dialect.ops.elementwise import NOT_REGION_FUSABLE_ACTIVATIONS, NOT_REGION_FUSABLE_BINARIES, ElementwiseOp
from rlx_dialect.passes.mark_elementwise_regions import MarkElementwiseRegions
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.passes.unfuse_elementwise_regions import UnfuseElementwiseRegions
from rlx_dialect.xdsl_compat import Context, print_module

REGION = "rlx.elementwise_region"


def reasons(module: ModuleOp, **limits: int) -> list[Reason]:
    return [miss.reason for miss in MarkElementwiseRegions(**limits).misses(module)]


# Regions are formed.


def test_a_chain_becomes_one_region():
    after = mark(of(binary("a", "mul", "x", "y"), unary("b", "tanh", "a"), binary("t", "add", "b", "x")))
    assert names(after) == [REGION]
    (region,) = regions(after)
    assert [v.name_hint for v in region.inputs] == ["x", "y"]
    assert (
        "%t = rlx.elementwise_region(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {"
        in print_module(after)
    )


def test_a_value_may_be_used_several_times_within_the_region():
    diamond = of(unary("a", "exp", "x"), unary("l", "tanh", "a"), unary("r", "neg", "a"), binary("t", "mul", "l", "r"))
    assert names(mark(diamond)) == [REGION]
    assert sizes(mark(diamond)) == [4]
    square = of(unary("a", "exp", "x"), binary("t", "mul", "a", "a"))
    assert sizes(mark(square)) == [2]


def test_inputs_are_in_order_of_first_appearance_each_once():
    module = of(binary("a", "sub", "y", "x"), binary("b", "mul", "x", "a"), binary("t", "sub", "b", "y"))
    (region,) = regions(mark(module))
    assert [v.name_hint for v in region.inputs] == ["y", "x"]
    assert [v.name_hint for v in region.body.block.args] == ["y", "x"]


@pytest.mark.parametrize("small", ["8xf32", "1x8xf32", "4x1xf32", "1xf32", "f32"])
def test_operands_broadcast_to_the_region(small: str):
    module = of(
        binary("a", "mul", "x", "s", b_type=f"tensor<{small}>"),
        binary("t", "sub", "s", "a", a_type=f"tensor<{small}>"),
        arguments=f"%x: {T}, %s: tensor<{small}>",
    )
    (region,) = regions(mark(module))
    assert str(region.inputs[1].type) == f"tensor<{small}>"


def test_dynamic_extents():
    d = "tensor<?x8xf32>"
    module = of(
        binary("a", "mul", "x", "y", d, d, d),
        unary("t", "tanh", "a", d),
        arguments=f"%x: {d}, %y: {d}",
        results=d,
    )
    assert sizes(mark(module)) == [2]


def test_all_step_kinds_and_element_types():
    b, f, i = "tensor<4x8xi1>", "tensor<4x8xf16>", "tensor<4x8xi32>"
    module = of(
        f"%c = rlx.compare lt %n, %m : ({i}, {i}) -> {b}",
        binary("o", "add", "n", "m", i, i, i),
        f"%k = rlx.cast %h : {f} -> {f}",
        unary("e", "exp", "k", f),
        f"%t = rlx.where %c, %e, %h : ({b}, {f}, {f}) -> {f}",
        arguments=f"%n: {i}, %m: {i}, %h: {f}",
        results=f"{f}, {i}",
        returned="%t, %o",
    )
    after = mark(module)
    assert names(after) == ["rlx.binary", REGION]
    assert [op.name for op in regions(after)[0].steps()] == ["rlx.compare", "rlx.cast", "rlx.activation", "rlx.where"]


def test_half_precision_is_rounded_after_each_step():
    h = "tensor<4x8xf16>"
    module = of(
        binary("a", "mul", "x", "y", h, h, h),
        binary("b", "add", "a", "x", h, h, h),
        binary("t", "div", "b", "y", h, h, h),
        arguments=f"%x: {h}, %y: {h}",
        results=h,
    )
    assert sizes(mark(module)) == [3]


def test_a_region_stands_at_its_last_operation():
    """%m, an operand of the tail, is defined after the first operation of the region."""
    s = "tensor<8x8xf32>"
    module = of(
        unary("a", "exp", "x"),
        f"%m = rlx.reverse %y {{axes = [1]}} : {T} -> {T}",
        binary("t", "add", "a", "m"),
        f"%z = rlx.matmul %t, %w : ({T}, {s}) -> {T}",
        arguments=f"%x: {T}, %y: {T}, %w: {s}",
        returned="%z",
    )
    assert names(mark(module)) == ["rlx.reverse", REGION, "rlx.matmul"]


def test_interleaved_regions_stay_apart():
    module = of(
        unary("a", "exp", "x"),
        unary("b", "tanh", "y"),
        unary("c", "neg", "a"),
        unary("d", "abs", "b"),
        f"%e = rlx.reverse %d {{axes = [0]}} : {T} -> {T}",
        binary("t", "mul", "c", "e"),
    )
    assert names(mark(module)) == [REGION, "rlx.reverse", REGION]
    assert sizes(mark(module)) == [2, 3]


def test_locations_are_kept():
    module = of(unary("a", "exp", "x"), unary("t", "neg", "a"))
    for line, op in enumerate(op for op in module.walk() if isinstance(op, ElementwiseOp)):
        op.location = FileLineColLoc(StringAttr("m"), IntAttr(line), IntAttr(1))
    (region,) = regions(mark(module))
    assert str(region.location) == 'loc(fused["m":0:1, "m":1:1])'
    assert [str(op.location) for op in region.steps()] == ['loc("m":0:1)', 'loc("m":1:1)']


def test_a_second_run_changes_nothing():
    module = mark(chain(48))
    assert print_module(mark(module)) == print_module(module)


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("shape", ["4x4", "4x8", "?x8"])
def test_a_chain_of_each_float(shape: str, element: str):
    t, row = f"tensor<{shape}x{element}>", f"tensor<{shape.rpartition('x')[2]}x{element}>"
    module = of(
        binary("a", "mul", "x", "s", t, row, t),
        unary("b", "exp", "a", t),
        binary("t", "sub", "a", "b", t, t, t),
        arguments=f"%x: {t}, %s: {row}",
        results=t,
    )
    check_fusion(module, MarkElementwiseRegions(), fused={REGION: 1}, mutants=False)


# They are not, or end.


def test_a_single_operation_is_no_region():
    module = of(unary("t", "exp", "x"))
    assert names(mark(module)) == ["rlx.activation"]
    assert reasons(module) == []


def test_a_value_that_is_used_outside_as_well():
    module = of(
        unary("a", "exp", "x"),
        binary("b", "mul", "a", "y"),
        f"%m = rlx.reverse %a {{axes = [0]}} : {T} -> {T}",
        binary("t", "add", "b", "m"),
    )
    assert names(mark(module)) == ["rlx.activation", "rlx.reverse", REGION]
    assert reasons(module) == [Reason.MORE_THAN_ONE_USE]


def test_a_value_that_two_regions_use():
    module = of(
        unary("a", "exp", "x"),
        binary("b", "mul", "a", "y"),
        binary("c", "sub", "a", "y"),
        unary("d", "neg", "b"),
        unary("e", "abs", "c"),
        results=f"{T}, {T}",
        returned="%d, %e",
    )
    assert sizes(mark(module)) == [2, 2]
    assert names(mark(module)) == ["rlx.activation", REGION, REGION]
    assert reasons(module) == [Reason.MORE_THAN_ONE_USE]


def test_a_value_that_is_returned():
    module = of(unary("a", "exp", "x"), unary("t", "neg", "a"), results=f"{T}, {T}", returned="%t, %a")
    assert REGION not in names(mark(module))
    assert reasons(module) == [Reason.RETURNED]


def test_a_value_that_another_block_uses():
    module = of(
        unary("a", "exp", "x"),
        unary("t", "neg", "a"),
        nested(f'"test.termop"(%a) : ({T}) -> ()'),
    )
    MarkElementwiseRegions().apply(Context(), module)
    assert REGION not in names(module)
    assert reasons(module) == [Reason.OTHER_BLOCK]


def test_operations_in_a_nested_block_form_regions_there():
    module = of(
        nested(unary("a", "exp", "x"), unary("b", "neg", "a"), f'"test.termop"(%b) : ({T}) -> ()'),
        returned="%x",
    )
    MarkElementwiseRegions().apply(Context(), module)
    assert sizes(module) == [2]


@pytest.mark.parametrize(("small", "kind"), [("8", "exp"), ("4x1", "sqrt"), ("1", "neg"), ("1x8", "tanh")])
def test_an_operation_of_a_smaller_shape_is_computed_once_per_element(small: str, kind: str):
    s = f"tensor<{small}xf32>"
    module = of(
        unary("a", kind, "s", s),
        binary("b", "mul", "x", "a", b_type=s),
        unary("t", "tanh", "b"),
        arguments=f"%x: {T}, %s: {s}",
    )
    assert names(mark(module)) == ["rlx.activation", REGION]
    assert reasons(module) == [Reason.SHAPES_DIFFER]


@pytest.mark.parametrize("kind", sorted(NOT_REGION_FUSABLE_ACTIVATIONS))
def test_activations_that_regions_do_not_evaluate(kind: str):
    module = of(unary("a", "exp", "x"), unary("b", kind, "a"), unary("t", "neg", "b"))
    assert REGION not in names(mark(module))
    assert reasons(module) == [Reason.UNSUPPORTED_KIND]


@pytest.mark.parametrize("kind", sorted(NOT_REGION_FUSABLE_BINARIES))
def test_binaries_that_regions_do_not_evaluate(kind: str):
    t = T if kind in ("mod", "atan2") else "tensor<4x8xi32>"
    module = of(
        binary("a", "add", "x", "y", t, t, t),
        binary("b", kind, "a", "y", t, t, t),
        binary("t", "add", "b", "y", t, t, t),
        arguments=f"%x: {t}, %y: {t}",
        results=t,
    )
    assert REGION not in names(mark(module))
    assert reasons(module) == [Reason.UNSUPPORTED_KIND]


@pytest.mark.parametrize(
    "line",
    [
        f"%b = rlx.cast %a : {T} -> tensor<4x8xf16>",
        f"%b = rlx.stop_gradient %a : {T}",
        f"%b = rlx.clamp %a {{min = 0.0, max = 6.0}} : {T}",
        f"%b = rlx.fma %a, %x, %x : ({T}, {T}, {T}) -> {T}",
    ],
)
def test_other_operations_that_regions_do_not_evaluate(line: str):
    type = "tensor<4x8xf16>" if "f16" in line else T
    module = of(unary("a", "exp", "x"), line, unary("t", "neg", "b", type), results=type)
    assert REGION not in names(mark(module))
    assert reasons(module) == [Reason.UNSUPPORTED_KIND]


def test_complex_numbers():
    c = "tensor<4x8xcomplex<f32>>"
    module = of(
        binary("a", "mul", "x", "y", c, c, c),
        binary("t", "add", "a", "y", c, c, c),
        arguments=f"%x: {c}, %y: {c}",
        results=c,
    )
    MarkElementwiseRegions().apply(Context(), module)
    assert REGION not in names(module)
    assert reasons(module) == [Reason.ELEMENT_TYPE] * 2


def test_an_operation_on_a_tensor_and_a_scalar_stays_outside():
    module = of(
        unary("a", "exp", "x"),
        binary("b", "mul", "a", "s", T, "f32"),
        unary("c", "tanh", "b"),
        unary("t", "neg", "c"),
        arguments=f"%x: {T}, %s: f32",
    )
    assert reasons(module) == [Reason.ELEMENT_TYPE]
    MarkElementwiseRegions().apply(Context(), module)
    module.verify()
    assert names(module) == ["rlx.activation", "rlx.binary", REGION]


def test_a_contractions_result_starts_a_region():
    w = "tensor<8x8xf32>"
    module = of(
        unary("a", "exp", "y"),
        f"%m = rlx.matmul %x, %w : ({T}, {w}) -> {T}",
        binary("b", "add", "m", "a"),
        unary("t", "neg", "b"),
        arguments=f"%x: {T}, %y: {T}, %w: {w}",
    )
    assert names(mark(module)) == ["rlx.activation", "rlx.matmul", REGION]
    assert sizes(mark(module)) == [2]
    assert reasons(module) == [Reason.AFTER_CONTRACTION]


def test_a_convolutions_result_starts_a_region():
    c = "tensor<1x4x8x8xf32>"
    module = of(
        unary("a", "exp", "y", c),
        f"%m = rlx.conv %x, %w {{kernel_size = [3, 3], padding = [1, 1]}} : ({c}, tensor<4x4x3x3xf32>) -> {c}",
        binary("b", "add", "a", "m", c, c, c),
        unary("t", "relu", "b", c),
        arguments=f"%x: {c}, %y: {c}, %w: tensor<4x4x3x3xf32>",
        results=c,
    )
    assert names(mark(module)) == ["rlx.activation", "rlx.conv", REGION]


# Limits.


def sum_of(inputs: int) -> ModuleOp:
    lines = [binary(f"s{i + 1}", "add", f"s{i}", f"x{i + 1}") for i in range(inputs - 1)]
    arguments = ", ".join(f"%{'s0' if i == 0 else f'x{i}'}: {T}" for i in range(inputs))
    return of(*lines, arguments=arguments, returned=f"%s{inputs - 1}")


@pytest.mark.parametrize(("steps", "expected"), [(2, [2]), (32, [32]), (48, [16, 32]), (65, [32, 32])])
def test_step_limit(steps: int, expected: list[int]):
    after = mark(chain(steps))
    assert sizes(after) == expected
    assert reasons(chain(steps)) == [Reason.STEP_LIMIT] * ((steps - 1) // 32)
    assert sum(sizes(after)) + len([n for n in names(after) if n != REGION]) == steps


@pytest.mark.parametrize(("inputs", "expected"), [(16, [15]), (17, [15]), (20, [4, 15]), (31, [15, 15])])
def test_input_limit(inputs: int, expected: list[int]):
    after = mark(sum_of(inputs))
    assert sizes(after) == expected
    assert all(len(region.inputs) <= 16 for region in regions(after))
    assert Reason.INPUT_LIMIT in reasons(sum_of(20))


def test_limits_are_options():
    assert sizes(mark(chain(10), max_steps=4)) == [2, 4, 4]
    assert sizes(mark(sum_of(6), max_inputs=3)) == [2, 2]
    assert sizes(mark(chain(5), max_steps=1)) == []
    assert sizes(mark(sum_of(5), max_inputs=1)) == []
    assert sizes(mark(chain(5), max_inputs=1)) == [5]
    assert sizes(mark(chain(100), max_steps=2**32 - 1, max_inputs=2**32 - 1)) == [100]


@pytest.mark.parametrize("limits", [{"max_steps": 0}, {"max_inputs": 0}, {"max_steps": -1}])
def test_limits_are_at_least_1(limits: dict[str, int]):
    with pytest.raises(ValueError, match="max-steps and max-inputs must be at least 1, got"):
        MarkElementwiseRegions(**limits)


def test_an_operand_used_again_does_not_count_twice():
    module = of(binary("a", "add", "x", "y"), binary("b", "mul", "a", "x"), binary("t", "sub", "b", "y"))
    assert sizes(mark(module, max_inputs=2)) == [3]


# Meaning.


@pytest.mark.parametrize(
    "module",
    [
        of(binary("a", "mul", "x", "y"), unary("b", "tanh", "a"), binary("t", "add", "b", "a")),
        of(
            binary("a", "sub", "x", "s", "tensor<4x4xf32>", "tensor<4x1xf32>", "tensor<4x4xf32>"),
            binary("b", "div", "a", "r", "tensor<4x4xf32>", "tensor<4xf32>", "tensor<4x4xf32>"),
            unary("t", "silu", "b", "tensor<4x4xf32>"),
            arguments="%x: tensor<4x4xf32>, %s: tensor<4x1xf32>, %r: tensor<4xf32>",
            results="tensor<4x4xf32>",
        ),
    ],
    ids=["diamond", "square with row and column"],
)
def test_mutants(module: ModuleOp):
    counts = check_mutants(module, MarkElementwiseRegions(), fused=REGION, **EXACT)
    assert counts["original"] == 1
    assert counts["commuted 0 1 of binary#0"] == 1
    assert len(counts) > 30


def random_graph(seed: int) -> ModuleOp:
    """Element-wise operations of two shapes with reversals, sums with a column, several uses and results between."""
    rng = random.Random(seed)
    column = "tensor<4x1xf32>"
    types = {"x": T, "y": T, "c": column}
    lines: list[str] = []
    for index in range(rng.randrange(4, 30)):
        name, a, b = f"v{index}", *rng.choices([*types][-6:], k=2)
        roll = rng.random()
        if roll < 0.1:
            lines.append(f"%{name} = rlx.reverse %{a} {{axes = [0]}} : {types[a]} -> {types[a]}")
            types[name] = types[a]
        elif roll < 0.4:
            kind = rng.choice(["tanh", "neg", "silu", "floor", "abs"])
            lines.append(unary(name, kind, a, types[a]))
            types[name] = types[a]
        else:
            types[name] = T if T in (types[a], types[b]) else column
            lines.append(binary(name, rng.choice(["add", "mul", "max", "sub"]), a, b, types[a], types[b], types[name]))
    returned = [*{f"v{index}", *rng.sample([*types], k=2)}]
    returned.sort()
    return graph(
        "\n".join(lines),
        f"%x: {T}, %y: {T}, %c: {column}",
        ", ".join(types[name] for name in returned),
        ", ".join(f"%{name}" for name in returned),
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int):
    module = random_graph(seed)
    limits = {"max_steps": 2 + seed % 7, "max_inputs": 1 + seed % 5}
    after = mark(module, **limits)
    assert all(2 <= size <= limits["max_steps"] for size in sizes(after))
    assert all(len(region.inputs) <= limits["max_inputs"] for region in regions(after))
    steps = sum(sizes(after)) + sum(name != REGION for name in names(after))
    assert steps == len(names(module))
    back = after.clone()
    UnfuseElementwiseRegions().apply(Context(), back)
    check_dominance(back)
    assert sorted(names(back)) == sorted(names(module))
    assert_same_meaning(module, back, **EXACT)


def test_random_graphs_do_form_regions():
    assert sum(len(regions(mark(random_graph(seed)))) for seed in range(20)) > 20


def test_the_cost_is_linear():
    def seconds(count: int) -> float:
        best = float("inf")
        for _ in range(3):
            module = chain(count)
            start = time.process_time()
            MarkElementwiseRegions().apply(Context(), module)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(2400) < 16 * seconds(300)
