"""Random graphs through whole pipelines and real engines: what runs gives the reference's values.

20 seeds for each engine; ``RLX_RANDOM_GRAPHS_ENGINES=100`` tests that many. A failure prints the graph.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import ml_dtypes
import numpy as np
import pytest
from random_graphs import random_graph
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from rlx_dialect.attributes import ActivationKind
from rlx_dialect.base import RlxOp, evaluate_op
from rlx_dialect.dialect import RLX
from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering import LoweringError
from rlx_dialect.ops.elementwise import ActivationOp, erf
from rlx_dialect.passes.matching.numerics import has_narrow
from rlx_dialect.runtime.rlx_run import compile_for
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import Interpreter, func_functions, interpreter_functions, print_module

SEEDS = range(int(os.environ.get("RLX_RANDOM_GRAPHS_ENGINES", "20")))
ENGINES = [("cpu", "iree"), ("cpu", "native"), ("wgpu", "wgpu"), ("mlx", "mlx"), ("tpu", "xla")]
"""Targets with the engine that runs what they lower to."""


def _rough(op: Operation, args: Sequence[object]) -> Sequence[object]:
    assert isinstance(op, RlxOp)
    values = list(evaluate_op(op, cast("Sequence[Array]", args)))
    for i, value in enumerate(values):
        if value.dtype.kind != "f":
            continue
        if isinstance(op, ActivationOp) and op.kind.data is ActivationKind.GELU:
            x = cast("Array", args[0]).astype(np.float32)
            value = (0.5 * x * (1 + erf(x * np.float32(0.5**0.5)))).astype(value.dtype)
        tiny = np.abs(value) < float(ml_dtypes.finfo(value.dtype).tiny)
        values[i] = np.where(tiny, 0, value).astype(value.dtype)
    return values


def run_roughly(module: ModuleOp, values: Mapping[str, Array]) -> list[Array]:
    """The results where subnormal numbers are zeros and ``1 + erf`` cancels in gelu, as on MLX and GPUs."""
    interpreter = Interpreter(module)
    interpreter.register_implementations(func_functions())
    classes = [op for op in RLX.operations if issubclass(op, RlxOp)]
    interpreter.register_implementations(interpreter_functions("Rough", dict.fromkeys(classes, _rough)))
    function = main_function(module)
    return list(interpreter.call_op(function, tuple(values[a.name] for a in arguments(function))))


@dataclass(frozen=True)
class Precision:
    """What may differ between two right answers."""

    limit: float
    """Relative, and absolute for small numbers."""
    nudge: float
    """Inputs are changed by this share to see which results say more about rounding than about the graph."""

    @classmethod
    def of(cls, module: ModuleOp) -> Precision:
        return cls(6e-2, 1e-2) if has_narrow(module) else cls(2e-4, 2e-6)

    def close(self, found: Array, expected: Array) -> Array:
        """Where the elements are about the same; all of them exactly where they are no floats."""
        if expected.dtype.kind != "f":
            return found == expected
        with np.errstate(invalid="ignore", over="ignore"):
            return np.isclose(found, expected, rtol=self.limit, atol=self.limit, equal_nan=True)

    def shaky(self, module: ModuleOp, values: Mapping[str, Array], expected: Sequence[Array]) -> list[Array]:
        """The elements of each result that a nudge moves far: behind a comparison, a rounding, an overflow.

        So does an arithmetic that is allowed to be rough (:func:`run_roughly`).
        """
        result = [np.zeros(e.shape, bool) for e in expected]
        rng = np.random.default_rng(0)
        runs = [run_reference(module, {name: self._nudged(v, rng) for name, v in values.items()}) for _ in range(3)]
        for moved in (*runs, run_roughly(module, values)):
            for mask, m, e in zip(result, moved, expected, strict=True):
                mask |= ~self.close(m, e)
        return result

    def _nudged(self, value: Array, rng: np.random.Generator) -> Array:
        if value.dtype.kind != "f":
            return value
        return (value * (1 + self.nudge * rng.uniform(-1, 1, value.shape))).astype(value.dtype)


@pytest.mark.parametrize(("target", "engine"), ENGINES, ids=lambda name: str(name))
def test_random_graphs(target: str, engine: str):
    compared = 0
    for seed in SEEDS:
        module = random_graph(seed)
        values = random_values(module, seed)
        inputs = {a.name: values[a.name] for a in arguments(main_function(module)) if a.kind == "input"}
        try:
            found = compile_for(module, target, engine, values).run(inputs)
            expected = run_reference(module, values)
            precision = Precision.of(module)
            for f, e, mask in zip(found, expected, precision.shaky(module, values, expected), strict=True):
                assert f.shape == e.shape
                assert (precision.close(f, e) | mask).all(), f"seed {seed}: {f} is not {e}"
                compared += int((~mask).sum())
        except LoweringError:
            continue
        except Exception as error:
            error.add_note(f"seed {seed}\n{print_module(module)}")
            raise
    assert compared > 200 * len(SEEDS) // 12, "hardly anything was compared"
