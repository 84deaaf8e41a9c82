"""Time the whole fusion pipelines on graphs of growing size, and how the time grows when a graph doubles.

    python benchmarks/fusion_time.py [--targets cuda cpu] [OPERATIONS …]

Two graphs, each a chain of blocks: one in which products, biases, gelu and residual norms are single operations, and
one in which gelu and the norms are spelled out in primitives, as exporters do. Figures are process CPU time of this
run. "per doubling" is what the time is multiplied by when the graph doubles: 2.0 is linear.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.pipelines.named import named_pipeline, run_pipeline
from rlx_dialect.xdsl_compat import rlx_context

WIDTH, INNER, ROWS = 64, 96, 32


def _gelu(g: GraphBuilder, x: Value) -> Value:
    return g.gelu(x)


def _gelu_spelled(g: GraphBuilder, x: Value) -> Value:
    return x * 0.5 * (1.0 + g.activation("erf", x / math.sqrt(2)))


def _norm(g: GraphBuilder, x: Value, gamma: Value, beta: Value) -> Value:
    return g.layer_norm(x, gamma, beta, eps=1e-5)


def _norm_spelled(g: GraphBuilder, x: Value, gamma: Value, beta: Value) -> Value:
    centred = x - g.reduce("mean", x, [1], keep_dim=True)
    variance = g.reduce("mean", centred**2.0, [1], keep_dim=True)
    return centred / g.sqrt(variance + 1e-5) * gamma + beta


GRAPHS: dict[str, tuple[Callable[[GraphBuilder, Value], Value], Callable[[GraphBuilder, Value, Value, Value], Value]]]
GRAPHS = {"single operations": (_gelu, _norm), "spelled out": (_gelu_spelled, _norm_spelled)}


def graph(kind: str, blocks: int) -> ModuleOp:
    """A chain of feed-forward blocks that share their weights."""
    gelu, norm = GRAPHS[kind]
    g = GraphBuilder()
    value = g.input("x", (ROWS, WIDTH))
    up, down = g.param("up", (WIDTH, INNER)), g.param("down", (INNER, WIDTH))
    up_bias, down_bias, gamma, beta = (g.param(n, (w,)) for n, w in zip("abcd", (INNER, *[WIDTH] * 3), strict=True))
    for _ in range(blocks):
        inner = gelu(g, value @ up + up_bias)
        value = norm(g, inner @ down + down_bias + value, gamma, beta)
    g.output("y", value)
    return g.module()


def size(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


def seconds(kind: str, target: str, operations: int) -> float:
    """Process time of the fusion pipeline of ``target``."""
    module = graph(kind, operations // (size(graph(kind, 2)) - size(graph(kind, 1))))
    text, context = named_pipeline(f"{target}-fuse"), rlx_context()
    gc.collect()
    start = time.process_time()
    run_pipeline(module, text, context)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operations", type=int, nargs="*", default=[1000, 10000, 100000])
    parser.add_argument("--targets", nargs="*", default=["cuda", "cpu"])
    arguments = parser.parse_args()
    for target in arguments.targets:
        for kind in GRAPHS:
            seconds(kind, target, 100)  # imports the passes
            before: tuple[int, float] | None = None
            for operations in arguments.operations:
                took = seconds(kind, target, operations)
                line = f"{target}-fuse, {kind}: {operations:7} operations {took:8.3f} s"
                line += f" {took / operations * 1e6:6.1f} us an operation"
                if before is not None:
                    growth = (took / before[1]) ** (1 / math.log2(operations / before[0]))
                    line += f", x{growth:.2f} per doubling"
                print(line, flush=True)
                before = operations, took


if __name__ == "__main__":
    main()
