"""Every imported ONNX operator against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from helpers import assert_close, assert_round_trip
from onnx import ModelProto
from onnx_cases import CASES, Case

from rlx_dialect.dtypes import Array
from rlx_dialect.frontends.onnx.importer import import_onnx
from rlx_dialect.frontends.onnx.registry import handlers
from rlx_dialect.interpreter import run_reference


def expected(model: ModelProto, inputs: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(v) for v in session.run(None, inputs)]


def found(model: ModelProto, inputs: dict[str, Array]) -> list[Array]:
    imported = import_onnx(model.SerializeToString())
    assert_round_trip(imported.module)
    return run_reference(imported.module, {**imported.weights, **inputs})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator_equals_onnxruntime(case: Case):
    model = case.model()
    assert_close(found(model, case.inputs), expected(model, case.inputs), rtol=case.rtol, atol=case.rtol / 5)


def test_every_imported_operator_has_a_case():
    assert {op for _, op in handlers()} == {case.op for case in CASES}
