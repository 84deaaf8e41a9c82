"""The conditions of the selection table as data: each can be evaluated, and each can say itself in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Operation

from rlx_dialect.pipelines.limits import FusionLimits, resolve_fusion_limits
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.targets import Target

Claimable: TypeAlias = "type[Operation] | str"
"""An operation class, or its name with or without the prefix ``rlx.``."""


def claim_names(claims: Iterable[Claimable]) -> frozenset[str]:
    """Claims by operation name, without ``rlx.``: a claim set may name operations that are not loaded or not there."""
    names = (claim if isinstance(claim, str) else claim.name for claim in claims)
    return frozenset(name.removeprefix("rlx.") for name in names)


@dataclass(frozen=True)
class Situation:
    """What selection decides on."""

    claims: frozenset[str]
    options: FusionOptions
    target: Target

    def supports(self, operation: str) -> bool:
        """Whether fusion may make that operation; an empty claim set supports everything."""
        return not self.claims or operation in self.claims

    @property
    def limits(self) -> FusionLimits:
        return resolve_fusion_limits(self.target, self.options)


@dataclass(frozen=True)
class Claimed:
    operation: str

    def holds(self, situation: Situation) -> bool:
        return situation.supports(self.operation)

    def __str__(self) -> str:
        return f"claims {self.operation}"


@dataclass(frozen=True)
class On:
    option: str

    def holds(self, situation: Situation) -> bool:
        return bool(getattr(situation.options, self.option))

    def __str__(self) -> str:
        return self.option


@dataclass(frozen=True)
class Not:
    condition: Claimed | On

    def holds(self, situation: Situation) -> bool:
        return not self.condition.holds(situation)

    def __str__(self) -> str:
        return f"not {self.condition}"


@dataclass(frozen=True)
class AnyOf:
    conditions: tuple[Claimed | On | Not, ...]

    def holds(self, situation: Situation) -> bool:
        return any(c.holds(situation) for c in self.conditions)

    def __str__(self) -> str:
        return " or ".join(map(str, self.conditions))


Condition: TypeAlias = Claimed | On | Not | AnyOf


def why(condition: Claimed | On | Not | AnyOf, situation: Situation) -> str:
    """A condition as it stands, with the origin of each option in it: ``not fk_fusion (environment RLX_…)``."""
    match condition:
        case Claimed(operation):
            claims = "claims" if situation.supports(operation) else "does not claim"
            return f"{situation.target.name} {claims} {operation}"
        case On(option):
            value = str(bool(getattr(situation.options, option))).lower()
            return f"{option} is {value} ({situation.options.origin(option)})"
        case Not(inner):
            return why(inner, situation)
        case AnyOf(conditions):
            return ", ".join(why(c, situation) for c in conditions)
