"""Control flow: bodies become regions; what a branch sees of its surroundings are the captures themselves."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, i1, i32, i64
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.to_stablehlo import dialect
from rlx_dialect.lowering.to_stablehlo.conversion import Conversion, lowers
from rlx_dialect.lowering.to_stablehlo.indexing import gathered
from rlx_dialect.lowering.to_stablehlo.tensors import Tensors, ints
from rlx_dialect.ops.control_flow import IfOp, ScanOp, WhileOp
from rlx_dialect.ops.region import YieldOp
from rlx_dialect.shapes import is_static
from rlx_dialect.xdsl_compat import Builder, InsertPoint


def _as_scalar(c: Tensors, truth: SSAValue) -> SSAValue:
    return c.cast(c.reshape(truth, []), TensorType(i1, []))


@lowers(IfOp)
def if_(op: IfOp, c: Conversion) -> list[SSAValue]:
    types = [r.type for r in op.results]
    bodies = [c.lowered_body(r, types, op.captures) for r in (op.then_body, op.else_body)]
    return list(c.ops("if", [_as_scalar(c, op.predicate)], types, bodies).results)


@lowers(WhileOp)
def while_(op: WhileOp, c: Conversion) -> list[SSAValue]:
    """With ``max_iterations`` a counter is carried in front of the values."""
    types = [v.type for v in op.carried]
    carried = [c.cast(v, t) for v, t in zip(op.carried, types, strict=True)]
    condition = c.lowered_body(op.condition, [op.yielded(op.condition)[0]])
    _return_scalar(c, condition)
    body = c.lowered_body(op.body, types)
    if op.max_iterations is None:
        return list(c.ops("while", carried, types, [condition, body]).results)
    most = op.max_iterations.value.data
    _count(c, condition, most)
    _count(c, body, None)
    start = [c.scalar(0, i64), *carried]
    return list(c.ops("while", start, [TensorType(i64, []), *types], [condition, body]).results[1:])


def _return_scalar(c: Conversion, condition: Region) -> None:
    """A truth value of another rank as a scalar."""
    terminator = condition.block.last_op
    assert terminator is not None
    with c.nested(Builder(InsertPoint.before(terminator))):
        terminator.operands[0] = _as_scalar(c, terminator.operands[0])


def _count(c: Conversion, region: Region, most: int | None) -> None:
    """A counter as the first argument: a body returns it plus one, a condition holds while it is below ``most``."""
    block = region.block
    counter = block.insert_arg(TensorType(i64, []), 0)
    terminator = block.last_op
    assert terminator is not None
    with c.nested(Builder(InsertPoint.before(terminator))):
        if most is None:
            returned = [c.same("add", counter, c.scalar(1, i64)), *terminator.operands]
        else:
            below = c.compare("LT", counter, c.scalar(most, i64))
            returned = [c.same("and", below, terminator.operands[0])]
    terminator.operands = returned


@lowers(ScanOp)
def scan(op: ScanOp, c: Conversion) -> SSAValue:
    """A loop that carries the step, the carry, the trajectory where it is wanted, and all that steps see."""
    count = op.num_bcast.value.data
    others, saves = list(op.others), op.save_trajectory is not None
    for part in others[count:]:
        c.require(c.extents(part)[0], "EQ", op.steps)
    carry_type = op.init.type
    state = [c.scalar(0, i32), c.cast(op.init, carry_type)]
    if saves:
        state.append(c.full([op.steps, *c.extents(op.init)], op.element(0), 0))
        if state[-1].type != op.result.type:
            state[-1] = c.cast(state[-1], op.result.type)
    first = len(state)
    state += others
    types = [v.type for v in state]

    condition = c.body(types, lambda step, *_: c.compare("LT", step, c.scalar(op.steps, i32)))
    block = Block(arg_types=types)
    with c.nested(Builder(InsertPoint.at_end(block))):
        step, carry, *rest = block.args
        seen = [*block.args[first : first + count], *(_part(c, p, step) for p in block.args[first + count :])]
        inner = op.body.clone()
        values = [carry, *seen]
        for argument, value, type in zip(
            list(inner.block.args), values, [a.type for a in op.body.block.args], strict=True
        ):
            argument.replace_all_uses_with(c.cast(value, type))
        for part in list(inner.block.ops):
            part.detach()
            block.add_op(part)
        terminator = block.last_op
        assert isinstance(terminator, YieldOp)
        c.block(block)
        c.b = Builder(InsertPoint.before(terminator))
        new = c.cast(terminator.operands[0], carry_type)
        returned = [c.same("add", step, c.scalar(1, i32)), new]
        if saves:
            returned.append(_written(c, rest[0], new, step))
        c.b.insert(dialect.ReturnOp.create(operands=[*returned, *block.args[first:]]))
        terminator.detach()
        terminator.erase()
    results = c.ops("while", state, types, [condition, Region(block)]).results
    return results[2] if saves else results[1]


def _part(c: Conversion, parts: SSAValue, step: SSAValue) -> SSAValue:
    """The part of one step, without the leading axis."""
    own, shape = c.extents(parts), shape_of(parts)[1:]
    if not is_static(shape):
        return gathered(c, parts, c.reshape(step, [1]), [0], range(len(shape)), own[1:], 0)
    starts = [step, *[c.scalar(0, i32)] * len(shape)]
    sizes = ints([1, *shape])
    taken = c.made("dynamic_slice", [parts, *starts], element_of(parts), [1, *shape], slice_sizes=sizes)
    return c.reshape(taken, shape)


def _written(c: Conversion, trajectory: SSAValue, carry: SSAValue, step: SSAValue) -> SSAValue:
    row = c.unit_axis(carry, 0)
    starts = [step, *[c.scalar(0, i32)] * (len(c.extents(row)) - 1)]
    return c.made("dynamic_update_slice", [trajectory, row, *starts], element_of(carry), c.extents(trajectory))
