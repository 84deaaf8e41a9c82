"""What fusion did to a graph, what that saved, and what it left and why. As text, and as JSON with stable keys.

The reasons are those of the checks that decide (:class:`Miss`); nothing here looks for fusions by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes.matching.fusion import FusionPass, Miss, Numerics, Reason
from rlx_dialect.pipelines.diagnostics import place
from rlx_dialect.pipelines.gate import GraphIoProfile, profile_module
from rlx_dialect.pipelines.inventory import Inventory
from rlx_dialect.pipelines.tables import table

MATMUL_BIAS_ACT = ("matmul_bias_act",)
SWIGLU = ("swiglu", "swiglu_dual_matmul")
SHARED_MATMUL = ("shared_input_matmul",)


def pattern_id(pass_name: str) -> str:
    """``rlx-fuse-matmul-bias-act`` reports misses of ``matmul_bias_act``."""
    return pass_name.removeprefix("rlx-").removeprefix("fuse-").replace("-", "_")


@dataclass(frozen=True)
class MissedFusion:
    """One candidate that a pass declined, described as it was then."""

    pattern: str
    node: str
    """The name of the operation."""
    context: str
    """Which one: the name of its result where it has any, and its place in the source."""
    reason: Reason
    detail: str
    hint: str

    @classmethod
    def of(cls, declined_by: FusionPass, miss: Miss) -> MissedFusion:
        names = [f"%{result.name_hint}" for result in miss.op.results if result.name_hint]
        where = place(miss.op.location)
        context = " ".join([*names, *([f"at {where}"] if where else [])])
        return cls(pattern_id(declined_by.name), miss.op.name, context, miss.reason, miss.detail, miss.hint)

    def __str__(self) -> str:
        return f"{self.pattern}: {' '.join(filter(None, (self.node, self.context)))}: {self.detail} ({self.hint})"


@dataclass(frozen=True)
class RewriteReport:
    """One rewrite: the pattern that made it, the operations that it removed and inserted, what it saved."""

    pattern: str
    removed: tuple[str, ...]
    inserted: tuple[str, ...]
    context: str
    saved: GraphIoProfile
    gain_ns: float | None
    """By the target's gate; None where no target is known."""


@dataclass(frozen=True)
class PassReport:
    """What one pass did. The savings are those of the whole graph."""

    name: str
    numerics: Numerics | None
    """None for a pass that is no fusion."""
    strict: bool
    made: int
    """The operations it is for that it left behind; a later pass may have made something else of them. For a pass
    that is for no operation in particular, the number of its rewrites."""
    rewrites: tuple[RewriteReport, ...]
    saved: GraphIoProfile
    gain_ns: float | None

    @property
    def did_something(self) -> bool:
        return bool(self.rewrites) or self.saved != GraphIoProfile()


@dataclass(frozen=True)
class FusionReport:
    """Counts before and after fusion, the passes, and the misses. Counts without ``_before`` are of the result."""

    nodes_before: int
    nodes_after: int
    matmul_before: int
    matmul_after: int
    attention: int
    rope: int
    narrow: int
    silu: int
    mul: int
    fused_matmul_bias_act: int
    fused_swiglu: int
    fused_residual_ln: int
    fused_residual_rms_norm: int
    fused_attention_block: int
    fused_transformer_layer: int
    elementwise_region: int
    transform_region: int
    batch_elementwise_region: int
    fk_prologue_region: int
    missed: tuple[MissedFusion, ...]
    before: Inventory
    after: Inventory
    target: str | None = None
    passes: tuple[PassReport, ...] = ()
    saved: GraphIoProfile = field(default_factory=GraphIoProfile)
    gain_ns: float | None = None

    # Making one.

    @classmethod
    def of(cls, before: Inventory, after: Inventory, missed: Sequence[MissedFusion]) -> FusionReport:
        """The counts of two inventories."""
        same_names: dict[str, Any] = {name: after[name] for name in _COUNTED}
        return cls(
            nodes_before=before.nodes,
            nodes_after=after.nodes,
            matmul_before=before["matmul"],
            matmul_after=after["matmul"],
            silu=after.silu,
            mul=after.mul,
            fk_prologue_region=after.prologue_regions,
            missed=tuple(missed),
            before=before,
            after=after,
            **same_names,
        )

    @classmethod
    def analyze(cls, before: ModuleOp, after: ModuleOp, passes: Sequence[FusionPass] | None = None) -> FusionReport:
        """Compare two modules; misses are what ``passes`` (by default every fusion) would decline in ``after``."""
        if passes is None:
            passes = _all_fusions()
        missed = [MissedFusion.of(p, miss) for p in passes for miss in p.misses(after)]
        report = cls.of(Inventory.of(before), Inventory.of(after), missed)
        return replace(report, saved=profile_module(before) - profile_module(after))

    @classmethod
    def scan(cls, module: ModuleOp) -> FusionReport:
        """The counts of one module, and what every fusion would decline in it."""
        return cls.analyze(module, module)

    # Looking at one.

    def missed_matmul_bias_act(self) -> int:
        return self._missed(MATMUL_BIAS_ACT)

    def missed_swiglu(self) -> int:
        return self._missed(SWIGLU)

    def missed_shared_matmul(self) -> int:
        return self._missed(SHARED_MATMUL)

    def _missed(self, patterns: tuple[str, ...]) -> int:
        return sum(miss.pattern in patterns for miss in self.missed)

    @property
    def made(self) -> dict[str, int]:
        """Operations that the result has more of than the graph before, by name, with their number."""
        return {name: count for name, count in self.after.operations.items() if count > self.before[name]}

    def summary_line(self) -> str:
        """One line of counts in a fixed order."""
        values = {
            "nodes": f"{self.nodes_before}→{self.nodes_after}",
            "matmul": f"{self.matmul_before}→{self.matmul_after}",
            "fused_mm_act": self.fused_matmul_bias_act,
            "fused_swiglu": self.fused_swiglu,
            "elementwise_region": self.elementwise_region,
            "transform_region": self.transform_region,
            "batch_region": self.batch_elementwise_region,
            "fk_prologue": self.fk_prologue_region,
            "missed_mm_act": self.missed_matmul_bias_act(),
            "missed_swiglu": self.missed_swiglu(),
            "missed_shared_mm": self.missed_shared_matmul(),
        }
        return " ".join(f"{key}={value}" for key, value in values.items())

    def reasons(self) -> list[tuple[Reason, list[MissedFusion]]]:
        """The misses by reason, the most frequent first."""
        groups: dict[Reason, list[MissedFusion]] = {}
        for miss in self.missed:
            groups.setdefault(miss.reason, []).append(miss)
        return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))

    def __str__(self) -> str:
        lines = [f"fusion report{f' for {self.target}' if self.target else ''}", f"  {self.summary_line()}"]
        made = ", ".join(f"{name} {count}" for name, count in self.made.items())
        lines.append(f"  made: {made or 'nothing'}")
        lines.append(f"  saved a call: {_saved_text(self.saved, self.gain_ns)}")
        if working := [p for p in self.passes if p.did_something]:
            rows = [_pass_row(p) for p in working]
            text = table([["pass", "numerics", "made", "rewrites", "launches", "traffic", "to host", "gain"], *rows])
            lines += [f"  {line}" for line in text.splitlines()]
        if idle := [p.name for p in self.passes if not p.did_something]:
            lines.append(f"  without work: {', '.join(idle)}")
        lines.append(f"  left on the table: {len(self.missed)}")
        for reason, misses in self.reasons():
            lines.append(f"    {reason} ({len(misses)})")
            lines += [f"      {miss}" for miss in misses]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything, with stable keys: ``summary``, ``operations``, ``saved``, ``passes``, ``missed``."""
        data: dict[str, Any] = {
            "target": self.target,
            "summary_line": self.summary_line(),
            "summary": {f.name: getattr(self, f.name) for f in fields(self) if f.type == "int"},
            "operations": {"before": dict(self.before.operations), "after": dict(self.after.operations)},
            "made": self.made,
            "saved": _saved_data(self.saved, self.gain_ns),
            "passes": [_pass_data(p) for p in self.passes],
            "reasons": {str(reason): len(misses) for reason, misses in self.reasons()},
            "missed": [asdict(miss) for miss in self.missed],
        }
        return json.dumps(data, indent=2, ensure_ascii=False)


_COUNTED = (
    "attention",
    "rope",
    "narrow",
    "fused_matmul_bias_act",
    "fused_swiglu",
    "fused_residual_ln",
    "fused_residual_rms_norm",
    "fused_attention_block",
    "fused_transformer_layer",
    "elementwise_region",
    "transform_region",
    "batch_elementwise_region",
)
"""The fields that are how often the operation of that name occurs."""


def _all_fusions() -> list[FusionPass]:
    """Every fusion that is discovered, in the order of the selection table, with its own defaults."""
    from rlx_dialect.passes import load_pass, pass_modules
    from rlx_dialect.pipelines.selection import ROWS

    modules = pass_modules()
    order = dict.fromkeys([*(row.pass_name for row in ROWS if row.pass_name in modules), *modules])
    classes = (load_pass(name, modules[name]) for name in order)
    return [found() for found in classes if issubclass(found, FusionPass)]


def top_reasons(missed: Sequence[MissedFusion], limit: int = 3) -> list[str]:
    """The most frequent reasons with one example each: ``more-than-one-use ×3, as rlx.matmul %h: …``."""
    counts = Counter(miss.reason for miss in missed)
    examples: Mapping[Reason, MissedFusion] = {miss.reason: miss for miss in reversed(missed)}
    return [f"{reason} ×{count}, as {examples[reason]}" for reason, count in counts.most_common(limit)]


def bytes_text(count: int) -> str:
    """``1.5 MB``; decimal units, with a sign where negative."""
    size, unit = float(count), 0
    while abs(size) >= 1000 and unit < 4:
        size, unit = size / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {'kMGT'[unit - 1]}B"


def _gain_text(nanoseconds: float | None) -> str:
    return "–" if nanoseconds is None else f"{nanoseconds / 1000:.1f} µs"


def _saved_text(saved: GraphIoProfile, gain: float | None) -> str:
    parts = [f"{saved.kernel_launches} launches", f"{bytes_text(saved.device_traffic_bytes)} of traffic"]
    if saved.sync_points:
        parts.append(f"{saved.sync_points} stops of the device")
    if saved.host_output_bytes:
        parts.append(f"{bytes_text(saved.host_output_bytes)} to the host")
    return ", ".join(parts) + ("" if gain is None else f"; {_gain_text(gain)} by the target's gate")


def _pass_row(done: PassReport) -> list[str]:
    numerics = "–" if done.numerics is None else f"{done.numerics}{', strict' if done.strict else ''}"
    saved = done.saved
    return [
        done.name,
        numerics,
        "–" if done.numerics is None else str(done.made),
        str(len(done.rewrites)),
        str(saved.kernel_launches),
        bytes_text(saved.device_traffic_bytes),
        bytes_text(saved.host_output_bytes),
        _gain_text(done.gain_ns),
    ]


def _saved_data(saved: GraphIoProfile, gain: float | None) -> dict[str, float | int | None]:
    return {**asdict(saved), "gain_ns": gain}


def _pass_data(done: PassReport) -> dict[str, Any]:
    return {
        "name": done.name,
        "numerics": done.numerics,
        "strict": done.strict,
        "made": done.made,
        "saved": _saved_data(done.saved, done.gain_ns),
        "rewrites": [
            {
                "pattern": r.pattern,
                "removed": list(r.removed),
                "inserted": list(r.inserted),
                "context": r.context,
                "saved": _saved_data(r.saved, r.gain_ns),
            }
            for r in done.rewrites
        ],
    }
