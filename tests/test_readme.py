"""What the README shows is what the tools print."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from opt_helpers import run_opt

from rlx_dialect.pipelines.compare import fusions
from rlx_dialect.pipelines.selection import ROWS

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
            if command.startswith("rlx-opt ") and " out/" not in command:
                found.append((command, output))
    return found


def printed(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(ROOT)
    result = run_opt(*shlex.split(command)[1:])
    return result.out + result.err


def test_there_is_output_to_check():
    assert len(outputs()) >= 5


@pytest.mark.parametrize(("command", "output"), outputs())
def test_rlx_opt_prints_it(command: str, output: str, monkeypatch: pytest.MonkeyPatch):
    assert printed(command, monkeypatch).strip() == output.strip()


def test_the_fusions_are_those_that_there_are():
    """Those of the built-in pipelines: a newcomer's is in ``--list-fusions`` without being listed here."""
    rows = re.findall(r"^\| `(rlx-[\w-]+)` \| .*? \| ([\w-]+)", README, re.MULTILINE)
    built_in = {row.pass_name for row in ROWS}
    assert rows == [(found.name, str(found.numerics)) for found in fusions() if found.name in built_in]


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
