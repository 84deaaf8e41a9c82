"""Every module of the dialect's FileCheck tests survives both forms of its text."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import assert_round_trip, parse

from rlx_dialect import RLX

DIALECT = Path(__file__).parent / "filecheck" / "dialect"
# xDSL gives a resource another name when the process has seen its name before.
VALID = [p for p in sorted(DIALECT.glob("*.mlir")) if not p.stem.endswith(("_invalid", "_syntax", "_resource"))]


@pytest.mark.parametrize("path", VALID, ids=lambda p: p.stem)
def test_custom_and_generic_form_parse_back(path: Path):
    assert_round_trip(parse(path.read_text()))


def test_every_operation_is_among_them():
    shown = {op.name for path in VALID for op in parse(path.read_text()).walk()}
    assert {op.name for op in RLX.operations} - shown == set()
