"""What Vulkan does not take, in what it takes: matrix units as loops over memory, and vectors as scalars.

A kernel whose subgroups are single invocations then runs anywhere, which shows what it reads, multiplies and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    VectorType,
    f32,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from rlx_dialect.lowering.arithmetic import convert_float
from rlx_dialect.lowering.to_gpu.gpu_ops import (
    MmaMatrixType,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from rlx_dialect.lowering.to_gpu.hardware import MATRIX
from rlx_dialect.xdsl_compat import Builder, InsertPoint

FUNCTION_SPACE = 6
"""The memory of one invocation, in MLIR's numbering for Vulkan."""


def emulate(module: ModuleOp) -> ModuleOp:
    """A clone whose kernels hold matrices in memory, and elements of vectors one by one."""
    clone = module.clone()
    for function in [op for op in clone.walk() if isinstance(op, gpu.FuncOp)]:
        old = function.body.block
        new = Block(arg_types=[a.type for a in old.args])
        values: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
        _Emulation(values).rewrite(old.ops, Builder(InsertPoint.at_end(new)))
        made = gpu.FuncOp(function.sym_name.data, ([a.type for a in new.args], []), Region(new))
        made.attributes |= function.attributes
        block = function.parent
        assert block is not None
        block.insert_op_before(made, function)
        function.detach()
    return clone


def _index(b: Builder, value: int) -> SSAValue:
    return b.insert(arith.ConstantOp(IntegerAttr(value, IndexType()))).result


def _place(b: Builder, row: SSAValue, column: SSAValue, pitch: int, start: SSAValue | None = None) -> SSAValue:
    at = b.insert(arith.AddiOp(b.insert(arith.MuliOp(row, _index(b, pitch))).result, column)).result
    return at if start is None else b.insert(arith.AddiOp(start, at)).result


def _after(b: Builder, start: SSAValue, count: int) -> SSAValue:
    return b.insert(arith.AddiOp(start, _index(b, count))).result


def _load(b: Builder, source: SSAValue, at: SSAValue) -> SSAValue:
    return b.insert(memref.LoadOp.get(source, [at])).res


def _store(b: Builder, value: SSAValue, target: SSAValue, at: SSAValue) -> None:
    b.insert(memref.StoreOp.get(value, target, [at]))


def _each(b: Builder, rank: int, body: Callable[[Builder, Sequence[SSAValue]], None]) -> None:
    """Loops over the rows and columns of a matrix, and with rank 3 over what two share."""
    if not rank:
        body(b, [])
        return
    block = Block(arg_types=[IndexType()])
    inner = Builder(InsertPoint.at_end(block))
    _each(inner, rank - 1, lambda b, rest: body(b, [block.args[0], *rest]))
    block.add_op(scf.YieldOp())
    b.insert(scf.ForOp(_index(b, 0), _index(b, MATRIX), _index(b, 1), [], block))


def _matrix(b: Builder, element: Callable[[Builder, Sequence[SSAValue]], SSAValue]) -> SSAValue:
    """Memory with an element for each row and column."""
    type = MemRefType(f32, [MATRIX * MATRIX], memory_space=IntegerAttr(FUNCTION_SPACE, 64))
    made = b.insert(memref.AllocaOp.build(operands=[[], []], result_types=[type])).memref
    _each(b, 2, lambda b, ij: _store(b, element(b, ij), made, _place(b, *ij, MATRIX)))
    return made


def _multiply(b: Builder, left: SSAValue, right: SSAValue, total: SSAValue) -> None:
    """Add a product to ``total``, in place."""

    def add(b: Builder, ijk: Sequence[SSAValue]) -> None:
        i, j, step = ijk
        x, y = _load(b, left, _place(b, i, step, MATRIX)), _load(b, right, _place(b, step, j, MATRIX))
        at = _place(b, i, j, MATRIX)
        product = b.insert(arith.MulfOp(x, y)).result
        _store(b, b.insert(arith.AddfOp(_load(b, total, at), product)).result, total, at)

    _each(b, 3, add)


def _write(b: Builder, source: SSAValue, target: SSAValue, start: SSAValue, pitch: int) -> None:
    def one(b: Builder, ij: Sequence[SSAValue]) -> None:
        _store(b, _load(b, source, _place(b, *ij, MATRIX)), target, _place(b, *ij, pitch, start))

    _each(b, 2, one)


class _Emulation:
    """Writes operations again; ``values`` maps what they use, matrices to their memory."""

    def __init__(self, values: dict[SSAValue, SSAValue]):
        self.values = values
        self.lanes: dict[SSAValue, list[SSAValue]] = {}
        """The elements of vectors."""

    def rewrite(self, ops: Iterable[Operation], b: Builder) -> None:
        for op in ops:
            if isinstance(op, vector.StoreOp) or any(
                isinstance(v.type, VectorType) for v in (*op.results, *op.operands)
            ):
                self._vector(op, b)
            else:
                self._scalar(op, b)

    def _scalar(self, op: Operation, b: Builder) -> None:
        values = self.values
        match op:
            case SubgroupMmaConstantMatrixOp():
                values[op.result] = _matrix(b, lambda b, ij: values[op.value])
            case SubgroupMmaLoadMatrixOp():
                source, start, pitch = values[op.source], values[op.indices[0]], op.leadDimension.value.data
                values[op.result] = _matrix(
                    b, lambda b, ij: convert_float(_load(b, source, _place(b, *ij, pitch, start)), f32, b)
                )
            case SubgroupMmaComputeOp():
                _multiply(b, *(values[o] for o in op.operands))
                values[op.result] = values[op.c]
            case SubgroupMmaStoreMatrixOp():
                _write(b, values[op.source], values[op.target], values[op.indices[0]], op.leadDimension.value.data)
            case scf.ForOp():
                self._loop(op, b)
            case scf.IfOp() if not op.results:
                block = Block()
                self.rewrite(op.true_region.block.ops, Builder(InsertPoint.at_end(block)))
                b.insert(scf.IfOp(values[op.cond], [], [block]))
            case _:
                b.insert(op.clone(values))

    def _vector(self, op: Operation, b: Builder) -> None:
        values, lanes = self.values, self.lanes
        match op:
            case vector.LoadOp():
                (count,) = op.result.type.get_shape()
                base, start = values[op.base], values[op.indices[0]]
                lanes[op.result] = [_load(b, base, _after(b, start, i)) for i in range(count)]
            case vector.StoreOp():
                base, start = values[op.base], values[op.indices[0]]
                for i, value in enumerate(lanes[op.vector]):
                    _store(b, value, base, _after(b, start, i))
            case vector.ExtractOp():
                (position,) = op.static_position.get_values()
                values[op.result] = lanes[op.vector][position]
            case arith.ConstantOp():
                assert isinstance(op.value, DenseIntOrFPElementsAttr)
                element = op.value.get_element_type()
                assert isinstance(element, AnyFloat)
                lanes[op.result] = [
                    b.insert(arith.ConstantOp(FloatAttr(float(n), element))).result for n in op.value.get_values()
                ]
            case arith.ExtFOp():
                assert isinstance(op.result.type, VectorType)
                lanes[op.result] = [convert_float(v, op.result.type.element_type, b) for v in lanes[op.input]]
            case arith.SelectOp():
                pairs = zip(lanes[op.lhs], lanes[op.rhs], strict=True)
                lanes[op.result] = [b.insert(arith.SelectOp(values[op.cond], x, y)).result for x, y in pairs]
            case _:
                raise AssertionError(f"{op.name} of vectors")

    def _loop(self, op: scf.ForOp, b: Builder) -> None:
        """A loop; each matrix that it carries is memory of its own, which the rounds change in place."""
        values = self.values
        carried = list(zip(op.iter_args, op.body.block.args[1:], op.results, strict=True))
        kept = [i for i, (start, _, _) in enumerate(carried) if not isinstance(start.type, MmaMatrixType)]
        for start, argument, result in carried:
            if isinstance(start.type, MmaMatrixType):
                source = values[start]
                memory = _matrix(b, lambda b, ij, m=source: _load(b, m, _place(b, *ij, MATRIX)))
                values[argument] = values[result] = memory
        block = Block(arg_types=[IndexType(), *(carried[i][0].type for i in kept)])
        values[op.body.block.args[0]] = block.args[0]
        values.update(zip((carried[i][1] for i in kept), block.args[1:], strict=True))
        *steps, end = op.body.block.ops
        self.rewrite(steps, Builder(InsertPoint.at_end(block)))
        block.add_op(scf.YieldOp(*(values[end.operands[i]] for i in kept)))
        bounds = (values[v] for v in (op.lb, op.ub, op.step))
        made = b.insert(scf.ForOp(*bounds, [values[carried[i][0]] for i in kept], block))
        values.update(zip((carried[i][2] for i in kept), made.results, strict=True))
