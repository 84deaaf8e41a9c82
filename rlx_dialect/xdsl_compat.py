"""The one module that knows xDSL's moving parts.

xDSL renames and removes APIs every few weeks. What RLX needs of its rewriter, parser, printer, passes,
interpreter and command lines is imported from here, so that an upgrade touches one file. The stable core
(``xdsl.ir``, ``xdsl.irdl``, the builtin and func dialects) is imported directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import StringIO
from typing import TypeVar, cast, get_args

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import AnyFloat, ComplexType, IndexType, IntegerType, ModuleOp
from xdsl.interfaces import HasCanonicalizationPatternsInterface, HasFolderInterface
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues
from xdsl.parser import AttrParser, Parser
from xdsl.passes import ModulePass, PassPipeline
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import SymbolOpInterface, is_side_effect_free
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    InterpretationError,
    ParseError,
    ShrinkException,
    VerifyException,
)
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

__all__ = [
    "ArgSpecParseError",
    "AttrParser",
    "Builder",
    "ConstantMaterializationInterface",
    "Context",
    "DiagnosticException",
    "ExactParser",
    "Frontend",
    "GreedyRewritePatternApplier",
    "HasCanonicalizationPatternsInterface",
    "HasFolderInterface",
    "InsertPoint",
    "InterpretationError",
    "Interpreter",
    "InterpreterFunctions",
    "ModulePass",
    "ParseError",
    "Parser",
    "PassPipeline",
    "PatternRewriteWalker",
    "PatternRewriter",
    "PatternRewriterListener",
    "Printer",
    "PythonValues",
    "RewritePattern",
    "Rewriter",
    "ShrinkException",
    "SymbolOpInterface",
    "Target",
    "VerifyException",
    "all_passes",
    "annotated_roots",
    "func_functions",
    "interpreter_functions",
    "is_side_effect_free",
    "op_type_rewrite_pattern",
    "parse_angle_brackets",
    "parse_module",
    "parse_pipeline",
    "parse_rest_of_line_memoised",
    "print_generic",
    "print_module",
    "restore_operand",
    "rlx_context",
    "set_result_type",
    "set_type",
    "xDSLOptMain",
]

T = TypeVar("T")

_BLANK = re.compile(r"(\s|//[^\n]*)*")


def set_type(value: SSAValue, type: Attribute) -> None:
    """Give a value another type, which its users read from then on."""
    value._type = type  # pyright: ignore[reportPrivateUsage]


def set_result_type(result: OpResult, type: Attribute) -> None:
    """Give a result that has no uses yet its inferred type."""
    set_type(result, type)


def restore_operand(op: Operation, index: int, value: SSAValue) -> None:
    """Let an erased operation, which is a user of nothing, show ``value`` as the operand that it had."""
    assert not op._operand_uses  # pyright: ignore[reportPrivateUsage]
    operands = op._operands  # pyright: ignore[reportPrivateUsage]
    op._operands = SSAValues((*operands[:index], value, *operands[index + 1 :]))  # pyright: ignore[reportPrivateUsage]


def annotated_roots(pattern: type[RewritePattern]) -> tuple[type[Operation], ...]:
    """What the signature under ``@op_type_rewrite_pattern`` says; every operation where there is no such decorator."""
    # xDSL's decorator keeps the annotation only in its closure.
    method = pattern.match_and_rewrite
    cells = dict(zip(method.__code__.co_freevars, method.__closure__ or (), strict=True))
    annotation = cells["expected_type"].cell_contents if "expected_type" in cells else Operation
    return get_args(annotation) or (annotation,)


def parse_rest_of_line_memoised(parser: Parser, parse: Callable[[], T]) -> T:
    """``parse()``, or what it gave before for the same text up to the end of the line.

    Type signatures repeat thousands of times in a graph and lexing them is half of xDSL's parse time. The
    value is kept for this parser only (type aliases differ between files), and only when ``parse`` consumed
    exactly the rest of the line. Where the text may go on in the next line, the caller has to look.
    """
    memo = cast("dict[str, T]", parser.__dict__.setdefault("_rlx_rest_of_line", {}))
    content = parser.lexer.input.content
    start = parser.pos
    end = content.find("\n", start)
    if end < 0:
        return parse()
    rest = content[start:end]
    if rest in memo:
        parser._resume_from(end)  # pyright: ignore[reportPrivateUsage]
        return memo[rest]
    value = parse()
    if parser.pos > end and _BLANK.fullmatch(content, end, parser.pos):
        memo[rest] = value
    return value


def parse_angle_brackets(parser: AttrParser) -> str:
    """The text between the angle brackets that come next, with balanced brackets of all kinds in it."""
    return parser._parse_dialect_symbol_body()  # pyright: ignore[reportPrivateUsage]


class ExactParser(Parser):
    """xDSL's parser, where a hex float inside a dense value is the bit pattern that MLIR means by it.

    xDSL 0.75 reads it as an integer, although it prints infinities and NaN that way.
    """

    class _TensorLiteralElement(Parser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
        def to_type(self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType):
            element = type.element_type if isinstance(type, ComplexType) else type
            if "0x" not in self.span.text or not isinstance(element, AnyFloat):
                return super().to_type(parser, type)
            values: list[float] = []
            for text in self.span.text.strip("()").split(","):
                digits = text.strip().removeprefix("0x").zfill(2 * element.compile_time_size)
                if len(digits) != 2 * element.compile_time_size:
                    parser.raise_error(f"{text} has not the size of {element}", at_position=self.span)
                values += element.unpack(bytes.fromhex(digits)[::-1], 1)
            return (values[0], values[1]) if isinstance(type, ComplexType) else values[0]


def func_functions() -> InterpreterFunctions:
    """The interpreter functions of ``func``; imported late, because they bring in those of every dialect of xDSL."""
    from xdsl.interpreters.func import FuncFunctions

    return FuncFunctions()


def interpreter_functions(
    name: str, impls: dict[type[Operation], Callable[[Operation, Sequence[object]], Sequence[object]]]
) -> InterpreterFunctions:
    """xDSL interpreter functions from a table, one callable (operation, operand values) -> result values a class."""
    from xdsl.interpreter import impl, register_impls

    def method(op_type: type[Operation], run: Callable[[Operation, Sequence[object]], Sequence[object]]):
        def call(self: object, interpreter: Interpreter, op: Operation, args: PythonValues) -> PythonValues:
            return tuple(run(op, args))

        return impl(op_type)(call)

    methods = {f"run_{op_type.__name__}": method(op_type, run) for op_type, run in impls.items()}
    return register_impls(type(name, (InterpreterFunctions,), methods))()


def rlx_context(*, allow_unregistered: bool = True) -> Context:
    """A context that knows every dialect of xDSL and of installed packages, RLX included, loaded on first use."""
    from xdsl.universe import Universe

    ctx = Context(allow_unregistered=allow_unregistered)
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    return ctx


def all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Every pass of xDSL and of installed packages by name, RLX's included; a factory imports its pass."""
    from xdsl.universe import Universe

    return Universe.get_multiverse().all_passes


def parse_module(text: str, ctx: Context, name: str = "<string>") -> ModuleOp:
    """Parse one module; ``name`` is the file that errors point at."""
    return ExactParser(ctx, text, name).parse_module()


def print_module(module: Operation) -> str:
    """Custom assembly, one trailing newline."""
    stream = StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue().rstrip("\n") + "\n"


def print_generic(module: Operation) -> str:
    """Generic form, the only one handed to other compilers (xDSL's custom forms lose attributes on a few ops)."""
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    return stream.getvalue().rstrip("\n") + "\n"
