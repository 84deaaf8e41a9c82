"""The map schedule: one invocation an element of the result.

Element-wise operations and regions with NumPy broadcasting, and every copy that an operand's addressing can
express. Operands need not be dense: a broadcast, transposed or sliced operand is read where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, product, up
from rlx_dialect.lowering.to_gpu.kernel import Access, BlockSize, Body, Kernel, LinearSpec, Operands
from rlx_dialect.lowering.to_gpu.views import View, coalesce, dense_strides


@dataclass(frozen=True)
class MapSpec(LinearSpec):
    """outputs[i…] = body(inputs[i…]) for i… in the box ``shape``."""

    shape: Shape
    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]
    body: Body
    threads: int

    @property
    def block(self) -> BlockSize:
        return (self.threads, 1, 1)

    @property
    def count(self) -> Extent:
        return up(product(self.shape), self.threads)

    def emit(self, k: Kernel) -> None:
        count = product(self.shape)
        flat = k.i_add(k.i_mul(k.linear_group(), self.threads), k.thread_id())
        # A folded grid has more workgroups than were asked for.
        whole = count % self.threads == 0 and k.grid_is_exact
        k.when(None if whole else k.i_less(flat, count), lambda: self._element(k, flat))

    def _element(self, k: Kernel, flat: Index) -> None:
        dense = dense_strides(self.shape)
        needed = any(a.strides != dense for a in (*self.inputs, *self.outputs))
        coordinates = k.split(flat, self.shape) if needed else []

        def at(access: Access) -> tuple[Access, Sequence[Index]]:
            return (replace(access, strides=(1,)), [flat]) if access.strides == dense else (access, coordinates)

        values = [k.load(*at(access)) for access in self.inputs]
        for value, access in zip(self.body.write(k.b, values), self.outputs, strict=True):
            k.store(value, *at(access))


def map_kernel(inputs: Sequence[View], outputs: Sequence[View], body: Body, threads: int) -> tuple[MapSpec, Operands]:
    """The kernel that applies ``body`` to ``inputs``, broadcast to the (one) shape of the outputs, and its buffers."""
    shape = outputs[0].shape
    views = [*(v.broadcast(shape) for v in inputs), *outputs]
    box, strides = coalesce(shape, [v.strides for v in views])
    operands = Operands()
    accesses = [operands.access(v, s) for v, s in zip(views, strides, strict=True)]
    split = len(inputs)
    return MapSpec(operands.slots, box, tuple(accesses[:split]), tuple(accesses[split:]), body, threads), operands
