"""Running sums, products and extremes by MLX's own; f16 and bf16 are added up in f32."""

from __future__ import annotations

from collections.abc import Mapping

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.dtypes import is_bool
from rlx_dialect.lowering.to_mlx.conversion import declines, lowers
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.scan import CumulativeOp

RUNNING: Mapping[ReduceKind, str] = {
    ReduceKind.SUM: "mx.cumsum",
    ReduceKind.PROD: "mx.cumprod",
    ReduceKind.MAX: "mx.cummax",
    ReduceKind.MIN: "mx.cummin",
}


@lowers(CumulativeOp)
def cumulative(op: CumulativeOp, w: Writer) -> str:
    inclusive = ", inclusive=False" if op.exclusive is not None else ""
    value = f"{RUNNING[op.kind.data]}({w.wide(op.input)}, axis={op.axis_index}{inclusive})"
    return w.narrowed(value, op.element(0))


@declines(CumulativeOp)
def _cumulative_truth(op: CumulativeOp) -> str | None:
    return "MLX's running extremes are of numbers" if is_bool(op.element(0)) else None
