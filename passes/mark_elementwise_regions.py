"""Element-wise operations that feed each other become regions: one kernel each, with a scalar body.

Before::

    %0 = rlx.binary mul %x, %s : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %1 = rlx.activation tanh %0 : tensor<4x8xf32>
    %2 = rlx.binary add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>

After::

    %2 = rlx.elementwise_region(%x, %s) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = rlx.binary mul %a, %b : (f32, f32) -> f32
      %1 = rlx.activation tanh %0 : f32
      %2 = rlx.binary add %0, %1 : (f32, f32) -> f32
      rlx.yield %2 : f32
    }

Walking a block from its end, an operation joins the region of its users when *all* its uses are in that one
region. So a value may be used several times within a region, nothing is computed twice, and nothing outside can
depend on a part of the region and be depended on by another: the region stands at its last operation, after all
its operands and before all its users. Every operation of a region has the shape of its result; an operation of
a smaller shape stays outside, where each of its elements is computed once. A region that would exceed a limit is
split. One that takes a contraction's result starts there, so that it can become that contraction's epilogue.

The time is linear in the number of uses. Numerics: ``exact``, since each step of a region rounds as the operation
that it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation

from rlx_dialect.base import shape_of
from rlx_dialect.ops.contraction import ContractionOp
from rlx_dialect.ops.convolution import ConvolutionOp
from rlx_dialect.ops.elementwise import (
    ElementwiseOp,
)
from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.passes.matching.fusion import FusionPass, Miss, Numerics, Reason
from rlx_dialect.passes.matching.observe import recording
from rlx_dialect.passes.matching.regions import fusable, region_of
from rlx_dialect.shapes import show
from rlx_dialect.xdsl_compat import PatternRewriter

CONTRACTIONS = (ContractionOp, ConvolutionOp)
"""What a region may become the epilogue of."""


class _Region:
    """Operations that are to become one region, from the last one to the first."""

    def __init__(self, tail: ElementwiseOp):
        self.members = [tail]
        self.inputs = set(tail.operands)

    def inputs_with(self, op: ElementwiseOp) -> int:
        """The number of operands that the region would have with ``op``, which it uses."""
        return len(self.inputs) - 1 + len(set(op.operands) - self.inputs)

    def absorb(self, op: ElementwiseOp) -> None:
        self.inputs.difference_update(op.results)
        self.inputs.update(op.operands)
        self.members.append(op)


@dataclass(frozen=True)
class _Plan:
    regions: list[_Region]
    """Single operations included."""
    misses: list[Miss]
    """Why they are not larger, from the last operation to the first."""


@dataclass(frozen=True)
class MarkElementwiseRegions(FusionPass):
    """``max_steps`` operations and ``max_inputs`` operands are the most that a region may have."""

    name = "rlx-mark-elementwise-regions"
    produces: ClassVar = (ElementwiseRegionOp,)
    numerics: ClassVar = Numerics.EXACT

    max_steps: int = 32
    max_inputs: int = 16

    def __post_init__(self) -> None:
        if self.max_steps < 1 or self.max_inputs < 1:
            raise ValueError(f"max-steps and max-inputs must be at least 1, got {self.max_steps} and {self.max_inputs}")

    def run(self, module: ModuleOp) -> list[Miss]:
        misses: list[Miss] = []
        for block in list(module.walk_blocks()):
            plan = self._plan(block)
            misses += reversed(plan.misses)
            for region in plan.regions:
                if len(region.members) > 1:
                    with recording(type(self).__name__, self.numerics) as rewriter:
                        _emit(region, rewriter)
        return misses

    def _plan(self, block: Block) -> _Plan:
        # A region may share an operand with what joins it later, so that only at the end are there few enough.
        plan = self._sweep(block, strict=False)
        if all(len(region.inputs) <= self.max_inputs or len(region.members) == 1 for region in plan.regions):
            return plan
        return self._sweep(block, strict=True)

    def _sweep(self, block: Block, *, strict: bool) -> _Plan:
        """Assign operations to regions, from the last to the first; ``strict``: observe max_inputs at each step."""
        plan = _Plan([], [])
        region_of: dict[Operation, _Region] = {}
        for op in reversed(block.ops):
            if not isinstance(op, ElementwiseOp) or not isinstance(op.results[0].type, TensorType):
                continue
            if (unfit := fusable(op)) is not None:
                plan.misses.append(unfit)
                continue
            region = self._join(op, region_of, strict)
            if isinstance(region, _Region):
                region.absorb(op)
            else:
                if region is not None:
                    plan.misses.append(region)
                region = _Region(op)
                plan.regions.append(region)
            region_of[op] = region
        return plan

    def _join(self, op: ElementwiseOp, region_of: dict[Operation, _Region], strict: bool) -> _Region | Miss | None:
        """The region that ``op`` joins; why it joins none; or None when no region uses it."""
        users = [use.operation for use in op.results[0].uses]
        member = next((user for user in users if user in region_of), None)
        if member is None:
            return None
        region = region_of[member]
        if outside := [user for user in users if region_of.get(user) is not region]:
            return _used_outside(op, outside)
        if first := next((user for user in users if _takes_contraction(user)), None):
            detail = f"its user {first.name} takes a contraction's result, and starts a region there"
            return Miss(Reason.AFTER_CONTRACTION, op, detail, "compute it behind the contraction")
        own, tail = shape_of(op.results[0]), shape_of(region.members[0].results[0])
        if own != tail:
            detail = f"it has the shape {show(own)}, the region {show(tail)}: elements would be computed several times"
            return Miss(Reason.SHAPES_DIFFER, op, detail, "nothing to do: a region of its own is less work")
        if len(region.members) >= self.max_steps:
            return Miss(Reason.STEP_LIMIT, op, f"the region has {self.max_steps} steps", "raise max-steps")
        if strict and region.inputs_with(op) > self.max_inputs:
            return Miss(Reason.INPUT_LIMIT, op, f"more than {self.max_inputs} operands", "raise max-inputs")
        return region


def _used_outside(op: ElementwiseOp, outside: list[Operation]) -> Miss:
    names = ", ".join(sorted(user.name for user in outside))
    if any(isinstance(user, ReturnOp) for user in outside):
        return Miss(Reason.RETURNED, op, "it is also a result of the function", "do not return it")
    if any(user.parent is not op.parent for user in outside):
        return Miss(Reason.OTHER_BLOCK, op, f"it is also used in another block, by {names}", "move them into one block")
    return Miss(Reason.MORE_THAN_ONE_USE, op, f"it is also used outside the region, by {names}", "compute it twice")


def _takes_contraction(op: Operation) -> bool:
    return any(isinstance(operand.owner, CONTRACTIONS) for operand in op.operands)


def _emit(region: _Region, rewriter: PatternRewriter) -> None:
    """Replace the operations by a region at the last of them."""
    tail, *inner = region.members
    rewriter.replace(tail, region_of(region.members[::-1]))
    for member in inner:
        rewriter.erase(member)
