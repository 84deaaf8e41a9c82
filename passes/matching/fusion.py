"""The form of a fusion: one check that gives a match or a reason, one rewrite, one pass that declares both.

The check's value is the only truth: it drives the rewrite, the report, the diagnostics and the tests, so the
report cannot disagree with the pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from rlx_dialect.operation import describe
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.xdsl_compat import Context, ModulePass, PatternRewriter, RewritePattern


class Reason(StrEnum):
    """Why a candidate is not fused."""

    MORE_THAN_ONE_USE = "more-than-one-use"
    """An intermediate value has further uses, so it has to be there anyway."""
    RETURNED = "returned"
    """An intermediate value is a result of the function."""
    OTHER_BLOCK = "other-block"
    """The operations are in different blocks: one may run more or less often than the other."""
    OTHER_CONSUMER = "other-consumer"
    """The value goes to an operation that the fused one cannot take in."""
    UNSUPPORTED_KIND = "unsupported-kind"
    """The kind of activation or binary operation is none that the fused operation evaluates."""
    ELEMENT_TYPE = "element-type"
    """The element types are none, or no combination, that the fused operation takes."""
    BIAS_SHAPE = "bias-shape"
    """The added value is not one vector along the last axis."""
    SHAPES_DIFFER = "shapes-differ"
    """Operands broadcast against each other where the fused operation wants one shape."""
    DYNAMIC_EXTENT = "dynamic-extent"
    """Extents that have to be equal are only known at run time."""
    DEFINED_TOO_LATE = "defined-too-late"
    """An operand is defined only after a user of the fused operation."""
    AFTER_CONTRACTION = "after-contraction"
    """The consumer takes a contraction's result, and starts a region of its own so that it can join that."""
    STEP_LIMIT = "step-limit"
    """The region has as many steps as the target's kernels take."""
    INPUT_LIMIT = "input-limit"
    """The region would have more operands than the target's kernels take."""


class Numerics(StrEnum):
    """How the values of a fused graph may differ from those of the graph before, for finite and other values."""

    EXACT = "exact"
    """Not at all."""
    REASSOCIATED = "reassociated"
    """Sums are formed in another order."""
    WIDER = "wider"
    """Intermediate values are kept in a wider type, and rounded once instead of after each operation."""
    NAN_POLICY = "nan-policy"
    """NaN, infinities or signed zeros may come out otherwise."""


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

    @abstractmethod
    def check(self, op: R, /) -> M | Miss | None:
        """A match, the reason why there is none, or None where ``op`` is no candidate at all. Changes nothing."""

    @abstractmethod
    def rewrite(self, match: M, rewriter: PatternRewriter, /) -> None:
        """Replace what was matched."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, self.root):
            found = self.check(op)  # pyright: ignore[reportArgumentType]
            if isinstance(found, Match):
                self.rewrite(found, rewriter)


@dataclass(frozen=True)
class FusionPass(ModulePass, ABC):
    """A pass that forms fused operations: what a selection, a report and the numerics policy need to know."""

    produces: ClassVar[tuple[type[Operation], ...]]
    """The fused operations that it may create; a target has to claim them."""
    numerics: ClassVar[Numerics]

    @abstractmethod
    def misses(self, module: ModuleOp) -> list[Miss]:
        """What the pass would decline if it were applied to ``module``, in program order. Changes nothing."""


class PatternFusionPass(FusionPass):
    """A fusion made of patterns, which are applied until none matches."""

    @abstractmethod
    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        """The patterns, in the order in which they are tried."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, self.patterns())

    def misses(self, module: ModuleOp) -> list[Miss]:
        # A pattern may have to see what another one leaves.
        patterns, after = self.patterns(), module.clone()
        apply_patterns(after, patterns)
        found = (pattern.check(op) for op in after.walk() for pattern in patterns if isinstance(op, pattern.root))
        return [miss for miss in found if isinstance(miss, Miss)]
