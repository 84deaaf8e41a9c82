"""Element-wise operations against formulas of their own: Python's math, exact fractions, onnxruntime."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_close, assert_same_meaning, decomposed, graph, parse
from onnx import TensorProto, helper
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import TensorType, f16, f32, i1, i32
from xdsl.ir import Attribute, Block, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp, ClampOp, WhereOp
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import VerifyException

INF, NAN = math.inf, math.nan

FORMULAS: dict[ActivationKind, Callable[[float], float]] = {
    ActivationKind.GELU: lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
    ActivationKind.GELU_APPROX: lambda x: x / (1 + math.exp(-2 * 0.7978845608028654 * (x + 0.044715 * x**3))),
    ActivationKind.SILU: lambda x: x / (1 + math.exp(-x)),
    ActivationKind.RELU: lambda x: x if x > 0 else 0.0,
    ActivationKind.SIGMOID: lambda x: 1 / (1 + math.exp(-x)),
    ActivationKind.TANH: math.tanh,
    ActivationKind.EXP: math.exp,
    ActivationKind.LOG: math.log,
    ActivationKind.SQRT: math.sqrt,
    ActivationKind.RSQRT: lambda x: x**-0.5,
    ActivationKind.NEG: operator.neg,
    ActivationKind.ABS: abs,
    ActivationKind.ROUND: round,
    ActivationKind.SIN: math.sin,
    ActivationKind.COS: math.cos,
    ActivationKind.TAN: math.tan,
    ActivationKind.ATAN: math.atan,
    ActivationKind.RECIP: lambda x: 1 / x,
    ActivationKind.FLOOR: math.floor,
    ActivationKind.CEIL: math.ceil,
    ActivationKind.SIGN: lambda x: (x > 0) - (x < 0),
    ActivationKind.SOFTPLUS: lambda x: math.log1p(math.exp(x)),
    ActivationKind.ELU: lambda x: x if x > 0 else math.expm1(x),
    ActivationKind.ERF: math.erf,
    ActivationKind.HARD_SWISH: lambda x: x * min(max(x + 3, 0), 6) / 6,
    ActivationKind.HARD_SIGMOID: lambda x: min(max(x / 6 + 0.5, 0), 1),
    ActivationKind.MISH: lambda x: x * math.tanh(math.log1p(math.exp(x))),
    ActivationKind.SOFTSIGN: lambda x: x / (1 + abs(x)),
    ActivationKind.LOG_SIGMOID: lambda x: -math.log1p(math.exp(-x)),
}
POSITIVE_ONLY = {ActivationKind.LOG, ActivationKind.SQRT, ActivationKind.RSQRT, ActivationKind.RECIP}
"""Kinds whose formula above takes positive numbers only."""


def unary(kind: str, x: Array, type: str) -> Array:
    """``rlx.activation kind`` of x, which must have the element type ``type``."""
    shaped = f"tensor<{'x'.join(map(str, x.shape))}x{type}>"
    module = graph(f"%y = rlx.activation {kind} %x : {shaped}", f"%x: {shaped}", shaped, "%y")
    return run_reference(module, {"arg0": x})[0]


def binary(kind: str, a: Array, b: Array, type: str, result: str | None = None, op: str = "binary") -> Array:
    """``rlx.binary kind`` (or ``op``) of a and b with the element type ``type``."""
    ta, tb = (f"tensor<{''.join(f'{d}x' for d in v.shape)}{type}>" for v in (a, b))
    shape = np.broadcast_shapes(a.shape, b.shape)
    tr = f"tensor<{''.join(f'{d}x' for d in shape)}{result or type}>"
    module = graph(f"%y = rlx.{op} {kind} %a, %b : ({ta}, {tb}) -> {tr}", f"%a: {ta}, %b: {tb}", tr, "%y")
    return run_reference(module, {"arg0": a, "arg1": b})[0]


@pytest.mark.parametrize("kind", list(ActivationKind))
def test_activation_is_its_formula(kind: ActivationKind):
    x = np.concatenate([np.linspace(-12, 12, 97), [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e-6, -1e-6]]).astype(np.float32)
    x = np.abs(x) + np.float32(0.5) if kind in POSITIVE_ONLY else x
    expected = np.array([FORMULAS[kind](float(v)) for v in x], np.float64)
    # Near a pole or a zero a function magnifies the rounding of its intermediate values.
    assert_close([unary(kind.value, x, "f32")], [expected.astype(np.float32)], rtol=3e-6, atol=1e-7)
    assert_close([unary(kind.value, x.astype(np.float64), "f64")], [expected], rtol=1e-12, atol=1e-12)


EDGES: dict[str, list[tuple[float, float]]] = {
    "exp": [(INF, INF), (-INF, 0), (1000, INF)],
    "log": [(0, -INF), (-1, NAN), (INF, INF)],
    "sqrt": [(-1, NAN), (-0.0, -0.0), (INF, INF)],
    "rsqrt": [(0, INF), (INF, 0), (-1, NAN)],
    "recip": [(0, INF), (-0.0, -INF), (-INF, -0.0)],
    "relu": [(-INF, 0), (INF, INF)],
    "sigmoid": [(INF, 1), (-INF, 0), (1000, 1), (-1000, 0)],
    "silu": [(INF, INF), (-1000, -0.0)],
    "gelu": [(INF, INF), (1e30, 1e30), (-1e30, -0.0)],
    "gelu_approx": [(INF, INF), (1e30, 1e30), (-1e30, -0.0)],
    "tanh": [(INF, 1), (-INF, -1)],
    "erf": [(INF, 1), (-INF, -1)],
    "sign": [(INF, 1), (-0.0, 0), (-3, -1)],
    "round": [(0.5, 0), (1.5, 2), (-2.5, -2), (INF, INF)],
    "softplus": [(INF, INF), (-INF, 0), (1000, 1000)],
    "log_sigmoid": [(-INF, -INF), (INF, 0), (-1000, -1000)],
    "elu": [(-INF, -1), (INF, INF)],
    "hard_sigmoid": [(-INF, 0), (INF, 1)],
    "hard_swish": [(INF, INF), (-1000, 0)],
    "mish": [(INF, INF), (-1000, -0.0)],
    "atan": [(INF, math.pi / 2), (-INF, -math.pi / 2)],
    "abs": [(-INF, INF), (-0.0, 0)],
}


@pytest.mark.parametrize("kind", EDGES)
def test_activation_at_the_edges(kind: str):
    given, expected = (np.array(v, np.float32) for v in zip(*EDGES[kind], strict=True))
    found = unary(kind, given, "f32")
    assert_close([found], [expected])


@pytest.mark.parametrize("kind", list(ActivationKind))
@pytest.mark.parametrize("type", ["f32", "bf16"])
def test_nan_stays_nan(kind: ActivationKind, type: str):
    assert np.isnan(unary(kind.value, np.array([NAN], np.float32), type)).all()


ONNX_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gelu": ("Gelu", {}),
    "gelu_approx": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
    "sigmoid": ("Sigmoid", {}),
    "round": ("Round", {}),
    "sign": ("Sign", {}),
    "softplus": ("Softplus", {}),
    "elu": ("Elu", {}),
    "erf": ("Erf", {}),
    "hard_swish": ("HardSwish", {}),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "mish": ("Mish", {}),
    "softsign": ("Softsign", {}),
}


@pytest.mark.parametrize("kind", ONNX_ACTIVATIONS)
def test_activation_is_onnxs(kind: str):
    op, attributes = ONNX_ACTIVATIONS[kind]
    x = np.concatenate([np.linspace(-9, 9, 73), np.arange(-3.5, 4)]).astype(np.float32)
    assert_close([unary(kind, x, "f32")], [onnx_run(op, x, **attributes)], rtol=1e-5, atol=2e-6)


ONNX_BINARIES = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow"}
FLOATS = np.array([[1.5, -2.5, 0.0, NAN], [INF, -INF, 3.0, -0.75], [7.25, 1e-3, -1e5, 2.0]], np.float32)


@pytest.mark.parametrize("kind", [*ONNX_BINARIES, "mod"])
@pytest.mark.parametrize("shape", [(3, 4), (4,), (3, 1), (1, 4), (), (2, 1, 1)])
def test_binary_is_onnxs_with_broadcasting_on_either_side(kind: str, shape: tuple[int, ...]):
    other = np.random.default_rng(3).choice([2.0, -1.5, 0.25, 3.0, NAN], shape).astype(np.float32)
    for a, b in ((FLOATS, other), (other, FLOATS)):
        expected = onnx_run("Mod", a, b, fmod=1) if kind == "mod" else onnx_run(ONNX_BINARIES[kind], a, b)
        assert_close([binary(kind, a, b, "f32")], [expected])


INTEGERS = np.array([-128, -7, -3, -1, 0, 1, 3, 7, 127], np.int8)


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "max", "min", "mod", "bit_and", "bit_or", "bit_xor"])
def test_integer_binary_is_onnxs(kind: str):
    ops = {**ONNX_BINARIES, "bit_and": "BitwiseAnd", "bit_or": "BitwiseOr", "bit_xor": "BitwiseXor"}
    type = np.int32 if kind in ("add", "sub", "mul", "mod") else np.int8
    a, b = INTEGERS.astype(type)[:, None], INTEGERS[INTEGERS != 0].astype(type)
    output = helper.np_dtype_to_tensor_dtype(np.dtype(type))
    if kind == "mod":
        expected = onnx_run("Mod", a, b, output=output, fmod=1)
    else:
        expected = onnx_run(ops[kind], a, b, output=output)
    assert_close([binary(kind, a, b, f"i{8 * a.itemsize}")], [expected])


def test_integer_division_truncates_and_by_zero_is_zero():
    a, b = INTEGERS[:, None], np.array([-128, -3, -2, 0, 2, 5], np.int8)
    # -128 / -1 is left out: its value is no int8.
    expected = [[math.trunc(Fraction(int(x), int(y))) if y else 0 for y in b] for x in a[:, 0]]
    assert_close([binary("div", a, b, "i8")], [np.array(expected, np.int8)])


def test_integer_power_truncates_negative_exponents():
    a, b = np.array([-2, -1, 0, 1, 3], np.int32)[:, None], np.array([-3, -2, 0, 1, 4], np.int32)
    expected = [[math.trunc(Fraction(int(x)) ** int(y)) if x or y >= 0 else 0 for y in b] for x in a[:, 0]]
    assert_close([binary("pow", a, b, "i32")], [np.array(expected, np.int32)])


@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
def test_a_power_does_not_depend_on_the_shape_of_its_exponent(element: str):
    """NumPy takes a root for one exponent of 1/2: of -inf that is NaN."""
    x = np.array([-np.inf, -0.0, 0.03574118, 4.0], np.float32)
    x = x.astype({"f32": np.float32, "f64": np.float64, "f16": np.float16}[element])
    expected = binary("pow", x, np.full(4, 0.5, x.dtype), element)
    assert expected[0] == np.inf
    for shape in ((), (1,)):
        found = binary("pow", x, np.full(shape, 0.5, x.dtype), element)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_shifts_keep_the_sign_of_signed_integers_only():
    a, b = np.array([-64, -1, 5], np.int32), np.array([1, 3, 2], np.int32)
    assert_close([binary("shr", a, b, "i32")], [np.array([-32, -1, 1], np.int32)])
    assert_close([binary("shl", a, b, "i32")], [np.array([-128, -8, 20], np.int32)])
    u, n = np.array([200, 255, 5], np.uint8), np.array([1, 3, 2], np.uint8)
    for kind, direction in (("shr", "RIGHT"), ("shl", "LEFT")):
        expected = onnx_run("BitShift", u, n, output=TensorProto.UINT8, direction=direction)
        assert_close([binary(kind, u, n, "ui8")], [expected])


def test_atan2_takes_y_first():
    y, x = np.array([1, 1, -1, -1, 0, -0.0], np.float32), np.array([1, -1, 1, -1, -1, -1], np.float32)
    expected = np.array([math.atan2(float(a), float(b)) for a, b in zip(y, x, strict=True)], np.float32)
    assert_close([binary("atan2", y, x, "f32")], [expected])


ONNX_COMPARES = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


@pytest.mark.parametrize("kind", list(CompareKind))
def test_compare_is_onnxs(kind: CompareKind):
    b = np.array([2.0, NAN, 0.0, -0.0], np.float32)
    if kind is CompareKind.NE:
        expected = ~onnx_run("Equal", FLOATS, b, output=TensorProto.BOOL)
    else:
        expected = onnx_run(ONNX_COMPARES[kind.value], FLOATS, b, output=TensorProto.BOOL)
    assert_close([binary(kind.value, FLOATS, b, "f32", "i1", op="compare")], [expected])


def test_where_broadcasts_three_ways():
    module = graph(
        "%y = rlx.where %c, %a, %b : (tensor<4xi1>, tensor<3x1xf32>, tensor<2x1x1xf32>) -> tensor<2x3x4xf32>",
        "%c: tensor<4xi1>, %a: tensor<3x1xf32>, %b: tensor<2x1x1xf32>",
        "tensor<2x3x4xf32>",
        "%y",
    )
    c, a, b = np.array([True, False, False, True]), FLOATS[:, :1], np.array([[[NAN]], [[8.0]]], np.float32)
    expected = onnx_run("Where", c, a, b)
    assert_close(run_reference(module, {"arg0": c, "arg1": a, "arg2": b}), [expected])


def test_fma_rounds_once():
    t = "tensor<1xf32>"
    module = graph(f"%y = rlx.fma %a, %b, %c : ({t}, {t}, {t}) -> {t}", f"%a: {t}, %b: {t}, %c: {t}", t, "%y")
    a, c = np.float32(1 + 2**-12), np.float32(-1)
    expected = np.float32(float(Fraction(float(a)) ** 2 + Fraction(float(c))))
    assert np.float32(a * a) + c != expected
    found = run_reference(module, {"arg0": np.array([a]), "arg1": np.array([a]), "arg2": np.array([c])})
    assert found[0][0] == expected


CASTS = [
    ("f32", "i32", np.array([1.9, -1.9, 0.0, -0.5, 2e9], np.float32), TensorProto.INT32),
    ("f32", "i8", np.array([1.9, -1.9, 127.0, -128.0], np.float32), TensorProto.INT8),
    ("f32", "f16", np.array([1.0002, 65520.0, -1e-8, NAN, INF], np.float32), TensorProto.FLOAT16),
    ("f32", "f64", np.array([0.1, NAN], np.float32), TensorProto.DOUBLE),
    ("f32", "i1", np.array([0.0, -0.0, 0.3, NAN, -INF], np.float32), TensorProto.BOOL),
    ("i32", "f32", np.array([2**24 + 1, -5], np.int32), TensorProto.FLOAT),
    ("i32", "i8", np.array([300, -129, 5], np.int32), TensorProto.INT8),
    ("i32", "i1", np.array([0, 2, -1], np.int32), TensorProto.BOOL),
    ("i1", "f32", np.array([True, False]), TensorProto.FLOAT),
    ("i1", "i64", np.array([True, False]), TensorProto.INT64),
    ("ui8", "f32", np.array([255, 0], np.uint8), TensorProto.FLOAT),
]


def cast(x: Array, source: str, target: str) -> Array:
    a, b = (f"tensor<{len(x)}x{t}>" for t in (source, target))
    return run_reference(graph(f"%y = rlx.cast %x : {a} -> {b}", f"%x: {a}", b, "%y"), {"arg0": x})[0]


@pytest.mark.parametrize(("source", "target", "x", "onnx_type"), CASTS, ids=lambda v: v if isinstance(v, str) else "")
def test_cast_is_onnxs(source: str, target: str, x: Array, onnx_type: int):
    assert_close([cast(x, source, target)], [onnx_run("Cast", x, output=onnx_type, to=onnx_type)], rtol=0, atol=0)


def test_cast_to_bf16_rounds_to_nearest_even():
    x = np.random.default_rng(5).standard_normal(500).astype(np.float32) * np.float32(1e3)
    x = np.concatenate([x, np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, NAN, -INF, 1e-40], np.float32)])
    with np.errstate(over="ignore"):
        expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert_close([cast(x, "f32", "bf16")], [expected], rtol=0, atol=0)


def test_cast_of_complex_numbers():
    z = np.array([1.5 - 2j, 0j], np.complex64)
    assert_close([cast(z, "complex<f32>", "f64")], [np.array([1.5, 0])])
    assert_close([cast(np.array([2.0], np.float32), "f32", "complex<f32>")], [np.array([2 + 0j], np.complex64)])
    assert_close([cast(z, "complex<f32>", "i1")], [np.array([True, False])])


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_narrow_floats_are_computed_in_f32_and_rounded(type: str):
    rounded = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[type]
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((3, 5)).astype(rounded).astype(np.float32) for _ in range(2))
    stored = np.float16 if type == "f16" else np.float32
    found = binary("mul", a.astype(stored), b.astype(stored), type)
    assert_close([found], [(a * b).astype(rounded).astype(stored)], rtol=0, atol=0)
    found = unary("exp", a.astype(stored), type)
    assert_close([found], [np.exp(a).astype(rounded).astype(stored)], rtol=0, atol=0)


@pytest.mark.parametrize("type", ["f32", "f16", "bf16", "f64"])
def test_clamp_is_onnxs_clip_and_its_decomposition(type: str):
    shaped = f"tensor<3x4x{type}>"
    module = graph(f"%y = rlx.clamp %x {{min = -1.1, max = 2.3}} : {shaped}", f"%x: {shaped}", shaped, "%y")
    if type == "f32":
        expected = onnx_run("Clip", FLOATS, np.array(-1.1, np.float32), np.array(2.3, np.float32))
        assert_close(run_reference(module, {"arg0": FLOATS}), [expected])
    assert_same_meaning(module, decomposed(module, "rlx.clamp"), rtol=0, atol=0)


def test_clamp_in_the_body_of_a_region_is_not_decomposed():
    module = graph(
        "%y = rlx.elementwise_region(%x) : tensor<3xf32> -> tensor<3xf32> {\n^bb0(%s: f32):\n"
        "%c = rlx.clamp %s {min = 0.0, max = 6.0} : f32\nrlx.yield %c : f32\n}",
        "%x: tensor<3xf32>",
        "tensor<3xf32>",
        "%y",
    )
    with pytest.raises(VerifyException, match=r"'rlx.clamp': cannot be decomposed on scalars"):
        decomposed(module, "rlx.clamp")


def test_stop_gradient_is_the_identity():
    module = graph("%y = rlx.stop_gradient %x : tensor<?x2xi64>", "%x: tensor<?x2xi64>", "tensor<?x2xi64>", "%y")
    values = random_values(module)
    assert_close(run_reference(module, values), [values["arg0"]])


@pytest.mark.parametrize("kind", ["relu", "neg", "abs", "sign"])
def test_activations_of_integers(kind: str):
    x = np.array([-5, 0, 7], np.int16)
    expected = {"relu": [0, 0, 7], "neg": [5, 0, -7], "abs": [5, 0, 7], "sign": [-1, 0, 1]}[kind]
    assert_close([unary(kind, x, "i16")], [np.array(expected, np.int16)])


def test_maximum_and_minimum_of_truth_values_are_or_and_and():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    for kinds, expected in ((("max", "bit_or"), a | b), (("min", "bit_and"), a & b), (("bit_xor",), a ^ b)):
        for kind in kinds:
            assert_close([binary(kind, a, b, "i1")], [expected])


def test_complex_arithmetic():
    a, b = np.array([1 + 2j, -1j], np.complex64), np.array([2 - 1j], np.complex64)
    expected = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}
    for kind, value in expected.items():
        assert_close([binary(kind, a, b, "complex<f32>")], [value])
    assert_close([binary("ne", a, a, "complex<f32>", "i1", op="compare")], [np.array([False, False])])


def value(*shape: int, element: Attribute = f32) -> SSAValue:
    return Block(arg_types=[TensorType(element, shape)]).args[0]


def test_builders_infer_result_types():
    a, b = value(4, 1), value(3)
    assert BinaryOp("add", a, b).result.type == TensorType(f32, (4, 3))
    assert ActivationOp(ActivationKind.RELU, b).result.type == b.type
    assert CastOp(a, f16).result.type == TensorType(f16, (4, 1))
    assert WhereOp(value(2, 1, 1, element=i1), a, b).result.type == TensorType(f32, (2, 4, 3))
    scalar = Block(arg_types=[f32]).args[0]
    assert BinaryOp(BinaryKind.MUL, scalar, scalar).result.type == f32
    assert BinaryOp("mul", a, scalar).result.type == a.type
    assert CastOp(scalar, i32).result.type == i32


def test_builders_refuse_shapes_that_do_not_broadcast():
    with pytest.raises(VerifyException, match=r"'rlx.binary': shapes 4x2 and 3 do not broadcast at axis -1"):
        BinaryOp("add", value(4, 2), value(3))
    with pytest.raises(ValueError, match="'plus' is none of add, sub"):
        BinaryOp("plus", value(3), value(3))
    assert ClampOp(value(3), 0, 6).min.value.data == 0.0


def test_folds():
    module = parse(
        """
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %c = rlx.constant dense<[1.0, -2.0]> : tensor<2xf32>
          %s = rlx.cast %x : tensor<2xf32> -> tensor<2xf32>
          %r = rlx.activation relu %c : tensor<2xf32>
          %y = rlx.binary add %s, %r : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }
        """
    )
    ops = {op.name: op for op in module.walk()}
    cast_op, relu, add = (ops[n] for n in ("rlx.cast", "rlx.activation", "rlx.binary"))
    assert isinstance(cast_op, CastOp)
    assert isinstance(relu, ActivationOp)
    assert isinstance(add, BinaryOp)
    assert cast_op.fold() == (cast_op.input,)
    folded = relu.fold()
    assert folded is not None
    assert str(folded[0]) == "dense<[1.000000e+00, 0.000000e+00]> : tensor<2xf32>"
    assert add.fold() is None
