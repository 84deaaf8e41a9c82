"""Run StableHLO by XLA: on its CPU client here, split over as many virtual devices as the graph's mesh has.

XLA compiles static shapes. A graph with unknown extents is compiled once for each combination of input shapes: XLA's
own pass infers all other shapes from them. Parameters are put on the devices once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, BoolAttr, FunctionType, ModuleOp, StringAttr, TensorType, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import Argument, arguments, main_function
from rlx_dialect.lowering.to_stablehlo.dialect import OPERATIONS, CustomCallOp
from rlx_dialect.lowering.to_stablehlo.sharding import Mesh, Split, splits
from rlx_dialect.operation import foreign
from rlx_dialect.ops.constant import dense_elements
from rlx_dialect.runtime.engine import Signature, Slot, bind
from rlx_dialect.runtime.toolchain import ToolError, ToolMissing, portable_text
from rlx_dialect.shapes import Shape, is_static
from rlx_dialect.xdsl_compat import Builder, InsertPoint, set_type

if TYPE_CHECKING:
    import jax
    from jax.sharding import NamedSharding

HINT = "pip install 'rlx-dialect[tpu]'"


def require(package: str) -> None:
    """Raises ToolMissing where a package of the extra ``tpu`` is not installed."""
    if find_spec(package) is None:
        raise ToolMissing(f"{package} is not installed; it comes with: {HINT}")


_DIALECTS = ("builtin", "func", "stablehlo", "chlo", "sdy")
"""What XLA reads."""


class XlaError(ToolError):
    """XLA does not compile or run the graph."""


def hlo_text(module: ModuleOp, shapes: Sequence[Shape] | None = None) -> str:
    """The StableHLO text of a lowered module, for XLA.

    With ``shapes``, one an argument, its main function takes static shapes; what is inside still does not know them.
    """
    if others := foreign(module, _DIALECTS):
        raise XlaError("\n  ".join(["XLA takes operations of StableHLO only, not", *others]))
    if shapes is not None:
        module = module.clone()
        _specialise(main_function(module), shapes)
    return portable_text(module)


def _specialise(function: FuncOp, shapes: Sequence[Shape]) -> None:
    block = function.body.block
    b = Builder(InsertPoint.at_start(block))
    types: list[TensorType] = []
    for argument, shape in zip(list(block.args), shapes, strict=True):
        unknown = argument.type
        assert isinstance(unknown, TensorType)
        types.append(TensorType(unknown.element_type, shape))
        if not is_static(unknown.get_shape()):
            _wrap(b, argument, unknown, types[-1])
    function.function_type = FunctionType.from_lists(types, list(function.function_type.outputs))


def _wrap(b: Builder, argument: BlockArgument, unknown: TensorType, known: TensorType) -> None:
    """The form in which XLA's refinement of shapes expects an argument that became static."""
    rank = len(known.get_shape())
    numbers = dense_elements(np.array(known.get_shape(), np.int64), TensorType(i64, [rank]))
    constant = b.insert(OPERATIONS["constant"].create(result_types=[numbers.type], properties={"value": numbers}))
    wrapper = CustomCallOp.create(
        operands=[argument, constant.results[0]],
        result_types=[unknown],
        properties={
            "call_target_name": StringAttr("stablehlo.shape_refinement_operand_wrapper"),
            "has_side_effect": BoolAttr(0, i1),
        },
        attributes={"indices_of_shape_operands": dense_elements(np.array([1]), TensorType(i64, [1]))},
    )
    b.insert(wrapper)
    argument.replace_uses_with_if(wrapper.results[0], lambda use: use.operation is not wrapper)
    set_type(argument, known)


@cache
def _client(devices: int) -> Any:
    """XLA's CPU client with that many devices; not JAX's own, which would look for accelerators too."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # As JAX does, or XLA says what it found.
    from jaxlib import xla_client

    return xla_client.make_cpu_client(num_devices=devices)


def compile_options(devices: int, *, optimised: bool = True) -> Any:
    """How XLA compiles for that many devices, over which Shardy splits the graph."""
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    options.num_partitions = devices
    build = options.executable_build_options
    build.num_partitions = devices
    build.use_spmd_partitioning = build.use_shardy_partitioner = devices > 1
    if not optimised:
        build.debug_options.xla_backend_optimization_level = 0
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    return options


@dataclass(frozen=True)
class Placement:
    """Which devices a graph runs on, and how its arguments and results are split over them."""

    mesh: Mesh | None
    arguments: Sequence[Split] = ()
    results: Sequence[Split] = ()

    @staticmethod
    def of(module: ModuleOp) -> Placement:
        """Raises ValueError for a mesh and splits that do not fit the graph."""
        mesh = Mesh.of(module)
        return Placement(mesh) if mesh is None else Placement(mesh, *splits(main_function(module), mesh))

    @property
    def devices(self) -> list[Any]:
        return _client(1 if self.mesh is None else self.mesh.devices).local_devices()

    def placed(self, argument: int, slot: Slot, packed: Array) -> jax.Array:
        """Packed memory on the devices, in the slot's element type; a CPU may use it where it lies."""
        import jax
        import ml_dtypes
        from jax.sharding import SingleDeviceSharding

        if isinstance(slot.element, BFloat16Type):
            packed = packed.view(ml_dtypes.bfloat16)
        where = self._sharding(self.arguments[argument]) if self.mesh else SingleDeviceSharding(self.devices[0])
        with jax.enable_x64(True):  # or f64 becomes f32
            return jax.device_put(packed, where)

    def gathered(self, result: int, slot: Slot, parts: Sequence[jax.Array]) -> Array:
        """A result from what it is on each device."""
        import jax

        whole = parts[0]
        if self.mesh is not None:
            split = self.results[result]
            sizes = (1 if axis is None else self.mesh.axes[axis] for axis in split)
            shape = tuple(d * size for d, size in zip(whole.shape, sizes, strict=True))
            whole = jax.make_array_from_single_device_arrays(shape, self._sharding(split), list(parts))
        value = np.asarray(whole)
        return slot.unpack(value.view(np.uint16) if isinstance(slot.element, BFloat16Type) else value)

    def _sharding(self, split: Split) -> NamedSharding:
        from jax.sharding import Mesh as Devices
        from jax.sharding import NamedSharding, PartitionSpec

        assert self.mesh is not None
        grid = np.array(self.devices).reshape(tuple(self.mesh.axes.values()))
        return NamedSharding(Devices(grid, tuple(self.mesh.axes)), PartitionSpec(*split))

    def compiled(self, module: ModuleOp, shapes: Sequence[Shape], *, optimised: bool) -> Any:
        """An executable for static argument shapes; raises XlaError."""
        import jax.errors
        from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

        dynamic = not all(is_static(t.get_shape()) for t in _types(module))
        text: str | bytes = hlo_text(module, shapes if dynamic else None).encode()
        try:
            if dynamic:
                text = _jax.mlir.refine_polymorphic_shapes(text, enable_shardy=self.mesh is not None)
            devices = _jax.DeviceList(tuple(self.devices))
            return _client(len(self.devices)).compile_and_load(
                text, devices, compile_options(len(self.devices), optimised=optimised)
            )
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            raise XlaError(f"XLA: {error}") from error


def _types(module: ModuleOp) -> list[TensorType]:
    types = main_function(module).function_type
    return [t for t in (*types.inputs, *types.outputs) if isinstance(t, TensorType)]


class XlaEngine:
    """Compiles a graph that ``rlx-lower-to-stablehlo`` has lowered; what is not optimised compiles faster."""

    def __init__(self, *, optimised: bool = True):
        self.optimised = optimised

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> XlaExecutable:
        """See :class:`rlx_dialect.runtime.engine.Engine`. Raises ToolMissing, XlaError, BindingError."""
        require("jax")
        function = main_function(module)
        signature, placement = Signature.of(function), Placement.of(module)
        packed = iter(bind("parameter", signature.params, weights))
        params: dict[int, jax.Array] = {}
        slots = iter(signature.params)
        args = arguments(function)
        for index, argument in enumerate(args):
            if argument.kind == "param":
                # A copy, because the caller may change what it bound.
                params[index] = placement.placed(index, next(slots), next(packed).copy())
        executable = XlaExecutable(module, args, signature, placement, params, self.optimised)
        if all(is_static(slot.shape) for slot in signature.inputs):
            executable.executable([slot.shape for slot in signature.inputs])
        return executable


@dataclass
class XlaExecutable:
    """A graph with its parameters on the devices."""

    module: ModuleOp
    args: Sequence[Argument]
    signature: Signature
    placement: Placement
    params: Mapping[int, jax.Array]
    """By number of the argument."""
    optimised: bool
    _compiled: dict[tuple[Shape, ...], Any] = field(default_factory=dict[tuple[Shape, ...], Any])

    def executable(self, shapes: Sequence[Shape]) -> Any:
        """What XLA makes of the graph for inputs of these shapes. Raises XlaError."""
        key = tuple(shapes)
        if key not in self._compiled:
            known = iter(shapes)
            all_shapes = [
                tuple(self.params[index].shape) if index in self.params else next(known)
                for index in range(len(self.args))
            ]
            self._compiled[key] = self.placement.compiled(self.module, all_shapes, optimised=self.optimised)
        return self._compiled[key]

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """See :class:`rlx_dialect.runtime.engine.Executable`. Raises BindingError, XlaError."""
        import jax.errors

        packed = bind("input", self.signature.inputs, inputs)
        executable = self.executable([value.shape for value in packed])
        slots = iter(zip(self.signature.inputs, packed, strict=True))
        buffers = [
            self.params[index] if index in self.params else self.placement.placed(index, *next(slots))
            for index in range(len(self.args))
        ]
        try:
            found = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            raise XlaError(f"XLA: {error}") from error
        outputs = zip(self.signature.outputs, found, strict=True)
        return [self.placement.gathered(index, slot, parts) for index, (slot, parts) in enumerate(outputs)]
