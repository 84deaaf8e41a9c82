"""A newcomer's operation is one file and a newcomer's fusion is one file: no list elsewhere is edited.

The two files of tests/extension are put where ``rlx_dialect/ops`` and ``passes`` are looked for, in a process of
their own; the tools then know the operation and the fusion.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXTENSION = Path(__file__).parent / "extension"

PROGRAM = """
import json, sys
import numpy as np
import rlx_dialect.ops, rlx_dialect.passes
rlx_dialect.ops.__path__.append(sys.argv[1] + "/ops")
rlx_dialect.passes.__path__.append(sys.argv[1] + "/passes")

from dataclasses import replace
from rlx_dialect.interpreter import run_reference
from rlx_dialect.pipelines import named, targets
from rlx_dialect.xdsl_compat import parse_module, print_module, rlx_context

text = '''func.func @main(%x: tensor<3x5xf32> {rlx.input = "x"}) -> tensor<3x5xf32> {
  %0 = rlx.activation relu %x : tensor<3x5xf32>
  %1 = rlx.binary mul %0, %0 : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  func.return %1 : tensor<3x5xf32>
}'''
context = rlx_context()
values = {"x": np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)}
module = parse_module(text, context)
before = run_reference(module, values)[0]
pipelines = {name: named.fusion_pipeline(target) for name, target in targets.TARGETS.items()}
from rlx_dialect.ops.square_relu import SquareReluOp
mine = replace(targets.CUDA, claims=targets.CUDA.claims | {SquareReluOp})
named.run_pipeline(module, named.fusion_pipeline(mine), context)
module.verify()
fused = print_module(module)
assert print_module(parse_module(fused, context)) == fused
after = run_reference(module, values)[0]
named.run_pipeline(module, "rlx-lower-to-linalg", context)
module.verify()
print(json.dumps({
    "claimed": named.fusion_pipeline(mine), "pipelines": pipelines, "fused": fused,
    "equal": bool((before == after).all()), "lowered": print_module(module),
}))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("extension")
    for kind, name in (("ops", "square_relu.py"), ("passes", "fuse_square_relu.py")):
        (folder / kind).mkdir()
        (folder / kind / name).write_text((EXTENSION / name).read_text())
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_operation_is_parsed_printed_and_evaluated(outcome: dict[str, object]):
    assert "rlx.square_relu %x : tensor<3x5xf32>" in str(outcome["fused"])
    assert outcome["equal"] is True


def test_the_fusion_joins_the_pipeline_of_a_target_that_claims_its_operation(outcome: dict[str, object]):
    names = [p.partition("{")[0] for p in str(outcome["claimed"]).split(",")]
    assert names.index("rlx-fuse-square-relu") == names.index("rlx-mark-elementwise-regions") - 1
    pipelines = outcome["pipelines"]
    assert isinstance(pipelines, dict)
    assert not [name for name, text in pipelines.items() if "square-relu" in text]


def test_the_operation_lowers_by_its_decomposition(outcome: dict[str, object]):
    assert "linalg.generic" in str(outcome["lowered"])
    assert "rlx." not in str(outcome["lowered"]).replace("rlx.input", "")
