"""Run graphs by MLX: Apple's GPUs, or its CPU form on Linux.

The module that ``-t mlx-python`` prints is what runs, so that what is checked is what a user gets. Parameters become
MLX arrays once. MLX traces the function again for each combination of input shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, ModuleOp

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import main_function
from rlx_dialect.lowering.to_mlx import python_module
from rlx_dialect.runtime.engine import Signature, Slot, bind
from rlx_dialect.runtime.toolchain import ToolError, ToolMissing

if TYPE_CHECKING:
    import mlx.core as mx


class MlxError(ToolError):
    """MLX cannot run the graph."""


class MlxEngine:
    """Compiles a graph of RLX operations that ``rlx-lower-to-mlx`` accepts."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> MlxExecutable:
        """See :class:`rlx_dialect.runtime.engine.Engine`. Raises ToolMissing, LoweringError, BindingError."""
        if find_spec("mlx") is None:
            raise ToolMissing("mlx is not installed; it comes with: pip install 'rlx-dialect[mlx]'")
        namespace: dict[str, Any] = {}
        exec(compile(python_module(module), "<mlx-python>", "exec"), namespace)
        signature = Signature.of(main_function(module))
        packed = bind("parameter", signature.params, weights)
        params = {slot.name: to_mlx(slot, value) for slot, value in zip(signature.params, packed, strict=True)}
        return MlxExecutable(namespace["run"], signature, params)


@dataclass(frozen=True)
class MlxExecutable:
    """A printed module with its parameters."""

    function: Callable[[Mapping[str, mx.array]], dict[str, mx.array]]
    signature: Signature
    params: Mapping[str, mx.array]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """See :class:`rlx_dialect.runtime.engine.Executable`. Raises BindingError, MlxError."""
        import mlx.core as mx

        slots = self.signature.inputs
        packed = bind("input", slots, inputs)
        values = {slot.name: to_mlx(slot, value) for slot, value in zip(slots, packed, strict=True)}
        try:
            found = self.function({**self.params, **values})
            mx.eval(found)
        except (ValueError, RuntimeError, IndexError) as error:
            raise MlxError(f"MLX: {error}") from error
        return [from_mlx(slot, found[slot.name]) for slot in self.signature.outputs]


def to_mlx(slot: Slot, packed: Array) -> mx.array:
    """Packed memory as an array of the slot's element type."""
    import mlx.core as mx

    if packed.dtype == np.float64:
        return mx.array(packed, mx.float64)  # which MLX would make float32 by itself
    array = mx.array(packed)
    return array.view(mx.bfloat16) if isinstance(slot.element, BFloat16Type) else array


def from_mlx(slot: Slot, value: mx.array) -> Array:
    """The value in the slot's storage dtype."""
    import mlx.core as mx

    if isinstance(slot.element, BFloat16Type):
        value = value.view(mx.uint16)
    return slot.unpack(np.array(value))
