"""Checking lowered operations: against the reference interpreter through IREE, and with mlir-opt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from helpers import assert_close
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_linalg import LowerToLinalg
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.iree import IreeEngine
from rlx_dialect.runtime.toolchain import portable_text
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import parse_module, rlx_context

ENGINE = IreeEngine(driver="local-sync")
Values = dict[str, Array]


def case(arguments: Mapping[str, str], *lines: str) -> ModuleOp:
    """A graph of inputs by name that returns the result of every line that starts with ``%y``."""
    signature = ", ".join(f'%{name}: {type} {{rlx.input = "{name}"}}' for name, type in arguments.items())
    text = "\n".join([f"func.func @main({signature}) {{", *lines, "func.return", "}"])
    module = parse_module(text, rlx_context(), "test.mlir")
    results = [result for op in main_function(module).body.block.ops for result in op.results]
    return returning(module, [r for r in results if r.name_hint is not None and r.name_hint.startswith("y")])


def returning(module: ModuleOp, values: Sequence[SSAValue]) -> ModuleOp:
    """``module``, whose function, which ends in func.return or not at all yet, returns ``values``."""
    function = main_function(module)
    block = function.body.block
    if isinstance(block.last_op, ReturnOp):
        block.last_op.detach()
    block.add_op(ReturnOp(*values))
    function.function_type = FunctionType.from_lists(block.arg_types, [v.type for v in values])
    module.verify()
    return module


def built(arguments: Mapping[str, str], make: Callable[..., Sequence[RlxOp]]) -> ModuleOp:
    """A graph of inputs by name that returns the results of the operations that ``make`` gives for them."""
    module = case(arguments)
    block = main_function(module).body.block
    operations = make(*block.args)
    assert block.last_op is not None
    block.insert_ops_before(operations, block.last_op)
    return returning(module, [result for op in operations for result in op.results])


def lowered(module: ModuleOp) -> ModuleOp:
    clone = module.clone()
    LowerToLinalg().apply(rlx_context(), clone)
    clone.verify()
    assert not [op.name for op in clone.walk() if op.name.startswith("rlx.")]
    toolchain.run("mlir-opt", ["-"], portable_text(clone))
    return clone


def compare(
    module: ModuleOp,
    *values: Values,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    dynamic: int = 3,
) -> None:
    """IREE's results of the lowered module equal the reference's, for ``values`` or for random ones."""
    executable = ENGINE.compile(lowered(module), {})
    for given in values or [random_values(module, seed, dynamic=dynamic) for seed in (0, 1)]:
        assert_close(executable.run(given), run_reference(module, given), rtol=rtol, atol=atol)


def aligned(value: Array) -> Array:
    """A copy where IREE would read it in place."""
    memory = np.zeros(value.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


def with_edges(module: ModuleOp, **kwargs: float) -> None:
    """The same with NaN, infinities, zeros of both signs and huge numbers among the values."""
    values = [random_values(module, seed, edges=edges) for seed in (0, 1) for edges in (False, True)]
    compare(module, *values, **kwargs)


TOLERANCE = {"f64": 1e-9, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
"""A unit in the last place of the narrow types: IREE and NumPy may round to either side."""
