"""A contraction as data: factors, epilogue and result; and how a kernel reads the one and writes the other.

The forms of the schedule (:mod:`.tiles`, :mod:`.matvec`, :mod:`.matrix_unit`) differ in who computes what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, VectorType
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.dtypes import wide_element
from rlx_dialect.lowering.arithmetic import signless
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape
from rlx_dialect.lowering.to_gpu.kernel import Access, Kernel, KernelSpec
from rlx_dialect.xdsl_compat import Builder


@dataclass(frozen=True)
class Bound:
    """Elements of a factor count only where 0 ≤ ``start`` + Σ coordinate·step < ``extent``; the others are zero."""

    batch: Shape
    free: Shape
    contracted: Shape
    start: int
    extent: Extent


@dataclass(frozen=True)
class Prologue:
    """Scalar code from what memory holds to an element of the factor, of type ``element``.

    ``write`` takes the factor's own element and those of its ``others``, in the types that they are computed in.
    """

    key: str
    element: Attribute
    write: Callable[[Builder, Sequence[SSAValue]], SSAValue] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Factor:
    """A factor of the product, addressed by batch, by its own free axes and by the contracted ones."""

    access: Access
    batch: Shape
    free: Shape
    contracted: Shape
    bounds: tuple[Bound, ...] = ()
    prologue: Prologue | None = None
    others: tuple[Factor, ...] = ()
    """More operands of the prologue, without bounds of their own."""

    @property
    def type(self) -> Attribute:
        """The type of its elements in the sum."""
        element = self.access.element if self.prologue is None else self.prologue.element
        return wide_element(signless(element))


@dataclass(frozen=True)
class Cell:
    """The result or an operand of the epilogue, addressed by batch, row and column."""

    access: Access
    batch: Shape
    row: Shape
    column: Shape


@dataclass(frozen=True)
class Epilogue:
    """Scalar code from the sum and more operands to the result, in the types that they are computed in.

    The operands are the sums with further right factors, then the elements of the extra operands.
    """

    key: str
    write: Callable[[Builder, SSAValue, Sequence[SSAValue]], SSAValue] = field(compare=False, repr=False)


PLAIN = Epilogue("", lambda b, total, extras: total)


@dataclass(frozen=True)
class ContractionSpec(KernelSpec):
    """result[b, m, n] = epilogue(Σ_k lhs[b, m, k]·rhs[b, k, n], …, extras[b, m, n]).

    There is one more sum for each of ``more``, right factors of the same extents as ``rhs``.
    """

    batch: Shape
    rows: Shape
    columns: Shape
    depth: Shape
    lhs: Factor
    rhs: Factor
    more: tuple[Factor, ...]
    extras: tuple[Cell, ...]
    result: Cell
    epilogue: Epilogue

    @property
    def rights(self) -> tuple[Factor, ...]:
        return (self.rhs, *self.more)

    def batch_coordinates(self, k: Kernel) -> list[Index]:
        """Those of this workgroup, where the grid counts batches along z."""
        return k.split(k.block_id("z") if self.groups[2] != 1 else 0, self.batch)

    def group(self, k: Kernel, axis: int) -> Index:
        """The number of this workgroup along an axis of the grid: 0, x, or 1, y."""
        return k.block_id("y" if axis else "x") if self.groups[axis] != 1 else 0

    def store(self, k: Kernel, batch: Sequence[Index], row: Index, column: Index, sums: Sequence[SSAValue]) -> None:
        """Write the result at ``row`` and ``column`` from its sums, one for each right factor."""
        coordinates = [*batch, *k.split(row, self.rows), *k.split(column, self.columns)]

        def access(cell: Cell) -> Access:
            strides = (*cell.batch, *cell.row, *cell.column)
            return Access(cell.access.source, cell.access.element, strides, cell.access.offset)

        extras = [k.load_wide(access(e), coordinates) for e in self.extras]
        total, *more = sums
        k.store(self.epilogue.write(k.b, total, [*more, *extras]), access(self.result), coordinates)


class Line:
    """A factor at one batch and one free position: its elements along the contracted axes."""

    def __init__(self, k: Kernel, factor: Factor, batch: Sequence[Index], free: Sequence[Index]):
        self.k, self.factor = k, factor
        self.start = k.dot(free, factor.free, k.dot(batch, factor.batch, factor.access.offset))
        self._bounds = [k.dot(free, b.free, k.dot(batch, b.batch, b.start)) for b in factor.bounds]
        self._others = [Line(k, other, batch, free) for other in factor.others]

    def load(self, depth: Sequence[Index], exists: SSAValue | None = None, *, wide: bool = True) -> SSAValue:
        """The element at ``depth``; zero outside the bounds, and where ``exists`` does not hold.

        Not ``wide``: in the type that memory holds, for a factor without a prologue.
        """
        k, factor = self.k, self.factor
        for bound, start in zip(factor.bounds, self._bounds, strict=True):
            # What lies before 0 is a large number without a sign.
            position = k.dot(depth, bound.contracted, start)
            exists = k.both(exists, k.i_less(position, bound.extent))
        source, element = factor.access.source, factor.access.element
        if factor.bounds and isinstance(source, int):
            assert exists is not None
            address = k.dot(depth, factor.contracted, self.start)
            inside = k.op(arith.SelectOp(exists, k.index(address), k.index(0)))
            value = self._read(Access(source, element, (1,), 0), [inside], 0, wide)
        else:
            value = self._read(Access(source, element, factor.contracted, 0), depth, self.start, wide)
        if factor.prologue is not None:
            value = factor.prologue.write(k.b, [value, *(other.load(depth) for other in self._others)])
        if exists is not None:
            value = k.op(arith.SelectOp(exists, value, k.constant(0, value.type)))
        return value

    def load_vector(self, depth: Sequence[Index], exists: SSAValue | None, count: int, type: Attribute) -> SSAValue:
        """``count`` elements from ``depth`` on that lie side by side, as ``type``; of a factor without bounds."""
        k, factor = self.k, self.factor
        access = Access(factor.access.source, factor.access.element, factor.contracted, 0)
        value = k.load_vector(access, depth, self.start, count)
        if signless(factor.access.element) != type:
            value = k.op(arith.ExtFOp(value, VectorType(type, [count])))
        if exists is not None:
            assert isinstance(type, AnyFloat)
            zeros = DenseIntOrFPElementsAttr.from_list(VectorType(type, [count]), [0.0] * count)
            zero = k.op(arith.ConstantOp(zeros))
            value = k.op(arith.SelectOp(exists, value, zero))
        return value

    def _read(self, access: Access, coordinates: Sequence[Index], start: Index, wide: bool) -> SSAValue:
        return (self.k.load_wide if wide else self.k.load)(access, coordinates, start)


def multiply_add(k: Kernel, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
    if isinstance(x.type, AnyFloat):
        return k.op(math.FmaOp(x, y, total))
    return k.op(arith.AddiOp(k.op(arith.MuliOp(x, y)), total))


def remains(extent: Extent, width: Extent) -> bool:
    """Whether pieces of ``width`` may go beyond ``extent``."""
    return bool(extent % width)


def position_in(k: Kernel, group: Index, width: int, place: Index, extent: Extent) -> tuple[Index, SSAValue | None]:
    """The row or column at ``place`` of a group of ``width``, and the condition that there is one."""
    position = k.i_add(k.i_mul(group, width), place)
    return position, k.i_less(position, extent) if remains(extent, width) else None
