"""Control flow as ``scf`` on tensors: only the branch that is taken runs, and a loop as often as its values say."""

from __future__ import annotations

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.ops.control_flow import IfOp, ScanOp, WhileOp
from rlx_dialect.xdsl_compat import Builder, InsertPoint


def truth(value: SSAValue, b: Builder) -> SSAValue:
    """The i1 that a tensor of one element holds."""
    zero = arith.ConstantOp.from_int_and_width(0, IndexType())
    if rank := len(shape_of(value)):
        b.insert(zero)
    return b.insert(tensor.ExtractOp(value, [zero.result] * rank, element_of(value))).result


@lowers(IfOp)
def if_(op: IfOp, c: Conversion) -> list[SSAValue]:
    predicate = truth(c.value(op.predicate), c.b)
    captures = [c.value(o) for o in op.captures]
    branches: list[Region] = []
    for body in (op.then_body, op.else_body):
        block = Block()
        values = c.inlined(body, block, captures)
        Builder(InsertPoint.at_end(block)).insert(scf.YieldOp(*values))
        branches.append(Region(block))
    types = [c.lowered(r.type) for r in op.results]
    return list(c.b.insert(scf.IfOp(predicate, types, branches[0], branches[1])).results)


@lowers(WhileOp)
def while_(op: WhileOp, c: Conversion) -> list[SSAValue]:
    """With ``max_iterations`` the number of rounds is carried, too."""
    carried = [c.value(o) for o in op.carried]
    count = len(carried)
    bounded = op.max_iterations is not None
    if bounded:
        carried.append(c.index(0))
    types = [value.type for value in carried]
    before, after = Block(arg_types=types), Block(arg_types=types)
    (holds,) = c.inlined(op.condition, before, before.args[:count])
    b = Builder(InsertPoint.at_end(before))
    goes_on = truth(holds, b)
    if op.max_iterations is not None:
        most = b.insert(arith.ConstantOp.from_int_and_width(op.max_iterations.value.data, IndexType())).result
        within = b.insert(arith.CmpiOp(before.args[count], most, "ult")).result
        goes_on = b.insert(arith.AndIOp(within, goes_on)).result
    b.insert(scf.ConditionOp(goes_on, *before.args))
    following = c.inlined(op.body, after, after.args[:count])
    b = Builder(InsertPoint.at_end(after))
    if bounded:
        one = b.insert(arith.ConstantOp.from_int_and_width(1, IndexType())).result
        following.append(b.insert(arith.AddiOp(after.args[count], one)).result)
    b.insert(scf.YieldOp(*following))
    loop = c.b.insert(scf.WhileOp(carried, types, Region(before), Region(after)))
    return list(loop.results[:count])


@lowers(ScanOp)
def scan(op: ScanOp, c: Conversion) -> SSAValue:
    init, others = c.value(op.init), [c.value(o) for o in op.others]
    whole, parts = others[: op.num_bcast.value.data], others[op.num_bcast.value.data :]
    extents = c.extents(init)
    carried = [init]
    if op.save_trajectory is not None:
        carried.append(c.empty([op.steps, *extents], element_of(init)))
    lengths = [c.extents(part)[1:] for part in parts]

    def step(index: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
        taken = [row(c, part, index, own) for part, own in zip(parts, lengths, strict=True)]
        following = c.inlined(op.body, c.b.insertion_point.block, [values[0], *whole, *taken])
        if op.save_trajectory is not None:
            following.append(c.insert(following[0], values[1], [index, *[0] * len(extents)], [1, *extents]))
        return following

    # Without a trajectory, an unknown extent of the carry may change from step to step.
    return c.loop(op.steps, carried, step, fixed=op.save_trajectory is not None)[-1]


def row(c: Conversion, value: SSAValue, index: SSAValue, extents: tuple[Extent, ...]) -> SSAValue:
    """The part of ``value`` at ``index`` of its first axis, without that axis."""
    return c.slice(value, [index, *[0] * len(extents)], [1, *extents], kept=range(1, 1 + len(extents)))
