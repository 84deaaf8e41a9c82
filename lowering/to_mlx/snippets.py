"""The helpers that printed modules may hold: functions of the files in ``python/``, taken from there as text.

Those files import MLX, so they are read and never imported here.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.resources import files


@cache
def _functions() -> dict[str, tuple[str, frozenset[str]]]:
    """Text and used names of each function, in the order of the files."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for name in ("double.py", "helpers.py"):
        source = (files(__name__.rpartition(".")[0]) / "python" / name).read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                text = ast.get_source_segment(source, node)
                assert text is not None
                found[node.name] = text, frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    return found


class Snippets:
    """Helpers by name."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(_functions())

    def closure(self, name: str) -> set[str]:
        """``name`` and the helpers that it calls."""
        found: set[str] = set()
        left = [name]
        while left:
            one = left.pop()
            if one not in found:
                found.add(one)
                left += _functions()[one][1] & self.names
        return found

    def texts(self, names: set[str]) -> list[str]:
        """The functions in the order of the files."""
        return [text for name, (text, _) in _functions().items() if name in names]
