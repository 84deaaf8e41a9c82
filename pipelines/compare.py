"""Tables of fusions and targets: who has which, and what each target makes of one graph (``--compare-targets``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes import load_pass, pass_modules
from rlx_dialect.passes.matching.fusion import FusionPass
from rlx_dialect.pipelines.conditions import Claimed, Not, On, Situation, claim_names
from rlx_dialect.pipelines.named import newcomers, pipeline_text
from rlx_dialect.pipelines.recorder import run_recorded
from rlx_dialect.pipelines.selection import Decision, decide, situation_of
from rlx_dialect.pipelines.tables import table
from rlx_dialect.pipelines.targets import CPU, TARGETS, Target
from rlx_dialect.xdsl_compat import Context, PassPipeline, all_passes

NO_CANDIDATE = "no candidate"


def fusions() -> Iterator[type[FusionPass]]:
    """Every fusion in the order in which pipelines run them."""
    modules = pass_modules()
    for decision in decide(situation_of(CPU), newcomers()):
        if decision.row.pass_name in modules:
            found = load_pass(decision.row.pass_name, modules[decision.row.pass_name])
            if issubclass(found, FusionPass):
                yield found


def fusions_table() -> str:
    """What each fusion makes, how far it may change values, and which targets have it."""
    chosen = {
        t.name: {d.row.pass_name for d in decide(situation_of(t), newcomers()) if d.selected} for t in TARGETS.values()
    }
    rows = [
        [
            found.name,
            ", ".join(sorted(claim_names(found.produces))),
            str(found.numerics),
            " ".join(name for name, passes in chosen.items() if found.name in passes) or "–",
        ]
        for found in fusions()
    ]
    return table([["pass", "makes", "numerics", "targets"], *rows])


def compare_targets(module: ModuleOp, ctx: Context, situation: Callable[[Target], Situation]) -> str:
    """A table of what each target's pipeline makes of ``module``, which stays as it is.

    A row is a fusion. A cell is how often it happened, or why it did not: the claim or the option that keeps the
    pass out of the pipeline, or the reason that its check gave most often. Fusions that had no candidate wherever
    they ran are in one line below.
    """
    columns = [_column(module.clone(), ctx, situation(target)) for target in TARGETS.values()]
    rows, idle = [["", *TARGETS]], list[str]()
    for found in fusions():
        cells = [column[found.name] for column in columns]
        if {c.text for c in cells if c.ran} == {NO_CANDIDATE}:
            idle.append(found.name)
        else:
            rows.append([found.name, *(c.text for c in cells)])
    return "\n".join([table(rows), *([f"{NO_CANDIDATE} where they run: {', '.join(idle)}"] if idle else [])])


@dataclass(frozen=True)
class _Cell:
    text: str
    ran: bool
    """Whether the target's pipeline has the pass."""


def _column(module: ModuleOp, ctx: Context, situation: Situation) -> dict[str, _Cell]:
    """The cell of each pass for one target."""
    decisions = decide(situation, newcomers())
    text = pipeline_text(d.spec for d in decisions if d.selected)
    recorder = run_recorded(module, PassPipeline.parse_spec(all_passes(), text).passes, ctx)
    makes = {found.name: claim_names(found.produces) for found in fusions()}
    cells = {
        d.row.pass_name: _Cell(_kept_out(d, makes.get(d.row.pass_name, frozenset())), ran=False)
        for d in decisions
        if not d.selected
    }
    reasons: dict[str, Counter[str]] = {}
    for pass_, missed in recorder.still_missed():
        reasons.setdefault(pass_.name, Counter())[missed.reason] += 1
    for done in recorder.passes:
        text = str(done.made) if done.made else NO_CANDIDATE
        if not done.made and done.name in reasons:
            ((reason, count),) = reasons[done.name].most_common(1)
            text = f"{reason} ×{count}"
        cells[done.name] = _Cell(text, ran=True)
    return cells


def _kept_out(decision: Decision, makes: frozenset[str]) -> str:
    """What keeps a pass out, in a few letters: a missing claim first, else an option."""
    for failed in decision.failed:
        if isinstance(failed, Claimed):
            return "no claim" if failed.operation in makes else f"no claim: {failed.operation}"
    match decision.failed[0]:
        case On(option):
            return f"{option}=false"
        case Not(On(option)):
            return f"{option}=true"
        case other:
            return f"not ({other})"
