"""Kernels in which invocations work alone, each on a place of a box."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from rlx_dialect.lowering.to_gpu.emit import Index
from rlx_dialect.lowering.to_gpu.extents import Extent, Shape, product, up
from rlx_dialect.lowering.to_gpu.kernel import BlockSize, Kernel, LinearSpec


@dataclass(frozen=True)
class ElementSpec(LinearSpec):
    """:meth:`element` for each place of ``box``, in row-major order; ``threads`` places a workgroup."""

    box: Shape
    threads: int

    @property
    def places(self) -> Extent:
        """How many invocations have work."""
        return product(self.box)

    @property
    def block(self) -> BlockSize:
        return (self.threads, 1, 1)

    @property
    def count(self) -> Extent:
        return up(self.places, self.threads)

    def emit(self, k: Kernel) -> None:
        # A folded grid has more workgroups than were asked for.
        self.emit_group(k, k.linear_group(), all_there=k.grid_is_exact)

    def emit_group(self, k: Kernel, group: Index, *, all_there: bool) -> None:
        """Write what workgroup number ``group`` does; ``all_there``: no number is beyond :attr:`count`."""
        flat = k.i_add(k.i_mul(group, self.threads), k.thread_id())
        whole = all_there and self.places % self.threads == 0
        k.when(None if whole else k.i_less(flat, self.places), lambda: self.element(k, flat))

    @abstractmethod
    def element(self, k: Kernel, flat: Index) -> None:
        """Write what the invocation of place ``flat`` does."""
