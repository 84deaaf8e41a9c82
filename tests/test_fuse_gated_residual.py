"""rlx-fuse-gated-residual: every order, gates of many shapes, each reason not to, mutants."""

from __future__ import annotations

from itertools import product

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.fuse_gated_residual import FuseGatedResidual
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module

FUSED = "rlx.gated_residual"


def swapped(values: tuple[str, str], types: tuple[str, str], order: str) -> str:
    """Two operands and their types in that order."""
    (a, b), (ta, tb) = (values, types) if order == "ab" else (values[::-1], types[::-1])
    return f"{a}, {b} : ({ta}, {tb})"


def gated(
    x: str = "2x3x8",
    gate: str = "2x1x8",
    y: str | None = None,
    *,
    out: str | None = None,
    product: str | None = None,
    element: str = "f32",
    prepare: str = "",
    used: str = "%gate",
    used_shape: str | None = None,
    orders: tuple[str, str] = ("ab", "ab"),
    tail: str = "",
    returned: str = "%s",
) -> ModuleOp:
    """%x + %gate · %y. ``prepare`` may make of %gate what is ``used``."""
    shapes = (x, y or x, gate, used_shape or gate, product or x, out or x)
    tx, ty, tg, tu, tp, ts = (f"tensor<{shape}x{element}>" if shape else f"tensor<{element}>" for shape in shapes)
    return graph(
        f"""{prepare}
        %p = rlx.binary mul {swapped((used, "%y"), (tu, ty), orders[0])} -> {tp}
        %s = rlx.binary add {swapped(("%x", "%p"), (tx, tp), orders[1])} -> {ts}
        {tail}""",
        f"%x: {tx}, %y: {ty}, %gate: {tg}",
        ", ".join([ts] * len(returned.split(","))),
        returned,
    )


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def declines(module: ModuleOp, reason: Reason) -> None:
    check_declines(module, FuseGatedResidual(), reason, at="rlx.binary")


# It fuses.


@pytest.mark.parametrize("orders", list(product(("ab", "ba"), ("ab", "ba"))), ids="-".join)
def test_every_order(orders: tuple[str, str]):
    after = check_fusion(gated(orders=orders), FuseGatedResidual(), fused={FUSED: 1}, mutants=False)
    assert names(after) == [FUSED]
    assert "%s = rlx.gated_residual %x, %y, %gate : " in print_module(after)


@pytest.mark.parametrize(
    ("x", "gate"),
    [
        ("2x1", "1"),
        ("2x3x8", "8"),
        ("2x3x8", "1x1x8"),
        ("2x3x8", "3x8"),
        ("8x8", "8"),
        ("8x8", "1x8"),
        ("1x3x8", "3x8"),
        ("2x3x4x8", "2x1x1x8"),
    ],
)
def test_gates(x: str, gate: str):
    check_fusion(gated(x, gate), FuseGatedResidual(), fused={FUSED: 1}, mutants=False)


@pytest.mark.parametrize(
    ("gate", "steps", "rest"),
    [
        ("2x1x8", ["2x3x8"], []),
        ("8", ["3x8", "2x3x8"], []),
        ("1x8", ["3x8"], []),
        ("2x1x1", ["2x1x8"], ["rlx.expand"]),
        ("2x1x1", ["2x1x8", "2x3x8"], ["rlx.expand"]),
    ],
)
def test_an_expanded_gate(gate: str, steps: list[str], rest: list[str]):
    """It is taken from before, as far as its last extent is that of x."""
    lines, shape, name = [], gate, "%gate"
    for i, target in enumerate(steps):
        extents = target.replace("x", ", ")
        lines.append(f"%e{i} = rlx.expand {name} {{shape = [{extents}]}} : tensor<{shape}xf32> -> tensor<{target}xf32>")
        shape, name = target, f"%e{i}"
    module = gated(gate=gate, prepare="\n".join(lines), used=name, used_shape=shape)
    after = check_fusion(module, FuseGatedResidual(), fused={FUSED: 1}, mutants=False)
    assert names(after) == [*rest, FUSED]


def test_an_expanded_gate_that_others_use_stays():
    e = "%e = rlx.expand %gate {shape = [2, 3, 8]} : tensor<2x1x8xf32> -> tensor<2x3x8xf32>"
    module = gated(prepare=e, used="%e", used_shape="2x3x8", returned="%s, %e")
    after = check_fusion(module, FuseGatedResidual(), fused={FUSED: 1}, mutants=False)
    assert "%x, %y, %gate" in print_module(after)


def test_two_gated_summands():
    """The second product is gated into the first."""
    t, g = "tensor<2x3x8xf32>", "tensor<8xf32>"
    module = graph(
        f"""%p = rlx.binary mul %gate, %x : ({g}, {t}) -> {t}
        %q = rlx.binary mul %gate, %y : ({g}, {t}) -> {t}
        %s = rlx.binary add %p, %q : ({t}, {t}) -> {t}""",
        f"%x: {t}, %y: {t}, %gate: {g}",
        t,
        "%s",
    )
    after = check_fusion(module, FuseGatedResidual(), fused={FUSED: 1}, mutants=False)
    assert names(after) == ["rlx.binary", FUSED]
    assert "rlx.gated_residual %p, %y, %gate" in print_module(after)


def test_a_block_of_unknown_batch_whose_gate_comes_from_x():
    t, g = "tensor<?x3x8xf32>", "tensor<?x1x8xf32>"
    module = graph(
        f"""%g = rlx.reduce mean %x {{axes = [1], keep_dim}} : {t} -> {g}
        %y = rlx.activation gelu %x : {t}
        %p = rlx.binary mul %g, %y : ({g}, {t}) -> {t}
        %s = rlx.binary add %x, %p : ({t}, {t}) -> {t}""",
        f"%x: {t}",
        t,
        "%s",
    )
    check_fusion(module, FuseGatedResidual(), fused={FUSED: 1}, mutants=False)


# It declines.


@pytest.mark.parametrize("element", ["f16", "bf16", "f64", "i32"])
def test_other_element_types(element: str):
    declines(gated(element=element), Reason.ELEMENT_TYPE)
    declines(gated("2x1", "1", element=element), Reason.ELEMENT_TYPE)


def test_the_product_is_used_again_or_returned():
    t = "tensor<2x3x8xf32>"
    tail = f"%z = rlx.binary mul %s, %p : ({t}, {t}) -> {t}"
    declines(gated(tail=tail, returned="%z"), Reason.MORE_THAN_ONE_USE)
    declines(gated(returned="%s, %p"), Reason.RETURNED)


def test_the_gated_value_is_the_other_summand():
    t, g = "tensor<2x3x8xf32>", "tensor<8xf32>"
    module = graph(
        f"%p = rlx.binary mul %gate, %x : ({g}, {t}) -> {t}\n%s = rlx.binary add %x, %p : ({t}, {t}) -> {t}",
        f"%x: {t}, %gate: {g}",
        t,
        "%s",
    )
    declines(module, Reason.OTHER_OPERAND)


@pytest.mark.parametrize(("x", "gate"), [("2x3x8", "2x1x1"), ("2x3x8", "1"), ("8x8", "8x1"), ("8x8", "1x1")])
def test_the_gate_has_another_last_extent(x: str, gate: str):
    declines(gated(x, gate), Reason.SHAPES_DIFFER)


def test_the_gate_is_one_number():
    declines(gated(gate=""), Reason.RANK)


@pytest.mark.parametrize(("x", "gate"), [("?x8", "1x?"), ("2x?", "1x8"), ("?x3x8", "?x1x8"), ("2x?", "?")])
def test_unknown_extents(x: str, gate: str):
    """Two arguments' unknown extents may differ; y is of the shape of x, which is asked first."""
    t, g = f"tensor<{x}xf32>", f"tensor<{gate}xf32>"
    module = graph(
        f"""%y = rlx.activation tanh %x : {t}
        %g = rlx.reshape %gate {{new_shape = [{gate.replace("?", "-1").replace("x", ", ")}]}} : {g} -> {g}
        %p = rlx.binary mul %g, %y : ({g}, {t}) -> {t}
        %s = rlx.binary add %x, %p : ({t}, {t}) -> {t}""",
        f"%x: {t}, %gate: {g}",
        t,
        "%s",
    )
    (miss,) = FuseGatedResidual().misses(module)
    assert miss.reason is Reason.DYNAMIC_EXTENT


def test_x_and_y_of_unknown_extents():
    declines(gated("?x3x8", "8"), Reason.DYNAMIC_EXTENT)


def test_the_product_is_in_another_block():
    t, g = "tensor<2x3x8xf32>", "tensor<8xf32>"
    module = graph(
        f"""%p = rlx.binary mul %gate, %y : ({g}, {t}) -> {t}
        "test.op"() ({{
          %s = rlx.binary add %x, %p : ({t}, {t}) -> {t}
          "test.termop"(%s) : ({t}) -> ()
        }}) : () -> ()""",
        f"%x: {t}, %y: {t}, %gate: {g}",
        t,
        "%x",
    )
    (miss,) = FuseGatedResidual().misses(module)
    assert miss.reason is Reason.OTHER_BLOCK
    FuseGatedResidual().apply(Context(), module)
    assert FUSED not in names(module)


@pytest.mark.parametrize(
    "module",
    [
        gated(gate="2x3x8"),
        gated("2x3x8", "8", "8", product="8"),
        gated("2x3x8", "2x1x8", "2x1x8", product="2x1x8"),
        gated("8", "8", "2x3x8", product="2x3x8", out="2x3x8"),
        gated("1x3x8", "8", "2x3x8", product="2x3x8", out="2x3x8"),
    ],
    ids=["equal shapes", "vectors", "both small", "the residual is a bias", "the residual broadcasts"],
)
def test_what_is_no_candidate(module: ModuleOp):
    assert FuseGatedResidual().misses(module) == []
    after = module.clone()
    FuseGatedResidual().apply(Context(), after)
    assert names(after) == names(module)


# Mutants.


@pytest.mark.parametrize(
    "module",
    [
        gated(),
        gated("8x8", "8"),
        gated(
            gate="2x1x8",
            prepare="%e = rlx.expand %gate {shape = [2, 3, 8]} : tensor<2x1x8xf32> -> tensor<2x3x8xf32>",
            used="%e",
            used_shape="2x3x8",
        ),
    ],
    ids=["2x3x8", "square", "expand"],
)
def test_mutants(module: ModuleOp):
    counts = check_mutants(module, FuseGatedResidual(), fused=FUSED)
    assert counts["original"] == 1
    assert 10 < sum(counts.values()) < len(counts) - 5
    assert not any(count for name, count in counts.items() if "binary#0.0" in name or name == "returned: binary#0")
