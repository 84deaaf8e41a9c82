"""Extents that are known only when a graph runs: one compiled module serves all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from helpers import assert_close, parse
from on_device import lower
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.runtime.engine import BindingError
from rlx_dialect.runtime.wgpu import WgpuEngine
from rlx_dialect.samples import random_values


def check(module: ModuleOp, sizes: Sequence[int], *, atol: float = 2e-6) -> None:
    """One compiled module gives what the reference gives for each size of all unknown extents."""
    weights = random_values(module, 0)
    executable = WgpuEngine().compile(lower(module), weights)
    for size in sizes:
        values = random_values(module, size, dynamic=size)
        inputs = {a.name: values[a.name] for a in arguments(main_function(module)) if a.kind == "input"}
        params = {a.name: weights[a.name] for a in arguments(main_function(module)) if a.kind == "param"}
        assert_close(executable.run(inputs), run_reference(module, inputs | params), atol=atol)


def test_maps_and_rows():
    module = parse("""
      !x = tensor<?x3x?xf32>
      !v = tensor<?x3xf32>
      func.func @main(%x: !x, %y: !x, %g: tensor<?xf32>, %z: tensor<?x1x1xf32>)
          -> (!x, !x, !x, !v, !v, !v, tensor<?xf32>, !x, !x) {
        %0 = rlx.binary add %x, %y : (!x, !x) -> !x
        %1 = rlx.binary mul %0, %z : (!x, tensor<?x1x1xf32>) -> !x
        %2 = rlx.softmax %1 : !x
        %3 = rlx.reduce sum %0 {axes = [2]} : !x -> !v
        %4 = rlx.reduce max %0 {axes = [2]} : !x -> !v
        %5 = rlx.reduce mean %0 {axes = [2]} : !x -> !v
        %6 = rlx.reduce min %0 {axes = [0, 1]} : !x -> tensor<?xf32>
        %7 = rlx.layer_norm %0, %g, %g {eps = 1.0e-5} : (!x, tensor<?xf32>, tensor<?xf32>) -> !x
        %8 = rlx.softmax %0 {axis = 0} : !x
        func.return %0, %1, %2, %3, %4, %5, %6, %7, %8 : !x, !x, !x, !v, !v, !v, tensor<?xf32>, !x, !x
      }""")
    with np.errstate(all="ignore"):
        check(module, [5, 1, 300, 0, 5], atol=1e-5)
