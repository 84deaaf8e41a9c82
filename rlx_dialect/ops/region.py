"""Regions: chains of element-wise operations that become one kernel, with a scalar body.

The body of a region uses the very operations of :mod:`rlx_dialect.ops.elementwise` on scalars. A scalar that is
needed in a body comes in as a rank-0 operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType, i1
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure

from rlx_dialect import shapes, syntax
from rlx_dialect.base import RlxOp, apply_op, element_of, shape_of
from rlx_dialect.dtypes import Array
from rlx_dialect.ops.constant import scalar
from rlx_dialect.ops.convolution import ResizeNearest2xOp, resize_nearest_2x
from rlx_dialect.ops.elementwise import ElementwiseOp, WhereOp
from rlx_dialect.ops.reduction import converted
from rlx_dialect.ops.shape import ConcatOp
from rlx_dialect.shapes import Shape, ShapeError, is_static
from rlx_dialect.xdsl_compat import Builder, Parser, Printer, VerifyException, set_result_type

RESIZE_NEAREST_2X = "resize_nearest_2x"
"""The one transformation that a region can start with: dims 2 and 3 of an NCHW tensor doubled."""


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Ends the body of an operation and gives its value."""

    name = "rlx.yield"
    traits = traits_def(IsTerminator(), Pure())

    def verify_(self) -> None:
        if not isinstance(parent := self.parent_op(), BodyOp):
            where = "no operation" if parent is None else f"'{parent.name}'"
            raise VerifyException(f"'{self.name}': it ends the body of a region of rlx, not of {where}")


def with_operands(op: ElementwiseOp, operands: Sequence[SSAValue]) -> ElementwiseOp:
    """The same operation on other operands, its result type inferred anew.

    Scalars may take the place of tensors and the other way round: this is how operations get into the body of
    a region and out of it.
    """
    copy = type(op).create(
        operands=operands,
        result_types=op.result_types,
        properties=op.properties.copy(),
        attributes=op.attributes.copy(),
    )
    copy.location = op.location
    for result, old, found in zip(copy.results, op.results, copy.infer_types(), strict=True):
        set_result_type(result, found)
        result.name_hint = old.name_hint
    return copy


class BodyOp(RlxOp):
    """Base of the operations with regions of one block, which end with ``rlx.yield`` and see only their arguments.

    ``REGION_WORDS`` are written before the second and further regions.
    """

    REGION_WORDS: ClassVar[tuple[str, ...]] = ()
    traits = traits_def(Pure(), IsolatedFromAbove())

    @classmethod
    def parse(cls, parser: Parser) -> BodyOp:
        unresolved = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        properties: dict[str, Attribute] = {}
        attributes = syntax.parse_attributes(cls, parser, properties)
        operand_types, result_types = syntax.parse_signature(parser, len(unresolved))
        regions = [parser.parse_region()]
        for word in cls.REGION_WORDS:
            parser.parse_keyword(word)
            regions.append(parser.parse_region())
        return cls.create(
            operands=parser.resolve_operands(unresolved, operand_types, parser.pos),
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            regions=regions,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(")")
        syntax.print_attributes(self, printer)
        syntax.print_signature(self, printer)
        for word, region in zip(("", *self.REGION_WORDS), self.regions, strict=True):
            printer.print_string(f" {word} " if word else " ")
            printer.print_region(region)


class RegionOp(BodyOp):
    """Base of the operations with an element-wise body.

    The body has one block of element-wise RLX operations on scalars. It sees nothing but its arguments, and ends
    with a ``rlx.yield`` of one scalar.
    """

    inputs = var_operand_def()
    prologue = opt_prop_def(StringAttr)
    body = region_def("single_block")
    result = result_def()

    @staticmethod
    def empty_body(arguments: Sequence[Attribute]) -> Region:
        """A body without operations whose block takes scalars of these types."""
        return Region(Block(arg_types=arguments))

    def steps(self) -> list[ElementwiseOp]:
        """The operations of the body in order, without the yield."""
        return [op for op in self.body.block.ops if isinstance(op, ElementwiseOp)]

    @property
    def yielded(self) -> SSAValue:
        """The scalar that the body gives."""
        terminator = self.body.block.last_op
        if not isinstance(terminator, YieldOp) or len(terminator.arguments) != 1:
            raise ShapeError("the body must end with rlx.yield of one scalar")
        return terminator.arguments[0]

    def prologue_shape(self, shape: Shape) -> Shape:
        """What the prologue makes of an operand shape."""
        return shape if self.prologue is None else shapes.resize_nearest_2x(shape)

    def check_body(self, arguments: Sequence[Attribute]) -> None:
        """Verify the body against the element types that its arguments must have."""
        if not self.inputs:
            self.fail("at least one operand expected")
        if self.prologue is not None and self.prologue.data != RESIZE_NEAREST_2X:
            self.fail(f'prologue must be "{RESIZE_NEAREST_2X}", got "{self.prologue.data}"')
        block = self.body.block
        found = [a.type for a in block.args]
        if found != list(arguments):
            self.fail(
                f"the body must take the element types of the operands ({', '.join(map(str, arguments))}), "
                f"got ({', '.join(map(str, found))})"
            )
        for op in block.ops:
            if op is block.last_op:
                break
            if not isinstance(op, ElementwiseOp):
                self.fail(f"the body takes element-wise rlx operations only, got '{op.name}'")
        if isinstance(self.yielded.type, TensorType):
            self.fail(f"the body must yield a scalar, got {self.yielded.type}")

    def run_body(self, *args: Array) -> Array:
        """The yielded value for array arguments of one shape; every step is rounded to its scalar type."""
        values: dict[SSAValue, Array] = dict(zip(self.body.block.args, args, strict=True))
        for op in self.steps():
            values.update(zip(op.results, apply_op(op, [values[o] for o in op.operands]), strict=True))
        return values[self.yielded]


@irdl_op_definition
class ElementwiseRegionOp(RegionOp):
    """The body applied to each element of the operands, which broadcast together as in NumPy.

    Operands have any element types, which the arguments of the body repeat; the result has the broadcast shape and
    the element type that the body yields. With ``prologue = "resize_nearest_2x"`` operand 0 is the
    half-resolution NCHW tensor: its element (n, c, h/2, w/2) is read at (n, c, h, w).
    """

    name = "rlx.elementwise_region"

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        body: Region,
        *,
        prologue: str | None = None,
        result_type: Attribute | None = None,
    ):
        """``body``'s block takes one scalar an input (see :meth:`RegionOp.empty_body`) and ends with a yield."""
        super().__init__(inputs, {"prologue": prologue}, result_types=[result_type], regions=[body])

    def infer_types(self) -> tuple[Attribute, ...]:
        first, *rest = [shape_of(o) for o in self.inputs]
        return (TensorType(self.yielded.type, shapes.broadcast(self.prologue_shape(first), *rest)),)

    def check(self) -> None:
        self.check_body([element_of(o) for o in self.inputs])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        first = args[0] if self.prologue is None else resize_nearest_2x(args[0])
        return (self.run_body(*np.broadcast_arrays(first, *args[1:])),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        inputs = list(self.inputs)
        if self.prologue is not None:
            inputs[0] = _insert_resize(b, inputs[0])
        values: dict[SSAValue, SSAValue] = dict(zip(self.body.block.args, inputs, strict=True))
        for op in self.steps():
            copy = b.insert(with_operands(op, [values[o] for o in op.operands]))
            values[op.results[0]] = copy.results[0]
        needed = self._needed()
        unused = [x for x, argument in zip(inputs, self.body.block.args, strict=True) if argument not in needed]
        return (self._as_result(b, values[self.yielded], inputs, unused),)

    def _needed(self) -> set[SSAValue]:
        """The values of the body that the yielded one is computed from."""
        needed: set[SSAValue] = {self.yielded}
        for op in reversed(self.steps()):
            if op.results[0] in needed:
                needed.update(op.operands)
        return needed

    def _as_result(
        self, b: Builder, value: SSAValue, inputs: Sequence[SSAValue], unused: Sequence[SSAValue]
    ) -> SSAValue:
        """``value`` with the type of the result and its shape, to which operands contribute that it leaves unused."""
        type = self.result.type
        if not unused or (is_static(shape_of(value)) and value.type == self.infer_types()[0]):
            if value.type == type:
                return value
            if isinstance(value, OpResult) and value not in inputs:
                # The region's type was known better than its operands tell.
                set_result_type(value, type)
                return value
        element = element_of(value)
        always = scalar(b, True, i1)
        for operand in unused or inputs:
            # Broadcasts value against the operand without using it; unlike rlx.expand it takes dynamic extents.
            value = b.insert(WhereOp(always, value, converted(b, operand, element))).result
        assert isinstance(value, OpResult)
        set_result_type(value, type)
        return value


@irdl_op_definition
class TransformRegionOp(RlxOp):
    """The ``steps`` applied in sequence; each is ``"resize_nearest_2x"`` and doubles dims 2 and 3 of NCHW."""

    name = "rlx.transform_region"
    input = operand_def()
    steps = prop_def(ArrayAttr[StringAttr])
    result = result_def()

    def __init__(
        self,
        input: SSAValue | Operation,
        steps: Sequence[str] = (RESIZE_NEAREST_2X,),
        *,
        result_type: Attribute | None = None,
    ):
        super().__init__([input], {"steps": steps}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        shape = self.shape(0)
        for _ in self.steps:
            shape = shapes.resize_nearest_2x(shape)
        return (self.like(0, shape),)

    def check(self) -> None:
        if not self.steps.data:
            self.fail("at least one step expected")
        for step in self.steps:
            if step.data != RESIZE_NEAREST_2X:
                self.fail(f'steps must be "{RESIZE_NEAREST_2X}", got "{step.data}"')

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        value = args[0]
        for _ in self.steps:
            value = resize_nearest_2x(value)
        return (value,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        value: SSAValue = self.input
        for _ in self.steps:
            value = _insert_resize(b, value)
        return self.as_results(value)


def _insert_resize(b: Builder, value: SSAValue) -> SSAValue:
    return b.insert(ResizeNearest2xOp(value)).result


@irdl_op_definition
class BatchElementwiseRegionOp(RegionOp):
    """One body with one argument applied to each operand; the results are concatenated along axis 0.

    The operands are slices of one batch: one element type, and shapes that differ along axis 0 only. With
    ``prologue = "resize_nearest_2x"`` each is the half-resolution NCHW tensor.
    """

    name = "rlx.batch_elementwise_region"

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        body: Region,
        *,
        prologue: str | None = None,
        result_type: Attribute | None = None,
    ):
        """``body``'s block takes one scalar (see :meth:`RegionOp.empty_body`) and ends with a yield."""
        super().__init__(inputs, {"prologue": prologue}, result_types=[result_type], regions=[body])

    def infer_types(self) -> tuple[Attribute, ...]:
        slices = [self.prologue_shape(shape_of(o)) for o in self.inputs]
        return (TensorType(self.yielded.type, shapes.concat(slices, 0)),)

    def check(self) -> None:
        for index in range(1, len(self.inputs)):
            if self.element(index) != self.element(0):
                self.fail(f"operand #{index} must have element type {self.element(0)}, got {self.element(index)}")
        self.check_body([element_of(o) for o in self.inputs[:1]])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        slices = args if self.prologue is None else [resize_nearest_2x(x) for x in args]
        return (self.run_body(np.concatenate(slices, axis=0)),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        prologue = None if self.prologue is None else self.prologue.data
        parts = [b.insert(ElementwiseRegionOp([x], self.body.clone(), prologue=prologue)).result for x in self.inputs]
        joined = b.insert(ConcatOp(parts, 0)).result
        set_result_type(joined, self.result.type)
        return (joined,)
