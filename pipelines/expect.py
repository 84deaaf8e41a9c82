"""``--expect 'fused_attention_block>=6'``: counts that a fused graph must have, and why it has not."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rlx_dialect.passes import load_pass, pass_modules
from rlx_dialect.passes.matching.fusion import FusionPass
from rlx_dialect.pipelines.claims import known_operation
from rlx_dialect.pipelines.conditions import Situation, claim_names
from rlx_dialect.pipelines.named import newcomers
from rlx_dialect.pipelines.recorder import FusionRecorder
from rlx_dialect.pipelines.report import MissedFusion, top_reasons
from rlx_dialect.pipelines.selection import Decision, decide

OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Expectation:
    """How often an operation, named without ``rlx.``, must occur after fusion."""

    operation: str
    operator: str
    count: int

    @classmethod
    def parse(cls, text: str) -> Expectation:
        """``fused_swiglu>=2``; raises ValueError for another form and for an unknown operation."""
        match = re.fullmatch(r"\s*([\w.]+)\s*(==|>=|<=|>|<)\s*(\d+)\s*", text)
        if match is None:
            raise ValueError(f"an expectation is an operation, one of {' '.join(OPERATORS)}, a number; got '{text}'")
        return cls(known_operation(match[1]), match[2], int(match[3]))

    def holds(self, found: int) -> bool:
        return OPERATORS[self.operator](found, self.count)

    def is_exceeded_by(self, found: int) -> bool:
        """Whether there are too many, not too few."""
        return self.operator in ("<", "<=") or found > self.count

    def __str__(self) -> str:
        return f"{self.operation}{self.operator}{self.count}"


def makers(operation: str) -> list[type[FusionPass]]:
    """The fusions that may make an operation."""
    passes = (load_pass(name, module) for name, module in pass_modules().items())
    return [p for p in passes if issubclass(p, FusionPass) and operation in claim_names(p.produces)]


def left_out(operation: str, situation: Situation) -> list[Decision]:
    """The decisions on the passes that would make ``operation``, which the pipeline does without."""
    names = {p.name for p in makers(operation)}
    return [d for d in decide(situation, newcomers()) if d.row.pass_name in names and not d.selected]


def unmet(expectations: Sequence[Expectation], recorder: FusionRecorder, situation: Situation | None) -> list[str]:
    """A message for each expectation that does not hold: what was found, and why there is no more of it.

    ``situation`` is what the pipeline was selected by, None where the passes were written out.
    """
    found = recorder.inventory()
    return [
        f"{wanted} expected, {count} found: {_why(wanted, count, recorder, situation)}"
        for wanted in expectations
        if not wanted.holds(count := found[wanted.operation])
    ]


def _made_by(operation: str, recorder: FusionRecorder) -> str:
    """Why there are too many: who made them, or why they were not fused away."""
    names = {p.name for p in makers(operation)}
    if made := [f"{p.name} made {p.made}" for p in recorder.passes if p.name in names and p.made]:
        return ", ".join(made)
    return _reasons([m for _, m in recorder.still_missed() if m.node == f"rlx.{operation}"]) or "nothing fuses it"


def _reasons(missed: Sequence[MissedFusion]) -> str:
    return "\n  ".join(["the most frequent reasons are", *top_reasons(missed)]) if missed else ""


def _why(wanted: Expectation, found: int, recorder: FusionRecorder, situation: Situation | None) -> str:
    if wanted.is_exceeded_by(found):
        return _made_by(wanted.operation, recorder)
    names = {p.name for p in makers(wanted.operation)}
    ran = [p.name for p in recorder.passes if p.name in names]
    for misses in (recorder.still_missed(), recorder.ever_missed()):
        if reasons := _reasons([m for p, m in misses if p.name in names]):
            return reasons
    if ran:
        return f"{', '.join(ran)} found no candidate that it declined"
    if not names:
        return "no fusion makes it"
    if situation is None:
        return f"none of the passes makes it; {', '.join(sorted(names))} would"
    because = "; ".join(dict.fromkeys(d.reason for d in left_out(wanted.operation, situation)))
    return f"the pipeline of {situation.target.name} has no pass that makes it: {because}"
