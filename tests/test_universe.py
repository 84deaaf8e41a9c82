"""RLX inside plain xDSL: the entry point, ``xdsl-opt`` as it is installed, and a flow of one's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, tensor
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.universe import XDSL_UNIVERSE, Universe

from rlx_dialect import RLX
from rlx_dialect.graph import main_function
from rlx_dialect.passes import pass_factories
from rlx_dialect.universe import RLX_UNIVERSE

MLP = """\
func.func @mlp(%x: tensor<4x8xf32> {rlx.input = "x"}, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = rlx.binary add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = rlx.activation gelu %1 : tensor<4x16xf32>
  func.return %2 : tensor<4x16xf32>
}
"""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_plain_xdsl_opt_knows_rlx(tmp_path: Path):
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    command = [str(Path(sys.executable).with_name("xdsl-opt")), str(path)]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "rlx.activation gelu %1" in plain
    command += ["-p", "rlx-fuse-matmul-bias-act"]
    fused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "rlx.fused_matmul_bias_act gelu %x, %w, %b" in fused
    assert "rlx.matmul" not in fused


def test_the_universe_has_everything():
    found = Universe.get_multiverse()
    assert found.all_dialects["rlx"]() is RLX
    assert found.all_passes.keys() >= pass_factories().keys() | {"rlx-lower-to-linalg", "rlx-lower-to-gpu"}
    assert found.all_targets.keys() >= {"rlx-launch-report", "rlx-msl", "rlx-ptx", "rlx-spirv"}
    assert "onnx" in found.all_frontends


def test_names_are_free_in_xdsl():
    """One name that xDSL has too, and every xDSL tool in the environment stops at start."""
    for kind in ("all_dialects", "all_passes", "all_targets", "all_frontends"):
        assert not getattr(RLX_UNIVERSE, kind).keys() & getattr(XDSL_UNIVERSE, kind).keys()


def test_every_factory_gives_what_its_name_says():
    assert {d().name for d in RLX_UNIVERSE.all_dialects.values()} == {"rlx"}
    for table in (RLX_UNIVERSE.all_passes, RLX_UNIVERSE.all_targets, RLX_UNIVERSE.all_frontends):
        assert {name: factory().name for name, factory in table.items()} == {name: name for name in table}


def test_importing_the_universe_imports_no_operation():
    """Every xDSL tool does it at every start."""
    code = "import sys, rlx_dialect.universe; print(*sorted(m for m in sys.modules if m.startswith('rlx_dialect')))"
    assert python(code).split() == [
        "rlx_dialect",
        "rlx_dialect.lowering",
        "rlx_dialect.passes",
        "rlx_dialect.universe",
    ]
    assert python("import sys, rlx_dialect.universe; print('numpy' in sys.modules)") == "False\n"


def test_the_package_has_the_dialect_and_nothing_else_by_accident():
    import rlx_dialect

    assert rlx_dialect.RLX is RLX
    with pytest.raises(AttributeError, match="no attribute 'RLZ'"):
        _ = rlx_dialect.RLZ  # pyright: ignore[reportAttributeAccessIssue]


MIXED = """\
builtin.module {
  func.func @mixed(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
    %zero = arith.constant 0.000000e+00 : f32
    %empty = tensor.empty() : tensor<4x16xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x16xf32>) -> tensor<4x16xf32>
    %0 = rlx.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = rlx.binary add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %2 = arith.addf %init, %1 : tensor<4x16xf32>
    func.return %2 : tensor<4x16xf32>
  }
}
"""


def test_rlx_in_a_flow_of_ones_own(capsys: pytest.CaptureFixture[str]):
    """A context with five dialects; RLX operations between linalg and arith ones in one function; one RLX pass."""
    from rlx_dialect.passes.fuse_matmul_bias_act import FuseMatMulBiasAct

    ctx = Context()
    for dialect in (Builtin, func.Func, arith.Arith, linalg.Linalg, tensor.Tensor, RLX):
        ctx.load_dialect(dialect)
    module = Parser(ctx, MIXED).parse_module()
    module.verify()
    Printer().print_op(module)
    assert capsys.readouterr().out.rstrip("\n") + "\n" == MIXED
    FuseMatMulBiasAct().apply(ctx, module)
    module.verify()
    assert [op.name for op in main_function(module).body.block.ops] == [
        "arith.constant",
        "tensor.empty",
        "linalg.fill",
        "rlx.fused_matmul_bias_act",
        "arith.addf",
        "func.return",
    ]
