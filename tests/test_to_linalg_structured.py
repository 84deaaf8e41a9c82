"""Products, reductions, norms, attention, convolution and pooling in linalg."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import TOLERANCE, Values, built, case, compare, lowered, with_edges
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import RlxOp, element_of
from rlx_dialect.lowering.to_linalg import BARRIER
from rlx_dialect.ops.contraction import (
    DotGeneralOp,
    FusedMatMulBiasActOp,
    FusedMatMulResidualOp,
    FusedSwiGLUOp,
    MatMulOp,
)
from rlx_dialect.ops.normalization import (
    AdaLayerNormOp,
    FusedResidualLnOp,
    FusedResidualRmsNormOp,
    GatedResidualOp,
    GroupNormOp,
    LayerNorm2dOp,
    LayerNormOp,
    RmsNormOp,
)
from rlx_dialect.ops.reduction import ReduceOp, SoftmaxOp

# Products.


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "i32", "i8"])
def test_products(element: str):
    def make(x: SSAValue, w: SSAValue, b3: SSAValue, c: SSAValue, bias: SSAValue, r: SSAValue) -> list[RlxOp]:
        ops: list[RlxOp] = [
            MatMulOp(x, w),
            MatMulOp(b3, w),
            MatMulOp(b3, c),
            MatMulOp(x, c),
            DotGeneralOp(b3, c, [2], [1], [0], [0]),
            DotGeneralOp(b3, x, [1, 2], [0, 1]),
            DotGeneralOp(b3, c, [2], [1]),
            FusedMatMulBiasActOp(x, w, bias, activation="relu"),
            FusedMatMulBiasActOp(b3, w, bias),
            FusedMatMulResidualOp(x, w, r),
        ]
        if element[0] != "i":
            ops += [
                FusedMatMulBiasActOp(b3, c, bias, activation="gelu"),
                FusedSwiGLUOp(r),
                FusedSwiGLUOp(r, gate_first=True),
            ]
        return ops

    shapes = {"x": "4x5", "w": "5x6", "b3": "2x4x5", "c": "2x5x6", "bias": "6", "r": "4x6"}
    module = built({name: f"tensor<{shape}x{element}>" for name, shape in shapes.items()}, make)
    compare(module, rtol=TOLERANCE.get(element, 0), atol=1e-5)


def test_products_with_broadcast_batches():
    module = built(
        {
            "a": "tensor<3x1x4x5xf32>",
            "b": "tensor<2x5x6xf32>",
            "c": "tensor<1x1x5x6xf32>",
            "d": "tensor<1x4x5xf32>",
        },
        lambda a, b, c, d: [MatMulOp(a, b), MatMulOp(a, c), MatMulOp(d, b), MatMulOp(d, c)],
    )
    compare(module)


def test_products_with_dynamic_extents():
    module = built(
        {"x": "tensor<?x?x5xf32>", "w": "tensor<5x6xf32>", "b": "tensor<?x5x?xf32>", "bias": "tensor<6xf32>"},
        lambda x, w, b, bias: [
            MatMulOp(x, w),
            MatMulOp(x, b),
            FusedMatMulBiasActOp(x, w, bias, activation="silu"),
            DotGeneralOp(x, b, [2], [1], [0], [0]),
        ],
    )
    rng = np.random.default_rng(0)
    values: list[Values] = []
    for batch, rows, columns in ((2, 3, 4), (1, 1, 1), (3, 7, 2)):
        shapes = {"x": (batch, rows, 5), "w": (5, 6), "b": (batch, 5, columns), "bias": (6,)}
        values.append({name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})
    compare(module, *values)


def test_products_of_no_columns():
    """IREE fails to divide by their number."""
    elements = ("f32", "f16", "i8")
    types = {f"{name}_{e}": f"tensor<{shape}x{e}>" for e in elements for name, shape in (("x", "?x0"), ("w", "0x4"))}
    compare(built(types, lambda *v: [MatMulOp(x, w) for x, w in zip(v[::2], v[1::2], strict=True)]))


def test_an_outer_product_sums_nothing():
    module = case(
        {"x": "tensor<2x3xf16>", "y": "tensor<4xf16>"},
        "%y0 = rlx.dot_general %x, %y {lhs_contracting = [], rhs_contracting = []} "
        ": (tensor<2x3xf16>, tensor<4xf16>) -> tensor<2x3x4xf16>",
    )
    compare(module)


def test_a_type_that_knows_less_than_the_operands():
    module = case(
        {"x": "tensor<2x3xf32>", "y": "tensor<1x3xf32>"},
        "%y0 = rlx.binary add %x, %y : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<?x?xf32>",
    )
    compare(module)


def test_a_linear_layer_is_one_matmul():
    module = built({"x": "tensor<?x4x5xf32>", "w": "tensor<5x6xf32>"}, lambda x, w: [MatMulOp(x, w)])
    names = [op.name for op in lowered(module).walk()]
    assert "linalg.matmul" in names
    assert "linalg.generic" not in names


# Reductions and norms.

REDUCTIONS = [
    (kind, axes, keep) for kind in ReduceKind for axes, keep in (((1,), False), ((0, 2), True), ((0, 1, 2), False))
]


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_reductions(element: str):
    module = built(
        {"x": f"tensor<3x4x5x{element}>"},
        lambda x: (
            [ReduceOp(kind, x, axes, keep_dim=keep) for kind, axes, keep in REDUCTIONS]
            + [ReduceOp("sum", x, []), SoftmaxOp(x), SoftmaxOp(x, 1)]
        ),
    )
    with_edges(module, rtol=TOLERANCE[element], atol=1e-6)


@pytest.mark.parametrize("element", ["i32", "i8", "ui8", "i1"])
def test_integer_reductions(element: str):
    kinds = ["max", "min"] if element == "i1" else ["sum", "max", "min", "prod"]
    module = built(
        {"x": f"tensor<3x4x5x{element}>"},
        lambda x: [ReduceOp(kind, x, axes) for kind in kinds for axes in ((0,), (1, 2))],
    )
    compare(module)


def test_reductions_with_dynamic_extents():
    module = built(
        {"x": "tensor<?x4x?xf32>"},
        lambda x: [ReduceOp("mean", x, [0, 2], keep_dim=True), ReduceOp("max", x, [2]), SoftmaxOp(x), SoftmaxOp(x, 0)],
    )
    compare(module, dynamic=6)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_norms(element: str):
    def make(x: SSAValue, r: SSAValue, g: SSAValue, b: SSAValue, s: SSAValue) -> list[RlxOp]:
        flat = RmsNormOp(x, g, b, eps=1e-5, result_type=TensorType(element_of(g), [6, 16]))
        return [
            LayerNormOp(x, g, b, eps=1e-5),
            RmsNormOp(x, g, b, eps=1e-6),
            flat,
            FusedResidualLnOp(x, r, g, b, eps=1e-5),
            FusedResidualLnOp(x, r, g, b, eps=1e-5, bias=b, sum_result=True),
            FusedResidualRmsNormOp(x, r, g, b, eps=1e-5, sum_result=True),
            AdaLayerNormOp(x, s, s, eps=1e-5),
            AdaLayerNormOp(x, s, r, eps=1e-5, norm="rms_norm"),
            GatedResidualOp(x, r, s),
        ]

    shapes = {"x": "2x3x16", "r": "2x3x16", "g": "16", "b": "16", "s": "2x1x16"}
    module = built({name: f"tensor<{shape}x{element}>" for name, shape in shapes.items()}, make)
    compare(module, rtol=TOLERANCE[element], atol={"f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}[element])


def test_norms_with_dynamic_extents():
    module = built(
        {"x": "tensor<?x?x?xf32>", "g": "tensor<?xf32>"},
        lambda x, g: [LayerNormOp(x, g, g, eps=1e-5), FusedResidualRmsNormOp(x, x, g, g, eps=1e-5, sum_result=True)],
    )
    compare(module, dynamic=8, atol=1e-5)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_norms_of_groups_and_channels(element: str):
    def make(x: SSAValue, g: SSAValue, y: SSAValue, h: SSAValue) -> list[RlxOp]:
        return [
            GroupNormOp(x, g, g, num_groups=2, eps=1e-5),
            LayerNorm2dOp(x, g, g, eps=1e-5),
            GroupNormOp(y, h, h, num_groups=3, eps=1e-5),
        ]

    def types(*shapes: str) -> dict[str, str]:
        return {name: f"tensor<{shape}x{element}>" for name, shape in zip("xgyh", shapes, strict=True)}

    limits = {"rtol": TOLERANCE[element], "atol": {"f32": 1e-5, "f16": 4e-3}[element]}
    compare(built(types("2x6x5x3", "6", "4x3", "3"), make), **limits)
    compare(built(types("?x?x?x?", "?", "?x6", "6"), make), dynamic=4, **limits)


def test_each_norm_carries_the_barrier_once():
    module = built(
        {"x": "tensor<2x8xf32>", "g": "tensor<8xf32>"},
        lambda x, g: [
            LayerNormOp(x, g, g, eps=1e-5),
            RmsNormOp(x, g, g, eps=1e-5),
            FusedResidualLnOp(x, x, g, g, eps=1e-5, sum_result=True),
        ],
    )
    assert sum(BARRIER in op.attributes for op in lowered(module).walk()) == 3
