"""Running a launch plan on a device: what is the same for every way to reach one.

Parameters and constants are written once, when a graph is compiled, and so run the launches that depend on nothing
else. A run writes the inputs, launches every kernel on buffers that stay on the device, and reads the outputs. Where
extents are known only when the graph runs, each that occurs gets a plan and buffers of its own; parameters are shared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from rlx_dialect.dtypes import Array
from rlx_dialect.runtime.engine import bind
from rlx_dialect.runtime.launch_plan import (
    ALIGNMENT,
    Launch,
    LaunchPlan,
    LaunchPlans,
    from_buffer,
    renumbered,
    to_buffer,
)

MOST_PLANS = 8
"""How many different extents have buffers on the device at one time."""


class PlanExecutable(ABC):
    """A compiled graph with its parameters on the device. Buffers are known by their numbers in the plan."""

    def __init__(self, plans: LaunchPlans, weights: Mapping[str, Array]):
        """Raises BindingError, DeviceError."""
        self._plans = plans
        self._sizes: list[int] = []
        self._made: dict[tuple[int, ...], LaunchPlan] = {}
        """The plans by the extents that they were made for."""
        self._plan: LaunchPlan | None = None
        self._weights: list[Array] | None = bind("parameter", plans.signature.params, weights)
        self._parameter_shapes = [p.shape for p in self._weights]
        if not plans.unknown:
            self._plan = self._planned([])

    def _planned(self, inputs: Sequence[Sequence[int]]) -> LaunchPlan:
        """The plan for inputs of these shapes, with its buffers on the device."""
        extents = self._plans.extents(self._parameter_shapes, inputs)
        key = tuple(extents.values())
        if key not in self._made:
            if len(self._made) == MOST_PLANS:
                self._made.clear()
                self._release(self._plans.permanent)
                del self._sizes[self._plans.permanent :]
            self._made[key] = self._placed(self._plans.at(extents))
        return self._made[key]

    def _placed(self, plan: LaunchPlan) -> LaunchPlan:
        """Make the buffers of a plan that are not there yet, and write what does not change."""
        self._admit(plan)
        there = self._plans.permanent if self._sizes else 0
        base = len(self._sizes)
        place = {b: b if b < there else b - there + base for b in range(len(plan.sizes))}
        self._allocate(plan.sizes[there:])
        self._sizes += plan.sizes[there:]
        plan = renumbered(plan, plan.sizes, place)
        if self._weights is not None:
            for buffer, value, slot in zip(plan.params, self._weights, plan.stored.params, strict=True):
                self._fill(buffer, to_buffer(value, slot))
            self._weights = None
        for buffer, value in plan.constants.items():
            if not there or buffer >= there:
                data = value.tobytes()
                self._fill(buffer, data + bytes(-len(data) % ALIGNMENT))
        if plan.setup:
            self._launch(plan.setup)
        return plan

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs in result order. Raises BindingError, DeviceError."""
        values = bind("input", self._plans.signature.inputs, inputs)
        plan = self._plan = self._planned([v.shape for v in values])
        signature, stored = plan.signature, plan.stored
        for buffer, value, slot in zip(plan.inputs, values, stored.inputs, strict=True):
            self._fill(buffer, to_buffer(value, slot))
        self._launch(plan.launches)
        return [
            from_buffer(self._read(buffer), slot, seen)
            for buffer, slot, seen in zip(plan.outputs, stored.outputs, signature.outputs, strict=True)
        ]

    def launch(self) -> None:
        """Launch the kernels on what the buffers hold, and wait for the last: a run without its copies, for timing.

        Where extents are known only when the graph runs, they are those of the last run.
        """
        assert self._plan is not None, "the extents are those of a run, and there was none"
        self._launch(self._plan.launches)
        self._wait()

    def _fill(self, buffer: int, data: bytes) -> None:
        if data:
            self._write(buffer, data)

    def _admit(self, plan: LaunchPlan) -> None:  # noqa: B027 - most devices take every plan
        """Raise DeviceError where the device has too little of something for the plan."""

    @abstractmethod
    def _allocate(self, sizes: Sequence[int]) -> None:
        """Make more buffers, of ``sizes`` bytes, after those that there are."""

    @abstractmethod
    def _release(self, first: int) -> None:
        """Give back the buffers from number ``first`` on."""

    @abstractmethod
    def _write(self, buffer: int, data: bytes) -> None:
        """Write the first bytes of a buffer."""

    @abstractmethod
    def _read(self, buffer: int) -> bytes | memoryview:
        """All bytes of a buffer, after the launches before."""

    @abstractmethod
    def _launch(self, launches: Sequence[Launch]) -> None:
        """Start the kernels, each after the one before."""

    @abstractmethod
    def _wait(self) -> None:
        """Return when all that was started has ended."""
