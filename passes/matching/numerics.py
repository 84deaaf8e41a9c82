"""How far a rewrite may change values: the class that every fusion declares."""

from __future__ import annotations

from enum import StrEnum


class Numerics(StrEnum):
    """How the values of a fused graph may differ from those of the graph before, for finite and other values.

    From the strictest to the loosest; each allows what those before it allow.
    """

    EXACT = "exact"
    """Not at all."""
    WIDER = "wider"
    """Intermediate values are kept in a wider type, and rounded once instead of after each operation."""
    REASSOCIATED = "reassociated"
    """Sums are formed in another order."""
    NAN_POLICY = "nan-policy"
    """NaN, infinities or signed zeros may come out otherwise."""
