"""Random graphs by seed: what fusions look for, what is nearly that, and element-wise and shape operations around.

``random_graph(seed)`` is a verified module of one function. It has values of several uses, values that nothing
uses, outputs that are also used inside, inputs that are outputs, one value that is two outputs; extents of 1, odd
extents, in some graphs a dynamic one; in some graphs narrow floats. Positions are never out of range, and every
dynamic extent is one and the same: :func:`helpers.random_values` may give it any length.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from random_sites import SITES
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64, i1, i8, i32
from xdsl.ir import Attribute

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind, ReduceKind
from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.dtypes import is_bool, is_float
from rlx_dialect.ops.contraction import DotGeneralOp, FusedMatMulBiasActOp
from rlx_dialect.ops.convolution import ConvOp, PoolOp, ResizeNearest2xOp
from rlx_dialect.ops.elementwise import (
    BITWISE,
    BOOL_BINARIES,
    INTEGER_ACTIVATIONS,
    ActivationOp,
    BinaryOp,
    CompareOp,
    ElementwiseOp,
    FmaOp,
    StopGradientOp,
    WhereOp,
)
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.normalization import LayerNormOp, RmsNormOp
from rlx_dialect.ops.region import ElementwiseRegionOp, YieldOp
from rlx_dialect.ops.shape import PadOp, ReshapeOp, ReverseOp, RollOp, SliceOp, TileOp
from rlx_dialect.shapes import DYNAMIC, Shape, element_count, is_static

T = TypeVar("T")

MAX_ELEMENTS = 200
MAX_RANK = 4
INT_BINARIES = [kind for kind in BinaryKind if kind is not BinaryKind.ATAN2]
FLOAT_BINARIES = [kind for kind in BinaryKind if kind not in BITWISE]
PLAIN_ACTIVATIONS = ["tanh", "relu", "sigmoid", "abs", "neg", "gelu", "silu"]


def random_graph(seed: int) -> ModuleOp:
    """The graph of that number: always the same one."""
    return Generator(random.Random(seed)).module()


def _size(shape: Shape) -> int:
    return element_count(tuple(3 if d == DYNAMIC else d for d in shape)) or 0


class Generator:
    def __init__(self, rng: random.Random):
        self.rng = rng
        self.g = GraphBuilder()
        self.pool: list[Value] = []
        self.returned: list[Value] = []
        self.arguments = 0
        self.float: Attribute = rng.choice([f32, f32, f32, f32, f16, bf16, f64])
        self.extents = rng.sample([1, 2, 3, 4, 5, 7], 3)
        self.batch = DYNAMIC if self.chance(0.25) else rng.choice(self.extents)

    def module(self) -> ModuleOp:
        self.pool += [self.leaf(self.random_shape(), self.float) for _ in range(self.rng.randint(1, 3))]
        arguments = list(self.pool)
        steps, weights = zip(*self.steps(), strict=True)
        for step in self.rng.choices(steps, weights, k=self.rng.randint(4, 12)):
            step()
        outputs = [
            self.pool[-1],
            *self.returned,
            *self.rng.sample(self.pool, self.rng.randint(0, min(3, len(self.pool)))),
        ]
        if self.chance(0.15):
            outputs.append(self.rng.choice(arguments))
        if self.chance(0.15):
            outputs.append(self.rng.choice(outputs))
        self.rng.shuffle(outputs)
        for index, value in enumerate(outputs):
            self.g.output(f"y{index}", value)
        return self.g.module()

    def steps(self) -> list[tuple[Callable[[], None], int]]:
        """What a graph is made of, and how often."""
        return [
            (self.chain, 4),
            (self.diamond, 3),
            (self.combine, 5),
            (self.select, 2),
            (self.convert, 2),
            (self.other_elementwise, 1),
            (self.matmul_site, 5),
            (self.residual_site, 5),
            (self.reduction, 2),
            (self.shape_step, 3),
            (self.integers, 2),
            (self.region, 1),
            (self.image_site, 1),
            *((partial(site, self), often) for site, often in SITES),
        ]

    # Choices.

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def choice(self, values: Sequence[T]) -> T:
        return self.rng.choice(values)

    def random_shape(self) -> Shape:
        rank = self.choice([0, 1, 2, 2, 2, 3, 3])
        shape = tuple(self.choice(self.extents) for _ in range(rank))
        return (self.batch, *shape[1:]) if rank > 1 else shape

    def pick(self, fits: Callable[[Value], bool] = lambda v: True) -> Value:
        """A value that fits, rather a late one; a new float argument [batch, extent, extent] when there is none."""
        fitting = [v for v in self.pool if fits(v)]
        if not fitting:
            return self.keep(self.leaf((self.batch, self.choice(self.extents), self.choice(self.extents)), self.float))
        return fitting[-1] if self.chance(0.5) else self.choice(fitting)

    def pick_float(self, min_rank: int = 0) -> Value:
        return self.pick(lambda v: is_float(v.element) and v.rank >= min_rank and _size(v.shape) <= MAX_ELEMENTS)

    def keep(self, value: Value) -> Value:
        """``value``, which later steps may use too."""
        self.pool.append(value)
        if self.chance(0.05):
            self.returned.append(value)
        return value

    def leaf(self, shape: Shape, element: Attribute) -> Value:
        """An argument or, if it is small and static, perhaps a constant."""
        if is_static(shape) and _size(shape) <= 16 and self.chance(0.2):
            return self.constant(shape, element)
        self.arguments += 1
        make = self.g.param if self.chance(0.4) else self.g.input
        return make(f"a{self.arguments}", shape, element)

    def constant(self, shape: Shape, element: Attribute) -> Value:
        values = [self.rng.uniform(-2, 2) if is_float(element) else self.rng.randint(0, 3) for _ in range(_size(shape))]
        return self.g.constant(np.reshape(np.array(values), shape), element)

    # Element-wise steps.

    def unary(self, x: Value) -> Value:
        if is_bool(x.element):
            return self.g.insert(StopGradientOp(x.ssa))
        kinds = list(ActivationKind) if is_float(x.element) else sorted(INTEGER_ACTIVATIONS)
        return self.g.activation(self.choice(kinds), x)

    def partner_shape(self, shape: Shape) -> Shape:
        """A shape that broadcasts with ``shape``, whichever of the two is stretched."""
        variants: list[Shape] = [shape, shape, (), (1,) * len(shape), shape[1:], shape[-1:]]
        variants.append(tuple(1 if self.chance(0.5) else d for d in shape))
        if _size(shape) <= MAX_ELEMENTS // 4 and len(shape) < MAX_RANK:
            variants.append((1, *shape))
            variants.append((self.choice(self.extents), *shape))
            variants.append(tuple(self.choice(self.extents) if d == 1 else d for d in shape))
        return self.choice(variants)

    def partner(self, x: Value) -> Value:
        """What ``x`` is combined with: itself, another value of its type, or a leaf that may broadcast."""
        same = [v for v in self.pool if v.ssa.type == x.ssa.type]
        if same and self.chance(0.5):
            return self.choice(same)
        return self.leaf(self.partner_shape(x.shape), x.element)

    def binary(self, lhs: Value, rhs: Value) -> Value:
        if self.chance(0.5):
            lhs, rhs = rhs, lhs
        element = lhs.element
        kinds = FLOAT_BINARIES if is_float(element) else sorted(BOOL_BINARIES) if is_bool(element) else INT_BINARIES
        common = [] if is_bool(element) else [BinaryKind.ADD, BinaryKind.MUL, BinaryKind.SUB]
        return self.g.binary(self.choice([*kinds, *common * 3]), lhs, rhs)

    def chain(self) -> None:
        value = self.pick()
        for _ in range(self.rng.randint(1, 4)):
            value = self.unary(value)
        self.keep(value)

    def diamond(self) -> None:
        x = self.pick()
        left, right = self.unary(x), x if self.chance(0.3) else self.unary(x)
        if self.chance(0.3):
            self.keep(left)
        self.keep(self.binary(left, right))

    def combine(self) -> None:
        value = self.pick(lambda v: _size(v.shape) <= MAX_ELEMENTS)
        for _ in range(self.rng.randint(1, 3)):
            value = self.binary(value, self.partner(value))
        self.keep(value)

    def select(self) -> None:
        x = self.pick(lambda v: _size(v.shape) <= MAX_ELEMENTS)
        mask = self.keep(self.g.compare(self.choice(list(CompareKind)), x, self.partner(x)))
        if not is_bool(x.element):
            like = mask.shape if mask.shape != x.shape else x.shape
            other = self.leaf(tuple(1 if self.chance(0.3) else d for d in like), x.element)
            operands = [x, other] if self.chance(0.5) else [other, x]
            self.keep(self.g.where(mask, *operands))

    def convert(self) -> None:
        """A cast and perhaps one back; to an integer only what it holds."""
        x = self.pick()
        target = self.choice([f32, f16, bf16, f64, i32, i1] if is_float(x.element) else [f32, i32, i8, i1])
        if is_float(x.element) and target == i32:
            held = self.g.where(self.g.compare("eq", x, x), x, self.g.constant(0.0, x.element))
            x = self.g.clamp(held, -100.0, 100.0)
        there = self.keep(self.g.cast(x, target))
        if is_float(target) and self.chance(0.5):
            self.keep(self.g.cast(self.unary(there), self.float))

    def other_elementwise(self) -> None:
        x = self.pick_float()
        if self.chance(0.5):
            self.keep(self.g.clamp(x, self.choice([-1.0, -0.5, 0.0]), self.choice([0.0, 0.5, 6.0])))
        else:
            y = self.partner(x)
            self.keep(self.g.insert(FmaOp(x.ssa, y.ssa, x.ssa)))

    def integers(self) -> None:
        x = self.leaf(self.random_shape(), self.choice([i32, i32, i8, i1]))
        for _ in range(self.rng.randint(1, 3)):
            x = self.binary(x, self.partner(x)) if self.chance(0.7) else self.unary(x)
        self.keep(x)
        if self.chance(0.5):
            self.keep(self.g.cast(x, self.float))

    # What fusions look for, and near misses.

    def matmul_site(self) -> None:
        """product (+ bias) (+ activation), each with what keeps it from being fused."""
        x = self.pick_float(2)
        if x.shape[-1] == DYNAMIC or x.rank > 3:
            return
        weight = self.leaf((*self.choice([(), (), (1,)]), x.shape[-1], self.choice(self.extents)), x.element)
        product = x @ weight if self.chance(0.8) else self.dot_general(x, weight)
        if self.chance(0.15):
            self.keep(product)
        if self.chance(0.1):
            self.returned.append(product)
        if self.chance(0.1):
            product = self.g.activation(self.choice(PLAIN_ACTIVATIONS), product)
        if self.chance(0.05):
            self.keep(self.fused_product(x, weight))
            return
        bias = self.bias(product)
        kind = "add" if self.chance(0.85) else self.choice(["sub", "mul", "max"])
        total = self.g.binary(kind, *([bias, product] if self.chance(0.3) else [product, bias]))
        if self.chance(0.15):
            self.keep(total)
        if self.chance(0.7):
            total = self.g.activation(self.choice([*["gelu", "silu"] * 4, *ActivationKind]), total)
        self.keep(total)

    def dot_general(self, x: Value, weight: Value) -> Value:
        return self.g.insert(DotGeneralOp(x.ssa, weight.ssa, [x.rank - 1], [weight.rank - 2]))

    def fused_product(self, x: Value, weight: Value) -> Value:
        bias = self.leaf(weight.shape[-1:], x.element)
        value = self.g.insert(FusedMatMulBiasActOp(x.ssa, weight.ssa, bias.ssa))
        return self.g.activation(self.choice(["gelu", "silu", "relu"]), value) if self.chance(0.7) else value

    def bias(self, product: Value) -> Value:
        """What is added to a product: its bias in several spellings, or something that is no bias."""
        width = product.shape[-1]
        if width == DYNAMIC:
            return self.partner(product)
        row = self.leaf((width,), product.element)
        if self.chance(0.2):
            row = self.keep(self.g.activation(self.choice(PLAIN_ACTIVATIONS), row))
        spellings: list[Callable[[], Value]] = [
            *[lambda: row] * 5,
            lambda: self.g.insert(ReshapeOp(row.ssa, [1, width])),
            lambda: self.g.expand(self.g.insert(ReshapeOp(row.ssa, [1, 1, width])), [1, 1, width]),
            lambda: self.g.expand(row, [self.choice(self.extents), width]) if product.rank == 3 else row,
            lambda: self.leaf((*[1] * (product.rank - 1), width), product.element),
            lambda: self.leaf((1, *product.shape), product.element),
            lambda: self.leaf((*product.shape[:-1], 1), product.element),
            lambda: self.leaf((), product.element),
            lambda: self.leaf((1,), product.element),
            lambda: self.partner(product),
            lambda: product,
            lambda: self.g.reduce("max", product, range(product.rank - 1)),
        ]
        bias = self.choice(spellings)()
        fits = all(b in (1, p) or p == 1 for b, p in zip(bias.shape[::-1], product.shape[::-1], strict=False))
        return bias if fits else row

    def residual_site(self) -> None:
        """sum, norm and what uses the sum again."""
        x = self.pick_float(1)
        width = x.shape[-1]
        if width == DYNAMIC:
            return
        residual = self.leaf(x.shape, x.element) if self.chance(0.6) else self.partner(x)
        kind = "add" if self.chance(0.9) else "sub"
        total = self.g.binary(kind, *([residual, x] if self.chance(0.5) else [x, residual]))
        width = total.shape[-1]
        if width == DYNAMIC:
            return
        if self.chance(0.25):
            self.keep(self.g.activation(self.choice(PLAIN_ACTIVATIONS), total))
        if self.chance(0.2):
            self.keep(total)
        normed = self.norm(total)
        if self.chance(0.15):
            self.keep(self.norm(total))
        if self.chance(0.1):
            self.returned.append(total)
        self.keep(normed + total if self.chance(0.3) else normed)

    def norm(self, x: Value) -> Value:
        gamma, beta = (self.affine(x) for _ in range(2))
        norm = LayerNormOp if self.chance(0.75) else RmsNormOp
        return self.g.insert(norm(x.ssa, gamma.ssa, beta.ssa, eps=self.choice([1e-5, 1e-6, 0.1])))

    def affine(self, x: Value) -> Value:
        """Gamma or beta: a leaf, computed only now, or computed from x."""
        if self.chance(0.1):
            return self.g.reduce("mean", x, range(x.rank - 1))
        leaf = self.leaf(x.shape[-1:], x.element)
        return self.keep(self.g.tanh(leaf)) if self.chance(0.15) else leaf

    def region(self) -> None:
        """A region as a pass would have made it, and some that none makes."""
        x = self.pick_float()
        inputs = [x, *(self.partner(x) for _ in range(self.rng.randint(0, 2)))]
        body = ElementwiseRegionOp.empty_body([v.element for v in inputs])
        values = list(body.block.args)

        def step(op: ElementwiseOp) -> None:
            body.block.add_op(op)
            values.append(op.results[0])  # pyright: ignore[reportArgumentType]

        for _ in range(self.rng.randint(1, 4)):
            floats = [v for v in values if is_float(v.type)]
            a, b = self.choice(floats), self.choice(floats)
            if self.chance(0.4):
                step(ActivationOp(self.choice(PLAIN_ACTIVATIONS), a))
            elif self.chance(0.7):
                step(BinaryOp(self.choice(["add", "mul", "max"]), a, b))
            else:
                step(CompareOp("lt", a, b))
                step(WhereOp(values[-1], a, b))
        body.block.add_op(YieldOp(values[-1] if self.chance(0.8) else self.choice(values)))
        self.keep(self.g.insert(ElementwiseRegionOp([v.ssa for v in inputs], body)))

    def image_site(self) -> None:
        channels, width = self.choice([1, 2, 3]), self.choice([4, 5])
        x = self.leaf((self.choice([1, 2]), channels, width, width), self.float)
        if self.chance(0.3):
            x = self.g.insert(ResizeNearest2xOp(x.ssa))
        if self.chance(0.7):
            kernel = self.leaf((self.choice([1, 2]), channels, self.choice([1, 3]), 3), self.float)
            x = self.g.insert(ConvOp(x.ssa, kernel.ssa, padding=[0, 1]))
            bias = self.leaf((x.shape[1],), self.float)
            x = x + self.g.insert(ReshapeOp(bias.ssa, self.choice([[-1, 1, 1], [1, -1, 1, 1]])))
        x = self.g.activation(self.choice(["relu", "gelu", "floor"]), x)
        if self.chance(0.3):
            x = self.g.insert(PoolOp(self.choice(["max", "mean"]), x.ssa, [2, 2], stride=[2, 2]))
        # Small again, so that what follows stays small.
        self.keep(self.g.reduce("mean", x, [2, 3]))

    # Reductions and shapes.

    def reduction(self) -> None:
        x = self.pick_float(1)
        if self.chance(0.3):
            self.keep(self.g.softmax(x, self.rng.randrange(-x.rank, x.rank)))
            return
        axes = self.rng.sample(range(x.rank), self.rng.randint(0, x.rank))
        keep_dim = self.chance(0.6)
        reduced = self.keep(self.g.reduce(self.choice(list(ReduceKind)), x, axes, keep_dim=keep_dim))
        if keep_dim and self.chance(0.6):
            self.keep(self.binary(x, reduced))

    def shape_step(self) -> None:
        x = self.pick(lambda v: v.rank > 0 and _size(v.shape) <= MAX_ELEMENTS)
        static = [axis for axis, d in enumerate(x.shape) if d > 0]
        changes: list[Callable[[], Value]] = [
            lambda: self.reshaped(x),
            lambda: self.g.transpose(x, self.rng.sample(range(x.rank), x.rank)),
            lambda: self.g.insert(ReverseOp(x.ssa, self.rng.sample(range(x.rank), self.rng.randint(0, x.rank)))),
            lambda: self.g.expand(x, [2, *x.shape]) if x.rank < MAX_RANK else x,
        ]
        if static:
            axis = self.choice(static)
            extent = x.shape[axis]
            start = self.rng.randint(0, extent)
            indices = self.g.constant([float(self.rng.randrange(-extent, extent)) for _ in range(2)], i32)
            dims = [0] * x.rank
            dims[axis] = 1
            changes += [
                lambda: self.g.narrow(x, axis, start, extent - start),
                lambda: self.g.insert(SliceOp(x.ssa, axis, extent - 1, (extent + 1) // 2, -2)),
                lambda: self.g.concat([x, x], axis),
                lambda: self.g.insert(RollOp(x.ssa, [start], [axis])),
                lambda: self.g.insert(TileOp(x.ssa, [1 + d for d in dims])),
                lambda: self.g.insert(PadOp(x.ssa, [*dims, *[0] * x.rank])),
                lambda: self.g.insert(GatherOp(x.ssa, indices.ssa, axis)),
            ]
        self.keep(self.choice(changes)())

    def reshaped(self, x: Value) -> Value:
        """The same elements with a leading 1, the static extents behind a dynamic one joined, or as they are."""
        leading = 1 if x.shape[0] == DYNAMIC else 0
        if not is_static(x.shape[leading:]) or _size(x.shape) == 0:
            return self.g.insert(StopGradientOp(x.ssa))
        joined = [*[-1] * leading, _size(x.shape[leading:])]
        shapes = [joined, [*joined, 1], [1, *joined], [*[-1] * leading, *reversed(x.shape[leading:])]]
        return self.g.insert(ReshapeOp(x.ssa, self.choice(shapes)))
