"""Claim sets of one's own: a target's with changes (``+fft,-fused_swiglu``), or a whole list (``matmul,fft``)."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeAlias

from rlx_dialect.pipelines.conditions import Claimable, claim_names
from rlx_dialect.pipelines.targets import Target

Claims: TypeAlias = "str | Iterable[Claimable] | None"
"""None for the target's own; a text as on a command line; or operation classes and names, which may have signs."""


class UnknownOperation(ValueError):
    """The dialect has no operation of that name."""


def operation_names() -> frozenset[str]:
    """Every operation of the dialect, without ``rlx.``."""
    from rlx_dialect.dialect import RLX

    return claim_names(RLX.operations)


def known_operation(name: str) -> str:
    """``name`` without ``rlx.``; raises UnknownOperation, which suggests similar ones."""
    short, known = name.strip().removeprefix("rlx."), operation_names()
    if short not in known:
        similar = ", ".join(get_close_matches(short, known, cutoff=0.5)) or "none"
        raise UnknownOperation(f"unknown operation '{short}' (similar: {similar})")
    return short


def resolve_claims(target: Target, claims: Claims = None) -> frozenset[str]:
    """The names of what fusion may make; raises ValueError for an unknown operation, or lists and changes mixed.

    A list that is empty claims everything, as in RLX. A text, and changes, cannot come to that.
    """
    own = claim_names(target.claims)
    if claims is None:
        return own
    words = [word if isinstance(word, str) else word.name for word in _words(claims)]
    changes = [word for word in words if word[:1] in ("+", "-")]
    if not changes:
        return frozenset(map(known_operation, words))
    if len(changes) < len(words):
        plain = next(word for word in words if word not in changes)
        raise ValueError(f"claims are changes (+name, -name) or a whole list: '{changes[0]}' and '{plain}' do not mix")
    result = set(own)
    for word in changes:
        (result.add if word[0] == "+" else result.discard)(known_operation(word[1:]))
    if not result:
        raise ValueError("no claim is left, and an empty set of claims would claim everything")
    return frozenset(result)


def _words(claims: str | Iterable[Claimable]) -> list[Claimable]:
    if not isinstance(claims, str):
        return list(claims)
    words = [word.strip() for word in claims.split(",")]
    if not all(words):
        raise ValueError(f"names of operations separated by commas expected, got '{claims}'")
    return list(words)


def claim_changes(target: Target, claims: frozenset[str]) -> list[str]:
    """How a claim set differs from the target's own: ``+fft``, ``-fused_swiglu``."""
    own = claim_names(target.claims)
    return [f"+{name}" for name in sorted(claims - own)] + [f"-{name}" for name in sorted(own - claims)]
