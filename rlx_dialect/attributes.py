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


class AttentionInput(StrEnum):
    """What a gradient of attention is with respect to."""

    QUERY = "query"
    KEY = "key"
    VALUE = "value"


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


class QuantScheme(StrEnum):
    """How integer weights are stored: a scale a block of rows, and with ``asym`` a zero point too."""

    INT8_BLOCK = "int8_block"
    INT8_BLOCK_ASYM = "int8_block_asym"


class ScaleMode(StrEnum):
    """Where fake quantisation takes its scale from: the values, their moving average, or an operand."""

    PER_BATCH = "per_batch"
    EMA = "ema"
    FIXED = "fixed"


class SteKind(StrEnum):
    """What the gradient of fake quantisation takes rounding for; the value does not depend on it."""

    IDENTITY = "identity"
    CLIPPED_IDENTITY = "clipped_identity"
    TANH = "tanh"
    HARD_TANH = "hard_tanh"


class ScaledFormat(StrEnum):
    """Floats of at most 8 bits, one code a byte; tables in :mod:`rlx_dialect.ops.scaled`."""

    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F6E2M3 = "f6e2m3"
    F6E3M2 = "f6e3m2"
    F4E2M1 = "f4e2m1"


class ScaleLayout(StrEnum):
    """One scale a tensor; or one a block of the last axis, a power of two (``mx_e8m0``) or an f8e4m3 (``nvfp4``)."""

    PER_TENSOR = "per_tensor"
    MX_E8M0 = "mx_e8m0"
    NVFP4 = "nvfp4"


class SvdPart(StrEnum):
    """The factors of a = u·diag(s)·vt."""

    U = "u"
    S = "s"
    VT = "vt"


class QrPart(StrEnum):
    """The factors of a = q·r."""

    Q = "q"
    R = "r"


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
class AttentionInputAttr(EnumAttribute[AttentionInput], SpacedOpaqueSyntaxAttribute):
    name = "rlx.attention_input"


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


@irdl_attr_definition
class QuantSchemeAttr(EnumAttribute[QuantScheme], SpacedOpaqueSyntaxAttribute):
    name = "rlx.quant_scheme"


@irdl_attr_definition
class ScaleModeAttr(EnumAttribute[ScaleMode], SpacedOpaqueSyntaxAttribute):
    name = "rlx.scale_mode"


@irdl_attr_definition
class SteKindAttr(EnumAttribute[SteKind], SpacedOpaqueSyntaxAttribute):
    name = "rlx.ste"


@irdl_attr_definition
class ScaledFormatAttr(EnumAttribute[ScaledFormat], SpacedOpaqueSyntaxAttribute):
    name = "rlx.scaled_format"


@irdl_attr_definition
class ScaleLayoutAttr(EnumAttribute[ScaleLayout], SpacedOpaqueSyntaxAttribute):
    name = "rlx.scale_layout"


@irdl_attr_definition
class SvdPartAttr(EnumAttribute[SvdPart], SpacedOpaqueSyntaxAttribute):
    name = "rlx.svd_part"


@irdl_attr_definition
class QrPartAttr(EnumAttribute[QrPart], SpacedOpaqueSyntaxAttribute):
    name = "rlx.qr_part"


RLX_ATTRIBUTES = [
    ActivationKindAttr,
    BinaryKindAttr,
    CompareKindAttr,
    ReduceKindAttr,
    NormKindAttr,
    MaskKindAttr,
    AttentionLayoutAttr,
    AttentionInputAttr,
    RopeStyleAttr,
    PadModeAttr,
    FftNormAttr,
    ScatterReductionAttr,
    QuantSchemeAttr,
    ScaleModeAttr,
    SteKindAttr,
    ScaledFormatAttr,
    ScaleLayoutAttr,
    SvdPartAttr,
    QrPartAttr,
]
