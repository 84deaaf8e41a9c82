"""The IO gate: whether a rewrite pays on a target, by what it saves in launches, stops and bytes.

A graph has a profile; the difference of two profiles, weighed by the target's :class:`GateConstants`, is a score in
nanoseconds. The formula is RLX's, its oddity included: where memory is unified, a byte that is no longer read back
counts one nanosecond, as if the bandwidth were 1 GB/s. That makes the gate eager to shrink outputs there, and tests
of RLX state it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from rlx_dialect.base import byte_size
from rlx_dialect.graph import is_load_time
from rlx_dialect.pipelines.targets import GateConstants, Target

VIEWS = frozenset({"rlx.constant", "rlx.reshape", "rlx.transpose", "rlx.narrow"})
"""Operations that launch nothing and move nothing."""
HOST_STEPS = frozenset({"rlx.log_mel", "rlx.log_mel_backward", "rlx.custom", "rlx.welch_peaks"})
"""Operations that the host computes, so that the device has to wait."""


@dataclass(frozen=True)
class GraphIoProfile:
    """What one call of a graph costs besides arithmetic; differences of profiles may be negative."""

    kernel_launches: int = 0
    sync_points: int = 0
    host_output_bytes: int = 0
    device_traffic_bytes: int = 0

    def __add__(self, other: GraphIoProfile) -> GraphIoProfile:
        return GraphIoProfile(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: GraphIoProfile) -> GraphIoProfile:
        return GraphIoProfile(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


def profile(
    operations: Iterable[Operation], outputs: Iterable[SSAValue] = (), *, known: dict[SSAValue, bool] | None = None
) -> GraphIoProfile:
    """What a list of operations costs, of which ``outputs`` go back to the host.

    Each operation but a view is one launch, whatever its regions hold, and moves its operands and results. With
    ``known``, which :func:`is_load_time` keeps its answers in, what is computed once when the weights are loaded costs
    a call nothing.
    """
    returned = set(outputs)
    launches = syncs = host = traffic = 0
    for op in operations:
        if op.name in VIEWS or op.has_trait(IsTerminator):
            continue
        if known is not None and op.results and all(is_load_time(result, known) for result in op.results):
            continue
        launches += 1
        syncs += op.name in HOST_STEPS
        traffic += sum(byte_size(value.type) for value in (*op.operands, *op.results))
        host += sum(byte_size(result.type) for result in op.results if result in returned)
    return GraphIoProfile(launches, syncs, host, traffic)


def profile_block(block: Block, *, known: dict[SSAValue, bool] | None = None) -> GraphIoProfile:
    """The profile of the operations of a block; what its terminator takes goes back to the host."""
    last = block.last_op
    returned = last.operands if last is not None and last.has_trait(IsTerminator) else ()
    return profile(block.ops, returned, known=known)


def profile_module(module: ModuleOp, *, known: dict[SSAValue, bool] | None = None) -> GraphIoProfile:
    """The profiles of all functions together."""
    total = GraphIoProfile()
    for function in module.ops:
        if isinstance(function, FuncOp):
            for block in function.body.blocks:
                total += profile_block(block, known=known)
    return total


def score(gate: GateConstants, before: GraphIoProfile, after: GraphIoProfile) -> float:
    """Nanoseconds that ``after`` is better than ``before``; negative where it is worse."""
    saved = before - after
    readback_bw = 0 if gate.unified_memory else gate.host_readback_bw
    value = (
        saved.kernel_launches * gate.dispatch_ns
        + saved.sync_points * gate.roundtrip_ns
        + saved.device_traffic_bytes / max(gate.memory_bw, 1)
        + saved.host_output_bytes / max(readback_bw, 1)
    )
    return value + min(saved.sync_points, 0) * gate.host_thunk_penalty_ns


def should_fuse(gate: GateConstants, before: GraphIoProfile, after: GraphIoProfile) -> bool:
    """Whether ``after`` is better than ``before`` by what the gate wants at least."""
    return score(gate, before, after) >= gate.min_gain_ns


def should_fuse_with_target(target: Target, before: GraphIoProfile, after: GraphIoProfile) -> bool:
    """:func:`should_fuse` by the target's own costs."""
    return should_fuse(target.gate, before, after)
