"""The gradient of rotary embedding, and rotary embedding of positions in a plane."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, TensorType, f64, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from rlx_dialect.base import RlxOp, Value
from rlx_dialect.dtypes import Array, is_float
from rlx_dialect.ops.attention import RopeOp, RotaryOp
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.formula import Term
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.xdsl_compat import Builder


@irdl_op_definition
class RopeBackwardOp(RotaryOp):
    """The gradient of rlx.rope: the inverse rotation, (a·c + b·s, b·c - a·s), of dy; everything as in the rope."""

    name = "rlx.rope_backward"
    INVERSE: ClassVar = True
    dy = operand_def()
    cos = operand_def()
    sin = operand_def()


@irdl_op_definition
class AxialRope2dOp(RlxOp):
    """Rotary embedding of positions in an image of ``end_x`` · ``end_y`` places, as SAM 2 has it.

    x is [B, S, H·D] with H = ``num_heads``, D = ``head_dim`` (a multiple of 4) and S = end_x·end_y·``repeat_factor``.
    Row s is the place p = s mod (end_x·end_y), with the coordinates p mod end_x and p / end_x. Lanes 2i and 2i + 1 are
    a pair: the first D/4 pairs of a head rotate by the x coordinate, the others by the y coordinate, each time
    ``theta``^(-4i/D) for i = 0 to D/4 - 1. f16 and bf16 are computed in f32.
    """

    name = "rlx.axial_rope_2d"
    x = operand_def()
    end_x = prop_def(IntegerAttr[I64])
    end_y = prop_def(IntegerAttr[I64])
    head_dim = prop_def(IntegerAttr[I64])
    num_heads = prop_def(IntegerAttr[I64])
    theta = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(10000.0, f64))
    repeat_factor = prop_def(IntegerAttr[I64], default_value=IntegerAttr(1, i64))
    result = result_def()

    def __init__(
        self,
        x: Value,
        *,
        end_x: int,
        end_y: int,
        head_dim: int,
        num_heads: int,
        theta: float = 10000.0,
        repeat_factor: int = 1,
    ):
        super().__init__(
            [x],
            {
                "end_x": end_x,
                "end_y": end_y,
                "head_dim": head_dim,
                "num_heads": num_heads,
                "theta": theta,
                "repeat_factor": repeat_factor,
            },
        )

    def infer_types(self) -> tuple[Attribute, ...]:
        return (self.x.type,)

    def check(self) -> None:
        for name in ("end_x", "end_y", "head_dim", "num_heads", "repeat_factor"):
            value: IntegerAttr[I64] = getattr(self, name)
            if value.value.data < 1:
                self.fail(f"{name} must be positive, got {value.value.data}")
        if self.head_dim.value.data % 4:
            self.fail(f"head_dim must be a multiple of 4, got {self.head_dim.value.data}")
        if not self.theta.value.data > 0:
            self.fail(f"theta must be positive, got {self.theta.value.data}")
        if not is_float(self.element(0)):
            self.fail(f"operand 'x' must have a float element type, got {self.element(0)}")
        rows = self.end_x.value.data * self.end_y.value.data * self.repeat_factor.value.data
        self.check_shape(0, (DYNAMIC, rows, self.num_heads.value.data * self.head_dim.value.data))

    def angles(self) -> Array:
        """[S, D/2] in float64: the angle of each pair at each row."""
        width, quarter = self.end_x.value.data, self.head_dim.value.data // 4
        place = np.arange(width * self.end_y.value.data)
        frequency = self.theta.value.data ** -(np.arange(quarter) / quarter)
        table = np.concatenate([np.outer(place % width, frequency), np.outer(place // width, frequency)], 1)
        return np.tile(table, (self.repeat_factor.value.data, 1))

    def evaluate(self, *args: Array) -> tuple[Array, ...]:
        x, angles = args[0], self.angles()
        pairs = x.astype(np.float64).reshape(*x.shape[:2], self.num_heads.value.data, angles.shape[1], 2)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)[:, None]
        return (np.stack([turned.real, turned.imag], -1).reshape(x.shape).astype(x.dtype),)

    def decompose(self, b: Builder) -> tuple[SSAValue, ...]:
        """rlx.rope in style gptj with constant tables."""
        angles = self.angles()
        tables = TensorType(self.element(0), angles.shape)
        cos, sin = (b.insert(ConstantOp.of(table, tables)).result for table in (np.cos(angles), np.sin(angles)))
        x = Term(b, self.x)
        for axis, extent in ((1, angles.shape[0]), (2, self.num_heads.value.data * self.head_dim.value.data)):
            if x.shape[axis] == DYNAMIC:
                x = x.narrow(axis, 0, extent)
        rope = RopeOp(x.value, cos, sin, head_dim=self.head_dim.value.data, layout="bsd", style="gptj")
        return self.as_results(b.insert(rope).result)
