"""The decompositions of linear algebra: the values of the whole operations, or what their factors must satisfy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from gradients import reals, typed_module
from helpers import ELEMENTS, decomposed
from xdsl.dialects.builtin import bf16
from xdsl.ir import Attribute

from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.linear_algebra import (
    CholeskyOp,
    DenseSolveOp,
    DetOp,
    LogDetOp,
    QrOp,
    SvdOp,
    TriangularSolveOp,
)
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import VerifyException

NAN, INF = math.nan, math.inf
Build = Callable[..., RlxOp]
LIMITS = [(np.float64, 1e-9), (np.float32, 2e-3)]
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 0), (2, 3)]


def in_parts(build: Build, *arrays: Array, more: int = 0, element: Attribute | None = None) -> tuple[Array, Array]:
    """What the decomposition and the whole operation give; the batch is unknown, and the last ``more`` axes of the last
    operand."""
    elements = [element or ELEMENTS[a.dtype.name] for a in arrays]
    dynamic = [list(range(arrays[0].ndim - 2)) for _ in arrays]
    dynamic[-1] += range(arrays[-1].ndim - more, arrays[-1].ndim)
    module = typed_module(build, arrays, elements, dynamic)
    (name,) = {op.name for op in module.walk() if isinstance(op, RlxOp)}
    values = {f"arg{i}": a for i, a in enumerate(arrays)}
    return run_reference(decomposed(module, name), values)[0], run_reference(module, values)[0]


def near(build: Build, *arrays: Array, limit: float, more: int = 0) -> None:
    found, expected = in_parts(build, *arrays, more=more)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("size", [0, 1, 2, 5])
@pytest.mark.parametrize(("dtype", "limit"), LIMITS)
def test_square_matrices(batch: tuple[int, ...], size: int, dtype: Any, limit: float):
    a = reals(*batch, size, size).astype(dtype)
    columns, vector = reals(*batch, size, 2, seed=1).astype(dtype), reals(*batch, size, seed=2).astype(dtype)
    near(DenseSolveOp, a, columns, limit=limit, more=1)
    near(DenseSolveOp, a, vector, limit=limit)
    near(DetOp, a, limit=limit)
    near(LogDetOp, a, limit=limit)
    near(CholeskyOp, a @ a.swapaxes(-1, -2) + np.eye(size, dtype=dtype), limit=limit)
    for lower, transpose in ((False, False), (False, True), (True, False), (True, True)):
        build = partial(TriangularSolveOp, lower=lower, transpose=transpose)
        near(build, a + 3 * np.eye(size, dtype=dtype), columns, limit=limit, more=1)
        near(build, a + 3 * np.eye(size, dtype=dtype), vector, limit=limit)


SHAPES = [(4, 4), (5, 3), (3, 5), (1, 1), (1, 4), (4, 1), (2, 2), (0, 3), (3, 0), (9, 8)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("batch", [(), (2, 2)])
@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 1e-11), (np.float32, 1e-5)])
def test_factors(shape: tuple[int, int], batch: tuple[int, ...], dtype: Any, limit: float):
    """Those of qr are LAPACK's; those of svd are determined but for signs."""
    a = reals(*batch, *shape).astype(dtype)
    for part in ("q", "r"):
        near(lambda v, p=part: QrOp(p, v), a, limit=limit)
    near(lambda v: SvdOp("s", v), a, limit=limit)
    check_svd(a, limit)


def check_svd(a: Array, limit: float) -> None:
    u, s, vt = (in_parts(lambda v, p=part: SvdOp(p, v), a)[0].astype(np.float64) for part in ("u", "s", "vt"))
    rank = min(a.shape[-2:])
    identity = np.broadcast_to(np.eye(rank), (*a.shape[:-2], rank, rank))
    largest = float(np.abs(a).max(initial=1))
    np.testing.assert_allclose((u * s[..., None, :]) @ vt, a, atol=3 * limit * largest)
    np.testing.assert_allclose(u.swapaxes(-1, -2) @ u, identity, atol=limit)
    np.testing.assert_allclose(vt @ vt.swapaxes(-1, -2), identity, atol=limit)
    assert (s >= 0).all()
    np.testing.assert_array_equal(s, -np.sort(-s, -1))


@pytest.mark.parametrize("kind", ["graded", "deficient", "orthogonal", "huge", "zero"])
def test_svd_of_matrices_that_are_hard(kind: str):
    a = {
        "graded": reals(9, 7) * 10.0 ** -np.arange(7),
        "deficient": reals(9, 3) @ reals(3, 7, seed=1),
        "orthogonal": np.linalg.qr(reals(9, 7))[0],
        "huge": 1e30 * reals(9, 7),
        "zero": np.zeros((9, 7)),
    }[kind].astype(np.float32)
    check_svd(a, 2e-5)
    found, expected = in_parts(lambda v: SvdOp("s", v), a)
    np.testing.assert_allclose(found, expected, atol=1e-6 * max(expected[0], 1))


def test_pivots_are_chosen():
    """Without exchange of rows the first is a division by 0, the second loses all digits of f32."""
    a = np.stack([[[0, 1, 0], [1, 0, 0], [0, 0, 2]], [[1e-9, 1, 0], [1, 1, 0], [0, 0, 1]]]).astype(np.float32)
    near(DenseSolveOp, a, np.ones((2, 3, 1), np.float32), limit=1e-6)
    near(DetOp, a, limit=1e-6)


def test_no_answer_is_nan_in_its_own_place():
    a = np.stack([np.eye(2), np.ones((2, 2)), 2 * np.eye(2)])
    found, _ = in_parts(DenseSolveOp, a, np.ones((3, 2)))
    np.testing.assert_array_equal(found, [[1, 1], [NAN, NAN], [0.5, 0.5]])
    found, _ = in_parts(TriangularSolveOp, np.diag([0.0, 1.0])[None], np.ones((1, 2)))
    np.testing.assert_array_equal(found, [[NAN, NAN]])
    found, _ = in_parts(CholeskyOp, np.stack([-np.eye(2), 4 * np.eye(2)]))
    np.testing.assert_array_equal(found, [np.full((2, 2), NAN), 2 * np.eye(2)])


def test_determinants_at_the_edges():
    a = np.stack([np.ones((2, 2)), np.diag([1.0, -1.0]), np.eye(2) * 1e300])
    np.testing.assert_allclose(in_parts(DetOp, a)[0], [0, -1, INF])
    np.testing.assert_allclose(in_parts(LogDetOp, a)[0], [-INF, NAN, 2 * math.log(1e300)])


def test_nan_comes_through():
    a = np.full((2, 2), NAN)
    for build in (DetOp, LogDetOp, CholeskyOp, partial(SvdOp, "s"), partial(QrOp, "r")):
        assert np.isnan(in_parts(build, a)[0]).any()
    assert np.isnan(in_parts(DenseSolveOp, a, np.ones((2, 1)))[0]).all()


def test_narrow_floats_are_computed_in_f32():
    a, b = (round_to(m, bf16) for m in (reals(8, 8) + 5 * np.eye(8), reals(8, 2, seed=1)))
    found, expected = in_parts(DenseSolveOp, a, b, element=bf16)
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=8e-3, atol=1e-6)


@pytest.mark.parametrize("build", [DetOp, LogDetOp, CholeskyOp, partial(SvdOp, "s"), partial(QrOp, "r")])
def test_the_number_of_steps_must_be_known(build: Build):
    module = typed_module(build, [np.eye(3)], [None], [[0, 1]])
    assert DYNAMIC in next(op for op in module.walk() if isinstance(op, RlxOp)).shape(0)
    (name,) = {op.name for op in module.walk() if isinstance(op, RlxOp)}
    with pytest.raises(VerifyException, match="unknown extents: they are the number of steps"):
        decomposed(module, name)
