"""StableHLO run by XLA's CPU client: whole graphs, unknown extents, edge values, and graphs split over devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_close, op_module, parse
from op_cases import one_each
from test_onnx_models import magika
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind
from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, round_to, storage_dtype
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_stablehlo import LowerToStablehlo
from rlx_dialect.ops.elementwise import (
    BITWISE,
    INTEGER_ACTIVATIONS,
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    FmaOp,
)
from rlx_dialect.pipelines.named import run_named
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.runtime import xla
from rlx_dialect.runtime.engine import BindingError
from rlx_dialect.runtime.rlx_run import compile_for, random_inputs
from rlx_dialect.runtime.toolchain import ToolMissing
from rlx_dialect.runtime.tpu import compile_ahead
from rlx_dialect.runtime.xla import XlaEngine, XlaError, XlaExecutable
from rlx_dialect.samples import EDGES
from rlx_dialect.weights import random_weights
from rlx_dialect.xdsl_compat import InterpretationError, rlx_context

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.mlir"))


def lowered(module: ModuleOp, precision: str = "highest") -> ModuleOp:
    clone = module.clone()
    LowerToStablehlo(precision).apply(rlx_context(), clone)
    return clone


def compiled(module: ModuleOp, *, optimised: bool = True) -> XlaExecutable:
    return XlaEngine(optimised=optimised).compile(lowered(module), {})


def example(name: str) -> ModuleOp:
    (path,) = (p for p in EXAMPLES if p.stem == name)
    return read_module(path, rlx_context())


@pytest.mark.parametrize("name", ["dit_block", "llama_block", "resnet_block"])
def test_examples_run_with_the_reference_values(name: str):
    module = example(name)
    function = main_function(module)
    weights, inputs = random_weights(function, 0), random_inputs(function, 0, 2)
    found = compile_for(module, "tpu", "xla", weights).run(inputs)
    assert_close(found, run_reference(module, {**weights, **inputs}), rtol=1e-4, atol=1e-4)


def test_magika_runs_for_every_batch():
    imported = magika()
    executable = compile_for(imported.module, "tpu", "xla", imported.weights)
    for batch in (1, 3):
        inputs = {"bytes": np.random.default_rng(batch).integers(0, 257, (batch, 2048), np.int32)}
        (found,) = executable.run(inputs)
        (expected,) = run_reference(imported.module, {**imported.weights, **inputs})
        assert found.shape == (batch, 214)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_loop_without_a_limit_stays_a_loop():
    module = parse("""
      func.func @main(%x: tensor<f32>) -> tensor<f32> {
        %0 = rlx.while(%x) : (tensor<f32>) -> tensor<f32> {
        ^bb0(%a: tensor<f32>):
          %most = rlx.constant dense<1000.0> : tensor<f32>
          %low = rlx.compare lt %a, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
          rlx.yield %low : tensor<i1>
        } do {
        ^bb0(%a: tensor<f32>):
          %twice = rlx.binary add %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
          rlx.yield %twice : tensor<f32>
        }
        func.return %0 : tensor<f32>
      }""")
    (found,) = compile_for(module, "tpu", "xla", {}).run({"arg0": np.array(3, np.float32)})
    assert found == 1536


# Unknown extents.


def test_each_combination_of_shapes_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    module = parse("""
      func.func @main(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {
        %0 = rlx.binary add %x, %y : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
        func.return %0 : tensor<?x3xf32>
      }""")
    executable = compiled(module)
    shapes: list[object] = []
    compile_one = xla.Placement.compiled
    monkeypatch.setattr(
        xla.Placement, "compiled", lambda self, m, s, **k: (shapes.append(s), compile_one(self, m, s, **k))[1]
    )
    for n, m in ((2, 2), (2, 2), (4, 4), (1, 5), (5, 1), (0, 0), (1, 0)):
        values = {"arg0": np.full((n, 3), 1.5, np.float32), "arg1": np.full((m, 3), 2, np.float32)}
        (found,) = executable.run(values)
        assert found.shape == (m if n == 1 else n, 3)  # As NumPy broadcasts.
        assert (found == 3.5).all()
    assert shapes == [[(n, 3), (m, 3)] for n, m in ((2, 2), (4, 4), (1, 5), (5, 1), (0, 0), (1, 0))]
    with pytest.raises(XlaError, match="XLA: "):
        executable.run({"arg0": np.zeros((2, 3), np.float32), "arg1": np.zeros((4, 3), np.float32)})
    with pytest.raises(BindingError, match="input 'arg1' is missing"):
        executable.run({"arg0": np.zeros((2, 3), np.float32)})


@pytest.mark.parametrize(
    ("line", "shapes"),
    [
        ("rlx.matmul %x, %y : (T, T) -> T", [(2, 3), (1, 5)]),
        ("rlx.concat %x, %y {axis = 0} : (T, T) -> T", [(2, 3), (2, 1)]),
        ("rlx.kv_append %x, %y {axis = 0, pos = 2} : (T, T) -> T", [(4, 3), (3, 3)]),
        ("rlx.kv_append %x, %y {axis = 0, pos = 0} : (T, T) -> T", [(4, 3), (3, 2)]),
        ("rlx.gather_elements %x, %i {axis = 0} : (T, tensor<?x?xi32>) -> T", [(4, 3), (4, 4)]),
        ("rlx.scatter_elements add %x, %i, %y {axis = 0} : (T, tensor<?x?xi32>, T) -> T", [(4, 3), (4, 4)]),
        ("rlx.narrow %x {axis = 0, start = 2, len = 3} : T -> tensor<3x?xf32>", [(4, 3), (1, 1)]),
        ("rlx.reshape %x {new_shape = [5, 2]} : T -> tensor<5x2xf32>", [(4, 3), (1, 1)]),
        ("rlx.binary add %x, %y : (T, T) -> tensor<3x?xf32>", [(4, 3), (4, 3)]),
    ],
)
def test_unknown_extents_that_do_not_fit(line: str, shapes: list[tuple[int, int]]):
    text = line.replace("T", "tensor<?x?xf32>")
    type = text.rpartition(" ")[2]
    module = parse(f"""
      func.func @main(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> {type} {{
        %i = rlx.cast %y : tensor<?x?xf32> -> tensor<?x?xi32>
        %0 = {text}
        func.return %0 : {type}
      }}""")
    values = {f"arg{i}": np.zeros(shape, np.float32) for i, shape in enumerate(shapes)}
    with pytest.raises(InterpretationError):
        run_reference(module, values)
    with pytest.raises(XlaError, match="XLA: "):
        compiled(module, optimised=False).run(values)


def test_parameters_are_bound_once_and_may_have_unknown_extents():
    module = parse("""
      func.func @main(%x: tensor<?xf32>, %w: tensor<?xf32> {rlx.param = "w"}) -> tensor<?xf32> {
        %0 = rlx.binary mul %x, %w : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
        func.return %0 : tensor<?xf32>
      }""")
    weight = np.array([2, 3], np.float32)
    executable = XlaEngine().compile(lowered(module), {"w": weight})
    weight[:] = 0  # What is bound is a copy.
    for x in ([5.0, 7.0], [1.0, 1.0]):
        (found,) = executable.run({"arg0": np.array(x, np.float32)})
        assert list(found) == [2 * x[0], 3 * x[1]]


def test_a_value_can_be_input_and_several_outputs():
    module = parse("""
      func.func @main(%x: tensor<2xbf16>) -> (tensor<2xbf16>, tensor<2xbf16>) {
        func.return %x, %x : tensor<2xbf16>, tensor<2xbf16>
      }""")
    x = np.array([1.5, -np.inf], np.float32)
    assert [list(y) for y in compiled(module).run({"arg0": x})] == [[1.5, -np.inf]] * 2


# Numbers that numerics go wrong on.


def _graph(types: Sequence[Attribute], build: Callable[..., Sequence[RlxOp]]) -> ModuleOp:
    block = Block(arg_types=types)
    operations = build(*block.args)
    results = [result for op in operations for result in op.results]
    block.add_ops([*operations, ReturnOp(*results)])
    function = FuncOp("main", FunctionType.from_lists(types, [r.type for r in results]), Region(block))
    module = ModuleOp([function])
    module.verify()
    return module


def _check_pairs(numbers: Array, element: Attribute, build: Callable[..., Sequence[RlxOp]], limit: float) -> None:
    """The operations that ``build`` makes of two operands, on all pairs of ``numbers``."""
    numbers = round_to(numbers, element)
    left, right = (np.ascontiguousarray(a) for a in np.meshgrid(numbers, numbers))
    module = _graph([TensorType(element, left.shape)] * 2, build)
    values = {"arg0": left, "arg1": right}
    found, expected = compiled(module, optimised=element == f32).run(values), run_reference(module, values)
    *operations, _ = main_function(module).body.block.ops
    for op, f, e in zip(operations, found, expected, strict=True):
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=limit, atol=limit, err_msg=str(op))


def _casts(x: SSAValue, *elements: Attribute) -> list[CastOp]:
    return [CastOp(x, element) for element in elements]


@pytest.mark.parametrize(("element", "limit"), [(f32, 2e-6), (f64, 1e-12), (f16, 2e-3), (bf16, 1.6e-2)], ids=str)
def test_floats(element: Attribute, limit: float):
    numbers = np.array([*EDGES, 0.5, -0.5, 2.5, -2.5, 1.5, 3, -3, 1e10, -7.25, 100, 1e-3, -20, 33.3, 5e4])

    def build(x: SSAValue, y: SSAValue) -> list[RlxOp]:
        return [
            *(ActivationOp(kind, x) for kind in ActivationKind),
            *(BinaryOp(kind, x, y) for kind in BinaryKind if kind not in BITWISE),
            *(CompareOp(kind, x, y) for kind in CompareKind),
            *_casts(x, IntegerType(1), f32, f64, f16, bf16),
            ClampOp(x, -1.5, 2.0),
            FmaOp(x, y, x),
        ]

    _check_pairs(numbers, element, build, limit)


@pytest.mark.parametrize("element", [i8, i32, i64, *(IntegerType(n, Signedness.UNSIGNED) for n in (8, 32))], ids=str)
def test_integers(element: IntegerType):
    limits = np.iinfo(storage_dtype(element))
    numbers = np.array(
        [0, 1, 2, 3, 5, 7, 31, 100, limits.max, limits.max - 1, limits.min, limits.min + 1]
        + [-1, -2, -3] * (limits.min < 0),
        limits.dtype,
    )

    def build(x: SSAValue, y: SSAValue) -> list[RlxOp]:
        return [
            *(ActivationOp(kind, x) for kind in sorted(INTEGER_ACTIVATIONS)),
            *(BinaryOp(kind, x, y) for kind in BinaryKind if kind is not BinaryKind.ATAN2),
            *(CompareOp(kind, x, y) for kind in CompareKind),
            *_casts(x, IntegerType(1), f32, f64, f16, bf16, i8, i64, IntegerType(16, Signedness.UNSIGNED)),
        ]

    _check_pairs(numbers, element, build, 0)


STRUCTURED = """
  func.func @main(%x: tensor<4x6xf32>, %i: tensor<3xi32>, %u: tensor<4x3xf32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>,
          tensor<4x6xi64>, tensor<4x2xi64>, tensor<4x3xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xi64>) {
    %0 = rlx.reduce max %x {axes = [1]} : tensor<4x6xf32> -> tensor<4xf32>
    %1 = rlx.reduce min %x {axes = [1]} : tensor<4x6xf32> -> tensor<4xf32>
    %2 = rlx.reduce mean %x {axes = [1]} : tensor<4x6xf32> -> tensor<4xf32>
    %3 = rlx.cumulative max %x {axis = 1} : tensor<4x6xf32>
    %4 = rlx.softmax %x : tensor<4x6xf32>
    %5 = rlx.sort %x {descending} : tensor<4x6xf32>
    %6 = rlx.argsort %x : tensor<4x6xf32> -> tensor<4x6xi64>
    %7 = rlx.top_k %x {k = 2} : tensor<4x6xf32> -> tensor<4x2xi64>
    %8 = rlx.gather %x, %i {axis = 1} : (tensor<4x6xf32>, tensor<3xi32>) -> tensor<4x3xf32>
    %9 = rlx.scatter_add %x, %i, %u {axis = 1} : (tensor<4x6xf32>, tensor<3xi32>, tensor<4x3xf32>) -> tensor<4x6xf32>
    %10 = rlx.cumulative sum %x {axis = 0, exclusive} : tensor<4x6xf32>
    %11 = rlx.arg_reduce min %x {axis = 1} : tensor<4x6xf32> -> tensor<4xi64>
    func.return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>,
      tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xi64>, tensor<4x2xi64>, tensor<4x3xf32>,
      tensor<4x6xf32>, tensor<4x6xf32>, tensor<4xi64>
  }"""


def test_nan_and_infinities_in_what_looks_at_many_elements():
    module = parse(STRUCTURED)
    executable = compiled(module)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = np.where(rng.random((4, 6)) < 0.6, rng.choice(EDGES, (4, 6)), rng.standard_normal((4, 6)))
        values = {
            "arg0": x.astype(np.float32),
            "arg1": rng.integers(-6, 6, 3, np.int32),  # Negative ones count from the end.
            "arg2": rng.standard_normal((4, 3)).astype(np.float32),
        }
        assert_close(executable.run(values), run_reference(module, values), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("element", ["ui8", "i8", "ui16", "ui32", "i64"])
def test_narrow_indices_reach_every_position(element: str):
    module = parse(f"""
      func.func @main(%x: tensor<300x2xf32>, %i: tensor<300x2x{element}>) -> tensor<300x2xf32> {{
        %0 = rlx.gather_elements %x, %i {{axis = 1}} : (tensor<300x2xf32>, tensor<300x2x{element}>) -> tensor<300x2xf32>
        func.return %0 : tensor<300x2xf32>
      }}""")
    rng = np.random.default_rng(0)
    dtype = np.dtype(element.replace("ui", "uint") if element.startswith("u") else element.replace("i", "int"))
    values = {"arg0": rng.random((300, 2), np.float32), "arg1": rng.integers(0, 2, (300, 2)).astype(dtype)}
    assert_close(compiled(module, optimised=False).run(values), run_reference(module, values))


# Several devices.

SHARDINGS = {
    "x": "data,-",
    "fc1.weight": "-,model",
    "fc1.bias": "model",
    "fc2.weight": "model,",
    "logits": "data,-",
}


def split(module: ModuleOp, mesh: str, shardings: dict[str, str]) -> ModuleOp:
    """A copy that says how it is split: by name of arguments and results."""
    module = module.clone()
    module.attributes["rlx.mesh"] = StringAttr(mesh)
    function = main_function(module)
    for key in ("arg_attrs", "res_attrs"):
        entries = function.properties[key]
        assert isinstance(entries, ArrayAttr)
        new: list[DictionaryAttr] = []
        for entry in entries:
            assert isinstance(entry, DictionaryAttr)
            (name,) = (v.data for v in entry.data.values() if isinstance(v, StringAttr))
            text = {"rlx.sharding": StringAttr(shardings[name])} if name in shardings else {}
            new.append(DictionaryAttr({**entry.data, **text}))
        function.properties[key] = ArrayAttr(new)
    return module


def test_a_graph_is_split_over_eight_devices_with_unchanged_values():
    module = example("mlp")
    function = main_function(module)
    weights, inputs = random_weights(function, 0), random_inputs(function, 0, 2)
    one = compile_for(module, "tpu", "xla", weights)
    many = compile_for(split(module, "data=2,model=4", SHARDINGS), "tpu", "xla", weights)
    assert isinstance(many, XlaExecutable)
    names = [a.name for a in many.args]
    parts = {names[index]: value.addressable_shards[0].data.shape for index, value in many.params.items()}
    assert {n: parts[n] for n in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")} == {
        "fc1.weight": (784, 128),
        "fc1.bias": (128,),
        "fc2.weight": (128, 512),
        "fc2.bias": (512,),
    }
    assert {len(value.sharding.device_set) for value in many.params.values()} == {8}
    assert_close(many.run(inputs), one.run(inputs), rtol=1e-5, atol=1e-5)
    # What is contracted lies on four devices, which add up their shares.
    text = many.executable([inputs["x"].shape]).hlo_modules()[0].to_string()
    assert "num_partitions=8" in text
    assert "all-reduce" in text


def test_results_that_stay_split_and_unknown_extents():
    module = parse("""
      builtin.module attributes {rlx.mesh = "rows=4"} {
        func.func @main(%x: tensor<8x?xf32> {rlx.sharding = "rows,-"})
            -> (tensor<8x?xf32> {rlx.sharding = "rows,"}, tensor<?xf32>) {
          %0 = rlx.activation exp %x : tensor<8x?xf32>
          %1 = rlx.reduce sum %x {axes = [0]} : tensor<8x?xf32> -> tensor<?xf32>
          func.return %0, %1 : tensor<8x?xf32>, tensor<?xf32>
        }
      }""")
    executable = compiled(module)
    for n in (3, 5):
        x = np.random.default_rng(n).standard_normal((8, n)).astype(np.float32)
        exp, total = executable.run({"arg0": x})
        np.testing.assert_allclose(exp, np.exp(x), rtol=1e-6)
        np.testing.assert_allclose(total, x.sum(0), rtol=1e-4)


# Without XLA, and for TPUs.


@pytest.mark.parametrize("missing", ["jax", "libtpu"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(xla, "find_spec", lambda name: None if name == missing else object())
    use: Callable[[ModuleOp], object] = compiled if missing == "jax" else lambda m: compile_ahead({"m": lowered(m)})
    with pytest.raises(ToolMissing, match=rf"{missing} is not installed; it comes with: pip install .*\[tpu\]"):
        use(op_module(lambda x: ActivationOp("exp", x), TensorType(f32, [2])))


def for_tpu(module: ModuleOp, precision: str = "default") -> ModuleOp:
    """Exact products of f32 are six of bf16 on a TPU, and take its compiler ten times as long."""
    module = module.clone()
    run_named(module, "tpu-fuse")
    return lowered(module, precision)


def test_the_examples_and_magika_compile_for_a_tpu():
    modules = {path.stem: for_tpu(example(path.stem)) for path in EXAMPLES}
    modules["magika"] = for_tpu(magika(1).module)
    modules["mlp, exactly"] = for_tpu(example("mlp"), "highest")
    modules["mlp on four chips"] = for_tpu(split(example("mlp"), "data=2,model=2", SHARDINGS))
    sizes = compile_ahead(modules)
    assert sizes.keys() == modules.keys()
    assert min(sizes.values()) > 10_000
    assert sizes["mlp, exactly"] > sizes["mlp"]


def test_every_operation_compiles_for_a_tpu():
    modules: dict[str, ModuleOp] = {}
    for case in one_each():
        if case.static:
            modules[case.op] = lowered(case.module(), "default")
    assert len(modules) > 90
    assert compile_ahead(modules).keys() == modules.keys()


def test_what_does_not_fit_a_tpu_is_said():
    huge = op_module(lambda x, y: BinaryOp("add", x, y), *[TensorType(f32, [200_000, 200_000])] * 2)
    many = split(example("mlp"), "data=2,model=4", SHARDINGS)
    with pytest.raises(XlaError) as error:
        compile_ahead({"huge": for_tpu(huge), "many": for_tpu(many)})
    assert "huge: " in str(error.value)
    assert "many: a mesh of 8 devices, and the topology has 4" in str(error.value)
