"""How near values have to be in each class, and programs without narrow floats."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import graph

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.passes.matching.numerics import Numerics, difference, edges_for, has_narrow, widened
from rlx_dialect.xdsl_compat import print_module

NAN, INF = float("nan"), float("inf")
EXACT, WIDER, REASSOCIATED, NAN_POLICY = Numerics
ALL = {*Numerics}


@pytest.mark.parametrize(
    ("found", "expected", "allowed"),
    [
        (1.0, 1.0, ALL),
        (NAN, NAN, ALL),
        (INF, INF, ALL),
        (0.0, -0.0, {REASSOCIATED, NAN_POLICY}),
        (1.00001, 1.0, {REASSOCIATED, NAN_POLICY}),
        (1e-5, 0.0, {REASSOCIATED, NAN_POLICY}),
        (1.001, 1.0, set()),
        (1e-3, 0.0, set()),
        (INF, -INF, {NAN_POLICY}),
        (0.0, NAN, {NAN_POLICY}),
        (1.0, INF, {NAN_POLICY}),
        (NAN, 1.0, set()),
        (INF, 1.0, set()),
        (INF, 2e38, {REASSOCIATED, NAN_POLICY}),
        (-INF, 2e38, set()),
    ],
)
def test_what_each_class_allows(found: float, expected: float, allowed: set[Numerics]):
    one = np.ones((2, 3), np.float32)
    f, e = one.copy(), one.copy()
    f[1, 2], e[1, 2] = found, expected
    for numerics in Numerics:
        wrong = difference([one, f], [one, e], numerics)
        assert (wrong is None) == (numerics in allowed), numerics
        if wrong is not None:
            assert (wrong.result, wrong.index) == (1, (1, 2))
            assert str(wrong) == f"result #1 at [1, 2] is {f[1, 2]} instead of {e[1, 2]}"


def test_what_is_left_of_large_terms_is_not_compared_as_if_they_were_small():
    found, expected = np.array([3e4, 0.1], np.float32), np.array([3e4, 0.3], np.float32)
    assert difference([found], [expected], REASSOCIATED) is None
    assert difference([found[1:]], [expected[1:]], REASSOCIATED) is not None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([True]), np.array([False])),
        (np.array([1 + 2j], np.complex64), np.array([1 + 3j], np.complex64)),
        (np.array([1 + 2j], np.complex64), np.array([3 + 2j], np.complex64)),
        (np.zeros(2, np.float32), np.zeros((1, 2), np.float32)),
        (np.zeros(2, np.float32), np.zeros(2, np.float64)),
    ],
)
@pytest.mark.parametrize("numerics", Numerics)
def test_what_no_class_allows(found: Array, expected: Array, numerics: Numerics):
    assert difference([found], [expected], numerics) is not None
    assert difference([expected], [expected], numerics) is None


def test_sums_in_another_order_are_not_tried_with_what_overflows_or_vanishes():
    assert {x for x in edges_for(EXACT) if abs(x) == 1e30} == {-1e30}
    assert 1e-30 in edges_for(WIDER)
    for numerics in (REASSOCIATED, NAN_POLICY):
        finite = [abs(x) for x in edges_for(numerics) if np.isfinite(x)]
        assert max(finite) < 1e9
        assert min(x for x in finite if x) > 1e-9
    assert {INF, -INF} <= {*edges_for(REASSOCIATED)}
    assert np.isfinite(edges_for(NAN_POLICY)).all()


def test_a_program_without_narrow_floats():
    h = "tensor<2xf16>"
    module = graph(
        f"""%c = rlx.constant dense<[1.0e-3, 2.0]> : {h}
        %a = rlx.binary add %x, %c : ({h}, {h}) -> {h}
        %w = rlx.cast %a : {h} -> tensor<2xf64>
        %r = rlx.elementwise_region(%a) : ({h}) -> {h} {{
        ^bb0(%i: f16):
          %s = rlx.activation neg %i : f16
          rlx.yield %s : f16
        }}""",
        f"%x: {h}",
        f"{h}, tensor<2xf64>",
        "%r, %w",
    )
    wide = widened(module)
    wide.verify()
    assert has_narrow(module)
    assert not has_narrow(wide)
    assert "f16" in print_module(module)
    assert "f16" not in print_module(wide)
    x = np.array([2048.0, 0.0], np.float32)
    rounded, whole = (run_reference(m, {"arg0": x})[1] for m in (module, wide))
    assert rounded[0] == 2048
    assert whole[0] == np.float32(2048) + np.float32(np.float16(1e-3))
