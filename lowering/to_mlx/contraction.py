"""Matrix products. MLX adds f16 and bf16 products up in f32; it has none of integers, which helpers write out."""

from __future__ import annotations

import string

from xdsl.ir import SSAValue

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import is_complex, is_float
from rlx_dialect.lowering.to_mlx.conversion import declines, lowers
from rlx_dialect.lowering.to_mlx.elementwise import activated
from rlx_dialect.lowering.to_mlx.text import dtype, number
from rlx_dialect.lowering.to_mlx.writer import Writer, is_f64
from rlx_dialect.ops.contraction import (
    DotGeneralOp,
    FusedMatMulBiasActOp,
    FusedMatMulResidualOp,
    FusedSwiGLUOp,
    GroupedMatMulOp,
    LoraMatMulOp,
    MatMulOp,
)


def _has_product(value: SSAValue) -> bool:
    return is_float(element_of(value)) or is_complex(element_of(value))


def product(w: Writer, lhs: SSAValue, rhs: SSAValue) -> str:
    """lhs · rhs."""
    a, b = w.value(lhs), w.value(rhs)
    return f"{a} @ {b}" if _has_product(lhs) else w.call("int_matmul", a, b)


def sum_with_product(w: Writer, added: SSAValue, lhs: SSAValue, rhs: SSAValue) -> str:
    """added + lhs · rhs."""
    if not is_float(element_of(lhs)):
        return f"{product(w, lhs, rhs)} + {w.value(added)}"
    return f"mx.addmm({w.value(added)}, {w.value(lhs)}, {w.value(rhs)})"


@lowers(MatMulOp)
def matmul(op: MatMulOp, w: Writer) -> str:
    return product(w, op.lhs, op.rhs)


@lowers(FusedMatMulBiasActOp)
def fused_matmul_bias_act(op: FusedMatMulBiasActOp, w: Writer) -> str:
    total = sum_with_product(w, op.bias, op.input, op.weight)
    if op.activation is None:
        return total
    element = op.element(0)
    y = w.widened(w.let("product", total), element)
    return w.narrowed(activated(w, op.activation.data, y, f64=is_f64(op.input)), element)


@lowers(FusedMatMulResidualOp)
def fused_matmul_residual(op: FusedMatMulResidualOp, w: Writer) -> str:
    return sum_with_product(w, op.residual, op.lhs, op.rhs)


@lowers(FusedSwiGLUOp)
def fused_swiglu(op: FusedSwiGLUOp, w: Writer) -> str:
    names = ["gate", "up"] if op.gate_first is not None else ["up", "gate"]
    first, second = (w.names.fresh(name) for name in names)
    w.line(f"{first}, {second} = mx.split({w.wide(op.packed)}, 2, axis=-1)")
    gate, up = (first, second) if op.gate_first is not None else (second, first)
    value = f"{up} * ({activated(w, ActivationKind.SILU, gate, f64=is_f64(op.packed))})"
    target = element_of(op.result)
    if target == op.element(0):
        return w.narrowed(value, target)
    return f"({value}).astype({dtype(target)})"


def _letters(op: DotGeneralOp) -> tuple[str, str, str]:
    """The einsum letters of lhs, rhs and result."""
    lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = op.axes()
    count = len(op.shape(0))
    left = list(string.ascii_letters[:count])
    right = list(string.ascii_letters[count : count + len(op.shape(1))])
    for a, c in zip((*lhs_contracting, *lhs_batch), (*rhs_contracting, *rhs_batch), strict=True):
        right[c] = left[a]
    result = [left[a] for a in lhs_batch]
    result += [x for i, x in enumerate(left) if i not in {*lhs_contracting, *lhs_batch}]
    result += [x for i, x in enumerate(right) if i not in {*rhs_contracting, *rhs_batch}]
    return "".join(left), "".join(right), "".join(result)


@lowers(DotGeneralOp)
def dot_general(op: DotGeneralOp, w: Writer) -> str:
    left, right, result = _letters(op)
    if _has_product(op.lhs):
        return f'mx.einsum("{left},{right}->{result}", {w.value(op.lhs)}, {w.value(op.rhs)})'
    # Each operand with its axes where those of result and contraction are.
    contracted = [x for x in left if x not in result]
    order = [*result, *contracted]
    parts: list[str] = []
    for letters, value in ((left, op.lhs), (right, op.rhs)):
        perm = [letters.index(x) for x in order if x in letters]
        index = ", ".join(":" if x in letters else "None" for x in order)
        parts.append(f"mx.transpose({w.value(value)}, {perm})[{index}]" if order else w.value(value))
    product = w.let("products", f"{parts[0]} * {parts[1]}")
    axes = tuple(range(len(result), len(order)))
    if not axes:
        return product
    return f"{w.call('reduced', 'mx.sum', product, axes, False, 0)}.astype({dtype(op.element(0))})"


@lowers(LoraMatMulOp)
def lora_matmul(op: LoraMatMulOp, w: Writer) -> str:
    x, weight, a, b = w.values(op.operands)
    scale = number(op.scale.value.data, element_of(op.x))
    return f"mx.addmm({x} @ {weight}, {x} @ {a}, {b}, alpha={scale})"


@lowers(GroupedMatMulOp)
def grouped_matmul(op: GroupedMatMulOp, w: Writer) -> str:
    # In f32, as MLX has it of nothing else on the CPU.
    x, weight = w.wide(op.x), w.wide(op.w)
    rows = w.let("rows", f"{w.value(op.operands[2])}.astype(mx.uint32)")
    return w.narrowed(f"mx.gather_mm({x}[:, None, :], {weight}, rhs_indices={rows})[:, 0, :]", op.element(0))


@declines(GroupedMatMulOp)
def _grouped_matmul_of_floats(op: GroupedMatMulOp) -> str | None:
    if not is_float(op.element(0)):
        return "MLX has no matrix product of integers"
    if is_f64(op.x):
        return "MLX selects matrices of f32 alone"
    return "it would have no rows" if 0 in (*shape_of(op.x), *shape_of(op.w)) else None
