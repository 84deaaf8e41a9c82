"""Every case of every operation through linalg: mlir-opt accepts it, and IREE runs it with the reference's values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from linalg_helpers import ENGINE, TOLERANCE, aligned
from op_cases import CASES, OpCase
from support import Support
from xdsl.dialects.builtin import ModuleOp, StringAttr

from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_linalg import LoweringError, LowerToLinalg
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.compare import difference
from rlx_dialect.runtime.iree import IreeExecutable
from rlx_dialect.runtime.toolchain import ToolFailed, portable_text
from rlx_dialect.xdsl_compat import rlx_context

SHARES = 5
PART = {"complex<f32>": TOLERANCE["f32"], "complex<f64>": TOLERANCE["f64"]}


@cache
def lowered(case: OpCase) -> ModuleOp | None:
    """None for a matrix of unknown extents that decomposes into as many steps."""
    module = case.module()
    try:
        LowerToLinalg().apply(rlx_context(), module)
    except LoweringError as error:
        if case.static or "unknown extents" not in str(error):
            raise
        return None
    return module


def test_mlir_opt_accepts_every_case():
    modules = [module.clone() for case in CASES if (module := lowered(case)) is not None]
    for number, module in enumerate(modules):
        main_function(module).sym_name = StringAttr(f"case_{number}")
    functions = [function.detach() or function for function in map(main_function, modules)]
    toolchain.run("mlir-opt", ["-"], portable_text(ModuleOp(functions)))


@pytest.mark.parametrize("share", range(SHARES))
def test_iree_gives_the_values_of_the_reference(share: int, support: Support):
    taken: list[tuple[OpCase, ModuleOp]] = []
    for case in CASES[share::SHARES]:
        module = lowered(case)
        if module is None:
            support("cpu", case, "a matrix of unknown extents")
        else:
            taken.append((case, module))
    for (case, _), executable in zip(taken, compiled(taken), strict=True):
        check(case, executable)
        support("cpu", case)


def compiled(cases: Sequence[tuple[OpCase, ModuleOp]]) -> list[IreeExecutable]:
    """All at once, as starting the compiler takes longest; where that fails, one by one, to name the case."""
    try:
        return ENGINE.compile_all([module for _, module in cases])
    except ToolFailed:
        for case, module in cases:
            try:
                ENGINE.compile(module, {})
            except ToolFailed as error:
                raise AssertionError(f"IREE does not compile {case.id}: {error}") from error
        raise


def check(case: OpCase, executable: IreeExecutable) -> None:
    values = {name: aligned(value) for name, value in case.values().items()}
    before = {name: value.copy() for name, value in values.items()}
    outputs = executable.run(values)
    for name, value in values.items():
        np.testing.assert_array_equal(value, before[name], f"{case.id} changes {name}")
    limit = max((TOLERANCE | PART).get(dtype, 0) for dtype in case.dtypes)
    for index, (found, expected) in enumerate(zip(outputs, run_reference(case.module(), values), strict=True)):
        found, expected = case.specified(found), case.specified(expected)
        assert found.dtype == expected.dtype, case.id
        result = difference(f"{case.id} result {index}", found, expected, limit, limit)
        assert result.within, str(result)
