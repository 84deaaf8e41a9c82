"""Regions: the body of each is a function of its own, which MLX compiles to one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from rlx_dialect.base import rank_of
from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.convolution import resized_2x
from rlx_dialect.lowering.to_mlx.elementwise import is_plain
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.elementwise import BinaryOp, CompareOp
from rlx_dialect.ops.region import BatchElementwiseRegionOp, ElementwiseRegionOp, RegionOp, TransformRegionOp


def _literals(op: RegionOp, w: Writer) -> list[str | None]:
    """The literal that stands for each operand in the body: a number that only meets arrays, in single operators."""
    found: list[str | None] = []
    numbers = [w.number(o) if rank_of(o) == 0 else None for o in op.inputs]
    block = op.body.block
    constants: set[SSAValue] = {a for a, n in zip(block.args, numbers, strict=True) if n is not None}
    for argument, number in zip(block.args, numbers, strict=True):
        users = [use.operation for use in argument.uses]
        fits = all(
            (isinstance(user, CompareOp) or (isinstance(user, BinaryOp) and is_plain(user)))
            and not constants.issuperset(user.operands)
            for user in users
        )
        found.append(number if fits and users else None)
    return found


def _function(op: RegionOp, w: Writer, literals: Sequence[str | None]) -> str:
    """The name of the function of the body, whose parameters are the operands without a literal."""
    inner, block = w.child(), op.body.block
    names = [n or inner.fresh(a, f"x{i}") for i, (a, n) in enumerate(zip(block.args, literals, strict=True))]
    parameters = [name for name, literal in zip(names, literals, strict=True) if literal is None]
    with inner.nested():
        (yielded,) = inner.block(block, names)
        needed = _needed(block)
        whole = all(a in needed for a, n in zip(block.args, literals, strict=True) if n is None)
        # An operand without a part in the value has one in its shape.
        if not whole:
            shapes = ", ".join(f"{p}.shape" for p in parameters)
            yielded = f"mx.broadcast_to({yielded}, mx.broadcast_shapes({shapes}))"
        inner.line(f"return {yielded}")
    text = "\n".join([f"({', '.join(parameters)}):", *inner.lines])
    return w.printed.function(text, f"{op.result.name_hint or 'region'}_body")


def _needed(block: Block) -> set[SSAValue]:
    """The values of a body that the yielded one is computed from."""
    ops = list(block.ops)
    needed: set[SSAValue] = set(ops[-1].operands)
    for op in reversed(ops[:-1]):
        if any(result in needed for result in op.results):
            needed.update(op.operands)
    return needed


@lowers(ElementwiseRegionOp)
def elementwise_region(op: ElementwiseRegionOp, w: Writer) -> str:
    literals: Sequence[str | None] = _literals(op, w)
    if all(literals):
        literals = [None for _ in literals]
    name = _function(op, w, literals)
    arguments = [w.value(o) for o, n in zip(op.inputs, literals, strict=True) if n is None]
    if op.prologue is not None:
        arguments[0] = w.let("resized", resized_2x(arguments[0]))
    return f"{name}({', '.join(arguments)})"


@lowers(BatchElementwiseRegionOp)
def batch_elementwise_region(op: BatchElementwiseRegionOp, w: Writer) -> str:
    slices = w.values(op.inputs)
    if op.prologue is not None:
        slices = [w.let("resized", resized_2x(name)) for name in slices]
    name = _function(op, w, [None])
    return f"{name}(mx.concatenate([{', '.join(slices)}], axis=0))"


@lowers(TransformRegionOp)
def transform_region(op: TransformRegionOp, w: Writer) -> str:
    value = w.value(op.input)
    for _ in op.steps:
        value = resized_2x(value)
    return value
