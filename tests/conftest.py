"""A test whose tool is not installed is skipped with the message that says how to get it; in CI it fails.

What the tests of the targets find is held against ``docs/support.md`` (:mod:`support`).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest
from support import FILE, Finding, Support, document, findings, is_complete

from rlx_dialect.runtime.toolchain import ToolMissing


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except ToolMissing as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def support(request: pytest.FixtureRequest) -> Support:
    """Says what a case of an operation came to on a target."""
    return Support(request.node.user_properties)


_FOUND: list[Finding] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _FOUND.extend(findings(report.user_properties))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") or not is_complete(_FOUND):
        return
    text = document(_FOUND)
    if os.environ.get("RLX_WRITE_SUPPORT"):
        FILE.write_text(text)
    elif not FILE.exists() or FILE.read_text() != text:
        print(f"\n{FILE.name} is out of date: run tools/support")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
