"""Which passes a target's pipeline has: the decision table as data, and its evaluation.

``python -m rlx_dialect.pipelines.selection [target]`` prints the table, with each row's decision for a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlx_dialect.ops.contraction import FusedMatMulBiasActOp
from rlx_dialect.ops.convolution import FusedConvBiasActOp
from rlx_dialect.pipelines.claims import Claims, resolve_claims
from rlx_dialect.pipelines.conditions import AnyOf, Claimable, Claimed, Condition, Not, On, Situation, claim_names, why
from rlx_dialect.pipelines.options import FusionOptions, NumericsPolicy
from rlx_dialect.pipelines.tables import table
from rlx_dialect.pipelines.targets import EPILOGUES, Target, find_target

if TYPE_CHECKING:
    from rlx_dialect.base import RlxOp
    from rlx_dialect.passes.matching.fusion import FusionPass

OptionText = Callable[[Situation], bool | float | str | None]
"""The value of an option; None where it is left out."""


@dataclass(frozen=True)
class PassSpec:
    """One pass with its options, as it stands in a pipeline string."""

    name: str
    options: tuple[tuple[str, bool | float | str], ...] = ()

    def __str__(self) -> str:
        if not self.options:
            return self.name
        values = " ".join(f"{key}={_option_text(value)}" for key, value in self.options)
        return f"{self.name}{{{values}}}"


def _option_text(value: bool | float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Row:
    """A pass that is selected when all of ``conditions`` hold, with options computed from the same situation."""

    pass_name: str
    conditions: tuple[Condition, ...] = ()
    options: Mapping[str, OptionText] = field(default_factory=dict[str, OptionText])
    runs_when_skipping: bool = False
    """Part of the list even with ``skip_fusion``."""
    is_fusion: bool = True
    """The pass is a FusionPass, so that it has a numerics class and the option ``strict``."""


def _loops(situation: Situation) -> bool | None:
    return True if situation.target.loops else None


def _threshold(situation: Situation) -> int:
    return situation.options.fuse_attn_threshold


def _may_change_outputs(situation: Situation) -> bool:
    """On the cpu a result is not read back from anywhere."""
    return situation.target.gate.roundtrip_ns > 0 and not situation.options.no_io_peaks_output


def _readback_bw(situation: Situation) -> float:
    """As the gate counts it (:func:`rlx_dialect.pipelines.gate.score`): 1 where memory is unified."""
    gate = situation.target.gate
    return 1.0 if gate.unified_memory else float(gate.host_readback_bw)


def _epilogues(fused: type[RlxOp]) -> OptionText:
    return lambda situation: ",".join(situation.target.epilogues.get(fused, EPILOGUES[fused]))


_CONV_BIAS_ACT = (Claimed("fused_conv_bias_act"), Not(On("disable_conv_bias_act_fusion")))
_CONVOLUTION: Mapping[str, OptionText] = {
    "epilogues": _epilogues(FusedConvBiasActOp),
    "kernel-limits": lambda situation: False if situation.target.every_convolution else None,
}
NO_WEIGHT_CONCAT = On("no_weight_concat_fusion")

# The order matters: fusions are written for the canonical form; the attention block and the transformer layer match
# fused projections (after fuse-matmul-bias-act) and fused residual norms; residual + norm comes before the adaptive
# norm, which wants the same norm; the dual-matmul SwiGLU before shared-input matmuls, which would take its two, and
# the narrow SwiGLU after them, since it consumes what they make; regions are marked before they are combined, and
# decomposed before they are unfused.
ROWS: tuple[Row, ...] = (
    Row("rlx-lower-control-flow", options={"loops": _loops}, runs_when_skipping=True, is_fusion=False),
    Row("rlx-lower-dot-general", runs_when_skipping=True),
    Row("rlx-canonicalize-ops"),
    Row(
        "rlx-fuse-matmul-bias-act",
        (Claimed("fused_matmul_bias_act"), Not(On("disable_matmul_bias_fusion"))),
        {"epilogues": _epilogues(FusedMatMulBiasActOp)},
    ),
    Row("rlx-fuse-conv-bias-act", _CONV_BIAS_ACT, _CONVOLUTION),
    Row("rlx-fuse-conv-affine-act", _CONV_BIAS_ACT, _CONVOLUTION),
    Row("rlx-fuse-attention-block", (Claimed("fused_attention_block"),), {"threshold": _threshold}),
    Row(
        "rlx-fuse-attention-backward-all",
        (Claimed("attention_backward_all"),),
        {"enabled": lambda s: s.options.cpu_attn_bwd_fuse},
    ),
    Row("rlx-fuse-residual-ln", (Claimed("fused_residual_ln"), Not(On("disable_residual_ln_fusion")))),
    Row("rlx-fuse-residual-rms-norm", (Claimed("fused_residual_rms_norm"),)),
    Row("rlx-fuse-ada-layer-norm", (Claimed("ada_layer_norm"),)),
    Row("rlx-fuse-gated-residual", (Claimed("gated_residual"), Not(On("disable_gated_residual_fusion")))),
    Row("rlx-fuse-rms-norm-reshape"),
    Row(
        "rlx-fuse-transformer-layer",
        (On("enable_fuse_transformer_layer"), Claimed("fused_transformer_layer"), Claimed("fused_attention_block")),
        {"threshold": _threshold},
    ),
    Row("rlx-fuse-swiglu-dual-matmul", (Claimed("fused_swiglu"), Not(NO_WEIGHT_CONCAT))),
    Row("rlx-fuse-matmul-residual", (Claimed("fused_matmul_residual"),)),
    Row("rlx-fuse-shared-input-matmul", (Claimed("matmul"), Not(On("no_shared_input_matmul")), Not(NO_WEIGHT_CONCAT))),
    Row("rlx-fuse-swiglu", (Claimed("fused_swiglu"),)),
    Row(
        "rlx-mark-elementwise-regions",
        (Claimed("elementwise_region"), Not(On("unfuse_elementwise_regions"))),
        {"max-steps": lambda s: s.limits.max_steps, "max-inputs": lambda s: s.limits.max_inputs},
    ),
    Row("rlx-mark-batch-slice-regions", (On("fk_fusion"),)),
    Row("rlx-mark-transform-regions", (On("fk_fusion"),)),
    Row("rlx-fuse-region-prologue", (On("fk_fusion"), On("fuse_region_prologue"))),
    Row("rlx-fuse-batch-preprocess", (On("fk_fusion"), On("fuse_batch_preprocess"))),
    Row(
        "rlx-decompose-fusion-regions",
        (
            AnyOf(
                (
                    On("decompose_fusion_regions"),
                    Not(On("native_fk_regions")),
                    Not(Claimed("transform_region")),
                    Not(Claimed("batch_elementwise_region")),
                )
            ),
        ),
        is_fusion=False,
    ),
    Row(
        "rlx-unfuse-elementwise-regions",
        (AnyOf((Not(Claimed("elementwise_region")), On("unfuse_elementwise_regions"))),),
        {"keep-prologue": lambda s: s.target.unfuse_keeps_prologue},
        is_fusion=False,
    ),
    Row(
        "rlx-select-peaks-only-outputs",
        (Claimed("fft"), Claimed("welch_peaks")),
        {
            "enabled": _may_change_outputs,
            "readback-bw": _readback_bw,
            "min-gain": lambda s: float(s.target.gate.min_gain_ns),
        },
    ),
    Row("rlx-dce", is_fusion=False),
)

FIRST_REGION_ROW = "rlx-mark-elementwise-regions"
"""Fusions that have no row of their own run right before this one."""
FK_ROWS = frozenset(
    {
        "rlx-mark-batch-slice-regions",
        "rlx-mark-transform-regions",
        "rlx-fuse-region-prologue",
        "rlx-fuse-batch-preprocess",
        "rlx-decompose-fusion-regions",
        "rlx-dce",
    }
)
"""What there is left to do for a graph whose element-wise regions are already marked."""


@dataclass(frozen=True)
class Newcomer:
    """A discovered fusion that has no row: it runs wherever everything that it makes is claimed."""

    pass_name: str
    produces: frozenset[str]

    @classmethod
    def of(cls, fusion: type[FusionPass]) -> Newcomer:
        return cls(fusion.name, claim_names(fusion.produces))

    def row(self) -> Row:
        return Row(self.pass_name, tuple(Claimed(operation) for operation in sorted(self.produces)))


@dataclass(frozen=True)
class Decision:
    """One row as it was decided, and why."""

    row: Row
    selected: bool
    reason: str
    spec: PassSpec
    failed: tuple[Condition, ...]
    """What keeps the row out."""


def decide(situation: Situation, newcomers: Sequence[Newcomer] = ()) -> list[Decision]:
    """Every row of the table, newcomers in their place, with its decision."""
    first_region = next(i for i, row in enumerate(ROWS) if row.pass_name == FIRST_REGION_ROW)
    added = [n.row() for n in sorted(newcomers, key=lambda n: n.pass_name)]
    return [_decide(row, situation) for row in (*ROWS[:first_region], *added, *ROWS[first_region:])]


def _decide(row: Row, situation: Situation) -> Decision:
    values = ((key, value(situation)) for key, value in row.options.items())
    options = [(key, value) for key, value in values if value is not None]
    if row.is_fusion and situation.options.numerics is NumericsPolicy.STRICT:
        options.append(("strict", True))
    spec = PassSpec(row.pass_name, tuple(options))
    if situation.options.skip_fusion and not row.runs_when_skipping:
        failed: tuple[Condition, ...] = (Not(On("skip_fusion")),)
    else:
        failed = tuple(c for c in row.conditions if not c.holds(situation))
    reasons = [why(c, situation) for c in failed or row.conditions]
    return Decision(row, not failed, "; ".join(reasons) or "always", spec, failed)


def _selected(situation: Situation, newcomers: Sequence[Newcomer] = ()) -> list[PassSpec]:
    return [d.spec for d in decide(situation, newcomers) if d.selected]


def situation_of(target: Target, options: FusionOptions | None = None, claims: Claims = None) -> Situation:
    """A target's claims, or those given, with ``options``, or its canonical ones; its habits apply to both."""
    options = FusionOptions.for_target(target) if options is None else options
    options = options.apply_unfuse_default(target).apply_native_fk_defaults(target)
    return Situation(resolve_claims(target, claims), options, target)


def fusion_passes(
    target: Target, options: FusionOptions | None = None, newcomers: Sequence[Newcomer] = (), *, claims: Claims = None
) -> list[PassSpec]:
    """The passes of a target, in order; what ``fuse``, ``Fuse`` and the named pipelines run."""
    return _selected(situation_of(target, options, claims), newcomers)


def fusion_passes_for_supported(
    claims: Iterable[Claimable], options: FusionOptions, target: Target, newcomers: Sequence[Newcomer] = ()
) -> list[PassSpec]:
    """The passes for a claim set of one's own (an empty one claims everything), with exactly these options."""
    return _selected(Situation(claim_names(claims), options.apply_native_fk_defaults(target), target), newcomers)


def fk_passes_after_elementwise_regions(
    claims: Iterable[Claimable], options: FusionOptions, target: Target
) -> list[PassSpec]:
    """The passes for a graph whose element-wise regions are marked; native defaults are the caller's to apply."""
    situation = Situation(claim_names(claims), options, target)
    return [spec for spec in _selected(situation) if spec.name in FK_ROWS]


def selection_table(target: Target | None = None) -> str:
    """The decision table; with a target also its decisions and their reasons, for the canonical options."""
    if target is None:
        return table([["pass", "when"], *([r.pass_name, _when(r)] for r in ROWS)])
    decisions = decide(situation_of(target))
    rows = [[str(d.spec), "yes" if d.selected else "no", d.reason] for d in decisions]
    return table([["pass", target.name, "because"], *rows])


def _when(row: Row) -> str:
    return (
        " and ".join(f"({c})" if isinstance(c, AnyOf) and len(row.conditions) > 1 else str(c) for c in row.conditions)
        or "always"
    )


if __name__ == "__main__":
    import sys

    print(selection_table(find_target(sys.argv[1]) if len(sys.argv) > 1 else None))
