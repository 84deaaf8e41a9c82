"""Shape and indexing operations in linalg."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import built, case, compare, lowered
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

from rlx_dialect.base import RlxOp
from rlx_dialect.ops.indexing import GatherElementsOp, GatherNdOp, GatherOp, KvAppendOp
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


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "i1"])
def test_static_reshapes(element: str):
    module = built(
        {
            "x": f"tensor<4x6x1x5x{element}>",
            "s": f"tensor<1x1x{element}>",
            "z": f"tensor<{element}>",
            "e": f"tensor<0x3x{element}>",
        },
        lambda x, s, z, e: [
            ReshapeOp(x, [24, 5]),
            ReshapeOp(x, [2, 2, 6, 5, 1]),
            ReshapeOp(x, [8, -1]),
            ReshapeOp(x, [1, 120, 1]),
            ReshapeOp(x, [4, 6, 1, 5]),
            ReshapeOp(s, []),
            ReshapeOp(z, [1, 1, 1]),
            ReshapeOp(z, []),
            ReshapeOp(e, [3, 0, 2]),
        ],
    )
    compare(module)


def test_reshapes_with_dynamic_extents():
    def make(x: SSAValue, y: SSAValue) -> list[RlxOp]:
        return [
            ReshapeOp(x, [-1, 8]),
            ReshapeOp(x, [-1]),
            ReshapeOp(x, [-1, 2, 2, 8]),
            ReshapeOp(x, [2, -1, 2]),
            ReshapeOp(x, [-1, 4, 8], result_type=TensorType(f32, [DYNAMIC, 4, 8])),
            ReshapeOp(x, [1, -1, 32]),
            # The type knows what the operand's does not tell.
            ReshapeOp(x, [-1, 8], result_type=TensorType(f32, [24, 8])),
            ReshapeOp(y, [-1, 6]),
            ReshapeOp(y, [3, -1]),
        ]

    module = built({"x": "tensor<?x4x8xf32>", "y": "tensor<?x?x3xf32>"}, make)
    rng = np.random.default_rng(0)
    compare(
        module,
        {
            "x": rng.standard_normal((6, 4, 8)).astype(np.float32),
            "y": rng.standard_normal((4, 5, 3)).astype(np.float32),
        },
    )


def test_a_reshape_of_a_dynamic_batch_keeps_its_extent():
    module = built({"x": "tensor<?x4x8xf32>"}, lambda x: [ReshapeOp(x, [-1, 32])])
    names = [op.name for op in lowered(module).walk()]
    assert "arith.divui" not in names
    assert names.count("tensor.collapse_shape") == 1
    assert "tensor.expand_shape" not in names


@pytest.mark.parametrize("element", ["f32", "f16", "i64", "i1"])
def test_static_movement(element: str):
    def make(x: SSAValue, y: SSAValue, v: SSAValue) -> list[RlxOp]:
        return [
            TransposeOp(x, [2, 0, 1]),
            TransposeOp(x, [0, 1, 2]),
            NarrowOp(x, 1, 1, 3),
            NarrowOp(x, 2, 2, 0),
            SliceOp(x, 1, 0, 3, 2),
            SliceOp(x, 1, 4, 2, -3),
            SliceOp(x, 2, 5, 6, -1),
            ConcatOp([x, y, x], 1),
            ConcatOp([x], 0),
            ExpandOp(v, [2, 3, 6]),
            ExpandOp(y, [4, 3, 2, 6]),
            ReverseOp(x, [0, 2]),
            TileOp(x, [2, 1, 3]),
            TileOp(v, [3]),
            TriluOp(x),
            TriluOp(x, upper=True, diagonal=1),
            TriluOp(x, diagonal=-2),
            RollOp(x, [1, -8], [1, 2]),
            PadOp(x, [0, 1, 2, 0, 0, 1], value=0.0 if element == "i1" else -3.0),
            PadOp(x, [1, -1, 2, 0, -2, 0], value=1.0),
            PadOp(x, [0, 2, 5, 0, 4, 1], "reflect"),
            PadOp(x, [0, 7, 0, 2, 0, 9], "edge"),
            PadOp(x, [0, 5, 6, 0, 3, 0], "wrap"),
        ]

    shapes = {"x": "3x5x6", "y": "3x2x6", "v": "6"}
    compare(built({name: f"tensor<{shape}x{element}>" for name, shape in shapes.items()}, make), atol=0, rtol=0)


def test_what_computes_positions_reads_a_slice_with_steps():
    def make(x: SSAValue, i: SSAValue) -> list[RlxOp]:
        strided = SliceOp(x, 1, 0, 3, 3)
        backwards = SliceOp(x, 1, 6, 3, -3)
        return [
            strided,
            backwards,
            ReverseOp(strided, [1]),
            PadOp(strided, [0, 1, 0, 1], "edge"),
            GatherOp(strided, i, 1),
            ReverseOp(backwards, [0]),
        ]

    module = built({"x": "tensor<5x7xf32>", "i": "tensor<4xi32>"}, make)
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    compare(module, {"x": x, "i": np.array([2, 0, 1, 2], np.int32)}, atol=0, rtol=0)


def test_slices_of_nothing_and_from_the_end():
    def make(x: SSAValue, e: SSAValue) -> list[RlxOp]:
        return [
            NarrowOp(x, 1, 7, 0),
            SliceOp(x, 0, 5, 0, -3),
            NarrowOp(e, 1, 2, 3),
            PadOp(x, [-2, -1, -3, 0]),
            PadOp(x, [-2, -1, -3, 2], "edge"),
        ]

    compare(built({"x": "tensor<5x7xf32>", "e": "tensor<0x7xf32>"}, make))


def test_padding_with_infinity():
    compare(built({"x": "tensor<2x3xf32>"}, lambda x: [PadOp(x, [0, 1, 1, 0], value=float("-inf"))]))


def test_movement_with_dynamic_extents():
    def make(x: SSAValue, y: SSAValue, u: SSAValue) -> list[RlxOp]:
        return [
            TransposeOp(x, [2, 0, 1]),
            NarrowOp(x, 0, 1, 2),
            SliceOp(x, 1, 3, 2, -2),
            ConcatOp([x, y], 1),
            ConcatOp([x, x], 0),
            ExpandOp(u, [4, -1, 6]),
            ReverseOp(x, [0, 1]),
            TileOp(x, [2, 1, 3]),
            TriluOp(x),
            RollOp(x, [5, 1], [1, 2]),
            RollOp(x, [-7], [0]),
            PadOp(x, [0, 1, 2, 0, 0, 1]),
            PadOp(x, [0, -1, 0, 1, -1, 0]),
            PadOp(x, [1, 2, 0, 1, 3, 0], "reflect"),
            PadOp(x, [1, 2, 0, 1, 3, 0], "edge"),
            PadOp(x, [1, 2, 0, 1, 3, 0], "wrap"),
        ]

    module = built({"x": "tensor<?x?x6xf32>", "y": "tensor<?x2x6xf32>", "u": "tensor<?x6xf32>"}, make)
    rng = np.random.default_rng(0)
    shapes = {"x": (4, 5, 6), "y": (4, 2, 6), "u": (3, 6)}
    compare(module, {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})


def test_slices_of_one_tensor_are_joined_around_a_dynamic_extent():
    def make(x: SSAValue) -> list[RlxOp]:
        first, second = NarrowOp(x, 1, 0, 1), NarrowOp(x, 1, 1, 1)
        return [first, second, ConcatOp([second, second, first], 1)]

    compare(built({"x": "tensor<3x2x?x8xf32>"}, make), atol=0, rtol=0)


def test_an_extent_that_may_be_one_expands():
    module = built({"x": "tensor<?x3xf32>"}, lambda x: [ExpandOp(x, [5, 3]), ExpandOp(x, [2, 5, 3])])
    rng = np.random.default_rng(0)
    compare(module, *({"x": rng.standard_normal((rows, 3)).astype(np.float32)} for rows in (1, 5)))


@pytest.mark.parametrize("index", ["i32", "i64", "ui8"])
def test_gathers(index: str):
    def make(t: SSAValue, i: SSAValue, e: SSAValue, n: SSAValue, m: SSAValue) -> list[RlxOp]:
        return [
            GatherOp(t, i),
            GatherOp(t, i, 1),
            GatherOp(t, i, 2),
            GatherElementsOp(t, e, 1),
            GatherNdOp(t, n),
            GatherNdOp(t, m, batch_dims=1),
        ]

    module = built(
        {
            "t": "tensor<3x5x6xf32>",
            "i": f"tensor<2x4x{index}>",
            "e": f"tensor<3x7x2x{index}>",
            "n": f"tensor<4x2x{index}>",
            "m": f"tensor<3x2x1x{index}>",
        },
        make,
    )
    rng = np.random.default_rng(0)
    low = 0 if index[0] == "u" else -3
    values = {
        name: rng.integers(low, 3, shape)
        for name, shape in {"i": (2, 4), "e": (3, 7, 2), "n": (4, 2), "m": (3, 2, 1)}.items()
    }
    dtype = np.dtype({"i32": "int32", "i64": "int64", "ui8": "uint8"}[index])
    table = rng.standard_normal((3, 5, 6)).astype(np.float32)
    compare(module, {"t": table, **{name: value.astype(dtype) for name, value in values.items()}})


def test_indices_above_127_are_not_negative():
    module = case(
        {"t": "tensor<256xf32>", "i": "tensor<3xui8>"},
        "%y = rlx.gather %t, %i : (tensor<256xf32>, tensor<3xui8>) -> tensor<3xf32>",
    )
    compare(module, {"t": np.arange(256, dtype=np.float32), "i": np.array([0, 128, 255], np.uint8)})


def test_gathers_and_caches_with_dynamic_extents():
    def make(t: SSAValue, i: SSAValue, c: SSAValue, u: SSAValue) -> list[RlxOp]:
        return [GatherOp(t, i), KvAppendOp(c, u, 1, 2)]

    module = built(
        {"t": "tensor<?x4xf32>", "i": "tensor<?x?xi64>", "c": "tensor<?x8x3xf32>", "u": "tensor<?x?x3xf32>"}, make
    )
    rng = np.random.default_rng(0)
    compare(
        module,
        {
            "t": rng.standard_normal((5, 4)).astype(np.float32),
            "i": rng.integers(-5, 5, (2, 3)),
            "c": rng.standard_normal((2, 8, 3)).astype(np.float32),
            "u": rng.standard_normal((2, 4, 3)).astype(np.float32),
        },
    )
