"""The engines of :mod:`cpu`, each in a process of its own: no engine's threads or memory are another's.

A process keeps to its cores, is told what to prepare, and times a stretch of calls when it is its turn.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from workloads import WORKLOADS
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import main_function
from rlx_dialect.lowering.to_cpu.cpus import CPUS, host_cpu
from rlx_dialect.runtime.iree import IreeEngine
from rlx_dialect.runtime.native import NativeEngine
from rlx_dialect.runtime.objects import shared_object
from rlx_dialect.runtime.rlx_run import compile_for, random_inputs
from rlx_dialect.weights import random_weights
from rlx_dialect.xdsl_compat import parse_module, rlx_context

ALIGNMENT = 64
"""Bytes."""

Values = Mapping[str, Array]
Call = Callable[[], list[Array]]


def graph(name: str, *, quick: bool) -> tuple[ModuleOp, Values, Values]:
    """A workload's module, the values of its parameters and of its inputs: the same in every process."""
    module = WORKLOADS[name].build(quick=quick).module()
    function = main_function(module)
    inputs = {name: _aligned(value) for name, value in random_inputs(function, 0, 2).items()}
    return module, random_weights(function, 0), inputs


def _aligned(value: Array) -> Array:
    """A copy at an address that whole vectors are aligned to: IREE copies other inputs on every call."""
    block = np.empty(value.nbytes + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    copy = block[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


def _native(module: ModuleOp, weights: Values, inputs: Values, threads: int) -> Call:
    executable = compile_for(module, "cpu", "native", weights, NativeEngine(threads))
    return lambda: executable.run(inputs)


def _iree(module: ModuleOp, weights: Values, inputs: Values, threads: int) -> Call:
    import_module("iree.runtime").flags.parse_flags(f"--task_topology_group_count={threads}")
    engine = IreeEngine("local-sync" if threads == 1 else "local-task")
    executable = compile_for(module, "cpu", "iree", weights, engine)
    return lambda: executable.run(inputs)


def _onnxruntime(module: ModuleOp, weights: Values, inputs: Values, threads: int) -> Call:
    from onnx_form import onnx_model

    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # not what it optimises away
    model = onnx_model(module, weights)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = dict(inputs)
    return lambda: session.run(None, feeds)


def _openvino(module: ModuleOp, weights: Values, inputs: Values, threads: int) -> Call:
    from onnx_form import onnx_model

    ov: Any = import_module("openvino")
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = ov.Core()
    compiled = core.compile_model(core.read_model(onnx_model(module, weights)), "CPU", options)
    request = compiled.create_infer_request()
    tensors = {name: ov.Tensor(value, shared_memory=True) for name, value in inputs.items()}
    for name, tensor in tensors.items():
        request.set_tensor(name, tensor)
    outputs = [request.get_output_tensor(i) for i in range(len(compiled.outputs))]

    def call() -> list[Array]:
        request.infer()
        # The inputs' memory lives as long as the call does.
        return [output.data for output in outputs] if inputs else []

    return call


ENGINES: Mapping[str, Callable[[ModuleOp, Values, Values, int], Call]] = {
    "native": _native,
    "iree": _iree,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}
OURS = ("native", "iree")
PEAK = "peak"
"""The name under which the machine's fastest multiplications and additions are measured, as if by an engine."""

_ROUNDS = 200_000
_SUMS = 12
"""Enough independent sums to keep two units with a latency of five cycles busy, in half of the registers."""


def _peak(threads: int) -> Call:
    """A call does :func:`peak_flops` operations in registers, on every thread."""
    lanes = CPUS[host_cpu()].vector_bytes // 4
    vector = f"vector<{lanes}xf32>"
    names = [f"%s{i}" for i in range(_SUMS)]
    types = ", ".join([vector] * _SUMS)
    products = "\n".join(f"%t{i} = vector.fma %a, %b, %s{i} : {vector}" for i in range(_SUMS))
    adds = "\n".join(f"%u{i} = arith.addf %u{i - 1}, %r#{i} : {vector}" for i in range(1, _SUMS))
    text = f"""
func.func @peak(%m: memref<{3 * lanes}xf32>, %start: index, %stop: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant {lanes} : index
  %two = arith.constant {2 * lanes} : index
  %a = vector.load %m[%c0] : memref<{3 * lanes}xf32>, {vector}
  %b = vector.load %m[%one] : memref<{3 * lanes}xf32>, {vector}
  %z = vector.load %m[%two] : memref<{3 * lanes}xf32>, {vector}
  %r:{_SUMS} = scf.for %i = %start to %stop step %c1 iter_args({", ".join(f"{n} = %z" for n in names)}) -> ({types}) {{
    {products}
    scf.yield {", ".join(f"%t{i}" for i in range(_SUMS))} : {types}
  }}
  %u0 = arith.addf %z, %r#0 : {vector}
  {adds}
  vector.store %u{_SUMS - 1}, %m[%two] : memref<{3 * lanes}xf32>, {vector}
  func.return
}}"""
    function = shared_object(parse_module(text, rlx_context())).peak
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    function.restype = None
    memories = [np.zeros(3 * lanes, np.float32) for _ in range(threads)]
    pool = ThreadPoolExecutor(threads)

    def call() -> list[Array]:
        list(pool.map(lambda memory: function(memory.ctypes.data, 0, _ROUNDS), memories))
        return []

    return call


def peak_flops(threads: int) -> int:
    """Multiplications and additions of one call of the peak's code."""
    return 2 * _ROUNDS * _SUMS * (CPUS[host_cpu()].vector_bytes // 4) * threads


def _prepared(engine: str, name: str, threads: int, *, quick: bool) -> Call:
    return _peak(threads) if engine == PEAK else ENGINES[engine](*graph(name, quick=quick), threads)


def _serve(connection: Connection, engine: str, threads: int, cores: list[int]) -> None:
    if cores:
        os.sched_setaffinity(0, cores)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    call: Call = list
    while True:
        match connection.recv():
            case ("prepare", name, quick):
                # What the workload before held is freed first: language models are large.
                call = list
                try:
                    call = _prepared(engine, name, threads, quick=quick)
                    connection.send([np.array(v) for v in call()])
                except Exception as error:  # every engine has its own, and the table says which
                    connection.send(f"{type(error).__name__}: {error}")
            case ("time", seconds, calls):
                connection.send(_times(call, seconds, calls, time.process_time if threads == 1 else time.perf_counter))
            case _:
                return


def _times(call: Call, seconds: float, calls: int, clock: Callable[[], float]) -> list[float]:
    """What single calls took: ``calls`` of them at least, and until ``seconds`` are over. One more warms up."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < calls or time.perf_counter() < end:
        start = clock()
        call()
        times.append(clock() - start)
    return times


class EngineProcess:
    """One engine, on a number of threads and as many cores. A process that dies is replaced for the next workload."""

    def __init__(self, engine: str, threads: int):
        self.engine, self.threads = engine, threads
        self._start()

    def _start(self) -> None:
        able = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        cores = able[max(len(able) - self.threads, 0) :]
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.engine, self.threads, cores), daemon=True)
        self._process.start()
        other.close()

    def prepare(self, name: str, *, quick: bool) -> None:
        """Start compiling a workload; :meth:`values` waits for it."""
        if not self._process.is_alive():
            self._start()
        self._connection.send(("prepare", name, quick))

    def values(self) -> list[Array] | str:
        """The outputs of what was prepared, or why there are none."""
        try:
            return self._connection.recv()
        except EOFError:
            self._process.join()
            return f"the process ended with status {self._process.exitcode}"

    def times(self, seconds: float, calls: int) -> list[float]:
        """See :func:`_times`. Raises EOFError where the process dies of it."""
        self._connection.send(("time", seconds, calls))
        return self._connection.recv()

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()
