"""The three gradients of one self-attention become one operation, which computes the weights once.

Before::

    %dq = rlx.attention_backward %q, %k, %v, %dy {wrt = query, num_heads = 2, head_dim = 4, layout = bsd} : …
    %dk = rlx.attention_backward %q, %k, %v, %dy {wrt = key, num_heads = 2, head_dim = 4, layout = bsd} : …
    %dv = rlx.attention_backward %q, %k, %v, %dy {wrt = value, num_heads = 2, head_dim = 4, layout = bsd} : …

After, for a batch of 3::

    %0 = rlx.attention_backward_all %q, %k, %v, %dy {num_heads = 2, head_dim = 4, layout = bsd} : … -> tensor<9x5x8xf32>
    %dq = rlx.narrow %0 {axis = 0, start = 0, len = 3} : …
    %dk = rlx.narrow %0 {axis = 0, start = 3, len = 3} : …
    %dv = rlx.narrow %0 {axis = 0, start = 6, len = 3} : …

All operands, the mask among them, and all other properties are the same, and q, k and v have one static shape. The one
operation stands at the first of the three. The pass does nothing unless it is ``enabled``. Numerics: ``exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from rlx_dialect.attributes import AttentionInput
from rlx_dialect.base import shape_of
from rlx_dialect.ops.attention_backward import AttentionBackwardAllOp, AttentionBackwardOp
from rlx_dialect.ops.shape import NarrowOp
from rlx_dialect.passes.matching.fusion import FusionPass, Miss, Numerics, Reason
from rlx_dialect.passes.matching.observe import recording
from rlx_dialect.shapes import is_static, show
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter

Gradients = dict[AttentionInput, AttentionBackwardOp]
"""The gradients of one attention, in program order."""


@dataclass(frozen=True)
class FuseAttentionBackwardAll(FusionPass):
    """``enabled``: without it every site is declined, because not every back end has the operation."""

    name = "rlx-fuse-attention-backward-all"
    produces: ClassVar = (AttentionBackwardAllOp,)
    numerics: ClassVar = Numerics.EXACT

    enabled: bool = False

    def run(self, module: ModuleOp) -> list[Miss]:
        return [miss for block in list(module.walk_blocks()) for miss in self._run_on(block)]

    def _run_on(self, block: Block) -> list[Miss]:
        misses: list[Miss] = []
        for sites in _by_gradient(block):
            for gradients in sites:
                miss = _declined(gradients, sites)
                if miss is None and not self.enabled:
                    site = next(iter(gradients.values()))
                    detail = "the three gradients could be one operation"
                    miss = Miss(Reason.SWITCHED_OFF, site, detail, "set enabled=true (RLX_CPU_ATTN_BWD_FUSE=1)")
                if miss is None:
                    with recording(type(self).__name__, self.numerics) as rewriter:
                        _emit(gradients, rewriter)
                else:
                    misses.append(miss)
        positions = {op: index for index, op in enumerate(block.ops)}
        return sorted(misses, key=lambda miss: positions[miss.op])


def _by_gradient(block: Block) -> list[list[Gradients]]:
    """The gradients that share q, k, v and dy, apart by their masks and properties. Of two equal ones the first."""
    found: dict[tuple[SSAValue, ...], dict[tuple[object, ...], Gradients]] = {}
    for op in block.ops:
        if isinstance(op, AttentionBackwardOp):
            sites = found.setdefault((op.q, op.k, op.v, op.dy), {})
            sites.setdefault((op.mask, *_properties(op)), {}).setdefault(op.wrt.data, op)
    return [list(sites.values()) for sites in found.values()]


def _properties(op: AttentionBackwardOp) -> tuple[object, ...]:
    """All but what the gradient is with respect to."""
    return op.mask_kind, op.heads, op.kv_heads, op.head_dim, op.layout, op.window


def _declined(gradients: Gradients, sites: Sequence[Gradients]) -> Miss | None:
    """Why these are not one operation; ``sites`` are all of the same q, k, v and dy."""
    first = next(iter(gradients.values()))
    missing = [of for of in AttentionInput if of not in gradients]
    if missing:
        listed = ", ".join(missing)
        other = next((g for g in sites if g is not gradients and any(of in g for of in missing)), None)
        if other is None:
            detail = f"the gradient with respect to {listed} is not computed"
            return Miss(Reason.GROUP_SIZE, first, detail, "nothing to do unless it is wanted")
        theirs = next(iter(other.values()))
        if theirs.mask is not first.mask:
            detail = f"the gradient with respect to {listed} has another mask"
            return Miss(Reason.MASK, first, detail, "give all three the mask of the attention")
        detail = f"the gradient with respect to {listed} has other properties"
        return Miss(Reason.ATTRIBUTES_DIFFER, first, detail, "give all three the properties of the attention")
    shapes = [shape_of(value) for value in (first.q, first.k, first.v)]
    if not all(is_static(shape) for shape in shapes):
        detail = f"the shapes {', '.join(map(show, shapes))} are not all known"
        return Miss(Reason.DYNAMIC_EXTENT, first, detail, "give q, k and v static shapes")
    if any(shape != shapes[0] for shape in shapes):
        detail = f"q, k and v have the shapes {', '.join(map(show, shapes))}"
        return Miss(Reason.SHAPES_DIFFER, first, detail, "nothing to do: one result holds gradients of one shape")
    return None


def _emit(gradients: Gradients, rewriter: PatternRewriter) -> None:
    first = next(iter(gradients.values()))
    batch = shape_of(first.q)[0]
    rewriter.insertion_point = InsertPoint.before(first)
    whole = rewriter.insert(
        AttentionBackwardAllOp(
            first.q,
            first.k,
            first.v,
            first.dy,
            first.mask,
            num_heads=first.heads,
            head_dim=first.head_dim.value.data,
            layout=first.layout.data,
            mask_kind=first.mask_kind.data,
            window=None if first.window is None else first.window.value.data,
        )
    ).result
    for position, of in enumerate(AttentionInput):
        op = gradients[of]
        rewriter.insertion_point = InsertPoint.before(op)
        rewriter.replace(op, NarrowOp(whole, 0, position * batch, batch, result_type=op.result.type))
