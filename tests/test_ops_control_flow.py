"""rlx.if, rlx.while, rlx.scan: values, decompositions, verification; and rlx-lower-control-flow."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_round_trip, assert_same_meaning, decomposed, graph, parse
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.passes.dce import DeadCodeElimination
from rlx_dialect.passes.lower_control_flow import LowerControlFlow
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.xdsl_compat import Context, DiagnosticException, VerifyException, print_module

T = "tensor<2x3xf32>"
SQUARE = f"""
^bb0(%a: {T}):
  %v = rlx.binary mul %a, %a : ({T}, {T}) -> {T}
  rlx.yield %v : {T}
"""
SMALL = f"""
^bb0(%a: {T}):
  %sum = rlx.reduce sum %a {{axes = [0, 1]}} : {T} -> tensor<f32>
  %bound = rlx.constant dense<1.0e3> : tensor<f32>
  %small = rlx.compare lt %sum, %bound : (tensor<f32>, tensor<f32>) -> tensor<i1>
  rlx.yield %small : tensor<i1>
"""
ALWAYS = f"""
^bb0(%a: {T}):
  %yes = rlx.constant dense<true> : tensor<1xi1>
  rlx.yield %yes : tensor<1xi1>
"""
LOG = f"""
^bb0(%a: {T}):
  %l = rlx.activation log %a : {T}
  rlx.yield %l : {T}
"""
SAME = f"""
^bb0(%a: {T}):
  rlx.yield %a : {T}
"""


def loop(condition: str, bound: str = "{max_iterations = 3}", body: str = SQUARE) -> ModuleOp:
    return graph(f"%y = rlx.while(%x) {bound} : {T} -> {T} {{{condition}}} do {{{body}}}", f"%x: {T}", T, "%y")


def branch(predicate: str = "tensor<i1>", first: str = LOG, second: str = SAME) -> ModuleOp:
    text = f"%y = rlx.if(%p, %x) : ({predicate}, {T}) -> {T} {{{first}}} else {{{second}}}"
    return graph(text, f"%p: {predicate}, %x: {T}", T, "%y")


def lowered(module: ModuleOp, **options: int | bool) -> ModuleOp:
    after = module.clone()
    LowerControlFlow(**options).apply(Context(), after)  # pyright: ignore[reportArgumentType]
    after.verify()
    check_dominance(after)
    assert_same_meaning(module, after, rtol=0.0, atol=0.0)
    return after


def run(module: ModuleOp, *values: Array) -> list[Array]:
    return run_reference(module, {f"arg{i}": value for i, value in enumerate(values)})


def kinds(module: ModuleOp) -> list[str]:
    return [op.name.removeprefix("rlx.") for op in module.walk() if op.name.startswith("rlx.")]


# if.


@pytest.mark.parametrize("predicate", ["tensor<i1>", "tensor<1xi1>", "tensor<1x1x1xi1>"])
@pytest.mark.parametrize("taken", [True, False])
def test_one_branch_counts(predicate: str, taken: bool):
    module = branch(predicate)
    assert_round_trip(module)
    x = np.array([[1.0, -2.0, 0.5], [4.0, 0.0, 9.0]], np.float32)
    truth = np.full([1] * predicate.count("1x"), taken)
    (y,) = run(module, truth, x)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, np.log(x) if taken else x)
    assert_same_meaning(module, decomposed(module, "rlx.if"), rtol=0.0, atol=0.0)


def test_a_nan_of_the_other_branch_does_not_come_through():
    (y,) = run(lowered(branch()), np.array(False), np.full((2, 3), -1.0, np.float32))
    assert (y == -1).all()


def test_several_results_and_captures():
    module = parse(f"""
    func.func @main(%p: tensor<i1>, %x: {T}, %y: tensor<3xf32>) -> ({T}, tensor<3xf32>) {{
      %0, %1 = rlx.if(%p, %x, %y) : (tensor<i1>, {T}, tensor<3xf32>) -> ({T}, tensor<3xf32>) {{
      ^bb0(%a: {T}, %b: tensor<3xf32>):
        %s = rlx.binary add %a, %b : ({T}, tensor<3xf32>) -> {T}
        rlx.yield %s, %b : {T}, tensor<3xf32>
      }} else {{
      ^bb0(%a: {T}, %b: tensor<3xf32>):
        %n = rlx.activation neg %b : tensor<3xf32>
        rlx.yield %a, %n : {T}, tensor<3xf32>
      }}
      func.return %0, %1 : {T}, tensor<3xf32>
    }}""")
    assert_round_trip(module)
    assert kinds(lowered(module)) == ["binary", "activation", "where", "where"]


@pytest.mark.parametrize(
    ("predicate", "first", "second", "says"),
    [
        ("tensor<2xi1>", LOG, SAME, "operand 'predicate' must be an i1 tensor of one element"),
        ("tensor<f32>", LOG, SAME, "operand 'predicate' must be an i1 tensor of one element"),
        ("tensor<i1>", SAME.replace("2x3", "3x2"), SAME, "the first body must take"),
        ("tensor<i1>", LOG, ALWAYS, "the second body must yield"),
    ],
)
def test_an_if_is_verified(predicate: str, first: str, second: str, says: str):
    with pytest.raises((VerifyException, ValueError), match=says):
        branch(predicate, first, second)


def test_a_body_takes_rlx_operations_only():
    with pytest.raises(VerifyException, match=r"the first body takes rlx operations only, got 'test\.op'"):
        branch(first=LOG.replace("  rlx.yield", '  "test.op"() : () -> ()\n  rlx.yield'))


# while.


def test_a_loop_stops_when_its_condition_fails():
    module = loop(SMALL, "{max_iterations = 100}")
    assert_round_trip(module)
    (y,) = run(module, np.full((2, 3), 3.0, np.float32))
    assert (y == 6561).all()  # 6·3⁴ is below 1000, 6·3⁸ is not.
    unbounded = loop(SMALL, "")
    assert_round_trip(unbounded)
    assert (run(unbounded, np.full((2, 3), 3.0, np.float32))[0] == 6561).all()


def test_a_bounded_loop_is_unrolled():
    """RLX's stored case: three squares of 2 and 3."""
    after = lowered(loop(ALWAYS))
    x = np.array([[2.0, 3.0, 1.0], [0.0, -1.0, 2.0]], np.float32)
    np.testing.assert_array_equal(run(after, x)[0], x**8)
    assert kinds(after).count("where") == 3


def test_values_freeze_once_the_condition_has_failed():
    after = lowered(loop(SMALL, "{max_iterations = 5}"))
    (y,) = run(after, np.full((2, 3), 3.0, np.float32))
    assert (y == 6561).all()


def test_no_iteration():
    assert kinds(lowered(loop(SMALL, "{max_iterations = 0}"))) == ["constant"]


def test_two_carried_values_are_selected_in_each_iteration():
    """RLX's stored case: 3 iterations of 2 values are 6 selections."""
    module = parse(f"""
    func.func @main(%x: {T}, %n: tensor<f32>) -> ({T}, tensor<f32>) {{
      %y, %m = rlx.while(%x, %n) {{max_iterations = 3}} : ({T}, tensor<f32>) -> ({T}, tensor<f32>) {{
      ^bb0(%a: {T}, %b: tensor<f32>):
        %z = rlx.constant dense<0.0> : tensor<f32>
        %c = rlx.compare gt %b, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
        rlx.yield %c : tensor<i1>
      }} do {{
      ^bb0(%a: {T}, %b: tensor<f32>):
        %one = rlx.constant dense<1.0> : tensor<f32>
        %less = rlx.binary sub %b, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
        %more = rlx.binary add %a, %b : ({T}, tensor<f32>) -> {T}
        rlx.yield %more, %less : {T}, tensor<f32>
      }}
      func.return %y, %m : {T}, tensor<f32>
    }}""")
    assert_round_trip(module)
    after = lowered(module)
    assert kinds(after).count("where") == 6
    y, m = run(after, np.zeros((2, 3), np.float32), np.array(2.0, np.float32))
    assert (y == 3).all()
    assert m == 0


def test_an_if_and_a_loop():
    """RLX's stored case: 3 selections and 4 products."""
    text = f"""
    %z = rlx.if(%p, %x) : (tensor<i1>, {T}) -> {T} {{{LOG}}} else {{{SAME}}}
    %y = rlx.while(%z) {{max_iterations = 2}} : {T} -> {T} {{{ALWAYS}}} do {{{SQUARE}}}"""
    after = lowered(graph(text, f"%p: tensor<i1>, %x: {T}", T, "%y"))
    assert kinds(after).count("where") == 3
    assert sum("rlx.binary mul" in line for line in print_module(after).splitlines()) == 4


def test_control_flow_in_control_flow():
    square, same = (body.replace("%a", "%b") for body in (SQUARE, SAME))
    inner = f"""
    ^bb0(%a: {T}):
      %q = rlx.constant dense<true> : tensor<i1>
      %i = rlx.if(%q, %a) : (tensor<i1>, {T}) -> {T} {{{square}}} else {{{same}}}
      rlx.yield %i : {T}
    """
    after = lowered(loop(SMALL, body=inner))
    assert not {"if", "while"} & set(kinds(after))
    assert kinds(after).count("where") == 6


@pytest.mark.parametrize(
    ("bound", "says"),
    [("", "it has no max_iterations"), ("{max_iterations = 2000}", "2000 iterations are more than max-unroll=1024")],
)
def test_loops_that_cannot_be_unrolled_are_errors(bound: str, says: str):
    with pytest.raises(DiagnosticException, match=says):
        LowerControlFlow().apply(Context(), loop(SMALL, bound))


@pytest.mark.parametrize(
    ("condition", "bound", "body", "says"),
    [
        (SQUARE, "", SQUARE, "the condition must yield an i1 tensor of one element"),
        (ALWAYS, "", ALWAYS, "the body must yield"),
        (ALWAYS, "{max_iterations = -1}", SQUARE, "max_iterations must not be negative"),
    ],
)
def test_a_while_is_verified(condition: str, bound: str, body: str, says: str):
    with pytest.raises(VerifyException, match=says):
        loop(condition, bound, body)


# scan.


def scan(attributes: str, result: str) -> ModuleOp:
    """carry · whole + part."""
    return graph(
        f"""
        %y = rlx.scan(%c, %w, %xs) {attributes} : (tensor<3xf32>, tensor<f32>, tensor<4x3xf32>) -> {result} {{
        ^bb0(%carry: tensor<3xf32>, %whole: tensor<f32>, %part: tensor<3xf32>):
          %m = rlx.binary mul %carry, %whole : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
          %s = rlx.binary add %m, %part : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
          rlx.yield %s : tensor<3xf32>
        }}""",
        "%c: tensor<3xf32>, %w: tensor<f32>, %xs: tensor<4x3xf32>",
        result,
        "%y",
    )


@pytest.mark.parametrize("trajectory", [True, False])
def test_a_scan(trajectory: bool):
    attributes = "{length = 4, num_bcast = 1, save_trajectory}" if trajectory else "{length = 4, num_bcast = 1}"
    module = scan(attributes, "tensor<4x3xf32>" if trajectory else "tensor<3xf32>")
    assert_round_trip(module)
    rng = np.random.default_rng(0)
    carry, whole, parts = (rng.standard_normal(s).astype(np.float32) for s in ((3,), (), (4, 3)))
    rows = []
    value = carry
    for part in parts:
        value = value * whole + part
        rows.append(value)
    (y,) = run(module, carry, whole, parts)
    np.testing.assert_array_equal(y, np.stack(rows) if trajectory else value)
    assert kinds(lowered(module)) == kinds(module)
    assert "scan" not in kinds(lowered(module, unroll_scan=True))


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ("{length = 5, num_bcast = 1}", "operand #2 must have the first extent 5"),
        ("{length = 0, num_bcast = 1}", "length must be positive"),
        ("{length = 4, num_bcast = 3}", "num_bcast must be 0 to 2"),
        ("{length = 4}", "operand #1 must have the first extent 4"),
    ],
)
def test_a_scan_is_verified(attributes: str, says: str):
    with pytest.raises(VerifyException, match=says):
        scan(attributes, "tensor<3xf32>")


def test_a_scan_whose_steps_cannot_be_written():
    """A reshape states all extents but one."""
    step, all_steps = "tensor<?x?xf32>", "tensor<3x?x?xf32>"
    body = f"""{{
    ^bb0(%a: {step}, %b: {step}):
      %0 = rlx.binary add %a, %b : ({step}, {step}) -> {step}
      rlx.yield %0 : {step}
    }}"""
    module = graph(
        f"%y = rlx.scan(%x, %xs) {{length = 3}} : ({step}, {all_steps}) -> {step} {body}",
        f"%x: {step}, %xs: {all_steps}",
        step,
        "%y",
    )
    assert kinds(lowered(module)) == kinds(module)
    with pytest.raises(VerifyException, match=r"'rlx\.scan': no step of it .* several extents of 3x\?x\? are unknown"):
        lowered(module, unroll_scan=True)


def test_unused_control_flow_is_dead():
    module = parse(f"""
    func.func @main(%p: tensor<i1>, %x: {T}) -> {T} {{
      %0 = rlx.if(%p, %x) : (tensor<i1>, {T}) -> {T} {{{LOG}}} else {{{SAME}}}
      func.return %x : {T}
    }}""")
    DeadCodeElimination().apply(Context(), module)
    assert kinds(module) == []
