"""What a graph is made of: how many operations of which name, the bodies of element-wise regions left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.region import ElementwiseRegionOp, RegionOp


def graph_operations(module: ModuleOp) -> Iterator[Operation]:
    """The operations of all functions in program order, terminators left out.

    Those in the branches of control flow count, those in the body of an element-wise region do not: the region is
    one operation on tensors, its body is what it does to an element.
    """
    for function in module.ops:
        if isinstance(function, FuncOp):
            for block in function.body.blocks:
                yield from _operations(block)


def _operations(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        if not op.has_trait(IsTerminator):
            yield op
        if not isinstance(op, RegionOp):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _operations(inner)


@dataclass(frozen=True)
class Inventory:
    """Counts of a graph at one moment."""

    nodes: int
    """Arguments and operations, which are all nodes in RLX."""
    operations: Mapping[str, int]
    """How often each operation occurs, without ``rlx.``, by name."""
    silu: int
    mul: int
    prologue_regions: int

    @classmethod
    def of(cls, module: ModuleOp) -> Inventory:
        counts: Counter[str] = Counter()
        silu = mul = prologues = 0
        for op in graph_operations(module):
            counts[op.name.removeprefix("rlx.")] += 1
            match op:
                case ActivationOp():
                    silu += op.kind.data is ActivationKind.SILU
                case BinaryOp():
                    mul += op.kind.data is BinaryKind.MUL
                case ElementwiseRegionOp():
                    prologues += op.prologue is not None
                case _:
                    pass
        arguments = sum(len(op.function_type.inputs.data) for op in module.ops if isinstance(op, FuncOp))
        return cls(arguments + counts.total(), dict(sorted(counts.items())), silu, mul, prologues)

    def __getitem__(self, name: str) -> int:
        """How often the operation of that name (with or without ``rlx.``) occurs."""
        return self.operations.get(name.removeprefix("rlx."), 0)
