"""Matrix products that become one by putting their weights side by side: what they are made of, and the one product.

The weights must be known before the call (:func:`rlx_dialect.graph.is_load_time`): then they are put together once,
when they are loaded (:mod:`rlx_dialect.fold_parameters`). Others would be copied on every call, which for weights that
are as large as memory is fast costs more than any product that is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import byte_size, shape_of
from rlx_dialect.graph import is_load_time
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp, MatMulOp
from rlx_dialect.ops.shape import ConcatOp
from rlx_dialect.passes.matching.fusion import Miss, Reason
from rlx_dialect.shapes import is_static, show
from rlx_dialect.xdsl_compat import PatternRewriter

ProductOp = MatMulOp | FusedMatMulBiasActOp


@dataclass(frozen=True)
class Product:
    """input · weight, or input · weight + bias; its activation, where it has one, is not part of it."""

    op: ProductOp
    input: SSAValue
    weight: SSAValue
    bias: SSAValue | None

    @classmethod
    def of(cls, op: ProductOp) -> Product:
        if isinstance(op, MatMulOp):
            return cls(op, op.lhs, op.rhs, None)
        return cls(op, op.input, op.weight, op.bias)

    @cached_property
    def columns(self) -> int:
        return shape_of(self.weight)[-1]


def not_packable(product: Product, site: Operation, known: dict[SSAValue, bool]) -> Miss | None:
    """None if the weight and the bias can be put beside others, else why not, at ``site``.

    They are static, the weight of rank 2, and known at load time; ``known`` is for :func:`is_load_time`.
    """
    for what, value, rank in (("weight", product.weight, 2), ("bias", product.bias, 1)):
        if value is None:
            continue
        shape = shape_of(value)
        if len(shape) != rank:
            detail = f"the {what} {show(shape)} has rank {len(shape)}"
            return Miss(Reason.RANK, site, detail, f"a {what} of rank {rank} can be put beside others")
        if not is_static(shape):
            detail = f"the {what} {show(shape)} has an extent that is only known at run time"
            return Miss(Reason.DYNAMIC_EXTENT, site, detail, f"give the {what} a static shape")
        if not is_load_time(value, known):
            name = f"%{value.name_hint}" if value.name_hint else what
            detail = f"the {what} {name} is known only at run time: its {byte_size(value.type)} bytes would be copied"
            return Miss(Reason.COPIED_EVERY_CALL, site, detail, f"make the {what} a parameter (rlx.param)")
    return None


def packed(products: Sequence[Product], rewriter: PatternRewriter) -> SSAValue:
    """One product of all weights side by side, in this order, inserted at the rewriter's place; no activation.

    The products have one input and all a bias or none.
    """
    input = products[0].input
    weight = _concatenated([p.weight for p in products], 1, rewriter)
    biases = [p.bias for p in products if p.bias is not None]
    if not biases:
        return rewriter.insert(MatMulOp(input, weight)).result
    return rewriter.insert(FusedMatMulBiasActOp(input, weight, _concatenated(biases, 0, rewriter))).result


def _concatenated(values: Sequence[SSAValue], axis: int, rewriter: PatternRewriter) -> SSAValue:
    return rewriter.insert(ConcatOp(values, axis)).result
