"""Values to try programs with: ordinary random ones, and those that numerics go wrong on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute

from rlx_dialect.dtypes import Array, is_bool, is_float, round_to
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.shapes import DYNAMIC

EDGES = (0.0, -0.0, 1.0, -1.0, 1e-30, -1e30, 88.0, -104.0, np.inf, -np.inf, np.nan)
"""Values that numerics go wrong on."""


def random_value(
    type: Attribute, rng: np.random.Generator, *, edges: Sequence[float] = (), share: float = 0.3, dynamic: int = 3
) -> Array:
    """A value of a tensor or scalar type: floats are normally distributed, integers are from 0 to 4.

    Dynamic extents become ``dynamic``. About this ``share`` of floats are one of ``edges``, if there are any. Raises
    TypeError for an element type that NumPy does not have.
    """
    element, shape = type, ()
    if isinstance(type, TensorType):
        element, shape = type.element_type, tuple(dynamic if d == DYNAMIC else d for d in type.get_shape())
    if is_bool(element):
        value: Array = rng.random(shape) < 0.5
    elif is_float(element):
        value = rng.standard_normal(shape)
        if edges:
            value = np.where(rng.random(shape) < share, rng.choice(edges, shape), value)
    else:
        value = rng.integers(0, 5, shape)
    return round_to(value, element)


def random_values(
    module: ModuleOp, seed: int = 0, *, edges: bool | Sequence[float] = False, dynamic: int = 3
) -> dict[str, Array]:
    """:func:`random_value` for each argument of the main function, by name; ``edges`` may just be True."""
    rng = np.random.default_rng(seed)
    chosen = (EDGES if edges else ()) if isinstance(edges, bool) else edges
    return {
        argument.name: random_value(argument.value.type, rng, edges=chosen, dynamic=dynamic)
        for argument in arguments(main_function(module))
    }
