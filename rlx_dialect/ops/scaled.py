"""Floats of few bits with scales apart: value = decode(code)·scale.

A code is a byte: 8-bit integers of any sign, whose low bits are the code of a format of fewer bits. The formats are
those of OCP (f8e4m3 is E4M3FN, without infinities) and the two FNUZ ones of AMD. Rounding is to nearest even; values
beyond the greatest finite one, infinities too, saturate; NaN stays NaN, and without a NaN in the format is undefined.

Scales (``scale_layout``):

- ``per_tensor``: one f32, [1].
- ``mx_e8m0``: a byte b, for 2^(b - 127) (255 is NaN), a ``block`` (32 where it is not said) of the last axis.
- ``nvfp4``: a byte in f8e4m3, a ``block`` (16) of the last axis. The second scale of a whole tensor, which NVFP4 also
  has, is left out: it is a multiplication.

The last block may be shorter. Formats of other widths, and codes packed several in a byte, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, IntegerAttr, IntegerType, Signedness, TensorType, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, opt_prop_def, prop_def, result_def

from rlx_dialect import shapes
from rlx_dialect.attributes import ScaledFormat, ScaledFormatAttr, ScaleLayout, ScaleLayoutAttr
from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import Array, is_float, wide_element
from rlx_dialect.ops.contraction import MatMulOp, matmul
from rlx_dialect.ops.convolution import PoolOp
from rlx_dialect.ops.extents import (
    constant,
    filled,
    flattened,
    positions,
    split_axis,
    unflattened,
    unit_axis,
    without_axis,
)
from rlx_dialect.ops.formula import Term
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.quantization import constant_term
from rlx_dialect.ops.shape import PadOp
from rlx_dialect.shapes import DYNAMIC, Shape, ShapeError, show
from rlx_dialect.xdsl_compat import Builder

UI8 = IntegerType(8, Signedness.UNSIGNED)


@dataclass(frozen=True)
class Minifloat:
    """A sign, ``exponent`` bits and ``mantissa`` bits."""

    exponent: int
    mantissa: int
    bias: int
    infinities: bool = False
    """Whether the greatest exponent is for infinity and NaN, as in IEEE 754."""
    all_ones_nan: bool = False
    """Whether NaN is all exponent and mantissa bits."""
    negative_zero_nan: bool = False
    """Whether NaN is where the negative zero would be."""

    @property
    def sign(self) -> int:
        """The sign's bit."""
        return 1 << (self.exponent + self.mantissa)


FORMATS: Mapping[ScaledFormat, Minifloat] = {
    ScaledFormat.F8E4M3: Minifloat(4, 3, 7, all_ones_nan=True),
    ScaledFormat.F8E5M2: Minifloat(5, 2, 15, infinities=True),
    ScaledFormat.F8E4M3FNUZ: Minifloat(4, 3, 8, negative_zero_nan=True),
    ScaledFormat.F8E5M2FNUZ: Minifloat(5, 2, 16, negative_zero_nan=True),
    ScaledFormat.F6E2M3: Minifloat(2, 3, 1),
    ScaledFormat.F6E3M2: Minifloat(3, 2, 3),
    ScaledFormat.F4E2M1: Minifloat(2, 1, 1),
}


@cache
def decode_table(format: ScaledFormat) -> Array:
    """The f32 value of each byte; bits above those of the format do not count."""
    kind = FORMATS[format]
    codes = np.arange(256) & (2 * kind.sign - 1)
    magnitude = codes & (kind.sign - 1)
    exponent, mantissa = magnitude >> kind.mantissa, magnitude & ((1 << kind.mantissa) - 1)
    # A zero exponent means no leading one, at the scale of exponent 1.
    whole = mantissa + np.where(exponent > 0, 1 << kind.mantissa, 0)
    values = np.ldexp(whole.astype(np.float64), np.maximum(exponent, 1) - kind.bias - kind.mantissa)
    if kind.infinities:
        special = np.where(mantissa == 0, np.inf, np.nan)
        values = np.where(exponent == (1 << kind.exponent) - 1, special, values)
    if kind.all_ones_nan:
        values = np.where(magnitude == kind.sign - 1, np.nan, values)
    values = np.where(codes & kind.sign, -values, values)
    if kind.negative_zero_nan:
        values = np.where(codes == kind.sign, np.nan, values)
    table = values.astype(np.float32)
    table.flags.writeable = False
    return table


@cache
def positive_values(format: ScaledFormat) -> Array:
    """The finite values that are not negative, ascending: the value of code i is the i-th."""
    values = decode_table(format)[: FORMATS[format].sign].astype(np.float64)
    return values[np.isfinite(values)]


def greatest_value(format: ScaledFormat) -> float:
    return float(positive_values(format)[-1])


def encode(format: ScaledFormat, x: Array) -> Array:
    """The bytes of ``x``."""
    kind, values = FORMATS[format], positive_values(format)
    size = np.abs(x.astype(np.float64))
    middles = (values[:-1] + values[1:]) / 2
    below = np.searchsorted(middles, size, "left")
    above = np.searchsorted(middles, size, "right")
    # They differ where a value is in the middle of two codes; the even one is meant.
    code = np.where(below % 2 == 0, below, above)
    negative = np.signbit(x) & ~((code == 0) & kind.negative_zero_nan)
    code = np.where(negative, code | kind.sign, code)
    nan = np.nonzero(np.isnan(decode_table(format)))[0]
    return np.where(np.isnan(x) & (len(nan) > 0), nan[0] if len(nan) else 0, code).astype(np.uint8)


E8M0 = np.append(np.ldexp(1.0, np.arange(255) - 127), np.nan).astype(np.float32)
"""The f32 value of each byte of a power-of-two scale."""

BLOCKS = {ScaleLayout.MX_E8M0: 32, ScaleLayout.NVFP4: 16}
"""How many elements share a scale where it is not said."""


class ScaledOp(RlxOp):
    """Base: ``scale_layout`` and ``block`` say what the scales are, which are those of the last axis of a tensor."""

    scale_layout = prop_def(ScaleLayoutAttr, default_value=ScaleLayoutAttr(ScaleLayout.PER_TENSOR))
    block = opt_prop_def(IntegerAttr[I64])

    @property
    def block_size(self) -> int | None:
        """How many elements share a scale; None where all do."""
        default = BLOCKS.get(self.scale_layout.data)
        return default if self.block is None else self.block.value.data

    @property
    def scale_element(self) -> Attribute:
        return f32 if self.block_size is None else UI8

    def check_layout(self) -> None:
        if self.block is None:
            return
        if self.scale_layout.data is ScaleLayout.PER_TENSOR:
            self.fail("per_tensor takes no block")
        if self.block.value.data < 1:
            self.fail(f"block must be positive, got {self.block.value.data}")

    def scale_shape(self, shape: Shape) -> Shape:
        """The shape of the scales of a tensor of ``shape``."""
        if (block := self.block_size) is None:
            return (1,)
        if not shape:
            raise ShapeError(f"{self.operand_name(0)} must have rank 1 or more for {self.scale_layout.data}")
        return (*shape[:-1], DYNAMIC if shape[-1] == DYNAMIC else -(-shape[-1] // block))

    def check_byte(self, index: int) -> None:
        element = self.element(index)
        if not isinstance(element, IntegerType) or element.width.data != 8:
            self.fail(f"{self.operand_name(index)} must be of 8-bit integers, got {element}")

    def check_scale(self, index: int, of: int) -> None:
        """Operand ``index`` are the scales of operand ``of``."""
        if self.block_size is not None:
            self.check_byte(index)
        elif self.element(index) != f32:
            self.fail(f"{self.operand_name(index)} must have element type f32, got {self.element(index)}")
        self.check_shape(index, self.scale_shape(self.shape(of)))

    def scale_table(self) -> Array:
        return E8M0 if self.scale_layout.data is ScaleLayout.MX_E8M0 else decode_table(ScaledFormat.F8E4M3)

    def scales(self, scale: Array, width: int) -> Array:
        """The f32 scales, such that they broadcast against a tensor of last extent ``width``."""
        if self.block_size is None:
            return scale
        return self.scale_table()[scale.astype(np.uint8)][..., np.arange(width) // self.block_size]

    def decoded(self, format: ScaledFormat, codes: Array, scale: Array) -> Array:
        return decode_table(format)[codes.astype(np.uint8)] * self.scales(scale, codes.shape[-1] if codes.ndim else 1)

    def decoded_term(self, b: Builder, format: ScaledFormat, codes: SSAValue, scale: SSAValue) -> Term:
        """:meth:`decoded` as operations: bytes are looked up in tables."""
        value = looked_up(b, decode_table(format), codes)
        return value * self.scales_term(value, scale)

    def scales_term(self, value: Term, scale: SSAValue) -> Term:
        """:meth:`scales` as operations, for ``value``."""
        factor = Term(value.b, scale)
        if (block := self.block_size) is None:
            return factor if value.rank else factor.reshape([])
        which = positions(value, value.rank - 1).binary("div", block)
        factor = looked_up(value.b, self.scale_table(), scale)
        return factor.insert(GatherOp(factor.value, which.value, factor.rank - 1))


def reached(x: Term, limits: Array, *, even: bool) -> Term:
    """How many of the ascending ``limits`` x exceeds or reaches, as i32; with ``even`` it only reaches those before an
    even number. None for a NaN. By halving, so the work is log(limits) for each element."""
    bits = len(limits).bit_length()
    # Nothing reaches a NaN.
    padded = np.append(limits, np.full((1 << bits) - 1 - len(limits), np.nan))
    table, found = constant(x, padded, f32), filled(x, 0, i32)
    for bit in (1 << i for i in reversed(range(bits))):
        next_found = found + bit
        limit = x.insert(GatherOp(table.value, (next_found - 1).value))
        # What all but the last bit make is even.
        enough = x.compare("gt" if even and bit == 1 else "ge", limit)
        found = enough.where(next_found, found)
    return found


def encoded(x: Term, format: ScaledFormat) -> Term:
    """:func:`encode` of an f32, in i32."""
    kind, values = FORMATS[format], positive_values(format)
    code = reached(x.apply("abs"), (values[:-1] + values[1:]) / 2, even=True)
    # A zero's sign is that of its reciprocal.
    negative = x.compare("eq", 0.0).where(1.0 / x, x).compare("lt", 0.0)
    if kind.negative_zero_nan:
        negative = negative & code.compare("ne", 0)
    code = negative.where(code + kind.sign, code)
    nan = np.nonzero(np.isnan(decode_table(format)))[0]
    return x.is_nan().where(code.like(int(nan[0])), code) if len(nan) else code


def looked_up(b: Builder, table: Array, codes: SSAValue) -> Term:
    """The f32 of ``table`` [256] at each code. A negative code counts from the end, as its byte does without a sign."""
    return Term(b, b.insert(GatherOp(constant_term(b, table, f32).value, codes)).result)


class FormatOp(ScaledOp):
    """Base of the operations on one tensor in one format."""

    KEYWORD: ClassVar = "format"
    format = prop_def(ScaledFormatAttr)

    def __init__(
        self,
        format: ScaledFormat | str,
        *operands: Value,
        scale_layout: ScaleLayout | str = ScaleLayout.PER_TENSOR,
        block: int | None = None,
    ):
        super().__init__(operands, {"format": format, "scale_layout": scale_layout, "block": block})

    def check_real(self) -> None:
        if not is_float(self.element(0)) or wide_element(self.element(0)) != f32:
            self.fail(f"operand 'x' must have element type f32, f16 or bf16, got {self.element(0)}")


@irdl_op_definition
class ScaledQuantizeOp(FormatOp):
    """The codes (ui8) of x/scale."""

    name = "rlx.scaled_quantize"
    x = operand_def()
    scale = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, element=UI8),)

    def check(self) -> None:
        self.check_layout()
        self.check_real()
        self.check_scale(1, 0)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, scale = args
        quotient = x / self.scales(scale, x.shape[-1] if x.ndim else 1)
        return (encode(self.format.data, quotient).reshape(x.shape),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """The code is found by halving the values of the format."""
        (x,) = Term.widened(b, self.x)
        quotient = x / self.scales_term(x, self.scale)
        return self.as_results(encoded(quotient, self.format.data).cast(UI8).value)


@irdl_op_definition
class ScaledQuantScaleOp(FormatOp):
    """The scales with which the greatest |x| of each block, or of all of x, still has a code; 1 where that is 0.

    ``per_tensor`` and ``nvfp4``: max|x| divided by the greatest value of the format (nvfp4 rounds it to f8e4m3, at
    least its least positive value). ``mx_e8m0``: 2^(e - m), where e and m are the exponents of both, as in OCP MX.
    """

    name = "rlx.scaled_quant_scale"
    x = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (TensorType(self.scale_element, self.scale_shape(self.shape(0))),)

    def check(self) -> None:
        self.check_layout()
        self.check_real()

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        size, block = np.abs(args[0]), self.block_size
        greatest = np.float32(greatest_value(self.format.data))
        if block is None:
            most = size.max(initial=0).reshape(1)
            return (np.where(most == 0, np.float32(1), most / greatest),)
        starts = range(0, size.shape[-1], block)
        parts = [size[..., s : s + block].max(-1, keepdims=True) for s in starts]
        most = np.concatenate(parts, -1) if parts else size
        if self.scale_layout.data is ScaleLayout.NVFP4:
            code = np.maximum(encode(ScaledFormat.F8E4M3, most / greatest), 1)
            return (np.where(most == 0, encode(ScaledFormat.F8E4M3, np.ones(1)), code),)
        # frexp's exponent is one more than that of the leading bit; both sides have that one.
        power = np.frexp(most)[1] - np.frexp(greatest)[1]
        byte = np.where(np.isinf(most), 254, np.clip(power + 127, 0, 254))
        return (np.where(np.isnan(most), 255, np.where(most == 0, 127, byte)),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        (x,) = Term.widened(b, self.x)
        size, greatest = x.apply("abs"), greatest_value(self.format.data)
        if (block := self.block_size) is None:
            most = size.reduce("max", range(x.rank), keep_dim=False).binary("max", 0.0)
            scale = most.compare("eq", 0.0).where(most.like(1.0), most / greatest)
            return self.as_results(scale.reshape([1]).value)
        most = _greatest_of_blocks(size, block)
        if self.scale_layout.data is ScaleLayout.NVFP4:
            code = encoded(most / greatest, ScaledFormat.F8E4M3).binary("max", 1)
            one = int(encode(ScaledFormat.F8E4M3, np.ones(1))[0])
            return self.as_results(most.compare("eq", 0.0).where(code.like(one), code).cast(UI8).value)
        # The byte says how many powers of two above the least |x|'s exponent reaches.
        exponent = int(np.floor(np.log2(greatest)))
        limits = np.ldexp(1.0, np.arange(1, 255) - 127 + exponent)
        byte = reached(most, limits[limits <= np.finfo(np.float32).max], even=False)
        byte = most.compare("eq", math.inf).where(byte.like(254), byte)
        byte = most.compare("eq", 0.0).where(byte.like(127), byte)
        return self.as_results(most.is_nan().where(byte.like(255), byte).cast(UI8).value)


def _greatest_of_blocks(size: Term, block: int) -> Term:
    """The greatest of each ``block`` of the last axis, the last one maybe shorter; numbers are not negative."""
    shape = size.shape
    if shape[-1] not in (DYNAMIC, 0):
        count = -(-shape[-1] // block)
        if missing := count * block - shape[-1]:
            size = size.insert(PadOp(size.value, [*[0] * (2 * size.rank - 1), missing]))
        return split_axis(size, size.rank - 1, [count, block]).reduce("max", [size.rank], keep_dim=False)
    if shape[-1] == 0:
        return size
    # [N, C, elements]: a window that moves by its own size covers each block.
    rows = unit_axis(flattened(size, 1), 1)
    rows = rows.insert(PadOp(rows.value, [*[0] * 5, block - 1]))
    blocks = rows.insert(PoolOp("max", rows.value, [block], stride=[block]))
    return unflattened(without_axis(blocks, 1), size, 1)


@irdl_op_definition
class ScaledDequantizeOp(FormatOp):
    """decode(codes)·scale in f32."""

    name = "rlx.scaled_dequantize"
    codes = operand_def()
    scale = operand_def()
    result = result_def()

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.like(0, element=f32),)

    def check(self) -> None:
        self.check_layout()
        self.check_byte(0)
        self.check_scale(1, 0)

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        return (self.decoded(self.format.data, *args).reshape(args[0].shape),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        return self.as_results(self.decoded_term(b, self.format.data, self.codes, self.scale).value)


@irdl_op_definition
class ScaledMatMulOp(ScaledOp):
    """decode(lhs) · decode(rhs)ᵀ [+ bias] in f32: codes [M, K] and [N, K], bias [N], result [M, N].

    Each operand has its format, and its scales in the one layout.
    """

    name = "rlx.scaled_matmul"
    lhs = operand_def()
    rhs = operand_def()
    lhs_scale = operand_def()
    rhs_scale = operand_def()
    bias = opt_operand_def()
    lhs_format = prop_def(ScaledFormatAttr)
    rhs_format = prop_def(ScaledFormatAttr)
    result = result_def()

    def __init__(
        self,
        lhs: Value,
        rhs: Value,
        lhs_scale: Value,
        rhs_scale: Value,
        bias: Value | None = None,
        *,
        lhs_format: ScaledFormat | str,
        rhs_format: ScaledFormat | str,
        scale_layout: ScaleLayout | str = ScaleLayout.PER_TENSOR,
        block: int | None = None,
    ):
        properties = {"lhs_format": lhs_format, "rhs_format": rhs_format, "scale_layout": scale_layout, "block": block}
        super().__init__([lhs, rhs, lhs_scale, rhs_scale, *([] if bias is None else [bias])], properties)

    def infer_types(self) -> tuple[Attribute, ...]:
        lhs, rhs = self.shape(0), self.shape(1)
        if len(lhs) != 2 or len(rhs) != 2 or not shapes.compatible(lhs[1:], rhs[1:]):
            raise ShapeError(f"operands 'lhs' and 'rhs' must have shapes MxK and NxK, got {show(lhs)} and {show(rhs)}")
        return (TensorType(f32, (lhs[0], rhs[0])),)

    def check(self) -> None:
        self.check_layout()
        for index in range(2):
            self.check_byte(index)
            self.check_scale(index + 2, index)
        if self.bias is not None:
            if self.element(4) != f32:
                self.fail(f"operand 'bias' must have element type f32, got {self.element(4)}")
            self.check_shape(4, self.shape(1)[:1])

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        lhs, rhs, lhs_scale, rhs_scale, *bias = args
        left = self.decoded(self.lhs_format.data, lhs, lhs_scale)
        right = self.decoded(self.rhs_format.data, rhs, rhs_scale)
        product = matmul(left, right.T)
        return (product + bias[0] if bias else product,)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        left = self.decoded_term(b, self.lhs_format.data, self.lhs, self.lhs_scale)
        right = self.decoded_term(b, self.rhs_format.data, self.rhs, self.rhs_scale).transpose([1, 0])
        product = left.insert(MatMulOp(left.value, right.value))
        if self.bias is not None:
            product = product + Term(b, self.bias)
        return self.as_results(product.value)
