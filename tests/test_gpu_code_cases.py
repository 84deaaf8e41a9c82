"""Kernels for the GPUs that are not here: of all examples, and of every operation in its round-trip forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from gpu_code import CHECKS, is_refused, lowered_cases, lowered_examples, refusal
from op_cases import CASES, OpCase
from support import Support

from rlx_dialect.lowering import LoweringError
from rlx_dialect.runtime.toolchain import ToolError

TOGETHER = 120
"""Cases in one module."""


@pytest.mark.parametrize("target", CHECKS)
def test_compilers_take_all_examples(target: str):
    CHECKS[target](lowered_examples(target))


@pytest.mark.parametrize("start", range(0, len(CASES), TOGETHER))
@pytest.mark.parametrize("target", CHECKS)
def test_compilers_take_every_case(target: str, start: int, support: Support):
    cases = CASES[start : start + TOGETHER]
    taken = [case for case in cases if not is_refused(case, target)]
    if (problem := _problem(taken, target)) is not None:
        pytest.fail("\n".join([problem, *_one_by_one(taken, target)]))
    for case in cases:
        support(target, case, "" if case in taken else refusal(case, target))


def _problem(cases: Sequence[OpCase], target: str) -> str | None:
    """What is wrong with the kernels of ``cases``."""
    try:
        CHECKS[target](lowered_cases(cases, target))
    except (LoweringError, ToolError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _one_by_one(cases: Sequence[OpCase], target: str) -> Iterator[str]:
    """Which of them it is."""
    for case in cases:
        if (problem := _problem([case], target)) is not None:
            yield f"{case.id}: {problem}"


def test_a_failing_case_is_named(monkeypatch: pytest.MonkeyPatch):
    good, bad = CASES[:2]

    def check(cases: list[OpCase]) -> None:
        assert bad not in cases, "no such code"

    monkeypatch.setattr("test_gpu_code_cases.lowered_cases", lambda cases, target: list(cases))
    monkeypatch.setitem(CHECKS, "cuda", check)
    assert _problem([good, bad], "cuda") is not None
    (named,) = _one_by_one([good, bad], "cuda")
    assert named.startswith(f"{bad.id}: AssertionError: no such code")
