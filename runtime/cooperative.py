"""Cooperative matrices of Vulkan, which its own memory model comes with.

MLIR writes the matrix operations, but under the older memory model, which they may not be used with. In Vulkan's an
access to shared memory is the invocation's own unless it says otherwise, and so are the effects of a barrier.
"""

from __future__ import annotations

import re

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


def with_memory_model(text: str) -> str:
    """A ``spirv.module`` in Vulkan's memory model if it uses cooperative matrices, else as it is."""
    if CAPABILITY not in text:
        return text
    for old, new in _WORDS.items():
        text = text.replace(old, new)
    return _MATRIX_ACCESS.sub(r"\1, <NonPrivatePointer>", _ACCESS.sub(r'\1 ["NonPrivatePointer"]', text))
