"""rlx-canonicalize-ops: rotary embedding that is spelled out becomes rlx.rope, in every spelling, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from fusion_harness import check_declines, check_fusion
from helpers import decomposed, parse
from mutants import check_mutants
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64, i64
from xdsl.ir import Attribute

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.attention import RopeOp
from rlx_dialect.ops.indexing import GatherOp
from rlx_dialect.ops.shape import SliceOp, TileOp
from rlx_dialect.passes.canonical import attention, rotary
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps
from rlx_dialect.passes.matching.fusion import FusionPattern, Reason
from rlx_dialect.xdsl_compat import Context, print_module

ROPE = "rlx.rope"
# Batch 2, 3 heads, 5 positions, 8 lanes: no two extents that could be mixed up are equal.
B, H, S, D = 2, 3, 5, 8


@dataclass(frozen=True)
class RotaryOnly(CanonicalizeOps):
    """The pass with the patterns of this file alone."""

    produces: ClassVar = (RopeOp,)

    def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
        return rotary.patterns()


ONLY = RotaryOnly()


def rotated_halves(g: GraphBuilder, x: Value) -> Value:
    half = x.shape[-1] // 2
    last = len(x.shape) - 1
    return g.concat([-g.narrow(x, last, half, half), g.narrow(x, last, 0, half)], last)


def every_second(g: GraphBuilder, x: Value, start: int) -> Value:
    return g.insert(SliceOp(x.ssa, len(x.shape) - 1, start, x.shape[-1] // 2, 2))


def rotated_pairs(g: GraphBuilder, x: Value) -> Value:
    """(-x1, x0, -x3, x2, …), stacked from slices."""
    first, second = (every_second(g, x, start) for start in (0, 1))
    columns = [g.reshape(part, (*part.shape, 1)) for part in (-second, first)]
    return g.reshape(g.concat(columns, len(x.shape)), x.shape)


def rotated_split_pairs(g: GraphBuilder, x: Value) -> Value:
    """The same from x split into pairs."""
    pairs = g.reshape(x, (*x.shape[:-1], x.shape[-1] // 2, 2))
    last = len(x.shape)
    return g.reshape(g.concat([-g.narrow(pairs, last, 1, 1), g.narrow(pairs, last, 0, 1)], last), x.shape)


def twice(g: GraphBuilder, t: Value) -> Value:
    return g.concat([t, t], len(t.shape) - 1)


def tiled(g: GraphBuilder, t: Value) -> Value:
    return g.insert(TileOp(t.ssa, [1] * (len(t.shape) - 1) + [2]))


def each_twice(g: GraphBuilder, t: Value) -> Value:
    return g.reshape(g.expand(g.reshape(t, (*t.shape, 1)), (*t.shape, 2)), (*t.shape[:-1], 2 * t.shape[-1]))


def each_twice_by_concat(g: GraphBuilder, t: Value) -> Value:
    column = g.reshape(t, (*t.shape, 1))
    return g.reshape(g.concat([column, column], len(t.shape)), (*t.shape[:-1], 2 * t.shape[-1]))


def tables(
    g: GraphBuilder,
    repeat: Callable[[GraphBuilder, Value], Value],
    shape: Sequence[int],
    element: Attribute = f32,
    lanes: int = D,
) -> tuple[Value, Value]:
    """cos and sin of angles that are the input t [S, D/2], repeated for all lanes."""
    angles = repeat(g, g.input("t", (S, lanes // 2), element))
    return tuple(g.reshape(g.activation(kind, angles), shape) for kind in ("cos", "sin"))  # pyright: ignore


@dataclass(frozen=True)
class Spelling:
    turned: Callable[[GraphBuilder, Value], Value] = rotated_halves
    repeat: Callable[[GraphBuilder, Value], Value] = twice
    x: tuple[int, ...] = (B, H, S, D)
    table: tuple[int, ...] = (1, 1, S, D)
    commuted: bool = False

    def module(self, element: Attribute = f32) -> ModuleOp:
        g = GraphBuilder()
        x = g.input("x", self.x, element)
        cos, sin = tables(g, self.repeat, self.table, element)
        turned = self.turned(g, x)
        g.output("y", sin * turned + cos * x if self.commuted else x * cos + turned * sin)
        return g.module()


NEOX = Spelling()
GPTJ = Spelling(rotated_pairs, each_twice)
SPELLINGS = {
    "neox": (NEOX, "neox bhsd"),
    "neox, commuted": (Spelling(commuted=True), "neox bhsd"),
    "neox, tables of rank 2": (Spelling(table=(S, D)), "neox bhsd"),
    "neox, tiled": (Spelling(repeat=tiled), "neox bhsd"),
    "neox, sequence first": (Spelling(x=(B, S, H, D), table=(1, S, 1, D)), "neox bshd"),
    "neox, one head": (Spelling(x=(B, S, D), table=(S, D)), "neox bsd"),
    "neox, square": (Spelling(x=(5, 5, 5, D), table=(1, 5, 1, D)), "neox bshd"),
    "gptj": (GPTJ, "gptj bhsd"),
    "gptj, commuted": (Spelling(rotated_pairs, each_twice, commuted=True), "gptj bhsd"),
    "gptj, concat": (Spelling(rotated_pairs, each_twice_by_concat), "gptj bhsd"),
    "gptj, split": (Spelling(rotated_split_pairs, each_twice), "gptj bhsd"),
    "gptj, sequence first": (Spelling(rotated_pairs, each_twice, (B, S, H, D), (S, 1, D)), "gptj bshd"),
}


def only_rope(module: ModuleOp) -> RopeOp:
    (op,) = [op for op in module.walk() if isinstance(op, RopeOp)]
    return op


def kind(op: RopeOp) -> str:
    return f"{op.style.data} {op.layout.data}"


@pytest.mark.parametrize(("spelling", "expected"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_spelling(spelling: Spelling, expected: str):
    after = check_fusion(spelling.module(), ONLY, fused={ROPE: 1}, mutants=False)
    assert kind(only_rope(after)) == expected


@pytest.mark.parametrize("element", [f16, bf16, f64])
@pytest.mark.parametrize("spelling", [NEOX, GPTJ], ids=["neox", "gptj"])
def test_other_element_types(spelling: Spelling, element: Attribute):
    check_fusion(spelling.module(element), ONLY, fused={ROPE: 1}, mutants=False)


@pytest.mark.parametrize("turned", [rotated_halves, rotated_pairs, rotated_split_pairs])
def test_an_unknown_batch(turned: Callable[[GraphBuilder, Value], Value]):
    repeat = twice if turned is rotated_halves else each_twice
    check_fusion(Spelling(turned, repeat, x=(-1, H, S, D)).module(), ONLY, fused={ROPE: 1}, mutants=False)


def test_strict_numerics_keep_it_where_nothing_is_rounded():
    check_fusion(NEOX.module(), RotaryOnly(strict=True), fused={ROPE: 1}, mutants=False)
    narrow = NEOX.module(f16)
    assert [miss.reason for miss in RotaryOnly(strict=True).misses(narrow)] == [Reason.NUMERICS]


def test_angles_from_positions():
    """As large models compute their tables: outer product, doubled, looked up by position, scaled."""
    g = GraphBuilder()
    x = g.input("x", (B, H, S, D))
    angles = g.input("positions", (16, 1)) * g.param("frequencies", (1, D // 2))
    both = twice(g, angles)
    rows = [g.activation(kind, both) * 1.5 for kind in ("cos", "sin")]
    where = g.input("index", (S,), i64)
    cos, sin = (g.reshape(g.insert(GatherOp(row.ssa, where.ssa)), (1, 1, S, D)) for row in rows)
    g.output("y", x * cos + rotated_halves(g, x) * sin)
    check_fusion(g.module(), ONLY, fused={ROPE: 1}, mutants=False)


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("turned", [rotated_halves, rotated_pairs])
def test_constant_tables(equal: bool, turned: Callable[[GraphBuilder, Value], Value]):
    g = GraphBuilder()
    x = g.input("x", (B, H, S, D))
    half = np.arange(S * D // 2, dtype=np.float32).reshape(S, D // 2)
    full = np.tile(half, (1, 2)) if turned is rotated_halves else np.repeat(half, 2, 1)
    if not equal:
        full[2, 1] += 1
    cos, sin = g.constant(full), g.constant(full + 1)
    g.output("y", x * cos + turned(g, x) * sin)
    module = g.module()
    if equal:
        check_fusion(module, ONLY, fused={ROPE: 1}, mutants=False)
    else:
        check_declines(module, ONLY, Reason.OTHER_OPERAND, at="rlx.binary")


@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd", "bsd"])
@pytest.mark.parametrize("n_rot", [D, 4])
def test_what_rope_decomposes_into_is_rope_again(style: str, layout: str, n_rot: int):
    g = GraphBuilder()
    x = g.input("x", {"bhsd": (B, H, S, D), "bshd": (B, S, H, D), "bsd": (B, S, H * D)}[layout])
    cos, sin = (g.input(n, (S, n_rot // 2)) for n in ("cos", "sin"))
    op = RopeOp(x.ssa, cos.ssa, sin.ssa, head_dim=D, layout=layout, n_rot=n_rot, style=style)
    g.output("y", g.insert(op))
    module = g.module()
    after = decomposed(module, ROPE)
    ONLY.apply(Context(), after)
    assert print_module(after).split(ROPE)[1] == print_module(module).split(ROPE)[1]


def partial(*, swapped: bool = False, gap: int = 0, used: bool = False) -> ModuleOp:
    """The first 4 lanes turn, the others are copied."""
    g = GraphBuilder()
    x = g.input("x", (B, H, S, D))
    first, rest = g.narrow(x, 3, 0, 4), g.narrow(x, 3, 4 - gap, 4)
    cos, sin = tables(g, twice, (1, 1, S, 4), lanes=4)
    turned = first * cos + rotated_halves(g, first) * sin
    if used:
        g.output("again", g.exp(turned))
    g.output("y", g.concat([rest, turned] if swapped else [turned, rest], 3))
    return g.module()


def test_only_the_first_lanes_turn():
    after = check_fusion(partial(), ONLY, fused={ROPE: 1}, mutants=False)
    assert only_rope(after).rotated == 4
    assert only_rope(after).head_dim.value.data == D


@pytest.mark.parametrize("module", [partial(swapped=True), partial(gap=1)], ids=["swapped", "overlap"])
def test_other_parts_are_not_put_together(module: ModuleOp):
    after = check_fusion(module, ONLY, fused={ROPE: 1}, mutants=False)
    assert only_rope(after).head_dim.value.data == 4


def test_the_rotated_part_is_used_again():
    miss = check_declines(partial(used=True), ONLY, Reason.MORE_THAN_ONE_USE, at="rlx.concat")
    assert "2 uses" in miss.detail


# It declines.


def of(build: Callable[[GraphBuilder, Value, Value, Value], Value], **shapes: Any) -> ModuleOp:
    spelling = Spelling(**shapes)
    g = GraphBuilder()
    x = g.input("x", spelling.x)
    cos, sin = tables(g, spelling.repeat, spelling.table)
    g.output("y", build(g, x, cos, sin))
    return g.module()


def plain(g: GraphBuilder, x: Value, cos: Value, sin: Value) -> Value:
    return x * cos + rotated_halves(g, x) * sin


def used_again(g: GraphBuilder, x: Value) -> Value:
    g.output("again", g.exp(x))
    return x


def returned(g: GraphBuilder, x: Value) -> Value:
    g.output("between", x)
    return x


def full_table(g: GraphBuilder, x: Value, cos: Value, sin: Value) -> Value:
    """cos is an argument, of which nothing is known."""
    return plain(g, x, g.input("cos", (S, D)), sin)


def batch_of_tables(g: GraphBuilder, x: Value, cos: Value, sin: Value) -> Value:
    return plain(g, x, cos * g.input("m", (B, 1, 1, 1)), sin)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (of(lambda g, x, c, s: used_again(g, x * c) + rotated_halves(g, x) * s), Reason.MORE_THAN_ONE_USE),
        (of(lambda g, x, c, s: x * c + used_again(g, rotated_halves(g, x)) * s), Reason.MORE_THAN_ONE_USE),
        (of(lambda g, x, c, s: x * c + returned(g, rotated_halves(g, x) * s)), Reason.RETURNED),
        (of(full_table), Reason.OTHER_OPERAND),
        (of(plain, repeat=each_twice), Reason.OTHER_OPERAND),
        (of(lambda g, x, c, s: x * c + rotated_pairs(g, x) * s), Reason.OTHER_OPERAND),
        (of(batch_of_tables), Reason.AXIS),
        (of(lambda g, x, c, s: x * g.cast(g.input("c", (1, H, 1, D)), f32) + rotated_halves(g, x) * s), Reason.AXIS),
        (of(plain, x=(4, B, H, S, D)), Reason.RANK),
        (of(plain, x=(S, D), table=(S, D)), Reason.RANK),
        (of(plain, x=(B, -1, S, D)), Reason.DYNAMIC_EXTENT),
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_a_rotation(module: ModuleOp, reason: Reason):
    check_declines(module, ONLY, reason, at="rlx.binary")


@pytest.mark.parametrize(
    "module",
    [
        of(lambda g, x, c, s: x * c + g.concat([g.narrow(x, 3, 4, 4), -g.narrow(x, 3, 0, 4)], 3) * s),
        of(lambda g, x, c, s: x * c + g.concat([-g.narrow(x, 3, 0, 4), g.narrow(x, 3, 4, 4)], 3) * s),
        of(lambda g, x, c, s: x * c + g.concat([-g.narrow(x, 3, 6, 2), g.narrow(x, 3, 0, 6)], 3) * s),
        of(lambda g, x, c, s: g.input("z", x.shape) * c + rotated_halves(g, x) * s),
        of(lambda g, x, c, s: x * c - rotated_halves(g, x) * s),
        of(lambda g, x, c, s: x / c + rotated_halves(g, x) * s),
        of(lambda g, x, c, s: x * c + g.input("z", x.shape)),
    ],
    ids=["other side negated", "other order", "no halves", "another value", "difference", "quotient", "nothing turned"],
)
def test_what_is_no_candidate(module: ModuleOp):
    assert ONLY.misses(module) == []
    after = module.clone()
    ONLY.apply(Context(), after)
    assert ROPE not in [op.name for op in after.walk()]


def test_the_tables_have_another_axis_at_the_same_extent():
    """Heads and positions are both 5: only the table's extents of 1 tell the axis."""
    for table, layout in (((1, 5, 1, D), "bshd"), ((5, D), "bhsd")):
        after = check_fusion(of(plain, x=(B, 5, 5, D), table=table), ONLY, fused={ROPE: 1}, mutants=False)
        assert only_rope(after).layout.data == layout


def test_the_products_are_in_another_block():
    g = GraphBuilder()
    x = g.input("x", (B, H, S, D))
    cos, sin = tables(g, twice, (S, D))
    (x * cos).named("a"), (rotated_halves(g, x) * sin).named("b")
    g.output("y", x)
    text, shape = print_module(g.module()), f"tensor<{B}x{H}x{S}x{D}xf32>"
    added = f"%c = rlx.binary add %a, %b : ({shape}, {shape}) -> {shape}"
    inner = f'"test.op"() ({{ {added}\n "test.termop"(%c) : ({shape}) -> () }}) : () -> ()\n'
    module = parse(text.replace("func.return", f"{inner}func.return"))
    assert [miss.reason for miss in ONLY.misses(module)] == [Reason.OTHER_BLOCK]


def test_rope_moves_in_front_of_a_head_split_and_attention_packs_its_heads():
    @dataclass(frozen=True)
    class Both(RotaryOnly):
        def patterns(self) -> Sequence[FusionPattern[Any, Any]]:
            return [*attention.patterns(), *rotary.patterns()]

    g = GraphBuilder()
    cos, sin = tables(g, twice, (1, 1, S, D))
    heads = [g.input(n, (B, S, H * D)) for n in "qkv"]
    q, k, v = (g.transpose(g.reshape(y, (B, S, H, D)), [0, 2, 1, 3]) for y in heads)
    q, k = (y * cos + rotated_halves(g, y) * sin for y in (q, k))
    weights = g.softmax((q @ g.transpose(k, [0, 1, 3, 2])) / float(np.sqrt(D)))
    g.output("y", g.reshape(g.transpose(weights @ v, [0, 2, 1, 3]), (B, S, H * D)))
    after = check_fusion(g.module(), Both(), fused={ROPE: 2}, mutants=False)
    names = [op.name for op in after.walk() if op.name.startswith("rlx.")]
    assert names[-3:] == [ROPE, ROPE, "rlx.attention"]
    assert "rlx.transpose" not in names


@pytest.mark.parametrize(
    "module",
    [NEOX.module(), GPTJ.module(), Spelling(rotated_split_pairs, each_twice).module(), partial()],
    ids=["neox", "gptj", "gptj, split", "partial"],
)
def test_mutants(module: ModuleOp):
    # Two tables may get a reshape each, and in style gptj a slice.
    assert check_mutants(module, ONLY, fused=ROPE, more_operations=2)["original"] == 1
