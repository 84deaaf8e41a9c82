"""Fusion as a function: ``fuse(module, METAL)``, or ``Fuse(METAL).skip_fusion().run(module)``.

Both are edges: the variables that a target's canonical options read are read when they are called, and with
RLX_FUSION_REPORT the report goes to standard error.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.pipelines.claims import Claims, resolve_claims
from rlx_dialect.pipelines.environment import Environment
from rlx_dialect.pipelines.limits import FusionLimits
from rlx_dialect.pipelines.named import fusion_pipeline, run_pipeline
from rlx_dialect.pipelines.options import FusionOptions, NumericsPolicy
from rlx_dialect.pipelines.targets import Target
from rlx_dialect.xdsl_compat import PassPipeline, all_passes, rlx_context

if TYPE_CHECKING:
    from rlx_dialect.pipelines.report import FusionReport

REPORT = "FUSION_REPORT"
"""The variable that makes :meth:`Fuse.run` print what it did."""


@dataclass(frozen=True)
class Fuse:
    """Fusion for one target. Each method gives another value, so a half-made one can be kept and used again.

    ``environment`` is the process's own unless one is given; ``Fuse(METAL, NOTHING_SET)`` depends on nothing else.
    """

    target: Target
    environment: Environment = field(default_factory=Environment.current)
    chosen: FusionOptions | None = None
    claimed: frozenset[str] | None = None

    @property
    def resolved(self) -> FusionOptions:
        """The options so far: those chosen, else the target's canonical ones."""
        return self.chosen or FusionOptions.for_target(self.target, self.environment)

    def options(self, options: FusionOptions) -> Fuse:
        """Use ``options`` in the place of all that was said before; the target's habits still apply."""
        return replace(self, chosen=options)

    def limits(self, limits: FusionLimits) -> Fuse:
        return self.options(self.resolved.with_arguments(fusion_limits=limits))

    def skip_fusion(self, skip: bool = True) -> Fuse:
        return self.options(self.resolved.with_arguments(skip_fusion=skip))

    def numerics(self, policy: NumericsPolicy | str) -> Fuse:
        """``"strict"``: fusions decline whatever may change a value; raises ValueError for an unknown policy."""
        return self.options(self.resolved.with_arguments(numerics=NumericsPolicy(policy)))

    def claims(self, claims: Claims) -> Fuse:
        """Make what these claim: ``"+fft,-fused_swiglu"`` changes the target's, a list of names or classes is all.

        Raises ValueError for an operation that does not exist.
        """
        return replace(self, claimed=resolve_claims(self.target, claims))

    def merge_env(self) -> Fuse:
        """Apply every variable, not only those that canonical options read."""
        return self.options(self.resolved.merge_env(self.environment))

    def pipeline(self) -> str:
        """The pass-pipeline string that :meth:`run` runs."""
        return fusion_pipeline(self.target, self.resolved, claims=self.claimed)

    def run(self, module: ModuleOp) -> ModuleOp:
        """Fuse ``module`` in place and return it; raises VerifyException when the result does not verify.

        Names of inputs and parameters, and the number and order of results, stay as they are.
        """
        if self.environment.flag(REPORT):
            fused, report = self.run_with_report(module)
            print(report, file=sys.stderr)
            return fused
        run_pipeline(module, self.pipeline())
        module.verify()
        return module

    def run_with_report(self, module: ModuleOp) -> tuple[ModuleOp, FusionReport]:
        """:meth:`run`, and what happened; the gains in the report are by the target's gate."""
        from rlx_dialect.pipelines.recorder import run_recorded

        passes = PassPipeline.parse_spec(all_passes(), self.pipeline()).passes
        recorder = run_recorded(module, passes, rlx_context(), self.target)
        module.verify()
        return module, recorder.report()


def fuse(module: ModuleOp, target: Target) -> ModuleOp:
    """Fuse ``module`` in place by the target's canonical options, and return it."""
    return Fuse(target).run(module)
