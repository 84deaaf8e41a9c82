"""The attention schedule on a device: layouts, grouped heads, every mask, remainders, decode; one launch each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from helpers import assert_close, parse
from nvidia import assert_assembles
from on_device import check, launches, lower, run
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, f32

from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_gpu import LoweringError
from rlx_dialect.lowering.to_gpu.attention import choose_attention_tile
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE
from rlx_dialect.runtime.spirv import metal_source, serialize
from rlx_dialect.samples import random_values
from rlx_dialect.shapes import product


@dataclass(frozen=True)
class Case:
    """An attention operation; ``mask`` is the shape of a mask operand, ``kind`` and ``more`` are as in the text."""

    kind: str = ""
    queries: int = 5
    keys: int = 5
    batch: int = 2
    heads: int = 2
    kv_heads: int = 2
    dim: int = 8
    value_dim: int | None = None
    layout: str = "bshd"
    mask: str | None = None
    mask_element: str = "f32"
    more: str = ""

    def type(self, seq: int, heads: int, dim: int, element: str) -> str:
        shape = {
            "bsd": (self.batch, seq, heads * dim),
            "bshd": (self.batch, seq, heads, dim),
            "bhsd": (self.batch, heads, seq, dim),
        }[self.layout]
        return f"tensor<{'x'.join(map(str, shape))}x{element}>"

    def write(self, number: int, element: str) -> tuple[list[str], str, str]:
        """Arguments, the operation, and the type of its result."""
        value_dim = self.value_dim or self.dim
        q = self.type(self.queries, self.heads, self.dim, element)
        k = self.type(self.keys, self.kv_heads, self.dim, element)
        v = self.type(self.keys, self.kv_heads, value_dim, element)
        result = self.type(self.queries, self.heads, value_dim, element)
        types, names = [q, k, v], [f"%{n}{number}" for n in "qkv"]
        if self.mask is not None:
            types.append(f"tensor<{self.mask}x{element if self.kind == 'bias' else self.mask_element}>")
            names.append(f"%m{number}")
        properties = [f"num_heads = {self.heads}", f"head_dim = {self.dim}", f"layout = {self.layout}"]
        if self.kv_heads != self.heads:
            properties.append(f"num_kv_heads = {self.kv_heads}")
        if value_dim != self.dim:
            properties.append(f"v_head_dim = {value_dim}")
        if self.more:
            properties.append(self.more)
        kind = f"{self.kind} " if self.kind else ""
        text = f"rlx.attention {kind}{', '.join(names)} {{{', '.join(properties)}}} : ({', '.join(types)}) -> {result}"
        arguments = [f'{n}: {t} {{rlx.input = "{n[1:]}"}}' for n, t in zip(names, types, strict=True)]
        return arguments, text, result


def graph_of(cases: list[Case], element: str = "f32") -> ModuleOp:
    written = [case.write(i, element) for i, case in enumerate(cases)]
    arguments = ", ".join(a for w in written for a in w[0])
    body = "\n".join(f"%y{i} = {w[1]}" for i, w in enumerate(written))
    names, types = ", ".join(f"%y{i}" for i in range(len(cases))), ", ".join(w[2] for w in written)
    return parse(f"func.func @main({arguments}) -> ({types}) {{\n{body}\nfunc.return {names} : {types}\n}}")


PLAIN = [
    Case(layout="bsd", heads=3, kv_heads=3, dim=5, value_dim=7),
    Case(layout="bhsd", queries=33, keys=70, heads=1, kv_heads=1),
    Case(queries=40, keys=19, heads=4, kv_heads=2, dim=16, more="score_scale = 0.7"),
    # Decode: one query, heads that share keys.
    Case(queries=1, keys=100, heads=1, kv_heads=1, batch=1, dim=64),
    Case(queries=1, keys=37, heads=8, kv_heads=2, dim=64, layout="bhsd", more="attn_logit_softcap = 2.0"),
    Case(queries=1, keys=1, batch=1, heads=1, kv_heads=1, dim=1),
    # Heads that leave room for small slices only.
    Case(queries=9, keys=9, dim=300, value_dim=20, batch=1),
]

MASKED = [
    Case("causal", queries=40, keys=40, heads=4),
    Case("causal", queries=3, keys=50),
    # Queries before the first key see none: all keys count alike.
    Case("causal", queries=20, keys=7),
    Case("sliding_window", queries=70, keys=70, heads=4, more="window = 9"),
    Case("sliding_window", queries=20, keys=11, more="window = 3"),
    Case("custom", queries=6, keys=18, mask="2x18"),
    Case("custom", queries=6, keys=18, heads=4, mask="1x4x1x18", mask_element="i1"),
    Case("bias", queries=6, keys=18, heads=4, mask="2x4x6x18"),
]

NARROW = [
    Case(queries=20, keys=35, heads=4, dim=16),
    Case("sliding_window", queries=1, keys=50, heads=4, more="window = 30"),
    Case("custom", queries=6, keys=18, mask="2x6x18"),
    Case("bias", queries=6, keys=18, mask="1x1x6x18"),
]


@pytest.mark.parametrize(("cases", "element"), [(PLAIN, "f32"), (MASKED, "f32"), (NARROW, "f16")])
def test_attention(cases: list[Case], element: str):
    tolerance = {"f32": 1e-5, "f16": 2e-3}[element]
    lowered = check(graph_of(cases, element), rtol=tolerance, atol=tolerance)
    assert launches(lowered) == len(cases)


def test_operands_and_results_are_read_and_written_where_they_lie():
    module = parse("""
      func.func @main(%x: tensor<2x9x36xf32>) -> tensor<2x9x12xf32> {
        %q = rlx.narrow %x {axis = 2, start = 0, len = 12} : tensor<2x9x36xf32> -> tensor<2x9x12xf32>
        %k = rlx.narrow %x {axis = 2, start = 12, len = 12} : tensor<2x9x36xf32> -> tensor<2x9x12xf32>
        %v = rlx.reverse %q {axes = [1]} : tensor<2x9x12xf32>
        %y = rlx.attention causal %q, %k, %v {num_heads = 3, head_dim = 4, layout = bsd}
          : (tensor<2x9x12xf32>, tensor<2x9x12xf32>, tensor<2x9x12xf32>) -> tensor<2x9x12xf32>
        func.return %y : tensor<2x9x12xf32>
      }""")
    assert launches(check(module, atol=1e-5)) == 1


def test_numbers_that_are_not_finite():
    keys = 40
    module = graph_of([Case("bias", queries=4, keys=keys, batch=1, heads=1, kv_heads=1, mask="1x1x4x40")])
    values = random_values(module)
    bias = np.zeros((1, 1, 4, keys), np.float32)
    # Whole slices at minus infinity before and after the first finite score; a row of nothing else; NaN; infinity.
    bias[0, 0, 0, :20] = bias[0, 0, 0, 25:] = -np.inf
    bias[0, 0, 1] = -np.inf
    bias[0, 0, 2, 30] = np.nan
    bias[0, 0, 3, 3] = np.inf
    values["m0"] = bias
    expected = run_reference(module, values)
    assert np.isnan(expected[0][0, 1:]).all()
    assert np.isfinite(expected[0][0, 0]).all()
    assert_close(run(module, values), expected, rtol=1e-5, atol=1e-5)


def test_a_row_that_sees_no_key_is_the_mean_of_the_values():
    module = graph_of([Case("custom", queries=4, keys=40, mask="2x40", heads=4)])
    values = random_values(module)
    values["m0"] = np.zeros((2, 40), np.float32)
    values["m0"][0, 3] = np.nan
    got = run(module, values)
    assert_close(got, run_reference(module, values), rtol=1e-5, atol=1e-5)
    assert_close([got[0][1, 0, 0]], [values["v0"][1].mean(0)[0]], rtol=1e-5, atol=1e-5)


def test_no_keys_give_zero():
    check(graph_of([Case(queries=3, keys=0)]))


def test_no_buffer_of_scores():
    module = graph_of([Case("causal", queries=2048, keys=2048, heads=8, kv_heads=2, dim=64, layout="bhsd")])
    for target in HARDWARE:
        lowered = lower(module, target)
        made = [op.memref.type for op in lowered.walk() if isinstance(op, memref.AllocOp)]
        largest = max(product(type.get_shape()) for type in made if isinstance(type, MemRefType))
        assert largest == 2 * 8 * 2048 * 64


def test_shared_memory_is_bounded():
    for hardware in HARDWARE.values():
        for dim in (1, 64, 128, 256, 512):
            choice = choose_attention_tile(hardware, 1024, dim, dim, f32)
            assert choice.shared(dim, dim) * 4 <= hardware.shared_bytes
    with pytest.raises(LoweringError, match="heads of 4096 and 4096 do not fit into 16384 bytes of shared memory"):
        lower(graph_of([Case(dim=4096)]))


def test_few_rows_take_few_invocations():
    row = HARDWARE["cuda"]
    assert choose_attention_tile(row, 1, 64, 64, f32).rows == 1
    assert choose_attention_tile(row, 4, 64, 64, f32).rows == 4
    assert choose_attention_tile(row, 4096, 64, 64, f32).rows == 64


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_ptx_is_assembled(element: str):
    cases = [Case("causal", queries=70, keys=70, dim=64), Case("bias", queries=1, keys=70, mask="2x2x1x70")]
    assert_assembles(lower(graph_of(cases, element), "cuda"))


def test_metal_takes_it():
    lowered = lower(graph_of([Case("causal", queries=70, keys=70, dim=64)], "f16"), "metal")
    assert "kernel void attention(" in metal_source(serialize(lowered))
