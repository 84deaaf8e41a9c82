"""What tests share: parsing, edge values, and comparing two modules by the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32, f64, i1, i8, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region

from rlx_dialect.base import RlxOp, shape_of
from rlx_dialect.dtypes import Array
from rlx_dialect.graph import main_function, outputs
from rlx_dialect.interpreter import run_reference
from rlx_dialect.samples import random_values
from rlx_dialect.shapes import DYNAMIC, compatible
from rlx_dialect.xdsl_compat import parse_module, print_generic, print_module, rlx_context


def parse(text: str) -> ModuleOp:
    """Parse and verify a module."""
    module = parse_module(text, rlx_context(), "test.mlir")
    module.verify()
    return module


def graph(body: str, arguments: str, results: str, returned: str) -> ModuleOp:
    """A module of one function @main: ``graph("%y = …", "%x: tensor<2xf32>", "tensor<2xf32>", "%y")``."""
    return parse(f"func.func @main({arguments}) -> ({results}) {{\n{body}\nfunc.return {returned} : {results}\n}}\n")


def op_module(build: Callable[..., RlxOp], *types: Attribute) -> ModuleOp:
    """A verified module of one function that returns the results of the operation built from arguments of ``types``."""
    block = Block(arg_types=types)
    op = build(*block.args)
    block.add_ops([op, ReturnOp(*op.results)])
    module = ModuleOp([FuncOp("main", (types, op.result_types), Region(block))])
    module.verify()
    return module


ELEMENTS = {"float16": f16, "float32": f32, "float64": f64, "int8": i8, "int32": i32, "int64": i64, "bool": i1}


def run_op(
    build: Callable[..., RlxOp], *arrays: Array, element: Attribute | None = None, dynamic: bool = True
) -> list[Array]:
    """The results of the operation built from arguments that have the values ``arrays``.

    The argument types are those of the arrays (all ``element`` where that is given). The operation is also built
    from the types with every extent dynamic, unless ``dynamic`` is false: its types must then agree with the
    static ones and its results be the same. Both modules survive a round trip through text.
    """
    elements = [element or ELEMENTS[a.dtype.name] for a in arrays]
    values = {f"arg{i}": a for i, a in enumerate(arrays)}
    static = op_module(build, *(TensorType(e, a.shape) for e, a in zip(elements, arrays, strict=True)))
    assert_round_trip(static)
    results = run_reference(static, values)
    if dynamic:
        open_types = [TensorType(e, [DYNAMIC] * a.ndim) for e, a in zip(elements, arrays, strict=True)]
        module = op_module(build, *open_types)
        assert_round_trip(module)
        for found, result in zip(outputs(main_function(module)), results, strict=True):
            assert compatible(shape_of(found), result.shape)
        for found, expected in zip(run_reference(module, values), results, strict=True):
            np.testing.assert_array_equal(found, expected)
    return results


def assert_close(found: Sequence[Array], expected: Sequence[Array], *, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal count, shapes and dtypes, close values; NaN equals NaN and infinities must have one sign."""
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        assert f.dtype == e.dtype
        np.testing.assert_allclose(f, e, rtol=rtol, atol=atol)


def assert_same_meaning(
    before: ModuleOp, after: ModuleOp, *, seeds: Sequence[int] = (0, 1), rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Both modules give the same results for random and for edge values."""
    after.verify()
    for seed in seeds:
        for edges in (False, True):
            values = random_values(before, seed, edges=edges)
            assert_close(run_reference(after, values), run_reference(before, values), rtol=rtol, atol=atol)


def assert_round_trip(module: ModuleOp) -> None:
    """Custom and generic form parse back to the same module."""
    text = print_module(module)
    assert print_module(parse(text)) == text
    assert print_module(parse(print_generic(module))) == text


def decomposed(module: ModuleOp, name: str) -> ModuleOp:
    """A clone with every operation called ``name`` replaced by its decomposition."""
    from rlx_dialect.xdsl_compat import Builder, InsertPoint, Rewriter

    clone = module.clone()
    targets = [op for op in clone.walk() if op.name == name]
    assert targets, f"no {name} in the module"
    for op in targets:
        assert isinstance(op, RlxOp)
        values = op.decompose(Builder(InsertPoint.before(op)))
        Rewriter.replace_op(op, [], values)
    clone.verify()
    return clone
