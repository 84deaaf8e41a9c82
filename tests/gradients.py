"""What tests of gradients and decompositions share: finite differences, and an operation compared with its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from helpers import ELEMENTS, assert_close, decomposed, op_module, run_op
from xdsl.dialects.builtin import ModuleOp, TensorType, bf16, f16, f32, f64
from xdsl.ir import Attribute

from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, round_to
from rlx_dialect.interpreter import run_reference
from rlx_dialect.shapes import DYNAMIC

FLOATS = [f16, bf16, f32, f64]
ROUNDING = {f16: 2e-3, bf16: 2e-2, f32: 2e-5, f64: 1e-11}
"""Tolerance of a result that is rounded once, by element type."""


def reals(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def finite_difference(
    forward: Callable[..., RlxOp], arrays: Sequence[Array], index: int, dy: Array, step: float = 1e-6
) -> Array:
    """The gradient of Σ dy·forward with respect to operand ``index``, by central differences in float64."""
    module = op_module(forward, *(TensorType(ELEMENTS[a.dtype.name], a.shape) for a in arrays))

    def loss(changed: Array) -> float:
        values = {f"arg{i}": changed if i == index else a for i, a in enumerate(arrays)}
        return float((run_reference(module, values)[0] * dy).sum())

    gradient = np.empty(arrays[index].shape)
    for place in np.ndindex(*gradient.shape):
        low, high = arrays[index].copy(), arrays[index].copy()
        low[place] -= step
        high[place] += step
        gradient[place] = (loss(high) - loss(low)) / (2 * step)
    return gradient


def near(found: Array, expected: Array, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def check_decomposition(
    build: Callable[..., RlxOp],
    *arrays: Array,
    dynamic: Sequence[Sequence[int]] = (),
    elements: Sequence[Attribute] = FLOATS,
) -> None:
    """The decomposition gives what ``evaluate`` gives, for each of ``elements`` as the type of the float arrays.

    ``dynamic`` lists the axes of each operand that are dynamic in a second module.
    """
    for element in elements:
        given = [round_to(a, element) if a.dtype.kind == "f" else a for a in arrays]
        typed = [element if a.dtype.kind == "f" else None for a in arrays]
        (expected, *_) = run_elements(build, given, typed, [()] * len(arrays))
        cases = [[()] * len(arrays), *([dynamic] if dynamic else [])]
        for axes in cases:
            module = typed_module(build, given, typed, axes)
            (name,) = {op.name for op in module.walk() if isinstance(op, RlxOp)}
            after = decomposed(module, name)
            found = run_reference(after, {f"arg{i}": a for i, a in enumerate(given)})[0]
            limit = ROUNDING.get(element, 0)
            scale = float(np.abs(np.nan_to_num(expected.astype(float))).max(initial=1))
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=limit, atol=limit * scale)


def typed_module(
    build: Callable[..., RlxOp],
    arrays: Sequence[Array],
    elements: Sequence[Attribute | None],
    dynamic: Sequence[Sequence[int]],
) -> ModuleOp:
    """The module of one operation whose operands have the shapes of ``arrays``, some axes dynamic."""
    types = [
        TensorType(e or ELEMENTS[a.dtype.name], [DYNAMIC if i in axes else d for i, d in enumerate(a.shape)])
        for a, e, axes in zip(arrays, elements, dynamic, strict=True)
    ]
    return op_module(build, *types)


def run_elements(
    build: Callable[..., RlxOp],
    arrays: Sequence[Array],
    elements: Sequence[Attribute | None],
    dynamic: Sequence[Sequence[int]],
) -> list[Array]:
    return run_reference(typed_module(build, arrays, elements, dynamic), {f"arg{i}": a for i, a in enumerate(arrays)})


def check_gradient(
    backward: Callable[..., RlxOp],
    forward: Callable[..., RlxOp],
    arrays: Sequence[Array],
    index: int,
    operands: Callable[..., Sequence[Array]],
) -> None:
    """``backward`` on ``operands(*arrays, dy)`` is the gradient of ``forward`` on ``arrays`` by operand ``index``."""
    shape = run_op(forward, *arrays, dynamic=False)[0].shape
    dy = reals(*shape, seed=99)
    (found, *_) = run_op(backward, *operands(*arrays, dy))
    assert_close([found], [finite_difference(forward, arrays, index, dy)], rtol=1e-6, atol=1e-7)
