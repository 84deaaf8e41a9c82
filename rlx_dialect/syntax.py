"""The one assembly format of all RLX operations.

    rlx.NAME [keyword] %operand, … [{property = value, …}] : operand types -> result types [region]

- The keyword is the property that the class names in ``KEYWORD`` (``gelu``, ``add``, ``causal``).
- Properties are written plainly: ``axis = 1``, ``perm = [1, 0]``, ``eps = 1.0e-5``, a flag by its name;
  those that have their default value are left out. Discardable attributes follow in MLIR's generic form; one
  without a dialect prefix has its name in quotes, so that a misspelt property is not taken for one.
- One operand: ``T -> R``; several: ``(T, U) -> R``; operations whose operands and result always have one type
  write it once. Several results: ``-> (R, S)``.

How a property is written depends only on its attribute class (``_CODECS``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, UnitAttr, f64, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute

from rlx_dialect.xdsl_compat import Parser, Printer, parse_rest_of_line_memoised

if TYPE_CHECKING:
    from rlx_dialect.base import RlxOp


@dataclass(frozen=True)
class _Codec:
    """How one attribute class is made from Python, written and read. A flag has no written value."""

    of: Callable[[Any], Attribute]
    show: Callable[[Any], str]
    read: Callable[[Parser], Attribute]


def _show_real(value: float) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"


def _read_real(parser: Parser) -> Attribute:
    negative = parser.parse_optional_punctuation("-") is not None
    if (special := parser.parse_optional_keyword_in({"inf", "nan"})) is not None:
        value = math.inf if special == "inf" else math.nan
    else:
        value = float(parser.parse_number())
    return FloatAttr(-value if negative else value, f64)


def _numbers(values: Sequence[float]) -> Attribute:
    """A list of f64 where a value is a float, else of i64."""
    if any(isinstance(value, float) for value in values):
        return DenseArrayBase.from_list(f64, [float(value) for value in values])
    return DenseArrayBase.from_list(i64, [int(value) for value in values])


def _show_numbers(attribute: DenseArrayBase[Any]) -> str:
    show = _show_real if attribute.elt_type == f64 else str
    return "[" + ", ".join(map(show, attribute.get_values())) + "]"


def _read_numbers(parser: Parser) -> Attribute:
    return _numbers(parser.parse_comma_separated_list(Parser.Delimiter.SQUARE, parser.parse_number))


_CODECS: dict[type[Attribute], _Codec] = {
    IntegerAttr: _Codec(
        lambda v: IntegerAttr(v, i64), lambda a: str(a.value.data), lambda p: IntegerAttr(p.parse_integer(), i64)
    ),
    FloatAttr: _Codec(lambda v: FloatAttr(float(v), f64), lambda a: _show_real(a.value.data), _read_real),
    DenseArrayBase: _Codec(_numbers, _show_numbers, _read_numbers),
    StringAttr: _Codec(StringAttr, lambda a: f'"{a.data}"', lambda p: StringAttr(p.parse_str_literal())),
    ArrayAttr: _Codec(
        lambda v: ArrayAttr(map(StringAttr, v)),
        lambda a: "[" + ", ".join(f'"{s.data}"' for s in a) + "]",
        lambda p: ArrayAttr(
            map(StringAttr, p.parse_comma_separated_list(Parser.Delimiter.SQUARE, p.parse_str_literal))
        ),
    ),
}


def _enum_codec(cls: type[EnumAttribute[Any]]) -> _Codec:
    def of(word: str) -> Attribute:
        try:
            return cls(cls.enum_type(word))
        except ValueError as error:
            kinds = ", ".join(str(kind) for kind in cls.enum_type)
            raise ValueError(f"'{word}' is none of {kinds}") from error

    def read(parser: Parser) -> Attribute:
        position = parser.pos
        try:
            return of(parser.parse_identifier())
        except ValueError as error:
            parser.raise_error(str(error), position)

    return _Codec(of, lambda a: a.data.value, read)


@cache
def _codecs(op_type: type[RlxOp]) -> dict[str, _Codec | None]:
    """The codec of each property of an operation class by IR name; None for a flag."""
    codecs: dict[str, _Codec | None] = {}
    for name, definition in op_type.get_irdl_definition().properties.items():
        (base,) = definition.constr.get_bases() or {Attribute}
        if issubclass(base, EnumAttribute):
            codecs[name] = _enum_codec(cast("type[EnumAttribute[Any]]", base))
        elif base is UnitAttr:
            codecs[name] = None
        elif base in _CODECS:
            codecs[name] = _CODECS[base]
        else:
            raise TypeError(f"{op_type.name}: property '{name}' of {base.__name__} needs an own assembly format")
    return codecs


def attributes_of(op_type: type[RlxOp], values: Mapping[str, object]) -> dict[str, Attribute]:
    """Property attributes from plain Python values; None and False mean absent."""
    result: dict[str, Attribute] = {}
    for name, value in values.items():
        if isinstance(value, Attribute):
            result[name] = value
        elif value is not None and value is not False:
            codec = _codecs(op_type)[name]
            result[name] = UnitAttr() if codec is None else codec.of(value)
    return result


def _default(op: RlxOp, name: str) -> Attribute | None:
    return op.get_irdl_definition().properties[name].default_value


def print_op(op: RlxOp, printer: Printer) -> None:
    codecs = _codecs(type(op))
    if op.KEYWORD is not None and (kind := op.properties.get(op.KEYWORD)) not in (None, _default(op, op.KEYWORD)):
        codec = codecs[op.KEYWORD]
        assert codec is not None
        printer.print_string(" " + codec.show(kind))
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_operand)
    print_attributes(op, printer)
    print_signature(op, printer)


def print_attributes(op: RlxOp, printer: Printer) -> None:
    """`` {property = value, …}`` for what is neither the keyword nor a default; nothing when there is none."""
    codecs = _codecs(type(op))
    entries: list[str | tuple[str, Attribute]] = []
    for name, attribute in op.properties.items():
        if name == op.KEYWORD or attribute == _default(op, name):
            continue
        codec = codecs[name]
        entries.append(name if codec is None else f"{name} = {codec.show(attribute)}")
    entries += op.attributes.items()
    if not entries:
        return

    def print_entry(entry: str | tuple[str, Attribute]) -> None:
        if isinstance(entry, str):
            printer.print_string(entry)
        else:
            if "." in entry[0]:
                printer.print_identifier_or_string_literal(entry[0])
            else:
                printer.print_string_literal(entry[0])
            if not isinstance(entry[1], UnitAttr):
                printer.print_string(" = ")
                printer.print_attribute(entry[1])

    printer.print_string(" {")
    printer.print_list(entries, print_entry)
    printer.print_string("}")


def print_signature(op: RlxOp, printer: Printer) -> None:
    printer.print_string(" : ")
    operands, results = op.operand_types, op.result_types
    if op.SAME_TYPE and len(results) == 1 and all(t == results[0] for t in operands):
        printer.print_attribute(results[0])
        return
    _print_types(operands, printer)
    printer.print_string(" -> ")
    _print_types(results, printer)


def _print_types(types: Sequence[Attribute], printer: Printer) -> None:
    if len(types) == 1:
        printer.print_attribute(types[0])
    else:
        printer.print_string("(")
        printer.print_list(types, printer.print_attribute)
        printer.print_string(")")


def parse_op(op_type: type[RlxOp], parser: Parser) -> Any:
    properties: dict[str, Attribute] = {}
    if op_type.KEYWORD is not None:
        parse_keyword(op_type, parser, properties)
    unresolved = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    attributes = parse_attributes(op_type, parser, properties)
    operand_types, result_types = parse_signature(parser, len(unresolved or ()))
    operands = parser.resolve_operands(unresolved or (), operand_types, parser.pos)
    return op_type.create(operands=operands, result_types=result_types, properties=properties, attributes=attributes)


def parse_keyword(op_type: type[RlxOp], parser: Parser, properties: dict[str, Attribute]) -> None:
    """Read the kind, if one is written; whether it may be absent is the operation's own matter."""
    assert op_type.KEYWORD is not None
    position = parser.pos
    if (word := parser.parse_optional_identifier()) is None:
        return
    codec = _codecs(op_type)[op_type.KEYWORD]
    assert codec is not None
    try:
        properties[op_type.KEYWORD] = codec.of(word)
    except ValueError as error:
        parser.raise_error(f"'{op_type.name}': {error}", position)


def parse_attributes(op_type: type[RlxOp], parser: Parser, properties: dict[str, Attribute]) -> dict[str, Attribute]:
    """Read ``{…}`` if it is there: properties go into ``properties``, discardable attributes are returned."""
    codecs = _codecs(op_type)
    attributes: dict[str, Attribute] = {}

    def entry() -> None:
        position = parser.pos
        quoted = parser.parse_optional_str_literal()
        name = parser.parse_identifier() if quoted is None else quoted
        discardable = quoted is not None or name not in codecs
        if name in (attributes if discardable else properties):
            parser.raise_error(f"'{op_type.name}': '{name}' is given twice", position)
        valued = parser.parse_optional_punctuation("=") is not None
        codec = codecs.get(name)
        if discardable:
            if quoted is None and "." not in name:
                known = ", ".join(sorted(n for n in codecs if n != op_type.KEYWORD)) or "none"
                parser.raise_error(f"'{op_type.name}' has no property '{name}' (it has: {known})", position)
            attributes[name] = parser.parse_attribute() if valued else UnitAttr()
        elif codec is None:
            if valued:
                parser.raise_error(f"'{op_type.name}': '{name}' is a flag and takes no value", position)
            properties[name] = UnitAttr()
        elif not valued:
            parser.raise_error(f"'{op_type.name}': '{name}' needs a value", position)
        else:
            properties[name] = codec.read(parser)

    parser.parse_optional_comma_separated_list(Parser.Delimiter.BRACES, entry)
    return attributes


Signature = tuple[Sequence[Attribute], Sequence[Attribute]]


def parse_signature(parser: Parser, operand_count: int) -> Signature:
    """Read ``: types -> types``; a single type stands for every operand and the result."""
    position = parser.pos

    def parse() -> Signature:
        parser.parse_punctuation(":")
        operands = _parse_types(parser)
        if parser.parse_optional_punctuation("->") is None:
            return operands, operands
        return operands, _parse_types(parser)

    operands, results = parse_rest_of_line_memoised(parser, parse)
    if operands is results and parser.parse_optional_punctuation("->") is not None:
        # What was remembered ended with its line; here the signature goes on in the next one.
        results = _parse_types(parser)
    if operands is results and len(operands) == 1:
        operands = [operands[0]] * operand_count
    if len(operands) != operand_count:
        parser.raise_error(f"{operand_count} operands but {len(operands)} operand types", position)
    return operands, results


def _parse_types(parser: Parser) -> Sequence[Attribute]:
    types = parser.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if types is None else types
