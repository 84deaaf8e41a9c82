"""Every imported ONNX operator against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from helpers import assert_close, assert_round_trip
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx_cases import CASES, Case, real

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


def test_channel_first_space_to_depth():
    """onnxruntime does not know the mode; the reference of the onnx package does."""
    case = Case("SpaceToDepth", [real(2, 3, 4, 6)], {"blocksize": 2, "mode": "CRD"}, opset=28)
    expected = [np.asarray(v) for v in ReferenceEvaluator(case.model()).run(None, case.inputs)]  # pyright: ignore
    assert_close(found(case.model(), case.inputs), expected)


def test_local_response_normalization_over_an_even_number_of_channels():
    """onnxruntime refuses it, and the reference of onnx 1.23 sums for as many channels as there are samples."""
    x = real(2, 7, 3, 4)
    case = Case("LRN", [x], {"size": 4, "alpha": 0.3, "beta": 0.6, "bias": 2.0})
    sums = np.stack([(x[:, max(0, c - 1) : c + 3] ** 2).sum(axis=1) for c in range(7)], axis=1)  # pyright: ignore
    assert_close(found(case.model(), case.inputs), [x / (2 + 0.3 / 4 * sums) ** 0.6])  # pyright: ignore


def test_every_imported_operator_has_a_case():
    assert {op for _, op in handlers()} == {case.op for case in CASES}
