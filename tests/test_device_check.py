"""The script for a machine with a GPU, tried on the device that is here."""

from __future__ import annotations

import json
from pathlib import Path

import device_check
import numpy as np
import pytest
from device_check import Checked, check, main, markdown


def test_checks_and_times_on_the_device_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    report = tmp_path / "report"
    with pytest.raises(SystemExit) as exit_:
        main(["--target=wgpu", "--report", str(report), "--cases", "6", "--examples", "mlp"])
    assert exit_.value.code == 0
    found = json.loads(report.with_suffix(".json").read_text())
    mlp, *operations = found["results"]
    assert (found["target"], mlp["name"], mlp["outcome"]) == ("wgpu", "mlp", "ok")
    assert mlp["milliseconds"] > 0
    assert mlp["gigabytes_a_second"] > 0
    assert len(operations) == 6
    assert "| mlp | ok |" in (text := report.with_suffix(".md").read_text())
    assert text in capsys.readouterr().out


def test_wrong_values_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def reference(module: object, values: object) -> list[np.ndarray]:
        return [np.full((64, 10), 7, np.float32)]

    monkeypatch.setattr(device_check, "run_reference", reference)
    with pytest.raises(SystemExit) as exit_:
        main(["--target=wgpu", "--report", str(tmp_path / "r"), "--cases", "0", "--examples", "mlp"])
    assert exit_.value.code == 1
    assert "0 right, 1 wrong or failed, 0 not lowered." in (tmp_path / "r.md").read_text()


def test_time_ends_it():
    (only,) = check("wgpu", device_check.CASES, [], -1)
    assert only == Checked(f"{len(device_check.CASES)} more operations", "failed: no time was left")
    assert "no time was left" in markdown("wgpu", "here", [only])


def test_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch):
    def nothing(name: str):
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", nothing)
    device_check.cuda.open_device.cache_clear()
    with pytest.raises(SystemExit, match="there is no GPU for cuda here: no NVIDIA GPU can be used here: libcuda"):
        main([])
