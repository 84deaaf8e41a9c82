"""Reductions over axes, and softmax. f16 and bf16 are gathered in f32 and rounded at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, ReduceKind
from rlx_dialect.base import element_of
from rlx_dialect.dtypes import is_unsigned, wide_element
from rlx_dialect.lowering import scalar
from rlx_dialect.lowering.arithmetic import constant, convert_float, signless
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.tensors import Read
from rlx_dialect.ops.reduction import COMBINES, ReduceOp, SoftmaxOp
from rlx_dialect.xdsl_compat import Builder

Term = Callable[[Builder, list[SSAValue]], SSAValue]


def reduced(
    c: Conversion,
    kind: ReduceKind,
    element: Attribute,
    loops: Sequence[Extent],
    reads: Sequence[Read],
    axes: Sequence[int],
    term: Term | None = None,
    *,
    barrier: bool = False,
) -> SSAValue:
    """The terms joined over the loops ``axes``; a mean is their sum. The element type is the wide one.

    A term is made of one element of each read, widened, and by default is that of the first. ``element`` is the RLX
    element type, whose sign counts.
    """
    unsigned = is_unsigned(element)

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        *wide, total = [*(scalar.widen(e, b) for e in elements[:-1]), elements[-1]]
        value = wide[0] if term is None else term(b, wide)
        return scalar.binary(COMBINES[kind], total, value, b, unsigned=unsigned)

    start = scalar.neutral(COMBINES[kind], element)
    inputs = [(r.value, r.access) for r in reads]
    return c.generic(loops, inputs, wide_element(signless(element)), body, reduced=axes, start=start, barrier=barrier)


def whole(c: Conversion, value: SSAValue) -> Read:
    """``value`` read by one loop an axis."""
    return Read(value, tuple(range(len(c.extents(value)))))


def without(rank: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The loops that are left, as the access to what was reduced over ``axes``."""
    return tuple(a for a in range(rank) if a not in axes)


def divided_by_count(c: Conversion, sums: SSAValue, counted: Sequence[Extent]) -> SSAValue:
    """Sums of floats divided by the product of the extents ``counted``."""
    element, count = element_of(sums), c.extent(c.symbols.of(counted))

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        return scalar.binary(BinaryKind.DIV, elements[0], count_as(element, count, b), b)

    return c.elementwise(c.extents(sums), [sums], element, body)


def count_as(element: Attribute, count: Extent, b: Builder) -> SSAValue:
    """An extent as a float."""
    if isinstance(count, int):
        return constant(count, element, b)
    assert isinstance(element, AnyFloat)
    return b.insert(arith.SIToFPOp(b.insert(arith.IndexCastOp(count, IntegerType(64))).result, element)).result


@lowers(ReduceOp)
def reduce(op: ReduceOp, c: Conversion) -> SSAValue:
    x, axes, kind = c.value(op.input), op.axis_indices, op.kind.data
    if not axes:
        return x
    loops = c.extents(x)
    value = reduced(c, kind, op.element(0), loops, [whole(c, x)], axes)
    if kind is ReduceKind.MEAN:
        value = divided_by_count(c, value, [loops[a] for a in axes])
    value = c.narrowed(value, element_of(x))
    return value if op.keep_dim is None else c.reshape(value, [1 if a in axes else e for a, e in enumerate(loops)])


@lowers(SoftmaxOp)
def softmax(op: SoftmaxOp, c: Conversion) -> SSAValue:
    x, axis = c.value(op.input), op.axis_index
    element, wide = element_of(x), wide_element(element_of(x))
    loops = c.extents(x)
    rows = without(len(loops), [axis])
    greatest = reduced(c, ReduceKind.MAX, element, loops, [whole(c, x)], [axis])

    def power(b: Builder, elements: list[SSAValue]) -> SSAValue:
        shifted = scalar.binary(BinaryKind.SUB, scalar.widen(elements[0], b), elements[1], b)
        return scalar.activation(ActivationKind.EXP, shifted, b)

    def share(b: Builder, elements: list[SSAValue]) -> SSAValue:
        return convert_float(scalar.binary(BinaryKind.DIV, elements[0], elements[1], b), element, b)

    # IREE 3.13 would keep a row of unknown length on the stack, were its parts fused.
    unknown = not isinstance(loops[axis], int)
    powers = c.elementwise(loops, [x, Read(greatest, rows)], wide, power, barrier=unknown)
    total = reduced(c, ReduceKind.SUM, wide, loops, [whole(c, powers)], [axis], barrier=unknown)
    return c.elementwise(loops, [powers, Read(total, rows)], element, share)
