"""Every pass on programs that are not one graph: several blocks, no operations, declarations, no functions at all."""

from __future__ import annotations

import pytest
from helpers import parse
from random_graphs import random_graph
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.cf import BranchOp

from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.passes import pass_factories
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import FusionPass
from rlx_dialect.passes.matching.numerics import Numerics, difference
from rlx_dialect.passes.matching.observe import observing
from rlx_dialect.pipelines.check_rewrites import checking_rewrites
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import Context, Rewriter, print_module

T = "tensor<4x4xf32>"
PROGRAMS = {
    "no function": "builtin.module {}",
    "a declaration": f"func.func private @main({T}) -> {T}",
    "a declaration without results": "func.func private @main()",
    "no operations": "func.func @main() { func.return }",
    "an argument is returned": f"func.func @main(%x: {T}) -> {T} {{ func.return %x : {T} }}",
    "a declaration beside a graph": f"""
        func.func private @other({T}) -> {T}
        func.func @main(%x: {T}) -> {T} {{
          %y = func.call @other(%x) : ({T}) -> {T}
          %z = rlx.activation exp %y : {T}
          func.return %z : {T}
        }}""",
    "two graphs": f"""
        func.func @one(%x: {T}) -> {T} {{
          %y = rlx.activation exp %x : {T}
          func.return %y : {T}
        }}
        func.func @two(%x: {T}) -> {T} {{
          %y = func.call @one(%x) : ({T}) -> {T}
          func.return %y : {T}
        }}""",
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", pass_factories())
def test_nothing_is_raised(name: str, program: str):
    module = parse(PROGRAMS[program])
    before = print_module(module)
    fusion = pass_factories()[name]()()
    if isinstance(fusion, FusionPass):
        assert fusion.misses(module) == []
    fusion.apply(Context(), module)
    module.verify()
    check_dominance(module)
    assert print_module(module) == before


def split(module: ModuleOp, length: int) -> None:
    """Make blocks of ``length`` operations of the main function's, each of which goes on with the next."""
    function = main_function(module)
    block = function.body.block
    ops = list(block.ops)[:-1]
    for cut in range(length, len(ops), length):
        rest = block.split_before(ops[cut])
        block.add_op(BranchOp(rest))
        block = rest


def joined(module: ModuleOp) -> ModuleOp:
    """The same program in one block."""
    clone = module.clone()
    first, *others = main_function(clone).body.blocks
    for block in others:
        branch = first.last_op
        assert isinstance(branch, BranchOp)
        Rewriter.erase_op(branch)
        for op in list(block.ops):
            op.detach()
            first.add_op(op)
        main_function(clone).body.erase_block(block)
    clone.verify()
    return clone


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("seed", range(20))
def test_several_blocks(seed: int, length: int):
    """Random graphs cut into blocks; what is in them, and what is across them, is fused rightly or not at all."""
    graph = random_graph(seed)
    values = random_values(graph, seed)
    for name, factory in pass_factories().items():
        module = graph.clone()
        split(module, length)
        module.verify()
        classes: set[Numerics] = set()
        try:
            with checking_rewrites("module"), observing(lambda r, classes=classes: classes.add(r.numerics)):
                factory()().apply(Context(), module)
            module.verify()
            check_dominance(module)
            found = run_reference(joined(module), values)
        except Exception as error:
            error.add_note(f"{name} gives\n{print_module(module)}")
            raise
        if classes <= {Numerics.EXACT}:
            assert difference(found, run_reference(graph, values), Numerics.EXACT) is None, name
