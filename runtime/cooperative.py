"""Cooperative matrices of Vulkan, which its own memory model comes with.

MLIR writes the matrix operations, but under the older memory model, which they may not be used with. In Vulkan's an
access to shared memory is the invocation's own unless it says otherwise, and so are the effects of a barrier.
"""

from __future__ import annotations

import re

from xdsl.dialects import arith, gpu, scf

from rlx_dialect.lowering.to_gpu.gpu_ops import MmaMatrixType
from rlx_dialect.xdsl_compat import Rewriter

CAPABILITY = "CooperativeMatrixKHR"

VERSION = "v1.6"

ENVIRONMENT = "vulkan1.3"
"""The environment that spirv-val validates for."""

EXTENSIONS = ("SPV_KHR_cooperative_matrix",)

_MODEL = f"Logical {{}} requires #spirv.vce<{VERSION}, ["
_BARRIER = "AcquireRelease|WorkgroupMemory"
_WORDS = {
    _MODEL.format("GLSL450"): _MODEL.format("Vulkan") + "VulkanMemoryModel, ",
    f"<{_BARRIER}>": f"<{_BARRIER}|MakeAvailable|MakeVisible>",
}
_ACCESS = re.compile(r'(spirv\.(?:Load|Store) "Workgroup" [^:]*\S)(?= :)')
_MATRIX_ACCESS = re.compile(r"(spirv\.KHR\.CooperativeMatrix(?:Load|Store) [^:]*Major>)(?= :)")


def with_branches(function: gpu.FuncOp) -> None:
    """Choose between matrices with branches, in place: SPIR-V chooses between numbers and pointers only."""
    for op in [op for op in function.walk() if isinstance(op, arith.SelectOp)]:
        if isinstance(op.result.type, MmaMatrixType):
            one, other = [scf.YieldOp(op.lhs)], [scf.YieldOp(op.rhs)]
            Rewriter.replace_op(op, scf.IfOp(op.cond, [op.result.type], one, other))


def with_memory_model(text: str) -> str:
    """A ``spirv.module`` in Vulkan's memory model if it uses cooperative matrices, else as it is."""
    if CAPABILITY not in text:
        return text
    for old, new in _WORDS.items():
        text = text.replace(old, new)
    return _MATRIX_ACCESS.sub(r"\1, <NonPrivatePointer>", _ACCESS.sub(r'\1 ["NonPrivatePointer"]', text))
