"""ONNX as an input language of ``rlx-opt`` and ``xdsl-opt``: chosen by the file name or with ``-f onnx{…}``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar

from xdsl.dialects.builtin import ModuleOp, StringAttr

from rlx_dialect.frontends.onnx.importer import import_onnx, parse_extents
from rlx_dialect.graph import main_function
from rlx_dialect.weights import WEIGHTS, write_weights
from rlx_dialect.xdsl_compat import Context, Frontend


@dataclass(frozen=True)
class OnnxFrontend(Frontend):
    """``onnx{batch=4 dims="seq=128","past=8" weights="model.safetensors"}``.

    ``weights`` is a side file to write, relative to the model's folder. Without it the values of the parameters
    stay in the model: the module can be compiled, but running it takes a side file, as ``rlx-import`` writes one.
    """

    name: ClassVar[str] = "onnx"

    batch: int | None = None
    dims: tuple[str, ...] = ()
    weights: str | None = None

    def parse(self, ctx: Context, input: IO[bytes], input_name: str) -> ModuleOp:
        imported = import_onnx(
            input.read(),
            name=input_name,
            folder=Path(input_name).parent,
            extents=parse_extents(self.dims),
            batch=self.batch,
        )
        if self.weights is not None and imported.weights:
            write_weights(Path(input_name).parent / self.weights, main_function(imported.module), imported.weights)
            imported.module.attributes[WEIGHTS] = StringAttr(self.weights)
        return imported.module
