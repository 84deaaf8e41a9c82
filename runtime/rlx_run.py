"""``rlx-run``: compile a graph for a target, run it, check it against the reference interpreter, time it."""

from __future__ import annotations

import argparse
import os
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from rlx_dialect.dtypes import Array, is_bool, is_float, round_to
from rlx_dialect.fold_parameters import fold_parameters
from rlx_dialect.graph import GraphError, arguments, check_calls, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.operation import foreign
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.pipelines.diagnostics import OptError
from rlx_dialect.pipelines.environment import Environment
from rlx_dialect.pipelines.named import FUSE_SUFFIX, fusion_pipeline, lowering_pipeline, run_named, run_pipeline
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.source import read_module, verify_module
from rlx_dialect.pipelines.targets import NATIVE, TARGETS, Target
from rlx_dialect.progress import step
from rlx_dialect.runtime import metal
from rlx_dialect.runtime.compare import difference, element_tolerance
from rlx_dialect.runtime.engine import BindingError, Engine, Executable, Signature, Slot, bind
from rlx_dialect.runtime.toolchain import ToolError
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.weights import find_weights, random_weights
from rlx_dialect.xdsl_compat import InterpretationError, rlx_context

ENGINES: Mapping[str, tuple[str, str, frozenset[str]]] = {
    "iree": ("rlx_dialect.runtime.iree", "IreeEngine", frozenset({"cpu"})),
    "native": ("rlx_dialect.runtime.native", "NativeEngine", frozenset({"cpu"})),
    "xla": ("rlx_dialect.runtime.xla", "XlaEngine", frozenset({"tpu"})),
    "wgpu": ("rlx_dialect.runtime.wgpu", "WgpuEngine", frozenset({"wgpu", "metal"})),
    "wgsl": ("rlx_dialect.runtime.wgpu", "WgslEngine", frozenset({"wgpu"})),
    "mlx": ("rlx_dialect.runtime.mlx", "MlxEngine", frozenset({"mlx"})),
    "metal": ("rlx_dialect.runtime.metal", "MetalEngine", frozenset({"metal"})),
    "cuda": ("rlx_dialect.runtime.cuda", "CudaEngine", frozenset({"cuda"})),
    "hip": ("rlx_dialect.runtime.hip", "HipEngine", frozenset({"rocm"})),
}
"""Engine classes by name, imported when chosen (each needs packages of its own), and whose lowered form each takes."""

ENGINE_TARGETS: Mapping[str, Target] = {"native": NATIVE}
"""The targets of engines that take something else than what is made for the target of that name."""

TARGET_ENGINES: Mapping[str, str] = {
    "cpu": "iree",
    "wgpu": "wgpu",
    "metal": "metal",
    "mlx": "mlx",
    "cuda": "cuda",
    "rocm": "hip",
    "tpu": "xla",
}
"""The engine of each target that has one; see :func:`default_engine`."""

REFERENCE = "reference"


class UsageError(ValueError):
    """Something about the command line or the files it names."""


class Reference:
    """The reference interpreter in the place of an engine: it runs the fused graph, before lowering."""

    def __init__(self, module: ModuleOp, weights: Mapping[str, Array]):
        if others := foreign(module, ("builtin", "func", "rlx")):
            raise UsageError("\n  ".join(["the reference interpreter runs operations of RLX only, not", *others]))
        self.module = module
        self.weights = {a.name: weights[a.name] for a in arguments(main_function(module)) if a.kind == "param"}

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        bind("input", Signature.of(main_function(self.module)).inputs, inputs)  # for its checks
        return run_reference(self.module, {**self.weights, **inputs})


def compile_for(
    module: ModuleOp, target: str, engine: str, weights: Mapping[str, Array], using: Engine | None = None
) -> Executable:
    """Fuse (and for a real engine lower) a clone of ``module`` by the target's pipeline and compile it.

    What is computed from weights alone is computed here, between fusion and lowering. ``using`` is the engine itself,
    where it is not to be one with default settings.
    """
    check_calls(module)
    clone = module.clone()
    with step(f"fuse for {target}"):
        if (own := ENGINE_TARGETS.get(engine)) is None:
            run_named(clone, f"{target}{FUSE_SUFFIX}")
        else:
            run_pipeline(clone, fusion_pipeline(own, FusionOptions.resolve(own, Environment.current())))
        verify_module(clone, f"after {target}{FUSE_SUFFIX}")
    with step("compute with the weights"):
        weights = fold_parameters(clone, weights)
    if engine == REFERENCE:
        return Reference(clone, weights)
    with step(f"lower for {target}"):
        run_pipeline(clone, lowering_pipeline(TARGETS[target]) if own is None else own.lowering)
        verify_module(clone, f"after {target}")
    module_name, class_name, _ = ENGINES[engine]
    chosen = cast("type[Engine]", getattr(import_module(module_name), class_name))
    with step(f"compile with {engine}"):
        return (using or chosen()).compile(clone, weights)


def default_engine(target: str) -> str | None:
    """The engine of a target, None where there is none; says so where another stands in for it."""
    engine = TARGET_ENGINES.get(target)
    if engine == "metal" and not metal.installed():
        print(
            "note: Metal is not here: engine 'wgpu' runs the SPIR-V that the Metal kernels are made from",
            file=sys.stderr,
        )
        return "wgpu"
    return engine


def random_inputs(function: FuncOp, seed: int, dynamic: int) -> dict[str, Array]:
    """A value for each input: standard normal floats, truth values, and integers below 10 or what they index."""
    rng = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for argument in arguments(function):
        if argument.kind == "param":
            continue
        type = argument.value.type
        if not isinstance(type, TensorType):
            raise GraphError(f"input '{argument.name}' must be a tensor, got {type}")
        shape = tuple(dynamic if d == DYNAMIC else d for d in type.get_shape())
        if is_bool(type.element_type):
            value: Array = rng.random(shape) < 0.5
        elif is_float(type.element_type):
            value = rng.standard_normal(shape)
        else:
            value = rng.integers(0, _index_bound(argument.value), shape)
        values[argument.name] = round_to(value, type.element_type)
    return values


def _index_bound(value: BlockArgument) -> int:
    """The smallest extent that ``value`` is gathered from; 10 where it indexes nothing of known extent."""
    gathers = [use.operation for use in value.uses if isinstance(use.operation, GatherOp) and use.index == 1]
    extents = [g.shape(0)[g.axis.value.data] for g in gathers]
    return min((e for e in extents if e != DYNAMIC), default=10)


def load_inputs(path: Path, slots: Sequence[Slot]) -> dict[str, Array]:
    """Inputs from an ``.npz`` file by name; what is missing, unknown or does not fit is an error."""
    try:
        stored = np.load(path)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array")
        with stored:
            values = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: an .npz file of inputs expected: {error}") from error
    try:
        bind("input", slots, values)
    except BindingError as error:
        raise UsageError(f"{path}: {error}") from error
    return values


def save_outputs(path: Path, values: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file. ``np.savez`` takes names as keywords, and some outputs are called ``file``."""
    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, value in values.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asarray(value), allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def check(
    found: Sequence[Array], expected: Sequence[Array], slots: Sequence[Slot], atol: float | None, rtol: float | None
) -> bool:
    """Print the largest errors of each output against the reference; whether all are within tolerance."""
    fine = True
    for slot, f, e in zip(slots, found, expected, strict=True):
        default = element_tolerance(slot.element)
        result = difference(slot.name, f, e, default if atol is None else atol, default if rtol is None else rtol)
        print(result)
        fine = fine and result.within
    return fine


def bench(executable: Executable, inputs: Mapping[str, Array], runs: int) -> None:
    """Print the median and least time of ``runs`` calls after a warm-up, copies in and out included."""
    executable.run(inputs)
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        executable.run(inputs)
        times.append(time.perf_counter() - start)
    print(f"{runs} runs: median {np.median(times) * 1e3:.3f} ms, least {min(times) * 1e3:.3f} ms")


def number_from(least: int) -> Callable[[str], int]:
    """A converter of arguments to integers that are at least ``least``."""

    def convert(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return convert


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("rlx-run", description=__doc__)
    p.add_argument("model", type=Path, help="an .mlir file of rlx operations; its .safetensors file is found beside it")
    p.add_argument("--target", choices=sorted(TARGETS), default="cpu", help="whose pipeline fuses and lowers the graph")
    p.add_argument("--engine", choices=[REFERENCE, *ENGINES], help="what runs it (default: the target's own)")
    p.add_argument(
        "--threads", type=number_from(1), help="threads of engine native (default: OMP_NUM_THREADS, else all cores)"
    )
    p.add_argument("--inputs", type=Path, help=".npz file of inputs by name (default: random ones)")
    p.add_argument("--outputs", type=Path, help=".npz file to write the outputs to, by name")
    p.add_argument(
        "--seed", type=number_from(0), default=0, help="seed of random inputs and of weights that have no file"
    )
    p.add_argument(
        "--dynamic", type=number_from(0), default=2, metavar="N", help="extent of dynamic dimensions of random inputs"
    )
    p.add_argument(
        "--check", action="store_true", help="compare with the reference interpreter; exit 1 beyond tolerance"
    )
    p.add_argument("--atol", type=float, help="absolute tolerance of --check (default: by dtype, 1e-4 for f32)")
    p.add_argument("--rtol", type=float, help="relative tolerance of --check (default: the same)")
    p.add_argument(
        "--bench", type=number_from(1), nargs="?", const=20, metavar="RUNS", help="time RUNS calls (default 20)"
    )
    return p


def run(arguments_: argparse.Namespace) -> int:
    """Exit status: 0, or 1 when ``--check`` found an output beyond tolerance."""
    if arguments_.threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(arguments_.threads)
    path: Path = arguments_.model
    with step(f"read {path}"):
        module = read_module(path, rlx_context())
    function = main_function(module)
    signature = Signature.of(function)
    weights = find_weights(module, path)
    if weights is None:
        weights = random_weights(function, arguments_.seed)
        if weights:
            print(f"{path}: no side file of weights: random ones from seed {arguments_.seed}", file=sys.stderr)
    engine = arguments_.engine or default_engine(arguments_.target)
    if engine is None:
        able = ", ".join(sorted(TARGET_ENGINES))
        raise UsageError(f"no engine runs target '{arguments_.target}' (targets with one: {able})")
    if engine != REFERENCE and arguments_.target not in ENGINES[engine][2]:
        takes = ", ".join(sorted(ENGINES[engine][2]))
        raise UsageError(
            f"engine '{engine}' does not take what target '{arguments_.target}' lowers to (it takes: {takes})"
        )
    if arguments_.inputs is not None:
        inputs = load_inputs(arguments_.inputs, signature.inputs)
    else:
        inputs = random_inputs(function, arguments_.seed, arguments_.dynamic)
    executable = compile_for(module, arguments_.target, engine, weights)
    with step("run"):
        outputs = executable.run(inputs)
    names = [slot.name for slot in signature.outputs]
    if arguments_.outputs is not None:
        save_outputs(arguments_.outputs, dict(zip(names, outputs, strict=True)))
    for name, value in zip(names, outputs, strict=True):
        print(f"{name}: {value.dtype} {'x'.join(map(str, value.shape)) or 'scalar'}")
    if arguments_.bench is not None:
        bench(executable, inputs, arguments_.bench)
    if not arguments_.check:
        return 0
    with step("run the reference interpreter"):
        expected = Reference(module, weights).run(inputs)
    return 0 if check(outputs, expected, signature.outputs, arguments_.atol, arguments_.rtol) else 1


def main(argv: Sequence[str] | None = None) -> None:
    options = parser().parse_args(argv)
    try:
        sys.exit(run(options))
    except (OptError, ToolError, InterpretationError, ValueError) as error:
        sys.exit(f"rlx-run: {error}")
