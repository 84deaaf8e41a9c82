"""The pass ``rlx-lower-to-mlx``, and the text of ``-t mlx-python``: a Python function for each graph.

A family's file registers a function for each of its operations with :func:`lowers`. The pass keeps the dialect: it
decomposes what has no such function, so that what is left prints, and refuses what can be neither in one error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import Float64Type, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from rlx_dialect.base import RlxOp, element_of, shape_of
from rlx_dialect.graph import Argument, arguments, main_function, output_names, outputs
from rlx_dialect.lowering import LoweringError, NotLowered
from rlx_dialect.lowering.legalize import legalize, refuse_unsupported
from rlx_dialect.lowering.registry import Lowerings
from rlx_dialect.lowering.to_mlx.text import dtype, dtype_name, folded, shape_text, tuple_text
from rlx_dialect.lowering.to_mlx.writer import INDENT, Printed, Writer
from rlx_dialect.operation import describe
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.control_flow import IfOp, WhileOp
from rlx_dialect.ops.elementwise import ActivationOp, BinaryOp, CompareOp
from rlx_dialect.ops.reduction import ReduceOp
from rlx_dialect.xdsl_compat import Context, ModulePass

Lowering = Callable[[Any, Writer], "str | Sequence[str]"]
"""Gives the expression of each result; lines before it are written to the writer."""

LOWERINGS: Lowerings[Lowering] = Lowerings(__name__.rpartition(".")[0])
lowers = LOWERINGS.lowers
declines = LOWERINGS.declines


@LOWERINGS.declining
def _why_not(op: Operation) -> str | None:
    try:
        for value in (*op.operands, *op.results):
            dtype(element_of(value))
    except NotLowered as error:
        return str(error)
    return None


_SHORT = {
    "rlx.fused_conv_bias_act": "conv_bias",
    "rlx.fused_matmul_bias_act": "linear",
    "rlx.fused_matmul_residual": "linear",
    "rlx.fused_residual_ln": "normed",
    "rlx.fused_residual_rms_norm": "normed",
    "rlx.fused_swiglu": "gated",
}
"""What results are called that have no name."""


def _hint(op: Operation) -> str:
    if isinstance(op, ActivationOp | BinaryOp | CompareOp | ReduceOp):
        return op.kind.data.value
    return _SHORT.get(op.name, op.name.removeprefix("rlx."))


def _data_dependent(function: FuncOp) -> Operation | None:
    """An operation whose values decide what runs, so that tracing cannot go through it."""
    return next((op for op in function.walk() if isinstance(op, IfOp | WhileOp)), None)


class _Module:
    """The text of one module."""

    def __init__(self):
        self.printed = Printed()
        self.problems: list[str] = []
        self.main: list[str] = []
        """What is printed of the main function beside it: how names of the model become arguments."""

    def lower(self, op: Operation, w: Writer) -> None:
        """The lines of one operation; a problem is noted, and its results get names all the same."""
        if isinstance(op, ConstantOp):
            return
        try:
            if not isinstance(op, RlxOp):
                raise NotLowered("it is not of the RLX dialect")
            lowering = LOWERINGS.get(type(op))
            why = LOWERINGS.why_not(op, "mlx")
            if lowering is None or why is not None:
                raise NotLowered(why)
            found = lowering(op, w)
            expressions = [found] if isinstance(found, str) else found
        except NotLowered as error:
            self.problems.append(f"{describe(op)}: {error}")
            expressions = ["None"] * len(op.results)
        for result, expression in zip(op.results, expressions, strict=True):
            # What is a name already needs no line of its own.
            if not expression.isidentifier() or expression == "None":
                expression = w.let(result.name_hint or _hint(op), expression)
            w.bind(result, expression)

    def function(self, function: FuncOp, is_main: bool) -> list[str]:
        """The lines of a graph."""
        w = Writer(self.printed, self.lower)
        name = self.printed.names.fresh(function.sym_name.data)
        ordered = sorted(arguments(function), key=lambda a: a.kind == "param")  # stable: inputs, then parameters
        parameters = [w.fresh(a.value, a.name) for a in ordered]
        names = output_names(function)
        lines: list[str] = []
        deciding = _data_dependent(function)
        if deciding is None:
            lines.append("@mx.compile")
        else:
            lines.append(f"# Not compiled: the values of {deciding.name} decide what runs.")
        lines += folded(f"def {name}({', '.join(parameters)}):", "")
        returned = outputs(function)
        try:
            lines += self._docstring(ordered, parameters, names, returned)
        except NotLowered as error:
            self.problems.append(f"@{function.sym_name.data}: {error}")
        if any(_is_f64(v) for op in function.walk() for v in (*op.operands, *op.results)):
            lines.append(f"{INDENT}with mx.stream(mx.cpu):  # MLX has float64 there alone.")
            with w.nested(), w.nested():
                self._body(function, w)
        else:
            with w.nested():
                self._body(function, w)
        if is_main:
            self.main = _interface(name, ordered, parameters, names)
        return [*lines, *w.lines]

    def _body(self, function: FuncOp, w: Writer) -> None:
        for op in function.body.block.ops:
            if isinstance(op, ReturnOp):
                values: list[str] = []
                for value in op.operands:
                    try:
                        values.append(w.value(value))
                    except NotLowered as error:
                        self.problems.append(f"an output of @{function.sym_name.data}: {error}")
                w.line(f"return {', '.join(values) or '()'}")
            else:
                self.lower(op, w)

    @staticmethod
    def _docstring(
        ordered: Sequence[Argument], parameters: Sequence[str], names: Sequence[str], returned: Sequence[SSAValue]
    ) -> list[str]:
        kinds = {"input": "input", "param": "parameter"}
        rows = [
            f"{argument}: {kinds[a.kind]} {a.name!r}, {_type_text(a.value)}"
            for argument, a in zip(parameters, ordered, strict=True)
        ]
        rows += [f"returns {name!r}, {_type_text(value)}" for name, value in zip(names, returned, strict=True)]
        rows = [row.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for row in rows]
        return [f'{INDENT}"""', *(INDENT + row for row in rows), f'{INDENT}"""']

    def functions(self, module: ModuleOp, main: FuncOp | None) -> list[list[str]]:
        """The lines of every graph; raises LoweringError."""
        for name in ("INPUTS", "PARAMETERS", "OUTPUTS", "load", "run"):
            self.printed.names.fresh(name)
        bodies: list[list[str]] = []
        for op in module.ops:
            if isinstance(op, FuncOp) and not op.is_declaration:
                bodies.append(self.function(op, op is main))
            else:
                self.problems.append(f"{describe(op)}: it is no graph")
        if self.problems:
            raise LoweringError("cannot be written for MLX", self.problems)
        return bodies

    def text(self, module: ModuleOp) -> str:
        main = main_function(module)
        bodies, printed = self.functions(module, main), self.printed
        lines = [
            f'"""The graph @{main.sym_name.data} for MLX, as rlx-opt -t mlx-python wrote it.',
            "",
            "run() takes every input and parameter by its name in the model, load() reads parameters from a file.",
            '"""',
            "",
            "import mlx.core as mx",
            "",
            *self.main[:3],
        ]
        if printed.constants:
            lines.append("")
            for expression, name in printed.constants.items():
                lines += folded(f"{name} = {expression}", "")
        for text in printed.snippets.texts(printed.used):
            lines += ["", "", *text.splitlines()]
        for text, name in printed.functions.items():
            lines += ["", "", "@mx.compile", *f"def {name}{text}".splitlines()]
        for body in bodies:
            lines += ["", "", *body]
        return "\n".join([*lines, *self.main[3:], ""])


def _is_f64(value: SSAValue) -> bool:
    return isinstance(element_of(value), Float64Type)


def _type_text(value: SSAValue) -> str:
    return f"{dtype_name(element_of(value))} {shape_text(shape_of(value))}"


def _interface(name: str, ordered: Sequence[Argument], parameters: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Three tables of names, and the functions that use them."""
    tables = {
        kind: {a.name: p for a, p in zip(ordered, parameters, strict=True) if a.kind == kind}
        for kind in ("input", "param")
    }
    results = "{OUTPUTS[0]: results}" if len(outputs) == 1 else "dict(zip(OUTPUTS, results))"
    return [
        f"INPUTS = {_table(tables['input'])}",
        f"PARAMETERS = {_table(tables['param'])}",
        f"OUTPUTS = {_sequence(outputs)}",
        "",
        "",
        "def load(path):",
        f'{INDENT}"""The parameters by their names in the model, from a safetensors file."""',
        f'{INDENT}stored = mx.load(path, format="safetensors")',
        f"{INDENT}return {{name: stored[name] for name in PARAMETERS}}",
        "",
        "",
        "def run(values):",
        f'{INDENT}"""The outputs by name, for an array of every input and parameter by name."""',
        f"{INDENT}results = {name}(*(values[name] for name in (*INPUTS, *PARAMETERS)))",
        f"{INDENT}return {results}",
    ]


def _quoted(text: str) -> str:
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def _table(names: dict[str, str]) -> str:
    if not names:
        return "{}"
    rows = [f"{INDENT}{_quoted(name)}: {_quoted(argument)}," for name, argument in names.items()]
    return "\n".join(["{", *rows, "}"])


def _sequence(names: Sequence[str]) -> str:
    return tuple_text(map(_quoted, names))


def python_module(module: ModuleOp) -> str:
    """The text of a Python module that needs MLX alone; raises LoweringError for what does not print, GraphError."""
    return _Module().text(module)


@dataclass(frozen=True)
class LowerToMlx(ModulePass):
    """Decompose what MLX has no form for, so that ``-t mlx-python`` prints the rest; raises LoweringError."""

    name = "rlx-lower-to-mlx"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        refuse_unsupported("mlx", legalize(op, "mlx", "mlx"))
        _Module().functions(op, None)  # For its checks.
