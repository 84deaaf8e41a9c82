"""ONNX reductions and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.builder import Value
from rlx_dialect.frontends.onnx.node import Node
from rlx_dialect.frontends.onnx.registry import imports
from rlx_dialect.shapes import normal_axis

REDUCTIONS: Mapping[str, ReduceKind] = {
    "ReduceL1": ReduceKind.SUM,
    "ReduceL2": ReduceKind.SUM,
    "ReduceLogSum": ReduceKind.SUM,
    "ReduceLogSumExp": ReduceKind.SUM,
    "ReduceMax": ReduceKind.MAX,
    "ReduceMean": ReduceKind.MEAN,
    "ReduceMin": ReduceKind.MIN,
    "ReduceProd": ReduceKind.PROD,
    "ReduceSum": ReduceKind.SUM,
    "ReduceSumSquare": ReduceKind.SUM,
}

BEFORE: Mapping[str, Callable[[Node, Value], Value]] = {
    "ReduceL1": lambda node, x: node.graph.activation("abs", x),
    "ReduceL2": lambda node, x: x * x,
    "ReduceSumSquare": lambda node, x: x * x,
}
AFTER: Mapping[str, Callable[[Node, Value], Value]] = {
    "ReduceL2": lambda node, x: node.graph.sqrt(x),
    "ReduceLogSum": lambda node, x: node.graph.activation("log", x),
}
AXES_ARE_OPERANDS_SINCE = {"ReduceSum": 13}
"""Operator set from which axes are an operand; 18 for the others."""


@imports(*REDUCTIONS)
def reduction(node: Node) -> Value:
    """Over all axes when none are named, unless ``noop_with_empty_axes``; axes stay as 1 unless ``keepdims`` is off."""
    x = node.value(0)
    axes = node.axes(1, since=AXES_ARE_OPERANDS_SINCE.get(node.op_type, 18)) or []
    keep = node.flag("keepdims", True)
    if not axes:
        axes = [] if node.flag("noop_with_empty_axes") else list(range(x.rank))
    if node.op_type == "ReduceLogSumExp":
        return _log_sum_exp(node, x, axes, keep)
    if node.op_type in BEFORE:
        x = BEFORE[node.op_type](node, x)
    if axes:
        x = node.graph.reduce(REDUCTIONS[node.op_type], x, axes, keep_dim=keep)
    return AFTER[node.op_type](node, x) if node.op_type in AFTER else x


def _log_sum_exp(node: Node, x: Value, axes: list[int], keep: bool) -> Value:
    """Shifted by the maximum, so that exp does not overflow; a maximum that is infinite is left where it is."""
    g = node.graph
    if not axes:
        return x
    top = g.reduce("max", x, axes, keep_dim=True)
    finite = g.compare("lt", g.activation("abs", top), float("inf"))
    top = g.where(finite, top, 0.0)
    total = g.activation("log", g.reduce("sum", g.exp(x - top), axes, keep_dim=True)) + top
    if keep:
        return total
    dropped = {normal_axis(a, x.rank) for a in axes}
    return node.reshape(total, [e for i, e in enumerate(node.extents_of(total)) if i not in dropped])


@imports("Softmax", "LogSoftmax")
def softmax(node: Node) -> Value:
    """Along one axis from operator set 13 on; before, over all axes from ``axis`` on, as if they were one."""
    x = node.value(0)
    extents = node.extents_of(x)
    if node.opset >= 13:
        return _softmax(node, x, node.integer("axis", -1))
    axis = node.integer("axis", 1)
    # Here the rank itself is allowed too: everything is before it.
    axis = axis if axis == x.rank else normal_axis(axis, x.rank)
    if axis == x.rank - 1:
        return _softmax(node, x, -1)
    before, after = node.product(extents[:axis]), node.product(extents[axis:])
    return node.reshape(_softmax(node, node.reshape(x, [before, after]), -1), extents)


def _softmax(node: Node, x: Value, axis: int) -> Value:
    g = node.graph
    if node.op_type == "Softmax":
        return g.softmax(x, axis)
    shifted = x - g.reduce("max", x, [axis], keep_dim=True)
    return shifted - g.activation("log", g.reduce("sum", g.exp(shifted), [axis], keep_dim=True))
