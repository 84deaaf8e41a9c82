"""Linalg on tensors in the form that IREE compiles best, by what was measured to be fast.

- Parameters (arguments with ``rlx.param``) become ``util.global``s bound to named parameters, so that IREE packs
  them once, ahead of the first call, and the compiled module stays small.
- A lowering marks the first linalg operation of a norm with the discardable attribute ``rlx.barrier_before``
  (:data:`BARRIER`). The tensors that it reads pass through ``util.optimization_barrier`` first, for it and for
  everything below it: without that, whole blocks are fused into dispatches that are slow or do not compile.
- So do the terms of a reduction that are all one number (:mod:`.iree_sums`).
- And the operands of batched products of odd sizes (:mod:`.iree_products`).
- A loop with the mark :data:`SCATTER` becomes ``iree_linalg_ext.scatter``: 512 rows into 30,000 in half a
  millisecond, where the loop would read every index back to the host.
- Functions of f64 that IREE has no code for are written as arithmetic (:mod:`rlx_dialect.lowering.double`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    DenseArrayBase,
    FunctionType,
    IndexType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnregisteredOp,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, BlockArgument, Operation, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import irdl_attr_definition

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.lowering.double import DOUBLES
from rlx_dialect.lowering.expansion import expand
from rlx_dialect.lowering.to_linalg import BARRIER, SCATTER
from rlx_dialect.runtime.iree_products import padded_operands
from rlx_dialect.runtime.iree_sums import joins_one_number
from rlx_dialect.xdsl_compat import Builder, InsertPoint, Printer, Rewriter

SCOPE = "rlx"
"""Of the names of parameters."""
_GLOBAL = UnregisteredOp.with_name("util.global")
_LOAD = UnregisteredOp.with_name("util.global.load")
_BARRIER = UnregisteredOp.with_name("util.optimization_barrier")
_TIE_SHAPE = UnregisteredOp.with_name("flow.tensor.tie_shape")
_SCATTER = UnregisteredOp.with_name("iree_linalg_ext.scatter")
_SCATTER_YIELD = UnregisteredOp.with_name("iree_linalg_ext.yield")


@irdl_attr_definition
class _NamedParameter(ParametrizedAttribute):
    """IREE's ``#flow.parameter.named<"scope"::"key"> : type``."""

    name = "flow.parameter.named"
    scope: StringAttr
    key: StringAttr
    type: TensorType

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.scope)
            printer.print_string("::")
            printer.print_attribute(self.key)
        printer.print_string(" : ")
        printer.print_attribute(self.type)


def hand_off(module: ModuleOp, params: Sequence[Array]) -> ModuleOp:
    """A copy of a linalg module in the form that IREE compiles best; see the module.

    Its main function takes the inputs only, in their order. ``params`` are the values of the parameters, in theirs:
    a global has no dynamic extents.
    """
    module = module.clone()
    function = main_function(module)
    expand(function, DOUBLES)
    for op in list(function.walk()):
        if isinstance(op, scf.ForOp) and op.attributes.pop(SCATTER, None) is not None:
            _loop_to_scatter(op)
    _insert_barriers(function)
    _parameters_to_globals(module, function, params)
    return module


def is_scatter(op: Operation) -> bool:
    """Whether a module that was handed off changes a tensor in place here."""
    return isinstance(op, _SCATTER)


def _loop_to_scatter(loop: scf.ForOp) -> None:
    ops = list(loop.body.block.ops)
    (place,) = (op for op in ops if isinstance(op, tensor.ExtractOp))
    update, _ = (op for op in ops if isinstance(op, tensor.ExtractSliceOp))
    (combine,) = (op for op in ops if isinstance(op, linalg.GenericOp))
    (data,) = loop.iter_args
    source = combine.body.block
    block = Block(arg_types=[argument.type for argument in source.args[:2]])
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.args[:2], block.args, strict=True))
    for op in source.ops:
        if isinstance(op, linalg.YieldOp):
            block.add_op(_SCATTER_YIELD.create(operands=[mapping.get(v, v) for v in op.operands]))
        else:
            block.add_op(op.clone(mapping))
    # What computes an operand must not be part of the scatter's dispatch, which would hold it on the stack.
    b = Builder(InsertPoint.before(loop))
    scatter = _SCATTER.create(
        operands=[*(_barrier(operand, b) for operand in (update.source, place.tensor)), data],
        result_types=[data.type],
        properties={
            "dimension_map": DenseArrayBase.from_list(i64, [0]),
            "unique_indices": BoolAttr.from_bool(False),
        },
        regions=[Region(block)],
    )
    Rewriter.replace_op(loop, scatter)


def _insert_barriers(function: FuncOp) -> None:
    orders: dict[Block, dict[Operation, int]] = {}
    for op in list(function.walk()):
        behind_barriers: Sequence[SSAValue] = padded_operands(op) if op.parent is function.body.block else []
        if op.attributes.pop(BARRIER, None) is not None or joins_one_number(op):
            behind_barriers = op.operands[: len(op.operands) - len(op.results)]
        if not behind_barriers:
            continue
        assert isinstance(op, LinalgStructuredOperation)
        assert op.parent is not None
        if op.parent not in orders:
            orders[op.parent] = {other: index for index, other in enumerate(op.parent.ops)}
        order = orders[op.parent]
        for value in dict.fromkeys(behind_barriers):
            if isinstance(value.type, TensorType) and not _is_made_of_arguments(value):
                behind = _barrier(value, Builder(InsertPoint.before(op)))
                value.replace_uses_with_if(
                    behind, lambda use, at=order[op], order=order: _position(use.operation, order) >= at
                )


def _is_made_of_arguments(value: SSAValue) -> bool:
    """Whether there is nothing above ``value`` to keep it apart from: it is an argument, or a map or sum of some.

    A residual sum of inputs is then computed where it is normalised, a quarter faster than in a dispatch of its own.
    """
    op = value.owner
    return isinstance(op, Block) or (
        isinstance(op, linalg.GenericOp)
        and IteratorTypeAttr.reduction() not in op.iterator_types
        and all(isinstance(operand, BlockArgument) for operand in op.inputs)
    )


def _position(op: Operation, order: Mapping[Operation, int]) -> int:
    """The position in a block of ``op`` or of the operation there that it is inside of; -1 for others and new ones."""
    while op not in order:
        parent = op.parent_op()
        if parent is None or isinstance(parent, FuncOp):
            return -1
        op = parent
    return order[op]


def _barrier(value: SSAValue, b: Builder) -> SSAValue:
    type = value.type
    assert isinstance(type, TensorType)
    behind = b.insert(_BARRIER.create(operands=[value], result_types=[type])).results[0]
    dynamic = [axis for axis, extent in enumerate(type.get_shape()) if extent == DYNAMIC_INDEX]
    if not dynamic:
        return behind
    # IREE cannot see dynamic extents through the barrier: say that they are those in front of it.
    axes = [b.insert(arith.ConstantOp.from_int_and_width(axis, IndexType())).result for axis in dynamic]
    extents = [b.insert(tensor.DimOp(value, axis)).result for axis in axes]
    return b.insert(_TIE_SHAPE.create(operands=[behind, *extents], result_types=[type])).results[0]


def _parameters_to_globals(module: ModuleOp, function: FuncOp, params: Sequence[Array]) -> None:
    values = iter(params)
    block = function.body.block
    start = Builder(InsertPoint.at_start(block))
    inputs: list[TensorType] = []
    for index, argument in enumerate(arguments(function)):
        type = argument.value.type
        assert isinstance(type, TensorType)
        if argument.kind == "input":
            inputs.append(type)
            continue
        symbol, expected = f"param_{index}", type
        type = TensorType(type.element_type, next(values).shape)
        value = _NamedParameter(StringAttr(SCOPE), StringAttr(argument.name), type)
        declaration = _GLOBAL.create(
            properties={
                "initial_value": value,
                "sym_name": StringAttr(symbol),
                "sym_visibility": StringAttr("private"),
                "type": type,
            }
        )
        Rewriter.insert_op(declaration, InsertPoint.before(function))
        load = _LOAD.create(properties={"global": SymbolRefAttr(symbol)}, result_types=[type])
        loaded = start.insert(load).results[0]
        if type != expected:
            loaded = start.insert(tensor.CastOp(loaded, expected)).dest
        argument.value.replace_all_uses_with(loaded)
    for argument in arguments(function):
        if argument.kind == "param":
            block.erase_arg(argument.value)
    function.function_type = FunctionType.from_lists(inputs, list(function.function_type.outputs))
    function.properties.pop("arg_attrs", None)
