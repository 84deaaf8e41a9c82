"""Shape rules on plain tuples of ints; a dynamic extent, MLIR's textual ``?``, is ``DYNAMIC``.

Every rule raises :class:`ShapeError` with what was expected and what was found. An extent that is only
known at run time is compatible with anything; where a static extent meets a dynamic one, the static one
is the better knowledge and is kept (except that a broadcast against 1 stays dynamic: it may be 1 or not).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

DYNAMIC = DYNAMIC_INDEX
Shape = tuple[int, ...]


class ShapeError(ValueError):
    """Operand shapes that an operation cannot take."""


def show(shape: Sequence[int]) -> str:
    return "x".join("?" if d == DYNAMIC else str(d) for d in shape) or "scalar"


def is_static(shape: Sequence[int]) -> bool:
    return DYNAMIC not in shape


def compatible(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether the two can be the shape of one value."""
    return len(a) == len(b) and all(x == y or DYNAMIC in (x, y) for x, y in zip(a, b, strict=True))


def _same_extent(a: int, b: int, what: str) -> int:
    if a == DYNAMIC:
        return b
    if b in (DYNAMIC, a):
        return a
    raise ShapeError(f"{what}: {a} and {b} differ")


def broadcast(*shapes: Sequence[int]) -> Shape:
    """NumPy broadcasting: right-aligned, 1 expands."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[int] = []
    for axis in range(-rank, 0):
        extents = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        static = extents - {DYNAMIC}
        if len(static) > 1:
            raise ShapeError(f"shapes {' and '.join(map(show, shapes))} do not broadcast at axis {axis}")
        result.append(static.pop() if static else DYNAMIC if extents else 1)
    return tuple(result)


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether broadcasting provably turns ``shape`` into exactly ``target`` (a dynamic extent only into itself)."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(s == 1 or s == t for s, t in zip(shape, tail, strict=True))


def can_broadcast_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether broadcasting may turn ``shape`` into exactly ``target``: what is dynamic may turn out to fit."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(s in (1, t) or DYNAMIC in (s, t) for s, t in zip(shape, tail, strict=True))


def matmul(lhs: Sequence[int], rhs: Sequence[int]) -> Shape:
    """[..., M, K] x [..., K, N] -> [..., M, N] with broadcast batch dimensions."""
    if len(lhs) < 2 or len(rhs) < 2:
        raise ShapeError(f"operands of rank 2 or more expected, got {show(lhs)} and {show(rhs)}")
    _same_extent(lhs[-1], rhs[-2], "contracted extents (lhs last, rhs second last)")
    return (*broadcast(lhs[:-2], rhs[:-2]), lhs[-2], rhs[-1])


def dot_general(
    lhs: Sequence[int],
    rhs: Sequence[int],
    lhs_contracting: Sequence[int],
    rhs_contracting: Sequence[int],
    lhs_batch: Sequence[int],
    rhs_batch: Sequence[int],
) -> Shape:
    """Batch dimensions, then the free ones of lhs, then those of rhs (as in XLA's DotGeneral)."""
    for name, axes, shape in (
        ("lhs", (*lhs_batch, *lhs_contracting), lhs),
        ("rhs", (*rhs_batch, *rhs_contracting), rhs),
    ):
        if len(set(axes)) != len(axes) or any(not 0 <= a < len(shape) for a in axes):
            raise ShapeError(f"{name} axes {list(axes)} must be distinct and within rank {len(shape)}")
    if len(lhs_contracting) != len(rhs_contracting) or len(lhs_batch) != len(rhs_batch):
        raise ShapeError("lhs and rhs must list as many contracting and batch axes")
    for a, b in zip(lhs_contracting, rhs_contracting, strict=True):
        _same_extent(lhs[a], rhs[b], f"contracted extents (lhs axis {a}, rhs axis {b})")
    batch = [
        _same_extent(lhs[a], rhs[b], f"batch extents (lhs axis {a}, rhs axis {b})")
        for a, b in zip(lhs_batch, rhs_batch, strict=True)
    ]
    lhs_free = [d for i, d in enumerate(lhs) if i not in {*lhs_batch, *lhs_contracting}]
    rhs_free = [d for i, d in enumerate(rhs) if i not in {*rhs_batch, *rhs_contracting}]
    return (*batch, *lhs_free, *rhs_free)


def normal_axis(axis: int, rank: int) -> int:
    """``axis`` counted from the front; negative axes count from the back."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is outside rank {rank}")
    return axis % rank


def normal_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    normal = tuple(normal_axis(a, rank) for a in axes)
    if len(set(normal)) != len(normal):
        raise ShapeError(f"axes {list(axes)} name one axis twice")
    return normal


def from_front(axes: Sequence[int], rank: int) -> list[int]:
    """Negative ``axes`` counted from the front; one outside the rank is left for the verifier to name."""
    return [a % rank if -rank <= a < rank else a for a in axes]


def reduce(shape: Sequence[int], axes: Sequence[int], keep_dim: bool) -> Shape:
    dropped = set(normal_axes(axes, len(shape)))
    if keep_dim:
        return tuple(1 if i in dropped else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in dropped)


def reshape(shape: Sequence[int], new_shape: Sequence[int]) -> Shape:
    """At most one -1 in ``new_shape``; it takes what is left, which is dynamic when the operand is."""
    if any(d < -1 for d in new_shape) or list(new_shape).count(-1) > 1:
        raise ShapeError(f"new_shape {list(new_shape)} may hold one -1 and no other negative extent")
    known = product(d for d in new_shape if d != -1)
    if -1 in new_shape and known == 0:
        raise ShapeError(f"new_shape {list(new_shape)}: what is left for -1 is not known beside an extent of 0")
    if not is_static(shape):
        part = product(d for d in shape if d != DYNAMIC)
        if -1 not in new_shape and (known % part if part else known):
            raise ShapeError(f"{show(shape)} cannot have the {known} elements of new_shape {list(new_shape)}")
        return tuple(DYNAMIC if d == -1 else d for d in new_shape)
    total = product(shape)
    if -1 not in new_shape:
        if known != total:
            raise ShapeError(f"{show(shape)} has {total} elements, new_shape {list(new_shape)} has {known}")
        return tuple(new_shape)
    if total % known:
        raise ShapeError(f"{total} elements of {show(shape)} do not divide into new_shape {list(new_shape)}")
    return tuple(total // known if d == -1 else d for d in new_shape)


def transpose(shape: Sequence[int], perm: Sequence[int]) -> Shape:
    if sorted(perm) != list(range(len(shape))):
        raise ShapeError(f"perm {list(perm)} is no permutation of the {len(shape)} axes")
    return tuple(shape[p] for p in perm)


def strided_slice(shape: Sequence[int], axis: int, start: int, length: int) -> Shape:
    """``shape`` with ``length`` elements from ``start`` along ``axis``; both are checked where the extent is static."""
    axis = normal_axis(axis, len(shape))
    if start < 0 or length < 0:
        raise ShapeError(f"start {start} and len {length} must not be negative")
    if shape[axis] != DYNAMIC and start + length > shape[axis]:
        raise ShapeError(f"start {start} + len {length} exceeds extent {shape[axis]} of axis {axis}")
    return (*shape[:axis], length, *shape[axis + 1 :])


def concat(shapes: Sequence[Sequence[int]], axis: int) -> Shape:
    first = shapes[0]
    axis = normal_axis(axis, len(first))
    result = list(first)
    for shape in shapes[1:]:
        if len(shape) != len(first):
            raise ShapeError(f"ranks differ: {show(first)} and {show(shape)}")
        for i, extent in enumerate(shape):
            if i != axis:
                result[i] = _same_extent(result[i], extent, f"extents of axis {i}")
    extents = [s[axis] for s in shapes]
    result[axis] = DYNAMIC if DYNAMIC in extents else sum(extents)
    return tuple(result)


def expand(shape: Sequence[int], target: Sequence[int]) -> Shape:
    """Broadcast to ``target``; -1 there keeps the operand's extent (right-aligned), as in torch.expand."""
    if len(shape) > len(target):
        raise ShapeError(f"{show(shape)} has more axes than target {list(target)}")
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    result: list[int] = []
    for axis, (have, want) in enumerate(zip(padded, target, strict=True)):
        if want < -1 or (want == -1 and axis < len(target) - len(shape)):
            raise ShapeError(f"target {list(target)}: extent {want} of axis {axis} has nothing to keep")
        if want != -1 and have not in (1, want, DYNAMIC):
            raise ShapeError(f"{show(shape)} does not broadcast to target {list(target)} at axis {axis}")
        result.append(have if want == -1 else want)
    return tuple(result)


def gather(table: Sequence[int], indices: Sequence[int], axis: int) -> Shape:
    axis = normal_axis(axis, len(table))
    return (*table[:axis], *indices, *table[axis + 1 :])


def window(extent: int, kernel: int, stride: int, before: int, after: int, dilation: int) -> int:
    """Output extent of a convolution or pooling window along one axis."""
    if extent == DYNAMIC:
        return DYNAMIC
    span = extent + before + after - dilation * (kernel - 1) - 1
    if span < 0:
        raise ShapeError(
            f"window of {dilation * (kernel - 1) + 1} does not fit extent {extent} padded by {before}+{after}"
        )
    return span // stride + 1


def resize_nearest_2x(shape: Sequence[int]) -> Shape:
    """Dims 2 and 3 of NCHW doubled."""
    if len(shape) != 4:
        raise ShapeError(f"a tensor of rank 4 (NCHW) expected, got {show(shape)}")
    return (*shape[:2], *(d if d == DYNAMIC else 2 * d for d in shape[2:]))


def paddings(padding: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """(before, after) of each spatial axis from ``rank`` numbers (symmetric) or 2*rank (all befores, all afters)."""
    if len(padding) == rank:
        return [(p, p) for p in padding]
    if len(padding) == 2 * rank:
        return list(zip(padding[:rank], padding[rank:], strict=True))
    raise ShapeError(f"padding {list(padding)} must list {rank} or {2 * rank} numbers")


def product(extents: Iterable[int]) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result


def element_count(shape: Sequence[int]) -> int | None:
    """Number of elements, or None when it is not known."""
    return product(shape) if is_static(shape) else None
