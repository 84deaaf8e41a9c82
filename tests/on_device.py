"""Lowering to GPU kernels and running them on a device, compared with the reference interpreter.

The device is whatever wgpu finds; where there is no GPU, Mesa's Vulkan on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from helpers import assert_close, parse
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_gpu import LowerToGpu
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import rlx_context


def lower(module: ModuleOp, target: str = "wgpu") -> ModuleOp:
    """A lowered clone."""
    clone = module.clone()
    LowerToGpu(target).apply(rlx_context(), clone)
    clone.verify()
    return clone


def run(module: ModuleOp, values: Mapping[str, Array]) -> list[Array]:
    """Lower, compile and run on the device; ``values`` are inputs and parameters."""
    inputs = {a.name: values[a.name] for a in arguments(main_function(module)) if a.kind == "input"}
    return WgpuEngine().compile(lower(module), values).run(inputs)


def check(module: ModuleOp, *, rtol: float = 1e-5, atol: float = 2e-6, seed: int = 0) -> ModuleOp:
    """The device gives what the reference gives for random values; returns the lowered module."""
    values = random_values(module, seed)
    assert_close(run(module, values), run_reference(module, values), rtol=rtol, atol=atol)
    return lower(module)


def kernel_names(module: ModuleOp) -> list[str]:
    return [op.sym_name.data for op in module.walk() if isinstance(op, gpu.FuncOp)]


def launches(module: ModuleOp) -> int:
    return sum(isinstance(op, gpu.LaunchFuncOp) for op in module.walk())


def several(operations: Sequence[str], arguments: str, result: str) -> ModuleOp:
    """A graph that returns the result of each operation; ``result`` is the type of all."""
    body = "\n".join(f"%y{i} = {op}" for i, op in enumerate(operations))
    names = ", ".join(f"%y{i}" for i in range(len(operations)))
    types = ", ".join([result] * len(operations))
    return parse(f"func.func @main({arguments}) -> ({types}) {{\n{body}\nfunc.return {names} : {types}\n}}")


def tensor(shape: str, element: str = "f32") -> str:
    return f"tensor<{shape}x{element}>" if shape else f"tensor<{element}>"


def dims(shape: str) -> tuple[int, ...]:
    return tuple(map(int, shape.split("x"))) if shape else ()
