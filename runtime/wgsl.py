"""GPU kernels as WGSL text: wgpu's own translator, naga, from the SPIR-V of :mod:`.spirv`.

naga is a Rust library; npm's ``naga-wasm`` is naga 30 as WebAssembly, which Node.js runs.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlx_dialect.runtime import toolchain
from rlx_dialect.runtime.kernels import UnsupportedKernel
from rlx_dialect.runtime.spirv import SpirvKernel
from rlx_dialect.runtime.toolchain import ToolMissing

PACKAGE = "naga-wasm"
_SCRIPT = Path(__file__).with_name("naga.mjs")


def _folders() -> Iterator[Path]:
    """Where npm puts packages: in this Python environment's folder, and from the working directory upwards."""
    here = Path.cwd()
    for parent in (Path(sys.prefix), here, *here.parents):
        yield parent / "node_modules" / PACKAGE


def find_naga() -> Path:
    """The folder of the package; raises ToolMissing."""
    for folder in _folders():
        if (folder / "package.json").is_file():
            return folder
    raise ToolMissing(f"{PACKAGE} is not installed; it comes with: npm install --prefix {sys.prefix} {PACKAGE}@30")


def translate(kernels: Sequence[SpirvKernel]) -> list[str]:
    """Each kernel as WGSL. Raises UnsupportedKernel naming those that WGSL has no form of, ToolMissing, ToolFailed."""
    if not kernels:
        return []
    codes = json.dumps([base64.b64encode(k.code).decode() for k in kernels])
    found = json.loads(toolchain.run("node", [str(_SCRIPT), str(find_naga())], codes))
    if problems := [f"kernel '{k.name}': {f['error']}" for k, f in zip(kernels, found, strict=True) if "error" in f]:
        raise UnsupportedKernel("\n".join(problems))
    # naga keeps names that end with a digit for itself and adds a line.
    return [f["text"].replace(f"fn {k.name}_(", f"fn {k.name}(") for k, f in zip(kernels, found, strict=True)]


def wgsl_source(kernels: Sequence[SpirvKernel]) -> str:
    """The WGSL text of every kernel, each under a comment with its name."""
    texts = translate(kernels)
    return "\n".join(f"// kernel {k.name}\n{text}" for k, text in zip(kernels, texts, strict=True))
