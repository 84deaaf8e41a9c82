"""The RLX dialect: every operation class found in :mod:`rlx_dialect.ops`, and the attributes they use."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from xdsl.ir import Attribute, Dialect, Operation

import rlx_dialect.ops
from rlx_dialect.attributes import RLX_ATTRIBUTES
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.xdsl_compat import ConstantMaterializationInterface


def _operations() -> list[type[Operation]]:
    """A new operation needs no list to be added to: its class in a module of ``ops`` is enough."""
    found: list[type[Operation]] = []
    for info in pkgutil.iter_modules(rlx_dialect.ops.__path__):
        module = import_module(f"rlx_dialect.ops.{info.name}")
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Operation)
            and value.__module__ == module.__name__
            and getattr(value, "name", "").startswith("rlx.")
        ]
    return found


class _MaterializeConstant(ConstantMaterializationInterface):
    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

        return ConstantOp(value) if isinstance(value, DenseIntOrFPElementsAttr) and value.type == type else None


RLX = Dialect("rlx", _operations(), RLX_ATTRIBUTES, [_MaterializeConstant()])
