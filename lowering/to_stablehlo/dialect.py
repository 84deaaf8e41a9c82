"""The StableHLO operations and attributes that RLX is lowered to; xDSL 0.75 has none.

They print in MLIR's generic form, as StableHLO's own parser takes them, and check no types: that parser does. The
dialect object is registered with no tool, because another package may own a ``stablehlo`` dialect; tools read the
text as operations that are not registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure

from rlx_dialect.xdsl_compat import AttrParser, Printer, parse_angle_brackets

_WITHOUT_PROPERTIES = """
abs add and atan2 ceil complex convert cosine divide exponential exponential_minus_one floor imag log log_plus_one
maximum minimum multiply negate or power real remainder round_nearest_even rsqrt select shift_left
shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor
dynamic_reshape dynamic_update_slice if real_dynamic_slice reshape while
"""

PROPERTIES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_WITHOUT_PROPERTIES.split(), ()),
    "broadcast_in_dim": ("broadcast_dimensions",),
    "cholesky": ("lower",),
    "compare": ("comparison_direction",),
    "concatenate": ("dimension",),
    "constant": ("value",),
    "convolution": (
        "window_strides",
        "padding",
        "lhs_dilation",
        "rhs_dilation",
        "dimension_numbers",
        "feature_group_count",
        "batch_group_count",
        "precision_config",
    ),
    "dot_general": ("dot_dimension_numbers", "precision_config"),
    "dynamic_broadcast_in_dim": ("broadcast_dimensions",),
    "dynamic_gather": ("dimension_numbers",),
    "dynamic_iota": ("iota_dimension",),
    "dynamic_slice": ("slice_sizes",),
    "fft": ("fft_type", "fft_length"),
    "gather": ("dimension_numbers", "slice_sizes"),
    "get_dimension_size": ("dimension",),
    "iota": ("iota_dimension",),
    "pad": ("edge_padding_low", "edge_padding_high", "interior_padding"),
    "reduce": ("dimensions",),
    "reduce_window": ("window_dimensions", "window_strides", "window_dilations", "padding"),
    "reverse": ("dimensions",),
    "scatter": ("scatter_dimension_numbers",),
    "select_and_scatter": ("window_dimensions", "window_strides", "padding"),
    "slice": ("start_indices", "limit_indices", "strides"),
    "sort": ("dimension", "is_stable"),
    "transpose": ("permutation",),
    "triangular_solve": ("left_side", "lower", "unit_diagonal", "transpose_a"),
}
"""The properties of each operation without ``stablehlo.``, all of them always given."""


class HloOp(IRDLOperation):
    """Base: any operands, results and regions."""

    arguments = var_operand_def()
    values = var_result_def()
    bodies = var_region_def()
    traits = traits_def(Pure())


def _operation(name: str, properties: tuple[str, ...]) -> type[HloOp]:
    fields = {"name": name, **{key: prop_def() for key in properties}}
    return irdl_op_definition(type(f"Hlo{name.title().replace('.', '')}", (HloOp,), fields))


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a region of an operation."""

    name = "stablehlo.return"
    arguments = var_operand_def()
    traits = traits_def(Pure(), IsTerminator())


@irdl_op_definition
class CustomCallOp(IRDLOperation):
    """A call of something that XLA knows by name; further attributes are for that."""

    name = "stablehlo.custom_call"
    arguments = var_operand_def()
    values = var_result_def()
    call_target_name = prop_def(StringAttr)
    has_side_effect = prop_def(IntegerAttr)


OPERATIONS: Mapping[str, type[HloOp]] = {
    "erf": _operation("chlo.erf", ()),
    **{name: _operation(f"stablehlo.{name}", properties) for name, properties in PROPERTIES.items()},
}
"""Operation classes by short name. StableHLO has no erf: CHLO, which comes with it, has."""


class _Text(ParametrizedAttribute):
    """Base: what stands between the angle brackets, as StableHLO writes it."""

    text: StringAttr

    @classmethod
    def of(cls, text: str) -> Self:
        return cls.new([StringAttr(text)])

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[StringAttr]:
        return [StringAttr(parse_angle_brackets(parser))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.text.data)


class _Word(_Text, SpacedOpaqueSyntaxAttribute):
    """Base: ``#stablehlo<precision HIGHEST>``."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[StringAttr]:
        return [StringAttr(parser.parse_identifier())]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(self.text.data)


@irdl_attr_definition
class DotAttr(_Text):
    """``#stablehlo.dot<…>``: which axes of a product are batches and which are contracted."""

    name = "stablehlo.dot"


@irdl_attr_definition
class ConvAttr(_Text):
    """``#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>``."""

    name = "stablehlo.conv"


@irdl_attr_definition
class GatherAttr(_Text):
    """``#stablehlo.gather<…>``."""

    name = "stablehlo.gather"


@irdl_attr_definition
class ScatterAttr(_Text):
    """``#stablehlo.scatter<…>``."""

    name = "stablehlo.scatter"


@irdl_attr_definition
class PrecisionAttr(_Word):
    """``#stablehlo<precision …>``."""

    name = "stablehlo.precision"


@irdl_attr_definition
class DirectionAttr(_Word):
    """``#stablehlo<comparison_direction …>``."""

    name = "stablehlo.comparison_direction"


@irdl_attr_definition
class FftTypeAttr(_Word):
    """``#stablehlo<fft_type …>``."""

    name = "stablehlo.fft_type"


@irdl_attr_definition
class TransposeAttr(_Word):
    """``#stablehlo<transpose …>``."""

    name = "stablehlo.transpose"


@irdl_attr_definition
class ShardingAttr(_Text):
    """Shardy's ``#sdy.sharding<@mesh, [{"data"}, {}]>``: which mesh axis splits each dimension."""

    name = "sdy.sharding"


@irdl_attr_definition
class MeshAttr(_Text):
    """Shardy's ``#sdy.mesh<["data"=2, "model"=4]>``."""

    name = "sdy.mesh"


@irdl_op_definition
class MeshOp(IRDLOperation):
    """Shardy's mesh of devices."""

    name = "sdy.mesh"
    sym_name = prop_def(StringAttr)
    mesh = prop_def(MeshAttr)


_ATTRIBUTES: list[type[Attribute]] = [
    DotAttr,
    ConvAttr,
    GatherAttr,
    ScatterAttr,
    PrecisionAttr,
    DirectionAttr,
    FftTypeAttr,
    TransposeAttr,
    ShardingAttr,
    MeshAttr,
]

STABLEHLO = Dialect("stablehlo", [*OPERATIONS.values(), CustomCallOp, ReturnOp, MeshOp], _ATTRIBUTES)
"""For a context that reads the text back into these classes; see the module."""
