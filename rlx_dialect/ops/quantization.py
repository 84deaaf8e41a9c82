"""Integer quantisation: x is about (q - zero_point)·scale.

Rounding is to the nearest integer, ties to the even one; values outside the range of the integer type saturate, and
what NaN becomes is undefined. f16 and bf16 are computed in f32. Weights in GGUF, MLX and 4-bit packings are left out:
their layouts of bits belong to other projects. Floats of few bits are in :mod:`rlx_dialect.ops.scaled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    f64,
    i8,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
)

from rlx_dialect import shapes
from rlx_dialect.attributes import QuantScheme, QuantSchemeAttr, ScaleMode, ScaleModeAttr, SteKind, SteKindAttr
from rlx_dialect.base import RlxOp, Value, element_of, shape_of
from rlx_dialect.dtypes import Array, integer_limits, is_float, storage_dtype, wide_element
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.contraction import MatMulOp, matmul
from rlx_dialect.ops.convolution import ConvolutionOp, ConvOp, window_properties, window_properties_of
from rlx_dialect.ops.extents import positions
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.shape import INTS, front_axis
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, normal_axis, show
from rlx_dialect.xdsl_compat import Builder

REALS = DenseArrayBase.constr(f64)
"""A list of floats."""


def constant_term(b: Builder, values: Array, element: Attribute) -> Term:
    return Term(b, b.insert(ConstantOp.of(values, TensorType(element, values.shape))).result)


class ChannelwiseOp(RlxOp):
    """Base: one number for all of operand 0, or one for each position of ``axis``."""

    axis = opt_prop_def(IntegerAttr[I64])

    @property
    def axis_index(self) -> int | None:
        """The axis counted from the front; None where one number is for all."""
        return None if self.axis is None else normal_axis(self.axis.value.data, len(self.shape(0)))

    def channels(self) -> Shape:
        """The shape of a list of the numbers."""
        return (1 if self.axis_index is None else self.shape(0)[self.axis_index],)

    def along_axis(self, rank: int) -> list[int]:
        """The shape in which the numbers broadcast against operand 0."""
        return [-1 if a == self.axis_index else 1 for a in range(rank)]


class QuantizationOp(ChannelwiseOp):
    """Base: ``scales`` and ``zero_points`` list one pair for all elements, or one for each position of ``axis``."""

    scales = prop_def(REALS)
    zero_points = prop_def(INTS)

    def __init__(
        self,
        operand: Value,
        scales: Sequence[float],
        zero_points: Sequence[int],
        axis: int | None = None,
        *,
        result_type: Attribute | None = None,
    ):
        axis = None if axis is None else front_axis(axis, operand)
        properties = {"axis": axis, "scales": list(map(float, scales)), "zero_points": zero_points}
        super().__init__([operand], properties, result_types=[result_type])

    def result_element(self, default: Attribute) -> Attribute:
        declared = self.results[0].type
        return declared.element_type if isinstance(declared, TensorType) else default

    def check_stored(self, what: str, element: Attribute) -> None:
        """``element`` is an integer type of 8 or 16 bits that holds every zero point."""
        if not isinstance(element, IntegerType) or element.width.data not in (8, 16):
            self.fail(f"{what} must have an integer element type of 8 or 16 bits, got {element}")
        low, high = integer_limits(element)
        for zero_point in self.zero_points.get_values():
            if not low <= zero_point <= high:
                self.fail(f"zero point {zero_point} is outside {element}")

    def check_lists(self) -> None:
        scales, zero_points = self.scales.get_values(), self.zero_points.get_values()
        wanted = self.channels()
        if len(scales) != len(zero_points) or not shapes.compatible((len(scales),), wanted):
            self.fail(
                f"scales and zero_points must list {show(wanted)} numbers, got {len(scales)} and {len(zero_points)}"
            )
        if not all(0 < scale < np.inf for scale in scales):
            self.fail(f"scales must be positive and finite, got {list(scales)}")

    def lists(self, element: Attribute) -> tuple[Array, Array]:
        """The scales and zero points as values of the float type ``element`` that broadcast against operand 0."""
        dtype, shape = storage_dtype(element), self.along_axis(len(self.shape(0)))
        scales, zero_points = (
            np.asarray(a.get_values(), dtype).reshape(shape) for a in (self.scales, self.zero_points)
        )
        return scales, zero_points


@irdl_op_definition
class QuantizeOp(QuantizationOp):
    """saturate(round(x/scale) + zero_point) of floats, as i8 or another integer type of 8 or 16 bits."""

    name = "rlx.quantize"
    x = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, element=self.result_element(i8)),)

    def check(self) -> None:
        if not is_float(self.element(0)):
            self.fail(f"operand 'x' must have a float element type, got {self.element(0)}")
        self.check_stored("the result", element_of(self.result))
        self.check_lists()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        scales, zero_points = self.lists(wide_element(self.element(0)))
        low, high = integer_limits(self.result_element(i8))
        return (np.clip(np.rint(args[0] / scales) + zero_points, low, high),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        (x,) = Term.widened(b, self.x)
        scales, zero_points = (constant_term(b, values, x.element) for values in self.lists(x.element))
        low, high = integer_limits(element_of(self.result))
        value = ((x / scales).apply("round") + zero_points).clamp(low, high)
        return self.as_results(value.cast(element_of(self.result)).value)


@irdl_op_definition
class DequantizeOp(QuantizationOp):
    """(q - zero_point)·scale of integers of 8 or 16 bits, as f32 or the float type that the result says."""

    name = "rlx.dequantize"
    q = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, element=self.result_element(f32)),)

    def check(self) -> None:
        self.check_stored("operand 'q'", self.element(0))
        self.check_lists()
        if not is_float(element_of(self.result)):
            self.fail(f"the result must have a float element type, got {element_of(self.result)}")

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        wide = wide_element(self.result_element(f32))
        scales, zero_points = self.lists(wide)
        return ((args[0].astype(storage_dtype(wide)) - zero_points) * scales,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        q = Term(b, self.q).cast(wide_element(element_of(self.result)))
        scales, zero_points = (constant_term(b, values, q.element) for values in self.lists(q.element))
        return self.as_results(((q - zero_points) * scales).cast(element_of(self.result)).value)


LEVELS = {8: 127, 4: 7, 2: 1}
"""The greatest level of each number of bits that fake quantisation takes."""
LEAST_SCALE = 1e-12
"""The scale of values that are all 0."""


@irdl_op_definition
class FakeQuantizeOp(ChannelwiseOp):
    """clamp(round(x/s), -m, m)·s of floats, where m is the greatest level of ``bits``: 127 of 8, 7 of 4, 1 of 2.

    The scale s is one number, or one for each position of ``axis``. With ``per_batch`` it is max|x|/m, at least 1e-12;
    with ``fixed`` it is the operand state ([1] or [extent of ``axis``]); with ``ema`` it is
    decay·state + (1 - decay)·max|x|/m, or just max|x|/m where the state is not positive. (RLX writes that back into the
    state; here it is the optional second result.) ``ste`` is for the gradient only.
    """

    name = "rlx.fake_quantize"
    KEYWORD: ClassVar = "scale_mode"
    x = operand_def()
    state = opt_operand_def()
    bits = prop_def(IntegerAttr[I64])
    scale_mode = prop_def(ScaleModeAttr, default_value=ScaleModeAttr(ScaleMode.PER_BATCH))
    decay = opt_prop_def(FloatAttr[Float64Type])
    ste = prop_def(SteKindAttr, default_value=SteKindAttr(SteKind.IDENTITY))
    result = result_def()
    new_state = opt_result_def()

    def __init__(
        self,
        x: Value,
        state: Value | None = None,
        *,
        bits: int,
        axis: int | None = None,
        scale_mode: ScaleMode | str = ScaleMode.PER_BATCH,
        decay: float | None = None,
        ste: SteKind | str = SteKind.IDENTITY,
        state_result: bool = False,
    ):
        """``state_result`` asks for the second result."""
        properties = {
            "bits": bits,
            "axis": None if axis is None else front_axis(axis, x),
            "scale_mode": scale_mode,
            "decay": decay,
            "ste": ste,
        }
        operands = [x] if state is None else [x, state]
        super().__init__(operands, properties, result_types=[None] * (2 if state_result else 1))

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type, self.like(0, self.channels()))[: len(self.results)]

    def check(self) -> None:
        mode = self.scale_mode.data
        if not is_float(self.element(0)):
            self.fail(f"operand 'x' must have a float element type, got {self.element(0)}")
        if self.bits.value.data not in LEVELS:
            self.fail(f"bits must be 8, 4 or 2, got {self.bits.value.data}")
        if (self.state is None) != (mode is ScaleMode.PER_BATCH):
            self.fail(f"{mode} takes {'no' if self.state is not None else 'an'} operand 'state'")
        if (self.decay is None) != (mode is not ScaleMode.EMA):
            self.fail(f"{mode} {'needs' if self.decay is None else 'takes no'} decay")
        if self.decay is not None and not 0 <= self.decay.value.data <= 1:
            self.fail(f"decay must be from 0 to 1, got {self.decay.value.data}")
        if self.new_state is not None and mode is not ScaleMode.EMA:
            self.fail(f"{mode} has no second result")
        if self.state is not None:
            self.check_same_element()
            self.check_shape(1, self.channels())

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, *state = args
        level, shape = LEVELS[self.bits.value.data], self.along_axis(x.ndim)
        if self.scale_mode.data is ScaleMode.FIXED:
            scale = state[0].reshape(shape)
        else:
            others = tuple(a for a in range(x.ndim) if a != self.axis_index)
            greatest = np.abs(x).max(others, keepdims=True, initial=0)
            scale = np.maximum(greatest / level, x.dtype.type(LEAST_SCALE))
        if self.decay is not None:
            decay, old = self.decay.value.data, state[0].reshape(shape)
            scale = np.where(old > 0, decay * old + (1 - decay) * scale, scale)
        value = np.clip(np.rint(x / scale), -level, level) * scale
        return (value, scale.reshape(-1))[: len(self.results)]

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, *states = Term.widened(b, *self.operands)
        level, shape = LEVELS[self.bits.value.data], self.along_axis(x.rank)
        state = [s.reshape(shape) for s in states]
        if self.scale_mode.data is ScaleMode.FIXED:
            scale = state[0]
        else:
            others = [a for a in range(x.rank) if a != self.axis_index]
            greatest = x.apply("abs").reduce("max", others)
            scale = greatest.binary("max", 0.0) / level
            scale = scale.binary("max", LEAST_SCALE)
        if self.decay is not None:
            decay = self.decay.value.data
            scale = state[0].compare("gt", 0.0).where(decay * state[0] + (1 - decay) * scale, scale)
        value = (x / scale).apply("round").clamp(-level, level) * scale
        results = [value, scale.reshape(self.channels())][: len(self.results)]
        return self.as_results(*(r.cast(self.element(0)).value for r in results))


class QuantizedProductOp(RlxOp):
    """Base: a product of i8 operands without their zero points, summed in i32 with operand 2, the i32 bias.

    The result is saturate(round(sum·``mult``) + ``out_zp``) in i8, where the sum is first rounded to f32. ``mult`` is
    the scale of operand 0 times that of operand 1, divided by that of the result.
    """

    x_zp = prop_def(IntegerAttr[I64])
    w_zp = prop_def(IntegerAttr[I64])
    out_zp = prop_def(IntegerAttr[I64])
    mult = prop_def(FloatAttr[Float64Type])

    def check_quantized(self, outputs: int) -> None:
        """Element types, zero points and a bias of ``outputs`` numbers."""
        for index, element in enumerate((i8, i8, i32)):
            if self.element(index) != element:
                self.fail(f"{self.operand_name(index)} must have element type {element}, got {self.element(index)}")
        for name, zero_point in (("x_zp", self.x_zp), ("w_zp", self.w_zp), ("out_zp", self.out_zp)):
            if not -128 <= zero_point.value.data <= 127:
                self.fail(f"{name} {zero_point.value.data} is outside i8")
        if not 0 < self.mult.value.data < np.inf:
            self.fail(f"mult must be positive and finite, got {self.mult.value.data}")
        self.check_shape(2, (outputs,))

    def without_zero_points(self, x: Array, w: Array) -> tuple[Array, Array]:
        return x.astype(np.int32) - self.x_zp.value.data, w.astype(np.int32) - self.w_zp.value.data

    def requantized(self, total: Array) -> Array:
        scaled = np.rint(total.astype(np.float32) * np.float32(self.mult.value.data))
        return np.clip(scaled + self.out_zp.value.data, -128, 127)

    def shifted_terms(self, b: Builder) -> tuple[Term, Term]:
        """:meth:`without_zero_points` as operations."""
        x, w = (Term(b, operand).cast(i32) for operand in self.operands[:2])
        return x - self.x_zp.value.data, w - self.w_zp.value.data

    def requantized_term(self, total: Term) -> Term:
        """:meth:`requantized` as operations."""
        scaled = (total.cast(f32) * self.mult.value.data).apply("round")
        return (scaled + self.out_zp.value.data).clamp(-128, 127).cast(i8)


@irdl_op_definition
class QMatMulOp(QuantizedProductOp):
    """[..., M, K] · [..., K, N] + bias [N] of i8, requantised; see :class:`QuantizedProductOp`."""

    name = "rlx.q_matmul"
    x = operand_def()
    w = operand_def()
    bias = operand_def()
    result = result_def()

    def __init__(self, x: Value, w: Value, bias: Value, *, x_zp: int, w_zp: int, out_zp: int, mult: float):
        super().__init__([x, w, bias], {"x_zp": x_zp, "w_zp": w_zp, "out_zp": out_zp, "mult": mult})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.matmul(self.shape(0), self.shape(1))),)

    def check(self) -> None:
        self.check_quantized(shapes.matmul(self.shape(0), self.shape(1))[-1])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, w = self.without_zero_points(*args[:2])
        return (self.requantized(matmul(x, w) + args[2]),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, w = self.shifted_terms(b)
        total = x.insert(MatMulOp(x.value, w.value)) + Term(b, self.bias)
        return self.as_results(self.requantized_term(total).value)


@irdl_op_definition
class QConv2dOp(QuantizedProductOp, ConvolutionOp):
    """The convolution of i8 [N, Ci, H, W] with i8 [Co, Ci/groups, kH, kW], plus bias [Co], requantised.

    Padding stands for ``x_zp``. See :class:`QuantizedProductOp` and, for the window, ``rlx.conv``.
    """

    name = "rlx.q_conv2d"
    input = operand_def()
    weight = operand_def()
    bias = operand_def()
    result = result_def()

    def __init__(
        self,
        input: Value,
        weight: Value,
        bias: Value,
        *,
        x_zp: int,
        w_zp: int,
        out_zp: int,
        mult: float,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: int = 1,
        kernel_size: Sequence[int] | None = None,
    ):
        """``kernel_size`` is needed only where the weight's extents are dynamic."""
        kernel_size = shape_of(SSAValue.get(weight))[2:] if kernel_size is None else kernel_size
        numbers = {"x_zp": x_zp, "w_zp": w_zp, "out_zp": out_zp, "mult": mult, "groups": groups}
        window = window_properties(input, kernel_size, stride, padding, dilation)
        super().__init__([input, weight, bias], window | numbers)

    def infer_types(self) -> tuple[Attribute, ...]:
        if len(self.shape(0)) != 4:
            raise ShapeError(f"operand 'input' must have rank 4, got {show(self.shape(0))}")
        return (self.like(0, self.output_shape()),)

    def check(self) -> None:
        self.check_quantized(self.shape(1)[0])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, w = self.without_zero_points(*args[:2])
        return (self.requantized(self.convolved(x, w) + args[2].reshape(-1, 1, 1)),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        x, w = self.shifted_terms(b)
        conv = ConvOp.create(
            operands=[x.value, w.value],
            result_types=[self.like(0, self.output_shape(), i32)],
            properties=window_properties_of(self),
        )
        total = x.insert(conv) + Term(b, self.bias).reshape([*self.shape(2), 1, 1])
        return self.as_results(self.requantized_term(total).value)


@irdl_op_definition
class DequantMatMulOp(RlxOp):
    """x · w for a stored weight w[k, n] = (w_q[k, n] - zp[k/block, n])·scale[k/block, n], computed and returned in f32.

    x [..., M, K] is f32, f16 or bf16, w_q [K, N] is i8, scale and zp are f32 of shape [K/``block_size`` rounded up, N].
    ``int8_block`` has no zp.
    """

    name = "rlx.dequant_matmul"
    KEYWORD: ClassVar = "scheme"
    x = operand_def()
    w_q = operand_def()
    scale = operand_def()
    zp = opt_operand_def()
    scheme = prop_def(QuantSchemeAttr)
    block_size = prop_def(IntegerAttr[I64])
    result = result_def()

    def __init__(
        self,
        scheme: QuantScheme | str,
        x: Value,
        w_q: Value,
        scale: Value,
        zp: Value | None = None,
        *,
        block_size: int,
    ):
        operands = [x, w_q, scale, *([] if zp is None else [zp])]
        super().__init__(operands, {"scheme": scheme, "block_size": block_size})

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, shapes.matmul(self.shape(0), self.shape(1)), f32),)

    def check(self) -> None:
        block, w_q = self.block_size.value.data, self.shape(1)
        if not is_float(self.element(0)) or wide_element(self.element(0)) != f32:
            self.fail(f"operand 'x' must have element type f32, f16 or bf16, got {self.element(0)}")
        for index, element in enumerate((i8, f32, f32)[: len(self.operands) - 1], 1):
            if self.element(index) != element:
                self.fail(f"{self.operand_name(index)} must have element type {element}, got {self.element(index)}")
        if block < 1:
            self.fail(f"block_size must be positive, got {block}")
        if (self.zp is None) != (self.scheme.data is QuantScheme.INT8_BLOCK):
            self.fail(f"{self.scheme.data} takes {'no' if self.zp is not None else 'an'} operand 'zp'")
        if len(w_q) != 2:
            self.fail(f"operand 'w_q' must have rank 2, got {show(w_q)}")
        blocks = DYNAMIC if w_q[0] == DYNAMIC else -(-w_q[0] // block)
        for index in range(2, len(self.operands)):
            self.check_shape(index, (blocks, w_q[1]))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, w_q, scale, *zp = args
        block = np.arange(w_q.shape[0]) // self.block_size.value.data
        w = w_q.astype(np.float32)
        if zp:
            w = w - zp[0][block]
        return (matmul(x, w * scale[block]),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The rows of scale and zp are repeated."""
        w = Term(b, self.w_q).cast(f32)
        block = positions(w, 0).binary("div", self.block_size.value.data)
        if self.zp is not None:
            w = w - w.insert(GatherOp(self.zp, block.value))
        w = w * w.insert(GatherOp(self.scale, block.value))
        return self.as_results(w.insert(MatMulOp(Term(b, self.x).cast(f32).value, w.value)).value)
