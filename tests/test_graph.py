"""Which values of a graph are known when its weights are loaded."""

from __future__ import annotations

import pytest
from helpers import parse
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from rlx_dialect import graph
from rlx_dialect.graph import arguments, is_load_time, main_function

T = "tensor<2x2xf32>"


def values(body: str) -> dict[str, SSAValue]:
    """The named values of a function with an input ``x`` and a parameter ``w``."""
    module = parse(
        f'func.func @main(%x: {T} {{rlx.input = "x"}}, %w: {T} {{rlx.param = "w"}}) -> {T} {{\n'
        f"{body}\nfunc.return %x : {T}\n}}\n"
    )
    return named(module)


def named(module: ModuleOp) -> dict[str, SSAValue]:
    found = {a.name: a.value for a in arguments(main_function(module))}
    results = (result for op in module.walk() for result in op.results)
    return {**found, **{str(r.name_hint): r for r in results}}


def test_parameters_constants_and_what_is_computed_from_only_those():
    v = values(
        f"%c = rlx.constant dense<1.0> : {T}\n"
        f"%a = rlx.binary add %w, %c : ({T}, {T}) -> {T}\n"
        f"%b = rlx.matmul %a, %w : ({T}, {T}) -> {T}\n"
        f"%d = rlx.binary add %b, %x : ({T}, {T}) -> {T}\n"
        f"%e = rlx.activation neg %d : {T}"
    )
    assert {name for name, value in v.items() if is_load_time(value)} == {"w", "c", "a", "b"}


def test_effects_and_regions():
    v = values(
        f'%a = "test.op"(%w) : ({T}) -> {T}\n'
        f"%r = rlx.elementwise_region(%w) : ({T}) -> {T} {{\n^bb0(%i: f32):\nrlx.yield %i : f32\n}}\n"
        f'%o = "test.op"() ({{\n^bb0(%j: {T}):\n%n = rlx.activation neg %j : {T}\n'
        f'%p = rlx.activation neg %w : {T}\n"test.termop"() : () -> ()\n}}) : () -> {T}'
    )
    assert {name for name in ("a", "r", "o", "n", "p") if is_load_time(v[name])} == {"r", "p"}


def test_many_questions_about_a_deep_graph_visit_each_operation_a_few_times(monkeypatch: pytest.MonkeyPatch):
    depth = 3000
    lines = [f"%v{i} = rlx.activation neg %{f'v{i - 1}' if i else 'w'} : {T}" for i in range(depth)]
    v = values("\n".join(lines))
    known: dict[SSAValue, bool] = {}
    visits: list[SSAValue] = []
    decide = graph._load_time_or_operand  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(graph, "_load_time_or_operand", lambda v, k: visits.append(v) or decide(v, k))
    assert all(is_load_time(v[f"v{i}"], known) for i in reversed(range(depth)))
    assert len(visits) <= 4 * depth
