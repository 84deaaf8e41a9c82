"""Building linalg and tensor operations, with extents that are known by value.

An extent is an ``int`` where it is static and an SSA value of type ``index`` where it is dynamic. What is built
here remembers the extents of its results, so a dynamic one is asked for once (``tensor.dim``) and equal extents
are one SSA value. Extents that meet in one loop are taken to be equal; verifiers have checked the static ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith, cf, scf, tensor
from xdsl.dialects.builtin import (
    IndexType,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr

from rlx_dialect.base import element_of, shape_of
from rlx_dialect.lowering.arithmetic import constant
from rlx_dialect.lowering.to_linalg import nests
from rlx_dialect.lowering.to_linalg.extents import Extent, Product, Symbols, regroup
from rlx_dialect.lowering.to_linalg.nests import Access
from rlx_dialect.shapes import DYNAMIC, Shape, broadcast, product
from rlx_dialect.xdsl_compat import Builder, InsertPoint

BARRIER = "rlx.barrier_before"
"""Discardable unit attribute on the first linalg operation of a norm, the reduction that reads what is normalised.

A compiler that forms its own dispatches (IREE) should not fuse what produces that (a matmul, a residual sum) into
the norm: the engine puts an optimisation barrier there. Other compilers ignore it.
"""

SCATTER = "rlx.scatter"
"""Discardable unit attribute on a loop that changes a tensor at one computed place in each round, in order.

Its body is, first to last: the place, the update, what was there, what both give (a ``linalg.generic`` of these two),
and its insertion. An engine with a scatter may use that. Other compilers ignore it.
"""

Body = Callable[[Builder, list[SSAValue]], SSAValue]
"""Writes the scalar code of one element from its input elements (and, in a reduction, what was gathered so far)."""

FIRST = AffineConstantExpr(0)
"""The first (and only) element of an axis that broadcasts."""


@dataclass(frozen=True)
class Splat:
    """One number for every element; it is written into the bodies that use it."""

    value: complex
    type: Attribute


@dataclass(frozen=True)
class Read:
    """A tensor that is not read as broadcasting would: ``access`` has one entry for each of its axes."""

    value: SSAValue
    access: tuple[Access, ...]


Operand = SSAValue | Splat | Read


def static_shape(extents: Sequence[Extent]) -> Shape:
    return tuple(e if isinstance(e, int) else DYNAMIC for e in extents)


class Tensors:
    """Inserts operations at :attr:`b`."""

    def __init__(self, b: Builder):
        self.b = b
        self.known_extents: dict[SSAValue, tuple[Extent, ...]] = {}
        self.symbols = Symbols()

    def op(self, operation: Operation) -> SSAValue:
        """Insert an operation of one result."""
        return self.b.insert(operation).results[0]

    def made(self, operation: Operation, extents: Sequence[Extent]) -> SSAValue:
        """Insert an operation whose result has these extents."""
        value = self.op(operation)
        self.known_extents[value] = tuple(extents)
        return value

    # Extents.

    def extents(self, value: SSAValue) -> tuple[Extent, ...]:
        """The extents of a tensor; none for a scalar."""
        if value not in self.known_extents:
            self.known_extents[value] = tuple(
                self.op(tensor.DimOp(value, self.index(axis))) if extent == DYNAMIC else extent
                for axis, extent in enumerate(shape_of(value))
            )
        return self.known_extents[value]

    def index(self, extent: Extent) -> SSAValue:
        return constant(extent, IndexType(), self.b) if isinstance(extent, int) else extent

    def dynamic(self, extents: Sequence[Extent]) -> list[SSAValue]:
        return [e for e in extents if not isinstance(e, int)]

    def extent(self, product: Product) -> Extent:
        """The value of a product of extents."""
        if (known := self.symbols.known(product)) is not None:
            return known
        first, *rest = self.symbols.factors(product)
        value: SSAValue = first
        for factor in rest:
            value = self.op(arith.MuliOp(value, factor))
        if product.number != 1:
            value = self.op(arith.MuliOp(value, self.index(product.number)))
        self.symbols.define(value, product)
        return value

    def add_extents(self, a: Extent, b: Extent) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if b == 0:
            return a
        return self.op(arith.AddiOp(self.index(a), self.index(b)))

    def subtract(self, a: Extent, b: Extent) -> Extent:
        return self._joined(operator.sub, arith.SubiOp, a, b)

    def minimum(self, a: Extent, b: Extent) -> Extent:
        return self._joined(min, arith.MinSIOp, a, b)

    def maximum(self, a: Extent, b: Extent) -> Extent:
        return self._joined(max, arith.MaxSIOp, a, b)

    def quotient(self, a: Extent, b: int) -> Extent:
        """Rounded down."""
        return self._joined(operator.floordiv, arith.DivUIOp, a, b)

    def _joined(
        self,
        of_numbers: Callable[[int, int], int],
        of_values: Callable[[SSAValue, SSAValue], Operation],
        a: Extent,
        b: Extent,
    ) -> Extent:
        if isinstance(a, int) and isinstance(b, int):
            return of_numbers(a, b)
        return self.op(of_values(self.index(a), self.index(b)))

    @contextmanager
    def nested(self) -> Generator[None, None, None]:
        """Within a nested block: extents that are asked for there are not known outside."""
        outer = self.known_extents, self.symbols
        self.known_extents, self.symbols = self.known_extents.copy(), self.symbols.copy()
        try:
            yield
        finally:
            self.known_extents, self.symbols = outer

    # New tensors.

    def empty(self, extents: Sequence[Extent], element: Attribute) -> SSAValue:
        type = TensorType(element, static_shape(extents))
        return self.made(tensor.EmptyOp(self.dynamic(extents), type), extents)

    def filled(self, extents: Sequence[Extent], element: Attribute, value: float) -> SSAValue:
        """Every element ``value``: never a dense constant, which xDSL cannot read back for NaN and infinities."""
        scalar = constant(value, element, self.b)
        return self.made(linalg.FillOp([scalar], [self.empty(extents, element)]), extents)

    def cast(self, value: SSAValue, type: Attribute) -> SSAValue:
        """``value`` with more or fewer extents known statically."""
        if value.type == type:
            return value
        assert isinstance(type, TensorType)
        extents = [s if s != DYNAMIC else e for s, e in zip(type.get_shape(), self.extents(value), strict=True)]
        return self.made(tensor.CastOp(value, type), extents)

    # Loops.

    def generic(
        self,
        loops: Sequence[Extent],
        inputs: Sequence[tuple[SSAValue, Sequence[Access]]],
        element: Attribute,
        body: Body,
        *,
        reduced: Sequence[int] = (),
        start: float = 0.0,
        barrier: bool = False,
    ) -> SSAValue:
        """A loop nest that computes one element of the result in each round.

        The result has the ``loops`` that are not ``reduced`` as axes, in order. With reduced loops the body's last
        argument is the result so far, which is ``start`` before the first round. ``barrier``: see :data:`BARRIER`.
        """
        for value, access in inputs:
            for extent, place in zip(self.extents(value), access, strict=True):
                if isinstance(place, int):
                    self.require_equal(extent, loops[place])
        kept = [axis for axis in range(len(loops)) if axis not in reduced]
        extents = [loops[axis] for axis in kept]
        init = self.filled(extents, element, start) if reduced else self.empty(extents, element)
        if any(loops[axis] == 0 for axis in reduced):
            return init
        block = Block(arg_types=[*(element_of(value) for value, _ in inputs), element])
        inner = Builder(InsertPoint.at_end(block))
        arguments: list[SSAValue] = [*block.args] if reduced else [*block.args[:-1]]
        inner.insert(linalg.YieldOp(body(inner, arguments)))
        op = linalg.GenericOp.create(
            operands=[*(value for value, _ in inputs), init],
            result_types=[init.type],
            properties={
                "indexing_maps": nests.indexing_maps(
                    len(loops), tuple(tuple(access) for _, access in inputs), tuple(kept)
                ),
                "iterator_types": nests.iterators(len(loops), tuple(reduced)),
                "operandSegmentSizes": nests.segments(len(inputs)),
            },
            regions=[Region(block)],
        )
        if barrier:
            op.attributes[BARRIER] = UnitAttr()
        return self.made(op, extents)

    def require_equal(self, one: Extent, other: Extent) -> None:
        """Stop the program when it runs and two extents differ that nothing says are equal.

        An unknown extent that turns out to be 1 would broadcast, and code that was compiled without that in mind
        would read past its end.
        """
        if one == other or (isinstance(one, int) and isinstance(other, int)):
            return
        if self.symbols.of([one]) == self.symbols.of([other]):
            return
        same = self.b.insert(arith.CmpiOp(self.index(one), self.index(other), "eq"))
        self.b.insert(cf.AssertOp(same.result, "unknown extents that meet must be equal when the program runs"))

    def agreed(self, value: SSAValue, extents: Sequence[Extent]) -> SSAValue:
        """``value`` with these extents, which are its own; from here on they are the same values."""
        own = self.extents(value)
        for one, other in zip(own, extents, strict=True):
            self.require_equal(one, other)
        known = [o if isinstance(o, int) else e for o, e in zip(own, extents, strict=True)]
        value = self.cast(value, TensorType(element_of(value), static_shape(known)))
        self.known_extents[value] = tuple(known)
        return value

    def broadcast_loops(self, operands: Sequence[Operand], shape: Shape) -> list[Extent]:
        """The loops over the broadcast of ``operands``, whose static shape is ``shape``."""
        tensors = [self.extents(o) for o in operands if isinstance(o, SSAValue) and isinstance(o.type, TensorType)]
        loops: list[Extent] = []
        for axis, static in zip(range(-len(shape), 0), shape, strict=True):
            here = [e[axis] for e in tensors if len(e) >= -axis]
            unknown = [e for e in here if not isinstance(e, int)]
            if static == DYNAMIC and not unknown:  # The type was declared to know less than the operands do.
                (static,) = broadcast(*([e] for e in here if isinstance(e, int)))
            loops.append(unknown[0] if static == DYNAMIC else static)
        return loops

    def elementwise(
        self,
        loops: Sequence[Extent],
        operands: Sequence[Operand],
        element: Attribute,
        body: Body,
        *,
        barrier: bool = False,
    ) -> SSAValue:
        """One element of the result from one of each operand; tensors broadcast, other operands are the same in all."""
        reads: list[Read | None] = []
        for operand in operands:
            if isinstance(operand, SSAValue) and isinstance(operand.type, TensorType):
                operand = self._broadcast(operand, loops)
            reads.append(operand if isinstance(operand, Read) else None)

        def with_scalars(b: Builder, elements: list[SSAValue]) -> SSAValue:
            arguments: list[SSAValue] = []
            for operand, read in zip(operands, reads, strict=True):
                if isinstance(operand, Splat):
                    arguments.append(constant(operand.value, operand.type, b))
                else:
                    arguments.append(operand if read is None and isinstance(operand, SSAValue) else elements.pop(0))
            return body(b, arguments)

        inputs = [(read.value, read.access) for read in reads if read is not None]
        return self.generic(loops, inputs, element, with_scalars, barrier=barrier)

    def _broadcast(self, value: SSAValue, loops: Sequence[Extent]) -> Read:
        """How ``value`` is read in ``loops``; where only run time can tell an extent of 1, it is stretched first."""
        extents = self.extents(value)
        mine = loops[len(loops) - len(extents) :]
        if any(
            not isinstance(e, int) and isinstance(loop, int) and loop != 1
            for e, loop in zip(extents, mine, strict=True)
        ):
            value, extents = self.stretch(value, mine), tuple(mine)
        first = len(loops) - len(extents)
        access = (
            FIRST if extent == 1 and loop != 1 else first + axis
            for axis, (extent, loop) in enumerate(zip(extents, mine, strict=True))
        )
        return Read(value, tuple(access))

    def stretch(self, value: SSAValue, extents: Sequence[Extent]) -> SSAValue:
        """``value`` broadcast to as many ``extents``, where only run time tells which of its own are 1."""
        own = self.extents(value)

        def position(b: Builder, loops: list[SSAValue]) -> list[SSAValue]:
            zero, one = constant(0, IndexType(), b), constant(1, IndexType(), b)
            places: list[SSAValue] = []
            for loop, extent in zip(loops, own, strict=True):
                if extent == 1:
                    places.append(zero)
                elif isinstance(extent, int):
                    places.append(loop)
                else:
                    single = b.insert(arith.CmpiOp(extent, one, "eq")).result
                    places.append(b.insert(arith.SelectOp(single, zero, loop)).result)
            return places

        return self.picked(extents, value, position)

    def picked(
        self, loops: Sequence[Extent], source: SSAValue, position: Callable[[Builder, list[SSAValue]], list[SSAValue]]
    ) -> SSAValue:
        """For each round of ``loops`` the element of ``source`` at a computed position."""

        def body(b: Builder, _: list[SSAValue]) -> SSAValue:
            at = position(b, counters(b, len(loops)))
            return b.insert(tensor.ExtractOp(source, at, element_of(source))).result

        return self.generic(loops, [], element_of(source), body)

    def loop(
        self,
        rounds: Extent,
        carried: Sequence[SSAValue],
        body: Callable[[SSAValue, list[SSAValue]], Sequence[SSAValue]],
        *,
        step: Extent = 1,
        first: Extent = 0,
        fixed: bool = True,
    ) -> list[SSAValue]:
        """The values that ``body`` gives after ``first``, ``first + step`` … below ``rounds``, each from those before.

        ``body`` takes the number of the round and the values, and writes at :attr:`b`, which is inside the loop then.
        ``fixed``: no extent changes from round to round.
        """
        block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
        start, stop, stride = (self.index(extent) for extent in (first, rounds, step))
        outer = self.b
        with self.nested():
            self.b = Builder(InsertPoint.at_end(block))
            self._same_extents(block.args[1:], carried if fixed else [])
            index, values = block.args[0], list[SSAValue](block.args[1:])
            self.b.insert(scf.YieldOp(*body(index, values)))
        self.b = outer
        results = self.b.insert(scf.ForOp(start, stop, stride, carried, block)).results
        self._same_extents(results, carried if fixed else [])
        return list(results)

    def _same_extents(self, values: Sequence[SSAValue], like: Sequence[SSAValue]) -> None:
        self.known_extents |= {
            v: self.known_extents[o] for v, o in zip(values, like, strict=False) if o in self.known_extents
        }

    # Movement.

    def reshape(self, value: SSAValue, extents: Sequence[Extent]) -> SSAValue:
        """The same elements in row-major order with other extents of the same product."""
        own = self.extents(value)
        if tuple(own) == tuple(extents):
            return value
        if 0 in own:
            return self.empty(extents, element_of(value))
        if not own:
            # xDSL's expand_shape does not take an operand without axes.
            return self.elementwise(extents, [value], element_of(value), lambda _, elements: elements[0])
        groups = regroup([self.symbols.of([e]) for e in own], [self.symbols.of([e]) for e in extents])
        middle = [self.extent(self.symbols.of([own[axis] for axis in before])) for before, _ in groups]
        collapsed = self._collapse(value, [before for before, _ in groups], middle)
        # An extent that is split is static exactly where all its parts are.
        parts = [static_shape([extents[axis] for axis in after]) for _, after in groups]
        split = TensorType(element_of(value), [DYNAMIC if DYNAMIC in p else product(p) for p in parts])
        collapsed = self.cast(collapsed, split)
        return self._expand(collapsed, [after for _, after in groups], extents)

    def _collapse(self, value: SSAValue, groups: Sequence[Sequence[int]], extents: Sequence[Extent]) -> SSAValue:
        if len(self.extents(value)) == len(extents):
            return value
        type = TensorType(element_of(value), static_shape(extents))
        op = tensor.CollapseShapeOp.create(
            operands=[value], result_types=[type], properties={"reassociation": nests.reassociation(groups)}
        )
        return self.made(op, extents)

    def _expand(self, value: SSAValue, groups: Sequence[Sequence[int]], extents: Sequence[Extent]) -> SSAValue:
        if len(self.extents(value)) == len(extents):
            return value
        shape = static_shape(extents)
        type = TensorType(element_of(value), shape)
        op = tensor.ExpandShapeOp(value, self.dynamic(extents), nests.reassociation(groups), shape, type)
        return self.made(op, extents)

    def split(self, value: SSAValue, axis: int, parts: Sequence[Extent]) -> SSAValue:
        """``axis`` as several axes, whose extents have the product of its own when the program runs."""
        extents = self.extents(value)
        self.require_equal(extents[axis], self.extent(self.symbols.of(parts)))
        after = [*extents[:axis], *parts, *extents[axis + 1 :]]
        if isinstance(extents[axis], int):
            return self.reshape(value, after)
        return self._expand(value, nests.apart(len(extents), axis, len(parts)), after)

    def join(self, value: SSAValue, axis: int, whole: Extent) -> SSAValue:
        """Two axes from ``axis`` on as one of the extent ``whole``, which is their product."""
        extents = self.extents(value)
        after = [*extents[:axis], whole, *extents[axis + 2 :]]
        if isinstance(whole, int):
            return self.reshape(value, after)
        return self._collapse(value, nests.apart(len(after), axis, 2), after)

    def slice(
        self,
        value: SSAValue,
        offsets: Sequence[Extent],
        sizes: Sequence[Extent],
        strides: Sequence[int] | None = None,
        *,
        kept: Sequence[int] | None = None,
    ) -> SSAValue:
        """A part of ``value``; ``kept`` are the axes of the result where others, of extent 1, are dropped."""
        extents = sizes if kept is None else [sizes[axis] for axis in kept]
        if 0 in sizes:
            # A slice may not begin where its operand ends.
            return self.empty(extents, element_of(value))
        type = TensorType(element_of(value), static_shape(extents))
        steps = strides or [1] * len(sizes)
        return self.made(tensor.ExtractSliceOp(value, offsets, sizes, steps, type), extents)

    def narrow(self, value: SSAValue, axis: int, start: Extent, length: Extent, step: int = 1) -> SSAValue:
        """``length`` elements from ``start`` on along one axis, every ``step``-th."""
        extents = list(self.extents(value))
        rank = len(extents)
        extents[axis] = length
        return self.slice(
            value,
            [start if a == axis else 0 for a in range(rank)],
            extents,
            [step if a == axis else 1 for a in range(rank)],
        )

    def insert(
        self, value: SSAValue, into: SSAValue, offsets: Sequence[Extent], sizes: Sequence[Extent] | None = None
    ) -> SSAValue:
        """``into`` with ``value`` written over a part of it, of ``sizes`` where ``value`` leaves out extents of 1."""
        sizes = self.extents(value) if sizes is None else sizes
        op = tensor.InsertSliceOp.get(
            value,
            into,
            static_shape(sizes),
            static_shape(offsets),
            offsets=self.dynamic(offsets),
            sizes=self.dynamic(sizes),
        )
        return self.made(op, self.extents(into))

    def concat(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        extents = list(self.extents(values[0]))
        for value in values[1:]:
            extents[axis] = self.add_extents(extents[axis], self.extents(value)[axis])
        shape, parts = static_shape(extents), [self.extents(value)[axis] for value in values]
        if DYNAMIC in shape[axis + 1 :] and all(isinstance(part, int) for part in parts):
            # IREE 3.13 mixes up what tensor.concat of slices of one tensor reads, where inner extents are dynamic.
            result, offset = self.empty(extents, element_of(values[0])), 0
            for value, part in zip(values, parts, strict=True):
                assert isinstance(part, int)
                result = self.insert(value, result, [offset if a == axis else 0 for a in range(len(extents))])
                offset += part
            return result
        return self.made(tensor.ConcatOp(values, axis, TensorType(element_of(values[0]), shape)), extents)

    def transpose(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        if list(perm) == list(range(len(perm))):
            return value
        extents = [self.extents(value)[p] for p in perm]
        init = self.empty(extents, element_of(value))
        return self.made(nests.transposition(value, init, perm), extents)


def counters(b: Builder, count: int) -> list[SSAValue]:
    """In the body of a loop nest: the number of the round of each loop."""
    return [b.insert(linalg.IndexOp(loop)).result for loop in range(count)]
