"""Matrix units without one: each ``gpu.subgroup_mma_*`` as loops over the memory of one invocation.

A kernel whose subgroups are single invocations then runs anywhere, which shows what it reads, multiplies and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith, gpu, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp, f32
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
    """A clone whose kernels hold the matrices in memory."""
    clone = module.clone()
    for function in [op for op in clone.walk() if isinstance(op, gpu.FuncOp)]:
        old = function.body.block
        new = Block(arg_types=[a.type for a in old.args])
        values: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
        _rewrite(old.ops, Builder(InsertPoint.at_end(new)), values)
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


def _rewrite(ops: Iterable[Operation], b: Builder, values: dict[SSAValue, SSAValue]) -> None:
    """Write ``ops`` at ``b``; ``values`` maps what they use, matrices to their memory."""
    for op in ops:
        match op:
            case SubgroupMmaConstantMatrixOp():
                number = values[op.value]
                values[op.result] = _matrix(b, lambda b, ij, v=number: v)
            case SubgroupMmaLoadMatrixOp():
                source, start, pitch = values[op.source], values[op.indices[0]], op.leadDimension.value.data

                def read(
                    b: Builder, ij: Sequence[SSAValue], m: SSAValue = source, s: SSAValue = start, p: int = pitch
                ) -> SSAValue:
                    return convert_float(_load(b, m, _place(b, *ij, p, s)), f32, b)

                values[op.result] = _matrix(b, read)
            case SubgroupMmaComputeOp():
                _multiply(b, *(values[o] for o in op.operands))
                values[op.result] = values[op.c]
            case SubgroupMmaStoreMatrixOp():
                _write(b, values[op.source], values[op.target], values[op.indices[0]], op.leadDimension.value.data)
            case scf.ForOp():
                _loop(op, b, values)
            case _:
                b.insert(op.clone(values))


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


def _loop(op: scf.ForOp, b: Builder, values: dict[SSAValue, SSAValue]) -> None:
    """A loop; each matrix that it carries is memory of its own, which the rounds change in place."""
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
    _rewrite(steps, Builder(InsertPoint.at_end(block)), values)
    block.add_op(scf.YieldOp(*(values[end.operands[i]] for i in kept)))
    bounds = (values[v] for v in (op.lb, op.ub, op.step))
    made = b.insert(scf.ForOp(*bounds, [values[carried[i][0]] for i in kept], block))
    values.update(zip((carried[i][2] for i in kept), made.results, strict=True))
