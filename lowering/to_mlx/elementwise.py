"""Element-wise operations, on arrays and in the bodies of regions: f16 and bf16 are rounded once an operation."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerType

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_bool, is_complex, is_float, is_unsigned
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.text import dtype, number
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64
from rlx_dialect.ops.elementwise import (
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    FmaOp,
    StopGradientOp,
    WhereOp,
)

EXACT: Mapping[ActivationKind, str] = {
    ActivationKind.RELU: "mx.maximum({x}, 0)",
    ActivationKind.NEG: "-{x}",
    ActivationKind.ABS: "mx.abs({x})",
    ActivationKind.ROUND: "mx.round({x})",
    ActivationKind.FLOOR: "mx.floor({x})",
    ActivationKind.CEIL: "mx.ceil({x})",
    ActivationKind.SIGN: "mx.sign({x})",
}
"""Kinds whose result needs no more bits than the operand has."""

FORMULAS: Mapping[ActivationKind, str] = {
    ActivationKind.SILU: "{x} * mx.sigmoid({x})",
    ActivationKind.SIGMOID: "mx.sigmoid({x})",
    ActivationKind.TANH: "mx.tanh({x})",
    ActivationKind.EXP: "mx.exp({x})",
    ActivationKind.LOG: "mx.log({x})",
    ActivationKind.SQRT: "mx.sqrt({x})",
    ActivationKind.RSQRT: "mx.rsqrt({x})",
    ActivationKind.SIN: "mx.sin({x})",
    ActivationKind.COS: "mx.cos({x})",
    ActivationKind.TAN: "mx.tan({x})",
    ActivationKind.ATAN: "mx.arctan({x})",
    ActivationKind.RECIP: "mx.reciprocal({x})",
    ActivationKind.SOFTPLUS: "mx.logaddexp({x}, 0)",
    ActivationKind.ELU: "mx.where({x} > 0, {x}, mx.expm1(mx.minimum({x}, 0)))",
    ActivationKind.ERF: "mx.erf({x})",
    ActivationKind.HARD_SWISH: "{x} * mx.clip({x} + 3, 0, 6) / 6",
    ActivationKind.HARD_SIGMOID: "mx.clip({x} / 6 + 0.5, 0, 1)",
    ActivationKind.MISH: "{x} * mx.tanh(mx.logaddexp({x}, 0))",
    ActivationKind.SOFTSIGN: "{x} / (1 + mx.abs({x}))",
    ActivationKind.LOG_SIGMOID: "-mx.logaddexp(-{x}, 0)",
}
"""Kinds that are computed in f32 at least."""

F64: Mapping[str, str] = {
    "mx.cos": "cos_f64",
    "mx.erf": "erf_f64",
    "mx.exp(": "exp_f64(",
    "mx.logaddexp": "logaddexp_f64",
    "mx.sigmoid": "sigmoid_f64",
    "mx.sin": "sin_f64",
}
"""Functions that MLX computes in f32 precision for f64, and helpers that do not."""
HELPERS: Mapping[ActivationKind, str] = {ActivationKind.GELU: "gelu", ActivationKind.GELU_APPROX: "gelu_approx"}


def activated(w: Writer, kind: ActivationKind, x: str, *, f64: bool) -> str:
    """``kind`` of the name of an array of f32 or f64."""
    if kind is ActivationKind.SIGN:
        return w.call("sign", x)
    if (helper := HELPERS.get(kind)) is not None:
        return w.call(f"{helper}_f64" if f64 else helper, x)
    text = {**EXACT, **FORMULAS}[kind].format(x=x)
    if f64:
        for function, helper in F64.items():
            if function in text:
                text = text.replace(function, helper)
                w.printed.helper(helper.rstrip("("))
    return text


@lowers(ActivationOp)
def activation(op: ActivationOp, w: Writer) -> str:
    kind, element = op.kind.data, op.element(0)
    if not is_float(element):
        return EXACT[kind].format(x=w.value(op.input))
    if kind in EXACT and kind is not ActivationKind.SIGN:
        return EXACT[kind].format(x=w.value(op.input))
    return w.narrowed(activated(w, kind, w.wide(op.input), f64=is_f64(op.input)), element)


OPERATORS: Mapping[BinaryKind, str] = {
    BinaryKind.ADD: "{a} + {b}",
    BinaryKind.SUB: "{a} - {b}",
    BinaryKind.MUL: "{a} * {b}",
    BinaryKind.DIV: "{a} / {b}",
    BinaryKind.MAX: "mx.maximum({a}, {b})",
    BinaryKind.MIN: "mx.minimum({a}, {b})",
    BinaryKind.BIT_AND: "{a} & {b}",
    BinaryKind.BIT_OR: "{a} | {b}",
    BinaryKind.BIT_XOR: "{a} ^ {b}",
}
"""Kinds that MLX rounds once, in the element type of the operands."""
_INTEGER_HELPERS: Mapping[BinaryKind, tuple[str, str]] = {
    BinaryKind.DIV: ("int_div", "unsigned_div"),
    BinaryKind.MOD: ("int_mod", "unsigned_mod"),
}


def is_plain(op: BinaryOp) -> bool:
    """Whether it is one operator, which takes a literal beside an array."""
    integral = not is_float(op.element(0)) and not is_complex(op.element(0))
    return op.kind.data in OPERATORS and not (integral and op.kind.data is BinaryKind.DIV)


@lowers(BinaryOp)
def binary(op: BinaryOp, w: Writer) -> str:
    kind, element = op.kind.data, op.element(0)
    if is_plain(op):
        a, b = w.operands(op.operands)
        return OPERATORS[kind].format(a=a, b=b)
    if is_float(element):
        a, b = w.wide(op.lhs), w.wide(op.rhs)
        function = {BinaryKind.POW: "mx.power", BinaryKind.ATAN2: "mx.arctan2"}.get(kind)
        call = f"{function}({a}, {b})" if function is not None else w.call("float_mod", a, b)
        return w.narrowed(call, element)
    a, b = w.value(op.lhs), w.value(op.rhs)
    if is_complex(element):
        return f"mx.power({a}, {b})"
    unsigned = is_unsigned(element)
    if kind is BinaryKind.POW:
        return f"mx.power({a}, {b})" if unsigned else w.call("int_power", a, b)
    if kind in (BinaryKind.SHL, BinaryKind.SHR):
        width = element.width.data if isinstance(element, IntegerType) else 64
        right = "unsigned_shift_right" if unsigned else "shift_right"
        return w.call("shift_left" if kind is BinaryKind.SHL else right, a, b, width)
    return w.call(_INTEGER_HELPERS[kind][unsigned], a, b)


COMPARISONS: Mapping[CompareKind, str] = {
    CompareKind.EQ: "==",
    CompareKind.NE: "!=",
    CompareKind.LT: "<",
    CompareKind.LE: "<=",
    CompareKind.GT: ">",
    CompareKind.GE: ">=",
}


@lowers(CompareOp)
def compare(op: CompareOp, w: Writer) -> str:
    a, b = w.operands(op.operands)
    return f"{a} {COMPARISONS[op.kind.data]} {b}"


@lowers(WhereOp)
def where(op: WhereOp, w: Writer) -> str:
    a, b = w.operands([op.on_true, op.on_false])
    return f"mx.where({w.value(op.condition)}, {a}, {b})"


@lowers(FmaOp)
def fma(op: FmaOp, w: Writer) -> str:
    a, b, c = (w.wide(o) for o in op.operands)
    return w.narrowed(f"{a} * {b} + {c}", op.element(0))


@lowers(CastOp)
def cast(op: CastOp, w: Writer) -> str:
    x, source, target = w.value(op.input), op.element(0), element_of(op.result)
    if source == target:
        return x
    if is_bool(target):
        return f"{x} != 0"
    if is_complex(source):
        x = f"mx.real({x})"
    return f"{x}.astype({dtype(target)})"


@lowers(StopGradientOp)
def stop_gradient(op: StopGradientOp, w: Writer) -> str:
    return f"mx.stop_gradient({w.value(op.input)})"


@lowers(ClampOp)
def clamp(op: ClampOp, w: Writer) -> str:
    low, high = (number(a.value.data, op.element(0)) for a in (op.min, op.max))
    return f"mx.clip({w.value(op.input)}, {low}, {high})"
