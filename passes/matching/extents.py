"""Extents that are provably equal though they are only known at run time.

:func:`extents` gives an extent a symbol; equal symbols are equal extents at every call. An unknown extent of an
argument is a symbol of its own, and so is every one that an operation makes in a way that is not understood. In
between, a result's extent is a product of such symbols and a number: an element-wise operation keeps them, a reshape to
[-1, 8] multiplies them, a transpose moves them.

No rule is written down here. An operation's own shape rule is asked with a large prime in place of each symbol, and the
answer tells by its prime factors what it was made of. Another set of primes has to agree, and so have ones, because an
extent of 1 may be broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from math import isqrt
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue
from xdsl.traits import IsolatedFromAbove

from rlx_dialect.base import RlxOp, shape_of
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, is_static, product
from rlx_dialect.xdsl_compat import VerifyException, set_type

Atom = tuple[SSAValue, int]
"""An extent that is only itself: a value and its axis."""

FIRST_PRIME = 1_000_003
"""Larger than any extent that a shape rule adds or divides by."""


class Extent(NamedTuple):
    """A number of times a product of unknown extents; of no unknown ones when the extent is known."""

    coefficient: int
    atoms: tuple[tuple[Atom, int], ...] = ()
    """With their powers, in one order for all."""


Known = dict[SSAValue, tuple[Extent, ...]]
"""The answers so far; they stay right while values are only replaced by equal ones."""


def extents(value: SSAValue, known: Known | None = None) -> tuple[Extent, ...]:
    """The extents of a tensor. ``known`` keeps answers, which makes many questions about a graph linear in its size."""
    known = {} if known is None else known
    path = [value]
    while path:
        missing = _resolve(path[-1], known)
        if missing is None:
            path.pop()
        else:
            path.append(missing)
    return known[value]


def _resolve(value: SSAValue, known: Known) -> SSAValue | None:
    """Answer for ``value``, or say which operand's answer has to come first."""
    if value in known:
        return None
    op = value.owner
    if is_static(shape_of(value)) or not isinstance(op, RlxOp) or not _can_be_copied(op):
        known[value] = _as_typed(value)
        return None
    for operand in op.operands:
        if operand not in known:
            return operand
    known.update(zip(op.results, _of_results(op, known), strict=True))
    return None


def _can_be_copied(op: RlxOp) -> bool:
    """Whether a copy is no further user of values of the graph, which patterns count."""
    return not op.regions or op.has_trait(IsolatedFromAbove)


def _as_typed(value: SSAValue) -> tuple[Extent, ...]:
    """What the type alone says; an unknown extent is only itself."""
    return tuple(
        Extent(1, (((value, axis), 1),)) if extent == DYNAMIC else Extent(extent)
        for axis, extent in enumerate(shape_of(value))
    )


def _of_results(op: RlxOp, known: Known) -> list[tuple[Extent, ...]]:
    operands = [known[operand] for operand in op.operands]
    unknown = [any(extent.atoms for extent in operand) for operand in operands]
    results = [list(_as_typed(result)) for result in op.results]
    if not any(unknown):
        return [tuple(result) for result in results]
    asked = _Question(op, operands)
    # All at once; where extents have to be equal that may differ, the operands one by one.
    for chosen in (unknown, *([i == index for i in range(len(unknown))] for index, u in enumerate(unknown) if u)):
        answers = asked.answers(chosen)
        if answers is None:
            continue
        for result, answer in zip(results, answers, strict=True):
            for axis, found in enumerate(answer):
                if found is not None and _is_itself(result[axis], op):
                    result[axis] = found
        if chosen is unknown:
            break
    return [tuple(result) for result in results]


def _is_itself(extent: Extent, op: RlxOp) -> bool:
    return len(extent.atoms) == 1 and extent.atoms[0][0][0].owner is op


class _Question:
    """A copy of an operation, whose shape rule is asked with different operand types."""

    def __init__(self, op: RlxOp, operands: Sequence[tuple[Extent, ...]]):
        self.operands = operands
        atoms = list(dict.fromkeys(atom for operand in operands for e in operand for atom, _ in e.atoms))
        self.primes = tuple({atom: _prime(i + offset) for i, atom in enumerate(atoms)} for offset in (0, len(atoms)))
        self.block = Block(arg_types=[operand.type for operand in op.operands])
        self.copy = op.clone(dict(zip(op.operands, self.block.args, strict=True)))
        self.copy.operands = self.block.args

    def answers(self, chosen: Sequence[bool]) -> list[list[Extent | None]] | None:
        """What each extent of each result is, as far as that is understood; None if the rule refuses.

        Only the unknown extents of ``chosen`` operands get numbers, those of others stay unknown.
        """
        first, second = self.primes
        shapes, others = self._shapes(first, chosen), self._shapes(second, chosen)
        if shapes is None or others is None:
            return None
        answers: list[list[Extent | None]] = []
        for index, shape in enumerate(shapes):
            answers.append([])
            for axis, number in enumerate(shape):
                extent = None if number == DYNAMIC else _factorised(number, first)
                if extent is not None and (
                    others[index][axis] != _value(extent, second)
                    or not self._holds_for_ones(extent, index, axis, chosen)
                ):
                    extent = None
                answers[-1].append(extent)
        return answers

    def _holds_for_ones(self, extent: Extent, result: int, axis: int, chosen: Sequence[bool]) -> bool:
        """Whether the extent is that product, too, when all in it are 1, which is what may be broadcast."""
        if not extent.atoms:
            return True
        values = dict(self.primes[0]) | {atom: 1 for atom, _ in extent.atoms}
        shapes = self._shapes(values, chosen)
        return shapes is not None and shapes[result][axis] == extent.coefficient

    def _shapes(self, values: Mapping[Atom, int], chosen: Sequence[bool]) -> list[Shape] | None:
        for argument, operand, numbered in zip(self.block.args, self.operands, chosen, strict=True):
            if isinstance(argument.type, TensorType):
                shape = [_value(e, values) if numbered or not e.atoms else DYNAMIC for e in operand]
                set_type(argument, TensorType(argument.type.element_type, shape))
        try:
            types = self.copy.infer_types()
        except (ShapeError, VerifyException):
            return None
        return [type.get_shape() if isinstance(type, TensorType) else () for type in types]


def _value(extent: Extent, values: Mapping[Atom, int]) -> int:
    return extent.coefficient * product(values[atom] ** power for atom, power in extent.atoms)


def _factorised(extent: int, primes: Mapping[Atom, int]) -> Extent:
    atoms: list[tuple[Atom, int]] = []
    for atom, prime in primes.items():
        power = 0
        while extent and extent % prime == 0:
            extent //= prime
            power += 1
        if power:
            atoms.append((atom, power))
    return Extent(extent, tuple(sorted(atoms, key=lambda a: (id(a[0][0]), a[0][1]))))


@cache
def _prime(index: int) -> int:
    """The primes from FIRST_PRIME on."""
    start = FIRST_PRIME if index == 0 else _prime(index - 1) + 2
    return next(n for n in count(start, 2) if all(n % d for d in range(3, isqrt(n) + 1, 2)))
