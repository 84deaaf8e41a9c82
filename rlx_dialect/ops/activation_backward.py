"""Gradients of activations.

f16 and bf16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from rlx_dialect.attributes import ActivationKind, ActivationKindAttr
from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import is_float
from rlx_dialect.ops.constant import scalar
from rlx_dialect.ops.formula import Term
from rlx_dialect.xdsl_compat import Builder

Gradient = Callable[[Term, Term], Term]
"""The gradient of x, from x and the gradient dy of the activation's result."""


def _nothing(x: Term, dy: Term) -> Term:
    """Zeros, whatever dy is."""
    never = Term(dy.b, scalar(dy.b, False, i1))
    return never.where(dy, 0.0)


def _relu(x: Term, dy: Term) -> Term:
    # A choice, because an infinite dy times 0 would be NaN.
    return x.compare("gt", 0.0).where(dy, 0.0)


def _times(derivative: Callable[[Term], Term]) -> Gradient:
    return lambda x, dy: dy * derivative(x)


def _bell(x: Term) -> Term:
    """sigmoid(x)·sigmoid(-x), the derivative of sigmoid: no cancellation where sigmoid is near 1."""
    return x.apply("sigmoid") * (-x).apply("sigmoid")


def _tanh(x: Term) -> Term:
    return 4.0 * _bell(x * 2.0)


def _gelu(x: Term) -> Term:
    density = (x * x * -0.5).apply("exp") * (1 / math.sqrt(2 * math.pi))
    return ((x * math.sqrt(0.5)).apply("erf") + 1.0) * 0.5 + x * density


def _gelu_approx(x: Term) -> Term:
    # The activation is x·sigmoid(u).
    scale = 2 * math.sqrt(2 / math.pi)
    square = x * x
    u = x * (square * 0.044715 + 1.0) * scale
    return u.apply("sigmoid") + x * _bell(u) * (square * (3 * 0.044715) + 1.0) * scale


def _silu(x: Term) -> Term:
    return x.apply("sigmoid") + x * _bell(x)


def _mish(x: Term) -> Term:
    inner = x.apply("softplus")
    return inner.apply("tanh") + x * _tanh(inner) * x.apply("sigmoid")


def _rsqrt(x: Term) -> Term:
    return x.apply("rsqrt") / x * -0.5


def _recip(x: Term) -> Term:
    inverse = x.apply("recip")
    return -(inverse * inverse)


def _tan(x: Term) -> Term:
    tangent = x.apply("tan")
    return tangent * tangent + 1.0


def _softsign(x: Term) -> Term:
    inverse = (x.apply("abs") + 1.0).apply("recip")
    return inverse * inverse


def _elu(x: Term, dy: Term) -> Term:
    return x.compare("gt", 0.0).where(dy, dy * x.apply("exp"))


def _bent(x: Term, inner: Term, above: Term | float) -> Term:
    """``inner`` for -3 < x < 3, 0 below and ``above`` above."""
    return x.compare("gt", -3.0).where(x.compare("lt", 3.0).where(inner, above), 0.0)


GRADIENTS: Mapping[ActivationKind, Gradient] = {
    ActivationKind.GELU: _times(_gelu),
    ActivationKind.GELU_APPROX: _times(_gelu_approx),
    ActivationKind.SILU: _times(_silu),
    ActivationKind.RELU: _relu,
    ActivationKind.SIGMOID: _times(_bell),
    ActivationKind.TANH: _times(_tanh),
    ActivationKind.EXP: _times(lambda x: x.apply("exp")),
    ActivationKind.LOG: lambda x, dy: dy / x,
    ActivationKind.SQRT: lambda x, dy: dy * 0.5 / x.apply("sqrt"),
    ActivationKind.RSQRT: _times(_rsqrt),
    ActivationKind.NEG: lambda _, dy: -dy,
    ActivationKind.ABS: _times(lambda x: x.apply("sign")),
    ActivationKind.ROUND: lambda _, dy: dy * 1.0,  # A value of its own, because dy may have another type than x.
    ActivationKind.SIN: _times(lambda x: x.apply("cos")),
    ActivationKind.COS: _times(lambda x: -x.apply("sin")),
    ActivationKind.TAN: _times(_tan),
    ActivationKind.ATAN: lambda x, dy: dy / (x * x + 1.0),
    ActivationKind.RECIP: _times(_recip),
    ActivationKind.FLOOR: _nothing,
    ActivationKind.CEIL: _nothing,
    ActivationKind.SIGN: _nothing,
    ActivationKind.SOFTPLUS: _times(lambda x: x.apply("sigmoid")),
    ActivationKind.ELU: _elu,
    ActivationKind.ERF: _times(lambda x: (-(x * x)).apply("exp") * (2 / math.sqrt(math.pi))),
    ActivationKind.HARD_SWISH: lambda x, dy: _bent(x, dy * (x / 3.0 + 0.5), dy),
    ActivationKind.HARD_SIGMOID: lambda x, dy: _bent(x, dy / 6.0, 0.0),
    ActivationKind.MISH: _times(_mish),
    ActivationKind.SOFTSIGN: _times(_softsign),
    ActivationKind.LOG_SIGMOID: _times(lambda x: (-x).apply("sigmoid")),
}
"""Each kind's gradient. Round passes dy on, as if it were the identity; floor, ceil and sign give 0. At a corner: relu
and abs give 0 at 0, elu dy at 0, hard_sigmoid 0 at -3 and 3, hard_swish 0 at -3 and dy at 3."""


class PointwiseBackwardOp(RlxOp):
    """Base: the gradient of an activation of x, from x and dy of one shape and float element type."""

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.operands[0].type,)

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'x' must have a float element type, got {self.element(0)}")
        self.check_same_element()
        self.check_shape(1, self.shape(0))

    def of_kind(self, b: Builder, kind: ActivationKind) -> tuple[SSAValue, ...]:
        """The gradient of ``kind`` as result."""
        x, dy = Term.widened(b, *self.operands)
        return self.as_results(GRADIENTS[kind](x, dy).cast(self.element(0)).value)


@irdl_op_definition
class ActivationBackwardOp(PointwiseBackwardOp):
    """The gradient of ``rlx.activation`` of ``kind``: dy times the derivative at x; see :data:`GRADIENTS`.

    Where an infinity meets a derivative that vanishes the result is NaN, but for the kinds that choose (relu, elu,
    hard_swish, hard_sigmoid).
    """

    name = "rlx.activation_backward"
    KEYWORD: ClassVar = "kind"
    x = operand_def()
    dy = operand_def()
    kind = prop_def(ActivationKindAttr)
    result = result_def()

    def __init__(self, kind: ActivationKind | str, x: Value, dy: Value):
        super().__init__([x, dy], {"kind": kind})

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        return self.of_kind(b, self.kind.data)


@irdl_op_definition
class ReluBackwardOp(PointwiseBackwardOp):
    """The gradient of relu: dy where x > 0, else 0 (also where x is NaN)."""

    name = "rlx.relu_backward"
    x = operand_def()
    dy = operand_def()
    result = result_def()

    def __init__(self, x: Value, dy: Value):
        super().__init__([x, dy])

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        return self.of_kind(b, ActivationKind.RELU)
