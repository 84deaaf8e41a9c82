"""What lowerings write Python with: values by name, one line an operation, helpers where they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from xdsl.dialects.builtin import Float64Type, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from rlx_dialect.base import element_of, shape_of
from rlx_dialect.dtypes import Array, is_complex, is_narrow
from rlx_dialect.lowering import NotLowered
from rlx_dialect.lowering.to_mlx.snippets import Snippets
from rlx_dialect.lowering.to_mlx.text import Names, array_text, dtype, folded, is_literal, number, tuple_text
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.shapes import DYNAMIC, is_static

INDENT = "    "


class Printed:
    """The parts of the module that functions share: helpers, constants, functions of regions."""

    def __init__(self):
        self.snippets = Snippets()
        self.names = Names(self.snippets.names)
        self.used: set[str] = set()
        """Names of helpers."""
        self.constants: dict[str, str] = {}
        """Names by expression."""
        self.functions: dict[str, str] = {}
        """Names of functions by their text without the name."""

    def helper(self, name: str) -> str:
        """A helper by name: it is printed, and what it calls too."""
        self.used |= self.snippets.closure(name)
        return name

    def constant(self, expression: str, hint: str) -> str:
        if expression not in self.constants:
            self.constants[expression] = self.names.fresh(hint.upper())
        return self.constants[expression]

    def function(self, text: str, hint: str) -> str:
        """The name of a function; ``text`` begins behind its name."""
        if text not in self.functions:
            self.functions[text] = self.names.fresh(hint)
        return self.functions[text]


class Writer:
    """The body of one printed function."""

    def __init__(self, printed: Printed, lower: Callable[[Operation, Writer], None]):
        self.printed = printed
        self.names = Names(outer=printed.names)
        self.lines: list[str] = []
        self._lower = lower
        self._indent = ""
        self._of: dict[SSAValue, str] = {}
        self._wide: dict[str, str] = {}

    def child(self) -> Writer:
        """The body of another function."""
        return Writer(self.printed, self._lower)

    # Values.

    def bind(self, value: SSAValue, expression: str) -> None:
        """``value`` is ``expression`` from here on: a name or a literal."""
        self._of[value] = expression

    def value(self, value: SSAValue) -> str:
        """The name of an array."""
        if value not in self._of:
            self._of[value] = self._constant(value)
        return self._of[value]

    def values(self, values: Sequence[SSAValue]) -> list[str]:
        return [self.value(v) for v in values]

    def number(self, value: SSAValue) -> str | None:
        """The literal of a constant whose elements are all one number."""
        array = constant_array(value)
        if value in self._of or array is None or not array.size:
            return None
        flat = array.ravel()
        raw = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
        if not (raw == raw[0]).all() or not is_literal(flat[0]) or is_complex(element_of(value)):
            return None
        return number(flat[0], element_of(value))

    def operands(self, values: Sequence[SSAValue]) -> list[str]:
        """Operands that broadcast together: numbers as literals where an array gives the shape and the type."""
        numbers = [self.number(v) for v in values]
        shape = [shape_of(v) for v in values]
        for index in range(len(values)):
            others = [s for i, s in enumerate(shape) if i != index and numbers[i] is None]
            carried = not shape[index] or (is_static(shape[index]) and shape[index] in others)
            if not others or not carried:
                numbers[index] = None
        return [self.value(v) if n is None else n for v, n in zip(values, numbers, strict=True)]

    def wide(self, value: SSAValue) -> str:
        """The name of ``value``, f16 and bf16 as f32."""
        return self.widened(self.value(value), element_of(value))

    def widened(self, name: str, element: Attribute) -> str:
        """An array of f16 or bf16 as f32, converted once."""
        if not is_narrow(element):
            return name
        if name not in self._wide:
            self._wide[name] = self.let(f"{name}_f32", f"{name}.astype(mx.float32)")
        return self._wide[name]

    @staticmethod
    def narrowed(expression: str, element: Attribute) -> str:
        """An f32 expression rounded to f16 or bf16, where that is ``element``."""
        return f"({expression}).astype({dtype(element)})" if is_narrow(element) else expression

    def extent(self, value: SSAValue, axis: int) -> str:
        """An extent as a number, or where it is dynamic as what the array says."""
        extent = shape_of(value)[axis]
        return f"{self.value(value)}.shape[{axis}]" if extent == DYNAMIC else str(extent)

    def extents(self, value: SSAValue) -> list[str]:
        return [self.extent(value, axis) for axis in range(len(shape_of(value)))]

    def shape(self, value: SSAValue) -> str:
        """The shape of an operand as a tuple."""
        return tuple_text(shape_of(value)) if is_static(shape_of(value)) else f"{self.value(value)}.shape"

    def _constant(self, value: SSAValue) -> str:
        array = constant_array(value)
        if array is None:
            raise NotLowered("the value of a constant lies in a resource outside the IR")
        return self.array(array, element_of(value), value.name_hint or "constant")

    def array(self, values: Array, element: Attribute, hint: str = "constant") -> str:
        """The name of a constant of the module."""
        return self.printed.constant(array_text(values, element), hint)

    # Lines.

    def line(self, text: str) -> None:
        self.lines += folded(text, self._indent)

    def let(self, hint: str, expression: str) -> str:
        """A line that names ``expression``."""
        name = self.names.fresh(hint)
        self.line(f"{name} = {expression}")
        return name

    def fresh(self, value: SSAValue, hint: str) -> str:
        """A new name for ``value``, which is bound to it."""
        name = self.names.fresh(value.name_hint or hint)
        self.bind(value, name)
        return name

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Lines of a block of Python. What is converted inside is not known after it."""
        self._indent += INDENT
        known = dict(self._wide)
        yield
        self._wide = known
        self._indent = self._indent.removesuffix(INDENT)

    def call(self, helper: str, *arguments: object) -> str:
        """A call of a helper of :mod:`rlx_dialect.lowering.to_mlx.snippets`."""
        return f"{self.printed.helper(helper)}({', '.join(map(str, arguments))})"

    def block(self, block: Block, arguments: Sequence[str]) -> list[str]:
        """The lines of a body; the names of what it yields."""
        for argument, name in zip(block.args, arguments, strict=True):
            self.bind(argument, name)
        for op in block.ops:
            if op is block.last_op:
                return self.values(op.operands)
            self._lower(op, self)
        raise AssertionError("a verified body ends with rlx.yield")


def constant_array(value: SSAValue) -> Array | None:
    """The elements of a constant that the IR holds."""
    return value.owner.array() if isinstance(value.owner, ConstantOp) else None


def is_f64(value: SSAValue) -> bool:
    return isinstance(element_of(value), Float64Type)


def is_tensor_of_zeros(value: SSAValue) -> bool:
    """Whether ``value`` is a constant of zeros."""
    array = constant_array(value)
    return array is not None and not array.any()


def static_or_none(value: SSAValue) -> tuple[int, ...] | None:
    """The shape where all of it is known."""
    shape = shape_of(value)
    return shape if isinstance(value.type, TensorType) and is_static(shape) else None
