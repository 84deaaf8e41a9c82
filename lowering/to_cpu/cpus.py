"""What the CPU kernels are instantiated for: one row of data an instruction set."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import FixedBitwidthType, i8
from xdsl.ir import Attribute

from rlx_dialect.lowering.to_gpu.hardware import HARDWARE, Hardware


@dataclass(frozen=True)
class Cpu:
    """A core as the schedules see it."""

    name: str
    vector_bytes: int
    registers: int
    """Vector registers."""
    cache_bytes: int
    """What a core may keep of a panel of the right factor while it goes over the rows: about half its own cache."""

    def lanes(self, element: Attribute) -> int:
        """Elements of one vector."""
        assert isinstance(element, FixedBitwidthType)
        return self.vector_bytes * 8 // max(element.bitwidth, 8)


CPUS: dict[str, Cpu] = {
    row.name: row
    for row in (
        Cpu("avx512", vector_bytes=64, registers=32, cache_bytes=640 << 10),
        Cpu("avx2", vector_bytes=32, registers=16, cache_bytes=192 << 10),
        Cpu("neon", vector_bytes=16, registers=32, cache_bytes=192 << 10),
    )
}
"""By instruction set."""

BUFFERS: Hardware = replace(
    HARDWARE["cuda"],
    name="cpu",
    shared_bytes=1 << 40,
    max_buffers=1 << 10,
    max_groups=1 << 40,
    bool_storage=i8,
    expand=frozenset(),
    vector_bytes=0,
)
"""What the op files ask of a target: memory holds every element type, and neither buffers nor grids have limits."""


@cache
def host_cpu() -> str:
    """The name of this machine's row."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "neon"
    info = Path("/proc/cpuinfo")
    flags = info.read_text(errors="replace") if info.is_file() else ""
    return "avx512" if "avx512f" in flags else "avx2"
