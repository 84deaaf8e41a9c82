"""What is asked of every fusion, in one call: that it does what it says, keeps the meaning, and declines with reasons.

::

    check_fusion(module, FuseResidualLn(), fused={"rlx.fused_residual_ln": 1})
    check_declines(module, FuseResidualLn(), Reason.SHAPES_DIFFER, at="rlx.layer_norm")
"""

from __future__ import annotations

from collections.abc import Mapping

from helpers import assert_round_trip, decomposed
from mutants import Sample, check_applied, check_mutants, rounds_less, samples
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.base import RlxOp
from rlx_dialect.interpreter import run_reference
from rlx_dialect.passes.matching.fusion import FusionPass, Miss, PatternFusionPass, Reason
from rlx_dialect.passes.matching.numerics import Numerics, difference, edges_for, widened
from rlx_dialect.pipelines.check_rewrites import checking_rewrites
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import (
    Context,
    GreedyRewritePatternApplier,
    PatternRewriteWalker,
    print_module,
)


def check_fusion(
    module: ModuleOp,
    fusion: FusionPass,
    *,
    fused: Mapping[str, int],
    sample: Sample = random_values,
    more_operations: int = 0,
    mutants: bool = True,
) -> ModuleOp:
    """Apply ``fusion`` to a copy of ``module``, which must then have ``fused`` operations; returns that copy.

    ``fused`` has a count for each operation that the pass produces there; of any other that it could produce there
    must be as many as before. Asserts, too: every single rewrite is right, and their sum, within the pass's numerics
    on random and on edge inputs; a fused operation's decomposition means the same; the result is valid, in dominance
    order, survives a round trip, is at rest and always the same; xDSL's walker fuses as much with the same patterns;
    and the mutants of the module fuse or stay right.

    ``sample`` gives inputs, as :func:`random_values` does, for modules that do not take just any (indices, masks).
    ``more_operations``: how many the fusion may add. ``mutants=False`` leaves those out, for a large module.
    """
    after = module.clone()
    with checking_rewrites("module") as checks:
        fusion.apply(Context(), after)
    try:
        assert not checks.unchecked
        counts = {op.name: 0 for op in fusion.produces} | _counts(module, fusion) | dict(fused)
        found = {op.name: 0 for op in fusion.produces} | _counts(after, fusion)
        assert found == counts, f"{found} instead of {counts}"
        again = module.clone()
        fusion.apply(Context(), again)
        assert print_module(again) == print_module(after), "not deterministic"
        values = samples(sample, module, fusion)
        wide = rounds_less(module, fusion)
        check_applied(module, after, fusion, values, wide=wide, more_operations=more_operations)
        assert_round_trip(after)
        for name, count in fused.items():
            if count and _decomposes(fusion, name):
                _check_decomposition(widened(after) if wide else after, name, fusion, sample)
        if isinstance(fusion, PatternFusionPass) and not fusion.strict:
            walked = module.clone()
            PatternRewriteWalker(GreedyRewritePatternApplier(list(fusion.patterns()))).rewrite_module(walked)
            assert _counts(walked, fusion) == _counts(after, fusion), "xDSL's walker fuses otherwise"
    except Exception as error:
        error.add_note(f"{fusion.name} of\n{print_module(module)}gives\n{print_module(after)}")
        raise
    if mutants:
        check_mutants(module, fusion, fused=next(iter(fused)), sample=sample, more_operations=more_operations)
    return after


def check_declines(
    module: ModuleOp, fusion: FusionPass, reason: Reason, *, at: str, sample: Sample = random_values, misses: int = 1
) -> Miss:
    """The fusion declines at an operation called ``at`` for ``reason``; returns the first such miss.

    Asserts that there are ``misses`` misses in all, and that what is left of the fusion is right: nothing where no
    other candidate is in the module, as in a test of one reason.
    """
    found = fusion.misses(module)
    assert len(found) == misses, [str(miss) for miss in found]
    matching = [miss for miss in found if miss.reason is reason and miss.op.name == at]
    assert matching, [str(miss) for miss in found]
    assert all(miss.detail and miss.hint for miss in found), "a miss says what was found and what can be done"
    after = module.clone()
    fusion.apply(Context(), after)
    check_applied(module, after, fusion, samples(sample, module, fusion), wide=rounds_less(module, fusion))
    return matching[0]


def _check_decomposition(module: ModuleOp, name: str, fusion: FusionPass, sample: Sample) -> None:
    """An operation's decomposition may form sums in another order, whatever the fusion promises."""
    numerics = Numerics.NAN_POLICY if fusion.numerics is Numerics.NAN_POLICY else Numerics.REASSOCIATED
    parts = decomposed(module, name)
    for seed, edges in ((0, ()), (1, edges_for(numerics))):
        values = sample(module, seed, edges=edges)
        wrong = difference(run_reference(parts, values), run_reference(module, values), numerics)
        assert wrong is None, f"decomposition of {name}: {wrong}"


def _counts(module: ModuleOp, fusion: FusionPass) -> dict[str, int]:
    """How many of the operations that the fusion produces are in the module; none that is not there."""
    names = {op.name for op in fusion.produces}
    counts: dict[str, int] = {}
    for op in module.walk():
        if op.name in names:
            counts[op.name] = counts.get(op.name, 0) + 1
    return counts


def _decomposes(fusion: FusionPass, name: str) -> bool:
    (op,) = [op for op in fusion.produces if op.name == name]
    return issubclass(op, RlxOp) and op.has_decomposition()
