"""ONNX matrix products."""

from __future__ import annotations

from rlx_dialect.builder import Value
from rlx_dialect.frontends.onnx.known import Extent
from rlx_dialect.frontends.onnx.node import Node
from rlx_dialect.frontends.onnx.registry import imports


@imports("MatMul")
def mat_mul(node: Node) -> Value:
    """As NumPy's matmul: a vector is a row at the left and a column at the right, and that axis is dropped again."""
    lhs, rhs = node.value(0), node.value(1)
    row, column = lhs.rank == 1, rhs.rank == 1
    one = (1,) * node.graph.sizes
    if row:
        lhs = node.reshape(lhs, [one, *node.extents_of(lhs)])
    if column:
        rhs = node.reshape(rhs, [*node.extents_of(rhs), one])
    product = lhs @ rhs
    kept: list[Extent] = node.extents_of(product)
    if column:
        del kept[-1]
    if row:
        del kept[-1 if column else -2]
    return node.reshape(product, kept)


@imports("Gemm")
def gemm(node: Node) -> Value:
    """alpha·A'·B' + beta·C, where A' and B' may be transposed and C broadcasts to the product."""
    a, b = (
        node.graph.transpose(x, (1, 0)) if node.flag(name) else x
        for x, name in ((node.value(0), "transA"), (node.value(1), "transB"))
    )
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    product = a @ b
    if alpha != 1.0:
        product = product * alpha
    if not node.has(2):
        return product
    addend = node.value(2)
    return product + (addend if beta == 1.0 else addend * beta)
