"""Programs that are nearly a given one, and the demand on a pass that each of them is fused or stays right.

:func:`mutants` takes a module of one graph and gives modules that differ from it in one place: operands commuted
or doubled, a second use, an intermediate value returned, a cast, reshape or transpose on an edge, an extent set to
1 or made dynamic, axes swapped. Operations within regions are changed too, as far as that gives valid programs.
:func:`check_mutants` runs a pass on the module and on each mutant and compares with the reference interpreter.
Nothing here knows of a particular fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from helpers import assert_close
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    f16,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from rlx_dialect.base import RlxOp, element_of, shape_of
from rlx_dialect.dtypes import Array, is_float
from rlx_dialect.graph import main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.ops.elementwise import CastOp, StopGradientOp
from rlx_dialect.ops.shape import ReshapeOp, TransposeOp
from rlx_dialect.passes.matching.dominance import check_dominance
from rlx_dialect.passes.matching.fusion import FusionPass
from rlx_dialect.passes.matching.numerics import Numerics, difference, edges_for, has_narrow, widened
from rlx_dialect.samples import random_values
from rlx_dialect.shapes import ShapeError, is_static
from rlx_dialect.xdsl_compat import (
    Context,
    InsertPoint,
    InterpretationError,
    ModulePass,
    Rewriter,
    VerifyException,
    print_module,
    set_result_type,
)


@dataclass(frozen=True)
class Mutant:
    name: str
    module: ModuleOp
    sample: ModuleOp
    """A module of the same arguments whose types are static, for values of the arguments."""


class _Invalid(Exception):
    """The change gives no valid program."""


Change = Callable[[FuncOp], None]


def mutants(module: ModuleOp) -> Iterator[Mutant]:
    """The module itself, named ``original``, and every valid mutant, each with a name of its own."""
    yield Mutant("original", module.clone(), module)
    for name, change in _changes(main_function(module)):
        mutant = _changed(module, change)
        if mutant is not None:
            yield Mutant(name, mutant, mutant)
    for name, change in _dynamic(main_function(module)):
        mutant = _changed(module, change)
        if mutant is not None:
            yield Mutant(name, mutant, module)


Sample = Callable[..., dict[str, Array]]
"""Values for the arguments of a module: ``sample(module, seed, edges=values to put in)``, as of ``random_values``."""


def check_mutants(
    module: ModuleOp,
    fusion: ModulePass,
    *,
    fused: str,
    rtol: float | None = None,
    atol: float | None = None,
    sample: Sample = random_values,
    more_operations: int = 0,
) -> dict[str, int]:
    """Apply ``fusion`` to the module and its mutants; how many operations called ``fused`` each has afterwards.

    Asserts for each what :func:`check_applied` does. The sample is asked for values of mutants too.
    """
    counts: dict[str, int] = {}
    wide = rounds_less(module, fusion)
    for mutant in mutants(module):
        after = mutant.module.clone()
        try:
            fusion.apply(Context(), after)
            values = samples(sample, mutant.sample, fusion)
            check_applied(
                mutant.module,
                after,
                fusion,
                values,
                rtol=rtol,
                atol=atol,
                wide=wide,
                more_operations=more_operations,
                runs=mutant.name == "original",
            )
        except Exception as error:
            error.add_note(f"mutant '{mutant.name}':\n{print_module(mutant.module)}after:\n{print_module(after)}")
            raise
        assert mutant.name not in counts
        counts[mutant.name] = sum(op.name == fused for op in after.walk())
    return counts


def check_applied(
    before: ModuleOp,
    after: ModuleOp,
    fusion: ModulePass,
    values: Sequence[Mapping[str, Array]],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    wide: bool = False,
    more_operations: int = 0,
    runs: bool = True,
) -> None:
    """Assert what has to hold of any module ``after`` that ``fusion`` made of ``before``.

    It is valid and in dominance order; arguments, their attributes and the number of results are kept; there are at
    most ``more_operations`` operations more than before (a concatenation of weights costs one, for example); a second
    run changes nothing; results are equal for ``values`` as far as the pass's numerics promise, or within ``rtol``
    and ``atol`` where those are given; ``wide`` compares them as if f16 and bf16 were not rounded in between. Unless
    ``runs``, the module may be one that cannot be run with these values, because unknown extents turn out not to fit.
    """
    after.verify()
    check_dominance(after)
    old, new = main_function(before), main_function(after)
    assert new.function_type == old.function_type
    assert new.arg_attrs == old.arg_attrs
    assert new.res_attrs == old.res_attrs
    more = len(list(new.body.block.ops)) - len(list(old.body.block.ops))
    assert more <= more_operations, f"{more} operations more than before"
    again = after.clone()
    fusion.apply(Context(), again)
    assert print_module(again) == print_module(after), "not at rest"
    if wide:
        before, after = widened(before), widened(after)
    for v in values:
        try:
            expected = run_reference(before, v)
        except InterpretationError:
            if runs:
                raise
            continue
        found = run_reference(after, v)
        if rtol is not None or atol is not None:
            assert_close(found, expected, rtol=rtol or 0.0, atol=atol or 0.0)
        else:
            assert (wrong := difference(found, expected, numerics_of(fusion))) is None, str(wrong)


def samples(sample: Sample, module: ModuleOp, fusion: ModulePass) -> list[dict[str, Array]]:
    """Ordinary values and values with edges that the pass's numerics allow for."""
    return [sample(module, 0, edges=()), sample(module, 1, edges=edges_for(numerics_of(fusion)))]


def rounds_less(module: ModuleOp, fusion: ModulePass) -> bool:
    """Whether f16 and bf16 values of the module may be rounded less often after the pass than before."""
    return numerics_of(fusion) is not Numerics.EXACT and has_narrow(module)


def numerics_of(fusion: ModulePass) -> Numerics:
    """What the pass promises; one that is no fusion changes no value."""
    return fusion.numerics if isinstance(fusion, FusionPass) else Numerics.EXACT


def _changed(module: ModuleOp, change: Change) -> ModuleOp | None:
    """A clone with ``change`` made and types inferred anew; None when that is no valid program."""
    clone = module.clone()
    function = main_function(clone)
    try:
        change(function)
        for op in function.walk(region_first=True):
            if isinstance(op, RlxOp):
                for result, inferred in zip(op.results, op.infer_types(), strict=True):
                    set_result_type(result, inferred)
        function.update_function_type()
        clone.verify()
    except (_Invalid, ShapeError, VerifyException):
        return None
    return clone


def _changes(function: FuncOp) -> Iterator[tuple[str, Change]]:
    for index, op in enumerate(_operations(function)):
        label = f"{op.name.removeprefix('rlx.')}#{index}"
        for a, b in combinations(range(len(op.operands)), 2):
            yield f"commuted {a} {b} of {label}", _on(index, lambda o, a=a, b=b: _swap_operands(o, a, b))
            yield (
                f"operand {a} also as {b} of {label}",
                _on(index, lambda o, a=a, b=b: _set_operand(o, b, o.operands[a])),
            )
        for r in range(len(op.results)):
            yield f"second use, early, of {label}.{r}", _on(index, lambda o, r=r: _second_use(o, r, early=True))
            yield f"second use, late, of {label}.{r}", _on(index, lambda o, r=r: _second_use(o, r, early=False))
            yield f"returned: {label}.{r}", _on(index, lambda o, r=r: _return_too(o, o.results[r]))
        for i in range(len(op.operands)):
            for name, build in _INSERTIONS.items():
                yield f"{name} on operand {i} of {label}", _on(index, lambda o, i=i, build=build: _insert(o, i, build))
        for name, value in op.properties.items():
            for position, changed in enumerate(_other_axes(name, value)):
                yield (
                    f"{name} changed ({position}) in {label}",
                    _on(index, lambda o, n=name, v=changed: _set_property(o, n, v)),
                )
    for index, argument in enumerate(function.body.block.args):
        shape = shape_of(argument)
        for axis in range(len(shape)):
            yield f"extent {axis} of argument {index} set to 1", _on_extents({(index, axis)}, 1)
        for a, b in combinations(range(len(shape)), 2):
            yield f"axes {a} {b} of argument {index} swapped", lambda f, i=index, a=a, b=b: _swap_axes(f, i, a, b)
    for extent, places in _equal_extents(function).items():
        yield f"every extent {extent} set to 1", _on_extents(places, 1)


def _dynamic(function: FuncOp) -> Iterator[tuple[str, Change]]:
    for index, argument in enumerate(function.body.block.args):
        for axis in range(len(shape_of(argument))):
            yield f"extent {axis} of argument {index} dynamic", _on_extents({(index, axis)}, DYNAMIC_INDEX)
    for extent, places in _equal_extents(function).items():
        yield f"every extent {extent} dynamic", _on_extents(places, DYNAMIC_INDEX)


def _equal_extents(function: FuncOp) -> dict[int, set[tuple[int, int]]]:
    """(argument, axis) of each extent above 1."""
    places: dict[int, set[tuple[int, int]]] = {}
    for index, argument in enumerate(function.body.block.args):
        for axis, extent in enumerate(shape_of(argument)):
            if extent > 1:
                places.setdefault(extent, set()).add((index, axis))
    return places


def _on(index: int, change: Callable[[RlxOp], None]) -> Change:
    """The change made to the RLX operation of that number."""
    return lambda f: change(_operations(f)[index])


def _operations(function: FuncOp) -> list[RlxOp]:
    return [op for op in function.walk() if isinstance(op, RlxOp)]


def _set_operand(op: RlxOp, index: int, value: SSAValue) -> None:
    op.operands[index] = value


def _swap_operands(op: RlxOp, a: int, b: int) -> None:
    first, second = op.operands[a], op.operands[b]
    op.operands[a] = second
    op.operands[b] = first


def _return_too(op: RlxOp, value: SSAValue) -> None:
    block = op.parent
    assert block is not None
    terminator, function = block.last_op, block.parent_op()
    if not isinstance(terminator, ReturnOp) or not isinstance(function, FuncOp):
        raise _Invalid
    terminator.operands = [*terminator.operands, value]
    if function.res_attrs is not None:
        function.res_attrs = type(function.res_attrs)([*function.res_attrs.data, DictionaryAttr({})])


def _second_use(op: RlxOp, result: int, *, early: bool) -> None:
    block = op.parent
    assert block is not None
    assert block.last_op is not None
    user = StopGradientOp(op.results[result])
    if early:
        block.insert_op_after(user, op)
    else:
        block.insert_op_before(user, block.last_op)
    _return_too(user, user.result)


def _insert(op: RlxOp, index: int, build: Callable[[SSAValue], list[Operation]]) -> None:
    new = build(op.operands[index])
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.operands[index] = new[-1].results[0]


def _cast_there_and_back(value: SSAValue) -> list[Operation]:
    element = element_of(value)
    if not is_float(element):
        raise _Invalid
    there = CastOp(value, f32 if element == f16 else f16)
    return [there, CastOp(there, element)]


def _flatten_and_back(value: SSAValue) -> list[Operation]:
    shape = shape_of(value)
    if not is_static(shape):
        raise _Invalid
    flat = ReshapeOp(value, [-1])
    return [flat, ReshapeOp(flat, list(shape))]


def _reverse_axes(value: SSAValue) -> list[Operation]:
    perm = list(reversed(range(len(shape_of(value)))))
    if len(perm) < 2:
        raise _Invalid
    return [TransposeOp(value, perm)]


def _reverse_axes_twice(value: SSAValue) -> list[Operation]:
    (once,) = _reverse_axes(value)
    return [once, *_reverse_axes(once.results[0])]


_INSERTIONS: dict[str, Callable[[SSAValue], list[Operation]]] = {
    "cast to its own type": lambda value: [CastOp(value, element_of(value))],
    "cast there and back": _cast_there_and_back,
    "reshape there and back": _flatten_and_back,
    "leading 1": lambda value: [ReshapeOp(value, [1, *shape_of(value)])],
    "transpose": _reverse_axes,
    "transpose there and back": _reverse_axes_twice,
}


def _other_axes(name: str, value: Attribute) -> list[Attribute]:
    """Other values for a property that names axes."""
    if name == "axis" and isinstance(value, IntegerAttr):
        return [IntegerAttr(axis, i64) for axis in (-3, -2, -1, 0, 1, 2) if axis != value.value.data]
    if name in ("axes", "perm") and isinstance(value, DenseArrayBase):
        values = [int(v) for v in value.get_values()]
        rotated = [*values[1:], *values[:1]]
        shifted = [v - 1 for v in values]
        return [DenseArrayBase.from_list(i64, v) for v in (rotated, shifted) if v != values]
    return []


def _set_property(op: RlxOp, name: str, value: Attribute) -> None:
    op.properties[name] = value


def _on_extents(places: set[tuple[int, int]], extent: int) -> Change:
    def change(function: FuncOp) -> None:
        for index, axis in places:
            shape = list(shape_of(function.body.block.args[index]))
            if shape[axis] == extent:
                raise _Invalid
            shape[axis] = extent
            _set_shape(function, index, shape)

    return change


def _swap_axes(function: FuncOp, index: int, a: int, b: int) -> None:
    shape = list(shape_of(function.body.block.args[index]))
    if shape[a] == shape[b]:
        raise _Invalid
    shape[a], shape[b] = shape[b], shape[a]
    _set_shape(function, index, shape)


def _set_shape(function: FuncOp, index: int, shape: list[int]) -> None:
    argument = function.body.block.args[index]
    Rewriter.replace_value_with_new_type(argument, TensorType(element_of(argument), shape))
