"""Control flow as Python's: the values of a condition are waited for, so such a function is not compiled as a whole."""

from __future__ import annotations

from xdsl.ir import Region, SSAValue

from rlx_dialect.lowering.to_mlx.conversion import lowers
from rlx_dialect.lowering.to_mlx.writer import Writer
from rlx_dialect.ops.control_flow import IfOp, ScanOp, WhileOp


def _branch(w: Writer, region: Region, captures: list[str], results: list[str]) -> None:
    with w.nested():
        yielded = w.block(region.block, captures)
        w.line(f"{', '.join(results)} = {', '.join(yielded)}")


@lowers(IfOp)
def if_(op: IfOp, w: Writer) -> list[str]:
    predicate, captures = w.value(op.predicate), w.values(op.captures)
    results = [w.fresh(r, "chosen") for r in op.results]
    w.line(f"if {predicate}.item():")
    _branch(w, op.then_body, captures, results)
    w.line("else:")
    _branch(w, op.else_body, captures, results)
    return results


def _carried(w: Writer, results: list[SSAValue], initial: list[str], hint: str) -> list[str]:
    """Variables that begin with ``initial`` and become the results."""
    names = [w.fresh(r, hint) for r in results]
    w.line(f"{', '.join(names)} = {', '.join(initial)}")
    return names


@lowers(WhileOp)
def while_(op: WhileOp, w: Writer) -> list[str]:
    carried = _carried(w, list(op.results), w.values(op.carried), "carried")
    most = op.max_iterations
    w.line("while True:" if most is None else f"for _ in range({most.value.data}):")
    with w.nested():
        (holds,) = w.block(op.condition.block, carried)
        w.line(f"if not {holds}.item():")
        with w.nested():
            w.line("break")
        yielded = w.block(op.body.block, carried)
        w.line(f"{', '.join(carried)} = {', '.join(yielded)}")
    return carried


@lowers(ScanOp)
def scan(op: ScanOp, w: Writer) -> str:
    count = op.num_bcast.value.data
    others = w.values(op.others)
    initial = w.value(op.init)
    saves = op.save_trajectory is not None
    carry = w.let("carry", initial)
    trajectory = w.let("trajectory", "[]") if saves else ""
    step = w.names.fresh("step")
    w.line(f"for {step} in range({op.steps}):")
    with w.nested():
        parts = [w.let("part", f"{other}[{step}]") for other in others[count:]]
        (yielded,) = w.block(op.body.block, [carry, *others[:count], *parts])
        w.line(f"{carry} = {yielded}")
        if saves:
            w.line(f"{trajectory}.append({carry})")
    return f"mx.stack({trajectory})" if saves else carry
