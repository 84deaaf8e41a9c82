"""``--check-rewrites``: every single rewrite is run before and after, on the spot, and a wrong one is an error.

The operations that a rewrite removed and those that it inserted become two functions of the values that both take from
outside, and those are run by the reference interpreter on random and on edge values. If they agree, the rewrite is
right, whatever surrounds it. If not, it may rely on what lies further up (a constant, a reshape that it looks through):
then the operations that compute the functions' arguments are taken in as well, further and further up. Only what
disagrees in the largest cut, where the arguments are those of the function around it, is a counterexample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import Array, is_narrow
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.passes.canonical._match import spacing
from rlx_dialect.passes.matching.numerics import (
    TOLERANCE,
    Difference,
    Numerics,
    difference,
    edges_for,
    has_narrow,
    widened,
)
from rlx_dialect.passes.matching.observe import Rewrite, observing
from rlx_dialect.pipelines.diagnostics import OptError, message
from rlx_dialect.samples import random_value
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import is_side_effect_free, print_module

SAMPLE_ELEMENTS, MOST_SAMPLES = 256, 64
"""So many elements of the largest argument are tried at least, in at most so many samples."""
SHOWN_ELEMENTS = 16
"""An argument of more elements is shown as its type only."""
CONSTANT_STEPS = 4
"""A constant of f16 or bf16, 1/6 say, is rounded also where all else is f32: values may be off by so many steps."""


@dataclass
class Checks:
    """What was checked so far."""

    checked: int = 0
    unchecked: list[str] = field(default_factory=list[str])
    """Rewrites that cannot be run, each with the reason."""

    def __str__(self) -> str:
        return "\n".join([f"{self.checked} rewrites checked, none wrong", *(f"not run: {u}" for u in self.unchecked)])


@contextmanager
def checking_rewrites(file: str) -> Iterator[Checks]:
    """Within, a rewrite that changes values by more than its numerics class allows raises OptError.

    The message names ``file``, or where in it the operation is, the pattern, both sides as modules, the arguments and
    the element that differs.
    """
    checks = Checks()

    def check(rewrite: Rewrite) -> None:
        outcome = check_rewrite(rewrite)
        match outcome:
            case None:
                checks.checked += 1
            case Unchecked():
                checks.unchecked.append(f"{rewrite.by}: {outcome.why}")
            case Counterexample():
                raise OptError(message(file, str(outcome), _site(rewrite)))

    with observing(check):
        yield checks


@dataclass(frozen=True)
class Unchecked:
    """A rewrite that cannot be run."""

    why: str


@dataclass(frozen=True)
class Counterexample:
    """Arguments for which the two sides of a rewrite differ."""

    rewrite: Rewrite
    before: ModuleOp
    after: ModuleOp
    values: Sequence[Array]
    difference: Difference | str

    def __str__(self) -> str:
        names = (argument.name_hint for argument in main_function(self.before).body.block.args)
        shown = (f"  %{name} = {_shown(value)}" for name, value in zip(names, self.values, strict=True))
        what = f"{self.rewrite.by} ({self.rewrite.numerics}) changes values: {self.difference}"
        sides = f"before:\n{print_module(self.before)}after:\n{print_module(self.after)}"
        return "\n".join([what, f"{sides}arguments:", *shown])


def _shown(value: Array) -> str:
    if value.size > SHOWN_ELEMENTS:
        return f"{value.dtype}{list(value.shape)}"
    return np.array2string(value, separator=", ", max_line_width=1000).replace("\n", "")


def _site(rewrite: Rewrite) -> Operation | None:
    return next((op for op in reversed(rewrite.inserted) if op.parent is not None), None)


def check_rewrite(rewrite: Rewrite) -> Unchecked | Counterexample | None:
    """None if the rewrite is right; else why it is not, or could not be run. To be asked before the next one."""
    if not rewrite.replaced:
        return None
    cut = _Cut(rewrite)
    steps = 1
    while True:
        outcome = cut.compare()
        if outcome is None or not cut.enlarge(steps):
            return outcome
        steps *= 2


class _Cut:
    """A rewrite with more or less of what computes its arguments."""

    def __init__(self, rewrite: Rewrite):
        self.rewrite = rewrite
        self.outside: set[Operation] = set()
        """Operations beside the rewrite that belong to both sides."""
        inserted: dict[SSAValue, Operation] = {result: op for op in rewrite.inserted for result in op.results}
        removed: dict[SSAValue, Operation] = {result: op for op in rewrite.removed for result in op.results}
        # What operations outside use now, and what they used before: they may lie between two parts of the rewrite.
        formerly = {new: old for old, new in rewrite.replaced if new in inserted and old in removed}
        # An operation that only moved is among the inserted ones, and removed ones may use it.
        self.old = _Side([old for old, _ in rewrite.replaced], inserted | removed, formerly)
        self.new = _Side([new for _, new in rewrite.replaced], inserted, {})

    def enlarge(self, steps: int) -> bool:
        """Take in what computes the arguments, so many times; whether there was anything."""
        before = len(self.outside)
        for _ in range(steps):
            _, _, arguments = self._sides()
            more = {op for value in arguments if (op := _computed_by(value)) is not None}
            if not more:
                break
            self.outside |= more
        return len(self.outside) > before

    def compare(self) -> Unchecked | Counterexample | None:
        """Run both sides."""
        old_ops, new_ops, arguments = self._sides()
        before, after = self.old.module(old_ops, arguments), self.new.module(new_ops, arguments)
        numerics, tolerance = self.rewrite.numerics, TOLERANCE
        if numerics is not Numerics.EXACT and (has_narrow(before) or has_narrow(after)):
            tolerance = max([TOLERANCE, *(CONSTANT_STEPS * spacing(c) for c in _narrow_constants(old_ops))])
            before, after = widened(before), widened(after)
        outcome: Unchecked | None = Unchecked("nothing was run")
        for values in _samples(before, numerics):
            named = {f"arg{i}": value for i, value in enumerate(values)}
            try:
                expected = run_reference(before, named)
            except Exception as error:  # Whatever it is, it was so before the rewrite.
                if outcome is not None:
                    outcome = Unchecked(f"{type(error).__name__}: {error}")
                continue
            outcome = None
            try:
                found = difference(run_reference(after, named), expected, numerics, tolerance)
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            if found is not None:
                return Counterexample(self.rewrite, before, after, values, found)
        return outcome

    def _sides(self) -> tuple[list[Operation], list[Operation], list[SSAValue]]:
        """The operations of both sides, and all values that they take from elsewhere."""
        arguments: dict[SSAValue, None] = {}
        return self.old.needed(self.outside, arguments), self.new.needed(self.outside, arguments), list(arguments)


def _narrow_constants(ops: Iterable[Operation]) -> list[Attribute]:
    """The narrow element types of the constants among ``ops``."""
    return [e for op in ops if isinstance(op, ConstantOp) and is_narrow(e := element_of(op.result))]


def _computed_by(value: SSAValue) -> Operation | None:
    op = value.owner
    return op if isinstance(op, Operation) and op.parent is not None and is_side_effect_free(op) else None


@dataclass(frozen=True)
class _Side:
    """One side of a rewrite."""

    outputs: Sequence[SSAValue]
    definitions: Mapping[SSAValue, Operation]
    """The operations that define its values."""
    renamed: Mapping[SSAValue, SSAValue]
    """Values that operations outside use, and what they used when this side was in place."""

    def needed(self, outside: Set[Operation], arguments: dict[SSAValue, None]) -> list[Operation]:
        """The operations that the outputs take, each after what it uses; ``arguments`` gets what they take besides.

        Operations of ``outside`` are taken in, others beside the rewrite are not.
        """
        done: dict[Operation, None] = {}
        path: dict[Operation | None, None] = {None: None}
        while path:
            op = next(reversed(path))
            missing = None
            for value in self.outputs if op is None else self._operands(op, outside):
                source = self._source(value, outside)
                if source is None:
                    arguments[value] = None
                elif source not in done:
                    missing = source
                    break
            if missing is not None:
                assert missing not in path, f"{missing.name} takes its own result"
                path[missing] = None
            else:
                del path[op]
                if op is not None:
                    done[op] = None
        return list(done)

    def _source(self, value: SSAValue, outside: Set[Operation]) -> Operation | None:
        if value in self.definitions:
            return self.definitions[value]
        return value.owner if isinstance(value.owner, Operation) and value.owner in outside else None

    def _operands(self, op: Operation, outside: Set[Operation]) -> list[SSAValue]:
        """The values that ``op``, or what its regions hold, takes from around it."""
        if op.regions:
            inner = [nested for nested in op.walk() if nested is not op]
            own = {value for nested in inner for value in nested.results}
            own |= {argument for block in op.walk_blocks() for argument in block.args}
            operands = [value for nested in (op, *inner) for value in nested.operands if value not in own]
        else:
            operands = list(op.operands)
        return [self.renamed.get(value, value) for value in operands] if op in outside else operands

    def module(self, ops: Sequence[Operation], arguments: Sequence[SSAValue]) -> ModuleOp:
        """A function of ``arguments`` that returns the outputs."""
        block = Block(arg_types=[value.type for value in arguments])
        values: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
        names: set[str] = set()
        for index, (argument, value) in enumerate(zip(block.args, arguments, strict=True)):
            name = value.name_hint
            argument.name_hint = name if name and name not in names else f"arg{index}"
            names.add(argument.name_hint)
        for op in ops:
            block.add_op(op.clone(values))
            values |= {new: values[old] for new, old in self.renamed.items() if old in op.results}
        returned = [values[value] for value in self.outputs]
        block.add_op(ReturnOp(*returned))
        types = [value.type for value in arguments], [value.type for value in returned]
        return ModuleOp([FuncOp("main", types, Region(block))])


def _samples(module: ModuleOp, numerics: Numerics) -> Iterator[list[Array]]:
    """Values for the arguments: ordinary ones, edges, and, where extents are unknown, some of these being 1."""
    types = [argument.type for argument in main_function(module).body.block.args]
    edges = edges_for(numerics)
    rng = np.random.default_rng(0)
    yield [random_value(type, rng) for type in types]
    yield [random_value(type, rng, edges=edges) for type in types]
    # Where edges meet edges; of small values more, until most pairs have met.
    values = [random_value(type, rng, edges=edges, share=1.0) for type in types]
    yield values
    for _ in range(min(MOST_SAMPLES, SAMPLE_ELEMENTS // max([1, *(value.size for value in values)]))):
        yield [random_value(type, rng, edges=edges, share=1.0) for type in types]
    if any(isinstance(type, TensorType) and DYNAMIC in type.get_shape() for type in types):
        yield [random_value(type, rng, dynamic=1 if rng.random() < 0.5 else 3) for type in types]
