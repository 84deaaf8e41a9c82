"""Matrix products of one input become one product of all their weights side by side, and parts of it.

Before::

    %q = rlx.matmul %x, %wq : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    %k = rlx.matmul %x, %wk : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>

After::

    %0 = rlx.concat %wq, %wk {axis = 1} : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<4x10xf32>
    %1 = rlx.matmul %x, %0 : (tensor<2x4xf32>, tensor<4x10xf32>) -> tensor<2x10xf32>
    %q = rlx.narrow %1 {axis = 1, start = 0, len = 8} : tensor<2x10xf32> -> tensor<2x8xf32>
    %k = rlx.narrow %1 {axis = 1, start = 8, len = 2} : tensor<2x10xf32> -> tensor<2x2xf32>

Products with a bias and no activation are put together in the same way. The weights and biases are known at load time,
so that the concatenation is made once. The one product stands at the first of the old ones; weights that are computed
later are computed before it. More products than ``max_group``, or larger weights than ``max_elements``, make several
groups in program order. The time is linear in the number of operations. Numerics: ``exact``, since each column of the
one product is the sum that it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from rlx_dialect.base import rank_of, shape_of
from rlx_dialect.graph import is_load_time
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp, MatMulOp
from rlx_dialect.ops.shape import ConcatOp, NarrowOp
from rlx_dialect.passes.matching.fusion import FusionPass, Miss, Numerics, Reason
from rlx_dialect.passes.matching.observe import recording
from rlx_dialect.passes.matching.packing import Product, not_packable, packed
from rlx_dialect.passes.matching.values import Place, defining, is_used
from rlx_dialect.shapes import product
from rlx_dialect.xdsl_compat import InsertPoint, PatternRewriter


@dataclass(frozen=True)
class FuseSharedInputMatMul(FusionPass):
    """``max_group`` products and weights of ``max_elements`` elements are the most that become one product."""

    name = "rlx-fuse-shared-input-matmul"
    produces: ClassVar = (MatMulOp, FusedMatMulBiasActOp)
    numerics: ClassVar = Numerics.EXACT

    max_group: int = 4
    max_elements: int = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.max_group < 2 or self.max_elements < 1:
            raise ValueError(
                f"max-group must be at least 2 and max-elements 1, got {self.max_group} and {self.max_elements}"
            )

    def run(self, module: ModuleOp) -> list[Miss]:
        load_time: dict[SSAValue, bool] = {}
        return [miss for block in list(module.walk_blocks()) for miss in self._run_on(block, load_time)]

    def _run_on(self, block: Block, load_time: dict[SSAValue, bool]) -> list[Miss]:
        positions = {op: index for index, op in enumerate(block.ops)}
        misses: list[Miss] = []
        groups: list[list[Product]] = []
        for members in _by_input(block):
            fitting: list[Product] = []
            for member in members:
                miss = _has_activation(member) or not_packable(member, member.op, load_time)
                if miss is None:
                    fitting.append(member)
                else:
                    misses.append(miss)
            for alike in _alike(fitting):
                for group in self._split(alike):
                    if len(group) > 1:
                        groups.append(group)
                    elif len(alike) > 1:
                        misses.append(self._left_over(group[0], alike))
        misses.sort(key=lambda miss: positions[miss.op])
        # In program order: what one group moves up is then not behind the first member of a later one.
        for group in sorted(groups, key=lambda group: positions[group[0].op]):
            place = _place(group, positions, load_time)
            with recording(type(self).__name__, self.numerics) as rewriter:
                _emit(group, place, rewriter)
        return misses

    def _split(self, members: Sequence[Product]) -> list[list[Product]]:
        """Groups of about one size, none too large, in order. Two that follow each other do not fit into one."""
        total = sum(_parts(member) for member in members)
        size = -(-total // -(-total // self.max_group)) if members else 0
        groups: list[list[Product]] = []
        parts = elements = 0
        for member in members:
            parts += _parts(member)
            elements += _elements(member)
            if not groups or parts > size or elements > self.max_elements:
                groups.append([])
                parts, elements = _parts(member), _elements(member)
            groups[-1].append(member)
        return groups

    def _left_over(self, member: Product, alike: Sequence[Product]) -> Miss:
        if _elements(member) + min(_elements(m) for m in alike if m is not member) > self.max_elements:
            detail = f"its weight and any other of its input have more than {self.max_elements} elements together"
            return Miss(Reason.WEIGHT_LIMIT, member.op, detail, "raise max-elements")
        detail = (
            f"{sum(map(_parts, alike))} products share the input, and in groups of {self.max_group} it is left over"
        )
        return Miss(Reason.GROUP_SIZE, member.op, detail, "raise max-group")


def _parts(member: Product) -> int:
    """How many products ``member`` is already made of."""
    weights = defining(member.weight, ConcatOp)
    return 1 if weights is None or weights.axis_index != 1 else len(weights.inputs)


def _elements(member: Product) -> int:
    return product(shape_of(member.weight))


def _by_input(block: Block) -> list[list[Product]]:
    """The products of each input that has several, in program order of their first ones."""
    products: dict[SSAValue, list[Product]] = {}
    for op in block.ops:
        if isinstance(op, MatMulOp | FusedMatMulBiasActOp) and is_used(op.result):
            found = Product.of(op)
            products.setdefault(found.input, []).append(found)
    return [members for members in products.values() if len(members) > 1]


def _alike(members: Iterable[Product]) -> list[list[Product]]:
    """Those that can become one product: with a bias or without; of one number of rows, if the input's is unknown."""
    kinds: dict[tuple[bool, int], list[Product]] = {}
    for member in members:
        kinds.setdefault((member.bias is None, shape_of(member.weight)[0]), []).append(member)
    return list(kinds.values())


def _has_activation(member: Product) -> Miss | None:
    if not isinstance(member.op, FusedMatMulBiasActOp) or member.op.activation is None:
        return None
    detail = f"{member.op.activation.data} would be computed for the columns of other products too"
    return Miss(Reason.UNSUPPORTED_KIND, member.op, detail, "keep the activation out of the product")


def _place(group: Sequence[Product], positions: dict[Operation, int], load_time: dict[SSAValue, bool]) -> Place:
    """Before the first product, with what computes weights and stands behind it."""
    first = group[0].op
    late: set[Operation] = set()
    path = [value for member in group for value in (member.weight, member.bias) if value is not None]
    while path:
        op = path.pop().owner
        if isinstance(op, Operation) and op not in late and positions.get(op, -1) > positions[first]:
            assert all(is_load_time(result, load_time) for result in op.results)
            late.add(op)
            path += op.operands
    moved = sorted(late, key=lambda op: positions[op])
    positions.update(dict.fromkeys(moved, positions[first]))
    return Place(first, tuple(moved))


def _emit(group: Sequence[Product], place: Place, rewriter: PatternRewriter) -> None:
    rewriter.insertion_point = place.clear()
    whole = packed(group, rewriter)
    start = 0
    for member in group:
        part = NarrowOp(whole, rank_of(whole) - 1, start, member.columns, result_type=member.op.result.type)
        rewriter.insertion_point = InsertPoint.before(member.op)
        rewriter.replace(member.op, part)
        start += member.columns
