"""Operations that move, repeat or select elements without computing, by static positions.

Selection by positions that are values (gather and scatter) is in :mod:`rlx_dialect.ops.indexing`.
Every operation here takes any element type and keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, DenseArrayBase, Float64Type, FloatAttr, IntegerAttr, UnitAttr, f64, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, var_operand_def

from rlx_dialect import shapes
from rlx_dialect.attributes import PadMode, PadModeAttr
from rlx_dialect.base import RlxOp, Value, rank_of, shape_of
from rlx_dialect.dtypes import Array, integer_limits, is_integer
from rlx_dialect.shapes import DYNAMIC, ShapeError, from_front, normal_axes, normal_axis, show
from rlx_dialect.xdsl_compat import HasCanonicalizationPatternsInterface, InterpretationError, RewritePattern

INTS = DenseArrayBase.constr(i64)
"""A list of integers."""


class AxisOp(RlxOp):
    """Base of the operations along one axis; a negative axis counts from the back."""

    axis = prop_def(IntegerAttr[I64])

    @property
    def axis_index(self) -> int:
        """The axis counted from the front."""
        return normal_axis(self.axis.value.data, len(self.shape(0)))


def front_axis(axis: int, value: Value) -> int:
    """``axis`` of ``value`` counted from the front, so that one axis has one spelling in the IR."""
    return from_front([axis], rank_of(SSAValue.get(value)))[0]


def _with_minus_one(shape: Sequence[int]) -> list[int]:
    return [-1 if d == DYNAMIC else d for d in shape]


@irdl_op_definition
class ReshapeOp(RlxOp, HasCanonicalizationPatternsInterface):
    """The same elements in row-major order with the extents ``new_shape``; one of them may be -1: what is left."""

    name = "rlx.reshape"
    input = operand_def()
    new_shape = prop_def(INTS)
    result = result_def()

    def __init__(self, input: Value, new_shape: Sequence[int], *, result_type: Attribute | None = None):
        """An extent of ``new_shape`` that is DYNAMIC is written as -1."""
        super().__init__([input], {"new_shape": _with_minus_one(new_shape)}, result_types=[result_type])

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from rlx_dialect.canonicalization import ReshapeOfReshape

        return (ReshapeOfReshape(),)

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.reshape(self.shape(0), self.new_shape.get_values())),)

    def fold_identity(self) -> SSAValue | None:
        # With two unknown extents equal types prove nothing; a single one follows from the element count.
        same = self.input.type == self.result.type and self.shape(0).count(DYNAMIC) <= 1
        return self.input if same else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (args[0].reshape(self.new_shape.get_values()),)


@irdl_op_definition
class TransposeOp(RlxOp, HasCanonicalizationPatternsInterface):
    """Axis i of the result is axis ``perm[i]`` of the operand."""

    name = "rlx.transpose"
    input = operand_def()
    perm = prop_def(INTS)
    result = result_def()

    def __init__(self, input: Value, perm: Sequence[int], *, result_type: Attribute | None = None):
        """``perm`` may count from the back."""
        rank = rank_of(SSAValue.get(input))
        super().__init__([input], {"perm": from_front(perm, rank)}, result_types=[result_type])

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from rlx_dialect.canonicalization import TransposeOfTranspose

        return (TransposeOfTranspose(),)

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.transpose(self.shape(0), self.perm.get_values())),)

    def fold_identity(self) -> SSAValue | None:
        identity = self.perm.get_values() == tuple(range(len(self.shape(0))))
        return self.input if identity and self.input.type == self.result.type else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (args[0].transpose(self.perm.get_values()),)


@irdl_op_definition
class NarrowOp(AxisOp, HasCanonicalizationPatternsInterface):
    """The ``len`` elements from ``start`` on along ``axis``."""

    name = "rlx.narrow"
    input = operand_def()
    start = prop_def(IntegerAttr[I64])
    len = prop_def(IntegerAttr[I64])
    result = result_def()

    def __init__(self, input: Value, axis: int, start: int, len: int, *, result_type: Attribute | None = None):
        super().__init__(
            [input], {"axis": front_axis(axis, input), "start": start, "len": len}, result_types=[result_type]
        )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from rlx_dialect.canonicalization import NarrowOfNarrow

        return (NarrowOfNarrow(),)

    def infer_types(self) -> tuple[Attribute, ...]:
        start, length = self.start.value.data, self.len.value.data
        return (self.like(0, shapes.strided_slice(self.shape(0), self.axis.value.data, start, length)),)

    def fold_identity(self) -> SSAValue | None:
        whole = self.len.value.data == self.shape(0)[self.axis_index]
        return self.input if whole and self.input.type == self.result.type else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        start = self.start.value.data
        return (args[0][_along(self.axis_index, slice(start, start + self.len.value.data))],)


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    """A NumPy index that takes ``part`` of one axis and everything else."""
    return (*([slice(None)] * axis), part)


@irdl_op_definition
class SliceOp(AxisOp, HasCanonicalizationPatternsInterface):
    """The ``len`` elements ``start``, ``start`` + ``step``, … along ``axis``; ``step`` may be negative, not 0."""

    name = "rlx.slice"
    input = operand_def()
    start = prop_def(IntegerAttr[I64])
    len = prop_def(IntegerAttr[I64])
    step = prop_def(IntegerAttr[I64])
    result = result_def()

    def __init__(
        self, input: Value, axis: int, start: int, len: int, step: int, *, result_type: Attribute | None = None
    ):
        super().__init__(
            [input],
            {"axis": front_axis(axis, input), "start": start, "len": len, "step": step},
            result_types=[result_type],
        )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from rlx_dialect.canonicalization import SliceToNarrow

        return (SliceToNarrow(),)

    def positions(self) -> range:
        """The positions taken along the axis."""
        start, step = self.start.value.data, self.step.value.data
        return range(start, start + step * self.len.value.data, step)

    def infer_types(self) -> tuple[Attribute, ...]:
        length, axis, shape = self.len.value.data, self.axis_index, self.shape(0)
        if self.step.value.data == 0 or length < 0:
            raise ShapeError(f"step {self.step.value.data} must not be 0 and len {length} must not be negative")
        if length:
            first, last = sorted((self.positions()[0], self.positions()[-1]))
            if first < 0 or (shape[axis] != DYNAMIC and last >= shape[axis]):
                raise ShapeError(
                    f"positions {first} to {last} exceed extent {show([shape[axis]])} of axis {axis} of operand 'input'"
                )
        return (self.like(0, (*shape[:axis], length, *shape[axis + 1 :])),)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x,), axis, positions = args, self.axis_index, self.positions()
        if positions and max(positions) >= x.shape[axis]:
            raise InterpretationError(f"'{self.name}': position {max(positions)} is outside extent {x.shape[axis]}")
        return (np.take(x, positions, axis),)


@irdl_op_definition
class ConcatOp(AxisOp):
    """The operands one after the other along ``axis``; at least one, of one element type."""

    name = "rlx.concat"
    inputs = var_operand_def()
    result = result_def()

    def __init__(self, inputs: Sequence[Value], axis: int, *, result_type: Attribute | None = None):
        axis = front_axis(axis, inputs[0]) if inputs else axis
        super().__init__(inputs, {"axis": axis}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        if not self.inputs:
            raise ShapeError("at least one operand expected, got none")
        return (self.like(0, shapes.concat([shape_of(o) for o in self.inputs], self.axis.value.data)),)

    def check(self) -> None:
        if self.inputs:
            self.check_same_element()

    def fold_identity(self) -> SSAValue | None:
        single = len(self.inputs) == 1 and self.inputs[0].type == self.result.type
        return self.inputs[0] if single else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.concatenate(args, axis=self.axis_index),)


@irdl_op_definition
class ExpandOp(RlxOp):
    """NumPy broadcasting to the extents ``shape``; -1 there keeps the operand's extent (aligned at the right)."""

    name = "rlx.expand"
    input = operand_def()
    target = prop_def(INTS, prop_name="shape")
    result = result_def()

    def __init__(self, input: Value, shape: Sequence[int], *, result_type: Attribute | None = None):
        """An extent of ``shape`` that is DYNAMIC is written as -1."""
        super().__init__([input], {"shape": _with_minus_one(shape)}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.expand(self.shape(0), self.target.get_values())),)

    def fold_identity(self) -> SSAValue | None:
        if self.input.type != self.result.type:
            return None
        # An unknown extent that is given a length may be 1 and broadcast.
        extents = zip(self.shape(0), self.target.get_values(), strict=True)
        return self.input if all(d != DYNAMIC or t == -1 for d, t in extents) else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        (x,), target = args, self.target.get_values()
        padded = (1,) * (len(target) - x.ndim) + x.shape
        shape = [have if want == -1 else want for have, want in zip(padded, target, strict=True)]
        return (np.broadcast_to(x, shape),)


@irdl_op_definition
class ReverseOp(RlxOp):
    """The elements in opposite order along each of ``axes``."""

    name = "rlx.reverse"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    axes = prop_def(INTS)
    result = result_def()

    def __init__(self, input: Value, axes: Sequence[int]):
        super().__init__([input], {"axes": from_front(axes, rank_of(SSAValue.get(input)))})

    @property
    def axis_indices(self) -> tuple[int, ...]:
        """The axes counted from the front."""
        return normal_axes(self.axes.get_values(), len(self.shape(0)))

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def check(self) -> None:
        normal_axes(self.axes.get_values(), len(self.shape(0)))

    def fold_identity(self) -> SSAValue | None:
        shape = self.shape(0)
        same = all(shape[a] in (0, 1) for a in self.axis_indices) and self.input.type == self.result.type
        return self.input if same else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.flip(args[0], self.axis_indices),)


_NUMPY_PAD = {PadMode.REFLECT: "reflect", PadMode.EDGE: "edge", PadMode.WRAP: "wrap"}


@irdl_op_definition
class PadOp(RlxOp):
    """``pads`` more elements before and after each axis (all befores, then all afters, as in ONNX).

    The new elements are ``value`` (mode ``constant``), the operand mirrored without repeating its edge
    (``reflect``), its edge (``edge``), or its other end (``wrap``). A negative pad removes elements first.
    A reflecting pad is smaller than the extent that it mirrors, a wrapping one does not exceed it.
    """

    name = "rlx.pad"
    KEYWORD: ClassVar = "mode"
    input = operand_def()
    pads = prop_def(INTS)
    mode = prop_def(PadModeAttr, default_value=PadModeAttr(PadMode.CONSTANT))
    value = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(0.0, f64))
    result = result_def()

    def __init__(
        self,
        input: Value,
        pads: Sequence[int],
        mode: PadMode | str = PadMode.CONSTANT,
        value: float = 0.0,
        *,
        result_type: Attribute | None = None,
    ):
        super().__init__([input], {"pads": pads, "mode": mode, "value": value}, result_types=[result_type])

    def pairs(self) -> list[tuple[int, int]]:
        """(before, after) of each axis."""
        pads, rank = self.pads.get_values(), len(self.shape(0))
        if len(pads) != 2 * rank:
            raise ShapeError(f"pads {list(pads)} must list {2 * rank} numbers for operand 'input' of rank {rank}")
        return list(zip(pads[:rank], pads[rank:], strict=True))

    def infer_types(self) -> tuple[Attribute, ...]:
        shape = self.shape(0)
        padded = [d if d == DYNAMIC else d + sum(pair) for d, pair in zip(shape, self.pairs(), strict=True)]
        return (self.like(0, tuple(padded)),)

    def check(self) -> None:
        element, value, mode = self.element(0), self.value.value.data, self.mode.data
        if is_integer(element) and not value.is_integer():
            self.fail(f"value must be an integer for element type {element}, got {value}")
        if is_integer(element):
            least, greatest = integer_limits(element)
            if not least <= value <= greatest:
                self.fail(f"value must be {least} to {greatest} for element type {element}, got {value}")
        for axis, (extent, pair) in enumerate(zip(self.shape(0), self.pairs(), strict=True)):
            if extent == DYNAMIC:
                continue
            kept = extent + min(pair[0], 0) + min(pair[1], 0)
            if kept < 0:
                self.fail(f"pads {list(pair)} of axis {axis} remove more than its extent {extent}")
            limit = {PadMode.REFLECT: kept - 1, PadMode.WRAP: kept, PadMode.EDGE: max(pair) if kept else 0}
            if max(pair) > max(limit.get(mode, max(pair)), 0):
                self.fail(f"pads {list(pair)} of axis {axis} are too large for extent {kept} in mode {mode}")

    def fold_identity(self) -> SSAValue | None:
        nothing = not any(self.pads.get_values()) and self.input.type == self.result.type
        return self.input if nothing else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, pairs = args[0], self.pairs()
        if not pairs:  # NumPy takes an empty list for one of reals.
            return (x,)
        kept = x[tuple(slice(max(-p, 0), d - max(-q, 0)) for d, (p, q) in zip(x.shape, pairs, strict=True))]
        width = [(max(p, 0), max(q, 0)) for p, q in pairs]
        if self.mode.data is PadMode.CONSTANT:
            return (np.pad(kept, width, constant_values=x.dtype.type(self.value.value.data)),)
        return (np.pad(kept, width, mode=_NUMPY_PAD[self.mode.data]),)  # pyright: ignore[reportCallIssue, reportArgumentType]


@irdl_op_definition
class TileOp(RlxOp):
    """The operand repeated as a whole ``reps[i]`` times along axis i."""

    name = "rlx.tile"
    input = operand_def()
    reps = prop_def(INTS)
    result = result_def()

    def __init__(self, input: Value, reps: Sequence[int], *, result_type: Attribute | None = None):
        super().__init__([input], {"reps": reps}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        shape, reps = self.shape(0), self.reps.get_values()
        if len(reps) != len(shape) or any(r < 0 for r in reps):
            raise ShapeError(f"reps {list(reps)} must list {len(shape)} numbers that are not negative")
        return (self.like(0, tuple(0 if r == 0 else _times(d, r) for d, r in zip(shape, reps, strict=True))),)

    def fold_identity(self) -> SSAValue | None:
        once = all(r == 1 for r in self.reps.get_values()) and self.input.type == self.result.type
        return self.input if once else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.tile(args[0], self.reps.get_values()),)


def _times(extent: int, factor: int) -> int:
    return DYNAMIC if extent == DYNAMIC else extent * factor


@irdl_op_definition
class TriluOp(RlxOp):
    """A triangle of the last two axes, zero elsewhere.

    Column j of row i is kept where j - i <= ``diagonal`` or, with the flag ``upper``, where j - i >= ``diagonal``.
    """

    name = "rlx.trilu"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    upper = opt_prop_def(UnitAttr)
    diagonal = prop_def(IntegerAttr[I64], default_value=IntegerAttr(0, i64))
    result = result_def()

    def __init__(self, input: Value, *, upper: bool = False, diagonal: int = 0):
        super().__init__([input], {"upper": upper, "diagonal": diagonal})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def check(self) -> None:
        if len(self.shape(0)) < 2:
            self.fail(f"operand 'input' must have rank 2 or more, got {show(self.shape(0))}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        triangle = np.tril if self.upper is None else np.triu
        rows, columns = args[0].shape[-2:]
        return (triangle(args[0], min(max(self.diagonal.value.data, -rows), columns)),)


@irdl_op_definition
class RollOp(RlxOp):
    """The element at position p of axis ``dims[i]`` moves to (p + ``shifts[i]``) modulo the extent."""

    name = "rlx.roll"
    SAME_TYPE: ClassVar = True
    input = operand_def()
    shifts = prop_def(INTS)
    dims = prop_def(INTS)
    result = result_def()

    def __init__(self, input: Value, shifts: Sequence[int], dims: Sequence[int]):
        super().__init__([input], {"shifts": shifts, "dims": from_front(dims, rank_of(SSAValue.get(input)))})

    @property
    def axis_indices(self) -> tuple[int, ...]:
        """``dims`` counted from the front."""
        return normal_axes(self.dims.get_values(), len(self.shape(0)))

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.input.type,)

    def check(self) -> None:
        shifts, dims = self.shifts.get_values(), self.dims.get_values()
        if len(shifts) != len(dims):
            self.fail(f"shifts {list(shifts)} and dims {list(dims)} must have one length")
        normal_axes(dims, len(self.shape(0)))

    def fold_identity(self) -> SSAValue | None:
        shape = self.shape(0)
        still = all(
            shift == 0 or (shape[axis] > 0 and shift % shape[axis] == 0)
            for shift, axis in zip(self.shifts.get_values(), self.axis_indices, strict=True)
        )
        return self.input if still and self.input.type == self.result.type else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (np.roll(args[0], self.shifts.get_values(), self.axis_indices),)
