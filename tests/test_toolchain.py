import re
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import parse
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp, TensorType, i1

from rlx_dialect.ops.constant import dense_elements
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.toolchain import TOOLS, Tool, ToolFailed, ToolMissing, find, portable_text, run


@pytest.mark.parametrize("name", ["mlir-opt", "mlir-translate", "iree-compile", "iree-opt"])
def test_tools_of_packages_start(name: str):
    assert b"version" in run(name, ["--version"]).lower()


@pytest.mark.parametrize("name", ["spirv-cross", "spirv-val", "spirv-as", "spirv-dis"])
def test_spirv_tools_are_found(name: str):
    assert find(name).is_file()


def test_mlir_opt_reads_stdin():
    assert b"func.func @f" in run("mlir-opt", ["-"], "func.func @f() { return }")


def test_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(toolchain, "TOOLS", {**TOOLS, "no-such-tool": Tool("pip install something")})
    with pytest.raises(ToolMissing, match="no-such-tool is not installed; it comes with: pip install something"):
        run("no-such-tool")


def test_failure_shows_the_error_and_the_command():
    with pytest.raises(ToolFailed, match=r"failed with exit status 1") as caught:
        run("mlir-opt", ["-"], "func.func @f() { no_such.operation }")
    assert "error:" in str(caught.value)
    assert str(caught.value).splitlines()[-1] == f"command: {find('mlir-opt')} -"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> str:
    """A tool that runs the script given as its arguments."""
    monkeypatch.setattr(toolchain, "TOOLS", {**TOOLS, "sh": Tool("")})
    return "sh"


def test_time_limit_stops_children_too(shell: str, tmp_path: Path):
    mark = tmp_path / "mark"
    start = time.monotonic()
    with pytest.raises(ToolFailed, match=r"was stopped after 0\.3 s"):
        run(shell, ["-c", f"(sleep 1; touch {mark}) & sleep 20"], seconds=0.3)
    assert time.monotonic() - start < 10
    time.sleep(1.2)
    assert not mark.exists()


def test_memory_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(toolchain, "TOOLS", {**TOOLS, "python3": Tool("")})
    script = "import sys; sys.stdin.read(); len(bytearray(1 << 28))"
    assert run("python3", ["-c", script]) == b""
    with pytest.raises(ToolFailed, match="MemoryError"):
        run("python3", ["-c", script], memory=1 << 27)


MODULE = """
builtin.module attributes {rlx.weights = "w.safetensors"} {
  func.func @main(%x: tensor<2xf32> {rlx.input = "x"}) -> (tensor<2xf32> {rlx.output = "y"}) {
    %e = "tensor.empty"() {rlx.note} : () -> tensor<2xf32>
    func.return %x : tensor<2xf32>
  }
}
"""


def test_portable_text_is_taken_with_its_rlx_attributes():
    text = portable_text(parse(MODULE))
    for tool in ("mlir-opt", "iree-opt"):
        assert "rlx.note" in run(tool, ["-"], text).decode()


@pytest.mark.parametrize("tool", ["mlir-opt", "iree-opt"])
def test_many_truth_values_survive(tool: str):
    flags = np.random.default_rng(0).random((7, 43)) < 0.5
    module = ModuleOp([ConstantOp(dense_elements(flags, TensorType(i1, flags.shape)))])
    text = run(tool, ["-", "--mlir-print-elementsattrs-with-hex-if-larger=-1"], portable_text(module)).decode()
    assert [word == "true" for word in re.findall("true|false", text)] == flags.ravel().tolist()


def test_portable_text_refuses_rlx_operations():
    module = parse(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n%y = rlx.activation relu %x : tensor<2xf32>\n"
        "func.return %y : tensor<2xf32>\n}"
    )
    with pytest.raises(ValueError, match=r"'rlx\.activation' is left"):
        portable_text(module)
