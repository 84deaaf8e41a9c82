"""What can be asked of any operation, of RLX or not: how messages call it, where it comes from, whether it is dead."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import ArrayAttr, FusedLoc, LocationAttr, NoneAttr, UnknownLoc, UnregisteredOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from rlx_dialect.xdsl_compat import SymbolOpInterface, is_side_effect_free


def name_of(op: Operation) -> str:
    """``dialect.name``, also where the dialect is not registered."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def describe(op: Operation) -> str:
    """``rlx.matmul %product at loc("model.mlir":3:5)`` for messages, also for an operation that was erased."""
    names = [f"%{result.name_hint}" for result in op.results if result.name_hint]
    place = [] if isinstance(op.location, UnknownLoc) else [f"at {op.location}"]
    return " ".join([name_of(op), *names, *place])


def foreign(root: Operation, dialects: Collection[str]) -> list[str]:
    """The operations under ``root`` that are of none of the ``dialects``, for messages."""
    return [describe(op) for op in root.walk() if name_of(op).partition(".")[0] not in dialects]


def fused_location(locations: Sequence[LocationAttr]) -> LocationAttr:
    """One location that stands for all of them, each named once."""
    distinct: dict[LocationAttr, None] = {}
    for location in locations:
        if isinstance(location, FusedLoc):
            assert isinstance(location.locations, ArrayAttr)
            distinct |= dict.fromkeys(location.locations.data)
        elif not isinstance(location, UnknownLoc):
            distinct[location] = None
    if len(distinct) > 1:
        return FusedLoc(ArrayAttr(distinct), NoneAttr())
    return next(iter(distinct), UnknownLoc())


def is_dead(op: Operation) -> bool:
    """Whether deleting ``op`` changes nothing: it has no effects and its results have no uses."""
    return (
        all(result.first_use is None for result in op.results)
        and not op.has_trait(IsTerminator)
        and not op.has_trait(SymbolOpInterface)
        and is_side_effect_free(op)
    )
