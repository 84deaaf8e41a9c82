"""Layer norms and RMS norms in primitives.

Before (mean and variance in any of their spellings, divided by the root or multiplied by its reciprocal)::

    %0 = rlx.reduce mean %x {axes = [2], keep_dim}   : …
    %1 = rlx.binary sub %x, %0                       : …
    %2 = rlx.binary mul %1, %1                       : …
    %3 = rlx.reduce mean %2 {axes = [2], keep_dim}   : …
    %4 = rlx.binary add %3, %eps                     : …
    %5 = rlx.activation sqrt %4                      : …
    %6 = rlx.binary div %1, %5                       : …
    %7 = rlx.binary mul %6, %gamma                   : …
    %8 = rlx.binary add %7, %beta                    : …

After::

    %8 = rlx.layer_norm %x, %gamma, %beta {eps = 1.0e-5} : …

That takes three steps: the core becomes a norm with gamma 1 and beta 0, which then takes gamma in, and then beta. So
either may be missing, and ``1 + weight`` is just a gamma. Numerics: ``nan-policy``, because adding the beta 0 makes
+0.0 of -0.0.

A norm in f32 between casts from and to f16 or bf16 is, to the bit, the norm of f16 or bf16, so long as gamma and beta
are of that type too; where they are not, norm and casts stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import ReduceKind
from rlx_dialect.base import RlxOp, constant_value, element_of, rank_of, shape_of
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.dtypes import is_narrow, round_to, wide_element
from rlx_dialect.graph import is_load_time
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import CastOp
from rlx_dialect.ops.normalization import AffineNormOp, LayerNormOp, RmsNormOp
from rlx_dialect.ops.reduction import ReduceOp, SoftmaxOp
from rlx_dialect.ops.shape import ReshapeOp
from rlx_dialect.passes.canonical._match import (
    Apply,
    Either,
    Number,
    Term,
    Var,
    inverse_root,
    is_number,
    reduce,
    relu,
    root,
    square,
)
from rlx_dialect.passes.canonical._spelling import Found, Spelling
from rlx_dialect.passes.matching.fusion import FusionPattern, Match, Miss, Numerics, Reason
from rlx_dialect.passes.matching.values import defining, one_use
from rlx_dialect.shapes import DYNAMIC, show
from rlx_dialect.xdsl_compat import PatternRewriter

x, gamma, beta = Var(), Var(), Var()
eps, count, reciprocal = Number(), Number(), Number()


def _mean(value: Term) -> Term:
    total = reduce(ReduceKind.SUM, value)
    return Either(reduce(ReduceKind.MEAN, value), total / count, total * reciprocal)


def _normalized(value: Term, *spellings: Term) -> Iterable[Term]:
    """``value`` over its root mean square, of other ``spellings`` too, perhaps multiplied by gamma on the way."""
    mean = Either(_mean(square(value)), *spellings)
    variance = Either(mean + eps, mean)
    inverse, divisor = inverse_root(variance), root(variance)
    yield value * inverse
    yield value / divisor
    yield value * (inverse * gamma)
    yield (value * gamma) * inverse
    yield (value * gamma) / divisor


class ToNorm(Spelling):
    """The core of a norm → the norm with gamma 1, or with the gamma that was found, and beta 0."""

    def __init__(self, norm: type[AffineNormOp], value: Term, *variances: Term):
        super().__init__(x, _normalized(value, *variances), Numerics.NAN_POLICY)
        self.norm = norm

    def accept(self, found: Found, /) -> Miss | None:
        return (
            _other_axes(found, [rank_of(found[x]) - 1])
            or _unknown_width(found[x], found.root)
            or _wrong_count(found)
            or _wrong_eps(found)
            or _no_vector(found, gamma)
        )

    def build(self, found: Found, rewriter: PatternRewriter, /) -> RlxOp:
        type_ = found.root.results[0].type
        vector = TensorType(element_of(found[x]), shape_of(found[x])[-1:])
        ones = None if gamma in found.bindings.values else rewriter.insert(ConstantOp.of(1, vector)).result
        zeros = rewriter.insert(ConstantOp.of(0, vector)).result
        scale = _as_vector(found[gamma], rewriter) if ones is None else ones
        return self.norm(found[x], scale, zeros, eps=_eps(found), result_type=type_)


def _other_axes(found: Found, axes: Sequence[int]) -> Miss | None:
    """Why the reductions are not all along ``axes``, which stay as extents of 1."""
    for op in found.applied(ReduceOp):
        assert isinstance(op, ReduceOp)
        if list(op.axis_indices) != list(axes) or op.keep_dim is None:
            kept = "kept" if op.keep_dim is not None else "dropped"
            detail = f"{op.kind.data} is along {list(op.axis_indices)}, {kept}, not along {list(axes)}, kept"
            return Miss(Reason.AXIS, found.root, detail, "a norm is along the last axis")
    return None


def _unknown_width(value: SSAValue, site: Operation) -> Miss | None:
    if shape_of(value)[-1] != DYNAMIC:
        return None
    detail = f"the last extent of {show(shape_of(value))} is unknown, so that gamma has no shape"
    return Miss(Reason.DYNAMIC_EXTENT, site, detail, "give it a static last extent")


def _wrong_count(found: Found) -> Miss | None:
    width = shape_of(found[x])[-1]
    for term, wanted in ((count, width), (reciprocal, 1 / width if width else 0)):
        value = found.get(term)
        if value is not None and not is_number(value, wanted, element_of(value)):
            detail = f"a sum of {width} elements meets {scalar_value(value)}"
            return Miss(Reason.OTHER_CONSTANT, found.root, detail, "nothing to do unless a mean was meant")
    return None


def _wrong_eps(found: Found) -> Miss | None:
    value = _eps(found)
    if 0 <= value < np.inf:
        return None
    return Miss(Reason.OTHER_CONSTANT, found.root, f"eps is {value}", "an eps is a number from 0 on")


def _eps(found: Found) -> float:
    """What is added to the variance; a number of f32 in the digits that mean it."""
    value = found.get(eps)
    if value is None:
        return 0.0
    number = scalar_value(value)
    assert number is not None
    return float(str(np.float32(number))) if isinstance(element_of(value), Float32Type) else number


def _no_vector(found: Found, term: Var) -> Miss | None:
    """Why what is bound to ``term`` is not [D], or [1, …, 1, D] from load time."""
    value = found.get(term)
    if value is None:
        return None
    shape, width = shape_of(value), shape_of(found[x])[-1]
    if shape == (width,) or (shape[-1:] == (width,) and set(shape[:-1]) == {1} and is_load_time(value)):
        return None
    detail = f"{show(shape)} is no vector of {width}, known before the call if written as a row"
    return Miss(Reason.BIAS_SHAPE, found.root, detail, "give gamma and beta one axis")


def _as_vector(value: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    if rank_of(value) == 1:
        return value
    return rewriter.insert(ReshapeOp(value, shape_of(value)[-1:])).result


class TakeGamma(Spelling):
    """A norm with gamma 1 and beta 0, times a vector → the norm with that gamma."""

    def __init__(self, norm: type[AffineNormOp]):
        self.ones, self.zeros = Number(), Number()
        super().__init__(x, [Apply(norm, None, x, self.ones, self.zeros) * gamma], Numerics.NAN_POLICY)

    def accept(self, found: Found, /) -> Miss | None:
        if scalar_value(found[self.ones]) != 1 or scalar_value(found[self.zeros]) != 0:
            detail = "the norm has a gamma, or a beta, already"
            return Miss(Reason.OTHER_CONSTANT, found.root, detail, "nothing to do unless it was meant to be 1 and 0")
        return _no_vector(found, gamma)

    def build(self, found: Found, rewriter: PatternRewriter, /) -> RlxOp:
        norm = _norm_of(found)
        scale = _as_vector(found[gamma], rewriter)
        type_ = found.root.results[0].type
        return type(norm)(norm.x, scale, norm.beta, eps=norm.eps.value.data, result_type=type_)


class TakeBeta(Spelling):
    """A norm with beta 0, plus a vector → the norm with that beta."""

    def __init__(self, norm: type[AffineNormOp]):
        self.zeros = Number()
        super().__init__(x, [Apply(norm, None, x, gamma, self.zeros) + beta], Numerics.NAN_POLICY)

    def accept(self, found: Found, /) -> Miss | None:
        if scalar_value(found[self.zeros]) != 0:
            detail = "the norm has a beta already"
            return Miss(Reason.OTHER_CONSTANT, found.root, detail, "nothing to do unless it was meant to be 0")
        return _no_vector(found, beta)

    def build(self, found: Found, rewriter: PatternRewriter, /) -> RlxOp:
        norm = _norm_of(found)
        shift = _as_vector(found[beta], rewriter)
        type_ = found.root.results[0].type
        return type(norm)(norm.x, norm.gamma, shift, eps=norm.eps.value.data, result_type=type_)


def _norm_of(found: Found) -> AffineNormOp:
    (norm,) = found.applied(AffineNormOp)
    assert isinstance(norm, AffineNormOp)
    return norm


@dataclass(frozen=True)
class BetweenCastsMatch(Match):
    cast: CastOp
    inner: AffineNormOp | SoftmaxOp
    x: SSAValue
    affine: tuple[SSAValue, ...]
    """Gamma and beta, as they were before they were cast, or constants to be cast."""


class BetweenCasts(FusionPattern[CastOp, BetweenCastsMatch]):
    """cast from a narrow float → norm or softmax → cast back: they compute in f32 anyway."""

    root = CastOp
    numerics = Numerics.EXACT

    def check(self, op: CastOp, /) -> BetweenCastsMatch | Miss | None:
        inner = defining(op.input, (LayerNormOp, RmsNormOp, SoftmaxOp))
        narrow = element_of(op.result)
        if inner is None or not is_narrow(narrow) or element_of(op.input) != wide_element(narrow):
            return None
        if isinstance(user := one_use(op.input, op), Miss):
            return user
        sources = [_before_cast(value, narrow) for value in inner.operands]
        values = [value for value in sources if value is not None]
        if len(values) < len(sources) or isinstance(values[0].owner, ConstantOp):
            place = sources.index(None) if None in sources else 0
            detail = f"{inner.operand_name(place)} of {inner.name} is not cast from {narrow}"
            return Miss(Reason.ELEMENT_TYPE, op, detail, "give x, gamma and beta one element type")
        return BetweenCastsMatch(op, inner, values[0], tuple(values[1:]))

    def rewrite(self, match: BetweenCastsMatch, rewriter: PatternRewriter, /) -> None:
        inner, type_ = match.inner, match.cast.result.type
        narrow = element_of(match.cast.result)
        if isinstance(inner, SoftmaxOp):
            new: RlxOp = SoftmaxOp(match.x, inner.axis_index)
        else:
            affine = [
                value if element_of(value) == narrow else rewriter.insert(_narrowed(value, narrow)).result
                for value in match.affine
            ]
            new = type(inner)(match.x, *affine, eps=inner.eps.value.data, result_type=type_)
        rewriter.replace(match.cast, new)
        rewriter.erase(inner)


def _before_cast(value: SSAValue, narrow: Any) -> SSAValue | None:
    """The value of element type ``narrow`` that ``value`` is cast from, or a constant that ``narrow`` holds."""
    if (cast := defining(value, CastOp)) is not None:
        return cast.input if element_of(cast.input) == narrow else None
    array = constant_value(value)
    if array is None or not np.array_equal(round_to(array, narrow).astype(array.dtype), array):
        return None
    return value


def _narrowed(value: SSAValue, narrow: Any) -> ConstantOp:
    array = constant_value(value)
    assert array is not None
    return ConstantOp.of(array, TensorType(narrow, shape_of(value)))


def patterns() -> Sequence[FusionPattern[Any, Any]]:
    mean = _mean(x)
    # As one pass over x computes it; where rounding makes it negative, some take 0.
    variance = _mean(square(x)) - square(mean)
    norms = (LayerNormOp, RmsNormOp)
    return [
        ToNorm(LayerNormOp, x - mean, variance, relu(variance)),
        ToNorm(RmsNormOp, x),
        *(TakeGamma(norm) for norm in norms),
        *(TakeBeta(norm) for norm in norms),
        BetweenCasts(),
    ]
