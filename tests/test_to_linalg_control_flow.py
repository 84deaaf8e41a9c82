"""Branches and loops in linalg: scf on tensors, with trip counts that only run time tells."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import case, compare, lowered

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import main_function
from rlx_dialect.samples import random_values

T, D = "tensor<2x3xf32>", "tensor<?x3xf32>"
ARGUMENTS = {"p": "tensor<i1>", "x": T, "n": "tensor<i32>", "d": D, "xs": "tensor<4x?x3xf32>", "u": "tensor<2xui8>"}

BRANCH = f"""%y0 = rlx.if(%p, %x, %d) : (tensor<i1>, {T}, {D}) -> {T} {{
^bb0(%a: {T}, %b: {D}):
  %e = rlx.activation exp %a : {T}
  rlx.yield %e : {T}
}} else {{
^bb0(%a: {T}, %b: {D}):
  %s = rlx.reduce sum %b {{axes = [0]}} : {D} -> tensor<3xf32>
  %q = rlx.binary sub %a, %s : ({T}, tensor<3xf32>) -> {T}
  rlx.yield %q : {T}
}}"""
COUNTED_BY_A_VALUE = f"""%y1, %y2 = rlx.while(%d, %n) : ({D}, tensor<i32>) -> ({D}, tensor<i32>) {{
^bb0(%a: {D}, %k: tensor<i32>):
  %z = rlx.constant dense<0> : tensor<i32>
  %h = rlx.compare gt %k, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
  rlx.yield %h : tensor<i1>
}} do {{
^bb0(%a: {D}, %k: tensor<i32>):
  %one = rlx.constant dense<1> : tensor<i32>
  %less = rlx.binary sub %k, %one : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %even = rlx.constant dense<false> : tensor<1xi1>
  %w = rlx.if(%even, %a) : (tensor<1xi1>, {D}) -> {D} {{
  ^bb0(%b: {D}):
    rlx.yield %b : {D}
  }} else {{
  ^bb0(%b: {D}):
    %square = rlx.binary mul %b, %b : ({D}, {D}) -> {D}
    rlx.yield %square : {D}
  }}
  rlx.yield %w, %less : {D}, tensor<i32>
}}"""
BOUNDED = """%y3 = rlx.while(%u) {max_iterations = 3000} : tensor<2xui8> -> tensor<2xui8> {
^bb0(%a: tensor<2xui8>):
  %yes = rlx.constant dense<true> : tensor<1xi1>
  rlx.yield %yes : tensor<1xi1>
} do {
^bb0(%a: tensor<2xui8>):
  %one = rlx.constant dense<1> : tensor<ui8>
  %least = rlx.constant dense<200> : tensor<ui8>
  %sum = rlx.binary add %a, %one : (tensor<2xui8>, tensor<ui8>) -> tensor<2xui8>
  %q = rlx.binary max %sum, %least : (tensor<2xui8>, tensor<ui8>) -> tensor<2xui8>
  rlx.yield %q : tensor<2xui8>
}"""
SCANS = f"""%y4 = rlx.scan(%d, %x, %xs) {{length = 4, num_bcast = 1, save_trajectory}} : ({D}, {T}, tensor<4x?x3xf32>) -> tensor<4x?x3xf32> {{
^bb0(%a: {D}, %all: {T}, %part: {D}):
  %s = rlx.reduce sum %all {{axes = [0]}} : {T} -> tensor<3xf32>
  %q = rlx.binary add %a, %part : ({D}, {D}) -> {D}
  %r = rlx.binary sub %q, %s : ({D}, tensor<3xf32>) -> {D}
  rlx.yield %r : {D}
}}
%y5 = rlx.scan(%d, %xs) {{length = 4}} : ({D}, tensor<4x?x3xf32>) -> {D} {{
^bb0(%a: {D}, %part: {D}):
  %q = rlx.binary add %a, %part : ({D}, {D}) -> {D}
  %r = rlx.softmax %q : {D}
  rlx.yield %r : {D}
}}"""  # noqa: E501


def test_branches_and_loops_have_the_reference_s_values():
    module = case(ARGUMENTS, BRANCH, COUNTED_BY_A_VALUE, BOUNDED, SCANS)
    given: list[dict[str, Array]] = []
    for rounds, taken in ((0, True), (3, False)):
        values = random_values(module, rounds, dynamic=3)
        given.append(values | {"n": np.array(rounds, np.int32), "p": np.array(taken)})
    compare(module, *given)


@pytest.mark.parametrize(
    ("text", "kinds"), [(BRANCH, ["scf.if"]), (BOUNDED, ["scf.while"]), (SCANS, ["scf.for", "scf.for"])]
)
def test_a_body_is_neither_repeated_nor_computed_outside(text: str, kinds: list[str]):
    block = main_function(lowered(case(ARGUMENTS, text))).body.block
    assert [op.name for op in block.ops if op.regions and not op.name.startswith("linalg.")] == kinds
    assert not [op for op in block.ops if op.name == "linalg.generic"]
