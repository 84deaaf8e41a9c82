"""Shape operations and gather on a device."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_close, graph, parse
from on_device import check, dims, launches, run, tensor
from xdsl.dialects import memref

from rlx_dialect.interpreter import run_reference
from rlx_dialect.samples import random_values

MOVES = [
    ("rlx.reshape %x {new_shape = [6, 20]}", "2x3x4x5", "6x20"),
    ("rlx.transpose %x {perm = [2, 0, 1]}", "2x3x5", "5x2x3"),
    ("rlx.narrow %x {axis = 1, start = 1, len = 2}", "2x3x5", "2x2x5"),
    ("rlx.slice %x {axis = 2, start = 4, len = 3, step = -2}", "2x3x5", "2x3x3"),
    ("rlx.slice %x {axis = 0, start = 1, len = 3, step = 2}", "7x3", "3x3"),
    ("rlx.expand %x {shape = [4, 2, 3]}", "2x1", "4x2x3"),
    ("rlx.reverse %x {axes = [0, 2]}", "2x3x5", "2x3x5"),
    ("rlx.tile %x {reps = [2, 3]}", "2x5", "4x15"),
    ("rlx.roll %x {shifts = [1, -2], dims = [0, 1]}", "3x5", "3x5"),
    ("rlx.roll %x {shifts = [0], dims = [0]}", "3x5", "3x5"),
    ("rlx.pad %x {pads = [1, 0, 2, 3], value = 1.5}", "2x5", "5x8"),
    ("rlx.pad %x {pads = [-1, 2, 0, -1]}", "3x5", "2x6"),
    ("rlx.pad reflect %x {pads = [1, 2, 1, 3]}", "3x5", "5x10"),
    ("rlx.pad edge %x {pads = [2, 0, 0, 4]}", "3x5", "5x9"),
    ("rlx.pad wrap %x {pads = [3, 2, 1, 5]}", "3x5", "7x12"),
    ("rlx.trilu %x", "2x4x5", "2x4x5"),
    ("rlx.trilu %x {diagonal = 2}", "4x7", "4x7"),
    ("rlx.trilu %x {diagonal = -2}", "6x4", "6x4"),
    ("rlx.trilu %x {diagonal = 9000000000}", "3x4", "3x4"),
    ("rlx.trilu %x {diagonal = -9000000000}", "3x4", "3x4"),
    ("rlx.trilu %x {upper, diagonal = 9000000000}", "3x4", "3x4"),
    ("rlx.trilu %x {upper}", "2x4x5", "2x4x5"),
    ("rlx.trilu %x {upper, diagonal = -1}", "5x4", "5x4"),
    ("rlx.trilu %x {upper, diagonal = 3}", "5x4", "5x4"),
    ("rlx.resize_nearest_2x %x", "2x3x4x1", "2x3x8x2"),
    ("rlx.stop_gradient %x", "2x3", "2x3"),
]


@pytest.mark.parametrize(("operation", "source", "result"), MOVES)
@pytest.mark.parametrize("element", ["f32", "f16", "i1"])
def test_movement(operation: str, source: str, result: str, element: str):
    before, after = tensor(source, element), tensor(result, element)
    kept = any(name in operation for name in ("reverse", "roll", "trilu", "stop"))
    operation = operation.replace("value = 1.5", "value = 1.0") if element == "i1" else operation
    types = before if kept else f"{before} -> {after}"
    check(graph(f"%y = {operation} : {types}", f"%x: {before}", after, "%y"), rtol=0, atol=0)


def test_concat_and_cache():
    module = parse("""
      !a = tensor<2x3x4xf32>
      !b = tensor<2x1x4xf32>
      !c = tensor<2x2x4xf32>
      func.func @main(%a: !a, %b: !b, %c: !c)
          -> (tensor<2x6x4xf32>, tensor<2x3x8xf32>, !a) {
        %0 = rlx.concat %a, %b, %c {axis = 1} : (!a, !b, !c) -> tensor<2x6x4xf32>
        %1 = rlx.concat %a, %a {axis = 2} : (!a, !a) -> tensor<2x3x8xf32>
        %2 = rlx.kv_append %a, %c {axis = 1, pos = 1} : (!a, !c) -> !a
        func.return %0, %1, %2 : tensor<2x6x4xf32>, tensor<2x3x8xf32>, !a
      }""")
    check(module, rtol=0, atol=0)


def test_concatenated_slices_of_one_value_are_copied_together():
    x, part = "tensor<2x4x3xf32>", "tensor<2x1x3xf32>"
    heads = [f"%h{i} = rlx.narrow %x {{axis = 1, start = {i}, len = 1}} : {x} -> {part}" for i in range(4)]
    order = [0, 0, 0, 2, 2, 2, 3, 2, 1, 0, 3, 1]
    names, types = ", ".join(f"%h{i}" for i in order), ", ".join([part] * len(order))
    body = "\n".join([*heads, f"%y = rlx.concat {names} {{axis = 1}} : ({types}) -> tensor<2x12x3xf32>"])
    lowered = check(graph(body, f"%x: {x}", "tensor<2x12x3xf32>", "%y"), rtol=0, atol=0)
    assert launches(lowered) == 1
    # 0 0 0, 2 2 2, 3 2 1 0, 3 1.
    assert sum(isinstance(op, memref.StoreOp) for op in lowered.walk()) == 4


def test_views_cost_no_kernel_and_are_read_by_every_schedule():
    module = parse("""
      func.func @main(%x: tensor<4x6xf32>) -> (tensor<6x4xf32>, tensor<6xf32>, tensor<3x4xf32>) {
        %t = rlx.transpose %x {perm = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>
        %0 = rlx.activation tanh %t : tensor<6x4xf32>
        %1 = rlx.reduce sum %t {axes = [1]} : tensor<6x4xf32> -> tensor<6xf32>
        %r = rlx.reshape %t {new_shape = [3, 2, 4]} : tensor<6x4xf32> -> tensor<3x2x4xf32>
        %n = rlx.narrow %r {axis = 1, start = 1, len = 1} : tensor<3x2x4xf32> -> tensor<3x1x4xf32>
        %f = rlx.reshape %n {new_shape = [3, 4]} : tensor<3x1x4xf32> -> tensor<3x4xf32>
        %2 = rlx.softmax %f : tensor<3x4xf32>
        func.return %0, %1, %2 : tensor<6x4xf32>, tensor<6xf32>, tensor<3x4xf32>
      }""")
    assert launches(check(module)) == 3


def test_a_reshape_that_strides_cannot_say_is_copied():
    body = """%t = rlx.transpose %x {perm = [1, 0]} : tensor<4x6xf32> -> tensor<6x4xf32>
              %y = rlx.reshape %t {new_shape = [24]} : tensor<6x4xf32> -> tensor<24xf32>"""
    assert launches(check(graph(body, "%x: tensor<4x6xf32>", "tensor<24xf32>", "%y"))) == 1


@pytest.mark.parametrize(
    ("table", "indices", "axis", "result"),
    [
        ("7x5", "2x3", 0, "2x3x5"),
        ("4x7x5", "3", 1, "4x3x5"),
        ("4x7", "2x1", 1, "4x2x1"),
        ("7", "", 0, ""),
        ("2x7x3x5", "4", 1, "2x4x3x5"),
    ],
)
@pytest.mark.parametrize("element", ["i32", "i64", "ui32"])
def test_gather(table: str, indices: str, axis: int, result: str, element: str):
    attribute = f" {{axis = {axis}}}" if axis else ""
    types = f"({tensor(table)}, {tensor(indices, element)}) -> {tensor(result)}"
    arguments = f"%t: {tensor(table)}, %i: {tensor(indices, element)}"
    module = graph(f"%y = rlx.gather %t, %i{attribute} : {types}", arguments, tensor(result), "%y")
    values = random_values(module)
    rng = np.random.default_rng(0)
    low = 0 if element == "ui32" else -7
    values["arg1"] = rng.integers(low, 7, dims(indices)).astype(values["arg1"].dtype)
    assert_close(run(module, values), run_reference(module, values), rtol=0, atol=0)
