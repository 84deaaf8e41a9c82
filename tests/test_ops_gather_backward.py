"""The gradient of a gather: against finite differences and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import check_decomposition, check_gradient, reals
from helpers import run_op
from xdsl.dialects.builtin import f16, f32

from rlx_dialect.dtypes import Array
from rlx_dialect.ops.indexing import GatherBackwardOp, GatherOp
from rlx_dialect.xdsl_compat import InterpretationError

INDICES: list[Any] = [[1, 0, 1], [[3, -1], [0, 3]], 2, np.empty((0, 2))]


@pytest.mark.parametrize("indices", INDICES, ids=["vector", "matrix", "scalar", "none"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradient(indices: Any, axis: int):
    table, where = reals(4, 4, 4), np.array(indices, np.int64)
    check_gradient(
        lambda dy, i: GatherBackwardOp(dy, i, axis, extent=4),
        lambda t, i: GatherOp(t, i, axis),
        [table, where],
        0,
        lambda _, i, dy: [dy, i],
    )
    shape = np.take(table, where, axis).shape
    elements = [f16, f32]
    check_decomposition(lambda g, i: GatherBackwardOp(g, i, axis, extent=4), reals(*shape), where, elements=elements)


def test_what_meets_at_one_index_is_added_up():
    dy, indices = np.array([[1, 2], [30, 40], [5, 6]], np.int32), np.array([2, 0, 2], np.int32)
    (found,) = run_op(lambda g, i: GatherBackwardOp(g, i, extent=4), dy, indices)
    np.testing.assert_array_equal(found, [[30, 40], [0, 0], [6, 8], [0, 0]])


def test_many_small_halves_are_summed_in_f32():
    """A running sum of ones in f16 would stop at 2048."""
    dy: Array = np.ones((4096, 1), np.float16)
    (found,) = run_op(lambda g, i: GatherBackwardOp(g, i, extent=1), dy, np.zeros(4096, np.int64))
    assert found == 4096


def test_an_index_outside_is_reported():
    with pytest.raises(InterpretationError, match="an index is outside extent 4"):
        run_op(lambda g, i: GatherBackwardOp(g, i, extent=4), reals(1, 2), np.array([4]))
