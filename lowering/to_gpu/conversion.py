"""The pass ``rlx-lower-to-gpu``: kernels and the host function that launches them.

A schedule's file registers a function for each of its operations with :func:`lowers`; an operation without one is
decomposed, and its parts are lowered. What can be neither is one error that names every such operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, TensorType, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import RlxOp
from rlx_dialect.lowering import LoweringError, NotLowered
from rlx_dialect.lowering.registry import Lowerings
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE, Hardware
from rlx_dialect.lowering.to_gpu.host import Host, KernelModule
from rlx_dialect.lowering.to_gpu.shapes import Shapes
from rlx_dialect.operation import describe
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.control_flow import ScanOp, WhileOp
from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.shapes import is_static
from rlx_dialect.xdsl_compat import Builder, Context, InsertPoint, ModulePass, Rewriter, VerifyException

Lowering = Callable[[Any, Host], None]
"""Launches what an operation needs and says where its results lie."""

MAX_ROUNDS = 4096
"""How many iterations the loops of a graph may have together."""

LOWERINGS: Lowerings[Lowering] = Lowerings(__name__.rpartition(".")[0])
lowers = LOWERINGS.lowers


class _Graph:
    """The lowering of one function."""

    def __init__(self, function: FuncOp, hardware: Hardware, *, unknown_extents: bool):
        self.function = function
        self.hardware = hardware
        self.unknown_extents = unknown_extents
        self.problems: list[str] = []
        self._wholes: dict[Operation, str] = {}
        self._rounds = 0
        """Iterations of loops that became straight-line code."""

    def prepare(self) -> None:
        """Decompose what has no kernel, in place, and find what can be neither."""
        for argument in self.function.body.block.args:
            if (why := self._unfit(argument)) is not None:
                name = argument.name_hint or str(argument.index)
                self.problems.append(f"argument %{name} of @{self.function.sym_name.data}: {why}")
        op = self.function.body.block.first_op
        while op is not None:
            op = self._prepare(op)

    def _prepare(self, op: Operation) -> Operation | None:
        """Returns the operation to go on with."""
        following = op.next_op
        if isinstance(op, ReturnOp):
            return following
        if not isinstance(op, RlxOp):
            self.problems.append(f"{self._describe(op)}: it is not of the RLX dialect")
            return following
        if (why := next(filter(None, map(self._unfit, op.results)), None)) is not None:
            self.problems.append(f"{self._describe(op)}: {why}")
            return following
        if isinstance(op, ConstantOp):
            if isinstance(op.value, DenseResourceAttr):
                self.problems.append(f"{self._describe(op)}: its value lies in a resource outside the IR")
            return following
        if LOWERINGS.get(type(op)) is not None and self._fits(op):
            return following
        if (why := self._too_long(op)) is not None:
            self.problems.append(f"{self._describe(op)}: {why}")
            return following
        if not op.has_decomposition():
            self.problems.append(f"{self._describe(op)}: it has no kernel and is not made of simpler operations")
            return following
        return self._decompose(op)

    def _decompose(self, op: RlxOp) -> Operation | None:
        whole, before, following = self._wholes.get(op) or describe(op), op.prev_op, op.next_op
        try:
            values = op.decompose(Builder(InsertPoint.before(op)))
        except (ValueError, VerifyException) as error:
            self.problems.append(f"{self._describe(op)}: {error}")
            # What was built of it so far is part of no value.
            while (part := op.prev_op) is not before:
                assert part is not None
                Rewriter.erase_op(part)
            return following
        for value, result in zip(values, op.results, strict=True):
            value.name_hint = value.name_hint or result.name_hint
        Rewriter.replace_op(op, [], values)
        part = first = self.function.body.block.first_op if before is None else before.next_op
        while part is not following:
            assert part is not None
            self._wholes[part] = whole
            part = part.next_op
        return first

    def _too_long(self, op: RlxOp) -> str | None:
        """Why a loop cannot become straight-line code: kernels are launched one after the other."""
        match op:
            case WhileOp():
                if op.max_iterations is None:
                    return "it has no max_iterations, and the target has no loops of launches"
                count = op.max_iterations.value.data
            case ScanOp():
                count = op.steps
            case _:
                return None
        self._rounds += count
        if self._rounds > MAX_ROUNDS:
            return f"with its {count} iterations, loops run more than {MAX_ROUNDS} times, each launched alone"
        return None

    def _fits(self, op: RlxOp) -> bool:
        """Whether one kernel can take all the buffers of a region; parts of a batch may go to several."""
        if not isinstance(op, ElementwiseRegionOp):
            return True
        buffers = {o for o in op.operands if not isinstance(o.owner, ConstantOp)}
        types = [o.type for o in (*buffers, *op.results)]
        known = all(isinstance(t, TensorType) and is_static(t.get_shape()) for t in types)
        # The result, and the extents that a kernel is told.
        return len(buffers) + (1 if known else 2) <= self.hardware.max_buffers

    def _unfit(self, value: SSAValue) -> str | None:
        """Why no buffer can hold ``value``."""
        if not isinstance(value.type, TensorType):
            return f"a tensor expected, got {value.type}"
        if not self.unknown_extents and not is_static(value.type.get_shape()):
            return f"{value.type} has a dynamic extent, and kernels are written for static ones"
        if self.hardware.storage(element := value.type.element_type) is None:
            return f"{self.hardware.name} has no buffers of {element}"
        return None

    def _describe(self, op: Operation) -> str:
        whole = self._wholes.get(op)
        return describe(op) if whole is None else f"{describe(op)}, a part of {whole}"

    def lower(self, kernels: KernelModule) -> list[Operation]:
        """The host function and the constants it uses."""
        shapes = Shapes(self.function)
        self.problems += [f"{self._describe(op)}: {why}" for op, why in shapes.problems.items()]
        if shapes.problems:
            return []
        host = kernels.host(self.function)
        host.know(shapes)
        for op in self.function.body.block.ops:
            if isinstance(op, ReturnOp):
                if self.problems:
                    return []
                function = host.finish(op.operands)
                return [*host.globals, function]
            if isinstance(op, ConstantOp):
                continue
            lowering = LOWERINGS.get(type(op))
            assert lowering is not None, f"{op.name} was let through"
            try:
                lowering(op, host)
            except (NotLowered, ValueError) as error:
                self.problems.append(f"{self._describe(op)}: {error}")
                for result in op.results:
                    host.result(result)
        raise NotLowered(f"@{self.function.sym_name.data} must end in func.return")


@dataclass(frozen=True)
class LowerToGpu(ModulePass):
    """Write graphs as GPU kernels and host functions that launch them; raises LoweringError.

    ``target`` names the hardware: metal, wgpu, vulkan, cuda or rocm. With ``matrix-units=false`` products are made
    without its matrix unit, to compare with.
    """

    name = "rlx-lower-to-gpu"
    target: str
    matrix_units: bool = True

    def __post_init__(self) -> None:
        if self.target not in HARDWARE:
            raise ValueError(f"unknown target '{self.target}'; known targets: {', '.join(HARDWARE)}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hardware = HARDWARE[self.target]
        if not self.matrix_units:
            hardware = replace(hardware, matrix=())
        verdict = f"not yet lowered to gpu for {self.target}"
        lower_graphs(op, KernelModule(hardware), verdict, unknown_extents=True)


def lower_graphs(module: ModuleOp, kernels: KernelModule, verdict: str, *, unknown_extents: bool = False) -> None:
    """Replace every graph by its host function, and add ``kernels``; raises LoweringError that says ``verdict``.

    ``unknown_extents``: the kernels can be told extents when they run.
    """
    functions = [f for f in module.ops if isinstance(f, FuncOp) and not f.is_declaration]
    graphs = [_Graph(f, kernels.hardware, unknown_extents=unknown_extents) for f in functions]
    for graph in graphs:
        graph.prepare()
    _check(graphs, verdict)
    lowered = [graph.lower(kernels) for graph in graphs]
    _check(graphs, verdict)
    for graph, new in zip(graphs, lowered, strict=True):
        Rewriter.replace_op(graph.function, new, [])
    module.attributes["gpu.container_module"] = UnitAttr()
    # An empty one prints as a region without a block, which cannot be read back.
    if not kernels.op.body.block.is_empty:
        module.body.block.add_op(kernels.op)


def _check(graphs: Sequence[_Graph], verdict: str) -> None:
    if problems := [p for graph in graphs for p in graph.problems]:
        raise LoweringError(verdict, problems)
