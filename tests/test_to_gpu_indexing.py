"""Gathers and scatters by positions that are values, on a device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers import assert_close, parse
from on_device import lower, run, tensor
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values

Case = tuple[str, str, str, str, str]
"""Operation, shapes of data, indices, updates or result, and the least extent that indices address."""


def module_of(lines: Sequence[tuple[str, Sequence[str], str]]) -> ModuleOp:
    """A graph of operations on arguments of their own: text before the operands, operand types, result type."""
    types: list[str] = []
    body: list[str] = []
    for number, (text, operands, result) in enumerate(lines):
        names = [f"%a{len(types) + i}" for i in range(len(operands))]
        types += operands
        name, _, attributes = text.partition("{")
        attributes = f" {{{attributes}" if attributes else ""
        body.append(f"%y{number} = {name.strip()} {', '.join(names)}{attributes} : ({', '.join(operands)}) -> {result}")
    inputs = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    results = ", ".join(r for _, _, r in lines)
    names = ", ".join(f"%y{i}" for i in range(len(lines)))
    return parse(
        f"func.func @main({inputs}) -> ({results}) {{\n" + "\n".join(body) + f"\nfunc.return {names} : {results}\n}}"
    )


def check(
    lines: Sequence[tuple[str, Sequence[str], str]], limits: Sequence[int], *, rtol: float, seed: int = 0
) -> None:
    """The device gives what the reference gives; ``limits`` are of the indices, operand 1 of each operation."""
    module = module_of(lines)
    values = random_values(module, seed)
    rng = np.random.default_rng(seed)
    names = [a.name for a in arguments(main_function(module))]
    start = 0
    for (_, operands, _), limit in zip(lines, limits, strict=True):
        old = values[names[start + 1]]
        low = 0 if old.dtype.kind == "u" else -limit
        values[names[start + 1]] = rng.integers(low, limit, old.shape).astype(old.dtype)
        start += len(operands)
    assert_close(run(module, values), run_reference(module, values), rtol=rtol, atol=rtol)


GATHERS: list[tuple[str, str, str, str, int]] = [
    ("rlx.gather_elements {axis = 1}", "4x5", "4x3", "4x3", 5),
    ("rlx.gather_elements", "4x5x2", "7x3x2", "7x3x2", 4),
    ("rlx.gather_elements {axis = 2}", "2x3x4", "1x3x6", "1x3x6", 4),
    ("rlx.gather_elements", "3", "5", "5", 3),
    ("rlx.gather_nd", "4x5", "3x2", "3", 4),
    ("rlx.gather_nd", "4x5x3", "2x3x1", "2x3x5x3", 4),
    ("rlx.gather_nd", "4x5x3", "6x2", "6x3", 4),
    ("rlx.gather_nd {batch_dims = 1}", "2x4x3", "2x5x1", "2x5x3", 4),
    ("rlx.gather_nd {batch_dims = 2}", "2x3x4x5", "2x3x2", "2x3", 4),
    ("rlx.gather_nd", "4x5", "2", "", 4),
    ("rlx.gather_nd", "4x5", "0x1", "0x5", 4),
    ("rlx.gather {axis = 1}", "4x7x5", "2x3", "4x2x3x5", 7),
]


@pytest.mark.parametrize(("element", "index"), [("f32", "i32"), ("f16", "i64"), ("i1", "ui32"), ("i32", "i32")])
def test_gathers(element: str, index: str):
    lines = [
        (text, [tensor(data, element), tensor(indices, index)], tensor(result, element))
        for text, data, indices, result, _ in GATHERS
    ]
    for start in (0, 6):
        check(lines[start : start + 6], [g[-1] for g in GATHERS[start : start + 6]], rtol=0)


SCATTERS: list[tuple[str, str, str, str, int]] = [
    ("rlx.scatter_add", "5x3", "8", "8x3", 5),
    ("rlx.scatter_add {axis = 1}", "2x4x3", "2x5", "2x2x5x3", 4),
    ("rlx.scatter_add {axis = 2}", "2x3x4", "9", "2x3x9", 4),
    ("rlx.scatter_add", "3", "", "", 3),
    ("rlx.scatter_elements add {axis = 1}", "4x5", "3x9", "3x9", 5),
    ("rlx.scatter_elements add", "4x2x3", "6x2x2", "6x2x2", 4),
    ("rlx.scatter_nd add", "4x3", "9x1", "9x3", 4),
    ("rlx.scatter_nd add", "4x5x2", "3x4x2", "3x4x2", 4),
    ("rlx.scatter_nd add", "4x5", "7x2", "7", 4),
]


def scatters(element: str, index: str, reduction: str, chosen: slice) -> None:
    cases = SCATTERS[chosen]
    lines = [
        (
            text.replace(" add", f" {reduction}" if reduction else ""),
            [tensor(data, element), tensor(indices, index), tensor(updates, element)],
            tensor(data, element),
        )
        for text, data, indices, updates, _ in cases
    ]
    # Few elements take many updates, so equal indices abound.
    check(lines, [c[-1] for c in cases], rtol={"f32": 1e-6, "f16": 1e-3}.get(element, 0))


@pytest.mark.parametrize(("element", "index"), [("f32", "i32"), ("f16", "ui32"), ("i32", "i64")])
def test_scatters_that_add(element: str, index: str):
    scatters(element, index, "add", slice(0, 5))
    scatters(element, index, "add", slice(5, None))


@pytest.mark.parametrize("reduction", ["mul", "max", "min"])
@pytest.mark.parametrize("element", ["f32", "f16", "i32"])
def test_other_reductions(element: str, reduction: str):
    scatters(element, "i32", reduction, slice(4, None))


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_truth_values(reduction: str):
    scatters("i1", "i32", reduction, slice(4, None))


def test_replacement_by_distinct_indices():
    """Which of equal indices wins is not said."""
    rng = np.random.default_rng(0)
    lines = [
        ("rlx.scatter_nd", ["tensor<6x3xf32>", "tensor<4x1xi32>", "tensor<4x3xf32>"], "tensor<6x3xf32>"),
        (
            "rlx.scatter_elements {axis = 1}",
            ["tensor<3x6xf32>", "tensor<2x4xi32>", "tensor<2x4xf32>"],
            "tensor<3x6xf32>",
        ),
    ]
    module = module_of(lines)
    values = random_values(module)
    values["arg1"] = rng.permutation(6)[:4, None].astype(np.int32)
    values["arg4"] = np.stack([rng.permutation(6)[:4] - 6 for _ in range(2)]).astype(np.int32)
    assert_close(run(module, values), run_reference(module, values), rtol=0, atol=0)


def test_sums_of_f16_are_rounded_once():
    """A thousand halves of a unit in the last place: each addition in f16 would lose its own."""
    module = module_of(
        [("rlx.scatter_add", ["tensor<1xf16>", "tensor<1000xi32>", "tensor<1000xf16>"], "tensor<1xf16>")]
    )
    values: dict[str, Array] = {
        "arg0": np.array([2048], np.float16),
        "arg1": np.zeros(1000, np.int32),
        "arg2": np.ones(1000, np.float16),
    }
    (found,) = run(module, values)
    assert found.tolist() == [3048]


def test_unknown_extents():
    """One compiled module serves every size."""
    module = parse("""
      !x = tensor<?x?x3xf32>
      !i = tensor<?xi32>
      func.func @main(%x: !x, %i: !i, %e: tensor<?x?x3xi32>, %n: tensor<?x2xi32>, %u: !x, %v: tensor<?x3xf32>)
          -> (!x, !x, tensor<?x3xf32>, !x, !x, !x) {
        %0 = rlx.gather %x, %i {axis = 1} : (!x, !i) -> !x
        %1 = rlx.gather_elements %x, %e {axis = 1} : (!x, tensor<?x?x3xi32>) -> !x
        %2 = rlx.gather_nd %x, %n : (!x, tensor<?x2xi32>) -> tensor<?x3xf32>
        %3 = rlx.scatter_add %x, %i, %u : (!x, !i, !x) -> !x
        %4 = rlx.scatter_elements max %x, %e, %u {axis = 1} : (!x, tensor<?x?x3xi32>, !x) -> !x
        %5 = rlx.scatter_nd add %x, %n, %v : (!x, tensor<?x2xi32>, tensor<?x3xf32>) -> !x
        func.return %0, %1, %2, %3, %4, %5 : !x, !x, tensor<?x3xf32>, !x, !x, !x
      }""")
    executable = WgpuEngine().compile(lower(module), {})
    for size in (3, 7, 1):
        values = random_values(module, size, dynamic=size)
        for name in ("arg1", "arg2", "arg3"):
            values[name] = values[name] % (2 * size) - size
        assert_close(executable.run(values), run_reference(module, values))
