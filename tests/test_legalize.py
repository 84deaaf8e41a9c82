"""Which way operations go: the pass ``rlx-legalize``, its policy, and the report."""

import json

import pytest
from helpers import assert_same_meaning, graph
from opt_helpers import run_opt
from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.lowering import LoweringError
from rlx_dialect.lowering.legalize import LOGICAL_KERNELS, Choice, Legalize, Path, Policy, legalize
from rlx_dialect.lowering.registry import lowerings_of
from rlx_dialect.pipelines.dispatch import KernelDispatchReport
from rlx_dialect.pipelines.named import lowering_pipeline
from rlx_dialect.pipelines.options import FusionOptions
from rlx_dialect.pipelines.targets import CUDA, TARGETS
from rlx_dialect.xdsl_compat import rlx_context

DEFAULT = Choice()


def norms() -> ModuleOp:
    return graph(
        "%a = rlx.group_norm %x, %g, %g {num_groups = 2, eps = 1.0e-5} : (tensor<2x4x3xf32>, tensor<4xf32>,"
        " tensor<4xf32>) -> tensor<2x4x3xf32>\n"
        "%y = rlx.softmax %a {axis = 1} : tensor<2x4x3xf32>",
        "%x: tensor<2x4x3xf32>, %g: tensor<4xf32>",
        "tensor<2x4x3xf32>",
        "%y",
    )


def unknown() -> ModuleOp:
    """A loop without a bound, which no kernel runs."""
    return graph(
        """%y = rlx.while(%x) : (tensor<2xf32>) -> tensor<2xf32> {
           ^bb0(%a: tensor<2xf32>):
             %s = rlx.reduce sum %a {axes = [0]} : tensor<2xf32> -> tensor<f32>
             %c = rlx.compare lt %s, %s : (tensor<f32>, tensor<f32>) -> tensor<i1>
             rlx.yield %c : tensor<i1>
           } do {
           ^bb0(%b: tensor<2xf32>):
             rlx.yield %b : tensor<2xf32>
           }""",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
        "%y",
    )


def paths(module: ModuleOp, choice: Choice = DEFAULT) -> dict[str, Path]:
    return {site.op: site.path for site in legalize(module, "gpu", "wgpu", choice)}


def test_what_has_no_form_is_decomposed_into_what_has_one_and_means_the_same():
    before, after = norms(), norms()
    (first, second) = legalize(after, "gpu", "wgpu")
    assert (first.op, first.path) == ("rlx.group_norm", Path.COMMON_IR)
    assert first.which.startswith("rlx.group_norm %a")
    assert first.why == "wgpu has no form of its own for it"
    known = {c.name for c in lowerings_of("gpu").classes()}
    assert set(first.parts) <= known
    assert (second.op, second.path, second.why) == ("rlx.softmax", Path.NATIVE, "")
    assert "rlx.group_norm" not in {op.name for op in after.walk()}
    assert_same_meaning(before, after)


def test_policy_is_about_logical_kernels_and_names_come_first():
    assert paths(norms()) == {"rlx.group_norm": Path.COMMON_IR, "rlx.softmax": Path.NATIVE}
    forced = Choice(Policy.FORCE_NATIVE)
    assert paths(norms(), forced) == {"rlx.group_norm": Path.UNSUPPORTED, "rlx.softmax": Path.NATIVE}
    named = Choice(Policy.FORCE_NATIVE, force_common=frozenset({"group_norm", "softmax"}))
    assert paths(norms(), named) == {"rlx.group_norm": Path.COMMON_IR, "rlx.softmax": Path.COMMON_IR}
    both = Choice(force_native=frozenset({"softmax"}), force_common=frozenset({"softmax"}))
    assert paths(norms(), both)["rlx.softmax"] is Path.NATIVE


def test_decomposed_by_name_means_the_same():
    before, after = norms(), norms()
    Legalize("gpu", "wgpu", force_common=("softmax",)).apply(rlx_context(), after)
    assert "rlx.softmax" not in {op.name for op in after.walk()}
    assert_same_meaning(before, after)


def test_everything_unsupported_is_listed_and_stops_the_compile():
    module = norms()
    with pytest.raises(LoweringError) as caught:
        Legalize("gpu", "wgpu", policy="force-native").apply(rlx_context(), module)
    assert str(caught.value).splitlines()[0] == "1 operation not supported by wgpu:"
    assert "rlx.group_norm %a" in str(caught.value)
    assert "and the policy is force-native" in str(caught.value)


def test_what_cannot_be_decomposed_says_why():
    (site,) = (s for s in legalize(unknown(), "gpu", "wgpu") if s.op == "rlx.while")
    assert site.path is Path.REWRITTEN
    (problem,) = site.problems
    assert "it cannot be decomposed" in problem
    report = KernelDispatchReport.of("wgpu", Policy.PREFER_NATIVE, 3, [site])
    assert report.still_unsupported == ("rlx.while",)
    assert not report.compile_ready


def test_unknown_backend_and_policy():
    with pytest.raises(ValueError, match="unknown backend 'gp'"):
        Legalize("gp", "wgpu")
    with pytest.raises(ValueError, match="unknown policy 'x'; known policies: prefer-native, force-common, force-nat"):
        Legalize("gpu", "wgpu", policy="x")


def test_report_fields():
    report = KernelDispatchReport.of("wgpu", Policy.PREFER_NATIVE, 41, legalize(norms(), "gpu", "wgpu"))
    data = json.loads(report.to_json())
    assert data["backend_name"] == "wgpu"
    assert data["policy"] == "prefer-native"
    assert data["supported_claim_count"] == 41
    assert data["common_lowered_kinds"] == ["rlx.group_norm"]
    assert data["still_unsupported"] == []
    assert data["compile_ready"] is True
    kinds = [(s["kind"], s["node_count"], s["path"], s["logical_name"]) for s in data["summaries"]]
    assert kinds == [
        ("rlx.group_norm", 1, "common-ir", "group_norm"),
        ("rlx.softmax", 1, "native", None),
    ]
    first, *rows = str(report).splitlines()
    assert first == (
        "dispatch for wgpu: 1 native, 1 common-ir (policy prefer-native; 41 kinds have a form of their own there)"
    )
    assert rows[2].split()[:3] == ["rlx.group_norm", "1", "common-ir"]


def test_every_target_legalizes_before_it_lowers():
    for target in TARGETS.values():
        first, *_ = lowering_pipeline(target).split(",")
        assert first.startswith("rlx-legalize{backend=")
        assert f"target={target.name}" in first
    options = FusionOptions.for_target(CUDA).with_arguments(kernel_dispatch="force-common", force_native=("rope",))
    assert "policy=force-common force-native=rope}" in lowering_pipeline(CUDA, options=options)


def test_logical_kernels_can_be_decomposed():
    assert all(op.has_decomposition() for op in LOGICAL_KERNELS)


@pytest.mark.parametrize(
    ("variables", "arguments", "policy"),
    [
        ({}, [], ""),
        ({"RLX_KERNEL_DISPATCH": "ForceCommon"}, [], "policy=force-common"),
        ({"RLX_KERNEL_DISPATCH": "native"}, [], "policy=force-native"),
        ({"RLX_KERNEL_DISPATCH": "whatever"}, [], ""),
        ({"RLX_KERNEL_DISPATCH": "native"}, ["--kernel-dispatch=force-common"], "policy=force-common"),
        ({}, ["--force-common=rlx.rope,attention"], "force-common=attention,rope"),
    ],
)
def test_policy_from_the_environment_and_the_command_line(
    variables: dict[str, str], arguments: list[str], policy: str, monkeypatch: pytest.MonkeyPatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    text = run_opt("--pipeline=wgpu", "--print-pipeline", *arguments).out
    legal = text[text.index("rlx-legalize{") :].partition("}")[0]
    assert legal == " ".join(filter(None, ("rlx-legalize{backend=gpu target=wgpu", policy)))
