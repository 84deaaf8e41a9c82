"""The reference interpreter as xDSL interpreter functions: in ``xdsl-run`` style, and mixed with other dialects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import parse
from xdsl.tools.xdsl_run import xDSLRunMain

from rlx_dialect.interpreter import reference_interpreter, rlx_functions, run_reference
from rlx_dialect.xdsl_compat import Interpreter

PROGRAM = """func.func @main() -> tensor<2x3xf32> {
  %c = arith.constant 2 : i32
  %0 = rlx.constant dense<[[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]> : tensor<2x3xf32>
  %1 = func.call @relu(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}
func.func @relu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = rlx.activation relu %x : tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
"""


class RunWithRlx(xDSLRunMain):
    def register_implementations(self, interpreter: Interpreter):
        super().register_implementations(interpreter)
        interpreter.register_implementations(rlx_functions())


def test_xdsl_run_with_our_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM)
    RunWithRlx(args=[str(path), "--verbose"]).run()
    assert capsys.readouterr().out == "result: [[1. 0. 3.]\n [0. 5. 0.]]\n"


def test_one_function_of_several():
    module = parse(PROGRAM.replace("%c = arith.constant 2 : i32", ""))
    (result,) = reference_interpreter(module).call_op("relu", (np.full((2, 3), -1, np.float32),))
    np.testing.assert_array_equal(result, np.zeros((2, 3)))
    np.testing.assert_array_equal(run_reference(module, {})[0], [[1, 0, 3], [0, 5, 0]])


def test_a_missing_value_is_named():
    module = parse(
        """func.func @main(%a: tensor<2xf32> {rlx.input = "left"}, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = rlx.binary add %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}"""
    )
    with pytest.raises(KeyError, match="no value for argument 'arg1' of @main"):
        run_reference(module, {"left": np.zeros(2, np.float32)})
