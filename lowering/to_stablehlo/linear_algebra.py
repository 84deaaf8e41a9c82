"""Factors and solutions of matrices that XLA has operations for; f16 and bf16 are computed in f32."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import BoolAttr, i1, i32
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import element_of, rank_of
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, lowers
from rlx_dialect.lowering.to_stablehlo.dialect import TransposeAttr
from rlx_dialect.lowering.to_stablehlo.shape import triangle
from rlx_dialect.lowering.to_stablehlo.tensors import Tensors
from rlx_dialect.ops.linear_algebra import CholeskyOp, TriangularSolveOp


def _diagonal_has(c: Tensors, matrix: SSAValue, found: SSAValue) -> SSAValue:
    """[...]: whether an element of the diagonal is among those that ``found`` marks."""
    rank, own = rank_of(matrix), c.extents(matrix)
    on = c.compare("EQ", c.iota(own, rank - 1, i32), c.iota(own, rank - 2, i32))
    return c.reduce(ReduceKind.MAX, c.same("and", on, found), [rank - 2, rank - 1])


def _nan_where(c: Tensors, bad: SSAValue, value: SSAValue) -> SSAValue:
    """``value`` [..., N, K], NaN for each matrix that is ``bad`` [...]."""
    bad = c.broadcast(bad, range(rank_of(bad)), c.extents(value))
    return c.same("select", bad, c.like(value, np.nan), value)


@lowers(CholeskyOp)
def cholesky(op: CholeskyOp, c: Conversion) -> SSAValue:
    a = c.widened(op.a)
    factor = c.made("cholesky", [a], element_of(a), c.extents(a), lower=BoolAttr(1, i1))
    factor = triangle(c, factor, 0, upper=False)
    return c.convert(_nan_where(c, _diagonal_has(c, factor, c.is_nan(factor)), factor), op.element(0))


@lowers(TriangularSolveOp)
def triangular_solve(op: TriangularSolveOp, c: Conversion) -> SSAValue:
    a, b = c.widened(op.a), c.widened(op.b)
    right = b if rank_of(b) == rank_of(a) else c.unit_axis(b, rank_of(b))
    found = c.made(
        "triangular_solve",
        [a, right],
        element_of(right),
        c.extents(right),
        left_side=BoolAttr(1, i1),
        lower=BoolAttr(int(op.lower is not None), i1),
        unit_diagonal=BoolAttr(0, i1),
        transpose_a=TransposeAttr.of("NO_TRANSPOSE" if op.transpose is None else "TRANSPOSE"),
    )
    found = _nan_where(c, _diagonal_has(c, a, c.compare("EQ", a, c.like(a, 0))), found)
    return c.convert(c.reshape(found, c.extents(b)), op.element(0))
