"""All numeric checks and a benchmark on a real GPU, in one go: ``tools/check-cuda``.

Every example (fused, against the reference interpreter on the graph as it was, and timed) and every operation case that
the target lowers. Writes ``REPORT.json`` and ``REPORT.md``; exit status 1 where a value is wrong or there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from op_cases import CASES, OpCase
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function, output_names
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.pipelines.named import lowering_pipeline, run_pipeline
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.pipelines.targets import TARGETS
from rlx_dialect.runtime import cuda, hip, metal, wgpu
from rlx_dialect.runtime.compare import difference, tolerance
from rlx_dialect.runtime.engine import Engine
from rlx_dialect.runtime.plan_engine import PlanExecutable
from rlx_dialect.runtime.rlx_run import compile_for, random_inputs
from rlx_dialect.runtime.toolchain import ToolError
from rlx_dialect.runtime.traffic import saved_by_fusion
from rlx_dialect.weights import random_weights
from rlx_dialect.xdsl_compat import VerifyException, rlx_context

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.mlir"))
DEVICES: Mapping[str, tuple[str, Callable[[], object], type[Engine]]] = {
    "cuda": ("cuda", cuda.open_device, cuda.CudaEngine),
    "metal": ("metal", metal.open_device, metal.MetalEngine),
    "rocm": ("hip", hip.open_device, hip.HipEngine),
    "wgpu": ("wgpu", wgpu.open_device, wgpu.WgpuEngine),
}
"""The engine of each target: its name, what finds the device, its class."""

RUNS = 20
MOST_SECONDS = 4
"""How often, and about how long at most, the launches of an example are timed."""


@dataclass(frozen=True)
class Checked:
    """One graph on the device."""

    name: str
    outcome: str
    """``ok``, ``wrong: …``, ``failed: …``, or ``not lowered: …``."""
    error: float | None = None
    """The largest absolute error."""
    milliseconds: float | None = None
    """Median of the launches of a call, without copies."""
    gigabytes_a_second: float | None = None
    """What the launches move, by that time."""

    @property
    def fine(self) -> bool:
        return self.outcome == "ok" or self.outcome.startswith("not lowered")


def _compared(name: str, found: Sequence[Array], expected: Sequence[Array], names: Sequence[str]) -> Checked:
    results = [
        difference(n, f, e, tolerance(e.dtype), tolerance(e.dtype))
        for n, f, e in zip(names, found, expected, strict=True)
    ]
    wrong = [str(r) for r in results if not r.within]
    return Checked(name, f"wrong: {'; '.join(wrong)}" if wrong else "ok", max(r.absolute for r in results))


def example(path: Path, target: str) -> Checked:
    """An example, fused: its values, and the time of its launches."""
    module = read_module(path, rlx_context())
    function = main_function(module)
    weights, inputs = random_weights(function), random_inputs(function, 0, 2)
    try:
        executable = compile_for(module, target, DEVICES[target][0], weights)
        found = executable.run(inputs)
    except (ToolError, ValueError) as error:
        return Checked(path.stem, f"failed: {error}")
    checked = _compared(path.stem, found, run_reference(module, {**weights, **inputs}), output_names(function))
    assert isinstance(executable, PlanExecutable)
    times: list[float] = []
    while len(times) < RUNS and sum(times) < MOST_SECONDS:
        start = time.perf_counter()
        executable.launch()
        times.append(time.perf_counter() - start)
    seconds = float(np.median(times))
    rate = saved_by_fusion(module, target).after.bytes / seconds / 1e9
    return Checked(checked.name, checked.outcome, checked.error, seconds * 1e3, rate)


def operation(case: OpCase, target: str) -> Checked:
    """One operation alone."""
    module, values = case.module(), case.values()
    lowered = module.clone()
    try:
        run_pipeline(lowered, lowering_pipeline(TARGETS[target]))
    except (LoweringError, VerifyException) as error:
        return Checked(case.id, f"not lowered: {str(error).splitlines()[-1].strip()}")
    try:
        found = _run(lowered, values, target)
    except (ToolError, ValueError) as error:
        return Checked(case.id, f"failed: {error}")
    both = ([case.specified(r) for r in results] for results in (found, run_reference(module, values)))
    return _compared(case.id, *both, output_names(main_function(module)))


def _run(lowered: ModuleOp, values: Mapping[str, Array], target: str) -> list[Array]:
    inputs = {a.name: values[a.name] for a in arguments(main_function(lowered)) if a.kind == "input"}
    return DEVICES[target][2]().compile(lowered, values).run(inputs)


def check(target: str, cases: Sequence[OpCase], examples: Sequence[Path], seconds: float) -> Iterator[Checked]:
    """Examples first; operations as far as the time reaches."""
    end = time.monotonic() + seconds
    yield from (example(path, target) for path in examples)
    for number, case in enumerate(cases):
        if time.monotonic() > end:
            yield Checked(f"{len(cases) - number} more operations", "failed: no time was left")
            return
        yield operation(case, target)


def markdown(target: str, device: str, results: Sequence[Checked]) -> str:
    """The report: what is timed or not fine as a table, the rest as a count."""
    shown = [r for r in results if not r.fine or r.milliseconds is not None]
    fine = sum(r.outcome == "ok" for r in results)
    missing = sum(r.outcome.startswith("not lowered") for r in results)
    wrong = sum(not r.fine for r in results)
    lines = [
        f"# {target} on {device}",
        "",
        f"{fine} right, {wrong} wrong or failed, {missing} not lowered.",
        "",
        "| graph | outcome | largest error | ms | GB/s |",
        "|---|---|---|---|---|",
        *(
            f"| {r.name} | {' '.join(r.outcome.split())[:200]} | {_cell(r.error)} | {_cell(r.milliseconds)} "
            f"| {_cell(r.gigabytes_a_second)} |"
            for r in shown
        ),
    ]
    return "\n".join(lines) + "\n"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("check-cuda", description=__doc__)
    parser.add_argument("--target", choices=DEVICES, default="cuda")
    parser.add_argument("--report", type=Path, default=Path("check-cuda"), help="where to write .json and .md")
    parser.add_argument("--seconds", type=float, default=240, help="when to start no further operation")
    parser.add_argument("--cases", type=int, help="only so many operation cases")
    parser.add_argument("--examples", nargs="*", help="only these examples")
    options = parser.parse_args(argv)
    try:
        opened = DEVICES[options.target][1]()
    except ToolError as error:
        sys.exit(f"there is no GPU for {options.target} here: {error}")
    examples = [p for p in EXAMPLES if options.examples is None or p.stem in options.examples]
    results = list(check(options.target, CASES[: options.cases], examples, options.seconds))
    device = str(getattr(opened, "name", opened))
    options.report.with_suffix(".json").write_text(
        json.dumps({"target": options.target, "device": device, "results": [asdict(r) for r in results]}, indent=1)
    )
    text = markdown(options.target, device, results)
    options.report.with_suffix(".md").write_text(text)
    print(text)
    sys.exit(0 if all(r.fine for r in results) else 1)


if __name__ == "__main__":
    main()
