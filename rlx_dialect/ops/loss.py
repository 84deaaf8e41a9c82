"""Cross entropy of softmax, and its gradient: logits [N, C] are N rows of C classes, and each row has a loss.

Computed from the logits less their greatest, so that no power overflows; f16 and bf16 in f32, rounded once. Labels are
integers from 0 to C - 1; others are undefined (the reference reports them). RLX encodes them in f32.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import Array, is_bool, is_float, is_integer
from rlx_dialect.ops.extents import positions
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.reduction import REDUCTIONS, SoftmaxOp, softmax
from rlx_dialect.shapes import ShapeError, show
from rlx_dialect.xdsl_compat import Builder, InterpretationError

LAST = (1,)
"""The axis of the classes."""


def log_softmax(x: Array) -> Array:
    """log(exp(x)/Σ exp(x)) of each row."""
    shifted = x - REDUCTIONS[ReduceKind.MAX](x, LAST)
    return shifted - np.log(REDUCTIONS[ReduceKind.SUM](np.exp(shifted), LAST))


def log_softmax_term(x: Term) -> Term:
    """:func:`log_softmax` as operations."""
    shifted = x - x.reduce("max", LAST)
    return shifted - shifted.apply("exp").reduce("sum", LAST).apply("log")


class CrossEntropyOp(RlxOp):
    """Base: operand 0 are the float logits [N, C], operand 1 says what each row should be."""

    def __init__(self, *operands: Value, result_type: Attribute | None = None):
        super().__init__(operands, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        if len(self.shape(0)) != 2:
            raise ShapeError(f"operand 'logits' must have rank 2, got {show(self.shape(0))}")
        return (self.like(0, self.shape(0)[:1]),)

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'logits' must have a float element type, got {self.element(0)}")

    def check_labels(self) -> None:
        element = self.element(1)
        if not is_integer(element) or is_bool(element):
            self.fail(f"operand 'labels' must have an integer element type, got {element}")
        self.check_shape(1, self.shape(0)[:1])

    def hot(self, logits: Array, labels: Array) -> Array:
        """Where the class is that of the row; raises InterpretationError for a label that is no class."""
        classes = logits.shape[1]
        if ((labels < 0) | (labels >= classes)).any():
            raise InterpretationError(f"'{self.name}': a label is outside extent {classes}")
        return labels[:, None] == np.arange(classes)

    def hot_term(self, b: Builder, labels: SSAValue) -> Term:
        """:meth:`hot` as operations."""
        label = Term(b, labels)
        classes = positions(Term(b, self.operands[0]), 1, label.element)
        return label.reshape([*label.shape, 1]).compare("eq", classes)


@irdl_op_definition
class SoftmaxCrossEntropyOp(CrossEntropyOp):
    """-Σ targets·log softmax(logits) over the classes: [N]; targets [N, C] are probabilities."""

    name = "rlx.softmax_cross_entropy"
    logits = operand_def()
    targets = operand_def()
    result = result_def()

    def check(self) -> None:
        super().check()
        self.check_same_element()
        self.check_shape(1, self.shape(0))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        logits, targets = args
        return (-REDUCTIONS[ReduceKind.SUM](targets * log_softmax(logits), LAST).squeeze(LAST),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        logits, targets = Term.widened(b, *self.operands)
        loss = -(targets * log_softmax_term(logits)).reduce("sum", LAST, keep_dim=False)
        return self.as_results(loss.cast(self.element(0)).value)


@irdl_op_definition
class SoftmaxCrossEntropyWithLogitsOp(CrossEntropyOp):
    """-log softmax(logits) of the class in labels [N]: [N]."""

    name = "rlx.softmax_cross_entropy_with_logits"
    logits = operand_def()
    labels = operand_def()
    result = result_def()

    def check(self) -> None:
        super().check()
        self.check_labels()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        # A choice, not a product with 0 and 1: other classes may have a logarithm of -inf.
        chosen = np.where(self.hot(*args), log_softmax(args[0]), 0)
        return (-REDUCTIONS[ReduceKind.SUM](chosen, LAST).squeeze(LAST),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        (logits,) = Term.widened(b, self.logits)
        chosen = self.hot_term(b, self.labels).where(log_softmax_term(logits), 0.0)
        return self.as_results((-chosen.reduce("sum", LAST, keep_dim=False)).cast(self.element(0)).value)


@irdl_op_definition
class SoftmaxCrossEntropyBackwardOp(CrossEntropyOp):
    """The gradient of :class:`SoftmaxCrossEntropyWithLogitsOp` by the logits: (softmax - one-hot)·d_loss, [N, C].

    d_loss [N] is the gradient by each loss.
    """

    name = "rlx.softmax_cross_entropy_backward"
    logits = operand_def()
    labels = operand_def()
    d_loss = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        super().infer_types()
        return (self.logits.type,)

    def check(self) -> None:
        super().check()
        self.check_labels()
        self.check_same_element(0, 2)
        self.check_shape(2, self.shape(0)[:1])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        logits, labels, d_loss = args
        return ((softmax(logits, 1) - self.hot(logits, labels)) * d_loss[:, None],)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        logits, d_loss = Term.widened(b, self.logits, self.d_loss)
        power = logits.insert(SoftmaxOp(logits.value))
        difference = power - self.hot_term(b, self.labels).cast(power.element)
        return self.as_results((difference * d_loss.reshape([*d_loss.shape, 1])).cast(self.element(0)).value)
