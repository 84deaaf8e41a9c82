"""Every operation in its round-trip forms with known extents, lowered for wgpu and run on a device."""

from __future__ import annotations

import numpy as np
import pytest
from on_device import lower, run
from op_cases import CASES, OpCase, operations
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError

WITHOUT_BUFFERS = frozenset({"bf16", "f64", "i8", "ui8", "index", "complex<f32>"})
"""Element types that SPIR-V has no buffers of, as wgpu takes it."""
STATIC = [case for case in CASES if case.static]
REFUSED = [case for case in STATIC if case.dtypes & WITHOUT_BUFFERS]
RUN = [case for case in STATIC if not case.dtypes & WITHOUT_BUFFERS]
RUN += [c for c in CASES if c.op not in {case.op for case in RUN} and not c.dtypes & WITHOUT_BUFFERS]
"""Cases with unknown extents where an operation has no other."""
OTHER_ELEMENTS = {
    "bf16": ["axial_rope_2d", "fma", "group_norm_backward_gamma", "kv_append", "where"],
    "i8": ["dequant_matmul", "dequantize", "gather_elements", "q_conv2d", "q_matmul", "quantize"],
    "ui8": ["scaled_dequantize", "scaled_matmul", "scaled_quantize"],
}
"""Operations that have cases of elements without buffers only."""
TOGETHER = 40
"""Cases in one graph, as starting a compiler takes longer than what it does."""
LIMITS = {"f16": 4e-3}
SIGNS = {"rlx.svd": np.abs}
"""Results of which signs are not specified, and what is compared."""


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
def test_the_device_gives_the_reference_values(start: int):
    cases = RUN[start : start + TOGETHER]
    module, values = joined(cases)
    found = iter(run(module, values))
    for case in cases:
        limit = max(LIMITS.get(dtype, 3e-5) for dtype in case.dtypes)
        change = SIGNS.get(case.op, np.asarray)
        for expected in run_reference(case.module(), case.values()):
            actual = next(found)
            assert actual.dtype == expected.dtype, case.id
            scale = float(np.abs(np.nan_to_num(expected.astype(float), posinf=0, neginf=0)).max(initial=1))
            np.testing.assert_allclose(
                change(actual.astype(float)),
                change(expected.astype(float)),
                rtol=limit,
                atol=limit * scale,
                err_msg=case.id,
            )


def test_what_is_refused_is_refused_for_its_elements():
    for case in REFUSED:
        with pytest.raises(LoweringError) as error:
            lower(case.module())
        for problem in error.value.problems:
            reason, _, element = problem.rpartition(" of ")
            assert reason.endswith("wgpu has no buffers"), case.id
            assert element in WITHOUT_BUFFERS, case.id


def test_all_other_operations_are_run():
    left = {f"rlx.{name}" for names in OTHER_ELEMENTS.values() for name in names}
    assert operations() - {case.op for case in RUN} == left
