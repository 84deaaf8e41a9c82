"""Every case of every operation through StableHLO, run by XLA's CPU client with the reference's values."""

from __future__ import annotations

import pytest
from op_cases import CASES, OpCase
from support import Support
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_stablehlo import LowerToStablehlo
from rlx_dialect.runtime.compare import difference, tolerance
from rlx_dialect.runtime.xla import XlaEngine
from rlx_dialect.xdsl_compat import rlx_context

CONTEXT = rlx_context()
ENGINE = XlaEngine(optimised=False)

NARROW = 2e-2
"""Two roundings to bf16 instead of one."""


def lowered(case: OpCase) -> ModuleOp | None:
    """None where loops would take as many steps as a matrix of unknown extents has columns."""
    module = case.module()
    try:
        LowerToStablehlo().apply(CONTEXT, module)
    except LoweringError as error:
        if case.static or "unknown extents" not in str(error):
            raise
        return None
    return module


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_xla_gives_the_values_of_the_reference(case: OpCase, support: Support):
    module = lowered(case)
    if module is None:
        support("tpu", case, "a matrix of unknown extents")
        return
    values = case.values()
    module.verify()
    found = ENGINE.compile(module, {}).run(values)
    for index, (f, e) in enumerate(zip(found, run_reference(case.module(), values), strict=True)):
        assert f.dtype == e.dtype
        f, e = case.specified(f), case.specified(e)
        limit = NARROW if case.dtypes & {"f16", "bf16"} else tolerance(e.real.dtype)
        result = difference(f"result {index}", f, e, limit, limit)
        assert result.within, str(result)
    support("tpu", case)
