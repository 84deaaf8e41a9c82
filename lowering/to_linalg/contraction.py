"""Matrix products and what is fused into them.

A product of matrices, or of many with one common right side (the linear layers), is one ``linalg.matmul``; batches
are a ``linalg.generic`` with the maps of a contraction. f16 and bf16 are multiplied and summed in f32, and rounded
once, after what is fused behind the product.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from rlx_dialect.attributes import ActivationKind, BinaryKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_unsigned, wide_element
from rlx_dialect.lowering import scalar
from rlx_dialect.lowering.arithmetic import convert_float, signless
from rlx_dialect.lowering.to_linalg.conversion import Conversion, lowers
from rlx_dialect.lowering.to_linalg.extents import Extent
from rlx_dialect.lowering.to_linalg.nests import Access
from rlx_dialect.lowering.to_linalg.tensors import Operand
from rlx_dialect.ops.contraction import (
    DotGeneralOp,
    FusedMatMulBiasActOp,
    FusedMatMulResidualOp,
    FusedSwiGLUOp,
    MatMulOp,
)
from rlx_dialect.xdsl_compat import Builder


def contract(
    c: Conversion,
    loops: Sequence[Extent],
    lhs: tuple[SSAValue, Sequence[Access]],
    rhs: tuple[SSAValue, Sequence[Access]],
    summed: Sequence[int],
    *,
    barrier: bool = False,
) -> SSAValue:
    """The sum of products over the loops ``summed``; its element type is the wide one."""

    def multiply_add(b: Builder, elements: list[SSAValue]) -> SSAValue:
        left, right, *total = elements
        product = scalar.binary(BinaryKind.MUL, scalar.widen(left, b), scalar.widen(right, b), b)
        return scalar.binary(BinaryKind.ADD, total[0], product, b) if total else product

    wide = wide_element(element_of(lhs[0]))
    return c.generic(loops, [lhs, rhs], wide, multiply_add, reduced=summed, barrier=barrier)


def matmul(c: Conversion, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """[..., M, K] · [..., K, N] -> [..., M, N] with broadcast batches; the element type is the wide one.

    Raises NotLowered for complex numbers.
    """
    signless(element_of(lhs))
    *left_batch, rows, inner = c.extents(lhs)
    *right_batch, right_inner, columns = c.extents(rhs)
    c.require_equal(inner, right_inner)
    if len(left_batch) >= len(right_batch) and all(e == 1 for e in right_batch):
        left = c.reshape(lhs, [c.extent(c.symbols.of([*left_batch, rows])), inner])
        product = _matrix_product(c, left, c.reshape(rhs, [inner, columns]))
        return c.reshape(product, [*left_batch, rows, columns])
    batch = _broadcast_batch(left_batch, right_batch)
    m = len(batch)
    lhs, left_access = _batch_access(c, lhs, batch)
    rhs, right_access = _batch_access(c, rhs, batch)
    loops = [*batch, rows, columns, inner]
    return contract(c, loops, (lhs, [*left_access, m, m + 2]), (rhs, [*right_access, m + 2, m + 1]), [m + 2])


def _matrix_product(c: Conversion, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    rows, inner = c.extents(lhs)
    _, columns = c.extents(rhs)
    element = element_of(lhs)
    if wide_element(element) != element or inner == 0:
        # xDSL's matmul operation does not take operands narrower than its result, and IREE's none without columns.
        return contract(c, [rows, columns, inner], (lhs, [0, 2]), (rhs, [2, 1]), [2])
    init = c.filled([rows, columns], element, 0)
    return c.made(linalg.MatmulOp([lhs, rhs], [init]), [rows, columns])


def _broadcast_batch(left: Sequence[Extent], right: Sequence[Extent]) -> list[Extent]:
    rank = max(len(left), len(right))
    padded = [[1] * (rank - len(batch)) + list(batch) for batch in (left, right)]
    shape: list[Extent] = []
    for a, b in zip(*padded, strict=True):
        static = [e for e in (a, b) if isinstance(e, int) and e != 1]
        shape.append(static[0] if static else b if a == 1 else a)
    return shape


def _batch_access(c: Conversion, value: SSAValue, batch: Sequence[Extent]) -> tuple[SSAValue, list[int]]:
    """``value`` without the batch axes of extent 1 that broadcast, and the loops that read the others.

    Maps with constants would no longer be those of a contraction.
    """
    *own, rows, columns = c.extents(value)
    mine = list(enumerate(batch))[len(batch) - len(own) :]
    kept = [(loop, e) for (loop, common), e in zip(mine, own, strict=True) if e != 1 or common == 1]
    return c.reshape(value, [*(e for _, e in kept), rows, columns]), [loop for loop, _ in kept]


@lowers(MatMulOp)
def lower_matmul(op: MatMulOp, c: Conversion) -> SSAValue:
    return c.narrowed(matmul(c, c.value(op.lhs), c.value(op.rhs)), signless(op.element(0)))


def _epilogue(c: Conversion, product: SSAValue, added: Operand, kind: ActivationKind | None, op: Operation) -> SSAValue:
    """activation(product + added), rounded once to the result's element type."""
    element = signless(element_of(op.results[0]))
    unsigned = is_unsigned(element_of(op.results[0]))

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        value = scalar.binary(BinaryKind.ADD, elements[0], scalar.widen(elements[1], b), b)
        if kind is not None:
            value = scalar.activation(kind, value, b, unsigned=unsigned)
        return convert_float(value, element, b) if isinstance(element, AnyFloat) else value

    return c.elementwise(c.extents(product), [product, added], element, body)


@lowers(FusedMatMulBiasActOp)
def fused_matmul_bias_act(op: FusedMatMulBiasActOp, c: Conversion) -> SSAValue:
    product = matmul(c, c.value(op.input), c.value(op.weight))
    return _epilogue(c, product, c.operand(op.bias), None if op.activation is None else op.activation.data, op)


@lowers(FusedMatMulResidualOp)
def fused_matmul_residual(op: FusedMatMulResidualOp, c: Conversion) -> SSAValue:
    return _epilogue(c, matmul(c, c.value(op.lhs), c.value(op.rhs)), c.operand(op.residual), None, op)


@lowers(FusedSwiGLUOp)
def fused_swiglu(op: FusedSwiGLUOp, c: Conversion) -> SSAValue:
    packed = c.value(op.packed)
    axis = len(shape_of(packed)) - 1
    width = c.quotient(c.extents(packed)[axis], 2)
    element = signless(element_of(op.result))
    low, high = (c.narrow(packed, axis, start, width) for start in (0, width))
    up, gate = (high, low) if op.gate_first is not None else (low, high)

    def body(b: Builder, elements: list[SSAValue]) -> SSAValue:
        left, right = (scalar.widen(e, b) for e in elements)
        value = scalar.binary(BinaryKind.MUL, left, scalar.activation(ActivationKind.SILU, right, b), b)
        return convert_float(value, element, b)

    return c.elementwise(c.extents(up), [up, gate], element, body)


@lowers(DotGeneralOp)
def dot_general(op: DotGeneralOp, c: Conversion) -> SSAValue:
    element = signless(op.element(0))
    lhs, rhs = c.value(op.lhs), c.value(op.rhs)
    left, right = c.extents(lhs), c.extents(rhs)
    lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
    # Loops: batch, free of lhs, free of rhs, contracted; each axis of the operands is read by one of them.
    lhs_free = [a for a in range(len(left)) if a not in {*lhs_batch, *lhs_contracting}]
    rhs_free = [a for a in range(len(right)) if a not in {*rhs_batch, *rhs_contracting}]
    lhs_order = [*lhs_batch, *lhs_free]
    result_rank = len(lhs_order) + len(rhs_free)
    lhs_loop = {a: loop for loop, a in enumerate(lhs_order)} | {
        a: result_rank + i for i, a in enumerate(lhs_contracting)
    }
    rhs_loop = (
        {a: loop for loop, a in enumerate(rhs_batch)}
        | {a: len(lhs_order) + i for i, a in enumerate(rhs_free)}
        | {a: result_rank + i for i, a in enumerate(rhs_contracting)}
    )
    loops = [
        *(static_first(left[a], right[b]) for a, b in zip(lhs_batch, rhs_batch, strict=True)),
        *(left[a] for a in lhs_free),
        *(right[a] for a in rhs_free),
        *(static_first(left[a], right[b]) for a, b in zip(lhs_contracting, rhs_contracting, strict=True)),
    ]
    value = contract(
        c,
        loops,
        (lhs, [lhs_loop[a] for a in range(len(left))]),
        (rhs, [rhs_loop[a] for a in range(len(right))]),
        range(result_rank, len(loops)),
    )
    return c.narrowed(value, element)


def static_first(a: Extent, b: Extent) -> Extent:
    """Of two equal extents the one that is known."""
    return a if isinstance(a, int) else b
