"""Named pipelines: ``<target>-fuse`` stops after fusion, ``<target>`` lowers too. Each is a pass-pipeline string.

``<target>-<form>`` lowers to another form than the target's own (``tpu-linalg``), where it has others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.lowering.legalize import Legalize, Policy
from rlx_dialect.passes import load_pass, pass_modules
from rlx_dialect.pipelines.claims import Claims
from rlx_dialect.pipelines.collector import paused_collector
from rlx_dialect.pipelines.environment import Environment
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.selection import ROWS, Newcomer, PassSpec, fusion_passes
from rlx_dialect.pipelines.targets import TARGETS, Target
from rlx_dialect.xdsl_compat import Context, PassPipeline, all_passes, rlx_context

FUSE_SUFFIX = "-fuse"
LOWERING_PREFIX = "rlx-lower-to-"
LOWERINGS: dict[str, str | None] = {
    f"{target.name}{suffix}": lowering
    for target in TARGETS.values()
    for suffix, lowering in (
        ("", target.lowering),
        (FUSE_SUFFIX, None),
        *((f"-{form}", lowering) for form, lowering in target.other_lowerings.items()),
    )
}
"""The last pass of each named pipeline; None where it stops after fusion."""
PIPELINE_NAMES: tuple[str, ...] = tuple(LOWERINGS)


class UnknownPipeline(ValueError):
    """No pipeline has that name."""


def pipeline_target(name: str) -> Target:
    """The target of a named pipeline; raises UnknownPipeline that lists the known names."""
    if name not in PIPELINE_NAMES:
        raise UnknownPipeline(f"unknown pipeline '{name}'; known pipelines: {', '.join(PIPELINE_NAMES)}")
    return TARGETS[name.partition("-")[0]]


@cache
def newcomers() -> tuple[Newcomer, ...]:
    """Discovered fusions that have no row in the selection table, with what they say they produce."""
    from rlx_dialect.passes.matching.fusion import FusionPass

    rows = {row.pass_name for row in ROWS}
    passes = [load_pass(name, module) for name, module in pass_modules().items() if name not in rows]
    return tuple(Newcomer.of(p) for p in passes if issubclass(p, FusionPass))


def pipeline_text(specs: Iterable[PassSpec | str]) -> str:
    """A pass-pipeline string."""
    return ",".join(map(str, specs))


def fusion_pipeline(target: Target, options: FusionOptions | None = None, *, claims: Claims = None) -> str:
    """The fusion passes of a target as a string; ``options`` and ``claims`` default to its own."""
    return pipeline_text(fusion_passes(target, options, newcomers(), claims=claims))


def named_pipeline(name: str, options: FusionOptions | None = None, *, claims: Claims = None) -> str:
    """The string that ``--pipeline=name`` stands for; raises UnknownPipeline, or ValueError for wrong claims."""
    target = pipeline_target(name)
    fusion = fusion_pipeline(target, options, claims=claims)
    lowering = LOWERINGS[name]
    return fusion if lowering is None else f"{fusion},{lowering_pipeline(target, lowering, options)}"


def lowering_pipeline(target: Target, lowering: str | None = None, options: FusionOptions | None = None) -> str:
    """What follows fusion: legalisation for what ``lowering``, the target's own by default, has forms for, and it."""
    lowering = lowering or target.lowering
    options = options or FusionOptions.for_target(target)
    backend = lowering.partition("{")[0].removeprefix(LOWERING_PREFIX)
    chosen: list[tuple[str, str]] = [("backend", backend), ("target", target.name)]
    if options.kernel_dispatch is not Policy.PREFER_NATIVE:
        chosen.append(("policy", options.kernel_dispatch.value))
    chosen += [
        (name, ",".join(kinds))
        for name, kinds in (("force-native", options.force_native), ("force-common", options.force_common))
        if kinds
    ]
    return pipeline_text([PassSpec(Legalize.name, tuple(chosen)), lowering])


def run_pipeline(module: ModuleOp, text: str, ctx: Context | None = None) -> None:
    """Run a pass-pipeline string on ``module``, in place, without verifying in between."""
    pipeline = PassPipeline.parse_spec(all_passes(), text)
    with paused_collector():
        pipeline.apply(ctx or rlx_context(), module)


def run_named(module: ModuleOp, name: str, options: FusionOptions | None = None, *, claims: Claims = None) -> None:
    """Run a named pipeline on ``module``, in place; ``options`` default to the target's under the environment."""
    options = options or FusionOptions.resolve(pipeline_target(name), Environment.current())
    run_pipeline(module, named_pipeline(name, options, claims=claims))
