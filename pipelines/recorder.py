"""Running passes one by one, and keeping what a report says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from rlx_dialect.operation import fused_location
from rlx_dialect.passes.matching.fusion import FusionPass
from rlx_dialect.passes.matching.observe import Rewrite, observing
from rlx_dialect.pipelines.diagnostics import place
from rlx_dialect.pipelines.gate import GraphIoProfile, profile, profile_module, score
from rlx_dialect.pipelines.inventory import Inventory
from rlx_dialect.pipelines.report import FusionReport, MissedFusion, PassReport, RewriteReport
from rlx_dialect.pipelines.targets import Target
from rlx_dialect.xdsl_compat import Context, ModulePass


class FusionRecorder:
    """Runs passes on one module; :meth:`report` then says what they did. Gains are by the gate of ``target``."""

    def __init__(self, module: ModuleOp, target: Target | None = None):
        self._module = module
        self._target = target
        self._before = Inventory.of(module)
        self._load_time: dict[SSAValue, bool] = {}
        self._first = self._profile = profile_module(module, known=self._load_time)
        self.passes: list[PassReport] = []
        self._missed: list[tuple[Operation, FusionPass, MissedFusion]] = []

    def run(self, pass_: ModulePass, ctx: Context) -> None:
        """Apply ``pass_``, and remember what it rewrote and declined."""
        rewrites: list[RewriteReport] = []
        made: list[Operation] = []

        def seen(rewrite: Rewrite) -> None:
            rewrites.append(self._described(rewrite))
            made.extend(op for op in rewrite.inserted if isinstance(op, produces))

        produces = pass_.produces if isinstance(pass_, FusionPass) else ()
        with observing(seen):
            if isinstance(pass_, FusionPass):
                self._missed += [(m.op, pass_, MissedFusion.of(pass_, m)) for m in pass_.run(self._module)]
            else:
                pass_.apply(ctx, self._module)
        before, self._profile = self._profile, profile_module(self._module, known=self._load_time)
        self.passes.append(
            PassReport(
                pass_.name,
                pass_.numerics if isinstance(pass_, FusionPass) else None,
                isinstance(pass_, FusionPass) and pass_.strict,
                sum(self._holds(op) for op in dict.fromkeys(made)) if produces else len(rewrites),
                tuple(rewrites),
                before - self._profile,
                self._gain(before, self._profile),
            )
        )

    def _holds(self, op: Operation) -> bool:
        return op.get_toplevel_object() is self._module

    def _described(self, rewrite: Rewrite) -> RewriteReport:
        before, after = (profile(ops, known=self._load_time) for ops in (rewrite.removed, rewrite.inserted))
        return RewriteReport(
            rewrite.by,
            tuple(op.name for op in rewrite.removed),
            tuple(op.name for op in rewrite.inserted),
            place(fused_location([op.location for op in rewrite.removed])) or "",
            before - after,
            self._gain(before, after),
        )

    def _gain(self, before: GraphIoProfile, after: GraphIoProfile) -> float | None:
        return None if self._target is None else score(self._target.gate, before, after)

    def still_missed(self) -> list[tuple[FusionPass, MissedFusion]]:
        """The misses so far, but for operations that are gone since: fused by a later pass after all, or dead."""
        return _distinct([(pass_, missed) for op, pass_, missed in self._missed if self._holds(op)])

    def ever_missed(self) -> list[tuple[FusionPass, MissedFusion]]:
        """All misses: another fusion may have taken the operation that one of a pass was about."""
        return _distinct([(pass_, missed) for _, pass_, missed in self._missed])

    def inventory(self) -> Inventory:
        """What the module is made of now."""
        return Inventory.of(self._module)

    def report(self) -> FusionReport:
        """What has happened so far."""
        missed = [missed for _, missed in self.still_missed()]
        return replace(
            FusionReport.of(self._before, self.inventory(), missed),
            target=self._target.name if self._target else None,
            passes=tuple(self.passes),
            saved=self._first - self._profile,
            gain_ns=self._gain(self._first, self._profile),
        )


def _distinct(missed: Sequence[tuple[FusionPass, MissedFusion]]) -> list[tuple[FusionPass, MissedFusion]]:
    return list({(pass_.name, miss): (pass_, miss) for pass_, miss in missed}.values())


def run_recorded(
    module: ModuleOp, passes: Sequence[ModulePass], ctx: Context, target: Target | None = None
) -> FusionRecorder:
    """Run ``passes`` on ``module``, in place."""
    recorder = FusionRecorder(module, target)
    for pass_ in passes:
        recorder.run(pass_, ctx)
    return recorder
