"""Native kernels as shared objects: compiled by MLIR and LLVM, linked by the system's compiler, kept on disk.

The key of an object is all that it depends on: the kernels' text, the versions of the tools, their flags and the
CPU. An object is written under a name of its own and renamed, so that writers do not meet; its hash stands behind
its code, so that a damaged one is compiled again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.runtime.toolchain import portable_text, run

MLIR_PASSES = (
    "--convert-scf-to-cf",
    "--convert-vector-to-llvm",
    "--expand-strided-metadata",
    "--lower-affine",
    "--finalize-memref-to-llvm",
    "--convert-arith-to-llvm",
    "--convert-math-to-llvm",
    "--convert-math-to-libm",
    # Kernels take plain pointers.
    "--convert-func-to-llvm=use-bare-ptr-memref-call-conv=1",
    "--convert-cf-to-llvm",
    "--reconcile-unrealized-casts",
)
LLC_FLAGS = ("-O3", "-filetype=obj", "-relocation-model=pic", "-fp-contract=fast")
# Unrolled, the loop of a register tile would need twice the registers; vector loops are interleaved all the same,
# and those of a few functions too, where each waits for the one before.
OPT_FLAGS = ("-passes=default<O3>", "--disable-loop-unrolling", "--small-loop-cost=200", "-S")

_VARIABLE = "XDG_CACHE_HOME"
_HASH_BYTES = 32


@dataclass(frozen=True)
class Machine:
    """What LLVM's own tools say of the machine: the target triple, the CPU's name, and everything as text."""

    triple: str
    cpu: str
    versions: str


@cache
def machine() -> Machine:
    """This machine. Raises ToolMissing, ToolFailed."""
    text = run("llc", ["--version"]).decode()
    triple = re.search(r"Default target:\s*(\S+)", text)
    cpu = re.search(r"Host CPU:\s*(\S+)", text)
    assert triple is not None
    assert cpu is not None
    versions = text + run("mlir-opt", ["--version"]).decode() + run("cc", ["--version"]).decode()
    return Machine(triple[1], cpu[1], versions)


def cache_folder() -> Path:
    """Where objects are kept: ``rlx`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    root = os.environ.get(_VARIABLE)
    return (Path(root) if root else Path.home() / ".cache") / "rlx" / "native"


def shared_object(kernels: ModuleOp) -> ctypes.CDLL:
    """The compiled kernels of a module of functions, from the cache where they are there. Raises ToolError."""
    text = portable_text(kernels)
    this = machine()
    key = _digest(map(str, (text, this, MLIR_PASSES, OPT_FLAGS, LLC_FLAGS)))
    path = cache_folder() / f"{key}{'.dylib' if sys.platform == 'darwin' else '.so'}"
    if not _is_whole(path):
        _keep(path, _compile(text, this))
    return ctypes.CDLL(str(path))


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _compile(text: str, this: Machine) -> bytes:
    """The bytes of a shared object."""
    llvm_dialect = run("mlir-opt", ["-", *MLIR_PASSES], text)
    ir = run("mlir-translate", ["--mlir-to-llvmir"], llvm_dialect)
    target = (f"-mtriple={this.triple}", f"-mcpu={this.cpu}")
    ir = run("opt", ["-", *OPT_FLAGS, *target], ir)
    code = run("llc", ["-", *LLC_FLAGS, *target], ir)
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "kernels.o", Path(folder) / "kernels.so"
        source.write_bytes(code)
        run("cc", ["-shared", str(source), "-o", str(result), "-lm"])
        return result.read_bytes()


def _keep(path: Path, code: bytes) -> None:
    """Write an object and its hash under ``path`` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            # What stands behind a shared object is nothing to the loader.
            file.write(code + hashlib.sha256(code).digest())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _is_whole(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return data[-_HASH_BYTES:] == hashlib.sha256(data[:-_HASH_BYTES]).digest()
