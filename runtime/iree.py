"""Run linalg on tensors on the CPU through IREE.

The module is handed over as :mod:`.iree_form` makes it, with :data:`FLAGS`: what was measured to be fast.

Text is handed over in generic form: xDSL's custom forms lose attributes on a few operations.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    BFloat16Type,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, BlockArgument, Operation

from rlx_dialect.dtypes import Array, storage_dtype
from rlx_dialect.graph import main_function
from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.engine import Signature, bind
from rlx_dialect.runtime.iree_form import SCOPE, hand_off, is_scatter
from rlx_dialect.runtime.iree_products import padded_operands
from rlx_dialect.runtime.toolchain import ToolError, ToolFailed, ToolMissing, portable_text
from rlx_dialect.shapes import is_static

if TYPE_CHECKING:
    import iree.runtime as rt

_DATA_TILING = "--iree-dispatch-creation-data-tiling"

FLAGS = (
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    # O3 would drop the checks that unknown extents that meet are equal.
    "--iree-opt-strip-assertions=false",
    # Data tiling when dispatches are formed, not globally: off even at O3, and worth a factor of two on matmuls.
    "--iree-opt-data-tiling=false",
    _DATA_TILING,
    # Larger tiles make weights of language-model size about 1.8 times faster.
    "--iree-llvmcpu-matmul-tile-bytes=4194304",
    # f64 stays f64: IREE's default computes it in f32.
    "--iree-input-demote-f64-to-f32=false",
)
"""What iree-compile is called with, besides micro-kernels."""

_MICROKERNELS = "--iree-llvmcpu-enable-ukernels="

Driver = Literal["local-task", "local-sync"]

_ALIGNMENT = 64
"""Compiled code loads whole vectors of its operands as aligned memory, and faults where they are not."""

_ELEMENT_KINDS = {"f": "FLOAT", "i": "SINT", "u": "UINT", "b": "BOOL", "c": "COMPLEX"}
_RUNTIME_HINT = "pip install 'rlx-dialect[run]' (iree-base-runtime)"


_VIEWS = (tensor.CastOp, tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ExtractSliceOp)
"""Operations whose result may lie where their first operand does."""


class IreeExecutable:
    """A module compiled by IREE, with its parameters packed, on one CPU device.

    ``function`` is what was compiled, in the form of :mod:`.iree_form`.
    """

    def __init__(self, code: bytes, function: FuncOp, signature: Signature, params: Sequence[Array], driver: Driver):
        import iree.runtime as rt

        self._signature = signature
        # IREE 3.13 writes over a part of an input without a copy, and so would over the caller's memory.
        self._reads_in_place = not any(is_scatter(op) or _is_written_over(op) for op in function.walk())
        # A device of the process, never freed: freeing a local-task device crashes in IREE 3.13.
        self._device = rt.get_device(driver)
        index = rt.ParameterIndex()
        for slot, value in zip(signature.params, params, strict=True):
            index.add_buffer(slot.name, value)
        instance = rt.VmInstance()
        module = rt.VmModule.copy_buffer(instance, code)
        hal = rt.create_hal_module(instance, self._device)
        parameters = rt.create_io_parameters_module(instance, index.create_provider(scope=SCOPE))
        # Parameters are read and packed here, once.
        self._context = rt.VmContext(instance, modules=[hal, parameters, module])
        entry = module.lookup_function(function.sym_name.data)
        assert entry is not None
        self._function = entry

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """See :class:`rlx_dialect.runtime.engine.Executable`. Inputs are read where they lie where that is safe.

        Outputs are views.
        """
        import iree.runtime as rt

        arrays = bind("input", self._signature.inputs, inputs)
        arguments, results = rt.VmVariantList(len(arrays)), rt.VmVariantList(len(self._signature.outputs))
        for slot, array in zip(self._signature.inputs, arrays, strict=True):
            arguments.push_ref(self._view(array, _element_type(slot.element)).ref)
        try:
            self._context.invoke(self._function, arguments, results)
        except RuntimeError as error:
            raise ToolError(f"the program stopped: {error}") from error
        outputs: list[Array] = []
        for index, slot in enumerate(self._signature.outputs):
            view = results.get_as_object(index, rt.HalBufferView)
            array = view.map().asarray(view.shape, slot.packed_dtype)
            # An output may lie in an input's memory: the caller must be able to change one without the other.
            shared = any(np.may_share_memory(array, other) for other in arrays)
            outputs.append(slot.unpack(array.copy() if shared else array))
        return outputs

    def _view(self, array: Array, element_type: rt.HalElementType) -> rt.HalBufferView:
        import iree.runtime as rt

        memory = rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE
        usage = rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING
        allocator = self._device.allocator
        if self._reads_in_place and array.flags.writeable and array.ctypes.data % _ALIGNMENT == 0:
            # Read in place. IREE takes only memory that it could write to.
            buffer = allocator.import_host_allocation(array, memory, usage)
            return rt.HalBufferView(buffer, array.shape, element_type)
        view = allocator.allocate_buffer_copy(memory, usage, self._device, array, element_type)
        assert isinstance(view, rt.HalBufferView)
        return view


def _element_type(element: Attribute) -> rt.HalElementType:
    import iree.runtime as rt

    if isinstance(element, BFloat16Type):
        return rt.HalElementType.BFLOAT_16
    dtype = storage_dtype(element)
    return getattr(rt.HalElementType, f"{_ELEMENT_KINDS[dtype.kind]}_{8 * dtype.itemsize}")


def _linker() -> str:
    """IREE's own linker, quoted: IREE calls it through the shell, and its folder's name may have spaces."""
    return f"--iree-llvmcpu-embedded-linker-path={shlex.quote(str(toolchain.find('iree-lld')))}"


def _is_product_of_unknown_batches(op: Operation) -> bool:
    """Whether ``op`` sums products along an axis for each matrix of a batch, with an extent that is not known."""
    if not isinstance(op, GenericOp) or len(op.inputs) != 2 or IteratorTypeAttr.reduction() not in op.iterator_types:
        return False
    (type,) = op.result_types
    assert isinstance(type, TensorType)
    return type.get_num_dims() > 2 and not is_static(type.get_shape())


def _tiles_data(module: ModuleOp) -> bool:
    """IREE 3.13 gives wrong values for tiled data of the others: products of unknown batches, and padded ones.

    Those outside of loops get barriers (:mod:`.iree_form`); with one in a loop, IREE loses track of its buffers.
    """
    return not any(
        _is_product_of_unknown_batches(op) or (not isinstance(op.parent_op(), FuncOp) and bool(padded_operands(op)))
        for op in module.walk()
    )


def _require_runtime() -> None:
    if find_spec("iree") is None or find_spec("iree.runtime") is None:
        raise ToolMissing(f"iree.runtime is not installed; it comes with: {_RUNTIME_HINT}")


def _is_written_over(op: Operation) -> bool:
    """Whether ``op`` puts a value in the place of a part of what may be an input."""
    if not isinstance(op, tensor.InsertSliceOp):
        return False
    whole = op.dest
    while isinstance(whole.owner, _VIEWS):
        whole = whole.owner.operands[0]
    return isinstance(whole, BlockArgument)


@dataclass(frozen=True)
class IreeEngine:
    """Compiles linalg on tensors for this machine's CPU.

    ``driver`` is ``local-task`` (all cores) or ``local-sync`` (the calling thread only).
    """

    driver: Driver = "local-task"
    flags: tuple[str, ...] = FLAGS
    seconds: float = 900
    """Limit of one compilation."""

    def compile(self, module: ModuleOp, weights: Mapping[str, Array]) -> IreeExecutable:
        """See :class:`rlx_dialect.runtime.engine.Engine`; raises BindingError, ToolError."""
        _require_runtime()
        signature = Signature.of(main_function(module))
        params = bind("parameter", signature.params, weights)
        handed = hand_off(module, params)
        code = self._code(portable_text(handed), tiled=_tiles_data(module))
        return IreeExecutable(code, main_function(handed), signature, params, self.driver)

    def compile_all(self, modules: Sequence[ModuleOp]) -> list[IreeExecutable]:
        """Several modules, which take no parameters, in as few compilations as their options allow: one or two.

        Starting the compiler takes longer than most small graphs. Raises ToolError.
        """
        _require_runtime()
        executables: dict[int, IreeExecutable] = {}
        for tiled in (True, False):
            numbers = [n for n, module in enumerate(modules) if _tiles_data(module) is tiled]
            functions: list[FuncOp] = []
            for number in numbers:
                function = main_function(hand_off(modules[number], ()))
                function.detach()
                function.sym_name = StringAttr(f"graph_{number}")
                functions.append(function)
            if not functions:
                continue
            code = self._code(portable_text(ModuleOp(functions)), tiled=tiled)
            for number, function in zip(numbers, functions, strict=True):
                signature = Signature.of(main_function(modules[number]))
                assert not signature.params
                executables[number] = IreeExecutable(code, function, signature, (), self.driver)
        return [executables[number] for number in range(len(modules))]

    def _code(self, text: str, *, tiled: bool) -> bytes:
        # With 16-bit floats about, the micro-kernels that unpack tiles do not compile in some modules (IREE 3.13).
        microkernels = _MICROKERNELS + ("mmt4d" if "f16" in text else "all")
        options = ["-", microkernels, _linker(), *self.flags]
        if _DATA_TILING in options and not tiled:
            options.remove(_DATA_TILING)
        try:
            return toolchain.run("iree-compile", options, text, seconds=self.seconds)
        except ToolFailed as error:
            # IREE 3.13 fails, without a message, to tile the data of some products of unknown extents in loops.
            if _DATA_TILING not in options or "error" in error.stderr:
                raise
            options.remove(_DATA_TILING)
            return toolchain.run("iree-compile", options, text, seconds=self.seconds)
