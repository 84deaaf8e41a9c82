"""Exchanges between the invocations of a subgroup, through shared memory: for devices of other subgroups."""

from __future__ import annotations

from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute, SSAValue

from rlx_dialect.lowering.to_gpu.gpu_ops import ShuffleOp
from rlx_dialect.lowering.to_gpu.kernel import SHARED_SPACE
from rlx_dialect.xdsl_compat import Builder, InsertPoint, Rewriter


def through_memory(module: ModuleOp) -> ModuleOp:
    """A clone of a lowered module without ``gpu.shuffle``; kernels have one-dimensional workgroups, all of which meet.

    A module without exchanges is returned as it is.
    """
    if not any(isinstance(op, ShuffleOp) for op in module.walk()):
        return module
    clone = module.clone()
    for function in [op for op in clone.walk() if isinstance(op, gpu.FuncOp)]:
        if shuffles := [op for op in function.walk() if isinstance(op, ShuffleOp)]:
            _rewrite(function, shuffles)
    return clone


def _rewrite(function: gpu.FuncOp, shuffles: list[ShuffleOp]) -> None:
    sizes = function.attributes["known_block_size"]
    assert isinstance(sizes, DenseArrayBase)
    threads, *others = sizes.get_values()
    assert others == [1, 1]
    start = Builder(InsertPoint.at_start(function.body.block))
    thread = start.insert(gpu.ThreadIdOp(gpu.DimensionAttr(gpu.DimensionEnum.X))).result
    memories: dict[Attribute, SSAValue] = {}
    for op in shuffles:
        assert op.mode.mode.data == "xor"
        type = op.value.type
        if type not in memories:
            space = IntegerAttr(SHARED_SPACE, 64)
            memories[type] = start.insert(
                memref.AllocOp([], [], MemRefType(type, [threads], memory_space=space))
            ).memref
        memory, b = memories[type], Builder(InsertPoint.before(op))
        b.insert(memref.StoreOp.get(op.value, memory, [thread]))
        b.insert(gpu.BarrierOp())
        apart = b.insert(arith.IndexCastOp(op.offset, IndexType())).result
        other = b.insert(arith.XOrIOp(thread, apart)).result
        value = b.insert(memref.LoadOp.get(memory, [other])).res
        # Nobody may write for the next exchange before everybody has read.
        b.insert(gpu.BarrierOp())
        always = b.insert(arith.ConstantOp.from_int_and_width(1, 1)).result
        Rewriter.replace_op(op, [], [value, always])
