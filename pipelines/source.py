"""Parsing with source locations: every operation knows its line, so that a message about it can say where it is."""

from __future__ import annotations

import re
from bisect import bisect_right

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation

from rlx_dialect.pipelines.diagnostics import OptError
from rlx_dialect.xdsl_compat import Context, ExactParser, VerifyException


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
        except VerifyException as error:
            line, column = self._line_and_column(start)
            raise OptError(f"{self._file.data}:{line}:{column}: error: {error}") from error
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
    """Parse a module whose operations know their places in ``name``; raises ParseError or OptError."""
    return LocatingParser(ctx, text, name, line_offset).parse_module(implicit_module)
