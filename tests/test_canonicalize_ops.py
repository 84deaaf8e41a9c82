"""rlx-canonicalize-ops: the exact clean-ups, duplicates, order and rest; imported models keep their meaning."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from canonical_helpers import Build, canonical, made, operations
from helpers import assert_close, graph, parse
from onnx_cases import CASES, Case
from xdsl.dialects.builtin import f16, f32, f64, i1, i8, i32, i64
from xdsl.ir import Attribute

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.canonicalization import CLEANUPS, keeps_values
from rlx_dialect.frontends.onnx.importer import import_onnx
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.elementwise import CastOp, ClampOp
from rlx_dialect.ops.normalization import FusedResidualLnOp
from rlx_dialect.ops.shape import ExpandOp, SliceOp
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps, canonical_modules
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.pipelines.check_rewrites import checking_rewrites
from rlx_dialect.xdsl_compat import Context, GreedyRewritePatternApplier, PatternRewriteWalker, print_module

SHAPE = (2, 3, 4)
IDENTITIES: dict[str, Build] = {
    "x·1": lambda g, x: x * 1.0,
    "1·x": lambda g, x: 1.0 * x,
    "x/1": lambda g, x: x / 1.0,
    "x¹": lambda g, x: x**1.0,
    "x - 0": lambda g, x: x - 0.0,
    "x + -0": lambda g, x: x + -0.0,
    "-(-x)": lambda g, x: g.activation("neg", -x),
    "x·1 with a tensor of ones": lambda g, x: x * g.constant(np.ones((3, 1))),
    "two transposes": lambda g, x: g.transpose(g.transpose(x, [1, 2, 0]), [2, 0, 1]),
    "two reshapes": lambda g, x: g.reshape(g.reshape(x, [6, 4]), SHAPE),
    "the whole of it": lambda g, x: g.narrow(x, 1, 0, 3),
    "expanded to what it is": lambda g, x: g.insert(ExpandOp(x.ssa, SHAPE)),
    "cast to f64 and back": lambda g, x: g.cast(g.cast(x, f64), f32),
    "cast to itself": lambda g, x: g.insert(CastOp(x.ssa, f32)),
    "no bounds": lambda g, x: g.clamp(x, -np.inf, np.inf),
    "a dead branch": lambda g, x: [x, g.tanh(x)][0],
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", IDENTITIES)
def test_what_changes_nothing_goes(name: str, strict: bool):
    module = made(lambda g, x: g.tanh(IDENTITIES[name](g, x)), SHAPE)
    assert operations(canonical(module, strict=strict)) == ["activation tanh"]


STAYS: dict[str, Build] = {
    "x + 0": lambda g, x: x + 0.0,
    "x - -0": lambda g, x: x + -0.0 * -1.0,
    "0 - x": lambda g, x: 0.0 - x,
    "cast to f16 and back": lambda g, x: g.cast(g.cast(x, f16), f32),
    "another transpose": lambda g, x: g.transpose(x, [0, 2, 1]),
    "x·1, stretched": lambda g, x: x * g.constant(np.ones((5, 1, 1, 1))),
    "1/x": lambda g, x: 1.0 / x,
    "a sum of one": lambda g, x: g.reduce("sum", g.narrow(x, 0, 0, 1), [0], keep_dim=True),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_changes_something_stays(name: str):
    assert len(operations(canonical(made(lambda g, x: g.tanh(STAYS[name](g, x)), SHAPE)))) >= 2


@pytest.mark.parametrize(
    ("build", "element", "expected"),
    [
        (lambda g, x: x + 0, i32, []),
        (lambda g, x: 0 + x, i8, []),
        (lambda g, x: x * -1, i32, ["activation neg"]),
        (lambda g, x: 1 / x, i32, ["binary div"]),
        (lambda g, x: x - 3, i32, ["binary sub"]),
        (lambda g, x: g.exp(x) + 0.0, f32, ["activation exp"]),
        (lambda g, x: x * x + 0.0, f32, ["binary mul"]),
        (lambda g, x: x * -1.0, f32, ["activation neg"]),
        (lambda g, x: x - 3.0, f32, ["binary add"]),
        (lambda g, x: 3.0 - x, f32, ["binary sub"]),
        (lambda g, x: 1.0 / x, f32, ["activation recip"]),
        (lambda g, x: g.binary("max", 2.0, x), f32, ["binary max"]),
        (lambda g, x: g.activation("abs", -x), f32, ["activation abs"]),
        (lambda g, x: g.relu(g.relu(x)), f32, ["activation relu"]),
        (lambda g, x: g.clamp(g.clamp(x, -1.0, 2.0), 0.0, 9.0), f32, ["clamp"]),
        (lambda g, x: g.cast(g.cast(x, f64), f16), f32, ["cast"]),
        (lambda g, x: g.cast(g.cast(x, i64), i8), i32, ["cast"]),
        (lambda g, x: g.cast(g.cast(x, f32), i1), i8, ["cast"]),
        (lambda g, x: g.insert(SliceOp(x.ssa, 1, 1, 2, 1)), f32, ["narrow"]),
        (lambda g, x: g.narrow(g.narrow(x, 1, 1, 2), 1, 1, 1), f32, ["narrow"]),
        (lambda g, x: g.narrow(g.narrow(x, 1, 1, 2), 2, 1, 1), f32, ["narrow", "narrow"]),
        (lambda g, x: g.reshape(g.reshape(x, [24]), [4, 6]), f32, ["reshape"]),
        (lambda g, x: g.expand(g.expand(x, [5, 2, 3, 4]), [6, -1, 2, 3, 4]), f32, ["expand"]),
        (lambda g, x: g.reshape(g.reduce("max", x, [1]), [2, 1, 4]), f32, ["reduce max"]),
        (lambda g, x: g.reshape(g.reduce("max", x, [1]), [1, 2, 4]), f32, ["reduce max", "reshape"]),
    ],
)
def test_one_spelling_of_several(build: Build, element: Attribute, expected: list[str]):
    assert operations(canonical(made(build, SHAPE, element=element))) == expected


def test_a_difference_from_a_constant_is_a_sum():
    text = print_module(canonical(made(lambda g, x: g.binary("sub", x, 3.0), SHAPE)))
    assert "dense<-3.000000e+00>" in text
    assert "rlx.binary add %a0, " in text


def test_bounds_of_bounds():
    (clamp,) = [
        op
        for op in canonical(made(lambda g, x: g.clamp(g.clamp(x, -1.0, 2.0), 0.0, 9.0), SHAPE)).walk()
        if isinstance(op, ClampOp)
    ]
    assert (clamp.min.value.data, clamp.max.value.data) == (0.0, 2.0)


# Broadcasts.


@pytest.mark.parametrize(
    ("x", "y", "target", "dropped"),
    [
        ((2, 3, 4), (4,), [2, 3, 4], True),
        ((2, 3, 4), (3, 1), [2, 3, 4], True),
        ((2, 3, 4), (1,), [3, 4], True),
        ((2, 3, 4), (), [3, 1], True),
        ((-1, 3, 4), (-1, 3, 1), [-1, 3, 4], True),
        # The other operand has not the extent, or may not have it.
        ((1, 3, 4), (4,), [2, 3, 4], False),
        ((3, 4), (4,), [2, 3, 4], False),
        ((-1, 3, 4), (1, 3, 4), [2, 3, 4], False),
        ((2, -1, 4), (2, 1, 4), [2, 3, 4], False),
        ((2, 3, 4), (-1, 3, 4), [2, 3, 4], False),
    ],
)
@pytest.mark.parametrize("commuted", [False, True])
def test_an_expand_before_an_elementwise_operation(
    x: tuple[int, ...], y: tuple[int, ...], target: list[int], dropped: bool, commuted: bool
):
    def build(g: GraphBuilder, a: Value, b: Value) -> Value:
        large = g.expand(b, target)
        return large * a if commuted else a * large

    assert operations(canonical(made(build, x, y))) == ([] if dropped else ["expand"]) + ["binary mul"]


def test_an_expand_whose_type_hides_its_length():
    module = graph(
        """%e = rlx.expand %y {shape = [4, 8]} : tensor<?x8xf32> -> tensor<?x8xf32>
        %r = rlx.binary add %x, %e : (tensor<1x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>""",
        "%x: tensor<1x8xf32>, %y: tensor<?x8xf32>",
        "tensor<?x8xf32>",
        "%r",
    )
    assert operations(canonical(module)) == ["expand", "binary add"]


def test_expands_of_several_operands():
    """Two of three may go, and the last one brings the shape."""

    def build(g: GraphBuilder, a: Value, b: Value, c: Value) -> Value:
        return g.where(g.compare("lt", a, b), g.expand(b, [2, 4]), g.expand(c, [2, 4]))

    after = operations(canonical(made(build, (4,), (4,), (4,))))
    assert after == ["compare lt", "expand", "where"]


@pytest.mark.parametrize(("shape", "dropped"), [([1, 4], True), ([1, 1, 4], True), ([4, 1], False), ([1, 2, 2], False)])
def test_a_reshape_that_puts_ones_in_front(shape: list[int], dropped: bool):
    x = (2, 4, 4) if len(shape) < 3 or shape[-1] == 4 else (2, 2, 2)
    module = made(lambda g, a, b: a + g.reshape(b, shape), x, (4,))
    assert operations(canonical(module)) == ([] if dropped else ["reshape"]) + ["binary add"]


def test_a_number_in_a_large_constant():
    def constants(values: object) -> str:
        return print_module(canonical(made(lambda g, x: x * g.constant(np.asarray(values)), SHAPE)))

    assert "dense<5.000000e-01> : tensor<f32>" in constants(np.full((3, 4), 0.5))
    assert "tensor<3x4xf32>" in constants(np.arange(12.0).reshape(3, 4))
    assert "tensor<4xf32>" in constants(np.full(4, 0.5))  # It may be a bias.


# Constants, duplicates, dead operations.


def test_constants_are_folded():
    module = made(lambda g, x: x + g.tanh(g.constant([1.0, 2.0]) * 0.5), (2,))
    assert operations(canonical(module)) == ["binary add"]


def test_duplicates_are_merged():
    def build(g: GraphBuilder, x: Value, y: Value) -> Value:
        return (g.tanh(x) + g.tanh(y)) * (g.tanh(x) - g.exp(x))

    after = canonical(made(build, SHAPE, SHAPE))
    tanhs = ["activation tanh", "activation tanh"]
    assert operations(after) == [*tanhs, "binary add", "activation exp", "binary sub", "binary mul"]


def test_what_differs_in_a_property_is_no_duplicate():
    def build(g: GraphBuilder, x: Value) -> Value:
        parts = [g.narrow(x, 0, start, 1) for start in (0, 1, 0)]
        return g.concat(parts, 1)

    assert operations(canonical(made(build, SHAPE))) == ["narrow", "narrow", "concat"]


def test_what_differs_in_an_attribute_or_type_is_no_duplicate():
    module = graph(
        """%0 = rlx.cast %x : tensor<2xf32> -> tensor<2xf16>
        %1 = rlx.cast %x : tensor<2xf32> -> tensor<2xi32>
        %2 = rlx.activation exp %x {rlx.note} : tensor<2xf32>
        %3 = rlx.activation exp %x : tensor<2xf32>""",
        "%x: tensor<2xf32>",
        "tensor<2xf16>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>",
        "%0, %1, %2, %3",
    )
    after = module.clone()
    CanonicalizeOps().apply(Context(), after)
    assert operations(after) == ["cast", "cast", "activation exp", "activation exp"]


def test_duplicates_in_two_blocks_stay():
    module = graph(
        """%0 = rlx.activation exp %x : tensor<2xf32>
        "test.op"() ({
          %1 = rlx.activation exp %x : tensor<2xf32>
          %2 = rlx.activation exp %x : tensor<2xf32>
          "test.termop"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> ()
        }) : () -> ()""",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
        "%0",
    )
    CanonicalizeOps().apply(Context(), module)
    assert operations(module) == ["activation exp", "activation exp"]


@pytest.mark.parametrize("uses_sum", [False, True])
def test_a_residual_sum_that_nobody_reads(uses_sum: bool):
    def build(g: GraphBuilder, x: Value, r: Value, w: Value, b: Value) -> Value:
        norm, total = g.insert_all(FusedResidualLnOp(x.ssa, r.ssa, w.ssa, b.ssa, eps=1e-5, sum_result=True))
        return norm + total if uses_sum else norm

    after = canonical(made(build, SHAPE, SHAPE, (4,), (4,)))
    (op,) = [op for op in after.walk() if isinstance(op, FusedResidualLnOp)]
    assert len(op.results) == 1 + uses_sum


def test_names_and_locations_stay():
    module = parse(
        """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %a = rlx.activation neg %x : tensor<2xf32> loc("here")
          %b = rlx.activation exp %a : tensor<2xf32> loc("there")
          %one = rlx.constant dense<1.0> : tensor<f32>
          %c = rlx.binary add %b, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
          %the_result = rlx.binary div %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("end")
          func.return %the_result : tensor<2xf32>
        }"""
    )
    CanonicalizeOps().apply(Context(), module)
    (silu,) = [op for op in module.walk() if op.name == "rlx.activation"]
    assert silu.results[0].name_hint == "the_result"
    assert all(name in str(silu.location) for name in ("here", "there", "end"))


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        (f16, f32, True),
        (f32, f16, False),
        (i8, f16, True),
        (i8, i32, True),
        (i32, i8, False),
        (i32, f32, False),
        (i32, f64, True),
        (i64, f64, False),
        (i1, i8, True),
        (i1, f16, True),
        (i8, i1, False),
        (f32, i32, False),
    ],
)
def test_which_casts_lose_nothing(source: Attribute, target: Attribute, kept: bool):
    assert keeps_values(source, target) is kept


# The pass as a whole.


def test_modules_are_found_by_their_files():
    folder = Path(sys.modules[CanonicalizeOps.__module__].__file__ or "").parent / "canonical"
    files = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    assert [name.rpartition(".")[2] for name in canonical_modules()] == files
    assert {"activations", "affine", "norms", "products", "softmax"} <= {*files}


def test_what_one_clean_up_makes_possible_for_another():
    """A cast and a transpose pair hide a gelu, whose result is there twice."""

    def gelu(g: GraphBuilder, x: Value) -> Value:
        hidden = g.transpose(g.transpose(g.insert(CastOp(x.ssa, f32)), [1, 0]), [1, 0])
        return hidden * (0.5 * (1.0 + g.activation("erf", hidden * 0.70710678)))

    after = canonical(made(lambda g, x, w: gelu(g, x * 1.0 @ w) + gelu(g, x @ w), (4, 8), (8, 8)))
    assert operations(after) == ["matmul", "activation gelu", "binary add"]


def test_a_long_chain_takes_few_visits(monkeypatch: pytest.MonkeyPatch):
    """Linear: as many looks at an operation in a graph ten times as long."""
    from rlx_dialect.passes.canonical._spelling import Spellings

    looks: list[int] = []
    original = Spellings.match_and_rewrite
    monkeypatch.setattr(
        Spellings, "match_and_rewrite", lambda self, op, rewriter: looks.append(0) or original(self, op, rewriter)
    )

    def count(length: int) -> float:
        def build(g: GraphBuilder, x: Value) -> Value:
            for _ in range(length):
                x = g.transpose(g.transpose(x * g.activation("sigmoid", x) + x * 1.0, [1, 0]), [1, 0])
            return x

        module = made(build, (4, 4))
        looks.clear()
        CanonicalizeOps().apply(Context(), module)
        assert operations(module) == ["activation silu", "binary add"] * length
        return len(looks) / length

    assert count(300) == pytest.approx(count(30), rel=0.05)


def test_clean_ups_under_the_driver_alone():
    module = made(lambda g, x: g.tanh(g.activation("neg", -x) * 1.0), SHAPE)
    assert apply_patterns(module, [cleanup() for cleanup in CLEANUPS])
    assert operations(module)[-1] == "activation tanh"


def test_the_patterns_under_xdsls_walker():
    """The norm takes three steps, the activation two."""

    def build(g: GraphBuilder, x: Value, w: Value, b: Value) -> Value:
        c = x - g.reduce("mean", x, [2], keep_dim=True)
        n = c / g.sqrt(g.reduce("mean", c * c, [2], keep_dim=True) + 1e-5) * w + b
        return n * g.activation("recip", 1.0 + g.exp(-n))

    module = made(build, SHAPE, (4,), (4,), params=2)
    expected = operations(canonical(module))
    patterns = [*(cleanup() for cleanup in CLEANUPS), *CanonicalizeOps().patterns()]
    PatternRewriteWalker(GreedyRewritePatternApplier(patterns)).rewrite_module(module)
    assert operations(module) == expected == ["layer_norm", "activation silu"]


# What is imported, and the examples.


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_imported_operator_keeps_its_meaning(case: Case):
    imported = import_onnx(case.model().SerializeToString())
    after = imported.module.clone()
    with checking_rewrites("module"):
        CanonicalizeOps().apply(Context(), after)
    after.verify()
    values = {**imported.weights, **case.inputs}
    expected = run_reference(imported.module, values)
    assert_close(run_reference(after, values), expected, rtol=1e-5, atol=1e-6)


def examples() -> list[Path]:
    return sorted((Path(__file__).parent.parent / "examples").glob("*.mlir"))


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.stem)
def test_examples_are_canonical(path: Path):
    module = parse(path.read_text())
    after = module.clone()
    CanonicalizeOps().apply(Context(), after)
    assert print_module(after) == print_module(module)
