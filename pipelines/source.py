"""Reading modules with source locations: a message about an operation can say where it is."""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation

from rlx_dialect.passes.matching.dominance import DominanceError, check_dominance
from rlx_dialect.pipelines.diagnostics import OptError, message, parse_message
from rlx_dialect.xdsl_compat import Context, DiagnosticException, ExactParser, ParseError, VerifyException

UNREADABLE = (VerifyException, ValueError, OverflowError, NotImplementedError)
"""What xDSL's parser lets through for a number or a type that it cannot hold, besides what it says itself."""


class LocatingParser(ExactParser):
    """xDSL's parser; operations without an explicit ``loc(…)`` get the place where they begin."""

    def __init__(self, ctx: Context, text: str, name: str, line_offset: int = 0):
        super().__init__(ctx, text, name)
        self._file = StringAttr(name)
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self._line_offset = line_offset

    def parse_operation(self) -> Operation:
        start = self.pos
        try:
            op = super().parse_operation()
        except UNREADABLE as error:
            line, column = self._line_and_column(start)
            text = str(error) or "xDSL cannot hold a value of this type"
            raise OptError(f"{self._file.data}:{line}:{column}: error: {text}") from error
        if isinstance(op.location, UnknownLoc):
            line, column = self._line_and_column(start)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def _line_and_column(self, position: int) -> tuple[int, int]:
        line = bisect_right(self._lines, position)
        return line + self._line_offset, position - self._lines[line - 1] + 1


def parse_located(
    ctx: Context, text: str, name: str, *, line_offset: int = 0, implicit_module: bool = True
) -> ModuleOp:
    """Parse a module whose operations know their places in ``name``; raises ParseError or OptError.

    A text of nothing but space and comments is an empty module, as for ``mlir-opt``.
    """
    if implicit_module and not re.sub(r"//.*", "", text).strip():
        return ModuleOp([])
    return LocatingParser(ctx, text, name, line_offset).parse_module(implicit_module)


def verify_module(module: ModuleOp, file: str, when: str = "") -> None:
    """Verify ``module``, dominance included; raises OptError with the first operation that is wrong."""
    try:
        module.verify()
        check_dominance(module)
    except (DiagnosticException, ValueError) as error:
        op = error.op if isinstance(error, DominanceError) else _invalid_operation(module)
        raise OptError(message(file, f"{when}{error}", op)) from error


def _invalid_operation(module: ModuleOp) -> Operation | None:
    """The first operation that does not verify by itself."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except (DiagnosticException, ValueError):
            return op
    return None


def read_module(path: Path, ctx: Context) -> ModuleOp:
    """The verified module in a file; everything that is wrong with the file is an OptError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptError(message(str(path), f"an .mlir file expected: {error}")) from error
    try:
        module = parse_located(ctx, text, str(path))
    except ParseError as error:
        raise OptError(parse_message(error)) from error
    verify_module(module, str(path))
    return module
