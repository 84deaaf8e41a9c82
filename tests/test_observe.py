"""Rewrites as events: what each says of what is gone and what is new, and that watching changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers import graph
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.passes.fuse_residual_ln import FuseResidualLn
from rlx_dialect.passes.mark_elementwise_regions import MarkElementwiseRegions
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.passes.matching.numerics import Numerics
from rlx_dialect.passes.matching.observe import Rewrite, observing, recording, unobserved
from rlx_dialect.xdsl_compat import (
    Context,
    InsertPoint,
    PatternRewriter,
    RewritePattern,
    print_module,
)

T = "tensor<2x3xf32>"
V = "tensor<3xf32>"
ADD_NORM = f"""%s = rlx.binary add %x, %y : ({T}, {T}) -> {T}
%n = rlx.layer_norm %s, %g, %g {{eps = 1.0e-3}} : ({T}, {V}, {V}) -> {T}"""


def of(*lines: str, returned: str = "%n") -> ModuleOp:
    results = ", ".join([T] * len(returned.split(",")))
    return graph("\n".join(lines), f"%x: {T}, %y: {T}, %g: {V}", results, returned)


def unary(name: str, kind: str, operand: str) -> str:
    return f"%{name} = rlx.activation {kind} %{operand} : {T}"


def watched(module: ModuleOp, *patterns: RewritePattern) -> list[Rewrite]:
    seen: list[Rewrite] = []
    with observing(seen.append):
        apply_patterns(module, patterns)
    return seen


def names(ops: tuple[Operation, ...]) -> list[str | None]:
    return [result.name_hint for op in ops for result in op.results]


def operands(op: Operation) -> list[str | None]:
    return [operand.name_hint for operand in op.operands]


class On(RewritePattern):
    """A rewrite of every activation of one kind."""

    root = ActivationOp

    def __init__(self, kind: str, rewrite: Callable[[ActivationOp, PatternRewriter], None]):
        self.kind, self.rewrite = ActivationKind(kind), rewrite

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, ActivationOp) and op.kind.data is self.kind:
            self.rewrite(op, rewriter)


@pytest.mark.parametrize("between", [[], [unary("m", "tanh", "s")]], ids=["one result", "two results"])
def test_a_fusion(between: list[str]):
    add, norm = ADD_NORM.splitlines()
    module = of(add, *between, norm, returned="%n, %m" if between else "%n")
    seen: list[Rewrite] = []
    with observing(seen.append):
        FuseResidualLn().apply(Context(), module)
    (rewrite,) = seen
    assert (rewrite.by, rewrite.numerics) == ("FuseResidualNorm", Numerics.WIDER)
    assert names(rewrite.removed) == ["s", "n"]
    assert [operands(op) for op in rewrite.removed] == [["x", "y"], ["s", "g", "g"]]
    assert rewrite.removed[1].operands[0] is rewrite.removed[0].results[0]
    assert all(op.parent is None for op in rewrite.removed)
    (fused,) = rewrite.inserted
    assert fused in list(module.walk())
    old, new = zip(*rewrite.replaced, strict=True)
    assert list(new) == list(fused.results)
    assert list(old) == [op.results[0] for op in rewrite.removed[::-1][: len(fused.results)]]


def test_a_removed_operation_has_the_operands_that_it_had_before_others_were_replaced():
    """Here the producer is replaced first, so that its user is erased as a user of the new value."""

    def both(op: ActivationOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        assert isinstance(inner, ActivationOp)
        new = rewriter.insert(ActivationOp("abs", inner.input), InsertPoint.before(inner))
        rewriter.replace(inner, [], [new.result])
        rewriter.replace(op, ActivationOp("exp", new.result))

    module = of(unary("a", "tanh", "x"), unary("n", "neg", "a"))
    (rewrite,) = watched(module, On("neg", both))
    a, n = rewrite.removed
    assert n.operands[0] is a.results[0]
    assert [old.owner for old, _ in rewrite.replaced] == [a, n]


def test_a_value_that_was_there_takes_the_place():
    module = of(unary("a", "neg", "x"), unary("n", "neg", "a"))
    (rewrite,) = watched(module, On("neg", collapse))
    assert rewrite.inserted == ()
    assert names(rewrite.removed) == ["n"]
    ((old, new),) = rewrite.replaced
    assert (old, new.name_hint) == (rewrite.removed[0].results[0], "x")


def collapse(op: ActivationOp, rewriter: PatternRewriter) -> None:
    inner = op.input.owner
    if isinstance(inner, ActivationOp) and inner.kind.data is op.kind.data:
        rewriter.replace(op, [], [inner.input])


def test_what_is_inserted_and_erased_again_is_not_mentioned():
    def detour(op: ActivationOp, rewriter: PatternRewriter) -> None:
        passing = rewriter.insert(ActivationOp("abs", op.input))
        rewriter.replace(op, [], [passing.result])
        rewriter.replace(passing, ActivationOp("exp", passing.input))

    module = of(unary("n", "neg", "x"))
    (rewrite,) = watched(module, On("neg", detour))
    (new,) = rewrite.inserted
    assert isinstance(new, ActivationOp)
    assert new.kind.data is ActivationKind.EXP
    assert names(rewrite.removed) == ["n"]
    assert rewrite.replaced == ((rewrite.removed[0].results[0], new.result),)


def change_kind(op: ActivationOp, rewriter: PatternRewriter) -> None:
    assert op.input.has_one_use(), "remembering what it was makes no use"
    op.properties["kind"] = ActivationOp("exp", op.input).properties["kind"]
    rewriter.notify_op_modified(op)


def test_an_operation_changed_in_place_is_both_removed_and_inserted():
    module = of(unary("n", "neg", "x"))
    (rewrite,) = watched(module, On("neg", change_kind))
    (before,), (after,) = rewrite.removed, rewrite.inserted
    assert isinstance(before, ActivationOp)
    assert isinstance(after, ActivationOp)
    assert (before.kind.data, after.kind.data) == (ActivationKind.NEG, ActivationKind.EXP)
    assert before.parent is None
    assert after in list(module.walk())
    assert operands(before) == operands(after) == ["x"]
    assert rewrite.replaced == ((before.result, after.result),)
    assert names(rewrite.removed) == ["n"]


def test_an_operation_changed_in_place_and_then_replaced_is_only_removed():
    def both(op: ActivationOp, rewriter: PatternRewriter) -> None:
        change_kind(op, rewriter)
        rewriter.replace(op, ActivationOp("abs", op.input))

    (rewrite,) = watched(of(unary("n", "neg", "x")), On("neg", both))
    (before,), (after,) = rewrite.removed, rewrite.inserted
    assert isinstance(before, ActivationOp)
    assert before.kind.data is ActivationKind.NEG
    assert rewrite.replaced == ((before.result, after.results[0]),)


def test_only_the_root_may_be_changed_in_place():
    def other(op: ActivationOp, rewriter: PatternRewriter) -> None:
        assert isinstance(op.input.owner, Operation)
        rewriter.notify_op_modified(op.input.owner)

    with pytest.raises(AssertionError, match=r"rlx\.activation is changed in place, but it is not the root"):
        watched(of(unary("a", "abs", "x"), unary("n", "neg", "a")), On("neg", other))


def test_some_uses_are_replaced():
    def first_use(op: ActivationOp, rewriter: PatternRewriter) -> None:
        if op.result.has_one_use():
            return
        new = rewriter.insert(ActivationOp("abs", op.input), InsertPoint.after(op))
        rewriter.replace_uses_with_if(op.result, new.result, lambda use: use.index == 1)

    module = of(unary("a", "neg", "x"), f"%n = rlx.binary add %a, %a : ({T}, {T}) -> {T}")
    (rewrite,) = watched(module, On("neg", first_use))
    assert rewrite.removed == ()
    ((old, new),) = rewrite.replaced
    assert (old.name_hint, new) == ("a", rewrite.inserted[0].results[0])


def test_what_is_inlined_is_new_and_its_owner_is_as_it_was():
    class Inline(RewritePattern):
        root = test.TestOp

        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
            block = op.regions[0].block
            last = block.last_op
            assert last is not None
            (value,) = last.operands
            rewriter.erase(last)
            rewriter.inline_block(block, InsertPoint.before(op), op.operands)
            op.detach_region(0)
            rewriter.replace(op, [], [value])

    module = of(
        f"""%n = "test.op"(%x) ({{ ^bb0(%i: {T}):
          %j = rlx.activation relu %i : {T}
          %k = rlx.activation neg %j : {T}
          "test.termop"(%k) : ({T}) -> () }}) : ({T}) -> {T}"""
    )
    seen = watched(module, Inline())
    (owner,) = seen[0].removed
    assert [op.name for op in owner.regions[0].block.ops] == ["rlx.activation", "rlx.activation", "test.termop"]
    assert names(seen[0].inserted) == ["j", "k"]
    assert seen[0].replaced == ((owner.results[0], seen[0].inserted[1].results[0]),)


def test_a_pass_without_the_driver_records():
    add = f"%n = rlx.binary add %a, %y : ({T}, {T}) -> {T}"
    module = of(unary("a", "tanh", "x"), add)
    seen: list[Rewrite] = []
    with observing(seen.append):
        MarkElementwiseRegions().apply(Context(), module)
    (rewrite,) = seen
    assert (rewrite.by, rewrite.numerics) == ("MarkElementwiseRegions", Numerics.EXACT)
    assert names(rewrite.removed) == ["a", "n"]
    (region,) = rewrite.inserted
    assert isinstance(region, ElementwiseRegionOp)


def test_what_is_inserted_into_an_inserted_operation_belongs_to_it():
    module = of(unary("n", "neg", "x"))
    (op,) = [op for op in module.walk() if isinstance(op, ActivationOp)]
    seen: list[Rewrite] = []
    with observing(seen.append), recording("by hand", Numerics.EXACT) as rewriter:
        owner = test.TestOp([op.input], [op.result.type], regions=[Region(Block())])
        rewriter.insert(ActivationOp("abs", op.input), InsertPoint.at_end(owner.regions[0].block))
        rewriter.replace(op, owner)
    assert seen[0].inserted == (owner,)


def test_several_watch_and_watchers_are_not_watched():
    inner: list[Rewrite] = []

    def rewrites_too(_: Rewrite) -> None:
        apply_patterns(of(unary("n", "neg", "x")), [On("neg", change_kind)])

    outer: list[Rewrite] = []
    with observing(outer.append):
        with observing(rewrites_too), observing(inner.append):
            apply_patterns(of(unary("n", "neg", "x")), [On("neg", change_kind)])
        apply_patterns(of(unary("n", "neg", "x")), [On("neg", change_kind)])
        with unobserved():
            apply_patterns(of(unary("n", "neg", "x")), [On("neg", change_kind)])
    apply_patterns(of(unary("n", "neg", "x")), [On("neg", change_kind)])
    assert (len(outer), len(inner)) == (2, 1)


def test_a_dry_run_is_not_observed():
    seen: list[Rewrite] = []
    with observing(seen.append):
        FuseResidualLn().misses(of(ADD_NORM))
    assert seen == []


def test_watching_changes_nothing():
    chain = [unary("a", "neg", "x"), unary("b", "neg", "a"), unary("c", "neg", "b"), unary("n", "tanh", "c")]
    alone = of(*chain, ADD_NORM.replace("%n", "%m"), returned="%n, %m")
    together = alone.clone()
    patterns = [On("neg", collapse), On("tanh", change_kind), *FuseResidualLn().patterns()]
    apply_patterns(alone, patterns)
    seen = watched(together, *patterns)
    assert print_module(alone) == print_module(together)
    assert len(seen) == 3


def test_an_exception_of_a_watcher_leaves_the_pass():
    def stop(_: Rewrite) -> None:
        raise KeyError("enough")

    with observing(stop), pytest.raises(KeyError, match="enough"):
        FuseResidualLn().apply(Context(), of(ADD_NORM))


def test_both_sides_are_in_order_of_use():
    def three(op: ActivationOp, rewriter: PatternRewriter) -> None:
        last = BinaryOp("add", op.input, op.input)
        rewriter.insert(last)
        first = rewriter.insert(ActivationOp("exp", op.input), InsertPoint.before(last))
        last.operands[1] = first.result
        rewriter.replace(op, [], [last.result])

    (rewrite,) = watched(of(unary("n", "neg", "x")), On("neg", three))
    assert [op.name for op in rewrite.inserted] == ["rlx.activation", "rlx.binary"]
