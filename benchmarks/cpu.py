"""Time our CPU engines beside onnxruntime and OpenVINO, on the same graphs with the same values.

    python benchmarks/cpu.py [--threads 1 2] [--workloads bert_layer …] [--engines native iree …] [--rounds N] [--quick]

Needs ``pip install 'rlx-dialect[benchmarks]'``. Each engine runs in a process of its own that keeps to as many cores
as it has threads. First every engine's values are compared with the reference interpreter's; one whose values are
wrong gets no time. Then the engines take turns, so that what else the machine does hits all of them: in a round each
one makes a few calls. A time is the least of all rounds: of CPU time on one thread, which other people's processes do
not stretch, else of wall time. "ratio" is that to the fastest engine that is not ours,
"noise" by how much a middling round is slower than the best, for the noisiest engine.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from cpu_engines import ENGINES, OURS, PEAK, EngineProcess, Values, graph, peak_flops
from workloads import WORKLOADS, Workload
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import main_function, output_names
from rlx_dialect.interpreter import run_reference
from rlx_dialect.pipelines.tables import table
from rlx_dialect.runtime.compare import difference, tolerance

TURN_SECONDS = 0.2
TURN_CALLS = 3


@dataclass
class Timed:
    """What one engine did with a workload."""

    error: float | None = None
    """The largest difference from the reference, relative to the largest expected magnitude."""
    problem: str | None = None
    """Why there are no times."""
    rounds: list[float] = field(default_factory=list[float])
    """The least seconds of a call in each round."""

    @property
    def seconds(self) -> float | None:
        return min(self.rounds, default=None)

    @property
    def noise(self) -> float:
        return median(self.rounds) / min(self.rounds) - 1 if self.rounds else 0.0


@dataclass
class Result:
    """A workload on a number of threads."""

    workload: str
    threads: int
    engines: dict[str, Timed]
    flops: int = 0
    """Multiplications and additions of a workload that is one product."""
    peak: float | None = None
    """Those that the machine can do in a second."""

    @property
    def fastest_peer(self) -> float | None:
        return min((s for n, t in self.engines.items() if n not in OURS and (s := t.seconds)), default=None)

    def ratio(self, engine: str) -> float | None:
        """Seconds of an engine in those of the fastest peer."""
        seconds, peer = self.engines[engine].seconds, self.fastest_peer
        return None if seconds is None or peer is None else seconds / peer

    def of_peak(self, engine: str) -> float | None:
        """How much of the peak an engine reaches; what follows the product counts as time only."""
        seconds = self.engines[engine].seconds
        return None if self.peak is None or seconds is None else self.flops / seconds / self.peak


def compared(outputs: Sequence[Array], expected: Sequence[Array], names: Sequence[str]) -> Timed:
    """An entry with the largest error, and with a problem where a value is beyond tolerance."""
    result = Timed(error=0.0)
    for name, found, wanted in zip(names, outputs, expected, strict=True):
        allowed = tolerance(wanted.dtype)
        found_difference = difference(name, found, wanted, allowed, allowed)
        result.error = max(result.error or 0.0, found_difference.absolute / float(abs(wanted).max(initial=1e-30)))
        if not found_difference.within:
            result.problem = f"wrong values: {found_difference}"
    return result


def expected_values(module: ModuleOp, weights: Values, inputs: Values) -> list[Array]:
    return run_reference(module, {**weights, **inputs})


def measure(
    workload: Workload, threads: int, processes: Sequence[EngineProcess], rounds: int, *, quick: bool
) -> Result:
    """Prepare a workload everywhere, check the values, then take turns."""
    for process in processes:
        process.prepare(workload.name, quick=quick)
    module, weights, inputs = graph(workload.name, quick=quick)
    expected, names = expected_values(module, weights, inputs), output_names(main_function(module))
    entries: dict[str, Timed] = {}
    able: list[EngineProcess] = []
    for process in processes:
        outputs = process.values()
        if isinstance(outputs, str):
            entry = Timed(problem=outputs)
        else:
            entry = Timed() if process.engine == PEAK else compared(outputs, expected, names)
        entries[process.engine] = entry
        if entry.problem is None:
            able.append(process)
    seconds, calls = (0.0, 1) if quick else (TURN_SECONDS, TURN_CALLS)
    for number in range(rounds):
        # Nobody is always the one that runs after the same other one.
        start = number % max(len(able), 1)
        for process in able[start:] + able[:start]:
            entries[process.engine].rounds.append(min(process.times(seconds, calls)))
    peak = entries.pop(PEAK, Timed()).seconds
    speed = None if peak is None else peak_flops(threads) / peak
    return Result(workload.name, threads, entries, workload.flops(quick=quick), speed)


def run(
    names: Sequence[str], engines: Sequence[str], threads: Sequence[int], rounds: int, *, quick: bool
) -> list[Result]:
    results: list[Result] = []
    for count in threads:
        processes = [EngineProcess(engine, count) for engine in engines]
        peak = [EngineProcess(PEAK, count)] if any(WORKLOADS[n].is_product for n in names) else []
        for name in names:
            workload = WORKLOADS[name]
            taking_part = [*processes, *(peak if workload.is_product else [])]
            results.append(measure(workload, count, taking_part, rounds, quick=quick))
            print_problems(results[-1])
        for process in [*processes, *peak]:
            process.close()
    return results


def print_problems(result: Result) -> None:
    for engine, entry in result.engines.items():
        if entry.problem is not None:
            print(f"{result.workload}, {result.threads} threads, {engine}: {entry.problem}", flush=True)


def show(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def tables(results: Sequence[Result], engines: Sequence[str]) -> str:
    """A table for each number of threads."""
    parts: list[str] = []
    for count in dict.fromkeys(result.threads for result in results):
        mine = [r for r in results if r.threads == count]
        head = ["workload", "fastest peer, ms", *(f"{e}, ratio" for e in engines), "hand-off", "noise"]
        peaks = [r for r in mine if r.peak is not None]
        rows = [
            [
                r.workload,
                show(None if (peer := r.fastest_peer) is None else peer * 1e3, ".3f"),
                *(show(r.ratio(e), ".2f") for e in engines),
                show(WORKLOADS[r.workload].hand_off if count == 1 else None, ".2f"),
                format(max(t.noise for t in r.engines.values()), ".0%"),
            ]
            for r in mine
        ]
        parts.append(f"{count} thread{'s' if count > 1 else ''}\n" + table([head, *rows]))
        if peaks:
            head = ["part of the peak", "peak, GFLOP/s", *engines]
            rows = [
                [r.workload, show((r.peak or 0) / 1e9, ".0f"), *(show(r.of_peak(e), ".0%") for e in engines)]
                for r in peaks
            ]
            parts.append(table([head, *rows]))
    return "\n\n".join(parts)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    p.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="NAME")
    p.add_argument("--rounds", type=int, default=12)
    p.add_argument("--quick", action="store_true", help="tiny sizes and one call a round: does it run, is it right?")
    p.add_argument("--json", type=Path, metavar="FILE", help="also write everything that was measured")
    return p


def load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 1 when an engine failed or was wrong."""
    options = parser().parse_args(argv)
    before = load()
    results = run(options.workloads, options.engines, options.threads, options.rounds, quick=options.quick)
    print(tables(results, options.engines))
    print(f"load averages: {before} before, {load()} after, the measured engine included")
    if options.json is not None:
        rows = [asdict(r) | {"fastest_peer": r.fastest_peer} for r in results]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(t.problem for r in results for t in r.engines.values()))


if __name__ == "__main__":
    raise SystemExit(main())
