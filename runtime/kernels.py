"""What the compilers of GPU code share: the kernels of a lowered module, and what one kernel takes of its GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import gpu
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp

from rlx_dialect.pipelines.tables import table
from rlx_dialect.runtime.toolchain import ToolError, portable_text
from rlx_dialect.shapes import is_static, product
from rlx_dialect.xdsl_compat import Rewriter

_NARROW_LIMIT = 1 << 30
"""Elements of a buffer up to which 32-bit indices are safe: what is rounded up to whole workgroups fits, too."""


class UnsupportedKernel(ToolError):
    """A kernel that has no right form on the hardware asked for."""


class DeviceError(ToolError):
    """No device, or one that cannot run the graph."""


@dataclass(frozen=True)
class Resources:
    """What one kernel takes of its GPU, as the assembler says."""

    kernel: str
    chip: str
    registers: int
    """Vector registers an invocation."""
    spilled: int
    """Bytes an invocation stores for want of registers."""
    stack: int
    """Bytes of private memory an invocation."""
    shared: int
    """Bytes of shared memory a workgroup."""


def kernels(module: ModuleOp) -> Iterator[gpu.FuncOp]:
    """The kernels of a lowered module in order."""
    for op in module.ops:
        if isinstance(op, gpu.ModuleOp):
            yield from (f for f in op.body.block.ops if isinstance(f, gpu.FuncOp))


def device_text(module: ModuleOp) -> str:
    """The device side alone, as other compilers read it. Raises ToolError where there is none: it was not lowered."""
    device = ModuleOp([op.clone() for op in module.ops if isinstance(op, gpu.ModuleOp)])
    for kernel in kernels(device):
        _fix_sizes(kernel)
    if device.body.block.is_empty:
        raise ToolError("the module has no GPU kernels: lower it first, as --pipeline=cuda does")
    return portable_text(device)


def _fix_sizes(kernel: gpu.FuncOp) -> None:
    """Give buffers of unknown size one: a parameter is then an address alone, and nothing is made of the size."""
    for argument in kernel.body.block.args:
        type = argument.type
        if isinstance(type, MemRefType) and not is_static(type.get_shape()):
            Rewriter.replace_value_with_new_type(argument, MemRefType(type.element_type, [_NARROW_LIMIT]))
    inputs = list(kernel.body.block.arg_types)
    kernel.properties["function_type"] = FunctionType.from_lists(inputs, [])


def index_width(module: ModuleOp) -> int:
    """Bits of an index: 32 where all buffers are small enough, which saves a fifth of a product's registers."""
    types = [a.type for f in kernels(module) for a in f.body.block.args]
    shapes = [t.get_shape() for t in types if isinstance(t, MemRefType)]
    return 32 if all(is_static(s) and product(s) <= _NARROW_LIMIT for s in shapes) else 64


def resources_table(found: Sequence[Resources]) -> str:
    """A line a kernel and chip."""
    heading = ["kernel", "chip", "registers", "spilled bytes", "stack bytes", "shared bytes"]
    rows = [[r.kernel, r.chip, *map(str, (r.registers, r.spilled, r.stack, r.shared))] for r in found]
    return table([heading, *rows])
