"""Keeping a module and its weights together when the module is written somewhere else."""

from __future__ import annotations

import os
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr

from rlx_dialect.graph import text_of
from rlx_dialect.weights import SUFFIX, WEIGHTS


def follow_weights(module: ModuleOp, read_from: Path, written_to: Path) -> None:
    """Make ``rlx.weights`` of a module that was read from one ``.mlir`` file right for another.

    A side file that is found by its stem only is named where the new file would not find it.
    """
    named = text_of(module.attributes.get(WEIGHTS))
    if named is not None:
        path = read_from.parent / named
        if Path(named).is_absolute() or _same_folder(read_from, written_to):
            return
    else:
        path = read_from.with_suffix(SUFFIX)
        found = written_to.with_suffix(SUFFIX)
        if not path.exists() or (found.exists() and found.samefile(path)):
            return
    module.attributes[WEIGHTS] = StringAttr(Path(os.path.relpath(path, written_to.parent)).as_posix())


def _same_folder(one: Path, other: Path) -> bool:
    return one.parent.resolve() == other.parent.resolve()
