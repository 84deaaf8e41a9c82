"""rlx-fuse-rms-norm-reshape: flattenings of leading axes, each reason not to, mutants."""

from __future__ import annotations

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.normalization import RmsNormOp
from rlx_dialect.passes.fuse_rms_norm_reshape import FuseRmsNormReshape
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.xdsl_compat import Context, print_module


def flattened(
    x: str,
    new_shape: str,
    out: str,
    *,
    norm: str = "rms_norm",
    element: str = "f32",
    tail: str = "",
    returned: str = "%y",
    results: str = "",
) -> ModuleOp:
    width = x.rpartition("x")[2]
    tx, tv, ty = (f"tensor<{shape}x{element}>" for shape in (x, width, out))
    return graph(
        f"""%n = rlx.{norm} %x, %g, %b {{eps = 1.0e-6}} : ({tx}, {tv}, {tv}) -> {tx}
        %y = rlx.reshape %n {{new_shape = [{new_shape}]}} : {tx} -> {ty}
        {tail}""",
        f"%x: {tx}, %g: {tv}, %b: {tv}",
        results or ty,
        returned,
    )


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def fuses(module: ModuleOp) -> ModuleOp:
    after = check_fusion(module, FuseRmsNormReshape(), fused={"rlx.rms_norm": 1}, mutants=False)
    assert [op.flattens for op in after.walk() if isinstance(op, RmsNormOp)] == [True]
    return after


def declines(module: ModuleOp, reason: Reason) -> None:
    check_declines(module, FuseRmsNormReshape(), reason, at="rlx.reshape")


@pytest.mark.parametrize(
    ("x", "new_shape", "out"),
    [
        ("2x3x8", "6, 8", "6x8"),
        ("2x3x8", "-1, 8", "6x8"),
        ("2x3x8", "6, -1", "6x8"),
        ("1x8x8", "8, 8", "8x8"),
        ("2x3x4x8", "24, 8", "24x8"),
        ("?x3x8", "-1, 8", "?x8"),
        ("?x?x8", "-1, 8", "?x8"),
        ("2x3x1", "6, 1", "6x1"),
    ],
)
def test_the_leading_axes_are_flattened(x: str, new_shape: str, out: str):
    after = fuses(flattened(x, new_shape, out))
    assert names(after) == ["rlx.rms_norm"]
    assert "%y = rlx.rms_norm %x, %g, %b {eps = 1.0e-6}" in print_module(after)


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_element_types(element: str):
    fuses(flattened("2x3x8", "6, 8", "6x8", element=element))


def test_it_is_exact():
    after = flattened("2x3x8", "6, 8", "6x8", element="bf16")
    FuseRmsNormReshape(strict=True).apply(Context(), after)
    assert names(after) == ["rlx.rms_norm"]


@pytest.mark.parametrize(
    ("x", "new_shape", "out"), [("2x3x8", "3, 16", "3x16"), ("8x2x8", "16, 8", "16x8"), ("2x3x8", "2, 24", "2x24")]
)
def test_another_last_extent(x: str, new_shape: str, out: str):
    module = flattened(x, new_shape, out)
    if out.endswith("x8"):
        fuses(module)
    else:
        declines(module, Reason.SHAPES_DIFFER)


def test_no_elements_at_all():
    declines(flattened("2x3x0", "6, 0", "6x0"), Reason.SHAPES_DIFFER)


@pytest.mark.parametrize(("new_shape", "out"), [("48", "48"), ("3, 2, 8", "3x2x8"), ("2, 3, 4, 2", "2x3x4x2")])
def test_another_rank(new_shape: str, out: str):
    declines(flattened("2x3x8", new_shape, out), Reason.RANK)


@pytest.mark.parametrize(
    ("x", "new_shape", "out"), [("?x3x8", "9, 8", "9x8"), ("2x3x?", "6, -1", "6x?"), ("?x3x?", "-1, 3", "?x3")]
)
def test_unknown_extents(x: str, new_shape: str, out: str):
    declines(flattened(x, new_shape, out), Reason.DYNAMIC_EXTENT)


def test_the_norm_is_used_again_or_returned():
    t, y = "tensor<2x3x8xf32>", "tensor<6x8xf32>"
    tail = f"%z = rlx.binary mul %n, %x : ({t}, {t}) -> {t}"
    declines(
        flattened("2x3x8", "6, 8", "6x8", tail=tail, returned="%y, %z", results=f"{y}, {t}"), Reason.MORE_THAN_ONE_USE
    )
    declines(flattened("2x3x8", "6, 8", "6x8", returned="%y, %n", results=f"{y}, {t}"), Reason.RETURNED)


def test_the_norm_is_in_another_block():
    t, v = "tensor<2x3x8xf32>", "tensor<8xf32>"
    module = graph(
        f"""%n = rlx.rms_norm %x, %g, %b {{eps = 1.0e-6}} : ({t}, {v}, {v}) -> {t}
        "test.op"() ({{
          %y = rlx.reshape %n {{new_shape = [6, 8]}} : {t} -> tensor<6x8xf32>
          "test.termop"(%y) : (tensor<6x8xf32>) -> ()
        }}) : () -> ()""",
        f"%x: {t}, %g: {v}, %b: {v}",
        t,
        "%x",
    )
    (miss,) = FuseRmsNormReshape().misses(module)
    assert miss.reason is Reason.OTHER_BLOCK
    FuseRmsNormReshape().apply(Context(), module)
    assert "rlx.reshape" in names(module)


@pytest.mark.parametrize(
    "module",
    [flattened("2x3x8", "6, 8", "6x8", norm="layer_norm"), flattened("6x8", "6, 8", "6x8")],
    ids=["layer norm", "rank 2"],
)
def test_what_is_no_candidate(module: ModuleOp):
    assert FuseRmsNormReshape().misses(module) == []
    FuseRmsNormReshape().apply(Context(), module)
    assert "rlx.reshape" in names(module)


@pytest.mark.parametrize(
    "module", [flattened("2x3x8", "6, 8", "6x8"), flattened("4x2x8", "8, 8", "8x8")], ids=["2x3x8", "square"]
)
def test_mutants(module: ModuleOp):
    """All that it produces is there before; what counts is that every mutant stays right."""
    assert len(check_mutants(module, FuseRmsNormReshape(), fused="rlx.rms_norm")) > 25
