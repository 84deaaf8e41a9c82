"""Whole ONNX models that others made, against onnxruntime: magika's, and the light CNNs of the onnx package."""

from __future__ import annotations

import math
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from helpers import assert_round_trip
from onnx import numpy_helper

from rlx_dialect.dtypes import Array
from rlx_dialect.frontends.onnx.importer import ImportedModel, import_onnx
from rlx_dialect.graph import arguments, main_function, output_names
from rlx_dialect.interpreter import run_reference
from rlx_dialect.xdsl_compat import print_module


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


MAGIKA = sorted((package_folder("magika") / "models").glob("*/model.onnx"))
LIGHT = package_folder("onnx") / "backend/test/data/light"
RUN = ["inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
"""Those that the reference interpreter runs in a few seconds with little memory."""
LARGE = ["bvlc_alexnet", "densenet121", "vgg19", "zfnet512"]


def onnxruntime_outputs(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(v) for v in session.run(None, inputs)]


@cache
def magika(batch: int | None = None) -> ImportedModel:
    return import_onnx(MAGIKA[-1], batch=batch)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("fixed", [False, True])
def test_magika_equals_onnxruntime(batch: int, fixed: bool):
    imported = magika(batch if fixed else None)
    inputs: dict[str, Array] = {"bytes": np.random.default_rng(batch).integers(0, 257, (batch, 2048), np.int32)}
    (found,) = run_reference(imported.module, {**imported.weights, **inputs})
    (expected,) = onnxruntime_outputs(onnx.load(MAGIKA[-1]), inputs)
    assert found.shape == (batch, 214)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    assert np.abs(found - expected).max() <= 1e-5


def test_magika_keeps_names_and_its_dynamic_batch():
    module = magika().module
    function = main_function(module)
    (x,) = (a for a in arguments(function) if a.kind == "input")
    assert (x.name, str(x.value.type)) == ("bytes", "tensor<?x2048xi32>")
    assert output_names(function) == ["target_label"]
    assert str(function.function_type.outputs.data[0]) == "tensor<?x214xf32>"
    initialisers = {t.name: t for t in onnx.load(MAGIKA[-1]).graph.initializer}
    params = {a.name for a in arguments(function) if a.kind == "param"}
    assert params == {n for n, t in initialisers.items() if math.prod(t.dims) > 16}
    assert params == set(magika().weights)


def test_magika_has_neither_weights_nor_shape_computations_in_its_text():
    module = magika().module
    text = print_module(module)
    assert len(text) < 25_000
    assert "i64" not in text
    assert_round_trip(module)


@cache
def with_random_weights(name: str) -> onnx.ModelProto:
    """A light model, whose weights are constants made by nodes, with weights that differ."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    rng = np.random.default_rng(7)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    variances = {n.input[4] for n in model.graph.node if n.op_type == "BatchNormalization"}
    kept: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape, output = tuple(shapes[node.input[0]].tolist()), node.output[0]
        value = rng.standard_normal(shape) / math.sqrt(max(math.prod(shape[1:]), 4))
        value = np.exp(value) if output in variances else value
        model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), output))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


@pytest.mark.parametrize("name", RUN)
def test_light_model_equals_onnxruntime(name: str):
    model = with_random_weights(name)
    initialisers = {t.name for t in model.graph.initializer}
    (x,) = (i for i in model.graph.input if i.name not in initialisers)
    shape = [d.dim_value for d in x.type.tensor_type.shape.dim]
    inputs: dict[str, Array] = {x.name: np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    imported = import_onnx(model.SerializeToString())
    (found,) = run_reference(imported.module, {**imported.weights, **inputs})
    (expected,) = onnxruntime_outputs(model, inputs)
    assert expected.max() > 2 * expected.mean(), "the model does not tell its classes apart"
    assert np.abs(found - expected).max() <= 1e-5
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("name", [*RUN, *LARGE])
def test_light_model_keeps_its_made_weights_out_of_the_text(name: str):
    path = LIGHT / f"light_{name}.onnx"
    imported = import_onnx(path)
    module = imported.module
    function = main_function(module)
    assert [a.name for a in arguments(function) if a.kind == "param"] == list(imported.weights)
    operations = sum(1 for _ in function.body.block.ops)
    assert len(print_module(module)) < 300 * (operations + len(imported.weights))
    outputs = onnx.load(path).graph.output
    assert output_names(function) == [o.name for o in outputs]
    declared = [[d.dim_value for d in o.type.tensor_type.shape.dim] for o in outputs]
    assert [list(t.get_shape()) for t in function.function_type.outputs.data] == declared  # pyright: ignore
