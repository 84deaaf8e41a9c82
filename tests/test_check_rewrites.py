"""--check-rewrites: wrong patterns of every class are found with a counterexample, and right ones pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers import graph
from random_graphs import random_graph
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.base import constant_value
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.reduction import ReduceOp
from rlx_dialect.ops.shape import ReshapeOp
from rlx_dialect.passes import pass_factories
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.passes.matching.numerics import Numerics
from rlx_dialect.pipelines.check_rewrites import Checks, checking_rewrites
from rlx_dialect.pipelines.diagnostics import OptError
from rlx_dialect.xdsl_compat import Context, InsertPoint, PatternRewriter, RewritePattern

T = "tensor<4x8xf32>"


def of(*lines: str, arguments: str = f"%x: {T}, %y: {T}, %z: {T}", result: str = T) -> ModuleOp:
    return graph("\n".join(lines), arguments, result, "%r")


def binary(name: str, kind: str, a: str, b: str, type: str = T) -> str:
    return f"%{name} = rlx.binary {kind} %{a}, %{b} : ({type}, {type}) -> {type}"


class Rule(RewritePattern):
    """What ``new`` gives for an operation replaces it, if it gives something; done once for each module."""

    def __init__(self, numerics: Numerics, new: Callable[[Operation, PatternRewriter], SSAValue | None]):
        self.numerics, self.new = numerics, new
        self.done = False

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not self.done and (value := self.new(op, rewriter)) is not None:
            self.done = True
            rewriter.replace(op, [], [value])


def check(
    module: ModuleOp, new: Callable[[Operation, PatternRewriter], SSAValue | None], numerics: Numerics = Numerics.EXACT
) -> Checks:
    with checking_rewrites("model.mlir") as checks:
        assert apply_patterns(module, [Rule(numerics, new)])
    assert checks.checked + len(checks.unchecked) == 1
    return checks


def is_binary(op: Operation, kind: BinaryKind) -> bool:
    return isinstance(op, BinaryOp) and op.kind.data is kind


# (x + y) + z, x - y and so on, and what they become.


def twice_as_product(op: Operation, b: PatternRewriter) -> SSAValue | None:
    """a + a → a · 2, exact."""
    if not isinstance(op, BinaryOp) or op.lhs is not op.rhs:
        return None
    two = b.insert(ConstantOp.of(2.0, op.lhs.type))
    return b.insert(BinaryOp("mul", op.lhs, two)).result


def turned_difference(op: Operation, b: PatternRewriter) -> SSAValue | None:
    """-(a - b) → b - a, where zero gets another sign."""
    inner = op.operands[0].owner if isinstance(op, ActivationOp) else None
    return b.insert(BinaryOp("sub", inner.rhs, inner.lhs)).result if isinstance(inner, BinaryOp) else None


def sum_in_f32(op: Operation, b: PatternRewriter) -> SSAValue | None:
    """(a + b) + c of f16 → the sum in f32, rounded once."""
    inner = op.operands[0].owner if is_binary(op, BinaryKind.ADD) else None
    if not isinstance(op, BinaryOp) or not isinstance(inner, BinaryOp):
        return None
    first, second, third = (b.insert(CastOp(value, f32)).result for value in (inner.lhs, inner.rhs, op.rhs))
    total = b.insert(BinaryOp("add", b.insert(BinaryOp("add", first, second)), third))
    return b.insert(CastOp(total, f16)).result


def reassociated_sum(op: Operation, b: PatternRewriter) -> SSAValue | None:
    """(a + b) + c → a + (b + c)."""
    inner = op.operands[0].owner if is_binary(op, BinaryKind.ADD) else None
    if not isinstance(op, BinaryOp) or not isinstance(inner, BinaryOp):
        return None
    return b.insert(BinaryOp("add", inner.lhs, b.insert(BinaryOp("add", inner.rhs, op.rhs)))).result


def zero_difference(op: Operation, b: PatternRewriter) -> SSAValue | None:
    """a - a → 0, where an infinity gave NaN."""
    if not isinstance(op, BinaryOp) or op.lhs is not op.rhs:
        return None
    return b.insert(ConstantOp.of(0.0, op.lhs.type)).result


def other_sum(op: Operation, b: PatternRewriter) -> SSAValue | None:
    """(a + b) + c → a + (b - c), wrong."""
    inner = op.operands[0].owner if is_binary(op, BinaryKind.ADD) else None
    if not isinstance(op, BinaryOp) or not isinstance(inner, BinaryOp):
        return None
    return b.insert(BinaryOp("add", inner.lhs, b.insert(BinaryOp("sub", inner.rhs, op.rhs)))).result


H = "tensor<4x8xf16>"
HALVES = {"arguments": f"%x: {H}, %y: {H}, %z: {H}", "result": H}
DOUBLE = of(binary("r", "add", "x", "x"))
TURNED = of(binary("d", "sub", "x", "y"), f"%r = rlx.activation neg %d : {T}")
SUM = of(binary("s", "add", "x", "y"), binary("r", "add", "s", "z"))
HALF_SUM = of(binary("s", "add", "x", "y", H), binary("r", "add", "s", "z", H), **HALVES)
ZERO = of(binary("r", "sub", "x", "x"))


@pytest.mark.parametrize(
    ("module", "rule", "strictest"),
    [
        (DOUBLE, twice_as_product, Numerics.EXACT),
        (TURNED, turned_difference, Numerics.REASSOCIATED),
        (HALF_SUM, sum_in_f32, Numerics.WIDER),
        (SUM, reassociated_sum, Numerics.REASSOCIATED),
        (ZERO, zero_difference, Numerics.NAN_POLICY),
        (SUM, other_sum, None),
        (HALF_SUM, other_sum, None),
    ],
    ids=["double", "sign of zero", "rounding", "order", "NaN", "wrong", "wrong in f16"],
)
def test_each_class_allows_just_what_it_says(
    module: ModuleOp, rule: Callable[[Operation, PatternRewriter], SSAValue | None], strictest: Numerics | None
):
    order = list(Numerics)
    for numerics in order:
        if strictest is not None and order.index(numerics) >= order.index(strictest):
            checks = check(module.clone(), rule, numerics)
            assert (checks.checked, checks.unchecked) == (1, [])
        else:
            with pytest.raises(OptError, match=f"Rule \\({numerics}\\) changes values: result #0 at "):
                check(module.clone(), rule, numerics)


def test_the_counterexample_can_be_read():
    module = of(
        binary("s", "add", "x", "y", "tensor<2xf32>"),
        binary("r", "add", "s", "z", "tensor<2xf32>"),
        arguments="%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>",
        result="tensor<2xf32>",
    )
    with pytest.raises(OptError) as caught:
        check(module, other_sum)
    text = str(caught.value)
    assert text.startswith("model.mlir: error: Rule (exact) changes values: result #0 at [0] is ")
    _, before, after, arguments = text.replace("after:", "before:").replace("arguments:", "before:").split("before:")
    assert "%s = rlx.binary add %x, %y" in before
    assert "%r = rlx.binary add %s, %z" in before
    assert "rlx.binary sub %y, %z" in after
    assert "%s" not in after
    for name in "xyz":
        assert f"%{name} = [" in arguments


def test_large_arguments_are_shown_by_their_types():
    with pytest.raises(OptError, match=r"%x = float32\[4, 8\]"):
        check(SUM.clone(), other_sum)


# Facts from further up.

SCALED = [
    "%flat = rlx.constant dense<{gamma}> : tensor<8xf32>",
    "%g = rlx.reshape %flat {{new_shape = [1, 8]}} : tensor<8xf32> -> tensor<1x8xf32>",
    "%r = rlx.binary mul %a, %g : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>",
]


def drop_gamma(op: Operation, b: PatternRewriter, *, look: bool = True) -> SSAValue | None:
    """a · gamma → a, where gamma is one behind a reshape."""
    shaped = op.operands[1].owner if is_binary(op, BinaryKind.MUL) else None
    if not isinstance(shaped, ReshapeOp):
        return None
    gamma = constant_value(shaped.input)
    return op.operands[0] if gamma is not None and (not look or bool((gamma == 1.0).all())) else None


def scaled(gamma: float) -> ModuleOp:
    lines = [line.format(gamma=gamma) for line in SCALED]
    return of("%a = rlx.activation neg %x : tensor<4x8xf32>", *lines)


def test_a_constant_behind_a_reshape_is_taken_in():
    assert check(scaled(1.0), drop_gamma).checked == 1


def test_the_counterexample_shows_what_was_taken_in():
    with pytest.raises(OptError) as caught:
        check(scaled(2.0), lambda op, b: drop_gamma(op, b, look=False))
    before, after = str(caught.value).split("after:")
    assert "rlx.constant dense<2.000000e+00>" in before
    assert "rlx.reshape" in before
    # The largest cut starts at the arguments of the function.
    assert "rlx.activation neg %x" in before
    assert "rlx.activation neg %x" in after


def sum_of_sum(op: Operation, b: PatternRewriter) -> SSAValue | None:
    """sum(a + b) → sum(a) + sum(b), right only if neither is broadcast along the axis."""
    inner = op.operands[0].owner if isinstance(op, ReduceOp) else None
    if not isinstance(op, ReduceOp) or not isinstance(inner, BinaryOp):
        return None
    parts = [b.insert(ReduceOp("sum", value, op.axis_indices)) for value in inner.operands]
    return b.insert(BinaryOp("add", *parts)).result


@pytest.mark.parametrize(("second", "right"), [("x", True), ("y", False)])
def test_unknown_extents_may_be_one_but_are_equal_where_they_come_from_one(second: str, right: bool):
    d, s = "tensor<?x8xf32>", "tensor<8xf32>"
    module = of(
        f"%b = rlx.activation relu %{second} : {d}",
        binary("t", "add", "x", "b", d),
        f"%r = rlx.reduce sum %t {{axes = [0]}} : {d} -> {s}",
        arguments=f"%x: {d}, %y: {d}",
        result=s,
    )
    if right:
        assert check(module, sum_of_sum, Numerics.REASSOCIATED).checked == 1
    else:
        with pytest.raises(OptError, match="changes values"):
            check(module, sum_of_sum, Numerics.REASSOCIATED)


def test_an_operation_between_two_parts_of_a_rewrite_is_what_it_was():
    """%m uses a removed value and is used by another removed operation; taken in, it must use what it used before."""

    def both(op: Operation, b: PatternRewriter) -> SSAValue | None:
        middle = op.operands[0].owner if is_binary(op, BinaryKind.MUL) else None
        if not isinstance(middle, ActivationOp) or not isinstance(first := middle.input.owner, BinaryOp):
            return None
        swapped = b.insert(BinaryOp("add", first.rhs, first.lhs), InsertPoint.before(first))
        b.replace(first, [], [swapped.result])
        # m · 1 is m, of which only the constant tells.
        return middle.result

    def module(factor: float) -> ModuleOp:
        return of(
            binary("a", "add", "x", "y"),
            f"%m = rlx.activation exp %a : {T}",
            f"%one = rlx.constant dense<{factor}> : {T}",
            binary("r", "mul", "m", "one"),
        )

    assert check(module(1.0), both).checked == 1
    with pytest.raises(OptError) as caught:
        check(module(2.0), both)
    before = str(caught.value).split("after:")[0]
    assert "%a = rlx.binary add %x, %y" in before
    assert "rlx.activation exp %a" in before


def test_an_operation_that_moves():
    def hoist(op: Operation, b: PatternRewriter) -> SSAValue | None:
        if not isinstance(op, BinaryOp) or op.lhs is not op.rhs or not isinstance(inner := op.lhs.owner, ActivationOp):
            return None
        assert op.parent is not None
        assert op.parent.first_op is not None
        inner.detach()
        b.insert(inner, InsertPoint.before(op.parent.first_op))
        return twice_as_product(op, b)

    module = of(f"%b = rlx.activation neg %y : {T}", f"%a = rlx.activation neg %x : {T}", binary("r", "add", "a", "a"))
    assert check(module, hoist).checked == 1


@pytest.mark.parametrize("right", [True, False])
def test_an_operation_changed_in_place(right: bool):
    class Change(RewritePattern):
        root = BinaryOp

        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
            x, y = op.operands
            if x.name_hint == "x":
                op.operands = [y, x if right else y]
                rewriter.notify_op_modified(op)

    with checking_rewrites("m") as checks:
        if right:
            apply_patterns(of(binary("r", "add", "x", "y")), [Change()])
            assert checks.checked == 1
        else:
            with pytest.raises(OptError, match="Change"):
                apply_patterns(of(binary("r", "add", "x", "y")), [Change()])


def test_an_operation_within_a_region():
    module = of(
        f"""%r = rlx.elementwise_region(%x, %y) : ({T}, {T}) -> {T} {{
        ^bb0(%a: f32, %b: f32):
          %d = rlx.binary sub %a, %b : (f32, f32) -> f32
          %n = rlx.activation neg %d : f32
          rlx.yield %n : f32
        }}"""
    )
    assert check(module.clone(), turned_difference, Numerics.REASSOCIATED).checked == 1
    with pytest.raises(OptError, match=r"result #0 is -?0\.0 instead of -?0\.0"):
        check(module.clone(), turned_difference)


# What cannot be run.


def test_an_operation_without_a_reference_is_not_checked():
    module = of(f'%r = "test.op"(%x) : ({T}) -> {T}')
    checks = check(module, lambda op, b: op.operands[0] if op.name == "test.op" else None)
    assert checks.checked == 0
    (why,) = checks.unchecked
    assert why.startswith("Rule: InterpretationError: ")


@pytest.mark.parametrize("known", [True, False])
def test_values_for_which_the_old_side_fails_say_nothing(known: bool):
    """Most indices that are tried lie outside of the table."""

    def again(op: Operation, b: PatternRewriter) -> SSAValue | None:
        return b.insert(GatherOp(op.table, op.indices, 0)).result if isinstance(op, GatherOp) else None

    module = of(
        "%i = rlx.constant dense<[0, 1]> : tensor<2xi32>" if known else "",
        "%r = rlx.gather %x, %i {axis = 0} : (tensor<2x8xf32>, tensor<2xi32>) -> tensor<2x8xf32>",
        arguments="%x: tensor<2x8xf32>" + ("" if known else ", %i: tensor<2xi32>"),
        result="tensor<2x8xf32>",
    )
    assert check(module, again).checked == 1


def test_a_new_side_that_cannot_be_run_is_wrong():
    def narrower(op: Operation, b: PatternRewriter) -> SSAValue | None:
        inner = op.operands[0].owner if isinstance(op, ReshapeOp) else None
        if not isinstance(op, ReshapeOp) or not isinstance(inner, ReshapeOp):
            return None
        return b.insert(ReshapeOp(inner.input, [4, 2], result_type=op.result.type)).result

    module = of(
        "%s = rlx.reshape %x {new_shape = [-1]} : tensor<?x8xf32> -> tensor<?xf32>",
        "%r = rlx.reshape %s {new_shape = [-1, 2]} : tensor<?xf32> -> tensor<?x2xf32>",
        arguments="%x: tensor<?x8xf32>",
        result="tensor<?x2xf32>",
    )
    with pytest.raises(OptError, match=r"changes values: InterpretationError"):
        check(module, narrower)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize(("sixth", "right"), [(1 / 6, True), (1 / 5, False)])
def test_a_rounded_constant_of_a_narrow_type_is_no_counterexample(element: str, sixth: float, right: bool):
    """x · clamp(x + 3, 0, 6) · 1/6, where 1/6 is off by as much as the element type says."""
    tensor, number = f"tensor<4x8x{element}>", f"tensor<{element}>"

    def hard_swish(op: Operation, b: PatternRewriter) -> SSAValue | None:
        clamp = op.operands[0].owner if is_binary(op, BinaryKind.MUL) else None
        return b.insert(ActivationOp("hard_swish", op.operands[1])).result if isinstance(clamp, BinaryOp) else None

    module = of(
        f"%three = rlx.constant dense<3.0> : {number}",
        f"%sixth = rlx.constant dense<{sixth:.8e}> : {number}",
        f"%a = rlx.binary add %x, %three : ({tensor}, {number}) -> {tensor}",
        f"%c = rlx.clamp %a {{min = 0.0, max = 6.0}} : {tensor}",
        f"%s = rlx.binary mul %c, %sixth : ({tensor}, {number}) -> {tensor}",
        binary("r", "mul", "s", "x", tensor),
        arguments=f"%x: {tensor}",
        result=tensor,
    )
    if right:
        assert check(module, hard_swish, Numerics.REASSOCIATED).checked == 1
    else:
        with pytest.raises(OptError, match="changes values"):
            check(module, hard_swish, Numerics.REASSOCIATED)


# What exists.


def test_every_pass_on_random_graphs():
    checked: dict[str, int] = {}
    for name, factory in pass_factories().items():
        if "lower-to" in name:
            continue
        for seed in range(25):
            with checking_rewrites("m") as checks:
                factory()().apply(Context(), random_graph(seed))
            assert checks.unchecked == []
            checked[name] = checked.get(name, 0) + checks.checked
    for name in ("rlx-fuse-matmul-bias-act", "rlx-fuse-residual-ln", "rlx-mark-elementwise-regions"):
        assert checked[name] > 5
