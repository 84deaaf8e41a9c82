"""ONNX element-wise operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.builder import Operand as BuilderOperand
from rlx_dialect.builder import Value
from rlx_dialect.dtypes import is_float, is_integer, is_unsigned
from rlx_dialect.frontends.onnx.model import element_type
from rlx_dialect.frontends.onnx.node import Node
from rlx_dialect.frontends.onnx.registry import imports

ACTIVATIONS: Mapping[str, ActivationKind] = {
    "Abs": ActivationKind.ABS,
    "Atan": ActivationKind.ATAN,
    "Ceil": ActivationKind.CEIL,
    "Cos": ActivationKind.COS,
    "Erf": ActivationKind.ERF,
    "Exp": ActivationKind.EXP,
    "Floor": ActivationKind.FLOOR,
    "HardSwish": ActivationKind.HARD_SWISH,
    "Log": ActivationKind.LOG,
    "Mish": ActivationKind.MISH,
    "Neg": ActivationKind.NEG,
    "Reciprocal": ActivationKind.RECIP,
    "Relu": ActivationKind.RELU,
    "Round": ActivationKind.ROUND,
    "Sigmoid": ActivationKind.SIGMOID,
    "Sign": ActivationKind.SIGN,
    "Sin": ActivationKind.SIN,
    "Softplus": ActivationKind.SOFTPLUS,
    "Softsign": ActivationKind.SOFTSIGN,
    "Sqrt": ActivationKind.SQRT,
    "Tan": ActivationKind.TAN,
    "Tanh": ActivationKind.TANH,
}

BINARIES: Mapping[str, BinaryKind] = {
    "Add": BinaryKind.ADD,
    "And": BinaryKind.BIT_AND,
    "BitwiseAnd": BinaryKind.BIT_AND,
    "BitwiseOr": BinaryKind.BIT_OR,
    "BitwiseXor": BinaryKind.BIT_XOR,
    "Div": BinaryKind.DIV,
    "Mul": BinaryKind.MUL,
    "Or": BinaryKind.BIT_OR,
    "Sub": BinaryKind.SUB,
    "Xor": BinaryKind.BIT_XOR,
}

COMPARES: Mapping[str, CompareKind] = {
    "Equal": CompareKind.EQ,
    "Greater": CompareKind.GT,
    "GreaterOrEqual": CompareKind.GE,
    "Less": CompareKind.LT,
    "LessOrEqual": CompareKind.LE,
}

VARIADIC: Mapping[str, BinaryKind] = {
    "Max": BinaryKind.MAX,
    "Mean": BinaryKind.ADD,
    "Min": BinaryKind.MIN,
    "Sum": BinaryKind.ADD,
}

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


@imports(*ACTIVATIONS)
def activation(node: Node) -> Value:
    return node.graph.activation(ACTIVATIONS[node.op_type], node.value(0))


@imports(*BINARIES)
def binary(node: Node) -> Value:
    return node.graph.binary(BINARIES[node.op_type], node.value(0), node.value(1))


@imports(*COMPARES)
def compare(node: Node) -> Value:
    return node.graph.compare(COMPARES[node.op_type], node.value(0), node.value(1))


@imports(*VARIADIC)
def variadic(node: Node) -> Value:
    kind = VARIADIC[node.op_type]
    value = reduce(lambda a, b: node.graph.binary(kind, a, b), node.values())
    return value / len(node.operands) if node.op_type == "Mean" else value


@imports("Pow")
def power(node: Node) -> Value:
    """The exponent may have another element type; the result has that of the base."""
    base, exponent = node.value(0), node.value(1)
    if is_integer(base.element) and is_float(exponent.element):
        return node.graph.cast(node.graph.cast(base, exponent.element) ** exponent, base.element)
    return base ** node.graph.cast(exponent, base.element)


@imports("Mod")
def modulo(node: Node) -> Value:
    """The sign of the divisor (Python's %), or with ``fmod`` that of the dividend (C's fmod)."""
    g, a, b = node.graph, node.value(0), node.value(1)
    remainder = g.binary("mod", a, b)
    if node.flag("fmod") or is_unsigned(a.element):
        return remainder
    if is_float(a.element):
        node.fail("fmod must be 1 for floats")
    return g.binary("mod", remainder + b, b)


@imports("BitShift")
def bit_shift(node: Node) -> Value:
    kind = "shl" if node.word("direction", "LEFT") == "LEFT" else "shr"
    return node.graph.binary(kind, node.value(0), node.value(1))


@imports("Not")
def negation(node: Node) -> Value:
    return node.graph.binary("bit_xor", node.value(0), 1)


@imports("BitwiseNot")
def bitwise_negation(node: Node) -> Value:
    x = node.value(0)
    return node.graph.binary("bit_xor", x, 2**x.element.width.data - 1 if is_unsigned(x.element) else -1)  # pyright: ignore


@imports("Where")
def where(node: Node) -> Value:
    return node.graph.where(node.value(0), node.value(1), node.value(2))


@imports("Cast")
def cast(node: Node) -> Value:
    return node.graph.cast(node.value(0), element_type(node.integer("to", 0), "the result"))


@imports("CastLike")
def cast_like(node: Node) -> Value:
    return node.graph.cast(node.value(0), node.operand(1).element)


@imports("Identity")
def identity(node: Node) -> Value:
    return node.value(0)


@imports("Dropout")
def dropout(node: Node) -> Value:
    """Nothing is dropped outside training."""
    if node.has(2) and node.array(2).any():
        node.fail("training_mode must be off")
    return node.value(0)


@imports("Clip")
def clip(node: Node) -> Value:
    """Bounds are attributes before operator set 11 and operands from then on; each may be left out."""
    x = node.value(0)
    low, high = (_bound(node, i, n) for i, n in ((1, "min"), (2, "max")))
    if isinstance(low, float) and isinstance(high, float) and low <= high and is_float(x.element):
        return node.graph.clamp(x, low, high)
    if low is not None:
        x = node.graph.binary("max", x, low)
    return x if high is None else node.graph.binary("min", x, high)


def _bound(node: Node, index: int, name: str) -> BuilderOperand | None:
    if node.opset < 11:
        return node.real(name, 0.0) if name in node.attributes else None
    if not node.has(index):
        return None
    known = node.operand(index).known
    array = None if known is None else known.static
    return node.value(index) if array is None or not is_float(node.operand(index).element) else float(array.item())


def _where_positive(node: Node, x: Value, otherwise: Value) -> Value:
    return node.graph.where(node.graph.compare("gt", x, 0.0), x, otherwise)


@imports("LeakyRelu")
def leaky_relu(node: Node) -> Value:
    x = node.value(0)
    return _where_positive(node, x, x * node.real("alpha", 0.01))


@imports("PRelu")
def p_relu(node: Node) -> Value:
    x = node.value(0)
    return _where_positive(node, x, x * node.value(1))


@imports("ThresholdedRelu")
def thresholded_relu(node: Node) -> Value:
    x = node.value(0)
    return node.graph.where(node.graph.compare("gt", x, node.real("alpha", 1.0)), x, 0.0)


def _elu(node: Node, alpha: float, scale: float = 1.0) -> Value:
    """x where it is positive, otherwise alpha·(e^(x/scale) - 1)."""
    x = node.value(0)
    if alpha == scale == 1.0:
        return node.graph.activation("elu", x)
    return _where_positive(node, x, node.graph.activation("elu", x if scale == 1.0 else x / scale) * alpha)


@imports("Elu")
def elu(node: Node) -> Value:
    return _elu(node, node.real("alpha", 1.0))


@imports("Celu")
def celu(node: Node) -> Value:
    alpha = node.real("alpha", 1.0)
    return _elu(node, alpha, alpha)


@imports("Selu")
def selu(node: Node) -> Value:
    return _elu(node, node.real("alpha", SELU_ALPHA)) * node.real("gamma", SELU_GAMMA)


@imports("HardSigmoid")
def hard_sigmoid(node: Node) -> Value:
    alpha, beta = node.real("alpha", 0.2), node.real("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return node.graph.activation("hard_sigmoid", node.value(0))
    return node.graph.clamp(node.value(0) * alpha + beta, 0.0, 1.0)


@imports("Gelu")
def gelu(node: Node) -> Value:
    return node.graph.activation("gelu_approx" if node.word("approximate", "none") == "tanh" else "gelu", node.value(0))


@imports("Swish")
def swish(node: Node) -> Value:
    x, alpha = node.value(0), node.real("alpha", 1.0)
    return node.graph.silu(x) if alpha == 1.0 else x * node.graph.activation("sigmoid", x * alpha)


@imports("IsNaN")
def is_nan(node: Node) -> Value:
    x = node.value(0)
    return node.graph.compare("ne", x, x)


@imports("IsInf")
def is_inf(node: Node) -> Value:
    g, x = node.graph, node.value(0)
    negative, positive = node.flag("detect_negative", True), node.flag("detect_positive", True)
    if negative and positive:
        return g.compare("eq", g.activation("abs", x), math.inf)
    if not negative and not positive:
        return g.compare("lt", g.activation("abs", x), -math.inf)
    return g.compare("eq", x, math.inf if positive else -math.inf)
