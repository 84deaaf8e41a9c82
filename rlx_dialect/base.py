"""What every RLX operation shares: construction with inferred types, verification, evaluation, folding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    ComplexType,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    NoneType,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.irdl import IRDLOperation, OptOperandDef, VarOperandDef, traits_def
from xdsl.traits import Pure

from rlx_dialect import syntax
from rlx_dialect.dtypes import Array, compute_dtype, has_storage, is_scalar, round_to
from rlx_dialect.shapes import Shape, ShapeError, compatible, element_count, show
from rlx_dialect.xdsl_compat import (
    Builder,
    HasFolderInterface,
    InsertPoint,
    InterpretationError,
    Parser,
    Printer,
    VerifyException,
    set_result_type,
)

Value = SSAValue | Operation
"""What a constructor takes for an operand; an operation stands for its only result."""

FOLD_LIMIT = 1024
"""Constants above this many elements are not folded: the text would grow, and weights live outside it anyway."""


class RlxOp(IRDLOperation, HasFolderInterface):
    """An RLX operation.

    A subclass states, in this order: operands, properties, results; ``__init__``; ``infer_types`` (the shape
    rule); ``check`` (further verification); ``evaluate`` (its meaning in NumPy); ``decompose`` where it is
    made of simpler operations. Assembly comes from :mod:`rlx_dialect.syntax` and needs no code.
    """

    traits = traits_def(Pure())

    KEYWORD: ClassVar[str | None] = None
    """The property written as a bare keyword after the operation name."""
    TAKES_SCALARS: ClassVar[bool] = False
    """Whether operands may be scalars (``f32``), as in the body of a region, besides tensors."""
    SAME_TYPE: ClassVar[bool] = False
    """Whether operands and result always have one type, so that it is written once."""

    def __init__(
        self,
        operands: Sequence[SSAValue | Operation],
        properties: Mapping[str, object] | None = None,
        *,
        result_types: Sequence[Attribute | None] = (None,),
        regions: Sequence[Region] = (),
    ):
        """Property values may be plain Python (int, float, bool, list, kind name); a None result type is inferred."""
        Operation.__init__(
            self,
            operands=[SSAValue.get(o) for o in operands],
            result_types=[NoneType() if t is None else t for t in result_types],
            properties=syntax.attributes_of(type(self), properties or {}),
            regions=regions,
        )
        self.__post_init__()
        if None in result_types:
            try:
                inferred = self.infer_types()
            except ShapeError as error:
                raise VerifyException(f"'{self.name}': {error}") from error
            for result, declared, found in zip(self.results, result_types, inferred, strict=True):
                if declared is None:
                    set_result_type(result, found)

    # Shape rule and verification.

    def infer_types(self) -> tuple[Attribute, ...]:
        """Result types from operands, properties and regions, one per result; raises ShapeError."""
        raise AssertionError(f"{self.name} states no shape rule")

    def check(self) -> None:
        """Verification beyond the shape rule; raise ShapeError or call :meth:`fail`."""

    def fail(self, message: str) -> None:
        raise VerifyException(f"'{self.name}': {message}")

    def operand_name(self, index: int) -> str:
        definitions = self.get_irdl_definition().operands
        if len(definitions) > len(self.operands):  # An optional operand is absent.
            definitions = [d for d in definitions if not isinstance(d[1], VarOperandDef)]
        variadic = any(isinstance(d, VarOperandDef) and not isinstance(d, OptOperandDef) for _, d in definitions)
        if variadic or len(definitions) != len(self.operands):
            return f"operand #{index}"
        return f"operand '{definitions[index][0]}'"

    def verify_(self) -> None:
        for index, operand in enumerate(self.operands):
            if not isinstance(operand.type, TensorType) and not (self.TAKES_SCALARS and is_scalar(operand.type)):
                wanted = "a ranked tensor or a scalar" if self.TAKES_SCALARS else "a ranked tensor"
                self.fail(f"{self.operand_name(index)} must be {wanted}, got {operand.type}")
            if not is_scalar(element_of(operand)):
                self.fail(f"{self.operand_name(index)} must be of numbers or truth values, got {operand.type}")
        try:
            self.check()
            inferred = self.infer_types()
        except ShapeError as error:
            raise VerifyException(f"'{self.name}': {error}") from error
        for index, (result, expected) in enumerate(zip(self.results, inferred, strict=True)):
            if result.type != expected and not _types_agree(result.type, expected):
                self.fail(f"result #{index} must be {expected}, got {result.type}")
            if not is_scalar(element_of(result)):
                self.fail(f"result #{index} must be of numbers or truth values, got {result.type}")

    def check_same_element(self, *indices: int) -> None:
        """Fail unless the operands ``indices`` (by default all) have one element type."""
        first, *others = indices or range(len(self.operands))
        for index in others:
            if self.element(index) != self.element(first):
                self.fail(
                    f"{self.operand_name(index)} must have element type {self.element(first)} like "
                    f"{self.operand_name(first)}, got {self.element(index)}"
                )

    def check_shape(self, index: int, wanted: Shape) -> None:
        """Fail unless operand ``index`` can have the shape ``wanted``."""
        if not compatible(self.shape(index), wanted):
            self.fail(f"{self.operand_name(index)} must have shape {show(wanted)}, got {show(self.shape(index))}")

    # Shapes and element types of operands, by position.

    def shape(self, index: int) -> Shape:
        return shape_of(self.operands[index])

    def element(self, index: int) -> Attribute:
        return element_of(self.operands[index])

    def like(self, index: int, shape: Shape | None = None, element: Attribute | None = None) -> Attribute:
        """The type of operand ``index`` with another shape or element type; a scalar stays a scalar."""
        base = self.operands[index].type
        if not isinstance(base, TensorType):
            return element or base
        return TensorType(element or base.element_type, base.get_shape() if shape is None else shape)

    # Meaning.

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        """The results for operand values ``args`` in NumPy.

        f16 and bf16 operands arrive as float32; results are rounded to the result types by the caller
        (:func:`evaluate_op`), so an implementation computes in whatever precision is at least that wide.
        An operation that states no formula means what its decomposition means.
        """
        if not self.has_decomposition():
            raise InterpretationError(f"{self.name} has no reference evaluation")
        return _evaluate_decomposed(self, args)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Build the same meaning from simpler operations at ``b``; returns one value per result."""
        raise AssertionError(f"{self.name} is primitive: check has_decomposition first")

    def as_results(self, *values: SSAValue) -> tuple[SSAValue, ...]:
        """What :meth:`decompose` returns: new ``values`` take the result types, which may know more extents."""
        for value, result in zip(values, self.results, strict=True):
            if value.type != result.type:
                assert isinstance(value, OpResult)
                set_result_type(value, result.type)
        return values

    @classmethod
    def has_decomposition(cls) -> bool:
        return cls.decompose is not RlxOp.decompose

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """Identity first, then the value itself when every operand is a small constant."""
        if (same := self.fold_identity()) is not None:
            return (same,)
        return self._fold_constants()

    def fold_identity(self) -> SSAValue | None:
        """The operand that the (single) result equals, if it does; types must be equal too."""
        return None

    def _fold_constants(self) -> Sequence[Attribute] | None:
        if not self.operands or self.regions:
            return None
        count = sum(element_count(shape_of(r)) or FOLD_LIMIT + 1 for r in self.results)
        if count > FOLD_LIMIT:
            return None
        if not all(has_storage(element_of(value)) for value in (*self.operands, *self.results)):
            return None
        args: list[Array] = []
        for operand in self.operands:
            value = constant_value(operand)
            if value is None:
                return None
            args.append(value)
        try:
            values = evaluate_op(self, args)
        except InterpretationError:  # An index out of range: undefined, and not the folder's to report.
            return None
        return [dense_of(value, result.type) for value, result in zip(values, self.results, strict=True)]

    # Assembly.

    @classmethod
    def parse(cls, parser: Parser):
        return syntax.parse_op(cls, parser)

    def print(self, printer: Printer) -> None:
        syntax.print_op(self, printer)


def _types_agree(found: Attribute, expected: Attribute) -> bool:
    """Equal element types, and shapes that can be one value's."""
    return (
        isinstance(found, TensorType)
        and isinstance(expected, TensorType)
        and found.element_type == expected.element_type
        and compatible(found.get_shape(), expected.get_shape())
    )


def shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor; () for a scalar."""
    return value.type.get_shape() if isinstance(value.type, TensorType) else ()


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor; the type itself for a scalar."""
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def rank_of(value: SSAValue) -> int:
    return len(shape_of(value))


def byte_size(type: Attribute) -> int:
    """The bytes of a value of ``type``; 0 where an extent is unknown or the type has no size."""
    if isinstance(type, TensorType):
        return (element_count(type.get_shape()) or 0) * byte_size(type.element_type)
    if isinstance(type, ComplexType):
        return 2 * byte_size(type.element_type)
    return max(1, type.bitwidth // 8) if isinstance(type, FixedBitwidthType) else 0


def apply_op(op: RlxOp, args: Sequence[Array]) -> tuple[Array, ...]:
    """Widen the operands, apply the meaning, round to the result types.

    The shapes are those of ``args``: an operation on scalars in a region is applied to whole arrays this way.
    """
    widened = [
        np.asarray(a).astype(compute_dtype(element_of(o)), copy=False) for a, o in zip(args, op.operands, strict=True)
    ]
    try:
        with np.errstate(all="ignore"):
            values = op.evaluate(*widened)
    except (ValueError, IndexError) as error:  # Extents that are known only now do not fit.
        raise InterpretationError(f"'{op.name}': {error}") from error
    return tuple(round_to(v, element_of(r)) for v, r in zip(values, op.results, strict=True))


def evaluate_op(op: RlxOp, args: Sequence[Array]) -> tuple[Array, ...]:
    """:func:`apply_op`, checking that the results have the shapes that their types say."""
    values = apply_op(op, args)
    for value, result in zip(values, op.results, strict=True):
        if not compatible(value.shape, shape_of(result)):
            raise InterpretationError(f"'{op.name}': value of shape {value.shape} where the type says {result.type}")
    return values


def _evaluate_decomposed(op: RlxOp, args: Sequence[Array]) -> tuple[Array, ...]:
    """Decompose a copy of ``op`` for the shapes that the values have, and evaluate its parts."""
    block = Block(arg_types=[TensorType(element_of(o), a.shape) for o, a in zip(op.operands, args, strict=True)])
    copy = type(op).create(operands=block.args, result_types=op.result_types, properties=op.properties)
    for result, type_ in zip(copy.results, copy.infer_types(), strict=True):
        set_result_type(result, type_)
    values: dict[SSAValue, Array] = dict(zip(block.args, args, strict=True))
    returned = copy.decompose(Builder(InsertPoint.at_end(block)))
    for part in block.ops:
        assert isinstance(part, RlxOp)
        values.update(zip(part.results, evaluate_op(part, [values[o] for o in part.operands]), strict=True))
    return tuple(values[value] for value in returned)


def constant_value(value: SSAValue) -> Array | None:
    """The value of an ``rlx.constant``'s result; None for anything else or when its data lie outside the IR."""
    from rlx_dialect.ops.constant import ConstantOp

    return value.owner.array() if isinstance(value.owner, ConstantOp) else None


def dense_of(value: Array, type: Attribute) -> DenseIntOrFPElementsAttr:
    from rlx_dialect.ops.constant import dense_elements

    return dense_elements(value, type)
