"""Single ONNX operators on onnxruntime, as an independent opinion on what an operation means."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from rlx_dialect.dtypes import Array


def onnx_run(
    op: str,
    *inputs: Array | None,
    output: int = TensorProto.FLOAT,
    outputs: int = 1,
    opset: int = 22,
    **attributes: Any,
) -> Array:
    """The first output, of ONNX element type ``output``, of one operator with ``outputs`` of them.

    None leaves an optional input out.
    """
    given = {f"i{n}": v for n, v in enumerate(inputs) if v is not None}
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in given.items()
    ]
    names = ["" if v is None else f"i{n}" for n, v in enumerate(inputs)]
    node = helper.make_node(op, names, ["o", *(f"o{n}" for n in range(1, outputs))], **attributes)
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("o", output, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["o"], given)[0])
