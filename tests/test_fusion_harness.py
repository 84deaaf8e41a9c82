"""The harness finds fusions that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph
from mutants import check_mutants, mutants
from xdsl.dialects.builtin import ModuleOp, StringAttr

from rlx_dialect.attributes import BinaryKind
from rlx_dialect.dtypes import Array
from rlx_dialect.ops.contraction import FusedMatMulResidualOp, MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.passes.matching.fusion import (
    FusionPattern,
    Match,
    Miss,
    Numerics,
    PatternFusionPass,
    Reason,
)
from rlx_dialect.passes.matching.values import is_used, one_use, other_operand
from rlx_dialect.pipelines.diagnostics import OptError
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import InsertPoint, InterpretationError, PatternRewriter, print_module

T, W = "tensor<4x8xf32>", "tensor<8x8xf32>"
LINES = [f"%p = rlx.matmul %x, %w : ({T}, {W}) -> {T}", f"%r = rlx.binary add %p, %z : ({T}, {T}) -> {T}"]


def of(*lines: str) -> ModuleOp:
    return graph("\n".join(lines), f"%x: {T}, %w: {W}, %z: {T}", T, "%r")


MODULE = of(*LINES)
FUSED = {"rlx.fused_matmul_residual": 1}
COUNTER = count()


@dataclass(frozen=True)
class Sum(Match):
    product: MatMulOp
    add: BinaryOp


class FuseSum(FusionPattern[MatMulOp, Sum]):
    """x · w + z, and what may be ``wrong`` about it."""

    root = MatMulOp

    def __init__(self, wrong: str):
        self.wrong = wrong

    def check(self, op: MatMulOp, /) -> Sum | Miss | None:
        if not is_used(op.result):
            return None
        if self.wrong == "any use":
            add = next(use.operation for use in op.result.uses)
        else:
            add = one_use(op.result, op)
            if isinstance(add, Miss):
                return add
        if not isinstance(add, BinaryOp) or add.kind.data is not BinaryKind.ADD:
            return Miss(Reason.OTHER_CONSUMER, op, "it goes elsewhere", "" if self.wrong == "no hint" else "add it")
        if self.wrong != "any shape" and add.lhs.type != add.rhs.type:
            return Miss(Reason.SHAPES_DIFFER, op, "one is broadcast", "expand it")
        return Sum(op, add)

    def rewrite(self, match: Sum, rewriter: PatternRewriter, /) -> None:
        product, add = match.product, match.add
        residual = other_operand(add, product.result)
        place = InsertPoint.before(product if self.wrong == "too early" else add)
        fused = FusedMatMulResidualOp(product.lhs, product.rhs, residual, result_type=add.result.type)
        if self.wrong == "random":
            fused.attributes["test.number"] = StringAttr(str(next(COUNTER)))
        rewriter.insert(fused, place)
        if self.wrong == "meaning":
            rewriter.replace(add, BinaryOp("max", fused, residual))
        elif self.wrong == "more":
            twice = [ActivationOp("neg", fused), *(ActivationOp("neg", fused) for _ in range(2))]
            rewriter.replace(add, [*twice, ActivationOp("neg", twice[0])])
        else:
            rewriter.replace(add, [], [fused.result])
        rewriter.erase(product, safe_erase=False)


@dataclass(frozen=True)
class FuseSumPass(PatternFusionPass):
    name = "test-fuse-sum"
    produces: ClassVar = (FusedMatMulResidualOp,)
    numerics: ClassVar = Numerics.EXACT
    wrong: str = ""

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return [FuseSum(self.wrong)]


def test_what_is_right_passes():
    after = check_fusion(MODULE, FuseSumPass(), fused=FUSED)
    assert [op.name for op in after.walk()][2:] == ["rlx.fused_matmul_residual", "func.return"]
    broadcast = graph(
        f"%p = rlx.matmul %x, %w : ({T}, {W}) -> {T}\n%r = rlx.binary add %p, %z : ({T}, tensor<8xf32>) -> {T}",
        f"%x: {T}, %w: {W}, %z: tensor<8xf32>",
        T,
        "%r",
    )
    miss = check_declines(broadcast, FuseSumPass(), Reason.SHAPES_DIFFER, at="rlx.matmul")
    assert miss.hint == "expand it"


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ("meaning", OptError, "FuseSum"),
        ("more", AssertionError, "3 operations more than before"),
        ("random", AssertionError, "not deterministic"),
        ("any shape", Exception, "residual"),
        ("any use", ValueError, "Erased SSA value is used"),
        ("too early", Exception, "does not dominate"),
    ],
)
def test_what_is_wrong_is_found(wrong: str, error: type[Exception], says: str):
    module = of(f"%n = rlx.activation neg %z : {T}", *(line.replace("%z", "%n") for line in LINES))
    with pytest.raises(error, match=says):
        check_fusion(module, FuseSumPass(wrong=wrong), fused=FUSED)


def test_counts_are_compared():
    for module, wanted in ((MODULE, 2), (MODULE, 0), (of(LINES[1].replace("%p", "%x")), 1)):
        with pytest.raises(AssertionError, match="instead of"):
            check_fusion(module, FuseSumPass(), fused={"rlx.fused_matmul_residual": wanted}, mutants=False)


def test_operations_may_be_added_where_that_is_meant():
    assert check_mutants(MODULE, FuseSumPass(), fused="rlx.fused_matmul_residual")["original"] == 1
    with pytest.raises(AssertionError, match="3 operations more"):
        check_fusion(MODULE, FuseSumPass(wrong="more"), fused=FUSED, more_operations=2)
    check_fusion(MODULE, FuseSumPass(wrong="more"), fused=FUSED, more_operations=3)


def test_declining_needs_the_reason_the_place_and_a_hint():
    module = of(LINES[0], f"%r = rlx.binary sub %p, %z : ({T}, {T}) -> {T}")
    miss = check_declines(module, FuseSumPass(), Reason.OTHER_CONSUMER, at="rlx.matmul")
    assert miss.reason is Reason.OTHER_CONSUMER
    for reason, at in ((Reason.AXIS, "rlx.matmul"), (Reason.OTHER_CONSUMER, "rlx.binary")):
        with pytest.raises(AssertionError, match="other-consumer"):
            check_declines(module, FuseSumPass(), reason, at=at)
    with pytest.raises(AssertionError):
        check_declines(MODULE, FuseSumPass(), Reason.OTHER_CONSUMER, at="rlx.matmul")
    with pytest.raises(AssertionError, match="what can be done"):
        check_declines(module, FuseSumPass(wrong="no hint"), Reason.OTHER_CONSUMER, at="rlx.matmul")


def test_a_module_may_need_values_of_its_own():
    lookup = graph(
        f"%e = rlx.gather %t, %i {{axis = 0}} : (tensor<2x8xf32>, tensor<4xi32>) -> {T}\n"
        f"%p = rlx.matmul %e, %w : ({T}, {W}) -> {T}\n%r = rlx.binary add %e, %p : ({T}, {T}) -> {T}",
        f"%t: tensor<2x8xf32>, %i: tensor<4xi32>, %w: {W}",
        T,
        "%r",
    )

    def indices(module: ModuleOp, seed: int, *, edges: Sequence[float]) -> dict[str, Array]:
        values = random_values(module, seed, edges=edges)
        return {name: v % 2 if v.dtype == np.int32 else v for name, v in values.items()}

    with pytest.raises(InterpretationError):
        check_fusion(lookup, FuseSumPass(), fused=FUSED)
    check_fusion(lookup, FuseSumPass(), fused=FUSED, sample=indices, mutants=False)
    counts = check_mutants(lookup, FuseSumPass(), fused="rlx.fused_matmul_residual", sample=indices)
    assert counts["commuted 0 1 of binary#2"] == 1


def test_operations_in_regions_have_mutants():
    module = graph(
        f"""%r = rlx.elementwise_region(%x, %z) : ({T}, {T}) -> {T} {{
        ^bb0(%a: f32, %b: f32):
          %s = rlx.binary sub %a, %b : (f32, f32) -> f32
          rlx.yield %s : f32
        }}""",
        f"%x: {T}, %z: {T}",
        T,
        "%r",
    )
    found = {mutant.name: mutant.module for mutant in mutants(module)}
    assert "rlx.binary sub %b, %a" in print_module(found["commuted 0 1 of binary#1"])
    assert "rlx.cast" in print_module(found["cast there and back on operand 0 of binary#1"])
    assert "returned: binary#1.0" not in found
    for name in ("commuted 0 1 of elementwise_region#0", "returned: elementwise_region#0.0"):
        found[name].verify()
    assert check_mutants(module, FuseSumPass(), fused="rlx.fused_matmul_residual")["original"] == 0
