"""Extents that are known only when a graph runs: one compiled module serves all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers import assert_close, parse
from on_device import lower
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.runtime.engine import BindingError
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values


def check(module: ModuleOp, sizes: Sequence[int], *, atol: float = 2e-6) -> None:
    """One compiled module gives what the reference gives for each size of all unknown extents."""
    weights = random_values(module, 0)
    executable = WgpuEngine().compile(lower(module), weights)
    for size in sizes:
        values = random_values(module, size, dynamic=size)
        inputs = {a.name: values[a.name] for a in arguments(main_function(module)) if a.kind == "input"}
        params = {a.name: weights[a.name] for a in arguments(main_function(module)) if a.kind == "param"}
        assert_close(executable.run(inputs), run_reference(module, inputs | params), atol=atol)


def test_maps_and_rows():
    module = parse("""
      !x = tensor<?x3x?xf32>
      !v = tensor<?x3xf32>
      func.func @main(%x: !x, %y: !x, %g: tensor<?xf32>, %z: tensor<?x1x1xf32>)
          -> (!x, !x, !x, !v, !v, !v, tensor<?xf32>, !x, !x) {
        %0 = rlx.binary add %x, %y : (!x, !x) -> !x
        %1 = rlx.binary mul %0, %z : (!x, tensor<?x1x1xf32>) -> !x
        %2 = rlx.softmax %1 : !x
        %3 = rlx.reduce sum %0 {axes = [2]} : !x -> !v
        %4 = rlx.reduce max %0 {axes = [2]} : !x -> !v
        %5 = rlx.reduce mean %0 {axes = [2]} : !x -> !v
        %6 = rlx.reduce min %0 {axes = [0, 1]} : !x -> tensor<?xf32>
        %7 = rlx.layer_norm %0, %g, %g {eps = 1.0e-5} : (!x, tensor<?xf32>, tensor<?xf32>) -> !x
        %8 = rlx.softmax %0 {axis = 0} : !x
        func.return %0, %1, %2, %3, %4, %5, %6, %7, %8 : !x, !x, !x, !v, !v, !v, tensor<?xf32>, !x, !x
      }""")
    with np.errstate(all="ignore"):
        check(module, [5, 1, 300, 0, 5], atol=1e-5)


def test_products_and_movement():
    module = parse("""
      !x = tensor<?x?x70xf32>
      !y = tensor<?x?x20xf32>
      !t = tensor<20x?x?xf32>
      !f = tensor<?x20xf32>
      !s = tensor<?x?x?xf32>
      func.func @main(%x: !x, %z: !x, %w: tensor<70x20xf32> {rlx.param = "w"}, %b: tensor<20xf32> {rlx.param = "b"})
          -> (!y, !t, !f, !s, tensor<?x?x40xf32>, tensor<?x?x24xf32>, !y, tensor<?x?x60xf32>, tensor<?x20xf32>) {
        %0 = rlx.fused_matmul_bias_act gelu %x, %w, %b : (!x, tensor<70x20xf32>, tensor<20xf32>) -> !y
        %1 = rlx.transpose %0 {perm = [2, 0, 1]} : !y -> !t
        %2 = rlx.reshape %0 {new_shape = [-1, 20]} : !y -> !f
        %3 = rlx.transpose %z {perm = [0, 2, 1]} : !x -> tensor<?x70x?xf32>
        %4 = rlx.matmul %x, %3 : (!x, tensor<?x70x?xf32>) -> !s
        %5 = rlx.concat %0, %0 {axis = 2} : (!y, !y) -> tensor<?x?x40xf32>
        %6 = rlx.pad %0 {pads = [0, 0, 1, 0, 0, 3], value = 0.5} : !y -> tensor<?x?x24xf32>
        %7 = rlx.reverse %0 {axes = [1]} : !y -> !y
        %8 = rlx.tile %0 {reps = [1, 1, 3]} : !y -> tensor<?x?x60xf32>
        %9 = rlx.concat %2, %2 {axis = 0} : (!f, !f) -> tensor<?x20xf32>
        func.return %0, %1, %2, %4, %5, %6, %7, %8, %9
          : !y, !t, !f, !s, tensor<?x?x40xf32>, tensor<?x?x24xf32>, !y, tensor<?x?x60xf32>, tensor<?x20xf32>
      }""")
    check(module, [5, 1, 0, 33], atol=1e-4)


def test_extents_that_a_graph_needs_equal_are_checked():
    module = parse("""
      !x = tensor<?x3xf32>
      func.func @main(%x: !x, %y: !x, %s: tensor<?xf32>) -> (!x, !x, tensor<2x3xf32>) {
        %0 = rlx.binary add %x, %y : (!x, !x) -> !x
        %c = rlx.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
        %1 = rlx.binary mul %s, %c : (tensor<?xf32>, tensor<3xf32>) -> tensor<3xf32>
        %2 = rlx.binary mul %0, %1 : (!x, tensor<3xf32>) -> !x
        %3 = rlx.narrow %0 {axis = 0, start = 1, len = 2} : !x -> tensor<2x3xf32>
        func.return %0, %2, %3 : !x, !x, tensor<2x3xf32>
      }""")
    executable = WgpuEngine().compile(lower(module), {})

    def values(rows: int, others: int, stretched: int) -> dict[str, np.ndarray]:
        shapes = {"arg0": (rows, 3), "arg1": (others, 3), "arg2": (stretched,)}
        return {n: np.random.default_rng(1).standard_normal(s).astype(np.float32) for n, s in shapes.items()}

    for stretched in (1, 3):
        given = values(4, 4, stretched)
        assert_close(executable.run(given), run_reference(module, given))
    for sizes, message in (
        ((4, 5, 3), "extents d0.0 and d1.0 must be equal"),
        ((4, 4, 2), "an extent must be 1 or 3"),
        ((2, 2, 3), "position 3 is beyond extent d0.0"),
    ):
        with pytest.raises(BindingError, match=message):
            executable.run(values(*sizes))


def test_extents_that_have_to_be_larger_are_checked():
    module = parse("""
      !x = tensor<?x?xi64>
      !c = tensor<3x?xf32>
      !d = tensor<1x9xf32>
      func.func @main(%x: !x, %i: !x, %u: !x, %c: !c, %n: !c, %d: !d, %m: tensor<1x?xf32>) -> (!x, !x, !c, !d) {
        %0 = rlx.gather_elements %x, %i {axis = 0} : (!x, !x) -> !x
        %1 = rlx.scatter_elements add %x, %i, %u {axis = 0} : (!x, !x, !x) -> !x
        %2 = rlx.kv_append %c, %n {axis = 1, pos = 200} : (!c, !c) -> !c
        %3 = rlx.kv_append %d, %m {axis = 1, pos = 3} : (!d, tensor<1x?xf32>) -> !d
        func.return %0, %1, %2, %3 : !x, !x, !c, !d
      }""")
    executable = WgpuEngine().compile(lower(module), {})

    def values(wide: int, narrow: int, long: int, short: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        index = rng.integers(-4, 4, (7, narrow))
        shapes = {"arg3": (3, long), "arg4": (3, short), "arg5": (1, 9), "arg6": (1, short)}
        caches = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        return {"arg0": rng.integers(0, 9, (4, wide)), "arg1": index, "arg2": index, **caches}

    for given in (values(6, 5, 209, 3), values(3, 3, 205, 5), values(2, 0, 201, 1)):
        assert_close(executable.run(given), run_reference(module, given))
    with pytest.raises(BindingError, match=r"rlx.gather_elements: extent d0.1 must be at least d1.1"):
        executable.run(values(5, 6, 209, 3))
    with pytest.raises(BindingError, match=r"rlx.kv_append: extent d3.1 must be at least d4.1 \+ 200"):
        executable.run(values(6, 5, 205, 6))
    with pytest.raises(BindingError, match=r"rlx.kv_append: extent d6.1 must be at most 6"):
        executable.run(values(6, 5, 209, 7))


def test_what_is_added_to_a_convolution_has_its_extents():
    module = parse("""
      !x = tensor<?x4x?x?xf32>
      !w = tensor<4x4x3x3xf32>
      !b = tensor<4xf32>
      func.func @main(%x: !x, %r: !x, %w: !w, %v: tensor<4x4x1x1xf32>, %b: !b) -> (!x, !x) {
        %0 = rlx.conv %x, %v {kernel_size = [1, 1], stride = [2, 2]} : (!x, tensor<4x4x1x1xf32>) -> !x
        %1 = rlx.fused_conv_bias_act relu %x, %w, %b, %0 {kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]}
          : (!x, !w, !b, !x) -> !x
        %2 = rlx.fused_conv_bias_act %x, %w, %b, %r {kernel_size = [3, 3], stride = [1, 2]} : (!x, !w, !b, !x) -> !x
        func.return %1, %2 : !x, !x
      }""")
    executable = WgpuEngine().compile(lower(module), {})
    given = random_values(module)
    for high, wide, added in ((7, 8, (5, 3)), (3, 5, (1, 2)), (6, 7, (3, 3))):
        rng = np.random.default_rng(high)
        shapes = {"arg0": (2, 4, high, wide), "arg1": (2, 4, *added)}
        given |= {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        if added[0] == high - 2:
            assert_close(executable.run(given), run_reference(module, given), atol=1e-5)
        else:
            with pytest.raises(BindingError, match=r"rlx\.fused_conv_bias_act: extents"):
                executable.run(given)


def test_more_unknown_extents_than_numbers_to_ask_with():
    module = parse("""
      !x = tensor<?x?x?xf32>
      func.func @main(%a: !x, %b: !x, %c: !x, %d: !x) -> !x {
        %0 = rlx.concat %a, %b, %c, %d {axis = 1} : (!x, !x, !x, !x) -> !x
        func.return %0 : !x
      }""")
    check(module, [3, 5])


def test_many_sizes_share_the_parameters_and_old_ones_make_room():
    module = parse("""
      func.func @main(%x: tensor<?x3xf32>, %w: tensor<3xf32> {rlx.param = "w"}) -> tensor<?x3xf32> {
        %0 = rlx.binary mul %x, %w : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
        func.return %0 : tensor<?x3xf32>
      }""")
    check(module, [*range(1, 12), 3, 12, 1])
