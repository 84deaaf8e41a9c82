"""Gather: one invocation an element of the result, which reads its index first."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from rlx_dialect.dtypes import is_unsigned
from rlx_dialect.lowering.to_gpu.conversion import lowers
from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.host import Host
from rlx_dialect.lowering.to_gpu.kernel import Access, Grid, Kernel, LinearSpec, Operands
from rlx_dialect.lowering.to_gpu.views import coalesce
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.shapes import Shape, product


@dataclass(frozen=True)
class GatherSpec(LinearSpec):
    """result[o, i, n] = table[o, indices[i], n] for each o, i, n of the three boxes."""

    outer: Shape
    chosen: Shape
    inner: Shape
    table: Access
    """Strides of the outer axes, the gathered one, and the inner ones."""
    indices: Access
    result: Access
    extent: int
    threads: int

    @property
    def box(self) -> Shape:
        return (*self.outer, *self.chosen, *self.inner)

    @property
    def block(self) -> Grid:
        return (self.threads, 1, 1)

    @property
    def count(self) -> int:
        return -(-product(self.box) // self.threads)

    def emit(self, k: Kernel) -> None:
        flat = k.i_add(k.i_mul(k.linear_group(), self.threads), k.thread_id())
        k.when(k.i_less(flat, product(self.box)), lambda: self._element(k, flat))

    def _element(self, k: Kernel, flat: Index) -> None:
        coordinates = k.split(flat, self.box)
        first, last = len(self.outer), len(self.outer) + len(self.chosen)
        index = self._position(k, k.load(self.indices, coordinates[first:last]))
        value = k.load(self.table, [*coordinates[:first], index, *coordinates[last:]])
        k.store(value, self.result, coordinates)

    def _position(self, k: Kernel, index: SSAValue) -> SSAValue:
        """An index counted from the front; one outside the axis, which means nothing, reads the last element."""
        if not is_unsigned(self.indices.element):
            below = k.op(arith.CmpiOp(index, k.constant(0, index.type), "slt"))
            from_back = k.op(arith.AddiOp(index, k.constant(self.extent, index.type)))
            index = k.op(arith.SelectOp(below, from_back, index))
        position = k.op(arith.IndexCastOp(index, IndexType()))
        return k.op(arith.SelectOp(k.i_less(position, self.extent), position, k.index(self.extent - 1)))


@lowers(GatherOp)
def gather(op: GatherOp, h: Host) -> None:
    table, indices, result = h.view(op.table), h.view(op.indices), h.result(op.result)
    axis = op.axis_index
    end = axis + len(indices.shape)
    outer, (outer_table, outer_result) = coalesce(table.shape[:axis], [table.strides[:axis], result.strides[:axis]])
    chosen, (own, chosen_result) = coalesce(indices.shape, [indices.strides, result.strides[axis:end]])
    inner, (inner_table, inner_result) = coalesce(
        table.shape[axis + 1 :], [table.strides[axis + 1 :], result.strides[end:]]
    )
    operands = Operands()
    spec = GatherSpec(
        table=operands.access(table, (*outer_table, table.strides[axis], *inner_table)),
        indices=operands.access(indices, own),
        result=operands.access(result, (*outer_result, *chosen_result, *inner_result)),
        slots=operands.slots,
        outer=outer,
        chosen=chosen,
        inner=inner,
        extent=table.shape[axis],
        threads=h.hardware.workgroup,
    )
    if product(result.shape):
        h.launch("gather", spec, operands)
