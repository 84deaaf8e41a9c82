"""Every operation case lowers to linalg, and mlir-opt takes all of them in one module."""

from __future__ import annotations

from op_cases import CASES
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from rlx_dialect.graph import main_function
from rlx_dialect.lowering.to_linalg import LoweringError, LowerToLinalg
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.toolchain import portable_text
from rlx_dialect.xdsl_compat import rlx_context

REFUSED = {"rlx.det", "rlx.qr", "rlx.svd"}
"""Of matrices whose extents only run time tells: those are the number of steps."""


def test_every_case_is_lowered_and_accepted():
    functions: list[FuncOp] = []
    refused: list[tuple[str, bool]] = []
    for number, case in enumerate(CASES):
        module = case.module()
        try:
            LowerToLinalg().apply(rlx_context(), module)
        except LoweringError:
            refused.append((case.op, case.static))
            continue
        function = main_function(module)
        function.detach()
        function.sym_name = StringAttr(f"case_{number}")
        functions.append(function)
    assert {op for op, _ in refused} <= REFUSED
    assert not any(static for _, static in refused)
    toolchain.run("mlir-opt", ["-"], portable_text(ModuleOp(functions)))
