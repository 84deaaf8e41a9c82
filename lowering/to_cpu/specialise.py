"""A graph for known extents: its arguments get shapes, and every operation's own rule says those of its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue

from rlx_dialect.base import RlxOp, element_of, shape_of
from rlx_dialect.graph import arguments
from rlx_dialect.operation import describe
from rlx_dialect.ops.control_flow import IfOp, ScanOp, WhileOp
from rlx_dialect.shapes import Shape, ShapeError, compatible, is_static, show
from rlx_dialect.xdsl_compat import VerifyException, set_type


class Misfit(ValueError):
    """Extents that an operation cannot take; the message names it and the arguments that they come from."""


def has_unknown_extents(function: FuncOp) -> bool:
    """Whether an argument has any; those of other values follow."""
    return not all(is_static(shape_of(argument)) for argument in function.body.block.args)


def specialise(function: FuncOp, shapes: Sequence[Shape]) -> None:
    """Give the arguments of a graph these shapes, in place, and all its values what follows from them.

    Raises Misfit.
    """
    origins: dict[SSAValue, dict[str, None]] = {}
    for argument, shape in zip(arguments(function), shapes, strict=True):
        value = argument.value
        if not isinstance(value.type, TensorType) or is_static(shape_of(value)):
            continue
        origins[value] = {f"{argument.kind} '{argument.name}' of shape {show(shape)}": None}
        set_type(value, TensorType(value.type.element_type, shape))
    for op in function.body.block.ops:
        if not isinstance(op, RlxOp):
            continue
        sources = {name: None for operand in op.operands for name in origins.get(operand, ())}
        origins.update((result, sources) for result in op.results)
        try:
            _know_results(op)
        except (ShapeError, VerifyException) as error:
            raise Misfit(f"{' and '.join(sources)} cannot be taken: {describe(op)}: {error}") from error
    function.update_function_type()


def _know_results(op: RlxOp) -> None:
    """Raises ShapeError, VerifyException."""
    for block, types in _bodies(op):
        for argument, type in zip(block.args, types, strict=True):
            set_type(argument, type)
        for inner in block.ops:
            if isinstance(inner, RlxOp):
                _know_results(inner)
    op.check()
    for index, (result, type) in enumerate(zip(op.results, op.infer_types(), strict=True)):
        found = type.get_shape() if isinstance(type, TensorType) else ()
        if not compatible(found, shape_of(result)):
            raise ShapeError(f"result #{index} must have shape {show(shape_of(result))}, got {show(found)}")
        set_type(result, type)


def _bodies(op: RlxOp) -> Iterator[tuple[Block, list[Attribute]]]:
    """The bodies that compute with tensors, with the types that their arguments have to be of."""
    match op:
        case IfOp():
            types = [value.type for value in op.captures]
            yield op.then_body.block, types
            yield op.else_body.block, types
        case WhileOp():
            types = [value.type for value in op.carried]
            yield op.condition.block, types
            yield op.body.block, types
        case ScanOp():
            whole, count = [op.init, *op.others], 1 + op.num_bcast.value.data
            parts = [TensorType(element_of(value), shape_of(value)[1:]) for value in whole[count:]]
            yield op.body.block, [*(value.type for value in whole[:count]), *parts]
        case _:
            pass
