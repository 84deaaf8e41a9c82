"""Control flow: ``rlx.if``, ``rlx.while`` and ``rlx.scan``.

A body takes what it needs as block arguments and sees nothing around it, so what it captures are operands. Bodies are
without effects, as everything in a graph: a branch that is not taken may as well be computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, TensorType, UnitAttr, f32, i1
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from rlx_dialect import shapes
from rlx_dialect.base import RlxOp, Value, element_of, evaluate_op, shape_of
from rlx_dialect.dtypes import Array, is_bool
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import BinaryOp, CastOp, WhereOp
from rlx_dialect.ops.region import BodyOp, YieldOp
from rlx_dialect.ops.shape import ConcatOp, NarrowOp, ReshapeOp
from rlx_dialect.shapes import show
from rlx_dialect.xdsl_compat import Builder


def run_block(block: Block, args: Sequence[Array]) -> list[Array]:
    """What the block yields for these arguments."""
    values: dict[SSAValue, Array] = dict(zip(block.args, args, strict=True))
    for op in block.ops:
        arguments = [values[operand] for operand in op.operands]
        if isinstance(op, YieldOp):
            return arguments
        assert isinstance(op, RlxOp)
        values.update(zip(op.results, evaluate_op(op, arguments), strict=True))
    raise AssertionError("a verified body ends with rlx.yield")


def inlined(b: Builder, block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
    """Clone the block's operations to ``b``; what it yields there for these arguments."""
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, args, strict=True))
    for op in block.ops:
        if isinstance(op, YieldOp):
            return [values[operand] for operand in op.operands]
        b.insert(op.clone(values))
    raise AssertionError("a verified body ends with rlx.yield")


class ControlFlowOp(BodyOp):
    """Base: every body is one block of RLX operations that ends with a yield."""

    def yielded(self, region: Region) -> list[Attribute]:
        """The types that a body yields."""
        return [operand.type for operand in self._yield(region).operands]

    def _yield(self, region: Region) -> YieldOp:
        if not isinstance(terminator := region.block.last_op, YieldOp):
            raise shapes.ShapeError("a body must end with rlx.yield")
        return terminator

    def check_body(self, what: str, region: Region, arguments: Sequence[Attribute]) -> None:
        """Verify the arguments and the operations of a body."""
        terminator = self._yield(region)
        found = [argument.type for argument in region.block.args]
        if found != list(arguments):
            self.fail(f"{what} must take {_listed(arguments)}, got {_listed(found)}")
        for op in region.block.ops:
            if op is not terminator and not isinstance(op, RlxOp):
                self.fail(f"{what} takes rlx operations only, got '{op.name}'")

    def check_yields(self, what: str, region: Region, wanted: Sequence[Attribute]) -> None:
        if (found := self.yielded(region)) != list(wanted):
            self.fail(f"{what} must yield {_listed(wanted)}, got {_listed(found)}")


def _listed(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


def _is_truth_value(type: Attribute) -> bool:
    return isinstance(type, TensorType) and is_bool(type.element_type) and shapes.element_count(type.get_shape()) == 1


def _as_scalar(b: Builder, truth: SSAValue) -> SSAValue:
    """A tensor of one element as one of rank 0, which broadcasts to every shape."""
    return truth if shape_of(truth) == () else b.insert(ReshapeOp(truth, [])).result


@irdl_op_definition
class IfOp(ControlFlowOp):
    """The results of one of two bodies, whose arguments are the captures.

    ``predicate`` is an i1 tensor of one element. Both bodies yield values of the same types, the types of the results.
    The decomposition computes both and selects, so it is right only because bodies have no effects: a NaN of the body
    that is not taken does not come through.
    """

    name = "rlx.if"
    REGION_WORDS: ClassVar = ("else",)
    predicate = operand_def()
    captures = var_operand_def()
    then_body = region_def("single_block")
    else_body = region_def("single_block")
    res = var_result_def()

    def __init__(
        self,
        predicate: Value,
        captures: Sequence[Value],
        then_body: Region,
        else_body: Region,
    ):
        """Each body's block takes the captures and ends with a yield of the results."""
        terminator = then_body.block.last_op
        count = 0 if terminator is None else len(terminator.operands)
        super().__init__([predicate, *captures], result_types=[None] * count, regions=[then_body, else_body])

    def infer_types(self) -> tuple[Attribute, ...]:
        return tuple(self.yielded(self.then_body))

    def check(self) -> None:
        if not _is_truth_value(self.predicate.type):
            self.fail(f"operand 'predicate' must be an i1 tensor of one element, got {self.predicate.type}")
        for what, region in (("the first body", self.then_body), ("the second body", self.else_body)):
            self.check_body(what, region, [capture.type for capture in self.captures])
        self.check_yields("the second body", self.else_body, self.yielded(self.then_body))
        if not self.results:
            self.fail("the bodies must yield at least one value")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        predicate, *captures = args
        return tuple(run_block((self.then_body if predicate.item() else self.else_body).block, captures))

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        predicate = _as_scalar(b, self.predicate)
        first, second = (inlined(b, r.block, self.captures) for r in (self.then_body, self.else_body))
        chosen = [b.insert(WhereOp(predicate, x, y)).result for x, y in zip(first, second, strict=True)]
        return self.as_results(*chosen)


@irdl_op_definition
class WhileOp(ControlFlowOp):
    """The carried values after a loop: ``body`` gives the next ones as long as ``condition`` holds for them.

    Both bodies take the carried values; the condition yields an i1 tensor of one element, the body values of the same
    types. The loop ends after ``max_iterations`` at the latest, where that is given; only then there is a
    decomposition, which runs all iterations and keeps the values once the condition has failed.
    """

    name = "rlx.while"
    REGION_WORDS: ClassVar = ("do",)
    carried = var_operand_def()
    max_iterations = opt_prop_def(IntegerAttr[I64])
    condition = region_def("single_block")
    body = region_def("single_block")
    res = var_result_def()

    def __init__(self, carried: Sequence[Value], condition: Region, body: Region, *, max_iterations: int | None = None):
        """The block of each body takes the carried values and ends with a yield."""
        super().__init__(
            carried,
            {"max_iterations": max_iterations},
            result_types=[None] * len(carried),
            regions=[condition, body],
        )

    def infer_types(self) -> tuple[Attribute, ...]:
        return tuple(value.type for value in self.carried)

    def check(self) -> None:
        if not self.carried:
            self.fail("at least one carried value expected")
        if self.max_iterations is not None and self.max_iterations.value.data < 0:
            self.fail(f"max_iterations must not be negative, got {self.max_iterations.value.data}")
        types = [value.type for value in self.carried]
        self.check_body("the condition", self.condition, types)
        self.check_body("the body", self.body, types)
        found = self.yielded(self.condition)
        if len(found) != 1 or not _is_truth_value(found[0]):
            self.fail(f"the condition must yield an i1 tensor of one element, got {_listed(found)}")
        self.check_yields("the body", self.body, types)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        values, done = list(args), 0
        while self.max_iterations is None or done < self.max_iterations.value.data:
            if not run_block(self.condition.block, values)[0].item():
                break
            values = run_block(self.body.block, values)
            done += 1
        return tuple(values)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        if self.max_iterations is None:
            self.fail("a loop without max_iterations has no decomposition: it may run for ever")
        assert self.max_iterations is not None
        values: list[SSAValue] = list(self.carried)
        active = b.insert(ConstantOp.of(1.0, TensorType(f32, ()))).result
        for _ in range(self.max_iterations.value.data):
            (holds,) = inlined(b, self.condition.block, values)
            active = b.insert(BinaryOp("mul", active, b.insert(CastOp(_as_scalar(b, holds), f32)).result)).result
            runs = b.insert(CastOp(active, i1)).result
            following = inlined(b, self.body.block, values)
            values = [b.insert(WhereOp(runs, new, old)).result for new, old in zip(following, values, strict=True)]
        return tuple(values)


@irdl_op_definition
class ScanOp(ControlFlowOp):
    """A loop over the first axis of some operands.

    Operands are, in this order, the initial carry, ``num_bcast`` values that every step sees whole, and the values
    [``length``, ...] of which step t sees the t-th part. The body takes carry, whole values and parts and yields the
    next carry, of the carry's type. The result is the last carry or, with ``save_trajectory``, the carry after every
    step, [``length``, ...]. RLX's checkpoints are not represented: they are a memory plan for its gradients.
    """

    name = "rlx.scan"
    init = operand_def()
    others = var_operand_def()
    length = prop_def(IntegerAttr[I64])
    num_bcast = prop_def(IntegerAttr[I64], default_value=IntegerAttr(0, 64))
    save_trajectory = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    result = result_def()

    def __init__(
        self,
        init: Value,
        body: Region,
        *,
        length: int,
        whole: Sequence[Value] = (),
        parts: Sequence[Value] = (),
        save_trajectory: bool = False,
    ):
        """``parts`` have ``length`` as their first extent; the body's block takes one of each without it."""
        super().__init__(
            [init, *whole, *parts],
            {"length": length, "num_bcast": len(whole), "save_trajectory": save_trajectory},
            regions=[body],
        )

    @property
    def steps(self) -> int:
        return self.length.value.data

    def _split(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        """The whole values and those that are taken part by part."""
        count = self.num_bcast.value.data
        return self.others[:count], self.others[count:]

    def infer_types(self) -> tuple[Attribute, ...]:
        if self.save_trajectory is None:
            return (self.init.type,)
        return (self.like(0, (self.steps, *self.shape(0))),)

    def check(self) -> None:
        if self.steps < 1:
            self.fail(f"length must be positive, got {self.steps}")
        if not 0 <= self.num_bcast.value.data <= len(self.others):
            self.fail(f"num_bcast must be 0 to {len(self.others)}, got {self.num_bcast.value.data}")
        whole, parts = self._split()
        types = [self.init.type, *(value.type for value in whole)]
        for index, value in enumerate(parts, 1 + len(whole)):
            shape = shape_of(value)
            if not shape or not shapes.compatible(shape[:1], (self.steps,)):
                self.fail(f"operand #{index} must have the first extent {self.steps}, got {show(shape)}")
            types.append(TensorType(element_of(value), shape[1:]))
        self.check_body("the body", self.body, types)
        self.check_yields("the body", self.body, types[:1])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        count = 1 + self.num_bcast.value.data
        carry, whole, parts = args[0], args[1:count], args[count:]
        trajectory: list[Array] = []
        for step in range(self.steps):
            (carry,) = run_block(self.body.block, [carry, *whole, *(part[step] for part in parts)])
            trajectory.append(carry)
        return (carry if self.save_trajectory is None else np.stack(trajectory),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """Every step, one after the other; what is taken apart or joined has one unknown extent at most."""
        whole, parts = self._split()
        joined = [self.init] if self.save_trajectory is not None else []
        for value in (*joined, *parts):
            shape = shape_of(value)
            if (shape if value is self.init else shape[1:]).count(shapes.DYNAMIC) > 1:
                self.fail(f"no step of it can be written while several extents of {show(shape)} are unknown")
        carry: SSAValue = self.init
        trajectory: list[SSAValue] = []
        for step in range(self.steps):
            taken = [self._part(b, part, step) for part in parts]
            (carry,) = inlined(b, self.body.block, [carry, *whole, *taken])
            if self.save_trajectory is not None:
                trajectory.append(_with_leading_one(b, carry))
        if self.save_trajectory is None:
            return (carry,)
        return self.as_results(b.insert(ConcatOp(trajectory, 0)).result)

    def _part(self, b: Builder, value: SSAValue, step: int) -> SSAValue:
        row = b.insert(NarrowOp(value, 0, step, 1)).result
        return b.insert(ReshapeOp(row, shape_of(value)[1:])).result


def _with_leading_one(b: Builder, value: SSAValue) -> SSAValue:
    return b.insert(ReshapeOp(value, [1, *shape_of(value)])).result
