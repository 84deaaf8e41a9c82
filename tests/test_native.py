"""Native kernels give the reference's values: every case of every operation, the examples, and shapes that are hard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gpu_code import no_buffers
from helpers import graph
from on_cpu import check, run
from op_cases import CASES, OpCase
from support import Support
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.to_cpu.cpus import CPUS, host_cpu
from rlx_dialect.lowering.to_cpu.host import CpuKernels
from rlx_dialect.lowering.to_cpu.specialise import specialise
from rlx_dialect.lowering.to_gpu.conversion import lower_graphs
from rlx_dialect.pipelines.source import read_module
from rlx_dialect.runtime.compare import difference, tolerance
from rlx_dialect.runtime.launch_plan import launch_plan
from rlx_dialect.runtime.native import Library, NativeExecutable, load
from rlx_dialect.runtime.rlx_run import compile_for, random_inputs
from rlx_dialect.samples import random_values
from rlx_dialect.weights import random_weights
from rlx_dialect.xdsl_compat import rlx_context

EXAMPLES = Path(__file__).parent.parent / "examples"
SHARES = 4
NARROW = 2e-2
"""Two roundings to bf16 instead of one."""


@pytest.mark.parametrize("share", range(SHARES))
def test_cases(share: int, support: Support):
    # One library for many graphs: starting the compilers takes longer than most kernels.
    kernels = CpuKernels(CPUS[host_cpu()])
    lowered: list[tuple[OpCase, ModuleOp]] = []
    for case in CASES[share::SHARES]:
        module = case.module()
        function, values = main_function(module), case.values()
        specialise(function, [values[a.name].shape for a in arguments(function)])
        try:
            lower_graphs(module, kernels, "not lowered")
        except LoweringError as error:
            if (reason := no_buffers(error)) is None:
                raise
            support("native", case, reason)
            continue
        for op in list(module.ops):
            if op is kernels.op:
                op.detach()
        lowered.append((case, module))
    library = load(kernels.op)
    assert len(lowered) > 40
    for case, module in lowered:
        check_case(case, module, library)
        support("native", case)


def check_case(case: OpCase, module: ModuleOp, library: Library) -> None:
    values = case.values()
    inputs = {a.name: values[a.name] for a in arguments(main_function(case.module())) if a.kind == "input"}
    found = NativeExecutable(launch_plan(module), library, values, threads=1).run(inputs)
    for got, expected in zip(found, run_reference(case.module(), values), strict=True):
        got, expected = case.specified(got), case.specified(expected)
        limit = NARROW if "bf16" in case.dtypes else tolerance(expected.dtype)
        assert got.dtype == expected.dtype, case.id
        assert (result := difference(case.id, got, expected, limit, limit)).within, result


@pytest.mark.parametrize("example", ["mlp", "bert_layer", "llama_block", "dit_block", "resnet_block"])
def test_examples(example: str):
    module = read_module(EXAMPLES / f"{example}.mlir", rlx_context())
    weights = random_weights(main_function(module), 0)
    inputs = random_inputs(main_function(module), 0, 2)
    found = compile_for(module, "cpu", "native", weights).run(inputs)
    for got, expected in zip(found, run_reference(module, {**weights, **inputs}), strict=True):
        assert (result := difference(example, got, expected, 1e-4, 1e-4)).within, result


def products(shapes: list[tuple[int, int, int]], element: str = "f32") -> ModuleOp:
    """A graph of a product with a bias and a residual of each shape (M, N, K)."""
    steps, inputs, results, names = [], [], [], []
    for i, (m, n, k) in enumerate(shapes):
        x, w, b, y = (f"tensor<{s}x{element}>" for s in (f"{m}x{k}", f"{k}x{n}", f"{n}", f"{m}x{n}"))
        inputs += [f"%x{i}: {x}", f'%w{i}: {w} {{rlx.param = "w{i}"}}', f"%b{i}: {b}", f"%r{i}: {y}"]
        steps += [
            f"%p{i} = rlx.fused_matmul_bias_act %x{i}, %w{i}, %b{i} : ({x}, {w}, {b}) -> {y}",
            f"%y{i} = rlx.fused_matmul_residual %p{i}, %e{i}, %r{i} : ({y}, tensor<{n}x{n}x{element}>, {y}) -> {y}",
        ]
        inputs.append(f"%e{i}: tensor<{n}x{n}x{element}>")
        results.append(y)
        names.append(f"%y{i}")
    return graph("\n".join(steps), ", ".join(inputs), ", ".join(results), ", ".join(names))


HARD = [(1, 1, 1), (1, 10, 5), (7, 49, 70), (64, 96, 33), (130, 17, 129), (9, 200, 1), (3, 33, 0), (5, 16, 9000)]


@pytest.mark.parametrize("cpu", sorted(CPUS))
def test_products_of_all_shapes(cpu: str):
    # Every row's vectors are vectors of any CPU for LLVM.
    module = products(HARD)
    check(module, cpu=cpu, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("element", "rtol"), [("f16", 2e-2), ("bf16", 6e-2), ("f64", 1e-9), ("i32", 0)])
def test_products_of_all_elements(element: str, rtol: float):
    check(products([(5, 20, 7), (70, 50, 33)], element), rtol=rtol, atol=rtol * 10)


def test_what_lies_beyond_the_edge_is_not_seen():
    # Panels are padded with zeros, and 0 times infinity would be NaN.
    module = products([(9, 17, 5)])
    values = random_values(module, 0)
    (name,) = (n for n, v in values.items() if v.shape == (9, 5))
    values[name] = np.full_like(values[name], np.inf)
    values[name][3, 2] = np.nan
    with np.errstate(invalid="ignore"):
        check(module, values)


def test_views_and_batches_as_factors():
    x, y = "tensor<2x3x20x8xf32>", "tensor<3x8x40xf32>"
    check(
        graph(
            f"""%0 = rlx.matmul %x, %y : ({x}, {y}) -> tensor<2x3x20x40xf32>
            %t = rlx.transpose %x {{perm = [1, 3, 0, 2]}} : {x} -> tensor<3x8x2x20xf32>
            %1 = rlx.dot_general %t, %y {{lhs_contracting = [1], rhs_contracting = [1], lhs_batch = [0],
              rhs_batch = [0]}} : (tensor<3x8x2x20xf32>, {y}) -> tensor<3x2x20x40xf32>
            %2 = rlx.dot_general %x, %y {{lhs_contracting = [1, 3], rhs_contracting = [0, 1]}}
              : ({x}, {y}) -> tensor<2x20x40xf32>""",
            f"%x: {x}, %y: {y}",
            "tensor<2x3x20x40xf32>, tensor<3x2x20x40xf32>, tensor<2x20x40xf32>",
            "%0, %1, %2",
        ),
        atol=1e-5,
    )


CONVOLUTIONS = [
    ("2x3x5x21", "7x3x3x3", "2x7x5x21", "kernel_size = [3, 3], padding = [1, 1]"),
    ("1x4x17x16", "5x4x2x4", "1x5x17x14", "kernel_size = [2, 4], padding = [0, 3, 2, 1], dilation = [2, 2]"),
    ("1x4x9x70", "6x2x3x3", "1x6x5x35", "kernel_size = [3, 3], stride = [2, 2], padding = [1, 1], groups = 2"),
    ("1x2x1x30", "4x2x1x2", "1x4x1x33", "kernel_size = [1, 2], stride = [2, 1], padding = [1, 3, 0, 1]"),
    ("1x3x4x6x20", "4x3x2x3x3", "1x4x5x6x20", "kernel_size = [2, 3, 3], padding = [1, 1, 1]"),
    ("1x40x60x60", "130x40x1x1", "1x130x60x60", "kernel_size = [1, 1]"),
]
"""Rows that vectors cross, edges, gaps, nothing but padding, many channels."""


@pytest.mark.parametrize("cpu", sorted(CPUS))
def test_convolutions(cpu: str):
    types = [[f"tensor<{shape}xf32>" for shape in shapes] for *shapes, _ in CONVOLUTIONS]
    steps = [
        f"%y{i} = rlx.conv %x{i}, %w{i} {{{attributes}}} : ({x}, {w}) -> {y}"
        for i, ((x, w, y), (*_, attributes)) in enumerate(zip(types, CONVOLUTIONS, strict=True))
    ]
    inputs = ", ".join(f"%x{i}: {x}, %w{i}: {w}" for i, (x, w, _) in enumerate(types))
    names = ", ".join(f"%y{i}" for i in range(len(types)))
    check(graph("\n".join(steps), inputs, ", ".join(y for *_, y in types), names), cpu=cpu, rtol=1e-4, atol=1e-4)


def attention(queries: int, keys: int, heads: int, shared: int, attributes: str, mask: str) -> ModuleOp:
    q, k = f"tensor<2x{heads}x{queries}x20xf32>", f"tensor<2x{shared}x{keys}x20xf32>"
    operand = f", %m : ({q}, {k}, {k}, {mask})" if mask else f" : ({q}, {k}, {k})"
    return graph(
        f"%0 = rlx.attention {attributes.partition(' ')[0]} %q, %k, %v{operand.partition(' : ')[0]} "
        f"{{num_heads = {heads}, num_kv_heads = {shared}, head_dim = 20, layout = bhsd"
        f"{attributes.partition(' ')[2]}}} : {operand.partition(' : ')[2]} -> {q}",
        f"%q: {q}, %k: {k}, %v: {k}" + (f", %m: {mask}" if mask else ""),
        q,
        "%0",
    )


@pytest.mark.parametrize(
    ("queries", "keys", "heads", "shared", "attributes", "mask"),
    [
        (70, 70, 4, 2, "causal", ""),
        (9, 133, 6, 2, "causal", ""),
        (150, 20, 2, 2, "causal", ""),
        (33, 40, 2, 1, "sliding_window , window = 7", ""),
        (1, 65, 2, 2, "custom", "tensor<2x65xf32>"),
        (17, 30, 2, 2, "bias", "tensor<2x1x17x30xf32>"),
    ],
)
def test_attention(queries: int, keys: int, heads: int, shared: int, attributes: str, mask: str):
    check(attention(queries, keys, heads, shared, attributes, mask), rtol=1e-4, atol=1e-5)


FUNCTIONS = {
    "exp": (np.exp, -103.0, 88.7),
    "log": (np.log, 1e-37, 1e38),
    "sin": (np.sin, -30.0, 30.0),
    "cos": (np.cos, -30.0, 30.0),
    "tanh": (np.tanh, -12.0, 12.0),
    "atan": (np.arctan, -50.0, 50.0),
}


def test_functions_are_near_the_truth():
    type = "tensor<20000xf32>"
    names = list(FUNCTIONS)
    module = graph(
        "\n".join(f"%y{i} = rlx.activation {name} %x{i} : {type}" for i, name in enumerate(names)),
        ", ".join(f"%x{i}: {type}" for i in range(len(names))),
        ", ".join([type] * len(names)),
        ", ".join(f"%y{i}" for i in range(len(names))),
    )
    rng = np.random.default_rng(0)
    ranges = [(low, high) for _, low, high in FUNCTIONS.values()]
    points = [rng.uniform(low, high, 20000).astype(np.float32) for low, high in ranges]
    points[1] = np.exp(rng.uniform(-85, 85, 20000)).astype(np.float32)
    values = {a.name: p for a, p in zip(arguments(main_function(module)), points, strict=True)}
    for i, (got, (function, _, _)) in enumerate(zip(run(module, values), FUNCTIONS.values(), strict=True)):
        exact = function(points[i].astype(np.float64))
        size = np.maximum(np.abs(exact), 1 if names[i] in ("sin", "cos") else 1e-37)
        assert np.max(np.abs(got - exact) / size) < 4e-7, names[i]


def test_functions_of_special_numbers():
    kinds = [
        "exp",
        "log",
        "tanh",
        "sin",
        "cos",
        "tan",
        "softplus",
        "elu",
        "erf",
        "gelu",
        "silu",
        "rsqrt",
        "mish",
        "log_sigmoid",
    ]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-30, 3.4e38, -3.4e38, 88.9, -103.7, -150.0, 1.0]
    type = f"tensor<{len(special)}xf32>"
    module = graph(
        "\n".join(f"%y{i} = rlx.activation {kind} %x : {type}" for i, kind in enumerate(kinds)),
        f"%x: {type}",
        ", ".join([type] * len(kinds)),
        ", ".join(f"%y{i}" for i in range(len(kinds))),
    )
    with np.errstate(all="ignore"):
        values = np.array(special, np.float32)
        named = {a.name: values for a in arguments(main_function(module))}
        found, expected = run(module, named), run_reference(module, named)
        for kind, got, exact in zip(kinds, found, expected, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-37, err_msg=kind)
            if kind in ("sin", "tan"):
                np.testing.assert_array_equal(np.signbit(got[:2]), [False, True], kind)
