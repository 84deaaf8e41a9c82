"""ONNX normalisations; those that RLX has no operation for are made of reductions and affine steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlx_dialect.builder import Value
from rlx_dialect.frontends.onnx.node import Node
from rlx_dialect.frontends.onnx.registry import imports
from rlx_dialect.ops.convolution import PoolOp
from rlx_dialect.shapes import normal_axis, product


def per_channel(node: Node, vector: Value, x: Value) -> Value:
    """A [C] vector shaped to broadcast along axis 1 of ``x``, of its element type."""
    shaped = vector if x.rank == 2 else node.graph.reshape(vector, [*vector.shape, *(1,) * (x.rank - 2)])
    return node.graph.cast(shaped, x.element)


@imports("BatchNormalization")
def batch_normalization(node: Node) -> Value:
    """One multiplication and one addition for each channel, by parameters that the statistics are folded into."""
    if node.flag("training_mode") or not node.flag("spatial", True):
        node.fail("training_mode must be off and spatial on")
    x, eps = node.value(0), node.real("epsilon", 1e-5)

    def affine(vectors: Sequence[Value]) -> list[Value]:
        gamma, beta, mean, variance = vectors
        graph = gamma.graph
        scale = gamma * graph.cast(graph.activation("rsqrt", variance + eps), gamma.element)
        return [scale, beta - graph.cast(mean, beta.element) * scale]

    scale, shift = node.derived(range(1, 5), ["scale", "shift"], affine)
    return x * per_channel(node, scale, x) + per_channel(node, shift, x)


def _trailing(node: Node, axis: int, x: Value) -> tuple[Value, tuple[int, ...]]:
    """``x`` with its axes from ``axis`` on flattened into one, and their extents."""
    shape = node.static_shape_of_axes(x, range(axis, x.rank))
    flat = (product(shape),) * node.graph.sizes
    return node.reshape(x, [*node.extents_of(x)[:axis], flat]), shape


def _vector(node: Node, index: int, shape: tuple[int, ...]) -> Value:
    """A scale or bias operand, broadcast to the normalised extents and flattened."""
    vector = node.value(index)
    if vector.shape != shape:
        vector = node.graph.expand(vector, shape)
    return node.graph.reshape(vector, [product(shape)])


def _filled(node: Node, number: float, width: int, like: Value) -> Value:
    return node.graph.constant(np.full(width, number), like.element)


@imports("LayerNormalization", "RMSNormalization")
def layer_normalization(node: Node) -> Value:
    """Over all axes from ``axis`` on."""
    x = node.value(0)
    extents = node.extents_of(x)
    flat, shape = _trailing(node, normal_axis(node.integer("axis", -1), x.rank), x)
    gamma = _vector(node, 1, shape)
    has_beta = node.op_type == "LayerNormalization" and node.has(2)
    beta = _vector(node, 2, shape) if has_beta else _filled(node, 0.0, product(shape), x)
    norm = node.graph.layer_norm if node.op_type == "LayerNormalization" else node.graph.rms_norm
    return node.reshape(norm(flat, gamma, beta, eps=node.real("epsilon", 1e-5)), extents)


def _normalized_groups(node: Node, x: Value, groups: int) -> Value:
    """``x`` [N, C, …] normalised over the channels of each of ``groups`` groups and all spatial axes."""
    shape = node.static_shape_of_axes(x, range(1, x.rank))
    width = product(shape) // groups
    extents = node.extents_of(x)
    grouped = node.reshape(x, [extents[0], (groups,) * node.graph.sizes, (width,) * node.graph.sizes])
    ones, zeros = _filled(node, 1.0, width, x), _filled(node, 0.0, width, x)
    return node.reshape(node.graph.layer_norm(grouped, ones, zeros, eps=node.real("epsilon", 1e-5)), extents)


def _affine(node: Node, x: Value, gamma: Value, beta: Value) -> Value:
    return x * per_channel(node, gamma, x) + per_channel(node, beta, x)


@imports("InstanceNormalization")
def instance_normalization(node: Node) -> Value:
    x, gamma, beta = node.values()
    return _affine(node, _normalized_groups(node, x, x.shape[1]), gamma, beta)


@imports("GroupNormalization")
def group_normalization(node: Node) -> Value:
    """Scale and bias are one number a group before operator set 21 and one a channel from then on."""
    (x, *vectors), groups = node.values(), node.integer("num_groups", 1)
    normalized = _normalized_groups(node, x, groups)
    if node.opset < 21:
        vectors = [_repeated(node, v, x.shape[1] // groups) for v in vectors]
    return _affine(node, normalized, vectors[0], vectors[1])


def _repeated(node: Node, vector: Value, times: int) -> Value:
    (count,) = vector.shape
    column = node.graph.expand(node.graph.reshape(vector, [count, 1]), [count, times])
    return node.graph.reshape(column, [count * times])


@imports("LRN")
def local_response_normalization(node: Node) -> Value:
    """x / (bias + alpha/size · Σ of squares over ``size`` neighbouring channels)^beta."""
    g, x, size = node.graph, node.value(0), node.integer("size", 1)
    shape = node.static_shape_of_axes(x, range(1, x.rank))
    # Channels become a spatial axis, so that their sums are a pooling.
    rows: Sequence[int] = [1, shape[0], product(shape[1:])]
    squares = node.reshape(x * x, [node.extents_of(x)[0], *((r,) * g.sizes for r in rows)])
    before = (size - 1) // 2
    pool = PoolOp("sum", squares.ssa, [size, 1], padding=[before, 0, size - 1 - before, 0])
    sums = node.reshape(g.insert(pool), node.extents_of(x))
    scale = sums * (node.real("alpha", 1e-4) / size) + node.real("bias", 1.0)
    return x / scale ** node.real("beta", 0.75)
