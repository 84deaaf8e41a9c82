"""A spectrum that is returned only for its peaks to be found is not returned: the peaks are.

Before::

    func.func @main(…) -> (tensor<4x512xf32> {rlx.output = "spectrum"}) attributes {rlx.allow_peaks_only_outputs} {
      %0 = rlx.fft %x : tensor<4x512xf32>
      %1 = rlx.welch_peaks %0 {k = 16, n_segments = 1} : tensor<4x512xf32> -> tensor<4x32xf32>
      func.return %0 : tensor<4x512xf32>

After::

    func.func @main(…) -> (tensor<4x32xf32> {rlx.output = "peaks"}) attributes {rlx.allow_peaks_only_outputs} {
      …
      func.return %1 : tensor<4x32xf32>

This changes the interface of the function, so it is done only where the function says that it may, has one place of
return and is not referred to in its module. If the peaks are
returned already, the spectrum is dropped; otherwise they come last, if by the target's costs the bytes that the host
does not have to read are worth it: ``readback-bw`` is in bytes per nanosecond, ``min-gain`` in nanoseconds. What every
output still there computes is unchanged; numerics ``exact``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from rlx_dialect.base import byte_size
from rlx_dialect.graph import OUTPUT, output_names
from rlx_dialect.ops.spectral import FftOp, WelchPeaksOp
from rlx_dialect.passes.matching.fusion import FusionPass, Miss, Numerics, Reason

ALLOWED = "rlx.allow_peaks_only_outputs"
"""The attribute by which a function agrees to a change of its results."""
PEAKS = "peaks"


@dataclass(frozen=True)
class _Change:
    """The results of a function without the spectrum."""

    function: FuncOp
    spectrum: FftOp
    peaks: WelchPeaksOp
    appends: bool

    def apply(self) -> None:
        terminator = self.function.body.block.last_op
        assert isinstance(terminator, ReturnOp)
        kept = [i for i, value in enumerate(terminator.operands) if value is not self.spectrum.result]
        values = [terminator.operands[i] for i in kept]
        attributes = _result_attributes(self.function, len(terminator.operands))
        kept_attributes = [attributes[i] for i in kept]
        if self.appends:
            values.append(self.peaks.result)
            taken = output_names(self.function)
            name = next(n for n in (PEAKS, *(f"{PEAKS}_{i}" for i in range(len(taken) + 1))) if n not in taken)
            kept_attributes.append(DictionaryAttr({OUTPUT: StringAttr(name)}))
        terminator.operands = values
        types = [value.type for value in values]
        self.function.function_type = FunctionType.from_lists(self.function.function_type.inputs.data, types)
        if self.function.res_attrs is not None or self.appends:
            self.function.res_attrs = ArrayAttr(kept_attributes)


def _result_attributes(function: FuncOp, count: int) -> Sequence[DictionaryAttr]:
    return function.res_attrs.data if function.res_attrs is not None else [DictionaryAttr({})] * count


def _referred_to(module: ModuleOp) -> frozenset[str]:
    """The names of all symbols that operations of the module refer to."""
    attributes = (a for op in module.walk() for a in (*op.properties.values(), *op.attributes.values()))
    return frozenset(a.root_reference.data for a in attributes if isinstance(a, SymbolRefAttr))


@dataclass(frozen=True)
class SelectPeaksOnlyOutputs(FusionPass):
    """``enabled``: whether to do anything; ``readback_bw`` and ``min_gain``: the target's costs."""

    name = "rlx-select-peaks-only-outputs"
    produces: ClassVar[tuple[type[Operation], ...]] = ()
    numerics: ClassVar = Numerics.EXACT

    enabled: bool = True
    readback_bw: float = 1.0
    min_gain: float = 0.0

    def run(self, module: ModuleOp) -> list[Miss]:
        misses: list[Miss] = []
        candidates = [op for op in module.walk() if isinstance(op, WelchPeaksOp)]
        used = _referred_to(module) if candidates else frozenset[str]()
        for peaks in candidates:
            found = self._check(peaks, used)
            if isinstance(found, _Change):
                found.apply()
            elif found is not None:
                misses.append(found)
        return misses

    def _check(self, peaks: WelchPeaksOp, used: Collection[str]) -> _Change | Miss | None:
        spectrum, function = peaks.spectrum.owner, peaks.parent_op()
        if not isinstance(spectrum, FftOp) or not isinstance(function, FuncOp) or spectrum.parent is not peaks.parent:
            return None
        terminator = peaks.parent.last_op if peaks.parent is not None else None
        if not isinstance(terminator, ReturnOp) or spectrum.result not in terminator.operands:
            return None
        if not self.enabled:
            return Miss(Reason.SWITCHED_OFF, peaks, "the pass is switched off", "unset RLX_NO_IO_PEAKS_OUTPUT")
        if ALLOWED not in function.attributes:
            detail = f"@{function.sym_name.data} returns the spectrum, and its results are its interface"
            return Miss(Reason.RETURNED, peaks, detail, f"give the function the attribute {ALLOWED} if it may change")
        if function.sym_name.data in used:
            detail = f"@{function.sym_name.data} is called in this module, by the results that it has"
            return Miss(Reason.RETURNED, peaks, detail, "inline it")
        if len(function.body.blocks) > 1:
            detail = f"@{function.sym_name.data} has several blocks and may return elsewhere, too"
            return Miss(Reason.OTHER_BLOCK, peaks, detail, "return at one place")
        appends = peaks.result not in terminator.operands
        if appends:
            saved = byte_size(spectrum.result.type) - byte_size(peaks.result.type)
            if saved / max(self.readback_bw, 1.0) < self.min_gain or saved <= 0:
                detail = (
                    f"{saved} bytes less to read are worth less than {self.min_gain:g} ns at {self.readback_bw:g} B/ns"
                )
                return Miss(Reason.GATE, peaks, detail, "nothing to do: it would not be faster")
        return _Change(function, spectrum, peaks, appends)
