"""Watching rewrites without the passes knowing: every single one is an event with what it removed and inserted.

``with observing(seen.append): pass_.apply(ctx, module)`` collects them. Whoever rewrites has nothing to do for it when
the driver calls it; a pass that rewrites on its own does so through ``with recording(…) as rewriter``. When nobody
watches, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.ir import Block, Operation, SSAValue, Use

from rlx_dialect.operation import fused_location
from rlx_dialect.passes.matching.numerics import Numerics
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter, restore_operand


@dataclass(frozen=True)
class Rewrite:
    """One rewrite, just made.

    Its two sides take values from outside; those are in the module before and after, but for operations that only
    moved: they are among ``inserted``, and the removed ones may use them as well.
    """

    by: str
    """The class of the pattern, or of the pass where it has none."""
    numerics: Numerics
    removed: tuple[Operation, ...]
    """What is gone, each after what it uses. In no block and a user of nothing, but its operands, properties and
    regions can be read as they were. An operation that was changed in place is here as it was before."""
    inserted: tuple[Operation, ...]
    """What is new in the module, each after what it uses. An operation that was changed in place is here too."""
    replaced: tuple[tuple[SSAValue, SSAValue], ...]
    """(old value, the value that is used in its place). The new one may well be from outside."""


Watcher = Callable[[Rewrite], object]

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def observing(watcher: Watcher) -> Iterator[None]:
    """Within, ``watcher`` is called after every rewrite, besides those that watch already.

    An exception that it raises leaves the pass, in the middle of its work.
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


@contextmanager
def unobserved() -> Iterator[None]:
    """Within, nobody watches: for rewrites of a copy that only answer a question."""
    token = _watchers.set(())
    try:
        yield
    finally:
        _watchers.reset(token)


def is_observed() -> bool:
    return bool(_watchers.get())


@contextmanager
def recording(by: str, numerics: Numerics) -> Iterator[RecordingRewriter]:
    """A rewriter for one rewrite of a pass that does without the driver; at the end it is an event like any other."""
    rewriter = RecordingRewriter()
    rewriter.observed = is_observed()
    yield rewriter
    rewriter.finish(by, numerics, [])


class RecordingRewriter(PatternRewriter):
    """A rewriter that knows what it has done since :meth:`finish` was called last."""

    def __init__(self):
        super().__init__(InsertPoint(Block()))
        self.observed = False
        self.inserted: list[Operation] = []
        self.removed: list[Operation] = []
        self._replaced: list[tuple[SSAValue, SSAValue]] = []
        self._overwritten: list[tuple[Operation, int, SSAValue]] = []
        self._root: _Snapshot | None = None
        self._root_modified = False
        self._point: InsertPoint | None = None
        self._site: Operation | None = None
        self.operation_insertion_handler.append(self.inserted.append)
        self.operation_removal_handler.append(self.removed.append)

    def aim(self, site: Operation) -> None:
        """Start afresh in front of ``site``. Most patterns do nothing, so the insertion point is made when needed."""
        self.has_done_action = False
        self._name_hint = None
        self._site = site
        self._point = None

    @property
    def insertion_point(self) -> InsertPoint:  # pyright: ignore
        if self._point is None:
            assert self._site is not None
            self._point = InsertPoint.before(self._site)
        return self._point

    @insertion_point.setter
    def insertion_point(self, point: InsertPoint) -> None:  # pyright: ignore
        self._point = point

    def remember(self, root: Operation) -> None:
        """Keep what ``root`` is now, because a rewrite may change it in place; only needed when observed."""
        self._root = _Snapshot(root)

    def finish(self, by: str, numerics: Numerics, locations: Sequence[LocationAttr]) -> None:
        """The rewrite is over: new operations get locations, and watchers hear of it.

        New operations that have no location get the one of all removed ones, or ``locations`` if there are none.
        """
        location = fused_location([op.location for op in reversed(self.removed)] or locations)
        for op in self.inserted:
            for nested in op.walk() if op.regions else (op,):
                if isinstance(nested.location, UnknownLoc):
                    nested.location = location
        rewrite = self._rewrite(by, numerics) if self.observed else None
        for kept in (self.inserted, self.removed, self._replaced, self._overwritten):
            kept.clear()
        self._root, self._root_modified = None, False
        if rewrite is not None:
            watchers = _watchers.get()
            with unobserved():
                for watcher in watchers:
                    watcher(rewrite)

    def _rewrite(self, by: str, numerics: Numerics) -> Rewrite:
        erased = {nested for op in self.removed for nested in op.walk()}
        new = set(self.inserted)
        inserted = [op for op in dict.fromkeys(self.inserted) if op not in erased and not _lies_in(op, new)]
        removed = [op for op in reversed(self.removed) if op not in new]
        # In the order in which it happened: what an operand was at first counts.
        for op, index, value in reversed(self._overwritten):
            if op in erased:
                restore_operand(op, index, value)
        then = {old: value for old, value in self._replaced if old.owner in erased}
        replaced = [(old, _end_of(value, then)) for old, value in self._replaced if old.owner not in new]
        root = self._root
        if root is not None and (self._root_modified or (root.op in erased and root.inner)):
            before = root.operation()
            instead: dict[SSAValue, SSAValue] = dict(zip(root.results, before.results, strict=True))
            removed = [before, *(op for op in removed if op is not root.op and op not in root.inner)]
            for op in removed:
                for index, operand in enumerate(op.operands):
                    if operand in instead:
                        restore_operand(op, index, instead[operand])
            replaced = [(instead.get(old, old), value) for old, value in replaced]
            if root.op not in erased:
                inserted.append(root.op)
                replaced += zip(before.results, root.op.results, strict=True)
        return Rewrite(by, numerics, _in_order(removed), _in_order(inserted), tuple(replaced))

    # What xDSL tells no listener.

    def notify_op_modified(self, op: Operation) -> None:
        if self.observed:
            # Only of the root is it known what it was before.
            assert self._root is not None
            assert op is self._root.op, f"{op.name} is changed in place, but it is not the root of the pattern"
            self._root_modified = True
        super().notify_op_modified(op)

    def replace_all_uses_with(self, from_value: SSAValue, to_value: SSAValue | None, safe_erase: bool = True) -> None:
        if self.observed and to_value is not None and to_value is not from_value:
            self._replaced.append((from_value, to_value))
            self._overwritten += ((use.operation, use.index, from_value) for use in from_value.uses)
        super().replace_all_uses_with(from_value, to_value, safe_erase)

    def replace_uses_with_if(self, from_value: SSAValue, to_value: SSAValue, predicate: Callable[[Use], bool]) -> None:
        if self.observed and to_value is not from_value:
            self._replaced.append((from_value, to_value))
            self._overwritten += ((use.operation, use.index, from_value) for use in from_value.uses if predicate(use))
        super().replace_uses_with_if(from_value, to_value, predicate)

    def inline_block(self, block: Block, insertion_point: InsertPoint, arg_values: Sequence[SSAValue] = ()) -> None:
        ops = list(block.ops)
        super().inline_block(block, insertion_point, arg_values)
        for op in ops:
            self.handle_operation_insertion(op)


class _Snapshot:
    """What an operation is now, without being one more user of its operands."""

    def __init__(self, op: Operation):
        self.op = op
        self.results = tuple(op.results)
        self.inner = set(op.walk()) - {op} if op.regions else set[Operation]()
        self._clone = _without_uses(op.clone()) if op.regions else None
        self._state: dict[str, Any] = {
            "operands": tuple(op.operands),
            "result_types": op.result_types,
            "properties": op.properties.copy(),
            "attributes": op.attributes.copy(),
        }

    def operation(self) -> Operation:
        if self._clone is not None:
            return self._clone
        copy = type(self.op).create(**self._state)
        copy.location = self.op.location
        for new, old in zip(copy.results, self.results, strict=True):
            new.name_hint = old.name_hint
        return _without_uses(copy)


def _without_uses(op: Operation) -> Operation:
    op.drop_all_references()
    return op


def _lies_in(op: Operation, ops: set[Operation]) -> bool:
    """Whether ``op`` is within the regions of one of ``ops``."""
    outer = op.parent_op()
    while outer is not None and outer not in ops:
        outer = outer.parent_op()
    return outer is not None


def _end_of(value: SSAValue, replaced: dict[SSAValue, SSAValue]) -> SSAValue:
    """What ``value`` was replaced by in the end."""
    while value in replaced:
        value = replaced[value]
    return value


def _in_order(ops: Sequence[Operation]) -> tuple[Operation, ...]:
    """``ops``, each after those that it uses, otherwise as they are."""
    waiting = dict.fromkeys(ops)
    done: list[Operation] = []
    for op in ops:
        path = [op] if op in waiting else []
        while path:
            uses = (operand.owner for nested in path[-1].walk() for operand in nested.operands)
            missing = next((owner for owner in uses if owner in waiting and owner is not path[-1]), None)
            if isinstance(missing, Operation) and missing not in path:
                path.append(missing)
            else:
                done.append(path.pop())
                del waiting[done[-1]]
    return tuple(done)
