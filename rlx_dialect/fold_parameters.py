"""Work that is the same at every call is done once, when the weights are known.

Fusions put weights side by side and scale them; left in the graph, that would be done on every call.
:func:`fold_parameters` evaluates it with the reference interpreter and makes the results parameters::

    %0 = rlx.concat %up, %gate {axis = 1} : …       →   %0: tensor<4x16xf32> {rlx.param = "concat(up, gate)"}

This is a step of its own between fusion and lowering.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, SSAValue, Use

from rlx_dialect.base import FOLD_LIMIT, RlxOp, dense_of, element_of, evaluate_op, shape_of
from rlx_dialect.dtypes import Array, has_storage
from rlx_dialect.graph import INPUT, PARAM, arguments, is_load_time, main_function
from rlx_dialect.operation import is_dead
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.shape import ExpandOp, ReshapeOp
from rlx_dialect.shapes import is_static, product
from rlx_dialect.weights import SUFFIX, WEIGHTS, WeightsError, find_weights, write_weights
from rlx_dialect.xdsl_compat import InsertPoint, InterpretationError, Rewriter, VerifyException

FREE = (ConstantOp, ExpandOp, ReshapeOp)
"""What costs nothing at run time where its result is used there; made a parameter, it would only need more memory."""

NAME_LENGTH = 80
"""Longer names of derived parameters are cut."""


class FoldedWeights(Mapping[str, Array]):
    """The weights of a folded graph: derived ones, and those of the graph before that are still used, read as late."""

    def __init__(self, names: Sequence[str], derived: Mapping[str, Array], original: Mapping[str, Array]):
        self._names = dict.fromkeys(names)
        self._derived = derived
        self._original = original

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._derived[name] if name in self._derived else self._original[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def fold_parameters(module: ModuleOp, weights: Mapping[str, Array]) -> FoldedWeights:
    """Take the work on load-time values out of the main function, in place; returns the weights of what is left.

    ``weights`` has a value for each parameter; only those that are computed with are read. What the function computes
    from parameters and constants alone and uses at run time becomes a parameter at the end of the arguments, with a
    name that says what it was made of; or a constant, where it is small and no parameter went into it. Constants stay,
    as do expansions and reshapes that are used at run time. Parameters that nothing uses are gone; inputs and results
    are as before. An operation that fails, because an index is out of range for example, is left to fail at run time.
    """
    function = main_function(module)
    names: dict[SSAValue, str] = {a.value: a.name for a in arguments(function) if a.kind == "param"}
    early = _evaluated(function, names, weights)
    derived: dict[str, Array] = {}
    leaving: list[SSAValue] = []
    taken = set(names.values())
    for op in _used_at_run_time(early):
        for result in op.results:
            if not any(_is_late(use, early) for use in result.uses):
                continue
            if not early.sources[result] and product(shape_of(result)) <= FOLD_LIMIT:
                constant = ConstantOp(dense_of(early.values[result], result.type))
                constant.result.name_hint = result.name_hint
                Rewriter.insert_op(constant, InsertPoint.before(op))
                result.replace_all_uses_with(constant.result)
            else:
                name = _name(op, early.sources[result], taken)
                taken.add(name)
                derived[name] = early.values[result]
                leaving.append(result)
    _make_parameters(function, leaving, list(derived), early)
    return FoldedWeights([a.name for a in arguments(function) if a.kind == "param"], derived, weights)


@dataclass
class _Early:
    """What is computed from load-time values alone."""

    ops: dict[RlxOp, None] = field(default_factory=dict[RlxOp, None])
    """In program order; without those that stay at run time."""
    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    sources: dict[SSAValue, dict[str, None]] = field(default_factory=dict[SSAValue, dict[str, None]])
    """The names of the parameters that went into a value."""


def _evaluated(function: FuncOp, names: Mapping[SSAValue, str], weights: Mapping[str, Array]) -> _Early:
    early = _Early(sources={value: {name: None} for value, name in names.items()})
    known: dict[SSAValue, bool] = {}
    for op in function.body.block.ops:
        if not isinstance(op, RlxOp) or not _can_be_evaluated(op, known):
            continue
        if not all(operand in early.values or operand in names for operand in op.operands):
            continue
        args = [weights[names[o]] if o in names else early.values[o] for o in op.operands]
        try:
            results = evaluate_op(op, args)
        except (InterpretationError, VerifyException):
            continue
        early.ops[op] = None
        sources = {name: None for operand in op.operands for name in early.sources[operand]}
        early.values.update(zip(op.results, results, strict=True))
        early.sources.update((result, sources) for result in op.results)
    return early


def _can_be_evaluated(op: RlxOp, known: dict[SSAValue, bool]) -> bool:
    return all(is_load_time(result, known) for result in op.results) and all(
        is_static(shape_of(value)) and has_storage(element_of(value)) for value in (*op.operands, *op.results)
    )


def _used_at_run_time(early: _Early) -> list[RlxOp]:
    """Those of the operations that leave a value for run time, in program order; takes free ones out of ``early``."""
    found: list[RlxOp] = []
    for op in reversed(list(early.ops)):
        if not any(_is_late(use, early) for result in op.results for use in result.uses):
            continue
        if isinstance(op, FREE):
            del early.ops[op]
        else:
            found.append(op)
    return found[::-1]


def _is_late(use: Use, early: _Early) -> bool:
    return use.operation not in early.ops


def _name(op: RlxOp, sources: Collection[str], taken: Collection[str]) -> str:
    name = f"{op.name.removeprefix('rlx.')}({', '.join(sources)})"
    if len(name) > NAME_LENGTH:
        name = f"{name[: NAME_LENGTH - 4]}...)"
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name} #{count}"
    return unique


def _make_parameters(function: FuncOp, leaving: Sequence[SSAValue], names: Sequence[str], early: _Early) -> None:
    """Put parameters in the place of values, delete what computed them, and leave out parameters without a use.

    The arguments are made anew at once, since to insert or erase one takes time for all behind it.
    """
    old = function.body.block
    added = Block(arg_types=[value.type for value in leaving])
    for value, argument in zip(leaving, added.args, strict=True):
        owner = value.owner
        assert isinstance(owner, RlxOp)
        argument.name_hint = value.name_hint or owner.name.removeprefix("rlx.")
        value.replace_all_uses_with(argument)
    for op in reversed(early.ops):
        if is_dead(op):
            Rewriter.erase_op(op)
    known = function.arg_attrs.data if function.arg_attrs is not None else [DictionaryAttr({}) for _ in old.args]
    kept: list[tuple[BlockArgument, DictionaryAttr]] = []
    for argument, attributes in zip(arguments(function), known, strict=True):
        if argument.kind == "input":
            # One without a name is called by its place, which changes here.
            kept.append((argument.value, DictionaryAttr({**attributes.data, INPUT: StringAttr(argument.name)})))
        elif argument.value.first_use is not None:
            kept.append((argument.value, attributes))
    kept += [(a, DictionaryAttr({PARAM: StringAttr(name)})) for a, name in zip(added.args, names, strict=True)]
    block = Block(arg_types=[a.type for a, _ in kept])
    for (value, _), argument in zip(kept, block.args, strict=True):
        argument.name_hint = value.name_hint
        value.replace_all_uses_with(argument)
    for op in list(old.ops):
        op.detach()
        block.add_op(op)
    function.body.detach_block(old)
    function.body.add_block(block)
    function.arg_attrs = ArrayAttr(attributes for _, attributes in kept)
    function.update_function_type()


def fold_weights_of_file(module: ModuleOp, read_from: Path, written_to: Path) -> None:
    """:func:`fold_parameters` with the side file of a module that was read from one ``.mlir`` file.

    The weights of what is left are written beside the file ``written_to``, which ``module`` is to be written to. Raises
    WeightsError where there is no side file, or one cannot be read or written.
    """
    weights = find_weights(module, read_from)
    if weights is None:
        raise WeightsError(f"{read_from}: there is no {SUFFIX} file beside it whose weights could be folded")
    folded = fold_parameters(module, weights)
    side_file = written_to.with_suffix(SUFFIX)
    write_weights(side_file, main_function(module), folded)
    module.attributes[WEIGHTS] = StringAttr(side_file.name)
