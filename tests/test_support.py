from op_cases import CASES
from support import COLUMNS, Finding, Support, document, findings, is_complete


def everything(refusal: str = "") -> list[Finding]:
    return [Finding(column, case.id, refusal) for column in COLUMNS for case in CASES]


def test_findings_travel_in_the_properties_of_reports():
    properties: list[tuple[str, object]] = [("other", 1)]
    support = Support(properties)
    support("wgpu", CASES[0])
    support("tpu", CASES[1], "no f64")
    assert findings(properties) == [Finding("wgpu", CASES[0].id, ""), Finding("tpu", CASES[1].id, "no f64")]


def test_complete_is_every_case_on_every_target():
    assert is_complete(everything())
    assert not is_complete(everything()[:-1])


def test_document_says_native_decomposed_shares_and_reasons():
    gathers = [c for c in CASES if c.op == "rlx.gather"]
    assert len(gathers) > 1
    refused = Finding("wgpu", gathers[0].id, "no buffers of i8")
    text = document([*(f for f in everything() if (f.column, f.case) != (refused.column, refused.case)), refused])
    row = next(line for line in text.splitlines() if line.startswith("| `gather` |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    by_column = dict(zip(COLUMNS, cells[1:], strict=True))
    assert by_column["wgpu"] == f"native ✓ {len(gathers) - 1} of {len(gathers)} (1)"
    assert by_column["cuda"] == "native ✓"
    assert next(line for line in text.splitlines() if line.startswith("1. ")) == "1. no buffers of i8"
    assert "| `rope` | decomposed ✓" in text


def test_a_target_that_takes_no_form_has_a_dash():
    text = document([Finding(f.column, f.case, "not at all") for f in everything()])
    assert "✓ " not in text.partition("|---|")[2]


def test_the_order_in_which_tests_end_makes_no_difference():
    found = [Finding(f.column, f.case, f"reason {number % 7}") for number, f in enumerate(everything())]
    assert document(found) == document(found[::-1])
