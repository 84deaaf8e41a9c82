"""Every case of every operation on MLX, with the reference's values."""

from __future__ import annotations

import pytest
from mlx_helpers import assert_agrees, uncompiled_run
from op_cases import CASES, OpCase
from support import Support

WITHOUT_SIGNS = frozenset({"rlx.svd", "rlx.qr"})
"""Factors whose signs are not specified."""


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_case_gives_the_reference_values(case: OpCase, support: Support):
    values = case.values()
    assert_agrees(case.module(), uncompiled_run(case.module(), values), values, signs=case.op not in WITHOUT_SIGNS)
    support("mlx", case)
