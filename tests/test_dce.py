"""rlx-dce: what goes, and what has to stay."""

from __future__ import annotations

from helpers import assert_same_meaning, graph, parse
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.dce import DeadCodeElimination
from rlx_dialect.passes.mark_elementwise_regions import MarkElementwiseRegions
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.xdsl_compat import Context, print_module

T = "tensor<4x8xf32>"


def unary(result: str, kind: str, x: str) -> str:
    return f"%{result} = rlx.activation {kind} %{x} : {T}"


def binary(result: str, kind: str, a: str, b: str) -> str:
    return f"%{result} = rlx.binary {kind} %{a}, %{b} : ({T}, {T}) -> {T}"


def nested(*lines: str) -> str:
    return '"test.op"() ({ ' + "\n".join(lines) + " }) : () -> ()"


def of(*lines: str, returned: str = "%t") -> ModuleOp:
    return graph("\n".join(lines), f"%x: {T}, %y: {T}", T, returned)


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def dce(module: ModuleOp) -> ModuleOp:
    after = module.clone()
    DeadCodeElimination().apply(Context(), after)
    after.verify()
    check_dominance(after)
    return after


def test_dead_operations_and_what_only_they_use():
    module = of(unary("a", "exp", "x"), unary("b", "neg", "a"), unary("t", "tanh", "x"), binary("d", "add", "t", "y"))
    assert names(dce(module)) == ["rlx.activation"]
    assert_same_meaning(module, dce(module))


def test_a_live_graph_is_unchanged():
    module = of(unary("a", "exp", "x"), binary("t", "add", "a", "y"))
    assert print_module(dce(module)) == print_module(module)


def test_unused_arguments_stay_with_their_names():
    module = graph("", f'%x: {T} {{rlx.input = "x"}}, %w: {T} {{rlx.param = "w"}}', T, "%x")
    assert 'rlx.param = "w"' in print_module(dce(module))


def test_operations_with_effects_or_of_unknown_dialects_stay():
    module = of(
        f'%a = "test.op"(%x) : ({T}) -> {T}',
        f'%b = "other.op"(%x) : ({T}) -> {T}',
        f'%c = "test.pureop"(%x) : ({T}) -> {T}',
        unary("t", "exp", "x"),
    )
    assert [op.name for op in dce(module).walk()][2:] == [
        "test.op",
        "builtin.unregistered",
        "rlx.activation",
        "func.return",
    ]


def test_dead_operations_in_regions():
    module = of(
        unary("a", "exp", "x"),
        nested(unary("i", "neg", "a"), unary("j", "abs", "x"), f'"test.termop"(%j) : ({T}) -> ()'),
        returned="%x",
    )
    assert names(dce(module)) == ["rlx.activation"]
    assert "abs" in print_module(dce(module))


def test_a_dead_region_goes_with_all_that_it_used():
    module = of(unary("e", "floor", "x"), unary("a", "exp", "e"), unary("b", "neg", "a"), returned="%x")
    MarkElementwiseRegions().apply(Context(), module)
    assert names(module) == [
        "rlx.activation",
        "rlx.elementwise_region",
        "rlx.activation",
        "rlx.activation",
        "rlx.yield",
    ]
    assert names(dce(module)) == []


def test_uses_in_an_earlier_block():
    """^m, which comes first in the text, uses what ^l defines."""
    module = parse(
        f"""func.func @main(%x: {T}) -> {T} {{
          cf.br ^l
        ^m:
          %u = rlx.activation neg %d : {T}
          cf.br ^end
        ^l:
          %d = rlx.activation exp %x : {T}
          cf.br ^m
        ^end:
          func.return %x : {T} }}"""
    )
    assert names(dce(module)) == []
