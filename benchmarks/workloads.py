"""What :mod:`cpu` measures: graphs by name, at full size and small ones for a quick look."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rlx_dialect.builder import GraphBuilder, Value

_EXAMPLES = cast(
    "Mapping[str, Callable[..., GraphBuilder]]",
    runpy.run_path(str(Path(__file__).parent.parent / "examples" / "generate.py"))["EXAMPLES"],
)


@dataclass(frozen=True)
class Workload:
    """A graph to time, with the sizes to time it at and those of a quick look."""

    name: str
    graph: Callable[..., GraphBuilder]
    sizes: Mapping[str, int]
    quick: Mapping[str, int]
    hand_off: float | None = None
    """What IREE took on one thread from linalg written by hand, in times of the fastest peer: what to reach."""
    is_product: bool = False
    """Its speed is to be seen beside the machine's peak."""

    def build(self, *, quick: bool) -> GraphBuilder:
        return self.graph(**(self.quick if quick else self.sizes))

    def flops(self, *, quick: bool) -> int:
        """Multiplications and additions of a product; 0 of other workloads."""
        sizes = self.quick if quick else self.sizes
        return 2 * sizes["rows"] * sizes["columns"] * sizes["inner"] if self.is_product else 0


def costly_chain(*, rows: int = 1024, columns: int = 4096) -> GraphBuilder:
    """Twelve element-wise operations with exponentials, a logarithm and a division."""
    g = GraphBuilder()
    x = g.input("x", (rows, columns))
    soft = g.tanh(g.activation("log", g.exp(x * 0.5) + 1.0)) * x
    gated = g.activation("sigmoid", soft) * soft
    g.output("y", gated / (g.exp(-gated) + 1.0))
    return g


def cheap_chain(*, rows: int = 1024, columns: int = 4096) -> GraphBuilder:
    """Twelve element-wise operations that take less time than reading their input."""
    g = GraphBuilder()
    x = g.input("x", (rows, columns))
    y = g.binary("max", x * 1.25 + 0.5, -1.0) * 0.75 - 0.25
    y = g.activation("abs", g.binary("min", y, 1.5)) * 1.5 + 0.125
    g.output("y", g.relu(y) * 0.5 + x)
    return g


def residual_norm(*, rows: int = 512, columns: int = 4096) -> GraphBuilder:
    """Layer norm of a sum."""
    g = GraphBuilder()
    x, residual = (g.input(name, (rows, columns)) for name in ("x", "residual"))
    gamma, beta = (g.param(name, (columns,)) for name in ("gamma", "beta"))
    g.output("y", g.layer_norm(x + residual, gamma, beta, eps=1e-5))
    return g


def contraction(*, rows: int = 128, columns: int = 3072, inner: int = 768) -> GraphBuilder:
    """A product with bias and gelu."""
    g = GraphBuilder()
    x: Value = g.input("x", (rows, inner)) @ g.param("weight", (inner, columns))
    g.output("y", g.gelu(x + g.param("bias", (columns,))))
    return g


_LLAMA = {"hidden": 2048, "heads": 16, "kv_heads": 16, "intermediate": 5632}
_SMALL_LLAMA = {"hidden": 64, "heads": 4, "kv_heads": 4, "intermediate": 96}
_SMALL_CHAIN = {"rows": 16, "columns": 64}


def _product(rows: int) -> Workload:
    sizes = {"rows": rows, "columns": 3072, "inner": 768}
    quick = {"rows": rows, "columns": 96, "inner": 64}
    return Workload(f"contraction_{rows}", contraction, sizes, quick, is_product=True)


WORKLOADS: Mapping[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "bert_layer",
            _EXAMPLES["bert_layer"],
            {},
            {"seq": 16, "hidden": 64, "heads": 4, "intermediate": 96},
            hand_off=1.14,
        ),
        Workload(
            "llama_prefill", _EXAMPLES["llama_block"], {"seq": 128} | _LLAMA, {"seq": 16} | _SMALL_LLAMA, hand_off=1.05
        ),
        Workload(
            "llama_decode",
            _EXAMPLES["llama_block"],
            {"seq": 1, "past": 511} | _LLAMA,
            {"seq": 1, "past": 15} | _SMALL_LLAMA,
            hand_off=0.87,
        ),
        Workload(
            "dit_block",
            _EXAMPLES["dit_block"],
            {"hidden": 768, "heads": 12, "intermediate": 3072},
            {"seq": 16, "hidden": 64, "heads": 4, "intermediate": 96},
            hand_off=1.14,
        ),
        Workload(
            "resnet_block", _EXAMPLES["resnet_block"], {}, {"channels": 16, "width": 8, "size": 10}, hand_off=1.16
        ),
        Workload("costly_chain", costly_chain, {}, _SMALL_CHAIN, hand_off=0.73),
        Workload("cheap_chain", cheap_chain, {}, _SMALL_CHAIN, hand_off=0.93),
        Workload("residual_norm", residual_norm, {}, _SMALL_CHAIN, hand_off=0.88),
        _product(64),
        _product(128),
    )
}
"""By name, in the order of the table."""
