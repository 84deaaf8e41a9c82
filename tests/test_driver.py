"""The rewriting driver on small patterns: dispatch, order, termination, locations, what it leaves alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from helpers import graph, parse
from xdsl.dialects import test
from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.base import RlxOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, ElementwiseOp
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.driver import RewriteLimitError, apply_patterns, pattern_roots
from rlx_dialect.xdsl_compat import (
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
    VerifyException,
    op_type_rewrite_pattern,
    print_module,
)

T = "tensor<2x3xf32>"


def chain(*kinds: str, arguments: str = f"%x: {T}") -> ModuleOp:
    """x through activations of these kinds."""
    lines = [f"%a{i} = rlx.activation {kind} %{f'a{i - 1}' if i else 'x'} : {T}" for i, kind in enumerate(kinds)]
    return graph("\n".join(lines), arguments, T, f"%a{len(kinds) - 1}")


def kinds(module: ModuleOp) -> list[str]:
    return [str(op.kind.data) for op in module.walk() if isinstance(op, ActivationOp)]


class Replace(RewritePattern):
    """Activations of one kind become another's; remembers what it was asked about."""

    root = ActivationOp

    def __init__(self, old: str, new: str):
        self.old, self.new = ActivationKind(old), new
        self.asked: list[Operation] = []

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        self.asked.append(op)
        if isinstance(op, ActivationOp) and op.kind.data is self.old:
            rewriter.replace(op, ActivationOp(self.new, op.input))


class CollapseTwice(RewritePattern):
    """neg(neg(x)) is x; leaves the inner one for someone else to delete."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ActivationOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if op.kind.data is ActivationKind.NEG and isinstance(inner, ActivationOp) and inner.kind.data is op.kind.data:
            rewriter.replace(op, [], [inner.input])


class EraseUnused(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RlxOp, rewriter: PatternRewriter, /) -> None:
        if not any(list(r.uses) for r in op.results):
            rewriter.erase(op)


class OnUnion(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ActivationOp | BinaryOp, rewriter: PatternRewriter, /) -> None: ...


class OnAll(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None: ...


def test_roots_from_attribute_annotation_or_none():
    assert pattern_roots(Replace("relu", "abs")) == (ActivationOp,)
    assert pattern_roots(EraseUnused()) == (RlxOp,)
    assert pattern_roots(OnUnion()) == (ActivationOp, BinaryOp)
    assert pattern_roots(OnAll()) == (Operation,)


def test_a_base_class_as_root_matches_its_subclasses_only():
    seen: list[str] = []

    class OnElementwise(RewritePattern):
        root = ElementwiseOp

        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
            seen.append(op.name)

    module = graph(
        f"%m = rlx.matmul %x, %w : ({T}, tensor<3x3xf32>) -> {T}\n"
        f"%a = rlx.binary add %m, %x : ({T}, {T}) -> {T}\n%b = rlx.activation relu %a : {T}",
        f"%x: {T}, %w: tensor<3x3xf32>",
        T,
        "%b",
    )
    assert not apply_patterns(module, [OnElementwise()])
    assert seen == ["rlx.binary", "rlx.activation"]


def test_patterns_are_tried_in_order_and_the_first_that_acts_wins():
    module = chain("relu", "tanh")
    assert apply_patterns(module, [Replace("relu", "abs"), Replace("relu", "neg"), Replace("tanh", "exp")])
    assert kinds(module) == ["abs", "exp"]


def test_changed_is_truthful():
    module = chain("relu")
    assert apply_patterns(module, [Replace("relu", "abs")])
    assert not apply_patterns(module, [Replace("relu", "abs")])


def test_an_operation_changed_in_place_counts_as_changed():
    class Rename(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter, /) -> None:
            if op.lhs is not op.rhs:
                op.operands[1] = op.lhs
                rewriter.notify_op_modified(op)

    module = graph(f"%a = rlx.binary add %x, %y : ({T}, {T}) -> {T}", f"%x: {T}, %y: {T}", T, "%a")
    assert apply_patterns(module, [Rename()])
    assert not apply_patterns(module, [Rename()])


def test_a_chain_of_rewrites_takes_one_sweep_in_either_direction():
    module = chain(*["neg"] * 40)
    assert apply_patterns(module, [CollapseTwice()], max_sweeps=2)
    pattern = [Replace("relu", "abs"), Replace("abs", "exp"), Replace("exp", "log"), Replace("log", "neg")]
    module = chain("relu")
    assert apply_patterns(module, pattern, max_sweeps=2)
    assert kinds(module) == ["neg"]


def test_what_becomes_possible_further_up_is_found_by_another_sweep():
    module = chain("neg", "abs")
    (returned,) = [op for op in module.walk() if op.name == "func.return"]
    function = next(iter(module.ops))
    assert isinstance(function, FuncOp)
    returned.operands[0] = function.body.block.args[0]
    assert apply_patterns(module, [EraseUnused()])
    assert kinds(module) == []


def test_nothing_is_deleted_implicitly():
    module = chain("neg", "neg")
    apply_patterns(module, [CollapseTwice()])
    assert kinds(module) == ["neg"]


def test_a_pattern_that_matches_its_own_result_is_an_error_that_names_it():
    with pytest.raises(RewriteLimitError, match=r"Replace, last at rlx\.activation %a0.*rewrites its own results"):
        apply_patterns(chain("relu"), [Replace("relu", "relu")])


def test_patterns_that_undo_each_other_are_an_error():
    class Swap(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter, /) -> None:
            op.operands = [op.rhs, op.lhs]
            rewriter.notify_op_modified(op)

    module = graph(f"%a = rlx.binary add %x, %y : ({T}, {T}) -> {T}", f"%x: {T}, %y: {T}", T, "%a")
    with pytest.raises(RewriteLimitError, match=r"Swap, last at rlx\.binary %a, still finds work after 7 sweeps"):
        apply_patterns(module, [Swap()], max_sweeps=7)


def test_an_error_in_a_pattern_says_where():
    class Broken(RewritePattern):
        root = ActivationOp

        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
            raise KeyError("lost")

    with pytest.raises(KeyError) as caught:
        apply_patterns(chain("relu"), [Broken()])
    assert caught.value.__notes__ == ["while applying Broken to rlx.activation %a0"]


def at_line(op: Operation, line: int) -> None:
    op.location = FileLineColLoc(StringAttr("m.mlir"), IntAttr(line), IntAttr(1))


def test_locations_of_what_is_replaced_are_kept():
    module = chain("relu", "tanh")
    relu, tanh = [op for op in module.walk() if isinstance(op, ActivationOp)]
    at_line(relu, 3)
    apply_patterns(module, [Replace("relu", "abs"), Replace("tanh", "exp")])
    absolute, exp = [op for op in module.walk() if isinstance(op, ActivationOp)]
    assert absolute.location == relu.location
    assert exp.location == UnknownLoc() == tanh.location


def test_an_operation_that_replaces_several_has_all_their_locations():
    class JoinNegs(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: ActivationOp, rewriter: PatternRewriter, /) -> None:
            inner = op.input.owner
            if op.kind.data is ActivationKind.NEG and isinstance(inner, ActivationOp):
                rewriter.replace(op, ActivationOp("abs", inner.input))
                rewriter.erase(inner)

    module = chain("neg", "neg")
    for line, op in enumerate(op for op in module.walk() if isinstance(op, ActivationOp)):
        at_line(op, line)
    apply_patterns(module, [JoinNegs()])
    (joined,) = [op for op in module.walk() if isinstance(op, ActivationOp)]
    assert isinstance(joined.location, FusedLoc)
    assert str(joined.location) == 'loc(fused["m.mlir":0:1, "m.mlir":1:1])'


def test_name_hints_are_kept():
    module = chain("relu")
    apply_patterns(module, [Replace("relu", "abs")])
    assert "%a0 = rlx.activation abs %x" in print_module(module)


def test_operations_in_regions_are_visited_and_erasing_their_owner_is_fine():
    text = f"""func.func @main(%x: {T}) -> {T} {{
      %r = "test.op"(%x) ({{
        %i = rlx.activation relu %x : {T}
        %j = rlx.activation relu %i : {T}
        "test.termop"(%j) : ({T}) -> ()
      }}) : ({T}) -> {T}
      %k = rlx.activation relu %r : {T}
      func.return %k : {T}
    }}"""
    module = parse(text)
    assert apply_patterns(module, [Replace("relu", "abs")])
    assert kinds(module) == ["abs"] * 3

    class DropOwner(RewritePattern):
        root = ActivationOp

        def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
            owner = op.parent_op()
            if isinstance(owner, test.TestOp):
                rewriter.replace(owner, [], list(owner.operands))

    assert apply_patterns(module, [DropOwner(), Replace("abs", "neg")])
    assert kinds(module) == ["neg"]


def test_the_walk_survives_erasing_what_comes_next():
    class EatNext(RewritePattern):
        @op_type_rewrite_pattern
        def match_and_rewrite(self, op: ActivationOp, rewriter: PatternRewriter, /) -> None:
            following = op.next_op
            if isinstance(following, ActivationOp) and op.kind.data is ActivationKind.RELU:
                rewriter.replace(following, [], [op.result])

    module = chain("relu", "abs", "exp", "tanh", "relu", "neg")
    apply_patterns(module, [EatNext()])
    assert kinds(module) == ["relu"]


def test_a_listener_hears_of_every_change():
    inserted: list[str] = []
    removed: list[str] = []
    listener = PatternRewriterListener(
        operation_insertion_handler=[lambda op: inserted.append(op.name)],
        operation_removal_handler=[lambda op: removed.append(op.name)],
    )
    apply_patterns(chain("relu", "tanh"), [Replace("relu", "abs")], listener=listener)
    assert inserted == removed == ["rlx.activation"]


@pytest.mark.parametrize("pattern", [lambda: Replace("relu", "abs"), CollapseTwice])
def test_the_same_pattern_runs_under_xdsls_walker(pattern: Callable[[], RewritePattern]):
    ours, theirs = chain("relu", "neg", "neg", "relu"), chain("relu", "neg", "neg", "relu")
    assert apply_patterns(ours, [pattern()])
    assert PatternRewriteWalker(pattern()).rewrite_module(theirs)
    assert print_module(ours) == print_module(theirs)


def test_a_sweep_asks_once_per_operation():
    module = chain(*["tanh"] * 50)
    pattern = Replace("relu", "abs")
    apply_patterns(module, [pattern])
    assert len(pattern.asked) == 50


@pytest.mark.parametrize("kind", ["relu", "tanh"], ids=["every one rewritten", "none rewritten"])
def test_the_cost_is_linear(kind: str):
    def seconds(count: int) -> float:
        best = float("inf")
        for _ in range(3):
            module = chain(*[kind] * count)
            start = time.process_time()
            apply_patterns(module, [Replace("relu", "abs")])
            best = min(best, time.process_time() - start)
        return best

    assert seconds(2400) < 16 * seconds(300)


def blocks(text: str) -> ModuleOp:
    return parse(f"func.func @main(%x: {T}, %c: i1) -> {T} {{ {text} }}")


def test_dominance_takes_arguments_earlier_values_and_values_from_outside():
    check_dominance(chain("relu", "neg"))
    check_dominance(
        blocks(
            f"""%a = rlx.activation relu %x : {T}
            %r = "test.op"() ({{ %i = rlx.activation relu %a : {T}
              "test.termop"(%i, %x) : ({T}, {T}) -> () }}) : () -> {T}
            "cf.cond_br"(%c)[^l, ^m] <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : (i1) -> ()
          ^l:
            %l = rlx.activation relu %r : {T}
            cf.br ^m
          ^m:
            %m = rlx.activation relu %a : {T}
            func.return %m : {T}"""
        )
    )


def move_first(module: ModuleOp, name: str) -> ModuleOp:
    op = next(op for op in module.walk() if any(r.name_hint == name for r in op.results))
    block = op.parent
    assert block is not None
    assert block.first_op is not None
    op.detach()
    block.insert_op_before(op, block.first_op)
    return module


def test_dominance_rejects_a_use_before_its_definition():
    module = move_first(chain("relu", "neg"), "a1")
    module.verify()
    with pytest.raises(VerifyException, match=r"'rlx.activation': operand #0 %a0, defined by 'rlx.activation'"):
        check_dominance(module)


def test_dominance_rejects_a_use_in_a_region_before_and_of_what_a_region_defines():
    region = f"""%r = "test.op"() ({{ %i = rlx.activation relu %x : {T}
      "test.termop"(%i) : ({T}) -> () }}) : () -> {T}
      %a = rlx.activation relu %x : {T}
      func.return %r : {T}"""
    module = blocks(region)
    inner = next(op for op in module.walk() if any(r.name_hint == "i" for r in op.results))
    later = next(op for op in module.walk() if any(r.name_hint == "a" for r in op.results))
    inner.operands[0] = later.results[0]
    with pytest.raises(VerifyException, match="%a"):
        check_dominance(module)

    module = blocks(region)
    inner = next(op for op in module.walk() if any(r.name_hint == "i" for r in op.results))
    later = next(op for op in module.walk() if any(r.name_hint == "a" for r in op.results))
    later.operands[0] = inner.results[0]
    with pytest.raises(VerifyException, match="%i"):
        check_dominance(module)


def test_dominance_between_blocks():
    module = blocks(
        f""""cf.cond_br"(%c)[^l, ^m] <{{operandSegmentSizes = array<i32: 1, 0, 0>}}> : (i1) -> ()
          ^l:
            %l = rlx.activation relu %x : {T}
            cf.br ^m
          ^m:
            %m = rlx.activation relu %x : {T}
            func.return %m : {T}"""
    )
    last = next(op for op in module.walk() if any(r.name_hint == "m" for r in op.results))
    value: SSAValue = next(r for op in module.walk() for r in op.results if r.name_hint == "l")
    last.operands[0] = value
    with pytest.raises(VerifyException, match="%l"):
        check_dominance(module)


def test_dominance_does_not_look_into_an_isolated_operation():
    module = chain("relu")
    outer = next(op for op in module.walk() if isinstance(op, ActivationOp))
    inner = chain("neg")
    function = next(iter(inner.ops))
    function.detach()
    assert outer.parent is not None
    outer.parent.insert_op_after(function, outer)
    negate = next(op for op in function.walk() if isinstance(op, ActivationOp))
    negate.operands[0] = outer.result
    with pytest.raises(VerifyException, match="%a0"):
        check_dominance(module)
