"""The kernels of a module for a CPU, and the host functions that launch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from rlx_dialect.graph import arguments
from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.expansion import expand
from rlx_dialect.lowering.to_cpu.attention import (
    Attention,
    PackedAttention,
    choose_tiles,
    keys_factor,
    values_factor,
)
from rlx_dialect.lowering.to_cpu.contraction import (
    Contraction,
    PackedContraction,
    choose_tile,
    may_own_panels,
    reads_left_in_place,
)
from rlx_dialect.lowering.to_cpu.cpus import BUFFERS, Cpu
from rlx_dialect.lowering.to_cpu.invocations import Invocations
from rlx_dialect.lowering.to_cpu.kernel import CpuKernel, Schedule
from rlx_dialect.lowering.to_cpu.known import all_known, product
from rlx_dialect.lowering.to_cpu.map import Map, Parts
from rlx_dialect.lowering.to_cpu.packing import Pack, PackSpec, alone
from rlx_dialect.lowering.to_cpu.rows import Rows
from rlx_dialect.lowering.to_gpu.attention import AttentionSpec
from rlx_dialect.lowering.to_gpu.contraction_spec import ContractionSpec, Factor
from rlx_dialect.lowering.to_gpu.elementary import ELEMENTARY
from rlx_dialect.lowering.to_gpu.extents import Extent
from rlx_dialect.lowering.to_gpu.host import KERNELS, LOAD_TIME, Host, KernelModule
from rlx_dialect.lowering.to_gpu.kernel import KernelSpec, Operands
from rlx_dialect.lowering.to_gpu.map import MapSpec, PartsSpec
from rlx_dialect.lowering.to_gpu.rows import RowSpec
from rlx_dialect.lowering.to_gpu.views import Buffer

SCHEDULES: Mapping[type[KernelSpec], type[Schedule[Any]]] = {
    KernelSpec: Invocations,
    MapSpec: Map,
    PartsSpec: Parts,
    RowSpec: Rows,
    PackSpec: Pack,
    PackedContraction: Contraction,
    PackedAttention: Attention,
}
"""Who writes a spec for a CPU: what stands here for the nearest of its base classes."""


class CpuKernels(KernelModule):
    """A module of ``func.func`` kernels, each distinct one once."""

    def __init__(self, cpu: Cpu):
        super().__init__(BUFFERS)
        self.cpu = cpu
        self.op = ModuleOp([], sym_name=StringAttr(KERNELS))

    def schedule(self, spec: KernelSpec) -> Schedule[Any]:
        return next(SCHEDULES[c] for c in type(spec).__mro__ if c in SCHEDULES)(spec, self.cpu)

    def write(self, name: str, spec: KernelSpec) -> list[Operation]:
        schedule = self.schedule(spec)
        kernel = CpuKernel(name, spec, self.cpu)
        schedule.emit(kernel)
        function = kernel.function(schedule.work)
        expand(function, ELEMENTARY)
        return [function]

    def extents(self, spec: KernelSpec) -> tuple[int, ...]:
        return (self.schedule(spec).groups, 1, 1, 1, 1, 1)

    def host(self, function: FuncOp) -> Host:
        return CpuHost(function, self)


class CpuHost(Host):
    """Writes the host function of one graph; contractions read panels, which are packed by launches of their own."""

    kernels: CpuKernels

    def __init__(self, function: FuncOp, kernels: CpuKernels):
        super().__init__(function, kernels)
        kinds = [a.kind for a in arguments(function)]
        self._params = {a for a, kind in zip(self._entry.args, kinds, strict=True) if kind == "param"}
        self._panels: dict[tuple[PackSpec, tuple[Buffer, ...]], Buffer] = {}

    def launch(self, hint: str, spec: KernelSpec, operands: Operands) -> None:
        match spec:
            case ContractionSpec():
                self._contraction(hint, spec, operands)
            case AttentionSpec():
                self._attention(hint, spec, operands)
            case _:
                super().launch(hint, spec, operands)

    def _contraction(self, hint: str, spec: ContractionSpec, operands: Operands) -> None:
        if spec.rhs.type == i1:
            raise NotLowered("products of truth values have no CPU form")
        tile = choose_tile(self.kernels.cpu, spec)
        packs_left = not reads_left_in_place(spec)

        def packed(factor: Factor, free: Sequence[Extent], width: int) -> Buffer:
            return self._packed(spec.batch, factor, free, spec.depth, width, operands)

        changes = not all(self._is_load_time(b.value) for r in spec.rights for b in alone(r, operands)[1].buffers)
        own = changes and may_own_panels(self.kernels.cpu, spec, tile)
        panels = [packed(spec.lhs, spec.rows, tile.rows)] if packs_left else []
        if not own:
            panels += [packed(right, spec.columns, tile.width) for right in spec.rights]
        both = Operands([*operands.buffers, *panels])
        super().launch(hint, PackedContraction(both.slots, spec, tile, packs_left, own), both)

    def _attention(self, hint: str, spec: AttentionSpec, operands: Operands) -> None:
        to_keys, to_values = choose_tiles(self.kernels.cpu, spec)
        keys, dim, value_dim = (spec.keys,), (spec.dim,), (spec.value_dim,)
        panels = [
            self._packed(spec.batch, keys_factor(spec), keys, dim, to_keys.width, operands),
            self._packed(spec.batch, values_factor(spec), value_dim, keys, to_values.width, operands),
        ]
        both = Operands([*operands.buffers, *panels])
        super().launch(hint, PackedAttention(both.slots, spec, to_keys, to_values), both)

    def _packed(
        self,
        batch: Sequence[Extent],
        factor: Factor,
        free: Sequence[Extent],
        depth: Sequence[Extent],
        width: int,
        operands: Operands,
    ) -> Buffer:
        """The panels of a factor; those of what is known at load time are made once."""
        own, buffers = alone(factor, operands)
        read = tuple(buffers.buffers)
        pack = PackSpec((), all_known(batch), all_known(free), all_known(depth), own, width)
        made_before = self._panels.get((pack, read))
        if made_before is not None:
            return made_before
        size = pack.groups[0] * product(depth) * width
        view = self.new(factor.type, (size,), "panels")
        assert isinstance(view.source, Buffer)
        self._panels[pack, read] = view.source
        made = Operands([*read, view.source])
        super().launch("pack", replace(pack, slots=made.slots), made)
        if all(self._is_load_time(buffer.value) for buffer in read):
            for op in (view.source.value.owner, self._entry.last_op):
                assert isinstance(op, Operation)
                op.attributes[LOAD_TIME] = UnitAttr()
        return view.source

    def _is_load_time(self, value: SSAValue) -> bool:
        """Whether a buffer holds a parameter or a constant."""
        match value.owner:
            case memref.ReinterpretCastOp():
                return self._is_load_time(value.owner.source)
            case memref.GetGlobalOp():
                return True
            case _:
                return value in self._params
