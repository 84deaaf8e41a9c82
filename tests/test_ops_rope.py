"""The gradient of rotary embedding against finite differences; axial rotary embedding lane by lane."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np
import pytest
from gradients import check_decomposition, finite_difference, near, reals
from helpers import run_op

from rlx_dialect.base import RlxOp
from rlx_dialect.ops.attention import RopeOp
from rlx_dialect.ops.rope import AxialRope2dOp, RopeBackwardOp

SHAPES = {"bsd": (2, 3, 16), "bshd": (2, 3, 2, 8), "bhsd": (2, 2, 3, 8)}


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("n_rot", [8, 4])
def test_rope_backward_is_the_gradient(layout: str, style: str, n_rot: int):
    def build(op: Any) -> Any:
        return lambda *v: op(*v, head_dim=8, layout=layout, style=style, n_rot=n_rot)

    arrays = [reals(*SHAPES[layout]), reals(4, 4, seed=1), reals(4, 4, seed=2)]
    dy = reals(*SHAPES[layout], seed=3)
    (found,) = run_op(build(RopeBackwardOp), dy, *arrays[1:], dynamic=False)
    near(found, finite_difference(build(RopeOp), arrays, 0, dy))
    check_decomposition(build(RopeBackwardOp), dy, *arrays[1:], dynamic=[[0], [0], [0]])


@pytest.mark.parametrize("repeat", [1, 2])
def test_axial_rope_2d(repeat: int):
    width, height, dim, heads, theta = 3, 2, 8, 2, 100.0
    rows = width * height * repeat
    x = reals(2, rows, heads * dim)

    def build(v: Any) -> RlxOp:
        return AxialRope2dOp(
            v, end_x=width, end_y=height, head_dim=dim, num_heads=heads, theta=theta, repeat_factor=repeat
        )

    (found,) = run_op(build, x)
    for b, s, h, pair in np.ndindex(2, rows, heads, dim // 2):
        place = s % (width * height)
        coordinate = place % width if pair < dim // 4 else place // width
        angle = coordinate * theta ** (-4 * (pair % (dim // 4)) / dim)
        lane = h * dim + 2 * pair
        turned = complex(x[b, s, lane], x[b, s, lane + 1]) * cmath.exp(1j * angle)
        near(found[b, s, lane : lane + 2], np.array([turned.real, turned.imag]), 1e-12)
    check_decomposition(build, x, dynamic=[[0]])
