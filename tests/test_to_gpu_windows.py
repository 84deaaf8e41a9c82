"""Pooling and windows as rows on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import ELEMENTS, assert_close, parse
from on_device import launches, lower, run
from xdsl.dialects.builtin import ModuleOp, TensorType, f16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region

from rlx_dialect.dtypes import Array
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.convolution import PoolOp
from rlx_dialect.ops.transposed_convolution import Im2ColOp
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values

WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7), {"kernel_size": [3], "stride": [2], "padding": [1]}),
    ((2, 3, 7, 6), {"kernel_size": [2, 3]}),
    ((1, 2, 7, 6), {"kernel_size": [3, 2], "stride": [2, 2], "padding": [1, 0, 2, 1]}),
    ((2, 1, 8, 9), {"kernel_size": [2, 3], "dilation": [3, 2], "padding": [1, 2]}),
    ((1, 2, 3, 4, 5), {"kernel_size": [2, 2, 3], "stride": [1, 2, 1], "padding": [0, 1, 1]}),
    ((2, 5, 4, 4), {"kernel_size": [4, 4]}),
    ((0, 2, 3), {"kernel_size": [2]}),
]


def reals(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(build: Any, arrays: list[Array], elements: list[Attribute], *, rtol: float = 0, atol: float = 0) -> ModuleOp:
    """One graph of what ``build`` gives for each array: the device and the reference agree."""
    block = Block(arg_types=[TensorType(e, a.shape) for e, a in zip(elements, arrays, strict=True)])
    operations = [op for number, argument in enumerate(block.args) for op in build(number, argument)]
    results = [result for op in operations for result in op.results]
    block.add_ops([*operations, ReturnOp(*results)])
    module = ModuleOp([FuncOp("main", (block.arg_types, [r.type for r in results]), Region(block))])
    module.verify()
    values = {f"arg{i}": a for i, a in enumerate(arrays)}
    assert_close(run(module, values), run_reference(module, values), rtol=rtol, atol=atol)
    return module


@pytest.mark.parametrize("kind", ["max", "mean", "sum", "min", "prod"])
def test_pools(kind: str):
    arrays = [reals(shape, seed) for seed, (shape, _) in enumerate(WINDOWS)]
    arrays[1][0, 0, 2, 2], arrays[1][1, 1, 0, 0] = math.nan, -math.inf

    def pools(number: int, x: Any) -> list[PoolOp]:
        options = WINDOWS[number][1]
        padded = [PoolOp(kind, x, **options, count_include_pad=True)] if kind == "mean" else []
        return [PoolOp(kind, x, **options), *padded]

    exact = kind in ("max", "min")
    check(pools, arrays, [ELEMENTS["float32"]] * len(arrays), rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)


def test_pools_of_other_elements():
    arrays: list[Array] = [
        reals((2, 3, 9), 0).astype(np.float16),
        np.random.default_rng(0).integers(-9, 9, (2, 3, 9)).astype(np.int32),
        np.random.default_rng(1).random((2, 3, 9)) < 0.5,
    ]
    kinds = [("max", "mean", "sum"), ("max", "min", "sum", "prod"), ("max", "min")]
    options: dict[str, Any] = {"kernel_size": [3], "stride": [2], "padding": [1]}
    elements = [f16, ELEMENTS["int32"], ELEMENTS["bool"]]
    check(lambda i, x: [PoolOp(kind, x, **options) for kind in kinds[i]], arrays, elements, rtol=1e-3, atol=1e-3)


def test_the_sum_of_a_large_window_of_f16_is_rounded_once():
    x = np.ones((1, 1, 4000), np.float16)
    module = check(lambda _, v: [PoolOp("mean", v, [4000])], [x], [f16])
    assert launches(lower(module)) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool"])
def test_windows_as_rows(dtype: str):
    arrays = [reals(shape, seed) for seed, (shape, _) in enumerate(WINDOWS)]
    typed = [a > 0 if dtype == "bool" else (a * 9).astype(dtype) for a in arrays]
    module = check(lambda i, x: [Im2ColOp(x, **WINDOWS[i][1])], typed, [ELEMENTS[dtype]] * len(typed))
    # The one without elements needs none.
    assert launches(lower(module)) == len(WINDOWS) - 1


def test_unknown_extents():
    """One compiled module serves every size."""
    module = parse("""
      !x = tensor<?x2x?x?xf32>
      func.func @main(%x: !x, %z: tensor<1x2x?x5xf32>) -> (!x, !x, tensor<?x12xf32>) {
        %0 = rlx.pool max %x {kernel_size = [3, 2], stride = [2, 1], padding = [1, 0], dilation = [1, 2]} : !x -> !x
        %1 = rlx.pool mean %x {kernel_size = [2, 2], stride = [2, 2], padding = [0, 1]} : !x -> !x
        %2 = rlx.im2col %z {kernel_size = [2, 3], stride = [1, 2], padding = [1, 1]}
          : tensor<1x2x?x5xf32> -> tensor<?x12xf32>
        func.return %0, %1, %2 : !x, !x, tensor<?x12xf32>
      }""")
    executable = WgpuEngine().compile(lower(module), {})
    for size in (3, 8):
        values = random_values(module, size, dynamic=size)
        assert_close(executable.run(values), run_reference(module, values))
