"""Corners of the operations: extents of 0, numbers at the ends of their ranges, windows that see nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import assert_close, decomposed, graph, op_module
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, bf16, f16, f32, f64, i1, i8, i32, i64
from xdsl.ir import Attribute, Block
from xdsl.transforms.canonicalize import CanonicalizePass

from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.convolution import PoolOp
from rlx_dialect.ops.elementwise import CastOp
from rlx_dialect.ops.shape import PadOp, TriluOp
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import InterpretationError, VerifyException, print_module, rlx_context

UI8 = IntegerType(8, Signedness.UNSIGNED)


def one_op(line: str) -> ModuleOp:
    """A graph of one operation with one result: its operands are the arguments."""
    name = line.split("%")[0].split()[0]
    operands = [word.strip(" ,(){") for word in line.split(" : ")[0].split() if word.startswith("%")]
    types, result = line.split(" : ")[1].rsplit(" -> ", 1)
    assert name.startswith("rlx.")
    arguments = ", ".join(f"{o}: {t}" for o, t in zip(operands, types.strip("()").split(", "), strict=True))
    return graph(f"%result = {line}", arguments, result, "%result")


def run(module: ModuleOp, seed: int = 0) -> Array:
    (result,) = run_reference(module, random_values(module, seed))
    return result


EMPTY = [
    "rlx.conv %x, %w {kernel_size = [3, 3]} : (tensor<0x3x4x5xf32>, tensor<2x3x3x3xf32>) -> tensor<0x2x2x3xf32>",
    "rlx.conv %x, %w {kernel_size = [3, 3]} : (tensor<1x3x4x5xf32>, tensor<0x3x3x3xf32>) -> tensor<1x0x2x3xf32>",
    "rlx.conv %x, %w {kernel_size = [3, 3]} : (tensor<1x0x4x5xf32>, tensor<2x0x3x3xf32>) -> tensor<1x2x2x3xf32>",
    "rlx.fused_conv_bias_act %x, %w, %b {kernel_size = [3, 3]} "
    ": (tensor<0x3x4x5xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<0x2x2x3xf32>",
    "rlx.attention %q, %k, %v {num_heads = 2, head_dim = 2, layout = bsd} "
    ": (tensor<1x0x4xf32>, tensor<1x3x4xf32>, tensor<1x3x4xf32>) -> tensor<1x0x4xf32>",
    "rlx.attention causal %q, %k, %v {num_heads = 2, head_dim = 2, layout = bsd} "
    ": (tensor<0x2x4xf32>, tensor<0x3x4xf32>, tensor<0x3x4xf32>) -> tensor<0x2x4xf32>",
    "rlx.attention %q, %k, %v {num_heads = 2, head_dim = 2, layout = bsd} "
    ": (tensor<1x2x4xf32>, tensor<1x0x4xf32>, tensor<1x0x4xf32>) -> tensor<1x2x4xf32>",
    "rlx.rope %x, %c, %s {head_dim = 4, layout = bsd} "
    ": (tensor<1x0x8xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<1x0x8xf32>",
    "rlx.rope %x, %c, %s {head_dim = 4, layout = bsd} "
    ": (tensor<0x3x8xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<0x3x8xf32>",
]


@pytest.mark.parametrize("line", EMPTY)
def test_extents_of_0(line: str):
    """What sums over nothing is 0; what has no elements just has its shape."""
    module = one_op(line)
    (result,) = main_function(module).function_type.outputs.data
    value = run(module)
    assert str(result) == f"tensor<{'x'.join(map(str, value.shape))}xf32>"
    np.testing.assert_array_equal(value, np.zeros_like(value))
    if any(isinstance(op, RlxOp) and op.has_decomposition() for op in module.walk()):
        assert_close([run(decomposed(module, line.split()[0]))], [value])


UNKNOWN = [
    # The heads and their width are known where the extent that they make up is not.
    "rlx.attention %q, %k, %v {num_heads = 3, head_dim = 1, layout = bsd} "
    ": (tensor<2x4x3xf32>, tensor<2x5x?xf32>, tensor<2x5x?xf32>) -> tensor<2x4x3xf32>",
    # The batch is known from q.
    "rlx.attention %q, %k, %v {num_heads = 2, head_dim = 2, layout = bsd} "
    ": (tensor<3x?x4xf32>, tensor<?x5x4xf32>, tensor<?x5x4xf32>) -> tensor<3x?x4xf32>",
    "rlx.rope %x, %c, %s {head_dim = 4, layout = bsd} "
    ": (tensor<2x3x0xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x0xf32>",
    "rlx.fused_transformer_layer gelu %x, %qkv, %o, %g, %fc1, %fc2, %h, %m "
    "{num_heads = 2, head_dim = 2, intermediate_size = 5, eps1 = 1.0e-5, eps2 = 1.0e-5} "
    ": (tensor<2x?x?xf32>, tensor<?x12xf32>, tensor<4x?xf32>, tensor<?xf32>, tensor<?x5xf32>, tensor<5x?xf32>, "
    "tensor<?xf32>, tensor<2x?xf32>) -> tensor<2x?x?xf32>",
    "rlx.rope %x, %c, %s {head_dim = 4, style = gptj, layout = bshd} "
    ": (tensor<?x3x?x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<?x3x?x4xf32>",
]


@pytest.mark.parametrize("line", UNKNOWN)
def test_decompositions_where_extents_are_not_known(line: str):
    module = one_op(line)
    assert_close([run(decomposed(module, line.split()[0]))], [run(module)])


def sees_nothing(extent: int, kernel: int, stride: int, before: int, after: int, dilation: int) -> bool:
    """Whether some window lies on padding only, found by looking at each position of each."""
    outputs = (extent + before + after - dilation * (kernel - 1) - 1) // stride + 1
    windows = ([o * stride - before + k * dilation for k in range(kernel)] for o in range(outputs))
    return any(not any(0 <= position < extent for position in window) for window in windows)


def test_every_window_of_a_pool_sees_an_element():
    """With dilation a window can step over all elements."""
    wrong: list[str] = []
    for extent, kernel, stride, before, after, dilation in itertools.product(
        range(4), (1, 2, 3), (1, 2), range(4), range(3), (1, 2, 4)
    ):
        if extent + before + after < dilation * (kernel - 1) + 1:
            continue
        window = f"{extent=} {kernel=} {stride=} {before=} {after=} {dilation=}"
        block = Block(arg_types=[TensorType(f32, [1, 1, extent])])
        op = PoolOp("max", block.args[0], [kernel], stride=[stride], padding=[before, after], dilation=[dilation])
        try:
            op.verify()
            accepted = True
        except VerifyException:
            accepted = False
        if accepted == sees_nothing(extent, kernel, stride, before, after, dilation):
            wrong.append(window)
    assert wrong == []


def pad(element: Attribute, value: float, shape: list[int] | None = None, mode: str = "constant") -> ModuleOp:
    shape = [2] if shape is None else shape
    return op_module(lambda x: PadOp(x, [1] * len(shape) * 2, mode, value), TensorType(element, shape))


@pytest.mark.parametrize(
    ("element", "fits", "exceeds"),
    [(i8, [-128, 127], [-129, 128]), (UI8, [0, 255], [-1, 256]), (i64, [-(2.0**63)], [2.0**63]), (i1, [0, 1], [-1, 2])],
)
def test_pad_with_numbers_at_the_ends_of_a_range(element: Attribute, fits: list[float], exceeds: list[float]):
    for value in fits:
        assert run(pad(element, value)).tolist()[0] == value
    for value in exceeds:
        with pytest.raises(VerifyException, match=f"for element type {element}, got"):
            pad(element, value)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad_of_a_scalar(mode: str):
    module = pad(f32, 0.0, [], mode)
    assert run(module).shape == ()


@pytest.mark.parametrize("diagonal", [-(2**63), 2**63 - 1, -3, 4])
@pytest.mark.parametrize("upper", [False, True])
def test_diagonals_outside_the_matrix(diagonal: int, upper: bool):
    module = op_module(lambda x: TriluOp(x, upper=upper, diagonal=diagonal), TensorType(f32, [2, 3]))
    (x,) = random_values(module).values()
    np.testing.assert_array_equal(run(module), x if (diagonal < 0) == upper else np.zeros((2, 3), np.float32))


MISFITS = [
    "rlx.binary add %a, %b : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>",
    "rlx.matmul %a, %b : (tensor<2x?xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>",
    "rlx.reshape %a {new_shape = [2, 2]} : tensor<?xf32> -> tensor<2x2xf32>",
    "rlx.conv %a, %b {kernel_size = [5, 5]} : (tensor<1x1x?x?xf32>, tensor<1x1x5x5xf32>) -> tensor<1x1x?x?xf32>",
    "rlx.scatter_elements %a, %b, %c : (tensor<5xf32>, tensor<?xi32>, tensor<2xf32>) -> tensor<5xf32>",
]


@pytest.mark.parametrize("line", MISFITS)
def test_extents_that_do_not_fit_at_run_time(line: str):
    """The error names the operation. A dynamic extent is 3 in these."""
    with pytest.raises(InterpretationError, match=f"^'{line.split()[0]}': "):
        run(one_op(line))


def test_constants_without_a_numpy_type_are_not_folded():
    module = graph(
        "%c = rlx.constant dense<[1, -8]> : tensor<2xi4>\n"
        "%d = rlx.reshape %c {new_shape = [1, 2]} : tensor<2xi4> -> tensor<1x2xi4>\n"
        "%e = rlx.constant dense<[1.0, -8.0]> : tensor<2xf32>\n"
        "%f = rlx.cast %e : tensor<2xf32> -> tensor<2xi4>",
        "",
        "tensor<1x2xi4>, tensor<2xi4>",
        "%d, %f",
    )
    before = print_module(module)
    CanonicalizePass().apply(rlx_context(), module)
    assert print_module(module) == before


CASTS = [
    (f64, f16, [(1 + 2**-11 + 2**-40, 1 + 2**-10), (65519.9999999, 65504), (2**-25 + 2**-60, 2**-24), (1 + 2**-11, 1)]),
    (
        f64,
        bf16,
        [(1 + 2**-8 + 2**-40, 1 + 2**-7), (-1 - 2**-8 - 2**-40, -1 - 2**-7), (1 + 2**-8, 1), (0.1, 0.10009765625)],
    ),
    (f64, bf16, [(1 + 3 * 2**-8, 1 + 2**-6), (3.5e38, np.inf), (-np.inf, -np.inf), (np.nan, np.nan), (-0.0, -0.0)]),
    (i32, bf16, [(2**30 + 2**22 + 1, 2**30 + 2**23), (-(2**30) - 2**22 - 1, -(2**30) - 2**23), (2**30 + 2**22, 2**30)]),
]


@pytest.mark.parametrize(("source", "target", "pairs"), CASTS)
def test_casts_round_once(source: Attribute, target: Attribute, pairs: list[tuple[float, float]]):
    """A detour over float32 would round these twice: to a tie, and then the wrong way."""
    values, expected = (np.array(column) for column in zip(*pairs, strict=True))
    module = op_module(lambda x: CastOp(x, target), TensorType(source, values.shape))
    (found,) = run_reference(module, {"arg0": round_to(values, source)})
    np.testing.assert_array_equal(found.astype(float), expected)
