"""Native kernels for extents that are known only when a graph runs: each combination is compiled when it comes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_close, parse
from on_cpu import lower
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_cpu.specialise import specialise
from rlx_dialect.runtime import native
from rlx_dialect.runtime.engine import BindingError
from rlx_dialect.runtime.native import NativeEngine, SpecialisedExecutable
from rlx_dialect.samples import random_values

LAYER = """
  !x = tensor<?x?x8xf32>
  func.func @main(%x: !x {rlx.input = "x"}, %y: tensor<?x8xf32> {rlx.input = "y"},
                  %w: tensor<8x8xf32> {rlx.param = "w"}) -> (!x, tensor<?x8xf32>) {
    %0 = rlx.matmul %x, %w : (!x, tensor<8x8xf32>) -> !x
    %1 = rlx.softmax %0 : !x
    %2 = rlx.reshape %1 {new_shape = [-1, 8]} : !x -> tensor<?x8xf32>
    %3 = rlx.binary add %2, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    func.return %1, %3 : !x, tensor<?x8xf32>
  }"""


def values(x: tuple[int, ...], y: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("x", x), ("y", y))}


@pytest.fixture
def layer() -> tuple[ModuleOp, SpecialisedExecutable, np.ndarray]:
    module = parse(LAYER)
    weight = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    executable = NativeEngine(1).compile(lower(module), {"w": weight})
    assert isinstance(executable, SpecialisedExecutable)
    return module, executable, weight


def test_each_combination_of_extents(
    layer: tuple[ModuleOp, SpecialisedExecutable, np.ndarray], monkeypatch: pytest.MonkeyPatch
):
    module, executable, weight = layer
    monkeypatch.setattr(native, "MOST_SHAPES", 2)
    compiled: list[ModuleOp] = []
    monkeypatch.setattr(native, "load", lambda kernels, load=native.load: compiled.append(kernels) or load(kernels))
    # Where one of two unknown extents turns out to be 1, it is broadcast, as the reference does.
    small, large, empty = (((2, 3, 8), (1, 8)), ((4, 5, 8), (20, 8)), ((0, 3, 8), (0, 8)))
    for shapes in (small, small, large, small, empty, small, large):
        inputs = values(*shapes)
        assert_close(executable.run(inputs), run_reference(module, {**inputs, "w": weight}))
    # Small and large; what nobody used for longest had to go, so large comes again. No elements need no kernels.
    assert len(compiled) == 3


def test_shapes_that_do_not_fit_are_told_by_name(layer: tuple[ModuleOp, SpecialisedExecutable, np.ndarray]):
    _, executable, _ = layer
    with pytest.raises(BindingError, match=r"input 'x' must be f32 of shape \?x\?x8, got float32 of shape 2x3x7"):
        executable.run(values((2, 3, 7), (6, 8)))
    message = "input 'x' of shape 2x3x8 and input 'y' of shape 5x8 cannot be taken: rlx.binary: shapes 6x8 and 5x8"
    with pytest.raises(BindingError, match=message):
        executable.run(values((2, 3, 8), (5, 8)))


def test_parameters_of_unknown_extents_and_missing_ones():
    module = parse("""
      func.func @main(%x: tensor<3xf32> {rlx.input = "x"}, %w: tensor<?x3xf32> {rlx.param = "w"}) -> tensor<?x3xf32> {
        %0 = rlx.binary mul %w, %x : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
        func.return %0 : tensor<?x3xf32>
      }""")
    with pytest.raises(BindingError, match=r"parameter 'w' is missing: expected f32 of shape \?x3"):
        NativeEngine(1).compile(lower(module), {})
    given = random_values(module, 0, dynamic=4)
    found = NativeEngine(1).compile(lower(module), given).run({"x": given["x"]})
    assert_close(found, run_reference(module, given))


def test_bodies_of_control_flow_learn_their_extents():
    module = parse("""
      !x = tensor<?xf32>
      !i = tensor<i1>
      func.func @main(%x: !x, %p: !i, %s: tensor<3x?xf32>) -> (!x, !x, !x) {
        %0 = rlx.if(%p, %x) : (!i, !x) -> !x {
        ^bb0(%a: !x):
          %t = rlx.activation exp %a : !x
          rlx.yield %t : !x
        } else {
        ^bb0(%a: !x):
          rlx.yield %a : !x
        }
        %1 = rlx.while(%x) {max_iterations = 4} : (!x) -> !x {
        ^bb0(%a: !x):
          %m = rlx.reduce max %a {axes = [0]} : !x -> tensor<f32>
          %c = rlx.constant dense<3.0> : tensor<f32>
          %h = rlx.compare lt %m, %c : (tensor<f32>, tensor<f32>) -> !i
          rlx.yield %h : !i
        } do {
        ^bb0(%a: !x):
          %t = rlx.binary add %a, %a : (!x, !x) -> !x
          rlx.yield %t : !x
        }
        %2 = rlx.scan(%x, %s) {length = 3} : (!x, tensor<3x?xf32>) -> !x {
        ^bb0(%a: !x, %b: !x):
          %t = rlx.binary mul %a, %b : (!x, !x) -> !x
          rlx.yield %t : !x
        }
        func.return %0, %1, %2 : !x, !x, !x
      }""")
    given = random_values(module, 0, dynamic=4)
    specialised = module.clone()
    specialise(main_function(specialised), [(4,), (), (3, 4)])
    specialised.verify()
    assert "?" not in str(specialised)
    assert_close(NativeEngine(1).compile(lower(module), {}).run(given), run_reference(module, given))


def test_what_has_no_kernel_is_an_error_when_it_is_called():
    module = parse("""
      func.func @main(%x: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {
        func.return %x : tensor<?xcomplex<f32>>
      }""")
    executable = NativeEngine(1).compile(lower(module), {})
    with pytest.raises(LoweringError, match="not yet lowered to native CPU kernels"):
        executable.run({"arg0": np.zeros(2, np.complex64)})
