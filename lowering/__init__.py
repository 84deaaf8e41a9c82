"""Lowerings of the RLX dialect to dialects that other compilers take."""

from __future__ import annotations

from collections.abc import Sequence

UNSIGNED = "rlx.unsigned"
"""Unit attribute of an argument or result that was of unsigned integers: lowered integers have no sign."""


class NotLowered(ValueError):
    """An operation that a lowering has no form for; the message says what about it."""


class LoweringError(ValueError):
    """Everything that a lowering has no form for; the message lists it all."""

    def __init__(self, verdict: str, problems: Sequence[str]):
        self.problems = tuple(problems)
        count = "1 operation" if len(problems) == 1 else f"{len(problems)} operations"
        super().__init__("\n".join([f"{count} {verdict}:", *(f"  {p}" for p in problems)]))
