"""Four spellings of one BERT encoder end in the same fused operations, with the same results."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from bert_spellings import BATCH, LAYERS, SEQ, SPELLINGS, bert, values
from helpers import assert_close
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.base import shape_of
from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp
from rlx_dialect.pipelines.named import run_named
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.targets import CPU, CUDA, Target

WANTED = {"attention": LAYERS, "fused_residual_ln": 2 * LAYERS, "gelu": LAYERS}


def results(module: ModuleOp) -> list[Array]:
    named = [(argument.name, shape_of(argument.value)) for argument in arguments(main_function(module))]
    return run_reference(module, values(named))


@cache
def expected() -> list[Array]:
    return results(bert("canonical"))


def counts(module: ModuleOp) -> Counter[str]:
    """How many attentions, residual norms and products with gelu are in the module."""
    found: Counter[str] = Counter()
    for op in module.walk():
        if op.name in ("rlx.attention", "rlx.fused_attention_block"):
            found["attention"] += 1
        elif op.name == "rlx.fused_residual_ln":
            found["fused_residual_ln"] += 1
        elif isinstance(op, FusedMatMulBiasActOp) and op.activation is not None:
            found[op.activation.data] += 1
    return found


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_they_mean_the_same(spelling: str):
    assert_close(results(bert(spelling)), expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("target", [CUDA, CPU], ids=["cuda", "cpu"])
def test_they_end_in_the_same_fused_operations(spelling: str, target: Target):
    module = bert(spelling)
    options = FusionOptions.for_target(target).with_arguments(fuse_attn_threshold=BATCH * SEQ)
    run_named(module, f"{target.name}-fuse", options)
    assert counts(module) == WANTED
    assert_close(results(module), expected(), rtol=1e-5, atol=1e-5)


def test_thirds_of_one_product_are_a_block():
    module = bert("canonical")
    run_named(module, "cpu-fuse", FusionOptions.for_cpu().with_arguments(fuse_attn_threshold=BATCH * SEQ))
    assert [op.name for op in module.walk()].count("rlx.fused_attention_block") == LAYERS


def test_a_layer_is_one_operation_where_that_is_asked_for():
    module = bert("canonical")
    options = FusionOptions.for_wgpu().with_arguments(
        fuse_attn_threshold=BATCH * SEQ, enable_fuse_transformer_layer=True
    )
    run_named(module, "wgpu-fuse", options)
    assert [op.name for op in module.walk() if op.name.startswith("rlx.")] == ["rlx.fused_transformer_layer"] * LAYERS
    assert_close(results(module), expected(), rtol=1e-5, atol=1e-5)
