"""A graph is a ``func.func``: its named inputs and parameters are arguments, its outputs are what it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from xdsl.dialects.builtin import BytesAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue
from xdsl.traits import IsolatedFromAbove

from rlx_dialect.xdsl_compat import is_side_effect_free

INPUT = "rlx.input"
PARAM = "rlx.param"
OUTPUT = "rlx.output"


@dataclass(frozen=True)
class Argument:
    """One argument of a graph: an ``input`` changes with every call, a ``param`` is a weight."""

    name: str
    kind: Literal["input", "param"]
    value: BlockArgument


class GraphError(ValueError):
    """A module that is not a graph in the sense above."""


def main_function(module: ModuleOp) -> FuncOp:
    """The function named ``main``, or the only one with a body; raises GraphError otherwise."""
    functions = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    named = [f for f in functions if f.sym_name.data == "main"]
    if len(candidates := named or functions) != 1:
        names = ", ".join(f"@{f.sym_name.data}" for f in functions) or "none"
        raise GraphError(f"one function, or one named @main, expected; the module has {names}")
    return candidates[0]


def check_calls(module: ModuleOp) -> None:
    """Raises GraphError where a function calls itself, be it through others: such a graph never ends."""
    functions = [op for op in module.walk() if isinstance(op, FuncOp)]
    calls = {f.sym_name.data: {c.callee.string_value() for c in f.walk() if isinstance(c, CallOp)} for f in functions}
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        raise GraphError(
            f"functions call each other in a circle: {', '.join(f'@{n}' for n in error.args[1])}"
        ) from None


def text_of(attribute: Attribute | None) -> str | None:
    """The text of a string attribute; None for anything else.

    xDSL reads a string with escaped bytes, which is how it prints every character beyond ASCII, as bytes.
    """
    match attribute:
        case StringAttr(data=text):
            return text
        case BytesAttr(data=raw):
            return raw.decode("utf-8", "replace")
        case _:
            return None


def _attribute(attributes: Sequence[DictionaryAttr], index: int, key: str) -> str | None:
    return text_of(attributes[index].data.get(key)) if index < len(attributes) else None


def arguments(function: FuncOp) -> list[Argument]:
    """Arguments in order; one without ``rlx.input`` or ``rlx.param`` is an input named ``arg<index>``."""
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    result: list[Argument] = []
    for index, value in enumerate(function.body.block.args):
        if (name := _attribute(attributes, index, PARAM)) is not None:
            result.append(Argument(name, "param", value))
        else:
            result.append(Argument(_attribute(attributes, index, INPUT) or f"arg{index}", "input", value))
    _check_distinct(function, "arguments", [a.name for a in result])
    return result


def _check_distinct(function: FuncOp, what: str, names: Sequence[str]) -> None:
    if duplicates := [name for name, count in Counter(names).items() if count > 1]:
        raise GraphError(f"@{function.sym_name.data}: several {what} are named {', '.join(sorted(duplicates))}")


def output_names(function: FuncOp) -> list[str]:
    """Result names from ``rlx.output`` result attributes, ``out<index>`` where there is none; all distinct."""
    attributes = function.res_attrs.data if function.res_attrs is not None else ()
    count = len(function.function_type.outputs.data)
    names = [_attribute(attributes, i, OUTPUT) or f"out{i}" for i in range(count)]
    _check_distinct(function, "results", names)
    return names


def outputs(function: FuncOp) -> Sequence[SSAValue]:
    """The values that the function returns."""
    terminator = function.body.block.last_op
    if not isinstance(terminator, ReturnOp):
        raise GraphError(f"@{function.sym_name.data} must end in func.return")
    return terminator.operands


def is_load_time(value: SSAValue, known: dict[SSAValue, bool] | None = None) -> bool:
    """Whether ``value`` is the same at every call, so that it can be computed when the weights are loaded.

    Such are parameters of a function, constants, and the results of pure operations on only those. An operation whose
    regions see values outside of them is none.
    ``known`` keeps answers from one question to the next, which makes many questions about one graph linear in its
    size; it stays right while values are only replaced by equal ones.
    """
    known = {} if known is None else known
    path = [value]
    while path:
        found = _load_time_or_operand(path[-1], known)
        if isinstance(found, bool):
            known[path.pop()] = found
        else:
            path.append(found)
    return known[value]


def _load_time_or_operand(value: SSAValue, known: Mapping[SSAValue, bool]) -> bool | SSAValue:
    """The answer for ``value`` as far as it follows from ``known``, else an operand whose answer has to come first."""
    if value in known:
        return known[value]
    op = value.owner
    if isinstance(op, Block):
        return isinstance(value, BlockArgument) and _is_parameter(value)
    if not is_side_effect_free(op) or (op.regions and not op.has_trait(IsolatedFromAbove)):
        return False
    if any(known.get(operand) is False for operand in op.operands):
        return False
    return next((operand for operand in op.operands if operand not in known), True)


def _is_parameter(argument: BlockArgument) -> bool:
    block = argument.owner
    function = block.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None or block is not function.body.first_block:
        return False
    return _attribute(function.arg_attrs.data, argument.index, PARAM) is not None
