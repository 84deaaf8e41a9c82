"""RLX to native CPU kernels: the schedules of :mod:`rlx_dialect.lowering.to_gpu`, written for cores with vectors."""

from rlx_dialect.lowering.to_cpu.conversion import LowerToCpu

__all__ = ["LowerToCpu"]
