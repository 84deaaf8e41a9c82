"""The rewriting driver: forward sweeps with dispatch on the type of the root, until nothing changes.

Patterns are ordinary xDSL :class:`RewritePattern`s, and the same pattern runs under xDSL's walker. What the
driver adds: an operation meets only the patterns whose root it is; a sweep visits every operation once, at a
cost linear in their number; nothing is folded, deleted or verified behind a pattern's back; new operations keep
the source locations of those that they replace; and a pattern that never comes to rest is an error that names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation

from rlx_dialect.operation import describe
from rlx_dialect.passes.matching.numerics import Numerics
from rlx_dialect.passes.matching.observe import RecordingRewriter, is_observed
from rlx_dialect.xdsl_compat import PatternRewriterListener, RewritePattern, annotated_roots

MAX_SWEEPS = 100
"""Two or three sweeps are usual; patterns that need more than this go round in circles."""

MIN_DEPTH = 1000
"""Rewrites of a rewrite's own results that are allowed in any module; in a larger one, as many as operations."""


class RewriteLimitError(RuntimeError):
    """Patterns that rewrite for ever."""


def pattern_roots(pattern: RewritePattern) -> tuple[type[Operation], ...]:
    """The operation classes that ``pattern`` can match at, subclasses included.

    They are the pattern's attribute ``root`` (a class or a tuple of classes), or what the signature under
    ``@op_type_rewrite_pattern`` says, or, without either, every operation.
    """
    root = getattr(pattern, "root", None)
    if root is None:
        return annotated_roots(type(pattern))
    return root if isinstance(root, tuple) else (root,)


def apply_patterns(
    root: Operation,
    patterns: Sequence[RewritePattern],
    *,
    max_sweeps: int = MAX_SWEEPS,
    listener: PatternRewriterListener | None = None,
) -> bool:
    """Rewrite everything nested in ``root`` until no pattern matches; whether anything changed.

    At each operation the patterns are tried in the order given, until one of them does something. Operations that
    a rewrite inserts are visited at once, so a chain of rewrites ends within one sweep; what a rewrite makes
    possible further up is found by the next. Raises RewriteLimitError when ``max_sweeps`` sweeps are not enough,
    or when a rewrite's results are rewritten again and again.
    """
    driver = _Driver(root, patterns, listener)
    for sweep in range(max_sweeps):
        if not driver.sweep():
            return sweep > 0
    raise RewriteLimitError(f"{driver.last_rewrite()} still finds work after {max_sweeps} sweeps")


class _Cursor:
    """A block that is being walked, and the operation that comes next in it."""

    __slots__ = ("next", "owner")

    def __init__(self, owner: Operation, block: Block):
        self.owner = owner
        self.next = block.first_op


class _Driver:
    def __init__(self, root: Operation, patterns: Sequence[RewritePattern], listener: PatternRewriterListener | None):
        self.root = root
        self.patterns = [(pattern, pattern_roots(pattern)) for pattern in patterns]
        self.dispatch: dict[type[Operation], list[RewritePattern]] = {}
        self.cursors: list[_Cursor] = []
        self.inserted: list[Operation] = []
        self.last: tuple[RewritePattern, Operation] | None = None
        self.rewriter = RecordingRewriter()
        self.rewriter.observed = is_observed()
        if listener is not None:
            self.rewriter.extend_from_listener(listener)
        self.rewriter.operation_insertion_handler.append(self.inserted.append)
        self.rewriter.operation_removal_handler.append(self._removed)

    def sweep(self) -> bool:
        """Visit every operation once, and what that inserts; whether anything changed."""
        changed = False
        self._enter(self.root)
        while self.cursors:
            cursor = self.cursors[-1]
            op = cursor.next
            if op is None:
                self.cursors.pop()
                continue
            cursor.next = op.next_op
            patterns = self._patterns_of(type(op))
            if patterns and self._rewrite(op, patterns):
                changed = True
                self._visit_inserted()
            elif op.regions:
                self._enter(op)
        return changed

    def last_rewrite(self) -> str:
        assert self.last is not None
        pattern, op = self.last
        return f"{type(pattern).__name__}, last at {describe(op)},"

    def _enter(self, op: Operation) -> None:
        self.cursors += [_Cursor(op, block) for region in reversed(op.regions) for block in reversed(region.blocks)]

    def _patterns_of(self, op_type: type[Operation]) -> list[RewritePattern]:
        patterns = self.dispatch.get(op_type)
        if patterns is None:
            patterns = [pattern for pattern, roots in self.patterns if issubclass(op_type, roots)]
            self.dispatch[op_type] = patterns
        return patterns

    def _rewrite(self, op: Operation, patterns: Sequence[RewritePattern]) -> bool:
        """Try the patterns at ``op``; whether one of them did something."""
        rewriter = self.rewriter
        if rewriter.observed and patterns:
            rewriter.remember(op)
        for pattern in patterns:
            rewriter.aim(op)
            try:
                pattern.match_and_rewrite(op, rewriter)
            except Exception as error:
                error.add_note(f"while applying {type(pattern).__name__} to {describe(op)}")
                raise
            if rewriter.has_done_action:
                self.last = pattern, op
                numerics = getattr(pattern, "numerics", None) or Numerics.EXACT
                rewriter.finish(type(pattern).__name__, numerics, [op.location])
                return True
        return False

    def _visit_inserted(self) -> None:
        """Visit what the last rewrite inserted, in that order, then what that inserted, and so on."""
        depth, limit = 0, MIN_DEPTH
        while self.inserted:
            depth += 1
            if depth == MIN_DEPTH:
                limit = max(limit, sum(1 for _ in self.root.walk()))
            if depth > limit:
                raise RewriteLimitError(f"{self.last_rewrite()} rewrites its own results, {limit} times so far")
            ops = self.inserted.copy()
            self.inserted.clear()
            for op in ops:
                for nested in op.walk() if op.regions else (op,):
                    # Gone again, or about to be walked anew by the next sweep because something in it changed.
                    if nested.parent is None or self._rewrite(nested, self._patterns_of(type(nested))):
                        break

    def _removed(self, op: Operation) -> None:
        for depth, cursor in enumerate(self.cursors):
            if cursor.owner is op:
                del self.cursors[depth:]
                return
            if cursor.next is op:
                cursor.next = op.next_op
