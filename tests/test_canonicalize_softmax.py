"""rlx-canonicalize-ops on softmax in primitives: spellings, axes, element types, near misses, mutants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from canonical_helpers import ELEMENTS, canonical, made, operations, reasons
from helpers import assert_same_meaning
from mutants import check_mutants
from xdsl.dialects.builtin import f32

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.elementwise import StopGradientOp
from rlx_dialect.ops.reduction import SoftmaxOp
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps
from rlx_dialect.passes.matching.fusion import Reason

SHAPE = (3, 4, 5)
Power = Callable[[GraphBuilder, Value, list[int]], Value]

POWERS: dict[str, Power] = {
    "exp(x - max)": lambda g, x, axes: g.exp(x - g.reduce("max", x, axes, keep_dim=True)),
    "exp(x - stop_gradient(max))": lambda g, x, axes: g.exp(
        x - g.insert(StopGradientOp(g.reduce("max", x, axes, keep_dim=True).ssa))
    ),
    "exp(x)": lambda g, x, axes: g.exp(x),
}


def total(g: GraphBuilder, x: Value, axes: list[int], *, keep_dim: bool = True) -> Value:
    return g.reduce("sum", x, axes, keep_dim=keep_dim)


QUOTIENTS: dict[str, Callable[[GraphBuilder, Value, Value], Value]] = {
    "e / sum": lambda g, e, s: e / s,
    "e · recip(sum)": lambda g, e, s: e * g.activation("recip", s),
    "1/sum · e": lambda g, e, s: (1.0 / s) * e,
}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("quotient", QUOTIENTS)
def test_spellings(power: str, quotient: str, axis: int):
    def build(g: GraphBuilder, x: Value) -> Value:
        e = POWERS[power](g, x, [axis])
        return QUOTIENTS[quotient](g, e, total(g, e, [axis]))

    after = canonical(made(build, SHAPE))
    (op,) = [op for op in after.walk() if op.name.startswith("rlx.")]
    assert isinstance(op, SoftmaxOp)
    assert op.axis_index == axis


def softmax(g: GraphBuilder, x: Value, axes: list[int]) -> Value:
    e = POWERS["exp(x - max)"](g, x, axes)
    return e / total(g, e, axes)


@pytest.mark.parametrize("shape", [(5,), (-1, 5), (2, -1)])
@pytest.mark.parametrize("element", ELEMENTS)
def test_shapes_and_element_types(shape: tuple[int, ...], element: str):
    module = made(lambda g, x: softmax(g, x, [-1]), shape, element=ELEMENTS[element])
    assert operations(canonical(module)) == ["softmax"]


def test_axes_that_are_put_back_by_a_reshape():
    def build(g: GraphBuilder, x: Value) -> Value:
        e = g.exp(x - g.reshape(g.reduce("max", x, [1]), [3, 1, 5]))
        return e / g.reshape(total(g, e, [1], keep_dim=False), [3, 1, 5])

    assert operations(canonical(made(build, SHAPE))) == ["softmax"]


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_between_casts(element: str):
    """To the bit: the operation computes in f32 anyway."""
    module = made(lambda g, x: g.cast(softmax(g, g.cast(x, f32), [-1]), x.element), SHAPE, element=ELEMENTS[element])
    after = canonical(module)
    assert operations(after) == ["softmax"]
    assert_same_meaning(module, after, rtol=0, atol=0)


def test_large_and_infinite_values():
    """exp overflows without the maximum, so there the softmax is the better answer; else they are equal."""
    x = np.array([[200.0, 1.0], [-np.inf, 0.0], [np.nan, 0.0], [np.inf, 0.0]], np.float32)
    for power, equal in (("exp(x - max)", True), ("exp(x)", False)):

        def build(g: GraphBuilder, v: Value, power: str = power) -> Value:
            e = POWERS[power](g, v, [1])
            return e / total(g, e, [1])

        module = made(build, x.shape)
        (before,), (after,) = (run_reference(m, {"a0": x}) for m in (module, canonical(module)))
        np.testing.assert_array_equal(after[0], [1, 0])
        assert np.array_equal(before, after, equal_nan=True) is equal


# Near misses.


def test_different_axes():
    def build(g: GraphBuilder, x: Value) -> Value:
        e = g.exp(x - g.reduce("max", x, [1], keep_dim=True))
        return e / total(g, e, [2])

    module = made(build, SHAPE)
    # What is subtracted is constant along no axis that matters: the softmax of the difference, without a maximum.
    assert operations(canonical(module)) == ["reduce max", "binary sub", "softmax"]


@pytest.mark.parametrize("axes", [[1, 2], [0, 1, 2]])
def test_several_axes(axes: list[int]):
    module = made(lambda g, x: softmax(g, x, axes), SHAPE)
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == [Reason.AXIS]


def test_an_axis_that_is_dropped():
    def build(g: GraphBuilder, x: Value) -> Value:
        e = g.exp(x)
        return e / total(g, e, [1], keep_dim=False)

    module = made(build, (4, 4))
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == [Reason.AXIS]


def test_the_sum_of_other_powers():
    module = made(lambda g, x, y: g.exp(x) / total(g, g.exp(y), [2]), SHAPE, SHAPE)
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == []


def test_a_mean_is_no_sum():
    module = made(lambda g, x: g.exp(x) / g.reduce("mean", g.exp(x), [2], keep_dim=True), SHAPE)
    assert "softmax" not in operations(canonical(module))


@pytest.mark.parametrize("name", ["powers", "sum"])
def test_an_inner_value_is_returned(name: str):
    def build(g: GraphBuilder, x: Value) -> Value:
        e = POWERS["exp(x - max)"](g, x, [2]).named("powers")
        return e / total(g, e, [2]).named("sum")

    module = made(build, SHAPE, also=(name,))
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == [Reason.RETURNED]


def test_strict_takes_the_steps_of_the_operation_only():
    exact = made(lambda g, x: softmax(g, x, [2]), SHAPE)
    assert operations(canonical(exact, strict=True)) == ["softmax"]
    other = made(lambda g, x: g.exp(x) / total(g, g.exp(x), [2]), SHAPE)
    assert "softmax" not in operations(canonical(other, strict=True))
    assert reasons(other, strict=True) == [Reason.NUMERICS]


@pytest.mark.parametrize("power", ["exp(x - max)", "exp(x)"])
def test_mutants(power: str):
    def build(g: GraphBuilder, x: Value) -> Value:
        e = POWERS[power](g, x, [1])
        return e / total(g, e, [1])

    counts = check_mutants(made(build, (2, 3)), CanonicalizeOps(), fused="rlx.softmax")
    assert counts["original"] == 1
    assert 0 in counts.values()
