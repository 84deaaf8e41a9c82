"""Which function imports which ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from rlx_dialect.builder import Value
from rlx_dialect.frontends.onnx.known import Known

if TYPE_CHECKING:
    from rlx_dialect.frontends.onnx.node import Node

Result = Value | Known
Handler = Callable[["Node"], Result | Sequence[Result]]
"""Builds one node; gives its outputs, or as many of the leading ones as it can."""

FAMILIES = ("elementwise", "contraction", "reduction", "normalization", "convolution", "shape", "indexing")

_handlers: dict[tuple[str, str], Handler] = {}


def imports(*op_types: str, domain: str = "") -> Callable[[Handler], Handler]:
    """Register the decorated function for these operators."""

    def register(handler: Handler) -> Handler:
        for op_type in op_types:
            assert (domain, op_type) not in _handlers, f"{op_type} is imported twice"
            _handlers[domain, op_type] = handler
        return handler

    return register


def handlers() -> dict[tuple[str, str], Handler]:
    """Every handler by domain (``""`` for ONNX's own) and operator."""
    for family in FAMILIES:
        import_module(f"rlx_dialect.frontends.onnx.{family}")
    return _handlers
