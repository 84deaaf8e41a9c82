"""Which function lowers which operation: a package of lowerings needs no list to be added to.

``lowering/to_<backend>/conversion.py`` holds ``LOWERINGS``, what :func:`lowerings_of` gives for ``<backend>``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Generic, TypeVar

from xdsl.ir import Operation

L = TypeVar("L")

Decline = Callable[[Any], "str | None"]
"""Why an operation, though its class has a lowering, is decomposed; None where it is not."""


class Lowerings(Generic[L]):
    """The lowerings that the modules of ``package`` register; they are imported when the first one is asked for."""

    def __init__(self, package: str):
        self._package = package
        self._found = False
        self._by_class: dict[type[Operation], L] = {}
        self._declines: Decline | None = None
        self._declines_of: dict[type[Operation], Decline] = {}

    def lowers(self, *op_types: type[Operation]) -> Callable[[L], L]:
        """Registers the decorated function for operation classes."""

        def register(function: L) -> L:
            self._by_class.update(dict.fromkeys(op_types, function))
            return function

        return register

    def get(self, op_type: type[Operation]) -> L | None:
        """The function registered for exactly this class."""
        if not self._found:
            for info in pkgutil.iter_modules(import_module(self._package).__path__, self._package + "."):
                import_module(info.name)
            self._found = True
        return self._by_class.get(op_type)

    def classes(self) -> frozenset[type[Operation]]:
        """Every operation class that is lowered as it is."""
        self.get(Operation)  # finds the modules
        return frozenset(self._by_class)

    def declining(self, check: Decline) -> Decline:
        """Registers the decorated check for all operations."""
        self._declines = check
        return check

    def declines(self, *op_types: type[Operation]) -> Callable[[Decline], Decline]:
        """Registers the decorated check for operation classes; it comes before that of all operations."""

        def register(check: Decline) -> Decline:
            self._declines_of.update(dict.fromkeys(op_types, check))
            return check

        return register

    def why_not(self, op: Operation, target: str) -> str | None:
        """Why ``op`` is not lowered as it is for ``target``; None where it is."""
        if self.get(type(op)) is None:
            return f"{target} has no form of its own for it"
        if (check := self._declines_of.get(type(op))) is not None and (why := check(op)) is not None:
            return why
        return None if self._declines is None else self._declines(op)


def lowerings_of(backend: str) -> Lowerings[Callable[..., object]]:
    """The registry of ``lowering/to_<backend>``; raises ValueError for an unknown one."""
    if (package := f"{__package__}.to_{backend}") not in {i.name for i in _packages()}:
        raise ValueError(f"unknown backend '{backend}': there is no lowering/to_{backend}")
    return import_module(f"{package}.conversion").LOWERINGS


def _packages() -> Iterator[pkgutil.ModuleInfo]:
    return pkgutil.iter_modules(import_module(__package__ or "").__path__, f"{__package__}.")
