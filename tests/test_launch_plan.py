"""A launch plan as JSON holds all that a host needs: one written here runs it with NumPy in the place of kernels."""

from __future__ import annotations

import io
import json
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from helpers import parse
from on_device import lower
from test_cuda import KERNELS
from test_spirv import kernel
from test_wgpu import VECTOR, X, chain, host

from rlx_dialect.runtime.launch_plan import launch_plans
from rlx_dialect.runtime.plan_json import plan_json
from rlx_dialect.runtime.targets import LaunchPlanTarget
from rlx_dialect.xdsl_compat import rlx_context


def run(plan: dict[str, Any], inputs: dict[str, np.ndarray], params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the documentation of the format says, for f32."""
    memory = [np.full(b["bytes"] // 4, np.nan, np.float32) for b in plan["buffers"]]
    for constant in plan["constants"]:
        memory[constant["buffer"]][:] = np.frombuffer(b64decode(constant["base64"]), np.float32)
    for group, values in (("parameters", params), ("inputs", inputs)):
        for slot in plan[group]:
            memory[slot["buffer"]][:] = values[slot["name"]].ravel()
    for launch in [*plan["setup"], *plan["launches"]]:
        KERNELS[launch["kernel"]]([memory[b] for b in launch["buffers"]])
    return {slot["name"]: memory[slot["buffer"]].reshape(slot["shape"]) for slot in plan["outputs"]}


def test_a_host_can_run_the_plan():
    plan = json.loads(plan_json(chain()))
    results = run(plan, {"x": X}, {})
    np.testing.assert_allclose(results["out0"], -(X**4), rtol=1e-6)
    np.testing.assert_allclose(results["out1"], -(X**2), rtol=1e-6)


def test_grids_workgroups_and_bytes():
    plan = json.loads(plan_json(chain()))
    assert plan["version"] == 1
    assert [launch["kernel"] for launch in plan["launches"]] == ["square", "negate", "square", "negate"]
    for launch in plan["launches"]:
        assert (launch["grid"], launch["workgroup"]) == ([1, 1, 1], [8, 1, 1])
        assert (launch["bytes_read"], launch["bytes_written"]) == (32, 32)
    assert (plan["bytes_moved"], plan["least_bytes"]) == (256, 96)


def test_lifetimes_of_buffers():
    plan = json.loads(plan_json(chain()))
    (x,) = plan["inputs"]
    d, b = plan["outputs"]
    spans = [(buffer["first"], buffer["last"]) for buffer in plan["buffers"]]
    assert spans[x["buffer"]] == (0, 0)
    assert spans[b["buffer"]] == (1, 4)
    assert spans[d["buffer"]] == (3, 4)
    # What is left is scratch, used twice.
    (scratch,) = set(range(4)) - {x["buffer"], b["buffer"], d["buffer"]}
    assert spans[scratch] == (0, 3)
    assert all(buffer["bytes"] == 32 for buffer in plan["buffers"])


def test_parameters_constants_and_stored_types():
    module = parse("""
      func.func @main(%x: tensor<2xf32> {rlx.input = "x"}, %w: tensor<2xf32> {rlx.param = "w"}, %m: tensor<2xi1>)
          -> (tensor<2xf32>, tensor<2xi1>) {
        %c = rlx.constant dense<[1.0, -2.5]> : tensor<2xf32>
        %0 = rlx.fma %x, %w, %c : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        func.return %0, %m : tensor<2xf32>, tensor<2xi1>
      }""")
    plan = json.loads(plan_json(lower(module)))
    assert [slot["name"] for slot in plan["parameters"]] == ["w"]
    (constant,) = plan["constants"]
    np.testing.assert_array_equal(np.frombuffer(b64decode(constant["base64"]), np.float32), [1.0, -2.5])
    mask = plan["inputs"][1]
    assert (mask["type"], mask["stored"], mask["shape"]) == ("i1", "i32", [2])
    assert plan["outputs"][1]["buffer"] == mask["buffer"]
    # There for the next call.
    for place in (constant["buffer"], plan["parameters"][0]["buffer"]):
        assert (plan["buffers"][place]["first"], plan["buffers"][place]["last"]) == (0, 1)


def test_launches_at_load_time_are_apart():
    double = kernel("f32", "%y = arith.addf %x, %x : f32", name="double")
    body = "%a = memref.alloc() {rlx.load_time} : memref<8xf32>\nLAUNCH double (%w, %a)"
    body += "\n%b = memref.alloc() : memref<8xf32>\nLAUNCH double (%a, %b)"
    module = host(body, f'%w: {VECTOR} {{rlx.param = "w"}}', VECTOR, "%b", double)
    first = next(op for op in module.walk() if op.name == "gpu.launch_func")
    first.attributes["rlx.load_time"] = parse("builtin.module attributes {u} {}").attributes["u"]
    plan = json.loads(plan_json(module))
    assert [len(plan[group]) for group in ("setup", "launches")] == [1, 1]
    np.testing.assert_array_equal(run(plan, {}, {"w": X})["out0"], 4 * X)


def number(formula: int | str, extents: dict[str, int]) -> int:
    """What the documentation of the format says of formulas."""
    names = {"div": lambda a, b: a // b, "min": min, **extents}
    return formula if isinstance(formula, int) else eval(formula, {}, names)


@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (5, 70), (300, 128)])
def test_unknown_extents_are_formulas(rows: int, keys: int):
    """They give what the engines compute."""
    module = lower(
        parse("""
          func.func @main(%x: tensor<?x96xf32> {rlx.input = "x"}, %w: tensor<?x96xf32> {rlx.param = "w"},
              %m: tensor<?xi1> {rlx.input = "m"}) -> (tensor<?x?xf32>, tensor<?xi1>) {
            %t = rlx.transpose %w {perm = [1, 0]} : (tensor<?x96xf32>) -> tensor<96x?xf32>
            %s = rlx.matmul %x, %t : (tensor<?x96xf32>, tensor<96x?xf32>) -> tensor<?x?xf32>
            %p = rlx.softmax %s {axis = 1} : (tensor<?x?xf32>) -> tensor<?x?xf32>
            %r = rlx.where %m, %p, %s : (tensor<?xi1>, tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
            func.return %r, %m : tensor<?x?xf32>, tensor<?xi1>
          }"""),
        "cuda",
    )
    plan = json.loads(plan_json(module))
    assert [(e["name"], e["of"], e["axis"]) for e in plan["extents"]] == [
        ("d0_0", "x", 0), ("d1_0", "w", 0), ("d2_0", "m", 0)
    ]  # fmt: skip
    extents = {"d0_0": rows, "d1_0": keys, "d2_0": keys}
    assert plan["inputs"][0]["shape"] == ["d0_0", 96]
    plans = launch_plans(module)
    made = plans.at(plans.extents([(keys, 96)], [(rows, 96), (keys,)]))

    def at(formulas: list[int | str]) -> list[int]:
        return [number(f, extents) for f in formulas]

    assert [(launch["kernel"], at(launch["grid"])) for launch in plan["launches"]] == [
        (launch.kernel, list(launch.groups)) for launch in made.launches
    ]
    assert [at(slot["shape"]) for slot in plan["outputs"]] == [[rows, keys], [keys]]
    sizes = at([buffer["bytes"] for buffer in plan["buffers"]])
    for group, buffers in (("inputs", made.inputs), ("parameters", made.params), ("outputs", made.outputs)):
        assert [sizes[slot["buffer"]] for slot in plan[group]] == [made.sizes[b] for b in buffers]
    told = [at(entry["values"]) for entry in plan["told"]]
    assert sorted(told) == sorted(value.tolist() for b, value in made.constants.items() if value.dtype == np.int64)
    assert told


def test_a_host_checks_what_extents_must_be():
    module = parse("""
      func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
        %0 = rlx.concat %x, %y {axis = 0} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        %1 = rlx.narrow %0 {axis = 0, start = 2, len = 5} : (tensor<?xf32>) -> tensor<5xf32>
        %2 = rlx.binary add %1, %x : (tensor<5xf32>, tensor<?xf32>) -> tensor<?xf32>
        func.return %2 : tensor<?xf32>
      }""")
    plan = json.loads(plan_json(lower(module)))
    for x, y, fine in ((5, 2, True), (5, 1, False), (4, 9, False)):
        extents = {"d0_0": x, "d1_0": y}
        held = [
            (number(c["left"], extents) == number(c["right"], extents))
            if c["is"] == "equal"
            else number(c["left"], extents) >= number(c["right"], extents)
            for c in plan["checks"]
        ]
        assert all(held) == fine, plan["checks"]
        assert all(c["else"] for c in plan["checks"])


def test_the_target_writes_it():
    output = io.StringIO()
    LaunchPlanTarget().emit(rlx_context(), chain(), output)
    assert output.getvalue() == plan_json(chain()) + "\n"
