"""A launch plan as JSON, for hosts in other languages: buffers, and the kernels to launch on them in order.

A host makes the ``buffers``, writes ``parameters`` and ``constants`` once and runs the launches of ``setup``. For
each call it writes the ``inputs``, runs ``launches`` in order, and reads the ``outputs``. A kernel takes the addresses
of its buffers in order; its code is what ``-t rlx-ptx``, ``rlx-amdgcn``, ``rlx-msl``, ``rlx-wgsl`` or
``rlx-spirv`` writes.

Where extents are known only when the graph runs, ``extents`` names them, and sizes, shapes and grids that depend on
them are formulas: text of ``+``, ``*``, numbers, those names, ``div(a, b)``, which rounds down, and ``min(a, b)``. For
each call the host makes sure of ``checks`` and writes what ``told`` says; a launch whose grid has a 0 is left out.
Temporary buffers are then not shared, and what launches move is not said.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from rlx_dialect.dtypes import storage_dtype
from rlx_dialect.lowering.to_gpu.extents import Atom, Dim, Extent, Least, Quotient, symbol, up
from rlx_dialect.runtime.engine import Slot
from rlx_dialect.runtime.launch_plan import (
    ALIGNMENT,
    Launch,
    LaunchPlan,
    LaunchPlans,
    OpenLaunch,
    buffer_bytes,
    launch_plans,
)
from rlx_dialect.runtime.traffic import Moved, traffic

VERSION = 1


def plan_json(module: ModuleOp) -> str:
    """The plan of a lowered module's main function. Raises GraphError."""
    plans = launch_plans(module)
    if plans.unknown:
        return json.dumps({"version": VERSION, **_open(plans)}, indent=1)
    plan, moved = plans.at({}), traffic(module)
    description = {
        "version": VERSION,
        "buffers": _buffers(plan, plan.sizes),
        "inputs": _values(plan.signature.inputs, plan.stored.inputs, plan.inputs),
        "parameters": _values(plan.signature.params, plan.stored.params, plan.params),
        "outputs": _values(plan.signature.outputs, plan.stored.outputs, plan.outputs),
        "constants": _constants(plan),
        "setup": _moving(plan.setup, moved.setup),
        "launches": _moving(plan.launches, moved.launches),
        "bytes_moved": moved.bytes,
        "least_bytes": moved.least,
    }
    return json.dumps(description, indent=1)


def _open(plans: LaunchPlans) -> dict[str, Any]:
    """The plan with formulas of the unknown extents."""
    slots = {"input": plans.signature.inputs, "param": plans.signature.params}
    extents: list[dict[str, Any]] = []
    shapes = {kind: [list[Extent](slot.shape) for slot in group] for kind, group in slots.items()}
    for dim in plans.unknown:
        kind, number = plans.slots[dim.argument]
        extents.append({"name": _name(dim), "of": slots[kind][number].name, "axis": dim.axis})
        shapes[kind][number][dim.axis] = symbol(dim)
    return {
        "extents": extents,
        "checks": [
            {"left": _formula(c.left), "is": RELATIONS[c.relation], "right": _formula(c.right), "else": c.message}
            for c in plans.checks
        ],
        "buffers": _buffers(plans, [_size(count, element) for count, element in plans.sizes]),
        "inputs": _values(plans.signature.inputs, plans.stored.inputs, plans.inputs, shapes["input"]),
        "parameters": _values(plans.signature.params, plans.stored.params, plans.params, shapes["param"]),
        "outputs": _values(plans.signature.outputs, plans.stored.outputs, plans.outputs, plans.shapes),
        "constants": _constants(plans),
        "told": [
            {"buffer": buffer, "stored": str(element), "values": [_formula(e) for e in values]}
            for buffer, (values, element) in plans.told.items()
        ],
        "setup": _launches(plans.setup),
        "launches": _launches(plans.launches),
    }


RELATIONS = {"eq": "equal", "sge": "at least"}


def _name(dim: Dim) -> str:
    return f"d{dim.argument}_{dim.axis}"


def _formula(extent: Extent) -> int | str:
    """A number, or the text of what it is made of."""
    if isinstance(extent, int):
        return extent
    return " + ".join("*".join([*([str(c)] if c != 1 or not m else []), *map(_atom, m)]) for m, c in extent.terms)


def _atom(atom: Atom) -> str:
    match atom:
        case Dim():
            return _name(atom)
        case Quotient():
            return f"div({_formula(atom.of)}, {atom.by})"
        case Least():
            return f"min({_formula(atom.of)}, {atom.limit})"


def _size(count: Extent, element: Attribute) -> Extent:
    """Bytes, whole words."""
    if isinstance(count, int):
        return buffer_bytes(count, element)
    return up(count * storage_dtype(element).itemsize, ALIGNMENT) * ALIGNMENT


def _constants(plan: LaunchPlan | LaunchPlans) -> list[dict[str, Any]]:
    return [
        {"buffer": buffer, "base64": b64encode(value.tobytes()).decode()} for buffer, value in plan.constants.items()
    ]


def _buffers(plan: LaunchPlan | LaunchPlans, sizes: Sequence[Extent]) -> list[dict[str, Any]]:
    """Each with its size and, in numbers of launches, from when to when its contents matter."""
    end = len(plan.launches)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, launch in enumerate(plan.launches):
        for buffer in launch.buffers:
            first.setdefault(buffer, index)
            last[buffer] = index
    # What is written before the first launch, or read after the last one.
    told = plan.told if isinstance(plan, LaunchPlans) else {}
    early = {*plan.inputs, *plan.params, *plan.constants, *(b for launch in plan.setup for b in launch.buffers)}
    first |= dict.fromkeys({*early, *told}, 0)
    # A parameter or constant is there for the next call, too.
    last |= dict.fromkeys({*plan.outputs, *early} - set(plan.inputs), end)
    return [
        {"bytes": _formula(size), "first": first.get(buffer, 0), "last": last.get(buffer, first.get(buffer, 0))}
        for buffer, size in enumerate(sizes)
    ]


def _values(
    seen: Sequence[Slot],
    stored: Sequence[Slot],
    buffers: Sequence[int],
    shapes: Sequence[Sequence[Extent]] | None = None,
) -> list[dict[str, Any]]:
    """Named values; ``stored`` is the element type in the buffer, ``shapes`` what is not as the slots say."""
    return [
        {
            "name": slot.name,
            "type": str(slot.element),
            "stored": str(inside.element),
            "shape": [_formula(extent) for extent in shape],
            "buffer": buffer,
        }
        for slot, inside, buffer, shape in zip(
            seen, stored, buffers, shapes or [slot.shape for slot in seen], strict=True
        )
    ]


def _launches(launches: Sequence[Launch | OpenLaunch]) -> list[dict[str, Any]]:
    return [
        {
            "kernel": launch.kernel,
            "grid": [_formula(count) for count in launch.groups],
            "workgroup": list(launch.block),
            "buffers": list(launch.buffers),
        }
        for launch in launches
    ]


def _moving(launches: Sequence[Launch], moved: Sequence[Moved]) -> list[dict[str, Any]]:
    """With the bytes that each moves."""
    return [
        {**launch, "bytes_read": sum(bytes_.read), "bytes_written": sum(bytes_.written)}
        for launch, bytes_ in zip(_launches(launches), moved, strict=True)
    ]
