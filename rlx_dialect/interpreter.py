"""The reference interpreter: RLX operations as xDSL interpreter functions over NumPy arrays.

It is the meaning of the dialect. f16 and bf16 are computed in float32 and rounded after each operation.
``reference_interpreter(module)`` is an ordinary xDSL :class:`Interpreter`; :func:`run_reference` calls one
function of a module with arrays by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from rlx_dialect.base import RlxOp, evaluate_op
from rlx_dialect.dialect import RLX
from rlx_dialect.dtypes import Array
from rlx_dialect.graph import arguments, main_function
from rlx_dialect.xdsl_compat import Interpreter, InterpreterFunctions, func_functions, interpreter_functions


def _run(op: Operation, args: Sequence[object]) -> Sequence[object]:
    return evaluate_op(cast("RlxOp", op), cast("Sequence[Array]", args))


def rlx_functions() -> InterpreterFunctions:
    """Implementations of every RLX operation, to register with any xDSL interpreter."""
    return _functions_of(tuple(op for op in RLX.operations if issubclass(op, RlxOp)))


@cache
def _functions_of(operations: tuple[type[RlxOp], ...]) -> InterpreterFunctions:
    # xDSL makes a class of it, which takes longer than running most functions.
    return interpreter_functions("RlxFunctions", dict.fromkeys(operations, _run))


def reference_interpreter(module: ModuleOp) -> Interpreter:
    interpreter = Interpreter(module)
    interpreter.register_implementations(func_functions())
    interpreter.register_implementations(rlx_functions())
    return interpreter


def run_reference(module: ModuleOp, values: Mapping[str, Array], function: FuncOp | None = None) -> list[Array]:
    """The results of the main function (or ``function``) for argument values by name, in result order.

    Raises KeyError naming the argument that has no value.
    """
    function = function or main_function(module)
    args: list[Array] = []
    for argument in arguments(function):
        if argument.name not in values:
            raise KeyError(f"no value for argument '{argument.name}' of @{function.sym_name.data}")
        args.append(np.asarray(values[argument.name]))
    return list(reference_interpreter(module).call_op(function, tuple(args)))
