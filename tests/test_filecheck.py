"""Every ``// RUN:`` line under tests/filecheck, run in this process.

``lit tests/filecheck`` runs the same lines as sub-processes; in-process is 20 times faster. A RUN line is
``TOOL ARGS %s | filecheck %s ARGS`` (or without the filecheck part: it must then just succeed); a leading
``not`` wants exit status 1. Standard error goes to FileCheck too where the line says ``2>&1``.
"""

from __future__ import annotations

import io
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser as CheckParser

FILES = Path(__file__).parent / "filecheck"


def run_lines(path: Path) -> list[str]:
    lines: list[str] = []
    joined = ""
    for line in path.read_text().splitlines():
        if line.startswith("// RUN:"):
            joined += line.removeprefix("// RUN:").strip()
            if joined.endswith("\\"):
                joined = joined[:-1]
            else:
                lines.append(joined)
                joined = ""
    return lines


def cases() -> list[tuple[Path, int]]:
    files = sorted(FILES.rglob("*.mlir"))
    return [(path, index) for path in files for index in range(len(run_lines(path)))]


def run_tool(words: list[str], with_stderr: bool) -> tuple[int, str]:
    """Exit status and output of one of the project's command lines."""
    from rlx_dialect.pipelines.rlx_opt import main as rlx_opt

    tools = {"rlx-opt": rlx_opt}
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with redirect_stdout(out), redirect_stderr(out if with_stderr else err):
        try:
            tools[words[0]](words[1:])
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else 1
    return status, out.getvalue() if not status or with_stderr else out.getvalue() + err.getvalue()


@pytest.mark.parametrize(
    ("path", "index"), cases(), ids=lambda v: str(v.relative_to(FILES)) if isinstance(v, Path) else str(v)
)
def test_filecheck(path: Path, index: int):
    line = run_lines(path)[index].replace("%s", str(path))
    command, _, check = line.partition("| filecheck")
    words = shlex.split(command)
    with_stderr = "2>&1" in words
    words = [w for w in words if w != "2>&1"]
    fails = words[0] == "not"
    status, output = run_tool(words[1:] if fails else words, with_stderr)
    assert (status != 0) == fails, f"exit status {status}\n{output}"
    if not check:
        return
    options = parse_argv_options(["filecheck", *shlex.split(check)])
    report = io.StringIO()
    with redirect_stdout(report), redirect_stderr(report):
        status = Matcher(options, FInput("-", output), CheckParser.from_opts(options)).run()
    assert status == 0, f"{report.getvalue()}\n--- output ---\n{output}"


def test_every_file_has_a_run_line():
    assert [p for p in FILES.rglob("*.mlir") if not run_lines(p)] == []
