"""What the kernels are instantiated for: one row of data a target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, i1, i8, i32, i64
from xdsl.ir import Attribute


@dataclass(frozen=True)
class Tile:
    """How a workgroup of the contraction schedule covers its part of the result.

    The workgroup makes ``rows`` x ``columns`` results from slices of ``depth`` along the contracted axis; each
    invocation makes ``per_row`` x ``per_column`` of them.
    """

    rows: int
    columns: int
    depth: int
    per_row: int
    per_column: int

    @property
    def threads(self) -> tuple[int, int]:
        """Invocations along columns and along rows."""
        return self.columns // self.per_column, self.rows // self.per_row


MATRIX = 16
"""Rows and columns of the matrices that a matrix unit multiplies."""


@dataclass(frozen=True)
class MatrixTile:
    """How a workgroup of the contraction schedule covers its part of the result with matrices.

    Each subgroup of ``subgroup`` invocations makes ``per_row`` x ``per_column`` matrices of the result.
    """

    rows: int
    columns: int
    depth: int
    per_row: int
    per_column: int
    subgroup: int = 32
    along_depth: bool = False
    """Right factors lie along the contracted axes in shared memory, as left ones do: lanes read vectors of both."""

    @property
    def threads(self) -> int:
        return self.rows * self.columns // (self.per_row * self.per_column * MATRIX * MATRIX) * self.subgroup

    # Rows of matrices in shared memory are apart by a multiple of 16 bytes, but not of all banks.

    @property
    def left_pitch(self) -> int:
        return self.depth + 8

    @property
    def right_pitch(self) -> int:
        return (self.depth if self.along_depth else self.columns) + 8

    @property
    def sum_pitch(self) -> int:
        return self.columns + 8

    def shared(self, rights: int, buffers: int, size: int) -> int:
        """Bytes of shared memory for ``rights`` right factors of elements of ``size`` bytes."""
        right = self.right_pitch * (self.columns if self.along_depth else self.depth)
        slices = self.rows * self.left_pitch + rights * right
        return slices * buffers * size + rights * self.rows * self.sum_pitch * 4


@dataclass(frozen=True)
class AttentionTile:
    """How a workgroup of the attention schedule covers queries and keys.

    It makes ``rows`` rows of the result from slices of ``keys`` keys and values; ``lanes`` invocations share a row,
    and each has ``per_row`` rows. ``lanes`` divides ``keys``, and ``per_row`` divides ``rows``.
    """

    rows: int
    keys: int
    lanes: int
    per_row: int

    @property
    def threads(self) -> int:
        return self.rows // self.per_row * self.lanes

    def shared(self, dim: int, value_dim: int) -> int:
        """Elements in shared memory for heads of ``dim`` in Q and K and ``value_dim`` in V: rows of odd pitch."""
        queries, slices = self.rows * (dim | 1), self.keys * (max(dim, value_dim) | 1)
        return queries + slices + 2 * self.rows * (self.keys | 1)


@dataclass(frozen=True)
class Hardware:
    """A GPU as the schedules see it."""

    name: str
    workgroup: int
    """Invocations of a one-dimensional workgroup; a power of two."""
    subgroup: int
    """Neighbouring invocations that read each other's registers, a power of two; 0 where kernels cannot know it."""
    held: int
    """Values of a row that one invocation keeps in registers; of longer rows they are read again for each use."""
    shared_bytes: int
    """Memory that the invocations of one workgroup share."""
    max_buffers: int
    """Buffers that one kernel may take."""
    max_groups: int
    """Workgroups along one dimension of a grid."""
    elements: tuple[type[Attribute], ...]
    """Float element types in buffers."""
    integer_widths: tuple[int, ...]
    """Widths of integer elements in buffers."""
    bool_storage: IntegerType
    """What holds an i1 in a buffer."""
    extent: IntegerType
    """What holds an extent that a kernel is told when it runs: an integer of the width of its indices."""
    shared_global: bool
    """Shared memory is an uninitialised memref.global of the gpu.module (else a memref.alloc in the kernel)."""
    expand: frozenset[str]
    """arith and math operations that :mod:`.expand` writes in simpler ones: the compiler has none, or a wrong one."""
    vector_bytes: int
    """Bytes of a buffer that one invocation reads at a time; 0 where it reads single elements."""
    units: int
    """Workgroups that run at a time on a device of the middle size: with fewer, a part of it idles."""
    slices: int
    """Slices of each factor that a tiled contraction holds: 2 where the next is read while the last is used."""
    tiles: tuple[Tile, ...]
    """Contraction tiles, the largest first."""
    matrix: tuple[MatrixTile, ...]
    """Contraction tiles for its matrix unit, which sums in f32; none where there is no unit."""
    matrix_elements: tuple[type[Attribute], ...]
    """What its matrix unit multiplies."""
    attention: tuple[AttentionTile, ...]
    """Attention tiles, those of more rows first; of those with equally many the larger first."""

    def storage(self, element: Attribute) -> Attribute | None:
        """The type that holds ``element`` in a buffer; None where this hardware has none."""
        if element == i1:
            return self.bool_storage
        if isinstance(element, IntegerType):
            return IntegerType(element.width.data) if element.width.data in self.integer_widths else None
        return element if isinstance(element, self.elements) else None


_TILES = (Tile(64, 64, 16, 4, 4), Tile(32, 32, 16, 2, 2), Tile(16, 16, 16, 1, 1))

_MATRIX = (MatrixTile(64, 64, 32, 2, 2), MatrixTile(64, 32, 32, 2, 1), MatrixTile(32, 32, 32, 1, 1))
_APPLE_MATRIX = (*_MATRIX, MatrixTile(64, 64, 16, 2, 2))
_AMD_MATRIX = tuple(replace(tile, subgroup=64, along_depth=True) for tile in _MATRIX)

_ATTENTION = (
    AttentionTile(64, 32, 16, 4),
    AttentionTile(32, 32, 16, 2),
    AttentionTile(32, 16, 16, 2),
    AttentionTile(16, 32, 16, 1),
    AttentionTile(16, 16, 16, 1),
    AttentionTile(8, 32, 32, 1),
    AttentionTile(8, 16, 16, 1),
    AttentionTile(4, 32, 32, 1),
    AttentionTile(4, 8, 8, 1),
    AttentionTile(1, 128, 128, 1),
    AttentionTile(1, 64, 64, 1),
    AttentionTile(1, 32, 32, 1),
    AttentionTile(1, 8, 8, 1),
    AttentionTile(1, 2, 2, 1),
)

# SPIR-V integers reach wgpu's translator (naga, in wgpu 0.32) without a sign: it takes signed division, conversion,
# extension, shifts, minimum and maximum for unsigned ones. It takes comparisons that are true with NaN for ordered
# ones, and refuses literals that are not finite. erf, atan2, exp2 and trunc have no conversion to SPIR-V; Vulkan
# allows atan 4096 ULP, pow is converted with a NaN literal, and tanh may overflow.
_SPIRV_EXPAND = frozenset(
    {
        "arith.cmpf",
        "arith.constant",
        "arith.divsi",
        "arith.extsi",
        "arith.fptosi",
        "arith.maximumf",
        "arith.maxsi",
        "arith.maxui",
        "arith.minimumf",
        "arith.minsi",
        "arith.minui",
        "arith.remf",
        "arith.remsi",
        "arith.shrsi",
        "arith.sitofp",
        "math.absi",
        "math.atan",
        "math.atan2",
        "math.erf",
        "math.exp2",
        "math.powf",
        "math.tanh",
        "math.trunc",
    }
)

# What the ROCDL conversion turns into calls of AMD's device library, which nothing here links.
_ROCM_EXPAND = frozenset(
    {
        "arith.remf",
        "math.atan",
        "math.atan2",
        "math.cos",
        "math.erf",
        "math.expm1",
        "math.log1p",
        "math.powf",
        "math.rsqrt",
        "math.sin",
        "math.tan",
        "math.tanh",
    }
)

HARDWARE: dict[str, Hardware] = {
    row.name: row
    for row in (
        Hardware(
            name="metal",
            workgroup=256,
            subgroup=32,
            held=16,
            shared_bytes=32768,
            max_buffers=31,
            max_groups=65535,
            elements=(Float16Type, Float32Type),
            integer_widths=(32, 64),
            bool_storage=i32,
            extent=i32,
            shared_global=False,
            expand=_SPIRV_EXPAND,
            vector_bytes=0,
            units=32,
            slices=1,
            tiles=_TILES,
            matrix=_APPLE_MATRIX,
            matrix_elements=(Float16Type, Float32Type),
            attention=_ATTENTION,
        ),
        Hardware(
            name="wgpu",
            workgroup=256,
            # A device of WebGPU chooses it, from 4 to 128, and says it after kernels are written.
            subgroup=0,
            held=8,
            shared_bytes=16384,
            max_buffers=8,
            max_groups=65535,
            elements=(Float16Type, Float32Type),
            integer_widths=(32, 64),
            bool_storage=i32,
            extent=i32,
            shared_global=False,
            expand=_SPIRV_EXPAND,
            vector_bytes=0,
            units=32,
            slices=1,
            tiles=_TILES,
            matrix=(),
            matrix_elements=(),
            attention=_ATTENTION,
        ),
        Hardware(
            name="cuda",
            workgroup=256,
            subgroup=32,
            held=32,
            shared_bytes=49152,
            max_buffers=64,
            max_groups=65535,
            elements=(Float16Type, BFloat16Type, Float32Type, Float64Type),
            integer_widths=(8, 16, 32, 64),
            bool_storage=i8,
            extent=i64,
            shared_global=True,
            expand=frozenset(),
            vector_bytes=16,
            units=128,
            slices=2,
            tiles=_TILES,
            matrix=_MATRIX,
            matrix_elements=(Float16Type,),
            attention=_ATTENTION,
        ),
        Hardware(
            name="rocm",
            workgroup=256,
            # Waves are of 64, but RDNA's exchange values in halves only.
            subgroup=32,
            held=32,
            shared_bytes=65536,
            max_buffers=64,
            max_groups=65535,
            elements=(Float16Type, BFloat16Type, Float32Type, Float64Type),
            integer_widths=(8, 16, 32, 64),
            bool_storage=i8,
            extent=i64,
            shared_global=True,
            expand=_ROCM_EXPAND,
            vector_bytes=16,
            units=128,
            slices=2,
            tiles=_TILES,
            matrix=_AMD_MATRIX,
            matrix_elements=(Float16Type, BFloat16Type),
            attention=_ATTENTION,
        ),
    )
}
"""The targets of ``rlx-lower-to-gpu``."""

# A device of Vulkan 1.3 with cooperative matrices of f16, 16 x 16, and subgroups of 32. WebGPU has none of it.
HARDWARE["vulkan"] = replace(
    HARDWARE["wgpu"],
    name="vulkan",
    shared_bytes=32768,
    max_buffers=31,
    matrix=_MATRIX,
    matrix_elements=(Float16Type,),
)
