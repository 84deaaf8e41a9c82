"""A pattern made of formulas, and many such patterns tried as one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import RlxOp, element_of, shape_of
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.passes.canonical._match import (
    Apply,
    Bindings,
    Either,
    Signature,
    Term,
    Var,
    is_number,
    kind_of,
    matches,
    signature,
    signatures,
)
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.shapes import broadcasts_to, show
from rlx_dialect.xdsl_compat import PatternRewriter


@dataclass(frozen=True)
class Found(Match):
    """One way in which the root is computed by a formula."""

    root: RlxOp
    bindings: Bindings

    def __getitem__(self, term: Term) -> SSAValue:
        return self.bindings.values[term]

    def get(self, term: Term) -> SSAValue | None:
        return self.bindings.values.get(term)

    def applied(self, op_type: type[RlxOp]) -> Sequence[RlxOp]:
        """The matched operations of that class."""
        return [op for op in self.bindings.ops if isinstance(op, op_type)]


class Spelling(FusionPattern[RlxOp, Found]):
    """Whatever is computed by one of ``formulas`` becomes what :meth:`build` gives.

    ``subject`` is the variable whose type the result has. No value in between may have a use outside.
    """

    formulas: Sequence[Term]
    subject: Var

    def __init__(self, subject: Var, formulas: Iterable[Term], numerics: Numerics):
        self.subject = subject
        self.formulas = [alternative for formula in formulas for alternative in _alternatives(formula)]
        self.numerics = numerics
        self.root = tuple(dict.fromkeys(formula.op_type for formula in self.formulas))

    def accept(self, found: Found, /) -> Miss | None:
        """Why what was found is not right after all."""
        return None

    @abstractmethod
    def build(self, found: Found, rewriter: PatternRewriter, /) -> RlxOp:
        """What takes the place of the root; it is inserted there later, its own operands are inserted here."""

    def check(self, op: RlxOp, /) -> Found | Miss | None:
        if not isinstance(op.results[0].type, TensorType):  # In the body of a region.
            return None
        miss: Miss | None = None
        for formula in self.formulas:
            for bindings in matches(formula, op.results[0]):
                found = Found(op, bindings)
                declined = self._plain(found) or self.accept(found)
                if declined is None:
                    return found
                # One operation with another constant is no near miss of anything.
                if declined.reason is not Reason.OTHER_CONSTANT or len(bindings.ops) > 1:
                    miss = miss or declined
        return miss

    def rewrite(self, match: Found, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(match.root, self.build(match, rewriter))
        unused = list(match.bindings.ops[1:])
        while dead := [op for op in unused if op.results[0].first_use is None]:
            for op in dead:
                rewriter.erase(op)
                unused.remove(op)

    def _plain(self, found: Found) -> Miss | None:
        """Why numbers, types or uses are not as every formula wants them."""
        root, ops = found.root, found.bindings.ops
        subject = found[self.subject]
        if element_of(subject) != element_of(root.results[0]):
            detail = f"{subject.type} becomes {root.results[0].type}"
            return Miss(Reason.ELEMENT_TYPE, root, detail, "compute in one element type")
        if subject.type != root.results[0].type:
            detail = f"{show(shape_of(subject))} is broadcast to {show(shape_of(root.results[0]))}"
            return Miss(Reason.SHAPES_DIFFER, root, detail, "expand before or after the whole formula")
        for value, wanted in found.bindings.numbers:
            if wanted is not None and not is_number(value, wanted, element_of(value)):
                detail = f"it has {scalar_value(value)} where the formula has {wanted}"
                return Miss(Reason.OTHER_CONSTANT, root, detail, "nothing to do unless the formula was meant")
            if not broadcasts_to(shape_of(value), shape_of(subject)):
                detail = f"a constant of shape {show(shape_of(value))} stretches {show(shape_of(subject))}"
                return Miss(Reason.SHAPES_DIFFER, root, detail, "give it as one number")
        return _used_outside(root, ops, found.bindings)


def _alternatives(formula: Term) -> Iterable[Apply]:
    if isinstance(formula, Either):
        for alternative in formula.alternatives:
            yield from _alternatives(alternative)
    else:
        assert isinstance(formula, Apply), "a formula has an operation at its root"
        yield formula


def _used_outside(root: Operation, ops: Sequence[Operation], bindings: Bindings) -> Miss | None:
    inner = set(ops)
    for op in ops[1:]:
        if op.parent is not root.parent:
            return Miss(Reason.OTHER_BLOCK, root, f"{op.name} is in another block", "move both into one block")
        for use in op.results[0].uses:
            if use.operation not in inner:
                reason = Reason.RETURNED if isinstance(use.operation, ReturnOp) else Reason.MORE_THAN_ONE_USE
                detail = f"the result of {op.name} is also used by {use.operation.name}"
                return Miss(reason, root, detail, "duplicate it, or use it only here")
    for variable, value in bindings.values.items():
        if isinstance(variable, Var) and value.owner in inner:
            detail = f"the result of {value.owner.name} is also an operand"  # pyright: ignore[reportAttributeAccessIssue]
            return Miss(Reason.MORE_THAN_ONE_USE, root, detail, "nothing to do: it has to be there first")
    return None


class Spellings(FusionPattern[RlxOp, Any]):
    """Many patterns of formulas as one: at an operation only those are tried whose formulas begin as it does.

    The first of them that matches is taken. Made for speed: the patterns one after the other do the same.
    """

    def __init__(self, patterns: Sequence[Spelling]):
        self.patterns = patterns
        self.root = tuple(dict.fromkeys(root for pattern in patterns for root in _classes(pattern)))
        self._index: dict[Signature, dict[Signature | None, list[Spelling]]] = {}
        for pattern in patterns:
            for formula in pattern.formulas:
                assert isinstance(formula, Apply)
                at = self._index.setdefault((formula.op_type, formula.kind), {})
                for operand in _telling(formula):
                    if pattern not in at.setdefault(operand, []):
                        at[operand].append(pattern)
        self._order = {pattern: index for index, pattern in enumerate(patterns)}

    def check(self, op: RlxOp, /) -> tuple[Spelling, Found] | Miss | None:
        raise AssertionError("each pattern decides by itself")

    def rewrite(self, match: Any, rewriter: PatternRewriter, /) -> None:
        raise AssertionError("each pattern rewrites by itself")

    def decide(self, op: Operation, /) -> Found | Miss | None:
        found = self._decide(op)
        return found if found is None or isinstance(found, Miss) else found[1]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        found = self._decide(op)
        if isinstance(found, tuple):
            pattern, match = found
            pattern.rewrite(match, rewriter)

    def _decide(self, op: Operation) -> tuple[Spelling, Found] | Miss | None:
        candidates = self._candidates(op)
        miss: Miss | None = None
        for pattern in candidates:
            found = pattern.decide(op)
            if isinstance(found, Found):
                return pattern, found
            miss = miss or found
        return miss

    def _candidates(self, op: Operation) -> Sequence[Spelling]:
        if (at := self._index.get((type(op), kind_of(op)))) is None:
            return ()
        found = list(at.get(None, ()))
        for operand in op.operands:
            sign = signature(operand)
            if sign is not None:
                found += at.get(sign, ())
        return sorted(dict.fromkeys(found), key=self._order.__getitem__) if len(found) > 1 else found


def _classes(pattern: Spelling) -> tuple[type[Operation], ...]:
    return pattern.root if isinstance(pattern.root, tuple) else (pattern.root,)


def _telling(formula: Apply) -> Iterable[Signature | None]:
    """The signatures of the operand that can be the fewest things, a number being the least telling; None for any."""
    known = [found for operand in formula.operands if (found := signatures(operand)) is not None]
    return min(known, key=lambda found: (any(kind is None for _, kind in found), len(found)), default=[None])
