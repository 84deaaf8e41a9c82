"""A launch plan as JSON, for hosts in other languages: buffers, and the kernels to launch on them in order.

A host makes the ``buffers``, writes ``parameters`` and ``constants`` once and runs the launches of ``setup``. For
each call it writes the ``inputs``, runs ``launches`` in order, and reads the ``outputs``. A kernel takes the addresses
of its buffers in order; its code is what ``-t rlx-ptx``, ``rlx-amdgcn``, ``rlx-msl``, ``rlx-wgsl`` or
``rlx-spirv`` writes.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime.engine import Slot
from rlx_dialect.runtime.launch_plan import Launch, LaunchPlan, launch_plan
from rlx_dialect.runtime.traffic import Moved, traffic

VERSION = 1


def plan_json(module: ModuleOp) -> str:
    """The plan of a lowered module's main function. Raises GraphError, also where an extent is unknown."""
    plan, moved = launch_plan(module), traffic(module)
    description = {
        "version": VERSION,
        "buffers": _buffers(plan),
        "inputs": _values(plan.signature.inputs, plan.stored.inputs, plan.inputs),
        "parameters": _values(plan.signature.params, plan.stored.params, plan.params),
        "outputs": _values(plan.signature.outputs, plan.stored.outputs, plan.outputs),
        "constants": [
            {"buffer": buffer, "base64": b64encode(value.tobytes()).decode()}
            for buffer, value in plan.constants.items()
        ],
        "setup": _launches(plan.setup, moved.setup),
        "launches": _launches(plan.launches, moved.launches),
        "bytes_moved": moved.bytes,
        "least_bytes": moved.least,
    }
    return json.dumps(description, indent=1)


def _buffers(plan: LaunchPlan) -> list[dict[str, Any]]:
    """Each with its size and, in numbers of launches, from when to when its contents matter."""
    end = len(plan.launches)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, launch in enumerate(plan.launches):
        for buffer in launch.buffers:
            first.setdefault(buffer, index)
            last[buffer] = index
    # What is written before the first launch, or read after the last one.
    early = {*plan.inputs, *plan.params, *plan.constants, *(b for launch in plan.setup for b in launch.buffers)}
    first |= dict.fromkeys(early, 0)
    # A parameter or constant is there for the next call, too.
    last |= dict.fromkeys({*plan.outputs, *early} - set(plan.inputs), end)
    return [
        {"bytes": size, "first": first.get(buffer, 0), "last": last.get(buffer, first.get(buffer, 0))}
        for buffer, size in enumerate(plan.sizes)
    ]


def _values(seen: Sequence[Slot], stored: Sequence[Slot], buffers: Sequence[int]) -> list[dict[str, Any]]:
    """Named values; ``stored`` is the element type in the buffer."""
    return [
        {
            "name": slot.name,
            "type": str(slot.element),
            "stored": str(inside.element),
            "shape": list(slot.shape),
            "buffer": buffer,
        }
        for slot, inside, buffer in zip(seen, stored, buffers, strict=True)
    ]


def _launches(launches: Sequence[Launch], moved: Sequence[Moved]) -> list[dict[str, Any]]:
    return [
        {
            "kernel": launch.kernel,
            "grid": list(launch.groups),
            "workgroup": list(launch.block),
            "buffers": list(launch.buffers),
            "bytes_read": sum(bytes_.read),
            "bytes_written": sum(bytes_.written),
        }
        for launch, bytes_ in zip(launches, moved, strict=True)
    ]
