"""Time an operation for parse, fuse, lower and print on a large graph, beside xDSL's own parse and print of it.

    python benchmarks/compile_time.py [OPERATIONS …]

The graph is a chain of feed-forward blocks (matmul, bias, gelu, matmul, bias, residual, layer norm, a gate).
Every figure is process CPU time of this one run in microseconds an operation, so compare them within the run only.
"xDSL" rows read and write the same graph in generic form, where xDSL's code does everything.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from rlx_dialect.ops.contraction import MatMulOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp
from rlx_dialect.ops.normalization import LayerNormOp
from rlx_dialect.pipelines.named import named_pipeline, run_pipeline
from rlx_dialect.xdsl_compat import parse_module, print_generic, print_module, rlx_context

T = TypeVar("T")
BLOCK = 10
"""Operations of one block."""


def graph(operations: int) -> ModuleOp:
    """A graph of about ``operations`` operations; every block has the same weights, so arguments stay few."""
    x_type, up_type, down_type = (TensorType(f32, s) for s in ((128, 256), (256, 1024), (1024, 256)))
    bias_up, vector = TensorType(f32, (1024,)), TensorType(f32, (256,))
    types = [x_type, up_type, bias_up, down_type, vector, vector, vector]
    block = Block(arg_types=types)
    x, up, up_bias, down, down_bias, gamma, beta = block.args
    value: SSAValue = x
    for _ in range(operations // BLOCK):
        hidden = MatMulOp(value, up)
        biased = BinaryOp("add", hidden, up_bias)
        active = ActivationOp("gelu", biased)
        product = MatMulOp(active, down)
        shifted = BinaryOp("add", product, down_bias)
        summed = BinaryOp("add", shifted, value)
        normal = LayerNormOp(summed, gamma, beta, eps=1e-5)
        gate = ActivationOp("sigmoid", normal)
        scaled = BinaryOp("mul", gate, normal)
        last = BinaryOp("max", scaled, gamma)
        block.add_ops([hidden, biased, active, product, shifted, summed, normal, gate, scaled, last])
        value = last.result
    block.add_op(ReturnOp(value))
    names = ["x", "up", "up_bias", "down", "down_bias", "gamma", "beta"]
    attributes = [DictionaryAttr({"rlx.param" if n != "x" else "rlx.input": StringAttr(n)}) for n in names]
    function = FuncOp("main", (types, [value.type]), Region(block), arg_attrs=ArrayAttr(attributes))
    return ModuleOp([function])


def timed(results: dict[str, float], name: str, work: Callable[[], T]) -> T:
    start = time.process_time()
    value = work()
    results[name] = time.process_time() - start
    return value


def measure(operations: int) -> dict[str, float]:
    """Seconds by step."""
    context = rlx_context()
    module = graph(operations)
    text, generic = print_module(module), print_generic(module)
    parse_module(print_module(graph(BLOCK)), context)  # loads dialects
    seconds: dict[str, float] = {}
    parsed = timed(seconds, "parse", lambda: parse_module(text, context))
    timed(seconds, "print", lambda: print_module(parsed))
    timed(seconds, "xDSL parse (generic)", lambda: parse_module(generic, context))
    timed(seconds, "xDSL print (generic)", lambda: print_generic(parsed))
    timed(seconds, "verify", parsed.verify)
    timed(seconds, "fuse (cuda-fuse)", lambda: run_pipeline(parsed, named_pipeline("cuda-fuse"), context))
    lowered = module.clone()
    timed(seconds, "fuse and lower (cpu)", lambda: run_pipeline(lowered, named_pipeline("cpu"), context))
    return seconds


def main() -> None:
    for operations in map(int, sys.argv[1:] or ["10000"]):
        print(f"{operations} operations, CPU microseconds an operation")
        for name, seconds in measure(operations).items():
            print(f"  {name:<24}{seconds / operations * 1e6:8.1f}")


if __name__ == "__main__":
    main()
