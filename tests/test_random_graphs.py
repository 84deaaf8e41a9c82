"""Every pass and fusion pipeline on random graphs: valid, of one meaning, deterministic, at rest.

150 of them, 2,000 in CI. ``RLX_RANDOM_GRAPHS=5000`` tests that many seeds; ``pytest -k seed17-`` one of them. A failure
prints the graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count

import numpy as np
import pytest
from helpers import assert_close, assert_round_trip, parse
from random_graphs import random_graph
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, f32
from xdsl.ir import Operation

from rlx_dialect.dtypes import Array
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.elementwise import BinaryOp, StopGradientOp
from rlx_dialect.passes import pass_factories
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.numerics import Numerics, has_narrow
from rlx_dialect.passes.matching.observe import observing
from rlx_dialect.pipelines.check_rewrites import checking_rewrites
from rlx_dialect.pipelines.environment import NOTHING_SET
from rlx_dialect.pipelines.named import fusion_pipeline
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.targets import TARGETS
from rlx_dialect.samples import random_values
from rlx_dialect.xdsl_compat import (
    Context,
    InsertPoint,
    ModulePass,
    PassPipeline,
    Rewriter,
    all_passes,
    print_module,
    rlx_context,
)

SEEDS = range(int(os.environ.get("RLX_RANDOM_GRAPHS", "2000" if os.environ.get("CI") else "150")))
VARIANTS = (
    "rlx-fuse-matmul-bias-act{epilogues=relu,tanh}",
    "rlx-mark-elementwise-regions{max-steps=3 max-inputs=2}",
    "rlx-mark-elementwise-regions,rlx-unfuse-elementwise-regions,rlx-dce",
    "canonicalize",
    "cse",
)
NEVER_AT_REST = ("cse",)
"""xDSL's deletes only in a second run what the first one made dead.

A pipeline need not come to rest either: dead code keeps a value from being fused until its last pass deletes it, and
a region that has moved its operations out of the way lets a residual sum be fused.
"""


@cache
def pipelines() -> dict[str, PassPipeline]:
    """Every pass alone, some with options, and what the targets do; those of one text once."""
    fusions = [fusion_pipeline(t, FusionOptions.for_target(t, NOTHING_SET)) for t in TARGETS.values()]
    texts = dict.fromkeys([*pass_factories(), *VARIANTS, *fusions])
    return {text: PassPipeline.parse_spec(all_passes(), text) for text in texts}


@cache
def context() -> Context:
    return rlx_context()


def results(module: ModuleOp, values: Sequence[dict[str, Array]]) -> list[Array]:
    return [result for v in values for result in run_reference(module, v)]


def negative_zeros(array: Array) -> Array:
    return np.signbit(array) & (array == 0) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


@dataclass(frozen=True)
class Case:
    """A graph, values for it (random ones, and edges with another dynamic extent), and what they give."""

    module: ModuleOp
    values: list[dict[str, Array]]
    expected: list[Array]
    seen: set[str]
    """Texts whose meaning is known to be the graph's."""

    @classmethod
    def of(cls, module: ModuleOp, seed: int) -> Case:
        values = [random_values(module, seed), random_values(module, seed, edges=True, dynamic=1)]
        return cls(module, values, results(module, values), {print_module(module)})

    def check(self, pipeline: PassPipeline, *, rests: bool, in_full: bool) -> None:
        """What every pipeline must do to the graph; a failure shows it before and after. ``in_full`` takes longer."""
        after, again = self.module.clone(), self.module.clone()
        try:
            pipeline.apply(context(), after)
            check_dominance(after)
            pipeline.apply(context(), again)
            assert again.is_structurally_equivalent(after), "not deterministic"
            if rests:
                pipeline.apply(context(), again)
                assert again.is_structurally_equivalent(after), "not at rest"
            if after.is_structurally_equivalent(self.module):
                return
            printed = print_module(after)
            if printed not in self.seen:
                after.verify()
                self.check_interface(after)
                if in_full:
                    again = self.module.clone()
                    pipeline.apply(context(), again)
                    assert print_module(again) == printed, "names are not deterministic"
                    assert_round_trip(after)
                self.check_meaning(after, pipeline)
                self.seen.add(printed)
        except Exception as error:
            names = ",".join(p.name for p in pipeline.passes)
            error.add_note(f"{names} of\n{print_module(self.module)}gives\n{print_module(after)}")
            raise

    def check_interface(self, after: ModuleOp) -> None:
        old, new = main_function(self.module), main_function(after)
        assert new.sym_name == old.sym_name
        assert new.function_type == old.function_type
        assert new.arg_attrs == old.arg_attrs
        assert new.res_attrs == old.res_attrs

    def check_meaning(self, after: ModuleOp, pipeline: PassPipeline) -> None:
        """Equal results, where every rewrite keeps values as they are.

        What follows a looser one (a comparison, exp) may make any difference of it, so then every rewrite is checked by
        itself. A ``wider`` one is loose for narrow floats only.
        """
        allowed = {Numerics.EXACT} if has_narrow(self.module) else {Numerics.EXACT, Numerics.WIDER}
        if not self.classes(pipeline) <= allowed:
            with checking_rewrites("graph"):
                pipeline.apply(context(), self.module.clone())
            return
        found = results(after, self.values)
        assert_close(found, self.expected, rtol=0, atol=0)
        for f, e in zip(found, self.expected, strict=True):
            np.testing.assert_array_equal(negative_zeros(f), negative_zeros(e), "signs of zeros")

    def classes(self, pipeline: PassPipeline) -> set[Numerics]:
        """The classes of the rewrites that the pipeline makes."""
        classes: set[Numerics] = set()
        with observing(lambda rewrite: classes.add(rewrite.numerics)):
            pipeline.apply(context(), self.module.clone())
        return classes


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed{seed}-")
def test_random_graph(seed: int):
    module = random_graph(seed)
    try:
        assert print_module(random_graph(seed)) == print_module(module)
        check_dominance(module)
        assert_round_trip(module)
        case = Case.of(module, seed)
    except Exception as error:
        error.add_note(print_module(module))
        raise
    for index, (text, pipeline) in enumerate(pipelines().items()):
        # Printing and parsing takes the most time by far, so the pipelines have it in turn.
        turn = seed % len(pipelines()) == index
        case.check(pipeline, rests=len(pipeline.passes) == 1 and text not in NEVER_AT_REST, in_full=turn)


@pytest.mark.parametrize(
    "name",
    [
        "rlx-dce",
        "rlx-fuse-matmul-bias-act",
        "rlx-fuse-residual-ln",
        "rlx-mark-elementwise-regions",
        "rlx-unfuse-elementwise-regions",
        "canonicalize",
        "cse",
    ],
)
def test_random_graphs_have_work_for(name: str):
    """These are what the graphs are made for; another pass may well find nothing in them."""
    changed = 0
    for seed in range(40):
        module = random_graph(seed)
        before = print_module(module)
        pipelines()[name].apply(context(), module)
        changed += print_module(module) != before
    assert changed >= 3


# Passes that are wrong, each in a way that the checks have to see.


def swap(op: Operation) -> None:
    op.operands = op.operands[::-1]


def move_up(op: Operation) -> None:
    block = op.parent
    assert block is not None
    assert block.first_op is not None
    op.detach()
    block.insert_op_before(op, block.first_op)


def guard(op: Operation) -> None:
    new = StopGradientOp(op.operands[0])
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.operands[0] = new.result


def lose_sign_of_zero(op: Operation) -> None:
    """x + 0.0 is not x where x is -0.0."""
    zero = ConstantOp.of(0.0, TensorType(f32, []))
    total = BinaryOp("add", op.operands[0], zero)
    Rewriter.insert_op([zero, total], InsertPoint.before(op))
    op.operands[0] = total.result


def rename(op: Operation) -> None:
    function = op.parent_op()
    assert function is not None
    function.properties["sym_name"] = StringAttr("other")


COUNTER = count()


def number(op: Operation) -> None:
    op.attributes["rlx.number"] = StringAttr(str(next(COUNTER)))


GRAPH = """\
func.func @main(%x: tensor<20x30xf32>, %y: tensor<30xf32>) -> tensor<20x30xf32> {
  %0 = rlx.activation neg %x : tensor<20x30xf32>
  %1 = rlx.binary div %0, %y {rlx.here} : (tensor<20x30xf32>, tensor<30xf32>) -> tensor<20x30xf32>
  func.return %1 : tensor<20x30xf32>
}
"""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (swap, "Not equal to tolerance"),
        (move_up, "does not dominate"),
        (lose_sign_of_zero, "signs of zeros"),
        (guard, "not at rest"),
        (rename, "assert"),
        (number, "not deterministic"),
    ],
)
def test_wrong_passes_are_found(change: Callable[[Operation], None], says: str):
    class Wrong(ModulePass):
        name = "wrong"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for inner in list(op.walk()):
                if "rlx.here" in inner.attributes:
                    change(inner)

    with pytest.raises(Exception, match=says) as caught:
        Case.of(parse(GRAPH), 0).check(PassPipeline((Wrong(),)), rests=change is guard, in_full=True)
    assert "wrong of\nbuiltin.module" in caught.value.__notes__[0]
