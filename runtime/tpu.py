"""Compile for TPUs that are not there: the compiler is libtpu's, which is told of a topology, in a process of its own.

``python -m rlx_dialect.runtime.tpu`` is that process: it reads a request from standard input and answers on standard
output, both in JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.lowering.to_stablehlo.sharding import Mesh
from rlx_dialect.runtime.toolchain import portable_text
from rlx_dialect.runtime.xla import XlaError, compile_options, require

_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
"""So that libtpu asks nobody what machine it is on. What is compiled for, is the topology."""


def compile_ahead(modules: Mapping[str, ModuleOp], topology: str = "v5e:2x2", timeout: float = 300) -> dict[str, int]:
    """The bytes of the executable of each lowered module, by name, for the chips of ``topology``.

    A module with a mesh is split over as many chips. Raises ToolMissing, XlaError, ValueError.
    """
    for package in ("jax", "libtpu"):
        require(package)
    request = {"topology": topology, "modules": {name: _described(module) for name, module in modules.items()}}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(request),
            env={**os.environ, **_ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise XlaError(f"libtpu took more than {timeout:g} s") from error
    if done.returncode:
        raise XlaError(f"libtpu: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'it crashed'}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if problems := answer["problems"]:
        raise XlaError("\n".join(f"{name}: {text}" for name, text in problems.items()))
    return answer["bytes"]


def _described(module: ModuleOp) -> dict[str, object]:
    mesh = Mesh.of(module)
    return {"text": portable_text(module), "devices": 1 if mesh is None else mesh.devices}


def _answer(request: Mapping[str, object]) -> dict[str, dict[str, object]]:
    import jax.errors
    from jax._src.interpreters import mlir
    from jax.experimental import topologies
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
    from jaxlib.mlir import ir

    chips = topologies.get_topology_desc(platform="tpu", topology_name=str(request["topology"])).devices
    answer: dict[str, dict[str, object]] = {"bytes": {}, "problems": {}}
    modules = request["modules"]
    assert isinstance(modules, dict)
    for name, described in modules.items():
        count = described["devices"]
        try:
            if count > len(chips):
                raise ValueError(f"a mesh of {count} devices, and the topology has {len(chips)}")
            with mlir.make_ir_context():
                module = ir.Module.parse(described["text"])
            devices = _jax.DeviceList(tuple(chips[:count]))
            executable = chips[0].client.compile(module, devices, compile_options(count))
            answer["bytes"][name] = len(executable.serialize())
        except (jax.errors.JaxRuntimeError, ir.MLIRError, ValueError) as error:
            answer["problems"][name] = str(error)
    return answer


if __name__ == "__main__":
    print(json.dumps(_answer(json.load(sys.stdin))))
