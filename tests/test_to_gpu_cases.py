"""Every operation in its round-trip forms, lowered for wgpu and run on a device."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_code import is_refused, refusal
from on_device import run
from op_cases import CASES, OpCase, operations
from support import Support
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference

REFUSED = [case for case in CASES if is_refused(case, "wgpu")]
RUN = [case for case in CASES if case not in REFUSED]
OTHER_ELEMENTS = {
    "i8": ["dequant_matmul", "dequantize", "gather_elements", "q_conv2d", "q_matmul", "quantize"],
    "ui8": ["scaled_dequantize", "scaled_matmul", "scaled_quantize"],
}
"""Operations that have cases of elements without buffers only."""
TOGETHER = 40
"""Cases in one graph, as starting a compiler takes longer than what it does."""
LIMITS = {"f16": 4e-3}


def joined(cases: list[OpCase]) -> tuple[ModuleOp, dict[str, Array]]:
    """One graph of all ``cases`` side by side, and values for it."""
    block = Block()
    values: dict[str, Array] = {}
    results: list[SSAValue] = []
    for case in cases:
        function = main_function(case.module())
        mapping: dict[SSAValue, SSAValue] = {}
        given = case.values()
        for argument in arguments(function):
            values[f"arg{len(block.args)}"] = given[argument.name]
            mapping[argument.value] = block.insert_arg(argument.value.type, len(block.args))
        for op in function.body.block.ops:
            if isinstance(op, ReturnOp):
                results += [mapping[value] for value in op.operands]
            else:
                block.add_op(op.clone(mapping))
    block.add_op(ReturnOp(*results))
    signature = FunctionType.from_lists(block.arg_types, [r.type for r in results])
    module = ModuleOp([FuncOp("main", signature, Region(block))])
    module.verify()
    return module, values


@pytest.mark.parametrize("start", range(0, len(RUN), TOGETHER))
def test_the_device_gives_the_reference_values(start: int, support: Support):
    cases = RUN[start : start + TOGETHER]
    module, values = joined(cases)
    found = iter(run(module, values))
    for case in cases:
        limit = max(LIMITS.get(dtype, 3e-5) for dtype in case.dtypes)
        for expected in run_reference(case.module(), case.values()):
            actual = next(found)
            assert actual.dtype == expected.dtype, case.id
            scale = float(np.abs(np.nan_to_num(expected.astype(float), posinf=0, neginf=0)).max(initial=1))
            np.testing.assert_allclose(
                case.specified(actual.astype(float)),
                case.specified(expected.astype(float)),
                rtol=limit,
                atol=limit * scale,
                err_msg=case.id,
            )
        support("wgpu", case)


def test_what_is_refused(support: Support):
    for case in REFUSED:
        support("wgpu", case, refusal(case, "wgpu"))


def test_all_other_operations_are_run():
    left = {f"rlx.{name}" for names in OTHER_ELEMENTS.values() for name in names}
    assert operations() - {case.op for case in RUN} == left
