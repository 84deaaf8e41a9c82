"""Operations in terms of simpler ones: how a compiler is spared what it lacks, or gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Operation, SSAValue

from rlx_dialect.lowering.arithmetic import Real
from rlx_dialect.operation import name_of
from rlx_dialect.xdsl_compat import Builder, InsertPoint, Rewriter

Expansion = Callable[[Operation, Builder], SSAValue | None]
"""Writes the same value at the builder; None where the operation may stay."""


def expand(root: Operation, table: Mapping[str, Expansion]) -> None:
    """Replace every operation under ``root`` whose name ``table`` has by its expansion, in place."""
    pending = [op for op in root.walk() if name_of(op) in table]
    while pending:
        op = pending.pop()
        before = op.prev_op
        value = table[name_of(op)](op, Builder(InsertPoint.before(op)))
        if value is None:
            continue
        # An expansion may use what is itself expanded.
        new = op.prev_op
        while new is not before and new is not None:
            if name_of(new) in table:
                pending.append(new)
            new = new.prev_op
        value.name_hint = op.results[0].name_hint
        Rewriter.replace_op(op, [], [value])


def floats(formula: Callable[..., Real], types: Sequence[AnyFloat] = (f32,)) -> Expansion:
    """An expansion of an operation on floats of ``types``; those of other floats stay."""

    def write(op: Operation, b: Builder) -> SSAValue | None:
        if op.results[0].type not in types:
            return None
        return formula(*(Real(o, b) for o in op.operands)).value

    return write


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Σ coefficients[i]·xⁱ by Horner's rule."""
    result = x.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result
