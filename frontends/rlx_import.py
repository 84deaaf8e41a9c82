"""``rlx-import``: a model of another framework as an ``.mlir`` file of RLX operations and a side file of weights."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import StringAttr

from rlx_dialect.frontends.onnx.importer import import_onnx, parse_extents
from rlx_dialect.frontends.onnx.model import OnnxError
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.progress import step
from rlx_dialect.weights import SUFFIX, WEIGHTS, WeightsError, write_weights
from rlx_dialect.xdsl_compat import print_module


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("rlx-import", description=__doc__)
    p.add_argument("model", type=Path, help="an .onnx file")
    p.add_argument("-o", "--output", type=Path, help="the .mlir file to write (default: the model's name, here)")
    p.add_argument("--weights", type=Path, help=f"the side file to write (default: the output's name with {SUFFIX})")
    p.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a number for a dynamic extent of the model, by its name or as INPUT.AXIS (may be repeated)",
    )
    p.add_argument("--batch", type=int, metavar="N", help="a number for each input's first extent that is dynamic")
    return p


def run(options: argparse.Namespace) -> None:
    model: Path = options.model
    output: Path = options.output or Path(model.with_suffix(".mlir").name)
    weights: Path = options.weights or output.with_suffix(SUFFIX)
    with step(f"import {model}"):
        imported = import_onnx(model, extents=parse_extents(options.dim), batch=options.batch)
    function = main_function(imported.module)
    if imported.weights:
        with step(f"write {weights}"):
            write_weights(weights, function, imported.weights)
        # Relative, so that the two files can be moved together.
        imported.module.attributes[WEIGHTS] = StringAttr(_relative(weights, output.parent))
    try:
        output.write_text(print_module(imported.module))
    except OSError as error:
        raise OnnxError(f"{output}: cannot be written: {error.strerror}") from error
    count = sum(1 for _ in function.body.block.ops) - 1
    inputs = ", ".join(f"{a.name}: {a.value.type}" for a in arguments(function) if a.kind == "input")
    print(f"{output}: {count} operations; inputs {inputs}")
    if imported.weights:
        print(f"{weights}: {len(imported.weights)} parameters, {weights.stat().st_size / 1e6:.1f} MB")


def _relative(path: Path, folder: Path) -> str:
    """``path`` as seen from ``folder``."""
    return Path(os.path.relpath(path, folder)).as_posix()


def main(argv: Sequence[str] | None = None) -> None:
    try:
        run(parser().parse_args(argv))
    except (OnnxError, WeightsError) as error:
        sys.exit(f"rlx-import: {error}")
