"""Every operation with all extents unknown decomposes, where it has a decomposition, into what it means."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import decomposed
from op_cases import CASES, OpCase
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.base import RlxOp
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.shapes import DYNAMIC, ShapeError
from rlx_dialect.xdsl_compat import VerifyException, set_result_type

WITHOUT_ANSWER = {
    **dict.fromkeys(
        ("cholesky", "dense_solve", "det", "log_det", "qr", "svd", "triangular_solve"), "they are the number of steps"
    ),
    "while": "it may run for ever",
}
"""Operations that unknown extents leave without a decomposition, and what the error says."""
LIMITS = {"bf16": 2e-2, "f16": 4e-3}


def opened(case: OpCase) -> ModuleOp | None:
    """The module of ``case`` with every extent unknown; None where the operation must know one."""
    function = main_function(case.module())
    (op,) = (op for op in function.body.block.ops if op.name == case.op)
    assert isinstance(op, RlxOp)
    types = [a.type for a in function.body.block.args]
    block = Block(
        arg_types=[TensorType(t.element_type, [DYNAMIC] * t.get_num_dims()) for t in types if isinstance(t, TensorType)]
    )
    mapping: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, block.args, strict=True))
    clone = op.clone(mapping)
    try:
        for result, type in zip(clone.results, clone.infer_types(), strict=True):
            set_result_type(result, type)
        block.add_ops([clone, ReturnOp(*clone.results)])
        signature = FunctionType.from_lists(block.arg_types, clone.result_types)
        module = ModuleOp([FuncOp("main", signature, Region(block), arg_attrs=function.arg_attrs)])
        module.verify()
    except (ShapeError, VerifyException):
        return None
    return module


def test_every_decomposition_takes_unknown_extents():
    checked: set[str] = set()
    for case in CASES:
        module = opened(case)
        if module is None:
            continue
        (op,) = (op for op in module.walk() if op.name == case.op)
        assert isinstance(op, RlxOp)
        if not op.has_decomposition():
            continue
        reason = WITHOUT_ANSWER.get(case.op.removeprefix("rlx."))
        if reason is not None:
            with pytest.raises(VerifyException, match=reason):
                decomposed(module, case.op)
            continue
        values = case.values()
        parts = run_reference(decomposed(module, case.op), values)
        limit = max([LIMITS.get(dtype, 0) for dtype in case.dtypes] + [2e-5])
        for found, expected in zip(parts, run_reference(module, values), strict=True):
            assert found.dtype == expected.dtype, case.id
            found, expected = (v.astype(complex if v.dtype.kind == "c" else float) for v in (found, expected))
            scale = float(np.abs(np.nan_to_num(expected, posinf=0, neginf=0)).max(initial=1))
            np.testing.assert_allclose(found, expected, rtol=limit, atol=limit * scale, err_msg=case.id)
        checked.add(case.op)
    assert len(checked) >= 70
