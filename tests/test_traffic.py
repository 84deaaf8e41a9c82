"""What launches move, counted by hand, and what fusion saves of it."""

from __future__ import annotations

import re

import pytest
from gpu_code import EXAMPLES
from helpers import parse
from on_device import lower

from rlx_dialect.graph import GraphError
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.runtime.traffic import Saved, launch_report, main, saved_by_fusion, traffic
from rlx_dialect.xdsl_compat import rlx_context

TWO = """
func.func @main(%x: tensor<4x6xf32>, %w: tensor<6xf32> {rlx.param = "w"}, %u: tensor<9xf32>) -> tensor<2x6xf32> {
  %0 = rlx.binary add %x, %w : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = rlx.narrow %0 {axis = 0, len = 2, start = 1} : tensor<4x6xf32> -> tensor<2x6xf32>
  %2 = rlx.binary mul %1, %1 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  func.return %2 : tensor<2x6xf32>
}"""


def test_bytes_of_each_launch():
    add, mul = (found := traffic(lower(parse(TWO)))).launches
    assert (add.kernel, add.read, add.written) == ("map_add", (96, 24, 0), (0, 0, 96))
    # Only the slice of the sum, and once.
    assert (mul.kernel, mul.read, mul.written) == ("map_mul", (48, 0), (0, 48))
    # The third argument is not used.
    assert found.least == 96 + 24 + 48
    assert found.bytes == 216 + 96
    assert not found.setup


def test_the_report_has_the_same_numbers():
    assert launch_report(lower(parse(TWO))).splitlines()[2:] == [
        "0       map_add  120         96",
        "1       map_mul  48          48",
        "2 launches, 312 bytes, at least 168 bytes",
    ]


def test_returning_an_input_moves_nothing():
    module = parse("""
      func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
        %0 = rlx.activation exp %x : tensor<4x6xf32>
        func.return %x, %x, %0, %0 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
      }""")
    assert launch_report(lower(module)).splitlines()[-1] == "1 launches, 192 bytes, at least 192 bytes"


def test_shared_memory_is_no_traffic():
    (softmax,) = traffic(
        lower(
            parse("""func.func @main(%x: tensor<3x1000xf16>) -> tensor<3x1000xf16> {
  %0 = rlx.softmax %x {axis = 1} : tensor<3x1000xf16>
  func.return %0 : tensor<3x1000xf16>
}""")
        )
    ).launches
    assert (softmax.read, softmax.written) == ((6000, 0), (0, 6000))


def test_unknown_extents_have_no_figures():
    module = lower(
        parse("""
      func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        %0 = rlx.activation exp %x : tensor<?xf32>
        func.return %0 : tensor<?xf32>
      }""")
    )
    with pytest.raises(GraphError, match="for static extents only"):
        traffic(module)


NOTHING_TO_FUSE = {
    ("resnet_block", "metal"),  # these two claim no fused convolution
    ("resnet_block", "wgpu"),
}


@pytest.mark.parametrize("target", ["metal", "wgpu", "cuda", "rocm"])
def test_fused_graphs_launch_and_move_less(target: str):
    for path in EXAMPLES:
        saved: Saved = saved_by_fusion(read_module(path, rlx_context()), target)
        before, after = saved.before, saved.after
        # Fusion may compute small parameters from others when they are loaded.
        assert after.least <= before.least
        assert after.bytes >= after.least
        if (path.stem, target) in NOTHING_TO_FUSE:
            assert (len(after.launches), after.bytes) == (len(before.launches), before.bytes)
        else:
            assert len(after.launches) < len(before.launches)
            assert after.bytes < before.bytes


def test_the_table_of_models(capsys: pytest.CaptureFixture[str]):
    (mlp,) = (path for path in EXAMPLES if path.stem == "mlp")
    main([str(mlp), "--target", "cuda", "--target", "wgpu"])
    heading, _, *rows = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", heading) == ["model", "target", "launches before", "after", "MB before", "after", "least"]
    assert [row.split()[:2] for row in rows] == [["mlp", "cuda"], ["mlp", "wgpu"]]
    for row in rows:
        before, after, megabytes, fused, least = map(float, row.split()[2:])
        assert before > after
        assert megabytes > fused > least
