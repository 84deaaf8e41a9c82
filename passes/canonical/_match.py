"""Formulas as patterns: a spelling of a function is written as the formula that it is.

``x * sigmoid(x)`` builds a :class:`Term`, and :func:`matches` gives every way in which a value is computed by it.
Sums, products, maxima and minima are matched in both orders, a term that occurs twice must be one value, and a
number stands for a constant of that one number, which may be expanded or reshaped.

Formulas are written for what the clean-ups leave: x - c is x + (-c), 1/x is the reciprocal, x·(-1) is neg x, and a
constant beside a maximum or minimum stands on the right (but 0, where the order tells which zero comes out).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, bf16
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind, ReduceKind
from rlx_dialect.base import RlxOp
from rlx_dialect.canonicalization import scalar_value
from rlx_dialect.dtypes import is_float, round_to
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, ClampOp, CompareOp, WhereOp
from rlx_dialect.ops.reduction import ReduceOp
from rlx_dialect.ops.shape import ExpandOp, ReshapeOp

Kind = ActivationKind | BinaryKind | CompareKind | ReduceKind


class Term:
    """A formula. Each object stands for one value, wherever it occurs."""

    def __add__(self, other: Factor) -> Term:
        return _binary(BinaryKind.ADD, self, other)

    def __radd__(self, other: float) -> Term:
        return self + other

    def __mul__(self, other: Factor) -> Term:
        return _binary(BinaryKind.MUL, self, other)

    def __rmul__(self, other: float) -> Term:
        return self * other

    def __sub__(self, other: Term) -> Term:
        return _binary(BinaryKind.SUB, self, other)

    def __truediv__(self, other: Factor) -> Term:
        return _binary(BinaryKind.DIV, self, other)

    def __pow__(self, other: float) -> Term:
        return _binary(BinaryKind.POW, self, other)


Factor = Term | float


class Var(Term):
    """Any value."""


class Number(Term):
    """Any constant of one number."""


class Const(Term):
    """A constant that is this number, as precisely as its element type holds it."""

    def __init__(self, number: float):
        self.number = number


class Either(Term):
    """One of several spellings, tried in this order."""

    def __init__(self, *alternatives: Term):
        self.alternatives = alternatives


class Apply(Term):
    """The result of an operation of class ``op_type`` of that kind; ``test`` looks at its other properties."""

    def __init__(
        self,
        op_type: type[RlxOp],
        kind: Kind | None,
        *operands: Term,
        commutes: bool = False,
        test: Callable[[RlxOp], bool] | None = None,
    ):
        self.op_type = op_type
        self.kind = kind
        self.operands = operands
        self.orders = (operands, operands[::-1]) if commutes else (operands,)
        self.test = test


COMMUTATIVE = frozenset({BinaryKind.ADD, BinaryKind.MUL})


def term(value: Factor) -> Term:
    return value if isinstance(value, Term) else Const(value)


def _binary(kind: BinaryKind, lhs: Factor, rhs: Factor) -> Term:
    return Apply(BinaryOp, kind, term(lhs), term(rhs), commutes=kind in COMMUTATIVE)


def unary(kind: ActivationKind) -> Callable[[Term], Term]:
    return lambda x: Apply(ActivationOp, kind, x)


erf = unary(ActivationKind.ERF)
exp = unary(ActivationKind.EXP)
log = unary(ActivationKind.LOG)
neg = unary(ActivationKind.NEG)
absolute = unary(ActivationKind.ABS)
recip = unary(ActivationKind.RECIP)
relu = unary(ActivationKind.RELU)
rsqrt = unary(ActivationKind.RSQRT)
sigmoid = unary(ActivationKind.SIGMOID)
hard_sigmoid = unary(ActivationKind.HARD_SIGMOID)
softplus = unary(ActivationKind.SOFTPLUS)
sqrt = unary(ActivationKind.SQRT)
tanh = unary(ActivationKind.TANH)


def maximum(lhs: Factor, rhs: Factor) -> Term:
    """In this order."""
    return _binary(BinaryKind.MAX, lhs, rhs)


def minimum(lhs: Factor, rhs: Factor) -> Term:
    """In this order."""
    return _binary(BinaryKind.MIN, lhs, rhs)


def clamp(x: Term, low: float | None = None, high: float | None = None) -> Term:
    """With these bounds, or with any."""

    def test(op: RlxOp) -> bool:
        return isinstance(op, ClampOp) and (low is None or (op.min.value.data, op.max.value.data) == (low, high))

    return Apply(ClampOp, None, x, test=test)


def compare(kind: CompareKind, lhs: Factor, rhs: Factor) -> Term:
    return Apply(CompareOp, kind, term(lhs), term(rhs))


def where(condition: Term, on_true: Factor, on_false: Factor) -> Term:
    return Apply(WhereOp, None, condition, term(on_true), term(on_false))


def reduce(kind: ReduceKind, x: Term) -> Term:
    """Along any axes; which they are is for the pattern to ask."""
    return Apply(ReduceOp, kind, x)


def square(x: Term) -> Term:
    return Either(x * x, x**2)


def cube(x: Term) -> Term:
    return Either(x**3, square(x) * x)


def scaled(x: Term, factor: float) -> Term:
    return Either(x * factor, x / (1 / factor))


def product(*factors: Factor) -> Term:
    """The product in whatever order it is formed; a number may be divided by instead."""
    if len(factors) == 1:
        return term(factors[0])
    if len(factors) == 2:
        numbers = [f for f in factors if not isinstance(f, Term)]
        terms = [f for f in factors if isinstance(f, Term)]
        return scaled(terms[0], numbers[0]) if numbers else terms[0] * terms[1]
    # Every way to part them in two; the first one is always in the first part.
    first, *others = factors
    places = range(len(others))
    parts = [
        ([first, *(others[i] for i in chosen)], [others[i] for i in places if i not in chosen])
        for size in range(len(others))
        for chosen in combinations(places, size)
    ]
    return Either(*(product(_joined(a), _joined(b)) for a, b in parts))


def _joined(factors: Sequence[Factor]) -> Factor:
    return factors[0] if len(factors) == 1 else product(*factors)


def inverse_root(x: Term) -> Term:
    return Either(rsqrt(x), recip(root(x)), x**-0.5)


def root(x: Term) -> Term:
    return Either(sqrt(x), x**0.5)


# Matching.


@dataclass(frozen=True)
class Bindings:
    """What the terms of a formula stand for."""

    values: Mapping[Term, SSAValue] = field(default_factory=dict[Term, SSAValue])
    ops: tuple[Operation, ...] = ()
    """The operations, each before those that compute its operands for the first time; the last one's is first."""
    numbers: tuple[tuple[SSAValue, float | None], ...] = ()
    """Constants, and what they have to be."""

    def bind(self, term: Term, value: SSAValue) -> Bindings:
        return Bindings({**self.values, term: value}, self.ops, self.numbers)


def matches(term: Term, value: SSAValue, known: Bindings = Bindings()) -> Iterator[Bindings]:
    """Every way in which ``value`` is what ``term`` says; whether constants are the right numbers is not asked yet."""
    if isinstance(term, Const):
        if scalar_value(value) is not None:
            yield Bindings(known.values, known.ops, (*known.numbers, (value, term.number)))
        return
    if (before := known.values.get(term)) is not None:
        if before is value or (isinstance(term, Number) and scalar_value(before) == scalar_value(value)):
            yield known
        return
    if isinstance(term, Apply):
        yield from _applied(term, value, known)
    elif isinstance(term, Either):
        for alternative in term.alternatives:
            for found in matches(alternative, value, known):
                yield found.bind(term, value)
    elif isinstance(term, Var):
        yield known.bind(term, value)
    elif scalar_value(value) is not None:
        yield Bindings({**known.values, term: value}, known.ops, (*known.numbers, (value, None)))


def _applied(term: Apply, value: SSAValue, known: Bindings) -> Iterator[Bindings]:
    op = value.owner
    if not isinstance(op, term.op_type) or kind_of(op) is not term.kind or (term.test and not term.test(op)):
        return
    start = Bindings({**known.values, term: value}, (*known.ops, op), known.numbers)
    operands = list(op.operands)
    for order in term.orders:
        states = [start]
        for part, operand in zip(order, operands, strict=True):
            states = [found for state in states for found in matches(part, operand, state)]
        yield from states


def kind_of(op: Operation) -> Kind | None:
    kind = op.properties.get("kind")
    return None if kind is None else kind.data  # pyright: ignore[reportAttributeAccessIssue]


def is_number(value: SSAValue, wanted: float, element: Attribute) -> bool:
    """Whether a constant of one number is ``wanted``, as precisely as its type holds numbers.

    A number of few digits, such as 1 or 0.5, must be exactly that. Any other one may be off by one unit in the last
    place, because exporters round it on the way.
    """
    found = scalar_value(value)
    if found is None or not is_float(element) or float(round_to(np.asarray(wanted), bf16)) == wanted:
        return found == wanted
    return abs(found - wanted) <= spacing(element) * abs(wanted)


_SPACINGS: dict[type[Attribute], float] = {
    BFloat16Type: 2.0**-7,
    Float16Type: 2.0**-10,
    Float32Type: 2.0**-23,
    Float64Type: 2.0**-52,
}


def spacing(element: Attribute) -> float:
    """The distance of 1 and the next greater number of a float type."""
    return _SPACINGS[type(element)]


# Which formulas are worth a try at a value.

Signature = tuple[type[Operation], Kind | None]
_NUMBER: Signature = (ConstantOp, None)
_NUMBERS = frozenset({ConstantOp, ExpandOp, ReshapeOp})


def signature(value: SSAValue) -> Signature | None:
    """What can be seen at once of how ``value`` is computed; None if it is a block's argument."""
    op = value.owner
    if not isinstance(op, Operation):
        return None
    return _NUMBER if type(op) in _NUMBERS else (type(op), kind_of(op))


def signatures(term: Term) -> frozenset[Signature] | None:
    """Those that a value of ``term`` can have; None if it can be anything."""
    match term:
        case Apply():
            return frozenset({(term.op_type, term.kind)})
        case Either():
            parts = [signatures(alternative) for alternative in term.alternatives]
            return None if None in parts else frozenset().union(*(p for p in parts if p is not None))
        case Number() | Const():
            return frozenset({_NUMBER})
        case _:
            return None
