"""Reading ONNX files: the protobuf, element types, and initialisers as arrays that are made when they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ComplexType, IntegerType, Signedness, bf16, f16, f32, f64, i1
from xdsl.ir import Attribute

from rlx_dialect.dtypes import Array, round_to

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

OLDEST_OPSET = 7
"""Before opset 7, binary operators broadcast by attributes of their own."""

_ELEMENTS: Mapping[str, Attribute] = {
    "FLOAT": f32,
    "DOUBLE": f64,
    "FLOAT16": f16,
    "BFLOAT16": bf16,
    "BOOL": i1,
    "COMPLEX64": ComplexType(f32),
    **{f"INT{w}": IntegerType(w) for w in (8, 16, 32, 64)},
    **{f"UINT{w}": IntegerType(w, Signedness.UNSIGNED) for w in (8, 16, 32, 64)},
}


class OnnxError(ValueError):
    """A file that is no ONNX model, or a model that cannot be imported."""


def read_model(source: Path | bytes, name: str) -> ModelProto:
    """The model of a file or of its bytes, its own functions inlined; tensors in other files stay there for now.

    ``name`` is what errors call it. Raises OnnxError.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError
        from onnx.inliner import inline_local_functions
    except ImportError as error:
        raise OnnxError(f"reading ONNX needs the onnx package: pip install 'rlx-dialect[onnx]' ({error})") from error
    try:
        content = source if isinstance(source, bytes) else source.read_bytes()
    except OSError as error:
        raise OnnxError(f"{name}: cannot be read: {error.strerror}") from error
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise OnnxError(f"{name}: not an ONNX model: {error}") from error
    if not model.HasField("graph") or not model.opset_import:
        raise OnnxError(f"{name}: not an ONNX model: it has no graph or names no operator set")
    return inline_local_functions(model) if model.functions else model


def opset_versions(model: ModelProto, name: str) -> dict[str, int]:
    """Operator-set version by domain; ``""`` is ONNX's own. Raises OnnxError for one that is too old."""
    versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    if (own := versions.get("", OLDEST_OPSET)) < OLDEST_OPSET:
        raise OnnxError(f"{name}: operator set {OLDEST_OPSET} or newer expected, the model has {own}")
    return versions


def element_type(data_type: int, what: str) -> Attribute:
    """The element type for a TensorProto.DataType; ``what`` is what the error calls the value."""
    from onnx import TensorProto

    word = TensorProto.DataType.Name(data_type) if data_type in TensorProto.DataType.values() else str(data_type)
    if (element := _ELEMENTS.get(word)) is None:
        raise OnnxError(f"{what} has element type {word}; supported are {', '.join(sorted(_ELEMENTS))}")
    return element


def tensor_array(tensor: TensorProto, element: Attribute, folder: Path) -> Array:
    """The tensor's values in the storage dtype of ``element``; ``folder`` holds the files that tensors may lie in."""
    from onnx import numpy_helper

    return round_to(np.asarray(numpy_helper.to_array(tensor, str(folder))), element)
