"""What the README shows is what the tools print."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from rlx_dialect.pipelines.rlx_opt import main as rlx_opt

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def outputs() -> list[tuple[str, str]]:
    """Command lines of rlx-opt and what the README says they print."""
    found: list[tuple[str, str]] = []
    for block in blocks("text"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            # The demo's own commands read and write files that it makes.
            if command.startswith("rlx-opt ") and " -o " not in command:
                found.append((command, output))
    return found


def printed(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(ROOT)
    out = io.StringIO()
    with redirect_stdout(out):
        rlx_opt(shlex.split(command)[1:])
    return out.getvalue()


def test_there_is_output_to_check():
    assert len(outputs()) >= 2


@pytest.mark.parametrize(("command", "output"), outputs())
def test_rlx_opt_prints_it(command: str, output: str, monkeypatch: pytest.MonkeyPatch):
    assert printed(command, monkeypatch).strip() == output.strip()


def test_the_graph_is_the_example():
    (graph,) = blocks("mlir")
    assert graph.strip() in (ROOT / "examples/mlp.mlir").read_text()


def test_the_python_code_prints_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    (code,) = [b for b in blocks("python") if "misses" in b]
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    assert out.getvalue() in blocks("text")
