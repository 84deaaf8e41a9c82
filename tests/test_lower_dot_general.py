"""rlx-lower-dot-general: every assignment of roles to axes against einsum, the operations made, each reason not to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
import pytest
from fusion_harness import check_declines, check_fusion
from helpers import assert_close, graph
from mutants import Sample
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.contraction import DotGeneralOp
from rlx_dialect.passes.lower_dot_general import LowerDotGeneral
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.samples import random_values
from rlx_dialect.shapes import DYNAMIC as D
from rlx_dialect.shapes import dot_general, show
from rlx_dialect.xdsl_compat import Context, InterpretationError, print_module

EXTENTS = {"b": 2, "c": 3, "m": 4, "n": 5, "k": 2, "l": 3, "x": 4, "y": 5}
"""Of each letter: batch b c, rows m n, contracted k l, columns x y. Different letters have equal extents, too."""


def tensor(shape: Sequence[int], element: str = "f32") -> str:
    return f"tensor<{''.join(f'{show([d])}x' for d in shape)}{element}>"


def contraction(
    lhs: Sequence[int],
    rhs: Sequence[int],
    contracting: tuple[list[int], list[int]],
    batch: tuple[list[int], list[int]] = ([], []),
    *,
    element: str = "f32",
    result: Sequence[int] | None = None,
) -> ModuleOp:
    out = dot_general(lhs, rhs, *contracting, *batch) if result is None else result
    types = [tensor(shape, element) for shape in (lhs, rhs, out)]
    names = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")
    axes = ", ".join(f"{n} = {a}" for n, a in zip(names, (*contracting, *batch), strict=True) if a or "con" in n)
    return graph(
        f"%y = rlx.dot_general %a, %b {{{axes}}} : ({types[0]}, {types[1]}) -> {types[2]}",
        f"%a: {types[0]}, %b: {types[1]}",
        types[2],
        "%y",
    )


def spelled(lhs: str, rhs: str, batch: str = "") -> tuple[ModuleOp, str]:
    """The contraction of axes with these letters, and its einsum; what both have is contracted or in ``batch``."""
    contracted = [c for c in lhs if c in rhs and c not in batch]
    out = batch + "".join(c for c in lhs if c not in rhs) + "".join(c for c in rhs if c not in lhs)
    module = contraction(
        [EXTENTS[c] for c in lhs],
        [EXTENTS[c] for c in rhs],
        ([lhs.index(c) for c in contracted], [rhs.index(c) for c in contracted]),
        ([lhs.index(c) for c in batch], [rhs.index(c) for c in batch]),
    )
    return module, f"{lhs},{rhs}->{out}"


def fitting(
    lhs: Sequence[int], rhs: Sequence[int], contracting: tuple[list[int], list[int]], batch: tuple[list[int], list[int]]
) -> Sample:
    """Values for the contraction that fit together; unknown extents are what the other operand says, else 3."""
    left, right = list(lhs), list(rhs)
    for a, b in zip(contracting[0] + batch[0], contracting[1] + batch[1], strict=True):
        left[a] = right[b] = next((d for d in (lhs[a], rhs[b]) if d != D), 3)
    static = contraction([3 if d == D else d for d in left], [3 if d == D else d for d in right], contracting, batch)
    return lambda _, seed, edges=(): random_values(static, seed, edges=edges)


def lowered(module: ModuleOp) -> ModuleOp:
    after = module.clone()
    LowerDotGeneral().apply(Context(), after)
    after.verify()
    check_dominance(after)
    return after


def names(module: ModuleOp) -> list[str]:
    return [op.name.removeprefix("rlx.") for op in module.walk() if op.name.startswith("rlx.")]


ROLES = [
    (
        batch,
        "m" * bool(rows) + "n" * (rows > 1),
        "k" * bool(inner) + "l" * (inner > 1),
        "x" * bool(cols) + "y" * (cols > 1),
    )
    for batch in ("", "b", "bc")
    for rows in range(3)
    for inner in range(3)
    for cols in range(3)
    if len(batch) + max(rows, cols) + inner <= 3 or (batch, rows, inner, cols) in {("bc", 1, 1, 1), ("b", 2, 1, 1)}
]


def orders_of(batch: str, rows: str, inner: str, columns: str) -> Iterator[tuple[str, str, str]]:
    """Every order of the axes of lhs, of rhs, and of the list of batch axes."""
    for lhs in permutations(batch + rows + inner):
        for rhs in permutations(batch + inner + columns):
            for listed in permutations(batch):
                yield "".join(lhs), "".join(rhs), "".join(listed)


@pytest.mark.parametrize("roles", ROLES, ids=lambda roles: "_".join(r or "-" for r in roles))
def test_every_order_of_axes(roles: tuple[str, str, str, str]):
    found = list(orders_of(*roles))
    for lhs, rhs, batch in found[:: 1 + len(found) // 120]:
        module, einsum = spelled(lhs, rhs, batch)
        values = random_values(module)
        after = lowered(module)
        assert names(after).count("matmul") == 1, einsum
        assert set(names(after)) <= {"matmul", "transpose", "reshape"}, einsum
        expected = np.einsum(einsum, *(v.astype(np.float64) for v in values.values()))
        assert_close(run_reference(after, values), [expected.astype(np.float32)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("lhs", "rhs", "batch", "expected"),
    [
        ("mk", "kx", "", ["matmul"]),
        ("mnk", "kx", "", ["matmul"]),
        ("bmk", "bkx", "b", ["matmul"]),
        ("bcmk", "bckx", "bc", ["matmul"]),
        ("mk", "xk", "", ["transpose", "matmul"]),
        ("mnk", "xk", "", ["transpose", "matmul"]),
        ("km", "kx", "", ["transpose", "matmul"]),
        ("km", "xk", "", ["transpose", "transpose", "matmul"]),
        ("bmk", "bxk", "b", ["transpose", "matmul"]),
        ("mbk", "bkx", "b", ["transpose", "matmul"]),
        ("bcmk", "bckx", "cb", ["transpose", "transpose", "matmul"]),
        ("mk", "kxy", "", ["reshape", "matmul", "reshape"]),
        ("mkl", "klx", "", ["reshape", "reshape", "matmul"]),
        ("bmnk", "bkx", "b", ["reshape", "matmul", "reshape"]),
        ("k", "kx", "", ["reshape", "matmul", "reshape"]),
        ("mk", "k", "", ["reshape", "matmul", "reshape"]),
        ("k", "k", "", ["reshape", "reshape", "matmul", "reshape"]),
        ("m", "x", "", ["reshape", "reshape", "matmul"]),
        ("mk", "lkx", "", ["transpose", "reshape", "matmul", "reshape"]),
    ],
)
def test_nothing_but_what_has_to_be(lhs: str, rhs: str, batch: str, expected: list[str]):
    module, _ = spelled(lhs, rhs, batch)
    after = check_fusion(module, LowerDotGeneral(), fused={"rlx.matmul": 1}, mutants=False, more_operations=5)
    assert names(after) == expected


def test_names_and_axes():
    after = lowered(contraction([2, 3, 8], [16, 8], ([2], [1])))
    assert "%0 = rlx.transpose %b {perm = [1, 0]}" in print_module(after)
    assert "%y = rlx.matmul %a, %0 : (tensor<2x3x8xf32>, tensor<8x16xf32>) -> tensor<2x3x16xf32>" in print_module(after)


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_element_types(element: str):
    for module in (
        contraction([4, 8], [8, 5], ([1], [0]), element=element),
        contraction([3, 2, 4], [4, 2, 3], ([0, 2], [2, 0]), element=element),
    ):
        check_fusion(module, LowerDotGeneral(), fused={"rlx.matmul": 1}, more_operations=5)


@pytest.mark.parametrize(
    ("lhs", "rhs", "contracting", "batch", "expected"),
    [
        ((D, 8), (8, 5), ([1], [0]), ([], []), ["matmul"]),
        ((D, D), (D, D), ([1], [0]), ([], []), ["matmul"]),
        # What only one operand knows is left as it is: a reshape would hide that they do not fit.
        ((D, D), (8, 5), ([1], [0]), ([], []), ["matmul"]),
        ((2, D), (D, 8), ([1], [1]), ([], []), ["transpose", "matmul"]),
        ((D, D, 8), (5, 8), ([2], [1]), ([], []), ["transpose", "matmul"]),
        ((D, 3, 8), (2, 8, 5), ([2], [1]), ([0], [0]), ["matmul"]),
        ((2, 3, 8), (D, 8, 5), ([2], [1]), ([0], [0]), ["matmul"]),
        ((D, 3, 4, 8), (D, 8, 5), ([3], [1]), ([0], [0]), ["reshape", "matmul", "reshape"]),
        ((4, D, 8), (D, 8, 5), ([1, 2], [0, 1]), ([], []), ["reshape", "reshape", "matmul"]),
        ((D,), (D, 5), ([0], [0]), ([], []), ["reshape", "matmul", "reshape"]),
        ((D,), (D,), ([0], [0]), ([], []), ["reshape", "reshape", "matmul", "reshape"]),
        ((4, 8), (8, D, 3), ([1], [0]), ([], []), ["reshape", "matmul", "reshape"]),
        ((4, 8), (8, 0, 3), ([1], [0]), ([], []), ["reshape", "matmul", "reshape"]),
        ((4, 0), (0, 3), ([1], [0]), ([], []), ["matmul"]),
    ],
)
def test_dynamic_and_empty_extents(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    contracting: tuple[list[int], list[int]],
    batch: tuple[list[int], list[int]],
    expected: list[str],
):
    module = contraction(lhs, rhs, contracting, batch)
    after = lowered(module)
    assert names(after) == expected
    values = fitting(lhs, rhs, contracting, batch)(module, 0)
    assert_close(run_reference(after, values), run_reference(module, values), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extents", [(1, 3), (3, 1), (2, 3)])
def test_contracted_extents_that_do_not_fit_are_an_error_before_and_after(extents: tuple[int, int]):
    """Neither repeats an extent of 1."""
    module = contraction([2, D], [D, 4], ([1], [0]))
    shapes = ((2, extents[0]), (extents[1], 4))
    values = {name: np.ones(shape, np.float32) for name, shape in zip(random_values(module), shapes, strict=True)}
    for program in (module, lowered(module)):
        with pytest.raises(InterpretationError):
            run_reference(program, values)


def test_a_result_that_is_known_better():
    module = contraction([D, 8], [8, D], ([1], [0]), result=[4, 5])
    assert "%y = rlx.matmul %a, %b : (tensor<?x8xf32>, tensor<8x?xf32>) -> tensor<4x5xf32>" in print_module(
        lowered(module)
    )


@pytest.mark.parametrize(
    ("lhs", "rhs", "contracting", "batch"),
    [
        # Of the left operand, of the right one, and of the result.
        ((D, D, 4, 8), (D, 8, 5), ([3], [1]), ([0], [0])),
        ((4, D, D), (D, D, 5), ([1, 2], [0, 1]), ([], [])),
        ((D, D, 8), (D, 8, 4, 5), ([2], [1]), ([0], [0])),
        ((4, 8), (8, D, D), ([1], [0]), ([], [])),
        # Of two unknown extents one may be known to the other operand, but then nobody checks that.
        ((D, D, 8), (4, 8, 5), ([1, 2], [0, 1]), ([], [])),
        # Numbers of elements say nothing about the other extents of a tensor that has none.
        ((0, D, 2, 8), (0, 8, 5), ([3], [1]), ([0], [0])),
    ],
)
def test_declines_reshapes_to_unknown_extents(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    contracting: tuple[list[int], list[int]],
    batch: tuple[list[int], list[int]],
):
    module = contraction(lhs, rhs, contracting, batch)
    sample = fitting(lhs, rhs, contracting, batch)
    check_declines(module, LowerDotGeneral(), Reason.DYNAMIC_EXTENT, at="rlx.dot_general", sample=sample)
    assert names(lowered(module)) == ["dot_general"]


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_declines_under_strict_numerics(element: str):
    module = contraction([4, 8], [8, 5], ([1], [0]), element=element)
    miss = check_declines(module, LowerDotGeneral(strict=True), Reason.NUMERICS, at="rlx.dot_general")
    assert isinstance(miss.op, DotGeneralOp)
    assert "reassociated" in miss.detail


def test_uses_and_blocks_do_not_matter():
    t = "tensor<4x4xf32>"
    dot = "rlx.dot_general %{}, %b {{lhs_contracting = [1], rhs_contracting = [1]}} : ({t}, {t}) -> {t}"
    module = graph(
        f"""%y = {dot.format("a", t=t)}
        "test.op"() ({{
          %i = {dot.format("y", t=t)}
          "test.termop"(%i) : ({t}) -> ()
        }}) : () -> ()
        %z = {dot.format("y", t=t)}""".replace("{{", "{").replace("}}", "}"),
        f"%a: {t}, %b: {t}",
        f"{t}, {t}",
        "%y, %z",
    )
    assert names(lowered(module)) == ["transpose", "matmul"] * 3
    assert LowerDotGeneral().misses(module) == []


@pytest.mark.parametrize(
    ("lhs", "rhs", "contracting", "batch"),
    [
        ((4, 3), (3, 5), ([1], [0]), ([], [])),
        ((3, 3), (3, 3), ([0], [1]), ([], [])),
        ((2, 3, 4), (4, 5, 2), ([2], [0]), ([0], [2])),
        ((2, 3, 4), (3, 2, 5), ([1, 0], [0, 1]), ([], [])),
    ],
)
def test_mutants(
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    contracting: tuple[list[int], list[int]],
    batch: tuple[list[int], list[int]],
):
    check_fusion(
        contraction(lhs, rhs, contracting, batch), LowerDotGeneral(), fused={"rlx.matmul": 1}, more_operations=5
    )
