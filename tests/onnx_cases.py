"""One-operator ONNX models, at least one for each operator that is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from rlx_dialect.dtypes import Array


@dataclass(frozen=True)
class Fixed:
    """An operand that is an initialiser of the model."""

    value: Array


@dataclass(frozen=True)
class Case:
    op: str
    operands: Sequence[Array | Fixed | None]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 21
    outputs: int = 1
    note: str = ""
    """What sets it apart from other cases of the operator."""
    rtol: float = 1e-5

    def __str__(self) -> str:
        return "-".join(filter(None, [self.op, str(self.opset), self.note]))

    @property
    def inputs(self) -> dict[str, Array]:
        return {f"i{n}": v for n, v in enumerate(self.operands) if isinstance(v, np.ndarray)}

    def model(self, dynamic: dict[str, dict[int, str]] | None = None) -> ModelProto:
        """``dynamic`` names extents of inputs by axis."""
        names = ["" if v is None else f"i{n}" for n, v in enumerate(self.operands)]
        nodes = [helper.make_node(self.op, names, [f"o{n}" for n in range(self.outputs)], name="it", **self.attributes)]
        fixed = {f"i{n}": v.value for n, v in enumerate(self.operands) if isinstance(v, Fixed)}
        return model(nodes, self.inputs, [f"o{n}" for n in range(self.outputs)], fixed, self.opset, dynamic)


def model(
    nodes: Sequence[Any],
    inputs: dict[str, Array],
    outputs: Sequence[str],
    initialisers: dict[str, Array] | None = None,
    opset: int = 21,
    dynamic: dict[str, dict[int, str]] | None = None,
) -> ModelProto:
    """A model whose inputs have the types of example values; output types are left to be inferred."""
    values = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(v.dtype),
            [((dynamic or {}).get(name, {})).get(axis, extent) for axis, extent in enumerate(v.shape)],
        )
        for name, v in inputs.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "g",
        values,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(v, name) for name, v in (initialisers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


_rng = np.random.default_rng(20)


def real(*shape: int, dtype: Any = np.float32) -> Array:
    return np.asarray(_rng.standard_normal(shape)).astype(dtype)


def positive(*shape: int) -> Array:
    return np.abs(real(*shape)) + np.float32(0.1)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int64) -> Array:
    return np.asarray(_rng.integers(low, high, shape)).astype(dtype)


def truth(*shape: int) -> Array:
    return np.asarray(_rng.random(shape) < 0.5)


def ints(*values: int) -> Fixed:
    return Fixed(np.array(values, np.int64))


def scalar(value: Any, dtype: Any = np.float32) -> Fixed:
    return Fixed(np.array(value, dtype))


UNARY = (
    "Abs Atan Ceil Cos Erf Exp Floor HardSwish Mish Neg Reciprocal Relu Round Sigmoid Sign Sin Softplus Softsign "
    "Tan Tanh"
)

ELEMENTWISE = [
    *(Case(op, [real(3, 5) * 2]) for op in UNARY.split()),
    *(Case(op, [positive(3, 5)]) for op in ("Log", "Sqrt")),
    *(Case(op, [whole(3, 5, dtype=np.int32)], note="i32") for op in ("Abs", "Neg", "Relu", "Sign")),
    *(Case(op, [real(2, 3, 5), real(3, 1)]) for op in ("Add", "Sub", "Mul", "Div")),
    *(Case(op, [whole(4), whole(3, 4, low=1)], note="i64") for op in ("Add", "Sub", "Mul", "Div")),
    Case("Add", [real(3, 4, dtype=np.float16), real(4, dtype=np.float16)], note="f16", rtol=2e-3),
    Case("Mul", [real(3, 4, dtype=np.float64), real(4, dtype=np.float64)], note="f64"),
    Case("Add", [real(2, 3), scalar(2.5)], opset=7),
    *(Case(op, [truth(3, 1), truth(4)]) for op in ("And", "Or", "Xor")),
    Case("Not", [truth(3, 5)]),
    *(
        Case(op, [whole(3, 1, dtype=np.uint8, low=0), whole(4, dtype=np.uint8, low=0)])
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ),
    Case("BitwiseNot", [whole(3, 5, dtype=np.int32)], note="i32"),
    Case("BitwiseNot", [whole(3, 5, dtype=np.uint8, low=0, high=255)], note="u8"),
    *(
        Case("BitShift", [whole(3, 5, dtype=np.uint32, low=0), scalar(2, np.uint32)], {"direction": d}, note=d)
        for d in ("LEFT", "RIGHT")
    ),
    *(
        Case(op, [whole(3, 1, low=0, high=3), whole(4, low=0, high=3)])
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    ),
    Case("Equal", [truth(3, 1), truth(4)], note="bool"),
    Case("Less", [real(3, 1), real(4)], note="f32"),
    *(Case(op, [real(3, 1), real(4), real(2, 1, 1)]) for op in ("Max", "Min", "Sum", "Mean")),
    Case("Max", [real(3, 2)], note="one"),
    Case("Min", [whole(3, 1, dtype=np.int32), whole(4, dtype=np.int32)], note="i32"),
    Case("Pow", [positive(3, 5), real(5)]),
    Case("Pow", [positive(3, 5), scalar(3, np.int64)], note="f32^i64"),
    Case("Pow", [whole(3, 5, low=1), scalar(2.0)], note="i64^f32"),
    Case("Mod", [whole(3, 5), whole(5, low=1)], note="positive divisor"),
    Case("Mod", [whole(3, 5), whole(5, low=-7, high=-1)], note="negative divisor"),
    Case("Mod", [whole(3, 5), whole(5, low=1)], {"fmod": 1}, note="fmod"),
    Case("Mod", [whole(3, 5, low=0, dtype=np.uint8), whole(5, low=1, dtype=np.uint8)], note="u8"),
    Case("Mod", [real(3, 5), positive(5)], {"fmod": 1}, note="f32"),
    Case("Where", [truth(3, 1), real(4), real(2, 1, 1)]),
    *(
        Case("Cast", [real(3, 5) * 9], {"to": t}, note=TensorProto.DataType.Name(t))
        for t in (TensorProto.INT32, TensorProto.INT8, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.FLOAT16)
    ),
    Case("Cast", [whole(3, 5, low=0, high=255, dtype=np.uint8)], {"to": TensorProto.FLOAT}, note="from u8"),
    Case("Cast", [truth(3, 5)], {"to": TensorProto.INT64}, note="from bool"),
    Case("CastLike", [whole(3, 5), real(2)]),
    Case("Identity", [real(3, 5)]),
    Case("Dropout", [real(3, 5)], {"ratio": 0.4}, opset=10),
    Case("Dropout", [real(3, 5), scalar(0.4), scalar(False, np.bool_)], opset=13),
    Case("Clip", [real(3, 5)], {"min": -0.5, "max": 0.7}, opset=7),
    Case("Clip", [real(3, 5)], {"max": 0.7}, opset=10, note="max only"),
    Case("Clip", [real(3, 5), scalar(-0.5), scalar(0.7)]),
    Case("Clip", [real(3, 5), scalar(-0.5)], note="min only"),
    Case("Clip", [real(3, 5), None, scalar(0.7)], note="max only"),
    Case("Clip", [real(3, 5), scalar(0.7), scalar(-0.5)], note="crossed"),
    Case("Clip", [whole(3, 5), scalar(-2, np.int64), scalar(3, np.int64)], note="i64"),
    Case("Clip", [real(3, 5), np.array(-0.1, np.float32), np.array(0.2, np.float32)], note="bounds from data"),
    Case("LeakyRelu", [real(3, 5)], {"alpha": 0.3}),
    Case("PRelu", [real(2, 3, 5), real(3, 1)]),
    Case("ThresholdedRelu", [real(3, 5)], {"alpha": 0.3}),
    Case("Elu", [real(3, 5)]),
    Case("Elu", [real(3, 5)], {"alpha": 0.3}, note="alpha"),
    Case("Celu", [real(3, 5)], {"alpha": 0.3}),
    Case("Selu", [real(3, 5)], rtol=1e-4),
    Case("HardSigmoid", [real(3, 5) * 4]),
    Case("HardSigmoid", [real(3, 5) * 4], {"alpha": 1 / 6, "beta": 0.5}, note="one sixth"),
    Case("Gelu", [real(3, 5)]),
    Case("Gelu", [real(3, 5)], {"approximate": "tanh"}, note="tanh"),
    Case("Swish", [real(3, 5)], opset=24),
    Case("Swish", [real(3, 5)], {"alpha": 1.7}, opset=24, note="alpha"),
    Case("IsNaN", [np.array([1, np.nan, np.inf], np.float32)]),
    *(
        Case(
            "IsInf",
            [np.array([1, np.nan, np.inf, -np.inf], np.float32)],
            {"detect_negative": n, "detect_positive": p},
            note=f"{n}{p}",
        )
        for n in (0, 1)
        for p in (0, 1)
    ),
]

CONTRACTION = [
    Case("MatMul", [real(2, 1, 3, 4), real(5, 4, 6)]),
    Case("MatMul", [real(4), real(4, 6)], note="row"),
    Case("MatMul", [real(2, 3, 4), real(4)], note="column"),
    Case("MatMul", [real(4), real(4)], note="dot"),
    Case("MatMul", [whole(3, 4, dtype=np.int32), whole(4, 2, dtype=np.int32)], note="i32"),
    Case("Gemm", [real(3, 4), real(4, 6), real(6)]),
    Case(
        "Gemm",
        [real(4, 3), Fixed(real(6, 4)), real(3, 1)],
        {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
        note="all",
    ),
    Case("Gemm", [real(3, 4), real(4, 6)], note="no C"),
]

_REDUCTIONS = "L1 L2 LogSumExp Max Mean Min Prod Sum SumSquare"

REDUCTION = [
    *(Case(f"Reduce{k}", [real(2, 3, 5), ints(0, -1)], {"keepdims": 0}, opset=18) for k in _REDUCTIONS.split()),
    *(Case(f"Reduce{k}", [real(2, 3, 5)], {"axes": [1]}, opset=12, note="attribute") for k in _REDUCTIONS.split()),
    Case("ReduceLogSum", [positive(2, 3, 5), ints(1)], opset=18),
    Case("ReduceSum", [real(2, 3, 5), ints(1)], {"keepdims": 0}, opset=13),
    Case("ReduceSum", [real(2, 3, 5)], {"keepdims": 0}, opset=13, note="all axes"),
    Case("ReduceSum", [real(2, 3, 5), ints()], {"noop_with_empty_axes": 1}, opset=13, note="no axes"),
    Case("ReduceMax", [whole(2, 3, 5, dtype=np.int32), ints(1)], opset=18, note="i32"),
    Case(
        "ReduceLogSumExp",
        [np.array([[900, 901], [-np.inf, -np.inf], [np.inf, 1]], np.float32), ints(1)],
        opset=18,
        note="extreme",
    ),
    Case("Softmax", [real(2, 3, 5)], {"axis": 1}, opset=13),
    Case("Softmax", [real(2, 3, 5)], opset=12, note="flattening"),
    Case("Softmax", [real(2, 3, 5)], {"axis": -1}, opset=11, note="last"),
    Case("Softmax", [real(2, 3)], {"axis": 0}, opset=11, note="everything"),
    Case("LogSoftmax", [real(2, 3, 5) * 30], {"axis": 1}, opset=13),
    Case("LogSoftmax", [real(2, 3, 5)], opset=11, note="flattening"),
]

NORMALIZATION = [
    Case(
        "BatchNormalization",
        [real(2, 3, 4, 5), *(Fixed(f(3)) for f in (real, real, real, positive))],
        {"epsilon": 0.01},
    ),
    Case(
        "BatchNormalization", [real(4, 3), *(Fixed(f(3)) for f in (real, real, real, positive))], opset=9, note="rank 2"
    ),
    Case(
        "BatchNormalization",
        [real(2, 3, 4), real(3), real(3), real(3), positive(3)],
        opset=8,
        note="statistics from data",
    ),
    Case("LayerNormalization", [real(2, 3, 5), real(5), real(5)], {"epsilon": 0.01}),
    Case("LayerNormalization", [real(2, 3, 5), real(3, 5)], {"axis": 1}, note="two axes, no bias"),
    Case("LayerNormalization", [real(2, 3, 5), real(1), real(3, 1)], {"axis": -2}, note="broadcast"),
    Case("RMSNormalization", [real(2, 3, 5), real(5)], {"epsilon": 0.01}, opset=23),
    Case("InstanceNormalization", [real(2, 3, 4, 5), real(3), real(3)], {"epsilon": 0.01}, rtol=1e-4),
    Case("GroupNormalization", [real(2, 6, 4, 5), real(6), real(6)], {"num_groups": 3}, opset=21, rtol=1e-4),
    Case("GroupNormalization", [real(2, 6, 4, 5), real(3), real(3)], {"num_groups": 3}, opset=18, rtol=1e-4),
    Case("LRN", [real(2, 7, 3, 4)], {"size": 5, "alpha": 0.3, "beta": 0.6, "bias": 2.0}),
]

CONVOLUTION = [
    Case(
        "Conv",
        [real(2, 4, 9, 7), Fixed(real(6, 2, 3, 2)), Fixed(real(6))],
        {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 3], "dilations": [1, 2], "kernel_shape": [3, 2]},
    ),
    Case("Conv", [real(2, 3, 9), real(4, 3, 3)], note="1-D"),
    Case("Conv", [real(1, 2, 4, 5, 6), real(3, 2, 2, 3, 2), real(3)], note="3-D"),
    *(
        Case("Conv", [real(1, 2, 8, 7), real(3, 2, 3, 4)], {"auto_pad": a, "strides": [3, 2]}, note=a)
        for a in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ),
    *(
        Case(op, [real(2, 3, 9, 8)], {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]})
        for op in ("MaxPool", "AveragePool")
    ),
    *(
        Case(op, [real(2, 3, 9, 8)], {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}, note="ceil")
        for op in ("MaxPool", "AveragePool")
    ),
    *(
        Case(op, [real(2, 3, 9, 8)], {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": a}, note=a)
        for op in ("MaxPool", "AveragePool")
        for a in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ),
    Case("MaxPool", [real(2, 3, 9, 8)], {"kernel_shape": [3, 2], "dilations": [2, 3]}, note="dilations"),
    Case("MaxPool", [real(2, 3, 9)], {"kernel_shape": [3]}, note="1-D"),
    Case("MaxPool", [whole(2, 3, 9, 8, dtype=np.int8)], {"kernel_shape": [3, 2]}, note="i8"),
    Case(
        "MaxPool",
        [real(1, 1, 5, 5)],
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [0, 0, 1, 1], "ceil_mode": 1},
        note="last window in padding",
    ),
    Case(
        "AveragePool",
        [real(2, 3, 9, 8)],
        {"kernel_shape": [3, 2], "pads": [1, 1, 2, 1], "count_include_pad": 1},
        note="padding counts",
    ),
    Case(
        "AveragePool",
        [real(2, 3, 8, 8)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0], "ceil_mode": 1, "count_include_pad": 1},
        note="padding counts, ceil",
    ),
    *(Case(op, [real(2, 3, 4, 5)]) for op in ("GlobalAveragePool", "GlobalMaxPool")),
    Case("Resize", [real(2, 3, 4, 5), None, Fixed(np.array([1, 1, 2, 2], np.float32))], {"mode": "nearest"}),
    Case(
        "Resize",
        [real(2, 3, 4, 5), None, None, ints(2, 3, 8, 10)],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        note="sizes",
    ),
    Case("Resize", [real(2, 3, 4, 5), None, None, ints(8, 10)], {"axes": [2, 3]}, note="axes"),
    Case("Resize", [real(2, 3, 4, 5), Fixed(np.array([1, 1, 2, 2], np.float32))], opset=10),
    Case("Upsample", [real(2, 3, 4, 5), Fixed(np.array([1, 1, 2, 2], np.float32))], opset=9),
]

SHAPE = [
    *(
        Case("Constant", [], {k: v}, note=k)
        for k, v in (("value_int", 3), ("value_ints", [3, 4]), ("value_float", 0.5), ("value_floats", [0.5, 1.5]))
    ),
    Case(
        "Constant", [], {"value": numpy_helper.from_array(np.arange(40, dtype=np.float32).reshape(8, 5))}, note="tensor"
    ),
    Case("Shape", [real(2, 3, 5)]),
    Case("Shape", [real(2, 3, 5, 7)], {"start": 1, "end": -1}, note="part"),
    Case("Size", [real(2, 3, 5)]),
    Case("ConstantOfShape", [ints(2, 3)]),
    Case("ConstantOfShape", [ints(20)], {"value": numpy_helper.from_array(np.array([7], np.int32))}, note="i32"),
    Case("ConstantOfShape", [ints()], note="scalar"),
    Case("Range", [scalar(3, np.int64), scalar(30, np.int64), scalar(4, np.int64)]),
    Case("Range", [scalar(3.0), scalar(-1.0), scalar(-0.75)], note="f32"),
    Case("Reshape", [real(2, 3, 4), ints(0, -1, 2)]),
    Case("Reshape", [real(2, 3, 4), ints(4, 6)], opset=7),
    Case("Reshape", [real(0, 3), ints(3, 0)], {"allowzero": 1}, note="allowzero"),
    *(Case("Flatten", [real(2, 3, 4)], {"axis": a}, note=f"axis {a}") for a in (0, 2, -1, 3)),
    Case("Squeeze", [real(1, 3, 1, 2)]),
    Case("Squeeze", [real(1, 3, 1, 2), ints(-2)], note="axes"),
    Case("Squeeze", [real(1, 3, 1, 2)], {"axes": [0]}, opset=11),
    Case("Unsqueeze", [real(3, 2), ints(0, -1)]),
    Case("Unsqueeze", [real(3, 2)], {"axes": [1, 3]}, opset=11),
    *(Case("DepthToSpace", [real(2, 12, 3, 5)], {"blocksize": 2, "mode": m}, note=m) for m in ("DCR", "CRD")),
    Case("SpaceToDepth", [real(2, 3, 4, 6)], {"blocksize": 2}),
    Case("Transpose", [real(2, 3, 4)]),
    Case("Transpose", [real(2, 3, 4)], {"perm": [1, 2, 0]}, note="perm"),
    Case("Concat", [real(2, 3), real(2, 1), Fixed(real(2, 4))], {"axis": -1}),
    Case("Split", [real(2, 7), ints(3, 4)], {"axis": 1}, outputs=2),
    Case("Split", [real(2, 8)], {"axis": -1, "num_outputs": 3}, outputs=3, opset=18, note="uneven"),
    Case("Split", [real(6, 2)], outputs=3, opset=13, note="equal"),
    Case("Split", [real(7, 2)], {"split": [2, 5]}, outputs=2, opset=11),
    Case("Slice", [real(5, 6, 7), ints(1, -3), ints(4, 100), ints(0, 2)]),
    Case("Slice", [real(5, 6), ints(4, 5), ints(-100, 0), ints(0, 1), ints(-1, -2)], note="backwards"),
    Case("Slice", [real(5, 6), ints(3, 1), ints(3, 4), ints(0, 1), ints(1, 2)], note="empty"),
    Case("Slice", [real(5, 6), ints(1, 2), ints(4, 2**63 - 1)], note="no axes"),
    Case("Slice", [real(5, 6, 7)], {"starts": [1, 0], "ends": [3, -1], "axes": [2, 0]}, opset=9),
    Case("Expand", [real(3, 1), ints(2, 1, 5)]),
    Case("Expand", [real(3, 4), ints(1)], note="smaller"),
    Case("Tile", [real(2, 3), ints(3, 2)]),
    *(
        Case("Pad", [real(3, 4), ints(1, 0, 2, 3), *v], {"mode": m}, note=m)
        for m, v in (("constant", [scalar(1.5)]), ("reflect", []), ("edge", []))
    ),
    Case("Pad", [real(3, 4), ints(2, 1, 0, 3)], {"mode": "wrap"}, opset=19, note="wrap"),
    Case("Pad", [real(3, 4, 5), ints(1, 2), None, ints(-2)], note="axes"),
    Case("Pad", [real(3, 4), ints(-1, 1, 0, -2)], note="negative"),
    Case("Pad", [real(3, 4)], {"pads": [1, 0, 2, 3], "value": 0.5}, opset=10),
    *(
        Case("Trilu", [real(2, 4, 5), scalar(k, np.int64)], {"upper": u}, note=f"{k} {u}")
        for k in (-2, 1)
        for u in (0, 1)
    ),
    Case("Trilu", [real(4, 3)]),
]

INDEXING = [
    Case("Gather", [Fixed(real(9, 4)), whole(2, 3, low=-9)]),
    Case("Gather", [real(2, 5, 3), whole(4, low=0, high=5, dtype=np.int32)], {"axis": 1}, note="i32"),
    Case("Gather", [real(2, 5, 3), scalar(-2, np.int64)], {"axis": 1}, note="one position"),
    Case("Gather", [real(2, 5, 3), ints(1)], {"axis": -1}, note="a list of one position"),
    Case("GatherElements", [real(4, 3), whole(2, 3, low=-4, high=4)]),
    Case("GatherElements", [real(3, 4), whole(3, 2, low=0, high=4)], {"axis": 1}, note="axis"),
    Case("GatherND", [real(4, 3, 5), whole(2, 2, low=0, high=3)]),
    Case("GatherND", [real(2, 3, 5), whole(2, 4, 1, low=0, high=3)], {"batch_dims": 1}, note="batch"),
    Case("ScatterElements", [real(4, 3), Fixed(np.array([[0, 2, 1], [3, 1, -1]])), real(2, 3)]),
    Case(
        "ScatterElements",
        [real(3, 4), whole(3, 2, low=0, high=4), real(3, 2)],
        {"axis": 1, "reduction": "add"},
        note="add",
    ),
    Case("Scatter", [real(4, 3), Fixed(np.array([[0, 2, 1], [3, 1, 2]])), real(2, 3)], opset=10),
    Case("ScatterND", [real(5, 3), Fixed(np.array([[4], [1]])), real(2, 3)]),
    Case("ScatterND", [real(5, 3), whole(4, 1, low=0, high=5), real(4, 3)], {"reduction": "max"}, note="max"),
]

CASES = [*ELEMENTWISE, *CONTRACTION, *REDUCTION, *NORMALIZATION, *CONVOLUTION, *SHAPE, *INDEXING]
