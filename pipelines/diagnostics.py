"""One clear message for what goes wrong with a file: where, which operation, what was expected; never a module."""

from __future__ import annotations

from io import StringIO

from xdsl.dialects.builtin import ArrayAttr, FileLineColLoc, FusedLoc, LocationAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from rlx_dialect.xdsl_compat import DiagnosticException, ParseError, Printer

MAX_OPERATION_TEXT = 400


class OptError(DiagnosticException):
    """A message that is ready to be shown: it names the file, and the operation where there is one."""

    internal = False
    """Whether it reports a mistake of ours, so that the cause's traceback is wanted too."""


def message(file: str, text: str, op: Operation | None = None) -> str:
    """``model.mlir:7:8: error: 'rlx.matmul': …`` with the operation on a second line."""
    if op is None:
        return f"{file}: error: {text}"
    if op.name not in text:
        text = f"'{op.name}': {text}"
    return f"{place(op.location) or file}: error: {text}\n  in {_function(op)}{operation_text(op)}"


def parse_message(error: ParseError) -> str:
    """A syntax error with the line that it is in."""
    first, *context = error.span.print_with_context().rstrip().splitlines()
    return "\n".join([f"{first}: error: {error.msg}", *context])


def place(location: LocationAttr) -> str | None:
    """``model.mlir:7:8``, the first one where there are several; None where none is known."""
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case FusedLoc(locations=ArrayAttr(data=parts)):
            places = (place(inner) for inner in parts if isinstance(inner, LocationAttr))
            return next((p for p in places if p), None)
        case _:
            return None


def _function(op: Operation) -> str:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return "" if parent is None else f"@{parent.sym_name.data}: "


class _Recorder(Printer):
    """Prints a module and remembers the text of one operation, so that its values have the names they have there."""

    def __init__(self, wanted: Operation, generic: bool):
        super().__init__(stream=StringIO(), print_generic_format=generic)
        self.wanted = wanted
        self.text = ""

    def print_op(self, op: Operation) -> None:
        start = self.stream.tell()
        super().print_op(op)
        if op is self.wanted:
            self.stream.seek(start)
            self.text = self.stream.read()


def operation_text(op: Operation) -> str:
    """The first line of the operation as it stands in its module, of bounded length."""
    top = op.get_toplevel_object()
    for generic in (False, True):
        recorder = _Recorder(op, generic)
        try:
            recorder.print_op(top if isinstance(top, Operation) else op)
        except Exception:  # an invalid operation may lack what its own format needs
            continue
        first, *rest = recorder.text.splitlines()
        return first[:MAX_OPERATION_TEXT] + (" …" if rest or len(first) > MAX_OPERATION_TEXT else "")
    return op.name
