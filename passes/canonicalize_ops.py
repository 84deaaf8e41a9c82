"""One form for each meaning: what the fusions rely on, so that each of them is written once.

Before::

    %0 = rlx.activation neg %x : tensor<4x8xf32>
    %1 = rlx.activation exp %0 : tensor<4x8xf32>
    %2 = rlx.binary add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %3 = rlx.binary div %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>

After::

    %3 = rlx.activation silu %x : tensor<4x8xf32>

In this order, until nothing changes: dead operations are erased, duplicates merged, the exact clean-ups of
:data:`rlx_dialect.canonicalization.CLEANUPS` made, and the spellings recognised that the modules of
``passes/canonical/`` hold. A module there is found by its file; it has a function ``patterns()``, and each pattern
states its own numerics. Under ``strict`` only what is exact is done.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.canonicalization import CLEANUPS
from rlx_dialect.ops.attention import AttentionOp, RopeOp
from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, ClampOp
from rlx_dialect.ops.normalization import LayerNormOp, RmsNormOp
from rlx_dialect.ops.reduction import SoftmaxOp
from rlx_dialect.ops.shape import TransposeOp
from rlx_dialect.passes import canonical
from rlx_dialect.passes.canonical._duplicates import merge_duplicates
from rlx_dialect.passes.canonical._spelling import Spelling, Spellings
from rlx_dialect.passes.dce import erase_dead
from rlx_dialect.passes.matching.driver import apply_patterns
from rlx_dialect.passes.matching.fusion import FusionPattern, Miss, Numerics, PatternFusionPass
from rlx_dialect.passes.matching.observe import is_observed
from rlx_dialect.xdsl_compat import Context


@cache
def canonical_modules() -> tuple[str, ...]:
    """The modules of ``passes/canonical/`` that hold patterns, in the order of their names."""
    found = pkgutil.iter_modules(canonical.__path__, canonical.__name__ + ".")
    return tuple(sorted(info.name for info in found if not info.name.rpartition(".")[2].startswith("_")))


@dataclass(frozen=True)
class CanonicalizeOps(PatternFusionPass):
    name = "rlx-canonicalize-ops"
    produces: ClassVar = (
        ActivationOp,
        AttentionOp,
        BinaryOp,
        ClampOp,
        LayerNormOp,
        MatMulOp,
        RmsNormOp,
        RopeOp,
        SoftmaxOp,
        TransposeOp,
    )
    numerics: ClassVar = Numerics.NAN_POLICY
    """The loosest of all patterns."""

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [pattern for module in canonical_modules() for pattern in import_module(module).patterns()]

    def _prepared(self) -> Sequence[FusionPattern[Any, Any]]:
        prepared = super()._prepared()
        spellings = [pattern for pattern in prepared if isinstance(pattern, Spelling)]
        others = [pattern for pattern in prepared if not isinstance(pattern, Spelling)]
        # Who watches wants to know which of them it was; the order is the same.
        return [*spellings, *others] if is_observed() else [Spellings(spellings), *others]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self._canonicalize(op, self._prepared())

    def run(self, module: ModuleOp) -> list[Miss]:
        patterns = self._prepared()
        self._canonicalize(module, patterns)
        found = (pattern.decide(op) for op in module.walk() for pattern in patterns)
        return [miss for miss in found if isinstance(miss, Miss)]

    def _canonicalize(self, module: ModuleOp, patterns: Sequence[FusionPattern[Any, Any]]) -> None:
        rewrites = [*(cleanup() for cleanup in CLEANUPS), *patterns]
        changed = True
        while changed:
            erase_dead(module)
            changed = merge_duplicates(module)
            changed |= apply_patterns(module, rewrites)
