"""Attributes of loop nests and of reshapes, and a transposition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, IntegerAttr, TensorType, i32, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

Access = int | AffineExpr
"""How an input axis is read in a loop nest: by the loop of that number, or at an expression of the loops."""

# Attributes of loop nests, which repeat: making them takes longer than making the operation.


@cache
def indexing_maps(loops: int, inputs: tuple[tuple[Access, ...], ...], output: tuple[int, ...]) -> Attribute:
    def map_of(access: Sequence[Access]) -> AffineMapAttr:
        return AffineMapAttr(AffineMap(loops, 0, tuple(AffineDimExpr(a) if isinstance(a, int) else a for a in access)))

    return ArrayAttr(map_of(access) for access in (*inputs, output))


@cache
def iterators(loops: int, reduced: tuple[int, ...]) -> Attribute:
    kinds = (IteratorTypeAttr.reduction() if loop in reduced else IteratorTypeAttr.parallel() for loop in range(loops))
    return ArrayAttr(kinds)


@cache
def segments(inputs: int) -> Attribute:
    return DenseArrayBase.from_list(i32, [inputs, 1])


def apart(rank: int, axis: int, count: int) -> list[list[int]]:
    """The axes that stand for each of ``rank`` axes where ``count`` stand for ``axis``."""
    before, after = range(axis), range(axis + count, rank + count - 1)
    return [*([a] for a in before), list(range(axis, axis + count)), *([a] for a in after)]


def reassociation(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr(ArrayAttr(IntegerAttr(axis, i64) for axis in group) for group in groups)


def transposition(value: SSAValue, init: SSAValue, perm: Sequence[int]) -> linalg.TransposeOp:
    """The linalg operation, which xDSL's constructor does not make for complex numbers."""
    assert isinstance(init.type, TensorType)
    block = Block(arg_types=[init.type.element_type] * 2)
    block.add_op(linalg.YieldOp(block.args[0]))
    return linalg.TransposeOp.create(
        operands=[value, init],
        result_types=[init.type],
        properties={"permutation": DenseArrayBase.from_list(i64, list(perm))},
        regions=[Region(block)],
    )
