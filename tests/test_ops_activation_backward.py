"""Gradients of activations against finite differences in float64, and what they are at corners and edges."""

from __future__ import annotations

import numpy as np
import pytest
from gradients import check_decomposition, check_gradient, near, reals
from helpers import run_op
from xdsl.dialects.builtin import bf16, f16
from xdsl.ir import Attribute

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.dtypes import round_to
from rlx_dialect.ops.activation_backward import ActivationBackwardOp, ReluBackwardOp
from rlx_dialect.ops.elementwise import ActivationOp

STEPS = (ActivationKind.ROUND, ActivationKind.FLOOR, ActivationKind.CEIL, ActivationKind.SIGN)
POSITIVE = {ActivationKind.LOG, ActivationKind.SQRT, ActivationKind.RSQRT}
SMOOTH = [kind for kind in ActivationKind if kind not in STEPS]
INF, NAN = np.inf, np.nan
# Both sides of every corner, none of them on it.
POINTS = np.array([[-7.3, -3.2, -2.7, -0.9, -0.21], [0.13, 0.7, 1.1, 2.9, 4.2]])


@pytest.mark.parametrize("kind", SMOOTH)
def test_gradient(kind: ActivationKind):
    points = np.abs(POINTS) if kind in POSITIVE else POINTS
    check_gradient(
        lambda *v: ActivationBackwardOp(kind, *v), lambda v: ActivationOp(kind, v), [points], 0, lambda x, dy: (x, dy)
    )


@pytest.mark.parametrize("kind", STEPS)
def test_gradient_of_a_step(kind: ActivationKind):
    dy = np.where(POINTS > 4, INF, 2.5)
    (found,) = run_op(lambda *v: ActivationBackwardOp(kind, *v), POINTS, dy)
    np.testing.assert_array_equal(found, dy if kind is ActivationKind.ROUND else np.zeros_like(dy))


@pytest.mark.parametrize("kind", list(ActivationKind))
@pytest.mark.parametrize("element", [f16, bf16])
def test_narrow_floats_are_rounded_once(kind: ActivationKind, element: Attribute):
    x, dy = (round_to(np.abs(a) + 0.1, element) for a in (POINTS, reals(2, 5)))
    (found,) = run_op(lambda *v: ActivationBackwardOp(kind, *v), x, dy, element=element)
    (expected,) = run_op(lambda *v: ActivationBackwardOp(kind, *v), x.astype(np.float64), dy.astype(np.float64))
    # Within half a unit in the last place, and what float32 computed a little differently.
    limit = (2**-11 if element == f16 else 2**-8) * 1.01
    np.testing.assert_allclose(found.astype(float), expected, rtol=limit, atol=1e-6)


@pytest.mark.parametrize("kind", list(ActivationKind))
def test_decomposes_into_operations_of_its_type(kind: ActivationKind):
    check_decomposition(
        lambda *v: ActivationBackwardOp(kind, *v),
        np.abs(POINTS),
        reals(2, 5),
        dynamic=[[0, 1], [1]],
    )


CORNERS = [
    ("relu", [-0.0, 0, 1, INF, -INF, NAN], [0, 0, 1, 1, 0, 0]),
    ("abs", [-0.0, 0, 1, -1, INF, -INF, NAN], [0, 0, 1, -1, 1, -1, NAN]),
    ("elu", [0, INF, -INF, NAN], [1, 1, 0, NAN]),
    ("hard_sigmoid", [-3, 3, 0, INF, -INF, NAN], [0, 0, 1 / 6, 0, 0, 0]),
    ("hard_swish", [-3, 3, 0, INF, -INF], [0, 1, 0.5, 1, 0]),
    ("sigmoid", [1000, -1000, INF, -INF, NAN], [0, 0, 0, 0, NAN]),
    ("tanh", [1000, -1000, INF, -INF, NAN], [0, 0, 0, 0, NAN]),
    ("softplus", [1000, -1000, INF, -INF, NAN], [1, 0, 1, 0, NAN]),
    ("log_sigmoid", [1000, -1000, INF, -INF, NAN], [0, 1, 0, 1, NAN]),
    ("silu", [1000, -1000, NAN], [1, 0, NAN]),
    ("gelu", [1000, -1000, NAN], [1, 0, NAN]),
    ("gelu_approx", [1000, -1000, NAN], [1, 0, NAN]),
    ("mish", [1000, -1000, NAN], [1, 0, NAN]),
    ("softsign", [1000, INF, -INF, NAN], [1 / 1001**2, 0, 0, NAN]),
    ("sqrt", [0, INF, -1], [INF, 0, NAN]),
    ("log", [0, INF], [INF, 0]),
    ("recip", [0, INF], [-INF, 0]),
]


@pytest.mark.parametrize(("kind", "x", "expected"), CORNERS, ids=[c[0] for c in CORNERS])
def test_corners_and_edges(kind: str, x: list[float], expected: list[float]):
    for dtype in (np.float32, np.float64):
        (found,) = run_op(lambda *v: ActivationBackwardOp(kind, *v), np.array(x, dtype), np.ones(len(x), dtype))
        near(found, np.array(expected), 1e-6)


def test_small_gradients_do_not_cancel():
    """What 1 - tanh(x)² and sigmoid(x)·(1 - sigmoid(x)) would lose in float32."""
    x, one = np.array([12, -12], np.float32), np.ones(2, np.float32)
    (tanh,) = run_op(lambda *v: ActivationBackwardOp("tanh", *v), x, one)
    np.testing.assert_allclose(tanh, 1 / np.cosh(12.0) ** 2, rtol=1e-5)
    (sigmoid,) = run_op(lambda *v: ActivationBackwardOp("sigmoid", *v), 2 * x, one)
    np.testing.assert_allclose(sigmoid, np.exp(-24.0) / (1 + np.exp(-24.0)) ** 2, rtol=1e-5)


def test_relu_backward():
    x, dy = np.array([[-1, 0, 2, NAN]]), np.array([[INF, NAN, 5, 7]])
    (found,) = run_op(lambda *v: ReluBackwardOp(*v), x, dy)
    np.testing.assert_array_equal(found, [[0, 0, 5, 0]])
    check_gradient(lambda *v: ReluBackwardOp(*v), lambda v: ActivationOp("relu", v), [POINTS], 0, lambda x, dy: (x, dy))
    check_decomposition(lambda *v: ReluBackwardOp(*v), POINTS, reals(2, 5), dynamic=[[0], [0, 1]])
