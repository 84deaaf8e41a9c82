"""The form of a fusion: one check that gives a match or a reason, one rewrite, one pass that declares both.

The check's value is the only truth: it drives the rewrite, the report, the diagnostics and the tests, so the
report cannot disagree with the pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_narrow
from rlx_dialect.operation import describe
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.passes.matching.numerics import Numerics
from rlx_dialect.passes.matching.observe import unobserved
from rlx_dialect.passes.matching.reason import Reason
from rlx_dialect.xdsl_compat import Context, ModulePass, PatternRewriter, RewritePattern

__all__ = ["FusionPass", "FusionPattern", "Match", "Miss", "Numerics", "PatternFusionPass", "Reason"]


@dataclass(frozen=True)
class Match:
    """What a check has found, everything that the rewrite needs. Subclasses name it."""


@dataclass(frozen=True)
class Miss:
    """Why the candidate at ``op`` is not fused.

    ``detail`` says what was found, ``hint`` what could be done about it.
    """

    reason: Reason
    op: Operation
    detail: str
    hint: str

    def __str__(self) -> str:
        return f"{describe(self.op)}: {self.reason}: {self.detail} ({self.hint})"


R = TypeVar("R", bound=Operation)
M = TypeVar("M", bound=Match)


class FusionPattern(RewritePattern, Generic[R, M]):
    """One pattern of a fusion. ``root`` is the class, or the classes, of the operation that it is checked at."""

    root: type[Operation] | tuple[type[Operation], ...]
    numerics: Numerics | None = None
    """Of this pattern alone, where that differs from its pass's class."""
    strict: bool = False
    """Decline whatever may change a value; set by the pass."""

    @abstractmethod
    def check(self, op: R, /) -> M | Miss | None:
        """A match, the reason why there is none, or None where ``op`` is no candidate at all. Changes nothing."""

    @abstractmethod
    def rewrite(self, match: M, rewriter: PatternRewriter, /) -> None:
        """Replace what was matched."""

    def decide(self, op: Operation, /) -> M | Miss | None:
        """:meth:`check` under the numerics policy: what a rewrite, a report and a test go by."""
        if not isinstance(op, self.root):
            return None
        found = self.check(op)  # pyright: ignore[reportArgumentType]
        if self.strict and isinstance(found, Match):
            return _refused(self.numerics, op) or found
        return found

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        found = self.decide(op)
        if isinstance(found, Match):
            self.rewrite(found, rewriter)


def _refused(numerics: Numerics | None, op: Operation) -> Miss | None:
    """Why strict numerics refuse a match at ``op``. Wider intermediate values differ for narrow floats only."""
    if numerics in (None, Numerics.EXACT):
        return None
    if numerics is Numerics.WIDER and not any(is_narrow(element_of(v)) for v in (*op.operands, *op.results)):
        return None
    return Miss(Reason.NUMERICS, op, f"its values may differ: {numerics}", "allow it with --numerics=default")


@dataclass(frozen=True)
class FusionPass(ModulePass, ABC):
    """A pass that forms fused operations: what a selection, a report and the numerics policy need to know.

    ``strict``: decline whatever may change a value.
    """

    produces: ClassVar[tuple[type[Operation], ...]]
    """The fused operations that it may create; a target has to claim them."""
    numerics: ClassVar[Numerics]

    strict: bool = False

    @abstractmethod
    def run(self, module: ModuleOp) -> list[Miss]:
        """Fuse in ``module``; returns what was declined, in program order."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.run(op)

    def misses(self, module: ModuleOp) -> list[Miss]:
        """What the pass would decline if it were applied to ``module``, which it leaves alone."""
        with unobserved():
            return self.run(module.clone())


class PatternFusionPass(FusionPass):
    """A fusion made of patterns, which are applied until none matches."""

    @abstractmethod
    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        """The patterns, in the order in which they are tried."""

    def _prepared(self) -> Sequence[FusionPattern[Any, Any]]:
        patterns = self.patterns()
        for pattern in patterns:
            pattern.numerics = pattern.numerics or self.numerics
            pattern.strict = self.strict
        return patterns

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, self._prepared())

    def run(self, module: ModuleOp) -> list[Miss]:
        patterns = self._prepared()
        apply_patterns(module, patterns)
        found = (pattern.decide(op) for op in module.walk() for pattern in patterns)
        return [miss for miss in found if isinstance(miss, Miss)]
