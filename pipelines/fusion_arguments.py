"""The arguments of ``rlx-opt`` that are about fusion. What they need is imported when they are given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx_dialect.pipelines.diagnostics import OptError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from rlx_dialect.pipelines.conditions import Situation
    from rlx_dialect.pipelines.expect import Expectation
    from rlx_dialect.pipelines.recorder import FusionRecorder
    from rlx_dialect.pipelines.targets import Target
    from rlx_dialect.xdsl_compat import ModulePass

REPORTS = ("--fusion-report", "--dispatch-report")
OF_TARGETS = ("claims", "numerics", "kernel_dispatch", "force_native", "force_common")
"""Arguments that choose the passes, so that they mean nothing beside passes that are written out."""


def add_fusion_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("RLX")
    group.add_argument("--pipeline", metavar="NAME", help="run a named pipeline: a target, or <target>-fuse")
    group.add_argument("--print-pipeline", action="store_true", help="print the pass pipeline as text for -p; stop")
    group.add_argument("--print-options", action="store_true", help="print each option and where it came from; stop")
    group.add_argument("--list-pipelines", action="store_true", help="list the named pipelines; stop")
    group.add_argument(
        "--list-fusions", action="store_true", help="list the fusions, their numerics, their targets; stop"
    )
    group.add_argument(
        "--claims", metavar="LIST", help="change what the target claims: +fft,-fused_swiglu; or say all: matmul,fft"
    )
    group.add_argument(
        "--numerics", choices=["strict", "default"], help="strict: fusions decline whatever may change a value"
    )
    group.add_argument(
        "--kernel-dispatch",
        choices=["prefer-native", "force-common", "force-native"],
        help="whether operations with a kernel and a form in common ones take the kernel (default: where there is one)",
    )
    for way, meaning in (("native", "as they are, or not at all"), ("common", "in simpler operations")):
        group.add_argument(f"--force-{way}", metavar="LIST", help=f"lower these operations {meaning}: group_norm,rope")
    group.add_argument(
        REPORTS[1],
        choices=["text", "json"],
        help="say on standard error which operations are native, decomposed or unsupported (default: text)",
    )
    group.add_argument(
        REPORTS[0],
        choices=["text", "json"],
        help="say on standard error what was fused, what not, and why (default: text)",
    )
    group.add_argument(
        "--expect",
        metavar="COUNT",
        action="append",
        default=[],
        help="fail unless the fused graph has that many, as in 'fused_swiglu>=2'; can be repeated",
    )
    group.add_argument(
        "--compare-targets", action="store_true", help="print what each target fuses, and why the others do not"
    )
    group.add_argument(
        "--check-rewrites",
        action="store_true",
        help="run every single rewrite before and after, and fail with a counterexample where values change",
    )
    group.add_argument(
        "--fold-weights",
        action="store_true",
        help="compute before lowering what follows from the weights alone, and write their side file beside -o",
    )
    group.add_argument("--verify-each", action="store_true", help="verify after each pass, not only after the last")


def spelled_out(args: Sequence[str] | None) -> list[str]:
    """``--fusion-report`` alone means text: argparse would take the file after it for its value."""
    return [f"{arg}=text" if arg in REPORTS else arg for arg in (sys.argv[1:] if args is None else args)]


@dataclass(frozen=True)
class FusionRequest:
    """What a command line asks of fusion."""

    text: str
    """The pass pipeline."""
    situation: Situation | None
    """What it was selected by; None where it was written out."""
    report: str | None
    expectations: tuple[Expectation, ...]
    dispatch_report: str | None = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> FusionRequest:
        """Raises OptError for arguments that are wrong or do not go together."""
        try:
            return cls._of(args)
        except ValueError as error:
            raise OptError(f"error: {error}") from error

    @classmethod
    def _of(cls, args: argparse.Namespace) -> FusionRequest:
        text, situation = args.passes, None
        if args.compare_targets and (text or args.pipeline is not None):
            raise OptError("error: --compare-targets runs every target's own pipeline, and takes no --pipeline or -p")
        if args.pipeline is not None:
            if text:
                raise OptError("error: --pipeline and -p exclude each other")
            from rlx_dialect.pipelines.named import named_pipeline, pipeline_target

            situation = situation_for(args, pipeline_target(args.pipeline))
            text = named_pipeline(args.pipeline, situation.options, claims=args.claims)
        elif alone := [name for name in OF_TARGETS if getattr(args, name) and not args.compare_targets]:
            raise OptError(f"error: --{alone[0].replace('_', '-')} is about a target: give --pipeline too")
        elif args.print_options:
            raise OptError("error: --print-options is about a target: give --pipeline too")
        expectations: list[Expectation] = []
        if args.expect:
            from rlx_dialect.pipelines.expect import Expectation

            expectations = [Expectation.parse(wanted) for wanted in args.expect]
        return cls(
            text,
            situation,
            args.fusion_report or _report_by_variable("FUSION_REPORT"),
            tuple(expectations),
            args.dispatch_report or _report_by_variable("DISPATCH_REPORT", "VERBOSE"),
        )

    def recorder(self, module: ModuleOp) -> FusionRecorder | None:
        """What the passes are to be run with; None where nobody asks what they do."""
        if self.report is None and not self.expectations:
            return None
        from rlx_dialect.pipelines.recorder import FusionRecorder

        return FusionRecorder(module, self.situation.target if self.situation else None)

    def conclude(self, recorder: FusionRecorder, file: str) -> None:
        """Fusion is over: print the report; raises OptError where an expectation does not hold."""
        if self.report is not None:
            report = recorder.report()
            print(report.to_json() if self.report == "json" else report, file=sys.stderr)
        if self.expectations:
            from rlx_dialect.pipelines.expect import unmet

            if messages := unmet(self.expectations, recorder, self.situation):
                raise OptError("\n".join(f"{file}: error: {text}" for text in messages))

    def legalize(self, legalize: ModulePass, module: ModuleOp) -> None:
        """Run the pass, and print the dispatch report where it is asked for, also where something is unsupported.

        Raises LoweringError.
        """
        from rlx_dialect.lowering.legalize import Legalize, refuse_unsupported
        from rlx_dialect.lowering.registry import lowerings_of
        from rlx_dialect.pipelines.dispatch import KernelDispatchReport

        assert isinstance(legalize, Legalize)
        sites = legalize.dispatch(module)
        if self.dispatch_report is not None:
            supported = len(lowerings_of(legalize.backend).classes())
            report = KernelDispatchReport.of(legalize.target, legalize.choice().policy, supported, sites)
            print(report.to_json() if self.dispatch_report == "json" else report, file=sys.stderr)
        refuse_unsupported(legalize.target, sites)


def _report_by_variable(*keys: str) -> str | None:
    """``RLX_FUSION_REPORT`` asks for that report as text, and so on."""
    from rlx_dialect.pipelines.environment import Environment

    environment = Environment.current()
    return "text" if any(environment.flag(key) for key in keys) else None


def situation_for(args: argparse.Namespace, target: Target) -> Situation:
    """A target under the process environment and the arguments; raises ValueError for wrong ones."""
    from rlx_dialect.pipelines.claims import known_operation
    from rlx_dialect.pipelines.environment import Environment
    from rlx_dialect.pipelines.options import FusionOptions
    from rlx_dialect.pipelines.selection import situation_of

    arguments: dict[str, str | tuple[str, ...]] = {
        name: value for name in ("numerics", "kernel_dispatch") if (value := getattr(args, name))
    }
    for name in ("force_native", "force_common"):
        if text := getattr(args, name):
            arguments[name] = tuple(sorted(map(known_operation, text.split(","))))
    options = FusionOptions.resolve(target, Environment.current(), **arguments)
    return situation_of(target, options, args.claims)


def options_table(situation: Situation) -> str:
    """Each option with its value and where that came from; then the limits, and what is claimed."""
    from rlx_dialect.pipelines.claims import claim_changes
    from rlx_dialect.pipelines.limits import GPU_NATIVE
    from rlx_dialect.pipelines.options import OPTION_NAMES
    from rlx_dialect.pipelines.tables import table

    options, target, limits = situation.options, situation.target, situation.limits
    rows = [[name, _value_text(getattr(options, name)), options.origin(name)] for name in OPTION_NAMES]
    stated = f"target {target.name}" if options.fusion_limits is None else options.origin("fusion_limits")
    if limits != (options.fusion_limits or target.limits):
        stated += f"; regions stay, so at most {GPU_NATIVE}"
    rows.append(["region limits", str(limits), stated])
    changes = claim_changes(target, situation.claims)
    origin = f"target {target.name}" + (f"; argument {' '.join(changes)}" if changes else "")
    rows.append(["claims", f"{len(situation.claims)} operations", origin])
    return table([["option", "value", "from"], *rows])


def _value_text(value: object) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
