"""The pass ``rlx-lower-to-stablehlo``: legalisation, then one forward walk that writes StableHLO for each operation.

A family's file registers a function for each of its operations with :func:`lowers`; an operation without one is
decomposed. What can be neither is one error that names every such operation. Each value keeps its type, except that
index becomes i64, and that a lowered value may know more of its extents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import FunctionType, IndexType, ModuleOp, TensorType, UnknownLoc, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from rlx_dialect.base import RlxOp
from rlx_dialect.lowering import LoweringError, NotLowered
from rlx_dialect.lowering.legalize import legalize, refuse_unsupported
from rlx_dialect.lowering.registry import Lowerings
from rlx_dialect.lowering.to_stablehlo import dialect
from rlx_dialect.lowering.to_stablehlo.sharding import shard
from rlx_dialect.lowering.to_stablehlo.tensors import PRECISIONS, Tensors
from rlx_dialect.operation import describe
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.region import YieldOp
from rlx_dialect.shapes import ShapeError
from rlx_dialect.xdsl_compat import Builder, Context, InsertPoint, ModulePass, Rewriter, VerifyException, set_type

Lowering = Callable[[Any, "Conversion"], "SSAValue | Sequence[SSAValue]"]
"""Gives the lowered value of each result of an operation."""

LOWERINGS: Lowerings[Lowering] = Lowerings(__name__.rpartition(".")[0])
lowers = LOWERINGS.lowers
declines = LOWERINGS.declines


class Conversion(Tensors):
    """The state of one lowering."""

    def __init__(self, precision: str):
        super().__init__(Builder(InsertPoint(Block())), precision)
        self.problems: list[str] = []

    def block(self, block: Block) -> None:
        """Lower the operations of a block, in place."""
        for op in list(block.ops):
            if isinstance(op, ConstantOp) or (isinstance(op, RlxOp) and not isinstance(op, YieldOp)):
                self._convert(op)

    def _convert(self, op: RlxOp) -> None:
        before = op.prev_op
        self.b = Builder(InsertPoint.before(op))
        try:
            lowering = LOWERINGS.get(type(op))
            if lowering is None:
                raise NotLowered("it has no StableHLO form")
            found = lowering(op, self)
            values = [found] if isinstance(found, SSAValue) else list(found)
        except (NotLowered, ShapeError, VerifyException, TypeError) as error:
            self.problems.append(f"{describe(op)}: {error}")
            return
        for value, result in zip(values, op.results, strict=True):
            value.name_hint = value.name_hint or result.name_hint
        new = op.prev_op
        while new is not before and new is not None:
            if isinstance(new.location, UnknownLoc):
                new.location = op.location
            new = new.prev_op
        Rewriter.replace_op(op, [], values)

    def lowered_body(self, region: Region, types: Sequence[Attribute], arguments: Sequence[SSAValue] = ()) -> Region:
        """The region of an operation with its body lowered, which returns values of ``types``.

        With ``arguments`` its block takes none: it sees those values.
        """
        copy = region.clone()
        inner = copy.block
        for argument, value in zip(list(inner.args), arguments, strict=bool(arguments)):
            argument.replace_all_uses_with(value)
            inner.erase_arg(argument)
        terminator = inner.last_op
        assert isinstance(terminator, YieldOp)
        with self.nested(Builder(InsertPoint.before(terminator))):
            self.block(inner)
            self.b = Builder(InsertPoint.before(terminator))
            returned = [self.cast(v, t) for v, t in zip(terminator.operands, types, strict=True)]
            self.b.insert(dialect.ReturnOp.create(operands=returned))
        Rewriter.erase_op(terminator)
        return copy

    def function(self, function: FuncOp) -> None:
        """Lower a graph, in place; raises NotLowered."""
        for type in (*function.function_type.inputs, *function.function_type.outputs):
            if not isinstance(type, TensorType):
                raise NotLowered(f"@{function.sym_name.data}: a tensor expected, got {type}")
        if not function.is_declaration:
            block = function.body.block
            self.block(block)
            terminator = block.last_op
            assert isinstance(terminator, ReturnOp)
            self.b = Builder(InsertPoint.before(terminator))
            for index, type in enumerate(function.function_type.outputs):
                terminator.operands[index] = self.cast(terminator.operands[index], type)


def _without_index(module: ModuleOp) -> None:
    """StableHLO computes with i64 where RLX has index."""
    for op in module.walk():
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            set_type(value, _with_i64(value.type))
        if isinstance(op, FuncOp):
            type = op.function_type
            op.function_type = FunctionType.from_lists(
                [_with_i64(t) for t in type.inputs], [_with_i64(t) for t in type.outputs]
            )


def _with_i64(type: Attribute) -> Attribute:
    if isinstance(type, TensorType) and isinstance(type.element_type, IndexType):
        return TensorType(i64, type.get_shape())
    return type


@dataclass(frozen=True)
class LowerToStablehlo(ModulePass):
    """Write every graph in StableHLO; raises LoweringError for operations that have no such form.

    ``rlx.mesh`` on the module and ``rlx.sharding`` on arguments and results become Shardy's attributes. ``precision``
    is one of :data:`PRECISIONS`.
    """

    name = "rlx-lower-to-stablehlo"
    precision: str = PRECISIONS[0]

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"unknown precision '{self.precision}'; known are {', '.join(PRECISIONS)}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        refuse_unsupported("stablehlo", legalize(op, "stablehlo", "stablehlo"))
        _without_index(op)
        conversion = Conversion(self.precision)
        for function in [f for f in op.ops if isinstance(f, FuncOp)]:
            try:
                conversion.function(function)
            except NotLowered as error:
                conversion.problems.append(str(error))
        if conversion.problems:
            raise LoweringError("cannot be lowered to StableHLO", conversion.problems)
        _remove_dead(op)
        shard(op)


def _remove_dead(module: ModuleOp) -> None:
    """Operations that were written and never used."""
    for block in [b for op in list(module.walk()) for r in op.regions for b in r.blocks]:
        for op in reversed(list(block.ops)):
            if isinstance(op, dialect.HloOp) and all(result.first_use is None for result in op.results):
                Rewriter.erase_op(op)
