"""The pass ``rlx-legalize``: operations that a target has no form for become simpler ones, or are refused.

What a target has a form for, is what its lowering registers (:mod:`rlx_dialect.lowering.registry`); the pass says
for each operation of a graph which way it went. A policy can choose otherwise for operations that have both ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator

from rlx_dialect.base import RlxOp
from rlx_dialect.lowering import LoweringError, NotLowered
from rlx_dialect.lowering.registry import Lowerings, lowerings_of
from rlx_dialect.operation import describe
from rlx_dialect.ops.constant import ConstantOp
from rlx_dialect.ops.convolution import ResizeNearest2xOp
from rlx_dialect.ops.normalization import GroupNormOp
from rlx_dialect.ops.region import RegionOp
from rlx_dialect.shapes import ShapeError
from rlx_dialect.xdsl_compat import Builder, Context, InsertPoint, ModulePass, Rewriter, VerifyException

LOGICAL_KERNELS: frozenset[type[RlxOp]] = frozenset({GroupNormOp, ResizeNearest2xOp})
"""Operations that :class:`Policy` is about when no kind is named: worth a kernel, and written in common ones else."""


class Policy(StrEnum):
    """Which way a logical kernel goes (RLX's KernelDispatchPolicy)."""

    PREFER_NATIVE = "prefer-native"
    """As it is where the target has a form for it."""
    FORCE_COMMON = "force-common"
    """In simpler operations, always."""
    FORCE_NATIVE = "force-native"
    """As it is; an error where the target has no form for it."""


class Path(StrEnum):
    """Which way an operation went (RLX's DispatchPath)."""

    NATIVE = "native"
    COMMON_IR = "common-ir"
    """A logical kernel, or one that was asked for by name, in simpler operations."""
    REWRITTEN = "rewritten"
    """In simpler operations because the target has no form for it."""
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Choice:
    """Who chooses: kinds by name before the policy, and native before common."""

    policy: Policy = Policy.PREFER_NATIVE
    force_native: frozenset[str] = frozenset()
    """Names of operations without ``rlx.``."""
    force_common: frozenset[str] = frozenset()

    def of(self, op: RlxOp) -> tuple[Policy, str]:
        """The policy for this operation, and what chose it."""
        name = op.name.removeprefix("rlx.")
        if name in self.force_native:
            return Policy.FORCE_NATIVE, "force-native names it"
        if name in self.force_common:
            return Policy.FORCE_COMMON, "force-common names it"
        if type(op) in LOGICAL_KERNELS:
            return self.policy, f"the policy is {self.policy}"
        return Policy.PREFER_NATIVE, ""


@dataclass
class Dispatch:
    """Which way one operation of the graph went."""

    op: str
    """Its name."""
    which: str
    """Its name, its result's, and its place in the source."""
    path: Path
    why: str
    """Why it is not native; empty where it is."""
    parts: Counter[str] = field(default_factory=Counter[str])
    """The names of the operations that it became, all of them native, but for those that ``problems`` lists."""
    problems: list[str] = field(default_factory=list[str])


@dataclass
class _Legalizer:
    lowerings: Lowerings[Callable[..., object]]
    target: str
    choice: Choice
    sites: list[Dispatch] = field(default_factory=list[Dispatch])
    _of: dict[Operation, Dispatch] = field(default_factory=dict[Operation, Dispatch])
    """The site of each operation that a decomposition made."""

    def block(self, block: Block, inherited: Dispatch | None = None) -> None:
        op = block.first_op
        while op is not None:
            op = self._step(op, self._of.get(op, inherited))

    def _step(self, op: Operation, site: Dispatch | None) -> Operation | None:
        """``site``: that of the operation which ``op`` is a part of. Returns the operation to go on with."""
        if not isinstance(op, RlxOp):
            self._bodies(op, site)
            return op.next_op
        if isinstance(op, ConstantOp) or op.has_trait(IsTerminator):
            return op.next_op
        path, why = self._path(op)
        if site is None:
            site = Dispatch(op.name, describe(op), path, why)
            self.sites.append(site)
        if path in (Path.COMMON_IR, Path.REWRITTEN):
            try:
                return self._decompose(op, site)
            except (NotLowered, ShapeError, VerifyException) as error:
                why = f"{why}, and it cannot be decomposed: {error}"
                path = Path.UNSUPPORTED
        site.parts[op.name] += 1
        if path is Path.UNSUPPORTED:
            part = "" if op.name == site.op else f", a part of {site.which}"
            site.problems.append(f"{describe(op)}{part}: {why}")
        else:
            self._bodies(op, site)
        return op.next_op

    def _bodies(self, op: Operation, site: Dispatch | None) -> None:
        # The body of a region is scalar code that goes with it.
        if not isinstance(op, RegionOp):
            for region in op.regions:
                for block in region.blocks:
                    self.block(block, site)

    def _path(self, op: RlxOp) -> tuple[Path, str]:
        """Which way ``op`` goes, and why not natively."""
        policy, chosen_by = self.choice.of(op)
        missing = self.lowerings.why_not(op, self.target)
        if policy is Policy.FORCE_COMMON and op.has_decomposition():
            return Path.COMMON_IR, chosen_by
        if missing is None:
            return Path.NATIVE, ""
        if policy is Policy.FORCE_NATIVE:
            return Path.UNSUPPORTED, f"{missing}, and {chosen_by}"
        if not op.has_decomposition():
            return Path.UNSUPPORTED, f"{missing}, and it is not made of simpler operations"
        return Path.COMMON_IR if type(op) in LOGICAL_KERNELS else Path.REWRITTEN, missing

    def _decompose(self, op: RlxOp, site: Dispatch) -> Operation | None:
        """Returns the first part."""
        block, before, following = op.parent, op.prev_op, op.next_op
        assert block is not None
        values = op.decompose(Builder(InsertPoint.before(op)))
        for value, result in zip(values, op.results, strict=True):
            value.name_hint = value.name_hint or result.name_hint
        location = op.location
        Rewriter.replace_op(op, [], values)
        first = part = block.first_op if before is None else before.next_op
        while part is not None and part is not following:
            self._of[part] = site
            part.location = location
            part = part.next_op
        return first


def legalize(module: ModuleOp, backend: str, target: str, choice: Choice = Choice()) -> list[Dispatch]:
    """Write ``module``, in place, in operations that ``lowering/to_<backend>`` has forms for; says each one's way.

    What is unsupported stays as it is. Raises ValueError for an unknown backend.
    """
    legalizer = _Legalizer(lowerings_of(backend), target, choice)
    legalizer.block(module.body.block)
    return legalizer.sites


def refuse_unsupported(target: str, sites: list[Dispatch]) -> None:
    """Raises LoweringError that lists everything unsupported."""
    if problems := [p for site in sites for p in site.problems]:
        raise LoweringError(f"not supported by {target}", problems)


@dataclass(frozen=True)
class Legalize(ModulePass):
    """Decompose what a target has no form for; raises LoweringError that lists what can be neither.

    ``backend`` names the lowering (``gpu`` for ``rlx-lower-to-gpu``), ``target`` the hardware it is for, ``policy``
    one of :class:`Policy`; ``force-native`` and ``force-common`` are lists of kinds such as ``group_norm,rope``.
    """

    name = "rlx-legalize"
    backend: str
    target: str
    policy: str = Policy.PREFER_NATIVE.value
    force_native: tuple[str, ...] = ()
    force_common: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.choice()
        lowerings_of(self.backend)

    def choice(self) -> Choice:
        """Raises ValueError for an unknown policy."""
        policies = {p.value: p for p in Policy}
        if self.policy not in policies:
            raise ValueError(f"unknown policy '{self.policy}'; known policies: {', '.join(policies)}")
        return Choice(policies[self.policy], frozenset(self.force_native), frozenset(self.force_common))

    def dispatch(self, module: ModuleOp) -> list[Dispatch]:
        """:meth:`apply`, but what is unsupported stays and is said in the result."""
        return legalize(module, self.backend, self.target, self.choice())

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        refuse_unsupported(self.target, self.dispatch(op))
