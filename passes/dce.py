"""Operations without effects whose results are not used are deleted, and so what only they used.

Before::

    %0 = rlx.activation exp %x : tensor<4x8xf32>
    %1 = rlx.activation neg %0 : tensor<4x8xf32>
    %2 = rlx.activation tanh %x : tensor<4x8xf32>
    func.return %2 : tensor<4x8xf32>

After::

    %2 = rlx.activation tanh %x : tensor<4x8xf32>
    func.return %2 : tensor<4x8xf32>

Arguments of functions stay, used or not: they are the interface that a caller binds by name and by position.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from rlx_dialect.operation import is_dead
from rlx_dialect.xdsl_compat import Context, ModulePass, Rewriter


def erase_dead(root: Operation) -> bool:
    """Delete what is dead in the regions of ``root``, users before what they use; whether there was any."""
    changed = False
    for region in root.regions:
        for block in reversed(region.blocks):
            op = block.last_op
            while op is not None:
                previous = op.prev_op
                if is_dead(op):
                    Rewriter.erase_op(op)
                    changed = True
                elif op.regions:
                    changed |= erase_dead(op)
                op = previous
    return changed


@dataclass(frozen=True)
class DeadCodeElimination(ModulePass):
    name = "rlx-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # Once is enough unless a use lies in an earlier block than the definition.
        while erase_dead(op):
            pass
