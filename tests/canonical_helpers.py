"""What the tests of rlx-canonicalize-ops share: graphs in Python, and the pass with every single rewrite checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from helpers import assert_close
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Attribute

from rlx_dialect.builder import GraphBuilder, Value
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.passes.canonicalize_ops import CanonicalizeOps
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.passes.matching.numerics import has_narrow
from rlx_dialect.pipelines.check_rewrites import checking_rewrites
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import Context, print_module

ELEMENTS = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}
Build = Callable[..., Value]
"""``build(g, x, …)``: the output of a graph from its builder and its arguments."""


def made(
    build: Build, *shapes: Sequence[int], element: Attribute = f32, params: int = 0, also: Sequence[str] = ()
) -> ModuleOp:
    """The graph of ``build``; the last ``params`` of its arguments, which have the ``shapes``, are parameters.

    ``also``: names of values (as :meth:`Value.named` gave them) that are returned too.
    """
    g = GraphBuilder()
    first = len(shapes) - params
    arguments = [
        (g.input if index < first else g.param)(f"a{index}", shape, element) for index, shape in enumerate(shapes)
    ]
    g.output("y", build(g, *arguments))
    for op in [op for op in g.builder.insertion_point.block.ops if op.results[0].name_hint in also]:
        g.output(str(op.results[0].name_hint), Value(g, op.results[0]))
    return g.module()


PRECISION = 2.0**-5
"""Of what is computed in f16 and bf16 and with constants that are rounded to them, relative and absolute."""


def canonical(module: ModuleOp, *, strict: bool = False) -> ModuleOp:
    """A copy after the pass: each of its rewrites right, valid, in dominance order, at rest, the interface kept.

    Constants of f16 and bf16 are rounded, so there the results are compared instead, to the precision of bf16.
    """
    after = module.clone()
    if has_narrow(module):
        CanonicalizeOps(strict=strict).apply(Context(), after)
        values = random_values(module)
        assert_close(run_reference(after, values), run_reference(module, values), rtol=PRECISION, atol=PRECISION)
    else:
        with checking_rewrites("module") as checks:
            CanonicalizeOps(strict=strict).apply(Context(), after)
        assert not checks.unchecked
        unobserved = module.clone()
        CanonicalizeOps(strict=strict).apply(Context(), unobserved)
        assert print_module(unobserved) == print_module(after)
    after.verify()
    check_dominance(after)
    old, new = main_function(module), main_function(after)
    assert (new.function_type, new.arg_attrs, new.res_attrs) == (old.function_type, old.arg_attrs, old.res_attrs)
    again = after.clone()
    CanonicalizeOps(strict=strict).apply(Context(), again)
    assert print_module(again) == print_module(after), "not at rest"
    return after


def operations(module: ModuleOp) -> list[str]:
    """Each operation of RLX as it begins in the text, constants left out: ``activation gelu``, ``rms_norm``."""
    found: list[str] = []
    for op in module.walk():
        if op.name.startswith("rlx.") and op.name != "rlx.constant":
            kind = op.properties.get("kind")
            found.append(op.name.removeprefix("rlx.") + (f" {kind.data}" if kind is not None else ""))  # pyright: ignore[reportAttributeAccessIssue]
    return found


def reasons(module: ModuleOp, *, strict: bool = False) -> list[Reason]:
    return [miss.reason for miss in CanonicalizeOps(strict=strict).misses(module)]
