"""rlx-fuse-shared-input-matmul: groups, limits, places, each reason, rest, time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from fusion_harness import check_declines, check_fusion
from helpers import graph
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Attribute, Block, BlockOps

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.ops.contraction import FusedMatMulBiasActOp
from rlx_dialect.ops.shape import ConcatOp
from rlx_dialect.passes.fuse_shared_input_matmul import FuseSharedInputMatMul
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import Context, print_module

MATMUL = "rlx.matmul"
BIASED = "rlx.fused_matmul_bias_act"


def shared(
    widths: Sequence[int],
    x_shape: tuple[int, ...] = (2, 3, 4),
    *,
    biased: Sequence[int] = (),
    activated: Sequence[int] = (),
    inputs: Sequence[int] = (),
    batched: Sequence[int] = (),
    element: Attribute = f32,
) -> ModuleOp:
    """Products of one input with weights of these ``widths``; the others are lists of products that are special."""
    g = GraphBuilder()
    x = g.input("x", x_shape, element)
    for i, width in enumerate(widths):
        leaf = g.input if i in inputs else g.param
        weight = leaf(f"w{i}", (*([2] if i in batched else []), 4, width), element)
        if i in biased or i in activated:
            bias = leaf(f"b{i}", (width,), element)
            kind = "gelu" if i in activated else None
            g.output(f"y{i}", g.insert(FusedMatMulBiasActOp(x.ssa, weight.ssa, bias.ssa, activation=kind)))
        else:
            g.output(f"y{i}", x @ weight)
    return g.module()


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rlx.")]


def concats(module: ModuleOp) -> list[list[str | None]]:
    return [[v.name_hint for v in op.inputs] for op in module.walk() if isinstance(op, ConcatOp)]


@pytest.mark.parametrize(
    ("widths", "groups"),
    [
        ([3, 2], [["w0", "w1"]]),
        ([4, 4], [["w0", "w1"]]),
        ([8, 2, 2], [["w0", "w1", "w2"]]),
        ([1, 1, 1, 1], [["w0", "w1", "w2", "w3"]]),
        ([2, 1, 3, 2, 2], [["w0", "w1", "w2"], ["w3", "w4"]]),
        ([1] * 9, [["w0", "w1", "w2"], ["w3", "w4", "w5"], ["w6", "w7", "w8"]]),
    ],
)
def test_groups_of_up_to_four(widths: list[int], groups: list[list[str]]):
    module, fused = shared(widths), {MATMUL: len(groups)}
    grows = 2 * len(groups)
    after = check_fusion(module, FuseSharedInputMatMul(), fused=fused, more_operations=grows, mutants=len(widths) < 4)
    assert concats(after) == groups


@pytest.mark.parametrize("x", [(3, 4), (1, 4), (-1, 4), (-1, -1, 4), (2, 1, 3, 4)])
@pytest.mark.parametrize("element", [f32, f16, bf16, f64])
def test_inputs_and_element_types(x: tuple[int, ...], element: Attribute):
    module = shared([3, 2], x, element=element)
    check_fusion(module, FuseSharedInputMatMul(strict=True), fused={MATMUL: 1}, more_operations=2)


def test_the_whole_form():
    after = check_fusion(shared([3, 2]), FuseSharedInputMatMul(), fused={MATMUL: 1}, more_operations=2)
    assert names(after) == ["rlx.concat", MATMUL, "rlx.narrow", "rlx.narrow"]
    text = print_module(after)
    assert "{axis = 2, start = 0, len = 3} : tensor<2x3x5xf32> -> tensor<2x3x3xf32>" in text
    assert "{axis = 2, start = 3, len = 2} : tensor<2x3x5xf32> -> tensor<2x3x2xf32>" in text


def test_products_with_a_bias():
    module = shared([3, 2], biased=[0, 1])
    after = check_fusion(module, FuseSharedInputMatMul(), fused={BIASED: 1}, more_operations=3)
    assert concats(after) == [["w0", "w1"], ["b0", "b1"]]


def test_those_with_a_bias_and_those_without_are_two_groups():
    module = shared([3, 2, 1, 2], biased=[0, 2])
    after = check_fusion(module, FuseSharedInputMatMul(), fused={MATMUL: 1, BIASED: 1}, more_operations=5)
    assert concats(after) == [["w0", "w2"], ["b0", "b2"], ["w1", "w3"]]


def test_products_of_other_inputs_and_other_blocks_are_left_alone():
    T = "tensor<4x4xf32>"
    module = graph(
        f"%a = rlx.matmul %x, %w : ({T}, {T}) -> {T}\n%b = rlx.matmul %a, %w : ({T}, {T}) -> {T}\n"
        f'"test.op"() ({{\n%c = rlx.matmul %x, %w : ({T}, {T}) -> {T}\n"test.termop"(%c) : ({T}) -> ()\n}}) : () -> ()',
        f'%x: {T}, %w: {T} {{rlx.param = "w"}}',
        T,
        "%b",
    )
    before = print_module(module)
    FuseSharedInputMatMul().apply(Context(), module)
    assert print_module(module) == before
    assert FuseSharedInputMatMul().misses(module) == []


def late_weights() -> ModuleOp:
    """q and k of x, and products of q's activation; every weight is computed right before its product."""
    g = GraphBuilder()
    x = g.input("x", (2, 4))

    def linear(name: str, value: Value) -> Value:
        return value @ g.transpose(g.tanh(g.param(name, (4, 4))), [1, 0])

    q = linear("q", x)
    h = g.tanh(q)
    inner = linear("a", h)
    k = linear("k", x)
    outer = linear("b", h)
    g.output("y", q + k + inner + outer)
    return g.module()


def test_weights_that_are_computed_later_move_up():
    after = check_fusion(late_weights(), FuseSharedInputMatMul(), fused={MATMUL: 2}, more_operations=4)
    products = [i for i, name in enumerate(names(after)) if name == MATMUL]
    assert names(after).index("rlx.narrow") > products[0]


def test_one_late_weight_of_several_groups():
    g = GraphBuilder()
    x = g.input("x", (2, 4))
    first = x @ g.param("a", (4, 4))
    h = g.tanh(first)
    other = h @ g.param("b", (4, 4))
    w = g.tanh(g.param("w", (4, 4)))
    g.output("y", (x @ w) + (h @ w) + other)
    check_fusion(g.module(), FuseSharedInputMatMul(), fused={MATMUL: 2}, more_operations=4)
    g = GraphBuilder()
    x, z = g.input("x", (2, 4)), g.input("z", (2, 4))
    values = [x @ g.param("a", (4, 4)), z @ g.param("b", (4, 4))]
    w = g.tanh(g.param("w", (4, 4)))
    values += [z @ w, x @ w]
    g.output("y", (values[0] + values[1]) + (values[2] + values[3]))
    check_fusion(g.module(), FuseSharedInputMatMul(), fused={MATMUL: 2}, more_operations=4)


# Limits.


def test_a_smaller_group():
    module = shared([1] * 5)
    after = check_fusion(
        module, FuseSharedInputMatMul(max_group=2), fused={MATMUL: 3}, more_operations=4, mutants=False
    )
    assert concats(after) == [["w0", "w1"], ["w2", "w3"]]
    (miss,) = FuseSharedInputMatMul(max_group=2).misses(module)
    assert miss.reason is Reason.GROUP_SIZE
    assert miss.detail == "5 products share the input, and in groups of 2 it is left over"


def test_as_many_weights_as_fit():
    limited = FuseSharedInputMatMul(max_elements=24)
    module = shared([3, 3, 4, 1, 2])
    after = check_fusion(module, limited, fused={MATMUL: 3}, more_operations=4, mutants=False)
    assert concats(after) == [["w0", "w1"], ["w2", "w3"]]
    (miss,) = limited.misses(module)
    assert miss.reason is Reason.GROUP_SIZE
    check_declines(shared([6, 1]), limited, Reason.WEIGHT_LIMIT, at=MATMUL, misses=2)
    assert concats(check_fusion(shared([7, 1, 1]), limited, fused={MATMUL: 2}, more_operations=2, mutants=False)) == [
        ["w1", "w2"]
    ]


@pytest.mark.parametrize("options", [{"max_group": 1}, {"max_elements": 0}])
def test_impossible_limits(options: dict[str, int]):
    with pytest.raises(ValueError, match="max-group must be at least 2 and max-elements 1"):
        FuseSharedInputMatMul(**options)


# It declines; the others of a group go together without the one.


@pytest.mark.parametrize(
    ("special", "reason"),
    [
        ({"batched": [0]}, Reason.RANK),
        ({"inputs": [0]}, Reason.COPIED_EVERY_CALL),
    ],
)
def test_one_that_does_not_fit(special: dict[str, list[int]], reason: Reason):
    miss = check_declines(shared([3, 2], **special), FuseSharedInputMatMul(), reason, at=MATMUL)
    assert miss.op.operands[1].name_hint == "w0"
    after = check_fusion(
        shared([3, 2, 2], **special), FuseSharedInputMatMul(), fused={MATMUL: 2}, more_operations=2, mutants=False
    )
    assert concats(after) == [["w1", "w2"]]


def test_a_weight_of_unknown_width():
    four = partial(random_values, dynamic=4)
    check_declines(shared([-1, 2]), FuseSharedInputMatMul(), Reason.DYNAMIC_EXTENT, at=MATMUL, sample=four)


def test_an_activation_in_the_product():
    module = shared([3, 2, 2], activated=[1], biased=[0, 2])
    after = check_fusion(module, FuseSharedInputMatMul(), fused={BIASED: 2}, more_operations=3, mutants=False)
    assert concats(after)[0] == ["w0", "w2"]
    (miss,) = FuseSharedInputMatMul().misses(module)
    assert (miss.reason, miss.op.operands[1].name_hint) == (Reason.UNSUPPORTED_KIND, "w1")


def test_a_weight_that_depends_on_another_product():
    g = GraphBuilder()
    x = g.input("x", (4, 4))
    first = x @ g.param("w", (4, 4))
    g.output("y", x @ first)
    check_declines(g.module(), FuseSharedInputMatMul(), Reason.COPIED_EVERY_CALL, at=MATMUL)


def test_misses_are_in_program_order():
    module = shared([3, 2, 3, 2], biased=[1, 3], inputs=[2, 3])
    found = [miss.op.operands[1].name_hint for miss in FuseSharedInputMatMul().misses(module)]
    assert found == ["w2", "w3"]


def test_the_input_is_known_at_load_time_too():
    g = GraphBuilder()
    x = g.param("x", (2, 4))
    g.output("y", (x @ g.param("a", (4, 2))) + (x @ g.param("b", (4, 2))))
    check_fusion(g.module(), FuseSharedInputMatMul(), fused={MATMUL: 1}, more_operations=2)


def test_the_time_is_linear_in_the_number_of_products(monkeypatch: pytest.MonkeyPatch):
    module = shared([1] * 300)
    steps: list[Block] = []
    iterate = BlockOps.__iter__
    monkeypatch.setattr(BlockOps, "__iter__", lambda self: steps.append(self.block) or iterate(self))
    FuseSharedInputMatMul().apply(Context(), module)
    assert len(concats(module)) == 75
    assert len(steps) < 10
