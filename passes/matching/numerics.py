"""How far a rewrite may change values: the class that every fusion declares, and whether values keep to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import Array, is_narrow, wide_element
from rlx_dialect.ops.constant import ConstantOp, dense_elements
from rlx_dialect.samples import EDGES
from rlx_dialect.xdsl_compat import set_type


class Numerics(StrEnum):
    """How the values of a fused graph may differ from those of the graph before, for finite and other values.

    From the strictest to the loosest; each allows what those before it allow.
    """

    EXACT = "exact"
    """Not at all."""
    WIDER = "wider"
    """Intermediate values are kept in a wider type, and rounded once instead of after each operation."""
    REASSOCIATED = "reassociated"
    """Sums are formed in another order."""
    NAN_POLICY = "nan-policy"
    """NaN, infinities or signed zeros may come out otherwise."""


TOLERANCE = 1e-4
"""Relative and absolute, of sums in another order."""
HUGE = 1e30
"""What is larger may as well overflow when it is computed in another order."""


@dataclass(frozen=True)
class Difference:
    """Where values differ by more than their class allows. The values are None where the shapes or types differ."""

    result: int
    index: tuple[int, ...]
    found: object
    expected: object

    def __str__(self) -> str:
        place = f"result #{self.result}" + (f" at {list(self.index)}" if self.index else "")
        return f"{place} is {self.found} instead of {self.expected}"


def difference(
    found: Sequence[Array], expected: Sequence[Array], numerics: Numerics, tolerance: float = TOLERANCE
) -> Difference | None:
    """The first element by which ``found`` is further from ``expected`` than ``numerics`` allows.

    For ``wider`` values have to be those of programs that were :func:`widened`.
    """
    assert len(found) == len(expected)
    for index, (f, e) in enumerate(zip(found, expected, strict=True)):
        if f.shape != e.shape or f.dtype != e.dtype:
            return Difference(index, (), f"{f.dtype}{list(f.shape)}", f"{e.dtype}{list(e.shape)}")
        wrong = ~_agree(f, e, numerics, tolerance)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            return Difference(index, place, f[place], e[place])
    return None


def _agree(found: Array, expected: Array, numerics: Numerics, tolerance: float) -> NDArray[np.bool_]:
    """Where ``found`` is near enough."""
    if found.dtype.kind == "c":
        parts = ((np.real(found), np.real(expected)), (np.imag(found), np.imag(expected)))
        return np.logical_and(*(_agree(f, e, numerics, tolerance) for f, e in parts))
    if found.dtype.kind != "f":
        return np.asarray(found == expected)
    with np.errstate(all="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        if numerics in (Numerics.EXACT, Numerics.WIDER):
            return np.asarray(same & ((found != 0) | (np.signbit(found) == np.signbit(expected))))
        finite = np.isfinite(expected)
        # Where large terms cancel, what is left of their rounding is large too.
        scale = np.max(np.abs(expected), where=finite & (np.abs(expected) < HUGE), initial=0.0)
        near = finite & (np.abs(found - expected) <= tolerance * (1 + np.abs(expected) + 0.1 * scale))
        huge = (np.abs(found) >= HUGE) & (np.abs(expected) >= HUGE) & (np.sign(found) == np.sign(expected))
        close = same | near | huge
        return np.asarray(close | ~finite if numerics is Numerics.NAN_POLICY else close)


def edges_for(numerics: Numerics) -> tuple[float, ...]:
    """The edge values to try: without those whose sums and products overflow or vanish in one order only.

    Nor, for ``nan-policy``, those that are not finite or of which exp overflows: without the maximum, a softmax of a
    large value is 0 where it should be 1, and where(x > 0, x, 0) has no NaN.
    """
    if numerics in (Numerics.EXACT, Numerics.WIDER):
        return EDGES
    if numerics is Numerics.NAN_POLICY:
        return tuple(x for x in EDGES if x == 0 or abs(x) == 1)
    return tuple(x for x in EDGES if not 0 < abs(x) < 1e-9 and not 1e9 < abs(x) < np.inf)


def has_narrow(root: Operation) -> bool:
    """Whether any value in ``root`` is of f16 or bf16."""
    return any(is_narrow(element_of(value)) for op in root.walk() for value in _values(op))


def widened(module: ModuleOp) -> ModuleOp:
    """A clone in which every f16 and bf16 is f32: what a program means whose rounding in between is left out."""
    clone = module.clone()
    for op in clone.walk():
        for value in _values(op):
            set_type(value, _wide(value.type))
        if isinstance(op, ConstantOp) and (array := op.array()) is not None:
            op.value = dense_elements(array, op.result.type)
        if isinstance(op, FuncOp):
            inputs, outputs = (
                [_wide(t) for t in types.data] for types in (op.function_type.inputs, op.function_type.outputs)
            )
            op.function_type = FunctionType.from_lists(inputs, outputs)
    return clone


def _values(op: Operation) -> list[SSAValue]:
    return [*op.results, *(argument for region in op.regions for block in region.blocks for argument in block.args)]


def _wide(type: Attribute) -> Attribute:
    if isinstance(type, TensorType):
        return TensorType(wide_element(type.element_type), type.get_shape())
    return wide_element(type)
