"""Matrix products and what is fused into them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, Float64Type, FloatAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import ActivationKind, ActivationKindAttr
from rlx_dialect.base import RlxOp, Value, element_of
from rlx_dialect.dtypes import Array, is_bool, is_float, is_integer
from rlx_dialect.ops.constant import scalar
from rlx_dialect.ops.elementwise import ACTIVATIONS, ActivationOp, BinaryOp, activation_takes
from rlx_dialect.ops.extents import halves
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.reduction import converted
from rlx_dialect.xdsl_compat import Builder, InterpretationError


class ContractionOp(RlxOp):
    """Base of the products: numbers (not i1) of one element type, which is the result's."""

    def check_elements(self) -> None:
        if is_bool(self.element(0)):
            self.fail(f"{self.operand_name(0)} must be of numbers, got i1")
        self.check_same_element()


SUMMED_IN_ORDER = 32
"""Sums of up to this many products are formed one after the other by the reference."""


def matmul(lhs: Array, rhs: Array) -> Array:
    """lhs · rhs for [..., M, K] and [..., K, N].

    A BLAS sums in an order that depends on M and N. Short sums of reals are formed in order instead, so that what a
    pass does to other rows and columns changes no bit of them, and tests can demand that.
    """
    terms = lhs.shape[-1]
    if lhs.dtype.kind not in "fc" or not 0 < terms <= SUMMED_IN_ORDER or rhs.shape[-2] != terms:
        return np.matmul(lhs, rhs)
    total = lhs[..., :1] * rhs[..., :1, :]
    for k in range(1, terms):
        total += lhs[..., k : k + 1] * rhs[..., k : k + 1, :]
    return total


@irdl_op_definition
class MatMulOp(ContractionOp):
    """[..., M, K] · [..., K, N] -> [..., M, N]; leading batch dimensions broadcast."""

    name = "rlx.matmul"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    def __init__(self, lhs: Value, rhs: Value, *, result_type: Attribute | None = None):
        super().__init__([lhs, rhs], result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.matmul(self.shape(0), self.shape(1))),)

    def check(self) -> None:
        self.check_elements()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (matmul(*args),)


@irdl_op_definition
class FusedMatMulBiasActOp(ContractionOp):
    """activation(input · weight + bias); bias is [N] and is added along the last dimension.

    Without a kind there is no activation. input [..., M, K], weight [..., K, N], result [..., M, N].
    """

    name = "rlx.fused_matmul_bias_act"
    KEYWORD: ClassVar = "activation"
    input = operand_def()
    weight = operand_def()
    bias = operand_def()
    activation = opt_prop_def(ActivationKindAttr)
    result = result_def()

    def __init__(
        self,
        input: Value,
        weight: Value,
        bias: Value,
        *,
        activation: ActivationKind | str | None = None,
        result_type: Attribute | None = None,
    ):
        super().__init__([input, weight, bias], {"activation": activation}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.matmul(self.shape(0), self.shape(1))),)

    def check(self) -> None:
        self.check_elements()
        if self.activation is not None and not activation_takes(self.activation.data, self.element(0)):
            self.fail(f"operands with {self.activation.data} must have a float element type, got {self.element(0)}")
        self.check_shape(2, self.shape(1)[-1:])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, w, bias = args
        y = matmul(x, w) + bias
        return (y if self.activation is None else ACTIVATIONS[self.activation.data](y),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        product = b.insert(MatMulOp(self.input, self.weight)).result
        value = b.insert(BinaryOp("add", product, self.bias)).result
        if self.activation is not None:
            value = b.insert(ActivationOp(self.activation.data, value)).result
        return self.as_results(value)


@irdl_op_definition
class FusedMatMulResidualOp(ContractionOp):
    """lhs · rhs + residual, where residual has the shape of the product (rank 2 or more)."""

    name = "rlx.fused_matmul_residual"
    lhs = operand_def()
    rhs = operand_def()
    residual = operand_def()
    result = result_def()

    def __init__(self, lhs: Value, rhs: Value, residual: Value, *, result_type: Attribute | None = None):
        super().__init__([lhs, rhs, residual], result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.matmul(self.shape(0), self.shape(1))),)

    def check(self) -> None:
        self.check_elements()
        self.check_shape(2, shapes.matmul(self.shape(0), self.shape(1)))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        lhs, rhs, residual = args
        return (matmul(lhs, rhs) + residual,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        product = b.insert(MatMulOp(self.lhs, self.rhs)).result
        return self.as_results(b.insert(BinaryOp("add", product, self.residual)).result)


@irdl_op_definition
class FusedSwiGLUOp(RlxOp):
    """up · silu(gate) of the two halves of the last dimension: [..., 2N] -> [..., N].

    The low half is ``up`` and the high half ``gate``; with ``gate_first`` it is the other way round. The result
    may have another element type than the operand: the product is then converted at the end.
    """

    name = "rlx.fused_swiglu"
    packed = operand_def()
    gate_first = opt_prop_def(UnitAttr)
    result = result_def()

    def __init__(self, packed: Value, *, gate_first: bool = False, result_type: Attribute | None = None):
        super().__init__([packed], {"gate_first": gate_first}, result_types=[result_type])

    def infer_types(self) -> tuple[Attribute, ...]:
        shape = self.shape(0)
        if not shape or (shape[-1] != shapes.DYNAMIC and shape[-1] % 2):
            raise shapes.ShapeError(f"the last extent of operand 'packed' must be even, got {shapes.show(shape)}")
        half = shape[-1] if shape[-1] == shapes.DYNAMIC else shape[-1] // 2
        return (self.like(0, (*shape[:-1], half), self._result_element()),)

    def check(self) -> None:
        for what, element in (("operand 'packed'", self.element(0)), ("the result", element_of(self.result))):
            if not is_float(element):
                self.fail(f"{what} must have a float element type, got {element}")

    def _result_element(self) -> Attribute | None:
        return self.result.type.element_type if isinstance(self.result.type, TensorType) else None

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        low, high = np.split(args[0], 2, axis=-1)
        up, gate = (high, low) if self.gate_first is not None else (low, high)
        return (up * ACTIVATIONS[ActivationKind.SILU](gate),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        low, high = (half.value for half in halves(Term(b, self.packed), len(self.shape(0)) - 1))
        up, gate = (high, low) if self.gate_first is not None else (low, high)
        silu = b.insert(ActivationOp("silu", gate)).result
        value = b.insert(BinaryOp("mul", up, silu)).result
        return self.as_results(converted(b, value, element_of(self.result)))


@irdl_op_definition
class DotGeneralOp(ContractionOp):
    """Sum of products over the contracting axes, as XLA's DotGeneral.

    Result axes: the batch axes, the free axes of lhs, the free axes of rhs, each in operand order (batch axes in
    the order listed). Lists pair up lhs and rhs axes.
    """

    name = "rlx.dot_general"
    lhs = operand_def()
    rhs = operand_def()
    lhs_contracting = prop_def(DenseArrayBase.constr(i64))
    rhs_contracting = prop_def(DenseArrayBase.constr(i64))
    lhs_batch = prop_def(DenseArrayBase.constr(i64), default_value=DenseArrayBase.from_list(i64, []))
    rhs_batch = prop_def(DenseArrayBase.constr(i64), default_value=DenseArrayBase.from_list(i64, []))
    result = result_def()

    def __init__(
        self,
        lhs: Value,
        rhs: Value,
        lhs_contracting: list[int],
        rhs_contracting: list[int],
        lhs_batch: list[int] | None = None,
        rhs_batch: list[int] | None = None,
    ):
        super().__init__(
            [lhs, rhs],
            {
                "lhs_contracting": lhs_contracting,
                "rhs_contracting": rhs_contracting,
                "lhs_batch": lhs_batch or [],
                "rhs_batch": rhs_batch or [],
            },
        )

    def axes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """lhs contracting, rhs contracting, lhs batch, rhs batch."""
        return (
            tuple(self.lhs_contracting.get_values()),
            tuple(self.rhs_contracting.get_values()),
            tuple(self.lhs_batch.get_values()),
            tuple(self.rhs_batch.get_values()),
        )

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.dot_general(self.shape(0), self.shape(1), *self.axes())),)

    def check(self) -> None:
        self.check_elements()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch = self.axes()
        lhs, rhs = args
        shapes.dot_general(lhs.shape, rhs.shape, *self.axes())  # Because einsum would repeat an extent of 1.
        # One einsum letter an axis: rhs axes take the letter of the lhs axis they are paired with.
        left = list(range(lhs.ndim))
        right = [lhs.ndim + i for i in range(rhs.ndim)]
        for a, c in zip((*lhs_contracting, *lhs_batch), (*rhs_contracting, *rhs_batch), strict=True):
            right[c] = left[a]
        batch = [left[a] for a in lhs_batch]
        free_left = [left[i] for i in range(lhs.ndim) if i not in {*lhs_contracting, *lhs_batch}]
        free_right = [right[i] for i in range(rhs.ndim) if i not in {*rhs_contracting, *rhs_batch}]
        return (np.einsum(lhs, left, rhs, right, [*batch, *free_left, *free_right]),)


@irdl_op_definition
class LoraMatMulOp(ContractionOp):
    """x·w + ``scale``·(x·a)·b: a product with a low-rank correction, for floats.

    x [..., M, K], w [..., K, N], a [..., K, R], b [..., R, N], result [..., M, N].
    """

    name = "rlx.lora_matmul"
    x = operand_def()
    w = operand_def()
    a = operand_def()
    b = operand_def()
    scale = prop_def(FloatAttr[Float64Type])
    result = result_def()

    def __init__(self, x: Value, w: Value, a: Value, b: Value, *, scale: float):
        super().__init__([x, w, a, b], {"scale": scale})

    def infer_types(self) -> tuple[Attribute, ...]:
        product = shapes.matmul(self.shape(0), self.shape(1))
        low_rank = shapes.matmul(shapes.matmul(self.shape(0), self.shape(2)), self.shape(3))
        if not shapes.compatible(product[-1:], low_rank[-1:]):
            raise shapes.ShapeError(
                f"operands 'w' and 'b' must have one last extent, got {shapes.show(self.shape(1))} "
                f"and {shapes.show(self.shape(3))}"
            )
        return (self.like(0, shapes.broadcast(product, low_rank)),)

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'x' must have a float element type, got {self.element(0)}")
        self.check_same_element()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, w, a, b = args
        return (np.matmul(x, w) + self.scale.value.data * np.matmul(np.matmul(x, a), b),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        product = b.insert(MatMulOp(self.x, self.w)).result
        low = b.insert(MatMulOp(self.x, self.a)).result
        correction = b.insert(MatMulOp(low, self.b)).result
        scaled = b.insert(BinaryOp("mul", correction, scalar(b, self.scale.value.data, self.element(0)))).result
        return self.as_results(b.insert(BinaryOp("add", product, scaled)).result)


@irdl_op_definition
class GroupedMatMulOp(RlxOp):
    """result[i] = x[i] · w[idx[i]]: each row meets the weight that its index names.

    x [M, K], w [E, K, N], idx [M] of integers, result [M, N]. An index outside 0 to E - 1 is undefined.
    """

    name = "rlx.grouped_matmul"
    x = operand_def()
    w = operand_def()
    idx = operand_def()
    result = result_def()

    def __init__(self, x: Value, w: Value, idx: Value):
        super().__init__([x, w, idx])

    def infer_types(self) -> tuple[Attribute, ...]:
        x, w = self.shape(0), self.shape(1)
        if len(x) != 2 or len(w) != 3 or not shapes.compatible(x[1:], w[1:2]):
            raise shapes.ShapeError(
                f"operands 'x' and 'w' must have shapes MxK and ExKxN, got {shapes.show(x)} and {shapes.show(w)}"
            )
        return (self.like(0, (x[0], w[2])),)

    def check(self) -> None:
        self.check_shape(2, self.shape(0)[:1])
        if not is_integer(self.element(2)) or is_bool(self.element(2)):
            self.fail(f"operand 'idx' must have an integer element type, got {self.element(2)}")
        if is_bool(self.element(0)):
            self.fail("operand 'x' must be of numbers, got i1")
        self.check_same_element(0, 1)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, w, idx = args
        if ((idx < 0) | (idx >= w.shape[0])).any():
            raise InterpretationError(f"'{self.name}': an index is outside extent {w.shape[0]}")
        rows = [matmul(x[i : i + 1], w[e]) for i, e in enumerate(idx.tolist())]
        return (np.concatenate(rows) if rows else np.zeros((0, w.shape[2]), x.dtype),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The weights gathered by row, and a product with the rows as batch."""
        weights = b.insert(GatherOp(self.w, self.idx)).result
        return self.as_results(b.insert(DotGeneralOp(self.x, weights, [1], [1], [0], [0])).result)
