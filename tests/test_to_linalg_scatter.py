"""Scatters in linalg, with equal and negative indices, as IREE's own scatter and as the loop that others see."""

from __future__ import annotations

import numpy as np
import pytest
from linalg_helpers import TOLERANCE, built, compare, lowered
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.lowering.to_linalg import SCATTER
from rlx_dialect.ops.indexing import GatherBackwardOp, ScatterAddOp, ScatterElementsOp, ScatterNdOp
from rlx_dialect.runtime.iree_form import hand_off
from rlx_dialect.runtime.toolchain import portable_text
from rlx_dialect.samples import random_values

REDUCTIONS = ("none", "add", "mul", "max", "min")


def indexed(module: ModuleOp, limits: dict[str, int], seed: int = 0) -> dict[str, Array]:
    """Random values, with indices from the end and repeated ones, below ``limits``."""
    values = random_values(module, seed, dynamic=4)
    rng = np.random.default_rng(seed)
    for name, limit in limits.items():
        low = 0 if values[name].dtype.kind == "u" else -limit
        values[name] = rng.integers(low, limit, values[name].shape).astype(values[name].dtype)
    return values


@pytest.mark.parametrize("element", ["f32", "bf16", "ui8"])
def test_rows_are_added(element: str):
    static = element != "f32"
    rows, count = ("5", "7") if static else ("?", "?")
    module = built(
        {
            "d": f"tensor<{rows}x3x2x{element}>",
            "i": f"tensor<{count}xi32>",
            "u": f"tensor<{count}x3x2x{element}>",
            "j": "tensor<2x4xui8>",
            "v": f"tensor<{rows}x2x4x2x{element}>",
            "w": f"tensor<{rows}x3x2x4x{element}>",
        },
        lambda d, i, u, j, v, w: [
            ScatterAddOp(d, i, u),
            ScatterAddOp(d, j, v, 1),
            ScatterAddOp(d, j, w, 2),
            GatherBackwardOp(u, i, extent=9),
            GatherBackwardOp(v, j, 1, extent=6),
        ],
    )
    tolerance = TOLERANCE.get(element, 0)
    values = [indexed(module, {"i": 4, "j": 2}, seed) for seed in (0, 1)]
    compare(module, *values, rtol=4 * tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("element", ["f32", "i64"])
def test_reductions(element: str):
    module = built(
        {
            "d": f"tensor<4x3x?x{element}>",
            "i": "tensor<2x5x2xi64>",
            "u": f"tensor<2x5x?x{element}>",
            "e": "tensor<6x3x?xi32>",
            "v": f"tensor<6x3x?x{element}>",
            "one": "tensor<3x1xi32>",
            "w": f"tensor<3x3x?x{element}>",
        },
        lambda d, i, u, e, v, one, w: [
            *(ScatterNdOp(d, i, u, reduction=r) for r in REDUCTIONS if r != "none"),
            *(ScatterElementsOp(d, e, v, 0, reduction=r) for r in REDUCTIONS if r != "none"),
            ScatterNdOp(d, one, w),
        ],
    )
    values = indexed(module, {"i": 3, "e": 4})
    # What is left among equal indices that replace each other is undefined.
    values["one"] = np.array([[2], [-4], [1]], np.int32)
    compare(module, values, rtol=1e-4)


def test_truth_values_and_no_updates():
    module = built(
        {
            "d": "tensor<6xi1>",
            "i": "tensor<3x1xi32>",
            "u": "tensor<3xi1>",
            "j": "tensor<3xi8>",
            "n": "tensor<0xi32>",
            "f": "tensor<0x2xf32>",
        },
        lambda d, i, u, j, n, f: [
            ScatterNdOp(d, i, u),
            ScatterElementsOp(d, j, u, 0, reduction="max"),
            GatherBackwardOp(f, n, extent=3),
        ],
    )
    compare(module, indexed(module, {"j": 6}) | {"i": np.array([[5], [-6], [2]], np.int32)})


def test_the_loop_becomes_the_engine_s_scatter():
    module = lowered(
        built(
            {"d": "tensor<?x3xf32>", "i": "tensor<7xi32>", "u": "tensor<7x3xf32>"},
            lambda d, i, u: [ScatterAddOp(d, i, u)],
        )
    )
    (loop,) = (op for op in module.walk() if op.name == "scf.for")
    assert SCATTER in loop.attributes
    text = portable_text(hand_off(module, []))
    assert "iree_linalg_ext.scatter" in text
    assert "scf.for" not in text
