"""rlx-canonicalize-ops on activations: each spelling, each near miss, element types, edge values, mutants."""

from __future__ import annotations

import math

import pytest
from canonical_helpers import ELEMENTS, Build, canonical, made, operations, reasons
from helpers import graph
from mutants import check_mutants
from xdsl.dialects.builtin import i32

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps
from rlx_dialect.passes.matching.fusion import Reason

SHAPE = (4, 40)


def erf(g: GraphBuilder, x: Value) -> Value:
    return g.activation("erf", x)


def sigmoid(g: GraphBuilder, x: Value) -> Value:
    return g.activation("sigmoid", x)


def softplus(g: GraphBuilder, x: Value) -> Value:
    return g.activation("log", 1.0 + g.exp(x))


def relu6(g: GraphBuilder, x: Value) -> Value:
    return g.binary("min", g.binary("max", x, 0.0), 6.0)


ROOT_2, SLOPE, CUBIC = math.sqrt(2), math.sqrt(2 / math.pi), 0.044715

SPELLINGS: dict[str, tuple[str, Build]] = {
    "gelu: 0.5·x·(1 + erf)": ("gelu", lambda g, x: 0.5 * x * (1.0 + erf(g, x / ROOT_2))),
    "gelu: x·0.5·(erf + 1)": ("gelu", lambda g, x: x * 0.5 * (erf(g, x * (1 / ROOT_2)) + 1.0)),
    "gelu: x·(0.5·(1 + erf))": ("gelu", lambda g, x: x * (0.5 * (1.0 + erf(g, x * math.sqrt(0.5))))),
    "gelu: (x·(1 + erf))·0.5": ("gelu", lambda g, x: (x * (1.0 + erf(g, x / ROOT_2))) * 0.5),
    "gelu: (1 + erf)·x/2": ("gelu", lambda g, x: (1.0 + erf(g, x / ROOT_2)) * x / 2.0),
    "gelu: x/2·(1 + erf)": ("gelu", lambda g, x: x / 2.0 * (1.0 + erf(g, x / ROOT_2))),
    "gelu_approx: pow": ("gelu_approx", lambda g, x: 0.5 * x * (1.0 + g.tanh(SLOPE * (x + CUBIC * x**3.0)))),
    "gelu_approx: products": (
        "gelu_approx",
        lambda g, x: x * (0.5 * (1.0 + g.tanh((x + CUBIC * (x * x * x)) * SLOPE))),
    ),
    "gelu_approx: a chain of products": (
        "gelu_approx",
        lambda g, x: x * 0.5 * (g.tanh((x + CUBIC * x * x * x) * SLOPE) + 1.0),
    ),
    "gelu_approx: x·(1 + …·x·x)": (
        "gelu_approx",
        lambda g, x: 0.5 * x * (1.0 + g.tanh(x * SLOPE * (1.0 + CUBIC * x * x))),
    ),
    "gelu_approx: x·(1 + …·x²)": (
        "gelu_approx",
        lambda g, x: 0.5 * x * (1.0 + g.tanh(SLOPE * x * (1.0 + CUBIC * x**2.0))),
    ),
    "gelu_approx: one polynomial": (
        "gelu_approx",
        lambda g, x: 0.5 * x * (1.0 + g.tanh(x * (SLOPE + SLOPE * CUBIC * (x * x)))),
    ),
    "gelu_approx: sigmoid": ("gelu_approx", lambda g, x: x * sigmoid(g, 2 * SLOPE * (x + CUBIC * x**3.0))),
    "sigmoid: 1/": ("sigmoid", lambda g, x: 1.0 / (1.0 + g.exp(-x))),
    "sigmoid: recip": ("sigmoid", lambda g, x: g.activation("recip", g.exp(x * -1.0) + 1.0)),
    "silu: x·sigmoid": ("silu", lambda g, x: x * sigmoid(g, x)),
    "silu: sigmoid·x": ("silu", lambda g, x: sigmoid(g, x) * x),
    "silu: x·1/": ("silu", lambda g, x: x * (1.0 / (1.0 + g.exp(-x)))),
    "silu: x/": ("silu", lambda g, x: x / (1.0 + g.exp(-x))),
    "softplus": ("softplus", softplus),
    "mish": ("mish", lambda g, x: x * g.tanh(softplus(g, x))),
    "mish: softplus": ("mish", lambda g, x: g.tanh(g.activation("softplus", x)) * x),
    "softsign": ("softsign", lambda g, x: x / (1.0 + g.activation("abs", x))),
    "log_sigmoid: -softplus": ("log_sigmoid", lambda g, x: -softplus(g, -x)),
    "log_sigmoid: log": ("log_sigmoid", lambda g, x: g.activation("log", sigmoid(g, x))),
    "relu: max": ("relu", lambda g, x: g.binary("max", x, 0.0)),
    "relu: max the other way": ("relu", lambda g, x: g.binary("max", 0.0, x)),
    "relu: clamp": ("relu", lambda g, x: g.clamp(x, 0.0, math.inf)),
    "relu: two bounds": ("relu", lambda g, x: g.clamp(g.binary("max", x, 0.0), -1.0, math.inf)),
    "relu: where <": ("relu", lambda g, x: g.where(g.compare("lt", x, 0.0), 0.0, x)),
    "relu: where ≤": ("relu", lambda g, x: g.where(g.compare("le", x, 0.0), 0.0, x)),
    "relu: where >": ("relu", lambda g, x: g.where(g.compare("gt", 0.0, x), 0.0, x)),
    "relu: where ≥": ("relu", lambda g, x: g.where(g.compare("ge", 0.0, x), 0.0, x)),
    "relu: where > 0": ("relu", lambda g, x: g.where(g.compare("gt", x, 0.0), x, 0.0)),
    "relu: where ≥ 0": ("relu", lambda g, x: g.where(g.compare("ge", x, 0.0), x, 0.0)),
    "relu: where 0 <": ("relu", lambda g, x: g.where(g.compare("lt", 0.0, x), x, 0.0)),
    "relu: where 0 ≤": ("relu", lambda g, x: g.where(g.compare("le", 0.0, x), x, 0.0)),
    "hard_sigmoid: /6": ("hard_sigmoid", lambda g, x: g.clamp(x + 3.0, 0.0, 6.0) / 6.0),
    "hard_sigmoid: ·1/6": ("hard_sigmoid", lambda g, x: g.clamp(3.0 + x, 0.0, 6.0) * (1 / 6)),
    "hard_sigmoid: x/6 + 1/2": ("hard_sigmoid", lambda g, x: g.clamp(x / 6.0 + 0.5, 0.0, 1.0)),
    "hard_sigmoid: max, min": (
        "hard_sigmoid",
        lambda g, x: g.binary("max", g.binary("min", x * (1 / 6) + 0.5, 1.0), 0.0),
    ),
    "hard_swish: x·relu6/6": ("hard_swish", lambda g, x: x * relu6(g, x + 3.0) / 6.0),
    "hard_swish: x·(relu6/6)": ("hard_swish", lambda g, x: x * (relu6(g, x + 3.0) / 6.0)),
    "hard_swish: ·1/6": ("hard_swish", lambda g, x: relu6(g, x + 3.0) * x * (1 / 6)),
    "hard_swish: x·hard_sigmoid": ("hard_swish", lambda g, x: x * g.activation("hard_sigmoid", x)),
    "rsqrt": ("rsqrt", lambda g, x: 1.0 / g.sqrt(x)),
}


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_spelling_becomes_the_activation(spelling: str, element: str):
    kind, build = SPELLINGS[spelling]
    assert operations(canonical(made(build, SHAPE, element=ELEMENTS[element]))) == [f"activation {kind}"]


@pytest.mark.parametrize("shape", [(-1, 8), (), (5,)])
@pytest.mark.parametrize("spelling", ["gelu: x·0.5·(erf + 1)", "silu: x/", "hard_swish: x·relu6/6"])
def test_any_shape(spelling: str, shape: tuple[int, ...]):
    kind, build = SPELLINGS[spelling]
    assert operations(canonical(made(build, shape))) == [f"activation {kind}"]


OTHERS: dict[str, Build] = {
    "1/√2 rounded": lambda g, x: 0.5 * x * (1.0 + erf(g, x * 0.7071)),
    "not half": lambda g, x: 0.49 * x * (1.0 + erf(g, x / ROOT_2)),
    "2 + erf": lambda g, x: 0.5 * x * (2.0 + erf(g, x / ROOT_2)),
    "tanh gelu with the constant of erf": lambda g, x: 0.5 * x * (1.0 + g.tanh((x + CUBIC * x**3.0) / ROOT_2)),
    "erf gelu with the constant of tanh": lambda g, x: 0.5 * x * (1.0 + erf(g, x * SLOPE)),
    "another cubic": lambda g, x: 0.5 * x * (1.0 + g.tanh(SLOPE * (x + 0.0447 * x**3.0))),
    "the fifth power": lambda g, x: 0.5 * x * (1.0 + g.tanh(SLOPE * (x + CUBIC * x**5.0))),
    "x + 2 in hard_swish": lambda g, x: x * g.clamp(x + 2.0, 0.0, 6.0) / 6.0,
    "hard_sigmoid of ONNX": lambda g, x: g.clamp(x * 0.2 + 0.5, 0.0, 1.0),
    "log(2 + exp)": lambda g, x: g.activation("log", 2.0 + g.exp(x)),
    "1/(2 + exp)": lambda g, x: 1.0 / (2.0 + g.exp(-x)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_constant(other: str):
    module = made(OTHERS[other], SHAPE)
    before = operations(module)
    assert len(operations(canonical(module))) == len(before)
    assert reasons(module) == [Reason.OTHER_CONSTANT]


STAYS: dict[str, tuple[Build, list[str]]] = {
    "quick gelu": (lambda g, x: x * sigmoid(g, 1.702 * x), ["binary mul", "activation sigmoid", "binary mul"]),
    "relu6": (relu6, ["clamp"]),
    "where x < 0, the wrong way round": (
        lambda g, x: g.where(g.compare("lt", x, 0.0), x, 0.0),
        ["compare lt", "where"],
    ),
    "exp(x) without minus": (
        lambda g, x: x / (1.0 + g.exp(x)),
        ["activation exp", "binary add", "binary div"],
    ),
    "one bound": (lambda g, x: g.binary("max", x, 1.0), ["binary max"]),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_something_else_stays(name: str):
    build, expected = STAYS[name]
    module = made(build, SHAPE)
    assert operations(canonical(module)) == expected
    assert reasons(module) == []


OPERANDS: dict[str, Build] = {
    "silu": lambda g, x, y: x * sigmoid(g, y),
    "gelu": lambda g, x, y: 0.5 * x * (1.0 + erf(g, y / ROOT_2)),
    "gelu_approx": lambda g, x, y: 0.5 * x * (1.0 + g.tanh(SLOPE * (x + CUBIC * y**3.0))),
    "mish": lambda g, x, y: x * g.tanh(g.activation("softplus", y)),
    "hard_swish": lambda g, x, y: y * g.clamp(x + 3.0, 0.0, 6.0),
    "softsign": lambda g, x, y: y / (1.0 + g.activation("abs", x)),
    "relu": lambda g, x, y: g.where(g.compare("lt", x, 0.0), 0.0, y),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_two_values_are_not_one(name: str):
    module = made(OPERANDS[name], SHAPE, SHAPE)
    assert len(operations(canonical(module))) == len(operations(module))
    assert reasons(module) == []


@pytest.mark.parametrize(("also", "reason"), [((), None), (("inner",), Reason.RETURNED)], ids=["used once", "returned"])
def test_an_intermediate_value_is_returned(also: tuple[str, ...], reason: Reason | None):
    module = made(lambda g, x: x * sigmoid(g, x).named("inner"), SHAPE, also=also)
    assert reasons(module) == ([] if reason is None else [reason])
    assert operations(canonical(module)) == (["activation sigmoid", "binary mul"] if also else ["activation silu"])


def test_an_intermediate_value_is_used_again():
    def build(g: GraphBuilder, x: Value) -> Value:
        inner = 1.0 + erf(g, x / ROOT_2)
        return g.tanh(0.5 * x * inner) + inner

    module = made(build, SHAPE)
    assert reasons(module) == [Reason.MORE_THAN_ONE_USE]
    assert "activation gelu" not in operations(canonical(module))


def test_the_formula_begins_in_another_block():
    module = graph(
        """%s = rlx.activation sigmoid %x : tensor<2x3xf32>
        %r = "test.op"() ({
          %m = rlx.binary mul %x, %s : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
          "test.termop"(%m) : (tensor<2x3xf32>) -> ()
        }) : () -> tensor<2x3xf32>""",
        "%x: tensor<2x3xf32>",
        "tensor<2x3xf32>",
        "%r",
    )
    assert reasons(module) == [Reason.OTHER_BLOCK]


def test_a_constant_that_stretches():
    def build(g: GraphBuilder, x: Value) -> Value:
        return 0.5 * x * (erf(g, x / ROOT_2) + g.constant([[1.0], [1.0]]))

    module = made(build, (1, 4))
    assert Reason.SHAPES_DIFFER in reasons(module)
    assert "activation gelu" not in operations(canonical(module))


def test_a_constant_that_is_a_row():
    module = made(lambda g, x: x / (g.constant([1.0] * 5) + g.activation("abs", x)), (2, 5))
    assert operations(canonical(module)) == ["activation softsign"]


def test_integers():
    module = made(lambda g, x: relu_of(g, x), SHAPE, element=i32)
    assert reasons(module) == [Reason.ELEMENT_TYPE]
    assert operations(canonical(module)) == ["activation relu", "binary min"]
    module = made(lambda g, x: x / (g.activation("abs", x) + 1), SHAPE, element=i32)
    assert reasons(module) == [Reason.ELEMENT_TYPE]


def relu_of(g: GraphBuilder, x: Value) -> Value:
    return g.binary("min", g.binary("max", x, 0), 6)


@pytest.mark.parametrize(
    ("name", "outer", "inner", "bounds"),
    [
        ("max of min", ("max", -1.0), ("min", 2.0), (-1.0, 2.0)),
        ("min of max", ("min", 2.0), ("max", -1.0), (-1.0, 2.0)),
        ("they cross", ("min", -1.0), ("max", 2.0), (-1.0, -1.0)),
        ("constants on the left", ("min", 2.0), ("max", -1.0), (-1.0, 2.0)),
    ],
)
def test_bounds_become_a_clamp(
    name: str, outer: tuple[str, float], inner: tuple[str, float], bounds: tuple[float, float]
):
    def build(g: GraphBuilder, x: Value) -> Value:
        left = "left" in name
        first = g.binary(inner[0], *((inner[1], x) if left else (x, inner[1])))
        return g.binary(outer[0], *((outer[1], first) if left else (first, outer[1])))

    after = canonical(made(build, SHAPE))
    (clamp,) = [op for op in after.walk() if op.name == "rlx.clamp"]
    assert (clamp.properties["min"].value.data, clamp.properties["max"].value.data) == bounds  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_strict_makes_only_what_is_exact(spelling: str):
    kind, build = SPELLINGS[spelling]
    module = made(build, SHAPE)
    strict = operations(canonical(module, strict=True)) == [f"activation {kind}"]
    exact = {"silu: x·sigmoid", "silu: sigmoid·x", "mish: softplus", "softsign", "relu: max", "relu: clamp"}
    assert strict == (spelling in {*exact, "relu: two bounds", "rsqrt"})
    if not strict:
        assert Reason.NUMERICS in reasons(module, strict=True)


@pytest.mark.parametrize(
    "spelling", ["gelu: 0.5·x·(1 + erf)", "gelu_approx: products", "silu: x/", "hard_swish: x·relu6/6", "mish"]
)
def test_mutants(spelling: str):
    kind, build = SPELLINGS[spelling]
    counts = check_mutants(made(build, (2, 3)), CanonicalizeOps(), fused="rlx.activation", more_operations=1)
    assert counts["original"] == 1
    assert set(counts.values()) != {1}, kind
