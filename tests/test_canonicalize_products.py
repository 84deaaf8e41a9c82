"""rlx-canonicalize-ops on products: contractions that are a matmul, and rows that were flattened for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from canonical_helpers import ELEMENTS, canonical, made, operations, reasons
from mutants import check_mutants

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.contraction import DotGeneralOp
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps
from rlx_dialect.passes.matching.fusion import Reason

Axes = tuple[list[int], list[int], list[int], list[int]]


def contraction(axes: Axes) -> Callable[..., Value]:
    return lambda g, x, w: g.insert(DotGeneralOp(x.ssa, w.ssa, *axes))


@pytest.mark.parametrize(
    ("x", "w", "axes", "expected"),
    [
        ((4, 8), (8, 5), ([1], [0], [], []), ["matmul"]),
        ((-1, 3, 8), (5, 8), ([2], [1], [], []), ["transpose", "matmul"]),
        ((2, 7, 3, 8), (2, 7, 5, 8), ([3], [3], [0, 1], [0, 1]), ["transpose", "matmul"]),
        ((2, 3, 4, 8), (2, 8, 5), ([3], [1], [0], [0]), ["reshape", "matmul", "reshape"]),
    ],
)
def test_a_contraction_is_a_matmul(x: tuple[int, ...], w: tuple[int, ...], axes: Axes, expected: list[str]):
    """Which one: see the tests of rlx-lower-dot-general."""
    module = made(contraction(axes), x, w)
    assert operations(canonical(module)) == expected
    assert reasons(module) == []


def test_a_contraction_under_strict_numerics():
    module = made(contraction(([1], [0], [], [])), (4, 8), (8, 5))
    assert operations(canonical(module, strict=True)) == ["dot_general"]
    assert reasons(module, strict=True) == [Reason.NUMERICS]


def test_flattened_rows_of_a_contraction():
    """Those that the contraction is lowered with, too."""
    module = made(
        lambda g, x, w: g.reshape(contraction(([1], [1], [], []))(g, g.reshape(x, [6, 8]), w), [2, 3, 5]),
        (2, 3, 8),
        (5, 8),
    )
    assert operations(canonical(module)) == ["transpose", "matmul"]


BIASES: dict[str, Callable[[Value, Value], Value]] = {
    "none": lambda y, b: y,
    "right": lambda y, b: y + b,
    "left": lambda y, b: b + y,
}


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 2, 3, 8), (8, 8, 8), (-1, 3, 8), (2, -1, 8)])
def test_rows_that_were_flattened(shape: tuple[int, ...], bias: str, element: str):
    def build(g: GraphBuilder, x: Value, w: Value, b: Value) -> Value:
        y = BIASES[bias](g.reshape(x, [-1, 8]) @ w, b)
        return g.reshape(y, [*shape[:-1], 6])

    module = made(build, shape, (8, 6), (6,), params=2, element=ELEMENTS[element])
    assert operations(canonical(module)) == ["matmul", *([] if bias == "none" else ["binary add"])]
    assert reasons(module) == []


def test_a_bias_that_is_added_after():
    module = made(
        lambda g, x, w, b: g.reshape(g.reshape(x, [6, 8]) @ w, [2, 3, 5]) + b, (2, 3, 8), (8, 5), (1, 1, 5), params=2
    )
    assert operations(canonical(module)) == ["matmul", "binary add"]


def test_flattened_rows_that_others_use_stay_for_them():
    def build(g: GraphBuilder, x: Value, w: Value) -> Value:
        rows = g.reshape(x, [6, 8])
        return g.reshape(rows @ w, [2, 3, 8]) + g.reshape(g.tanh(rows), [2, 3, 8])

    after = operations(canonical(made(build, (2, 3, 8), (8, 8))))
    assert after == ["reshape", "matmul", "activation tanh", "reshape", "binary add"]


DECLINED: dict[str, tuple[Callable[..., Value], tuple[int, ...], tuple[int, ...], str]] = {
    "other axes": (lambda g, x, w: g.reshape(g.reshape(x, [6, 8]) @ w, [3, 2, 8]), (2, 3, 8), (8, 8), "SHAPES_DIFFER"),
    "the contracted axis was shaped too": (
        lambda g, x, w: g.reshape(g.reshape(x, [3, 16]) @ w, [2, 3, 8]),
        (2, 3, 8),
        (16, 16),
        "SHAPES_DIFFER",
    ),
    "the free axis was shaped too": (
        lambda g, x, w: g.reshape(g.reshape(x, [6, 8]) @ w, [2, 3, 2, 4]),
        (2, 3, 8),
        (8, 8),
        "SHAPES_DIFFER",
    ),
    "two unknown extents": (
        lambda g, x, w: g.reshape(g.reshape(x, [-1, 8]) @ w, [-1, 3, 8]),
        (-1, -1, 8),
        (8, 8),
        "SHAPES_DIFFER",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_other_shapes(name: str):
    build, x, w, reason = DECLINED[name]
    module = made(build, x, w)
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == [Reason[reason]]


def test_an_unknown_width():
    module = made(lambda g, x, w: g.reshape(g.reshape(x, [6, 8]) @ w, [2, 3, -1]), (2, 3, 8), (8, -1))
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == [Reason.DYNAMIC_EXTENT]


def test_the_product_is_returned():
    module = made(
        lambda g, x, w: g.reshape((g.reshape(x, [6, 8]) @ w).named("rows"), [2, 3, 5]),
        (2, 3, 8),
        (8, 5),
        also=["rows"],
    )
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == [Reason.RETURNED]


def test_what_is_added_is_no_row():
    module = made(lambda g, x, w, b: g.reshape(g.reshape(x, [6, 8]) @ w + b, [2, 3, 5]), (2, 3, 8), (8, 5), (6, 5))
    assert operations(canonical(module)) == operations(module)


@pytest.mark.parametrize("bias", BIASES)
def test_mutants(bias: str):
    def build(g: GraphBuilder, x: Value, w: Value, b: Value) -> Value:
        return g.reshape(BIASES[bias](g.reshape(x, [6, 4]) @ w, b), [2, 3, 5])

    module = made(build, (2, 3, 4), (4, 5), (5,), params=2)
    counts = check_mutants(module, CanonicalizeOps(), fused="rlx.reshape")
    assert counts["original"] == 0
    assert max(counts.values()) >= 2
