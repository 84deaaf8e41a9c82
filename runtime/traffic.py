"""What the launches of a lowered GPU module move between memory and chip, beside the least that a graph must move.

A launch reads or writes each element once that it can touch: what caches save, or lose, is not in these numbers.
``python -m rlx_dialect.runtime.traffic MODEL.mlir…`` prints launches and bytes before and after fusion, by target.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.dialects import gpu
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.dtypes import Array, storage_dtype
from rlx_dialect.fold_parameters import fold_parameters
from rlx_dialect.graph import GraphError, arguments, main_function
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.lowering.to_gpu.host import LOAD_TIME, TOUCHED
from rlx_dialect.operation import name_of
from rlx_dialect.pipelines.named import FUSE_SUFFIX, lowering_pipeline, run_named, run_pipeline
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.pipelines.tables import table
from rlx_dialect.pipelines.targets import TARGETS
from rlx_dialect.runtime.engine import Signature
from rlx_dialect.runtime.kernels import kernels
from rlx_dialect.shapes import is_static, product
from rlx_dialect.xdsl_compat import rlx_context

_STORES = frozenset({"memref.store", "vector.store", "vector.transfer_write", "gpu.subgroup_mma_store_matrix"})
_BOTH = frozenset({"memref.atomic_rmw", "memref.generic_atomic_rmw"})
_VIEWS = frozenset({"memref.cast", "memref.reinterpret_cast", "memref.subview", "memref.collapse_shape"})

_TARGETS = tuple(name for name in HARDWARE if name in TARGETS)
"""The GPU targets with pipelines."""


@dataclass(frozen=True)
class Moved:
    """What one launch moves."""

    kernel: str
    read: tuple[int, ...]
    """Bytes of each operand that are read."""
    written: tuple[int, ...]
    """Bytes of each operand that are written."""
    at_load_time: bool
    """It depends on parameters only, and is launched once."""

    @property
    def bytes(self) -> int:
        return sum(self.read) + sum(self.written)


@dataclass(frozen=True)
class Traffic:
    """What a call of a graph moves."""

    launches: tuple[Moved, ...]
    """Those of each call."""
    setup: tuple[Moved, ...]
    """Those of the load time."""
    least: int
    """Bytes of the inputs and parameters that are used, and of the outputs: each once. A returned input moves none."""

    @property
    def bytes(self) -> int:
        return sum(moved.bytes for moved in self.launches)


def traffic(module: ModuleOp) -> Traffic:
    """What a lowered module's main function moves. Raises GraphError where extents are unknown."""
    function = main_function(module)
    ways = {f.sym_name.data: [_ways(a) for a in f.body.block.args] for f in kernels(module)}
    moved = [_moved(op, ways) for op in function.body.block.ops if isinstance(op, gpu.LaunchFuncOp)]
    return Traffic(
        launches=tuple(m for m in moved if not m.at_load_time),
        setup=tuple(m for m in moved if m.at_load_time),
        least=_least(function),
    )


def _least(function: FuncOp) -> int:
    inputs = {argument.value for argument in arguments(function)}
    read: set[SSAValue] = set()
    written: dict[SSAValue, int] = {}
    for op in function.walk():
        if isinstance(op, ReturnOp):
            for value in op.operands:
                buffer = _buffer(value)
                # Of views of one buffer, the largest: the others may be parts of it.
                written[buffer] = max(written.get(buffer, 0), _bytes(value.type))
        elif name_of(op) not in _VIEWS:
            read.update(map(_buffer, op.operands))
    return sum(_bytes(v.type) for v in inputs & read) + sum(n for v, n in written.items() if v not in inputs)


def _buffer(value: SSAValue) -> SSAValue:
    """What ``value`` is a view of."""
    while isinstance(op := value.owner, Operation) and name_of(op) in _VIEWS:
        value = op.operands[0]
    return value


def _moved(launch: gpu.LaunchFuncOp, ways: Mapping[str, Sequence[tuple[bool, bool]]]) -> Moved:
    kernel = launch.kernel.nested_references.data[-1].data
    sizes = [_bytes(operand.type) for operand in launch.kernelOperands]
    touched = launch.attributes.get(TOUCHED)
    if isinstance(touched, DenseArrayBase):
        for place, count in enumerate(touched.get_values()):
            sizes[place] = int(count) * _width(launch.kernelOperands[place].type)
    pairs = list(zip(sizes, ways[kernel], strict=True))
    return Moved(
        kernel,
        read=tuple(size if reads else 0 for size, (reads, _) in pairs),
        written=tuple(size if writes else 0 for size, (_, writes) in pairs),
        at_load_time=LOAD_TIME in launch.attributes,
    )


def _ways(buffer: SSAValue) -> tuple[bool, bool]:
    """Whether a kernel reads, and whether it writes, a buffer."""
    reads = writes = False
    for use in buffer.uses:
        name = name_of(use.operation)
        if name in _VIEWS:
            inner = _ways(use.operation.results[0])
            reads, writes = reads or inner[0], writes or inner[1]
        else:
            writes = writes or name in _STORES or name in _BOTH
            reads = reads or name not in _STORES
    return reads, writes


def _width(type: Attribute) -> int:
    assert isinstance(type, MemRefType)
    return storage_dtype(type.element_type).itemsize


def _bytes(type: Attribute) -> int:
    if not isinstance(type, MemRefType) or not is_static(type.get_shape()):
        raise GraphError(f"what a graph moves is known for static extents only, got {type}")
    return product(type.get_shape()) * _width(type)


def launch_report(module: ModuleOp) -> str:
    """A line a launch of a lowered module, the sum, and the least. Raises GraphError where extents are unknown."""
    found = traffic(module)
    rows = [["launch", "kernel", "bytes read", "bytes written"]]
    for number, moved in enumerate((*found.setup, *found.launches)):
        when = "once" if moved.at_load_time else str(number - len(found.setup))
        rows.append([when, moved.kernel, str(sum(moved.read)), str(sum(moved.written))])
    totals = (f"{len(found.launches)} launches", f"{found.bytes} bytes", f"at least {found.least} bytes")
    return f"{table(rows)}\n{', '.join(totals)}\n"


@dataclass(frozen=True)
class Saved:
    """A graph on a target, as it is and fused."""

    before: Traffic
    after: Traffic


def saved_by_fusion(module: ModuleOp, target: str) -> Saved:
    """What fusion saves on a GPU target; what depends on parameters alone is computed before. Leaves ``module``.

    Raises LoweringError, GraphError.
    """
    return Saved(_lowered(module, target, fuse=False), _lowered(module, target, fuse=True))


def _lowered(module: ModuleOp, target: str, *, fuse: bool) -> Traffic:
    clone = module.clone()
    if fuse:
        run_named(clone, f"{target}{FUSE_SUFFIX}")
    fold_parameters(clone, _zeros(clone))
    run_pipeline(clone, lowering_pipeline(TARGETS[target]))
    return traffic(clone)


def _zeros(module: ModuleOp) -> dict[str, Array]:
    """A value for each parameter; which one makes no difference here."""
    slots = Signature.of(main_function(module)).params
    return {slot.name: np.zeros(slot.shape, storage_dtype(slot.element)) for slot in slots}


def fusion_table(models: Sequence[Path], targets: Sequence[str]) -> str:
    """A line a model and target: launches and megabytes before and after fusion, and the least megabytes."""
    rows = [["model", "target", "launches before", "after", "MB before", "after", "least"]]
    for path in models:
        for target in targets:
            saved = saved_by_fusion(read_module(path, rlx_context()), target)
            launches = [len(t.launches) for t in (saved.before, saved.after)]
            sizes = [saved.before.bytes, saved.after.bytes, saved.after.least]
            rows.append([path.stem, target, *map(str, launches), *(f"{size / 1e6:.2f}" for size in sizes)])
    return table(rows)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m rlx_dialect.runtime.traffic", description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, help=".mlir files of rlx operations with static extents")
    parser.add_argument("--target", action="append", choices=_TARGETS, help="a GPU target (default: all)")
    options = parser.parse_args(argv)
    print(fusion_table(options.models, options.target or _TARGETS))


if __name__ == "__main__":
    main()
