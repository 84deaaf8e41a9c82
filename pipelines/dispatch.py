"""Which operations a target runs as they are, which in simpler ones, and which not at all. As text, and as JSON.

What it says comes from the pass that decides (:mod:`rlx_dialect.lowering.legalize`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rlx_dialect.lowering.legalize import LOGICAL_KERNELS, Dispatch, Path, Policy
from rlx_dialect.pipelines.tables import table


@dataclass(frozen=True)
class KindSummary:
    """The operations of one kind that went one way."""

    kind: str
    node_count: int
    path: Path
    logical_name: str | None
    """Its name as a logical kernel, for those that the policy is about."""
    why: str
    """Why they are not native; empty where they are."""
    parts: Mapping[str, int]
    """What they became, in numbers, where they did not stay."""


@dataclass(frozen=True)
class KernelDispatchReport:
    """The dispatch of one graph, with the field names of RLX."""

    backend_name: str
    policy: str
    supported_claim_count: int
    """Kinds of operation that the target has a form for."""
    summaries: tuple[KindSummary, ...]
    """Sorted by kind."""
    common_lowered_kinds: tuple[str, ...]
    still_unsupported: tuple[str, ...]

    @property
    def compile_ready(self) -> bool:
        return not self.still_unsupported

    @classmethod
    def of(cls, target: str, policy: Policy, supported: int, sites: Sequence[Dispatch]) -> KernelDispatchReport:
        """The report of what ``rlx-legalize`` says of a graph."""
        groups: defaultdict[tuple[str, Path, str], list[Dispatch]] = defaultdict(list)
        for site in sites:
            # A part that is not supported keeps the whole from being so.
            path = Path.UNSUPPORTED if site.problems else site.path
            why = site.why or "; ".join(p.partition(": ")[2] for p in site.problems)
            groups[site.op, path, why].append(site)
        logical = {op.name: op.name.removeprefix("rlx.") for op in LOGICAL_KERNELS}
        summaries: list[KindSummary] = []
        for (kind, path, why), members in sorted(groups.items()):
            parts = sum((m.parts for m in members), Counter[str]())
            del parts[kind]
            count = len(members)
            summaries.append(KindSummary(kind, count, path, logical.get(kind), why, dict(sorted(parts.items()))))
        return cls(
            target,
            policy.value,
            supported,
            tuple(summaries),
            tuple(dict.fromkeys(s.kind for s in summaries if s.path is Path.COMMON_IR)),
            tuple(dict.fromkeys(s.kind for s in summaries if s.path is Path.UNSUPPORTED)),
        )

    def to_json(self) -> str:
        """One object; the key of every field is its name."""
        return json.dumps({**asdict(self), "compile_ready": self.compile_ready}, indent=2)

    def __str__(self) -> str:
        counts = Counter[Path]()
        for summary in self.summaries:
            counts[summary.path] += summary.node_count
        found = ", ".join(f"{counts[path]} {path.value}" for path in Path if counts[path]) or "no operations"
        head = (
            f"dispatch for {self.backend_name}: {found} (policy {self.policy};"
            f" {self.supported_claim_count} kinds have a form of their own there)"
        )
        rows = [["operation", "count", "path", "because", "becomes"]]
        for s in self.summaries:
            parts = ", ".join(f"{count} {name}" for name, count in s.parts.items())
            rows.append([s.kind, str(s.node_count), s.path.value, s.why or "–", parts or "–"])
        return "\n".join([head, table(rows)]) if self.summaries else head
