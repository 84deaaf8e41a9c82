"""Canonicalisation patterns of RLX operations that keep every value to the last bit.

xDSL's ``canonicalize`` pass runs those that an operation names, beside its fold; ``rlx-canonicalize-ops`` runs all of
:data:`CLEANUPS`. The operations load this module when their patterns are asked for, so building and parsing a graph
does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect import shapes
from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import RlxOp, constant_value, element_of, shape_of
from rlx_dialect.dtypes import integer_limits, is_bool, is_complex, is_float, is_integer
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import (
    ActivationOp,
    BinaryOp,
    CastOp,
    ClampOp,
    CompareOp,
    FmaOp,
    WhereOp,
)
from rlx_dialect.ops.normalization import FusedResidualLnOp, FusedResidualRmsNormOp
from rlx_dialect.ops.reduction import ReduceOp
from rlx_dialect.ops.shape import ExpandOp, NarrowOp, ReshapeOp, SliceOp, TransposeOp
from rlx_dialect.shapes import DYNAMIC, Shape
from rlx_dialect.xdsl_compat import PatternRewriter, RewritePattern, op_type_rewrite_pattern


def scalar_value(value: SSAValue) -> float | None:
    """The one number that every element of ``value`` is: a constant's, also behind expands and reshapes.

    None where the elements differ, or are not real, or are not known.
    """
    while isinstance(op := value.owner, ExpandOp | ReshapeOp):
        value = op.input
    if not isinstance(op, ConstantOp) or is_complex(element_of(value)):
        return None
    array = op.array()
    if array is None or not array.size:
        return None
    first = array.flat[0]
    return float(first) if array.size == 1 or bool((array == first).all()) else None


_LEAVES = frozenset({ConstantOp, ExpandOp, ReshapeOp})
"""What may give the same number everywhere, or be an expansion. Asked for first, because of most values it is none."""


class Fold(RewritePattern):
    """An operation that gives its operand back, or has only small constants to work on."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RlxOp, rewriter: PatternRewriter) -> None:
        if (same := op.fold_identity()) is not None:
            rewriter.replace(op, [], [same])
            return
        owners = [type(operand.owner) for operand in op.operands]
        if owners and owners.count(ConstantOp) == len(owners) and (values := op.fold()) is not None:
            new = [ConstantOp(value) for value in values]  # pyright: ignore[reportArgumentType]
            rewriter.replace(op, new, [constant.result for constant in new])


# Shapes.


class ReshapeOfReshape(RewritePattern):
    """Only the last of two shapes counts: both keep the row-major order."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.input.owner, ReshapeOp):
            _replace(rewriter, op, ReshapeOp(inner.input, op.new_shape.get_values(), result_type=op.result.type))


class ReshapeOfReduce(RewritePattern):
    """A reduction whose axes are put back as extents of 1 keeps them in the first place."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if not isinstance(inner, ReduceOp) or inner.keep_dim is not None:
            return
        shape = shape_of(inner.input)
        kept = shapes.reduce(shape, inner.axis_indices, keep_dim=True)
        # Of two unknown extents it is not known which is which.
        if shape_of(op.result) == kept and kept.count(DYNAMIC) <= 1:
            axes = inner.axis_indices
            reduced = ReduceOp(inner.kind.data, inner.input, axes, keep_dim=True, result_type=op.result.type)
            _replace(rewriter, op, reduced)


class TransposeOfTranspose(RewritePattern):
    """Two permutations are one."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.input.owner, TransposeOp):
            first = inner.perm.get_values()
            perm = [first[p] for p in op.perm.get_values()]
            _replace(rewriter, op, TransposeOp(inner.input, perm, result_type=op.result.type))


class NarrowOfNarrow(RewritePattern):
    """A part of a part along one axis is one part."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: NarrowOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.input.owner, NarrowOp) and inner.axis_index == op.axis_index:
            start = inner.start.value.data + op.start.value.data
            part = NarrowOp(inner.input, op.axis_index, start, op.len.value.data, result_type=op.result.type)
            _replace(rewriter, op, part)


class SliceToNarrow(RewritePattern):
    """A slice of step 1 is a narrow, which more of the compiler knows."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        if op.step.value.data == 1:
            length = op.len.value.data
            start = op.start.value.data if length else 0  # Where nothing is taken, a slice may start anywhere.
            _replace(rewriter, op, NarrowOp(op.input, op.axis_index, start, length, result_type=op.result.type))


class ExpandOfExpand(RewritePattern):
    """Two broadcasts are one; an extent that the second keeps is what the first makes it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ExpandOp, rewriter: PatternRewriter) -> None:
        if isinstance(inner := op.input.owner, ExpandOp):
            outer, first = op.target.get_values(), inner.target.get_values()
            padded = (1,) * (len(outer) - len(first)) + first
            target = [f if o == -1 else o for o, f in zip(outer, padded, strict=True)]
            _replace(rewriter, op, ExpandOp(inner.input, target, result_type=op.result.type))


class BroadcastIntoElementwise(RewritePattern):
    """An element-wise operation broadcasts by itself; what was expanded for it, if only by leading ones, need not be.

    Where another operand provably has every extent that the expansion gives. Also, a constant of one number in a
    tensor of several extents above 1 need not be larger than that number. (A row stays: it may be a bias.)
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BinaryOp | CompareOp | WhereOp | FmaOp, rewriter: PatternRewriter) -> None:
        operands = list(op.operands)
        for index, operand in enumerate(operands):
            if type(operand.owner) not in _LEAVES:
                continue
            others = [shape_of(o) for i, o in enumerate(operands) if i != index]
            if (small := _unexpanded(operand, rewriter, others, shape_of(op.results[0]))) is not None:
                operands[index] = small
                _replace(
                    rewriter,
                    op,
                    type(op).create(operands=operands, result_types=op.result_types, properties=op.properties.copy()),
                )
                return


def _unexpanded(
    operand: SSAValue, rewriter: PatternRewriter, others: Sequence[Shape], result: Shape
) -> SSAValue | None:
    """A smaller value that means the same beside operands of the shapes ``others``; inserted if it is a new one."""
    shape, source = shape_of(operand), operand.owner
    if isinstance(source, ConstantOp):
        row = all(extent == 1 for extent in shape[:-1])
        if row or not _broadcasts_without((), shape, others, result) or (value := scalar_value(operand)) is None:
            return None
        return rewriter.insert(ConstantOp.of(np.asarray(value), TensorType(element_of(operand), ()))).result
    assert isinstance(source, ExpandOp | ReshapeOp)
    small = shape_of(source.input)
    # An unknown extent that is given a length may be a 1, even if the type of the result does not say so.
    if isinstance(source, ExpandOp):
        kept = source.target.get_values()[len(shape) - len(small) :]
        if any(have == DYNAMIC and want != -1 for have, want in zip(small, kept, strict=True)):
            return None
    # A reshape that only puts ones in front is an expansion. With two unknown extents, equal ones prove nothing.
    if isinstance(source, ReshapeOp) and not (
        len(small) < len(shape) and shape == (1,) * (len(shape) - len(small)) + small and small.count(DYNAMIC) <= 1
    ):
        return None
    return source.input if _broadcasts_without(small, shape, others, result) else None


def _broadcasts_without(small: Shape, large: Shape, others: Sequence[Shape], result: Shape) -> bool:
    """Whether ``small`` in the place of ``large``, which it broadcasts to, provably leaves ``result`` as it is."""
    if max((len(small), *map(len, others))) != len(result):
        return False
    for axis in range(1, len(large) + 1):
        have, want = small[-axis] if axis <= len(small) else 1, large[-axis]
        if have == want:
            continue
        brought = any(axis <= len(other) and other[-axis] == want for other in others)
        if have != 1 or want == DYNAMIC or not brought:
            return False
    return True


# Element types.

_MANTISSAS: dict[type[Attribute], int] = {BFloat16Type: 8, Float16Type: 11, Float32Type: 24, Float64Type: 53}
_WIDENINGS = frozenset(
    {
        (BFloat16Type, Float32Type),
        (BFloat16Type, Float64Type),
        (Float16Type, Float32Type),
        (Float16Type, Float64Type),
        (Float32Type, Float64Type),
    }
)


def keeps_values(source: Attribute, target: Attribute) -> bool:
    """Whether every value of the element type ``source`` is one of ``target``."""
    if source == target or (type(source), type(target)) in _WIDENINGS:
        return True
    if not is_integer(source) or is_bool(target):
        return False
    least, greatest = integer_limits(source)
    if is_integer(target):
        low, high = integer_limits(target)
        return low <= least and greatest <= high
    return type(target) in _MANTISSAS and max(-least, greatest) <= 2 ** _MANTISSAS[type(target)]


class CastOfCast(RewritePattern):
    """What a cast that loses nothing is cast to, it may be cast to at once."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if isinstance(inner, CastOp) and keeps_values(element_of(inner.input), element_of(inner.result)):
            if inner.input.type == op.result.type:
                rewriter.replace(op, [], [inner.input])
            else:
                _replace(rewriter, op, CastOp.create(operands=[inner.input], result_types=op.result_types))


# Arithmetic.

_IDEMPOTENT = frozenset(
    {
        ActivationKind.ABS,
        ActivationKind.RELU,
        ActivationKind.FLOOR,
        ActivationKind.CEIL,
        ActivationKind.ROUND,
        ActivationKind.SIGN,
    }
)


class ActivationOfActivation(RewritePattern):
    """What a second application of a function leaves alone, or takes back."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ActivationOp, rewriter: PatternRewriter) -> None:
        if not isinstance(inner := op.input.owner, ActivationOp):
            return
        outer, first = op.kind.data, inner.kind.data
        if outer is first and outer in _IDEMPOTENT:
            rewriter.replace(op, [], [inner.result])
        elif outer is first is ActivationKind.NEG:
            rewriter.replace(op, [], [inner.input])
        elif outer is ActivationKind.ABS and first is ActivationKind.NEG:
            _replace(rewriter, op, ActivationOp(ActivationKind.ABS, inner.input, result_type=op.result.type))


class BinaryWithConstant(RewritePattern):
    """x·1, x/1, x¹, x + nothing and x - nothing are x; x·(-1) is -x; 1/x is the reciprocal; x - c is x + (-c).

    A constant beside max or min is on the right.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BinaryOp, rewriter: PatternRewriter) -> None:
        lhs, rhs = op.operands
        if type(lhs.owner) not in _LEAVES and type(rhs.owner) not in _LEAVES:
            return
        kind = op.kind.data
        for value, other in ((rhs, lhs), (lhs, rhs)):
            number = scalar_value(value)
            if number is not None and _stays(op, other, value):
                second = value is rhs
                if _is_neutral(kind, number, second, other):
                    rewriter.replace(op, [], [other])
                    return
                if (activation := _as_activation(kind, number, second, is_float(element_of(other)))) is not None:
                    _replace(rewriter, op, ActivationOp(activation, other, result_type=op.result.type))
                    return
            if number and other is rhs and kind in (BinaryKind.MAX, BinaryKind.MIN) and scalar_value(other) is None:
                # With a zero, the order tells which of the two zeros comes out.
                _replace(rewriter, op, BinaryOp(kind, rhs, lhs, result_type=op.result.type))
                return
        if kind is BinaryKind.SUB and is_float(element_of(rhs)) and (array := constant_value(rhs)) is not None:
            negated = rewriter.insert(ConstantOp.of(-array, rhs.type))
            _replace(rewriter, op, BinaryOp(BinaryKind.ADD, lhs, negated, result_type=op.result.type))


def _stays(op: BinaryOp, other: SSAValue, value: SSAValue) -> bool:
    """Whether the result has the type of ``other``, ``value`` stretching nothing."""
    return op.result.type == other.type and shapes.broadcasts_to(shape_of(value), shape_of(other))


def _is_neutral(kind: BinaryKind, number: float, second: bool, other: SSAValue) -> bool:
    match kind:
        case BinaryKind.MUL:
            return number == 1
        case BinaryKind.DIV | BinaryKind.POW:
            return second and number == 1
        case BinaryKind.ADD:
            return number == 0 and (
                is_integer(element_of(other)) or bool(np.signbit(number)) or _never_minus_zero(other)
            )
        case BinaryKind.SUB:
            return second and number == 0 and (is_integer(element_of(other)) or not np.signbit(number))
        case _:
            return False


def _as_activation(kind: BinaryKind, number: float, second: bool, real: bool) -> ActivationKind | None:
    if kind is BinaryKind.MUL and number == -1:
        return ActivationKind.NEG
    if kind is BinaryKind.DIV and number == 1 and not second and real:
        return ActivationKind.RECIP
    return None


def _never_minus_zero(value: SSAValue) -> bool:
    """Whether -0.0, which + 0.0 would change, cannot be among the elements."""
    op = value.owner
    if isinstance(op, ActivationOp):
        return op.kind.data in (ActivationKind.ABS, ActivationKind.EXP, ActivationKind.SIGMOID)
    return isinstance(op, BinaryOp) and op.kind.data is BinaryKind.MUL and op.lhs is op.rhs


class ClampOfClamp(RewritePattern):
    """Two pairs of bounds are one; no bounds are none."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ClampOp, rewriter: PatternRewriter) -> None:
        low, high = op.min.value.data, op.max.value.data
        if (low, high) == (-np.inf, np.inf):
            rewriter.replace(op, [], [op.input])
        elif isinstance(inner := op.input.owner, ClampOp):
            bounds = [min(max(bound.value.data, low), high) for bound in (inner.min, inner.max)]
            _replace(rewriter, op, ClampOp(inner.input, *bounds))


class UnusedSum(RewritePattern):
    """A residual sum that nobody reads is not a result."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FusedResidualLnOp | FusedResidualRmsNormOp, rewriter: PatternRewriter) -> None:
        if op.sum is not None and op.sum.first_use is None:
            new = type(op)(
                op.x,
                op.residual,
                op.gamma,
                op.beta,
                eps=op.eps.value.data,
                bias=op.bias,
                result_type=op.result.type,
            )
            new.attributes |= op.attributes
            rewriter.replace(op, new, [new.result, None])


def _replace(rewriter: PatternRewriter, old: Operation, new: Operation) -> None:
    new.location = old.location
    new.attributes |= old.attributes
    rewriter.replace(old, new)


CLEANUPS: tuple[type[RewritePattern], ...] = (
    Fold,
    ReshapeOfReduce,
    ReshapeOfReshape,
    TransposeOfTranspose,
    NarrowOfNarrow,
    SliceToNarrow,
    ExpandOfExpand,
    BroadcastIntoElementwise,
    CastOfCast,
    ActivationOfActivation,
    BinaryWithConstant,
    ClampOfClamp,
    UnusedSum,
)
"""All of them, in the order in which they are tried."""
