"""The pass ``rlx-lower-to-linalg``: one forward walk that writes linalg, tensor, arith and math for every operation.

A family's file registers a function for each of its operations with :func:`lowers`; an operation without one is
decomposed, and its parts are lowered. What can be neither is one error that names every such operation.

Each value keeps its type, except that unsigned integers lose their sign (arith has none): the argument or result of
a function that had one is marked ``rlx.unsigned``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerType,
    ModuleOp,
    TensorType,
    UnitAttr,
    UnknownLoc,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from rlx_dialect.base import RlxOp, element_of
from rlx_dialect.dtypes import Array, is_unsigned
from rlx_dialect.lowering import UNSIGNED, LoweringError, NotLowered
from rlx_dialect.lowering.arithmetic import convert_float, signless
from rlx_dialect.lowering.registry import Lowerings
from rlx_dialect.lowering.to_linalg.tensors import Splat, Tensors
from rlx_dialect.operation import describe, is_dead
from rlx_dialect.ops.constant import ConstantOp, dense_elements, splat
from rlx_dialect.shapes import ShapeError
from rlx_dialect.xdsl_compat import Builder, Context, InsertPoint, ModulePass, Rewriter, VerifyException

Lowering = Callable[[Any, "Conversion"], "SSAValue | Sequence[SSAValue]"]
"""Gives the lowered value of each result of an operation."""

LOWERINGS: Lowerings[Lowering] = Lowerings(__name__.rpartition(".")[0])
lowers = LOWERINGS.lowers
declines = LOWERINGS.declines


class Conversion(Tensors):
    """The state of one lowering: which lowered value stands for which value, and the tools to write it."""

    def __init__(self):
        super().__init__(Builder(InsertPoint(Block())))
        self._lowered: dict[SSAValue, SSAValue] = {}
        self._replaced: list[Operation] = []
        self._old_arguments: list[BlockArgument] = []
        self._created: list[Operation] = []
        self.problems: list[str] = []

    # What lowerings ask for.

    def value(self, value: SSAValue) -> SSAValue:
        """The lowered form of an operand: a tensor or a scalar with signless elements."""
        if value not in self._lowered and isinstance(value.owner, ConstantOp):
            self._lowered[value] = self._constant(value.owner)
        return self._lowered.get(value, value)

    def operand(self, value: SSAValue) -> SSAValue | Splat:
        """The same, or the one number that all elements of a constant are."""
        if value not in self._lowered and isinstance(value.owner, ConstantOp):
            number = splat(value.owner.array())
            if number is not None:
                return Splat(number, self.lowered(element_of(value)))
        return self.value(value)

    def narrowed(self, value: SSAValue, element: Attribute) -> SSAValue:
        """A float tensor rounded to ``element``; any other tensor as it is."""
        if element_of(value) == element:
            return value
        return self.elementwise(self.extents(value), [value], element, lambda b, e: convert_float(e[0], element, b))

    def lowered(self, type: Attribute) -> Attribute:
        """The type of the lowered form of values of ``type``, or what its elements become; index is kept as i64."""
        if isinstance(type, TensorType) and isinstance(type.element_type, IndexType):
            return TensorType(i64, type.get_shape(), type.encoding)
        return i64 if isinstance(type, IndexType) else signless(type, complex=True)

    def inlined(self, body: Region, into: Block, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Lower the operations of an RLX body at the end of ``into``, for these lowered arguments; what it yields."""
        outer = self.b
        with self.nested():
            source = body.clone().block
            self._lowered.update(zip(source.args, values, strict=True))
            *ops, terminator = source.ops
            for op in ops:
                op.detach()
                into.add_op(op)
                assert isinstance(op, RlxOp)
                self._convert(op)
            yielded = [self.value(value) for value in terminator.operands]
            terminator.detach()
            terminator.erase()
        self.b = outer
        return yielded

    # The walk.

    def block(self, block: Block) -> None:
        op = block.first_op
        while op is not None:
            following = op.next_op
            if isinstance(op, RlxOp):
                self._convert(op)
            else:
                self._keep(op)
            op = following

    def _keep(self, op: Operation) -> None:
        """An operation of another dialect: it takes the lowered operands."""
        for index, operand in enumerate(op.operands):
            if (lowered := self.value(operand)) is not operand:
                op.operands[index] = lowered
        if isinstance(op, FuncOp):
            self._lower_signature(op)
        for region in op.regions:
            for block in region.blocks:
                with self.nested():
                    self.block(block)

    def _convert(self, op: RlxOp, whole: RlxOp | None = None) -> None:
        """Lower ``op``, which may be a part of the decomposition of ``whole``, in front of it."""
        self._replaced.append(op)
        if isinstance(op, ConstantOp):
            return
        before = op.prev_op
        try:
            values = self._lower(op, whole or op)
            self.b = Builder(InsertPoint.before(op))
            values = [self.cast(v, self.lowered(r.type)) for v, r in zip(values, op.results, strict=True)]
        except (NotLowered, ShapeError, VerifyException) as error:
            part = "" if whole is None else f", a part of {describe(whole)}"
            self.problems.append(f"{describe(op)}{part}: {error}")
            types = [r.type for r in op.results]
            values = Builder(InsertPoint.before(op)).insert(UnrealizedConversionCastOp.get([], types)).results
        for result, value in zip(op.results, values, strict=True):
            self._lowered[result] = value
            if value.name_hint is None:
                value.name_hint = result.name_hint
        new, new_ops = op.prev_op, list[Operation]()
        while new is not before:
            assert new is not None
            new_ops.append(new)
            if isinstance(new.location, UnknownLoc):
                new.location = op.location
            new = new.prev_op
        if whole is None:
            self._created += reversed(new_ops)

    def _lower(self, op: RlxOp, whole: RlxOp) -> Sequence[SSAValue]:
        self.b = Builder(InsertPoint.before(op))
        lowering = LOWERINGS.get(type(op))
        if lowering is not None and LOWERINGS.why_not(op, "linalg") is None:
            values = lowering(op, self)
            return [values] if isinstance(values, SSAValue) else values
        if not op.has_decomposition():
            raise NotLowered("it has no lowering and is not made of simpler operations")
        before = op.prev_op
        returned = op.decompose(self.b)
        parts: list[RlxOp] = []
        part = op.prev_op
        while part is not before:
            assert isinstance(part, RlxOp)
            part.location = op.location
            parts.append(part)
            part = part.prev_op
        for part in reversed(parts):
            self._convert(part, whole)
        return [self.value(value) for value in returned]

    def _lower_signature(self, function: FuncOp) -> None:
        """Unsigned integers in the type of a function lose their sign and leave a mark; tensors of index are of i64."""
        type = function.function_type
        function.function_type = FunctionType.from_lists(
            [self._stored(t) for t in type.inputs], [self._stored(t) for t in type.outputs]
        )
        for key, types in (("arg_attrs", type.inputs.data), ("res_attrs", type.outputs.data)):
            unsigned = [_has_unsigned_elements(t) for t in types]
            if any(unsigned):
                old = function.properties.get(key)
                entries = old.data if isinstance(old, ArrayAttr) else [DictionaryAttr({}) for _ in types]
                function.properties[key] = ArrayAttr(
                    DictionaryAttr({**entry.data, UNSIGNED: UnitAttr()}) if marked else entry
                    for entry, marked in zip(entries, unsigned, strict=True)
                )
        if function.is_declaration:
            return
        block = function.body.block
        for argument in block.args:
            if (type := self._stored(argument.type)) != argument.type:
                new = block.insert_arg(type, argument.index)
                new.name_hint = argument.name_hint
                self._lowered[argument] = new
                self._old_arguments.append(argument)

    def _stored(self, type: Attribute) -> Attribute:
        """The lowered form of the type of an argument or result, which may be of another dialect."""
        index = isinstance(type, TensorType) and isinstance(type.element_type, IndexType)
        return self.lowered(type) if index or _has_unsigned_elements(type) else type

    def _constant(self, op: ConstantOp) -> SSAValue:
        value = op.array()
        if value is None:
            raise NotLowered(f"{describe(op)}: its value lies in a resource outside the IR")
        type = self.lowered(op.result.type)
        assert isinstance(type, TensorType)
        at = Tensors(Builder(InsertPoint.before(op)))
        if not np.isfinite(value).all():
            lowered = _non_finite_constant(at, value, type)
        else:
            lowered = at.op(
                arith.ConstantOp(DenseIntOrFPElementsAttr(type, dense_elements(value, op.result.type).data))
            )
        lowered.name_hint = op.result.name_hint
        return lowered

    def finish(self) -> None:
        """Remove what was replaced, and what was written and never used."""
        for op in reversed(self._replaced):
            Rewriter.erase_op(op, safe_erase=False)
        for argument in self._old_arguments:
            argument.owner.erase_arg(argument, safe_erase=False)
        for op in reversed(self._created):
            if op.parent is not None and is_dead(op):
                Rewriter.erase_op(op)


def _has_unsigned_elements(type: Attribute) -> bool:
    return is_unsigned(type.element_type if isinstance(type, TensorType) else type)


def _non_finite_constant(at: Tensors, values: Array, type: TensorType) -> SSAValue:
    """NaN and infinities do not survive in a dense literal of floats: write their bits as integers."""
    element = type.element_type
    if not isinstance(element, AnyFloat):
        raise NotLowered(f"a constant with NaN or infinities of element type {element}")
    bits = TensorType(IntegerType(element.bitwidth), type.get_shape())
    raw = dense_elements(values, type).data
    return at.op(arith.BitcastOp(at.op(arith.ConstantOp(DenseIntOrFPElementsAttr(bits, raw))), type))


@dataclass(frozen=True)
class LowerToLinalg(ModulePass):
    """Write every RLX operation as linalg on tensors; raises LoweringError for those that have no such form."""

    name = "rlx-lower-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        conversion = Conversion()
        conversion.block(op.body.block)
        if conversion.problems:
            raise LoweringError("cannot be lowered to linalg", conversion.problems)
        conversion.finish()
