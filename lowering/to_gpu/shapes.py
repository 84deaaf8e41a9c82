"""The extents of every value of a graph in terms of those of its arguments.

No shape rule is written down here. An operation's own rule is asked with large numbers in place of unknown extents,
and its answers tell the formula: a product (by the prime factors), or a sum of multiples that is divided by a number
and rounded down (by how the answer grows). Other numbers have to agree. Where the rule refuses numbers that differ, the
extents have to be equal: one takes the place of the other, and the host function checks it when it runs; or the one
has to be larger, which is checked too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from graphlib import TopologicalSorter
from itertools import combinations
from math import lcm
from typing import Literal

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from rlx_dialect.base import RlxOp, shape_of
from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.to_gpu.extents import Dim, Extent, Shape, Sym, dims, is_known, product, substitute, symbol
from rlx_dialect.ops.shape import ReshapeOp
from rlx_dialect.shapes import DYNAMIC, ShapeError
from rlx_dialect.xdsl_compat import VerifyException, set_type

PRIMES = (1_000_003, 1_100_009, 1_200_007, 1_300_021, 1_400_017, 1_500_007, 1_600_033, 1_700_021, 1_800_017, 1_900_009)
OTHERS = (2_000_003, 2_100_001, 2_200_013, 2_300_003, 2_400_001, 2_500_009, 2_600_011, 2_700_023, 2_800_001, 2_900_017)
"""Larger than any extent that a shape rule adds or divides by, and as far from each other."""

STEP = 5040
"""A multiple of what a shape rule divides by."""


@dataclass(frozen=True)
class Check:
    """Two extents that have to be equal when the graph runs, or of which the left one has to be at least the right."""

    left: Extent
    right: Extent
    message: str
    relation: Literal["eq", "sge"] = "eq"


class _Unified(Exception):
    """Extents were found to be equal: what was said with the one has to be said with the other."""


class Shapes:
    """The extents of the values of ``function``, which holds no operations but RLX's and ``func.return``."""

    def __init__(self, function: FuncOp):
        self.checks: list[Check] = []
        self.problems: dict[Operation, str] = {}
        self._function = function
        self._equal: dict[Dim, Extent] = {}
        self._known: dict[SSAValue, Shape] = {}
        while True:
            self._known.clear()
            self.problems.clear()
            try:
                self._walk()
            except _Unified:
                continue
            return

    def of(self, value: SSAValue) -> Shape:
        """The extents of a tensor; raises NotLowered where they could not be told."""
        if value not in self._known:
            raise NotLowered(f"the extents of {value.type} are not known")
        return self._known[value]

    def _walk(self) -> None:
        block = self._function.body.block
        for argument in block.args:
            if isinstance(argument.type, TensorType):
                self._known[argument] = tuple(
                    substitute(symbol(Dim(argument.index, axis)), self._equal) if e == DYNAMIC else e
                    for axis, e in enumerate(shape_of(argument))
                )
        for op in block.ops:
            if isinstance(op, RlxOp):
                try:
                    self._of_results(op)
                except NotLowered as error:
                    self.problems[op] = str(error)

    def _of_results(self, op: RlxOp) -> None:
        operands = [self.of(o) for o in op.operands]
        if all(map(is_known, operands)):
            # Nothing unknown comes in, but an operand's extent may be known better than its type.
            found: Sequence[Shape | None] = [shape_of(r) for r in op.results]
            if any(DYNAMIC in shape_of(r) for r in op.results):
                found = _Rule(op, operands).shapes({}) or found
        elif isinstance(op, ReshapeOp):
            found = [self._reshaped(op, operands[0])]
        else:
            found = self._asked(op, operands)
        for result, shape in zip(op.results, found, strict=True):
            if shape is None or DYNAMIC in shape:
                raise NotLowered(f"it is not understood how the extents of {result.type} depend on the arguments")
            for extent, stated in zip(shape, shape_of(result), strict=True):
                if stated != DYNAMIC:
                    self._must_equal(extent, stated, op)
            self._known[result] = tuple(
                e if stated == DYNAMIC else stated for e, stated in zip(shape, shape_of(result), strict=True)
            )

    def _reshaped(self, op: ReshapeOp, source: Shape) -> Shape:
        wanted = list(op.new_shape.get_values())
        known, count = product(d for d in wanted if d != -1), product(source)
        if -1 not in wanted:
            self._must_equal(count, known, op)
            return tuple(wanted)
        self._must_equal(count % known, 0, op)
        return tuple(count // known if d == -1 else d for d in wanted)

    def _asked(self, op: RlxOp, operands: Sequence[Shape]) -> list[Shape | None]:
        rule = _Rule(op, operands)
        # Of more unknown extents than there are numbers, some are mostly equal.
        if len(rule.unknown) > len(PRIMES) or rule.answer(PRIMES) is None:
            self._unify(op, rule, operands)
        if rule.answer(PRIMES) is None:
            self._follow(op, rule)
        return rule.formulas()

    def _unify(self, op: RlxOp, rule: _Rule, operands: Sequence[Shape]) -> None:
        """Find what must be equal, or how much larger, for the rule to hold."""
        smaller: dict[Sym, set[Sym]] = {a: set() for a in rule.unknown}
        for a, b in combinations(rule.unknown, 2):
            if rule.holds({a: PRIMES[0], b: PRIMES[1]}):
                continue
            if (excess := rule.excess(a, b)) is not None:
                least = b + excess
                self._check(Check(a, least, f"{op.name}: extent {a} must be at least {least}", "sge"))
                smaller[a].add(b)
            elif rule.holds({a: PRIMES[0], b: PRIMES[0]}):
                self._must_equal(a, b, op)
        # Numbers grow in this order.
        rule.unknown = list(TopologicalSorter(smaller).static_order())
        numbers = {e for shape in operands for e in shape if isinstance(e, int) and e > 1}
        bounded: set[Sym] = set()
        for a in rule.unknown:
            if rule.holds({a: PRIMES[0]}):
                continue
            if (most := rule.most(a)) is not None:
                self._check(Check(most, a, f"{op.name}: extent {a} must be at most {most}", "sge"))
                bounded.add(a)
                continue
            fitting = [n for n in sorted(numbers) if rule.holds({a: n})]
            if len(fitting) != 1:
                raise _not_understood(a)
            if rule.holds({a: 1}):
                # It is broadcast where it is 1; see View.broadcast.
                self._check(Check((a - 1) * (a - fitting[0]), 0, f"{op.name}: an extent must be 1 or {fitting[0]}"))
                rule.fixed[a] = fitting[0]
            else:
                self._must_equal(a, fitting[0], op)
        rule.unknown = [a for a in rule.unknown if a not in bounded]

    def _follow(self, op: RlxOp, rule: _Rule) -> None:
        """Find which extents have to be the results': those of what is added to a convolution."""
        following: list[Sym] = []
        while (numbers := rule.answer(PRIMES)) is None:
            if not rule.unknown:
                raise NotLowered("it is not understood what its extents have to be")
            following.append(rule.unknown.pop())
        understood = [
            (formula, n)
            for shape, extents in zip(rule.formulas(), numbers, strict=True)
            if shape is not None
            for formula, n in zip(shape, extents, strict=True)
        ]
        for a in following:
            fitting = {formula for formula, n in understood if rule.holds({**rule.numbers(PRIMES), a: n})}
            if len(fitting) != 1:
                raise _not_understood(a)
            self._must_equal(a, fitting.pop(), op)

    def _must_equal(self, a: Extent, b: Extent, op: Operation) -> None:
        """Note that two extents are equal; raises _Unified where one takes the other's place from now on."""
        if a == b:
            return
        difference = a - b
        if isinstance(difference, int):
            raise NotLowered(f"extents {a} and {b} differ")
        self._check(Check(a, b, f"{op.name}: extents {a} and {b} must be equal"))
        for one, other in ((b, a), (a, b)):
            if isinstance(one, Sym) and (dim := _only(one)) is not None and dim not in dims(other):
                self._equal = {d: substitute(e, {dim: other}) for d, e in self._equal.items()} | {dim: other}
                raise _Unified
        if isinstance(difference, Sym) and (solved := _solved(difference)) is not None:
            self._equal = {d: substitute(e, dict([solved])) for d, e in self._equal.items()} | dict([solved])
            raise _Unified

    def _check(self, check: Check) -> None:
        if check not in self.checks:
            self.checks.append(check)


def _only(extent: Sym) -> Dim | None:
    """The Dim that ``extent`` is."""
    (monomial, coefficient), *rest = extent.terms
    if rest or coefficient != 1 or len(monomial) != 1 or not isinstance(monomial[0], Dim):
        return None
    return monomial[0]


def _solved(zero: Sym) -> tuple[Dim, int] | None:
    """The number that an extent must be for ``zero`` to be 0, where it is the only unknown."""
    (monomial, coefficient), *rest = zero.terms
    if len(monomial) != 1 or not isinstance(dim := monomial[0], Dim) or any(m for m, _ in rest):
        return None
    constant = sum(c for _, c in rest)
    return (dim, -constant // coefficient) if constant % coefficient == 0 and -constant // coefficient >= 0 else None


def _not_understood(extent: Sym) -> NotLowered:
    where = "dA.B is axis B of argument A; with a number there it is lowered"
    return NotLowered(f"it is not understood what the extent {extent} has to be ({where})")


class _Rule:
    """A copy of an operation, whose shape rule is asked with different numbers for unknown extents."""

    def __init__(self, op: RlxOp, operands: Sequence[Shape]):
        self.operands = operands
        self.unknown: list[Sym] = list(dict.fromkeys(e for s in operands for e in s if isinstance(e, Sym)))
        self.fixed: dict[Sym, int] = {}
        """What may be 1 or this number, and is asked as this number."""
        block = Block(arg_types=[operand.type for operand in op.operands])
        self.arguments = block.args
        self.copy = op.clone(dict(zip(op.operands, block.args, strict=True)))
        self.copy.operands = block.args

    def shapes(self, numbers: Mapping[Sym, int]) -> list[tuple[int, ...]] | None:
        """The shapes of the results, with DYNAMIC for what has no number; None where the rule refuses."""
        for argument, shape in zip(self.arguments, self.operands, strict=True):
            if isinstance(argument.type, TensorType):
                known = [e if isinstance(e, int) else numbers.get(e, DYNAMIC) for e in shape]
                set_type(argument, TensorType(argument.type.element_type, known))
        try:
            self.copy.check()
            types = self.copy.infer_types()
        except (ShapeError, VerifyException):
            return None
        return [type.get_shape() if isinstance(type, TensorType) else () for type in types]

    def holds(self, numbers: Mapping[Sym, int]) -> bool:
        return self.shapes(numbers) is not None

    def excess(self, a: Sym, b: Sym) -> int | None:
        """By how much ``a`` has to be larger than ``b`` at least; None where it may not be larger, or it depends."""

        def enough(excess: int, b_: int = PRIMES[0]) -> bool:
            return self.holds({a: b_ + excess, b: b_})

        limit = PRIMES[1] - PRIMES[0]
        least = bisect_left(range(limit), True, key=enough)
        linear = least < limit and (least == 0 or not enough(least - 1, OTHERS[0])) and enough(least, OTHERS[0])
        return least if linear and enough(limit) else None

    def most(self, a: Sym) -> int | None:
        """The largest that ``a`` may be, where it may be anything from 0 on."""
        least = bisect_left(range(PRIMES[0]), True, key=lambda n: not self.holds({a: n}))
        return least - 1 if least > 1 and self.holds({a: 0}) and self.holds({a: 1}) else None

    def numbers(self, values: Sequence[int]) -> dict[Sym, int]:
        return dict(zip(self.unknown, values, strict=False)) | self.fixed

    def answer(self, values: Sequence[int]) -> list[tuple[int, ...]] | None:
        if len(self.unknown) > len(values):
            raise NotLowered(f"it has more than {len(values)} different unknown extents")
        return self.shapes(self.numbers(values))

    def formulas(self) -> list[Shape | None]:
        """The shapes of the results, None where they are not understood."""
        first, second = self.answer(PRIMES), self.answer(OTHERS)
        if first is None or second is None:
            return [None] * len(self.copy.results)
        shapes: list[Shape | None] = []
        for index, shape in enumerate(first):
            extents = [self._formula(index, axis, n, second[index][axis]) for axis, n in enumerate(shape)]
            shapes.append(None if None in extents else tuple(e for e in extents if e is not None))
        return shapes

    def _formula(self, result: int, axis: int, first: int, second: int) -> Extent | None:
        if first == second:
            return None if first == DYNAMIC else first
        for candidate in self._candidates(result, axis, first):
            if candidate(OTHERS) == second:
                return candidate(tuple(self.fixed.get(s, s) for s in self.unknown))
        return None

    def _candidates(self, result: int, axis: int, first: int) -> Iterator[Callable[[Sequence[Extent]], Extent]]:
        yield self._product(first)
        line = self._line(result, axis, first)
        if line is not None:
            yield line

    def _product(self, number: int) -> Callable[[Sequence[Extent]], Extent]:
        powers: list[int] = []
        for prime in PRIMES[: len(self.unknown)]:
            powers.append(0)
            while number and number % prime == 0:
                number //= prime
                powers[-1] += 1

        def value(values: Sequence[Extent]) -> Extent:
            return number * product(v for v, p in zip(values, powers, strict=False) for _ in range(p))

        return value

    def _line(self, result: int, axis: int, first: int) -> Callable[[Sequence[Extent]], Extent] | None:
        """floor((Σ aᵢ·vᵢ + b) / d)."""
        start = list(PRIMES[: len(self.unknown)])

        def at(index: int, shift: int) -> int | None:
            moved = [v + shift if i == index else v for i, v in enumerate(start)]
            shapes = self.answer(moved)
            return None if shapes is None else shapes[result][axis]

        slopes: list[Fraction] = []
        for index in range(len(start)):
            there = at(index, STEP)
            if there is None:
                return None
            slopes.append(Fraction(there - first, STEP))
        divisor = lcm(*(s.denominator for s in slopes))
        factors = [int(s * divisor) for s in slopes]
        if divisor > 64 or min(factors) < 0:
            return None
        # Every number of a whole period narrows down what is added before the division.
        low, high = None, None
        for index, factor in enumerate(factors):
            for shift in range(divisor if factor else 0):
                there = at(index, shift)
                if there is None:
                    return None
                least = divisor * there - sum(f * v for f, v in zip(factors, start, strict=True)) - factor * shift
                low = least if low is None else max(low, least)
                high = least + divisor - 1 if high is None else min(high, least + divisor - 1)
        if low is None or low != high:
            return None
        added = low
        return lambda values: (sum((f * v for f, v in zip(factors, values, strict=False)), start=added)) // divisor
