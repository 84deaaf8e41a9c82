"""Views against NumPy: the elements that a view addresses are those of the same NumPy expression."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import Block

from rlx_dialect.lowering.to_gpu.views import Buffer, Literal, View, coalesce, dense_strides


def dense(*shape: int) -> View:
    size = int(np.prod(shape))
    value = Block(arg_types=[MemRefType(f32, [size])]).args[0]
    return View(Buffer(value, f32, size), f32, shape, dense_strides(shape))


def addresses(view: View) -> np.ndarray:
    """The address of each element."""
    steps = [np.arange(e).reshape([-1 if i == a else 1 for i in range(len(view.shape))]) * s
             for a, (e, s) in enumerate(zip(view.shape, view.strides, strict=True))]  # fmt: skip
    return np.broadcast_to(sum(steps, np.array(view.offset)), view.shape)


def numbers(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape)


def test_views_address_what_numpy_does():
    x, n = dense(2, 3, 5), numbers(2, 3, 5)
    np.testing.assert_array_equal(addresses(x), n)
    np.testing.assert_array_equal(addresses(x.transpose([2, 0, 1])), n.transpose(2, 0, 1))
    np.testing.assert_array_equal(addresses(x.slice(1, 1, 2)), n[:, 1:3])
    np.testing.assert_array_equal(addresses(x.slice(2, 4, 3, -2)), n[:, :, 4::-2])
    np.testing.assert_array_equal(addresses(x.slice(2, 4, 3, -2).slice(2, 1, 1)), n[:, :, [2]])
    wide = (2, 3, 4)
    np.testing.assert_array_equal(addresses(dense(3, 1).broadcast(wide)), np.broadcast_to(numbers(3, 1), wide))
    np.testing.assert_array_equal(addresses(dense(3).repeat((2,))), numbers(3)[:, None].repeat(2, 1))


def test_a_view_is_dense_only_as_its_whole_buffer():
    x = dense(2, 1, 5)
    assert x.is_dense
    assert x.transpose([1, 0, 2]).is_dense
    assert not x.transpose([2, 1, 0]).is_dense
    assert not x.slice(0, 0, 1).is_dense
    assert not x.slice(0, 1, 1).is_dense
    assert not x.broadcast((3, 2, 1, 5)).is_dense
    assert not View(Literal(1.0), f32, (2,), (0,)).is_dense


RESHAPES = [
    ((2, 3, 5), (0, 1, 2), (6, 5)),
    ((2, 3, 5), (0, 1, 2), (2, 15)),
    ((2, 3, 5), (0, 1, 2), (1, 30, 1)),
    ((2, 3, 5), (2, 0, 1), (5, 6)),
    ((2, 3, 5), (1, 0, 2), (3, 2, 5, 1)),
    ((4, 6), (1, 0), (2, 3, 2, 2)),
    ((1, 1), (0, 1), ()),
    ((), (), (1, 1, 1)),
]


@pytest.mark.parametrize(("shape", "perm", "target"), RESHAPES)
def test_reshapes_that_strides_can_say(shape: tuple[int, ...], perm: tuple[int, ...], target: tuple[int, ...]):
    view = dense(*shape).transpose(perm).reshape(target)
    assert view is not None
    np.testing.assert_array_equal(addresses(view), numbers(*shape).transpose(perm).reshape(target))


def test_empty_values_take_any_shape():
    view = dense(0, 4).reshape((2, 0, 3))
    assert view is not None
    assert view.shape == (2, 0, 3)


def test_reshapes_that_strides_cannot_say():
    assert dense(4, 6).transpose([1, 0]).reshape((24,)) is None
    assert dense(2, 3, 5).transpose([0, 2, 1]).reshape((10, 3)) is None
    assert dense(2, 3, 5).transpose([0, 2, 1]).reshape((2, 15)) is None
    assert dense(2, 3, 5).transpose([2, 1, 0]).reshape((5, 6)) is None
    assert dense(3, 1).broadcast((3, 4)).reshape((12,)) is None
    assert dense(3, 1).broadcast((3, 4)).reshape((3, 2, 2)) is not None


def test_every_reshape_is_right_or_refused():
    for perm in itertools.permutations(range(3)):
        for target in [(12, 2), (2, 12), (4, 3, 2), (2, 2, 6), (24,), (3, 8), (8, 3), (6, 4), (1, 2, 3, 4)]:
            view = dense(2, 3, 4).transpose(perm).reshape(target)
            if view is not None:
                np.testing.assert_array_equal(addresses(view), numbers(2, 3, 4).transpose(perm).reshape(target))


def test_coalescing_keeps_the_order_of_addresses():
    shape = (2, 1, 3, 4)
    views = [dense(2, 1, 3, 4), dense(3, 4).broadcast(shape), dense(2, 1, 3, 1).broadcast(shape)]
    for count in range(1, 4):
        for chosen in itertools.combinations(views, count):
            box, strides = coalesce(shape, [v.strides for v in chosen])
            for view, steps in zip(chosen, strides, strict=True):
                flat = addresses(View(view.source, f32, box, steps, view.offset)).ravel()
                np.testing.assert_array_equal(flat, addresses(view).ravel())


def test_coalescing_merges_all_that_it_can():
    shape = (2, 1, 3, 4)
    vector, rows = dense(4).broadcast(shape), dense(2, 1, 3, 1).broadcast(shape)
    assert coalesce(shape, [dense(*shape).strides]) == ((24,), [(1,)])
    assert coalesce(shape, [dense(*shape).strides, vector.strides]) == ((6, 4), [(4, 1), (0, 1)])
    assert coalesce(shape, [dense(*shape).strides, rows.strides]) == ((6, 4), [(4, 1), (1, 0)])
    assert coalesce((1, 1), [(5, 7)]) == ((), [()])
