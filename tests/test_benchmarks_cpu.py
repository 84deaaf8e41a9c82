"""The CPU benchmark, on tiny graphs: every engine runs and is right, and what is printed is what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rlx_dialect.runtime.toolchain import ToolMissing

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))

import cpu  # noqa: E402
import numpy as np  # noqa: E402

NAMES = list(cpu.WORKLOADS)


def measured(tmp_path: Path, engines: Sequence[str], workloads: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
    """What a quick run prints and what it writes. Raises ToolMissing where a peer is not installed."""
    for package in ("onnx", *(engine for engine in engines if engine in ("onnxruntime", "openvino"))):
        if find_spec(package) is None:
            raise ToolMissing(f"{package} is not installed; it comes with: pip install -e '.[benchmarks]'")
    path = tmp_path / "results.json"
    command = [
        sys.executable,
        str(FOLDER / "cpu.py"),
        "--quick",
        "--threads",
        "1",
        "--rounds",
        "2",
        "--json",
        str(path),
    ]
    command += ["--engines", *engines, "--workloads", *workloads]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout, json.loads(path.read_text())


def check(rows: Sequence[dict[str, Any]], engines: Sequence[str], workloads: Sequence[str]) -> None:
    assert [row["workload"] for row in rows] == list(workloads)
    for row in rows:
        assert list(row["engines"]) == list(engines)
        for entry in row["engines"].values():
            assert entry["problem"] is None
            assert entry["error"] < 1e-5
            assert len(entry["rounds"]) == 2
            assert all(seconds > 0 for seconds in entry["rounds"])


def test_all_engines(tmp_path: Path):
    engines, workloads = ["native", "iree", "onnxruntime", "openvino"], ["llama_decode", "contraction_64"]
    printed, rows = measured(tmp_path, engines, workloads)
    check(rows, engines, workloads)
    peers = [min(row["engines"][e]["rounds"]) for row in rows for e in engines[2:]]
    assert [row["fastest_peer"] for row in rows] == [min(peers[:2]), min(peers[2:])]
    assert rows[0]["peak"] is None
    assert rows[1]["peak"] > 1e9
    assert rows[1]["flops"] == 2 * 64 * 96 * 64
    lines = printed.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("llama", "contraction"))] == [
        *workloads,
        workloads[1],
    ]
    assert f"{rows[0]['fastest_peer'] * 1e3:.3f}" in printed


def test_every_workload_as_onnx(tmp_path: Path):
    _, rows = measured(tmp_path, ["onnxruntime"], NAMES)
    check(rows, ["onnxruntime"], NAMES)


def test_wrong_values_get_no_time():
    right, wrong = np.ones(3, np.float32), np.array([1, 1, 1.5], np.float32)
    assert cpu.compared([right], [right], ["y"]) == cpu.Timed(error=0.0)
    entry = cpu.compared([wrong], [right], ["y"])
    assert entry.error == 0.5
    assert entry.problem is not None
    assert entry.problem.startswith("wrong values: y")


def test_an_engine_that_fails_is_a_row_without_numbers(capsys: pytest.CaptureFixture[str]):
    fast, slow = cpu.Timed(0.0, None, [2.0, 1.0]), cpu.Timed(0.0, None, [3.0, 3.0])
    engines = {"native": slow, "iree": cpu.Timed(problem="no"), "openvino": fast}
    result = cpu.Result("contraction_64", 2, engines, flops=6, peak=4.0)
    assert result.fastest_peer == 1.0
    assert (result.ratio("native"), result.ratio("iree"), result.ratio("openvino")) == (3.0, None, 1.0)
    assert (result.of_peak("native"), result.of_peak("iree")) == (0.5, None)
    text = cpu.tables([result], list(engines))
    assert text.splitlines()[0] == "2 threads"
    assert text.splitlines()[3].split() == ["contraction_64", "1000.000", "3.00", "–", "1.00", "–", "50%"]
    cpu.print_problems(result)
    assert capsys.readouterr().out == "contraction_64, 2 threads, iree: no\n"


def test_without_a_peer_there_is_no_ratio():
    result = cpu.Result("cheap_chain", 1, {"native": cpu.Timed(0.0, None, [1.0])})
    assert result.fastest_peer is None
    assert cpu.tables([result], ["native"]).splitlines()[3].split() == ["cheap_chain", "–", "–", "0.93", "0%"]
