"""A graph of one operation for every operation that the round-trip tests of the dialect show, with values to run it on.

The tests of a target run these: each operation in the dtypes, forms and shapes, static and dynamic, that
``tests/filecheck/dialect`` has of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import InterpretationError, VerifyException

from rlx_dialect import RLX
from rlx_dialect.base import RlxOp
from rlx_dialect.dtypes import Array, is_float, round_to
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.interpreter import run_reference
from rlx_dialect.lowering.to_cpu.specialise import specialise
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.samples import random_value
from rlx_dialect.shapes import DYNAMIC, Shape, is_static
from rlx_dialect.xdsl_compat import parse_module, print_module, rlx_context

ROUND_TRIPS = Path(__file__).parent / "filecheck" / "dialect"
OTHER_TESTS = ("_invalid", "_syntax", "_canonicalize", "_resource")


def _positive_definite(x: Array) -> Array:
    return x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1])


def _dominant(x: Array) -> Array:
    """Far from singular, with a positive determinant."""
    return 0.1 * x + np.eye(x.shape[-1])


def _positive(x: Array) -> Array:
    return np.abs(x) + 0.5


PREPARED: Mapping[tuple[str, int], Callable[[Array], Array]] = {
    ("rlx.batch_norm_inference", 4): _positive,
    ("rlx.cholesky", 0): _positive_definite,
    ("rlx.dense_solve", 0): _dominant,
    ("rlx.det", 0): _dominant,
    ("rlx.log_det", 0): _dominant,
    ("rlx.triangular_solve", 0): _dominant,
}
"""Operands that not every number fits, by operation and number."""


SIGNS_ARE_FREE = frozenset({"rlx.qr", "rlx.svd"})
"""Operations of which the signs of results are not specified: of a vector and its opposite, roundings choose."""


@dataclass(frozen=True)
class OpCase:
    """One operation of a round-trip test, alone: its distinct operands are the inputs, its results the outputs."""

    op: str
    """The operation's name."""
    id: str
    text: str
    static: bool
    """All extents of operands and results are known."""
    dtypes: frozenset[str]
    """Element types of operands and results as MLIR spells them."""

    def module(self) -> ModuleOp:
        """A new module with the function ``@main``."""
        return parse_module(self.text, rlx_context(), self.id)

    def values(self, seed: int = 0) -> dict[str, Array]:
        """Inputs by name that the reference takes: indices lie within extents, dynamic extents fit each other."""
        module = self.module()
        errors: list[str] = []
        for extents in _choices(sum(t.get_shape().count(DYNAMIC) for t in _types(module))):
            # Largest first, so that indices reach far.
            for bound in (5, 4, 3, 2, 1):
                values = self._values(module, np.random.default_rng(seed), extents, bound)
                try:
                    specialise(main_function(case := self.module()), [v.shape for v in values.values()])
                    run_reference(case, values)
                except (InterpretationError, VerifyException, ValueError) as error:
                    errors.append(str(error))
                else:
                    return values
        raise AssertionError(f"{self.id}: no values fit: {'; '.join(dict.fromkeys(errors))}")

    def specified(self, result: Array) -> Array:
        """What of a result is the same on every target."""
        return np.abs(result) if self.op in SIGNS_ARE_FREE else result

    def _values(self, module: ModuleOp, rng: np.random.Generator, extents: Shape, bound: int) -> dict[str, Array]:
        (op,) = (o for o in main_function(module).body.block.ops if o.name == self.op)
        values: dict[str, Array] = {}
        known = iter(extents)
        for argument, type in zip(arguments(main_function(module)), _types(module), strict=True):
            element, shape = type.element_type, [next(known) if d == DYNAMIC else d for d in type.get_shape()]
            value = random_value(TensorType(element, shape), rng)
            if not is_float(element) and value.dtype.kind in "iu":
                value = value % bound
            if (prepare := PREPARED.get((self.op, op.operands.index(argument.value)))) is not None:
                value = round_to(prepare(value.astype(np.float64)), element)
            values[argument.name] = value
        return values


def _types(module: ModuleOp) -> list[TensorType]:
    types = [argument.value.type for argument in arguments(main_function(module))]
    return [t for t in types if isinstance(t, TensorType)]


def _choices(count: int) -> Iterator[Shape]:
    """Values to try for ``count`` dynamic extents: all the same, then all combinations."""
    extents = (3, 4, 5, 8, 2, 1)
    yield from ((e,) * count for e in extents)
    yield from product(extents, repeat=count)


def _case(op: RlxOp, name: str) -> OpCase:
    operands = list(dict.fromkeys(op.operands))
    block = Block(arg_types=[o.type for o in operands])
    mapping: dict[SSAValue, SSAValue] = dict(zip(operands, block.args, strict=True))
    clone = op.clone(mapping)
    block.add_ops([clone, ReturnOp(*clone.results)])
    types = [*block.arg_types, *clone.result_types]
    function = FuncOp("main", FunctionType.from_lists(block.arg_types, clone.result_types), Region(block))
    tensors = [t for t in types if isinstance(t, TensorType)]
    return OpCase(
        op=op.name,
        id=name,
        text=print_module(ModuleOp([function])),
        static=all(is_static(t.get_shape()) for t in tensors),
        dtypes=frozenset(str(t.element_type) for t in tensors),
    )


def _found() -> list[OpCase]:
    cases: dict[str, OpCase] = {}
    for path in sorted(ROUND_TRIPS.glob("*.mlir")):
        if path.stem.endswith(OTHER_TESTS):
            continue
        for function in parse_module(path.read_text(), rlx_context(), path.name).ops:
            assert isinstance(function, FuncOp)
            number = 0
            for op in function.body.block.ops:
                # A constant alone is no computation; a scalar is what regions compute with.
                if not isinstance(op, RlxOp) or isinstance(op, ConstantOp):
                    continue
                if not all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
                    continue
                case = _case(op, f"{op.name.removeprefix('rlx.')}-{path.stem}-{function.sym_name.data}-{number}")
                cases.setdefault(case.text, case)
                number += 1
    found = [*cases.values(), *_in_f32(list(cases.values()))]
    return sorted(found, key=lambda c: (c.op, c.id))


def _in_f32(cases: list[OpCase]) -> Iterator[OpCase]:
    """Operations that are shown in bf16 only, which not every target has, in f32 too."""
    for op in {c.op for c in cases} - {c.op for c in cases if "bf16" not in c.dtypes}:
        case = min((c for c in cases if c.op == op), key=lambda c: (not c.static, c.id))
        dtypes = case.dtypes - {"bf16"} | {"f32"}
        yield replace(case, id=f"{case.id}-f32", text=case.text.replace("bf16", "f32"), dtypes=dtypes)


@cache
def op_cases() -> tuple[OpCase, ...]:
    """All of them, by operation."""
    return tuple(_found())


CASES = op_cases()


def one_each(cases: tuple[OpCase, ...] = CASES) -> list[OpCase]:
    """The first case of each operation, a static one where there is one: for compilers that take long."""
    chosen: dict[str, OpCase] = {}
    for case in sorted(cases, key=lambda c: not c.static):
        chosen.setdefault(case.op, case)
    return [chosen[name] for name in sorted(chosen)]


def operations() -> frozenset[str]:
    """The names of the operations that compute something: all but terminators and the constant."""
    return frozenset(o.name for o in RLX.operations if issubclass(o, RlxOp)) - {ConstantOp.name}
