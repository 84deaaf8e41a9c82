"""Maps in which an invocation takes a vector of elements: what they compute, and that compilers keep the vectors."""

from __future__ import annotations

import re

import emulation
import pytest
from helpers import assert_close, parse
from nvidia import assert_assembles
from on_device import lower
from test_to_gpu_contraction import with_hardware
from xdsl.dialects import vector
from xdsl.dialects.builtin import ModuleOp, VectorType

from rlx_dialect.interpreter import run_reference
from rlx_dialect.runtime.amd import code_object
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values


def lanes(module: ModuleOp, kind: type[vector.LoadOp | vector.StoreOp] = vector.LoadOp) -> list[int]:
    """Elements of each vector that kernels load or store."""
    found = [op for op in module.walk() if isinstance(op, kind)]
    types = [(op.result if isinstance(op, vector.LoadOp) else op.vector).type for op in found]
    return [t.element_count() for t in types if isinstance(t, VectorType)]


@pytest.fixture
def with_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    with_hardware(monkeypatch, vector_bytes=16, units=0)


def check(module: ModuleOp, rtol: float = 1e-5) -> ModuleOp:
    """The emulated kernels give what the reference gives."""
    lowered = lower(module)
    values = random_values(module)
    got = WgpuEngine().compile(emulation.emulate(lowered), {}).run(values)
    assert_close(got, run_reference(module, values), rtol=rtol, atol=2e-6)
    return lowered


def sums(*pairs: tuple[str, str, str], element: str = "f32") -> ModuleOp:
    """A graph of sums of two operands each: their extents and the result's."""
    arguments, body, results = [], [], []
    for i, (a, b, result) in enumerate(pairs):
        x, y, z = (f"tensor<{extents}x{element}>" for extents in (a, b, result))
        arguments += [f"%a{i}: {x}", f"%b{i}: {y}"]
        body.append(f"%y{i} = rlx.binary add %a{i}, %b{i} : ({x}, {y}) -> {z}")
        results.append(z)
    names = ", ".join(f"%y{i}" for i in range(len(pairs)))
    types = ", ".join(results)
    return parse(
        f"func.func @main({', '.join(arguments)}) -> ({types}) {{\n"
        + "\n".join(body)
        + f"\nfunc.return {names} : {types}\n}}"
    )


@pytest.mark.usefixtures("with_vectors")
@pytest.mark.parametrize(
    ("pair", "loaded"),
    [
        (("5x300", "5x300", "5x300"), [4, 4]),
        # 17 = 4·4 + 1 elements, fewer than a vector, and one.
        (("17", "17", "17"), [4, 4]),
        (("3", "3", "3"), [4, 4]),
        (("7x20", "20", "7x20"), [4, 4]),
        (("7x20", "7x1", "7x20"), [4]),
        # Rows of 18 are aligned to two elements.
        (("7x18", "7x1", "7x18"), [2]),
        (("7x9", "7x1", "7x9"), []),
        (("2x3x8", "3x1", "2x3x8"), [4]),
        (("12x1", "8", "12x8"), [4]),
    ],
)
def test_broadcasting(pair: tuple[str, str, str], loaded: list[int]):
    lowered = check(sums(pair))
    assert lanes(lowered) == loaded
    assert lanes(lowered, vector.StoreOp) == loaded[:1]


@pytest.mark.usefixtures("with_vectors")
def test_widths():
    """Vectors are of 16 bytes of the widest operand."""
    assert lanes(check(sums(("5x64", "64", "5x64"), element="f16"), rtol=2e-3)) == [8, 8]
    module = parse("""
      func.func @main(%x: tensor<9x6xf16>, %m: tensor<9x6xi1>) -> (tensor<9x6xf32>, tensor<9x6xi1>, tensor<9x6xi64>) {
        %0 = rlx.cast %x : tensor<9x6xf16> -> tensor<9x6xf32>
        %1 = rlx.compare lt %x, %x : (tensor<9x6xf16>, tensor<9x6xf16>) -> tensor<9x6xi1>
        %2 = rlx.binary bit_or %m, %1 : (tensor<9x6xi1>, tensor<9x6xi1>) -> tensor<9x6xi1>
        %3 = rlx.cast %m : tensor<9x6xi1> -> tensor<9x6xi64>
        func.return %0, %2, %3 : tensor<9x6xf32>, tensor<9x6xi1>, tensor<9x6xi64>
      }""")
    assert lanes(check(module)) == [4, 4, 4, 4, 4, 2]


@pytest.mark.usefixtures("with_vectors")
def test_slices_and_transposed_operands():
    module = parse("""
      !x = tensor<6x16xf32>
      !s = tensor<6x8xf32>
      func.func @main(%x: !x, %t: tensor<8x6xf32>) -> (!s, !s, !s, tensor<3x16xf32>) {
        %a = rlx.narrow %x {axis = 1, start = 4, len = 8} : !x -> !s
        %b = rlx.narrow %x {axis = 1, start = 3, len = 8} : !x -> !s
        %c = rlx.transpose %t {perm = [1, 0]} : tensor<8x6xf32> -> !s
        %d = rlx.slice %x {axis = 0, start = 5, len = 3, step = -2} : !x -> tensor<3x16xf32>
        %0 = rlx.activation neg %a : !s
        %1 = rlx.binary add %a, %b : (!s, !s) -> !s
        %2 = rlx.binary add %a, %c : (!s, !s) -> !s
        %3 = rlx.activation neg %d : tensor<3x16xf32>
        func.return %0, %1, %2, %3 : !s, !s, !s, tensor<3x16xf32>
      }""")
    lowered = check(module)
    # The second sum reads its slice of odd places one by one, the third all of its operands.
    assert lanes(lowered) == [4, 4, 4]
    assert lanes(lowered, vector.StoreOp) == [4, 4, 4]


@pytest.mark.usefixtures("with_vectors")
def test_parts_of_a_launch_have_vectors_of_their_own():
    module = parse("""
      !a = tensor<3x16xf32>
      !b = tensor<3x4xf32>
      !c = tensor<3x2xf32>
      func.func @main(%a: !a, %b: !b, %c: !c) -> tensor<3x24xf32> {
        %y = rlx.concat %a, %b, %c, %c {axis = 1} : (!a, !b, !c, !c) -> tensor<3x24xf32>
        func.return %y : tensor<3x24xf32>
      }""")
    assert lanes(check(module)) == [4, 4, 2]


def test_few_elements_are_taken_one_by_one():
    """The device would idle."""
    few, many = (sums((extents, "1024", extents)) for extents in ("16x1024", "1024x1024"))
    assert lanes(lower(few, "cuda")) == []
    assert lanes(lower(many, "cuda")) == [4, 4]


WIDE = "4096x1027"
"""Elements of which there are many, in rows that are not aligned."""


def test_cuda_keeps_the_vectors():
    text = assert_assembles(lower(sums((WIDE, WIDE, WIDE)), "cuda"))
    assert len(re.findall(r"ld\.global\S*\.v4\.\S*32", text)) == 2
    assert len(re.findall(r"st\.global\S*\.v4\.\S*32", text)) == 1
    text = assert_assembles(lower(sums((WIDE, WIDE, WIDE), element="f16"), "cuda"))
    assert len(re.findall(r"ld\.global\S*\.v4\.\S*32", text)) == 2


def test_amd_keeps_the_vectors():
    text = code_object(lower(sums((WIDE, WIDE, WIDE)), "rocm"), "gfx942").disassembly()
    assert text.count("global_load_dwordx4") == 2
    assert text.count("global_store_dwordx4") == 1
