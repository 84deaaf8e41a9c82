"""Kernels as WGSL text: what naga writes, and that a device given the text makes the reference's values of it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from helpers import parse
from on_device import lower
from test_spirv import DOUBLE, kernel, module

from rlx_dialect.interpreter import run_reference
from rlx_dialect.runtime import wgsl
from rlx_dialect.runtime.kernels import UnsupportedKernel
from rlx_dialect.runtime.rlx_run import main
from rlx_dialect.runtime.spirv import SpirvKernel, serialize
from rlx_dialect.runtime.targets import WgslTarget
from rlx_dialect.runtime.toolchain import ToolMissing
from rlx_dialect.runtime.wgpu import WgslEngine
from rlx_dialect.xdsl_compat import rlx_context

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_each_kernel_is_a_module_whose_entry_has_its_name():
    # naga would call the second "twice_2_".
    compiled = serialize(
        module(kernel("f32", DOUBLE.format("f32")), kernel("f32", DOUBLE.format("f32"), name="twice_2", size=5))
    )
    for k, text, size in zip(compiled, wgsl.translate(compiled), (8, 5), strict=True):
        entry = text.index(f"@compute @workgroup_size({size}, 1, 1)")
        assert text[entry:].splitlines()[1].startswith(f"fn {k.name}(")
        assert text.count("var<storage, read_write>") == 2
    output = io.StringIO()
    WgslTarget().emit(
        rlx_context(),
        module(kernel("f32", DOUBLE.format("f32")), kernel("f16", DOUBLE.format("f16"), name="h")),
        output,
    )
    assert output.getvalue().startswith("// kernel k\n")
    assert "\n// kernel h\nenable f16;\n" in output.getvalue()


def test_no_kernels_need_no_tool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wgsl, "find_naga", lambda: pytest.fail("naga was looked for"))
    assert wgsl.translate([]) == []


def test_every_kernel_that_has_no_wgsl_is_named():
    good = serialize(module(kernel("f32", DOUBLE.format("f32"))))
    bad = [SpirvKernel(name, b"\x03\x02\x23\x07", frozenset()) for name in ("first", "second")]
    with pytest.raises(UnsupportedKernel, match=r"(?s)kernel 'first': .*kernel 'second': ") as raised:
        wgsl.translate([*good, *bad])
    assert "'k'" not in str(raised.value)


def test_missing_package_says_what_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(ToolMissing, match=r"naga-wasm is not installed; it comes with: npm install --prefix"):
        wgsl.find_naga()
    folder = tmp_path / "node_modules" / "naga-wasm"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert wgsl.find_naga() == folder


@pytest.mark.parametrize("example", ["mlp", "llama_block", "resnet_block"])
def test_the_device_takes_the_text_and_gives_the_reference_values(example: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        main([str(EXAMPLES / f"{example}.mlir"), "--target=wgpu", "--engine=wgsl", "--check"])
    assert ": ok" in capsys.readouterr().out


def test_extremes_keep_nan_in_text_that_may_assume_there_is_none():
    graph = parse("""func.func @main(%a: tensor<6xf32> {rlx.input = "a"}, %b: tensor<6xf32> {rlx.input = "b"})
        -> (tensor<6xf32>, tensor<6xf32>) {
      %max = rlx.binary max %a, %b : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %min = rlx.binary min %a, %b : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      func.return %max, %min : tensor<6xf32>, tensor<6xf32>
    }""")
    values = {
        "a": np.array([np.nan, 1, np.nan, np.inf, -np.inf, 2], np.float32),
        "b": np.array([1, np.nan, np.nan, 3, 3, -2], np.float32),
    }
    for found, expected in zip(
        WgslEngine().compile(lower(graph), {}).run(values), run_reference(graph, values), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
