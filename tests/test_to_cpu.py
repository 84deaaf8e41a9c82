"""What ``rlx-lower-to-cpu`` writes, what it refuses, and how compiled kernels are kept and called."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from helpers import graph
from on_cpu import lower, run
from xdsl.dialects import gpu
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.fold_parameters import fold_parameters
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_cpu import LowerToCpu
from rlx_dialect.lowering.to_cpu.cpus import CPUS, Cpu
from rlx_dialect.lowering.to_cpu.registers import choose_register_tile
from rlx_dialect.pipelines.named import fusion_pipeline, run_pipeline
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.pipelines.targets import NATIVE
from rlx_dialect.runtime import native, objects
from rlx_dialect.runtime.launch_plan import launch_plan
from rlx_dialect.runtime.native import NativeEngine, thread_count
from rlx_dialect.runtime.rlx_run import main
from rlx_dialect.runtime.toolchain import ToolError
from rlx_dialect.samples import random_values
from rlx_dialect.weights import random_weights
from rlx_dialect.xdsl_compat import rlx_context

X = "tensor<6x8xf32>"
EXAMPLE = Path(__file__).parent.parent / "examples" / "mlp.mlir"


def two_products(weight: str, rows: int = 6) -> ModuleOp:
    """Two products with one weight, an argument with the attributes ``weight``."""
    x, w, y = f"tensor<{rows}x9xf32>", "tensor<9x8xf32>", f"tensor<{rows}x8xf32>"
    return graph(
        f"""%0 = rlx.matmul %x, %w : ({x}, {w}) -> {y}
        %1 = rlx.matmul %z, %w : ({x}, {w}) -> {y}""",
        f'%x: {x} {{rlx.input = "x"}}, %z: {x} {{rlx.input = "z"}}, %w: {w} {{{weight}}}',
        f"{y}, {y}",
        "%0, %1",
    )


def doubled(element: str = "f32", size: int = 8) -> ModuleOp:
    type = f"tensor<{size}x{element}>"
    return graph(
        f"%0 = rlx.binary add %x, %x : ({type}, {type}) -> {type}", f'%x: {type} {{rlx.input = "x"}}', type, "%0"
    )


def test_a_parameter_is_packed_once_when_it_is_loaded():
    plan = launch_plan(lower(two_products('rlx.param = "w"')))
    assert [launch.kernel for launch in plan.setup] == ["pack"]
    assert len(plan.launches) == 2
    panels = plan.setup[0].buffers[-1]
    assert all(panels in launch.buffers for launch in plan.launches)


@pytest.mark.parametrize(("rows", "kernels"), [(6, ["matmul"] * 2), (300, ["pack", "matmul", "matmul"])])
def test_an_input_is_packed_at_each_call(rows: int, kernels: list[str]):
    # By the groups that read it, unless several read one panel.
    plan = launch_plan(lower(two_products('rlx.input = "w"', rows)))
    assert not plan.setup
    assert [launch.kernel for launch in plan.launches] == kernels


def test_problems_are_one_error_that_names_the_operations():
    type = "tensor<4xcomplex<f32>>"
    module = graph(f"%0 = rlx.activation neg %y : {X}", f"%x: {type}, %y: {X}", X, "%0")
    with pytest.raises(LoweringError, match=r"not yet lowered to native CPU kernels:\n  argument %x of @main: cpu has"):
        lower(module)


def test_unknown_cpus_are_refused():
    with pytest.raises(ValueError, match="unknown cpu 'z80'; known: avx512, avx2, neon"):
        LowerToCpu("z80")


@pytest.mark.parametrize("cpu", CPUS.values(), ids=list(CPUS))
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4096), (5, 10), (64, 512), (128, 64), (1000, 1000)])
@pytest.mark.parametrize("factors", [1, 2])
def test_tiles_fit_the_registers(cpu: Cpu, rows: int, columns: int, factors: int):
    lanes = cpu.vector_bytes // 4
    tile = choose_register_tile(cpu, lanes, rows, columns, factors)
    assert (tile.rows + 1) * tile.vectors * factors < cpu.registers
    assert 1 <= tile.rows <= rows
    assert (tile.vectors - 1) * lanes < columns


def test_threads_make_no_difference():
    type = "tensor<64x3000xf32>"
    module = graph(
        f"""%0 = rlx.softmax %x {{axis = 1}} : {type}
        %1 = rlx.matmul %0, %w : ({type}, tensor<3000x100xf32>) -> tensor<64x100xf32>
        %2 = rlx.activation gelu %x : {type}""",
        f"%x: {type}, %w: tensor<3000x100xf32>",
        f"tensor<64x100xf32>, {type}",
        "%1, %2",
    )
    values = random_values(module, 0)
    alone, shared = run(module, values, threads=1), run(module, values, threads=3)
    for one, three in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, three)
    plan = launch_plan(lower(module))
    assert max(launch.groups[0] for launch in plan.launches) > 3


def test_thread_count_is_openmps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert thread_count() >= 1


def test_outputs_are_the_callers():
    module = graph(f"%0 = rlx.activation neg %x : {X}", f'%x: {X} {{rlx.input = "x"}}', f"{X}, {X}, {X}", "%0, %0, %x")
    executable = NativeEngine(1).compile(lower(module), {})
    x = np.ones((6, 8), np.float32)
    first = executable.run({"x": x})
    first[0][:] = 7
    first[2][:] = 8
    second = executable.run({"x": x})
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(first[1], -1)
    np.testing.assert_array_equal(first[0], 7)
    np.testing.assert_array_equal(second, [-x, -x, x])


def test_a_module_that_was_not_lowered_for_cpus_is_an_error():
    module = lower(doubled())
    (kernels,) = (op for op in module.ops if isinstance(op, ModuleOp))
    kernels.detach()
    assert any(isinstance(op, gpu.LaunchFuncOp) for op in module.walk())
    with pytest.raises(ToolError, match="no native kernels"):
        NativeEngine(1).compile(module, {})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "rlx" / "native"


def test_objects_are_found_again(cache: Path, monkeypatch: pytest.MonkeyPatch):
    module, values = doubled(), {"x": np.arange(8, dtype=np.float32)}
    expected = run_reference(module, values)
    np.testing.assert_array_equal(run(module, values), expected)
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(objects, "_compile", lambda *_: pytest.fail("compiled again"))
    np.testing.assert_array_equal(run(module, values), expected)


def test_other_kernels_and_other_tools_are_other_objects(cache: Path, monkeypatch: pytest.MonkeyPatch):
    run(doubled(), {"x": np.zeros(8, np.float32)})
    run(doubled(size=9), {"x": np.zeros(9, np.float32)})
    newer = objects.Machine(objects.machine().triple, objects.machine().cpu, "another version")
    monkeypatch.setattr(objects, "machine", lambda: newer)
    run(doubled(), {"x": np.zeros(8, np.float32)})
    assert len(list(cache.iterdir())) == 3


def test_a_damaged_object_is_compiled_again(cache: Path):
    module, values = doubled("f64"), {"x": np.arange(8, dtype=np.float64)}
    objects.shared_object(next(op for op in lower(module).ops if isinstance(op, ModuleOp)))
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    # Under another name, because a loaded object may not be changed in place.
    path.unlink()
    path.write_bytes(whole[:100] + b"damage" + whole[106:])
    np.testing.assert_array_equal(run(module, values), run_reference(module, values))
    assert path.read_bytes() == whole


def test_writers_do_not_meet(cache: Path):
    module, values = doubled("i32"), {"x": np.arange(8, dtype=np.int32)}
    found: list[object] = []
    writers = [threading.Thread(target=lambda: found.append(run(module, values))) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for got in found:
        np.testing.assert_array_equal(got, run_reference(module, values))
    assert len(found) == 3
    assert len(list(cache.iterdir())) == 1


def test_rlx_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    counts: list[int] = []
    monkeypatch.setattr(native, "thread_count", lambda real=thread_count: counts.append(real()) or counts[-1])
    with pytest.raises(SystemExit) as exit_:
        main([str(EXAMPLE), "--target=cpu", "--engine=native", "--threads=2", "--check"])
    assert exit_.value.code == 0
    assert "logits: largest error" in capsys.readouterr().out
    assert counts == [2]


def test_what_follows_a_convolution_or_a_product_is_part_of_it():
    def kernels(example: str) -> list[str]:
        module = read_module(EXAMPLE.with_stem(example), rlx_context())
        run_pipeline(module, fusion_pipeline(NATIVE))
        fold_parameters(module, random_weights(main_function(module), 0))
        return [launch.kernel for launch in launch_plan(lower(module)).launches if not launch.kernel.startswith("pack")]

    assert kernels("resnet_block") == ["conv_bias_relu", "conv_bias_relu_1", "conv_bias_relu_2"]
    assert kernels("mlp")[:2] == ["matmul_bias_gelu", "matmul_bias_relu"]
