"""Attention to many keys by many queries: blocks of scores one after the other, never all of them.

For each block of queries a loop over blocks of keys carries, per query, the greatest score so far, the sum of the
powers and the sum of the weighted values; each block corrects what the earlier ones gathered under a smaller maximum.
The last block of an axis begins early enough to be whole: queries of it are computed twice, its keys that were
counted before get no weight. An unknown extent that is less than a block is filled up. Scores and sums are f32 or
wider.

Short attention is decomposed: one product of batches, a softmax and another product are faster there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IndexType
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ActivationKind, AttentionLayout, MaskKind, ReduceKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_bool, wide_element
from rlx_dialect.lowering.arithmetic import Real, constant, convert_float
from rlx_dialect.lowering.scalar import FLOAT_ACTIVATIONS, reals
from rlx_dialect.lowering.to_linalg.contraction import contract, static_first
from rlx_dialect.lowering.to_linalg.conversion import Conversion, declines, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.reduction import reduced, whole
from rlx_dialect.lowering.to_linalg.shape import padded
from rlx_dialect.lowering.to_linalg.tensors import FIRST, Read, counters
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.attention_scores import MASKED_SCORE
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import Builder

MANY_SCORES = 1 << 20
"""Of one head: from so many on they are not kept, 1024 queries of 1024 keys."""
UNKNOWN_EXTENT = 4096
"""What an extent that is only known at run time counts for in that."""
BLOCK_BITS = 8192
"""Of a row of scores in one block: 256 keys in f32. IREE keeps a tile of such rows on its stack of 32 KiB."""

# The axes of scores: batch, key heads, query heads of each, queries, keys.
KEYS = 4
ROWS = (0, 1, 2, 3)


@declines(AttentionOp)
def _short(op: AttentionOp) -> str | None:
    return None if _streams(op) else "it has so few scores that products of whole batches are faster"


def _streams(op: AttentionOp) -> bool:
    batch, queries, keys = op.extents()
    sizes = [UNKNOWN_EXTENT if e == DYNAMIC else e for e in (queries, keys)]
    if math.prod(sizes) < MANY_SCORES:
        return False
    if op.mask is None:
        return True
    # An extent of the mask that may turn out to be 1 is only known to broadcast when it is read as a whole.
    full = {2: (batch,), 3: (batch, queries), 4: (batch, op.heads, queries)}[len(shape_of(op.mask))]
    found = shape_of(op.mask)[:-1]
    return all(own != DYNAMIC or extent == DYNAMIC for own, extent in zip(found, full, strict=True))


@dataclass(frozen=True)
class _Attention:
    """One attention to be written: operands with heads first, and the extents of its axes."""

    op: AttentionOp
    c: Conversion
    q: SSAValue
    """[B, G, R, Sq, D]"""
    k: SSAValue
    """[B, G, Sk, D]"""
    v: SSAValue
    """[B, G, Sk, E]"""
    mask: SSAValue | None
    """[B, G, R, Sq, Sk], where the first four may be 1."""
    queries: Extent
    keys: Extent
    """Those that count: the operands have a block of them at least."""
    height: int
    length: int
    """Queries, and keys, of a block."""

    @property
    def wide(self) -> Attribute:
        return wide_element(element_of(self.q))

    def result(self) -> SSAValue:
        """[B, G, R, Sq, E] of the operands' element type."""
        c, height = self.c, self.height
        batch, stored = c.extents(self.q)[:3], c.extents(self.q)[3]
        width = c.extents(self.v)[3]
        ends_together = c.subtract(self.keys, self.queries)

        def rows(first: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
            start = c.minimum(first, c.subtract(stored, height))
            q = self.part(self.q, 3, start, height)
            # The last key that the first query of the block sees, were there no end of the keys.
            diagonal = c.add_extents(start, ends_together)
            sizes = [*batch, height]
            top = c.filled(sizes, self.wide, -math.inf)
            total = c.filled(sizes, self.wide, 0)
            sums = c.filled([*sizes, width], self.wide, 0)

            def columns(key: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
                return self.block(q, start, diagonal, key, state)

            low, high = self.seen_range(diagonal)
            state = c.loop(high, [top, total, sums], columns, step=self.length, first=low)
            block = self.quotient(state[2], state[1])
            return [c.insert(block, values[0], [0, 0, 0, start, 0])]

        init = c.empty([*batch, stored, width], element_of(self.q))
        (filled,) = c.loop(self.queries, [init], rows, step=height)
        return filled if stored == self.queries else self.part(filled, 3, 0, self.queries)

    def part(self, value: SSAValue, axis: int, start: Extent, length: Extent) -> SSAValue:
        extents = list(self.c.extents(value))
        extents[axis] = length
        return self.c.slice(value, [start if a == axis else 0 for a in range(len(extents))], extents)

    def seen_range(self, diagonal: Extent) -> tuple[Extent, Extent]:
        """The keys that a block of queries may see; all, where a query may see none, and all weigh the same."""
        queries, keys = self.queries, self.keys
        banded = self.op.mask_kind.data in (MaskKind.CAUSAL, MaskKind.SLIDING_WINDOW)
        if not banded or not isinstance(queries, int) or not isinstance(keys, int) or queries > keys:
            return 0, keys
        c = self.c
        high = c.minimum(c.add_extents(diagonal, self.height), keys)
        if self.op.window is None:
            return 0, high
        return c.maximum(c.subtract(diagonal, self.op.window.value.data), 0), high

    def block(
        self, q: SSAValue, query: Extent, diagonal: Extent, key: SSAValue, state: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """The greatest scores, sums of powers and sums of values after the block of keys from ``key`` on."""
        c, wide, length = self.c, self.wide, self.length
        top, total, sums = state
        start = c.minimum(key, c.subtract(c.extents(self.k)[2], length))
        k, v = (self.part(x, 2, start, length) for x in (self.k, self.v))
        *rows, width = c.extents(sums)
        loops = [*rows, length]
        products = contract(c, [*loops, c.extents(q)[4]], (q, [0, 1, 2, 3, 5]), (k, [0, 1, 4, 5]), [5])
        scores = self.scores(products, query, diagonal, key, start)
        greatest = reduced(c, ReduceKind.MAX, wide, loops, [whole(c, scores)], [KEYS])
        new_top = c.elementwise(rows, [top, greatest], wide, lambda b, e: Real(e[0], b).max(Real(e[1], b)).value)

        def power(b: Builder, elements: list[SSAValue]) -> SSAValue:
            score, most = reals(elements, b)
            # As long as there are only scores of -inf, they weigh nothing, whatever comes later.
            return exp(score - most.const(0).where(most.equals(-math.inf), most))

        powers = c.elementwise(loops, [scores, Read(new_top, ROWS)], wide, power)
        corrections = c.elementwise(rows, [top, new_top], wide, power)
        new = reduced(c, ReduceKind.SUM, wide, loops, [whole(c, powers)], [KEYS])
        weighted = contract(c, [*rows, width, length], (powers, [0, 1, 2, 3, 5]), (v, [0, 1, 5, 4]), [5], barrier=True)

        def corrected(b: Builder, elements: list[SSAValue]) -> SSAValue:
            before, factor, added = reals(elements, b)
            return (before * factor + added).value

        correction = Read(corrections, ROWS)
        return [
            new_top,
            c.elementwise(rows, [total, correction, new], wide, corrected),
            c.elementwise([*rows, width], [sums, correction, weighted], wide, corrected),
        ]

    def scores(
        self, products: SSAValue, query: Extent, diagonal: Extent, key: SSAValue, start: SSAValue | Extent
    ) -> SSAValue:
        """Scaled, bounded and masked; those of keys before ``key``, or that do not count, are -inf."""
        c, op = self.c, self.op
        loops = c.extents(products)
        reads = [whole(c, products)]
        if self.mask is not None:
            reads.append(self.mask_read(query, loops[3], start, loops[4]))
        first, edge, begin = c.index(start), c.index(diagonal), key
        end = None if isinstance(self.keys, int) else self.keys

        def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
            score = Real(elements[0], b) * op.scale
            if op.softcap is not None:
                score = op.softcap * tanh(score / op.softcap)
            *_, row, column = counters(b, len(loops))
            place = b.insert(arith.AddiOp(first, column)).result
            if op.mask_kind.data is MaskKind.BIAS:
                score = score + reals(elements[1:2], b)[0]
            elif (seen := self.seen(b, elements[1:], row, place, edge)) is not None:
                score = score.where(seen, MASKED_SCORE)
            counted = b.insert(arith.CmpiOp(place, begin, "sge")).result
            if end is not None:
                below = b.insert(arith.CmpiOp(place, end, "slt")).result
                counted = b.insert(arith.AndIOp(counted, below)).result
            return score.where(counted, -math.inf).value

        return c.elementwise(loops, reads, self.wide, body)

    def mask_read(self, query: Extent, height: Extent, start: Extent, length: Extent) -> Read:
        c, mask = self.c, self.mask
        assert mask is not None
        mask = self.part(mask, 4, start, length)
        if c.extents(mask)[3] != 1:
            mask = self.part(mask, 3, query, height)
        loops = c.extents(self.q)
        own = c.extents(mask)
        access = [FIRST if own[a] == 1 and loops[a] != 1 else a for a in range(3)]
        return Read(mask, (*access, FIRST if own[3] == 1 and height != 1 else 3, 4))

    def seen(
        self, b: Builder, mask: Sequence[SSAValue], row: SSAValue, place: SSAValue, edge: SSAValue
    ) -> SSAValue | None:
        """Whether the query in ``row`` of its block sees the key at ``place``; None where each sees all."""
        kind = self.op.mask_kind.data
        if kind is MaskKind.NONE:
            return None
        if kind is MaskKind.CUSTOM:
            (value,) = mask
            if is_bool(value.type):
                return value
            # A NaN keeps its key.
            (real,) = reals([value], b)
            hidden = real.below(0.5)
            return b.insert(arith.XOrIOp(hidden, constant(1, hidden.type, b))).result
        last = b.insert(arith.AddiOp(edge, row)).result
        seen = b.insert(arith.CmpiOp(place, last, "sle")).result
        if self.op.window is None:
            return seen
        reach = constant(self.op.window.value.data, IndexType(), b)
        near = b.insert(arith.CmpiOp(place, b.insert(arith.SubiOp(last, reach)).result, "sge")).result
        return b.insert(arith.AndIOp(seen, near)).result

    def quotient(self, sums: SSAValue, total: SSAValue) -> SSAValue:
        c, element = self.c, element_of(self.q)

        def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
            value, count = reals(elements, b)
            return convert_float((value / count).value, element, b)

        return c.elementwise(c.extents(sums), [sums, Read(total, ROWS)], element, body)


@lowers(AttentionOp)
def attention(op: AttentionOp, c: Conversion) -> SSAValue:
    shared, groups = op.kv_heads, op.heads // op.kv_heads
    layout, dim = op.layout.data, op.head_dim.value.data
    q = _heads(c, c.value(op.q), layout, shared, groups, dim)
    k, v = (_heads(c, c.value(o), layout, shared, None, size) for o, size in ((op.k, dim), (op.v, op.value_dim)))
    # One value for each extent, so that its blocks are seen to fit each other.
    batch, keys = static_first(c.extents(q)[0], c.extents(k)[0]), static_first(c.extents(k)[2], c.extents(v)[2])
    q, k, v = (
        c.agreed(x, [batch, *c.extents(x)[1:axis], length, *c.extents(x)[axis + 1 :]])
        for x, axis, length in ((q, 3, c.extents(q)[3]), (k, 2, keys), (v, 2, keys))
    )
    mask = None
    if op.mask is not None:
        mask = _mask(c, c.value(op.mask), shared, groups)
        full = [batch, shared, groups, c.extents(q)[3], keys]
        mask = c.agreed(mask, [1 if own == 1 else e for own, e in zip(c.extents(mask), full, strict=True)])
    wide = wide_element(element_of(q))
    assert isinstance(wide, AnyFloat)
    queries, most = c.extents(q)[3], BLOCK_BITS // wide.bitwidth
    height, length = (min(most, e) if isinstance(e, int) else most for e in (queries, keys))
    q, k, v = _at_least(c, q, 3, height), _at_least(c, k, 2, length), _at_least(c, v, 2, length)
    if mask is not None:
        mask = _at_least(c, mask if c.extents(mask)[3] == 1 else _at_least(c, mask, 3, height), 4, length)
    written = _Attention(op, c, q, k, v, mask, queries, keys, height, length).result()
    batch, _, _, queries, width = c.extents(written)
    if layout is AttentionLayout.BHSD:
        return c.reshape(written, [batch, op.heads, queries, width])
    written = c.transpose(written, [0, 3, 1, 2, 4])
    heads = [op.heads, width] if layout is AttentionLayout.BSHD else [op.heads * op.value_dim]
    return c.reshape(written, [batch, queries, *heads])


def _heads(c: Conversion, x: SSAValue, layout: AttentionLayout, shared: int, groups: int | None, dim: int) -> SSAValue:
    """[B, G, R, S, D], or [B, G, S, D] for keys and values, which have no ``groups``."""
    heads = [shared] if groups is None else [shared, groups]
    extents = c.extents(x)
    if layout is AttentionLayout.BHSD:
        return c.reshape(x, [extents[0], *heads, extents[2], dim])
    x = c.reshape(x, [*extents[:2], *heads, dim])
    return c.transpose(x, [0, *range(2, 2 + len(heads)), 1, 2 + len(heads)])


def _mask(c: Conversion, mask: SSAValue, shared: int, groups: int) -> SSAValue:
    batch, *others, keys = c.extents(mask)
    heads, queries = [1] * (2 - len(others)) + others
    return c.reshape(mask, [batch, *([1, 1] if heads == 1 else [shared, groups]), queries, keys])


def _at_least(c: Conversion, x: SSAValue, axis: int, length: int) -> SSAValue:
    """``x`` with zeros behind, where only run time tells that it has fewer elements on the axis."""
    extents = c.extents(x)
    if isinstance(extents[axis], int):
        return x
    missing = c.maximum(c.subtract(length, extents[axis]), 0)
    return padded(c, x, [(0, missing if a == axis else 0) for a in range(len(extents))], 0)


def exp(x: Real) -> SSAValue:
    return FLOAT_ACTIVATIONS[ActivationKind.EXP](x).value


def tanh(x: Real) -> Real:
    return FLOAT_ACTIVATIONS[ActivationKind.TANH](x)
