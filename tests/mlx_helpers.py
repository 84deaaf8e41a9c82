"""What the tests of MLX share: running a graph without waiting for compiled kernels, and comparing results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import numpy as np
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.base import element_of
from rlx_dialect.dtypes import Array, is_bool, is_float, is_integer, is_narrow
from rlx_dialect.graph import arguments, main_function, outputs
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_mlx import LowerToMlx
from rlx_dialect.runtime.compare import difference, tolerance
from rlx_dialect.runtime.mlx import MlxEngine
from rlx_dialect.xdsl_compat import rlx_context


def compiled_run(module: ModuleOp, values: Mapping[str, Array]) -> list[Array]:
    """The results on MLX of a lowered clone."""
    clone = module.clone()
    LowerToMlx().apply(rlx_context(), clone)
    params = {a.name: values[a.name] for a in arguments(main_function(clone)) if a.kind == "param"}
    inputs = {name: value for name, value in values.items() if name not in params}
    return MlxEngine().compile(clone, params).run(inputs)


def uncompiled_run(module: ModuleOp, values: Mapping[str, Array]) -> list[Array]:
    """The same without MLX's compiler, which starts g++ for each kernel."""
    mx.disable_compile()
    try:
        return compiled_run(module, values)
    finally:
        mx.enable_compile()


def assert_agrees(module: ModuleOp, found: Sequence[Array], values: Mapping[str, Array], *, signs: bool = True) -> None:
    """``found`` are the reference's results; without ``signs``, but for signs."""
    function = main_function(module)
    elements = [element_of(v) for v in (*(a.value for a in arguments(function)), *outputs(function))]
    narrow = any(map(is_narrow, elements))
    expected = run_reference(module, values)
    assert len(found) == len(expected)
    for number, (f, e, result) in enumerate(zip(found, expected, outputs(function), strict=True)):
        assert f.dtype == e.dtype, f"result {number}"
        element = element_of(result)
        within = 2e-2 if narrow and is_float(element) else 1e-4
        if not narrow and (is_float(element) or is_integer(element)):
            within = tolerance(e.dtype)
        if is_bool(element) or is_integer(element):
            within = 0.0
        if not signs:
            f, e = np.abs(f), np.abs(e)
        result_ = difference(f"result {number}", f, e, within, within)
        assert result_.within, f"{result_}: {f.ravel()[:8]} for {e.ravel()[:8]}"
