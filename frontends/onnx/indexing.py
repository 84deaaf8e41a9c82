"""ONNX operators that select or replace elements by positions that are values."""

from __future__ import annotations

from rlx_dialect.builder import Value
from rlx_dialect.frontends.onnx.known import is_same
from rlx_dialect.frontends.onnx.node import Node
from rlx_dialect.frontends.onnx.registry import imports
from rlx_dialect.ops.indexing import GatherElementsOp, GatherNdOp, GatherOp, ScatterElementsOp, ScatterNdOp
from rlx_dialect.shapes import normal_axis


@imports("Gather")
def gather(node: Node) -> Value:
    """One known position is a narrow: it moves less, and fusions see through it."""
    table, axis = node.value(0), normal_axis(node.integer("axis", 0), node.value(0).rank)
    known = node.operand(1).known
    position = None if known is None else known.static
    extents = node.extents_of(table)
    if position is None or position.size != 1 or not is_same(extents[axis]):
        return node.graph.insert(GatherOp(table.ssa, node.value(1).ssa, axis))
    one = [(1,) * node.graph.sizes] * position.ndim
    part = node.graph.narrow(table, axis, int(position.item()) % extents[axis][0], 1)
    return node.reshape(part, [*extents[:axis], *one, *extents[axis + 1 :]])


@imports("GatherElements")
def gather_elements(node: Node) -> Value:
    return node.graph.insert(GatherElementsOp(node.value(0).ssa, node.value(1).ssa, node.integer("axis", 0)))


@imports("GatherND")
def gather_nd(node: Node) -> Value:
    batch = node.integer("batch_dims", 0)
    return node.graph.insert(GatherNdOp(node.value(0).ssa, node.value(1).ssa, batch_dims=batch))


@imports("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Value:
    data, indices, updates = (v.ssa for v in node.values())
    axis, reduction = node.integer("axis", 0), node.word("reduction", "none")
    return node.graph.insert(ScatterElementsOp(data, indices, updates, axis, reduction=reduction))


@imports("ScatterND")
def scatter_nd(node: Node) -> Value:
    data, indices, updates = (v.ssa for v in node.values())
    return node.graph.insert(ScatterNdOp(data, indices, updates, reduction=node.word("reduction", "none")))
