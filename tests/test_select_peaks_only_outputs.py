"""rlx-select-peaks-only-outputs: what it asks for, what it changes, and each reason not to."""

from __future__ import annotations

import pytest
from helpers import parse
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.graph import main_function, output_names
from rlx_dialect.passes.matching.fusion import Reason
from rlx_dialect.passes.select_peaks_only_outputs import SelectPeaksOnlyOutputs
from rlx_dialect.pipelines.named import run_pipeline
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.selection import fusion_passes_for_supported
from rlx_dialect.pipelines.targets import CPU, METAL, WGPU, Target
from rlx_dialect.xdsl_compat import Context, print_module

ALLOWED = "attributes {rlx.allow_peaks_only_outputs}"


def spectra(returned: str = "%s", *, batch: int = 1024, n_fft: int = 256, attributes: str = ALLOWED) -> ModuleOp:
    types = {
        "%x": f"tensor<{batch}x{2 * n_fft}xf32>",
        "%s": f"tensor<{batch}x{2 * n_fft}xf32>",
        "%p": f"tensor<{batch}x32xf32>",
    }
    names = {"%x": "x", "%s": "spectrum", "%p": "found"}
    results = ", ".join(f'{types[v]} {{rlx.output = "{names[v]}"}}' for v in returned.split(", "))
    return parse(f"""
    func.func @main(%x: {types["%x"]} {{rlx.input = "x"}}) -> ({results}) {attributes} {{
      %s = rlx.fft %x : {types["%s"]}
      %p = rlx.welch_peaks %s {{k = 16, n_segments = 1}} : {types["%s"]} -> {types["%p"]}
      func.return {returned} : {", ".join(types[v] for v in returned.split(", "))}
    }}""")


def outputs(module: ModuleOp) -> list[str]:
    return output_names(main_function(module))


def selected(module: ModuleOp, target: Target) -> ModuleOp:
    """After the pass as the target's pipeline has it."""
    claims = {*target.claims, "fft", "welch_peaks"}
    (spec,) = [s for s in fusion_passes_for_supported(claims, FusionOptions(), target) if "peaks" in s.name]
    after = module.clone()
    run_pipeline(after, str(spec))
    after.verify()
    return after


def test_peaks_take_the_place_of_the_spectrum():
    after = selected(spectra(), METAL)
    assert outputs(after) == ["peaks"]
    assert "func.return %p : tensor<1024x32xf32>" in print_module(after)


def test_peaks_that_are_returned_already_stay_where_they_are():
    assert outputs(selected(spectra("%s, %p", batch=8192), WGPU)) == ["found"]
    assert outputs(selected(spectra("%p, %s, %x"), WGPU)) == ["found", "x"]


def test_other_outputs_keep_their_order():
    assert outputs(selected(spectra("%x, %s"), METAL)) == ["x", "peaks"]


@pytest.mark.parametrize("target", [METAL, WGPU, CPU])
def test_without_consent_the_interface_stays(target: Target):
    module = spectra(attributes="")
    assert print_module(selected(module, target)) == print_module(module)
    (miss,) = SelectPeaksOnlyOutputs().misses(module)
    assert miss.reason is Reason.RETURNED
    assert "rlx.allow_peaks_only_outputs" in miss.hint


def test_the_cpu_reads_nothing_back():
    assert outputs(selected(spectra(), CPU)) == ["spectrum"]


def test_switched_off():
    (miss,) = SelectPeaksOnlyOutputs(enabled=False).misses(spectra())
    assert miss.reason is Reason.SWITCHED_OFF


def test_the_gate_decides():
    """On wgpu 15,360 bytes at 40 a nanosecond are 384 ns, and 10,000 are wanted."""
    small = spectra(batch=8)
    assert outputs(selected(small, WGPU)) == ["spectrum"]
    (miss,) = SelectPeaksOnlyOutputs(readback_bw=40, min_gain=10_000).misses(small)
    assert miss.reason is Reason.GATE
    assert "15360 bytes less" in miss.detail


def test_a_spectrum_that_is_not_returned_is_left_alone():
    module = spectra("%p")
    SelectPeaksOnlyOutputs().apply(Context(), module)
    assert outputs(module) == ["found"]
    assert SelectPeaksOnlyOutputs().misses(module) == []


def test_a_function_that_is_called_in_its_module_keeps_its_results():
    text = print_module(spectra()).replace("builtin.module {", "").rstrip().removesuffix("}")
    t = "tensor<1024x512xf32>"
    caller = f"""func.func @caller(%x: {t}) -> {t} {{
      %0 = func.call @main(%x) : ({t}) -> {t}
      func.return %0 : {t}
    }}"""
    module = parse(text + caller)
    (miss,) = SelectPeaksOnlyOutputs().misses(module)
    assert miss.reason is Reason.RETURNED
    assert "@main is called" in miss.detail
    before = print_module(module)
    SelectPeaksOnlyOutputs().apply(Context(), module)
    assert print_module(module) == before


def test_a_function_that_returns_at_several_places_keeps_its_results():
    t = "tensor<8x16xf32>"
    module = parse(f"""
    func.func @main(%x: {t}, %c: i1) -> {t} {ALLOWED} {{
      cf.cond_br %c, ^here, ^there
    ^here:
      %s = rlx.fft %x : {t}
      %p = rlx.welch_peaks %s {{k = 2, n_segments = 1}} : {t} -> tensor<8x4xf32>
      func.return %s : {t}
    ^there:
      func.return %x : {t}
    }}""")
    (miss,) = SelectPeaksOnlyOutputs().misses(module)
    assert miss.reason is Reason.OTHER_BLOCK
    before = print_module(module)
    SelectPeaksOnlyOutputs().apply(Context(), module)
    assert print_module(module) == before
