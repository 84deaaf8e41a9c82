"""Linear algebra by its identities, in float64 for other element types, and by hand at the edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import run_op
from xdsl.dialects.builtin import bf16, f16, f32

from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.ops.linear_algebra import (
    CholeskyOp,
    DenseSolveOp,
    DetOp,
    LogDetOp,
    QrOp,
    SvdOp,
    TriangularSolveOp,
)

NAN, INF = math.nan, math.inf
BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 3)]


def matrices(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def well_conditioned(*shape: int, dtype: Any = np.float64) -> Array:
    return (matrices(*shape) + 5 * np.eye(shape[-1])).astype(dtype)


def transposed(a: Array) -> Array:
    return a.swapaxes(-1, -2)


def one(build: Any, *arrays: Array, **options: Any) -> Array:
    (found,) = run_op(build, *arrays, **options)
    return found


@pytest.mark.parametrize("batch", BATCHES)
def test_dense_solve(batch: tuple[int, ...]):
    a, b = well_conditioned(*batch, 4, 4), matrices(*batch, 4, 2, seed=1)
    np.testing.assert_allclose(a @ one(DenseSolveOp, a, b), b, atol=1e-12)


@pytest.mark.parametrize("batch", BATCHES)
def test_dense_solve_of_vectors(batch: tuple[int, ...]):
    a, b = well_conditioned(*batch, 4, 4), matrices(*batch, 4, seed=1)
    x = one(DenseSolveOp, a, b)
    assert x.shape == b.shape
    np.testing.assert_allclose((a @ x[..., None])[..., 0], b, atol=1e-12)


def test_a_singular_matrix_spoils_no_other():
    a = np.stack([np.eye(2), np.ones((2, 2)), 2 * np.eye(2)])
    x = one(DenseSolveOp, a, np.ones((3, 2, 1)))
    np.testing.assert_array_equal(x[..., 0], [[1, 1], [NAN, NAN], [0.5, 0.5]])


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_solve(batch: tuple[int, ...], lower: bool, transpose: bool):
    a, b = well_conditioned(*batch, 4, 4), matrices(*batch, 4, 3, seed=1)
    x = one(lambda a, b: TriangularSolveOp(a, b, lower=lower, transpose=transpose), a, b)
    triangle = np.tril(a) if lower else np.triu(a)
    np.testing.assert_allclose((transposed(triangle) if transpose else triangle) @ x, b, atol=1e-12)


@pytest.mark.parametrize("batch", BATCHES)
def test_cholesky(batch: tuple[int, ...]):
    root = matrices(*batch, 4, 4)
    a = root @ transposed(root) + np.eye(4)
    l = one(CholeskyOp, a)  # noqa: E741
    np.testing.assert_allclose(l @ transposed(l), a, atol=1e-12)
    np.testing.assert_array_equal(l, np.tril(l))
    # The other triangle is not read.
    np.testing.assert_array_equal(one(CholeskyOp, np.tril(a) + np.triu(matrices(4, 4), 1)), l)


def test_cholesky_of_what_is_not_positive_definite():
    found = one(CholeskyOp, np.stack([-np.eye(2), 4 * np.eye(2)]))
    np.testing.assert_array_equal(found, [np.full((2, 2), NAN), 2 * np.eye(2)])


def leibniz(a: Array) -> float:
    """The determinant along the first row."""
    if not len(a):
        return 1
    minors = (np.delete(a[1:], column, 1) for column in range(len(a)))
    return sum((-1) ** column * a[0, column] * leibniz(minor) for column, minor in enumerate(minors))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("size", [0, 1, 4])
def test_determinants(batch: tuple[int, ...], size: int):
    a = matrices(*batch, size, size)
    expected = np.array([leibniz(m) for m in a.reshape(math.prod(batch), size, size)]).reshape(batch)
    np.testing.assert_allclose(one(DetOp, a), expected, rtol=1e-10)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(one(LogDetOp, a), np.log(expected), rtol=1e-10, atol=1e-12)


def test_log_det_at_the_edges():
    a = np.stack([np.ones((2, 2)), np.diag([1.0, -1.0]), np.eye(2) * 1e300])
    np.testing.assert_allclose(one(LogDetOp, a), [-INF, NAN, 2 * math.log(1e300)])


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 2, 3, 3)])
def test_svd(shape: tuple[int, ...]):
    a, rank = matrices(*shape), min(shape[-2:])
    u, s, vt = (one(lambda v, part=part: SvdOp(part, v), a) for part in ("u", "s", "vt"))
    np.testing.assert_allclose((u * s[..., None, :]) @ vt, a, atol=1e-12)
    np.testing.assert_allclose(transposed(u) @ u, np.broadcast_to(np.eye(rank), (*shape[:-2], rank, rank)), atol=1e-12)
    np.testing.assert_allclose(vt @ transposed(vt), transposed(u) @ u, atol=1e-12)
    assert (s >= 0).all()
    np.testing.assert_array_equal(s, -np.sort(-s, -1))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 2, 3, 3)])
def test_qr(shape: tuple[int, ...]):
    a, rank = matrices(*shape), min(shape[-2:])
    q, r = (one(lambda v, part=part: QrOp(part, v), a) for part in ("q", "r"))
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    np.testing.assert_allclose(transposed(q) @ q, np.broadcast_to(np.eye(rank), (*shape[:-2], rank, rank)), atol=1e-12)
    np.testing.assert_array_equal(r, np.triu(r))


@pytest.mark.parametrize(("element", "digits"), [(f32, 1e-5), (f16, 1e-3), (bf16, 8e-3)])
def test_narrow_floats_are_computed_in_f32_and_rounded_once(element: Any, digits: float):
    """Only the rounding of the result may be seen: 8 elimination steps in f16 would lose more."""
    a, b = (round_to(m, element) for m in (well_conditioned(8, 8), matrices(8, 2, seed=1)))
    exact = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    found = one(DenseSolveOp, a, b, element=element)
    assert found.dtype == a.dtype
    np.testing.assert_allclose(found, exact, rtol=digits, atol=1e-6)
    np.testing.assert_allclose(one(DetOp, a, element=f32), np.linalg.det(a.astype(np.float64)), rtol=1e-5)


def test_nan_comes_through():
    a = np.full((2, 2), NAN)
    for build in (DetOp, LogDetOp, CholeskyOp, lambda v: SvdOp("s", v), lambda v: QrOp("r", v)):
        assert np.isnan(one(build, a)).any()
    assert np.isnan(one(DenseSolveOp, a, np.ones((2, 1)))).all()
