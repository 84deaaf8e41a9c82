"""The attention schedule: a workgroup streams the keys and values past a block of queries.

Nothing of the size queries x keys exists in memory. A *row* is a query of a head; the query heads that share a head
of keys are rows of one block, so that each key is read once for all of them. Of the rows seen so far a workgroup
keeps the greatest score, the sum of the powers and the weighted sum of the values, and scales them when a greater
score comes (online softmax). ``lanes`` invocations share a row: first the keys of a slice, then the columns of V.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import AttentionLayout, MaskKind
from rlx_dialect.dtypes import is_bool, storage_dtype, wide_element
from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, estimate, is_known, product, up
from rlx_dialect.lowering.to_gpu.hardware import AttentionTile, Hardware
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Access, BlockSize, Kernel, LinearSpec, Operands
from rlx_dialect.lowering.to_gpu.views import Literal, View, coalesce
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.attention_scores import MASKED_SCORE


@dataclass(frozen=True)
class Part:
    """An operand addressed by batch, by row (a query of a head, or a key) and by column."""

    access: Access
    batch: Shape
    row: Shape
    column: Extent


@dataclass(frozen=True)
class Scores:
    """What becomes of a product q·k before the softmax; see :class:`rlx_dialect.ops.attention.AttentionOp`."""

    scale: float
    softcap: float | None
    mask: MaskKind
    window: int | None

    @property
    def by_position(self) -> bool:
        """Whether the positions of query and key decide what is seen."""
        return self.mask in (MaskKind.CAUSAL, MaskKind.SLIDING_WINDOW)

    def write(self, k: Kernel, product: SSAValue, mask: SSAValue | None, seen: Sequence[SSAValue]) -> SSAValue:
        """The score: ``mask`` is the element of the mask operand, ``seen`` are conditions from the positions."""
        score = k.real(product) * self.scale
        if self.softcap is not None:
            score = self.softcap * (score / self.softcap).apply(math.TanhOp)
        hidden = score.const(MASKED_SCORE)
        for condition in seen:
            score = score.where(condition, hidden)
        if mask is not None and self.mask is MaskKind.BIAS:
            score = score + k.real(mask)
        elif mask is not None and is_bool(mask.type):
            score = score.where(mask, hidden)
        elif mask is not None:
            # A NaN keeps its key.
            score = hidden.where(k.real(mask).below(0.5), score)
        return score.value


@dataclass(frozen=True)
class AttentionSpec(LinearSpec):
    """result[b, r, :] = softmax over s of scores(q[b, r, :]·k[b, s, :]) · v[b, s, :].

    ``rows`` are the query heads that share their keys (where there are several) and the queries.
    """

    batch: Shape
    rows: Shape
    keys: Extent
    dim: int
    value_dim: int
    q: Part
    k: Part
    v: Part
    mask: Part | None
    """Addressed by batch, row and key."""
    result: Part
    scores: Scores
    tile: AttentionTile

    @property
    def block(self) -> BlockSize:
        return (self.tile.threads, 1, 1)

    @property
    def blocks(self) -> Extent:
        """Blocks of rows of one batch."""
        return up(product(self.rows), self.tile.rows)

    @property
    def count(self) -> Extent:
        return product(self.batch) * self.blocks

    @property
    def each_sees_a_key(self) -> bool:
        """Whether it is known that no query comes before the first key."""
        queries, keys = self.rows[-1], self.keys
        return queries == keys or (is_known((queries, keys)) and queries <= keys) or queries == 1

    def score(self, k: Kernel, batch: Sequence[Index], row: Sequence[Index], key: Index, product: SSAValue) -> SSAValue:
        """The score of a row and a key from their product."""
        mask: SSAValue | None = None
        if (part := self.mask) is not None:
            access = Access(
                part.access.source, part.access.element, (*part.batch, *part.row, part.column), part.access.offset
            )
            mask = k.load(access, [*batch, *row, key])
        seen: list[SSAValue] = []
        if self.scores.by_position:
            # key <= query + keys - queries, without negative numbers.
            queries, keys = self.rows[-1], self.keys
            of_query, of_key = k.i_add(row[-1], keys), k.i_add(key, queries)
            seen.append(k.i_less(of_key, k.i_add(of_query, 1)))
            if self.scores.window is not None:
                seen.append(k.i_less(of_query, k.i_add(of_key, self.scores.window + 1)))
        return self.scores.write(k, product, mask, seen)

    def emit(self, k: Kernel) -> None:
        _Writer(k, self).write()


def _lowest(element: Attribute) -> float:
    """The least finite number of a float type."""
    return {2: -65504.0, 4: -3.4028234663852886e38, 8: -1.7976931348623157e308}[storage_dtype(element).itemsize]


@dataclass(frozen=True)
class _State:
    """What an invocation knows of its rows: greatest score, sum of powers, and columns of the weighted values."""

    greatest: Sequence[SSAValue]
    total: Sequence[SSAValue]
    sums: Sequence[SSAValue]

    def values(self) -> list[SSAValue]:
        return [*self.greatest, *self.total, *self.sums]

    @staticmethod
    def of(values: Sequence[SSAValue], rows: int) -> _State:
        return _State(values[:rows], values[rows : 2 * rows], values[2 * rows :])


class _Writer:
    """Writes one attention kernel."""

    def __init__(self, k: Kernel, spec: AttentionSpec):
        self.k, self.spec = k, spec
        tile, self.type = spec.tile, wide_element(spec.q.access.element)
        group = k.linear_group()
        if not k.grid_is_exact:
            # A workgroup that nobody asked for does the last one's work again.
            group = k.i_min(group, spec.count - 1)
        self.batch = k.split(k.i_div(group, spec.blocks), spec.batch)
        self.first_row = k.i_mul(k.i_rem(group, spec.blocks), tile.rows)
        self.thread = k.thread_id()
        self.lane, self.line = k.i_rem(self.thread, tile.lanes), k.i_div(self.thread, tile.lanes)
        # Odd pitches: lanes that read one column of neighbouring rows meet no common bank.
        self.query_pitch = spec.dim | 1
        self.key_pitch = max(spec.dim, spec.value_dim) | 1
        self.score_pitch = tile.keys | 1
        self.queries = k.shared(self.type, tile.rows * self.query_pitch)
        self.slice = k.shared(self.type, tile.keys * self.key_pitch)
        self.given = k.shared(self.type, tile.rows * self.score_pitch)
        self.powers = k.shared(self.type, tile.rows * self.score_pitch)
        self.rows = [k.i_add(self.line, i * (tile.rows // tile.per_row)) for i in range(tile.per_row)]
        """Rows of this invocation in the block."""
        self.columns = [k.i_add(self.lane, j * tile.lanes) for j in range(-(-spec.value_dim // tile.lanes))]
        self.positions = [self._row(row) for row in self.rows]

    def _row(self, row: Index) -> list[Index]:
        """The coordinates of a row of the block; one beyond the last reads that."""
        k, spec = self.k, self.spec
        flat, count = k.i_add(self.first_row, row), product(spec.rows)
        return k.split(k.i_min(flat, count - 1) if count % spec.tile.rows else flat, spec.rows)

    def write(self) -> None:
        k, spec, tile = self.k, self.spec, self.spec.tile
        self._stage(spec.q, spec.dim, self.queries, self.query_pitch, tile.rows, self._row)
        lowest, zero = k.constant(_lowest(self.type), self.type), k.constant(0, self.type)
        rows = tile.per_row
        start = _State([lowest] * rows, [zero] * rows, [zero] * (rows * len(self.columns)))

        def round_(first: SSAValue, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self._slice(first, _State.of(values, rows)).values()

        last = k.loop(*self._visible(), tile.keys, start.values(), round_)
        self._finish(_State.of(last, rows))

    def _visible(self) -> tuple[Index, Index]:
        """Where the slices of keys start and stop that a row of this block sees."""
        k, spec, tile = self.k, self.spec, self.spec.tile
        if not spec.scores.by_position or not spec.each_sees_a_key:
            # Where no key is seen, all count alike.
            return 0, spec.keys
        queries = spec.rows[-1]
        ahead = spec.keys - queries
        last = k.i_min(k.i_add(self.first_row, tile.rows - 1), product(spec.rows) - 1)
        first_query, last_query = k.i_rem(self.first_row, queries), k.i_rem(last, queries)
        if len(spec.rows) > 1:
            # A block may hold the end of one head and the start of the next.
            one_head = k.op(
                arith.CmpiOp(k.index(k.i_div(self.first_row, queries)), k.index(k.i_div(last, queries)), "eq")
            )
            first_query = k.op(arith.SelectOp(one_head, k.index(first_query), k.index(0)))
            last_query = k.op(arith.SelectOp(one_head, k.index(last_query), k.index(queries - 1)))
        stop = k.i_add(last_query, ahead + 1)
        if spec.scores.window is None:
            return 0, stop
        # The first key that is seen, or 0.
        last_hidden = k.i_add(first_query, ahead)
        window = spec.scores.window
        before = k.i_less(last_hidden, window)
        first = k.op(arith.SelectOp(before, k.index(0), k.index(k.i_sub(last_hidden, window))))
        return k.i_mul(k.i_div(first, tile.keys), tile.keys), stop

    def _stage(
        self,
        part: Part,
        width: int,
        shared: SSAValue,
        pitch: int,
        rows: int,
        row: Callable[[Index], list[Index]],
        inside: Callable[[Index], SSAValue] | None = None,
    ) -> None:
        """Copy ``rows`` rows of an operand to shared memory; zero where a row is not ``inside``."""
        k = self.k
        start = k.dot(self.batch, part.batch, part.access.offset)
        access = Access(part.access.source, part.access.element, (*part.row, part.column), 0)

        def step(flat: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            place, column = k.i_div(flat, width), k.i_rem(flat, width)
            value = k.load_wide(access, [*row(place), column], start)
            if inside is not None:
                value = k.op(arith.SelectOp(inside(place), value, k.constant(0, self.type)))
            k.write(value, shared, k.i_add(k.i_mul(place, pitch), column))
            return carried

        k.loop(self.thread, rows * width, self.spec.tile.threads, [], step)

    def _slice(self, first: SSAValue, state: _State) -> _State:
        """Take the keys that start at ``first`` into account."""
        k, spec, tile = self.k, self.spec, self.spec.tile
        whole = spec.keys % tile.keys == 0

        def key(place: Index) -> list[Index]:
            position = k.i_add(first, place)
            return [position if whole else k.i_min(position, spec.keys - 1)]

        def inside(place: Index) -> SSAValue:
            return k.i_less(k.i_add(first, place), spec.keys)

        self._stage(spec.k, spec.dim, self.slice, self.key_pitch, tile.keys, key)
        k.barrier()
        places = [k.i_add(self.lane, j * tile.lanes) for j in range(tile.keys // tile.lanes)]
        scores = self._scores(places, key)
        exists = [None if whole else inside(place) for place in places]
        lowest = k.constant(_lowest(self.type), self.type)
        for row, of_row in zip(self.rows, scores, strict=True):
            for place, score, there in zip(places, of_row, exists, strict=True):
                known = score if there is None else k.op(arith.SelectOp(there, score, lowest))
                k.write(known, self.given, self._at(row, place))
        k.barrier()
        # The keys have been read, so that the values take their place.
        self._stage(spec.v, spec.value_dim, self.slice, self.key_pitch, tile.keys, key, None if whole else inside)
        greatest = k.loop(0, tile.keys, 1, state.greatest, self._greater)
        for row, of_row, top in zip(self.rows, scores, greatest, strict=True):
            for place, score, there in zip(places, of_row, exists, strict=True):
                power = (k.real(score) - k.real(top)).apply(math.ExpOp).value
                if there is not None:
                    power = k.op(arith.SelectOp(there, power, k.constant(0, self.type)))
                k.write(power, self.powers, self._at(row, place))
        k.barrier()
        factors = [
            (k.real(old) - k.real(new)).apply(math.ExpOp) for old, new in zip(state.greatest, greatest, strict=True)
        ]
        wide = len(self.columns)
        scaled = [
            *((k.real(t) * f).value for t, f in zip(state.total, factors, strict=True)),
            *((k.real(s) * factors[i // wide]).value for i, s in enumerate(state.sums)),
        ]
        values = k.loop(0, tile.keys, 1, scaled, self._weighted)
        k.barrier()
        return _State.of([*greatest, *values], len(self.rows))

    def _at(self, row: Index, place: Index) -> Index:
        return self.k.i_add(self.k.i_mul(row, self.score_pitch), place)

    def _scores(self, places: Sequence[Index], key: Callable[[Index], list[Index]]) -> list[list[SSAValue]]:
        """The scores of this invocation's rows with the keys at ``places`` of the slice."""
        k, spec = self.k, self.spec

        def step(column: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
            rows = [k.read(self.queries, k.i_add(k.i_mul(r, self.query_pitch), column)) for r in self.rows]
            keys = [k.read(self.slice, k.i_add(k.i_mul(p, self.key_pitch), column)) for p in places]
            pairs = [(row, other) for row in rows for other in keys]
            return [k.op(math.FmaOp(x, y, total)) for (x, y), total in zip(pairs, sums, strict=True)]

        zero = k.constant(0, self.type)
        products = k.loop(0, spec.dim, 1, [zero] * (len(self.rows) * len(places)), step)
        return [
            [
                spec.score(k, self.batch, position, key(place)[0], products[i * len(places) + j])
                for j, place in enumerate(places)
            ]
            for i, position in enumerate(self.positions)
        ]

    def _greater(self, place: SSAValue, greatest: Sequence[SSAValue]) -> Sequence[SSAValue]:
        k = self.k
        return [
            k.real(top).max(k.real(k.read(self.given, self._at(row, place)))).value
            for row, top in zip(self.rows, greatest, strict=True)
        ]

    def _weighted(self, place: SSAValue, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Add the power of one key to the totals, and its values times the power to the sums."""
        k, count = self.k, len(self.rows)
        powers = [k.read(self.powers, self._at(row, place)) for row in self.rows]
        elements = [k.read(self.slice, k.i_add(k.i_mul(place, self.key_pitch), self._column(c))) for c in self.columns]
        totals = [(k.real(t) + k.real(p)).value for t, p in zip(values[:count], powers, strict=True)]
        pairs = [(power, element) for power in powers for element in elements]
        sums = [k.op(math.FmaOp(x, y, s)) for (x, y), s in zip(pairs, values[count:], strict=True)]
        return [*totals, *sums]

    def _column(self, column: Index) -> Index:
        """A column of V; one beyond the last reads that."""
        width = self.spec.value_dim
        return self.k.i_min(column, width - 1) if width % self.spec.tile.lanes else column

    def _finish(self, state: _State) -> None:
        k, spec, tile = self.k, self.spec, self.spec.tile
        part, wide = spec.result, len(self.columns)
        access = Access(
            part.access.source, part.access.element, (*part.batch, *part.row, part.column), part.access.offset
        )
        count = product(spec.rows)
        for i, row in enumerate(self.rows):
            exists = k.i_less(k.i_add(self.first_row, row), count) if count % tile.rows else None

            def store(i: int = i) -> None:
                for j, column in enumerate(self.columns):
                    there = k.i_less(column, spec.value_dim) if spec.value_dim % tile.lanes else None

                    def store_one(i: int = i, j: int = j, column: Index = column) -> None:
                        value = k.real(state.sums[i * wide + j]) / k.real(state.total[i])
                        if not is_known((spec.keys,)):
                            # With no keys at all the result is 0.
                            value = value.const(0).where(k.i_equal(spec.keys, 0), value)
                        k.store(value.value, access, [*self.batch, *self.positions[i], column])

                    k.when(there, store_one)

            k.when(exists, store)


def choose_attention_tile(hardware: Hardware, rows: int, dim: int, value_dim: int, element: Attribute) -> AttentionTile:
    """The largest tile that fits shared memory and that the rows fill by more than a half; else the smallest.

    Raises NotLowered where a head is too wide for the smallest one.
    """
    size = storage_dtype(element).itemsize
    fitting = [t for t in hardware.attention if t.shared(dim, value_dim) * size <= hardware.shared_bytes]
    if not fitting:
        raise NotLowered(
            f"heads of {dim} and {value_dim} do not fit into {hardware.shared_bytes} bytes of shared memory"
        )
    return next((t for t in fitting if rows * 2 > t.rows), fitting[-1])


def _heads(h: Host, view: View, layout: AttentionLayout, heads: int, groups: int) -> View:
    """``view`` as [B, heads, groups, S, D], where its heads are groups of ``groups``."""
    if layout is AttentionLayout.BSD:
        batch, seq, width = view.shape
        view = h.reshape(view, (batch, seq, heads * groups, width // (heads * groups)))
    if layout is not AttentionLayout.BHSD:
        view = view.transpose([0, 2, 1, 3])
    batch, _, seq, dim = view.shape
    return h.reshape(view, (batch, heads, groups, seq, dim))


@lowers(AttentionOp)
def attention(op: AttentionOp, h: Host) -> None:
    layout, shared = op.layout.data, op.kv_heads
    groups = op.heads // shared
    result = h.result(op.result)
    if not product(result.shape):
        return
    q, made = (_heads(h, v, layout, shared, groups) for v in (h.view(op.q), result))
    k, v = (_heads(h, h.view(o), layout, shared, 1) for o in (op.k, op.v))
    batch_shape, rows = q.shape[:2], q.shape[2:4]
    keys, dim, value_dim = k.shape[3], op.head_dim.value.data, op.value_dim
    if not keys:
        h.copy(View(Literal(0), result.element, (), ()), result)
        return
    views = [q, k, v, made]
    if op.mask is not None:
        views.append(_mask(h.view(op.mask), (*batch_shape, *rows, keys)))
    batch, strides = coalesce(batch_shape, [v.strides[:2] for v in views])
    if groups == 1:
        rows = rows[1:]
    operands = Operands()

    def part(view: View, batch_strides: Shape, *, of_keys: bool = False) -> Part:
        row = view.strides[3:4] if of_keys or groups == 1 else view.strides[2:4]
        return Part(operands.access(view, ()), batch_strides, row, view.strides[4])

    tile = choose_attention_tile(h.hardware, estimate(product(rows)), dim, value_dim, wide_element(q.element))
    spec = AttentionSpec(
        q=part(q, strides[0]),
        k=part(k, strides[1], of_keys=True),
        v=part(v, strides[2], of_keys=True),
        result=part(made, strides[3]),
        mask=None if op.mask is None else part(views[4], strides[4]),
        slots=operands.slots,
        batch=batch,
        rows=rows,
        keys=keys,
        dim=dim,
        value_dim=value_dim,
        scores=Scores(op.scale, op.softcap, op.mask_kind.data, None if op.window is None else op.window.value.data),
        tile=tile,
    )
    h.launch("attention", spec, operands)


def _mask(view: View, shape: Shape) -> View:
    """A mask as [B, G, groups, Sq, Sk]: [B, Sk] and [B, Sq, Sk] leave out axes after the first."""
    batch, *rest = view.shape
    heads = shape[1] * shape[2]
    full = view.reshape((batch, *[1] * (4 - len(view.shape)), *rest))
    assert full is not None
    if full.shape[1] == 1:
        split = full.reshape((batch, 1, 1, *full.shape[2:]))
    else:
        split = full.broadcast((batch, heads, *full.shape[2:])).reshape((batch, *shape[1:3], *full.shape[2:]))
    assert split is not None
    return split.broadcast(shape)
