"""rlx-canonicalize-ops on norms in primitives: each part's spellings, each near miss, casts, mutants."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from canonical_helpers import ELEMENTS, canonical, made, operations, reasons
from helpers import assert_same_meaning, graph
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp, f32

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.normalization import AffineNormOp
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context

SHAPE, WIDTH = (2, 3, 8), (8,)


def over(kind: str, g: GraphBuilder, x: Value, axis: int = -1, *, keep_dim: bool = True) -> Value:
    return g.reduce(kind, x, [axis], keep_dim=keep_dim)


MEANS: dict[str, Callable[[GraphBuilder, Value], Value]] = {
    "mean": lambda g, x: over("mean", g, x),
    "sum / n": lambda g, x: over("sum", g, x) / float(x.shape[-1]),
    "sum · 1/n": lambda g, x: over("sum", g, x) * (1 / x.shape[-1]),
    "mean, axis put back": lambda g, x: g.reshape(
        over("mean", g, x, keep_dim=False), [*(-1 if d < 0 else d for d in x.shape[:-1]), 1]
    ),
}
SQUARES: dict[str, Callable[[Value], Value]] = {"c·c": lambda c: c * c, "c²": lambda c: c**2.0}
QUOTIENTS: dict[str, Callable[[GraphBuilder, Value, Value], Value]] = {
    "c / sqrt": lambda g, c, v: c / g.sqrt(v),
    "c · rsqrt": lambda g, c, v: c * g.activation("rsqrt", v),
    "rsqrt · c": lambda g, c, v: g.activation("rsqrt", v) * c,
    "c · v^-½": lambda g, c, v: c * v**-0.5,
    "c / v^½": lambda g, c, v: c / v**0.5,
    "c · recip(sqrt)": lambda g, c, v: c * g.activation("recip", g.sqrt(v)),
    "c · (1/sqrt)": lambda g, c, v: c * (1.0 / g.sqrt(v)),
}


def core(
    g: GraphBuilder,
    x: Value,
    *,
    centred: bool = True,
    mean: str = "mean",
    squares: str = "c·c",
    quotient: str = "c / sqrt",
    eps: float = 1e-5,
) -> Value:
    c = x - MEANS[mean](g, x) if centred else x
    variance = MEANS[mean](g, SQUARES[squares](c))
    return QUOTIENTS[quotient](g, c, variance + eps)


def the_norm(module: ModuleOp) -> AffineNormOp:
    (norm,) = [op for op in module.walk() if isinstance(op, AffineNormOp)]
    return norm


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("mean", "squares", "quotient"), list(product(MEANS, SQUARES, QUOTIENTS)))
def test_spellings_of_the_core(mean: str, squares: str, quotient: str, centred: bool):
    def build(g: GraphBuilder, x: Value, gamma: Value, beta: Value) -> Value:
        return core(g, x, centred=centred, mean=mean, squares=squares, quotient=quotient) * gamma + beta

    after = canonical(made(build, SHAPE, WIDTH, WIDTH, params=2))
    assert operations(after) == ["layer_norm" if centred else "rms_norm"]
    norm = the_norm(after)
    assert [operand.name_hint for operand in norm.operands] == ["a0", "a1", "a2"]
    assert norm.eps.value.data == 1e-5


AFFINES: dict[str, Callable[[GraphBuilder, Value, Value, Value], Value]] = {
    "gamma·n + beta": lambda g, n, w, b: w * n + b,
    "beta + n·gamma": lambda g, n, w, b: b + n * w,
    "n·gamma": lambda g, n, w, b: n * w,
    "n + beta": lambda g, n, w, b: n + b,
    "n": lambda g, n, w, b: n,
    "n·(1 + weight)": lambda g, n, w, b: n * (1.0 + w),
    "gamma as a row": lambda g, n, w, b: n * g.reshape(w, [1, 8]) + g.reshape(b, [1, 1, 8]),
    "gamma expanded": lambda g, n, w, b: n * g.expand(w, SHAPE) + g.expand(b, [1, 3, 8]),
}


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("affine", AFFINES)
def test_gamma_and_beta(affine: str, centred: bool):
    def build(g: GraphBuilder, x: Value, gamma: Value, beta: Value) -> Value:
        return AFFINES[affine](g, core(g, x, centred=centred), gamma, beta)

    after = canonical(made(build, SHAPE, WIDTH, WIDTH, params=2))
    adds = ["binary add"] if "weight" in affine else []
    assert operations(after) == [*adds, "layer_norm" if centred else "rms_norm"]


@pytest.mark.parametrize(
    "place",
    [
        lambda c, inverse, gamma: c * (inverse * gamma),
        lambda c, inverse, gamma: (gamma * c) * inverse,
        lambda c, inverse, gamma: (gamma * inverse) * c,
    ],
)
def test_gamma_within(place: Callable[[Value, Value, Value], Value]):
    def build(g: GraphBuilder, x: Value, gamma: Value, beta: Value) -> Value:
        c = x - over("mean", g, x)
        return place(c, g.activation("rsqrt", over("mean", g, c * c) + 1e-5), gamma) + beta

    after = canonical(made(build, SHAPE, WIDTH, WIDTH, params=2))
    assert operations(after) == ["layer_norm"]
    assert [operand.name_hint for operand in the_norm(after).operands] == ["a0", "a1", "a2"]


@pytest.mark.parametrize("shape", [(-1, 8), (2, -1, 8), (8,), (8, 8)])
@pytest.mark.parametrize("element", ELEMENTS)
def test_shapes_and_element_types(shape: tuple[int, ...], element: str):
    module = made(
        lambda g, x, gamma, beta: core(g, x, eps=1e-2) * gamma + beta,
        shape,
        WIDTH,
        WIDTH,
        element=ELEMENTS[element],
        params=2,
    )
    after = canonical(module)
    assert operations(after) == ["layer_norm"]
    np.testing.assert_allclose(the_norm(after).eps.value.data, 1e-2, rtol=1e-2)


def test_without_eps():
    after = canonical(made(lambda g, x: x / g.sqrt(over("mean", g, x * x)), SHAPE))
    assert operations(after) == ["rms_norm"]
    assert the_norm(after).eps.value.data == 0


# Casts, as decoders in f16 and bf16 have them.


def cast_norm(g: GraphBuilder, x: Value, gamma: Value) -> Value:
    return g.cast(core(g, g.cast(x, f32), centred=False), x.element) * gamma


def cast_late(g: GraphBuilder, x: Value, gamma: Value) -> Value:
    return g.cast(core(g, g.cast(x, f32), centred=False) * g.cast(gamma, f32), x.element)


def cast_x_again(g: GraphBuilder, x: Value, gamma: Value) -> Value:
    """The cast of x is used by a later operation, so it stays."""
    wide = g.cast(x, f32)
    return g.cast(core(g, wide, centred=False), x.element) * gamma + g.cast(g.tanh(wide), x.element)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (cast_norm, ["rms_norm"]),
        (cast_late, ["rms_norm"]),
        (cast_x_again, ["cast", "rms_norm", "activation tanh", "cast", "binary add"]),
    ],
)
def test_casts_around_the_norm(build: Callable[..., Value], expected: list[str], element: str):
    after = canonical(made(build, SHAPE, WIDTH, element=ELEMENTS[element], params=1))
    assert operations(after) == expected
    assert the_norm(after).x.type == the_norm(after).result.type
    assert the_norm(after).x.name_hint == "a0"


def test_gamma_of_another_type_keeps_the_casts():
    """A weight that f16 cannot hold."""

    def build(g: GraphBuilder, x: Value) -> Value:
        gamma = g.constant(np.linspace(1, 1.001, 8))
        return g.cast(core(g, g.cast(x, f32), centred=False) * gamma, x.element)

    module = made(build, SHAPE, element=ELEMENTS["f16"])
    assert operations(canonical(module)) == ["cast", "rms_norm", "cast"]
    assert reasons(module) == [Reason.ELEMENT_TYPE]


def test_a_norm_between_casts_is_used_in_f32_too():
    module = made(
        lambda g, x: g.cast(core(g, g.cast(x, f32)).named("inner"), x.element),
        SHAPE,
        element=ELEMENTS["f16"],
        also=["inner"],
    )
    assert operations(canonical(module)) == ["cast", "layer_norm", "cast"]
    assert reasons(module) == [Reason.RETURNED]


def test_the_norm_between_casts_is_the_same_to_the_bit():
    """Step by step, so that only the casts are at stake."""

    def build(g: GraphBuilder, x: Value, gamma: Value, beta: Value) -> Value:
        wide = [g.cast(v, f32) for v in (x, gamma, beta)]
        return g.cast(g.layer_norm(*wide, eps=1e-5), x.element)

    module = made(build, SHAPE, WIDTH, WIDTH, element=ELEMENTS["f16"], params=2)
    after = module.clone()
    CanonicalizeOps(strict=True).apply(Context(), after)
    assert operations(after) == ["layer_norm"]
    assert_same_meaning(module, after, rtol=0, atol=0)


# Near misses.


def declined(build: Callable[..., Value], *shapes: tuple[int, ...], params: int = 0, also: tuple[str, ...] = ()):
    module = made(build, *shapes, params=params, also=also)
    names = operations(canonical(module))
    return names, reasons(module)


def test_another_axis():
    def build(g: GraphBuilder, x: Value) -> Value:
        return x / g.sqrt(over("mean", g, x * x, 1) + 1e-5)

    names, found = declined(build, (2, 8, 8))
    assert "rms_norm" not in names
    assert found == [Reason.AXIS]


def test_all_axes():
    def build(g: GraphBuilder, x: Value) -> Value:
        return x / g.sqrt(g.reduce("mean", x * x, [1, 2], keep_dim=True) + 1e-5)

    assert declined(build, SHAPE)[1] == [Reason.AXIS]


def test_an_axis_that_is_dropped():
    """[8] of an [8, 8] operand then lies along the other axis."""

    def build(g: GraphBuilder, x: Value) -> Value:
        return x / g.sqrt(over("mean", g, x * x, keep_dim=False) + 1e-5)

    names, found = declined(build, (8, 8))
    assert "rms_norm" not in names
    assert found == [Reason.AXIS]


def test_eps_that_is_no_constant():
    def build(g: GraphBuilder, x: Value, eps: Value) -> Value:
        return x / g.sqrt(over("mean", g, x * x) + eps)

    names, found = declined(build, SHAPE, ())
    assert names == ["binary mul", "reduce mean", "binary add", "activation sqrt", "binary div"]
    assert found == []


def test_eps_below_zero():
    def build(g: GraphBuilder, x: Value) -> Value:
        return x / g.sqrt(over("mean", g, x * x) + -1e-5)

    names, found = declined(build, SHAPE)
    assert "rms_norm" not in names
    assert found == [Reason.OTHER_CONSTANT]


@pytest.mark.parametrize("count", [7.0, 8.001])
def test_a_sum_over_another_count(count: float):
    def build(g: GraphBuilder, x: Value) -> Value:
        return x / g.sqrt(over("sum", g, x * x) / count + 1e-5)

    assert declined(build, SHAPE)[1] == [Reason.OTHER_CONSTANT]


def test_the_square_of_something_else():
    def build(g: GraphBuilder, x: Value, y: Value) -> Value:
        return x / g.sqrt(over("mean", g, x * y) + 1e-5)

    assert declined(build, SHAPE, SHAPE) == (operations(made(build, SHAPE, SHAPE)), [])


def test_the_mean_of_something_else():
    """x - mean(y) is no centring; what is left is the RMS norm of that difference."""

    def build(g: GraphBuilder, x: Value, y: Value) -> Value:
        c = x - over("mean", g, y)
        return c / g.sqrt(over("mean", g, c * c) + 1e-5)

    assert declined(build, SHAPE, SHAPE) == (["reduce mean", "binary sub", "rms_norm"], [])


def test_the_variance_of_the_uncentred_values():
    def build(g: GraphBuilder, x: Value) -> Value:
        return (x - over("mean", g, x)) / g.sqrt(over("mean", g, x * x) + 1e-5)

    names, _ = declined(build, SHAPE)
    assert "layer_norm" not in names
    assert "rms_norm" not in names


def test_an_unknown_width():
    def build(g: GraphBuilder, x: Value) -> Value:
        return x / g.sqrt(over("mean", g, x * x) + 1e-5)

    names, found = declined(build, (2, -1))
    assert "rms_norm" not in names
    assert found == [Reason.DYNAMIC_EXTENT]


@pytest.mark.parametrize(("name", "reason"), [("variance", Reason.RETURNED), ("squares", Reason.RETURNED)])
def test_an_inner_value_is_returned(name: str, reason: Reason):
    def build(g: GraphBuilder, x: Value) -> Value:
        squares = (x * x).named("squares")
        return x / g.sqrt((over("mean", g, squares) + 1e-5).named("variance"))

    names, found = declined(build, SHAPE, also=(name,))
    assert "rms_norm" not in names
    assert found == [reason]


def test_the_centred_values_are_used_again():
    """They are there anyway, and the norm of them is still one operation."""

    def build(g: GraphBuilder, x: Value) -> Value:
        c = (x - over("mean", g, x)).named("centred")
        return c / g.sqrt(over("mean", g, c * c) + 1e-5)

    assert declined(build, SHAPE, also=("centred",)) == (["reduce mean", "binary sub", "rms_norm"], [])


@pytest.mark.parametrize(
    ("shape", "reason"),
    [((2, 1, 8), Reason.BIAS_SHAPE), ((3, 1), Reason.BIAS_SHAPE), ((1, 8), Reason.BIAS_SHAPE), ((), Reason.BIAS_SHAPE)],
)
def test_a_scale_that_is_no_vector(shape: tuple[int, ...], reason: Reason):
    """A row that is computed from an input is a condition, which other fusions want; a parameter is a weight."""
    names, found = declined(lambda g, x, scale: core(g, x) * scale, SHAPE, shape)
    assert names == ["layer_norm", "binary mul"]
    assert found == [reason]


def test_a_shift_that_is_no_vector():
    names, found = declined(lambda g, x, shift: core(g, x) + shift, SHAPE, (2, 1, 8))
    assert names == ["layer_norm", "binary add"]
    assert found == [Reason.BIAS_SHAPE]


@pytest.mark.parametrize("second", [lambda n, v: n * v, lambda n, v: n + v])
def test_a_second_gamma_or_beta_stays(second: Callable[[Value, Value], Value]):
    def build(g: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
        return second(second(core(g, x), w), v)

    names, found = declined(build, SHAPE, WIDTH, WIDTH, params=2)
    assert names[0] == "layer_norm"
    assert len(names) == 2
    assert found == []


@pytest.mark.parametrize(("gamma", "beta"), [(2.0, 0.0), (1.0, 1.0)])
def test_a_norm_that_has_its_constants(gamma: float, beta: float):
    def build(g: GraphBuilder, x: Value, w: Value) -> Value:
        return g.rms_norm(x, g.constant([gamma] * 8), g.constant([beta] * 8), eps=1e-5) * w

    names, found = declined(build, SHAPE, WIDTH, params=1)
    assert names == ["rms_norm", "binary mul"]
    assert found == [Reason.OTHER_CONSTANT]


@pytest.mark.parametrize("kind", ["mul", "add"])
def test_a_norm_that_flattens_takes_nothing_in(kind: str):
    module = graph(
        f"""%one = rlx.constant dense<1.0> : tensor<8xf32>
        %zero = rlx.constant dense<0.0> : tensor<8xf32>
        %n = rlx.rms_norm %x, %one, %zero {{eps = 1.0e-5}}
          : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
        %y = rlx.binary {kind} %n, %w : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>""",
        "%x: tensor<2x3x8xf32>, %w: tensor<8xf32>",
        "tensor<6x8xf32>",
        "%y",
    )
    assert operations(canonical(module)) == ["rms_norm", f"binary {kind}"]
    assert reasons(module) == [Reason.SHAPES_DIFFER]


def test_gamma_is_computed_from_the_norm():
    def build(g: GraphBuilder, x: Value) -> Value:
        n = core(g, x)
        return n * g.reduce("mean", n, [0, 1])

    names, found = declined(build, SHAPE)
    assert names == ["layer_norm", "reduce mean", "binary mul"]
    assert found == [Reason.MORE_THAN_ONE_USE]


def test_a_vector_times_itself():
    """Of a norm of rank 1 the norm itself would be a fitting gamma."""

    def build(g: GraphBuilder, x: Value) -> Value:
        n = core(g, x)
        return n * n

    names, found = declined(build, (8,))
    assert names == ["layer_norm", "binary mul"]
    assert found == [Reason.MORE_THAN_ONE_USE]


def test_strict_declines():
    module = made(lambda g, x, w: core(g, x) * w, SHAPE, WIDTH, params=1)
    assert "layer_norm" not in operations(canonical(module, strict=True))
    assert Reason.NUMERICS in reasons(module, strict=True)


@pytest.mark.parametrize("centred", [True, False])
def test_mutants(centred: bool):
    def build(g: GraphBuilder, x: Value, gamma: Value, beta: Value) -> Value:
        return core(g, x, centred=centred, squares="c²") * gamma + beta

    name = "rlx.layer_norm" if centred else "rlx.rms_norm"
    module = made(build, (2, 3, 4), (4,), (4,), params=2)
    counts = check_mutants(module, CanonicalizeOps(), fused=name, more_operations=2)
    assert counts["original"] == 1
    assert 0 in counts.values()
