"""Convolution, pooling and resizing in linalg."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import TOLERANCE, built, compare, lowered, with_edges
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import RlxOp
from rlx_dialect.ops.convolution import ConvOp, FusedConvBiasActOp, PoolOp, ResizeNearest2xOp


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "i32"])
def test_convolutions(element: str):
    def make(x: SSAValue, w: SSAValue, p: SSAValue, g: SSAValue, d: SSAValue) -> list[RlxOp]:
        return [
            ConvOp(x, w),
            ConvOp(x, w, stride=[2, 1], padding=[1, 2], dilation=[1, 2]),
            ConvOp(x, w, padding=[0, 1, 2, 0]),
            ConvOp(x, p),
            ConvOp(x, p, stride=[3, 2]),
            ConvOp(x, p, stride=[2, 2], padding=[1, 1]),
            ConvOp(x, g, groups=2, padding=[1, 1]),
            ConvOp(x, d, groups=4, stride=[2, 2]),
        ]

    shapes = {"x": "2x4x7x9", "w": "6x4x3x2", "p": "5x4x1x1", "g": "6x2x3x3", "d": "8x1x2x3"}
    module = built({name: f"tensor<{shape}x{element}>" for name, shape in shapes.items()}, make)
    compare(module, rtol=TOLERANCE.get(element, 0), atol=1e-5)


def test_one_window_that_leaves_something_over():
    """IREE takes the axis to be as long as the window then, and finds that it is not."""
    module = built(
        {"x": "tensor<1x2x3x7xf32>", "w": "tensor<3x2x2x2xf32>", "d": "tensor<2x1x2x2xf32>"},
        lambda x, w, d: [
            ConvOp(x, w, stride=[2, 4]),
            ConvOp(x, d, groups=2, stride=[2, 4], dilation=[1, 2]),
            PoolOp("max", x, [2, 2], stride=[2, 2]),
            PoolOp("mean", x, [2, 3], stride=[3, 5], padding=[0, 1]),
        ],
    )
    compare(module, atol=1e-5)


def test_convolutions_with_dynamic_extents():
    module = built(
        {
            "x": "tensor<?x3x?xf32>",
            "w": "tensor<4x3x5xf32>",
            "i": "tensor<?x4x?x?xf32>",
            "p": "tensor<2x4x1x1xf32>",
            "g": "tensor<6x2x2x3xf32>",
        },
        lambda x, w, i, p, g: [
            ConvOp(x, w, stride=[2], padding=[2]),
            ConvOp(x, w),
            ConvOp(i, p, stride=[2, 3]),
            ConvOp(i, g, groups=2),
        ],
    )
    rng = np.random.default_rng(0)
    shapes = {"x": (2, 3, 11), "w": (4, 3, 5), "i": (3, 4, 6, 7), "p": (2, 4, 1, 1), "g": (6, 2, 2, 3)}
    compare(module, {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}, atol=1e-5)


def test_three_spatial_axes():
    module = built(
        {"x": "tensor<2x3x4x5x6xf32>", "w": "tensor<6x1x2x3x2xf32>"},
        lambda x, w: [
            ConvOp(x, w, groups=3, padding=[1, 0, 1]),
            PoolOp("mean", x, [2, 3, 2], stride=[2, 2, 2], padding=[1, 1, 0]),
        ],
    )
    compare(module, atol=1e-5)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_fused_convolutions(element: str):
    shapes = {"x": "2x4x6x6", "w": "5x4x3x3", "b": "5", "r": "2x5x6x6"}
    module = built(
        {name: f"tensor<{shape}x{element}>" for name, shape in shapes.items()},
        lambda x, w, b, r: [
            FusedConvBiasActOp(x, w, b, padding=[1, 1]),
            FusedConvBiasActOp(x, w, b, r, padding=[1, 1], activation="relu"),
            FusedConvBiasActOp(x, w, b, activation="silu"),
        ],
    )
    compare(module, rtol=TOLERANCE[element], atol={"f32": 1e-5, "bf16": 1e-2}[element])


@pytest.mark.parametrize("element", ["f32", "f16", "i32", "ui8"])
def test_pools(element: str):
    kinds = [k for k in ReduceKind if element[0] == "f" or k is not ReduceKind.MEAN]

    def make(x: SSAValue) -> list[RlxOp]:
        ops: list[RlxOp] = []
        for kind in kinds:
            ops += [
                PoolOp(kind, x, [2, 3]),
                PoolOp(kind, x, [3, 3], stride=[2, 2], padding=[1, 1]),
                PoolOp(kind, x, [2, 2], stride=[1, 2], padding=[0, 0, 1, 1], dilation=[2, 1]),
                PoolOp(kind, x, [7, 9]),
            ]
        if element[0] == "f":
            ops.append(PoolOp("mean", x, [3, 3], padding=[1, 1], count_include_pad=True))
        return ops

    module = built({"x": f"tensor<2x3x7x9x{element}>"}, make)
    if element[0] == "f":
        with_edges(module, rtol=TOLERANCE[element], atol=1e-6)
    else:
        compare(module)


def test_pools_with_dynamic_extents():
    module = built(
        {"x": "tensor<?x3x?xf32>", "y": "tensor<?x?x8xf32>"},
        lambda x, y: [
            PoolOp("max", x, [3], stride=[2], padding=[1]),
            PoolOp("mean", y, [3], stride=[2], padding=[1]),
            PoolOp("mean", x, [2], stride=[2]),
        ],
    )
    compare(module, dynamic=6)


def test_resize():
    compare(built({"x": "tensor<2x3x4x5xi8>"}, lambda x: [ResizeNearest2xOp(x)]))
    compare(built({"x": "tensor<?x?x?x?xf32>"}, lambda x: [ResizeNearest2xOp(x)]))


def test_a_window_of_one_element_is_no_window():
    module = built({"x": "tensor<1x4x6x6xf32>", "w": "tensor<5x4x1x1xf32>"}, lambda x, w: [ConvOp(x, w, stride=[2, 2])])
    (generic,) = [op for op in lowered(module).walk() if op.name == "linalg.generic"]
    assert len(generic.properties["iterator_types"].data) == 5  # pyright: ignore[reportAttributeAccessIssue]
