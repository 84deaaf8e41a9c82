"""The example graphs and the builder that they are made with."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from helpers import assert_round_trip, parse
from xdsl.dialects.builtin import f16, i64

from rlx_dialect.builder import GraphBuilder
from rlx_dialect.graph import arguments, main_function, output_names
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.elementwise import FmaOp
from rlx_dialect.samples import random_values
from rlx_dialect.shapes import DYNAMIC
from rlx_dialect.weights import random_weights
from rlx_dialect.xdsl_compat import VerifyException, print_module

EXAMPLES = Path(__file__).parent.parent / "examples"


def load_generator() -> ModuleType:
    """``examples`` is a folder of scripts, not a package."""
    spec = importlib.util.spec_from_file_location("generate", EXAMPLES / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = load_generator()
NAMES = ["mlp", "bert_layer", "llama_block", "dit_block", "resnet_block"]
SMALL = {
    "mlp": {"batch": 3, "inputs": 20, "hidden": 32, "outputs": 5},
    "bert_layer": {"batch": 2, "seq": 7, "hidden": 48, "heads": 3, "intermediate": 40},
    "llama_block": {"batch": 2, "seq": 5, "hidden": 48, "heads": 6, "kv_heads": 2, "intermediate": 40},
    "dit_block": {"batch": 2, "seq": 6, "hidden": 24, "heads": 2, "intermediate": 36},
    "resnet_block": {"batch": 2, "channels": 12, "width": 4, "size": 9},
}


def test_every_example_is_known_here():
    assert list(GENERATE.EXAMPLES) == NAMES
    assert sorted(p.stem for p in EXAMPLES.glob("*.mlir")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_committed_file_is_what_is_generated(name: str):
    assert (EXAMPLES / f"{name}.mlir").read_bytes() == GENERATE.text(name).encode()


@pytest.mark.parametrize("name", NAMES)
def test_committed_file_round_trips(name: str):
    assert_round_trip(parse((EXAMPLES / f"{name}.mlir").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_other_sizes_run_and_keep_signals_in_range(name: str):
    module = parse(GENERATE.text(name, **SMALL[name]))
    function = main_function(module)
    inputs = {a.name for a in arguments(function) if a.kind == "input"}
    values = {k: v for k, v in random_values(module, 1).items() if k in inputs}
    (output,) = run_reference(module, {**random_weights(function), **values})
    assert np.isfinite(output).all()
    assert 0.1 < output.std() < 10


def test_bert_layer_at_full_size_ignores_masked_keys():
    module = parse((EXAMPLES / "bert_layer.mlir").read_text())
    weights = random_weights(main_function(module))
    hidden = np.random.default_rng(3).standard_normal((1, 128, 768)).astype(np.float32)
    mask = np.ones((1, 128), np.float32)
    mask[:, 100:] = 0
    changed = hidden.copy()
    changed[:, 100:] += 1
    outputs = [
        run_reference(module, {**weights, "hidden": h, "attention_mask": mask})[0][:, :100] for h in (hidden, changed)
    ]
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-5)
    np.testing.assert_allclose(outputs[0].std(), 1, atol=0.1)  # a norm comes last


def test_llama_block_is_causal():
    module = parse(GENERATE.text("llama_block", **SMALL["llama_block"]))
    values = random_values(module, 2)
    later = {**values, "hidden": values["hidden"].copy()}
    later["hidden"][:, 3:] += 1  # pyright: ignore
    first, second = (run_reference(module, v)[0] for v in (values, later))
    np.testing.assert_allclose(first[:, :3], second[:, :3], rtol=1e-6)
    assert np.abs(first[:, 3:] - second[:, 3:]).min(axis=-1).max() > 0


def test_command_line_writes_one_example_with_given_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    GENERATE.main(["--folder", str(tmp_path), "mlp", "--batch", "2", "--hidden", "16"])
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"{path}\n"
    text = path.read_text()
    assert "// Generated: python examples/generate.py mlp --batch 2 --hidden 16\n" in text
    assert "tensor<2x16xf32>" in text
    GENERATE.main(["--folder", str(tmp_path)])
    assert len(list(tmp_path.iterdir())) == len(NAMES)


# The builder.


def test_builder_names_everything_and_infers_types():
    g = GraphBuilder("net")
    x = g.input("x.in", (-1, 8), f16)
    y = (g.relu(x @ g.param("0/w:a", (8, 3), f16)) * 2.0 + 1.0).named("scaled")
    g.output("y", y)
    g.output("again", x)
    module = g.module()
    function = main_function(module)
    assert function.sym_name.data == "net"
    assert [(a.name, a.kind, str(a.value.type)) for a in arguments(function)] == [
        ("x.in", "input", "tensor<?x8xf16>"),
        ("0/w:a", "param", "tensor<8x3xf16>"),
    ]
    assert output_names(function) == ["y", "again"]
    assert (y.shape, y.rank, y.element) == ((DYNAMIC, 3), 2, f16)
    text = print_module(module)
    assert "%x.in: " in text
    assert "%_0_w_a: " in text
    assert "%scaled = rlx.binary add" in text
    assert_round_trip(module)


def test_numbers_take_the_element_type_of_the_other_operand_on_either_side():
    g = GraphBuilder()
    x = g.input("x", (3,), i64)
    g.output("y", 10 - x * 3 + (2 - x) / 2)
    values = np.array([1, 2, 9])
    (found,) = run_reference(g.module(), {"x": values})
    np.testing.assert_array_equal(found, 10 - values * 3 + np.trunc((2 - values) / 2))


def test_equal_constants_are_one_operation_and_others_are_not():
    g = GraphBuilder()
    x = g.input("x", (2,))
    g.output("y", (x + 1.0) * 1.0 - g.constant([1.0]) + 2.0)
    assert print_module(g.module()).count("rlx.constant") == 3


def test_builder_refuses_at_the_line_of_the_mistake():
    g = GraphBuilder()
    x, w = g.input("x", (2, 3)), g.param("w", (4, 5))
    with pytest.raises(VerifyException, match=r"'rlx\.matmul': contracted extents"):
        _ = x @ w
    with pytest.raises(ValueError, match="there is an input or parameter named 'w' already"):
        g.input("w", (1,))


def test_operations_without_a_method_are_inserted():
    g = GraphBuilder()
    x = g.input("x", (4,))
    g.output("y", g.insert(FmaOp(x.ssa, x.ssa, x.ssa)))
    (found,) = run_reference(g.module(), {"x": np.arange(4, dtype=np.float32)})
    np.testing.assert_array_equal(found, [0, 2, 6, 12])


def test_split_takes_adjacent_parts():
    g = GraphBuilder()
    parts = g.split(g.input("x", (2, 6)), 1, [1, 3, 2])
    for i, part in enumerate(parts):
        g.output(f"{i}", part)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for found, expected in zip(run_reference(g.module(), {"x": x}), np.split(x, [1, 4], axis=1), strict=True):
        np.testing.assert_array_equal(found, expected)
