"""Activations in terms of exp, erf, tanh and so on, and bounds in terms of max and min.

Before, one of many spellings::

    %0 = rlx.binary mul %x, %half                    : …
    %1 = rlx.binary div %x, %root_of_two             : …
    %2 = rlx.activation erf %1                       : …
    %3 = rlx.binary add %2, %one                     : …
    %4 = rlx.binary mul %0, %3                       : …

After::

    %4 = rlx.activation gelu %x : …

The two gelus are two functions and are never taken for each other; x·sigmoid(1.702·x) is neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.base import RlxOp, element_of
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.dtypes import is_float
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, ClampOp, activation_takes
from rlx_dialect.passes.canonical._match import (
    Either,
    Number,
    Term,
    Var,
    absolute,
    clamp,
    compare,
    cube,
    erf,
    exp,
    hard_sigmoid,
    log,
    maximum,
    minimum,
    neg,
    product,
    recip,
    relu,
    scaled,
    sigmoid,
    softplus,
    sqrt,
    square,
    tanh,
    where,
)
from rlx_dialect.passes.canonical._spelling import Found, Spelling
from rlx_dialect.passes.matching.fusion import Miss, Numerics, Reason
from rlx_dialect.xdsl_compat import PatternRewriter

x = Var()
REASSOCIATED, WIDER, NAN_POLICY = Numerics.REASSOCIATED, Numerics.WIDER, Numerics.NAN_POLICY


class ToActivation(Spelling):
    """A formula of one variable → ``rlx.activation`` of a kind."""

    def __init__(self, kind: ActivationKind, numerics: Numerics, *formulas: Term):
        super().__init__(x, formulas, numerics)
        self.kind = kind

    def accept(self, found: Found, /) -> Miss | None:
        return None if activation_takes(self.kind, element_of(found[x])) else _not_real(found)

    def build(self, found: Found, rewriter: PatternRewriter, /) -> RlxOp:
        return ActivationOp(self.kind, found[x], result_type=found.root.results[0].type)


def _not_real(found: Found) -> Miss:
    detail = f"the values are of {element_of(found[x])}"
    return Miss(Reason.ELEMENT_TYPE, found.root, detail, "nothing to do: the formula is one of real numbers")


class ToClamp(Spelling):
    """Bounds one after the other → one ``rlx.clamp``, or ``relu`` where the bounds are 0 and infinity."""

    def accept(self, found: Found, /) -> Miss | None:
        return None if is_float(element_of(found[x])) else _not_real(found)

    def build(self, found: Found, rewriter: PatternRewriter, /) -> RlxOp:
        low, high = _bounds(found)
        if (low, high) == (0, math.inf):
            return ActivationOp(ActivationKind.RELU, found[x], result_type=found.root.results[0].type)
        return ClampOp(found[x], low, high)


def _bounds(found: Found) -> tuple[float, float]:
    """Of all of them together. Bounds that cross leave one number, which the outer one decides."""
    low, high = -math.inf, math.inf
    for op in reversed(found.bindings.ops):
        below, above = _bounds_of(op)
        low, high = (min(max(bound, below), above) for bound in (low, high))
    return low, high


def _bounds_of(op: Operation) -> tuple[float, float]:
    if isinstance(op, ClampOp):
        return op.min.value.data, op.max.value.data
    if not isinstance(op, BinaryOp):
        return 0, math.inf
    bound = scalar_value(op.rhs)
    assert bound is not None
    return (bound, math.inf) if op.kind.data is BinaryKind.MAX else (-math.inf, bound)


def _polynomial(factor: float) -> Term:
    """factor·(x + 0.044715·x³)"""
    cubic = 0.044715
    return Either(
        product(factor, x + Either(product(cubic, x, x, x), scaled(cube(x), cubic))),
        product(factor, x, 1 + Either(product(cubic, x, x), scaled(square(x), cubic))),
        product(x, Either(product(cubic * factor, x, x), scaled(square(x), cubic * factor)) + factor),
    )


_PHI = 1 + erf(scaled(x, math.sqrt(0.5)))
_SLOPE = math.sqrt(2 / math.pi)
_TO_SIX = clamp(x + 3, 0, 6)
_POSITIVE = [
    compare(CompareKind.GT, x, 0),
    compare(CompareKind.GE, x, 0),
    compare(CompareKind.LT, 0, x),
    compare(CompareKind.LE, 0, x),
]
_NEGATIVE = [
    compare(CompareKind.LT, x, 0),
    compare(CompareKind.LE, x, 0),
    compare(CompareKind.GT, 0, x),
    compare(CompareKind.GE, 0, x),
]


def patterns() -> Sequence[Spelling]:
    kind = ActivationKind
    bound, other = Number(), Number()
    return [
        ToActivation(kind.RSQRT, WIDER, recip(sqrt(x))),
        # With zero on the left another zero may come out; where(x > 0, x, 0) makes 0 of NaN, which relu keeps.
        ToActivation(kind.RELU, Numerics.EXACT, maximum(x, 0), clamp(x, 0, math.inf)),
        ToActivation(
            kind.RELU,
            NAN_POLICY,
            maximum(0, x),
            *(where(positive, x, 0) for positive in _POSITIVE),
            *(where(negative, 0, x) for negative in _NEGATIVE),
        ),
        ToClamp(
            x,
            [
                outer
                for inner in (relu(x), clamp(x))
                for outer in (maximum(inner, bound), minimum(inner, bound), relu(inner), clamp(inner))
            ]
            + [minimum(maximum(x, bound), other), maximum(minimum(x, bound), other)]
            + [f(g(x, bound)) for f in (relu, clamp) for g in (maximum, minimum)],
            Numerics.EXACT,
        ),
        # exp overflows where the activation does not.
        ToActivation(kind.SIGMOID, REASSOCIATED, recip(1 + exp(neg(x)))),
        ToActivation(kind.SILU, WIDER, x * sigmoid(x)),
        ToActivation(kind.SILU, REASSOCIATED, x / (1 + exp(neg(x)))),
        ToActivation(kind.SOFTPLUS, NAN_POLICY, log(1 + exp(x))),
        ToActivation(kind.MISH, WIDER, x * tanh(softplus(x))),
        ToActivation(kind.SOFTSIGN, WIDER, x / (1 + absolute(x))),
        ToActivation(kind.LOG_SIGMOID, REASSOCIATED, neg(softplus(neg(x)))),
        ToActivation(kind.LOG_SIGMOID, NAN_POLICY, log(sigmoid(x))),
        ToActivation(kind.HARD_SIGMOID, REASSOCIATED, scaled(_TO_SIX, 1 / 6), clamp(scaled(x, 1 / 6) + 0.5, 0, 1)),
        ToActivation(kind.HARD_SWISH, REASSOCIATED, product(x, _TO_SIX, 1 / 6), x * hard_sigmoid(x)),
        ToActivation(kind.GELU, REASSOCIATED, product(0.5, x, _PHI)),
        ToActivation(
            kind.GELU_APPROX,
            REASSOCIATED,
            product(0.5, x, 1 + tanh(_polynomial(_SLOPE))),
            x * sigmoid(_polynomial(2 * _SLOPE)),
        ),
    ]
