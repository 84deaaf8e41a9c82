"""Graphs of element-wise operations, the passes that make regions of them and undo that, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from helpers import assert_same_meaning, graph
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.ops.region import ElementwiseRegionOp, RegionOp
from rlx_dialect.passes.mark_elementwise_regions import MarkElementwiseRegions
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.unfuse_elementwise_regions import UnfuseElementwiseRegions
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import Context, ModulePass

EXACT = {"rtol": 0.0, "atol": 0.0}
T = "tensor<4x8xf32>"


def unary(result: str, kind: str, x: str, type: str = T) -> str:
    return f"%{result} = rlx.activation {kind} %{x} : {type}"


def binary(result: str, kind: str, a: str, b: str, a_type: str = T, b_type: str = T, type: str = T) -> str:
    return f"%{result} = rlx.binary {kind} %{a}, %{b} : ({a_type}, {b_type}) -> {type}"


def of(*lines: str, arguments: str = f"%x: {T}, %y: {T}", results: str = T, returned: str = "%t") -> ModuleOp:
    return graph("\n".join(lines), arguments, results, returned)


def nested(*lines: str) -> str:
    """An operation with a block of its own."""
    return '"test.op"() ({ ' + "\n".join(lines) + " }) : () -> ()"


def applied(pass_: ModulePass, module: ModuleOp) -> ModuleOp:
    """What the pass makes of the module: with the very same values."""
    after = module.clone()
    pass_.apply(Context(), after)
    check_dominance(after)
    assert_same_meaning(module, after, **EXACT)
    return after


def mark(module: ModuleOp, **limits: int) -> ModuleOp:
    return applied(MarkElementwiseRegions(**limits), module)


def unfuse(module: ModuleOp, **options: bool) -> ModuleOp:
    return applied(UnfuseElementwiseRegions(**options), module)


def names(module: ModuleOp) -> list[str]:
    """The operations outside of regions."""
    return [op.name for op in module.walk() if op.name.startswith("rlx.") and not in_region(op.parent_op())]


def in_region(owner: object) -> bool:
    return isinstance(owner, RegionOp)


def regions(module: ModuleOp) -> list[ElementwiseRegionOp]:
    return [op for op in module.walk() if isinstance(op, ElementwiseRegionOp)]


def sizes(module: ModuleOp) -> list[int]:
    return [len(region.steps()) for region in regions(module)]


def chain(steps: int) -> ModuleOp:
    """tanh and neg in turn, ``steps`` of them."""
    lines = [unary(f"a{i + 1}", ("tanh", "neg")[i % 2], f"a{i}") for i in range(steps)]
    return of(*lines, arguments=f"%a0: {T}", returned=f"%a{steps}")


def image(height: int | str, *, element: str = "f32", batch: int | str = 1) -> str:
    return f"tensor<{batch}x3x{height}x{height}x{element}>"


def resize(result: str, x: str, height: int | str, *, element: str = "f32", batch: int | str = 1) -> str:
    """An image of that height, which may be "?", resized."""
    small = image(height, element=element, batch=batch)
    large = image(height if isinstance(height, str) else 2 * height, element=element, batch=batch)
    return f"%{result} = rlx.resize_nearest_2x %{x} : {small} -> {large}"


def region(result: str, inputs: dict[str, str], type: str, *steps: str, prologue: bool = False) -> str:
    """A region of ``steps``, of which the last is %r.

    In them %x stands for the scalar of the operand %x; it is called %x_ in the text. ``inputs`` gives the types.
    """
    attribute = ' {prologue = "resize_nearest_2x"}' if prologue else ""
    operands, types = ", ".join(f"%{name}" for name in inputs), ", ".join(inputs.values())
    scalars = ", ".join(f"%{name}_: {_element(t)}" for name, t in inputs.items())
    body = re.sub(rf"%({'|'.join(inputs)})\b", r"%\1_", "\n".join(steps))
    return f"""%{result} = rlx.elementwise_region({operands}){attribute} : ({types}) -> {type} {{
    ^bb0({scalars}):
      {body}
      rlx.yield %r : {_element(type)}
    }}"""


def _element(type: str) -> str:
    return type.removeprefix("tensor<").removesuffix(">").rpartition("x")[2]


Part = tuple[int, int, str]
"""A slice of a batch: where it starts, how long it is, and the kinds of activation applied to it, in order."""


def batch(
    *parts: Part,
    shape: str = "4x8",
    element: str = "f32",
    regions: bool = False,
    prologue: bool = False,
    axis: int = 0,
    tail: str = "",
    returned: str = "%t",
    more_results: tuple[str, ...] = (),
) -> ModuleOp:
    """Slices %n0, %n1, … of %x, activations or regions %r0, %r1, … of those, and their concatenation %t.

    ``shape`` is that of %x; ``axis`` the one that is sliced and joined; ``prologue`` is for regions, on images.
    """
    extents = shape.split("x")

    def type_of(length: int, scale: int = 1) -> str:
        scaled = [e if i < 2 else str(scale * int(e)) for i, e in enumerate(extents)]
        scaled[axis] = str(length)
        return f"tensor<{'x'.join(scaled)}x{element}>"

    whole, scale = f"tensor<{shape}x{element}>", 2 if prologue else 1
    lines: list[str] = []
    for i, (start, length, kinds) in enumerate(parts):
        part, out, names = type_of(length), type_of(length, scale), kinds.split()
        lines.append(f"%n{i} = rlx.narrow %x {{axis = {axis}, start = {start}, len = {length}}} : {whole} -> {part}")
        if regions:
            values = [f"n{i}", *(f"v{j}" for j in range(len(names) - 1)), "r"]
            steps = [unary(values[j + 1], kind, values[j], element) for j, kind in enumerate(names)]
            lines.append(region(f"r{i}", {f"n{i}": part}, out, *steps, prologue=prologue))
        else:
            lines.append(unary(f"r{i}", kinds, f"n{i}", part))
    types = ", ".join(type_of(length, scale) for _, length, _ in parts)
    total = type_of(sum(length for _, length, _ in parts), scale)
    operands = ", ".join(f"%r{i}" for i in range(len(parts)))
    lines.append(f"%t = rlx.concat {operands} {{axis = {axis}}} : ({types}) -> {total}")
    return of(*lines, tail, arguments=f"%x: {whole}", results=", ".join([total, *more_results]), returned=returned)


def four_rows(module: ModuleOp, seed: int, *, edges: Sequence[float] = ()) -> dict[str, Array]:
    """Values for a :func:`batch` of four rows whose number is not known."""
    return random_values(module, seed, edges=edges, dynamic=4)
