"""Graphs of element-wise operations, the passes that make regions of them and undo that, and what came of it."""

from __future__ import annotations

from helpers import assert_same_meaning, graph
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.ops.region import ElementwiseRegionOp
from rlx_dialect.passes.mark_elementwise_regions import MarkElementwiseRegions
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.unfuse_elementwise_regions import UnfuseElementwiseRegions
from rlx_dialect.xdsl_compat import Context, ModulePass

EXACT = {"rtol": 0.0, "atol": 0.0}
T = "tensor<4x8xf32>"


def unary(result: str, kind: str, x: str, type: str = T) -> str:
    return f"%{result} = rlx.activation {kind} %{x} : {type}"


def binary(result: str, kind: str, a: str, b: str, a_type: str = T, b_type: str = T, type: str = T) -> str:
    return f"%{result} = rlx.binary {kind} %{a}, %{b} : ({a_type}, {b_type}) -> {type}"


def of(*lines: str, arguments: str = f"%x: {T}, %y: {T}", results: str = T, returned: str = "%t") -> ModuleOp:
    return graph("\n".join(lines), arguments, results, returned)


def applied(pass_: ModulePass, module: ModuleOp) -> ModuleOp:
    """What the pass makes of the module: with the very same values."""
    after = module.clone()
    pass_.apply(Context(), after)
    check_dominance(after)
    assert_same_meaning(module, after, **EXACT)
    return after


def mark(module: ModuleOp, **limits: int) -> ModuleOp:
    return applied(MarkElementwiseRegions(**limits), module)


def unfuse(module: ModuleOp, **options: bool) -> ModuleOp:
    return applied(UnfuseElementwiseRegions(**options), module)


def names(module: ModuleOp) -> list[str]:
    """The operations outside of regions."""
    return [op.name for op in module.walk() if op.name.startswith("rlx.") and not in_region(op.parent_op())]


def in_region(owner: object) -> bool:
    return isinstance(owner, ElementwiseRegionOp)


def regions(module: ModuleOp) -> list[ElementwiseRegionOp]:
    return [op for op in module.walk() if isinstance(op, ElementwiseRegionOp)]


def sizes(module: ModuleOp) -> list[int]:
    return [len(region.steps()) for region in regions(module)]


def chain(steps: int) -> ModuleOp:
    """tanh and neg in turn, ``steps`` of them."""
    lines = [unary(f"a{i + 1}", ("tanh", "neg")[i % 2], f"a{i}") for i in range(steps)]
    return of(*lines, arguments=f"%a0: {T}", returned=f"%a{steps}")
