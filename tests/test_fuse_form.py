"""What all fusions share: the vocabulary of checks, the declarations of passes, the reasons."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import graph
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import RlxOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.passes import pass_factories
from rlx_dialect.passes.matching.fusion import FusionPass, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import (
    Place,
    defining,
    insertion_place,
    is_used,
    not_one_shape,
    one_use,
    orders,
    other_operand,
)

T = "tensor<2x3xf32>"


def module(*lines: str, returned: str = "%d") -> ModuleOp:
    results = ", ".join([T] * len(returned.split(",")))
    return graph("\n".join(lines), f"%x: {T}, %y: {T}", results, returned)


def named(where: ModuleOp, name: str) -> Operation:
    return next(op for op in where.walk() if any(result.name_hint == name for result in op.results))


def value(where: ModuleOp, name: str) -> SSAValue:
    return named(where, name).results[0]


def unary(name: str, operand: str) -> str:
    return f"%{name} = rlx.activation neg %{operand} : {T}"


def binary(name: str, a: str, b: str) -> str:
    return f"%{name} = rlx.binary add %{a}, %{b} : ({T}, {T}) -> {T}"


def test_one_use_counts_edges_and_returns():
    m = module(unary("a", "x"), binary("b", "a", "y"), binary("c", "b", "b"), unary("d", "c"), returned="%d, %c")
    assert one_use(value(m, "a"), named(m, "a")) is named(m, "b")
    twice = one_use(value(m, "b"), named(m, "a"))
    assert isinstance(twice, Miss)
    assert (twice.reason, twice.op) == (Reason.MORE_THAN_ONE_USE, named(m, "a"))
    assert str(twice) == (
        "rlx.activation %a: more-than-one-use: %b has 2 uses: rlx.binary, rlx.binary (duplicate it, or use it once)"
    )
    returned = one_use(value(m, "c"), named(m, "c"))
    assert isinstance(returned, Miss)
    assert returned.reason is Reason.RETURNED


def test_a_value_that_is_only_returned_has_that_use():
    m = module(unary("d", "x"))
    user = one_use(value(m, "d"), named(m, "d"))
    assert isinstance(user, Operation)
    assert user.name == "func.return"
    assert is_used(value(m, "d"))
    assert not is_used(value(module(unary("e", "x"), unary("d", "x")), "e"))


def test_definitions_and_operands_of_commutative_operations():
    m = module(unary("a", "x"), binary("b", "a", "y"), binary("d", "b", "b"))
    add = named(m, "b")
    assert isinstance(add, BinaryOp)
    assert defining(add.lhs, ActivationOp) is named(m, "a")
    assert defining(add.lhs, BinaryOp) is None
    assert defining(add.rhs, RlxOp) is None
    assert orders(add) == ((add.lhs, add.rhs), (add.rhs, add.lhs))
    assert other_operand(add, add.lhs) is add.rhs
    assert other_operand(add, add.rhs) is add.lhs
    square = named(m, "d")
    assert isinstance(square, BinaryOp)
    assert other_operand(square, square.lhs) is square.lhs


def shaped(*shapes: str) -> ModuleOp:
    arguments = ", ".join(f"%a{i}: tensor<{shape}xf32>" for i, shape in enumerate(shapes))
    lines = [f"%v{i} = rlx.activation neg %a{i} : tensor<{shape}xf32>" for i, shape in enumerate(shapes)]
    return graph("\n".join(lines), arguments, f"tensor<{shapes[0]}xf32>", "%v0")


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (("2x3", "2x3"), None),
        (("2x3", "2x3", "3x2"), Reason.SHAPES_DIFFER),
        (("2x3", "1x3"), Reason.SHAPES_DIFFER),
        (("2x3", "2x3x1"), Reason.SHAPES_DIFFER),
        (("2x3", "?x3"), Reason.SHAPES_DIFFER),
        (("?x3", "?x3"), Reason.DYNAMIC_EXTENT),
    ],
)
def test_one_shape(shapes: tuple[str, ...], reason: Reason | None):
    m = shaped(*shapes)
    miss = not_one_shape([value(m, f"v{i}") for i in range(len(shapes))], named(m, "v0"))
    assert (miss and miss.reason) == reason


def anchor(m: ModuleOp, kept: list[str], operands: list[str]) -> Operation | Reason:
    found = insertion_place(
        named(m, "a"), named(m, "d"), [value(m, name) for name in kept], [value(m, name) for name in operands]
    )
    return found.reason if isinstance(found, Miss) else found.anchor


def test_the_anchor_is_the_last_operation_or_the_first_user_of_what_stays():
    m = module(unary("a", "x"), unary("p", "y"), unary("u", "a"), unary("q", "y"), binary("d", "a", "u"))
    assert anchor(m, [], ["p", "q"]) is named(m, "d")
    assert anchor(m, ["a"], ["p"]) is named(m, "u")
    assert anchor(m, ["a"], ["q"]) is named(m, "u")
    assert anchor(m, ["a"], ["u"]) is Reason.DEFINED_TOO_LATE
    assert anchor(m, ["q"], ["u"]) is named(m, "d")


def test_definitions_are_moved_up_with_what_they_are_computed_from():
    m = module(
        unary("a", "x"),
        unary("u", "a"),
        unary("p", "y"),
        unary("other", "y"),
        binary("q", "p", "y"),
        unary("r", "u"),
        binary("d", "a", "u"),
        returned="%d, %q, %r, %other",
    )
    place = insertion_place(named(m, "a"), named(m, "d"), [value(m, "a")], [value(m, "q")])
    assert place == Place(named(m, "u"), (named(m, "p"), named(m, "q")))
    assert isinstance(place, Place)
    assert place.clear().insert_before is named(m, "u")
    order = [op.results[0].name_hint for op in m.walk() if isinstance(op, RlxOp)]
    assert order == ["a", "p", "q", "u", "other", "r", "d"]
    assert anchor(m, ["a"], ["r"]) is Reason.DEFINED_TOO_LATE


@pytest.mark.parametrize("kept", [False, True], ids=["nothing stays", "an early user"])
def test_the_anchor_is_found_without_walking_to_the_last_operation(kept: bool, monkeypatch: pytest.MonkeyPatch):
    """A graph may have all sums before all norms."""
    early = unary("u", "a") if kept else unary("u", "x")
    between = [unary(f"u{i}", "y") for i in range(500)]
    m = module(unary("a", "x"), early, *between, binary("d", "a", "u"))
    a, u, d = named(m, "a"), named(m, "u"), named(m, "d")
    steps: list[Operation] = []
    walk = Operation.next_op.fget
    assert walk is not None
    monkeypatch.setattr(Operation, "next_op", property(lambda op: steps.append(op) or walk(op)))
    assert insertion_place(a, d, [a.results[0]], a.operands) == Place(u if kept else d)
    assert len(steps) < 10


def fusion_passes() -> list[type[FusionPass]]:
    found = [factory() for factory in pass_factories().values()]
    return [p for p in found if issubclass(p, FusionPass)]


def test_every_fusion_declares_what_it_makes_and_its_numerics():
    assert {p.name for p in fusion_passes()} >= {
        "rlx-fuse-matmul-bias-act",
        "rlx-fuse-residual-ln",
        "rlx-mark-elementwise-regions",
    }
    for fusion in fusion_passes():
        assert isinstance(fusion.numerics, Numerics)
        # One only changes what a function returns.
        assert fusion.produces or fusion.name == "rlx-select-peaks-only-outputs"
        assert all(op.name.startswith("rlx.") for op in fusion.produces)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_occurs_in_a_test_of_a_fusion(reason: Reason):
    tests = [p for p in Path(__file__).parent.glob("test_*.py") if p.name != Path(__file__).name]
    assert any(f"Reason.{reason.name}" in path.read_text() for path in tests)
