"""The kinds that RLX operations choose between, as xDSL enum attributes.

Each kind is written in the IR as a bare keyword after the operation name
(``rlx.activation gelu %x``) and as ``#rlx<activation gelu>`` in generic form.
"""

from __future__ import annotations

from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum


class ActivationKind(StrEnum):
    """Element-wise functions of one value; formulas in :mod:`rlx_dialect.ops.elementwise`."""

    GELU = "gelu"
    GELU_APPROX = "gelu_approx"
    SILU = "silu"
    RELU = "relu"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    EXP = "exp"
    LOG = "log"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    NEG = "neg"
    ABS = "abs"
    ROUND = "round"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ATAN = "atan"
    RECIP = "recip"
    FLOOR = "floor"
    CEIL = "ceil"
    SIGN = "sign"
    SOFTPLUS = "softplus"
    ELU = "elu"
    ERF = "erf"
    HARD_SWISH = "hard_swish"
    HARD_SIGMOID = "hard_sigmoid"
    MISH = "mish"
    SOFTSIGN = "softsign"
    LOG_SIGMOID = "log_sigmoid"


class BinaryKind(StrEnum):
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAX = "max"
    MIN = "min"
    POW = "pow"
    MOD = "mod"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    SHL = "shl"
    SHR = "shr"
    ATAN2 = "atan2"


class CompareKind(StrEnum):
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


class ReduceKind(StrEnum):
    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"


class NormKind(StrEnum):
    LAYER_NORM = "layer_norm"
    RMS_NORM = "rms_norm"


class MaskKind(StrEnum):
    """Attention masks; ``custom`` and ``bias`` take a mask operand, the others none."""

    NONE = "none"
    CAUSAL = "causal"
    SLIDING_WINDOW = "sliding_window"
    CUSTOM = "custom"
    BIAS = "bias"


class AttentionLayout(StrEnum):
    """Order of the dimensions of Q, K, V: Batch, Sequence, Heads, Dim; ``bsd`` packs heads and dim."""

    BSD = "bsd"
    BSHD = "bshd"
    BHSD = "bhsd"


class RopeStyle(StrEnum):
    """``neox`` pairs lane i with i + n_rot/2, ``gptj`` pairs lanes 2i and 2i+1."""

    NEOX = "neox"
    GPTJ = "gptj"


class PadMode(StrEnum):
    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"
    WRAP = "wrap"


class FftNorm(StrEnum):
    """How a Fourier transform is scaled; see :class:`rlx_dialect.ops.spectral.FftOp`."""

    BACKWARD = "backward"
    FORWARD = "forward"
    ORTHO = "ortho"


class ScatterReduction(StrEnum):
    NONE = "none"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


@irdl_attr_definition
class ActivationKindAttr(EnumAttribute[ActivationKind], SpacedOpaqueSyntaxAttribute):
    name = "rlx.activation"


@irdl_attr_definition
class BinaryKindAttr(EnumAttribute[BinaryKind], SpacedOpaqueSyntaxAttribute):
    name = "rlx.binary"


@irdl_attr_definition
class CompareKindAttr(EnumAttribute[CompareKind], SpacedOpaqueSyntaxAttribute):
    name = "rlx.compare"


@irdl_attr_definition
class ReduceKindAttr(EnumAttribute[ReduceKind], SpacedOpaqueSyntaxAttribute):
    name = "rlx.reduce"


@irdl_attr_definition
class NormKindAttr(EnumAttribute[NormKind], SpacedOpaqueSyntaxAttribute):
    name = "rlx.norm"


@irdl_attr_definition
class MaskKindAttr(EnumAttribute[MaskKind], SpacedOpaqueSyntaxAttribute):
    name = "rlx.mask"


@irdl_attr_definition
class AttentionLayoutAttr(EnumAttribute[AttentionLayout], SpacedOpaqueSyntaxAttribute):
    name = "rlx.layout"


@irdl_attr_definition
class RopeStyleAttr(EnumAttribute[RopeStyle], SpacedOpaqueSyntaxAttribute):
    name = "rlx.rope_style"


@irdl_attr_definition
class PadModeAttr(EnumAttribute[PadMode], SpacedOpaqueSyntaxAttribute):
    name = "rlx.pad_mode"


@irdl_attr_definition
class FftNormAttr(EnumAttribute[FftNorm], SpacedOpaqueSyntaxAttribute):
    name = "rlx.fft_norm"


@irdl_attr_definition
class ScatterReductionAttr(EnumAttribute[ScatterReduction], SpacedOpaqueSyntaxAttribute):
    name = "rlx.scatter_reduction"


RLX_ATTRIBUTES = [
    ActivationKindAttr,
    BinaryKindAttr,
    CompareKindAttr,
    ReduceKindAttr,
    NormKindAttr,
    MaskKindAttr,
    AttentionLayoutAttr,
    RopeStyleAttr,
    PadModeAttr,
    FftNormAttr,
    ScatterReductionAttr,
]
