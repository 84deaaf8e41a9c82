"""Element-wise operations, casts, reductions and softmax on MLX with the values that numerics go wrong on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest
from mlx_helpers import assert_agrees, compiled_run, uncompiled_run
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, bf16, f16, f32, f64, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind, ReduceKind
from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, integer_limits, is_bool, is_float, round_to, storage_dtype
from rlx_dialect.ops.elementwise import (
    BITWISE,
    BOOL_BINARIES,
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    FmaOp,
    WhereOp,
    activation_takes,
)
from rlx_dialect.ops.reduction import ReduceOp, SoftmaxOp
from rlx_dialect.ops.scan import CumulativeOp

FLOATS = (f32, f16, bf16, f64)
INTEGERS = tuple(IntegerType(n) for n in (8, 16, 32, 64))
UNSIGNED = tuple(IntegerType(n, Signedness.UNSIGNED) for n in (8, 16, 32, 64))
NUMBERS = (*FLOATS, *INTEGERS, *UNSIGNED)
TYPES = (*NUMBERS, i1)
REALS = np.array([0.0, -0.0, 1, -1, 0.5, -1.5, 2.5, 1e-30, -1e30, 88, -104, np.inf, -np.inf, np.nan, 7.2, -20, 1e4])

Build = Callable[..., RlxOp]


def pairs(element: Attribute) -> list[Array]:
    """Three arrays whose elements meet in all pairs of edge values."""
    if is_bool(element):
        return [np.array(x, bool) for x in ([0, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1])]
    if is_float(element):
        first, second = (x.ravel() for x in np.meshgrid(REALS, REALS))
        return [round_to(x, element) for x in (first, second, np.roll(first, 5))]
    least, greatest = integer_limits(element)
    width = element.width.data if isinstance(element, IntegerType) else 64
    numbers = {least, least + 1, max(least, -1), 0, 1, 2, 3, 7, width - 1, width, width + 1, greatest - 1, greatest}
    edges = np.array(sorted(numbers), object)
    first, second = (x.ravel().astype(storage_dtype(element)) for x in np.meshgrid(edges, edges))
    return [first, second, np.roll(first, 5)]


def check(builds: Iterable[tuple[Build, Sequence[Attribute], Sequence[Array]]], *, compiled: bool = False) -> None:
    """All the operations in one graph, each with arguments of its own, against the reference."""
    operations = list(builds)
    types = [
        TensorType(e, a.shape) for _, elements, arrays in operations for e, a in zip(elements, arrays, strict=True)
    ]
    block = Block(arg_types=types)
    left: list[SSAValue] = list(block.args)
    results: list[SSAValue] = []
    for build, elements, _ in operations:
        operands, left = left[: len(elements)], left[len(elements) :]
        op = build(*operands)
        block.add_op(op)
        results += op.results
    block.add_op(ReturnOp(*results))
    module = ModuleOp([FuncOp("main", (types, [r.type for r in results]), Region(block))])
    module.verify()
    arrays = [a for _, _, arrays in operations for a in arrays]
    values = {f"arg{i}": a for i, a in enumerate(arrays)}
    assert_agrees(module, (compiled_run if compiled else uncompiled_run)(module, values), values)


@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_activations(element: Attribute):
    kinds = [k for k in ActivationKind if activation_takes(k, element)]
    x = np.unique(pairs(element)[0])
    check((lambda v, k=k: ActivationOp(k, v), [element], [x]) for k in kinds)


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_pairs_of_elements(element: Attribute):
    a, b, c = pairs(element)
    kinds = set(BOOL_BINARIES if is_bool(element) else BinaryKind)
    kinds -= BITWISE if is_float(element) else {BinaryKind.ATAN2}
    operations: list[tuple[Build, Sequence[Attribute], Sequence[Array]]] = [
        (lambda x, y, k=k: BinaryOp(k, x, y), [element] * 2, [a, b]) for k in BinaryKind if k in kinds
    ]
    operations += [(lambda x, y, k=k: CompareOp(k, x, y), [element] * 2, [a, b]) for k in CompareKind]
    operations.append((WhereOp, [i1, element, element], [np.arange(a.size) % 3 == 0, a, b]))
    if is_float(element):
        operations.append((lambda x: ClampOp(x, -1.3, np.inf), [element], [a]))
        finite = [np.where(np.abs(x.astype(np.float64)) > 1e4, 3, x).astype(x.dtype) for x in (a, b, c)]
        operations.append((FmaOp, [element] * 3, finite))
    check(operations)


def test_kernels_that_mlx_compiles_keep_nan_and_infinities():
    a, b, _ = pairs(f32)
    kinds = (BinaryKind.MAX, BinaryKind.MIN, BinaryKind.DIV, BinaryKind.POW, BinaryKind.MOD)
    operations: list[tuple[Build, Sequence[Attribute], Sequence[Array]]] = [
        (lambda x, y, k=k: BinaryOp(k, x, y), [f32] * 2, [a, b]) for k in kinds
    ]
    some = (ActivationKind.RELU, ActivationKind.SIGN, ActivationKind.GELU, ActivationKind.SOFTPLUS, ActivationKind.ELU)
    operations += [(lambda x, k=k: ActivationOp(k, x), [f32], [a]) for k in some]
    check(operations, compiled=True)


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts(source: Attribute):
    operations: list[tuple[Build, Sequence[Attribute], Sequence[Array]]] = []
    for target in TYPES:
        x = np.unique(pairs(source)[0])
        if is_float(source) and not is_float(target) and not is_bool(target):
            low, high = integer_limits(target)
            x = x[(x > max(low, -1000)) & (x < min(high, 1000))]
        operations.append((lambda v, t=target: CastOp(v, t), [source], [x]))
    check(operations)


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_reductions(element: Attribute):
    x = pairs(element)[0][:96] if not is_bool(element) else np.tile(pairs(element)[0], 24)
    x = np.concatenate([x[:16], np.roll(x, 3)])[:96].reshape(-1, 4, 4)
    kinds = [k for k in ReduceKind if k is not ReduceKind.MEAN or is_float(element)]
    if is_bool(element):
        kinds = [ReduceKind.MAX, ReduceKind.MIN]
    check(
        (lambda v, k=k, axes=axes, keep=keep: ReduceOp(k, v, axes, keep_dim=keep), [element], [value])
        for k in kinds
        for axes, keep, value in (
            ([0], True, x),
            ([2], False, x),
            ([0, 2], False, x),
            ([], False, x),
            ([1], True, x[:, :0]),
        )
    )


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_running_reductions(element: Attribute):
    x = np.resize(pairs(element)[0], (3, 7, 4))
    kinds = [ReduceKind.MAX, ReduceKind.MIN]
    if not is_bool(element):
        kinds += [ReduceKind.SUM, ReduceKind.PROD]
    check(
        (lambda v, k=k, a=axis, e=exclusive: CumulativeOp(k, v, a, exclusive=e), [element], [value])
        for k in kinds
        for axis in (0, 1, 2)
        for exclusive in (False, True)
        for value in (x, x[:, :, :0], x[:0])
    )


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_softmax_of_rows_of_infinities(element: Attribute):
    rows = np.concatenate([REALS[:15].reshape(3, 5), np.full((1, 5), -np.inf), np.arange(20).reshape(4, 5) * 9.5])
    check((lambda v, a=axis: SoftmaxOp(v, a), [element], [round_to(rows, element)]) for axis in (0, 1))


@pytest.mark.parametrize("element", [f16, bf16], ids=str)
def test_long_narrow_sums_are_formed_in_f32(element: Attribute):
    ones = round_to(np.ones((2, 5000)), element)
    check((lambda v, k=k: ReduceOp(k, v, [1]), [element], [ones]) for k in (ReduceKind.SUM, ReduceKind.MEAN))
