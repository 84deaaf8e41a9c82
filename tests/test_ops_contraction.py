"""Matrix products and their fused forms against sums written out and onnxruntime."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from gradients import check_decomposition, reals
from helpers import assert_close, assert_same_meaning, decomposed, graph, op_module, run_op
from onnx import TensorProto
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import ModuleOp, TensorType, bf16, f32
from xdsl.ir import Block, SSAValue

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.contraction import (
    DotGeneralOp,
    FusedMatMulBiasActOp,
    FusedMatMulResidualOp,
    FusedSwiGLUOp,
    GroupedMatMulOp,
    LoraMatMulOp,
    MatMulOp,
)
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import InterpretationError, VerifyException

RNG = np.random.default_rng(0)


def tensor(shape: Sequence[int | str], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def module(op: str, operands: Sequence[tuple[Sequence[int | str], str]], result: str) -> ModuleOp:
    """``op`` (with ``OPERANDS`` for the operand list) on arguments of these shapes and element types."""
    types = [tensor(*o) for o in operands]
    names = [f"%a{i}" for i in range(len(types))]
    return graph(
        f"%y = {op.replace('OPERANDS', ', '.join(names))} : ({', '.join(types)}) -> {result}",
        ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True)),
        result,
        "%y",
    )


def run(m: ModuleOp, *values: Array) -> Array:
    return run_reference(m, {f"arg{i}": v for i, v in enumerate(values)})[0]


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ((2, 3), (3, 5), (2, 5)),
        ((7, 2, 3), (3, 5), (7, 2, 5)),
        ((2, 3), (7, 3, 5), (7, 2, 5)),
        ((7, 1, 2, 3), (4, 3, 5), (7, 4, 2, 5)),
        ((1, 0), (0, 4), (1, 4)),
    ],
)
def test_matmul_is_onnxs_with_broadcast_batches(lhs: tuple[int, ...], rhs: tuple[int, ...], result: tuple[int, ...]):
    a, b = (RNG.standard_normal(s).astype(np.float32) for s in (lhs, rhs))
    found = run(module("rlx.matmul OPERANDS", [(lhs, "f32"), (rhs, "f32")], tensor(result, "f32")), a, b)
    assert_close([found], [onnx_run("MatMul", a, b)])


def test_integers_wrap_around():
    a, b = np.array([[100, 100]], np.int8), np.array([[2], [1]], np.int8)
    found = run(module("rlx.matmul OPERANDS", [((1, 2), "i8"), ((2, 1), "i8")], "tensor<1x1xi8>"), a, b)
    assert_close([found], [np.array([[44]], np.int8)])


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_narrow_floats_accumulate_in_f32(type: str):
    # 4096 ones: an f16 sum stays at 2048, a bf16 sum at 256.
    stored = np.float16 if type == "f16" else np.float32
    a, b = np.ones((1, 4096), stored), np.ones((4096, 1), stored)
    found = run(module("rlx.matmul OPERANDS", [(a.shape, type), (b.shape, type)], f"tensor<1x1x{type}>"), a, b)
    assert_close([found], [np.full((1, 1), 4096, stored)], rtol=0, atol=0)


DOTS = [
    ((2, 3, 4), (5, 4, 2), [2], [1], [0], [2]),
    ((2, 3, 4), (5, 4, 2), [2, 0], [1, 2], [], []),
    ((2, 3, 4, 5), (4, 5, 2, 3), [3], [1], [1, 0], [3, 2]),
    ((2, 3), (4, 5), [], [], [], []),
    ((3, 2), (2, 3), [0, 1], [1, 0], [], []),
    ((6,), (6,), [0], [0], [], []),
]


def dot_written_out(
    a: Array, b: Array, lc: Sequence[int], rc: Sequence[int], lb: Sequence[int], rb: Sequence[int]
) -> Array:
    """Every result element as a Python sum over the contracted indices."""
    lf = [i for i in range(a.ndim) if i not in (*lc, *lb)]
    rf = [i for i in range(b.ndim) if i not in (*rc, *rb)]
    shape = [*(a.shape[i] for i in (*lb, *lf)), *(b.shape[i] for i in rf)]
    result = np.zeros(shape)
    for out in itertools.product(*map(range, shape)):
        batch, left, right = out[: len(lb)], out[len(lb) : len(lb) + len(lf)], out[len(lb) + len(lf) :]
        for summed in itertools.product(*(range(a.shape[i]) for i in lc)):
            at_a = dict(zip((*lb, *lf, *lc), (*batch, *left, *summed), strict=True))
            at_b = dict(zip((*rb, *rf, *rc), (*batch, *right, *summed), strict=True))
            result[out] += float(a[tuple(at_a[i] for i in range(a.ndim))] * b[tuple(at_b[i] for i in range(b.ndim))])
    return result


@pytest.mark.parametrize(("lhs", "rhs", "lc", "rc", "lb", "rb"), DOTS)
def test_dot_general(
    lhs: tuple[int, ...], rhs: tuple[int, ...], lc: list[int], rc: list[int], lb: list[int], rb: list[int]
):
    a, b = RNG.standard_normal(lhs), RNG.standard_normal(rhs)
    expected = dot_written_out(a, b, lc, rc, lb, rb)
    axes = f"{{lhs_contracting = {lc}, rhs_contracting = {rc}, lhs_batch = {lb}, rhs_batch = {rb}}}"
    m = module(f"rlx.dot_general OPERANDS {axes}", [(lhs, "f64"), (rhs, "f64")], tensor(expected.shape, "f64"))
    assert_close([run(m, a, b)], [expected])


@pytest.mark.parametrize("kind", [None, *ActivationKind])
def test_fused_matmul_bias_act_is_its_parts(kind: ActivationKind | None):
    word = "" if kind is None else f"{kind.value} "
    m = module(
        f"rlx.fused_matmul_bias_act {word}OPERANDS",
        [((4, 2, 3), "f32"), ((3, 5), "f32"), ((5,), "f32")],
        "tensor<4x2x5xf32>",
    )
    flat = decomposed(m, "rlx.fused_matmul_bias_act")
    names = [op.name for op in flat.walk() if op.name.startswith("rlx.")]
    assert names == ["rlx.matmul", "rlx.binary", *(["rlx.activation"] if kind else [])]
    assert_same_meaning(m, flat)


def test_fused_matmul_bias_act_adds_the_bias_to_the_last_axis():
    m = module(
        "rlx.fused_matmul_bias_act relu OPERANDS",
        [((2, 2, 3), "f32"), ((2, 3, 2), "f32"), ((2,), "f32")],
        "tensor<2x2x2xf32>",
    )
    x, w = RNG.standard_normal((2, 2, 3)).astype(np.float32), RNG.standard_normal((2, 3, 2)).astype(np.float32)
    bias = np.array([10, -10], np.float32)
    found = run(m, x, w, bias)
    assert_close([found], [np.maximum(np.einsum("bmk,bkn->bmn", x, w) + bias, 0)])
    assert (found[..., 1] == 0).all()


def test_fused_matmul_residual():
    m = module(
        "rlx.fused_matmul_residual OPERANDS",
        [((4, 2, 3), "f32"), ((3, 5), "f32"), ((4, 2, 5), "f32")],
        "tensor<4x2x5xf32>",
    )
    x, w, r = (RNG.standard_normal(s).astype(np.float32) for s in ((4, 2, 3), (3, 5), (4, 2, 5)))
    assert_close([run(m, x, w, r)], [onnx_run("Add", onnx_run("MatMul", x, w), r)])
    assert_same_meaning(m, decomposed(m, "rlx.fused_matmul_residual"))


@pytest.mark.parametrize("gate_first", [False, True])
@pytest.mark.parametrize("result", ["f32", "f16", "f64"])
def test_fused_swiglu_gates_the_other_half(gate_first: bool, result: str):
    flag = " {gate_first}" if gate_first else ""
    m = graph(
        f"%y = rlx.fused_swiglu %x{flag} : tensor<3x?x10xf32> -> tensor<3x?x5x{result}>",
        "%x: tensor<3x?x10xf32>",
        f"tensor<3x?x5x{result}>",
        "%y",
    )
    x = RNG.standard_normal((3, 2, 10)).astype(np.float32)
    up, gate = (x[..., 5:], x[..., :5]) if gate_first else (x[..., :5], x[..., 5:])
    expected = up.astype(float) * gate / (1 + np.exp(-gate.astype(float)))
    dtype = {"f32": np.float32, "f16": np.float16, "f64": np.float64}[result]
    assert_close([run(m, x)], [expected.astype(dtype)], rtol=2e-3 if result == "f16" else 1e-5)
    assert_same_meaning(m, decomposed(m, "rlx.fused_swiglu"), rtol=2e-3 if result == "f16" else 1e-5)


def test_a_result_type_that_knows_more_than_the_operands_survives_decomposition():
    m = module(
        "rlx.fused_matmul_bias_act gelu OPERANDS",
        [(("?", 3), "f32"), ((3, "?"), "f32"), (("?",), "f32")],
        "tensor<4x5xf32>",
    )
    flat = decomposed(m, "rlx.fused_matmul_bias_act")
    values = {"arg0": RNG.standard_normal((4, 3)), "arg1": RNG.standard_normal((3, 5)), "arg2": np.arange(5.0)}
    values = {n: v.astype(np.float32) for n, v in values.items()}
    assert_close(run_reference(flat, values), run_reference(m, values))


def test_swiglu_of_unknown_width():
    m = graph(
        "%y = rlx.fused_swiglu %x : tensor<3x?xf32> -> tensor<3x?xf32>", "%x: tensor<3x?xf32>", "tensor<3x?xf32>", "%y"
    )
    values = random_values(m, dynamic=4)
    assert run_reference(m, values)[0].shape == (3, 2)
    assert_close(run_reference(decomposed(m, "rlx.fused_swiglu"), values), run_reference(m, values))


def value(*shape: int) -> SSAValue:
    return Block(arg_types=[TensorType(f32, shape)]).args[0]


def test_builders_infer_and_refuse():
    x, w, bias = value(4, -1, 3), value(3, 5), value(5)
    product = TensorType(f32, (4, -1, 5))
    assert MatMulOp(x, w).result.type == product
    assert FusedMatMulBiasActOp(x, w, bias, activation="gelu").result.type == product
    assert FusedMatMulResidualOp(x, w, value(4, 2, 5)).result.type == product
    assert FusedSwiGLUOp(value(2, 6), gate_first=True).result.type == TensorType(f32, (2, 3))
    assert FusedSwiGLUOp(value(2, 6), result_type=TensorType(bf16, (2, 3))).result.type == TensorType(bf16, (2, 3))
    assert DotGeneralOp(x, w, [2], [0]).result.type == product
    with pytest.raises(VerifyException, match=r"'rlx.matmul': contracted extents .*: 5 and 3 differ"):
        MatMulOp(w, w)


def test_onnx_matmul_of_integers_agrees():
    a, b = RNG.integers(-9, 9, (2, 3)).astype(np.int32), RNG.integers(-9, 9, (3, 4)).astype(np.int32)
    found = run(module("rlx.matmul OPERANDS", [((2, 3), "i32"), ((3, 4), "i32")], "tensor<2x4xi32>"), a, b)
    assert_close([found], [onnx_run("MatMul", a, b, output=TensorProto.INT32)])


@pytest.mark.parametrize(
    "shapes",
    [[(3, 4), (4, 5), (4, 2), (2, 5)], [(2, 3, 4), (4, 5), (4, 1), (1, 5)], [(3, 4), (2, 4, 5), (4, 2), (2, 5)]],
)
def test_lora_matmul(shapes: list[tuple[int, ...]]):
    arrays = [reals(*s, seed=i).astype(np.float32) for i, s in enumerate(shapes)]
    x, w, a, b = (v.astype(np.float64) for v in arrays)
    found = run_op(lambda *v: LoraMatMulOp(*v, scale=0.5), *arrays)
    assert_close(found, [(x @ (w + 0.5 * (a @ b))).astype(np.float32)])
    module = op_module(lambda *v: LoraMatMulOp(*v, scale=0.5), *(TensorType(f32, s) for s in shapes))
    assert_same_meaning(module, decomposed(module, "rlx.lora_matmul"))
    dynamic = [[0, len(shapes[0]) - 1], [0], [0, 1], [1]]
    check_decomposition(lambda *v: LoraMatMulOp(*v, scale=0.5), *(a.astype(float) for a in arrays), dynamic=dynamic)


def test_grouped_matmul():
    x, w, idx = reals(5, 3), reals(4, 3, 2, seed=1), np.array([3, 0, 0, 2, 3], np.int32)
    found = run_op(lambda *v: GroupedMatMulOp(*v), x, w, idx)
    assert_close(found, [np.stack([x[i] @ w[e] for i, e in enumerate(idx)])])
    check_decomposition(lambda *v: GroupedMatMulOp(*v), x, w, idx, dynamic=[[0, 1], [0, 2], [0]])


def test_grouped_matmul_without_rows_and_with_an_index_that_is_outside():
    w = reals(4, 3, 2)
    (found,) = run_op(lambda *v: GroupedMatMulOp(*v), reals(0, 3), w, np.empty(0, np.int64))
    assert found.shape == (0, 2)
    for index in (4, -1):
        with pytest.raises(InterpretationError, match=r"'rlx\.grouped_matmul': an index is outside extent 4"):
            run_op(lambda *v: GroupedMatMulOp(*v), reals(1, 3), w, np.array([index]))
