"""Gradients of norms and gated residuals against finite differences of the forward operation in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradients import check_decomposition, check_gradient, finite_difference, near, reals
from helpers import run_op

from rlx_dialect.attributes import NormKind
from rlx_dialect.ops import norm_backward as nb
from rlx_dialect.ops.normalization import AdaLayerNormOp, GatedResidualOp, GroupNormOp, LayerNormOp, RmsNormOp

EPS = 1e-2
SHAPES = [(7,), (3, 7), (2, 3, 5)]
PICKS: dict[type, tuple[type, int, Any]] = {
    nb.LayerNormBackwardInputOp: (LayerNormOp, 0, lambda x, g, b, dy: (x, g, dy)),
    nb.LayerNormBackwardGammaOp: (LayerNormOp, 1, lambda x, g, b, dy: (x, dy)),
    nb.RmsNormBackwardInputOp: (RmsNormOp, 0, lambda x, g, b, dy: (x, g, b, dy)),
    nb.RmsNormBackwardGammaOp: (RmsNormOp, 1, lambda x, g, b, dy: (x, g, b, dy)),
    nb.RmsNormBackwardBetaOp: (RmsNormOp, 2, lambda x, g, b, dy: (x, g, b, dy)),
}
GROUP_PICKS: dict[type, tuple[int, Any]] = {
    nb.GroupNormBackwardInputOp: (0, lambda x, g, b, dy: (x, g, dy)),
    nb.GroupNormBackwardGammaOp: (1, lambda x, g, b, dy: (x, dy)),
    nb.GroupNormBackwardBetaOp: (2, lambda x, g, b, dy: (dy,)),
}


def operands(*shape: int, channels: int) -> list[Any]:
    return [reals(*shape) * 2 + 1, reals(channels, seed=1), reals(channels, seed=2)]


@pytest.mark.parametrize("op", PICKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_norm_backward_is_the_gradient(op: Any, shape: tuple[int, ...]):
    forward, index, pick = PICKS[op]
    arrays = operands(*shape, channels=shape[-1])
    check_gradient(lambda *v: op(*v, eps=EPS), lambda *v: forward(*v, eps=EPS), arrays, index, pick)


@pytest.mark.parametrize("op", PICKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_norm_backward_means_its_decomposition(op: Any, shape: tuple[int, ...]):
    given = PICKS[op][2](*operands(*shape, channels=shape[-1]), reals(*shape, seed=3))
    everything = [range(a.ndim) for a in given]
    check_decomposition(lambda *v: op(*v, eps=EPS), *given, dynamic=everything)


@pytest.mark.parametrize("op", GROUP_PICKS)
@pytest.mark.parametrize(("shape", "groups"), [((2, 4), 2), ((2, 6, 3), 3), ((2, 4, 3, 2), 1), ((1, 4, 2, 3), 4)])
def test_group_norm_backward_is_the_gradient(op: Any, shape: tuple[int, ...], groups: int):
    index, pick = GROUP_PICKS[op]
    arrays = operands(*shape, channels=shape[1])
    check_gradient(
        lambda *v: op(*v, num_groups=groups, eps=EPS),
        lambda *v: GroupNormOp(*v, num_groups=groups, eps=EPS),
        arrays,
        index,
        pick,
    )


@pytest.mark.parametrize("op", GROUP_PICKS)
@pytest.mark.parametrize("axis", [0, 2])
def test_group_norm_backward_means_its_decomposition(op: Any, axis: int):
    shape = (2, 4, 3, 2)
    given = GROUP_PICKS[op][1](*operands(*shape, channels=4), reals(*shape, seed=3))
    dynamic = [[axis] if a.ndim == 4 else [] for a in given]
    check_decomposition(lambda *v: op(*v, num_groups=2, eps=EPS), *given, dynamic=dynamic)


MODULATION = [((8,), (8,)), ((2, 1, 8), (1, 1, 8)), ((2, 3, 8), (3, 8)), ((1, 8), (2, 3, 8))]


def split(packed: Any, *arrays: Any) -> list[Any]:
    """The parts of a packed gradient, in the shapes of ``arrays``."""
    assert packed.shape == (sum(a.size for a in arrays),)
    ends = np.cumsum([a.size for a in arrays])[:-1]
    return [part.reshape(a.shape) for part, a in zip(np.split(packed, ends), arrays, strict=True)]


@pytest.mark.parametrize("norm", list(NormKind))
@pytest.mark.parametrize(("scale_shape", "shift_shape"), MODULATION)
def test_ada_layer_norm_backward(norm: NormKind, scale_shape: tuple[int, ...], shift_shape: tuple[int, ...]):
    arrays = [reals(2, 3, 8) * 2 + 1, reals(*scale_shape, seed=1), reals(*shift_shape, seed=2)]
    dy = reals(2, 3, 8, seed=3)

    def backward(*v: Any) -> Any:
        return nb.AdaLayerNormBackwardOp(*v, norm=norm, eps=EPS)

    (packed,) = run_op(backward, *arrays, dy)
    for index, part in enumerate(split(packed, *arrays)):
        near(part, finite_difference(lambda *v: AdaLayerNormOp(*v, norm=norm, eps=EPS), arrays, index, dy))
    check_decomposition(backward, *arrays, dy, dynamic=[[0, 1], [], [], [0, 1]])


@pytest.mark.parametrize("gate_shape", [(), (8,), (3, 1), (2, 1, 8), (2, 3, 8)])
def test_gated_residual_backward(gate_shape: tuple[int, ...]):
    arrays = [reals(2, 3, 8), reals(2, 3, 8, seed=1), reals(*gate_shape, seed=2)]
    dy = reals(2, 3, 8, seed=3)
    (packed,) = run_op(lambda *v: nb.GatedResidualBackwardOp(*v), *arrays, dy)
    for index, part in enumerate(split(packed, *arrays)):
        near(part, finite_difference(lambda *v: GatedResidualOp(*v), arrays, index, dy))
    for gate in ([], [0], range(len(gate_shape))):
        dynamic = [[0, 2], [0, 2], gate, [0, 2]]
        check_decomposition(lambda *v: nb.GatedResidualBackwardOp(*v), *arrays, dy, dynamic=dynamic)
