"""Solutions, factors and determinants of matrices, which are the last two axes; leading axes are batches.

Floats; f16 and bf16 are computed in f32 and rounded once. None of these is made of simpler operations. A matrix that
has no answer (singular where its inverse is wanted, not positive definite for cholesky) gives NaN, as other matrices
of the batch still have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import QrPart, QrPartAttr, SvdPart, SvdPartAttr
from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import Array, is_float
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, show


def each_matrix(function: Callable[..., Array], shape: tuple[int, ...], *matrices: Array) -> Array:
    """``function`` of each matrix of the batch, into [batch…, ``shape``…]; NaN where NumPy finds no answer.

    NumPy gives up a whole batch for one bad matrix.
    """
    batch = matrices[0].shape[:-2]
    result = np.full((*batch, *shape), np.nan, matrices[0].dtype)
    for index in np.ndindex(batch):
        try:
            result[index] = function(*(m[index] for m in matrices))
        except np.linalg.LinAlgError:
            continue
    return result


class MatrixOp(RlxOp):
    """Base: operand 0 is [..., M, N]; every operand has its float element type."""

    def __init__(self, *operands: Value, result_type: Attribute | None = None, **properties: Any):
        super().__init__(operands, properties, result_types=[result_type])

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"{self.operand_name(0)} must have a float element type, got {self.element(0)}")
        self.check_same_element()

    def matrix(self) -> tuple[int, int]:
        """M and N."""
        shape = self.shape(0)
        if len(shape) < 2:
            raise ShapeError(f"{self.operand_name(0)} must have rank 2 or more, got {show(shape)}")
        return shape[-2], shape[-1]

    def square(self) -> int:
        """The extent of the square operand 0."""
        rows, columns = self.matrix()
        if DYNAMIC not in (rows, columns) and rows != columns:
            raise ShapeError(f"{self.operand_name(0)} must be of square matrices, got {show(self.shape(0))}")
        return columns if rows == DYNAMIC else rows


class SolveOp(MatrixOp):
    """Base: a [..., N, N] and b [..., N, K], or vectors [..., N]; the result has the type of b."""

    def infer_types(self) -> tuple[Attribute, ...]:
        size, a, b = self.square(), self.shape(0), self.shape(1)
        columns = () if len(b) == len(a) - 1 else b[-1:] or (DYNAMIC,)
        wanted: Shape = (*a[:-2], size, *columns)
        if not shapes.compatible(b, wanted):
            raise ShapeError(f"operand 'b' must have shape {show(wanted)}, got {show(b)}")
        return (self.operands[1].type,)

    def solved(self, solve: Callable[..., Array], a: Array, b: Array) -> tuple[Array, ...]:
        columns = b[..., None] if b.ndim < a.ndim else b
        return (each_matrix(solve, columns.shape[-2:], a, columns).reshape(b.shape),)


@irdl_op_definition
class DenseSolveOp(SolveOp):
    """The x with a·x = b, for a [..., N, N] and b [..., N, K], or vectors b [..., N]."""

    name = "rlx.dense_solve"
    a = operand_def()
    b = operand_def()
    result = result_def()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return self.solved(np.linalg.solve, *args)


@irdl_op_definition
class TriangularSolveOp(SolveOp):
    """The x with a·x = b, reading only the upper triangle of a, or with ``lower`` only the lower one.

    With ``transpose`` the equation is aᵀ·x = b; ``lower`` still says which triangle of a is read. Shapes as in
    :class:`DenseSolveOp`.
    """

    name = "rlx.triangular_solve"
    a = operand_def()
    b = operand_def()
    lower = opt_prop_def(UnitAttr)
    transpose = opt_prop_def(UnitAttr)
    result = result_def()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        a, b = args
        triangle = np.tril(a) if self.lower is not None else np.triu(a)
        return self.solved(np.linalg.solve, triangle.swapaxes(-1, -2) if self.transpose is not None else triangle, b)


@irdl_op_definition
class CholeskyOp(MatrixOp):
    """The lower triangular l with l·lᵀ = a, for a symmetric and positive definite; the lower triangle of a is read."""

    name = "rlx.cholesky"
    SAME_TYPE: ClassVar = True
    a = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        self.square()
        return (self.a.type,)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (each_matrix(np.linalg.cholesky, args[0].shape[-2:], args[0]),)


class DeterminantOp(MatrixOp):
    """Base: a number a matrix, [...]."""

    def infer_types(self) -> tuple[Attribute, ...]:
        self.square()
        return (self.like(0, self.shape(0)[:-2]),)


@irdl_op_definition
class DetOp(DeterminantOp):
    """The determinant of a [..., N, N]; 1 where N is 0."""

    name = "rlx.det"
    a = operand_def()
    result = result_def()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.asarray(np.linalg.det(args[0])),)


@irdl_op_definition
class LogDetOp(DeterminantOp):
    """The logarithm of the determinant of a [..., N, N]: -inf where that is 0, NaN where it is negative."""

    name = "rlx.log_det"
    a = operand_def()
    result = result_def()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        # The determinant itself would overflow long before its logarithm does.
        sign, logarithm = np.linalg.slogdet(args[0])
        return (np.where(sign < 0, args[0].dtype.type(np.nan), logarithm),)


def _smaller(rows: int, columns: int) -> int:
    return DYNAMIC if DYNAMIC in (rows, columns) else min(rows, columns)


@irdl_op_definition
class SvdOp(MatrixOp):
    """One ``part`` of the singular value decomposition a = u·diag(s)·vt of a [..., M, N], with R = min(M, N).

    u is [..., M, R], s is [..., R], not negative and descending, vt is [..., R, N]. The signs of the singular vectors,
    and their choice where singular values are equal, are not specified; parts of one operand fit each other.
    """

    name = "rlx.svd"
    KEYWORD: ClassVar = "part"
    a = operand_def()
    part = prop_def(SvdPartAttr)
    result = result_def()

    def __init__(self, part: SvdPart | str, a: Value, *, result_type: Attribute | None = None):
        super().__init__(a, part=part, result_type=result_type)

    def infer_types(self) -> tuple[Attribute, ...]:
        rows, columns = self.matrix()
        rank = _smaller(rows, columns)
        part = {SvdPart.U: (rows, rank), SvdPart.S: (rank,), SvdPart.VT: (rank, columns)}[self.part.data]
        return (self.like(0, (*self.shape(0)[:-2], *part)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        rows, columns = args[0].shape[-2:]
        rank = min(rows, columns)
        index, shape = {
            SvdPart.U: (0, (rows, rank)),
            SvdPart.S: (1, (rank,)),
            SvdPart.VT: (2, (rank, columns)),
        }[self.part.data]
        return (each_matrix(lambda a: np.linalg.svd(a, full_matrices=False)[index], shape, args[0]),)


@irdl_op_definition
class QrOp(MatrixOp):
    """One ``part`` of the decomposition a = q·r of a [..., M, N], with R = min(M, N).

    q is [..., M, R] with orthonormal columns, r is [..., R, N] and upper triangular. The signs of the rows of r are not
    specified; parts of one operand fit each other.
    """

    name = "rlx.qr"
    KEYWORD: ClassVar = "part"
    a = operand_def()
    part = prop_def(QrPartAttr)
    result = result_def()

    def __init__(self, part: QrPart | str, a: Value, *, result_type: Attribute | None = None):
        super().__init__(a, part=part, result_type=result_type)

    def infer_types(self) -> tuple[Attribute, ...]:
        rows, columns = self.matrix()
        rank = _smaller(rows, columns)
        part = (rows, rank) if self.part.data is QrPart.Q else (rank, columns)
        return (self.like(0, (*self.shape(0)[:-2], *part)),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        q, r = np.linalg.qr(args[0])
        return (q if self.part.data is QrPart.Q else r,)
