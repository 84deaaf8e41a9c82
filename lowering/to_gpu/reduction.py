"""Row reductions: reduce over any axes, softmax, the norms and what is fused into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from rlx_dialect.attributes import BinaryKind, NormKind, ReduceKind
from rlx_dialect.dtypes import storage_dtype, wide_element
from rlx_dialect.lowering.arithmetic import Real
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Sym, product
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.rows import Fold, Operand, Program, Row, Values
from rlx_dialect.lowering.to_gpu.views import Literal, View
from rlx_dialect.ops.normalization import (
    AdaLayerNormOp,
    FusedResidualLnOp,
    FusedResidualOp,
    FusedResidualRmsNormOp,
    LayerNormOp,
    RmsNormOp,
)
from rlx_dialect.ops.reduction import COMBINES, REDUCTIONS, ReduceOp, SoftmaxOp


def _loaded(row: Row, *operands: Operand) -> Values:
    """The sum of the operands' elements, column by column."""

    def make(column: Sequence[Index]) -> SSAValue:
        first, *rest = (row.k.real(row.load(o, column)) for o in operands)
        return sum(rest, first).value

    return row.values(make)


def _mean(row: Row, total: SSAValue) -> Real:
    """``total`` divided by how many columns the row has."""
    k = row.k
    if not isinstance(row.length, Sym):
        return k.real(total) / row.length
    count = k.op(arith.IndexCastOp(k.index(row.length), k.hardware.extent))
    real = k.real(total)
    assert isinstance(real.value.type, AnyFloat)
    return real / Real(k.op(arith.UIToFPOp(count, real.value.type)), k.b)


def _less(row: Row, value: SSAValue, of_all: SSAValue) -> SSAValue:
    """``value`` less what was made of all values of the row."""
    x = row.k.real(value)
    if row.length != 1:
        return (x - row.k.real(of_all)).value
    # Of one value it is the value itself. GPU compilers take x - x for 0, also where it is not a number.
    return x.const(0).where(x.apply(math.AbsFOp).below(np.inf), np.nan).value


@lowers(ReduceOp)
def reduce(op: ReduceOp, h: Host) -> None:
    source, result, kind = h.view(op.input), h.result(op.result), op.kind.data
    axes = op.axis_indices
    kept = [a for a in range(len(source.shape)) if a not in axes]
    source = source.transpose([*kept, *axes])
    rows, columns = source.shape[: len(kept)], source.shape[len(kept) :]
    if not product(columns):
        nothing = REDUCTIONS[kind](np.zeros((0,), storage_dtype(source.element)), (0,))[0]
        h.copy(View(Literal(nothing.item()), source.element, (), ()), result)
        return
    target = h.reshape(result, rows).repeat(columns)
    fold = Fold(COMBINES[kind], source.element)

    def write(row: Row, operands: Sequence[Operand]) -> None:
        x, y = operands
        total = row.fold(row.values(lambda column: row.load(x, column)), fold)
        if kind is ReduceKind.MEAN:
            total = _mean(row, total).value
        row.once(lambda: row.store(total, y))

    program = Program(f"reduce {kind}", write)
    h.launch_rows(f"reduce_{kind}", rows, columns, [source, target], program)


@lowers(SoftmaxOp)
def softmax(op: SoftmaxOp, h: Host) -> None:
    axis = op.axis_index
    source, result = h.view(op.input), h.result(op.result)
    perm = [*(a for a in range(len(source.shape)) if a != axis), axis]
    source, target = source.transpose(perm), result.transpose(perm)
    wide = wide_element(source.element)

    def write(row: Row, operands: Sequence[Operand]) -> None:
        x, y = operands
        loaded = _loaded(row, x)
        greatest = row.fold(loaded, Fold(BinaryKind.MAX, wide))
        powers = row.map(loaded, lambda v: row.k.real(_less(row, v, greatest)).apply(math.ExpOp).value)
        total = row.k.real(row.fold(powers, Fold(BinaryKind.ADD, wide)))
        row.each(powers, lambda column, v: row.store((row.k.real(v) / total).value, y, column))

    h.launch_rows("softmax", source.shape[:-1], source.shape[-1:], [source, target], Program("softmax", write))


def _norm(
    h: Host,
    name: str,
    kind: NormKind,
    eps: float,
    summands: Sequence[View],
    scale: View,
    shift: View,
    result: View,
    *,
    total: View | None = None,
    around_one: bool = False,
) -> None:
    """result = n(Σ summands)·scale + shift over the last axis, and total = Σ summands.

    ``around_one``: 1 + scale in the place of scale.
    """
    shape = result.shape
    wide = wide_element(result.element)
    add = Fold(BinaryKind.ADD, wide)

    def write(row: Row, operands: Sequence[Operand]) -> None:
        inputs, (g, b, y), rest = (
            operands[: len(summands)],
            operands[len(summands) :][:3],
            operands[len(summands) + 3 :],
        )
        k = row.k
        values = _loaded(row, *inputs)
        for sum_operand in rest:
            row.each(values, lambda column, v, to=sum_operand: row.store(v, to, column))
        if kind is NormKind.LAYER_NORM:
            mean = _mean(row, row.fold(values, add))
            values = row.map(values, lambda v: _less(row, v, mean.value))
        variance = _mean(row, row.fold(values, add, lambda v: (k.real(v) * k.real(v)).value))
        factor = 1 / (variance + eps).apply(math.SqrtOp)

        def finish(column: Sequence[Index], value: SSAValue) -> None:
            gain, bias = k.real(row.load(g, column)), k.real(row.load(b, column))
            if around_one:
                gain = gain + 1
            row.store((k.real(value) * factor * gain + bias).value, y, column)

        row.each(values, finish)

    views = [*summands, scale, shift, result, *([] if total is None else [total])]
    key = f"norm {kind} {eps} {len(summands)} {around_one}"
    program = Program(key, write)
    h.launch_rows(name, shape[:-1], shape[-1:], [v.broadcast(shape) for v in views], program)


@lowers(LayerNormOp, RmsNormOp)
def norm(op: LayerNormOp | RmsNormOp, h: Host) -> None:
    x, gamma, beta = (h.view(o) for o in op.operands)
    # A flattening RMS norm gives the same elements in another shape.
    result = h.reshape(h.result(op.result), x.shape)
    _norm(h, _hint(op.name), op.KIND, op.eps.value.data, [x], gamma, beta, result)


@lowers(FusedResidualLnOp, FusedResidualRmsNormOp)
def residual_norm(op: FusedResidualOp, h: Host) -> None:
    *summands, gamma, beta = (h.view(o) for o in op.operands)
    result = h.result(op.result)
    total = None if op.sum is None else h.result(op.sum)
    _norm(h, _hint(op.name), op.NORM.KIND, op.eps.value.data, summands, gamma, beta, result, total=total)


@lowers(AdaLayerNormOp)
def adaptive_norm(op: AdaLayerNormOp, h: Host) -> None:
    x, scale, shift = (h.view(o) for o in op.operands)
    _norm(h, _hint(op.name), op.norm.data, op.eps.value.data, [x], scale, shift, h.result(op.result), around_one=True)


def _hint(name: str) -> str:
    return name.removeprefix("rlx.")
