"""Shape, gather and scatter operations against onnxruntime, and against index arithmetic where ONNX has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import op_module, run_op
from onnx_oracle import onnx_run
from xdsl.dialects.builtin import TensorType, bf16, f32, i32

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.indexing import (
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    KvAppendOp,
    ScatterAddOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from rlx_dialect.ops.shape import (
    ConcatOp,
    ExpandOp,
    NarrowOp,
    PadOp,
    ReshapeOp,
    ReverseOp,
    RollOp,
    SliceOp,
    TileOp,
    TransposeOp,
    TriluOp,
)
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import InterpretationError, VerifyException


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def same(found: list[Array], expected: Array) -> None:
    """The one result is bit by bit ``expected``."""
    assert len(found) == 1
    assert found[0].dtype == expected.dtype
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("shape", [[6, 4], [4, -1, 2], [-1], [2, 3, 2, 2]])
def test_reshape(shape: list[int]):
    x = floats(2, 3, 4)
    same(run_op(lambda v: ReshapeOp(v, shape), x), onnx_run("Reshape", x, ints(*shape)))


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 0, 1), (1, -1, 0)])
def test_transpose(perm: tuple[int, ...]):
    x = floats(2, 3, 4)
    expected = onnx_run("Transpose", x, perm=[p % 3 for p in perm])
    same(run_op(lambda v: TransposeOp(v, perm), x), expected)


@pytest.mark.parametrize(("axis", "start", "length"), [(0, 1, 1), (1, 0, 3), (-1, 2, 5), (2, 3, 0)])
def test_narrow(axis: int, start: int, length: int):
    x = floats(2, 3, 7)
    expected = onnx_run("Slice", x, ints(start), ints(start + length), ints(axis))
    same(run_op(lambda v: NarrowOp(v, axis, start, length), x), expected)


@pytest.mark.parametrize(
    ("axis", "start", "length", "step"), [(2, 1, 3, 2), (2, 6, 3, -3), (1, 2, 3, -1), (-3, 0, 2, 1), (2, 6, 4, -2)]
)
def test_slice(axis: int, start: int, length: int, step: int):
    x = floats(2, 3, 7)
    end = start + step * length
    # A negative end counts from the back in ONNX: one before the first element is below every extent.
    expected = onnx_run("Slice", x, ints(start), ints(end if end >= 0 else -100), ints(axis), ints(step))
    same(run_op(lambda v: SliceOp(v, axis, start, length, step), x), expected)


@pytest.mark.parametrize("op", [lambda v: NarrowOp(v, 0, 3, 4), lambda v: SliceOp(v, 0, 1, 3, 2)])
def test_a_part_beyond_a_dynamic_extent_is_reported(op: Any):
    module = op_module(op, TensorType(f32, [DYNAMIC, 2]))
    with pytest.raises(InterpretationError):
        run_reference(module, {"arg0": floats(5, 2)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int):
    shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    shapes[1][axis], shapes[2][axis] = 1, 5
    arrays = [floats(*s, seed=i) for i, s in enumerate(shapes)]
    same(run_op(lambda *vs: ConcatOp(vs, axis), *arrays), onnx_run("Concat", *arrays, axis=axis))


@pytest.mark.parametrize("shape", [[2, 3, 4], [5, 2, 3, 4], [2, -1, 4]])
def test_expand(shape: list[int]):
    x = floats(3, 1)
    expected = onnx_run("Expand", x, ints(*(3 if d == -1 else d for d in shape)))
    same(run_op(lambda v: ExpandOp(v, shape), x), expected)


@pytest.mark.parametrize("axes", [[0], [-1, 0], [0, 1, 2]])
def test_reverse(axes: list[int]):
    x = floats(2, 3, 4)
    backward = [ints(*[v] * len(axes)) for v in (-1, -100, -1)]
    expected = onnx_run("Slice", x, backward[0], backward[1], ints(*axes), backward[2])
    same(run_op(lambda v: ReverseOp(v, axes), x), expected)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[0, 1, 2, 0, 0, 3], [1, 2, 0, 1, 2, 1], [0, 0, 0, 0, 0, 0]])
def test_pad(mode: str, pads: list[int]):
    x = floats(2, 3, 4)
    value = np.float32(0 if mode != "constant" else -1.5)
    expected = onnx_run("Pad", x, ints(*pads), np.array(value), mode=mode)
    same(run_op(lambda v: PadOp(v, pads, mode, float(value)), x), expected)


def test_a_negative_pad_removes():
    x = floats(2, 3, 4)
    expected = onnx_run("Pad", x, ints(0, -1, 2, 0, 0, -3), np.array(7, np.float32))
    same(run_op(lambda v: PadOp(v, [0, -1, 2, 0, 0, -3], value=7.0), x), expected)


@pytest.mark.parametrize(("array", "value"), [(np.array([3, -1], np.int8), -7), (np.array([True, False]), 1)])
def test_pad_of_integers(array: Array, value: int):
    same(run_op(lambda v: PadOp(v, [1, 2], value=value), array), np.array([value, *array, value, value], array.dtype))


@pytest.mark.parametrize("reps", [[2, 1, 3], [1, 4, 1], [0, 2, 1]])
def test_tile(reps: list[int]):
    x = floats(2, 3, 4)
    same(run_op(lambda v: TileOp(v, reps), x), onnx_run("Tile", x, ints(*reps)))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("diagonal", [0, 1, -2, 7])
def test_trilu(upper: bool, diagonal: int):
    x = floats(2, 3, 5)
    expected = onnx_run("Trilu", x, np.asarray(np.int64(diagonal)), upper=int(upper))
    same(run_op(lambda v: TriluOp(v, upper=upper, diagonal=diagonal), x), expected)


@pytest.mark.parametrize(("shifts", "dims"), [([1], [0]), ([-2, 5], [2, 1]), ([9], [-1])])
def test_roll(shifts: list[int], dims: list[int]):
    x = floats(2, 3, 4)
    expected = np.empty_like(x)
    for position in np.ndindex(*x.shape):
        target = list(position)
        for shift, dim in zip(shifts, dims, strict=True):
            target[dim] = (target[dim] + shift) % x.shape[dim]
        expected[tuple(target)] = x[position]
    same(run_op(lambda v: RollOp(v, shifts, dims), x), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int):
    table, indices = floats(5, 3, 4), np.array([[0, -1, 2], [1, 1, -3]], np.int64)
    same(run_op(lambda t, i: GatherOp(t, i, axis), table, indices), onnx_run("Gather", table, indices, axis=axis))


def test_gather_by_one_index():
    table, index = floats(5, 3), np.asarray(np.int64(4))
    same(run_op(lambda t, i: GatherOp(t, i), table, index), onnx_run("Gather", table, index, axis=0))


@pytest.mark.parametrize(
    ("indices", "batch"),
    [([[0, 1], [4, -1]], 0), ([[[2]], [[-5]]], 0), ([[1], [-1], [0], [2], [2]], 1), ([[[0], [1]]] * 5, 1)],
)
def test_gather_nd(indices: Any, batch: int):
    data, where = floats(5, 3, 4), np.array(indices, np.int64)
    expected = onnx_run("GatherND", data, where, batch_dims=batch)
    same(run_op(lambda d, i: GatherNdOp(d, i, batch_dims=batch), data, where, dynamic=False), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int):
    rng = np.random.default_rng(1)
    data = floats(5, 3, 4)
    shape = [5, 3, 4]
    shape[axis] = 6
    indices = rng.integers(-data.shape[axis], data.shape[axis], shape)
    expected = onnx_run("GatherElements", data, indices, axis=axis)
    same(run_op(lambda d, i: GatherElementsOp(d, i, axis), data, indices), expected)


def test_gather_elements_may_read_a_part_of_the_other_axes():
    data, indices = floats(5, 3, 4), np.array([[[1, -1]], [[0, 2]]], np.int64)
    found = run_op(lambda d, i: GatherElementsOp(d, i, 0), data, indices)
    same(found, np.array([[[data[1, 0, 0], data[-1, 0, 1]]], [[data[0, 0, 0], data[2, 0, 1]]]]))


REDUCTIONS = ["none", "add", "mul", "max", "min"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_nd(reduction: str):
    data, where = floats(5, 3, 4), np.array([[0, 1], [-1, 2], [0, 1]], np.int64)
    where = where[:2] if reduction == "none" else where  # The order among equal indices is undefined.
    updates = floats(len(where), 4, seed=1)
    expected = onnx_run("ScatterND", data, where, updates, reduction=reduction)
    found = run_op(lambda d, i, u: ScatterNdOp(d, i, u, reduction=reduction), data, where, updates, dynamic=False)
    same(found, expected)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -1])
def test_scatter_elements(reduction: str, axis: int):
    data, updates = floats(5, 3, 4), floats(2, 3, 4, seed=1)
    rng = np.random.default_rng(2)
    columns = [rng.permutation(data.shape[axis]) - data.shape[axis] for _ in range(64)]
    indices = np.empty(updates.shape, np.int64)
    for i, position in enumerate(np.ndindex(*np.delete(updates.shape, axis))):
        line = [*position]
        line.insert(axis % 3, slice(None))  # pyright: ignore[reportArgumentType]
        indices[tuple(line)] = columns[i][: updates.shape[axis]]
    if reduction != "none":
        indices[:] = indices.flat[0]
    expected = onnx_run("ScatterElements", data, indices, updates, axis=axis, reduction=reduction)
    found = run_op(lambda d, i, u: ScatterElementsOp(d, i, u, axis, reduction=reduction), data, indices, updates)
    same(found, expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_add_is_the_transpose_of_gather(axis: int):
    data, indices = floats(5, 3, 4), np.array([[0, -1, 2], [2, 1, 2]], np.int32)
    updates = floats(*data.shape[: axis % 3], 2, 3, *data.shape[axis % 3 + 1 :], seed=1)
    expected = data.astype(np.float64)
    moved = np.moveaxis(expected, axis, 0)
    for i, j in np.ndindex(2, 3):
        moved[indices[i, j]] += np.take(np.take(updates, i, axis % 3), j, axis % 3)
    (found,) = run_op(lambda d, i, u: ScatterAddOp(d, i, u, axis), data, indices, updates)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_scatter_add_accumulates_low_precision_in_float32():
    data, updates = np.array([256.0], np.float32), np.full(8, 0.5, np.float32)
    (found,) = run_op(lambda d, i, u: ScatterAddOp(d, i, u), data, np.zeros(8, np.int32), updates)
    assert found[0] == 260
    module = op_module(
        lambda d, i, u: ScatterAddOp(d, i, u), TensorType(bf16, [1]), TensorType(i32, [8]), TensorType(bf16, [8])
    )
    # Each half alone is lost in bfloat16, whose neighbours of 256 are 2 apart.
    assert run_reference(module, {"arg0": data, "arg1": np.zeros(8, np.int32), "arg2": updates})[0][0] == 260


@pytest.mark.parametrize("index", [5, -6])
def test_an_index_outside_the_axis_is_reported(index: int):
    with pytest.raises(InterpretationError, match=r"'rlx.gather': an index is outside extent 5"):
        run_op(lambda t, i: GatherOp(t, i), floats(5, 3), ints(index))


@pytest.mark.parametrize(("axis", "pos"), [(1, 0), (1, 5), (-1, 3)])
def test_kv_append(axis: int, pos: int):
    cache = floats(2, 8, 8)
    update = floats(*(3 if a == axis % 3 else d for a, d in enumerate(cache.shape)), seed=1)
    expected = cache.copy()
    np.moveaxis(expected, axis, 0)[pos : pos + 3] = np.moveaxis(update, axis, 0)
    same(run_op(lambda c, u: KvAppendOp(c, u, axis, pos), cache, update), expected)


def test_kv_append_beyond_a_dynamic_extent_is_reported():
    types = TensorType(f32, [DYNAMIC, 2]), TensorType(f32, [3, 2])
    module = op_module(lambda c, u: KvAppendOp(c, u, 0, 3), *types)
    with pytest.raises(InterpretationError, match=r"'rlx.kv_append': position 6 is outside extent 5"):
        run_reference(module, {"arg0": floats(5, 2), "arg1": floats(3, 2)})


def test_shape_operations_move_bits():
    """NaN payloads, signed zeros, integers and truth values come through as they are."""
    nan = np.array([0x7FC12345, 0x80000000, 0xFF800000], np.uint32).view(np.float32)
    (found,) = run_op(lambda v: ReverseOp(v, [0]), nan)
    np.testing.assert_array_equal(found.view(np.uint32), nan[::-1].view(np.uint32))
    flags = np.array([[True, False, True]])
    same(run_op(lambda v: TransposeOp(v, [1, 0]), flags), flags.T)
    same(run_op(lambda v: TriluOp(v), np.full((2, 2), 7, np.int8)), np.array([[7, 0], [7, 7]], np.int8))


def test_one_axis_has_one_spelling():
    """Negative axes are counted from the front when an operation is built, so that equal operations are equal text."""

    def built(negative: bool) -> str:
        d = 3 if negative else 0
        chain = op_module(lambda x: NarrowOp(x, 2 - d, 1, 2), TensorType(f32, [2, 3, 4]))
        other = op_module(lambda x: ReverseOp(x, [2 - d, 0 - d]), TensorType(f32, [2, 3, 4]))
        return str(chain) + str(other)

    assert built(negative=True) == built(negative=False)


def test_a_mistake_in_python_names_operation_and_axis():
    with pytest.raises(VerifyException, match=r"'rlx.narrow': axis -4 is outside rank 3"):
        op_module(lambda x: NarrowOp(x, -4, 0, 1), TensorType(f32, [2, 3, 4]))


def test_reshape_and_expand_take_dynamic_extents_of_a_shape():
    type = TensorType(f32, [DYNAMIC, 3])
    module = op_module(lambda x: ReshapeOp(x, [DYNAMIC, 3, 1]), type)
    assert "{new_shape = [-1, 3, 1]} : tensor<?x3xf32> -> tensor<?x3x1xf32>" in str(module)
    module = op_module(lambda x: ExpandOp(x, [2, DYNAMIC, 3]), type)
    assert "{shape = [2, -1, 3]} : tensor<?x3xf32> -> tensor<2x?x3xf32>" in str(module)
