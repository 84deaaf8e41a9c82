"""Run the kernels of ``rlx-lower-to-cpu`` on this machine's cores.

A launch is one call of a kernel for a range of its groups; with several threads each takes the next part of the groups
when it is done with one (a call through ctypes holds no lock of Python). Parameters and inputs are read where they lie.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from threading import Lock

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.lowering.to_cpu import LowerToCpu
from rlx_dialect.lowering.to_cpu.kernel import WORK
from rlx_dialect.lowering.to_cpu.specialise import Misfit, has_unknown_extents, specialise
from rlx_dialect.lowering.to_gpu.host import KERNELS
from rlx_dialect.runtime.engine import BindingError, Executable, Signature, Slot, bind
from rlx_dialect.runtime.launch_plan import Launch, LaunchPlan, launch_plan
from rlx_dialect.runtime.objects import shared_object
from rlx_dialect.runtime.toolchain import ToolError
from rlx_dialect.shapes import Shape
from rlx_dialect.xdsl_compat import rlx_context

_ALIGNMENT = 64

MOST_SHAPES = 8
"""How many combinations of extents keep their compiled kernels and packed parameters in memory."""

SHARED_WORK = 400_000
"""Scalar operations that are worth another thread: to wake one costs some 20 µs."""

SHARES = 4
"""Parts of a launch for each thread: one whose core is busy with something else takes fewer."""


def thread_count() -> int:
    """``OMP_NUM_THREADS``, else the number of cores that this process may use."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    if text.isdigit() and int(text) > 0:
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _workers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="rlx")


@dataclass(frozen=True)
class NativeEngine:
    """Compiles modules that ``rlx-lower-to-cpu`` made; ``threads`` is :func:`thread_count` where it is not given."""

    threads: int | None = None

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> Executable:
        """Compile the kernels, or find them compiled, and pack the parameters.

        Where a graph's arguments have unknown extents, that is done for each combination when it first comes.
        Raises BindingError, GraphError, ToolError.
        """
        threads = self.threads or thread_count()
        if has_unknown_extents(main_function(module)):
            return SpecialisedExecutable(module, weights, threads)
        return _executable(module, weights, threads)


def _executable(module: ModuleOp, weights: Mapping[str, Array], threads: int) -> NativeExecutable:
    plan = launch_plan(module)
    kernels = next((op for op in module.ops if isinstance(op, ModuleOp) and op.sym_name == StringAttr(KERNELS)), None)
    if kernels is None and (plan.setup or plan.launches):
        raise ToolError("the module has no native kernels: lower it first, as rlx-lower-to-cpu does")
    library = Library({}, None) if kernels is None else load(kernels)
    return NativeExecutable(plan, library, weights, threads)


@dataclass(frozen=True)
class Library:
    """Compiled kernels, and about how many scalar operations a group of each takes."""

    work: Mapping[str, int]
    code: ctypes.CDLL | None


def load(kernels: ModuleOp) -> Library:
    """Compile the kernels of a lowered module, or find them compiled. Raises ToolError."""
    work: dict[str, int] = {}
    for kernel in kernels.ops:
        assert isinstance(kernel, FuncOp)
        of_group = kernel.attributes[WORK]
        assert isinstance(of_group, IntegerAttr)
        work[kernel.sym_name.data] = of_group.value.data
    return Library(work, shared_object(kernels))


@dataclass(frozen=True)
class _Step:
    """One launch: the compiled kernel on buffers by number, for ranges of its groups."""

    function: Callable[..., None]
    buffers: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    """What a thread takes at once."""


class NativeExecutable:
    """A compiled graph with its parameters packed. Calls of :meth:`run` wait for each other."""

    def __init__(self, plan: LaunchPlan, library: Library, weights: Mapping[str, Array], threads: int):
        self._plan = plan
        self._library = library
        self._threads = threads
        self._lock = Lock()
        parameters = bind("parameter", plan.signature.params, weights)
        given = dict(zip(plan.params, map(_stored, parameters, plan.stored.params), strict=True))
        given |= {b: np.ascontiguousarray(value) for b, value in plan.constants.items()}
        outside = {*given, *plan.inputs, *plan.outputs}
        self._arrays: list[Array] = [
            given[b] if b in given else _memory(0 if b in outside else size) for b, size in enumerate(plan.sizes)
        ]
        self._pointers = [a.ctypes.data for a in self._arrays]
        self._given = frozenset(given)
        for launch in plan.setup:
            self._launch(self._step(launch), self._pointers)
        self._run = [self._step(launch) for launch in plan.launches]

    def _step(self, launch: Launch) -> _Step:
        function = getattr(self._library.code, launch.kernel)
        function.restype = None
        function.argtypes = [ctypes.c_void_p] * len(launch.buffers) + [ctypes.c_int64] * 2
        groups, work = launch.groups[0], self._library.work[launch.kernel]
        shares = self._threads * SHARES if self._threads > 1 else 1
        parts = max(min(shares, groups, groups * work // SHARED_WORK), 1)
        edges = [groups * i // parts for i in range(parts + 1)]
        return _Step(function, launch.buffers, tuple(pairwise(edges)))

    def _launch(self, step: _Step, pointers: Sequence[int]) -> None:
        buffers = [pointers[b] for b in step.buffers]
        if len(step.ranges) == 1:
            step.function(*buffers, *step.ranges[0])
            return
        pool, parts = _workers(self._threads - 1), iter(step.ranges)

        def work() -> None:
            # What is next is asked for under Python's lock.
            for part in parts:
                step.function(*buffers, *part)

        others = [pool.submit(work) for _ in range(min(self._threads, len(step.ranges)) - 1)]
        work()
        for other in others:
            # One that did not get to start yet is not waited for.
            if not other.cancel():
                other.result()

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs in result order, in memory of their own. Raises BindingError."""
        signature, stored = self._plan.signature, self._plan.stored
        values = bind("input", signature.inputs, inputs)
        kept = list(map(_stored, values, stored.inputs))
        with self._lock:
            pointers = list(self._pointers)
            arrays: dict[int, Array] = {}
            for buffer in self._plan.outputs:
                if buffer not in self._given:
                    arrays[buffer] = _memory(self._plan.sizes[buffer])
            for buffer, array in zip(self._plan.inputs, kept, strict=True):
                arrays[buffer] = array
            for buffer, array in arrays.items():
                pointers[buffer] = array.ctypes.data
            for step in self._run:
                self._launch(step, pointers)
        outputs: list[Array] = []
        own: set[int] = set()
        for buffer, slot, seen in zip(self._plan.outputs, stored.outputs, signature.outputs, strict=True):
            made = buffer in arrays and buffer not in self._plan.inputs and buffer not in own
            own.add(buffer)
            outputs.append(_seen(arrays.get(buffer, self._arrays[buffer]), slot, seen, copy=not made))
        return outputs


class SpecialisedExecutable:
    """A graph whose arguments have unknown extents: it is lowered and compiled for those that come."""

    def __init__(self, module: ModuleOp, weights: Mapping[str, Array], threads: int):
        """Raises BindingError."""
        self._module = module
        self._threads = threads
        self._lock = Lock()
        self._made: dict[tuple[Shape, ...], NativeExecutable] = {}
        """By the shapes of the inputs; the one that was used last is the last."""
        self._signature = Signature.of(main_function(module))
        self._weights = {slot.name: weights[slot.name] for slot in self._signature.params if slot.name in weights}
        bind("parameter", self._signature.params, self._weights)  # for its checks

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs in result order, in memory of their own. Raises BindingError, LoweringError, ToolError."""
        slots = self._signature.inputs
        shapes = {s.name: v.shape for s, v in zip(slots, bind("input", slots, inputs), strict=True)}
        with self._lock:
            key = tuple(shapes.values())
            executable = self._made.pop(key, None) or self._specialised(shapes)
            self._made[key] = executable
            if len(self._made) > MOST_SHAPES:
                del self._made[next(iter(self._made))]
        return executable.run(inputs)

    def _specialised(self, inputs: Mapping[str, Shape]) -> NativeExecutable:
        module = self._module.clone()
        function = main_function(module)
        shapes = {**{name: value.shape for name, value in self._weights.items()}, **inputs}
        try:
            specialise(function, [shapes[a.name] for a in arguments(function)])
        except Misfit as error:
            raise BindingError(str(error)) from error
        LowerToCpu().apply(rlx_context(), module)
        return _executable(module, self._weights, self._threads)


def _memory(size: int) -> Array:
    """``size`` uninitialised bytes from an address that whole vectors are aligned to."""
    block = np.empty(size + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + size]


def _stored(packed: Array, slot: Slot) -> Array:
    """A bound value as its buffer holds it, itself where it is that already."""
    return np.ascontiguousarray(packed.astype(slot.packed_dtype, copy=False))


def _seen(array: Array, stored: Slot, seen: Slot, *, copy: bool) -> Array:
    """The value in a buffer, as the caller sees it."""
    count = int(np.prod(stored.shape, dtype=np.int64))
    flat = np.frombuffer(array.data, stored.packed_dtype, count).reshape(stored.shape)
    # Memory that is nobody else's needs no copy, except to become the type that the caller sees.
    return seen.unpack(flat.astype(seen.packed_dtype, copy=copy))
