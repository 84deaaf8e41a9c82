"""A check that every use of a value comes after its definition, which xDSL's verifier does not make."""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsolatedFromAbove

from rlx_dialect.xdsl_compat import VerifyException


class DominanceError(VerifyException):
    """An operand of ``op`` is used where it is not defined."""

    def __init__(self, op: Operation, message: str):
        super().__init__(message)
        self.op = op


def check_dominance(root: Operation) -> None:
    """Raise DominanceError naming the first operand in ``root`` whose definition does not dominate its use.

    A value is visible after its definition in the same block, in blocks that this one dominates, and in the
    regions of operations there; not in, or from within, regions that are isolated from above. Linear in the
    number of operations for regions of one block.
    """
    _check_regions(root, set())


def _check_regions(op: Operation, visible: set[SSAValue]) -> None:
    if op.has_trait(IsolatedFromAbove, value_if_unregistered=False):
        visible = set()
    for region in op.regions:
        _check_region(region, visible)


def _check_region(region: Region, visible: set[SSAValue]) -> None:
    dominance = DominanceInfo(region) if len(region.blocks) > 1 else None
    for block in region.blocks:
        before: set[SSAValue] = set()
        if dominance is not None:
            dominating = (b for b in region.blocks if dominance.strictly_dominates(b, block))
            before = {value for b in dominating for value in _defined_in(b)} - visible
        local = [*before, *block.args]
        visible.update(local)
        for op in block.ops:
            for index, operand in enumerate(op.operands):
                if operand not in visible:
                    raise DominanceError(op, _message(op, index, operand))
            _check_regions(op, visible)
            visible.update(op.results)
            local += op.results
        visible.difference_update(local)


def _defined_in(block: Block) -> list[SSAValue]:
    return [*block.args, *(result for op in block.ops for result in op.results)]


def _message(op: Operation, index: int, operand: SSAValue) -> str:
    origin = "a block argument" if isinstance(operand, BlockArgument) else f"'{operand.owner.name}'"  # pyright: ignore
    name = f" %{operand.name_hint}" if operand.name_hint else ""
    return f"'{op.name}': operand #{index}{name}, defined by {origin}, does not dominate this use"
