"""Matrices, by MLX's linear algebra, which runs on the CPU; f16 and bf16 are computed in f32."""

from __future__ import annotations

from rlx_dialect.attributes import QrPart, SvdPart
from rlx_dialect.base import shape_of
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import dtype, tuple_text
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.linear_algebra import (
    CholeskyOp,
    DenseSolveOp,
    DetOp,
    LogDetOp,
    MatrixOp,
    QrOp,
    SolveOp,
    SvdOp,
    TriangularSolveOp,
)
from rlx_dialect.shapes import DYNAMIC


def _is_empty(op: MatrixOp) -> bool:
    return any(0 in shape_of(v) for v in (*op.operands, *op.results))


def _nothing(op: MatrixOp, w: Writer) -> str:
    """A result without elements: what is not known of its extents is as in the operand of its shape."""
    like = op.operands[1] if isinstance(op, SolveOp) else op.operands[0]
    shape = [w.extent(like, axis) if d == DYNAMIC else d for axis, d in enumerate(shape_of(op.results[0]))]
    return f"mx.zeros({tuple_text(shape)}, {dtype(op.element(0))})"


def _solved(op: SolveOp, w: Writer, helper: str, a: str, *options: object) -> str:
    if _is_empty(op):
        return _nothing(op, w)
    vectors = len(op.shape(1)) < len(op.shape(0))
    b = w.wide(op.operands[1])
    value = w.call(helper, a, f"{b}[..., None]" if vectors else b, *options)
    return w.narrowed(f"{value}[..., 0]" if vectors else value, op.element(0))


@lowers(DenseSolveOp)
def dense_solve(op: DenseSolveOp, w: Writer) -> str:
    return _solved(op, w, "solve", w.wide(op.a))


@lowers(TriangularSolveOp)
def triangular_solve(op: TriangularSolveOp, w: Writer) -> str:
    a, upper = w.wide(op.a), op.lower is None
    if op.transpose is not None:
        a, upper = f"mx.swapaxes({a}, -1, -2)", not upper
    return _solved(op, w, "solve_triangular", a, upper)


@lowers(CholeskyOp)
def cholesky(op: CholeskyOp, w: Writer) -> str:
    return _nothing(op, w) if _is_empty(op) else w.narrowed(w.call("cholesky", w.wide(op.a)), op.element(0))


@lowers(DetOp)
def det(op: DetOp, w: Writer) -> str:
    if 0 in op.shape(0):
        return f"mx.ones({tuple_text(w.extents(op.a)[:-2])}, {dtype(op.element(0))})"
    return w.narrowed(f"mx.linalg.det({w.wide(op.a)}, stream=mx.cpu)", op.element(0))


@lowers(LogDetOp)
def log_det(op: LogDetOp, w: Writer) -> str:
    if 0 in op.shape(0):
        return f"mx.zeros({tuple_text(w.extents(op.a)[:-2])}, {dtype(op.element(0))})"
    return w.narrowed(w.call("log_det", w.wide(op.a)), op.element(0))


@lowers(SvdOp)
def svd(op: SvdOp, w: Writer) -> str:
    if _is_empty(op):
        return _nothing(op, w)
    a = w.wide(op.a)
    part = f"mx.linalg.svd({a}, stream=mx.cpu)[{list(SvdPart).index(op.part.data)}]"
    rows, columns = op.matrix()
    # MLX gives square matrices of singular vectors.
    if DYNAMIC in (rows, columns):
        rank = f"min({a}.shape[-2], {a}.shape[-1])"
    else:
        rank = str(min(rows, columns))
        if op.part.data is SvdPart.S or (rows <= columns if op.part.data is SvdPart.U else columns <= rows):
            return w.narrowed(part, op.element(0))
    cut = {SvdPart.U: f"[..., : {rank}]", SvdPart.S: "", SvdPart.VT: f"[..., : {rank}, :]"}[op.part.data]
    return w.narrowed(f"{part}{cut}", op.element(0))


@lowers(QrOp)
def qr(op: QrOp, w: Writer) -> str:
    if _is_empty(op):
        return _nothing(op, w)
    return w.narrowed(f"mx.linalg.qr({w.wide(op.a)}, stream=mx.cpu)[{list(QrPart).index(op.part.data)}]", op.element(0))
