"""The words that checks are written in: who uses a value, who defines it, what its shape proves, where to put things.

A question that can have more than one negative answer gives a :class:`Miss` instead of the value asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from rlx_dialect.base import shape_of
from rlx_dialect.operation import is_dead
from rlx_dialect.ops.elementwise import BinaryOp
from rlx_dialect.ops.shape import ExpandOp
from rlx_dialect.passes.matching.extents import Extent, Known, extents
from rlx_dialect.passes.matching.fusion import Miss, Reason
from rlx_dialect.shapes import can_broadcast_to, is_static, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter, is_side_effect_free

OpT = TypeVar("OpT", bound=Operation)


def defining(value: SSAValue, op_type: type[OpT] | tuple[type[OpT], ...]) -> OpT | None:
    """The operation of class ``op_type`` that ``value`` is a result of."""
    return value.owner if isinstance(value.owner, op_type) else None


def is_used(value: SSAValue) -> bool:
    return value.first_use is not None


def one_use(value: SSAValue, site: Operation) -> Operation | Miss:
    """The operation at the only use *edge* of ``value``; to be an operand twice, or to be returned, is a use.

    The value must be used, and the user must be in the block of ``site``, the operation that a Miss is reported at.
    """
    users = [use.operation for use in value.uses]
    name = f"%{value.name_hint}" if value.name_hint else "the value"
    if len(users) > 1:
        if any(isinstance(user, ReturnOp) for user in users):
            return Miss(Reason.RETURNED, site, f"{name} is also a result of the function", "do not return it")
        names = ", ".join(sorted(user.name for user in users))
        return Miss(
            Reason.MORE_THAN_ONE_USE, site, f"{name} has {len(users)} uses: {names}", "duplicate it, or use it once"
        )
    (user,) = users
    if user.parent is not site.parent:
        return Miss(
            Reason.OTHER_BLOCK, site, f"{name} is used by {user.name} in another block", "move both into one block"
        )
    return user


def used_by_only(value: SSAValue, users: Sequence[Operation], site: Operation) -> Miss | None:
    """None if each of ``users`` has one use edge of ``value`` and nothing else has one; else why not, at ``site``."""
    found = [use.operation for use in value.uses]
    if len(found) == len(users) and set(found) == set(users):
        return None
    name = f"%{value.name_hint}" if value.name_hint else "the value"
    if any(isinstance(user, ReturnOp) for user in found):
        return Miss(Reason.RETURNED, site, f"{name} is also a result of the function", "do not return it")
    detail = f"{name} has {len(found)} uses, {len(users)} of them in what would be fused"
    return Miss(Reason.MORE_THAN_ONE_USE, site, detail, "compute it once for each")


def orders(op: BinaryOp) -> tuple[tuple[SSAValue, SSAValue], tuple[SSAValue, SSAValue]]:
    """The operands of a commutative operation in both orders."""
    lhs, rhs = op.operands  # Once: xDSL's accessors by name are slow, and this is asked of every sum and product.
    return (lhs, rhs), (rhs, lhs)


def other_operand(op: BinaryOp, value: SSAValue) -> SSAValue:
    """The operand beside ``value``; ``value`` itself when it is both."""
    return op.rhs if op.lhs is value else op.lhs


def not_one_shape(values: Sequence[SSAValue], site: Operation, known: Known | None = None) -> Miss | None:
    """None if the values provably have one shape, else why they may not.

    Unknown extents are equal only where they are one value's (see :mod:`.extents`; ``known`` is for it). A pattern that
    asks at many operations keeps one ``known``, because the time is else linear in what is above each.
    """
    shapes = [shape_of(value) for value in values]
    listed = " and ".join(dict.fromkeys(map(show, shapes)))
    if any(shape != shapes[0] for shape in shapes):
        return Miss(Reason.SHAPES_DIFFER, site, f"the shapes {listed} differ", "expand the smaller one first")
    known = {} if known is None else known
    if not is_static(shapes[0]) and len({extents(value, known) for value in values}) > 1:
        detail = f"of several values of shape {listed}, one may broadcast another at run time"
        return Miss(Reason.DYNAMIC_EXTENT, site, detail, "give the inputs static shapes")
    return None


def not_onto(value: SSAValue, target: SSAValue, site: Operation, known: Known | None = None) -> Miss | None:
    """None if ``value``, broadcast against ``target``, provably takes the shape of that; else why it may not.

    ``known`` is as for :func:`not_one_shape`.
    """
    small, large = shape_of(value), shape_of(target)
    if not can_broadcast_to(small, large):
        detail = f"the shape {show(small)} does not broadcast to {show(large)}"
        return Miss(Reason.SHAPES_DIFFER, site, detail, "expand the other value first")
    known = {} if known is None else known
    pairs = zip(extents(value, known), extents(target, known)[len(large) - len(small) :], strict=True)
    if any(extent not in (Extent(1), wanted) for extent, wanted in pairs):
        detail = f"{show(small)} may turn out to broadcast {show(large)} at run time"
        return Miss(Reason.DYNAMIC_EXTENT, site, detail, "give the inputs static shapes")
    return None


def expand_sources(value: SSAValue) -> list[SSAValue]:
    """``value``, and if it is an expansion what it repeats, and so on; each broadcasts to all before it."""
    sources = [value]
    while (op := defining(sources[-1], ExpandOp)) is not None:
        sources.append(op.input)
    return sources


def not_absorbed(op: Operation, user: Operation, site: Operation) -> Miss | None:
    """None if ``op``, of one result, is used by ``user`` only, once and in one block; else why not, at ``site``."""
    if op.parent is not user.parent:
        detail = f"{op.name} is in another block than {user.name}"
        return Miss(Reason.OTHER_BLOCK, site, detail, "move both into one block")
    return used_by_only(op.results[0], [user], site)


def erase_dead_sources(values: Iterable[SSAValue], rewriter: PatternRewriter) -> None:
    """Erase what computes ``values`` as far as nothing uses it any more; else later patterns count it as a use."""
    path = list(values)
    while path:
        op = path.pop().owner
        if isinstance(op, Operation) and op.parent is not None and is_dead(op):
            path += op.operands
            rewriter.erase(op)


@dataclass(frozen=True)
class Place:
    """Where a fused operation goes: before ``anchor``, after the definitions ``moved``, put there by :meth:`clear`."""

    anchor: Operation
    moved: tuple[Operation, ...] = ()

    def clear(self) -> InsertPoint:
        """Move the definitions; returns the place."""
        block = self.anchor.parent
        assert block is not None
        for op in self.moved:
            op.detach()
            block.insert_op_before(op, self.anchor)
        return InsertPoint.before(self.anchor)


def insertion_place(
    first: Operation, last: Operation, kept: Sequence[SSAValue], operands: Iterable[SSAValue]
) -> Place | Miss:
    """Where the fused operation goes that replaces ``first``, …, ``last`` of one block.

    That is right before ``last``, unless a user of a ``kept`` value (a result of the matched operations that stays in
    use) comes earlier: then it is before that user. Operands that are defined only later are moved up, with what
    they are computed from; where that has effects, has regions or reads a kept value, they cannot be:
    Miss(DEFINED_TOO_LATE) at ``last``. Where there are such users, the cost is linear in the distance to the first
    one, or to ``last`` where an operand may be defined later.
    """
    block = last.parent
    assert block is not None
    users = {block.find_ancestor_op_in_block(use.operation) for value in kept for use in value.uses}
    if users <= {last}:
        return Place(last)
    unplaced = {value.owner for value in operands if value.owner.parent is block}
    anchor = first.next_op
    while anchor is not last and anchor not in users:
        assert anchor is not None
        unplaced.discard(anchor)
        anchor = anchor.next_op
    assert anchor is not None
    moved = _defined_between(anchor, last, unplaced)
    for op in moved:
        if op.regions or not is_side_effect_free(op) or any(operand in kept for operand in op.operands):
            name = f"%{op.results[0].name_hint}" if op.results[0].name_hint else f"the result of {op.name}"
            detail = f"{name} is defined after {anchor.name}, which uses an intermediate value"
            return Miss(Reason.DEFINED_TOO_LATE, last, detail, "define it earlier")
    return Place(anchor, tuple(moved))


def _defined_between(
    anchor: Operation, last: Operation, needed: Collection[Operation | Block]
) -> tuple[Operation, ...]:
    """Those of ``needed``, and what they are computed from, that stand from ``anchor`` up to ``last``; in order."""
    between: dict[Operation, None] = {}
    op = anchor
    while op is not last and needed:
        between[op] = None
        assert op.next_op is not None
        op = op.next_op
    found: set[Operation] = set()
    path = list(needed)
    while path:
        op = path.pop()
        if isinstance(op, Operation) and op in between and op not in found:
            found.add(op)
            path += (operand.owner for operand in op.operands)
    return tuple(op for op in between if op in found)
