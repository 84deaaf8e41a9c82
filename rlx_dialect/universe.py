"""What plain xDSL tools find of RLX through the ``xdsl.universe`` entry point.

Every xDSL tool imports this module at start, so it imports nothing of RLX but the list of passes, which is a
listing of files. Factories import the rest when it is used.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target

import rlx_dialect.lowering
from rlx_dialect.passes import load_pass, pass_factories, pass_name


def _rlx() -> Dialect:
    from rlx_dialect.dialect import RLX

    return RLX


def _onnx() -> type[Frontend]:
    from rlx_dialect.frontends.onnx.frontend import OnnxFrontend

    return OnnxFrontend


def _target(class_name: str) -> type[Target]:
    return getattr(import_module("rlx_dialect.runtime.targets"), class_name)


def _lowerings() -> dict[str, Callable[[], type[ModulePass]]]:
    """``lowering/to_linalg`` is the pass ``rlx-lower-to-linalg``, and so on."""
    factories: dict[str, Callable[[], type[ModulePass]]] = {}
    for info in pkgutil.iter_modules(rlx_dialect.lowering.__path__, "rlx_dialect.lowering."):
        if info.ispkg:
            name = pass_name(info.name).replace("rlx-", "rlx-lower-", 1)
            factories[name] = partial(load_pass, name, info.name)
    legalize = "rlx_dialect.lowering.legalize"
    return factories | {pass_name(legalize): partial(load_pass, pass_name(legalize), legalize)}


_TARGETS = {
    "mlx-python": "MlxPythonTarget",
    "rlx-amdgcn": "AmdgcnTarget",
    "rlx-amdgcn-report": "AmdgcnReportTarget",
    "rlx-launch-plan": "LaunchPlanTarget",
    "rlx-launch-report": "LaunchReportTarget",
    "rlx-msl": "MslTarget",
    "rlx-ptx": "PtxTarget",
    "rlx-ptxas-report": "PtxasReportTarget",
    "rlx-spirv": "SpirvTarget",
    "rlx-stablehlo": "StablehloTarget",
    "rlx-vulkan": "VulkanTarget",
    "rlx-wgsl": "WgslTarget",
}
"""Classes of :mod:`rlx_dialect.runtime.targets` by the name that ``-t`` takes."""

RLX_UNIVERSE = Universe(
    all_dialects={"rlx": _rlx},
    all_passes=pass_factories() | _lowerings(),
    all_targets={name: partial(_target, class_name) for name, class_name in _TARGETS.items()},
    all_frontends={"onnx": _onnx},
)
