"""Scaled dot-product attention that is spelled out in products and a softmax becomes ``rlx.attention``.

Before::

    %kt = rlx.transpose %k {perm = [0, 1, 3, 2]} : …
    %s = rlx.matmul %q, %kt : …
    %c = rlx.binary div %s, %sqrt_d : …
    %m = rlx.binary add %c, %bias : …
    %p = rlx.softmax %m : …
    %o = rlx.matmul %p, %v : …

After::

    %o = rlx.attention bias %q, %k, %v, %bias {num_heads = 2, head_dim = 4, layout = bhsd} : …

The scores may be multiplied or divided by a number, capped by c·tanh(s/c), and masked by sums or ``rlx.where``, in
this order (several masks become one bias); f16 and bf16 may be cast to f32 for any of it. Products may be
``rlx.dot_general``. What is in front of Q, K and V and behind the result is left to the patterns of
:mod:`_attention_forms`, so that each spelling of scale, heads and mask is known in one place, for attention that
comes from elsewhere too.

Numerics: ``wider`` where scale and mask are the operation's own; ``reassociated`` where numbers were put together or a
division became a product, and with ``rlx.dot_general``; ``nan-policy`` where hidden keys had another score than -1e9
(-inf, or a finite one that is lower): without any visible key the result is NaN there and the mean of V here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import ActivationKind, AttentionLayout, BinaryKind
from rlx_dialect.base import element_of, rank_of, shape_of
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.dtypes import is_narrow, wide_element
from rlx_dialect.operation import is_dead
from rlx_dialect.ops.attention import AttentionOp
from rlx_dialect.ops.contraction import DotGeneralOp, MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CastOp, WhereOp
from rlx_dialect.ops.reduction import SoftmaxOp
from rlx_dialect.ops.shape import ReshapeOp, TransposeOp
from rlx_dialect.passes.canonical._attention_forms import View, attention_forms, named_scale
from rlx_dialect.passes.canonical._masks import ABSORBING, Mask, built_mask, hides, is_masked_score
from rlx_dialect.passes.matching.extents import Known, extents
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import defining, is_used, one_use, orders
from rlx_dialect.shapes import DYNAMIC, Shape, broadcasts_to, is_static, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

Product = MatMulOp | DotGeneralOp
_Step = CastOp | ReshapeOp | TransposeOp


@dataclass(frozen=True)
class Factor:
    """A factor of a product: axis i is axis ``perm[i]`` of ``value``."""

    value: SSAValue
    perm: tuple[int, ...]

    @classmethod
    def of(cls, value: SSAValue, perm: Sequence[int]) -> Factor:
        """The factor with the transposes in front of ``value`` taken in."""
        perm = tuple(perm)
        while (op := defining(value, TransposeOp)) is not None:
            value, perm = op.input, tuple(op.perm.get_values()[axis] for axis in perm)
        return cls(value, perm)

    def swapped(self) -> Factor:
        """The last two axes exchanged."""
        return Factor(self.value, (*self.perm[:-2], self.perm[-1], self.perm[-2]))

    @property
    def shape(self) -> Shape:
        return tuple(shape_of(self.value)[axis] for axis in self.perm)

    def place(self, axis: int) -> tuple[SSAValue, int]:
        return self.value, self.perm[axis]


def _factors(op: Product) -> tuple[Factor, Factor] | None:
    """Both operands as those of a matrix product [batch…, M, K] · [batch…, K, N]; None where it is no such."""
    rank = rank_of(op.result)
    if rank not in (3, 4) or rank_of(op.lhs) != rank or rank_of(op.rhs) != rank:
        return None
    if isinstance(op, MatMulOp):
        return Factor.of(op.lhs, range(rank)), Factor.of(op.rhs, range(rank))
    lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
    if len(lhs_contracting) != 1 or len(lhs_batch) != rank - 2:
        return None
    (lhs_free,) = set(range(rank)) - {*lhs_contracting, *lhs_batch}
    (rhs_free,) = set(range(rank)) - {*rhs_contracting, *rhs_batch}
    return (
        Factor.of(op.lhs, (*lhs_batch, lhs_free, *lhs_contracting)),
        Factor.of(op.rhs, (*rhs_batch, *rhs_contracting, rhs_free)),
    )


@dataclass
class _Scores:
    """What was found from the softmax back to the product of Q and K."""

    ops: list[Operation] = field(default_factory=list[Operation])
    """From the softmax back."""
    masks: list[Mask] = field(default_factory=list[Mask])
    """From the softmax back."""
    cap: float | None = None
    scale: float = 1.0
    """The product of all factors that are not in the cap."""
    heads: tuple[int, int] | None = None
    """Batch and heads, where they are one axis of Q, K and V, and two axes of scores in between."""
    numerics: Numerics = Numerics.WIDER
    product: Product | None = None

    def loosen(self, numerics: Numerics) -> None:
        self.numerics = max(self.numerics, numerics, key=list(Numerics).index)


@dataclass(frozen=True)
class AttentionMatch(Match):
    out: Product
    softmax: SoftmaxOp
    scores: _Scores
    between: tuple[_Step, ...]
    """From the product with V back to the softmax."""
    q: Factor
    k: Factor
    v: Factor
    turned: bool
    """Whether the result has lanes before queries."""


class ScaledDotProduct(FusionPattern[Product, AttentionMatch]):
    """product of Q and K → scale → cap → mask → softmax → product with V, where it is of the class ``numerics``."""

    root = (MatMulOp, DotGeneralOp)

    def __init__(self, numerics: Numerics):
        self.numerics = numerics
        self.known: Known = {}
        """What is known of unknown extents; it stays right, since values are replaced by equal ones only."""

    def check(self, op: Product, /) -> AttentionMatch | Miss | None:
        found = _attention(op, self.known)
        if isinstance(found, AttentionMatch):
            return found if found.scores.numerics is self.numerics else None
        # One of the classes is enough to say why not.
        return found if self.numerics is Numerics.WIDER else None

    def rewrite(self, match: AttentionMatch, rewriter: PatternRewriter, /) -> None:
        scores = match.scores
        assert scores.product is not None
        factors = dict.fromkeys([*match.out.operands, *scores.product.operands])
        rewriter.insertion_point = InsertPoint.before(match.out)
        q, k, v = (View(factor.value, factor.perm).built(rewriter) for factor in (match.q, match.k, match.v))
        if scores.heads is not None:
            q, k, v = (rewriter.insert(ReshapeOp(x, [*scores.heads, *shape_of(x)[1:]])).result for x in (q, k, v))
        packed = rank_of(q) == 3
        kind, mask = built_mask(rewriter, scores.masks, rank_of(q), element_of(q))
        dim, kv_heads = shape_of(q)[-1], 1 if packed else shape_of(k)[1]
        attention = AttentionOp(
            q,
            k,
            v,
            mask,
            mask_kind=kind,
            num_heads=1 if packed else shape_of(q)[1],
            num_kv_heads=kv_heads,
            head_dim=dim,
            v_head_dim=shape_of(v)[-1],
            layout=AttentionLayout.BSD if packed else AttentionLayout.BHSD,
            score_scale=named_scale(scores.scale, dim, element_of(q)),
            attn_logit_softcap=scores.cap,
        )
        if match.turned:
            axes = [*range(rank_of(q) - 2), rank_of(q) - 1, rank_of(q) - 2]
            result = TransposeOp(rewriter.insert(attention).result, axes, result_type=match.out.result.type)
            rewriter.replace(match.out, result)
        elif scores.heads is not None:
            result = ReshapeOp(rewriter.insert(attention).result, shape_of(match.out.result))
            rewriter.replace(match.out, result)
        else:
            rewriter.replace(match.out, [attention], [attention.result])
        for matched in (*match.between, match.softmax, *scores.ops):
            rewriter.erase(matched)
        for factor in factors:
            _erase_transposes(rewriter, factor)


def _erase_transposes(rewriter: PatternRewriter, value: SSAValue) -> None:
    """Delete the transposes that end in ``value``, as far as nothing else uses them."""
    while (op := defining(value, TransposeOp)) is not None and is_dead(op):
        value = op.input
        rewriter.erase(op)


def _attention(op: Product, known: Known) -> AttentionMatch | Miss | None:
    found = _probabilities(op)
    if found is None or not is_used(op.result):
        return None
    softmax, between, turned = found
    if softmax.axis_index != rank_of(softmax.result) - 1:
        detail = f"the softmax is over axis {softmax.axis_index} of {show(shape_of(softmax.result))}, not over the keys"
        return Miss(Reason.AXIS, op, detail, "nothing to do")
    for step in (softmax, *between):
        user = one_use(step.results[0], op)
        if isinstance(user, Miss):
            return user
    factors = _factors(op)
    if factors is None:
        detail = f"products of rank {rank_of(op.result)} or with other axes; attention has [B, H, S, D] or [B, S, D]"
        return Miss(Reason.RANK, op, detail, "nothing to do")
    weights, v = (factors[1].swapped(), factors[0].swapped()) if turned else factors
    if weights.perm != tuple(range(len(weights.perm))):
        return Miss(Reason.AXIS, op, "the weights are not contracted along the axis of their softmax", "nothing to do")
    scores = _Scores()
    for step in between:
        if isinstance(step, ReshapeOp) and (miss := _add_heads(step, op, scores)) is not None:
            return miss
    scores = _scores(softmax.input, op, scores)
    if isinstance(scores, Miss):
        return scores
    assert scores.product is not None
    if isinstance(op, DotGeneralOp) or isinstance(scores.product, DotGeneralOp):
        scores.loosen(Numerics.REASSOCIATED)
    factors = _factors(scores.product)
    if factors is None:
        detail = f"the scores are a product of rank {rank_of(scores.product.result)} or along other axes"
        return Miss(Reason.RANK, op, detail, "nothing to do")
    match = AttentionMatch(op, softmax, scores, between, factors[0], factors[1].swapped(), v, turned)
    return _misfit(match, known) or match


def _probabilities(op: Product) -> tuple[SoftmaxOp, tuple[_Step, ...], bool] | None:
    """The softmax that ``op`` multiplies, what is between, and whether it comes to the second operand.

    That is so where lanes come before queries: a dot_general, or what it is lowered to, Vᵀ by transposed weights.
    """
    for turned in (False, True):
        value = op.operands[1 if turned else 0]
        between: list[_Step] = []
        while (transpose := defining(value, TransposeOp)) is not None:
            between.append(transpose)
            value = transpose.input
        if turned and isinstance(op, MatMulOp) and not between:
            continue
        # One of each: two casts round.
        while (step := defining(value, (CastOp, ReshapeOp))) is not None and type(step) not in map(type, between):
            between.append(step)
            value = step.input
        if (softmax := defining(value, SoftmaxOp)) is not None:
            return softmax, tuple(between), turned
    return None


def _add_heads(op: ReshapeOp, site: Operation, found: _Scores) -> Miss | None:
    """Note what the reshape ``op`` between [B·H, S, S] and [B, H, S, S] says about B and H, or why it is none."""
    packed, split = sorted((shape_of(op.input), shape_of(op.result)), key=len)
    fits = (len(packed), len(split)) == (3, 4) and is_static(split) and packed == (split[0] * split[1], *split[2:])
    if not fits or found.heads not in (None, split[:2]):
        detail = f"scores {show(shape_of(op.input))} are reshaped to {show(shape_of(op.result))}"
        return Miss(Reason.RANK, site, detail, "nothing to do unless batch and heads were meant")
    found.heads = (split[0], split[1])
    return None


def _scores(value: SSAValue, site: Operation, found: _Scores) -> _Scores | Miss:
    """Follow ``value`` back to the product of Q and K."""
    while True:
        op = value.owner
        if isinstance(op, MatMulOp | DotGeneralOp | CastOp | BinaryOp | WhereOp | ActivationOp | ReshapeOp):
            user = one_use(value, site)
            if isinstance(user, Miss):
                return user
            if op.parent is not site.parent:
                return Miss(Reason.OTHER_BLOCK, site, f"{op.name} is in another block", "move both into one block")
        else:
            name = op.name if isinstance(op, Operation) else "an argument"
            return _no_scores(site, f"what the softmax is of comes from {name}, not from a product of Q and K")
        found.ops.append(op)
        if isinstance(op, MatMulOp | DotGeneralOp):
            found.product = op
            return found
        before = _before(op, site, found)
        if isinstance(before, Miss):
            return before
        if not isinstance(op, ReshapeOp) and shape_of(before) != shape_of(value):
            detail = f"{op.name} broadcasts the scores {show(shape_of(before))} to {show(shape_of(value))}"
            return Miss(Reason.SHAPES_DIFFER, site, detail, "expand Q or K first")
        value = before


def _no_scores(site: Operation, detail: str) -> Miss:
    return Miss(Reason.OTHER_OPERAND, site, detail, "nothing to do unless attention was meant")


def _before(op: Operation, site: Operation, found: _Scores) -> SSAValue | Miss:
    """The scores that ``op`` takes, with what it does to them noted in ``found``."""
    match op:
        case CastOp() if is_narrow(element_of(op.input)) and wide_element(element_of(op.input)) == element_of(
            op.result
        ):
            return op.input
        case ReshapeOp():
            return _add_heads(op, site, found) or op.input
        case WhereOp():
            return _where(op, site, found)
        case BinaryOp(kind=kind) if kind.data is BinaryKind.ADD:
            return _sum(op, site, found)
        case BinaryOp(kind=kind) if kind.data in (BinaryKind.MUL, BinaryKind.DIV):
            return _scaled(op, site, found)
        case _:
            return _no_scores(site, f"{op.name} between the product of Q and K and the softmax")


def _where(op: WhereOp, site: Operation, found: _Scores) -> SSAValue | Miss:
    element = element_of(op.result)
    for scores, other, shown in ((op.on_true, op.on_false, True), (op.on_false, op.on_true, False)):
        number = scalar_value(other)
        if number is None:
            continue
        if not hides(number, element):
            detail = f"the score of hidden keys is {number}, which is not below all others"
            return Miss(Reason.OTHER_CONSTANT, site, detail, "use -inf")
        if not is_masked_score(number, element):
            found.loosen(Numerics.NAN_POLICY)
        return _add_mask(Mask(op.condition, rank_of(op.result), number, shown), site, found) or scores
    return Miss(Reason.MASK, site, "hidden keys have scores that are no single known number", "use -inf")


def _sum(op: BinaryOp, site: Operation, found: _Scores) -> SSAValue | Miss:
    for scores, mask in orders(op):
        if _leads_to_product(scores):
            return _add_mask(Mask(mask, rank_of(op.result)), site, found) or scores
    return _no_scores(site, "neither summand is a product of Q and K")


def _add_mask(mask: Mask, site: Operation, found: _Scores) -> Miss | None:
    """Note ``mask`` among those found, or say why it cannot be."""
    if found.cap is not None or found.scale != 1:
        return Miss(Reason.MASK, site, "the scores are scaled or capped after the mask", "scale them first")
    found.masks.append(mask)
    if len(found.masks) > 1:
        numbers = [m.hidden for m in found.masks if m.hidden is not None]
        if any(number > ABSORBING for number in numbers):
            detail = f"one of several masks gives hidden keys the score {max(numbers)}, which others add to"
            return Miss(Reason.MASK, site, detail, "use -inf, or one mask")
        found.loosen(Numerics.NAN_POLICY if numbers else Numerics.REASSOCIATED)
    return None


def _leads_to_product(value: SSAValue, depth: int = 6) -> bool:
    """Whether ``value`` comes from a product through what may stand between it and a mask."""
    op = value.owner
    if isinstance(op, MatMulOp | DotGeneralOp):
        return True
    if depth == 0 or not isinstance(op, CastOp | ActivationOp | BinaryOp | WhereOp | ReshapeOp):
        return False
    operands = op.operands[1:] if isinstance(op, WhereOp) else op.operands
    return any(scalar_value(o) is None and _leads_to_product(o, depth - 1) for o in operands)


def _scaled(op: BinaryOp, site: Operation, found: _Scores) -> SSAValue | Miss:
    """A factor or divisor; or, with the tanh below it and the division below that, a cap."""
    divided = op.kind.data is BinaryKind.DIV
    for scores, other in ((op.lhs, op.rhs),) if divided else orders(op):
        number = scalar_value(other)
        if number is None:
            continue
        if not math.isfinite(number) or number == 0:
            return Miss(Reason.OTHER_CONSTANT, site, f"a factor of {number}", "nothing to do")
        tanh = defining(scores, ActivationOp)
        if tanh is None:
            if found.scale != 1 or (divided and math.frexp(number)[0] != 0.5):
                found.loosen(Numerics.REASSOCIATED)
            found.scale *= 1 / number if divided else number
            return scores
        if tanh.kind.data is not ActivationKind.TANH or divided or number < 0 or found.cap is not None:
            return _no_scores(site, f"{tanh.kind.data} between the product of Q and K and the softmax")
        if found.scale != 1:
            return _no_scores(site, "the scores are scaled after they are capped")
        return _capped(tanh, number, site, found)
    return _no_scores(site, f"{op.kind.data} by a value that is no known number")


def _capped(tanh: ActivationOp, cap: float, site: Operation, found: _Scores) -> SSAValue | Miss:
    user = one_use(tanh.result, site)
    if isinstance(user, Miss):
        return user
    found.ops.append(tanh)
    found.cap = cap
    inner = defining(tanh.input, BinaryOp)
    if inner is not None and inner.kind.data is BinaryKind.DIV and scalar_value(inner.rhs) == cap:
        user = one_use(inner.result, site)
        if isinstance(user, Miss):
            return user
        found.ops.append(inner)
        return inner.lhs
    # c·tanh(m·s): the scale is m·c.
    found.scale = cap
    found.loosen(Numerics.REASSOCIATED)
    return tanh.input


def _misfit(match: AttentionMatch, known: Known) -> Miss | None:
    """Why Q, K, V and the mask do not fit together."""
    op, q, k, v, scores = match.out, match.q, match.k, match.v, match.scores
    rank = len(q.perm)
    elements = {element_of(factor.value) for factor in (q, k, v)}
    elements |= {element_of(mask.value) for mask in scores.masks if mask.hidden is None}
    if len(elements) > 1 or element_of(op.result) not in elements:
        names = ", ".join(sorted(map(str, elements)))
        return Miss(Reason.ELEMENT_TYPE, op, f"Q, K, V and a bias are of {names}", "cast them to one type first")
    if len(v.perm) != rank or (scores.heads is not None and (rank != 3 or match.turned)):
        return Miss(Reason.RANK, op, f"V has rank {len(v.perm)}, Q {rank}, scores another", "nothing to do")
    static = (q.shape[-1], v.shape[-1]) if rank == 3 else (q.shape[1], k.shape[1], v.shape[1], q.shape[-1], v.shape[-1])
    if DYNAMIC in static:
        detail = f"heads or lanes of Q {show(q.shape)}, K {show(k.shape)} and V {show(v.shape)} are unknown"
        return Miss(Reason.DYNAMIC_EXTENT, op, detail, "give them static extents")
    if rank == 4 and (k.shape[1] != v.shape[1] or k.shape[1] not in (1, q.shape[1])):
        detail = f"Q {show(q.shape)}, K {show(k.shape)} and V {show(v.shape)} differ in heads"
        return Miss(Reason.SHAPES_DIFFER, op, detail, "nothing to do")
    for other in (k, v):
        if not _same_extent(q.place(0), other.place(0), known):
            return _not_equal(op, q.shape[0], other.shape[0], "batch")
    wrong = _other_split_mask if scores.heads is not None else _other_mask
    return next((miss for mask in scores.masks if (miss := wrong(mask, match, known))), None)


def _same_extent(a: tuple[SSAValue, int], b: tuple[SSAValue, int], known: Known) -> bool:
    """Whether an axis of one value and one of another provably have one extent."""
    x, y = (shape_of(value)[axis] for value, axis in (a, b))
    return x == y and (x != DYNAMIC or extents(a[0], known)[a[1]] == extents(b[0], known)[b[1]])


def _not_equal(op: Operation, a: int, b: int, what: str) -> Miss:
    detail = f"extents {show([a])} and {show([b])} of {what}"
    if DYNAMIC in (a, b):
        return Miss(Reason.DYNAMIC_EXTENT, op, f"{detail} may differ at run time", "give the inputs static shapes")
    return Miss(Reason.SHAPES_DIFFER, op, f"{detail} differ", "expand the smaller one first")


def _no_mask(match: AttentionMatch, mask: Mask) -> Miss:
    detail = f"a mask of shape {show(shape_of(mask.value))} for {show([match.k.shape[-2]])} keys"
    return Miss(Reason.MASK, match.out, detail, "expand it to one value a key")


def _other_mask(mask: Mask, match: AttentionMatch, known: Known) -> Miss | None:
    """Why ``mask`` does not have extents of 1 or those of the scores."""
    q, value, rank = match.q, mask.value, rank_of(mask.value)
    if rank > len(q.perm) or rank == 0 or shape_of(value)[-1] != match.k.shape[-2]:
        return _no_mask(match, mask)
    places = [q.place(axis) for axis in range(len(q.perm) - 1)] + [match.k.place(-2)]
    for axis in range(1, rank + 1):
        extent = shape_of(value)[-axis]
        if (extent != 1 or axis == 1) and not _same_extent((value, rank - axis), places[-axis], known):
            return _not_equal(match.out, shape_of(places[-axis][0])[places[-axis][1]], extent, "scores and mask")
    return None


def _other_split_mask(mask: Mask, match: AttentionMatch, known: Known) -> Miss | None:
    """The same, where batch and heads are two axes of the scores; all their extents are static then."""
    assert match.scores.heads is not None
    shape = shape_of(mask.value)
    full = (*match.scores.heads, match.q.shape[-2], match.k.shape[-2])
    # Three axes are batch and heads in one in front of the split, but heads behind it.
    fits = 0 < len(shape) <= (4 if mask.rank == 4 else 2) and broadcasts_to(shape, full) and shape[-1] == full[-1]
    return None if fits else _no_mask(match, mask)


def patterns() -> Sequence[FusionPattern[Any, Any]]:
    classes = (Numerics.WIDER, Numerics.REASSOCIATED, Numerics.NAN_POLICY)
    return [*(ScaledDotProduct(numerics) for numerics in classes), *attention_forms()]
