"""The common assembly format where it is easy to get wrong: line ends, names of attributes."""

from __future__ import annotations

from helpers import assert_round_trip, parse
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64

from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.reduction import SoftmaxOp
from rlx_dialect.xdsl_compat import print_module

GRAPH = """\
func.func @main(%x: tensor<2x3xf32>, %row: tensor<3xf32>, %column: tensor<2x1xf32>) {{
{}
  func.return
}}
"""


def test_signatures_over_several_lines():
    """What the parser remembers of a line must not stand for a line that only begins like it."""
    lines = """\
  %0 = rlx.binary add %x, %row : (tensor<2x3xf32>,
       tensor<3xf32>) -> tensor<2x3xf32>
  %1 = rlx.binary add %x, %column : (tensor<2x3xf32>,
       tensor<2x1xf32>) -> tensor<2x3xf32>
  %2 = rlx.reduce sum %x {axes = [0]} : tensor<2x3xf32>
       -> tensor<3xf32>
  %3 = rlx.activation relu %x : tensor<2x3xf32>
  %4 = rlx.reduce sum %x {axes = [1]} : tensor<2x3xf32>  // a comment
       // and another
       -> tensor<2xf32>
  %5 = rlx.activation relu %x :
       tensor<2x3xf32>
  %6 = rlx.activation relu %row :
       tensor<3xf32>
"""
    text = print_module(parse(GRAPH.format(lines)))
    joined = lines.replace("  // a comment\n       // and another", "").replace("\n       ", " ")
    assert text == print_module(parse(GRAPH.format(joined)))


def test_every_kind_of_line_end():
    lines = "  %0 = rlx.activation relu %x : tensor<2x3xf32>\n  %1 = rlx.activation exp %0 : tensor<2x3xf32>"
    text = GRAPH.format(lines)
    for end in ("\r\n", "\r", " "):
        assert print_module(parse(text.replace("\n", end))) == print_module(parse(text))


def test_attributes_without_a_prefix():
    """They are no properties, even where they have the name of one."""
    softmax = '%0 = "rlx.softmax"(%x) <{axis = 0 : i64}> {axis = 1 : i64, flag} : (tensor<2x3xf32>) -> tensor<2x3xf32>'
    module = parse(GRAPH.format(softmax))
    assert_round_trip(module)
    assert '{axis = 0, "axis" = 1 : i64, "flag"}' in print_module(module)
    (op,) = (op for op in parse(print_module(module)).walk() if isinstance(op, SoftmaxOp))
    assert op.axis == IntegerAttr(0, i64)
    assert op.attributes == {"axis": IntegerAttr(1, i64), "flag": UnitAttr()}


def test_attributes_with_a_prefix_are_written_bare():
    module = parse(GRAPH.format('%0 = rlx.activation relu %x {my.note = "a", "my.b c"} : tensor<2x3xf32>'))
    assert '{my.note = "a", "my.b c"}' in print_module(module)
    assert_round_trip(module)
    (op,) = (op for op in module.walk() if isinstance(op, ActivationOp))
    assert op.attributes == {"my.note": StringAttr("a"), "my.b c": UnitAttr()}


def test_operands_of_a_signature_in_the_next_line_are_counted():
    """A remembered signature of two operand types is not one of one."""
    lines = """\
  %0 = rlx.binary add %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>)
      -> tensor<2x3xf32>
  %1 = rlx.binary mul %0, %x : (tensor<2x3xf32>, tensor<2x3xf32>)
      -> tensor<2x3xf32>
"""
    module = parse(GRAPH.format(lines))
    assert [len(op.operands) for op in module.walk() if isinstance(op, BinaryOp)] == [2, 2]
