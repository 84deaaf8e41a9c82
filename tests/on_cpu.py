"""Lowering to native kernels and running them here, compared with the reference interpreter."""

from __future__ import annotations

from collections.abc import Mapping

from helpers import assert_close
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_cpu import LowerToCpu
from rlx_dialect.runtime.native import NativeEngine
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import rlx_context


def lower(module: ModuleOp, cpu: str | None = None) -> ModuleOp:
    """A lowered clone."""
    clone = module.clone()
    LowerToCpu(cpu).apply(rlx_context(), clone)
    clone.verify()
    return clone


def run(module: ModuleOp, values: Mapping[str, Array], cpu: str | None = None, threads: int = 1) -> list[Array]:
    """Lower, compile and run; ``values`` are inputs and parameters."""
    inputs = {a.name: values[a.name] for a in arguments(main_function(module)) if a.kind == "input"}
    return NativeEngine(threads).compile(lower(module, cpu), values).run(inputs)


def check(
    module: ModuleOp,
    values: Mapping[str, Array] | None = None,
    *,
    cpu: str | None = None,
    rtol: float = 1e-5,
    atol: float = 2e-6,
) -> None:
    """The kernels give what the reference gives."""
    values = random_values(module, 0) if values is None else values
    assert_close(run(module, values, cpu), run_reference(module, values), rtol=rtol, atol=atol)
