"""Solutions, factors and determinants of matrices, which are the last two axes; leading axes are batches.

Floats; f16 and bf16 are computed in f32 and rounded once. Decompositions are loops of as many steps as a matrix has
columns, so they want its extents known; batches may be unknown. A matrix that has no answer (singular where its inverse
is wanted, not positive definite for cholesky) gives NaN, as other matrices of the batch still have theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import QrPart, QrPartAttr, SvdPart, SvdPartAttr
from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import Array, is_float
from rlx_dialect.ops.extents import positions, unit_axis, without_axis
from rlx_dialect.ops.factorization import cholesky, diagonal, eliminated, flipped, qr, substituted
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.singular_values import Jacobi
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, show
from rlx_dialect.xdsl_compat import Builder


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

    def known(self, *extents: int) -> tuple[int, ...]:
        """``extents`` of the matrix; fails where one is unknown."""
        if DYNAMIC in extents:
            self.fail("cannot be decomposed for a matrix of unknown extents: they are the number of steps")
        return extents


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

    def insert_solution(self, builder: Builder, solve: Callable[[Term, Term, int], Term]) -> tuple[SSAValue, ...]:
        """The result that ``solve`` gives for a, b [..., N, K] and N."""
        (size,) = self.known(self.square())
        a, b = Term.widened(builder, *self.operands)
        x = solve(a, b if b.rank == a.rank else unit_axis(b, b.rank), size) if size else b
        x = x if x.rank == b.rank else without_axis(x, b.rank)
        return self.as_results(x.cast(self.element(1)).value)


@irdl_op_definition
class DenseSolveOp(SolveOp):
    """The x with a·x = b, for a [..., N, N] and b [..., N, K], or vectors b [..., N]."""

    name = "rlx.dense_solve"
    a = operand_def()
    b = operand_def()
    result = result_def()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return self.solved(np.linalg.solve, *args)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Elimination with partial pivoting, and substitution."""

        def solve(a: Term, right: Term, size: int) -> Term:
            done = eliminated(a.concat(a.rank - 1, right), size)
            upper, rest = done.narrow(a.rank - 1, 0, size), right.shape[-1]
            if rest == DYNAMIC:
                taken = positions(right, right.rank - 1) + size
                return substituted(upper, done.insert(GatherOp(done.value, taken.value, a.rank - 1)), size, lower=False)
            return substituted(upper, done.narrow(a.rank - 1, size, rest), size, lower=False)

        return self.insert_solution(b, solve)


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

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Substitution."""
        lower, transpose = self.lower is not None, self.transpose is not None

        def solve(a: Term, right: Term, size: int) -> Term:
            turned = flipped(a) if transpose else a
            return substituted(turned, right, size, lower=lower != transpose)

        return self.insert_solution(b, solve)


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

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Column by column."""
        (size,) = self.known(self.square())
        (a,) = Term.widened(b, self.a)
        return self.as_results((cholesky(a, size) if size else a).cast(self.element(0)).value)


class DeterminantOp(MatrixOp):
    """Base: a number a matrix, [...]."""

    def infer_types(self) -> tuple[Attribute, ...]:
        self.square()
        return (self.like(0, self.shape(0)[:-2]),)

    def pivots(self, b: Builder) -> Term:
        """[..., N]: numbers whose product is the determinant."""
        (size,) = self.known(self.square())
        (a,) = Term.widened(b, self.operands[0])
        return diagonal(eliminated(a, size), size) if size else a.reduce("sum", [a.rank - 2], keep_dim=False)

    def insert_result(self, value: Term) -> tuple[SSAValue, ...]:
        return self.as_results(value.cast(self.element(0)).value)


@irdl_op_definition
class DetOp(DeterminantOp):
    """The determinant of a [..., N, N]; 1 where N is 0."""

    name = "rlx.det"
    a = operand_def()
    result = result_def()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.asarray(np.linalg.det(args[0])),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The product of the pivots of elimination."""
        pivots = self.pivots(b)
        return self.insert_result(pivots.reduce("prod", [pivots.rank - 1], keep_dim=False))


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

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The sum of the logarithms of the pivots of elimination, and their signs."""
        pivots = self.pivots(b)
        last = [pivots.rank - 1]
        logarithm = pivots.apply("abs").apply("log").reduce("sum", last, keep_dim=False)
        sign = pivots.apply("sign").reduce("prod", last, keep_dim=False)
        return self.insert_result(sign.compare("lt", 0.0).where(logarithm.like(np.nan), logarithm))


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

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Rotations of pairs of columns, of a or, where it has more columns than rows, of its transpose."""
        rows, columns = self.known(*self.matrix())
        (a,) = Term.widened(b, self.a)
        return self.as_results(self._part(a, rows, columns).cast(self.element(0)).value)

    def _part(self, a: Term, rows: int, columns: int) -> Term:
        part = self.part.data
        if not min(rows, columns):
            if part is SvdPart.S:
                return a.reduce("sum", [a.rank - 2 if columns == 0 else a.rank - 1], keep_dim=False)
            return a.narrow(a.rank - 1 if part is SvdPart.U else a.rank - 2, 0, 0)
        if part is SvdPart.S:
            tall = a if rows >= columns else flipped(a)
            return Jacobi(tall, max(rows, columns), min(rows, columns), with_v=False).s()
        if rows >= columns:
            if part is SvdPart.U:
                return Jacobi(a, rows, columns, with_v=False).u()
            return flipped(Jacobi(a, rows, columns, with_v=True).v())
        if part is SvdPart.U:
            return Jacobi(flipped(a), columns, rows, with_v=True).v()
        return flipped(Jacobi(flipped(a), columns, rows, with_v=False).u())


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

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Reflections, one a column."""
        rows, columns = self.known(*self.matrix())
        (a,) = Term.widened(b, self.a)
        is_q = self.part.data is QrPart.Q
        if min(rows, columns):
            q, r = qr(a, rows, columns)
            value = q if is_q else r
        else:
            value = a.narrow(a.rank - 1 if is_q else a.rank - 2, 0, 0)
        return self.as_results(value.cast(self.element(0)).value)
