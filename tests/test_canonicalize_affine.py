"""rlx-canonicalize-ops on batch norms: chains with one number a channel become one scale and one shift."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from canonical_helpers import ELEMENTS, canonical, made, operations, reasons
from helpers import graph
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.base import shape_of
from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.normalization import BatchNormInferenceOp
from rlx_dialect.passes.matching.fusion import Reason

X, C = (2, 4, 3, 5), (4, 1, 1)


def batch_norm(g: GraphBuilder, x: Value, *statistics: Value) -> Value:
    mean, variance, gamma, beta = statistics
    inverse = g.activation("rsqrt", g.activation("abs", variance) + 1e-5)
    return (x - mean) * inverse * gamma + beta


def steps(module: ModuleOp) -> list[str]:
    """The kinds of the operations on whole images."""
    binaries = [op for op in module.walk() if isinstance(op, BinaryOp)]
    return [op.kind.data.value for op in binaries if len([d for d in shape_of(op.result) if d != 1]) > 1]


SPELLINGS: dict[str, Callable[..., Value]] = {
    "products": batch_norm,
    "a quotient": lambda g, x, m, v, w, b: (x - m) / g.sqrt(g.activation("abs", v) + 1e-3) * w + b,
    "gamma first": lambda g, x, m, v, w, b: w * (x - m) * g.activation("sigmoid", v) + b,
    "beta on the left": lambda g, x, m, v, w, b: b + (x - m) * g.activation("sigmoid", v) * w,
    "a bias before": lambda g, x, m, v, w, b: (x + b - m) * g.activation("sigmoid", v) * w + b,
    "minus beta": lambda g, x, m, v, w, b: (x - m) * g.activation("sigmoid", v) * w - b,
    "one number among them": lambda g, x, m, v, w, b: (x - m) * 0.3 * w + b,
}


@pytest.mark.parametrize("vector", [C, (1, *C)])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str, vector: tuple[int, ...]):
    assert steps(canonical(made(SPELLINGS[spelling], X, *[vector] * 4, params=4))) == ["mul", "add"]


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("shape", [X, (-1, 4, 3, 5), (-1, 4, -1, -1)])
def test_element_types_and_unknown_extents(shape: tuple[int, ...], element: str):
    after = canonical(made(batch_norm, shape, *[C] * 4, params=4, element=ELEMENTS[element]))
    assert steps(after) == ["mul", "add"]


def inference(g: GraphBuilder, x: Value, *statistics: Value) -> Value:
    gamma, beta, mean, variance = statistics
    return g.insert(
        BatchNormInferenceOp(x.ssa, gamma.ssa, beta.ssa, mean.ssa, g.activation("abs", variance).ssa, eps=1e-3)
    )


@pytest.mark.parametrize("shape", [(2, 3, 5), (-1, 5), (5,)])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_the_operation(shape: tuple[int, ...], element: str):
    after = operations(canonical(made(inference, shape, *[(5,)] * 4, params=4, element=ELEMENTS[element])))
    assert after == [
        *["activation abs", "binary add", "activation rsqrt", "binary mul", "binary mul", "binary sub"],
        *["binary mul", "binary add"],
    ]


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_the_operation_in_narrow_floats(element: str):
    module = made(inference, (2, 5), *[(5,)] * 4, params=4, element=ELEMENTS[element])
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == [Reason.ELEMENT_TYPE]


def test_the_operation_with_statistics_that_come_with_the_call():
    module = made(inference, (2, 5), *[(5,)] * 4, params=3)
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == []


def test_sums_only_and_products_only():
    sums = made(lambda g, x, a, b, c: x + a - b + c, X, C, C, C, params=3)
    assert steps(canonical(sums)) == ["add"]
    products = made(lambda g, x, a, b, c: x * a / (1.5 + g.activation("abs", b)) * c, X, C, C, C, params=3)
    assert steps(canonical(products)) == ["mul"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_short_chain_stays(number: int):
    def build(g: GraphBuilder, x: Value, scale: Value, shift: Value) -> Value:
        return x * scale + shift if number == 2 else x + shift

    module = made(build, X, C, C, params=2)
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == []


def test_vectors_that_come_with_the_call():
    module = made(lambda g, x, m, v, w, b: (x - m) * v * w + b, X, *[C] * 4)
    assert operations(canonical(module)) == operations(module)
    assert reasons(module) == []


def test_a_vector_that_comes_with_the_call_begins_the_chain():
    module = made(lambda g, x, v, m, w, b: (x * v - m) * w + b, X, C, C, C, C, params=3)
    assert steps(canonical(module)) == ["mul", "mul", "add"]


def test_a_vector_along_the_last_axis_may_be_a_bias():
    row = (5,)
    module = made(lambda g, x, m, v, w, b: (x - m) * v * w + b, X, *[row] * 4, params=4)
    assert operations(canonical(module)) == operations(module)


def test_a_vector_that_stretches():
    """x has one channel, and the result four."""
    module = made(lambda g, x, m, w, b: (x - m) * w + b, (2, 1, 3, 5), C, C, C, params=3)
    assert len(steps(canonical(module))) == 3


def test_what_is_known_before_the_call_stays():
    module = made(lambda g, x, m, w, b: (x - m) * w + b, X, C, C, C, params=4)
    assert operations(canonical(module)) == operations(module)


def test_an_inner_value_is_returned():
    def build(g: GraphBuilder, x: Value, m: Value, v: Value, w: Value, b: Value) -> Value:
        return ((x - m) * v).named("inner") * w + b

    module = made(build, X, *[C] * 4, params=4, also=["inner"])
    assert operations(canonical(module)) == operations(module)
    assert set(reasons(module)) == {Reason.RETURNED}


def test_another_block():
    t, c = "tensor<2x4x3x5xf32>", "tensor<4x1x1xf32>"
    module = graph(
        f"""%0 = rlx.binary sub %x, %m : ({t}, {c}) -> {t}
        %1 = rlx.binary mul %0, %w : ({t}, {c}) -> {t}
        %r = "test.op"() ({{
          %2 = rlx.binary add %1, %b : ({t}, {c}) -> {t}
          "test.termop"(%2) : ({t}) -> ()
        }}) : () -> {t}""",
        f'%x: {t}, %m: {c} {{rlx.param = "m"}}, %w: {c} {{rlx.param = "w"}}, %b: {c} {{rlx.param = "b"}}',
        t,
        "%r",
    )
    assert reasons(module) == [Reason.OTHER_BLOCK]


def test_strict_declines():
    module = made(batch_norm, X, *[C] * 4, params=4)
    assert len(steps(canonical(module, strict=True))) == 4
    assert Reason.NUMERICS in reasons(module, strict=True)
