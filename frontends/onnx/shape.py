"""ONNX operators that move, repeat or select elements by static positions, and those that make shapes and constants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Attribute

from rlx_dialect.builder import Value
from rlx_dialect.frontends.onnx.known import Extent, Known, by_size, extents_of, is_same
from rlx_dialect.frontends.onnx.model import element_type, tensor_array
from rlx_dialect.frontends.onnx.node import GIVE_NUMBERS, Node
from rlx_dialect.frontends.onnx.registry import imports
from rlx_dialect.ops.shape import PadOp, ReverseOp, SliceOp, TileOp, TriluOp
from rlx_dialect.shapes import DYNAMIC, broadcast, normal_axes, normal_axis, product

if TYPE_CHECKING:
    from onnx import TensorProto

# Values that are known at import.


@imports("Constant")
def constant(node: Node) -> Known:
    """A number or a list of numbers; one that holds a tensor is an initialiser to the importer."""
    forms: dict[str, Attribute] = {"value_int": i64, "value_ints": i64, "value_float": f32, "value_floats": f32}
    name = next((n for n in forms if n in node.attributes), None)
    if name is None:
        node.fail(f"the value must be a tensor or numbers, got {', '.join(node.attributes)}")
    return Known.of(forms[name], [np.asarray(node.attributes[name])] * node.graph.sizes)


@imports("Shape")
def shape(node: Node) -> Known:
    start, end = node.integer("start", 0), node.attributes.get("end")
    return Known.of(i64, [s[start : cast("int | None", end)] for s in node.operand(0).shapes])


@imports("Size")
def size(node: Node) -> Known:
    return Known.of(i64, [product(s) for s in node.operand(0).shapes])


@imports("ConstantOfShape")
def constant_of_shape(node: Node) -> Known:
    element: Attribute = f32
    fill = np.zeros(1, np.float32)
    if "value" in node.attributes:
        tensor = cast("TensorProto", node.attributes["value"])
        element = element_type(tensor.data_type, "the value")
        fill = tensor_array(tensor, element, Path())
    shapes = by_size(node.extents(0), node.graph.sizes)
    return Known(element, tuple(np.broadcast_to(fill.reshape(()), s) for s in shapes))


@imports("Range")
def range_(node: Node) -> Known:
    start, limit, delta = (node.known(i) for i in range(3))
    numbers = zip(start.arrays, limit.arrays, delta.arrays, strict=True)
    return Known.of(start.element, [np.arange(s.item(), e.item(), d.item()) for s, e, d in numbers])


# Reshapes.


@imports("Reshape")
def reshape(node: Node) -> Value:
    """-1 takes what is left; 0 keeps the extent of the operand, unless ``allowzero`` is on."""
    x = node.value(0)
    extents, target = node.extents_of(x), node.extents(1)
    if not node.flag("allowzero"):
        target = [extents[i] if not any(e) else e for i, e in enumerate(target)]
    minus_one = [-1] * node.graph.sizes
    result = [_rest(node, extents, target) if list(e) == minus_one else e for e in target]
    return node.reshape(x, result)


def _rest(node: Node, extents: Sequence[Extent], target: Sequence[Extent]) -> Extent:
    """What is left of ``extents`` for the one -1 of ``target``."""
    rest: list[int] = []
    for size in range(node.graph.sizes):
        total, taken = product(e[size] for e in extents), -product(e[size] for e in target)
        if taken <= 0 or total % taken:
            node.fail(f"{node.show(extents)} does not divide into the new shape {node.show(target)}")
        rest.append(total // taken)
    return tuple(rest)


@imports("Flatten")
def flatten(node: Node) -> Value:
    x, axis = node.value(0), node.integer("axis", 1)
    axis = axis if axis == x.rank else normal_axis(axis, x.rank)
    extents = node.extents_of(x)
    return node.reshape(x, [node.product(extents[:axis]), node.product(extents[axis:])])


@imports("Squeeze")
def squeeze(node: Node) -> Value:
    x, axes = node.value(0), node.axes(1, since=13)
    extents = node.extents_of(x)
    dropped = [i for i, e in enumerate(extents) if set(e) == {1}] if axes is None else normal_axes(axes, x.rank)
    if wrong := [extents[i] for i in dropped if set(extents[i]) != {1}]:
        node.fail(f"only extents of 1 can be dropped, got {node.show(wrong)}")
    return node.reshape(x, [e for i, e in enumerate(extents) if i not in dropped])


@imports("Unsqueeze")
def unsqueeze(node: Node) -> Value:
    x, axes = node.value(0), node.axes(1, since=13) or []
    extents = node.extents_of(x)
    for axis in sorted(normal_axes(axes, x.rank + len(axes))):
        extents.insert(axis, (1,) * node.graph.sizes)
    return node.reshape(x, extents)


@imports("DepthToSpace")
def depth_to_space(node: Node) -> Value:
    """Channels into blocks of pixels; the block is the outer part of the channels (DCR) or the inner (CRD)."""
    x, block = node.value(0), node.integer("blocksize", 1)
    n, c, h, w = node.extents_of(x)
    b, depth = (block,) * node.graph.sizes, tuple(e // block**2 for e in c)
    outer = node.word("mode", "DCR") == "DCR"
    split = node.reshape(x, [n, b, b, depth, h, w] if outer else [n, depth, b, b, h, w])
    moved = node.graph.transpose(split, (0, 3, 4, 1, 5, 2) if outer else (0, 1, 4, 2, 5, 3))
    return node.reshape(moved, [n, depth, node.product([h, b]), node.product([w, b])])


@imports("SpaceToDepth")
def space_to_depth(node: Node) -> Value:
    """The opposite of DepthToSpace."""
    x, block = node.value(0), node.integer("blocksize", 1)
    n, c, h, w = node.extents_of(x)
    b = (block,) * node.graph.sizes
    rows, columns = (tuple(e // block for e in extent) for extent in (h, w))
    split = node.reshape(x, [n, c, rows, b, columns, b])
    outer = node.word("mode", "DCR") == "DCR"
    moved = node.graph.transpose(split, (0, 3, 5, 1, 2, 4) if outer else (0, 1, 3, 5, 2, 4))
    return node.reshape(moved, [n, node.product([c, b, b]), rows, columns])


# Movement.


@imports("Transpose")
def transpose(node: Node) -> Value:
    x = node.value(0)
    perm = node.integers("perm")
    return node.graph.transpose(x, list(reversed(range(x.rank))) if perm is None else perm)


@imports("Concat")
def concat(node: Node) -> Value:
    return node.graph.concat(node.values(), node.integer("axis", 0))


@imports("Split")
def split(node: Node) -> list[Value]:
    """In the given lengths, else in equal ones, of which the last may be shorter."""
    x = node.value(0)
    axis = normal_axis(node.integer("axis", 0), x.rank)
    lengths = node.integers("split") if node.opset < 13 else node.ints(1) if node.has(1) else None
    if lengths is None:
        (extent,), count = node.static_shape_of_axes(x, [axis]), len(node.outputs)
        part = -(-extent // count)
        lengths = [min(part, extent - i * part) for i in range(count)]
    return node.graph.split(x, axis, lengths)


@imports("Slice")
def slice_(node: Node) -> Value:
    """As Python slices; bounds are attributes before operator set 10 and operands from then on."""
    x = node.value(0)
    if node.opset < 10:
        starts, ends, axes = (_repeated(node, node.integers(n)) for n in ("starts", "ends", "axes"))
        steps = None
    else:
        starts, ends = node.extents(1), node.extents(2)
        axes, steps = (node.extents(i) if node.has(i) else None for i in (3, 4))
    assert starts is not None
    assert ends is not None
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = normal_axis(i if axes is None else axes[i][0], x.rank)
        step = 1 if steps is None else steps[i][0]
        x = _sliced(node, x, axis, start, end, step)
    return x


def _repeated(node: Node, numbers: Sequence[int] | None) -> list[Extent] | None:
    return None if numbers is None else [(n,) * node.graph.sizes for n in numbers]


def _sliced(node: Node, x: Value, axis: int, start: Extent, end: Extent, step: int) -> Value:
    extent = node.extents_of(x)[axis]
    ranges = [range(*slice(s, e, step).indices(n)) for s, e, n in zip(start, end, extent, strict=True)]
    lengths = tuple(map(len, ranges))
    if lengths == extent and abs(step) == 1:
        return x if step == 1 else node.graph.insert(ReverseOp(x.ssa, [axis]))
    if not is_same(lengths) or not is_same([r.start for r in ranges]):
        node.fail(
            f"the slice {node.show([start])} to {node.show([end])} of axis {axis} with extent {node.show([extent])} "
            f"depends on it; {GIVE_NUMBERS}"
        )
    first, length = ranges[0].start, lengths[0]
    if step == 1:
        return node.graph.narrow(x, axis, first, length)
    return node.graph.insert(SliceOp(x.ssa, axis, first, length, step))


@imports("Expand")
def expand(node: Node) -> Value:
    """NumPy broadcasting of the operand's shape and the given one together."""
    x, target = node.value(0), by_size(node.extents(1), node.graph.sizes)
    result = extents_of([broadcast(s, t) for s, t in zip(node.shapes(x), target, strict=True)])
    extents = node.extents_of(x)
    if result == extents:
        return x
    added = len(result) - len(extents)
    shape: list[int] = []
    for axis, extent in enumerate(result):
        if is_same(extent):
            shape.append(extent[0])
        elif axis >= added and extents[axis - added] == extent:
            shape.append(DYNAMIC)
        else:
            node.fail(f"axis {axis} cannot be expanded to the dynamic extent {node.show([extent])}; {GIVE_NUMBERS}")
    return node.graph.expand(x, shape)


@imports("Tile")
def tile(node: Node) -> Value:
    return node.graph.insert(TileOp(node.value(0).ssa, node.ints(1)))


@imports("Pad")
def pad(node: Node) -> Value:
    """Pads are attributes before operator set 11 and operands from then on, for all axes or those that are named."""
    x = node.value(0)
    if node.opset < 11:
        pads, value, axes = node.integers("pads") or [], node.real("value", 0.0), None
    else:
        pads, axes = node.ints(1), node.ints(3) if node.has(3) else None
        value = float(node.array(2).item()) if node.has(2) else 0.0
    if axes is not None:
        before, after = ([0] * x.rank, [0] * x.rank)
        for i, axis in enumerate(normal_axes(axes, x.rank)):
            before[axis], after[axis] = pads[i], pads[i + len(axes)]
        pads = [*before, *after]
    return node.graph.insert(PadOp(x.ssa, pads, node.word("mode", "constant"), value))


@imports("Trilu")
def trilu(node: Node) -> Value:
    diagonal = node.ints(1)[0] if node.has(1) else 0
    return node.graph.insert(TriluOp(node.value(0).ssa, upper=node.flag("upper", True), diagonal=diagonal))
