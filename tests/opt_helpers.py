"""Running ``rlx-opt`` in the test's own process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from rlx_dialect.pipelines import rlx_opt


@dataclass
class Result:
    status: int
    out: str
    err: str


def run_opt(*args: str | Path) -> Result:
    """Exit status, standard output and standard error of the command line."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            rlx_opt.main([str(a) for a in args])
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else 1
    return Result(status, out.getvalue(), err.getvalue())
