"""Regions: their bodies against NumPy written out, and against what they decompose to."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_close, assert_round_trip, assert_same_meaning, decomposed, graph
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp
from rlx_dialect.ops.region import (
    BatchElementwiseRegionOp,
    ElementwiseRegionOp,
    TransformRegionOp,
    YieldOp,
    with_operands,
)
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import VerifyException


def region(operands: dict[str, str], body: str, yielded: str, result: str, prologue: str = "") -> ModuleOp:
    """A module of one region: operand types by the name of the body's argument, body text, ``%value : type``."""
    names = [f"%a{i}" for i in range(len(operands))]
    types = list(operands.values())
    scalars = ", ".join(f"%{n}: {t.removesuffix('>').split('x')[-1].split('<')[-1]}" for n, t in operands.items())
    return graph(
        f"%y = rlx.elementwise_region({', '.join(names)}){prologue} : ({', '.join(types)}) -> {result} {{\n"
        f"^bb0({scalars}):\n{body}\nrlx.yield {yielded}\n}}",
        ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True)),
        result,
        "%y",
    )


def run(module: ModuleOp, *values: Array) -> Array:
    return run_reference(module, {f"arg{i}": v for i, v in enumerate(values)})[0]


def assert_is_its_decomposition(module: ModuleOp, name: str = "rlx.elementwise_region") -> ModuleOp:
    assert_round_trip(module)
    flat = decomposed(module, name)
    assert_same_meaning(module, flat, rtol=0, atol=0)
    return flat


def test_operands_broadcast_like_numpy():
    module = region(
        {"s": "tensor<2x1x5xf32>", "t": "tensor<4x1xf32>", "u": "tensor<f32>"},
        "%v = rlx.binary add %s, %t : (f32, f32) -> f32\n%w = rlx.binary mul %v, %u : (f32, f32) -> f32",
        "%w : f32",
        "tensor<2x4x5xf32>",
    )
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((2, 1, 5), (4, 1), ()))
    assert_close([run(module, a, b, c)], [(a + b) * c])
    assert_is_its_decomposition(module)


def test_a_value_is_used_twice_and_types_change_on_the_way():
    module = region(
        {"x": "tensor<3x4xf32>", "n": "tensor<4xi32>"},
        "%m = rlx.cast %n : i32 -> f32\n"
        "%p = rlx.binary mul %x, %x : (f32, f32) -> f32\n"
        "%q = rlx.binary sub %p, %m : (f32, f32) -> f32\n"
        "%c = rlx.compare lt %q, %p : (f32, f32) -> i1\n"
        "%r = rlx.clamp %q {min = -2.0, max = 2.0} : f32\n"
        "%w = rlx.where %c, %r, %p : (i1, f32, f32) -> f32",
        "%w : f32",
        "tensor<3x4xf32>",
    )
    x, n = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32), np.array([0, 1, -2, 3], np.int32)
    q = x * x - n.astype(np.float32)
    assert_close([run(module, x, n)], [np.where(q < x * x, np.clip(q, -2, 2), x * x)])
    assert_is_its_decomposition(module)


def test_truth_values_are_a_result():
    module = region(
        {"x": "tensor<2x3xf32>", "y": "tensor<3xf32>"},
        "%c = rlx.compare ge %x, %y : (f32, f32) -> i1",
        "%c : i1",
        "tensor<2x3xi1>",
    )
    x, y = np.array([[1, 2, np.nan], [3, 0, 5]], np.float32), np.array([1, 1, 5], np.float32)
    assert_close([run(module, x, y)], [x >= y])
    assert_is_its_decomposition(module)


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_each_step_is_rounded_to_its_type(type: str):
    module = region(
        {"x": f"tensor<64x{type}>", "y": f"tensor<64x{type}>"},
        f"%p = rlx.binary mul %x, %y : ({type}, {type}) -> {type}\n"
        f"%q = rlx.binary add %p, %x : ({type}, {type}) -> {type}",
        f"%q : {type}",
        f"tensor<64x{type}>",
    )
    flat = assert_is_its_decomposition(module)
    assert [op.name for op in flat.walk() if op.name.startswith("rlx.")] == ["rlx.binary", "rlx.binary"]
    if type == "f16":
        x, y = (np.random.default_rng(s).standard_normal(64).astype(np.float16) for s in (0, 1))
        product = (x.astype(np.float32) * y.astype(np.float32)).astype(np.float16)
        chain = (product.astype(np.float32) + x.astype(np.float32)).astype(np.float16)
        at_once = (x.astype(np.float32) * y.astype(np.float32) + x.astype(np.float32)).astype(np.float16)
        assert (chain != at_once).any()
        assert_close([run(module, x, y)], [chain], rtol=0, atol=0)


@pytest.mark.parametrize("extent", ["4", "?"])
def test_an_operand_that_the_body_leaves_unused_still_broadcasts(extent: str):
    module = region(
        {"x": "tensor<3xf32>", "unused": f"tensor<{extent}x1xi32>"},
        "%v = rlx.activation neg %x : f32",
        "%v : f32",
        f"tensor<{extent}x3xf32>",
    )
    x = np.array([1, -2, 3], np.float32)
    assert_close([run(module, x, np.zeros((4, 1), np.int32))], [np.broadcast_to(-x, (4, 3))])
    assert_is_its_decomposition(module)


@pytest.mark.parametrize(
    "body", ["", "%v = rlx.activation neg %x : f32", "%v = rlx.binary add %x, %y : (f32, f32) -> f32"]
)
def test_unknown_extents_that_look_alike_may_differ(body: str):
    """The type of what is yielded says nothing about whether the other operand stretches it."""
    dynamic = "tensor<?xf32>"
    lines = f"{body}\n%u = rlx.activation abs %x : f32"
    module = region({"x": dynamic, "y": dynamic}, lines, "%u : f32", dynamic)
    x, y = np.array([-2], np.float32), np.zeros(4, np.float32)
    flat = decomposed(module, "rlx.elementwise_region")
    assert_close([run(module, x, y), run(flat, x, y)], [np.full(4, 2, np.float32)] * 2)


def test_the_body_may_yield_an_argument():
    module = region({"x": "tensor<3x1xf32>", "y": "tensor<?xf32>"}, "", "%x : f32", "tensor<3x?xf32>")
    x, y = np.array([[1], [2], [3]], np.float32), np.zeros(5, np.float32)
    assert_close([run(module, x, y)], [np.broadcast_to(x, (3, 5))])
    assert_is_its_decomposition(module)
    same = region({"x": "tensor<3x1xf32>"}, "", "%x : f32", "tensor<3x1xf32>")
    assert [op.name for op in decomposed(same, "rlx.elementwise_region").walk() if op.name.startswith("rlx.")] == []


def test_a_result_type_that_knows_more_than_the_operands_survives_decomposition():
    module = region({"x": "tensor<?x3xf32>"}, "%v = rlx.activation neg %x : f32", "%v : f32", "tensor<5x3xf32>")
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    assert_close([run(decomposed(module, "rlx.elementwise_region"), x)], [-x])
    argument = region({"x": "tensor<?x3xf32>"}, "", "%x : f32", "tensor<5x3xf32>")
    assert_close([run(decomposed(argument, "rlx.elementwise_region"), x)], [x])


def doubled(x: Array) -> Array:
    return np.kron(x, np.ones((1, 1, 2, 2), x.dtype))


def test_prologue_reads_operand_0_at_half_resolution():
    module = region(
        {"x": "tensor<1x3x2x5xf32>", "s": "tensor<3x1x1xf32>", "y": "tensor<2x3x4x10xf32>"},
        "%p = rlx.binary mul %x, %s : (f32, f32) -> f32\n%q = rlx.binary add %p, %y : (f32, f32) -> f32",
        "%q : f32",
        "tensor<2x3x4x10xf32>",
        ' {prologue = "resize_nearest_2x"}',
    )
    rng = np.random.default_rng(2)
    x, s, y = (rng.standard_normal(n).astype(np.float32) for n in ((1, 3, 2, 5), (3, 1, 1), (2, 3, 4, 10)))
    assert_close([run(module, x, s, y)], [doubled(x) * s + y])
    flat = assert_is_its_decomposition(module)
    assert [op.name for op in flat.walk()].count("rlx.resize_nearest_2x") == 1


def batch(slices: list[str], result: str, prologue: str = "") -> ModuleOp:
    names = [f"%a{i}" for i in range(len(slices))]
    return graph(
        f"%y = rlx.batch_elementwise_region({', '.join(names)}){prologue} : ({', '.join(slices)}) -> {result} {{\n"
        "^bb0(%x: f32):\n%v = rlx.activation silu %x : f32\n%w = rlx.cast %v : f32 -> f64\nrlx.yield %w : f64\n}",
        ", ".join(f"{n}: {t}" for n, t in zip(names, slices, strict=True)),
        result,
        "%y",
    )


def silu(x: Array) -> Array:
    return (x / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("shapes", [[(1, 3, 4, 2), (1, 3, 4, 2)], [(2, 5), (1, 5), (3, 5)], [(4,)]])
def test_batch_region_is_one_body_on_every_slice(shapes: list[tuple[int, ...]]):
    types = [f"tensor<{'x'.join(map(str, s))}xf32>" for s in shapes]
    rows, rest = sum(s[0] for s in shapes), shapes[0][1:]
    module = batch(types, f"tensor<{'x'.join(map(str, (rows, *rest)))}xf64>")
    values = [np.random.default_rng(i).standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)]
    assert_close([run(module, *values)], [silu(np.concatenate(values))], rtol=1e-6)
    flat = assert_is_its_decomposition(module, "rlx.batch_elementwise_region")
    assert [op.name for op in flat.walk()].count("rlx.elementwise_region") == len(shapes)


def test_batch_region_with_a_prologue_and_a_dynamic_slice():
    module = batch(
        ["tensor<1x2x3x1xf32>", "tensor<?x2x3x1xf32>"], "tensor<?x2x6x2xf64>", ' {prologue = "resize_nearest_2x"}'
    )
    values = [np.random.default_rng(i).standard_normal((i + 1, 2, 3, 1)).astype(np.float32) for i in range(2)]
    assert_close([run(module, *values)], [silu(doubled(np.concatenate(values)))], rtol=1e-6)
    assert_is_its_decomposition(module, "rlx.batch_elementwise_region")


@pytest.mark.parametrize("steps", [1, 2])
def test_transform_region_doubles_once_a_step(steps: int):
    words = ", ".join(['"resize_nearest_2x"'] * steps)
    source, target = "tensor<2x3x?x5xbf16>", f"tensor<2x3x?x{5 * 2**steps}xbf16>"
    module = graph(
        f"%y = rlx.transform_region %x {{steps = [{words}]}} : {source} -> {target}", f"%x: {source}", target, "%y"
    )
    values = random_values(module)
    expected = values["arg0"]
    for _ in range(steps):
        expected = doubled(expected)
    assert_close(run_reference(module, values), [expected], rtol=0, atol=0)
    assert_is_its_decomposition(module, "rlx.transform_region")


# Python API.


def test_a_region_is_built_from_tensor_operations():
    """What the fusion pass does: the operations of a chain move into a body, and their type follows."""
    block = Block(arg_types=[TensorType(f32, (4, 8)), TensorType(f32, (8,))])
    chain = [add := BinaryOp("add", *block.args), cast := CastOp(add, f16), ActivationOp("relu", cast)]
    body = ElementwiseRegionOp.empty_body([f32, f32])
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, body.block.args, strict=True))
    for op in chain:
        inner = with_operands(op, [values[o] for o in op.operands])
        body.block.add_op(inner)
        values[op.results[0]] = inner.results[0]
    body.block.add_op(YieldOp(values[chain[-1].results[0]]))
    op = ElementwiseRegionOp(block.args, body)
    block.add_op(op)
    op.verify()
    assert [type(s) for s in op.steps()] == [BinaryOp, CastOp, ActivationOp]
    assert op.yielded is op.steps()[-1].results[0]
    assert op.result.type == TensorType(f16, (4, 8))
    back = with_operands(op.steps()[1], [block.args[1]])
    assert back.results[0].type == TensorType(f16, (8,))


def test_builders_infer_and_refuse():
    image = Block(arg_types=[TensorType(f32, (1, 2, 3, 5))]).args[0]
    assert TransformRegionOp(image, ["resize_nearest_2x"] * 2).result.type == TensorType(f32, (1, 2, 12, 20))
    body = BatchElementwiseRegionOp.empty_body([f32])
    body.block.add_op(YieldOp(body.block.args[0]))
    assert BatchElementwiseRegionOp([image, image], body).result.type == TensorType(f32, (2, 2, 3, 5))
    with pytest.raises(VerifyException, match=r"'rlx.elementwise_region': the body must end with rlx.yield"):
        ElementwiseRegionOp([image], Region(Block(arg_types=[f32])))
    with pytest.raises(VerifyException, match=r"a tensor of rank 4 \(NCHW\) expected, got 3x5"):
        TransformRegionOp(Block(arg_types=[TensorType(f32, (3, 5))]).args[0])
