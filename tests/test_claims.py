"""Claim sets of one's own: changes and lists, as text and in Python, and what they do to a pipeline."""

from __future__ import annotations

import pytest

from rlx_dialect.ops.contraction import FusedSwiGLUOp, MatMulOp
from rlx_dialect.pipelines.claims import UnknownOperation, claim_changes, known_operation, resolve_claims
from rlx_dialect.pipelines.conditions import claim_names
from rlx_dialect.pipelines.environment import NOTHING_SET
from rlx_dialect.pipelines.fuse import Fuse
from rlx_dialect.pipelines.named import lowering_pipeline, named_pipeline
from rlx_dialect.pipelines.targets import CUDA, METAL

OWN = claim_names(METAL.claims)


def test_no_claims_are_the_targets_own():
    assert resolve_claims(METAL) == OWN
    assert claim_changes(METAL, OWN) == []


def test_changes_are_relative_to_the_target():
    changed = resolve_claims(METAL, "+fft, +rlx.welch_peaks,-fused_swiglu")
    assert changed == (OWN | {"fft", "welch_peaks"}) - {"fused_swiglu"}
    assert claim_changes(METAL, changed) == ["+fft", "+welch_peaks", "-fused_swiglu"]
    assert resolve_claims(METAL, "+matmul") == OWN


def test_names_without_sign_are_the_whole_list():
    assert resolve_claims(METAL, "matmul,rlx.fft") == {"matmul", "fft"}
    assert resolve_claims(METAL, [MatMulOp, "rlx.fft"]) == {"matmul", "fft"}
    assert resolve_claims(METAL, [FusedSwiGLUOp]) == {"fused_swiglu"}
    assert resolve_claims(METAL, ["-fused_swiglu"]) == OWN - {"fused_swiglu"}
    assert resolve_claims(METAL, []) == frozenset(), "an empty set claims everything, as in RLX"


def test_mistakes():
    with pytest.raises(UnknownOperation, match=r"unknown operation 'fused_swiglo' \(similar: fused_swiglu"):
        resolve_claims(METAL, "+fused_swiglo")
    with pytest.raises(UnknownOperation, match=r"unknown operation 'qqqqqq' \(similar: none\)"):
        resolve_claims(METAL, ["qqqqqq"])
    with pytest.raises(ValueError, match=r"changes .* or a whole list: '-fft' and 'matmul' do not mix"):
        resolve_claims(METAL, "matmul,-fft")
    with pytest.raises(ValueError, match="names of operations separated by commas expected, got 'matmul,,fft'"):
        resolve_claims(METAL, "matmul,,fft")
    with pytest.raises(ValueError, match="names of operations separated by commas expected, got ''"):
        resolve_claims(METAL, "")
    with pytest.raises(ValueError, match="no claim is left, and an empty set of claims would claim everything"):
        resolve_claims(METAL, ",".join(f"-{name}" for name in OWN))
    assert known_operation(" rlx.matmul ") == "matmul"


def test_claims_choose_passes():
    assert "rlx-fuse-swiglu" in named_pipeline("metal-fuse")
    less = named_pipeline("metal-fuse", claims="-fused_swiglu")
    assert "rlx-fuse-swiglu" not in less
    assert "rlx-fuse-matmul-bias-act" in less
    more = named_pipeline("cuda", claims="+fused_swiglu,+fft,+welch_peaks")
    assert "rlx-fuse-swiglu" in more
    assert "rlx-select-peaks-only-outputs" in more
    assert (
        f"{Fuse(CUDA, NOTHING_SET).claims('+fused_swiglu,+fft,+welch_peaks').pipeline()},{lowering_pipeline(CUDA)}"
        == more
    )
    assert Fuse(METAL, NOTHING_SET).claims(None).pipeline() == named_pipeline("metal-fuse")
    with pytest.raises(UnknownOperation):
        Fuse(METAL, NOTHING_SET).claims("+nonsense")
