"""One pass a module. A pass needs no list to be added to: ``passes/fuse_x_y.py`` is the pass ``rlx-fuse-x-y``."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx_dialect.xdsl_compat import ModulePass

PREFIX = "rlx-"


def pass_name(module_name: str) -> str:
    """``fuse_matmul_bias_act`` is the file of ``rlx-fuse-matmul-bias-act``."""
    return PREFIX + module_name.rpartition(".")[2].replace("_", "-")


@cache
def pass_modules() -> dict[str, str]:
    """The module of every pass of this folder by the pass's name, from a listing of files."""
    modules: dict[str, str] = {}
    for info in pkgutil.iter_modules(__path__, "rlx_dialect.passes."):
        if not info.ispkg and not info.name.rpartition(".")[2].startswith("_"):
            modules[pass_name(info.name)] = info.name
    return modules


def load_pass(name: str, module_name: str) -> type[ModulePass]:
    """Import a module and return its pass of that name; raises ImportError when the module has none."""
    from rlx_dialect.xdsl_compat import ModulePass

    for value in vars(import_module(module_name)).values():
        if isinstance(value, type) and issubclass(value, ModulePass) and getattr(value, "name", None) == name:
            return value
    raise ImportError(f"{module_name} has no pass named '{name}': a pass is named after its file")


def pass_factories() -> dict[str, Callable[[], type[ModulePass]]]:
    """Every pass of this folder by name; its module is imported when the factory is called."""
    return {name: partial(load_pass, name, module) for name, module in pass_modules().items()}
