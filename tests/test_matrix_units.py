"""Contractions on matrix units: what each unit's lanes compute, and the instructions in the code for each chip."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import emulation
import numpy as np
import pytest
from helpers import assert_close, parse
from on_device import lower
from test_to_gpu_contraction import products, with_hardware
from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerAttr, ModuleOp, bf16, f16, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from rlx_dialect.dtypes import Array, storage_dtype
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_gpu.contraction_choice import Problem, choose_matrix_tile
from rlx_dialect.lowering.to_gpu.fragments import Unit, expanded
from rlx_dialect.lowering.to_gpu.gpu_ops import ShuffleOp
from rlx_dialect.lowering.to_gpu.hardware import HARDWARE, MATRIX, MatrixTile
from rlx_dialect.lowering.to_gpu.simdgroup import ELEMENTS, LANES, SIMDGROUP, SIZE
from rlx_dialect.lowering.to_gpu.units import MFMA, WMMA, plain
from rlx_dialect.pipelines.named import run_pipeline
from rlx_dialect.runtime.amd import CHIPS, code_object
from rlx_dialect.runtime.kernels import UnsupportedKernel
from rlx_dialect.runtime.spirv import serialize
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values
from rlx_dialect.shapes import DYNAMIC

GATED = """
  func.func @main(%x: tensor<2x33x40xf16>, %w: tensor<2x22x40xf16>) -> tensor<2x33x11xf16> {
    %t = rlx.transpose %w {perm = [0, 2, 1]} : tensor<2x22x40xf16> -> tensor<2x40x22xf16>
    %p = rlx.matmul %x, %t : (tensor<2x33x40xf16>, tensor<2x40x22xf16>) -> tensor<2x33x22xf16>
    %y = rlx.fused_swiglu %p : tensor<2x33x22xf16> -> tensor<2x33x11xf16>
    func.return %y : tensor<2x33x11xf16>
  }"""
"""Batches, remainders along every axis, and two right factors that lie along the contracted axis."""

PRODUCT = """
  func.func @main(%x: tensor<33x?xf16>, %w: tensor<?x22xf16>) -> tensor<33x22xf16> {
    %y = rlx.matmul %x, %w : (tensor<33x?xf16>, tensor<?x22xf16>) -> tensor<33x22xf16>
    func.return %y : tensor<33x22xf16>
  }"""
"""Sums of unknown length."""


def computed(module: ModuleOp, unit: Unit[Any], values: dict[str, Array]) -> list[Array]:
    """What a kernel of the matrix unit gives on ``unit``."""
    lowered = lower(module)
    assert any(op.name == "gpu.subgroup_mma_compute" for op in lowered.walk())
    return WgpuEngine().compile(emulation.emulate(expanded(lowered, unit)), {}).run(values)


@pytest.mark.parametrize(
    ("text", "units", "slices"), [(PRODUCT, (plain(32), SIMDGROUP), 1), (GATED, (plain(64), MFMA, WMMA), 2)]
)
def test_what_the_units_compute(text: str, units: tuple[Unit[Any], ...], slices: int, monkeypatch: pytest.MonkeyPatch):
    """The instructions lane by lane, beside the plain form of the same kernel."""
    tile = MatrixTile(32, 16, 16, 1, 1, units[0].lanes, along_depth=units[0].lanes == 64)
    with_hardware(monkeypatch, matrix=(tile,), matrix_elements=(Float16Type,), slices=slices)
    module = parse(text)
    rng = np.random.default_rng(0)
    shapes = [[40 if e == DYNAMIC else e for e in a.type.get_shape()] for a in main_function(module).args]
    values = {f"arg{i}": rng.standard_normal(shape).astype("float16") for i, shape in enumerate(shapes)}
    wanted, *others = (computed(module, unit, values) for unit in units)
    assert_close(wanted, run_reference(module, values), rtol=2e-3, atol=2e-3)
    for got in others:
        # Sums are made in the same order.
        assert_close(got, wanted, rtol=1e-3, atol=0)


def test_several_matrices_a_subgroup(monkeypatch: pytest.MonkeyPatch):
    """And numbers that are not finite stay in their own rows and columns."""
    tile = MatrixTile(64, 32, 16, 2, 1, 32)
    with_hardware(monkeypatch, matrix=(tile,), matrix_elements=(Float16Type,))
    module = products([("70x64", "64x33")], "f16")
    values = random_values(module)
    values["arg0"][3, 5], values["arg1"][7, 20] = np.inf, np.nan
    assert_close(computed(module, plain(32), values), run_reference(module, values), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ELEMENTS)
def test_what_the_functions_for_simdgroups_mean(name: str):
    """Their body of shuffles, all lanes at a time, is a product of the matrices whose pairs lanes hold."""
    function = SIMDGROUP.function(name)
    lane = np.arange(LANES)
    quad = lane // 4
    row, column = (quad & 4) + lane // 2 % 4, (quad & 2) * 2 + lane % 2 * 2
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((SIZE, SIZE)).astype(storage_dtype(ELEMENTS[name])) for _ in range(2))
    total = rng.standard_normal((SIZE, SIZE)).astype("float32")
    pairs = [m[row, column + i] for m in (left, right) for i in (0, 1)]
    arguments = [*pairs, np.stack([total[row, column], total[row, column + 1]]), lane]
    known = dict(zip(function.regions[0].block.args, arguments, strict=True))
    for op in function.regions[0].block.ops:
        known.update(zip(op.results, [of_lanes(op, [known[v] for v in op.operands])], strict=False))
    result = known[op.operands[0]]
    wanted = left.astype("float32") @ right.astype("float32") + total
    np.testing.assert_allclose(result, [wanted[row, column], wanted[row, column + 1]], rtol=1e-5, atol=1e-6)


def of_lanes(op: Operation, x: list[Array]) -> Array:
    """The result of an operation for every lane."""
    match op:
        case arith.ConstantOp():
            assert isinstance(op.value, IntegerAttr)
            return np.full(LANES, op.value.value.data)
        case arith.ExtFOp():
            return x[0].astype("float32")
        case arith.AndIOp():
            return x[0] & x[1]
        case arith.OrIOp():
            return x[0] | x[1]
        case math.FmaOp():
            return x[0] * x[1] + x[2]
        case ShuffleOp():
            return x[0][x[1]]
        case vector.ExtractOp():
            return x[0][op.static_position.get_values()[0]]
        case vector.BroadcastOp():
            return np.stack([x[0], x[0]])
        case vector.InsertOp():
            place = op.static_position.get_values()[0]
            return np.stack([x[0] if i == place else x[1][i] for i in (0, 1)])
        case _:
            assert isinstance(op, ReturnOp), op.name
            return x[0]


def test_metal_multiplies_on_simdgroups():
    for name, element in ELEMENTS.items():
        lowered = lower(products([("70x64", "64x65"), ("2x64", "64x65")], str(element)), "metal")
        on_unit, few = (k.msl() for k in serialize(lowered, SIMDGROUP))
        assert on_unit.count("simdgroup_multiply_accumulate(") == 1
        assert f"simdgroup_matrix<{'half' if element == f16 else 'float'}, 8, 8> a, b;" in on_unit
        assert "spvSubgroupShuffle(_" not in on_unit
        # Four 8 x 8 matrices of a result, each from two of a step of 16, in slices of 32.
        assert on_unit.count(f"{name}(") == 1 + 4 * 2 * 2
        assert "simdgroup" not in few
    (unknown,) = serialize(lower(parse(PRODUCT), "metal"), SIMDGROUP)
    assert "simdgroup_multiply_accumulate(" in unknown.msl()
    assert "simdgroup" not in serialize(lowered)[0].msl()


def test_cooperative_matrices_of_vulkan():
    """spirv-val has taken them: it knows them since 2023.4."""
    lowered = lower(products([("70x64", "64x65"), ("2x64", "64x65")], "f16"), "vulkan")
    on_unit, few = serialize(lowered, None)
    assert on_unit.capabilities == {"CooperativeMatrixKHR", "Float16"}
    lines = [line.partition("=")[2].split() or line.split() for line in on_unit.disassembly().splitlines()]
    assert ["OpMemoryModel", "Logical", "Vulkan"] in lines
    found = Counter(words[0] for words in lines if words and "CooperativeMatrix" in words[0])
    # A matrix of the result for each subgroup, and two steps of 16 in slices of 32.
    assert found["OpCooperativeMatrixMulAddKHR"] == 2
    assert (found["OpCooperativeMatrixLoadKHR"], found["OpCooperativeMatrixStoreKHR"]) == (4, 1)
    # What invocations show each other in shared memory.
    shared = [
        words for words in lines if words and words[0] in ("OpCooperativeMatrixLoadKHR", "OpCooperativeMatrixStoreKHR")
    ]
    assert all(words[-1] == "NonPrivatePointer" for words in shared)
    assert few.capabilities == {"Float16"}
    (unknown,) = serialize(lower(parse(PRODUCT), "vulkan"), None)
    assert "OpCooperativeMatrixMulAddKHR" in unknown.disassembly()
    with pytest.raises(UnsupportedKernel, match="kernel 'matmul': Metal has no cooperative matrices"):
        on_unit.msl()
    # Without the extension the same module has the plain form.
    assert "CooperativeMatrix" not in serialize(lowered)[0].disassembly()


INSTRUCTIONS = {"gfx942": "v_mfma_f32_16x16x16_", "gfx1100": "v_wmma_f32_16x16x16_"}


@pytest.mark.parametrize("chip", CHIPS)
def test_instructions_of_amd(chip: str):
    shapes = [("70x64", "64x65"), ("2x64x33", "2x33x64")]
    for element in ("f16", "bf16"):
        compiled = code_object(lower(products(shapes, element), "rocm"), chip)
        found = set(re.findall(r"v_\w*f?ma_f32_\d\w+", compiled.disassembly()))
        assert found == {INSTRUCTIONS[chip] + element}
        assert [r for r in compiled.resources() if r.spilled] == []
    # Few rows, sums shorter than a matrix, other elements: no work for it.
    few = code_object(lower(products([("2x64", "64x65"), ("70x8", "8x65")], "f16"), "rocm"), chip)
    other = code_object(lower(products(shapes, "f32"), "rocm"), chip)
    assert INSTRUCTIONS[chip] not in few.disassembly() + other.disassembly()


@pytest.mark.parametrize("target", [name for name, row in HARDWARE.items() if row.matrix])
def test_the_unit_can_be_left_out(target: str):
    module = products([("70x64", "64x65")], "f16")
    forms: list[bool] = []
    for options in ("", " matrix-units=false"):
        clone = module.clone()
        run_pipeline(clone, f"rlx-lower-to-gpu{{target={target}{options}}}")
        forms.append(any(op.name == "gpu.subgroup_mma_compute" for op in clone.walk()))
    assert forms == [True, False]


def test_the_choice_of_a_unit():
    problem = Problem(1, 4096, 4096, 512)
    assert choose_matrix_tile(HARDWARE["wgpu"], problem, 1, f16) is None
    assert choose_matrix_tile(HARDWARE["cuda"], problem, 1, bf16) is None
    for name, row in HARDWARE.items():
        for element in (f16, bf16, f32):
            tile = choose_matrix_tile(row, problem, 2, element)
            assert (tile is not None) == isinstance(element, row.matrix_elements), name
            assert tile is None or tile.shared(2, row.slices, storage_dtype(element).itemsize) <= row.shared_bytes
        for tile in row.matrix:
            assert tile.threads <= 1024
            assert tile.threads % tile.subgroup == 0
    rocm = HARDWARE["rocm"]
    assert choose_matrix_tile(rocm, replace(problem, depth=MATRIX - 1), 1, f16) is None
    assert choose_matrix_tile(replace(rocm, matrix=()), problem, 1, f16) is None
    assert rocm.matrix_elements == (Float16Type, BFloat16Type)
