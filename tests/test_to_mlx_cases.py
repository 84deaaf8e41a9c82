"""Every case of every operation on MLX, with the reference's values."""

from __future__ import annotations

import pytest
from mlx_helpers import assert_agrees, uncompiled_run
from op_cases import CASES, SIGNS_ARE_FREE, OpCase
from support import Support


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_case_gives_the_reference_values(case: OpCase, support: Support):
    values = case.values()
    assert_agrees(case.module(), uncompiled_run(case.module(), values), values, signs=case.op not in SIGNS_ARE_FREE)
    support("mlx", case)
