"""ONNX convolution, pooling and resizing."""

from __future__ import annotations

from collections.abc import Sequence

from rlx_dialect.builder import Value
from rlx_dialect.frontends.onnx.known import Extent, is_same
from rlx_dialect.frontends.onnx.node import Node
from rlx_dialect.frontends.onnx.normalization import per_channel
from rlx_dialect.frontends.onnx.registry import imports
from rlx_dialect.ops.convolution import ConvOp, PoolOp, ResizeNearest2xOp
from rlx_dialect.ops.shape import PadOp

NEAREST_2X = {
    ("asymmetric", "floor"),
    ("asymmetric", "round_prefer_floor"),
    ("half_pixel", "round_prefer_floor"),
    ("half_pixel", "round_prefer_ceil"),
    ("pytorch_half_pixel", "round_prefer_floor"),
    ("pytorch_half_pixel", "round_prefer_ceil"),
}
"""Ways to choose the nearest element that, for a factor of two, all read position i/2 rounded down."""


class _Window:
    """The window attributes that convolution and pooling share, for an operand [N, C, spatial…]."""

    def __init__(self, node: Node, x: Value, kernel: Sequence[int]):
        rank = x.rank - 2
        self.node = node
        self.kernel = list(kernel)
        self.stride = node.integers("strides") or [1] * rank
        self.dilation = node.integers("dilations") or [1] * rank
        self.span = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        self.extents = node.extents_of(x)[2:]
        self.before, self.after = self._padding(rank)

    def _padding(self, rank: int) -> tuple[list[int], list[int]]:
        auto = self.node.word("auto_pad", "NOTSET")
        if auto in ("NOTSET", "VALID"):
            pads = (self.node.integers("pads") if auto == "NOTSET" else None) or [0] * 2 * rank
            return pads[:rank], pads[rank:]
        totals = [self._static(self._same(e, i), "padding", i) for i, e in enumerate(self.extents)]
        smaller, larger = [t // 2 for t in totals], [t - t // 2 for t in totals]
        return (smaller, larger) if auto == "SAME_UPPER" else (larger, smaller)

    def _same(self, extent: Extent, axis: int) -> Extent:
        """The padding for which the result has ⌈extent / stride⌉ elements."""
        stride, span = self.stride[axis], self.span[axis]
        return tuple(max((-(-e // stride) - 1) * stride + span - e, 0) for e in extent)

    def _static(self, numbers: Extent, what: str, axis: int) -> int:
        if not is_same(numbers):
            self.node.fail(f"the {what} of spatial axis {axis} depends on a dynamic extent")
        return numbers[0]

    def rounding_up(self) -> list[int]:
        """More padding after, by which the result extent is rounded up; no window starts in the padding after."""
        extra: list[int] = []
        for axis, extent in enumerate(self.extents):
            stride, before = self.stride[axis], self.before[axis]
            numbers: list[int] = []
            for e in extent:
                padded = e + before + self.after[axis]
                windows = -(-(padded - self.span[axis]) // stride) + 1
                if (windows - 1) * stride >= e + before:
                    windows -= 1
                numbers.append(max((windows - 1) * stride + self.span[axis] - padded, 0))
            extra.append(self._static(tuple(numbers), "rounding up", axis))
        return extra


@imports("Conv")
def conv(node: Node) -> Value:
    x, weight = node.value(0), node.value(1)
    window = _Window(node, x, weight.shape[2:])
    result = node.graph.insert(
        ConvOp(
            x.ssa,
            weight.ssa,
            stride=window.stride,
            padding=[*window.before, *window.after],
            dilation=window.dilation,
            groups=node.integer("group", 1),
        )
    )
    return result + per_channel(node, node.value(2), result) if node.has(2) else result


@imports("MaxPool", "AveragePool")
def pool(node: Node) -> Value:
    x, mean = node.value(0), node.op_type == "AveragePool"
    window = _Window(node, x, node.integers("kernel_shape") or [])
    include = mean and node.flag("count_include_pad")
    before, after = window.before, window.after
    if node.flag("ceil_mode"):
        extra = window.rounding_up()
        if include and any(extra):
            # What is padded explicitly counts, what rounding up adds does not.
            x = node.graph.insert(PadOp(x.ssa, [0, 0, *before, 0, 0, *after]))
            before, after, include = [0] * len(before), [0] * len(after), False
        after = [a + e for a, e in zip(after, extra, strict=True)]
    return node.graph.insert(
        PoolOp(
            "mean" if mean else "max",
            x.ssa,
            window.kernel,
            stride=window.stride,
            padding=[*before, *after],
            dilation=window.dilation,
            count_include_pad=include,
        )
    )


@imports("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Value:
    x = node.value(0)
    kind = "mean" if node.op_type == "GlobalAveragePool" else "max"
    return node.graph.reduce(kind, x, list(range(2, x.rank)), keep_dim=True)


@imports("Resize", "Upsample")
def resize(node: Node) -> Value:
    """The nearest element of an image twice as large; other ways to resize have no RLX operation."""
    x = node.value(0)
    if x.rank != 4 or _factors(node, x) != [1, 1, 2, 2]:
        node.fail("only the height and width of [N, C, H, W] can be resized, and only doubled")
    mode = node.word("mode", "nearest")
    # Before operator set 11 there is one way, and no attribute for it.
    old = node.op_type == "Upsample" or node.opset < 11
    coordinates = "asymmetric" if old else node.word("coordinate_transformation_mode", "half_pixel")
    nearest = "floor" if old else node.word("nearest_mode", "round_prefer_floor")
    if mode != "nearest" or (coordinates, nearest) not in NEAREST_2X:
        node.fail(f"mode {mode} ({coordinates}, {nearest}) is not supported")
    return node.graph.insert(ResizeNearest2xOp(x.ssa))


def _factors(node: Node, x: Value) -> list[float]:
    """The resize factor of each axis."""
    axes = node.integers("axes") or list(range(x.rank))
    scales = 1 if node.op_type == "Upsample" or node.opset < 11 else 2
    if node.has(3):
        sizes, extents = node.extents(3), node.extents_of(x)
        given = [_ratio(size, extents[axis]) for size, axis in zip(sizes, axes, strict=True)]
    else:
        given = [float(s) for s in node.array(scales).reshape(-1)]
    factors = dict(zip(axes, given, strict=True))
    return [factors.get(axis, 1.0) for axis in range(x.rank)]


def _ratio(size: Extent, extent: Extent) -> float:
    """How much larger ``size`` is; 0 where that differs from size to size."""
    ratios = {s / e for s, e in zip(size, extent, strict=True)}
    return ratios.pop() if len(ratios) == 1 else 0.0
