"""Named pipelines: ``<target>-fuse`` stops after fusion, ``<target>`` lowers too. Each is a pass-pipeline string."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.passes import load_pass, pass_modules
from rlx_dialect.pipelines.claims import Claims
from rlx_dialect.pipelines.collector import paused_collector
from rlx_dialect.pipelines.environment import Environment
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.selection import ROWS, Newcomer, PassSpec, fusion_passes
from rlx_dialect.pipelines.targets import TARGETS, Target
from rlx_dialect.xdsl_compat import Context, PassPipeline, all_passes, rlx_context

FUSE_SUFFIX = "-fuse"
PIPELINE_NAMES: tuple[str, ...] = tuple(f"{name}{suffix}" for name in TARGETS for suffix in ("", FUSE_SUFFIX))


class UnknownPipeline(ValueError):
    """No pipeline has that name."""


def pipeline_target(name: str) -> Target:
    """The target of a named pipeline; raises UnknownPipeline that lists the known names."""
    if name not in PIPELINE_NAMES:
        raise UnknownPipeline(f"unknown pipeline '{name}'; known pipelines: {', '.join(PIPELINE_NAMES)}")
    return TARGETS[name.removesuffix(FUSE_SUFFIX)]


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
    return fusion if name.endswith(FUSE_SUFFIX) else f"{fusion},{target.lowering}"


def run_pipeline(module: ModuleOp, text: str, ctx: Context | None = None) -> None:
    """Run a pass-pipeline string on ``module``, in place, without verifying in between."""
    pipeline = PassPipeline.parse_spec(all_passes(), text)
    with paused_collector():
        pipeline.apply(ctx or rlx_context(), module)


def run_named(module: ModuleOp, name: str, options: FusionOptions | None = None, *, claims: Claims = None) -> None:
    """Run a named pipeline on ``module``, in place; ``options`` default to the target's under the environment."""
    options = options or FusionOptions.resolve(pipeline_target(name), Environment.current())
    run_pipeline(module, named_pipeline(name, options, claims=claims))
