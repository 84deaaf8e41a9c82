"""Value numbering: of operations that compute the same from the same, the first is kept."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, Operation, SSAValue

from rlx_dialect.base import RlxOp
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.passes.matching.numerics import Numerics
from rlx_dialect.passes.matching.observe import recording
from rlx_dialect.xdsl_compat import is_side_effect_free

_Inputs = tuple[type[Operation], Hashable]


def merge_duplicates(root: Operation) -> bool:
    """Merge pure RLX operations of one block with equal class, operands, properties, attributes and result types.

    Whether there were any. Operations with regions are left alone, what is in their regions is not. Linear.
    """
    changed = False
    for region in root.regions:
        for block in region.blocks:
            changed |= _merge_in(block)
    return changed


def _merge_in(block: Block) -> bool:
    changed = False
    # To hash all of an operation takes longer than all else here, and is only needed once two have the same operands.
    first: dict[_Inputs, Operation] = {}
    known: dict[_Inputs, dict[Hashable, Operation]] = {}
    op = block.first_op
    while op is not None:
        following = op.next_op
        if op.regions:
            changed |= merge_duplicates(op)
        elif isinstance(op, RlxOp) and op.results:
            inputs = _inputs(op)
            other = first.setdefault(inputs, op)
            if other is not op:
                same = known.setdefault(inputs, {_rest(other): other})
                kept = same.setdefault(_rest(op), op)
                if kept is not op and is_side_effect_free(op):
                    with recording("MergeDuplicates", Numerics.EXACT) as rewriter:
                        rewriter.replace(op, [], kept.results)
                    changed = True
        op = following
    return changed


def _inputs(op: RlxOp) -> _Inputs:
    if isinstance(op, ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
        return ConstantOp, op.value.data.data
    operands: tuple[SSAValue, ...] = tuple(op.operands)
    return type(op), operands


def _rest(op: Operation) -> Hashable:
    properties = frozenset(op.properties.items())
    attributes = frozenset(op.attributes.items())
    return properties, attributes, tuple(op.result_types)
