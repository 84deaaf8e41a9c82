"""The table of ``docs/support.md``: what the tests of the targets found for each case of each operation.

A test says what it found through the fixture ``support``. When every case of every target was tried, the session
compares the table with the file, or writes it where ``RLX_WRITE_SUPPORT`` is set (``tools/support``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from op_cases import CASES, OpCase

from rlx_dialect import RLX
from rlx_dialect.base import RlxOp
from rlx_dialect.lowering.registry import lowerings_of

FILE = Path(__file__).parent.parent / "docs" / "support.md"
KEY = "support"
"""The name of the user property of a test's report that holds a :class:`Finding`."""


@dataclass(frozen=True)
class Column:
    """One target as the table shows it."""

    title: str
    backend: str
    """Whose registry says what is native."""
    checked: str
    """What a tick means."""


COLUMNS: Mapping[str, Column] = {
    "cpu": Column("cpu", "linalg", "compiled by IREE and run; the values equal the reference's"),
    "native": Column(
        "cpu, native kernels",
        "gpu",
        "compiled by LLVM, for the extents that come where they are unknown, and run; the values equal the reference's",
    ),
    "wgpu": Column("wgpu", "gpu", "run by wgpu on software Vulkan; the values equal the reference's"),
    "metal": Column("metal", "gpu", "Metal source by SPIRV-Cross from SPIR-V that spirv-val accepts"),
    "cuda": Column("cuda", "gpu", "PTX that ptxas assembles for sm_80 and sm_90"),
    "rocm": Column("rocm", "gpu", "an ELF for gfx942 and for gfx1100 without undefined symbols"),
    "mlx": Column("mlx", "mlx", "run by mlx-cpu; the values equal the reference's"),
    "tpu": Column("tpu", "stablehlo", "run by XLA's CPU client; the values equal the reference's"),
}


@dataclass(frozen=True)
class Finding:
    """What one case came to on one target."""

    column: str
    case: str
    refusal: str
    """Why the target does not take it; empty where it was checked."""


class Support:
    """What the fixture gives: ``support("tpu", case)`` after a check, with the reason where the target refuses."""

    def __init__(self, properties: list[tuple[str, object]]):
        self._properties = properties

    def __call__(self, column: str, case: OpCase, refusal: str = "") -> None:
        assert column in COLUMNS, column
        self._properties.append((KEY, (column, case.id, refusal)))


def findings(properties: Iterable[tuple[str, object]]) -> list[Finding]:
    """What the reports of tests say."""
    found: list[Finding] = []
    for name, value in properties:
        if name == KEY:
            assert isinstance(value, Sequence)
            column, case, refusal = value
            found.append(Finding(str(column), str(case), str(refusal)))
    return found


def is_complete(found: Iterable[Finding]) -> bool:
    """Whether every target tried every case."""
    return {(f.column, f.case) for f in found} >= {(column, case.id) for column in COLUMNS for case in CASES}


def document(found: Iterable[Finding]) -> str:
    """The text of ``docs/support.md``."""
    by_cell: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict[str, str])
    op_of = {case.id: case.op for case in CASES}
    for f in found:
        by_cell[op_of[f.case], f.column][f.case] = f.refusal
    classes = {op.name: op for op in RLX.operations if issubclass(op, RlxOp)}
    notes: dict[str, int] = {}
    rows: list[str] = []
    for name in sorted(set(op_of.values())):
        cells = [_cell(classes[name], COLUMNS[c], by_cell[name, c], notes) for c in COLUMNS]
        rows.append(f"| `{name.removeprefix('rlx.')}` | {' | '.join(cells)} |")
    lines = [
        "# Operations and targets",
        "",
        "Written by `tools/support` from what the tests find; CI fails where it is out of date. The operations are",
        f"tried in {len(CASES)} forms: the dtypes, attributes, static and dynamic shapes of their round-trip tests.",
        "",
        "*native*: the target has a form of its own for it; *decomposed*: it runs in simpler operations. A ✓ says:",
        "",
        *(f"- {column.title}: {column.checked}" for column in COLUMNS.values()),
        "",
        "Where a target takes some of the forms, the cell says how many; – is none. The number of a note says why not",
        "the others.",
        "",
        f"| operation | {' | '.join(c.title for c in COLUMNS.values())} |",
        f"|---|{'---|' * len(COLUMNS)}",
        *rows,
    ]
    if notes:
        lines += ["", "## Notes", "", *(f"{number}. {text}" for text, number in notes.items())]
    return "\n".join(lines) + "\n"


def _cell(op: type[RlxOp], column: Column, cases: Mapping[str, str], notes: dict[str, int]) -> str:
    path = "native" if lowerings_of(column.backend).get(op) is not None else "decomposed"
    # In one order, whichever test is done first.
    refused = [cases[case] for case in sorted(cases) if cases[case]]
    numbers = sorted({notes.setdefault(reason, len(notes) + 1) for reason in refused})
    marks = f" ({', '.join(map(str, numbers))})" if numbers else ""
    if len(refused) == len(cases):
        return f"–{marks}"
    share = f" {len(cases) - len(refused)} of {len(cases)}" if refused else ""
    return f"{path} ✓{share}{marks}"
