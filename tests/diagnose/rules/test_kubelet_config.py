from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.lint import World, findings_of_kubelet_flags, lint
from numaware.diagnose.texts import finding_text
from numaware.machine import synthetic
from numaware.twin import kubelet_config
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.errors import StartError
from numaware.twin.hardware import Hardware
from numaware.twin.inventory import hardware_of
from numaware.twin.kubelet import Kubelet
from numaware.twin.options import CPU_STAGES, TOPOLOGY_STAGES
from support.choices import LANGUAGES

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = f'{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'


def hardware(text: str) -> Hardware:
    return hardware_of(synthetic.read(text))


def found(text: str, version: str = DEFAULT_VERSION, machine: str = "") -> list[Finding]:
    world = World(version=version, hardware=hardware(machine) if machine else None)
    return lint(text.encode(), "f.yaml", world).findings


def codes(text: str, version: str = DEFAULT_VERSION, machine: str = "") -> list[str]:
    return [one.code for one in found(text, version, machine)]


def one(text: str, version: str = DEFAULT_VERSION, machine: str = "") -> Finding:
    (only,) = found(text, version, machine)
    return only


@pytest.mark.parametrize("text", [f"{HEAD}", STATIC, f"{HEAD}topologyManagerPolicy: restricted\n"])
def test_a_configuration_in_order_has_no_findings(text: str) -> None:
    assert found(text) == []


def test_static_cpus_without_a_reservation_stop_the_kubelet() -> None:
    seen = one(f"{HEAD}cpuManagerPolicy: static\n")
    assert (seen.code, seen.severity) == ("cpu-manager-no-reserved-cpus", "error")
    assert (seen.evidence[0].line, seen.evidence[0].mark) == (3, "static")


def test_a_value_of_the_wrong_type_is_shown_at_its_line_also_in_a_text_within_the_file() -> None:
    wrong = f"{HEAD}cpuManagerPolicyOptions:\n  full-pcpus-only: true\n"
    seen = one(wrong)
    assert (seen.code, seen.evidence[0].line) == ("kubelet-configuration-invalid", 4)
    inside = "".join(f"    {line}\n" for line in wrong.splitlines())
    seen = one(f"kind: ConfigMap\ndata:\n  kubelet: |\n{inside}")
    assert (seen.evidence[0].line, seen.evidence[0].text.strip()) == (7, "full-pcpus-only: true")


def test_a_reservation_of_nothing_is_none() -> None:
    assert codes(f'{HEAD}cpuManagerPolicy: static\nkubeReserved: {{cpu: "0"}}\n') == [
        "cpu-manager-no-reserved-cpus"
    ]


def test_what_a_piece_lacks_may_be_in_the_base_it_is_laid_over() -> None:
    seen = one("kind: KubeletConfig\nspec: {kubeletConfig: {cpuManagerPolicy: static}}")
    assert (seen.severity, seen.confidence) == ("warning", "possible")


@pytest.mark.parametrize(
    ("field", "given", "near"),
    [
        ("cpuManagerPolicy", "Static", "static"),
        ("memoryManagerPolicy", "static", "Static"),
        ("topologyManagerPolicy", "single_numa_node", "single-numa-node"),
        ("topologyManagerPolicy", "strict", None),
        ("topologyManagerScope", "node", None),
    ],
)
def test_an_unknown_policy_is_named_with_what_was_probably_meant(
    field: str, given: str, near: str | None
) -> None:
    seen = one(f"{HEAD}{field}: {given}\n")
    assert seen.code == "unknown-policy"
    assert seen.facts.get("near") == near
    assert (seen.evidence[0].line, seen.evidence[0].mark) == (3, given)
    if near:
        assert finding_text(seen).fix[0] == f"{field}: {near}"


def test_every_unknown_option_is_named_with_its_line_and_its_likely_name() -> None:
    text = f'{STATIC}cpuManagerPolicyOptions:\n  full-pcpus: "true"\n  other: "true"\n'
    first, second = found(text)
    assert [one.code for one in (first, second)] == ["unknown-policy-option"] * 2
    assert first.facts["near"] == "full-pcpus-only"
    assert [one.evidence[0].line for one in (first, second)] == [6, 7]


def test_an_option_of_a_later_release_says_which() -> None:
    text = f'{STATIC}cpuManagerPolicyOptions: {{strict-cpu-reservation: "true"}}\n'
    seen = one(text, "v1.31.0")
    assert seen.code == "unknown-policy-option"
    assert seen.facts["since"] == "v1.32"


def test_an_alpha_option_needs_its_gate() -> None:
    text = f'{STATIC}cpuManagerPolicyOptions: {{align-by-socket: "true"}}\n'
    seen = one(text)
    assert seen.code == "policy-option-needs-gate"
    assert seen.facts["gate"] == "CPUManagerPolicyAlphaOptions"
    assert found(f"{text}featureGates: {{CPUManagerPolicyAlphaOptions: true}}\n") == []


def test_options_as_such_needed_a_gate_once() -> None:
    text = f'{STATIC}cpuManagerPolicyOptions: {{full-pcpus-only: "true"}}\nfeatureGates: {{CPUManagerPolicyOptions: false}}\n'
    seen = one(text, "v1.23.0")
    assert (seen.code, seen.facts["gate"]) == ("policy-option-needs-gate", "CPUManagerPolicyOptions")


@pytest.mark.parametrize(
    ("options", "severity"),
    [
        ('{full-pcpus-only: "true", distribute-cpus-across-cores: "true"}', "error"),
        ('{prefer-align-cpus-by-uncorecache: "true", distribute-cpus-across-numa: "true"}', "error"),
    ],
)
def test_options_that_exclude_each_other_stop_the_kubelet(options: str, severity: str) -> None:
    text = (
        f"{STATIC}featureGates: {{CPUManagerPolicyAlphaOptions: true}}\ncpuManagerPolicyOptions: {options}\n"
    )
    seen = one(text)
    assert (seen.code, seen.severity) == ("incompatible-policy-options", severity)


@pytest.mark.parametrize(
    "options",
    [
        'cpuManagerPolicyOptions: {distribute-cpus-across-numa: "true"}',
        'topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}',
    ],
)
def test_an_option_for_many_nodes_does_nothing_under_single_numa_node(options: str) -> None:
    seen = one(f"{STATIC}topologyManagerPolicy: single-numa-node\n{options}\n")
    assert (seen.code, seen.severity) == ("incompatible-policy-options", "warning")
    assert found(f"{STATIC}topologyManagerPolicy: restricted\n{options}\n") == []


def test_align_by_socket_under_single_numa_node_stops_the_kubelet() -> None:
    text = (
        f"{STATIC}topologyManagerPolicy: single-numa-node\nfeatureGates: {{CPUManagerPolicyAlphaOptions: true}}\n"
        'cpuManagerPolicyOptions: {align-by-socket: "true"}\n'
    )
    assert one(text).severity == "error"


def test_options_without_the_static_policy_stop_the_kubelet() -> None:
    assert codes(f'{HEAD}cpuManagerPolicyOptions: {{full-pcpus-only: "true"}}\n') == [
        "incompatible-policy-options"
    ]


def test_reserved_memory_that_does_not_add_up_is_told_with_numbers_that_do() -> None:
    text = (
        f"{HEAD}memoryManagerPolicy: Static\nkubeReserved: {{memory: 1Gi}}\nsystemReserved: {{memory: 1Gi}}\n"
        "reservedMemory:\n- numaNode: 0\n  limits: {memory: 1Gi}\n- numaNode: 1\n  limits: {memory: 1Gi}\n"
    )
    seen = one(text)
    assert seen.code == "memory-manager-reserved-memory-mismatch"
    assert (seen.facts["found"], seen.facts["wanted"], seen.facts["difference"]) == ("2Gi", "2148Mi", "100Mi")
    head, _ = text.split("reservedMemory")
    assert found(f"{head}{seen.facts['example']}\n") == []


def test_huge_pages_cannot_be_reserved_by_node_and_so_not_by_numa_node() -> None:
    text = (
        f"{HEAD}memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
        "  limits: {memory: 100Mi, hugepages-1Gi: 1Gi}\n"
    )
    seen = one(text)
    assert (seen.variant, seen.facts["resource"]) == ("not-reservable", "hugepages-1Gi")


def test_a_threshold_in_percent_is_not_added_up_without_the_machine() -> None:
    text = (
        f'{HEAD}memoryManagerPolicy: Static\nevictionHard: {{memory.available: "10%"}}\nreservedMemory:\n- numaNode: 0\n'
        "  limits: {memory: 2Gi}\n"
    )
    assert found(text) == []
    assert (
        one(text, machine="1x4 mem=16Gi").facts["wanted"] == "1717986944"
    )  # through a 32-bit float, as in the kubelet


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cpuManagerPolicyOptions: {full-pcpus-only: true}", "kubelet-configuration-invalid"),
        ("reservedSystemCPUs: 0-", "kubelet-configuration-invalid"),
        ("kubeReserved: {gpu: 1Gi}", "kubelet-configuration-invalid"),
        ("topologyManagerPolcy: restricted", "ignored-field"),
        ("reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]", "ignored-field"),
    ],
)
def test_what_a_kubelet_refuses_or_ignores_is_found_at_its_line(text: str, code: str) -> None:
    seen = one(f"{HEAD}{text}\n")
    assert (seen.code, seen.evidence[0].line) == (code, 3)


def test_a_value_inside_a_text_is_found_at_its_line_of_the_file() -> None:
    text = (
        "kind: Cluster\nkubeadmConfigPatches:\n- |\n  kind: KubeletConfiguration\n  kubeReserved: {cpu: 1}\n"
    )
    seen = one(text)
    assert (seen.code, seen.evidence[0].line) == ("kubelet-configuration-invalid", 5)
    assert seen.facts["path"] == "kubeReserved"


@pytest.mark.parametrize(
    ("version", "severity"),
    [("apiVersion: v1\n", "error"), ("", "warning"), (HEAD.splitlines()[0] + "\n", None)],
)
def test_the_api_version_is_the_one_that_kubelets_take(version: str, severity: str | None) -> None:
    seen = found(f"{version}kind: KubeletConfiguration\n")
    assert [one.severity for one in seen] == ([severity] if severity else [])


def test_a_number_for_reserved_cpus_of_a_profile_is_read_and_told() -> None:
    seen = one("kind: PerformanceProfile\nspec:\n  cpu:\n    isolated: 1-3\n    reserved: 0\n")
    assert (seen.code, seen.severity, seen.evidence[0].line) == ("manifest-invalid", "warning", 5)


@pytest.mark.parametrize(
    "text",
    [
        "KUBELET_ARGS=--cpu-manager-policy=Static\n",
        '[Service]\nEnvironment="X=--cpu-manager-policy=Static: a"\n\tb: [\n',
    ],
)
def test_flags_in_a_file_are_known_for_what_they_are(text: str) -> None:
    linted = lint(text.encode(), "kubelet.env")
    assert linted.kind == "kubelet flags"
    assert "unknown-policy" in [one.code for one in linted.findings]


def test_marks_of_a_manual_are_told_and_looked_past() -> None:
    text = (
        f'{HEAD}cpuManagerPolicy: "static" <1>\nreservedSystemCPUs: "0" <2>\ntopologyManagerPolicy: strict <3>\n'
        "featureGates:\n  ...\n  CPUManagerPolicyBetaOptions: true\n...\n"
    )
    assert codes(text) == ["marks-of-a-manual", "unknown-policy"]
    assert [place.line for place in found(text)[0].evidence] == [3, 4, 5, 7]
    assert found(text)[0].facts["marks"] == ["...", "<1>", "<2>", "<3>"]


def test_dots_that_end_a_document_are_no_marks() -> None:
    assert found(f"{STATIC}...\n") == []


# On a machine


def test_more_numa_nodes_than_allowed_stop_the_kubelet() -> None:
    seen = one(f"{HEAD}topologyManagerPolicy: restricted\n", machine="16x2")
    assert (seen.code, seen.facts["found"], seen.facts["most"]) == ("too-many-numa-nodes", 16, 8)
    more = f'{HEAD}topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {{max-allowable-numa-nodes: "16"}}\n'
    assert found(more, machine="16x2") == []


def test_reserved_cpus_that_the_machine_lacks_stop_the_kubelet() -> None:
    seen = one(f'{HEAD}cpuManagerPolicy: static\nreservedSystemCPUs: "0,64"\n', machine="2x4")
    assert seen.code == "cpu-manager-reserved-cpus-wrong"
    assert seen.facts["online"] == "0-7"


def test_reserving_half_a_core_wastes_the_other_half() -> None:
    text = f'{STATIC}cpuManagerPolicyOptions: {{full-pcpus-only: "true"}}\n'
    seen = one(text, machine="1s x 1n x 4c x 2t")
    assert (seen.code, seen.facts["lost"], seen.facts["whole"]) == ("reserved-cpus-split-cores", "4", "0,4")


def test_memory_of_a_node_that_is_not_there_stops_the_kubelet() -> None:
    text = f"{HEAD}memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 5\n  limits: {{memory: 100Mi}}\n"
    seen = one(text, machine="2x4")
    assert (seen.code, seen.variant, seen.facts["numaNode"]) == (
        "memory-manager-reserved-memory-mismatch",
        "no-such-node",
        "5",
    )


def test_memory_that_nothing_reserves_as_a_whole_cannot_be_kept_on_a_node() -> None:
    head = f"{HEAD}memoryManagerPolicy: Static\nevictionHard: {{nodefs.available: 1%}}\n"
    split = "reservedMemory:\n- numaNode: 0\n  limits: {memory: 1Gi}\n"
    seen = one(f"{head}{split}")
    assert seen.variant == "unbacked"
    assert found(f"{head}{split}{finding_text(seen).fix[0]}\n") == []
    assert one(head).variant == "nothing-reserved"


def test_flags_are_judged_like_a_file() -> None:
    flags = b"KUBELET_ARGS=--memory-manager-policy=Static --kube-reserved=memory=1Gi --system-reserved=memory=1Gi \\\n  --reserved-memory=0:memory=1Gi\n"
    (seen,) = findings_of_kubelet_flags(flags, "kubelet.env")
    assert seen.code == "memory-manager-reserved-memory-mismatch"
    assert seen.evidence[0].line == 2


NAMES = st.sampled_from([*sorted({*CPU_STAGES, *TOPOLOGY_STAGES}), "something-else"])
OPTIONS = st.dictionaries(NAMES, st.sampled_from(["true", "false", "1", "yes", "8", "4"]), max_size=4)
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["0", "1", "512Mi", "1Gi"]))


@settings(max_examples=300, deadline=None)
@given(
    cpu=st.sampled_from(["none", "static", "Static"]),
    topology=st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
    memory=st.sampled_from(["None", "Static", "static"]),
    cpu_options=OPTIONS,
    topology_options=OPTIONS,
    reserved=st.sampled_from([None, "0", "0-1", "0,99"]),
    kube=AMOUNTS,
    memory_split=st.lists(st.sampled_from(["100Mi", "1Gi", "612Mi"]), max_size=2),
    alpha=st.booleans(),
    minor=st.integers(20, 36),
)
def test_an_error_is_found_exactly_when_the_twin_does_not_start(
    cpu: str,
    topology: str,
    memory: str,
    cpu_options: dict[str, str],
    topology_options: dict[str, str],
    reserved: str | None,
    kube: dict[str, str],
    memory_split: list[str],
    alpha: bool,
    minor: int,
) -> None:
    document = {
        "cpuManagerPolicy": cpu,
        "topologyManagerPolicy": topology,
        "memoryManagerPolicy": memory,
        "cpuManagerPolicyOptions": cpu_options or None,
        "topologyManagerPolicyOptions": topology_options or None,
        "reservedSystemCPUs": reserved,
        "kubeReserved": kube,
        "reservedMemory": [
            {"numaNode": node, "limits": {"memory": amount}} for node, amount in enumerate(memory_split)
        ],
        "featureGates": {"CPUManagerPolicyAlphaOptions": True} if alpha and minor >= 23 else None,
    }
    data = json.dumps(document).encode()
    machine = hardware("2s x 1n x 4c x 2t")
    version = f"v1.{minor}.0"
    findings = lint(data, "f", World(version=version, hardware=machine)).findings
    file = kubelet_config.read(data, "f", version)
    try:
        Kubelet(machine, file.config)
        starts = not file.refused
    except StartError:
        starts = False
    assert starts == (not any(one.severity == "error" for one in findings)), findings
    for lang in LANGUAGES:
        for finding in findings:
            assert finding_text(finding, lang).title
