"""Lowered modules for the tests of GPU compilers: all examples in one, a case of each operation in one.

Compilers are started once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from op_cases import one_each
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from rlx_dialect.graph import main_function
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_gpu import LowerToGpu
from rlx_dialect.pipelines.named import FUSE_SUFFIX, run_named
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.runtime.kernels import kernels
from rlx_dialect.xdsl_compat import VerifyException, rlx_context

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.mlir"))


def _lowered(functions: Iterable[FuncOp], target: str) -> ModuleOp:
    """One module of clones of ``functions`` under names of their own, lowered."""
    module = ModuleOp([])
    for index, function in enumerate(functions):
        clone = function.clone()
        clone.properties["sym_name"] = StringAttr(f"main{index}")
        module.body.block.add_op(clone)
    LowerToGpu(target).apply(rlx_context(), module)
    return module


@cache
def _example(path: Path, target: str) -> FuncOp:
    module = read_module(path, rlx_context())
    run_named(module, f"{target}{FUSE_SUFFIX}")
    return main_function(module)


@cache
def lowered_examples(target: str) -> ModuleOp:
    """All examples, fused for the target and lowered."""
    return _lowered((_example(path, target) for path in EXAMPLES), target)


@cache
def lowered_cases(target: str) -> ModuleOp:
    """A case of each operation that the target takes."""
    return _lowered((main_function(c.module()) for c in one_each() if _lowers(c.module(), target)), target)


def _lowers(module: ModuleOp, target: str) -> bool:
    try:
        LowerToGpu(target).apply(rlx_context(), module)
    except (LoweringError, VerifyException):
        return False
    return True


def names(module: ModuleOp) -> set[str]:
    """The kernels of a lowered module."""
    return {f.sym_name.data for f in kernels(module)}
