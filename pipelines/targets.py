"""The seven targets as data. ``python -m rlx_dialect.pipelines.targets`` prints them as a table.

A *claim* is an operation class that the target's back end implements as it is; fusion makes no operation that
the target does not claim. A new target is one more row here and, if no lowering fits, its lowering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.base import RlxOp
from rlx_dialect.ops.contraction import DotGeneralOp, FusedMatMulBiasActOp, FusedSwiGLUOp, MatMulOp
from rlx_dialect.ops.convolution import FusedConvBiasActOp
from rlx_dialect.ops.normalization import (
    AdaLayerNormOp,
    FusedResidualLnOp,
    FusedResidualRmsNormOp,
    GatedResidualOp,
)
from rlx_dialect.ops.region import BatchElementwiseRegionOp, ElementwiseRegionOp, TransformRegionOp
from rlx_dialect.ops.transformer import FusedAttentionBlockOp, FusedTransformerLayerOp
from rlx_dialect.pipelines.limits import GPU_NATIVE, UNBOUNDED, FusionLimits
from rlx_dialect.pipelines.options import METAL_VARIABLES, WGPU_VARIABLES, Variable
from rlx_dialect.pipelines.tables import table

Claims = frozenset[type[RlxOp]]
Epilogues = Mapping[type[RlxOp], tuple[ActivationKind, ...]]

_GELU_SILU = (ActivationKind.GELU, ActivationKind.SILU)
_CONVOLUTION: Epilogues = {FusedConvBiasActOp: (ActivationKind.RELU,)}
EPILOGUES: Epilogues = _CONVOLUTION | {FusedMatMulBiasActOp: _GELU_SILU}
"""The kinds of activation that a kernel of a fused operation ends with, at least."""
GPU_EPILOGUES: Epilogues = _CONVOLUTION | {
    FusedMatMulBiasActOp: (*_GELU_SILU, ActivationKind.GELU_APPROX, ActivationKind.RELU)
}


@dataclass(frozen=True)
class GateConstants:
    """What the IO gate weighs: costs in nanoseconds, bandwidths in bytes per nanosecond (= GB/s)."""

    dispatch_ns: float
    roundtrip_ns: float
    memory_bw: float
    host_readback_bw: float
    unified_memory: bool
    host_thunk_penalty_ns: float
    min_gain_ns: float


@dataclass(frozen=True)
class Target:
    """One kind of hardware, as far as fusion and the choice of a lowering need to know it."""

    name: str
    claims: Claims
    limits: FusionLimits
    gate: GateConstants
    lowering: str
    """The pass, with its options, that follows fusion and legalisation."""
    epilogues: Epilogues = field(default_factory=lambda: EPILOGUES, hash=False)
    """Which kinds of activation its kernels of fused operations take in: part of what it claims."""
    unfuses_regions: bool = False
    """Its habit is to take element-wise regions apart again before lowering."""
    unfuse_keeps_prologue: bool = True
    """Unfusing leaves regions alone that resize their input on the way in."""
    native_regions: bool = True
    """It has kernels for transform and batch regions."""
    loops: bool = False
    """Its lowering writes branches and loops, so that control flow stays as it is."""
    every_convolution: bool = False
    """Its kernel of a fused convolution takes any window, rank and number of groups."""
    variables: tuple[Variable, ...] = ()
    """The variables that its canonical options read, besides those that all targets do."""
    other_lowerings: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Other forms that the fused graph can be lowered to, by the suffix of their named pipelines."""


_EVERYWHERE: Claims = frozenset(
    {MatMulOp, ElementwiseRegionOp, FusedMatMulBiasActOp, FusedResidualLnOp, AdaLayerNormOp, GatedResidualOp}
)
_KERNEL_REGIONS: Claims = frozenset({TransformRegionOp, BatchElementwiseRegionOp})

_APPLE = GateConstants(500, 5_000, 200, 200, True, 2_000_000, 1_000)
_DISCRETE = GateConstants(2_000, 20_000, 800, 50, False, 15_000_000, 5_000)
_REMOTE = GateConstants(3_000, 30_000, 100, 40, False, 25_000_000, 10_000)
_HOST = GateConstants(50, 0, 50, 50, True, 0, 0)

CPU = Target(
    "cpu",
    _EVERYWHERE | {DotGeneralOp, FusedSwiGLUOp, FusedResidualRmsNormOp, FusedAttentionBlockOp},
    UNBOUNDED,
    _HOST,
    "rlx-lower-to-linalg",
    unfuses_regions=True,
    unfuse_keeps_prologue=False,
    native_regions=False,
    loops=True,
)
NATIVE = replace(
    CPU,
    claims=CPU.claims | {FusedConvBiasActOp},
    lowering="rlx-lower-to-cpu",
    epilogues=GPU_EPILOGUES,
    unfuses_regions=False,
    every_convolution=True,
)
"""The cpu as the native engine sees it: its kernels are fused here, where IREE would fuse them itself."""
METAL = Target(
    "metal",
    _EVERYWHERE | _KERNEL_REGIONS | {DotGeneralOp, FusedSwiGLUOp, FusedResidualRmsNormOp},
    GPU_NATIVE,
    _APPLE,
    "rlx-lower-to-gpu{target=metal}",
    GPU_EPILOGUES,
    unfuses_regions=True,
    variables=METAL_VARIABLES,
)
MLX = Target(
    "mlx",
    METAL.claims,
    GPU_NATIVE,
    _APPLE,
    "rlx-lower-to-mlx",
    GPU_EPILOGUES,
    unfuses_regions=True,
    loops=True,
    variables=METAL_VARIABLES,
    other_lowerings={"linalg": "rlx-lower-to-linalg"},
)
WGPU = Target(
    "wgpu",
    _EVERYWHERE
    | _KERNEL_REGIONS
    | {FusedSwiGLUOp, FusedResidualRmsNormOp, FusedAttentionBlockOp, FusedTransformerLayerOp},
    GPU_NATIVE,
    _REMOTE,
    "rlx-lower-to-gpu{target=wgpu}",
    GPU_EPILOGUES,
    unfuses_regions=True,
    variables=WGPU_VARIABLES,
)
CUDA = Target(
    "cuda",
    _EVERYWHERE | _KERNEL_REGIONS | {DotGeneralOp, FusedConvBiasActOp, FusedResidualRmsNormOp},
    GPU_NATIVE,
    _DISCRETE,
    "rlx-lower-to-gpu{target=cuda}",
    GPU_EPILOGUES,
)
ROCM = Target(
    "rocm",
    _EVERYWHERE | _KERNEL_REGIONS | {DotGeneralOp, FusedResidualRmsNormOp},
    GPU_NATIVE,
    _DISCRETE,
    "rlx-lower-to-gpu{target=rocm}",
    GPU_EPILOGUES,
)
TPU = Target(
    "tpu",
    _EVERYWHERE | _KERNEL_REGIONS,
    FusionLimits(32, 16),
    _REMOTE,
    "rlx-lower-to-stablehlo",
    loops=True,
    other_lowerings={"linalg": "rlx-lower-to-linalg"},
)

TARGETS: dict[str, Target] = {t.name: t for t in (CPU, METAL, MLX, WGPU, CUDA, ROCM, TPU)}


def find_target(name: str) -> Target:
    """The target of that name; raises ValueError that lists the known ones."""
    if name not in TARGETS:
        raise ValueError(f"unknown target '{name}'; known targets: {', '.join(TARGETS)}")
    return TARGETS[name]


def targets_table() -> str:
    """Every target with its claims, limits, gate constants and lowering, one column each."""
    targets = list(TARGETS.values())
    operations = sorted({op.name for t in targets for op in t.claims})
    gate_fields = list(GateConstants.__dataclass_fields__)
    rows = [["", *(t.name for t in targets)]]
    rows += [[name, *(_mark(name in {op.name for op in t.claims}) for t in targets)] for name in operations]
    rows += [
        [f"{op.name} {kind}", *(_mark(op in t.claims and kind in t.epilogues[op]) for t in targets)]
        for op, kinds in GPU_EPILOGUES.items()
        for kind in kinds
    ]
    rows += [["limits", *(str(t.limits) for t in targets)]]
    rows += [[f"gate {field}", *(_cell(getattr(t.gate, field)) for t in targets)] for field in gate_fields]
    rows += [["unfuses regions", *(_cell(t.unfuses_regions) for t in targets)]]
    rows += [["lowering", *(t.lowering for t in targets)]]
    return table(rows)


def _mark(holds: bool) -> str:
    return "x" if holds else "–"


def _cell(value: bool | float) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:,}"


if __name__ == "__main__":
    print(targets_table())
