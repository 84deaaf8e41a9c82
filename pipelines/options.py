"""Every choice that fusion leaves open, in one immutable value, resolved once before a pipeline is made.

The order is: defaults, then target, then environment, then arguments; each value remembers which of them it
came from (:meth:`FusionOptions.origin`). Pass selection and pass options are computed from it, so what a
pipeline does is wholly in its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

from rlx_dialect.lowering.legalize import Policy
from rlx_dialect.pipelines.environment import NOTHING_SET, Environment
from rlx_dialect.pipelines.limits import FusionLimits

if TYPE_CHECKING:
    from rlx_dialect.pipelines.targets import Target

OptionValue = bool | int | str | tuple[str, ...] | FusionLimits | None

DEFAULT = "default"
ARGUMENT = "argument"
UNFUSE = "unfuse_elementwise_regions"


class NumericsPolicy(StrEnum):
    """How much the values of a graph may change by fusion."""

    DEFAULT = "default"
    """As each fusion's class says."""
    STRICT = "strict"
    """Not at all: fusions decline what is not exact."""


class Effect(Enum):
    """What a variable does to its option."""

    TURNS_ON = "true when truthy"
    TURNS_OFF = "false when truthy"
    SETS = "its truth value when set"
    IS_ONE = "true when exactly 1"
    INTEGER = "its integer when set"
    POLICY = "the policy that it names"


POLICY_WORDS: Mapping[str, Policy] = {
    word: policy
    for policy, words in {
        Policy.FORCE_COMMON: ("common", "force_common", "ForceCommon"),
        Policy.FORCE_NATIVE: ("native", "force_native", "ForceNative"),
    }.items()
    for word in words
}
"""The words of RLX_KERNEL_DISPATCH; any other leaves the policy as it is."""


@dataclass(frozen=True)
class Variable:
    """One row of the environment table: ``RLX_<key>`` acts on ``option``."""

    key: str
    option: str
    effect: Effect

    def value(self, environment: Environment) -> OptionValue:
        """The value that the option gets; None when the variable leaves it as it is."""
        if environment.is_unset(self.key):
            return None
        match self.effect:
            case Effect.TURNS_ON:
                return True if environment.flag(self.key) else None
            case Effect.TURNS_OFF:
                return False if environment.flag(self.key) else None
            case Effect.SETS:
                return environment.flag(self.key)
            case Effect.IS_ONE:
                return True if environment.is_one(self.key) else None
            case Effect.INTEGER:
                return environment.integer(self.key)
            case Effect.POLICY:
                return POLICY_WORDS.get(environment.get(self.key) or "")


METAL_VARIABLES = (
    Variable("METAL_NO_FUSION", "skip_fusion", Effect.TURNS_ON),
    Variable("METAL_UNFUSE_REGIONS", "unfuse_elementwise_regions", Effect.TURNS_ON),
    Variable("KEEP_ELEMENTWISE_REGIONS", "keep_elementwise_regions", Effect.TURNS_ON),
    Variable("DECOMPOSE_FUSION_REGIONS", "decompose_fusion_regions", Effect.TURNS_ON),
    Variable("NO_FK_FUSION", "fk_fusion", Effect.TURNS_OFF),
    Variable("FUSE_REGION_PROLOGUE", "fuse_region_prologue", Effect.SETS),
    Variable("FUSE_BATCH_PREPROCESS", "fuse_batch_preprocess", Effect.SETS),
    Variable("NATIVE_FK_REGIONS", "native_fk_regions", Effect.TURNS_ON),
)
"""Read by the canonical options of metal and mlx, and by :meth:`FusionOptions.merge_env` for every target."""

WGPU_VARIABLES = tuple(v for v in METAL_VARIABLES if v.option == "keep_elementwise_regions")
"""Read by the canonical options of wgpu."""

SWITCH_VARIABLES = (
    Variable("NO_NATIVE_FK_REGIONS", "native_fk_regions", Effect.TURNS_OFF),
    Variable("DISABLE_MATMUL_BIAS_FUSION", "disable_matmul_bias_fusion", Effect.IS_ONE),
    Variable("DISABLE_RESIDUAL_LN_FUSION", "disable_residual_ln_fusion", Effect.IS_ONE),
    Variable("DISABLE_GATED_RESIDUAL_FUSION", "disable_gated_residual_fusion", Effect.IS_ONE),
    Variable("CPU_ATTN_BWD_FUSE", "cpu_attn_bwd_fuse", Effect.IS_ONE),
    Variable("ENABLE_FUSE_TRANSFORMER_LAYER", "enable_fuse_transformer_layer", Effect.TURNS_ON),
    Variable("NO_WEIGHT_CONCAT_FUSION", "no_weight_concat_fusion", Effect.TURNS_ON),
    Variable("NO_SHARED_INPUT_MATMUL", "no_shared_input_matmul", Effect.TURNS_ON),
    Variable("FUSE_ATTN_THRESHOLD", "fuse_attn_threshold", Effect.INTEGER),
    Variable("KERNEL_DISPATCH", "kernel_dispatch", Effect.POLICY),
)
"""Read for every target, whichever way its options were made."""

VARIABLES = (
    *METAL_VARIABLES,
    *SWITCH_VARIABLES,  # after NATIVE_FK_REGIONS: NO_NATIVE_FK_REGIONS wins
    Variable("DISABLE_CONV_BIAS_ACT_FUSION", "disable_conv_bias_act_fusion", Effect.TURNS_ON),
    Variable("NO_IO_PEAKS_OUTPUT", "no_io_peaks_output", Effect.TURNS_ON),
)
"""Everything that the environment can say, in the order in which it is applied."""


@dataclass(frozen=True)
class FusionOptions:
    """What to fuse, what to do with the regions that fusion makes, and which way to lower what has two."""

    skip_fusion: bool = False
    """Only lower control flow and dot_general; nothing else runs, not even dead-code elimination."""
    unfuse_elementwise_regions: bool = False
    """Take element-wise regions apart again before lowering."""
    keep_elementwise_regions: bool = False
    """Do not unfuse regions merely because it is the target's habit."""
    decompose_fusion_regions: bool = False
    """Turn transform and batch regions back into simple ones, even where the target has kernels for them."""
    fk_fusion: bool = True
    """Form batch, transform and prologue regions."""
    fuse_region_prologue: bool = True
    fuse_batch_preprocess: bool = True
    native_fk_regions: bool = False
    """The target runs transform and batch regions as they are; on by itself for every target but cpu."""
    fusion_limits: FusionLimits | None = None
    """Limits of one region; None takes the target's."""
    disable_conv_bias_act_fusion: bool = False
    no_io_peaks_output: bool = False
    """Never replace a spectrum output by its peaks."""
    numerics: NumericsPolicy = NumericsPolicy.DEFAULT
    """No variable sets it. A plain ``"strict"`` will do as an argument."""

    # Switches that exist as variables only; here, so that nothing downstream reads the environment.
    disable_matmul_bias_fusion: bool = False
    disable_residual_ln_fusion: bool = False
    disable_gated_residual_fusion: bool = False
    cpu_attn_bwd_fuse: bool = False
    """Let three attention-backward operations become one."""
    enable_fuse_transformer_layer: bool = False
    no_weight_concat_fusion: bool = False
    """No fusion that concatenates weights (it copies them on every run unless they are folded)."""
    no_shared_input_matmul: bool = False
    fuse_attn_threshold: int = 64
    """Largest batch times sequence for which whole attention blocks and layers are fused."""

    # Lowering: see :mod:`rlx_dialect.lowering.legalize`.
    kernel_dispatch: Policy = Policy.PREFER_NATIVE
    """No argument but a :class:`Policy` or its text."""
    force_native: tuple[str, ...] = ()
    """Names of operations that must be lowered as they are; before ``force_common`` and the policy."""
    force_common: tuple[str, ...] = ()
    """Names of operations that are written in simpler ones before they are lowered."""

    origins: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    """Where values came from that were not simply passed to the constructor."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "numerics", NumericsPolicy(self.numerics))
        object.__setattr__(self, "kernel_dispatch", Policy(self.kernel_dispatch))

    # Making one.

    @classmethod
    def for_target(cls, target: Target, environment: Environment = NOTHING_SET) -> FusionOptions:
        """The canonical options of a target: its habits, and the variables that its row reads."""
        return cls().apply_unfuse_default(target).reading(target.variables + SWITCH_VARIABLES, environment)

    @classmethod
    def for_cpu(cls, environment: Environment = NOTHING_SET) -> FusionOptions:
        """Unbounded regions, all taken apart again: there they only order the work."""
        from rlx_dialect.pipelines.targets import CPU

        return cls.for_target(CPU, environment)

    @classmethod
    def for_metal(cls, environment: Environment = NOTHING_SET) -> FusionOptions:
        """Regions are taken apart unless the environment keeps them; reads METAL_VARIABLES."""
        from rlx_dialect.pipelines.targets import METAL

        return cls.for_target(METAL, environment)

    @classmethod
    def for_wgpu(cls, environment: Environment = NOTHING_SET) -> FusionOptions:
        """Regions are taken apart unless the environment keeps them; reads WGPU_VARIABLES."""
        from rlx_dialect.pipelines.targets import WGPU

        return cls.for_target(WGPU, environment)

    @classmethod
    def resolve(cls, target: Target, environment: Environment, **arguments: OptionValue) -> FusionOptions:
        """The whole order at once: defaults, target, environment, arguments."""
        return cls.for_target(target, environment).merge_env(environment).with_arguments(**arguments)

    def merge_env(self, environment: Environment) -> FusionOptions:
        """Apply every variable that is set. They only turn flags on, but for those whose row says otherwise."""
        return self.reading(VARIABLES, environment)

    def with_arguments(self, **values: OptionValue) -> FusionOptions:
        """Values given by the caller, which nothing replaces afterwards; raises TypeError for an unknown option."""
        return self.with_values(ARGUMENT, **values)

    def with_values(self, origin: str, **values: OptionValue) -> FusionOptions:
        """Values from ``origin``. Keeping regions lifts a habit of taking them apart, not a wish to."""
        options = self._replaced(origin, values)
        if options.keep_elementwise_regions and not options.is_set(UNFUSE) and options.unfuse_elementwise_regions:
            return options._replaced(options.origin("keep_elementwise_regions"), {UNFUSE: False})
        return options

    def _replaced(self, origin: str, values: Mapping[str, OptionValue]) -> FusionOptions:
        changes: dict[str, Any] = dict(values)
        return replace(self, **changes, origins={**self.origins, **dict.fromkeys(values, origin)})

    def reading(self, variables: tuple[Variable, ...], environment: Environment) -> FusionOptions:
        """Apply some variables; those given as arguments before stay."""
        options = self
        for variable in variables:
            value = variable.value(environment)
            if value is not None and options.origin(variable.option) != ARGUMENT:
                options = options.with_values(environment.origin(variable.key), **{variable.option: value})
        return options

    # What a target makes of them.

    def apply_native_fk_defaults(self, target: Target) -> FusionOptions:
        """Every target with native region kernels uses them, unless the environment or an argument said no."""
        if self.native_fk_regions or not target.native_regions or self.is_set("native_fk_regions"):
            return self
        return self.with_values(f"target {target.name}", native_fk_regions=True)

    def apply_unfuse_default(self, target: Target) -> FusionOptions:
        """Where it is the target's habit, regions are taken apart, unless they are to be kept."""
        if not target.unfuses_regions or self.is_set(UNFUSE):
            return self
        return self.with_values(f"target {target.name}", unfuse_elementwise_regions=True)

    # Looking at one.

    def origin(self, name: str) -> str:
        """Where a value came from: ``default``, ``target …``, ``environment …``, ``override …`` or ``argument``."""
        if name in self.origins:
            return self.origins[name]
        return DEFAULT if getattr(self, name) == _DEFAULTS[name] else ARGUMENT

    def is_set(self, name: str) -> bool:
        """Whether someone chose the value: it is neither the default nor a target's habit."""
        origin = self.origin(name)
        return origin != DEFAULT and not origin.startswith("target ")


OPTION_NAMES = tuple(f.name for f in fields(FusionOptions) if f.name != "origins")
_DEFAULTS: dict[str, OptionValue] = {name: getattr(FusionOptions(), name) for name in OPTION_NAMES}
