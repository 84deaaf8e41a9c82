"""Formulas as operations: a :class:`Term` is a value with the arithmetic that decompositions are written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind, CompareKind, ReduceKind
from rlx_dialect.base import RlxOp, element_of, rank_of, shape_of
from rlx_dialect.dtypes import wide_element
from rlx_dialect.ops.constant import scalar
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CompareOp, WhereOp
from rlx_dialect.ops.reduction import ReduceOp, converted
from rlx_dialect.ops.shape import ConcatOp, NarrowOp, ReshapeOp, TransposeOp
from rlx_dialect.shapes import Shape
from rlx_dialect.xdsl_compat import Builder


@dataclass(frozen=True)
class Term:
    """``value``, whose arithmetic inserts operations at ``b``; a number becomes a constant of its element type."""

    b: Builder
    value: SSAValue

    @classmethod
    def widened(cls, b: Builder, *values: SSAValue) -> list[Term]:
        """``values``, f16 and bf16 cast to f32."""
        return [cls(b, converted(b, value, wide_element(element_of(value)))) for value in values]

    @property
    def shape(self) -> Shape:
        return shape_of(self.value)

    @property
    def rank(self) -> int:
        return rank_of(self.value)

    @property
    def element(self) -> Attribute:
        return element_of(self.value)

    def insert(self, op: RlxOp) -> Term:
        """The only result of ``op``, inserted."""
        (result,) = self.b.insert(op).results
        return Term(self.b, result)

    def like(self, other: Term | float) -> Term:
        """``other``, a number as a constant."""
        return other if isinstance(other, Term) else Term(self.b, scalar(self.b, other, self.element))

    def binary(self, kind: BinaryKind | str, other: Term | float) -> Term:
        return self.insert(BinaryOp(kind, self.value, self.like(other).value))

    def __add__(self, other: Term | float) -> Term:
        return self.binary("add", other)

    def __sub__(self, other: Term | float) -> Term:
        return self.binary("sub", other)

    def __mul__(self, other: Term | float) -> Term:
        return self.binary("mul", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self.binary("div", other)

    def __radd__(self, other: float) -> Term:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Term:
        return self.like(other) - self

    def __rmul__(self, other: float) -> Term:
        return self.like(other) * self

    def __rtruediv__(self, other: float) -> Term:
        return self.like(other) / self

    def __neg__(self) -> Term:
        return self.apply("neg")

    def apply(self, kind: ActivationKind | str) -> Term:
        return self.insert(ActivationOp(kind, self.value))

    def clamp(self, low: float, high: float) -> Term:
        return self.binary("max", low).binary("min", high)

    def compare(self, kind: CompareKind | str, other: Term | float) -> Term:
        return self.insert(CompareOp(kind, self.value, self.like(other).value))

    def __and__(self, other: Term) -> Term:
        return self.binary("bit_and", other)

    def __or__(self, other: Term) -> Term:
        return self.binary("bit_or", other)

    def is_nan(self) -> Term:
        """Where a float is not a number."""
        return self.compare("ne", self)

    def where(self, on_true: Term, on_false: Term | float) -> Term:
        """This condition's choice."""
        return self.insert(WhereOp(self.value, on_true.value, on_true.like(on_false).value))

    def cast(self, element: Attribute) -> Term:
        return Term(self.b, converted(self.b, self.value, element))

    def reduce(self, kind: ReduceKind | str, axes: Sequence[int], *, keep_dim: bool = True) -> Term:
        return self.insert(ReduceOp(kind, self.value, axes, keep_dim=keep_dim))

    def mean(self, axes: Sequence[int]) -> Term:
        """The mean along ``axes``, which stay as extents of 1."""
        return self.reduce("mean", axes)

    def reshape(self, shape: Sequence[int]) -> Term:
        """One extent of ``shape`` may be -1 or DYNAMIC. This term where nothing changes."""
        return self if tuple(shape) == self.shape else self.insert(ReshapeOp(self.value, shape))

    def narrow(self, axis: int, start: int, length: int) -> Term:
        return self.insert(NarrowOp(self.value, axis, start, length))

    def concat(self, axis: int, *others: Term) -> Term:
        """This term and ``others`` behind it, along ``axis``."""
        return self.insert(ConcatOp([self.value, *(o.value for o in others)], axis))

    def transpose(self, perm: Sequence[int]) -> Term:
        return self if list(perm) == list(range(self.rank)) else self.insert(TransposeOp(self.value, perm))
