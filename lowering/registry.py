"""Which function lowers which operation: a package of lowerings needs no list to be added to."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Generic, TypeVar

from xdsl.ir import Operation

L = TypeVar("L")


class Lowerings(Generic[L]):
    """The lowerings that the modules of ``package`` register; they are imported when the first one is asked for."""

    def __init__(self, package: str):
        self._package = package
        self._found = False
        self._by_class: dict[type[Operation], L] = {}

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
