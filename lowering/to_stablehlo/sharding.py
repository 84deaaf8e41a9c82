"""How a graph is split over devices: ``rlx.mesh`` and ``rlx.sharding`` become the attributes of XLA's Shardy.

The module says ``rlx.mesh = "data=2,model=4"``: the axes of the mesh of devices. An argument or result says
``rlx.sharding = "data,-"``: for each dimension the mesh axis that splits it, or ``-`` (or nothing) where it is whole.
What says nothing is whole on every device. XLA splits the computation in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from rlx_dialect.graph import text_of
from rlx_dialect.lowering.to_stablehlo.dialect import MeshAttr, MeshOp, ShardingAttr
from rlx_dialect.shapes import DYNAMIC, product, show
from rlx_dialect.xdsl_compat import InsertPoint, Rewriter

MESH = "rlx.mesh"
SHARDING = "rlx.sharding"
SYMBOL = "mesh"
"""The name of the mesh in Shardy's operations."""

Split = tuple[str | None, ...]
"""The mesh axis of each dimension; None where it is whole."""


@dataclass(frozen=True)
class Mesh:
    """The axes of a mesh of devices, in order, with their sizes."""

    axes: dict[str, int]

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes.items())

    @property
    def devices(self) -> int:
        return product(self.axes.values())

    @staticmethod
    def of(module: ModuleOp) -> Mesh | None:
        """The mesh of a module, if it says one; raises ValueError for text that is none."""
        if (attribute := module.attributes.get(MESH)) is None:
            return None
        text, axes = text_of(attribute), dict[str, int]()
        for part in (text or "").split(","):
            name, _, size = (p.strip() for p in part.partition("="))
            if not name.isidentifier() or name in axes or not size.isdecimal() or int(size) < 1:
                raise ValueError(f'{MESH} must be like "data=2,model=4" with different names, got {attribute}')
            axes[name] = int(size)
        return Mesh(axes)

    def split(self, attribute: Attribute | None, type: Attribute) -> Split:
        """What ``rlx.sharding`` says of a tensor; raises ValueError where it does not fit the tensor or the mesh."""
        assert isinstance(type, TensorType)
        shape = type.get_shape()
        if attribute is None:
            return (None,) * len(shape)
        text = text_of(attribute)
        if text is None:
            raise ValueError(f'it must be a text like "data,-", got {attribute}')
        parts = [p.strip() for p in text.split(",")] if text.strip() or shape else []
        if len(parts) != len(shape):
            raise ValueError(f"'{text}' lists {len(parts)} dims, and the shape {show(shape)} has {len(shape)}")
        split = tuple(None if p in ("", "-") else p for p in parts)
        for dim, (axis, extent) in enumerate(zip(split, shape, strict=True)):
            if axis is None:
                continue
            if axis not in self.axes:
                raise ValueError(f"'{text}' splits dim {dim} by '{axis}', which is no axis of the mesh {self}")
            if split.count(axis) > 1:
                raise ValueError(f"'{text}' splits several dims by '{axis}'")
            if extent == DYNAMIC or extent % self.axes[axis]:
                raise ValueError(
                    f"'{text}' splits dim {dim} of extent {show([extent])} by '{axis}', "
                    f"which does not divide it in the mesh {self}"
                )
        return split


def splits(function: FuncOp, mesh: Mesh) -> tuple[list[Split], list[Split]]:
    """How the arguments and the results of a graph are split; raises ValueError that lists every misfit."""
    problems: list[str] = []
    found: list[list[Split]] = []
    type = function.function_type
    for what, attributes, types in (
        ("argument", function.arg_attrs, type.inputs.data),
        ("result", function.res_attrs, type.outputs.data),
    ):
        group: list[Split] = []
        for index, value_type in enumerate(types):
            entry = attributes.data[index].data if attributes is not None else {}
            try:
                group.append(mesh.split(entry.get(SHARDING), value_type))
            except ValueError as error:
                names = [t for key in ("rlx.input", "rlx.param", "rlx.output") if (t := text_of(entry.get(key)))]
                problems.append(f"{what} {index}{''.join(f' {n!r}' for n in names)}: {SHARDING}: {error}")
        found.append(group)
    if problems:
        raise ValueError("\n  ".join(["the graph cannot be split over the mesh:", *problems]))
    return found[0], found[1]


def shard(module: ModuleOp) -> None:
    """Write what ``module`` says as Shardy's attributes beside it. Raises ValueError."""
    mesh = Mesh.of(module)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    if mesh is None:
        entries = [e for f in functions for a in (f.arg_attrs, f.res_attrs) if a is not None for e in a.data]
        if any(SHARDING in entry.data for entry in entries):
            raise ValueError(f'{SHARDING} needs a mesh: the module must say {MESH} = "data=2,model=4" or the like')
        return
    for function in functions:
        for key, split in zip(("arg_attrs", "res_attrs"), splits(function, mesh), strict=True):
            old = function.properties.get(key)
            entries = old.data if isinstance(old, ArrayAttr) else [DictionaryAttr({}) for _ in split]
            function.properties[key] = ArrayAttr(
                DictionaryAttr({**entry.data, ShardingAttr.name: _sharding(s)})  # pyright: ignore[reportAttributeAccessIssue]
                for entry, s in zip(entries, split, strict=True)
            )
    sizes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes.items())
    operation = MeshOp.create(properties={"sym_name": StringAttr(SYMBOL), "mesh": MeshAttr.of(f"[{sizes}]")})
    Rewriter.insert_op(operation, InsertPoint.at_start(module.body.block))


def _sharding(split: Split) -> ShardingAttr:
    dims = ", ".join("{}" if axis is None else f'{{"{axis}"}}' for axis in split)
    return ShardingAttr.of(f"@{SYMBOL}, [{dims}]")
