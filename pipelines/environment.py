"""The ``RLX_…`` variables: one snapshot, taken at the edge; no pass ever reads the process environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "RLX_"
FALSE_WORDS = frozenset({"", "0", "false", "off", "no"})


def variable_name(key: str) -> str:
    """``NO_FK_FUSION`` and ``RLX_NO_FK_FUSION`` are the same variable."""
    return key if key.startswith(PREFIX) else PREFIX + key


def is_truthy(value: str) -> bool:
    """The truth rule: everything is true but, trimmed and in any case, nothing, ``0``, ``false``, ``off`` and ``no``.

    So ``00`` is true, and so is a word that nobody thought of.
    """
    return value.strip().lower() not in FALSE_WORDS


def _normalised(values: Mapping[str, str]) -> dict[str, str]:
    return {variable_name(key): value for key, value in values.items()}


@dataclass(frozen=True)
class Environment:
    """Variables as they were at one moment. Overrides, which a program gives, come before the process's own.

    ``Environment()`` has no variable set; :meth:`current` reads the process.
    """

    overrides: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        object.__setattr__(self, "overrides", _normalised(self.overrides))
        object.__setattr__(
            self, "variables", {key: value for key, value in self.variables.items() if key.startswith(PREFIX)}
        )

    @classmethod
    def current(cls, overrides: Mapping[str, str] | None = None) -> Environment:
        """The process environment now, under ``overrides``."""
        return cls(overrides or {}, dict(os.environ))

    def get(self, key: str) -> str | None:
        name = variable_name(key)
        return self.overrides.get(name, self.variables.get(name))

    def is_unset(self, key: str) -> bool:
        return self.get(key) is None

    def flag(self, key: str) -> bool:
        """The truth of a variable; false when unset."""
        return self.flag_or(key, False)

    def flag_or(self, key: str, default: bool) -> bool:
        value = self.get(key)
        return default if value is None else is_truthy(value)

    def is_one(self, key: str) -> bool:
        """Whether the variable is exactly ``1``: for the few that ``true`` does not switch."""
        return self.get(key) == "1"

    def integer(self, key: str) -> int | None:
        """The variable as an integer, None when unset; raises ValueError naming it when it is no integer."""
        value = self.get(key)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise ValueError(f"{variable_name(key)} must be an integer, got '{value}'") from None

    def origin(self, key: str) -> str:
        """Where a set variable's value came from, to be shown: ``environment RLX_X=1`` or ``override RLX_X=1``."""
        name = variable_name(key)
        where = "override" if name in self.overrides else "environment"
        return f"{where} {name}={self.get(key)}"


NOTHING_SET = Environment()
"""An environment without any variable: what a value is when nobody says otherwise."""
