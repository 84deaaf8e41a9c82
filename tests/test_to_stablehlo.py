"""The pass rlx-lower-to-stablehlo: graphs that it does not take, sharding, and the dialect that it writes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import op_module, parse
from op_cases import CASES
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region

from rlx_dialect.dialect import RLX
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_stablehlo import LowerToStablehlo
from rlx_dialect.lowering.to_stablehlo.dialect import OPERATIONS, STABLEHLO, HloOp
from rlx_dialect.lowering.to_stablehlo.sharding import Mesh
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.control_flow import IfOp, WhileOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CompareOp
from rlx_dialect.ops.region import YieldOp
from rlx_dialect.runtime.xla import XlaEngine
from rlx_dialect.universe import RLX_UNIVERSE
from rlx_dialect.xdsl_compat import parse_module, print_generic, rlx_context


def lower(module: ModuleOp) -> ModuleOp:
    LowerToStablehlo().apply(rlx_context(), module)
    module.verify()
    return module


def test_no_tool_knows_the_dialect_by_a_name_that_another_package_may_use():
    assert set(RLX_UNIVERSE.all_dialects) == {"rlx"}
    assert "rlx-stablehlo" in RLX_UNIVERSE.all_targets
    assert not [op.name for op in RLX.operations if not op.name.startswith("rlx.")]


def test_the_text_reads_back_into_the_same_operations():
    ctx = rlx_context(allow_unregistered=False)
    ctx.load_dialect(STABLEHLO)
    wanted = {"conv", "matmul", "gather", "scatter_add", "fft", "triangular_solve", "if", "sort", "compare"}
    seen: set[type] = set()
    for case in {c.op: c for c in CASES if c.op.removeprefix("rlx.") in wanted}.values():
        module = lower(case.module())
        again = parse_module(print_generic(module), ctx)
        again.verify()
        assert print_generic(again) == print_generic(module)
        seen |= {type(op) for op in again.walk()}
    assert seen >= {OPERATIONS[n] for n in ("convolution", "dot_general", "gather", "scatter", "fft", "if", "sort")}


def test_locations_and_names_are_kept():
    module = lower(
        parse("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %squares = rlx.binary mul %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("a.py":3:7)
        func.return %squares : tensor<2xf32>
      }""")
    )
    (op,) = (o for o in module.walk() if isinstance(o, HloOp))
    assert op.results[0].name_hint == "squares"
    assert '"a.py":3:7' in str(op.location)


def test_what_is_not_used_is_not_written():
    module = lower(
        parse("""
      func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
        %0 = rlx.transpose %x {perm = [1, 0]} : tensor<?x2xf32> -> tensor<2x?xf32>
        func.return %x : tensor<?x2xf32>
      }""")
    )
    assert not [op for op in module.walk() if isinstance(op, HloOp)]


def test_arguments_must_be_tensors():
    module = parse("func.func @main(%x: f32) -> f32 { func.return %x : f32 }")
    with pytest.raises(LoweringError, match="@main: a tensor expected, got f32"):
        lower(module)


@pytest.mark.parametrize("element", [f32, f64, f16, bf16], ids=str)
def test_constants_of_all_kinds_keep_their_bits(element: Attribute):
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-4, 3.5])
    constants = [
        ConstantOp.of(values, TensorType(element, [6])),
        *(ConstantOp.of(v, TensorType(element, [2])) for v in values),
    ]
    results = [c.result for c in constants]
    block = Block([*constants, ReturnOp(*results)])
    module = ModuleOp([FuncOp("main", FunctionType.from_lists([], [r.type for r in results]), Region(block))])
    expected = run_reference(module, {})
    found = XlaEngine(optimised=False).compile(lower(module), {}).run({})
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f, e)
        assert (np.signbit(f) == np.signbit(e))[~np.isnan(e)].all()


def test_a_loop_ends_when_its_condition_or_its_limit_says_so():
    scalar = TensorType(f32, [])

    def loop(limit: int | None) -> ModuleOp:
        condition = Block(arg_types=[scalar])
        low = CompareOp("lt", condition.args[0], seven := ConstantOp.of(7.0, scalar))
        condition.add_ops([seven, low, YieldOp(low)])
        body = Block(arg_types=[scalar])
        more = BinaryOp("add", body.args[0], one := ConstantOp.of(1.0, scalar))
        body.add_ops([one, more, YieldOp(more)])
        return op_module(lambda x: WhileOp([x], Region(condition), Region(body), max_iterations=limit), scalar)

    for limit, start in ((None, 0.5), (3, 0.5), (3, 6.5), (0, 0.5), (None, 9.0)):
        values = {"arg0": np.float32(start).reshape(())}
        module = loop(limit)
        expected = run_reference(module, values)
        found = XlaEngine(optimised=False).compile(lower(module), {}).run(values)
        assert [float(f) for f in found] == [float(e) for e in expected]


def test_a_branch_that_is_not_taken_is_not_computed():
    scalar = TensorType(f32, [])

    def branch() -> tuple[Region, Region]:
        first, second = Block(arg_types=[scalar]), Block(arg_types=[scalar])
        log = ActivationOp("log", first.args[0])
        first.add_ops([log, YieldOp(log)])
        second.add_op(YieldOp(second.args[0]))
        return Region(first), Region(second)

    module = op_module(lambda p, x: IfOp(p, [x], *branch()), TensorType(i1, [1, 1]), scalar)
    executable = XlaEngine(optimised=False).compile(lower(module.clone()), {})
    for truth in (True, False):
        values = {"arg0": np.full((1, 1), truth), "arg1": np.float32(4).reshape(())}
        assert float(executable.run(values)[0]) == pytest.approx(float(run_reference(module, values)[0]))


# Sharding.


def sharded(text: object, mesh: object = "data=2,model=4", type: str = "tensor<8x?xf32>") -> ModuleOp:
    module = parse(f"""
      func.func @main(%x: {type} {{rlx.input = "tokens"}}) -> {type} {{
        func.return %x : {type}
      }}""")
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    assert function.arg_attrs is not None
    (entry,) = function.arg_attrs.data
    attribute = StringAttr(text) if isinstance(text, str) else UnitAttr()
    function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr({**entry.data, "rlx.sharding": attribute})])
    if mesh is not None:
        module.attributes["rlx.mesh"] = StringAttr(mesh) if isinstance(mesh, str) else UnitAttr()
    return module


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data", "'data' lists 1 dims, and the shape 8x? has 2"),
        ("data,-,-", "'data,-,-' lists 3 dims, and the shape 8x? has 2"),
        ("rows,-", "'rows,-' splits dim 0 by 'rows', which is no axis of the mesh data=2,model=4"),
        ("data,data", "'data,data' splits several dims by 'data'"),
        ("-,model", "'-,model' splits dim 1 of extent ? by 'model', which does not divide it in the mesh data=2"),
        (None, 'it must be a text like "data,-", got unit'),
    ],
)
def test_a_sharding_that_does_not_fit(text: str | None, message: str):
    with pytest.raises(ValueError, match="the graph cannot be split over the mesh") as error:
        lower(sharded(text))
    assert f"\n  argument 0 'tokens': rlx.sharding: {message}" in str(error.value)


def test_an_extent_that_the_mesh_does_not_divide():
    with pytest.raises(ValueError, match=r"splits dim 0 of extent 6 by 'model', which does not divide it"):
        lower(sharded("model,", type="tensor<6x2xf32>"))


@pytest.mark.parametrize("mesh", ["", "data", "data=0", "data=2,data=4", "2=data", "data=x", None])
def test_text_that_is_no_mesh(mesh: str | None):
    with pytest.raises(ValueError, match=r'rlx.mesh must be like "data=2,model=4" with different names, got'):
        lower(sharded("data,", mesh if mesh is not None else UnitAttr()))


def test_a_sharding_needs_a_mesh():
    with pytest.raises(ValueError, match=r'sharding needs a mesh: the module must say rlx\.mesh = "data=2,model=4"'):
        lower(sharded("data,", None))


def test_a_scalar_has_no_dims_to_split():
    module = lower(sharded("", type="tensor<f32>"))
    mesh = Mesh.of(module)
    assert mesh is not None
    assert (str(mesh), mesh.devices) == ("data=2,model=4", 8)
    assert "sdy.sharding = #sdy.sharding<@mesh, []>" in print_generic(module)
