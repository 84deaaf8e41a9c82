"""What rlx-lower-to-linalg does around the operations: signatures, other dialects, names, locations, errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import parse
from linalg_helpers import ENGINE, built, case, compare, lowered
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

from rlx_dialect.graph import arguments, main_function, output_names
from rlx_dialect.lowering import UNSIGNED, NotLowered
from rlx_dialect.lowering.to_linalg import LoweringError, LowerToLinalg
from rlx_dialect.lowering.to_linalg.conversion import LOWERINGS
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.reduction import SoftmaxOp
from rlx_dialect.ops.shape import ReshapeOp
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.engine import Signature
from rlx_dialect.runtime.toolchain import portable_text
from rlx_dialect.xdsl_compat import print_module, rlx_context


def test_arguments_and_results_keep_names_order_and_types():
    module = parse("""
func.func @graph(%a: tensor<2x3xf32> {rlx.input = "a", other.kept = 1 : i64}, %w: tensor<3xf32> {rlx.param = "m.w"},
                 %unused: tensor<4xi8> {rlx.input = "unused"}) -> (tensor<2x3xf32> {rlx.output = "y"}, tensor<3xf32>) {
  %0 = rlx.binary add %a, %w : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return %0, %w : tensor<2x3xf32>, tensor<3xf32>
}
""")
    before, after = main_function(module), main_function(lowered(module))
    assert after.sym_name == before.sym_name
    assert after.function_type == before.function_type
    assert after.arg_attrs == before.arg_attrs
    assert after.res_attrs == before.res_attrs
    assert [(a.name, a.kind) for a in arguments(after)] == [("a", "input"), ("m.w", "param"), ("unused", "input")]
    assert output_names(after) == ["y", "out1"]


def test_unsigned_values_lose_their_sign_and_leave_a_mark():
    module = case(
        {"x": "tensor<4xui8>", "k": "tensor<4xi8>"},
        "%y0 = rlx.binary div %x, %x : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>",
        "%y1 = rlx.binary div %k, %k : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>",
    )
    function = main_function(lowered(module))
    assert all(str(t) == "tensor<4xi8>" for t in (*function.function_type.inputs, *function.function_type.outputs))
    for attributes in (function.arg_attrs, function.res_attrs):
        assert attributes is not None
        assert [UNSIGNED in entry.data for entry in attributes] == [True, False]
    signature = Signature.of(function)
    assert [str(s.element) for s in (*signature.inputs, *signature.outputs)] == ["ui8", "i8", "ui8", "i8"]
    compare(module, {"x": np.array([1, 200, 255, 7], np.uint8), "k": np.array([1, -100, 127, 7], np.int8)})


def test_other_dialects_are_kept_and_take_the_lowered_values():
    module = parse("""
func.func @main(%x: tensor<2x3xf32> {rlx.input = "x"}, %flag: tensor<i1> {rlx.input = "flag"}) -> tensor<2x3xf32> {
  %0 = rlx.activation relu %x : tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%0 : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %1 = rlx.activation neg %t : tensor<3x2xf32>
  %condition = tensor.extract %flag[] : tensor<i1>
  %2 = scf.if %condition -> (tensor<2x3xf32>) {
    %3 = rlx.transpose %1 {perm = [1, 0]} : tensor<3x2xf32> -> tensor<2x3xf32>
    %4 = rlx.activation abs %3 : tensor<2x3xf32>
    scf.yield %4 : tensor<2x3xf32>
  } else {
    scf.yield %x : tensor<2x3xf32>
  }
  %5 = rlx.binary add %2, %0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %5 : tensor<2x3xf32>
}
""")
    executable = ENGINE.compile(lowered(module), {})
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    for flag in (True, False):
        (found,) = executable.run({"x": x, "flag": np.array(flag)})
        positive = np.maximum(x, 0)
        np.testing.assert_array_equal(found, positive + (positive if flag else x))


def test_extents_of_a_nested_block_are_not_used_outside():
    module = parse("""
func.func @main(%x: tensor<?x3xf32> {rlx.input = "x"}, %flag: tensor<i1> {rlx.input = "flag"}) -> tensor<?x3xf32> {
  %condition = tensor.extract %flag[] : tensor<i1>
  %0 = scf.if %condition -> (tensor<?x3xf32>) {
    %1 = rlx.activation relu %x : tensor<?x3xf32>
    scf.yield %1 : tensor<?x3xf32>
  } else {
    scf.yield %x : tensor<?x3xf32>
  }
  %2 = rlx.activation neg %x : tensor<?x3xf32>
  %3 = rlx.binary add %0, %2 : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  func.return %3 : tensor<?x3xf32>
}
""")
    (found,) = ENGINE.compile(lowered(module), {}).run({"x": np.ones((2, 3), np.float32), "flag": np.array(True)})
    assert (found == 0).all()


def test_scalars_outside_regions():
    module = parse("""
func.func @main(%a: f32, %b: f32, %x: tensor<3xf32> {rlx.input = "x"}) -> (f32, tensor<3xf32>) {
  %0 = rlx.binary mul %a, %b : (f32, f32) -> f32
  %1 = rlx.binary add %x, %0 : (tensor<3xf32>, f32) -> tensor<3xf32>
  func.return %0, %1 : f32, tensor<3xf32>
}
""")
    names = [op.name for op in lowered(module).walk()]
    assert names.count("arith.mulf") == 1
    assert names.count("linalg.generic") == 1


def test_names_and_locations_survive():
    module = built(
        {"x": "tensor<2x3xf32>", "w": "tensor<3x4xf32>"},
        lambda x, w: [product := MatMulOp(x, w), ActivationOp("silu", product.result)],
    )
    for line, op in enumerate(main_function(module).body.block.ops):
        op.location = FileLineColLoc(StringAttr("model.mlir"), IntAttr(line), IntAttr(1))
        if op.results:
            op.results[0].name_hint = f"value{line}"
    block = main_function(lowered(module)).body.block
    results = {op.results[0].name_hint: op for op in block.ops if op.results and op.results[0].name_hint}
    assert results["value0"].name == "linalg.matmul"
    assert results["value1"].name == "linalg.generic"
    assert [str(results[name].location) for name in ("value0", "value1")] == [
        'loc("model.mlir":0:1)',
        'loc("model.mlir":1:1)',
    ]
    assert all("model.mlir" in str(op.location) for op in block.ops)


def test_nothing_unused_is_left():
    module = built({"x": "tensor<?x3xf32>"}, lambda x: [BinaryOp("add", x, x)])
    for op in lowered(module).walk():
        assert not op.results or any(result.first_use is not None for result in op.results), op.name


def test_the_same_input_gives_the_same_text():
    def text() -> str:
        module = built(
            {"x": "tensor<?x?x4xf32>", "y": "tensor<?x?x4xf32>"},
            lambda x, y: [ReshapeOp(x, [-1]), BinaryOp("add", x, y)],
        )
        return print_module(lowered(module))

    assert text() == text()


def test_what_cannot_be_lowered_is_listed_at_once():
    module = parse("""
func.func @main(%x: tensor<4x3xf32>, %z: tensor<2x2xcomplex<f32>>, %p: tensor<?x?xf32>)
    -> (tensor<4x3xf32>, tensor<2x2xcomplex<f32>>, tensor<f32>) {
  %kept = rlx.stop_gradient %x : tensor<4x3xf32>
  %0 = rlx.matmul %z, %z : (tensor<2x2xcomplex<f32>>, tensor<2x2xcomplex<f32>>) -> tensor<2x2xcomplex<f32>>
  %1 = rlx.activation relu %kept : tensor<4x3xf32>
  %d = rlx.det %p : tensor<?x?xf32> -> tensor<f32>
  func.return %1, %0, %d : tensor<4x3xf32>, tensor<2x2xcomplex<f32>>, tensor<f32>
}
""")
    with pytest.raises(LoweringError) as caught:
        LowerToLinalg().apply(rlx_context(), module)
    first, *problems = str(caught.value).splitlines()
    assert first == "2 operations cannot be lowered to linalg:"
    assert problems[0] == "  rlx.matmul: element type complex<f32>"
    assert problems[1].startswith("  rlx.det %d: ")


def test_a_decomposition_may_refuse():
    module = parse("""
func.func @main(%x: tensor<?x?xf32>) -> tensor<f32> {
  %out = rlx.det %x : tensor<?x?xf32> -> tensor<f32>
  func.return %out : tensor<f32>
}
""")
    with pytest.raises(LoweringError, match=r"rlx\.det %out: .*unknown extents"):
        LowerToLinalg().apply(rlx_context(), module)


def test_a_part_that_cannot_be_lowered_is_named_with_its_whole(monkeypatch: pytest.MonkeyPatch):
    def refuse(op: SoftmaxOp, _: object) -> None:
        raise NotLowered(f"no softmax over axis {op.axis_index}")

    get = LOWERINGS.get
    monkeypatch.setattr(LOWERINGS, "get", lambda op_type: refuse if op_type is SoftmaxOp else get(op_type))
    x, y = "tensor<1x2x3x4xf32>", "tensor<5x6xf32>"
    module = parse(f"""
func.func @main(%x: {x}, %y: {y}) -> ({x}, {y}) {{
  %seen = rlx.attention none %x, %x, %x {{num_heads = 2, head_dim = 4, layout = bhsd}} : ({x}, {x}, {x}) -> {x}
  %shares = rlx.softmax %y {{axis = 0}} : {y}
  func.return %seen, %shares : {x}, {y}
}}
""")
    with pytest.raises(LoweringError) as caught:
        LowerToLinalg().apply(rlx_context(), module)
    first, part, alone = str(caught.value).splitlines()
    assert first == "2 operations cannot be lowered to linalg:"
    assert part == "  rlx.softmax, a part of rlx.attention %seen: no softmax over axis 3"
    assert alone == "  rlx.softmax %shares: no softmax over axis 0"


def test_iree_opt_and_mlir_opt_agree_on_the_canonical_text():
    module = built({"x": "tensor<?x4xf32>", "w": "tensor<4x4xf32>"}, lambda x, w: [MatMulOp(x, w)])
    text = portable_text(lowered(module))
    mlir = toolchain.run("mlir-opt", ["-", "--canonicalize", "--mlir-print-op-generic"], text).decode()
    again = toolchain.run("mlir-opt", ["-", "--canonicalize", "--mlir-print-op-generic"], mlir).decode()
    assert again == mlir
    assert "linalg.matmul" in toolchain.run("iree-opt", ["-"], text).decode()
