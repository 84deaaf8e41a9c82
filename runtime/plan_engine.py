"""Running a launch plan on a device: what is the same for every way to reach one.

Parameters and constants are written once, when a graph is compiled, and so run the launches that depend on nothing
else. A run writes the inputs, launches every kernel on buffers that stay on the device, and reads the outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from rlx_dialect.dtypes import Array
from rlx_dialect.runtime.engine import bind
from rlx_dialect.runtime.launch_plan import ALIGNMENT, Launch, LaunchPlan, from_buffer, to_buffer


class PlanExecutable(ABC):
    """A compiled graph with its parameters on the device. Buffers are known by their numbers in the plan."""

    def __init__(self, plan: LaunchPlan, weights: Mapping[str, Array]):
        """Raises BindingError, DeviceError."""
        self._plan = plan
        parameters = bind("parameter", plan.signature.params, weights)
        self._allocate(plan.sizes)
        for buffer, value, slot in zip(plan.params, parameters, plan.stored.params, strict=True):
            self._fill(buffer, to_buffer(value, slot))
        for buffer, value in plan.constants.items():
            data = value.tobytes()
            self._fill(buffer, data + bytes(-len(data) % ALIGNMENT))
        if plan.setup:
            self._launch(plan.setup)

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs in result order. Raises BindingError, DeviceError."""
        signature, stored = self._plan.signature, self._plan.stored
        values = bind("input", signature.inputs, inputs)
        for buffer, value, slot in zip(self._plan.inputs, values, stored.inputs, strict=True):
            self._fill(buffer, to_buffer(value, slot))
        self._launch(self._plan.launches)
        return [
            from_buffer(self._read(buffer), slot, seen)
            for buffer, slot, seen in zip(self._plan.outputs, stored.outputs, signature.outputs, strict=True)
        ]

    def launch(self) -> None:
        """Launch the kernels on what the buffers hold, and wait for the last: a run without its copies, for timing."""
        self._launch(self._plan.launches)
        self._wait()

    def _fill(self, buffer: int, data: bytes) -> None:
        if data:
            self._write(buffer, data)

    @abstractmethod
    def _allocate(self, sizes: Sequence[int]) -> None:
        """Make the buffers, of ``sizes`` bytes."""

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
