"""Softmax in primitives.

Before::

    %0 = rlx.reduce max %x {axes = [1], keep_dim}   : …
    %1 = rlx.binary sub %x, %0                      : …
    %2 = rlx.activation exp %1                      : …
    %3 = rlx.reduce sum %2 {axes = [1], keep_dim}   : …
    %4 = rlx.binary div %2, %3                      : …

After::

    %4 = rlx.softmax %x : …

Without the maximum exp may overflow where the softmax does not: ``nan-policy``. With it the steps are those of the
operation (``wider`` for f16 and bf16), except for a product with the reciprocal of the sum (``reassociated``).
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import RlxOp
from rlx_dialect.ops.elementwise import StopGradientOp
from rlx_dialect.ops.reduction import ReduceOp, SoftmaxOp
from rlx_dialect.passes.canonical._match import Apply, Either, Term, Var, exp, recip, reduce
from rlx_dialect.passes.canonical._spelling import Found, Spelling
from rlx_dialect.passes.matching.fusion import Miss, Numerics, Reason
from rlx_dialect.xdsl_compat import PatternRewriter

x = Var()


class ToSoftmax(Spelling):
    """Powers over their sum → ``rlx.softmax`` along the axis of the reductions."""

    def accept(self, found: Found, /) -> Miss | None:
        axes = {_axes(op) for op in found.applied(ReduceOp)}
        if len(axes) == 1 and len(next(iter(axes))) == 1:
            return None
        listed = " and ".join(str(list(a)) for a in sorted(axes)) or "dropped axes"
        detail = f"the reductions are along {listed}"
        return Miss(Reason.AXIS, found.root, detail, "a softmax is along one axis, which is kept")

    def build(self, found: Found, rewriter: PatternRewriter, /) -> RlxOp:
        ((axis,),) = {_axes(op) for op in found.applied(ReduceOp)}
        return SoftmaxOp(found[x], axis)


def _axes(op: RlxOp) -> tuple[int, ...]:
    """Those of a reduction that keeps them, else none."""
    assert isinstance(op, ReduceOp)
    return op.axis_indices if op.keep_dim is not None else ()


def patterns() -> Sequence[Spelling]:
    greatest = reduce(ReduceKind.MAX, x)
    # No gradient flows through the maximum, which some programs say.
    shifted = exp(x - Either(greatest, Apply(StopGradientOp, None, greatest)))
    plain = exp(x)
    return [
        ToSoftmax(x, [shifted / _sum(shifted)], Numerics.WIDER),
        ToSoftmax(x, [shifted * recip(_sum(shifted))], Numerics.REASSOCIATED),
        ToSoftmax(x, [plain / _sum(plain), plain * recip(_sum(plain))], Numerics.NAN_POLICY),
    ]


def _sum(value: Term) -> Term:
    return reduce(ReduceKind.SUM, value)
