"""What the ONNX importer does beyond single operators: extents, names, initialisers, errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from helpers import assert_round_trip
from onnx import TensorProto, helper, numpy_helper
from onnx_cases import model as make_model
from test_onnx_models import onnxruntime_outputs
from xdsl.dialects.builtin import NameLoc

from rlx_dialect.dtypes import Array
from rlx_dialect.frontends.onnx.importer import ImportedModel, import_onnx, parse_extents
from rlx_dialect.frontends.onnx.model import OnnxError
from rlx_dialect.graph import arguments, main_function, output_names
from rlx_dialect.interpreter import run_reference
from rlx_dialect.xdsl_compat import print_module


def parsed(text: str, opset: int = 17, **arrays: Array) -> onnx.ModelProto:
    """A model from ONNX's own text form, without its header, with ``arrays`` as initialisers."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in arrays.items())
    return model


def imported(model: onnx.ModelProto, **options: Any) -> ImportedModel:
    result = import_onnx(model.SerializeToString(), name="m.onnx", **options)
    assert_round_trip(result.module)
    return result


def message(model: onnx.ModelProto, **options: Any) -> str:
    with pytest.raises(OnnxError) as error:
        imported(model, **options)
    return str(error.value)


def assert_equals_onnxruntime(model: onnx.ModelProto, result: ImportedModel, **inputs: Array) -> None:
    found = run_reference(result.module, {**result.weights, **inputs})
    for f, e in zip(found, onnxruntime_outputs(model, inputs), strict=True):
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)


def real(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# Text and names.


def test_text_of_a_small_model():
    text = "net (float[n, 3] x) => (y) { t = MatMul(x, w) u = Add(t, b) y = Relu(u) }"
    model = parsed(text, w=real(3, 6), b=np.float32(0.5))
    for node, name in zip(
        model.graph.node, ["encoder/layer/dense", "encoder/layer/shift", "encoder/relu:0"], strict=True
    ):
        node.name = name
    assert print_module(imported(model).module) == (
        "builtin.module {\n"
        '  func.func @main(%x: tensor<?x3xf32> {rlx.input = "x"}, %w: tensor<3x6xf32> {rlx.param = "w"})'
        ' -> (tensor<?x6xf32> {rlx.output = "y"}) {\n'
        "    %layer_dense = rlx.matmul %x, %w : (tensor<?x3xf32>, tensor<3x6xf32>) -> tensor<?x6xf32>\n"
        "    %0 = rlx.constant dense<5.000000e-01> : tensor<f32>\n"
        "    %layer_shift = rlx.binary add %layer_dense, %0 : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x6xf32>\n"
        "    %encoder_relu = rlx.activation relu %layer_shift : tensor<?x6xf32>\n"
        "    func.return %encoder_relu : tensor<?x6xf32>\n"
        "  }\n"
        "}\n"
    )


def test_operations_are_located_at_their_nodes():
    model = parsed("net (float[2, 3] x) => (y) { t = Celu<alpha = 0.5>(x) y = Neg(t) }", opset=20)
    model.graph.node[0].name = "a/b/celu"
    function = main_function(imported(model).module)
    locations = [op.location for op in function.body.block.ops][:-1]
    names = [location.desc.data for location in locations if isinstance(location, NameLoc)]
    assert len(names) == len(locations)
    assert set(names) == {"a/b/celu", "y"}
    assert names[-1] == "y"


def test_names_that_text_does_not_allow():
    model = parsed("net (float[2] x) => (y) { y = Neg(x) }")
    for value in (model.graph.input[0], model.graph.output[0]):
        value.name = f"1/{value.name}:é é"
    model.graph.node[0].input[0], model.graph.node[0].output[0] = (
        model.graph.input[0].name,
        model.graph.output[0].name,
    )
    result = imported(model)
    function = main_function(result.module)
    assert [a.name for a in arguments(function)] == ["1/x:é é"]
    assert output_names(function) == ["1/y:é é"]


# Computed shapes.

VIEW = """
net (float[batch, 6, 4] x) => (y) {
  s = Shape(x)
  zero = Constant<value = int64 {0}>()
  b = Gather<axis = 0>(s, zero)
  axis = Constant<value = int64[1] {0}>()
  bu = Unsqueeze(b, axis)
  heads = Constant<value = int64[1] {2}>()
  rest = Constant<value = int64[1] {-1}>()
  target = Concat<axis = 0>(bu, rest, heads)
  y = Reshape(x, target)
}"""


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_shape_computation_with_a_dynamic_batch(batch: int):
    model = parsed(VIEW)
    result = imported(model)
    assert "i64" not in print_module(result.module)
    assert "tensor<?x12x2xf32>" in print_module(result.module)
    assert_equals_onnxruntime(model, result, x=real(batch, 6, 4))


def test_products_and_quotients_of_dynamic_extents_are_followed():
    model = parsed("""
    net (float[n, 4, 6] x) => (y, z) {
      s = Shape<start = 0, end = 1>(x)
      four = Constant<value = int64[1] {4}>()
      six = Constant<value = int64[1] {6}>()
      rows = Mul(s, four)
      t = Concat<axis = 0>(rows, six)
      y = Reshape(x, t)
      s2 = Shape<end = 1>(y)
      back = Div(s2, four)
      u = Concat<axis = 0>(back, four, six)
      z = Reshape(y, u)
    }""")
    result = imported(model)
    types = main_function(result.module).function_type.outputs.data
    assert [str(t) for t in types] == ["tensor<?x6xf32>", "tensor<?x4x6xf32>"]
    assert_equals_onnxruntime(model, result, x=real(3, 4, 6))


def test_positions_of_a_static_length_become_data():
    text = """
    net (float[batch, seq, 8] x) => (y) {
      s = Shape<start = 1, end = 2>(x)
      axes = Constant<value = int64[1] {0}>()
      n = Squeeze(s, axes)
      zero = Constant<value = int64 {0}>()
      one = Constant<value = int64 {1}>()
      positions = Range(zero, n, one)
      rows = Gather(table, positions)
      y = Add(x, rows)
    }"""
    model = parsed(text, table=real(40, 8))
    result = imported(model, extents={"seq": 20})
    assert set(result.weights) == {"table"}
    assert "rlx.constant dense<[0, 1, 2" in print_module(result.module)
    assert_equals_onnxruntime(model, result, x=real(2, 20, 8))
    assert message(model) == (
        "m.onnx: node 'rows' (Gather): the value of 'positions' depends on dynamic extents (batch, seq); "
        "give them numbers with --dim NAME=N"
    )


def test_expand_as_exporters_write_it():
    """A shape with -1 for what stays, replaced by ones before an Expand."""
    model = parsed("""
    net (float[batch, 1, 4] x) => (y) {
      wanted = Constant<value = int64[3] {-1, 5, 4}>()
      minus = Constant<value = int64 {-1}>()
      unknown = Equal(wanted, minus)
      length = Shape(wanted)
      ones = ConstantOfShape<value = int64[1] {1}>(length)
      target = Where(unknown, ones, wanted)
      y = Expand(x, target)
    }""")
    result = imported(model)
    assert "rlx.expand %x {shape = [-1, 5, 4]}" in print_module(result.module)
    assert_equals_onnxruntime(model, result, x=real(3, 1, 4))


def test_extents_of_one_name_are_equal_and_are_given_together():
    text = "net (float[n, 2] x, float[n, k] w) => (y) { y = Concat<axis = 1>(x, w) z = Add(x, w) }"
    result = imported(parsed(text))
    assert str(main_function(result.module).function_type.outputs.data[0]) == "tensor<?x?xf32>"
    fixed = imported(parsed(text), batch=3, extents={"k": 5})
    assert str(main_function(fixed.module).function_type.outputs.data[0]) == "tensor<3x7xf32>"


def test_an_unnamed_extent_is_called_by_its_place():
    model = parsed("net (float[?, 2] x) => (y) { y = Neg(x) }")
    negative = parsed("net (float[1, 2] x) => (y) { y = Neg(x) }")
    negative.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    for m in (model, negative):
        result = imported(m, extents={"x.0": 7})
        assert str(main_function(result.module).function_type.outputs.data[0]) == "tensor<7x2xf32>"


def test_slices_of_dynamic_axes_that_are_whole_or_reversed():
    model = parsed("""
    net (float[n, 5] x) => (y) {
      start = Constant<value = int64[2] {0, 1}>()
      end = Constant<value = int64[2] {9223372036854775807, -1}>()
      t = Slice(x, start, end)
      last = Constant<value = int64[1] {-1}>()
      first = Constant<value = int64[1] {-9223372036854775808}>()
      axis = Constant<value = int64[1] {0}>()
      y = Slice(t, last, first, axis, last)
    }""")
    result = imported(model)
    assert_equals_onnxruntime(model, result, x=real(4, 5))
    assert "rlx.reverse" in print_module(result.module)


# Initialisers.


def test_large_initialisers_are_parameters_and_small_ones_constants():
    arrays = {"large": real(17), "small": real(16), "number": np.float32(2.5), "unused": real(99)}
    nodes = [helper.make_node("Add", ["x", "large"], ["t"]), helper.make_node("Mul", ["t", "number"], ["y"])]
    nodes.append(helper.make_node("Neg", ["small"], ["z"]))
    model = make_model(nodes, {"x": real(17)}, ["y", "z"], {k: np.asarray(v) for k, v in arrays.items()})
    result = imported(model)
    assert list(result.weights) == ["large"]
    np.testing.assert_array_equal(result.weights["large"], arrays["large"])
    assert_equals_onnxruntime(model, result, x=real(17))


def test_large_integers_are_followed_and_placed_only_as_constants():
    positions = np.arange(600).reshape(1, 600)
    nodes = [
        helper.make_node("Slice", ["positions", "from", "to", "axis"], ["part"]),
        helper.make_node("Gather", ["table", "part"], ["y"]),
    ]
    initialisers: dict[str, Array] = {
        "positions": positions,
        "from": np.array([2]),
        "to": np.array([30]),
        "axis": np.array([1]),
    }
    model = make_model(nodes, {"table": real(600, 3)}, ["y"], initialisers)
    result = imported(model)
    assert list(result.weights) == []
    assert "rlx.narrow" not in print_module(result.module)
    assert_equals_onnxruntime(model, result, table=real(600, 3))


def test_initialisers_that_are_listed_as_inputs_are_no_inputs():
    model = make_model(
        [helper.make_node("Add", ["x", "w"], ["y"])], {"x": real(20), "w": real(20)}, ["y"], {"w": real(20)}
    )
    result = imported(model)
    assert [(a.name, a.kind) for a in arguments(main_function(result.module))] == [("x", "input"), ("w", "param")]


ELEMENT_WORDS = {
    TensorProto.BFLOAT16: "bf16",
    TensorProto.FLOAT16: "f16",
    TensorProto.UINT8: "ui8",
    TensorProto.DOUBLE: "f64",
}


@pytest.mark.parametrize("dtype", ELEMENT_WORDS)
def test_element_types_of_initialisers(dtype: int):
    # More than are followed at import: integers would be computed with there.
    tensor = helper.make_tensor("w", dtype, [5000], np.arange(5000) % 100)
    nodes = [helper.make_node("Cast", ["w"], ["t"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "t"], ["y"])]
    model = make_model(nodes, {"x": real(5000)}, ["y"])
    model.graph.initializer.append(tensor)
    result = imported(model)
    word = {
        TensorProto.BFLOAT16: "bf16",
        TensorProto.FLOAT16: "f16",
        TensorProto.UINT8: "ui8",
        TensorProto.DOUBLE: "f64",
    }
    assert f"tensor<5000x{word[dtype]}>" in print_module(result.module)
    assert_equals_onnxruntime(model, result, x=real(5000))


def test_tensors_in_other_files_are_read_when_they_are_needed(tmp_path: Path):
    model = make_model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": real(20)}, ["y"], {"w": real(20)})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    result = import_onnx(tmp_path / "m.onnx")
    np.testing.assert_array_equal(result.weights["w"], real(20))
    (tmp_path / "m.data").unlink()
    assert list(import_onnx(tmp_path / "m.onnx").weights) == ["w"]


def test_functions_of_the_model_are_inlined():
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17, "own": 1]>
    net (float[2, 3] x) => (y) { t = own.twice(x) y = own.twice(t) }
    <domain: "own", opset_import: ["": 17]>
    twice (a) => (b) { b = Add(a, a) }""")
    assert_equals_onnxruntime(model, imported(model), x=real(2, 3))


def test_nodes_that_no_output_needs_are_left_out():
    model = parsed("net (float[2, 3] x) => (y) { dead = NonZero(x) other = Exp(x) y = Neg(x) }")
    assert sum(1 for _ in main_function(imported(model).module).body.block.ops) == 2


def test_outputs_that_no_operation_computes():
    text = "net (float[2, 3] x) => (a, b, c) { a = Identity(x) b = Constant<value_float = 0.5>() c = Identity(w) }"
    model = parsed(text, w=real(18))
    assert_equals_onnxruntime(model, imported(model), x=real(2, 3))


# Errors.


def test_every_unsupported_operator_is_named_at_once():
    model = parsed("""
    net (float[4, 4] x) => (y) {
      [first] a = NonZero(x)
      [loop] b = If<
        then_branch = t () => (float[2] q) { q = Constant<value_floats = [1.0, 2.0]>() },
        else_branch = e () => (float[2] r) { r = Constant<value_floats = [1.0, 2.0]>() }
      >(c)
      [second] d = NonZero(b)
      f = Relu(d)
      y = com.acme.Magic(f, a)
    }""")
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    assert message(model) == (
        "m.onnx: 3 operators are not supported (operator: nodes)\n"
        "  If: 'loop'\n"
        "  NonZero: 'first', 'second'\n"
        "  com.acme.Magic: 'y'"
    )


GIVE = "; give them numbers with --dim NAME=N"
ELEMENTS = "BFLOAT16, BOOL, COMPLEX64, DOUBLE, FLOAT, FLOAT16, INT16, INT32, INT64, INT8, UINT16, UINT32, UINT64, UINT8"
ERRORS = [
    (
        "(float[2] x) => (y) { y = Add(x, gone) }",
        "node 'y' (Add) reads 'gone', which is no input, initialiser or output of an earlier node",
    ),
    ("(float[2] x) => (y) { [it] z = Neg(x) }", "output 'y' is computed by no node"),
    (
        "(string[2] x) => (y) { y = Identity(x) }",
        f"input 'x' has element type STRING; supported are {ELEMENTS}",
    ),
    ("(seq(float[2]) x) => (y) { y = Identity(x) }", "input 'x' must be a tensor"),
    (
        "(float[1,1,4,4] x) => (y, i) { [p] y, i = MaxPool<kernel_shape = [2, 2]>(x) }",
        "node 'p' (MaxPool): output #1 ('i') is not supported",
    ),
    (
        "(float[2,3] x, int64[2] s) => (y) { [r] y = Reshape(x, s) }",
        "node 'r' (Reshape): input #1 ('s') must be known at import, but it is computed from the data",
    ),
    (
        "(float[a,b,8] x) => (y) { s = Constant<value = int64[4] {0, 0, 2, 4}>() [r] y = Reshape(x, s) }",
        f"node 'r' (Reshape): the new shape axbx2x4 has 2 dynamic extents, and a reshape can have one{GIVE}",
    ),
    (
        "(float[a,8] x) => (y) { s = Constant<value = int64[2] {3, -1}>() [r] y = Reshape(x, s) }",
        "node 'r' (Reshape): ax8 does not divide into the new shape 3x-1",
    ),
    (
        "(float[a,8] x) => (y) { s = Shape(x) f = Cast<to = 1>(s) y = Mul(f, f) }",
        f"output 'y': the value of 'y' depends on dynamic extents (a){GIVE}",
    ),
    (
        "(float[a,8] x, int64[4] i) => (y) { s = Shape(x) [t] y = Tile(x, s) }",
        f"node 't' (Tile): input #1 ('s') depends on dynamic extents (a){GIVE}",
    ),
    (
        """(float[a,8] x) => (y) {
          s = Constant<value = int64[1] {1}>() e = Constant<value = int64[1] {99}>() [cut] y = Slice(x, s, e) }""",
        f"node 'cut' (Slice): the slice 1 to 99 of axis 0 with extent a depends on it{GIVE}",
    ),
    (
        """(float[1,8] x, float[n] w) => (y) {
          s = Shape(w) e = Constant<value = int64[1] {8}>() t = Concat<axis = 0>(s, e) [ex] y = Expand(x, t) }""",
        f"node 'ex' (Expand): axis 0 cannot be expanded to the dynamic extent n{GIVE}",
    ),
    (
        "(float[a,2] x, float[b,2] w) => (y) { [s] y = Add(x, w) }",
        "node 's' (Add): shapes 2x2 and 3x2 do not broadcast at axis -2 (tried with a=2/5460/13021, b=3/7140/15541)",
    ),
    (
        "(float[2,3] x, float[4,5] w) => (y) { [m] y = MatMul(x, w) }",
        "node 'm' (MatMul): 'rlx.matmul': contracted extents (lhs last, rhs second last): 3 and 4 differ",
    ),
    (
        "(float[2,3] x, int64[3] w) => (y) { [m] y = Add(x, w) }",
        "node 'm' (Add): 'rlx.binary': operand 'rhs' must have element type f32 like operand 'lhs', got i64",
    ),
    (
        """(float[1,1,h,4] x) => (y) {
          [p] y = MaxPool<kernel_shape = [2, 2], strides = [2, 2], auto_pad = "SAME_UPPER">(x) }""",
        "node 'p' (MaxPool): the padding of spatial axis 0 depends on a dynamic extent",
    ),
    (
        "(float[1,1,3,4] x) => (y) { s = Constant<value_floats = [1.0, 1.0, 3.0, 3.0]>() [r] y = Resize(x, , s) }",
        "node 'r' (Resize): only the height and width of [N, C, H, W] can be resized, and only doubled",
    ),
    (
        """(float[1,1,3,4] x) => (y) {
          s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() [r] y = Resize<mode = "linear">(x, , s) }""",
        "node 'r' (Resize): mode linear (half_pixel, round_prefer_floor) is not supported",
    ),
    (
        "(float[2,3] x) => (y) { s = Constant<value = int64[1] {1}>() [q] y = Squeeze(x, s) }",
        "node 'q' (Squeeze): only extents of 1 can be dropped, got 3",
    ),
    (
        """(float[2,3] x) => (y) {
          r = Constant<value = float {0.5}>() t = Constant<value = bool {1}>() [d] y = Dropout(x, r, t) }""",
        "node 'd' (Dropout): training_mode must be off",
    ),
    ("(float[2,3] x) => (y) { [m] y = Mod(x, x) }", "node 'm' (Mod): fmod must be 1 for floats"),
]


@pytest.mark.parametrize(("text", "expected"), ERRORS, ids=[expected[:40] for _, expected in ERRORS])
def test_error(text: str, expected: str):
    assert message(parsed(f"net {text}")) == f"m.onnx: {expected}"


def test_an_input_needs_a_rank():
    model = parsed("net (float[2] x) => (y) { y = Neg(x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert message(model) == "m.onnx: input 'x' must have a shape; the model does not give its rank"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"extents": {"m": 2}}, "no dynamic extent is named 'm'; there are: n, x.1"),
        ({"extents": {"n": 0}}, "extent 'n' must be positive, got 0"),
        ({"batch": -3}, "extent 'n' must be positive, got -3"),
    ],
)
def test_numbers_for_extents_that_are_refused(options: dict[str, Any], expected: str):
    model = parsed("net (float[n, ?, 2] x) => (y) { y = Neg(x) }")
    assert message(model, **options) == f"m.onnx: {expected}"


def test_a_batch_needs_a_dynamic_first_extent():
    model = parsed("net (float[2, n] x) => (y) { y = Neg(x) }")
    assert message(model, batch=2) == "m.onnx: no input has a dynamic first extent that could be the batch"


def test_old_operator_sets_are_refused():
    model = parsed("net (float[2] x) => (y) { y = Neg(x) }", opset=6)
    assert message(model) == "m.onnx: operator set 7 or newer expected, the model has 6"


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x07"])
def test_files_that_are_no_models(tmp_path: Path, content: bytes):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(OnnxError) as error:
        import_onnx(path)
    assert str(error.value).startswith(f"{path}: not an ONNX model: ")


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(OnnxError, match=r"gone\.onnx: cannot be read: No such file or directory"):
        import_onnx(tmp_path / "gone.onnx")
    with pytest.raises(OnnxError, match="cannot be read: Is a directory"):
        import_onnx(tmp_path)


def test_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(OnnxError, match=r"pip install 'rlx-dialect\[onnx\]'"):
        import_onnx(b"")


def test_extents_are_written_as_name_and_number():
    assert parse_extents(["seq=128", "a=b=3"]) == {"seq": 128, "a=b": 3}
    for text in ("seq", "seq=", "=3", "seq=-1", "seq=x"):
        with pytest.raises(OnnxError) as error:
            parse_extents([text])
        assert str(error.value) == f"'{text}' must be a dynamic extent and its number, as in seq=128"
